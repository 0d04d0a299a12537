//! Bucketized tables of 64-bit keys or values on the CPU.
//!
//! ```text
//! place.rs    words, by scan and compare-exchange on all threads
//! values.rs   values, to where their words came to stand
//! lookup.rs   lookup, a block of keys and their lines at a time
//! ```
//!
//! A batch that comes into an image with pairs leaves the image as it was until all its words are placed: a displaced
//! pair's value is found in the old image, by its key.

mod lookup;
mod place;
#[cfg(test)]
mod tests;
mod values;

use std::ops::Add;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};

use super::super::atomic::Atomic;
use super::super::memory::{Memory, atomic, atomic_u32};
use super::super::{CHUNK, Cpu};
use crate::backend::{DecodedOf, DeviceBuffer, HashBackend, Passes, PlacedOf, Removed, Word, bitmap_words};
use crate::error::Result;
use crate::parallel::{Per, each, fold};
use crate::scheme::bucketized::wide::{
    Column, LINE_WORDS, Layout, LinePlan, canonical, lines, lines_mut, pair, put, slot,
};
use crate::scheme::slot::EMPTY;
use crate::scheme::{BucketizedOf, Plan, Scheme};

/// Integers of lines that threads share.
pub(in crate::cpu) trait Shared: Word {
    /// One of them.
    type Cell: Atomic<Word = Self>;
    /// All of an image, counted in integers of this width.
    fn cells(image: &mut [u64]) -> &[Self::Cell];
    /// The greater of what is there and this.
    fn raise(cell: &Self::Cell, to: Self);
    /// Overwrites it.
    fn set(cell: &Self::Cell, to: Self);
    /// Overwrites it, and returns what was there.
    fn swap(cell: &Self::Cell, to: Self) -> Self;
}

macro_rules! shared {
    ($word:ty, $cell:ident, |$image:ident| $cells:expr) => {
        impl Shared for $word {
            type Cell = std::sync::atomic::$cell;
            fn cells($image: &mut [u64]) -> &[Self::Cell] {
                $cells
            }
            #[inline(always)]
            fn raise(cell: &Self::Cell, to: Self) {
                cell.fetch_max(to, Relaxed);
            }
            #[inline(always)]
            fn set(cell: &Self::Cell, to: Self) {
                cell.store(to, Relaxed);
            }
            #[inline(always)]
            fn swap(cell: &Self::Cell, to: Self) -> Self {
                cell.swap(to, AcqRel)
            }
        }
    };
}
shared!(u64, AtomicU64, |image| atomic(image));
shared!(u32, AtomicU32, |image| atomic_u32(bytemuck::cast_slice_mut(image)));

/// Integers of this width in a line.
const fn per_line<T: Word>() -> usize {
    LINE_WORDS * (u64::BITS / T::BITS) as usize
}

impl<K: Column, V: Column> Passes<BucketizedOf<K, V>> for Cpu
where
    (K, V): Layout,
    <(K, V) as Layout>::Key: Shared,
    <(K, V) as Layout>::Value: Shared,
{
    fn build(
        &self,
        plan: &LinePlan<(K, V)>,
        keys: &Memory<<(K, V) as Layout>::Key>,
        values: &Memory<<(K, V) as Layout>::Value>,
    ) -> Result<(Memory<u64>, PlacedOf<BucketizedOf<K, V>>)> {
        let mut image = Memory::zeroed(plan.word_count()?)?;
        let placed = self.add_to_lines::<(K, V)>(plan, &mut image, None, keys.words(), values.words())?;
        Ok((image, placed))
    }

    fn extended(
        &self,
        plan: &LinePlan<(K, V)>,
        image: &Memory<u64>,
        keys: &Memory<<(K, V) as Layout>::Key>,
        values: &Memory<<(K, V) as Layout>::Value>,
    ) -> Result<(Memory<u64>, PlacedOf<BucketizedOf<K, V>>)> {
        let mut new = self.clone_buffer(image)?;
        let placed = self.add_to_lines::<(K, V)>(plan, &mut new, Some(image), keys.words(), values.words())?;
        Ok((new, placed))
    }

    fn place(
        &self,
        plan: &LinePlan<(K, V)>,
        image: &mut Memory<u64>,
        keys: &Memory<<(K, V) as Layout>::Key>,
        values: &Memory<<(K, V) as Layout>::Value>,
    ) -> Result<PlacedOf<BucketizedOf<K, V>>> {
        let old = self.clone_buffer(image)?;
        self.add_to_lines::<(K, V)>(plan, image, Some(&old), keys.words(), values.words())
    }

    fn lookup(
        &self,
        plan: &LinePlan<(K, V)>,
        image: &Memory<u64>,
        queries: &Memory<<(K, V) as Layout>::Key>,
        values: &mut Memory<<(K, V) as Layout>::Value>,
        found: &mut Memory<u32>,
    ) -> Result<()> {
        self.ledger().kernel("bucketized_lookup", queries.len());
        let (functions, lines) = (plan.functions(), lines(image.words()));
        let columns = (queries.words(), values.words_mut()?, Per(32, found.words_mut()?));
        self.run(|| {
            each(columns, CHUNK, |_, (queries, values, Per(_, found))| {
                values.fill(Word::low(0));
                found.fill(0);
                lookup::each_found::<(K, V)>(&functions, lines, queries, |i, line, slot| {
                    values[i] = <(K, V)>::value(&lines[line], slot);
                    found[i / 32] |= 1 << (i % 32);
                });
            });
        })?;
        Ok(())
    }

    fn contains(
        &self,
        plan: &LinePlan<(K, V)>,
        image: &Memory<u64>,
        queries: &Memory<<(K, V) as Layout>::Key>,
    ) -> Result<Memory<u32>> {
        self.ledger().kernel("bucketized_lookup", queries.len());
        let (functions, lines) = (plan.functions(), lines(image.words()));
        let mut found = Memory::zeroed(bitmap_words(queries.len()))?;
        let columns = (queries.words(), Per(32, found.words_mut()?));
        self.run(|| {
            each(columns, CHUNK, |_, (queries, Per(_, found))| {
                let hit = |i: usize, _, _| found[i / 32] |= 1 << (i % 32);
                lookup::each_found::<(K, V)>(&functions, lines, queries, hit);
            });
        })?;
        Ok(found)
    }

    fn assign(
        &self,
        plan: &LinePlan<(K, V)>,
        image: &mut Memory<u64>,
        keys: &Memory<<(K, V) as Layout>::Key>,
        values: &Memory<<(K, V) as Layout>::Value>,
    ) -> Result<()> {
        self.ledger().kernel("bucketized_assign", keys.len());
        let Some(values_at) = values::Places::<(K, V)>::new() else { return Ok(()) };
        let functions = plan.functions();
        // Found first and written then: while lines are read, nobody writes to them.
        let places =
            self.run(|| values::places_of::<(K, V)>(&functions, lines(image.words()), keys.words())).flatten()?;
        let cells = <(K, V) as Layout>::Value::cells(image.words_mut()?);
        self.run(|| {
            each((places.words(), values.words()), CHUNK, |_, (places, values)| {
                for (&place, &value) in places.iter().zip(values) {
                    if let Some(at) = values_at.of_cell(place) {
                        <(K, V) as Layout>::Value::set(&cells[at], value);
                    }
                }
            });
        })?;
        Ok(())
    }

    fn decode(&self, plan: &LinePlan<(K, V)>, image: &Memory<u64>) -> Result<DecodedOf<Cpu, BucketizedOf<K, V>>> {
        self.ledger().kernel("bucketized_decode", image.len());
        let image = image.words();
        self.decode_cells(plan.cells() as usize, |cell| BucketizedOf::<K, V>::pair(plan, image, cell as u64))
    }

    fn remove(
        &self,
        plan: &LinePlan<(K, V)>,
        image: &mut Memory<u64>,
        keys: &Memory<<(K, V) as Layout>::Key>,
    ) -> Result<Removed> {
        self.ledger().kernel("bucketized_remove", keys.len());
        let functions = plan.functions();
        let places =
            self.run(|| values::places_of::<(K, V)>(&functions, lines(image.words()), keys.words())).flatten()?;
        let tombstone = <(K, V) as Layout>::Key::low(slot::tombstone::<<(K, V) as Layout>::Key>());
        let cells = <(K, V) as Layout>::Key::cells(image.words_mut()?);
        let words_at = values::Places::<(K, V)>::words();
        // Of several with one key, one finds the word in the slot and the others the mark.
        let pairs = self.run(|| {
            let vacated = |_, places: &[u64]| {
                let is_first = |at: usize| <(K, V) as Layout>::Key::swap(&cells[at], tombstone) != tombstone;
                places.iter().filter_map(|&place| words_at.of_cell(place)).filter(|&at| is_first(at)).count() as u64
            };
            fold(places.words(), CHUNK, vacated, u64::add)
        })?;
        if let Some(values_at) = values::Places::<(K, V)>::new() {
            let cells = <(K, V) as Layout>::Value::cells(image.words_mut()?);
            self.run(|| {
                each(places.words(), CHUNK, |_, places| {
                    for at in places.iter().filter_map(|&place| values_at.of_cell(place)) {
                        <(K, V) as Layout>::Value::set(&cells[at], Word::low(0));
                    }
                });
            })?;
        }
        Ok(Removed { pairs, outside: false })
    }

    fn lift(&self, plan: &LinePlan<(K, V)>, image: &mut Memory<u64>) -> Result<DecodedOf<Cpu, BucketizedOf<K, V>>> {
        self.ledger().kernel("bucketized_lift", image.len());
        let (old, slots) = (self.clone_buffer(image)?, <(K, V)>::SLOTS);
        let is_lifted = |word: u64| slot::age::<<(K, V) as Layout>::Key>(word) > 1;
        let cell_is_lifted = |cell: usize| is_lifted(<(K, V)>::word(&lines(old.words())[cell / slots], cell % slots));
        let lifted = self.decode_cells(plan.cells() as usize, |cell| {
            cell_is_lifted(cell).then(|| BucketizedOf::<K, V>::pair(plan, old.words(), cell as u64)).flatten()
        })?;
        let words = lines_mut(image.words_mut()?);
        self.run(|| {
            each(words, CHUNK / LINE_WORDS, |_, lines| {
                for line in lines {
                    for i in 0..slots {
                        if is_lifted(pair::<(K, V)>(line, i).0) {
                            put::<(K, V)>(line, i, (EMPTY, Word::low(0)));
                        }
                    }
                    canonical::sort_line::<(K, V)>(line);
                }
            });
        })?;
        Ok(lifted)
    }
}

impl Cpu {
    /// Adds pairs to an image, whose pairs so far are those of `old`.
    fn add_to_lines<L: Layout>(
        &self,
        plan: &LinePlan<L>,
        image: &mut Memory<u64>,
        old: Option<&Memory<u64>>,
        keys: &[L::Key],
        pair_values: &[L::Value],
    ) -> Result<crate::backend::Placed<L::Key, L::Value>>
    where
        L::Key: Shared,
        L::Value: Shared,
    {
        self.ledger().kernel("bucketized_place", keys.len());
        let (functions, words) = (plan.functions(), image.words_mut()?);
        if old.is_some() && L::VALUES.is_some() {
            self.run(|| values::clear::<L>(words))?;
        }
        let placed = self.run(|| place::words::<L>(&functions, words, keys)).flatten()?;
        if placed.unplaced > 0 {
            return Ok(placed);
        }
        self.ledger().kernel("bucketized_sort", words.len());
        self.run(|| {
            each(lines_mut(words), CHUNK / LINE_WORDS, |_, lines| lines.iter_mut().for_each(canonical::sort_line::<L>));
        })?;
        if L::VALUES.is_some() {
            self.ledger().kernel("bucketized_values", keys.len());
            self.run(|| values::bring::<L>(&functions, words, old.map(|old| old.words()), keys, pair_values))
                .flatten()?;
        }
        Ok(placed)
    }
}
