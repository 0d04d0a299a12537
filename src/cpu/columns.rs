//! The pairs of an image as columns, on all threads: `decode` and `lift` for every scheme.

use super::{CHUNK, Cpu, Memory};
use crate::backend::{Decoded, Word, bitmap_words};
use crate::error::Result;
use crate::parallel::{Divide, Per, each};
use crate::scheme::cuckoo::Cell;
use crate::scheme::slot;

impl Cpu {
    /// The pairs of all words, decoded by `pair`.
    pub(super) fn decode_with(
        &self,
        words: &[u64],
        pair: impl Fn(usize, u64) -> Option<(u32, u32)> + Sync,
    ) -> Result<Decoded<Memory<u32>>> {
        self.decode_cells(words.len(), |at| pair(at, words[at]))
    }

    /// The pairs of this many cells, decoded by `pair`.
    pub(super) fn decode_cells<K: Word, V: Word>(
        &self,
        cells: usize,
        pair: impl Fn(usize) -> Option<(K, V)> + Sync,
    ) -> Result<Decoded<Memory<K>, Memory<V>, Memory<u32>>> {
        let mut columns = Columns::zeroed(cells)?;
        let into = columns.parts()?;
        self.run(|| {
            each((0..cells, into), CHUNK, |_, (cells, mut columns)| {
                cells.enumerate().for_each(|(i, cell)| columns.put(i, pair(cell)));
            });
        })?;
        Ok(columns.0)
    }

    /// Empties the slots of tombstones and of pairs above age 1 in an image of canonical slots. Returns these pairs,
    /// decoded by `pair`.
    pub(super) fn lift_with(
        &self,
        slots: &mut [impl Cell],
        pair: impl Fn(usize, u64) -> Option<(u32, u32)> + Sync,
    ) -> Result<Decoded<Memory<u32>>> {
        self.lift_words(slots, |word| slot::age(word) > 1, pair)
    }

    /// Empties the slots of tombstones and of pairs above age 1. Returns these pairs, decoded by `pair`.
    pub(super) fn lift_words<C: Cell>(
        &self,
        slots: &mut [C],
        is_lifted: impl Fn(u64) -> bool + Sync,
        pair: impl Fn(usize, u64) -> Option<(u32, u32)> + Sync,
    ) -> Result<Decoded<Memory<u32>>> {
        let mut columns = Columns::zeroed(slots.len())?;
        let into = columns.parts()?;
        self.run(|| {
            each((slots, into), CHUNK, |chunk, (slots, mut columns)| {
                for (i, cell) in slots.iter_mut().enumerate().filter(|(_, cell)| is_lifted(cell.word())) {
                    columns.put(i, pair(CHUNK * chunk + i, cell.word()));
                    *cell = C::of(slot::EMPTY);
                }
            });
        })?;
        Ok(columns.0)
    }
}

struct Columns<K: Word, V: Word>(Decoded<Memory<K>, Memory<V>, Memory<u32>>);

/// The output for the cells of a chunk: keys, values, and a bit for each pair.
struct Part<'a, K, V>(&'a mut [K], &'a mut [V], Per<&'a mut [u32]>);

impl<K: Word, V: Word> Columns<K, V> {
    fn zeroed(cells: usize) -> Result<Self> {
        let (keys, values) = (Memory::zeroed(cells)?, Memory::zeroed(cells)?);
        Ok(Columns(Decoded { keys, values, taken: Memory::zeroed(bitmap_words(cells))? }))
    }

    fn parts(&mut self) -> Result<Part<'_, K, V>> {
        let Decoded { keys, values, taken } = &mut self.0;
        Ok(Part(keys.words_mut()?, values.words_mut()?, Per(32, taken.words_mut()?)))
    }
}

impl<K: Word, V: Word> Part<'_, K, V> {
    #[inline(always)]
    fn put(&mut self, i: usize, pair: Option<(K, V)>) {
        if let Some(pair) = pair {
            (self.0[i], self.1[i]) = pair;
            self.2.1[i / 32] |= 1 << (i % 32);
        }
    }
}

impl<K: Word, V: Word> Divide for Part<'_, K, V> {
    fn len(&self) -> usize {
        self.0.len()
    }
    fn cut(self, at: usize) -> (Self, Self) {
        let (first, second) = (self.0, self.1, self.2).cut(at);
        (Part(first.0, first.1, first.2), Part(second.0, second.1, second.2))
    }
}
