//! Verifying what is made of tables: sets, compacting and multivalue tables, joins and groups.
//!
//! ```text
//! columns.rs   rows with duplicate keys       model.rs   the right answers, by ordered maps
//! set.rs, compact.rs, from_set.rs, multi.rs, join.rs, group.rs      a subject each: how it is built, and what must be true
//! shards.rs    sets and multivalue tables in shards
//! ```

mod columns;
mod compact;
mod from_set;
mod group;
mod join;
mod model;
mod multi;
mod set;
mod shards;

use std::time::{Duration, Instant};

use koel::backend::{HashBackend, Runs};
use koel::scheme::Limits;
use koel::{AnyScheme, Bucketized, Kind, Scheme};

use super::map::{Spread, wide_scheme, wide_schemes};
use super::row::{Row, compare_digests, rate};
use super::{Device, Run, Wanted, Which, shared_by};
use crate::failure::Result;
use crate::number::Word;
use crate::options::Builder;
use crate::options::Wide;
use crate::scheme;
use columns::{Columns, Shape};
use model::Model;
pub(super) use model::equal;

/// What is verified here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Table {
    Set,
    Compact,
    Multi,
    Join,
    Group,
}

impl Table {
    /// All of them, with what they are on the command line.
    pub(super) const ALL: [(Table, Which); 5] = [
        (Table::Set, Which::Set),
        (Table::Compact, Which::Compact),
        (Table::Multi, Which::Multi),
        (Table::Join, Which::Join),
        (Table::Group, Which::Group),
    ];
}

/// Steps of one of them for the progress bar.
pub(super) fn steps(table: Table, run: &Run<'_>) -> usize {
    let Run { wanted, devices, shards, .. } = *run;
    // Groups have no scheme. The first of the columns are the few rows that compile kernels.
    let schemes = if table == Table::Group { 1 } else { wanted.len() };
    let wide = if table == Table::Group { wide_schemes(wanted).count().min(1) } else { bucketized(wanted) };
    let rows = shards.map_or(devices.len(), |_| shared_by(devices).count());
    (schemes + wide) * (1 + Shape::ALL.len()) * rows
}

/// How many of these are tables of 64-bit keys inside of structures too.
fn bucketized(wanted: &[Wanted]) -> usize {
    wide_schemes(wanted).filter(|scheme| matches!(scheme, Wide::Bucketized(_))).count()
}

/// One of them, over every scheme and kind that can hold it.
pub(super) fn verify(run: &Run<'_>, table: Table, n: u32, left_out: &mut Vec<String>) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    // Columns without limits serve most schemes.
    let mut common = Vec::new();
    for shape in Shape::ALL {
        common.push(Data::new(shape, n, run.seed, Limits::NONE)?);
    }
    if table == Table::Group {
        // Groups are numbered by the library's own table, whatever the scheme: the best place to compile all kernels.
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

/// One of them over tables of 64-bit keys: with ids as values, or without values.
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

/// A subject over tables of 64-bit keys, on rows whose keys agree in one half or in none.
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

/// Rows, and what they say.
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

/// One table over one scheme and kind.
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
                // A scheme without values holds no ids, and becomes a table that does.
                AnyScheme::CuckooSet(set) => self.all(&from_set::FromSet(set.clone()), scheme),
                _ => self.all(&compact::Compacting, scheme),
            },
            Table::Multi => self.all(&multi::Multi, scheme),
            Table::Join => self.all(&join::Joins, scheme),
            Table::Group => Ok(Vec::new()),
        }
    }

    /// A subject on all data.
    fn all<T: Subject<AnyScheme>>(&mut self, subject: &T, scheme: &AnyScheme) -> Result<Vec<Row>> {
        // Values of rows are none of the table's.
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

    /// Steps that need not be taken.
    fn pass_over(&self) {
        let rows = self.run.shards.map_or(self.run.devices.len(), |_| shared_by(self.run.devices).count());
        (0..rows).for_each(|_| self.run.progress.step());
    }
}

/// What a subject is verified on.
struct Case<'a, S: Scheme = AnyScheme> {
    scheme: S,
    data: &'a Data<S::Key>,
    run: &'a Run<'a>,
    kind: Kind,
    /// Of keys, where they are not u32.
    types: &'static str,
}

/// One table: how it is built, and what must be true of it.
trait Subject<S: Scheme> {
    /// Its name in the report.
    const TABLE: &'static str;
    /// Whether the scheme is a matter of it.
    const HAS_SCHEME: bool = true;
    type Built;

    /// Why the scheme cannot hold these rows, if so.
    fn left_out(&self, _case: &Case<'_, S>) -> Option<String> {
        None
    }
    /// Builds it from the host's columns.
    fn build(&self, case: &Case<'_, S>, device: &Device) -> koel::Result<Self::Built>;
    /// Everything that it says, changes to it too. How many answers the first question gave, and in what time.
    fn check(&self, case: &Case<'_, S>, built: &Self::Built, row: &mut Row) -> Option<(usize, Duration)>;
    /// What must be the same on every device, if anything.
    fn digest(&self, case: &Case<'_, S>, built: &Self::Built) -> Option<koel::Result<String>>;
    /// Checks all of that for a table in `shards` shards over these devices, if such tables exist.
    fn in_shards(&self, _case: &Case<'_, S>, _shards: usize, _devices: &[Device], row: &mut Row) {
        row.expect("shards", Err("there are no such tables in shards".into()));
    }
    /// The same on another device, if it can be moved, and what it says there.
    fn elsewhere(&self, case: &Case<'_, S>, built: &Self::Built, device: &Device, what: &str, row: &mut Row);
}

impl<S: Scheme> Case<'_, S>
where
    S::Key: Word,
{
    /// The rows that are reported: all, or where the point is to compile kernels, those that failed.
    fn found<T: Subject<S>>(&self, subject: &T, compiles: bool) -> Vec<Row> {
        let mut rows = self.rows(subject);
        rows.retain(|row| !compiles || !row.is_ok());
        self.run.lines.rows(&rows);
        rows
    }

    /// A row for each device.
    fn rows<T: Subject<S>>(&self, subject: &T) -> Vec<Row> {
        let run = self.run;
        if let Some(shards) = run.shards {
            return self.rows_in_shards(subject, shards);
        }
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

    /// The row of this device, or of several, before anything is found out.
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

    /// Everything on one device, and on the others that it is moved to.
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

    /// Why the scheme's values cannot be numbers of all distinct keys, if so.
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

/// How long some work took, if it could be done.
fn timed<T, E>(work: impl FnOnce() -> std::result::Result<T, E>) -> (std::result::Result<T, E>, Duration) {
    let start = Instant::now();
    let done = work();
    (done, start.elapsed())
}
