//! Lookups, pairs, digest, audit and statistics of sharded tables.

use super::Sharded;
use super::device_lookup::Shards;
use super::devices::{map_shards, on_devices};
use super::file::digest_of;
use super::host_partition::{MOST_ROWS, Partitioned};
use super::in_file::{Part, answered};
use crate::backend::chunks::make;
use crate::backend::{Runs, bitmap_words};
use crate::error::{Error, Result};
use crate::memory;
use crate::parallel::{Per, each};
use crate::scheme::shard::ShardOf;
use crate::scheme::{Audit, Key, Scheme, Value, Violation};
use crate::table::{Digest, HashTable, Stats};

/// The most queries that a device partitions at a time: few enough to leave its memory to the shards.
const QUERIES: usize = if cfg!(test) { 1 << 9 } else { 1 << 24 };

/// Bits that a thread unpacks at a time.
const BITS_AT_ONCE: usize = 1 << 14;

impl<B: Runs<S>, S: Scheme> Sharded<B, S> {
    /// Returns the value of each query, in the order of the queries.
    ///
    /// Cost: queries are partitioned by shard, looked up on all devices, and the answers are gathered. Devices with
    /// separate memory partition the queries themselves. The host partitions them, 2^24 at a time, if a device uses
    /// host memory or lacks memory for the queries, if there are few queries, or if there are more than 256 shards. One
    /// thread is started per device, except for the first, so a lookup of few queries costs more than in a single
    /// table.
    ///
    /// # Errors
    /// [`OutOfMemory`](crate::Error::OutOfMemory) or what a device reports.
    pub fn get(&self, queries: &[S::Key]) -> Result<Vec<Option<S::Value>>> {
        let (mut values, mut found) = (memory::zeroed(queries.len())?, memory::zeroed(bitmap_words(queries.len()))?);
        self.get_into(queries, &mut values, &mut found)?;
        options(&values, &found)
    }

    /// As [`get`](Self::get), but writes to slices: `values[i]` is the value or 0, and bit `i % 32` of `found[i / 32]`
    /// is set for a hit.
    ///
    /// # Errors
    /// [`LengthMismatch`](crate::Error::LengthMismatch) unless `values` is as long as `queries` and `found` has one bit
    /// for each, rounded up to whole words; otherwise as [`get`](Self::get).
    pub fn get_into(&self, queries: &[S::Key], values: &mut [S::Value], found: &mut [u32]) -> Result<()> {
        Error::check_length("values", values.len(), queries.len())?;
        Error::check_length("found", found.len(), bitmap_words(queries.len()))?;
        if self.answered_by_devices(queries, Some(&mut *values), found)? {
            return Ok(());
        }
        let look_up = |partitioned: &Partitioned, queries: &[S::Key], parts: Vec<Part<'_, S::Value>>| {
            // There is an item for every shard, so that each shard is looked up by its own device.
            let mut items: Vec<Option<_>> = (0..self.which.shards).map(|_| None).collect();
            parts.into_iter().for_each(|(shard, part)| items[shard] = Some(part));
            on_devices(self.devices, items, &|shard, part: Option<(&mut [S::Value], &mut [u8])>| match part {
                Some((words, hits)) => {
                    answer(&self.tables[shard], &of_shard(partitioned, shard, queries)?, words, hits)
                }
                None => Ok(()),
            })?;
            Ok(())
        };
        answered(&self.which, &look_up, queries, values, found)
    }

    /// Answers on the devices if they should partition the queries. Returns whether they did.
    fn answered_by_devices(
        &self,
        queries: &[S::Key],
        values: Option<&mut [S::Value]>,
        found: &mut [u32],
    ) -> Result<bool> {
        // Only devices that have shards take part.
        let devices: Vec<B> = self.tables.iter().take(self.devices).map(|table| table.backend().clone()).collect();
        let shards = Shards { which: &self.which, devices: &devices, at_once: QUERIES, tables: &self.tables };
        shards.answer_on_devices(queries, values, found)
    }

    /// Returns whether each query is in the table, in the order of the queries; cost and errors as [`get`](Self::get).
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn contains(&self, queries: &[S::Key]) -> Result<Vec<bool>> {
        let mut found = memory::zeroed(bitmap_words(queries.len()))?;
        if self.answered_by_devices(queries, None, &mut found)? {
            return flags(queries.len(), &found);
        }
        for (queries, found) in queries.chunks(MOST_ROWS).zip(found.chunks_mut(MOST_ROWS / 32)) {
            let partitioned = Partitioned::of(&self.which, queries)?;
            let mut hits = memory::zeroed(queries.len())?;
            on_devices(self.devices, partitioned.cut(&mut hits), &|shard, hits: &mut [u8]| {
                let mine = of_shard(&partitioned, shard, queries)?;
                if !mine.is_empty() {
                    hits.iter_mut()
                        .zip(self.tables[shard].contains(&mine)?)
                        .for_each(|(hit, there)| *hit = there.into());
                }
                Ok(())
            })?;
            partitioned.scatter_bits(&hits, found);
        }
        flags(queries.len(), &found)
    }

    /// All pairs, one shard after the other, those of a shard in the order of
    /// [`HashTable::to_pairs`](crate::HashTable::to_pairs): the order does not depend on the devices.
    ///
    /// # Errors
    /// [`OutOfMemory`](crate::Error::OutOfMemory) or what a device reports.
    pub fn to_pairs(&self) -> Result<Vec<(S::Key, S::Value)>> {
        let pairs = self.of_each(&|_, table| table.to_pairs())?;
        let mut all = memory::reserved(pairs.iter().map(Vec::len).sum())?;
        pairs.into_iter().for_each(|pairs| all.extend(pairs));
        Ok(all)
    }

    /// Iterates over all pairs; order, cost and errors as [`to_pairs`](Self::to_pairs).
    ///
    /// # Errors
    /// As [`to_pairs`](Self::to_pairs).
    pub fn iter(&self) -> Result<std::vec::IntoIter<(S::Key, S::Value)>> {
        Ok(self.to_pairs()?.into_iter())
    }

    /// The digest of the table: if the table is canonical and has no tombstones, it depends only on the contents, the
    /// parameters, the seed and the number of shards.
    ///
    /// Cost: every shard's image is copied to the host and hashed.
    ///
    /// # Errors
    /// What a device reports.
    pub fn digest(&self) -> Result<Digest> {
        Ok(digest_of(&self.which, &self.of_each(&|_, table| table.digest())?))
    }

    /// Checks every invariant of every shard, and that each key is in its shard.
    ///
    /// # Errors
    /// [`Damaged`](crate::Error::Damaged) with the first violation in the order of shards, or what a device reports.
    pub fn audit(&self) -> Result<Audit> {
        let audits = self.of_each(&|shard, table| {
            let audit = table.audit()?;
            has_own_keys(&self.which, shard, table)?;
            Ok(audit)
        })?;
        Ok(audits.into_iter().fold(Audit::default(), Audit::join))
    }

    /// Counts ages, reads and buckets in all shards; see [`HashTable::stats`]. Counts, including restarts, are sums
    /// over all shards. The reads of a lookup are means: of a hit over all keys, of a miss over all shards, because an
    /// absent key may belong to any of them.
    ///
    /// # Errors
    /// What a device reports.
    pub fn stats(&self) -> Result<Stats> {
        Ok(Stats::of_shards(&self.of_each(&|_, table| table.stats())?))
    }

    /// Calls `work` with each shard, on all devices at once, and returns the results in the order of the shards.
    pub(super) fn of_each<R: Send>(
        &self,
        work: &(dyn Fn(usize, &HashTable<B, S>) -> Result<R> + Sync),
    ) -> Result<Vec<R>> {
        map_shards(self.devices, self.tables.len(), &|shard| work(shard, &self.tables[shard]))
    }
}

/// Returns an error if a key is stored in a shard that it does not belong to.
pub(super) fn has_own_keys<B: Runs<S>, S: Scheme>(
    which: &ShardOf,
    shard: usize,
    table: &HashTable<B, S>,
) -> Result<()> {
    match table.to_pairs()?.iter().find(|pair| which.of(pair.0) != shard) {
        Some(&(key, _)) => Err(Violation::Stray { shard: shard as u64, key: key.into() }.into()),
        None => Ok(()),
    }
}

/// The queries of a shard.
pub(super) fn of_shard<K: Key>(partitioned: &Partitioned, shard: usize, queries: &[K]) -> Result<Vec<K>> {
    let mut mine = memory::reserved(partitioned.len(shard))?;
    partitioned.append(shard, queries, &mut mine)?;
    Ok(mine)
}

/// Looks up queries in a shard's table: writes their values, and a byte for each that is 1 for a hit.
pub(super) fn answer<B: Runs<S>, S: Scheme>(
    table: &HashTable<B, S>,
    queries: &[S::Key],
    values: &mut [S::Value],
    hits: &mut [u8],
) -> Result<()> {
    if !queries.is_empty() {
        let mut bits = memory::zeroed(bitmap_words(queries.len()))?;
        table.get_into(queries, values, &mut bits)?;
        unpack(&bits, hits);
    }
    Ok(())
}

/// The value of each query, or `None` for a miss.
pub(super) fn options<V: Value>(values: &[V], found: &[u32]) -> Result<Vec<Option<V>>> {
    let mut all = memory::reserved(values.len())?;
    make(&mut all, values.len(), |i| (found[i / 32] >> (i % 32) & 1 == 1).then_some(values[i]))?;
    Ok(all)
}

/// The first `len` bits as bools.
pub(super) fn flags(len: usize, found: &[u32]) -> Result<Vec<bool>> {
    let mut all = memory::reserved(len)?;
    make(&mut all, len, |i| found[i / 32] >> (i % 32) & 1 == 1)?;
    Ok(all)
}

/// Expands each bit to a byte.
fn unpack(bits: &[u32], hits: &mut [u8]) {
    each((hits, Per(32, bits)), BITS_AT_ONCE, |_, (hits, Per(_, bits))| {
        hits.iter_mut().enumerate().for_each(|(i, hit)| *hit = (bits[i / 32] >> (i % 32) & 1) as u8);
    });
}
