//! Lookups: queries are partitioned, each shard looks up its own, and answers are gathered in the order of the queries.

use super::super::devices::map_shards;
use super::super::host_partition::{MOST_ROWS, Partitioned};
use super::super::reading::of_shard;
use super::ShardedMulti;
use crate::backend::Runs;
use crate::error::Result;
use crate::memory;
use crate::multi::{MultiTable, Retrieved, len_at_once};
use crate::scheme::{Scheme, Value};

impl<B: Runs<S>, S: Scheme<Value = u32>, V: Value> ShardedMulti<B, S, V> {
    /// Returns all values of all queries, in the order of the queries, the values of a query in the order of the input;
    /// see [`MultiTable::retrieve`].
    ///
    /// Cost: the host partitions the queries, 2^24 at a time, all devices look them up, and the values are copied once
    /// more to their destination: memory holds all values of 2^24 queries twice.
    ///
    /// # Errors
    /// [`Error::TooLarge`](crate::Error::TooLarge) for 2^32 or more values; query fewer keys at a time.
    /// [`OutOfMemory`](crate::Error::OutOfMemory) or what a device reports.
    pub fn retrieve(&self, queries: &[S::Key]) -> Result<Retrieved<V>> {
        let mut all = Retrieved { offsets: memory::reserved(queries.len().saturating_add(1))?, values: Vec::new() };
        all.offsets.push(0);
        for queries in queries.chunks(MOST_ROWS) {
            let partitioned = Partitioned::of(&self.which, queries)?;
            let lists = self.answers(&partitioned, queries, &|table, mine| table.retrieve(&mine))?;
            let mut counts: Vec<u64> = memory::reserved(queries.len())?;
            for list in &lists {
                counts.extend(list.offsets.windows(2).map(|two| two[1] - two[0]));
            }
            let (mut of_rows, before) = (memory::zeroed(queries.len())?, all.offsets.len() - 1);
            partitioned.scatter_words(&counts, &mut of_rows);
            drop(counts);
            let mut end = all.values.len() as u64;
            all.offsets.extend(of_rows.into_iter().map(|count| {
                end += count;
                end
            }));
            let start = all.values.len();
            let len = len_at_once(end)? - start;
            memory::reserve(&mut all.values, len)?;
            all.values.resize(start + len, V::default());
            partitioned.scatter_lists(&lists, &all.offsets[before..], &mut all.values[start..]);
        }
        Ok(all)
    }

    /// Returns the number of values of each query; 0 for a miss. Cost and errors as
    /// [`Sharded::get`](super::super::Sharded::get).
    ///
    /// # Errors
    /// As [`Sharded::get`](super::super::Sharded::get).
    pub fn count(&self, queries: &[S::Key]) -> Result<Vec<u32>> {
        let mut all = memory::zeroed(queries.len())?;
        for (queries, all) in queries.chunks(MOST_ROWS).zip(all.chunks_mut(MOST_ROWS)) {
            let partitioned = Partitioned::of(&self.which, queries)?;
            let mut counts = memory::reserved(queries.len())?;
            for of_shard in self.answers(&partitioned, queries, &|table, mine| table.count(&mine))? {
                counts.extend(of_shard);
            }
            partitioned.scatter_words(&counts, all);
        }
        Ok(all)
    }

    /// Returns whether each query has values; cost and errors as [`count`](Self::count).
    ///
    /// # Errors
    /// As [`count`](Self::count).
    pub fn contains(&self, queries: &[S::Key]) -> Result<Vec<bool>> {
        let counts = self.count(queries)?;
        let mut all = memory::reserved(counts.len())?;
        all.extend(counts.into_iter().map(|count| count > 0));
        Ok(all)
    }

    /// All pairs, one shard after the other, those of a shard by key, and those of a key in the order of the input. The
    /// order does not depend on the devices.
    ///
    /// # Errors
    /// [`OutOfMemory`](crate::Error::OutOfMemory) or what a device reports.
    pub fn to_pairs(&self) -> Result<Vec<(S::Key, V)>> {
        let pairs = self.of_each(&|_, table| table.to_pairs())?;
        let mut all = memory::reserved(pairs.iter().map(Vec::len).sum())?;
        pairs.into_iter().for_each(|pairs| all.extend(pairs));
        Ok(all)
    }

    /// Looks up the queries of each shard.
    pub(in super::super) fn answers<R: Send>(
        &self,
        partitioned: &Partitioned,
        queries: &[S::Key],
        answer: &(dyn Fn(&MultiTable<B, S, V>, Vec<S::Key>) -> Result<R> + Sync),
    ) -> Result<Vec<R>> {
        self.of_each(&|shard, table| answer(table, of_shard(partitioned, shard, queries)?))
    }

    /// Calls `work` with each shard, on all devices at once, and returns the results in the order of the shards.
    pub(in super::super) fn of_each<R: Send>(
        &self,
        work: &(dyn Fn(usize, &MultiTable<B, S, V>) -> Result<R> + Sync),
    ) -> Result<Vec<R>> {
        map_shards(self.devices, self.tables.len(), &|shard| work(shard, &self.tables[shard]))
    }
}
