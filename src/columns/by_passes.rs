//! [`Columns`](super::Columns) by passes over columns, and one hash table: what every device can do.
//!
//! ```text
//! FirstSeen    by slots of keys, a table or a sort (`first_seen.rs`)
//! Ascending    by slots of keys if there are many rows per key, and then a sort of the distinct keys;
//!              otherwise a sort of all rows
//! ```

use super::first_seen::{self, Grouping};
use super::numbering::{self, Numbered, first_positions, looked_up, of_sorted};
use super::{ByTable, ColumnOf, FirstRows};
use crate::backend::{DeviceBuffer, Relational, Runs};
use crate::error::Result;
use crate::group::{Aggregate, DeviceGroups, IdOrder, Number, aggregated, aggregated_by, wanted};
use crate::join::{JoinIndex, RightColumn};
use crate::memory;
use crate::scheme::{Key, Kind, Scheme};

pub(crate) fn distinct<B: Runs<K::Rows>, K: Key>(
    backend: &B,
    keys: ColumnOf<'_, B, K>,
    order: IdOrder,
) -> Result<B::Buffer<K>> {
    keys.on(backend, |keys| match order {
        IdOrder::FirstSeen => first_seen::distinct(backend, keys),
        IdOrder::Ascending => match first_seen::distinct_ascending(backend, keys)? {
            Some(distinct) => Ok(distinct),
            None => numbering::distinct_by_sort(backend, keys),
        },
    })
}

pub(crate) fn numbered<B: Runs<K::Rows>, K: Key>(
    backend: &B,
    keys: ColumnOf<'_, B, K>,
    order: IdOrder,
) -> Result<Numbered<B, K>> {
    keys.on(backend, |keys| match order {
        IdOrder::FirstSeen => first_seen::numbered(backend, keys),
        IdOrder::Ascending => first_seen::ascending_groups(backend, keys)?.numbered(backend),
    })
}

pub(crate) fn factorized<B: Runs<K::Rows>, K: Key>(
    backend: &B,
    keys: &[K],
    order: IdOrder,
) -> Result<(Vec<K>, Vec<u32>)> {
    numbered(backend, ColumnOf::Host(keys), order)?.download(backend)
}

pub(crate) fn grouping<B: Runs<K::Rows>, K: Key>(
    backend: &B,
    keys: &B::Buffer<K>,
    order: IdOrder,
) -> Result<Grouping<B, K>> {
    match order {
        IdOrder::FirstSeen => first_seen::grouped(backend, keys),
        IdOrder::Ascending => match first_seen::ascending(backend, keys)? {
            Some(grouping) => Ok(grouping),
            None => Grouping::ascending_by_sort(backend, keys),
        },
    }
}

pub(crate) fn grouped<B: Runs<K::Rows>, K: Key, V: Number>(
    backend: &B,
    keys: ColumnOf<'_, B, K>,
    values: ColumnOf<'_, B, V::Word>,
    aggregates: &[Aggregate],
    order: IdOrder,
) -> Result<DeviceGroups<B, K, V>> {
    keys.on(backend, |keys| {
        values.on(backend, |values| {
            let grouping = match order {
                IdOrder::FirstSeen => Some(first_seen::grouped::<B, K>(backend, keys)?),
                IdOrder::Ascending => first_seen::ascending::<B, K>(backend, keys)?,
            };
            match grouping {
                Some(grouping) => aggregated_by::<B, K, V>(backend, grouping, values, aggregates),
                None => grouped_by_sort::<B, K, V>(backend, keys, values, aggregates),
            }
        })
    })
}

/// Groups in ascending order, by a sort of all rows.
pub(crate) fn grouped_by_sort<B: Runs<K::Rows>, K: Key, V: Number>(
    backend: &B,
    keys: &B::Buffer<K>,
    values: &B::Buffer<V::Word>,
    aggregates: &[Aggregate],
) -> Result<DeviceGroups<B, K, V>> {
    if !wanted(aggregates).values() {
        let Numbered { unique, ids } = of_sorted::<B, K>(backend, &backend.sort(keys)?)?;
        return aggregated(backend, unique, &ids, values, aggregates);
    }
    let (sorted, fetched) = backend.sort_pairs(keys, values)?;
    let Numbered { unique, ids } = of_sorted::<B, K>(backend, &sorted)?;
    drop(sorted);
    aggregated(backend, unique, &ids, &fetched, aggregates)
}

pub(crate) fn grouped_by_id<B: Relational, V: Number>(
    backend: &B,
    ids: ColumnOf<'_, B, u32>,
    groups: usize,
    values: ColumnOf<'_, B, V::Word>,
    aggregates: &[Aggregate],
) -> Result<DeviceGroups<B, u32, V>> {
    ids.on(backend, |ids| {
        values.on(backend, |values| aggregated(backend, backend.iota(groups)?, ids, values, aggregates))
    })
}

pub(crate) fn distinct_rows<B: Runs<K::Rows>, K: Key>(backend: &B, keys: &[K]) -> Result<Vec<u32>> {
    let (unique, ids) = factorized(backend, keys, IdOrder::FirstSeen)?;
    // Each new id is one more than the greatest before it.
    let mut rows = memory::reserved(unique.len())?;
    for (&id, row) in ids.iter().zip(0..) {
        if id as usize == rows.len() {
            rows.push(row);
        }
    }
    Ok(rows)
}

pub(crate) fn first_rows<B: Runs<K::Rows>, K: Key>(backend: &B, keys: ColumnOf<'_, B, K>) -> Result<FirstRows<B, K>> {
    keys.on(backend, |keys| {
        let table = first_positions::<B, K>(backend, keys)?;
        if table.least_duplicate.is_none() {
            return Ok(FirstRows::by_table(backend, table, backend.iota(keys.len())?, keys.len()));
        }
        let (rows, _) = looked_up(backend, &table, keys)?;
        let distinct = backend.select(&backend.mark(&rows, keys.len())?, true, &rows)?.len();
        Ok(FirstRows::by_table(backend, table, rows, distinct))
    })
}

pub(crate) fn right<B: Runs<K::Rows>, K: Key>(backend: &B, keys: ColumnOf<'_, B, K>) -> Result<RightColumn<B, K>> {
    keys.on(backend, |keys| match ByTable::of(backend, keys)? {
        Some(table) => Ok(RightColumn::Table(table)),
        None => Ok(RightColumn::Index(JoinIndex::builder(K::Rows::of_kind(Kind::Canonical)).build_on(backend, keys)?)),
    })
}
