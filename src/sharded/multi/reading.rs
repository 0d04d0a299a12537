//! Answers: queries are dealt, each shard answers its own, and what they say is brought back in the order of the queries.

use super::super::deal::{Dealt, MOST_ROWS};
use super::super::devices::map_shards;
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
    /// All values of all queries, in their order, those of one query in the order of the input; see
    /// [`MultiTable::retrieve`].
    ///
    /// Cost: queries are dealt by the threads of this machine, 2^24 at a time, answered by all devices, and what they find is
    /// copied once more to where it belongs: of 2^24 queries all values are in memory twice.
    ///
    /// # Errors
    /// [`Error::TooLarge`] from 2^32 values on, which [`retrieve_pieces`](Self::retrieve_pieces) gives;
    /// [`Error::OutOfMemory`] or what a device reports.
    pub fn retrieve(&self, queries: &[S::Key]) -> Result<Retrieved<V>> {
        let mut all = Retrieved { offsets: memory::reserved(queries.len().saturating_add(1))?, values: Vec::new() };
        all.offsets.push(0);
        for queries in queries.chunks(MOST_ROWS) {
            let dealt = Dealt::of(&self.which, queries)?;
            let lists = self.answers(&dealt, queries, &|table, mine| table.retrieve(&mine))?;
            let mut counts: Vec<u64> = memory::reserved(queries.len())?;
            for list in &lists {
                counts.extend(list.offsets.windows(2).map(|two| two[1] - two[0]));
            }
            let (mut of_rows, before) = (memory::zeroed(queries.len())?, all.offsets.len() - 1);
            dealt.bring_words_back(&counts, &mut of_rows);
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
            dealt.bring_lists_back(&lists, &all.offsets[before..], &mut all.values[start..]);
        }
        Ok(all)
    }

    /// [`retrieve`](Self::retrieve) of as many queries at a time as have `values` values together, one or more: for totals
    /// that do not fit. `take` is given the number of the first of them, and their values; all values of a query come
    /// together. Cost: each query is looked up twice.
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
    /// As [`retrieve`](Self::retrieve), if one query has 2^32 values; and those of `take`, after which nothing more is done.
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

    /// How many values each query has; 0 for a key that is absent. Cost and errors as
    /// [`Sharded::get`](super::super::Sharded::get).
    ///
    /// # Errors
    /// As [`Sharded::get`](super::super::Sharded::get).
    pub fn count(&self, queries: &[S::Key]) -> Result<Vec<u32>> {
        let mut all = memory::zeroed(queries.len())?;
        for (queries, all) in queries.chunks(MOST_ROWS).zip(all.chunks_mut(MOST_ROWS)) {
            let dealt = Dealt::of(&self.which, queries)?;
            let mut counts = memory::reserved(queries.len())?;
            for of_shard in self.answers(&dealt, queries, &|table, mine| table.count(&mine))? {
                counts.extend(of_shard);
            }
            dealt.bring_words_back(&counts, all);
        }
        Ok(all)
    }

    /// Whether each query has values; cost and errors as [`count`](Self::count).
    ///
    /// # Errors
    /// As [`count`](Self::count).
    pub fn contains(&self, queries: &[S::Key]) -> Result<Vec<bool>> {
        let counts = self.count(queries)?;
        let mut all = memory::reserved(counts.len())?;
        all.extend(counts.into_iter().map(|count| count > 0));
        Ok(all)
    }

    /// All pairs, shard by shard, those of a shard by key, and those of one key in the order of the input: one order,
    /// whatever the devices.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] or what a device reports.
    pub fn to_pairs(&self) -> Result<Vec<(S::Key, V)>> {
        let pairs = self.of_each(&|_, table| table.to_pairs())?;
        let mut all = memory::reserved(pairs.iter().map(Vec::len).sum())?;
        pairs.into_iter().for_each(|pairs| all.extend(pairs));
        Ok(all)
    }

    /// What each shard answers to its queries.
    pub(in super::super) fn answers<R: Send>(
        &self,
        dealt: &Dealt,
        queries: &[S::Key],
        answer: &(dyn Fn(&MultiTable<B, S, V>, Vec<S::Key>) -> Result<R> + Sync),
    ) -> Result<Vec<R>> {
        self.of_each(&|shard, table| answer(table, of_shard(dealt, shard, queries)?))
    }

    /// Calls `work` with each shard, on all devices at once, and returns the results in the order of the shards.
    pub(in super::super) fn of_each<R: Send>(
        &self,
        work: &(dyn Fn(usize, &MultiTable<B, S, V>) -> Result<R> + Sync),
    ) -> Result<Vec<R>> {
        map_shards(self.devices, self.tables.len(), &|shard| work(shard, &self.tables[shard]))
    }
}

/// How many queries with so many values each, one or more, have no more than `most` values together.
fn queries_of_a_piece(counts: &[u32], most: u64) -> usize {
    let mut sum = 0;
    let fits = |count: &&u32| {
        sum += u64::from(**count);
        sum <= most
    };
    counts.iter().take_while(fits).count().max(1)
}
