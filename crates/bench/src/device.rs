//! One scheme and kind on one device: the limit, builds, lookups.

use koel::backend::{DeviceKind, HashBackend, Tier};
use koel::device::Any;
use koel::scheme::{Plan, Updates};
use koel::table::TableBuilder;
use koel::{AnyScheme, Error, HashTable, Kind, Scheme};

use super::bus::Bus;
use super::data::Questions;
use super::measure::{Row, Setup, median, wall};
use super::report::Findings;
use super::stages::Staged;
use super::timer::Timer;
use super::wrong;
use koel_cli::answers;
use koel_cli::failure::{Failure, Result};
use koel_cli::progress::Progress;
use koel_cli::text;

pub(super) struct OnDevice<'a> {
    pub(super) setup: &'a Setup<'a>,
    pub(super) device: &'a Any,
    pub(super) scheme: AnyScheme,
    pub(super) progress: &'a Progress,
}

/// The limits of this table's operations: the accesses per second that the device's memory allows, if they limit the
/// operations, and the rate of the bus, if it is measured.
#[derive(Clone, Copy, Default)]
struct Limits {
    reads: Option<f64>,
    /// For operations that access words one by one.
    updates: Option<f64>,
    /// For builds and batches that access words one by one.
    builds: Option<f64>,
    bus: Option<Bus>,
}

impl OnDevice<'_> {
    pub(super) fn run(&self) -> Result<Findings> {
        let unsized_builder = HashTable::builder(self.scheme.clone()).seed(self.setup.args.data.seed);
        let mut builder = unsized_builder.clone();
        if let Some(load) = self.setup.args.at_load {
            builder = builder.load_factor(load);
        }
        // The first build also compiles kernels; every pair in it is looked up before anything is timed.
        let table = match builder.build(self.device, &self.setup.data.keys, &self.setup.data.values) {
            Ok(table) => table,
            Err(error) if is_of_the_table(&error) => return Ok(self.left_out(&error)),
            Err(error) => return Err(error.into()),
        };
        self.check_pairs(&table)?;
        let load = table.load_factor();
        let (brief, pinned) = (self.setup.args.brief, self.setup.args.pinned);
        let mut rows = if brief { Vec::new() } else { self.limits(&table)? };
        drop(table);
        let with_bus = !brief || pinned;
        let bus = if with_bus { self.bus(|what| self.row(what, "pinned", load), &mut rows)? } else { None };
        let rate = |what| rows.iter().find(|row| row.what == what).map(|row| row.rate);
        let limits = Limits {
            reads: rate("random reads").filter(|_| self.reads_at_random()),
            updates: rate("random updates").filter(|_| !self.setup.args.data.has_order()),
            builds: rate("random updates").filter(|_| self.places_singly()),
            bus,
        };
        let table = self.builds(&builder, load, limits, &mut rows)?;
        for questions in self.setup.data.questions() {
            self.lookups(&table, &questions, limits, &mut rows)?;
        }
        if !brief {
            self.removal(&table, limits, &mut rows)?;
        }
        let mut left_out = Vec::new();
        if self.setup.args.insert {
            match self.insertion((&builder, &unsized_builder), limits, &mut rows) {
                Err(Failure::Koel(error)) if is_of_the_table(&error) => {
                    let lines = self.left_out(&error).left_out;
                    left_out.extend(lines.into_iter().map(|line| format!("inserting: {line}")));
                }
                done => done?,
            }
        }
        let mut stages = Vec::new();
        if self.setup.args.stages {
            self.progress.say(format!("the stages of a build of {} pairs", self.setup.n));
            stages.push(Staged::of(&builder, self.device, self.setup)?);
        }
        Ok(Findings { rows, stages, left_out })
    }
}

/// Whether an error means that there is no such table, rather than that an operation failed.
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
    /// Whether random reads limit lookups. They do not if keys are the cells of a picture, which share lines with their
    /// neighbours; nor through OpenCL on a CPU, where a work-item makes one random read at a time, but looks up several
    /// keys.
    fn reads_at_random(&self) -> bool {
        let by_opencl = self.device.info().kind == DeviceKind::Cpu && !matches!(self.device, Any::Cpu(_));
        !by_opencl && !self.setup.args.data.has_order()
    }

    /// Whether random updates limit builds, which is the case if each pair is placed separately. Builds one partition
    /// at a time and sorts make no random updates; docs/performance/ describes their limits.
    fn places_singly(&self) -> bool {
        let by_parts = self.scheme.kind() == Kind::Canonical && matches!(self.scheme.name(), "bucketized" | "horton");
        !by_parts && self.scheme.name() != "sorted" && !self.setup.args.data.has_order()
    }

    fn left_out(&self, error: &Error) -> Findings {
        let (kind, n, on) = (self.scheme.kind(), text::grouped(self.setup.n.into()), &self.device.info().id);
        Findings {
            left_out: vec![format!("{} {kind}, n = {n}, on {on}: {error}", self.scheme.name())],
            ..Findings::default()
        }
    }

    fn timer(&self) -> Timer<'_> {
        Timer { device: self.device, repeats: self.setup.args.repeats }
    }

    fn row(&self, what: &'static str, place: &'static str, load: f64) -> Row {
        let row = Row::new(&self.device.info().id, self.scheme.name(), self.setup.n, what, place);
        Row { kind: Some(self.scheme.kind()), requested_load: self.setup.args.at_load, load: Some(load), ..row }
    }

    fn check_pairs(&self, table: &HashTable<Any, AnyScheme>) -> Result<()> {
        let keys = &self.setup.data.keys;
        let (mut values, mut found) = answers::poisoned(keys.len());
        table.get_into(keys, &mut values, &mut found)?;
        let right = |i: usize| self.setup.data.values.get(i).copied();
        answers::check(keys, &values, &found, right).map_err(|reason| wrong("a lookup of every key", reason))
    }

    /// Random reads of the table's own image, and random updates of a buffer as large.
    fn limits(&self, table: &HashTable<Any, AnyScheme>) -> Result<Vec<Row>> {
        self.progress.say(format!("the random-access limit of {}", self.device.info().id));
        let accesses = self.setup.data.query_count().max(1);
        let reads = self.timer().random_reads(table.image(), accesses)?;
        let row = |what, time| self.row(what, "device", table.load_factor()).timed(accesses, time);
        let mut rows = vec![row("random reads", reads)];
        // These updates are 64-bit atomics, which devices of the partial tier do not support.
        if self.device.info().tier == Tier::Full {
            let updates = self.timer().random_updates(table.plan().words() as usize, accesses)?;
            rows.push(row("random updates", updates));
        }
        Ok(rows)
    }

    /// Builds from device buffers and from host slices; returns the last table.
    fn builds(
        &self,
        builder: &TableBuilder<AnyScheme>,
        load: f64,
        limits: Limits,
        rows: &mut Vec<Row>,
    ) -> Result<HashTable<Any, AnyScheme>> {
        let (device, setup) = (self.device, self.setup);
        let (keys, values) = (device.upload(&setup.data.keys)?, device.upload(&setup.data.values)?);
        let (table, time) = self.timer().build(builder, (&keys, &values))?;
        drop((keys, values));
        let mut row = self.row("build", "device", load).timed(setup.data.keys.len(), time);
        (row.limit, row.host_built) = (limits.builds, self.scheme.host_built());
        rows.push(row);

        if setup.args.brief {
            return Ok(table);
        }
        drop(table);
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
        let mut row = self.row("build", "end-to-end", load).timed(setup.data.keys.len(), time);
        let limit = limits.builds.into_iter().chain(limits.bus.map(Bus::pairs)).min_by(f64::total_cmp);
        (row.limit, row.host_built) = (limit, self.scheme.host_built());
        rows.push(row);
        match last {
            Some(table) => Ok(table),
            None => Ok(builder.build(device, &setup.data.keys, &setup.data.values)?),
        }
    }

    fn lookups(
        &self,
        table: &HashTable<Any, AnyScheme>,
        questions: &Questions,
        limits: Limits,
        rows: &mut Vec<Row>,
    ) -> Result<()> {
        let setup = self.setup;
        let Questions { hits, queries } = questions;
        let time = self.timer().lookup(table, queries, |i| setup.data.answer(queries[i]))?;
        let row = |place, time| {
            let row = self.row("lookup", place, table.load_factor()).timed(queries.len(), time);
            Row { hits: Some(*hits), limit: limits.reads, ..row }
        };
        rows.push(row("device", time));
        let over_the_bus = |place, time| {
            let limit = limits.reads.into_iter().chain(limits.bus.map(Bus::queries)).min_by(f64::total_cmp);
            Row { limit, ..row(place, time) }
        };
        if !setup.args.brief || setup.args.pinned {
            rows.extend(self.pinned_lookup(table, questions)?.map(|time| over_the_bus("pinned", time)));
        }
        if setup.args.brief {
            return Ok(());
        }

        let time = setup.median(|| {
            let (mut values, mut found) = answers::poisoned(queries.len());
            let ((), time) = wall(|| Ok(table.get_into(queries, &mut values, &mut found)?))?;
            setup.check(queries, &values, &found).map_err(|reason| wrong("a lookup", reason))?;
            Ok(time)
        })?;
        rows.push(over_the_bus("end-to-end", time));
        Ok(())
    }

    /// Removes a tenth of the keys, and compacts the table.
    fn removal(&self, table: &HashTable<Any, AnyScheme>, limits: Limits, rows: &mut Vec<Row>) -> Result<()> {
        let (device, setup) = (self.device, self.setup);
        let gone: Vec<u32> = setup.data.keys.iter().copied().step_by(10).collect();
        let on_device = device.upload(&gone)?;
        let mut compact = Vec::new();
        let remove = setup.median(|| {
            let mut with_tombstones = table.to_backend(device)?;
            device.finish()?;
            let (removed, time) = self.timer().timed(&self.scheme, || with_tombstones.remove_on(&on_device))?;
            compact.push(self.timer().timed(&self.scheme, || with_tombstones.compact())?.1);
            match removed == gone.len()
                && with_tombstones.len() + removed == table.len()
                && !with_tombstones.has_tombstones()
            {
                true => Ok(time),
                false => Err(wrong("removing", format!("{removed} of {} keys were removed", gone.len()))),
            }
        })?;
        let row = |what, count, time| Row {
            limit: limits.updates,
            host_built: self.scheme.host_built(),
            ..self.row(what, "device", table.load_factor()).timed(count, time)
        };
        rows.push(row("remove a tenth", gone.len(), remove));
        if self.scheme.updates() == Updates::Tombstones {
            let row = row("compact", setup.data.keys.len(), median(compact));
            rows.push(Row { limit: limits.builds, ..row });
        }
        Ok(())
    }

    /// Builds a table of 10 of every 11 pairs, and inserts the others as one batch. The builder `by_load` determines
    /// the number of slots. The table is built by `builder`, which has no load, because a table with a load would be
    /// rebuilt for the batch.
    fn insertion(
        &self,
        (by_load, builder): (&TableBuilder<AnyScheme>, &TableBuilder<AnyScheme>),
        limits: Limits,
        rows: &mut Vec<Row>,
    ) -> Result<()> {
        let (device, setup) = (self.device, self.setup);
        let (mut old, mut new) = ((Vec::new(), Vec::new()), (Vec::new(), Vec::new()));
        for (i, (&key, &value)) in setup.data.keys.iter().zip(&setup.data.values).enumerate() {
            let (keys, values) = if i % 11 == 10 { &mut new } else { &mut old };
            keys.push(key);
            values.push(value);
        }
        let slots = by_load.build(device, &old.0, &old.1)?.slots();
        let table = builder.clone().slots(slots).build(device, &old.0, &old.1)?;
        let load = table.load_factor();
        let (keys, values) = (device.upload(&new.0)?, device.upload(&new.1)?);
        let mut checked = false;
        let time = setup.median(|| {
            let mut fuller = table.to_backend(device)?;
            device.finish()?;
            let (done, time) = self.timer().timed(&self.scheme, || fuller.insert_on(&keys, &values))?;
            if done.added != new.0.len() {
                return Err(wrong("inserting", format!("{} of {} pairs were added", done.added, new.0.len())));
            }
            // The table then contains all pairs, in every run, so it is checked once.
            if !std::mem::replace(&mut checked, true) {
                self.check_pairs(&fuller)?;
            }
            Ok(time)
        })?;
        let row = self.row("insert a tenth", "device", load).timed(new.0.len(), time);
        rows.push(Row { limit: limits.builds, host_built: self.scheme.host_built(), ..row });
        Ok(())
    }
}
