//! [`Columns`] of the CPU: columns are read in place, and ids are written only if they are needed.
//!
//! Keys are numbered in order of first occurrence by `cpu/first_occurrences/`, without a table of a scheme, and grouped
//! and joined by `cpu/groups.rs` and `cpu/joins/`. Ascending orders are sorts of all rows.
//!
//! The functions take a backend and its CPU, because [`Any`](crate::Any) may be one; buffers are those of the backend.

use super::by_passes::grouped_by_sort;
use super::first_seen::Grouping;
use super::numbering::{Numbered, distinct_by_sort};
use super::{ColumnOf, Columns, FirstRows};
use crate::backend::{DeviceBuffer, HashBackend, Kernels, Runs};
use crate::cpu::Cpu;
use crate::cpu::groups::Grouped;
use crate::cpu::joins::Right;
use crate::error::Result;
use crate::group::{Aggregate, AggregateColumns, DeviceGroups, IdOrder, Number, settled, wanted};
use crate::join::RightColumn;
use crate::memory;
use crate::scheme::Key;

impl<K: Key> Columns<K> for Cpu
where
    Cpu: Kernels<K::Rows>,
{
    fn distinct(&self, keys: ColumnOf<'_, Cpu, K>, order: IdOrder) -> Result<Self::Buffer<K>> {
        distinct(self, self, keys, order)
    }
    fn numbered(&self, keys: ColumnOf<'_, Cpu, K>, order: IdOrder) -> Result<Numbered<Cpu, K>> {
        numbered(self, self, keys, order)
    }
    fn factorized(&self, keys: &[K], order: IdOrder) -> Result<(Vec<K>, Vec<u32>)> {
        factorized(self, self, keys, order)
    }
    fn grouping(&self, keys: &Self::Buffer<K>, order: IdOrder) -> Result<Grouping<Cpu, K>> {
        grouping(self, self, keys, order)
    }
    fn grouped<V: Number>(
        &self,
        keys: ColumnOf<'_, Cpu, K>,
        values: ColumnOf<'_, Cpu, V::Word>,
        aggregates: &[Aggregate],
        order: IdOrder,
    ) -> Result<DeviceGroups<Cpu, K, V>> {
        grouped::<Cpu, K, V>(self, self, keys, values, aggregates, order)
    }
    fn grouped_by_id<V: Number>(
        &self,
        ids: ColumnOf<'_, Cpu, u32>,
        groups: usize,
        values: ColumnOf<'_, Cpu, V::Word>,
        aggregates: &[Aggregate],
    ) -> Result<DeviceGroups<Cpu, u32, V>> {
        grouped_by_id::<Cpu, V>(self, self, ids, groups, values, aggregates)
    }
    fn distinct_rows(&self, keys: &[K]) -> Result<Vec<u32>> {
        distinct_rows(self, self, keys)
    }
    fn first_rows(&self, keys: ColumnOf<'_, Cpu, K>) -> Result<FirstRows<Cpu, K>> {
        first_rows(self, self, keys)
    }
    fn right(&self, keys: ColumnOf<'_, Cpu, K>) -> Result<RightColumn<Cpu, K>> {
        right(self, self, keys)
    }
}

pub(crate) fn distinct<B: Runs<K::Rows>, K: Key>(
    backend: &B,
    cpu: &Cpu,
    keys: ColumnOf<'_, B, K>,
    order: IdOrder,
) -> Result<B::Buffer<K>> {
    match order {
        IdOrder::FirstSeen => backend.of_host(cpu.first_seen(keys.words(backend)?)?),
        IdOrder::Ascending => keys.on(backend, |keys| distinct_by_sort(backend, keys)),
    }
}

pub(crate) fn numbered<B: Runs<K::Rows>, K: Key>(
    backend: &B,
    cpu: &Cpu,
    keys: ColumnOf<'_, B, K>,
    order: IdOrder,
) -> Result<Numbered<B, K>> {
    match order {
        IdOrder::FirstSeen => {
            let keys = keys.words(backend)?;
            let mut ids = cpu.unwritten(keys.len())?;
            let unique = cpu.write_numbered(keys, ids.words_mut()?)?;
            Ok(Numbered { unique: backend.of_host(unique)?, ids: backend.of_host(ids)? })
        }
        IdOrder::Ascending => keys.on(backend, |keys| Grouping::ascending_by_sort(backend, keys)?.numbered(backend)),
    }
}

pub(crate) fn factorized<B: Runs<K::Rows>, K: Key>(
    backend: &B,
    cpu: &Cpu,
    keys: &[K],
    order: IdOrder,
) -> Result<(Vec<K>, Vec<u32>)> {
    match order {
        IdOrder::FirstSeen => {
            let mut ids = memory::zeroed(keys.len())?;
            let unique = cpu.write_numbered(keys, &mut ids)?;
            Ok((cpu.download(&unique)?, ids))
        }
        IdOrder::Ascending => numbered(backend, cpu, ColumnOf::Host(keys), order)?.download(backend),
    }
}

pub(crate) fn grouping<B: Runs<K::Rows>, K: Key>(
    backend: &B,
    cpu: &Cpu,
    keys: &B::Buffer<K>,
    order: IdOrder,
) -> Result<Grouping<B, K>> {
    match order {
        IdOrder::FirstSeen => Ok(numbered(backend, cpu, ColumnOf::Device(keys), order)?.into()),
        IdOrder::Ascending => Grouping::ascending_by_sort(backend, keys),
    }
}

pub(crate) fn grouped<B: Runs<K::Rows>, K: Key, V: Number>(
    backend: &B,
    cpu: &Cpu,
    keys: ColumnOf<'_, B, K>,
    values: ColumnOf<'_, B, V::Word>,
    aggregates: &[Aggregate],
    order: IdOrder,
) -> Result<DeviceGroups<B, K, V>> {
    if order == IdOrder::Ascending {
        return keys.on(backend, |keys| {
            values.on(backend, |values| grouped_by_sort::<B, K, V>(backend, keys, values, aggregates))
        });
    }
    let (values, wanted) = (values.words(backend)?, wanted(aggregates));
    let (unique, columns) = match cpu.grouped(keys.words(backend)?, values, V::NUMBERS, wanted)? {
        Grouped::Whole(unique, all) => (unique, AggregateColumns::of_wide(cpu, all)?),
        Grouped::ById(unique, ids) => {
            let all = cpu.run_accumulate_wide(ids.words(), values, V::NUMBERS, unique.len(), wanted)?;
            (unique, AggregateColumns::of_wide(cpu, all)?)
        }
    };
    settled(backend, backend.of_host(unique)?, columns.on(backend)?)
}

pub(crate) fn grouped_by_id<B: HashBackend, V: Number>(
    backend: &B,
    cpu: &Cpu,
    ids: ColumnOf<'_, B, u32>,
    groups: usize,
    values: ColumnOf<'_, B, V::Word>,
    aggregates: &[Aggregate],
) -> Result<DeviceGroups<B, u32, V>> {
    let (ids, values) = (ids.words(backend)?, values.words(backend)?);
    let all = cpu.run_accumulate_wide(ids, values, V::NUMBERS, groups, wanted(aggregates))?;
    settled(backend, backend.iota(groups)?, AggregateColumns::of_wide(cpu, all)?.on(backend)?)
}

pub(crate) fn distinct_rows<B, K: Key>(_backend: &B, cpu: &Cpu, keys: &[K]) -> Result<Vec<u32>> {
    cpu.download(&cpu.distinct_rows(keys)?)
}

pub(crate) fn first_rows<B: Runs<K::Rows>, K: Key>(
    backend: &B,
    cpu: &Cpu,
    keys: ColumnOf<'_, B, K>,
) -> Result<FirstRows<B, K>> {
    let keys = keys.words(backend)?;
    let first_occurrences = cpu.first_occurrences(keys)?;
    let rows = if first_occurrences.all_distinct() {
        backend.iota(keys.len())?
    } else {
        backend.of_host(cpu.found_first_occurrences(&first_occurrences, keys)?)?
    };
    Ok(FirstRows::on_host(backend, cpu, first_occurrences, rows))
}

pub(crate) fn right<B: Runs<K::Rows>, K: Key>(
    backend: &B,
    cpu: &Cpu,
    keys: ColumnOf<'_, B, K>,
) -> Result<RightColumn<B, K>> {
    Ok(RightColumn::Host(cpu.clone(), Right::of(cpu, keys.words(backend)?)?))
}
