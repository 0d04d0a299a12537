//! Verifying the plain tables of one scheme and kind on one data set, on all devices.

mod data;
mod reference;
mod shards;

use std::time::{Duration, Instant};

use koel::backend::{HashBackend, Runs, Word as _};
use koel::table::TableBuilder;
use koel::{AnyScheme, Duplicates, HashTable, Kind, Scheme};

use super::row::{Row, compare_digests, rate};
use super::{Device, Run, SchemeOptions, Wanted, shared_by};
use crate::answers;
use crate::failure::{Failure, Result};
use crate::number::Word;
use crate::options::Wide;
use crate::scheme;
use data::DataSet;
pub(super) use data::{Spread, too_wide};
use reference::Reference;

/// Plain tables of every scheme and kind, on random keys and on the k-mers of a genome.
pub(super) fn verify(run: &Run<'_>, n: u32) -> Result<Vec<Row>> {
    let data = [DataSet::random(n, run.seed), DataSet::lambda_phage()?];
    for Wanted { name, kind, options } in run.wanted {
        warm_up(run.devices, scheme::named(name, *kind, options)?);
    }
    let mut rows = Vec::new();
    for Wanted { name, kind, options } in run.wanted {
        for set in &data {
            let check = Check { data: set, cut: None, run, kind: *kind, types: "" };
            rows.extend(check.run(scheme::named(name, *kind, options)?)?);
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

/// The scheme of tables of this name, kind and options, if they come with 64-bit keys and values too. Bucketized ones have
/// no options then.
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

/// Those that are wanted and come so.
pub(super) fn wide_schemes(wanted: &[Wanted]) -> impl Iterator<Item = Wide> {
    wanted.iter().filter_map(|Wanted { name, kind, options }| wide_scheme(name, *kind, options).ok().flatten())
}

/// Tables of wider keys or values, on the random rows: spread over all bits, and where keys have 64 also over the ends.
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
        let check = Check { data: &data, cut: None, run, kind: Kind::Canonical, types };
        rows.extend(check.checked(scheme.clone())?);
    }
    Ok(rows)
}

/// Steps of that for the progress bar.
pub(super) fn steps(run: &Run<'_>) -> usize {
    let Run { wanted, devices, .. } = *run;
    // Keys of 64 bits have two sets of data, and there are three such tables; and one of u32 keys, or two.
    let wide = wide_schemes(wanted).map(|scheme| if matches!(scheme, Wide::Signpost(_)) { 8 } else { 7 });
    // In shards, and under a limit those in files besides.
    let in_shards = shared_by(devices).count() * (1 + usize::from(run.memory.is_some()));
    let of_table = run.shards.map_or(devices.len() + 1, |_| in_shards);
    (wanted.len() * 2 + wide.sum::<usize>()) * of_table
}

/// What is to be verified, and where.
struct Check<'a, K = u32, V = u32> {
    data: &'a DataSet<K, V>,
    /// In what the data differ from what was asked for.
    cut: Option<String>,
    run: &'a Run<'a>,
    kind: Kind,
    /// Of keys and values, where they are not u32.
    types: &'static str,
}

impl Check<'_> {
    /// On as much of the data as the scheme can hold.
    fn run(&self, scheme: AnyScheme) -> Result<Vec<Row>> {
        match self.data.within(scheme.limits())? {
            None => self.checked(scheme),
            Some((data, note)) => Check { data: &data, cut: Some(note), ..*self }.checked(scheme),
        }
    }
}

impl<K: Word, V: Word> Check<'_, K, V> {
    fn checked<S: Scheme<Key = K, Value = V>>(&self, scheme: S) -> Result<Vec<Row>>
    where
        Device: Runs<S>,
    {
        if let Some(shards) = self.run.shards {
            return Ok(self.in_shards(&scheme, shards));
        }
        let mut rows = Vec::new();
        let reference = self.reference(&scheme, &mut rows)?;
        self.run.progress.step();
        let builder = self.run.size.apply(HashTable::builder(scheme.clone()).seed(self.run.seed));
        let mut tables = Vec::new();
        for device in self.run.devices {
            self.say(&scheme, &device.info().id);
            let mut row = self.row(&scheme, device.info().id.clone());
            // What other tables did here as guests is no part of this row.
            device.ledger().take();
            let table = self.device(device, &builder, reference.as_ref(), &mut row);
            row.stages = device.ledger().take();
            rows.push(row);
            tables.push(table);
        }
        let first = rows.len() - tables.len();
        if reference.is_some() {
            // Plan, number of pairs and every word are what a digest is made of, so equal bytes have one digest.
            rows[0].digest = rows[first..].iter().find(|row| row.same_bytes).and_then(|row| row.digest.clone());
        }
        compare_digests(&mut rows[first..]);
        for (row, table) in rows[first..].iter_mut().zip(&tables) {
            self.say(&scheme, &format!("tables of {} elsewhere", row.device));
            self.run.progress.step();
            let Some(table) = table else { continue };
            for other in self.run.devices {
                if other.info().id == row.device {
                    continue;
                }
                let what = format!("moved to {}", other.info().id);
                if let Some(there) = row.attempt(&what, table.to_backend(other)) {
                    self.answers(|queries, values, found| there.get_into(queries, values, found), &what, row);
                }
            }
        }
        Ok(rows)
    }
}

/// Has every device compile its kernels and start its threads, so that they are not timed. What goes wrong here goes
/// wrong again in what follows, and is reported there.
fn warm_up<S: Scheme>(devices: &[Device], scheme: S)
where
    Device: Runs<S>,
{
    let builder = HashTable::builder(scheme);
    let keys = [1, 2, 3].map(S::Key::low);
    let values = [S::Value::default(); 3];
    for device in devices {
        let _ = builder.build(device, &keys, &values).and_then(|table| table.get(&keys[1..]));
        // Its three keys are no part of the record.
        device.ledger().take();
    }
}

impl<K: Word, V: Word> Check<'_, K, V> {
    fn say(&self, scheme: &impl Scheme, what: &str) {
        self.run.progress.say(format!("{} {} on {} keys: {what}", scheme.name(), self.kind, self.data.name));
    }

    fn row(&self, scheme: &impl Scheme, device: String) -> Row {
        Row {
            device,
            host_built: scheme.host_built(),
            cut: self.cut.clone(),
            types: self.types,
            no_reference: Some(reference::most_pairs(scheme))
                .filter(|&most| self.kind == Kind::Canonical && self.data.keys.len() > most),
            ..Row::new("map", scheme.name(), self.kind, self.data.name, self.data.keys.len())
        }
    }

    /// The sequential table and its row, where there is to be one.
    fn reference<S: Scheme<Key = K, Value = V>>(
        &self,
        scheme: &S,
        rows: &mut Vec<Row>,
    ) -> Result<Option<Reference<S>>> {
        if self.kind != Kind::Canonical || self.data.keys.len() > reference::most_pairs(scheme) {
            return Ok(None);
        }
        self.say(scheme, "the sequential reference");
        let slots = self.run.size.slots(scheme, self.data.keys.len() as u64)?;
        let mut row = self.row(scheme, "reference".into());
        row.host_built = false;
        let start = Instant::now();
        // It runs on no device, so if it cannot be built, what was asked for cannot be.
        let reference = Reference::build(scheme, slots, self.run.seed, self.data).map_err(Failure::Input)?;
        row.checks += 1;
        row.build = Some(rate(self.data.keys.len(), start.elapsed()));
        row.restarts = koel::scheme::Plan::attempt(&reference.plan);
        row.expect("its own answers", reference.check(self.data));
        rows.push(row);
        Ok(Some(reference))
    }

    /// Everything that concerns one device alone.
    fn device<S: Scheme<Key = K, Value = V>>(
        &self,
        device: &Device,
        builder: &TableBuilder<S>,
        reference: Option<&Reference<S>>,
        row: &mut Row,
    ) -> Option<HashTable<Device, S>>
    where
        Device: Runs<S>,
    {
        let start = Instant::now();
        let built = builder.build(device, &self.data.keys, &self.data.values);
        let built = built.and_then(|table| device.finish().map(|()| table));
        let time = start.elapsed();
        let table = row.attempt("build", built)?;
        row.build = Some(rate(self.data.keys.len(), time));
        row.restarts = table.restarts();

        row.expect("audit", table.audit().map(drop).map_err(|error| error.to_string()));
        let get = |queries: &[K], values: &mut [V], found: &mut [u32]| table.get_into(queries, values, found);
        if let Some(time) = self.answers(get, "answers", row) {
            row.lookup = Some(rate(self.data.queries.len(), time));
        }
        if self.kind == Kind::Canonical {
            if let Some(reference) = reference
                && let Some(image) = row.attempt("download", device.download(table.image()))
            {
                let compared = reference.compare(table.plan(), &image);
                row.same_bytes = compared.is_ok();
                row.expect("bytes", compared);
            }
            row.digest = row.attempt("digest", table.digest()).map(|digest| digest.to_string());
        }
        for rule in [Duplicates::KeepFirst, Duplicates::KeepLast] {
            self.copies(device, builder, rule, row);
        }
        Some(table)
    }

    /// The same table out of rows in which half of the keys come again, and one of them in a quarter of all rows: what
    /// does not stay leaves no trace.
    fn copies<S: Scheme<Key = K, Value = V>>(
        &self,
        device: &Device,
        builder: &TableBuilder<S>,
        rule: Duplicates,
        row: &mut Row,
    ) where
        Device: Runs<S>,
    {
        let DataSet { keys, values, .. } = self.data;
        let heavy = keys.iter().take(1).cycle().take(keys.len() / 2);
        let copies = keys.iter().step_by(2).chain(heavy).copied();
        let greatest = V::low(values.iter().fold(0, |all, &value| all | value.into()));
        let (mut rows, mut of_rows) = (keys.clone(), values.clone());
        rows.extend(copies);
        of_rows.resize_with(rows.len(), || greatest);
        let mut what = "copies, of which the first stays";
        if rule == Duplicates::KeepLast {
            what = "copies, of which the last stays";
            rows.rotate_left(keys.len());
            of_rows.rotate_left(keys.len());
        }
        let Some(table) = row.attempt(what, builder.clone().duplicates(rule).build(device, &rows, &of_rows)) else {
            return;
        };
        self.answers(|queries, values, found| table.get_into(queries, values, found), what, row);
        if let Some(expected) = row.digest.clone()
            && let Some(digest) = row.attempt(what, table.digest())
        {
            let same = digest.to_string() == expected;
            row.expect(what, if same { Ok(()) } else { Err("they left a trace in the bytes".into()) });
        }
    }

    /// Looks every query up and compares every answer; how long the lookup took, if it went through.
    fn answers(
        &self,
        get_into: impl FnOnce(&[K], &mut [V], &mut [u32]) -> koel::Result<()>,
        what: &str,
        row: &mut Row,
    ) -> Option<Duration> {
        let queries = &self.data.queries;
        let (mut values, mut found) = answers::poisoned(queries.len());
        let start = Instant::now();
        let done = get_into(queries, &mut values, &mut found);
        let time = start.elapsed();
        row.attempt(what, done)?;
        row.expect(what, answers::check(queries, &values, &found, |i| self.data.answer(i)));
        Some(time)
    }
}
