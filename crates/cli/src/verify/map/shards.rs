//! Verifies sharded tables: one on each device, and one on all devices together. With a memory limit, also tables that
//! are built in a file and queried there.

use std::time::Instant;

use koel::Kind;
use koel::backend::HashBackend;

use super::Device;
use super::check::{Check, answers};
use super::subject::Subject;
use crate::verify::row::{Row, compare_digests, rate};
use crate::verify::shared_by;
use crate::verify::tables::equal;

impl Check<'_> {
    /// One row for each device, and one for all devices together. Checks that their digests are equal, and that every
    /// answer is right.
    pub(super) fn in_shards(&self, subject: &dyn Subject, shards: usize) -> Vec<Row> {
        let mut rows = Vec::new();
        for devices in shared_by(self.run.devices) {
            rows.push(self.row_of("shards", devices, subject, |row| self.shards_in(row, devices, subject, shards)));
        }
        if let Some(bytes) = self.run.memory {
            for devices in shared_by(self.run.devices) {
                rows.push(self.row_of("file", devices, subject, |row| {
                    self.file_of(row, devices, subject, shards, bytes);
                }));
            }
        }
        compare_digests(&mut rows);
        rows
    }

    /// The row of one kind of table on these devices.
    fn row_of(
        &self,
        table: &'static str,
        devices: &[Device],
        subject: &dyn Subject,
        check: impl FnOnce(&mut Row),
    ) -> Row {
        let ids: Vec<_> = devices.iter().map(|device| device.info().id.as_str()).collect();
        let mut row = Row { table, no_reference: None, ..self.row(subject, ids.join(",")) };
        self.say(subject, &format!("{table} on {}", row.device));
        // Discards the stages of other tables on these devices.
        devices.iter().for_each(|device| drop(device.ledger().take()));
        check(&mut row);
        row.stages = devices.iter().flat_map(|device| device.ledger().take()).collect();
        self.run.progress.step();
        row
    }

    /// Spills the rows to a temporary file, in chunks that are small compared with the memory limit. Builds the table
    /// from that file one shard at a time, and queries it in its own file.
    fn file_of(&self, row: &mut Row, devices: &[Device], subject: &dyn Subject, shards: usize, memory: u64) {
        let Some(folder) = row.attempt("a temporary folder", tempfile::tempdir()) else { return };
        let (path, start) = (folder.path().join("table.koel"), Instant::now());
        let built = subject.save_spilled(devices, shards, memory, folder.path(), &path);
        let time = start.elapsed();
        let Some(digest) = row.attempt("build", built) else { return };
        row.build = Some(rate(self.pairs, time));
        let Some(table) = row.attempt("open", subject.open_file(devices, &path)) else { return };
        row.expect("pairs", equal("how many", table.pairs(), self.pairs as u64));
        if let Some(time) = answers(&*table, "answers", row) {
            row.lookup = Some(rate(self.queries, time));
        }
        if self.kind == Kind::Canonical {
            row.digest = Some(digest.to_string());
        }
    }

    fn shards_in(&self, row: &mut Row, devices: &[Device], subject: &dyn Subject, shards: usize) {
        let start = Instant::now();
        let built = subject.build_shards(devices, shards);
        let built = built.and_then(|table| devices.iter().try_for_each(HashBackend::finish).map(|()| table));
        let time = start.elapsed();
        let Some(table) = row.attempt("build", built) else { return };
        row.build = Some(rate(self.pairs, time));
        row.restarts = table.restarts();
        row.expect("audit", table.audit().map_err(|error| error.to_string()));
        if let Some(time) = answers(&*table, "answers", row) {
            row.lookup = Some(rate(self.queries, time));
        }
        if self.kind == Kind::Canonical {
            row.digest = row.attempt("digest", table.digest()).map(|digest| digest.to_string());
        }
    }
}
