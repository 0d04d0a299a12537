//! One scheme and kind on one device: the limit, builds, lookups.

use koel::backend::{Any, HashBackend, Runs};
use koel::spec::{Plan, Updates};
use koel::table::TableBuilder;
use koel::{Cpu, Error, HashTable, Kind, Scheme};

use super::data::Questions;
use super::measure::{Row, Setup, median, wall};
use super::report::Findings;
use super::stages::Staged;
use super::timer::Timer;
use super::walk::Walked;
use super::wrong;
use crate::cli::answers;
use crate::cli::failure::Result;
use crate::cli::progress::Progress;
use crate::cli::scheme::{Job, Parameters};
use crate::cli::text;

pub(super) struct OnDevice<'a> {
    pub(super) setup: &'a Setup<'a>,
    pub(super) device: &'a Any,
    pub(super) kind: Kind,
    pub(super) progress: &'a Progress,
}

/// Accesses a second that the device's memory allows.
#[derive(Clone, Copy)]
struct Limits {
    reads: f64,
    updates: f64,
}

impl Job for OnDevice<'_> {
    type Output = Findings;

    fn run<S: Parameters>(&mut self, scheme: S) -> Result<Findings>
    where
        Any: Runs<S>,
        Cpu: Runs<S>,
    {
        let mut builder = HashTable::builder(scheme).seed(self.setup.args.data.seed);
        if let Some(load) = self.setup.args.load {
            builder = builder.load_factor(load);
        }
        // The first build also compiles kernels; every pair in it is looked up before anything is timed.
        let table = match builder.build(self.device, &self.setup.data.keys, &self.setup.data.values) {
            Ok(table) => table,
            Err(error) if is_of_the_table(&error) => return Ok(self.left_out::<S>(&error)),
            Err(error) => return Err(error.into()),
        };
        self.check_pairs(&table)?;
        let load = table.load_factor();
        let mut rows = self.limits(&table)?;
        drop(table);
        let limits = Limits { reads: rows[0].rate, updates: rows[1].rate };
        let table = self.builds(&builder, load, limits, &mut rows)?;
        for questions in self.setup.data.questions() {
            self.lookups(&table, &questions, limits, &mut rows)?;
        }
        self.removal(&table, limits, &mut rows)?;
        let mut walks = Vec::new();
        if self.setup.args.walk {
            self.progress.say(format!("walking a table of {} pairs", self.setup.n));
            walks.push(Walked::of(&table, self.setup.n)?);
        }
        let mut stages = Vec::new();
        if self.setup.args.stages {
            self.progress.say(format!("the stages of a build of {} pairs", self.setup.n));
            stages.push(Staged::of(&builder, self.device, self.setup, self.kind)?);
        }
        Ok(Findings { rows, walks, stages, left_out: Vec::new() })
    }
}

/// Whether an error says that there is no such table, rather than that something went wrong.
pub(super) fn is_of_the_table(error: &Error) -> bool {
    matches!(
        error,
        Error::InvalidParameter { .. }
            | Error::TooLarge { .. }
            | Error::TooFull { .. }
            | Error::TooWide { .. }
            | Error::Crowded { .. }
    )
}

impl OnDevice<'_> {
    fn left_out<S: Scheme>(&self, error: &Error) -> Findings {
        let (kind, n, on) = (self.kind, text::grouped(self.setup.n.into()), &self.device.info().id);
        Findings { left_out: vec![format!("{} {kind}, n = {n}, on {on}: {error}", S::NAME)], ..Findings::default() }
    }

    fn timer(&self) -> Timer<'_> {
        Timer { device: self.device, repeats: self.setup.args.repeats }
    }

    fn row<S: Scheme>(&self, what: &'static str, place: &'static str, load: f64) -> Row {
        let row = Row::new(&self.device.info().id, S::NAME, self.setup.n, what, place);
        Row { kind: Some(self.kind), load: Some(load), ..row }
    }

    fn check_pairs<S: Scheme>(&self, table: &HashTable<Any, S>) -> Result<()>
    where
        Any: Runs<S>,
    {
        let keys = &self.setup.data.keys;
        let (mut values, mut found) = answers::poisoned(keys.len());
        table.get_into(keys, &mut values, &mut found)?;
        let right = |i: usize| self.setup.data.values.get(i).copied();
        answers::check(keys, &values, &found, right).map_err(|reason| wrong("a lookup of every key", reason))
    }

    /// Random reads of the table's own image, and random updates of a buffer as large.
    fn limits<S: Scheme>(&self, table: &HashTable<Any, S>) -> Result<Vec<Row>>
    where
        Any: Runs<S>,
    {
        self.progress.say(format!("the random-access limit of {}", self.device.info().id));
        let accesses = self.setup.data.query_count().max(1);
        let reads = self.timer().random_reads(table.image(), accesses)?;
        let updates = self.timer().random_updates(table.plan().words() as usize, accesses)?;
        let row = |what, time| self.row::<S>(what, "device", table.load_factor()).timed(accesses, time);
        Ok(vec![row("random reads", reads), row("random updates", updates)])
    }

    /// Builds from device buffers and from host slices; the last table.
    fn builds<S: Scheme>(
        &self,
        builder: &TableBuilder<S>,
        load: f64,
        limits: Limits,
        rows: &mut Vec<Row>,
    ) -> Result<HashTable<Any, S>>
    where
        Any: Runs<S>,
    {
        let (device, setup) = (self.device, self.setup);
        let (keys, values) = (device.upload(&setup.data.keys)?, device.upload(&setup.data.values)?);
        let (table, time) = self.timer().build(builder, self.kind, (&keys, &values))?;
        drop(table);
        drop((keys, values));
        let mut row = self.row::<S>("build", "device", load).timed(setup.data.keys.len(), time);
        (row.limit, row.host_built) = (Some(limits.updates), S::host_built(self.kind));
        rows.push(row);

        let mut last = None;
        let time = setup.median(|| {
            last = None;
            let build = || {
                let table = builder.build(device, &setup.data.keys, &setup.data.values)?;
                device.finish()?;
                Ok(table)
            };
            let (table, time) = wall(build)?;
            last = Some(table);
            Ok(time)
        })?;
        let mut row = self.row::<S>("build", "end-to-end", load).timed(setup.data.keys.len(), time);
        (row.limit, row.host_built) = (Some(limits.updates), S::host_built(self.kind));
        rows.push(row);
        match last {
            Some(table) => Ok(table),
            None => Ok(builder.build(device, &setup.data.keys, &setup.data.values)?),
        }
    }

    fn lookups<S: Scheme>(
        &self,
        table: &HashTable<Any, S>,
        Questions { hits, queries }: &Questions,
        limits: Limits,
        rows: &mut Vec<Row>,
    ) -> Result<()>
    where
        Any: Runs<S>,
    {
        let setup = self.setup;
        let time = self.timer().lookup(table, queries, |i| setup.data.answer(queries[i]))?;
        let row = |place, time| {
            let row = self.row::<S>("lookup", place, table.load_factor()).timed(queries.len(), time);
            Row { hits: Some(*hits), limit: Some(limits.reads), ..row }
        };
        rows.push(row("device", time));

        let time = setup.median(|| {
            let (mut values, mut found) = answers::poisoned(queries.len());
            let ((), time) = wall(|| Ok(table.get_into(queries, &mut values, &mut found)?))?;
            setup.check(queries, &values, &found).map_err(|reason| wrong("a lookup", reason))?;
            Ok(time)
        })?;
        rows.push(row("end-to-end", time));
        Ok(())
    }

    /// Removing a tenth of the keys, and compacting what is left.
    fn removal<S: Scheme>(&self, table: &HashTable<Any, S>, limits: Limits, rows: &mut Vec<Row>) -> Result<()>
    where
        Any: Runs<S>,
    {
        let (device, setup) = (self.device, self.setup);
        let gone: Vec<u32> = setup.data.keys.iter().copied().step_by(10).collect();
        let on_device = device.upload(&gone)?;
        let mut compact = Vec::new();
        let remove = setup.median(|| {
            let mut worn = table.to_backend(device)?;
            device.finish()?;
            let (removed, time) = self.timer().timed::<S, _>(self.kind, || worn.remove_on(&on_device))?;
            compact.push(self.timer().timed::<S, _>(self.kind, || worn.compact())?.1);
            match removed == gone.len() as u64 && worn.len() + removed == table.len() && !worn.is_worn() {
                true => Ok(time),
                false => Err(wrong("removing", format!("{removed} of {} keys were removed", gone.len()))),
            }
        })?;
        let row = |what, count, time| Row {
            limit: Some(limits.updates),
            host_built: S::host_built(self.kind),
            ..self.row::<S>(what, "device", table.load_factor()).timed(count, time)
        };
        rows.push(row("remove a tenth", gone.len(), remove));
        if S::updates(self.kind) == Updates::Tombstones {
            rows.push(row("compact", setup.data.keys.len(), median(compact)));
        }
        Ok(())
    }
}
