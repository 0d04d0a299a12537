//! First occurrences: for each key of a column its first row, and lookups of these rows for other columns.
//!
//! ```text
//! dense     the range of the keys is not much longer than the column: a cell for each key of the range
//! hashed    otherwise: a table of the distinct keys, sized by an estimate of their number;
//!           after a bitmap of the keys of the range, if that is not too long (present.rs)
//! sorted    keys chosen against every hash that was tried: the distinct keys in order, with binary search
//!
//! build     each row raises the cell of its key to !row, where zero means no row, so the first row remains
//!           (a row reads before it writes: rows of a chunk ascend, so writes are about as rare as distinct keys)
//! look      the cell of each query; !0 is NO_ROW
//! renumber  replaces each first row by another number, such as the id of its key
//! ```
//!
//! Threads write to one table in any order: the greatest `!row` does not depend on it. The cell of a key may depend on
//! the order, but is not visible outside.
//!
//! If only the keys of a column are to be numbered, these structures are often not needed: one thread numbers a column
//! in one pass if it is short, or if there are few threads and not too many keys (`brief.rs`), and several threads
//! number many keys by partitions (`partitioned.rs`).
//!
//! Why an index for lookups is not partitioned: each query would have to be moved to its partition and back. Cells are
//! prefetched a block ahead, and one core waits for a hundred of them at once, which takes less time.
//!
//! These tables are not tables of this crate's schemes: they are not canonical, have no files, and do not change.

mod brief;
mod dense;
mod estimate;
mod hashed;
mod numbered;
mod partitioned;
mod present;
mod sorted;
#[cfg(test)]
mod tests;

use std::sync::atomic::AtomicU32;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::lanes::at_best;
use super::{CHUNK, Cpu, Memory};
use crate::backend::join_rows::NO_ROW;
use crate::error::Result;
use crate::parallel::{each, fold};
use crate::scheme::Key;

use dense::Dense;
use hashed::Hashed;
use present::Present;
use sorted::Sorted;

pub(in crate::cpu) use numbered::{Numbered, Numbering};
pub(in crate::cpu) use partitioned::ByPartition;

/// The most rows that one thread processes alone: waking other threads takes as long as this work.
const ALONE: usize = if cfg!(miri) { 16 } else { 1 << 16 };
/// The greatest range of keys that is addressed directly for any number of rows, and the range per row for long
/// columns.
const RANGE: u64 = 1 << 16;
const RANGE_A_ROW: u64 = 4;

/// The greatest range of keys that is addressed directly, for this number of rows.
fn most_addressed(rows: usize) -> u64 {
    RANGE.max(RANGE_A_ROW.saturating_mul(rows as u64)).min(u32::MAX.into())
}

/// Whether one thread processes this number of rows.
pub(super) fn alone(rows: usize) -> bool {
    rows <= ALONE
}

/// The rows of a chunk, for this number of rows: all, if one thread processes them.
pub(super) fn grain(rows: usize) -> usize {
    if alone(rows) { rows.next_multiple_of(CHUNK).max(CHUNK) } else { CHUNK }
}

/// The first row of each key of a column, or the number that [`renumber`](FirstOccurrences::renumber) replaced it by.
pub(crate) struct FirstOccurrences<K: Key> {
    strategy: Strategy<K>,
    present: Option<Present>,
    rows: usize,
    distinct: usize,
}

enum Strategy<K: Key> {
    Dense(Dense<K>),
    Hashed(Hashed<K>),
    Sorted(Sorted<K>),
}

/// What determines how the keys of a column are found.
pub(in crate::cpu) enum Kind<K> {
    /// They are addressed directly: the least key, and the number of values from it to the greatest one.
    Range(K, usize),
    /// They are hashed: about the number of distinct keys.
    Keys(usize),
}

impl<K: Key> Kind<K> {
    pub(in crate::cpu) fn of(keys: &[K]) -> Self {
        match range(keys, most_addressed(keys.len())) {
            Some((least, range)) => Kind::Range(least, range),
            None => Kind::Keys(estimate::distinct(keys)),
        }
    }
}

impl<K: Key> FirstOccurrences<K> {
    /// Indexes a column of fewer than 2^32 rows, on the threads of the calling pool.
    fn of(cpu: &Cpu, keys: &[K], kind: &Kind<K>) -> Result<Self> {
        match *kind {
            Kind::Range(least, range) => Self::dense(keys, least, range),
            Kind::Keys(expected) => Self::hashed(cpu, keys, expected, None),
        }
    }

    /// As [`of`](Self::of), if keys of other columns will be looked up.
    fn for_lookups(cpu: &Cpu, keys: &[K]) -> Result<Self> {
        let dense = most_addressed(keys.len());
        let mut present = None;
        if let Some((least, range)) = range(keys, dense.max(present::most(keys.len())).min(u32::MAX.into())) {
            if range as u64 <= dense {
                return Self::dense(keys, least, range);
            }
            present = Some(Present::of(keys, least, range)?);
        }
        Self::hashed(cpu, keys, estimate::distinct(keys), present)
    }

    fn dense(keys: &[K], least: K, range: usize) -> Result<Self> {
        let (dense, distinct) = Dense::of(keys, least, range)?;
        Ok(FirstOccurrences { strategy: Strategy::Dense(dense), present: None, rows: keys.len(), distinct })
    }

    fn hashed(cpu: &Cpu, keys: &[K], expected: usize, present: Option<Present>) -> Result<Self> {
        let rows = keys.len();
        for attempt in 0..hashed::ATTEMPTS {
            if let Some((hashed, distinct)) = Hashed::of(keys, expected, attempt)? {
                return Ok(FirstOccurrences { strategy: Strategy::Hashed(hashed), present, rows, distinct });
            }
        }
        let sorted = Sorted::of(cpu, keys)?;
        let distinct = sorted.distinct();
        Ok(FirstOccurrences { strategy: Strategy::Sorted(sorted), present, rows, distinct })
    }

    /// The number of rows of the column.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// The number of distinct keys.
    pub(crate) fn distinct(&self) -> usize {
        self.distinct
    }

    /// Whether no key occurs twice.
    pub(crate) fn all_distinct(&self) -> bool {
        self.rows == self.distinct
    }

    /// The first row of each query, or [`NO_ROW`](crate::NO_ROW), on the calling thread.
    #[inline(always)]
    pub(super) fn seek(&self, queries: &[K], to: &mut [u32]) {
        match &self.present {
            None => self.look(queries, to),
            Some(present) => at_best(
                #[inline(always)]
                || present.sift(queries, to, |queries, to| self.look(queries, to)),
            ),
        }
    }

    /// As [`seek`](Self::seek), for queries most of which are hits.
    #[inline(always)]
    fn look(&self, queries: &[K], to: &mut [u32]) {
        match &self.strategy {
            Strategy::Dense(dense) => at_best(
                #[inline(always)]
                || dense.look(queries, to),
            ),
            Strategy::Hashed(hashed) => at_best(
                #[inline(always)]
                || hashed.look(queries, to),
            ),
            Strategy::Sorted(sorted) => sorted.look(queries, to),
        }
    }

    /// Writes the first row of each query, on all threads.
    fn seek_all(&self, queries: &[K], to: &mut [u32]) {
        each((queries, to), grain(queries.len()), |_, (queries, to)| self.seek(queries, to));
    }

    /// Calls `then` with each first row.
    fn each(&self, then: impl Fn(u32) + Sync) {
        match &self.strategy {
            Strategy::Dense(dense) => dense.each(then),
            Strategy::Hashed(hashed) => hashed.each(then),
            Strategy::Sorted(sorted) => sorted.each(then),
        }
    }

    /// Replaces each first row by another number below `u32::MAX`.
    fn renumber(&mut self, number: impl Fn(u32) -> u32 + Sync) -> Result<()> {
        match &mut self.strategy {
            Strategy::Dense(dense) => dense.renumber(number),
            Strategy::Hashed(hashed) => hashed.renumber(number),
            Strategy::Sorted(sorted) => sorted.renumber(number),
        }
    }
}

impl<K: Key> std::fmt::Debug for FirstOccurrences<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let strategy = match self.strategy {
            Strategy::Dense(_) => "dense",
            Strategy::Hashed(_) => "hashed",
            Strategy::Sorted(_) => "sorted",
        };
        let present = self.present.is_some();
        f.debug_struct("FirstOccurrences")
            .field("strategy", &strategy)
            .field("present", &present)
            .field("rows", &self.rows)
            .field("distinct", &self.distinct)
            .finish()
    }
}

impl Cpu {
    /// The first rows of a column of fewer than 2^32 rows.
    pub(crate) fn first_occurrences<K: Key>(&self, keys: &[K]) -> Result<FirstOccurrences<K>> {
        self.ledger_of("first rows", keys.len());
        self.run(|| FirstOccurrences::for_lookups(self, keys)).flatten()
    }

    /// Writes the first row of each query, or [`NO_ROW`](crate::NO_ROW), to `to`, which has the same length.
    pub(crate) fn find_first_occurrences<K: Key>(
        &self,
        first_occurrences: &FirstOccurrences<K>,
        queries: &[K],
        to: &mut [u32],
    ) -> Result<()> {
        self.ledger_of("find first rows", queries.len());
        self.run(|| first_occurrences.seek_all(queries, to))
    }

    /// Writes whether each query is a key of the column.
    pub(crate) fn contains<K: Key>(
        &self,
        first_occurrences: &FirstOccurrences<K>,
        queries: &[K],
        to: &mut [bool],
    ) -> Result<()> {
        self.ledger_of("find first rows", queries.len());
        self.run(|| {
            each((queries, to), grain(queries.len()), |_, (queries, to)| {
                let mut rows = [0; CHUNK];
                for (queries, to) in queries.chunks(CHUNK).zip(to.chunks_mut(CHUNK)) {
                    let rows = &mut rows[..queries.len()];
                    first_occurrences.seek(queries, rows);
                    to.iter_mut().zip(rows).for_each(|(to, row)| *to = *row != NO_ROW);
                }
            });
        })
    }

    /// As [`find_first_occurrences`](Self::find_first_occurrences), in a new buffer.
    pub(crate) fn found_first_occurrences<K: Key>(
        &self,
        first_occurrences: &FirstOccurrences<K>,
        queries: &[K],
    ) -> Result<Memory<u32>> {
        let mut to = Memory::zeroed(queries.len())?;
        self.find_first_occurrences(first_occurrences, queries, to.words_mut()?)?;
        Ok(to)
    }

    pub(super) fn ledger_of(&self, pass: &'static str, rows: usize) {
        self.inner.ledger.kernel(pass, rows);
    }
}

/// The least key and the number of values from it to the greatest key; `None` if that number exceeds `most`.
fn range<K: Key>(keys: &[K], most: u64) -> Option<(K, usize)> {
    let too_far = AtomicBool::new(false);
    let ends = |_, keys: &[K]| {
        if too_far.load(Relaxed) {
            return None;
        }
        let ends = at_best(
            #[inline(always)]
            || {
                let first = *keys.first()?;
                Some(keys.iter().fold((first, first), |(least, most), &key| (least.min(key), most.max(key))))
            },
        )?;
        if ends.1.into() - ends.0.into() >= most {
            too_far.store(true, Relaxed);
        }
        Some(ends)
    };
    let join = |a: Option<(K, K)>, b: Option<(K, K)>| match (a, b) {
        (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
        (a, b) => a.or(b),
    };
    // A long column is read in chunks, so that keys that are far apart are seen soon. A short one is read at once,
    // because waking other threads takes longer.
    let size = if alone(keys.len()) { keys.len().max(1) } else { CHUNK };
    let ends = fold(keys, size, ends, join);
    if too_far.into_inner() {
        return None;
    }
    let Some((least, greatest)) = ends else { return Some((K::default(), 0)) };
    let between = greatest.into() - least.into();
    (between < most).then_some((least, between as usize + 1))
}

/// Raises a cell to `!row`, if it is below.
#[inline(always)]
fn raise(cell: &AtomicU32, row: u32, alone: bool) -> bool {
    let before = cell.load(Relaxed);
    if before >= !row {
        return false;
    }
    if alone {
        cell.store(!row, Relaxed);
        return before == 0;
    }
    cell.fetch_max(!row, Relaxed) == 0
}
