//! The distinct keys of a column by number, and the number of each row's key.
//!
//! ```text
//! FirstSeen    by slots of keys, a table or a sort (`first_seen.rs`)
//! Ascending    (sorted, rows) = sort_pairs(keys, 0, 1, ..);   begins = heads(sorted)
//!              unique = select(begins, sorted);   ranks(begins), scattered to `rows`, is the id of each row;
//!              on a device by slots of keys, if there are many rows per key: then only the distinct keys are sorted
//! ```
//!
//! On the CPU, FirstSeen does not build a canonical table, but first rows ([`FirstRows`](super::FirstRows)): the same
//! ids, in less time.
//!
//! Neither order depends on where a table stores keys, so ids are the same on every device and with every seed.

use super::first_seen::{self, Ids};
use crate::backend::join_rows::NO_ROW;
use crate::backend::{DeviceBuffer, HashBackend, Kernels, Relational, Runs, bitmap_words};
use crate::error::Result;
use crate::group::IdOrder;
use crate::scheme::Key;
use crate::table::Pairs;
use crate::table::distinct::{Positions, occupied, positions};

/// The distinct keys of a column, and the number of each row's key among them.
pub(crate) struct Numbered<B: Runs<K::Rows>, K: Key> {
    pub(super) unique: B::Buffer<K>,
    pub(super) ids: B::Buffer<u32>,
}

/// The distinct keys of a column.
pub(crate) fn distinct_keys<B: Runs<K::Rows>, K: Key>(
    backend: &B,
    keys: &B::Buffer<K>,
    order: IdOrder,
) -> Result<B::Buffer<K>> {
    match order {
        IdOrder::FirstSeen if let Some(cpu) = backend.host() => {
            backend.of_host(cpu.first_seen(backend.host_words(keys)?)?)
        }
        IdOrder::FirstSeen => first_seen::distinct(backend, keys),
        IdOrder::Ascending if let Some(distinct) = first_seen::distinct_ascending(backend, keys)? => Ok(distinct),
        IdOrder::Ascending => {
            let sorted = sorted(backend, keys)?;
            let begins = backend.heads(&sorted)?;
            backend.select(&begins, true, &sorted)
        }
    }
}

/// The distinct keys of a column, and the number of each row's key.
pub(super) fn numbered<B: Runs<K::Rows>, K: Key>(
    backend: &B,
    keys: &B::Buffer<K>,
    order: IdOrder,
) -> Result<Numbered<B, K>> {
    match order {
        IdOrder::FirstSeen if let Some(cpu) = backend.host() => {
            let keys = backend.host_words(keys)?;
            let mut ids = cpu.unwritten(keys.len())?;
            let unique = cpu.write_numbered(keys, ids.words_mut()?)?;
            Ok(Numbered { unique: backend.of_host(unique)?, ids: backend.of_host(ids)? })
        }
        IdOrder::FirstSeen => first_seen::numbered(backend, keys),
        IdOrder::Ascending => first_seen::ascending_groups(backend, keys)?.numbered(backend),
    }
}

/// The keys in ascending order, without values.
pub(super) fn sorted<B: Relational, K: Key>(backend: &B, keys: &B::Buffer<K>) -> Result<B::Buffer<K>> {
    // A device moves fewer bytes if the values, which are not used, are short.
    if backend.host().is_some() {
        return Ok(backend.sort_pairs(keys, keys)?.0);
    }
    Ok(backend.sort_pairs(keys, &backend.unwritten::<u32>(keys.len())?)?.0)
}

/// As [`numbered`], for a column in which equal keys are adjacent; keeps their order.
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
