//! Verifying tables in shards: each device holds all shards of one, and all devices together hold one more. Under a limit of
//! memory also those that are built in a file and asked there.

use std::time::Instant;

use koel::backend::{HashBackend, Runs};
use koel::{Kind, Scheme, Sharded, ShardedBuilder, ShardedFile};

use super::{Check, Device};
use crate::number::Word;
use crate::verify::row::{Row, compare_digests, rate};
use crate::verify::shared_by;
use crate::verify::tables::equal;

/// Pieces of rows that the memory of a limit holds.
const PIECES: u64 = 32;

impl<K: Word, V: Word> Check<'_, K, V> {
    /// A row for each device, and one for all of them: one digest, and every answer right.
    pub(super) fn in_shards<S: Scheme<Key = K, Value = V>>(&self, scheme: &S, shards: usize) -> Vec<Row>
    where
        Device: Runs<S>,
    {
        let builder = self.run.size.apply(Sharded::builder(scheme.clone(), shards).seed(self.run.seed));
        let mut rows = Vec::new();
        for devices in shared_by(self.run.devices) {
            rows.push(self.row_of("shards", devices, scheme, |row| self.shards_in(row, devices, &builder)));
        }
        if let Some(bytes) = self.run.memory {
            for devices in shared_by(self.run.devices) {
                rows.push(self.row_of("file", devices, scheme, |row| self.file_of(row, devices, &builder, bytes)));
            }
        }
        compare_digests(&mut rows);
        rows
    }

    /// What is found out about tables of this sort on these devices.
    fn row_of<S: Scheme<Key = K, Value = V>>(
        &self,
        table: &'static str,
        devices: &[Device],
        scheme: &S,
        find_out: impl FnOnce(&mut Row),
    ) -> Row
    where
        Device: Runs<S>,
    {
        let ids: Vec<_> = devices.iter().map(|device| device.info().id.as_str()).collect();
        let mut row = Row { table, no_reference: None, ..self.row(scheme, ids.join(",")) };
        self.say(scheme, &format!("{table} on {}", row.device));
        // What other tables did here is no part of this row.
        devices.iter().for_each(|device| drop(device.ledger().take()));
        find_out(&mut row);
        row.stages = devices.iter().flat_map(|device| device.ledger().take()).collect();
        self.run.progress.step();
        row
    }

    /// Rows come in pieces of which this much memory holds many, go to a temporary file, and from there shard by shard into
    /// another, which is asked as it lies.
    fn file_of<S: Scheme<Key = K, Value = V>>(
        &self,
        row: &mut Row,
        devices: &[Device],
        builder: &ShardedBuilder<S>,
        memory: u64,
    ) where
        Device: Runs<S>,
    {
        let rows = (memory / PIECES / (size_of::<K>() + size_of::<V>()) as u64).clamp(1, 1 << 20) as usize;
        let Some(folder) = row.attempt("a temporary folder", tempfile::tempdir()) else { return };
        let (path, start) = (folder.path().join("table.koel"), Instant::now());
        let (keys, values) = (self.data.keys.chunks(rows), self.data.values.chunks(rows));
        let built = builder.spilled(folder.path()).and_then(|mut build| {
            keys.zip(values).try_for_each(|(keys, values)| build.push(keys, values))?;
            build.save(devices, &path)
        });
        let time = start.elapsed();
        let Some(digest) = row.attempt("build", built) else { return };
        row.build = Some(rate(self.data.keys.len(), time));
        let Some(table) = row.attempt("open", ShardedFile::<_, S>::open(devices, &path)) else { return };
        row.expect("pairs", equal("how many", table.len(), self.data.keys.len() as u64));
        let get = |queries: &[K], values: &mut [V], found: &mut [u32]| table.get_into(queries, values, found);
        if let Some(time) = self.answers(get, "answers", row) {
            row.lookup = Some(rate(self.data.queries.len(), time));
        }
        if self.kind == Kind::Canonical {
            row.digest = Some(digest.to_string());
        }
    }

    fn shards_in<S: Scheme<Key = K, Value = V>>(&self, row: &mut Row, devices: &[Device], builder: &ShardedBuilder<S>)
    where
        Device: Runs<S>,
    {
        let start = Instant::now();
        let built = builder.build(devices, &self.data.keys, &self.data.values);
        let built = built.and_then(|table| devices.iter().try_for_each(HashBackend::finish).map(|()| table));
        let time = start.elapsed();
        let Some(table) = row.attempt("build", built) else { return };
        row.build = Some(rate(self.data.keys.len(), time));
        row.restarts = table.restarts();
        row.expect("audit", table.audit().map(drop).map_err(|error| error.to_string()));
        let get = |queries: &[K], values: &mut [V], found: &mut [u32]| table.get_into(queries, values, found);
        if let Some(time) = self.answers(get, "answers", row) {
            row.lookup = Some(rate(self.data.queries.len(), time));
        }
        if self.kind == Kind::Canonical {
            row.digest = row.attempt("digest", table.digest()).map(|digest| digest.to_string());
        }
    }
}
