//! Verifying tables in shards: each device holds all shards of one, and all devices together hold one more.

use std::time::Instant;

use koel::backend::{HashBackend, Runs};
use koel::{Kind, Scheme, Sharded, ShardedBuilder};

use super::{Check, Device};
use crate::number::Word;
use crate::verify::row::{Row, compare_digests, rate};

/// The devices that hold a table together: each alone, then all, where there are several.
pub(super) fn of(devices: &[Device]) -> impl Iterator<Item = &[Device]> {
    devices.chunks(1).chain((devices.len() > 1).then_some(devices))
}

impl<K: Word, V: Word> Check<'_, K, V> {
    /// A row for each device, and one for all of them: one digest, and every answer right.
    pub(super) fn in_shards<S: Scheme<Key = K, Value = V>>(&self, scheme: &S, shards: usize) -> Vec<Row>
    where
        Device: Runs<S>,
    {
        let builder = self.run.size.apply(Sharded::builder(scheme.clone(), shards).seed(self.run.seed));
        let mut rows: Vec<Row> =
            of(self.run.devices).map(|devices| self.shards_on(devices, scheme, &builder)).collect();
        compare_digests(&mut rows);
        rows
    }

    fn shards_on<S: Scheme<Key = K, Value = V>>(
        &self,
        devices: &[Device],
        scheme: &S,
        builder: &ShardedBuilder<S>,
    ) -> Row
    where
        Device: Runs<S>,
    {
        let ids: Vec<_> = devices.iter().map(|device| device.info().id.as_str()).collect();
        let mut row = Row { table: "shards", no_reference: None, ..self.row(scheme, ids.join(",")) };
        self.say(scheme, &format!("shards on {}", row.device));
        // What other tables did here is no part of this row.
        devices.iter().for_each(|device| drop(device.ledger().take()));
        self.shards_in(&mut row, devices, builder);
        row.stages = devices.iter().flat_map(|device| device.ledger().take()).collect();
        self.run.progress.step();
        row
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
