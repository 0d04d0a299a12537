//! The sorted array on the CPU: `sort.rs` builds it in the image, and `lookup.rs` searches it. `wide.rs` has both for
//! 64-bit keys or values.

mod lookup;
#[cfg(test)]
mod tests;
mod wide;

use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

use super::block::Pairs;
use super::memory::{Memory, atomic};
use super::sort::sort_words;
use super::{BLOCK, CHUNK, Cpu};
use crate::backend::{Decoded, DeviceBuffer, HashBackend, Passes, Placed};
use crate::error::Result;
use crate::parallel::{Per, each, fold};
use crate::scheme::sorted::search::{key, word};
use crate::scheme::{Sorted, SortedPlan};

impl Passes<Sorted> for Cpu {
    /// Two passes through memory, and one more that finds duplicates. The image serves as the sort's memory.
    fn place(
        &self,
        plan: &SortedPlan,
        image: &mut Memory<u64>,
        keys: &Memory<u32>,
        values: &Memory<u32>,
    ) -> Result<Placed> {
        let unplaced = plan.pairs_beyond(keys.len())?;
        if unplaced > 0 {
            return Ok(Placed { unplaced, ..Placed::default() });
        }
        let len = keys.len();
        let pairs = Pairs { keys: keys.words(), values: values.words() };
        self.ledger().kernel("sorted_place", len);
        let (words, rest) = image.words_mut()?.split_at_mut(len);
        self.run(|| {
            sort_words(&pairs, words.as_chunks_mut().0)?;
            each(rest, CHUNK, |_, rest| rest.fill(0));
            Ok(duplicates(words, |&word| key(word)))
        })
        .flatten()
    }

    fn lookup(
        &self,
        plan: &SortedPlan,
        image: &Memory<u64>,
        queries: &Memory<u32>,
        values: &mut Memory<u32>,
        found: &mut Memory<u32>,
    ) -> Result<()> {
        self.ledger().kernel("sorted_lookup", queries.len());
        let words = &image.words()[..plan.pairs() as usize];
        let columns = (queries.words(), values.words_mut()?, Per(32, found.words_mut()?));
        self.run(|| {
            each(columns, CHUNK, |_, (queries, values, Per(_, found))| lookup::answer(words, queries, values, found));
        })?;
        Ok(())
    }

    /// Keys are distinct, so no two threads change one word; and values do not affect searches.
    fn assign(
        &self,
        plan: &SortedPlan,
        image: &mut Memory<u64>,
        keys: &Memory<u32>,
        values: &Memory<u32>,
    ) -> Result<()> {
        self.ledger().kernel("sorted_assign", keys.len());
        let words = &atomic(image.words_mut()?)[..plan.pairs() as usize];
        self.run(|| {
            each((keys.words(), values.words()), BLOCK, |_, (keys, values)| {
                lookup::search(
                    words,
                    lookup::Pairs,
                    |word| word.load(Relaxed),
                    keys,
                    |i, at, _, hit| {
                        if hit {
                            words[at].store(word(keys[i], values[i]), Relaxed);
                        }
                    },
                );
            });
        })?;
        Ok(())
    }

    fn decode(&self, plan: &SortedPlan, image: &Memory<u64>) -> Result<Decoded<Memory<u32>>> {
        self.ledger().kernel("sorted_decode", image.len());
        let pairs = plan.pairs() as usize;
        self.decode_with(image.words(), |at, word| (at < pairs).then_some((key(word), word as u32)))
    }
}

/// Counts the cells whose key equals that of the previous cell, and returns the least such key.
fn duplicates<T: Sync, K: Copy + PartialEq, V>(cells: &[T], key: impl Fn(&T) -> K + Sync) -> Placed<K, V> {
    let is_duplicate = |at: usize| at > 0 && key(&cells[at - 1]) == key(&cells[at]);
    let of_chunk = |_, range: Range<usize>| {
        let duplicates = range.clone().filter(|&at| is_duplicate(at)).count() as u64;
        let least = if duplicates > 0 { range.clone().find(|&at| is_duplicate(at)) } else { None };
        (duplicates, least)
    };
    let least = |a: Option<usize>, b: Option<usize>| a.into_iter().chain(b).min();
    let (duplicates, least) = fold(0..cells.len(), CHUNK, of_chunk, |a, b| (a.0 + b.0, least(a.1, b.1)));
    Placed { unplaced: 0, duplicates, least_duplicate: least.map(|at| key(&cells[at])), outside: None, stash: 0 }
}
