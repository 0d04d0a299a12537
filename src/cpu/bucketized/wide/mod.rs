//! Bucketized tables of 64-bit keys or values on the CPU.
//!
//! ```text
//! line.rs     one line: sort it, offer a pair to it
//! parts.rs    build a large table one partition at a time, in the caches
//! escapes.rs  pairs that have left their parts, in the whole image
//! place.rs    words, by scan and compare-exchange on all threads
//! values.rs   values, moved to the slots of their words
//! lookup.rs   lookup, a block of keys and their lines at a time
//! ```
//!
//! When a batch is added to an image with pairs, the old image is kept until all words are placed: the value of a
//! displaced pair is found in the old image, by its key.

mod escapes;
pub(in crate::cpu) mod line;
mod lookup;
pub(in crate::cpu) mod parts;
mod place;
#[cfg(test)]
mod tests;
pub(in crate::cpu) mod values;

use std::sync::atomic::Ordering::{AcqRel, Relaxed};

use super::super::atomic::Atomic;
use super::super::memory::{Memory, atomic, atomic_u32};
use super::super::{CHUNK, Cpu};
use crate::backend::{BuildRoute, DecodedOf, DeviceBuffer, HashBackend, Passes, Placed, PlacedOf, Removed, Word};
use crate::error::Result;
use crate::parallel::each;
use crate::scheme::bucketized::wide::{Column, LINE_WORDS, Layout, LinePlan, canonical, lines_mut};
use crate::scheme::{BucketizedOf, Plan};

/// Integers of lines that threads share.
pub(in crate::cpu) trait Shared: Word {
    /// The atomic type.
    type Cell: Atomic<Word = Self>;
    /// The integers of an image, in this width.
    fn cells(image: &mut [u64]) -> &[Self::Cell];
    /// Raises a cell to at least `to`.
    fn raise(cell: &Self::Cell, to: Self);
    /// Overwrites a cell.
    fn set(cell: &Self::Cell, to: Self);
    /// Overwrites a cell, and returns the previous content.
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

/// A new image, and the counts of its pairs.
type Built<L> = (Memory<u64>, Placed<<L as Layout>::Key, <L as Layout>::Value>);

/// The number of integers of this width in a line.
pub(in crate::cpu) const fn per_line<T: Word>() -> usize {
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
        if let Some(built) = self.lines_by_parts::<(K, V)>(plan, keys.words(), values.words())? {
            return Ok(built);
        }
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
        self.lookup_in_lines::<(K, V)>(&plan.functions(), image, queries, values, found)
    }

    fn contains(
        &self,
        plan: &LinePlan<(K, V)>,
        image: &Memory<u64>,
        queries: &Memory<<(K, V) as Layout>::Key>,
    ) -> Result<Memory<u32>> {
        self.ledger().kernel("bucketized_lookup", queries.len());
        self.contains_in_lines::<(K, V)>(&plan.functions(), image, queries)
    }

    fn assign(
        &self,
        plan: &LinePlan<(K, V)>,
        image: &mut Memory<u64>,
        keys: &Memory<<(K, V) as Layout>::Key>,
        values: &Memory<<(K, V) as Layout>::Value>,
    ) -> Result<()> {
        self.ledger().kernel("bucketized_assign", keys.len());
        self.assign_in_lines::<(K, V)>(&plan.functions(), image, keys, values)
    }

    fn decode(&self, plan: &LinePlan<(K, V)>, image: &Memory<u64>) -> Result<DecodedOf<Cpu, BucketizedOf<K, V>>> {
        self.ledger().kernel("bucketized_decode", image.len());
        self.decode_lines::<(K, V), _>(&plan.functions(), image, plan.cells() as usize)
    }

    fn remove(
        &self,
        plan: &LinePlan<(K, V)>,
        image: &mut Memory<u64>,
        keys: &Memory<<(K, V) as Layout>::Key>,
    ) -> Result<Removed> {
        self.ledger().kernel("bucketized_remove", keys.len());
        self.remove_from_lines::<(K, V), _>(&plan.functions(), image, keys)
    }

    fn lift(&self, plan: &LinePlan<(K, V)>, image: &mut Memory<u64>) -> Result<DecodedOf<Cpu, BucketizedOf<K, V>>> {
        self.ledger().kernel("bucketized_lift", image.len());
        let lifted = self.lift_from_lines::<(K, V), _>(&plan.functions(), image, plan.cells() as usize)?;
        let words = lines_mut(image.words_mut()?);
        self.run(|| {
            each(words, CHUNK / LINE_WORDS, |_, lines| lines.iter_mut().for_each(canonical::sort_line::<(K, V)>));
        })?;
        Ok(lifted)
    }
}

impl Cpu {
    /// An image with these pairs, built one partition at a time; `None` if another strategy should be used.
    fn lines_by_parts<L: Layout>(
        &self,
        plan: &LinePlan<L>,
        keys: &[L::Key],
        values: &[L::Value],
    ) -> Result<Option<Built<L>>> {
        if keys.is_empty() || self.build_route(keys.len())? == BuildRoute::Direct {
            return Ok(None);
        }
        let functions = plan.functions();
        let mut image = Memory::zeroed(plan.word_count()?)?;
        let words = image.words_mut()?;
        self.ledger().kernel("bucketized_deal", keys.len());
        let Some(parts) = self.run(|| parts::partitioned::<L>(&functions, words, keys, values))? else {
            return Ok(None);
        };
        self.ledger().kernel("bucketized_parts", keys.len());
        let Some((open, placed)) = self.run(|| parts.place(words))? else { return Ok(None) };
        self.ledger().kernel("bucketized_escapes", open.len());
        let placed = self.run(|| escapes::finish(&functions, words, open, placed))?;
        Ok(Some((image, placed)))
    }

    /// Adds pairs to an image, whose existing pairs are those of `old`.
    fn add_to_lines<L: Layout>(
        &self,
        plan: &LinePlan<L>,
        image: &mut Memory<u64>,
        old: Option<&Memory<u64>>,
        keys: &[L::Key],
        pair_values: &[L::Value],
    ) -> Result<Placed<L::Key, L::Value>>
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
            self.run(|| values::fetch::<L>(&functions, words, old.map(|old| old.words()), keys, pair_values))
                .flatten()?;
        }
        Ok(placed)
    }
}
