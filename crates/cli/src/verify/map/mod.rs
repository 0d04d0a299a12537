//! Verifying the plain tables of one scheme and kind on one data set, on all devices.

mod data;
mod reference;

use std::time::{Duration, Instant};

use koel::backend::HashBackend;
use koel::table::TableBuilder;
use koel::{AnyScheme, Duplicates, HashTable, Kind, Scheme};

use super::row::{Row, compare_digests, rate};
use super::{Device, Run, Wanted};
use crate::answers;
use crate::failure::{Failure, Result};
use crate::scheme;
use data::DataSet;
pub(super) use data::too_wide;
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
            let check = Check { data: set, cut: None, run, kind: *kind };
            rows.extend(check.run(scheme::named(name, *kind, options)?)?);
        }
    }
    Ok(rows)
}

/// Steps of that for the progress bar.
pub(super) fn steps(wanted: &[Wanted], devices: &[Device]) -> usize {
    wanted.len() * 2 * (devices.len() + 1)
}

/// What is to be verified, and where.
struct Check<'a> {
    data: &'a DataSet,
    /// In what the data differ from what was asked for.
    cut: Option<String>,
    run: &'a Run<'a>,
    kind: Kind,
}

impl Check<'_> {
    fn run(&self, scheme: AnyScheme) -> Result<Vec<Row>> {
        match self.data.within(scheme.limits())? {
            None => self.checked(scheme),
            Some((data, note)) => Check { data: &data, cut: Some(note), ..*self }.checked(scheme),
        }
    }

    fn checked(&self, scheme: AnyScheme) -> Result<Vec<Row>> {
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
                    self.answers(&there, &what, row);
                }
            }
        }
        Ok(rows)
    }
}

/// Has every device compile its kernels and start its threads, so that they are not timed. What goes wrong here goes
/// wrong again in what follows, and is reported there.
fn warm_up(devices: &[Device], scheme: AnyScheme) {
    let builder = HashTable::builder(scheme);
    for device in devices {
        let _ = builder.build(device, &[1, 2, 3], &[4, 5, 6]).and_then(|table| table.get(&[1, 7]));
        // Its three keys are no part of the record.
        device.ledger().take();
    }
}

impl Check<'_> {
    fn say(&self, scheme: &AnyScheme, what: &str) {
        self.run.progress.say(format!("{} {} on {} keys: {what}", scheme.name(), self.kind, self.data.name));
    }

    fn row(&self, scheme: &AnyScheme, device: String) -> Row {
        Row {
            device,
            host_built: scheme.host_built(),
            cut: self.cut.clone(),
            no_reference: Some(reference::most_pairs(scheme))
                .filter(|&most| self.kind == Kind::Canonical && self.data.keys.len() > most),
            ..Row::new("map", scheme.name(), self.kind, self.data.name, self.data.keys.len())
        }
    }

    /// The sequential table and its row, where there is to be one.
    fn reference(&self, scheme: &AnyScheme, rows: &mut Vec<Row>) -> Result<Option<Reference>> {
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
    fn device(
        &self,
        device: &Device,
        builder: &TableBuilder<AnyScheme>,
        reference: Option<&Reference>,
        row: &mut Row,
    ) -> Option<HashTable<Device, AnyScheme>> {
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
        for rule in [Duplicates::KeepFirst, Duplicates::KeepLast] {
            self.copies(device, builder, rule, row);
        }
        Some(table)
    }

    /// The same table out of rows in which half of the keys come again, and one of them in a quarter of all rows: what
    /// does not stay leaves no trace.
    fn copies(&self, device: &Device, builder: &TableBuilder<AnyScheme>, rule: Duplicates, row: &mut Row) {
        let DataSet { keys, values, .. } = self.data;
        let heavy = keys.iter().take(1).cycle().take(keys.len() / 2);
        let copies = keys.iter().step_by(2).chain(heavy).copied();
        let greatest = values.iter().fold(0, |all, value| all | value);
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
        self.answers(&table, what, row);
        if let Some(expected) = row.digest.clone()
            && let Some(digest) = row.attempt(what, table.digest())
        {
            let same = digest.to_string() == expected;
            row.expect(what, if same { Ok(()) } else { Err("they left a trace in the bytes".into()) });
        }
    }

    /// Looks every query up and compares every answer; how long the lookup took, if it went through.
    fn answers(&self, table: &HashTable<Device, AnyScheme>, what: &str, row: &mut Row) -> Option<Duration> {
        let queries = &self.data.queries;
        let (mut values, mut found) = answers::poisoned(queries.len());
        let start = Instant::now();
        let done = table.get_into(queries, &mut values, &mut found);
        let time = start.elapsed();
        row.attempt(what, done)?;
        row.expect(what, answers::check(queries, &values, &found, |i| self.data.answer(i)));
        Some(time)
    }
}
