//! The pairs of an image as columns, on all threads: what `decode` and `lift` are for every scheme.

use rayon::prelude::*;

use super::{CHUNK, Cpu, Memory};
use crate::backend::{Decoded, bitmap_words};
use crate::error::Result;
use crate::scheme::cuckoo::Cell;
use crate::scheme::slot;

/// Words that make one word of the bitmap.
const GROUP: usize = 32;

impl Cpu {
    /// The pair that `pair` sees in each word.
    pub(super) fn decode_with(
        &self,
        words: &[u64],
        pair: impl Fn(usize, u64) -> Option<(u32, u32)> + Sync,
    ) -> Result<Decoded<Memory<u32>>> {
        self.decode_cells(words.len(), |at| pair(at, words[at]))
    }

    /// The pair that `pair` sees in each of so many cells.
    pub(super) fn decode_cells(
        &self,
        cells: usize,
        pair: impl Fn(usize) -> Option<(u32, u32)> + Sync,
    ) -> Result<Decoded<Memory<u32>>> {
        let mut columns = Columns::zeroed(cells)?;
        let into = columns.groups()?;
        self.run(|| {
            into.enumerate().with_min_len(CHUNK / GROUP).for_each(|(group, mut columns)| {
                for i in 0..columns.keys.len() {
                    columns.put(i, pair(GROUP * group + i));
                }
            });
        })?;
        Ok(columns.0)
    }

    /// Empties the slots of tombstones and of pairs above age 1 in an image of canonical slots; those pairs, by `pair`.
    pub(super) fn lift_with(
        &self,
        slots: &mut [impl Cell],
        pair: impl Fn(usize, u64) -> Option<(u32, u32)> + Sync,
    ) -> Result<Decoded<Memory<u32>>> {
        self.lift_words(slots, |word| slot::age(word) > 1, pair)
    }

    /// Empties the slots that are to be lifted; the pairs among them, by `pair`.
    pub(super) fn lift_words<C: Cell>(
        &self,
        slots: &mut [C],
        is_lifted: impl Fn(u64) -> bool + Sync,
        pair: impl Fn(usize, u64) -> Option<(u32, u32)> + Sync,
    ) -> Result<Decoded<Memory<u32>>> {
        let mut columns = Columns::zeroed(slots.len())?;
        let into = columns.groups()?;
        self.run(|| {
            let groups = slots.par_chunks_mut(GROUP).zip(into);
            groups.enumerate().with_min_len(CHUNK / GROUP).for_each(|(group, (slots, mut columns))| {
                for (i, cell) in slots.iter_mut().enumerate().filter(|(_, cell)| is_lifted(cell.word())) {
                    columns.put(i, pair(GROUP * group + i, cell.word()));
                    *cell = C::of(slot::EMPTY);
                }
            });
        })?;
        Ok(columns.0)
    }
}

struct Columns(Decoded<Memory<u32>>);

/// What becomes of up to 32 words.
struct Group<'a> {
    keys: &'a mut [u32],
    values: &'a mut [u32],
    taken: &'a mut u32,
}

impl Columns {
    fn zeroed(words: usize) -> Result<Columns> {
        let (keys, values) = (Memory::zeroed(words)?, Memory::zeroed(words)?);
        Ok(Columns(Decoded { keys, values, taken: Memory::zeroed(bitmap_words(words))? }))
    }

    fn groups(&mut self) -> Result<impl IndexedParallelIterator<Item = Group<'_>>> {
        let Decoded { keys, values, taken } = &mut self.0;
        let columns = keys.words_mut()?.par_chunks_mut(GROUP).zip(values.words_mut()?.par_chunks_mut(GROUP));
        Ok(columns.zip(taken.words_mut()?).map(|((keys, values), taken)| Group { keys, values, taken }))
    }
}

impl Group<'_> {
    fn put(&mut self, i: usize, pair: Option<(u32, u32)>) {
        if let Some(pair) = pair {
            (self.keys[i], self.values[i]) = pair;
            *self.taken |= 1 << i;
        }
    }
}
