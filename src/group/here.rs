//! Groups in order of first occurrence on the CPU: columns are read in place, and ids are written only if they are
//! needed.

use super::groups::{settled, wanted};
use super::number::{Columns, Number};
use super::{Aggregate, DeviceGroups};
use crate::backend::{DeviceBuffer, HashBackend};
use crate::cpu::Cpu;
use crate::cpu::groups::Grouped;
use crate::error::Result;
use crate::memory;
use crate::scheme::Key;

/// The distinct keys, and the number of each row's key.
pub(super) fn factorized<K: Key>(cpu: &Cpu, keys: &[K]) -> Result<(Vec<K>, Vec<u32>)> {
    let mut ids = memory::zeroed(keys.len())?;
    let unique = cpu.write_numbered(keys, &mut ids)?;
    Ok((cpu.download(&unique)?, ids))
}

/// The groups of a column on `cpu`, which is the CPU of `backend`.
pub(super) fn grouped<B: HashBackend, K: Key, V: Number>(
    backend: &B,
    cpu: &Cpu,
    keys: &[K],
    values: &[V::Word],
    aggregates: &[Aggregate],
) -> Result<DeviceGroups<B, K, V>> {
    let wanted = wanted(aggregates);
    let (unique, columns) = match cpu.grouped(keys, values, V::NUMBERS, wanted)? {
        Grouped::Whole(unique, all) => (unique, Columns::of_wide(cpu, all)?),
        Grouped::ById(unique, ids) => {
            let all = cpu.run_accumulate_wide(ids.words(), values, V::NUMBERS, unique.len(), wanted)?;
            (unique, Columns::of_wide(cpu, all)?)
        }
    };
    settled(backend, backend.of_host(unique)?, columns.on(backend)?)
}

/// The groups of rows with ids; `cpu` is the CPU of `backend`.
pub(super) fn of_ids<B: HashBackend, V: Number>(
    backend: &B,
    cpu: &Cpu,
    ids: &[u32],
    groups: usize,
    values: &[V::Word],
    aggregates: &[Aggregate],
) -> Result<DeviceGroups<B, u32, V>> {
    let all = cpu.run_accumulate_wide(ids, values, V::NUMBERS, groups, wanted(aggregates))?;
    let columns = Columns::of_wide(cpu, all)?;
    settled(backend, backend.of_host(cpu.iota(groups)?)?, columns.on(backend)?)
}
