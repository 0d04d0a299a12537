//! Keys in order of first occurrence on a device: three strategies with one result.
//!
//! ```text
//! Table    (nearly all keys differ)   a table of all rows: key -> first row, later key -> id, which answers all rows
//! Sort     (many groups, duplicates)  (sorted, rows) = sort_pairs(keys, 0, 1, ..), which is stable, so the row at the
//!                                     start of each run is the first row of its key
//! Prefix   (few groups)               the table of the first rows alone answers all rows; rows whose keys it lacks
//!                                     are appended to the first rows, and a table of these answers all rows
//!
//! ids      first = a bitmap with a one at each first row;  unique = select(first, keys);  the id of a key is the rank of
//!          its first row in `first`
//! ```
//!
//! A table places each duplicate, which costs time; a sort does not treat duplicates specially, but reads the rows once
//! per digit. A sample estimates the number of rows in an average row's group. It affects speed only: ids and keys are
//! in order of first occurrence with every strategy.

#[cfg(test)]
pub(crate) mod tests;

use super::numbering::{FirstSeen, Numbered};
use crate::backend::{DeviceBuffer, HashBackend, Kernels, Relational, Runs, Word, bitmap_words};
use crate::error::Result;
use crate::scheme::hash::SplitMix64;
use crate::scheme::{Key, Scheme};

/// Below this number of rows, launches cost more than the work, and a table takes the fewest launches.
const LEAST_ROWS: usize = 1 << 21;
/// The sample has this number of rows per unit of the square root of all rows: about 32 pairs of them are one row
/// twice.
const SAMPLE: usize = 8;
/// Quarters of a row in an average row's group from which a sort is faster than a table. If all keys differ, there are
/// four, plus or minus one by the chance of the sample.
const SORT_FROM: u64 = 7;
/// Rows in an average row's group from which the first rows have most of the keys.
const PREFIX_FROM: u64 = 32;
/// The fraction of the rows in the prefix.
const PREFIX: usize = 16;
/// The prefix is not used if more than this fraction of the rows has keys that it lacks.
const MOST_MISSING: usize = 4;
const SEED: u64 = 0x0066_6972_7374_7365;

/// The algorithm that finds rows with equal keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strategy {
    Table,
    Sort,
    Prefix,
}

/// The distinct keys of a column in order of first appearance.
pub(super) fn distinct<B: Runs<K::Rows>, K: Key>(backend: &B, keys: &B::Buffer<K>) -> Result<B::Buffer<K>> {
    distinct_by(backend, keys, Strategy::of(backend, keys)?)
}

/// The distinct keys in order of first appearance, and the id of each row.
pub(super) fn numbered<B: Runs<K::Rows>, K: Key>(backend: &B, keys: &B::Buffer<K>) -> Result<Numbered<B, K>> {
    numbered_by(backend, keys, Strategy::of(backend, keys)?)
}

/// The distinct keys in order of first appearance, the ids of rows, and the values of the same rows, if these are in
/// another order than the column.
pub(super) fn grouped<B: Runs<K::Rows>, K: Key, V: Word>(
    backend: &B,
    keys: &B::Buffer<K>,
    values: &B::Buffer<V>,
) -> Result<(Numbered<B, K>, Option<B::Buffer<V>>)> {
    grouped_by(backend, keys, values, Strategy::of(backend, keys)?)
}

impl Strategy {
    /// The fastest strategy for a column, estimated by a sample of its rows.
    fn of<B: Relational, K: Key>(backend: &B, keys: &B::Buffer<K>) -> Result<Strategy> {
        if keys.len() < LEAST_ROWS {
            return Ok(Strategy::Table);
        }
        let (all, rows) = (keys.len() as u64, SAMPLE * keys.len().isqrt());
        let mut random = SplitMix64::new(SEED);
        // Below 2^32, because a column has fewer rows.
        let sample: Vec<u32> = (0..rows).map(|_| ((u64::from(random.next_u32()) * all) >> u32::BITS) as u32).collect();
        let keys = backend.gather(keys, &backend.upload(&sample)?)?;
        let (sorted, _) = backend.sort_pairs(&keys, &keys)?;
        let distinct = backend.select(&backend.heads(&sorted)?, true, &sorted)?.len();
        Ok(Strategy::by_sample(all, rows as u64, distinct as u64))
    }

    /// The strategy for `all` rows, if a sample of `rows` rows has `distinct` keys.
    ///
    /// Two random rows have equal keys with probability `g / all`, if a random row's group has `g` rows. So about
    /// `rows^2 g / (2 all)` of `rows` random rows are duplicates, if these are few. If they are many, the estimate is
    /// too high, by a factor of two at most.
    fn by_sample(all: u64, rows: u64, distinct: u64) -> Strategy {
        // g = duplicates / scale
        let duplicates = u128::from(2 * (rows - distinct)) * u128::from(all);
        let scale = u128::from(rows) * u128::from(distinct);
        if duplicates >= u128::from(PREFIX_FROM) * scale {
            Strategy::Prefix
        } else if 4 * duplicates >= u128::from(SORT_FROM) * scale {
            Strategy::Sort
        } else {
            Strategy::Table
        }
    }
}

pub(crate) fn distinct_by<B: Runs<K::Rows>, K: Key>(
    backend: &B,
    keys: &B::Buffer<K>,
    strategy: Strategy,
) -> Result<B::Buffer<K>> {
    match strategy {
        Strategy::Table => match FirstSeen::of(backend, keys)? {
            Some(seen) => seen.unique(backend, keys),
            None => backend.clone_buffer(keys),
        },
        Strategy::Sort => Ok(SortedRows::of(backend, keys)?.unique),
        Strategy::Prefix => match by_prefix(backend, keys)? {
            Some(numbered) => Ok(numbered.unique),
            None => Ok(SortedRows::of(backend, keys)?.unique),
        },
    }
}

pub(crate) fn numbered_by<B: Runs<K::Rows>, K: Key>(
    backend: &B,
    keys: &B::Buffer<K>,
    strategy: Strategy,
) -> Result<Numbered<B, K>> {
    if let Some(numbered) = by_table(backend, keys, strategy)? {
        return Ok(numbered);
    }
    let SortedRows { unique, rows, ids } = SortedRows::of(backend, keys)?;
    Ok(Numbered { unique, ids: backend.scatter(&ids, &rows, keys.len())? })
}

pub(crate) fn grouped_by<B: Runs<K::Rows>, K: Key, V: Word>(
    backend: &B,
    keys: &B::Buffer<K>,
    values: &B::Buffer<V>,
    strategy: Strategy,
) -> Result<(Numbered<B, K>, Option<B::Buffer<V>>)> {
    if let Some(numbered) = by_table(backend, keys, strategy)? {
        return Ok((numbered, None));
    }
    let SortedRows { unique, rows, ids } = SortedRows::of(backend, keys)?;
    // A gather of values is faster than a scatter of ids, and rows of one group then follow each other.
    let values = if values.is_empty() { None } else { Some(backend.gather(values, &rows)?) };
    Ok((Numbered { unique, ids }, values))
}

/// The ids of rows by a table; `None` if a sort should find them.
fn by_table<B: Runs<K::Rows>, K: Key>(
    backend: &B,
    keys: &B::Buffer<K>,
    strategy: Strategy,
) -> Result<Option<Numbered<B, K>>> {
    match strategy {
        Strategy::Sort => Ok(None),
        Strategy::Prefix => by_prefix(backend, keys),
        Strategy::Table => Ok(Some(match FirstSeen::of(backend, keys)? {
            Some(seen) => seen.table(backend, keys)?.numbered(backend, keys)?.0,
            None => Numbered { unique: backend.clone_buffer(keys)?, ids: backend.iota(keys.len())? },
        })),
    }
}

/// `None` if the first rows lack too many of the keys.
fn by_prefix<B: Runs<K::Rows>, K: Key>(backend: &B, keys: &B::Buffer<K>) -> Result<Option<Numbered<B, K>>> {
    let len = keys.len() / PREFIX;
    let mut front = backend.unwritten(len)?;
    backend.copy(keys, 0, &mut front, 0, len)?;
    let Some(seen) = FirstSeen::of(backend, &front)? else { return Ok(None) };
    let (numbered, found) = seen.table(backend, &front)?.numbered(backend, keys)?;
    let missing = backend.select(&found, false, keys)?;
    if missing.is_empty() {
        return Ok(Some(numbered));
    }
    if missing.len() > keys.len() / MOST_MISSING {
        return Ok(None);
    }
    drop((numbered, found));
    // Rows that are missing are after the first ones, so keys appear in the same order here as in the column.
    let some = backend.concat(&front, &missing)?;
    drop((front, missing));
    match FirstSeen::of(backend, &some)? {
        Some(seen) => Ok(Some(seen.table(backend, &some)?.numbered(backend, keys)?.0)),
        None => Ok(None),
    }
}

/// The rows of a column in ascending order of keys.
struct SortedRows<B: HashBackend, K: Key> {
    /// The distinct keys in order of first appearance.
    unique: B::Buffer<K>,
    rows: B::Buffer<u32>,
    /// The ids of these rows.
    ids: B::Buffer<u32>,
}

impl<B: Relational, K: Key> SortedRows<B, K> {
    fn of(backend: &B, keys: &B::Buffer<K>) -> Result<Self> {
        let len = keys.len();
        let (sorted, rows) = backend.sort_pairs(keys, &backend.iota(len)?)?;
        let begins = backend.heads(&sorted)?;
        drop(sorted);
        let first_rows = backend.select(&begins, true, &rows)?;
        let first = backend.mark(&first_rows, len)?;
        let unique = backend.select(&first, true, keys)?;
        let ids = backend.gather(&backend.ranks(&first, len)?, &first_rows)?;
        let ids = backend.gather(&ids, &backend.ranks(&begins, len)?)?;
        Ok(SortedRows { unique, rows, ids })
    }
}

/// A table of the ids of keys.
pub(super) struct Ids<B: Kernels<K::Rows>, K: Key> {
    pub(super) unique: B::Buffer<K>,
    pub(super) plan: <K::Rows as Scheme>::Plan,
    pub(super) image: B::Buffer<u64>,
}

impl<B: Runs<K::Rows>, K: Key> Ids<B, K> {
    /// The ids of `keys`, and which of them are in the table.
    fn numbered(self, backend: &B, keys: &B::Buffer<K>) -> Result<(Numbered<B, K>, B::Buffer<u32>)> {
        let mut ids = backend.unwritten(keys.len())?;
        let mut found = backend.unwritten(bitmap_words(keys.len()))?;
        Kernels::<K::Rows>::lookup(backend, &self.plan, &self.image, keys, &mut ids, &mut found)?;
        Ok((Numbered { unique: self.unique, ids }, found))
    }
}
