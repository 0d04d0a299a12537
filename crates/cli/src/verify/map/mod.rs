//! Verifies plain tables of every scheme and kind, on all devices.
//!
//! ```text
//! data.rs        keys, values, queries and their answers
//! subject.rs     the operations of one scheme on one data set      reference.rs    the sequential reference
//! check.rs       the checks, for all schemes
//! ```

mod check;
mod data;
mod reference;
mod subject;

use koel::backend::{HashBackend, Runs, Word as _};
use koel::{AnyScheme, HashTable, Kind, Scheme};

use super::row::Row;
use super::{Device, Run, SchemeOptions, Wanted};
use crate::failure::Result;
use crate::number::Word;
use crate::options::Wide;
use crate::scheme;
use check::Check;
use data::DataSet;
pub(super) use data::{Spread, too_wide};
use subject::Tables;

/// Verifies plain tables of every scheme and kind, on `n` random keys and on at most `n` k-mers of a genome.
pub(super) fn verify(run: &Run<'_>, n: u32) -> Result<Vec<Row>> {
    let data = [DataSet::random(n, run.seed), DataSet::lambda_phage(n)?];
    for Wanted { name, kind, options } in run.wanted {
        warm_up(run.devices, scheme::named(name, *kind, options)?);
    }
    let mut rows = Vec::new();
    for Wanted { name, kind, options } in run.wanted {
        for set in &data {
            rows.extend(any(run, *kind, set, scheme::named(name, *kind, options)?)?);
        }
        let Some(scheme) = wide_scheme(name, *kind, options)? else { continue };
        rows.extend(wide(run, scheme.of::<u64, u64>(), &data[0], "u64, u64")?);
        rows.extend(wide(run, scheme.of::<u64, u32>(), &data[0], "u64, u32")?);
        rows.extend(wide(run, scheme.of::<u32, u64>(), &data[0], "u32, u64")?);
        rows.extend(wide(run, scheme.of::<u64, ()>(), &data[0], "u64")?);
        if let Wide::Signpost(scheme) = scheme {
            rows.extend(wide(run, scheme.of::<u32, ()>(), &data[0], "u32")?);
        }
    }
    Ok(rows)
}

/// The scheme of this name, kind and options, if its tables support 64-bit keys and values. Bucketized tables support
/// them only without options.
pub(super) fn wide_scheme(name: &str, kind: Kind, options: &SchemeOptions) -> Result<Option<Wide>> {
    if kind != Kind::Canonical {
        return Ok(None);
    }
    Ok(match scheme::named(name, kind, options)? {
        AnyScheme::Bucketized(scheme) => options.given().is_empty().then_some(Wide::Bucketized(scheme)),
        AnyScheme::RobinHood(scheme) => scheme.of::<u64, u64>().check().is_ok().then_some(Wide::RobinHood(scheme)),
        AnyScheme::Signpost(scheme) => Some(Wide::Signpost(scheme)),
        _ => None,
    })
}

/// The schemes to verify whose tables can have 64-bit keys and values.
pub(super) fn wide_schemes(wanted: &[Wanted]) -> impl Iterator<Item = Wide> {
    wanted.iter().filter_map(|Wanted { name, kind, options }| wide_scheme(name, *kind, options).ok().flatten())
}

/// Verifies tables of wider keys or values, on the random rows. 64-bit keys use both variants of [`Spread`].
fn wide<S: Scheme<Key: Word, Value: Word>>(
    run: &Run<'_>,
    scheme: S,
    of: &DataSet,
    types: &'static str,
) -> Result<Vec<Row>>
where
    Device: Runs<S>,
{
    warm_up(run.devices, scheme.clone());
    let spreads: &[Spread] = if S::Key::BITS > u32::BITS { &[Spread::Both, Spread::Apart] } else { &[Spread::Both] };
    let mut rows = Vec::new();
    for &spread in spreads {
        let data = DataSet::widened(of, spread, scheme.limits().value_bits > 0);
        rows.extend(rows_of(run, Kind::Canonical, types, &data, None, scheme.clone())?);
    }
    Ok(rows)
}

/// The number of steps of `verify` on the progress bar.
pub(super) fn steps(run: &Run<'_>) -> usize {
    let Run { wanted, devices, .. } = *run;
    // Three types of tables with 64-bit keys, on two data sets each, and one or two types with u32 keys on one.
    let wide = wide_schemes(wanted).map(|scheme| if matches!(scheme, Wide::Signpost(_)) { 8 } else { 7 });
    (wanted.len() * 2 + wide.sum::<usize>()) * (devices.len() + 1)
}

/// Verifies a scheme, on as much of the data as its tables can hold.
fn any(run: &Run<'_>, kind: Kind, data: &DataSet, scheme: AnyScheme) -> Result<Vec<Row>> {
    match data.within(scheme.limits())? {
        None => rows_of(run, kind, "", data, None, scheme),
        Some((data, note)) => rows_of(run, kind, "", &data, Some(note), scheme),
    }
}

fn rows_of<S: Scheme<Key: Word, Value: Word>>(
    run: &Run<'_>,
    kind: Kind,
    types: &'static str,
    data: &DataSet<S::Key, S::Value>,
    cut: Option<String>,
    scheme: S,
) -> Result<Vec<Row>>
where
    Device: Runs<S>,
{
    let rows = Check::of(data, run, kind, types, cut).rows(&mut Tables::new(data, run, scheme))?;
    run.lines.rows(&rows);
    Ok(rows)
}

/// Makes every device compile its kernels and start its threads, so that this is not timed. Errors are ignored: the
/// following checks fail with the same errors, and report them.
fn warm_up<S: Scheme>(devices: &[Device], scheme: S)
where
    Device: Runs<S>,
{
    let builder = HashTable::builder(scheme);
    let keys = [1, 2, 3].map(S::Key::low);
    let values = [S::Value::default(); 3];
    for device in devices {
        let _ = builder.build(device, &keys, &values).and_then(|table| table.get(&keys[1..]));
        // Discards the stages of this table.
        device.ledger().take();
    }
}
