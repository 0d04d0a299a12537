//! Arbitrary keys, also chosen ones: the distinct keys in order, with their first rows.

use std::ops::Range;

use super::{Memory, grain};
use crate::backend::{DeviceBuffer, HashBackend, Relational};
use crate::cpu::{CHUNK, Cpu};
use crate::error::Result;
use crate::parallel::each;
use crate::scheme::Key;

pub(super) struct Sorted<K: Key> {
    keys: Memory<K>,
    /// `!row` of each key.
    rows: Memory<u32>,
}

impl<K: Key> Sorted<K> {
    pub(super) fn of(cpu: &Cpu, keys: &[K]) -> Result<Self> {
        let (keys, rows) = cpu.sort_pairs(&Memory::of(keys)?, &cpu.iota(keys.len())?)?;
        // The sort is stable, so the first row of a run is the least.
        let (keys, mut rows) = cpu.select_pairs(&cpu.heads(&keys)?, true, &keys, &rows)?;
        cpu.complement(&mut rows)?;
        Ok(Sorted { keys, rows })
    }

    pub(super) fn distinct(&self) -> usize {
        self.keys.len()
    }

    #[inline(always)]
    pub(super) fn look(&self, queries: &[K], to: &mut [u32]) {
        let (keys, rows) = (self.keys.words(), self.rows.words());
        for (to, query) in to.iter_mut().zip(queries) {
            *to = !keys.binary_search(query).ok().and_then(|at| rows.get(at)).copied().unwrap_or(0);
        }
    }

    pub(super) fn each(&self, then: impl Fn(u32) + Sync) {
        let rows = self.rows.words();
        each(0..rows.len(), grain(rows.len()), |_, range: Range<usize>| rows[range].iter().for_each(|&row| then(!row)));
    }

    pub(super) fn renumber(&mut self, number: impl Fn(u32) -> u32 + Sync) -> Result<()> {
        each(self.rows.words_mut()?, CHUNK, |_, rows| rows.iter_mut().for_each(|row| *row = !number(!*row)));
        Ok(())
    }
}
