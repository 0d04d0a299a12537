//! The distinct keys of a column by number, and the number of each row's key: by a sort of all rows, or by a table of
//! first positions.
//!
//! ```text
//! sort     sorted = sort(keys);   begins = heads(sorted);   unique = select(begins, sorted);   ids of sorted rows = ranks(begins)
//! table    key -> complement of its first position;   unique = select(mark(first positions), keys)
//! ```
//!
//! No order depends on where a table stores keys, so ids are the same on every device and with every seed.

use super::first_seen::Ids;
use crate::backend::join_rows::NO_ROW;
use crate::backend::{DeviceBuffer, Kernels, Runs, bitmap_words};
use crate::error::Result;
use crate::scheme::Key;
use crate::table::Pairs;
use crate::table::distinct::{Positions, occupied, positions};

/// The distinct keys of a column, and the number of each row's key among them.
pub struct Numbered<B: Runs<K::Rows>, K: Key> {
    pub(crate) unique: B::Buffer<K>,
    pub(crate) ids: B::Buffer<u32>,
}

impl<B: Runs<K::Rows>, K: Key> Numbered<B, K> {
    /// Reads both columns to the host.
    pub(crate) fn download(&self, backend: &B) -> Result<(Vec<K>, Vec<u32>)> {
        Ok((backend.download(&self.unique)?, backend.download(&self.ids)?))
    }
}

/// The distinct keys in ascending order, by a sort of all rows.
pub(super) fn distinct_by_sort<B: Runs<K::Rows>, K: Key>(backend: &B, keys: &B::Buffer<K>) -> Result<B::Buffer<K>> {
    let sorted = backend.sort(keys)?;
    backend.select(&backend.heads(&sorted)?, true, &sorted)
}

/// The distinct keys in their order, and the number of each row's key, for a column in which equal keys are adjacent.
pub(super) fn of_sorted<B: Runs<K::Rows>, K: Key>(backend: &B, sorted: &B::Buffer<K>) -> Result<Numbered<B, K>> {
    let begins = backend.heads(sorted)?;
    let unique = backend.select(&begins, true, sorted)?;
    Ok(Numbered { unique, ids: backend.ranks(&begins, sorted.len())? })
}

/// A table of the distinct keys of a column, with the complement of the first position of each.
pub(crate) fn first_positions<B: Runs<K::Rows>, K: Key>(backend: &B, keys: &B::Buffer<K>) -> Result<Positions<B, K>> {
    let mut position = backend.iota(keys.len())?;
    backend.complement(&mut position)?;
    positions(backend, keys, &position)
}

/// Looks up keys in a table of [`first_positions`]: the first position of each, or [`NO_ROW`]; and a bitmap of the
/// queries that were found.
pub(crate) fn looked_up<B: Runs<K::Rows>, K: Key>(
    backend: &B,
    table: &Positions<B, K>,
    queries: &B::Buffer<K>,
) -> Result<(B::Buffer<u32>, B::Buffer<u32>)> {
    let mut rows = backend.unwritten(queries.len())?;
    let mut found = backend.unwritten(bitmap_words(queries.len()))?;
    // The value of a miss is 0, whose complement is `NO_ROW`.
    const { assert!(NO_ROW == !0) }
    Kernels::<K::Rows>::lookup(backend, &table.plan, &table.image, queries, &mut rows, &mut found)?;
    backend.complement(&mut rows)?;
    Ok((rows, found))
}

/// The first occurrence of each key of a column.
pub(super) struct FirstSeen<B: Runs<K::Rows>, K: Key> {
    /// A table of the distinct keys.
    table: Positions<B, K>,
    /// The distinct keys in the order of the table, with their first positions.
    slots: Pairs<B, K, u32>,
    /// A bitmap of the rows, with a one at each first position.
    first: B::Buffer<u32>,
}

impl<B: Runs<K::Rows>, K: Key> FirstSeen<B, K> {
    /// Returns `None` if all keys are distinct: each row is then the first of its key.
    pub(super) fn of(backend: &B, keys: &B::Buffer<K>) -> Result<Option<Self>> {
        let table = first_positions::<B, K>(backend, keys)?;
        if table.least_duplicate.is_none() {
            return Ok(None);
        }
        let mut slots = occupied::<B, K::Rows>(backend, &table.plan, &table.image)?;
        backend.complement(&mut slots.values)?;
        let first = backend.mark(&slots.values, keys.len())?;
        Ok(Some(FirstSeen { table, slots, first }))
    }

    /// The distinct keys.
    pub(super) fn unique(&self, backend: &B, keys: &B::Buffer<K>) -> Result<B::Buffer<K>> {
        backend.select(&self.first, true, keys)
    }

    /// The distinct keys, and a table of their ids.
    pub(super) fn table(self, backend: &B, keys: &B::Buffer<K>) -> Result<Ids<B, K>> {
        let unique = self.unique(backend, keys)?;
        let FirstSeen { table, slots, first } = self;
        let Positions { plan, mut image, .. } = table;
        let ids = backend.gather(&backend.ranks(&first, keys.len())?, &slots.values)?;
        Kernels::<K::Rows>::assign(backend, &plan, &mut image, &slots.keys, &ids)?;
        Ok(Ids { unique, plan, image })
    }
}
