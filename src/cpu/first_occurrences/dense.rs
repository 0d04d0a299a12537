//! Keys of a short range: one cell per possible key, at the position of the key minus the smallest one.

use std::ops::Range;

use super::{Memory, grain, raise};
use crate::cpu::BLOCK;
use crate::cpu::lanes::at_best;
use crate::cpu::memory::{atomic_u32, prefetch};
use crate::error::Result;
use crate::parallel::{each, fold, threads};
use crate::scheme::Key;

/// Above this number of cells, cells are prefetched. Fewer cells fit in the second-level cache.
const CACHED: usize = 1 << 17;

pub(super) struct Dense<K: Key> {
    least: K,
    /// The cells, followed by one that is always zero.
    cells: Memory<u32>,
}

impl<K: Key> Dense<K> {
    /// Indexes keys in `least..least + range`. Also returns the number of distinct keys.
    pub(super) fn of(keys: &[K], least: K, range: usize) -> Result<(Self, usize)> {
        let mut cells = Memory::zeroed(range + 1)?;
        let words = atomic_u32(cells.words_mut()?);
        let size = grain(keys.len());
        let alone = keys.len() <= size || threads() == 1;
        let place = |key: K| key.into().wrapping_sub(least.into()) as usize;
        let of_chunk = |_, rows: Range<usize>| {
            let keys = &keys[rows.clone()];
            let ahead = if range > CACHED { keys.get(BLOCK..).unwrap_or(&[]) } else { &[] };
            let mut distinct = 0;
            let (beside, last) = keys.split_at(ahead.len());
            let mut row = rows.start as u32;
            for (&key, &next) in beside.iter().zip(ahead) {
                prefetch(words, place(next));
                distinct += usize::from(words.get(place(key)).is_some_and(|cell| raise(cell, row, alone)));
                row = row.wrapping_add(1);
            }
            for &key in last {
                distinct += usize::from(words.get(place(key)).is_some_and(|cell| raise(cell, row, alone)));
                row = row.wrapping_add(1);
            }
            distinct
        };
        let distinct = fold(0..keys.len(), size, of_chunk, |a, b| a + b);
        Ok((Dense { least, cells }, distinct))
    }

    #[inline(always)]
    pub(super) fn look(&self, queries: &[K], to: &mut [u32]) {
        let (cells, least): (_, u64) = (self.cells.words(), self.least.into());
        let last = cells.len().saturating_sub(1);
        // Keys outside of the range get the last cell.
        let place = |key: K| key.into().wrapping_sub(least).min(last as u64) as usize;
        let ahead = if last > CACHED { queries.get(BLOCK / 2..).unwrap_or(&[]) } else { &[] };
        let (to_beside, to_last) = to.split_at_mut(ahead.len().min(to.len()));
        let (beside, behind) = queries.split_at(ahead.len());
        for ((to, &key), &next) in to_beside.iter_mut().zip(beside).zip(ahead) {
            prefetch(cells, place(next));
            *to = !cells.get(place(key)).copied().unwrap_or(0);
        }
        for (to, &key) in to_last.iter_mut().zip(behind) {
            *to = !cells.get(place(key)).copied().unwrap_or(0);
        }
    }

    pub(super) fn each(&self, then: impl Fn(u32) + Sync) {
        let cells = self.cells.words();
        each(cells, grain(cells.len()), |_, cells| {
            cells.iter().filter(|&&cell| cell != 0).for_each(|&cell| then(!cell));
        });
    }

    pub(super) fn renumber(&mut self, number: impl Fn(u32) -> u32 + Sync) -> Result<()> {
        let cells = self.cells.words_mut()?;
        let size = grain(cells.len());
        each(cells, size, |_, cells| {
            at_best(
                #[inline(always)]
                || cells.iter_mut().filter(|cell| **cell != 0).for_each(|cell| *cell = !number(!*cell)),
            );
        });
        Ok(())
    }
}
