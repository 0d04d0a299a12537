//! Verifies structures built on tables: sets, compacting and multivalue tables, joins and groups.
//!
//! ```text
//! columns.rs   rows with duplicate keys       model.rs   the right answers, from ordered maps
//! set.rs, compact.rs, from_set.rs, multi.rs, join.rs, group.rs      one subject each: how it is built, and its checks
//! ```

mod columns;
mod compact;
mod from_set;
mod group;
mod join;
mod model;
mod multi;
mod set;

use std::time::{Duration, Instant};

use koel::backend::{HashBackend, Runs};
use koel::scheme::Limits;
use koel::{AnyScheme, Bucketized, Kind, Scheme};

use super::map::{Spread, wide_scheme, wide_schemes};
use super::row::{Row, compare_digests, rate};
use super::{Device, Run, Wanted, Which};
use crate::failure::Result;
use crate::number::Word;
use crate::options::Builder;
use crate::options::Wide;
use crate::scheme;
use columns::{Columns, Shape};
use model::Model;

/// The structures that this module verifies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Table {
    Set,
    Compact,
    Multi,
    Join,
    Group,
}

impl Table {
    /// All structures, with their names on the command line.
    pub(super) const ALL: [(Table, Which); 5] = [
        (Table::Set, Which::Set),
        (Table::Compact, Which::Compact),
        (Table::Multi, Which::Multi),
        (Table::Join, Which::Join),
        (Table::Group, Which::Group),
    ];
}

/// The number of steps of a structure on the progress bar.
pub(super) fn steps(table: Table, run: &Run<'_>) -> usize {
    let Run { wanted, devices, .. } = *run;
    // Groups do not have a scheme. Besides the columns of each shape, there is one of few rows, to compile kernels.
    let schemes = if table == Table::Group { 1 } else { wanted.len() };
    let wide = if table == Table::Group { wide_schemes(wanted).count().min(1) } else { bucketized(wanted) };
    (schemes + wide) * (1 + Shape::ALL.len()) * devices.len()
}

/// How many of these schemes are also used for structures with 64-bit keys.
fn bucketized(wanted: &[Wanted]) -> usize {
    wide_schemes(wanted).filter(|scheme| matches!(scheme, Wide::Bucketized(_))).count()
}

/// Verifies a structure, for every scheme and kind that supports it.
pub(super) fn verify(run: &Run<'_>, table: Table, n: u32, left_out: &mut Vec<String>) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    // Data without limits is suitable for most schemes.
    let mut common = Vec::new();
    for shape in Shape::ALL {
        common.push(Data::new(shape, n, run.seed, Limits::NONE)?);
    }
    if table == Table::Group {
        // The library's own table numbers groups, for all schemes. The first data set is small, and only compiles the
        // kernels.
        for (i, data) in [&Data::new(Shape::Copies, 9, run.seed, Limits::NONE)?].into_iter().chain(&common).enumerate()
        {
            let case =
                Case { scheme: AnyScheme::of_kind(Kind::Canonical), data, run, kind: Kind::Canonical, types: "" };
            rows.extend(case.found(&group::Groups, i == 0));
        }
        if wide_schemes(run.wanted).next().is_some() {
            rows.extend(wide(run, &group::Groups, &Bucketized::default().of::<u64, u32>(), n)?);
        }
        return Ok(rows);
    }
    for Wanted { name, kind, options } in run.wanted {
        let mut job = Checks { table, n, run, kind: *kind, common: &common, left_out };
        rows.extend(job.run(&scheme::named(name, *kind, options)?)?);
        if let Some(Wide::Bucketized(scheme)) = wide_scheme(name, *kind, options)? {
            rows.extend(wide_table(run, table, &scheme.of::<u64, u32>(), &scheme.of::<u64, ()>(), n)?);
        }
    }
    Ok(rows)
}

/// Verifies a structure with tables of 64-bit keys: with ids as values, or without values.
fn wide_table<S, K>(run: &Run<'_>, table: Table, numbers: &S, keys: &K, n: u32) -> Result<Vec<Row>>
where
    S: Scheme<Key = u64, Value = u32>,
    K: Scheme<Key = u64>,
    Device: Runs<S> + Runs<K>,
{
    match table {
        Table::Set => wide(run, &set::Sets, keys, n),
        Table::Compact => wide(run, &compact::Compacting, numbers, n),
        Table::Multi => wide(run, &multi::Multi, numbers, n),
        Table::Join => wide(run, &join::Joins, numbers, n),
        Table::Group => Ok(Vec::new()),
    }
}

/// Verifies a subject with tables of 64-bit keys. In one of the data sets, many keys have one half in common.
fn wide<S: Scheme<Key = u64>, T: Subject<S>>(run: &Run<'_>, subject: &T, scheme: &S, n: u32) -> Result<Vec<Row>>
where
    Device: Runs<S>,
{
    let mut rows = Vec::new();
    let few = std::iter::once((Shape::Copies, 9));
    for (i, (shape, n)) in few.chain(Shape::ALL.into_iter().map(|shape| (shape, n))).enumerate() {
        let spread = if shape == Shape::Copies { Spread::Apart } else { Spread::Both };
        let columns = Columns::new(shape, n, run.seed, Limits::NONE)?.widened(spread);
        let data = Data { model: Model::new(&columns), columns };
        let case = Case { scheme: scheme.clone(), data: &data, run, kind: Kind::Canonical, types: "u64" };
        rows.extend(case.found(subject, i == 0));
    }
    Ok(rows)
}

/// Rows, and the right answers for them.
struct Data<K = u32> {
    columns: Columns<K>,
    model: Model<K>,
}

impl Data {
    fn new(shape: Shape, n: u32, seed: u64, limits: Limits) -> Result<Data> {
        let columns = Columns::new(shape, n, seed, limits)?;
        Ok(Data { model: Model::new(&columns), columns })
    }
}

/// The checks of one structure with one scheme and kind.
struct Checks<'a> {
    table: Table,
    n: u32,
    run: &'a Run<'a>,
    kind: Kind,
    common: &'a [Data],
    left_out: &'a mut Vec<String>,
}

impl Checks<'_> {
    fn run(&mut self, scheme: &AnyScheme) -> Result<Vec<Row>> {
        match self.table {
            Table::Set => self.all(&set::Sets, scheme),
            Table::Compact => match scheme {
                // A scheme without values cannot store ids, but its table can be converted to one that does.
                AnyScheme::CuckooSet(set) => self.all(&from_set::FromSet(set.clone()), scheme),
                _ => self.all(&compact::Compacting, scheme),
            },
            Table::Multi => self.all(&multi::Multi, scheme),
            Table::Join => self.all(&join::Joins, scheme),
            Table::Group => Ok(Vec::new()),
        }
    }

    /// Checks a subject on all data sets.
    fn all<T: Subject<AnyScheme>>(&mut self, subject: &T, scheme: &AnyScheme) -> Result<Vec<Row>> {
        // The table does not store the rows' values, so their width is not limited.
        let limits = Limits { value_bits: u32::BITS, ..scheme.limits() };
        // Compiles the kernels, so that this is not timed.
        let few = Data::new(Shape::Copies, 9, self.run.seed, limits)?;
        let few = Case { scheme: scheme.clone(), data: &few, run: self.run, kind: self.kind, types: "" };
        let mut rows = Vec::new();
        match subject.left_out(&few) {
            None => rows.extend(few.found(subject, true)),
            Some(_) => self.pass_over(),
        }
        for (i, shape) in Shape::ALL.into_iter().enumerate() {
            let own;
            let data = if limits == Limits::NONE {
                &self.common[i]
            } else {
                own = Data::new(shape, self.n, self.run.seed, limits)?;
                &own
            };
            let case = Case { scheme: scheme.clone(), data, run: self.run, kind: self.kind, types: "" };
            match subject.left_out(&case) {
                None => rows.extend(case.found(subject, false)),
                Some(reason) => {
                    let (name, kind, data) = (scheme.name(), self.kind, shape.name());
                    self.left_out.push(format!("{}, {name} {kind}, on {data} keys: {reason}", T::TABLE));
                    self.pass_over();
                }
            }
        }
        Ok(rows)
    }

    /// Counts the steps that are skipped.
    fn pass_over(&self) {
        self.run.devices.iter().for_each(|_| self.run.progress.step());
    }
}

/// The data and the parameters with which a subject is verified.
struct Case<'a, S: Scheme = AnyScheme> {
    scheme: S,
    data: &'a Data<S::Key>,
    run: &'a Run<'a>,
    kind: Kind,
    /// The type of keys, if it is not u32.
    types: &'static str,
}

/// A structure to verify: how it is built, and its checks.
trait Subject<S: Scheme> {
    /// Its name in the report.
    const TABLE: &'static str;
    /// Whether the structure depends on the scheme.
    const HAS_SCHEME: bool = true;
    type Built;

    /// Returns the reason if the scheme cannot hold these rows.
    fn left_out(&self, _case: &Case<'_, S>) -> Option<String> {
        None
    }
    /// Builds the structure from the columns in host memory.
    fn build(&self, case: &Case<'_, S>, device: &Device) -> koel::Result<Self::Built>;
    /// Checks all operations, including changes. Returns the number of answers of the first operation, and its
    /// duration.
    fn check(&self, case: &Case<'_, S>, built: &Self::Built, row: &mut Row) -> Option<(usize, Duration)>;
    /// The digest of what must be equal on all devices, if anything must be.
    fn digest(&self, case: &Case<'_, S>, built: &Self::Built) -> Option<koel::Result<String>>;
    /// Moves the structure to another device, if that is possible, and checks it there.
    fn elsewhere(&self, case: &Case<'_, S>, built: &Self::Built, device: &Device, what: &str, row: &mut Row);
}

impl<S: Scheme> Case<'_, S>
where
    S::Key: Word,
{
    /// The rows to report: all of them, or only failed ones if the purpose is to compile kernels.
    fn found<T: Subject<S>>(&self, subject: &T, compiles: bool) -> Vec<Row> {
        let mut rows = self.rows(subject);
        rows.retain(|row| !compiles || !row.is_ok());
        self.run.lines.rows(&rows);
        rows
    }

    /// One row for each device.
    fn rows<T: Subject<S>>(&self, subject: &T) -> Vec<Row> {
        let run = self.run;
        let mut rows = Vec::new();
        for device in run.devices {
            let id = &device.info().id;
            let mut row = self.row::<T>(id.clone());
            device.ledger().take();
            self.on(device, subject, &mut row);
            row.stages = device.ledger().take();
            run.progress.step();
            rows.push(row);
        }
        compare_digests(&mut rows);
        rows
    }

    /// An empty row for this device.
    fn row<T: Subject<S>>(&self, device: String) -> Row {
        let (columns, scheme) = (&self.data.columns, if T::HAS_SCHEME { self.scheme.name() } else { "" });
        self.run.progress.say(format!("{}, {scheme} {}, on {} keys: {device}", T::TABLE, self.kind, columns.name));
        Row {
            device,
            host_built: T::HAS_SCHEME && self.scheme.host_built(),
            cut: columns.cut.clone(),
            types: self.types,
            ..Row::new(T::TABLE, scheme, self.kind, columns.name, columns.keys.len())
        }
    }

    /// Runs all checks on one device, and on the other devices after a move.
    fn on<T: Subject<S>>(&self, device: &Device, subject: &T, row: &mut Row) {
        let start = Instant::now();
        let built = subject.build(self, device).and_then(|built| device.finish().map(|()| built));
        let time = start.elapsed();
        let Some(built) = row.attempt("build", built) else { return };
        row.build = Some(rate(self.data.columns.keys.len(), time));
        row.lookup = subject.check(self, &built, row).map(|(answers, time)| rate(answers, time));
        if let Some(digest) = subject.digest(self, &built) {
            row.digest = row.attempt("digest", digest);
        }
        for other in self.run.devices.iter().filter(|other| other.info().id != device.info().id) {
            subject.elsewhere(self, &built, other, &format!("moved to {}", other.info().id), row);
        }
    }

    /// The distinct keys in the order of their ids.
    fn keys_by(&self, order: koel::IdOrder) -> Vec<S::Key> {
        match order {
            koel::IdOrder::Ascending => self.data.model.ascending(),
            _ => self.data.model.first_seen.clone(),
        }
    }

    /// Returns the reason if the scheme's values have too few bits for the numbers of all distinct keys.
    fn too_narrow(&self) -> Option<String> {
        let (most, keys) = (self.scheme.limits().greatest_value(), self.data.model.rows.len());
        let bits = self.scheme.limits().value_bits;
        (keys as u64 > u64::from(most) + 1)
            .then(|| format!("its values have {bits} bits, and there are {keys} keys to be numbered"))
    }
}

/// A builder with the requested seed and size.
fn sized<T: Builder>(builder: T, run: &Run<'_>) -> T {
    run.size.apply(builder.with_seed(run.seed))
}

/// Runs some work and measures its duration.
fn timed<T, E>(work: impl FnOnce() -> std::result::Result<T, E>) -> (std::result::Result<T, E>, Duration) {
    let start = Instant::now();
    let done = work();
    (done, start.elapsed())
}
