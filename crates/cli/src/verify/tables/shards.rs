//! Verifies sharded sets and multivalue tables: on each device, and on all devices together.

use std::collections::BTreeSet;
use std::time::Instant;

use koel::backend::{HashBackend, Runs};
use koel::{Kind, Scheme, ShardedMulti, ShardedSet};

use super::model::{equal, same};
use super::set::keys_are;
use super::{Case, Device, Subject, sized, timed};
use crate::number::Word;
use crate::verify::row::{Row, compare_digests, rate};
use crate::verify::shared_by;

impl<S: Scheme> Case<'_, S>
where
    S::Key: Word,
{
    /// One row for each device, and one for all devices together.
    pub(super) fn rows_in_shards<T: Subject<S>>(&self, subject: &T, shards: usize) -> Vec<Row> {
        let of = |devices: &[Device]| {
            let ids: Vec<_> = devices.iter().map(|device| device.info().id.as_str()).collect();
            let mut row = self.row::<T>(ids.join(","));
            devices.iter().for_each(|device| drop(device.ledger().take()));
            subject.in_shards(self, shards, devices, &mut row);
            row.stages = devices.iter().flat_map(|device| device.ledger().take()).collect();
            self.run.progress.step();
            row
        };
        let mut rows: Vec<Row> = shared_by(self.run.devices).map(of).collect();
        compare_digests(&mut rows);
        rows
    }

    /// Builds a table, waits for all devices, and records the rate.
    fn built<T>(&self, devices: &[Device], build: impl FnOnce() -> koel::Result<T>, row: &mut Row) -> Option<T> {
        let start = Instant::now();
        let built = build().and_then(|built| devices.iter().try_for_each(HashBackend::finish).map(|()| built));
        row.build = Some(rate(self.data.columns.keys.len(), start.elapsed()));
        row.attempt("build", built)
    }
}

/// Checks a set, also after half of its keys were removed and inserted again.
pub(super) fn set<S: Scheme>(case: &Case<'_, S>, shards: usize, devices: &[Device], row: &mut Row)
where
    Device: Runs<S>,
    S::Key: Word,
{
    let builder = sized(ShardedSet::builder(case.scheme.clone(), shards), case.run);
    let Some(mut set) = case.built(devices, || builder.build(devices, &case.data.columns.keys), row) else { return };
    let right = BTreeSet::from_iter(case.data.model.ascending());
    row.restarts = set.table().restarts();
    row.expect("audit", set.audit().map(drop).map_err(|error| error.to_string()));
    let queried = case.data.columns.queried(&case.data.model.first_seen);
    let (answers, time) = timed(|| set.contains(&queried));
    if let Some(answers) = row.attempt("contains", answers) {
        row.lookup = Some(rate(queried.len(), time));
        let right: Vec<_> = queried.iter().map(|key| right.contains(key)).collect();
        row.expect("contains", same("answers", &answers, &right));
    }
    keys_are(set.len(), set.to_keys(), &right, "keys", row);
    if case.kind == Kind::Canonical {
        row.digest = row.attempt("digest", set.digest()).map(|digest| digest.to_string());
    }
    let some: Vec<S::Key> = right.iter().copied().step_by(2).collect();
    let gone = [&some[..], &case.data.columns.absent, &some].concat();
    if let Some(removed) = row.attempt("remove", set.remove(&gone)) {
        row.expect("remove", equal("how many", removed, some.len()));
    }
    let left: BTreeSet<S::Key> = right.iter().copied().filter(|key| some.binary_search(key).is_err()).collect();
    keys_are(set.len(), set.to_keys(), &left, "keys after a removal", row);
    if row.attempt("compact", set.compact()).is_none() {
        return;
    }
    if let Some(new) = row.attempt("insert", set.insert(&case.data.columns.keys)) {
        row.expect("insert", equal("how many", new, some.len()));
    }
    keys_are(set.len(), set.to_keys(), &right, "keys after an insertion", row);
}

/// Checks the values of each key of a multivalue table, also after half of the keys were removed.
pub(super) fn multi<S: Scheme<Value = u32>>(case: &Case<'_, S>, shards: usize, devices: &[Device], row: &mut Row)
where
    Device: Runs<S>,
    S::Key: Word,
{
    let (columns, model) = (&case.data.columns, &case.data.model);
    let builder = sized(ShardedMulti::builder(case.scheme.clone(), shards), case.run);
    let build = || builder.build(devices, &columns.keys, &columns.values);
    let Some(mut table) = case.built(devices, build, row) else { return };
    row.expect("audit", table.audit().map(drop).map_err(|error| error.to_string()));
    row.expect("len", equal("pairs", table.len(), columns.keys.len()));
    let queried = columns.queried(&model.first_seen);
    let (counts, time) = timed(|| table.count(&queried));
    if let Some(counts) = row.attempt("count", counts) {
        row.lookup = Some(rate(queried.len(), time));
        let right: Vec<_> = queried.iter().map(|&key| model.of(key).len() as u32).collect();
        row.expect("count", same("counts", &counts, &right));
    }
    // Absent keys, and each key once: heavy keys have too many values to be looked up often.
    let queried = [&columns.absent[..], &model.first_seen].concat();
    let gone: Vec<S::Key> = model.rows.keys().copied().step_by(2).collect();
    lists(case, &table, &queried, &[], "retrieve", row);
    if case.kind == Kind::Canonical {
        row.digest = row.attempt("digest", table.digest()).map(|digest| digest.to_string());
    }
    let Some(removed) = row.attempt("remove", table.remove(&[&gone[..], &columns.absent].concat())) else { return };
    let pairs: usize = gone.iter().map(|&key| model.of(key).len()).sum();
    row.expect("remove", equal("pairs", removed, pairs));
    lists(case, &table, &queried, &gone, "what is left", row);
}

/// Checks that the values of these keys are those of their rows, in order, and that the removed keys (ascending) have
/// none.
fn lists<S: Scheme<Value = u32>>(
    case: &Case<'_, S>,
    table: &ShardedMulti<Device, S>,
    queried: &[S::Key],
    gone: &[S::Key],
    what: &str,
    row: &mut Row,
) where
    Device: Runs<S>,
    S::Key: Word,
{
    let (mut offsets, mut values) = (vec![0], Vec::new());
    for &key in queried {
        if gone.binary_search(&key).is_err() {
            values.extend(case.data.model.of(key).iter().map(|&row| case.data.columns.values[row as usize]));
        }
        offsets.push(values.len() as u64);
    }
    if let Some(got) = row.attempt(what, table.retrieve(queried)) {
        row.expect(what, same("offsets", &got.offsets, &offsets).and(same("values", &got.values, &values)));
    }
    if let Some(mut pairs) = row.attempt(what, table.to_pairs()) {
        let stays = |key: &S::Key| gone.binary_search(key).is_err();
        let kept = case.data.columns.keys.iter().zip(&case.data.columns.values).filter(|(key, _)| stays(key));
        let mut right: Vec<_> = kept.map(|(&key, &value)| (key, value)).collect();
        // Shards are stored one after the other; the values of a key are in the order of its rows.
        pairs.sort_by_key(|&(key, _)| key);
        right.sort_by_key(|&(key, _)| key);
        row.expect(what, same("pairs", &pairs, &right));
    }
}
