//! Measures structures on top of tables, on rows with duplicate keys: sets, compacting and multivalue tables, groups,
//! joins, and maps that keep one pair per key.
//!
//! ```text
//! set.rs, compact.rs, multi.rs, group.rs, join.rs, copies.rs   the operations that are timed, and their checks
//! timing.rs    runs, on the device and end to end
//! host.rs      alternatives on the host
//! ```
//!
//! For each number of rows, each number of rows per key is measured, on request also with a heavy key. With the scheme
//! `sorted`, multivalue and compacting tables are the sorted and compacted lists that the paper compares with its own
//! tables (Alcantara 2011, Figures 4.5 and 4.6).

mod compact;
mod copies;
mod group;
mod host;
mod join;
mod multi;
mod set;
mod timing;

use clap::ValueEnum;
use koel::backend::HashBackend;
use koel::device::Any;
use koel::scheme::Limits;
use koel::table::Contents;
use koel::{AnyScheme, Duplicates, Error, Kind, Scheme};

use super::data::Copies;
use super::device::is_of_the_table;
use super::measure::Row;
use super::report::Findings;
use super::{Args, Wanted};
use koel_cli::failure::{Failure, Result};
use koel_cli::progress::Progress;
use koel_cli::scheme;
use koel_cli::text;
use timing::Timing;

/// `--table`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Table {
    /// Keys and values
    Map,
    /// Keys alone
    Set,
    /// Keys and dense ids, both ways
    Compact,
    /// Keys with any number of values
    Multi,
    /// Aggregates of groups
    Group,
    /// Two key columns joined
    Join,
}

impl Table {
    /// The contents of its tables.
    pub(super) fn contents(self) -> Contents {
        match self {
            Table::Map | Table::Group => Contents::Map,
            Table::Set => Contents::Set,
            Table::Compact => Contents::Compact,
            Table::Multi | Table::Join => Contents::Multi,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Table::Map => "map",
            Table::Set => "set",
            Table::Compact => "compact",
            Table::Multi => "multi",
            Table::Group => "group",
            Table::Join => "join",
        }
    }
}

/// Whether the options request this.
///
/// # Errors
/// Returns an error that names the option if an option is for another table.
pub(super) fn requested(args: &Args) -> Result<bool> {
    let refuse = |what: &str| Err(Failure::Input(what.into()));
    if args.table == Table::Map && !args.data.has_copies() {
        return if args.duplicates == Duplicates::Error {
            Ok(false)
        } else {
            refuse("--duplicates needs duplicate keys: add --multiplicity or --heavy")
        };
    }
    if args.table == Table::Map && args.duplicates == Duplicates::Error {
        return refuse("a map has one pair per key: choose the one to keep with --duplicates first or last");
    }
    if args.table != Table::Map && args.duplicates != Duplicates::Error {
        return refuse("--duplicates applies only to --table map: omit it");
    }
    if args.table == Table::Group && !args.load.is_empty() {
        return refuse("group-by chooses the load of its table: omit --load");
    }
    if args.data.has_order() || args.insert {
        return refuse("--domain, --order and --insert apply only to maps of distinct keys: omit them");
    }
    Ok(true)
}

/// Measures one scheme on one device, for rows with one distribution of keys.
pub(super) fn of_columns(
    args: &Args,
    columns: &Copies,
    spread: (u32, Option<f64>),
    device: &Any,
    (name, kind): (&str, Kind),
    progress: &Progress,
) -> Result<Findings> {
    let job = OnTable { columns, spread, device, kind, args, progress };
    job.run(scheme::named(name, kind, &args.parameters)?)
}

/// Measures every scheme on every device, for each number of rows and each distribution of keys.
pub(super) fn measure(
    args: &Args,
    wanted: &[Wanted],
    devices: &[Any],
    progress: &Progress,
    findings: &mut Findings,
) -> Result<()> {
    // The library groups with a table that does not depend on the scheme.
    let wanted = if args.table == Table::Group { &wanted[..wanted.len().min(1)] } else { wanted };
    for n in args.data.sizes() {
        for spread in args.data.spreads() {
            let mut latest: Option<(Limits, Copies)> = None;
            for Wanted { name, kind, options, limits } in wanted {
                // Values are ids, positions or numbers of runs; whether they are wide enough depends on the number of
                // keys.
                let widths = Limits { value_bits: u32::BITS, pairs: u64::MAX, ..*limits };
                if latest.as_ref().is_none_or(|(of, _)| *of != widths) {
                    drop(latest.take());
                    latest = match args.data.copies(n, spread, widths) {
                        Ok(columns) => Some((widths, columns)),
                        Err(Failure::Koel(error @ Error::TooLarge { .. })) => {
                            findings.left_out.push(format!("{name} {kind}, n = {}: {error}", text::grouped(n.into())));
                            continue;
                        }
                        Err(failure) => return Err(failure),
                    };
                }
                let Some((_, columns)) = &latest else { continue };
                for device in devices {
                    let job = OnTable { columns, spread, device, kind: *kind, args, progress };
                    findings.extend(job.run(scheme::named(name, *kind, options)?)?);
                }
            }
            if !args.no_peers && args.table != Table::Map {
                drop(latest);
                let columns = args.data.copies(n, spread, Limits::NONE)?;
                let mut rows = host::measure(args, &columns, progress)?;
                rows.iter_mut().for_each(|row| describe(row, args, spread));
                findings.rows.extend(rows);
            }
        }
    }
    relative_to_uniform(&mut findings.rows);
    Ok(())
}

/// Adds the distribution of keys to a row.
fn describe(row: &mut Row, args: &Args, (copies, heavy): (u32, Option<f64>)) {
    (row.table, row.copies, row.heavy) = (args.table.name(), Some(copies), heavy);
}

/// Divides each time with a heavy key by the time without it.
fn relative_to_uniform(rows: &mut [Row]) {
    let uniform: Vec<Row> = rows.iter().filter(|row| row.heavy.is_none()).cloned().collect();
    for row in rows.iter_mut().filter(|row| row.heavy.is_some()) {
        let of = |row: &Row| {
            (row.device.clone(), row.scheme.clone(), row.kind, row.n, row.copies, row.what, row.place, row.hits)
        };
        let other = uniform.iter().find(|other| of(other) == of(row));
        row.relative_to_uniform = other.map(|other| other.rate / row.rate);
    }
}

/// One scheme on one device.
struct OnTable<'a> {
    columns: &'a Copies,
    spread: (u32, Option<f64>),
    device: &'a Any,
    kind: Kind,
    args: &'a Args,
    progress: &'a Progress,
}

impl OnTable<'_> {
    fn run(&self, scheme: AnyScheme) -> Result<Findings> {
        let (table, of) = (self.args.table, scheme.name());
        let (name, kind) = if table == Table::Group { ("", None) } else { (of, Some(self.kind)) };
        let host_built = table != Table::Group && scheme.host_built();
        let mut timing = Timing::new(self.args, self.columns, self.device, (name, kind, host_built), self.progress);
        let done = match table {
            Table::Map => copies::measure(&mut timing, scheme),
            Table::Set => set::measure(&mut timing, scheme),
            Table::Compact => compact::measure(&mut timing, scheme),
            Table::Multi => multi::measure(&mut timing, scheme),
            Table::Group => group::measure(&mut timing),
            Table::Join => join::measure(&mut timing, scheme),
        };
        let stages = timing.stages.into_iter().map(|staged| staged.called(table.name())).collect();
        let mut found = Findings { rows: timing.rows, stages, ..Findings::default() };
        found.rows.iter_mut().for_each(|row| describe(row, self.args, self.spread));
        match done {
            Ok(()) => Ok(found),
            Err(Failure::Koel(error)) if is_of_the_table(&error) => {
                let (n, on) = (text::grouped(self.columns.keys.len() as u64), &self.device.info().id);
                let heavy = self.spread.1.map(|share| format!(", a heavy key of {share}")).unwrap_or_default();
                let (what, copies) = (table.name(), self.spread.0);
                let (scheme, kind) = (of, self.kind);
                let line = format!("{what}, {scheme} {kind}, n = {n}, {copies} a key{heavy}, on {on}: {error}");
                found.left_out.push(line);
                Ok(found)
            }
            Err(failure) => Err(failure),
        }
    }
}

/// A builder with the requested seed and load.
macro_rules! sized {
    ($builder:expr, $args:expr) => {{
        let builder = $builder.seed($args.data.seed);
        match $args.at_load {
            Some(load) => builder.load_factor(load),
            None => builder,
        }
    }};
}
use sized;
