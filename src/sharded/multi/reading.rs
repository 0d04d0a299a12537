//! Lookups: queries are partitioned, each shard looks up its own, and answers are gathered in the order of the queries.

use super::super::devices::map_shards;
use super::super::host_partition::{MOST_ROWS, Partitioned};
use super::super::reading::of_shard;
use super::ShardedMulti;
use crate::backend::Runs;
use crate::error::{Error, Result};
use crate::memory;
use crate::multi::{MultiTable, Retrieved, len_at_once};
use crate::scheme::{Scheme, Value};

/// Queries whose values are counted at a time.
const QUERIES: usize = if cfg!(test) { 1 << 10 } else { 1 << 22 };

impl<B: Runs<S>, S: Scheme<Value = u32>, V: Value> ShardedMulti<B, S, V> {
    /// Returns all values of all queries, in the order of the queries, the values of a query in the order of the input;
    /// see [`MultiTable::retrieve`].
    ///
    /// Cost: the host partitions the queries, 2^24 at a time, all devices look them up, and the values are copied once
    /// more to their destination: memory holds all values of 2^24 queries twice.
    ///
    /// # Errors
    /// [`Error::TooLarge`] for 2^32 or more values, for which [`retrieve_pieces`](Self::retrieve_pieces) exists;
    /// [`Error::OutOfMemory`] or what a device reports.
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

    /// As [`retrieve`](Self::retrieve), for totals that do not fit in memory: calls `take` with the number of the first
    /// query of a piece, and the values of its queries. A piece has at least one query, and otherwise at most `values`
    /// values; all values of a query are in one piece. Cost: each query is looked up twice.
    ///
    /// ```
    /// use koel::{Cpu, Cuckoo, ShardedMulti};
    /// let table = ShardedMulti::builder(Cuckoo::default(), 2).build(&[Cpu::new()], &[5, 9, 5], &[1, 2, 3])?;
    /// let mut pieces = Vec::new();
    /// table.retrieve_pieces(&[9, 7, 5], 2, |first, found| {
    ///     pieces.push((first, found.values));
    ///     Ok::<_, koel::Error>(())
    /// })?;
    /// assert_eq!(pieces, [(0, vec![2]), (2, vec![1, 3])]);
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`retrieve`](Self::retrieve), if one query has 2^32 or more values; and those of `take`, after which the call
    /// stops.
    pub fn retrieve_pieces<E: From<Error>>(
        &self,
        queries: &[S::Key],
        values: u64,
        mut take: impl FnMut(usize, Retrieved<V>) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        for (number, queries) in queries.chunks(QUERIES).enumerate() {
            let counts = self.count(queries)?;
            let mut start = 0;
            while start < queries.len() {
                let end = start + queries_of_a_piece(&counts[start..], values);
                take(number * QUERIES + start, self.retrieve(&queries[start..end])?)?;
                start = end;
            }
        }
        Ok(())
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
    /// [`Error::OutOfMemory`] or what a device reports.
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

/// The number of leading queries, at least one, that have at most `most` values together.
fn queries_of_a_piece(counts: &[u32], most: u64) -> usize {
    let mut sum = 0;
    let fits = |count: &&u32| {
        sum += u64::from(**count);
        sum <= most
    };
    counts.iter().take_while(fits).count().max(1)
}
