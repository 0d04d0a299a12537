//! Verifying one scheme and kind on one data set, on all devices.

use std::time::{Duration, Instant};

use koel::backend::{Any, HashBackend, Runs, Stage};
use koel::table::TableBuilder;
use koel::{Cpu, HashTable, Kind, Scheme};

use super::data::DataSet;
use super::reference::{self, Reference};
use crate::cli::answers;
use crate::cli::failure::{Failure, Result};
use crate::cli::options::SizeOptions;
use crate::cli::progress::Progress;
use crate::cli::scheme::{Job, Parameters};

/// What is to be verified, and where.
pub(super) struct Check<'a> {
    pub(super) data: &'a DataSet,
    /// In what the data differ from what was asked for.
    pub(super) cut: Option<String>,
    pub(super) devices: &'a [Any],
    pub(super) size: &'a SizeOptions,
    pub(super) seed: u64,
    pub(super) kind: Kind,
    pub(super) progress: &'a Progress,
}

/// What went wrong.
#[derive(Debug)]
pub(super) struct Problem {
    /// Something could not be done at all, rather than coming out wrong.
    pub(super) failed: bool,
    pub(super) text: String,
}

/// The findings on one device.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) scheme: &'static str,
    pub(super) kind: Kind,
    pub(super) data: &'static str,
    pub(super) pairs: usize,
    pub(super) device: String,
    pub(super) checks: u32,
    pub(super) problems: Vec<Problem>,
    pub(super) digest: Option<String>,
    /// Compared with the reference, word by word.
    same_bytes: bool,
    pub(super) restarts: u32,
    pub(super) host_built: bool,
    /// What of the data these tables cannot hold, if anything.
    pub(super) cut: Option<String>,
    /// The most pairs of these tables that the reference is built of, where there are more here.
    pub(super) no_reference: Option<usize>,
    /// What ran where on this device for this row: building, auditing, answering.
    pub(super) stages: Vec<Stage>,
    /// From host slices to a finished table, pairs a second.
    pub(super) build: Option<f64>,
    /// From host slices to host slices, queries a second.
    pub(super) lookup: Option<f64>,
}

impl Row {
    pub(super) fn is_ok(&self) -> bool {
        self.problems.is_empty()
    }

    /// Counts a check, and notes what came out wrong.
    fn expect(&mut self, what: &str, outcome: std::result::Result<(), String>) {
        self.checks += 1;
        if let Err(reason) = outcome {
            self.problems.push(Problem { failed: false, text: format!("{what}: {reason}") });
        }
    }

    /// Counts a check that yields something, and notes if it could not be done.
    fn attempt<T>(&mut self, what: &str, outcome: std::result::Result<T, impl std::fmt::Display>) -> Option<T> {
        self.checks += 1;
        let note = |error| self.problems.push(Problem { failed: true, text: format!("{what}: {error}") });
        outcome.map_err(|error| error.to_string()).map_err(note).ok()
    }
}

impl Job for Check<'_> {
    type Output = Vec<Row>;

    fn run<S: Parameters>(&mut self, scheme: S) -> Result<Vec<Row>>
    where
        Any: Runs<S>,
        Cpu: Runs<S>,
    {
        match self.data.within(scheme.limits())? {
            None => self.checked(scheme),
            Some((data, note)) => Check { data: &data, cut: Some(note), ..*self }.checked(scheme),
        }
    }
}

impl Check<'_> {
    fn checked<S: Parameters>(&self, scheme: S) -> Result<Vec<Row>>
    where
        Any: Runs<S>,
        Cpu: Runs<S>,
    {
        let mut rows = Vec::new();
        let reference = self.reference(&scheme, &mut rows)?;
        self.progress.step();
        let builder = self.size.apply(HashTable::builder(scheme).seed(self.seed));
        let mut tables = Vec::new();
        for device in self.devices {
            self.say::<S>(&device.info().id);
            let mut row = self.row::<S>(device.info().id.clone());
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
        self.compare_digests(&mut rows[first..]);
        for (row, table) in rows[first..].iter_mut().zip(&tables) {
            self.say::<S>(&format!("tables of {} elsewhere", row.device));
            self.progress.step();
            let Some(table) = table else { continue };
            for other in self.devices {
                if other.info().id == row.device {
                    continue;
                }
                let what = format!("moved to {}", other.info().id);
                if let Some(there) = row.attempt(&what, table.to_backend(other)) {
                    self.answers(&there, &what, row);
                }
            }
        }
        Ok(rows)
    }
}

/// Has every device compile its kernels and start its threads, so that they are not timed. What goes wrong here goes
/// wrong again in what follows, and is reported there.
pub(super) struct WarmUp<'a> {
    pub(super) devices: &'a [Any],
}

impl Job for WarmUp<'_> {
    type Output = ();

    fn run<S: Parameters>(&mut self, scheme: S) -> Result<()>
    where
        Any: Runs<S>,
        Cpu: Runs<S>,
    {
        let builder = HashTable::builder(scheme);
        for device in self.devices {
            let _ = builder.build(device, &[1, 2, 3], &[4, 5, 6]).and_then(|table| table.get(&[1, 7]));
            // Its three keys are no part of the record.
            device.ledger().take();
        }
        Ok(())
    }
}

impl Check<'_> {
    fn say<S: Scheme>(&self, what: &str) {
        self.progress.say(format!("{} {} on {} keys: {what}", S::NAME, self.kind, self.data.name));
    }

    fn row<S: Scheme>(&self, device: String) -> Row {
        Row {
            scheme: S::NAME,
            kind: self.kind,
            data: self.data.name,
            pairs: self.data.keys.len(),
            device,
            checks: 0,
            problems: Vec::new(),
            digest: None,
            same_bytes: false,
            restarts: 0,
            host_built: S::host_built(self.kind),
            cut: self.cut.clone(),
            no_reference: Some(reference::most_pairs::<S>())
                .filter(|&most| self.kind == Kind::Canonical && self.data.keys.len() > most),
            stages: Vec::new(),
            build: None,
            lookup: None,
        }
    }

    /// The sequential table and its row, where there is to be one.
    fn reference<S: Scheme>(&self, scheme: &S, rows: &mut Vec<Row>) -> Result<Option<Reference<S>>> {
        if self.kind != Kind::Canonical || self.data.keys.len() > reference::most_pairs::<S>() {
            return Ok(None);
        }
        self.say::<S>("the sequential reference");
        let slots = self.size.slots(scheme, self.data.keys.len() as u64)?;
        let mut row = self.row::<S>("reference".into());
        row.host_built = false;
        let start = Instant::now();
        // It runs on no device, so if it cannot be built, what was asked for cannot be.
        let reference = Reference::build(scheme, slots, self.seed, self.data).map_err(Failure::Input)?;
        row.checks += 1;
        row.build = Some(rate(self.data.keys.len(), start.elapsed()));
        row.restarts = koel::spec::Plan::attempt(&reference.plan);
        row.expect("its own answers", reference.check(self.data));
        rows.push(row);
        Ok(Some(reference))
    }

    /// Everything that concerns one device alone.
    fn device<S: Scheme>(
        &self,
        device: &Any,
        builder: &TableBuilder<S>,
        reference: Option<&Reference<S>>,
        row: &mut Row,
    ) -> Option<HashTable<Any, S>>
    where
        Any: Runs<S>,
    {
        let start = Instant::now();
        let built = builder.build(device, &self.data.keys, &self.data.values);
        let built = built.and_then(|table| device.finish().map(|()| table));
        let time = start.elapsed();
        let table = row.attempt("build", built)?;
        row.build = Some(rate(self.data.keys.len(), time));
        row.restarts = table.restarts();

        row.expect("audit", table.audit().map(drop).map_err(|error| error.to_string()));
        if let Some(time) = self.answers(&table, "answers", row) {
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
        Some(table)
    }

    /// Looks every query up and compares every answer; how long the lookup took, if it went through.
    fn answers<S: Scheme>(&self, table: &HashTable<Any, S>, what: &str, row: &mut Row) -> Option<Duration>
    where
        Any: Runs<S>,
    {
        let queries = &self.data.queries;
        let (mut values, mut found) = answers::poisoned(queries.len());
        let start = Instant::now();
        let done = table.get_into(queries, &mut values, &mut found);
        let time = start.elapsed();
        row.attempt(what, done)?;
        row.expect(what, answers::check(queries, &values, &found, |i| self.data.answer(i)));
        Some(time)
    }

    /// All devices must have the digest of the first that has one.
    fn compare_digests(&self, rows: &mut [Row]) {
        let Some(first) = rows.iter().position(|row| row.digest.is_some()) else { return };
        let (expected, of) = (rows[first].digest.clone(), rows[first].device.clone());
        for row in rows[first + 1..].iter_mut().filter(|row| row.digest.is_some()) {
            let same = row.digest == expected;
            row.expect("digest", if same { Ok(()) } else { Err(format!("it is not that of {of}")) });
        }
    }
}

fn rate(count: usize, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64().max(1e-9)
}
