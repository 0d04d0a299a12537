//! The checks of one scheme's tables on one data set, with one row per device.

use std::time::{Duration, Instant};

use koel::backend::HashBackend as _;
use koel::{Duplicates, Kind};

use super::data::DataSet;
use super::subject::{Subject, Table};
use super::{Device, Run};
use crate::failure::Result;
use crate::number::Word;
use crate::verify::row::{Row, compare_digests, rate};

/// The tables to check, and the data set.
pub(super) struct Check<'a> {
    pub(super) run: &'a Run<'a>,
    pub(super) kind: Kind,
    /// The types of keys and values, if they are not u32.
    types: &'static str,
    /// The name of the data set, and its numbers of pairs and queries.
    data: &'static str,
    pub(super) pairs: usize,
    pub(super) queries: usize,
    /// How the data set was reduced to what the scheme can hold.
    cut: Option<String>,
}

impl<'a> Check<'a> {
    pub(super) fn of<K: Word, V: Word>(
        data: &DataSet<K, V>,
        run: &'a Run<'a>,
        kind: Kind,
        types: &'static str,
        cut: Option<String>,
    ) -> Self {
        Check { run, kind, types, data: data.name, pairs: data.keys.len(), queries: data.queries.len(), cut }
    }

    /// Checks the reference and the tables of every device. Returns one row for each.
    pub(super) fn rows(&self, subject: &mut dyn Subject) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        rows.extend(self.reference(subject)?);
        let subject = &*subject;
        self.run.progress.step();
        let first = rows.len();
        let mut tables = Vec::new();
        for device in self.run.devices {
            self.say(subject, &device.info().id);
            let mut row = self.row(subject, device.info().id.clone());
            // Discards the stages of tables that were built on other devices and moved here.
            device.ledger().take();
            let table = self.device(device, subject, &mut row);
            row.stages = device.ledger().take();
            rows.push(row);
            tables.push(table);
        }
        if first > 0 {
            // A digest is computed from the plan, the number of pairs and all words, so equal bytes have equal digests.
            rows[0].digest = rows[first..].iter().find(|row| row.same_bytes).and_then(|row| row.digest.clone());
        }
        compare_digests(&mut rows[first..]);
        for (row, table) in rows[first..].iter_mut().zip(&tables) {
            self.say(subject, &format!("tables of {} elsewhere", row.device));
            self.run.progress.step();
            let Some(table) = table else { continue };
            for other in self.run.devices {
                if other.info().id == row.device {
                    continue;
                }
                let what = format!("moved to {}", other.info().id);
                if let Some(there) = row.attempt(&what, table.moved_to(other)) {
                    answers(&*there, &what, row);
                }
            }
        }
        Ok(rows)
    }

    pub(super) fn say(&self, subject: &dyn Subject, what: &str) {
        self.run.progress.say(format!("{} {} on {} keys: {what}", subject.name(), self.kind, self.data));
    }

    pub(super) fn row(&self, subject: &dyn Subject, device: String) -> Row {
        Row {
            device,
            host_built: subject.host_built(),
            cut: self.cut.clone(),
            types: self.types,
            no_reference: Some(subject.most_pairs()).filter(|&most| self.kind == Kind::Canonical && self.pairs > most),
            ..Row::new("map", subject.name(), self.kind, self.data, self.pairs)
        }
    }

    /// Builds the sequential reference, if there is one, and returns its row.
    fn reference(&self, subject: &mut dyn Subject) -> Result<Option<Row>> {
        if self.kind != Kind::Canonical || self.pairs > subject.most_pairs() {
            return Ok(None);
        }
        self.say(subject, "the sequential reference");
        let (time, restarts) = subject.build_reference()?;
        let mut row = self.row(subject, "reference".into());
        row.host_built = false;
        row.checks += 1;
        row.build = Some(rate(self.pairs, time));
        row.restarts = restarts;
        row.expect("its own answers", subject.check_reference());
        Ok(Some(row))
    }

    /// Runs the checks that need only one device.
    fn device<'s>(&self, device: &Device, subject: &'s dyn Subject, row: &mut Row) -> Option<Box<dyn Table + 's>> {
        let start = Instant::now();
        let built = subject.build(device);
        let built = built.and_then(|table| device.finish().map(|()| table));
        let time = start.elapsed();
        let table = row.attempt("build", built)?;
        row.build = Some(rate(self.pairs, time));
        row.restarts = table.restarts();

        row.expect("audit", table.audit().map_err(|error| error.to_string()));
        if let Some(time) = answers(&*table, "answers", row) {
            row.lookup = Some(rate(self.queries, time));
        }
        if self.kind == Kind::Canonical {
            if let Some(compared) = table.compare()
                && let Some(compared) = row.attempt("download", compared)
            {
                row.same_bytes = compared.is_ok();
                row.expect("bytes", compared);
            }
            row.digest = row.attempt("digest", table.digest()).map(|digest| digest.to_string());
        }
        for rule in [Duplicates::KeepFirst, Duplicates::KeepLast] {
            with_duplicates(device, subject, rule, row);
        }
        Some(table)
    }
}

/// Builds the same table from rows with duplicate keys, and checks that the dropped rows do not change anything.
fn with_duplicates(device: &Device, subject: &dyn Subject, rule: Duplicates, row: &mut Row) {
    let what = match rule {
        Duplicates::KeepLast => "copies, of which the last stays",
        _ => "copies, of which the first stays",
    };
    let Some(table) = row.attempt(what, subject.build_with_duplicates(device, rule)) else { return };
    answers(&*table, what, row);
    if let Some(expected) = row.digest.clone()
        && let Some(digest) = row.attempt(what, table.digest())
    {
        let same = digest.to_string() == expected;
        row.expect(what, if same { Ok(()) } else { Err("they left a trace in the bytes".into()) });
    }
}

/// Looks up every query and checks every answer. Returns the duration of the lookup, unless it failed.
fn answers(table: &dyn Table, what: &str, row: &mut Row) -> Option<Duration> {
    let (time, outcome) = row.attempt(what, table.answers())?;
    row.expect(what, outcome);
    Some(time)
}
