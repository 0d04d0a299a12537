//! Searches in blocks: all keys of a block take the same step at the same time.
//!
//! A single search waits for a line of memory in each of its last steps. A block of 128 searches waits for 128 lines at
//! once: each search prefetches the word of its next step, and reads it after all others have prefetched theirs. The
//! branch predictor cannot foresee its direction, so each step selects one of two numbers without a branch.

use std::hint::select_unpredictable;

use super::super::BLOCK;
use super::super::memory::prefetch;
use crate::backend::Word;
use crate::scheme::sorted::search::{half, key, word};

/// Maps a cell of an image to a number: the key, or the key in the upper bits.
pub(super) trait Says<K>: Copy {
    /// The greatest number of a cell with this key.
    fn greatest(self, key: K) -> u64;
    /// The key in this number.
    fn key(self, says: u64) -> K;
}

/// `[key][value]`.
#[derive(Clone, Copy)]
pub(super) struct Pairs;

impl Says<u32> for Pairs {
    #[inline(always)]
    fn greatest(self, key: u32) -> u64 {
        word(key, u32::MAX)
    }
    #[inline(always)]
    fn key(self, says: u64) -> u32 {
        key(says)
    }
}

/// A key without a value.
#[derive(Clone, Copy)]
pub(super) struct Keys;

impl<K: Word> Says<K> for Keys {
    #[inline(always)]
    fn greatest(self, key: K) -> u64 {
        key.into()
    }
    #[inline(always)]
    fn key(self, says: u64) -> K {
        K::low(says)
    }
}

/// Searches for up to [`BLOCK`] keys in ascending cells. Calls `answer` with the index of each key, the position and
/// the number of the last cell that is not above it, and whether that cell has the key. If there are no cells, no key
/// is found.
#[inline(always)]
pub(super) fn search<T, K: Copy + PartialEq>(
    cells: &[T],
    as_what: impl Says<K>,
    read: impl Fn(&T) -> u64,
    keys: &[K],
    mut answer: impl FnMut(usize, usize, u64, bool),
) {
    let lanes = keys.len().min(BLOCK);
    let mut last = [0; BLOCK];
    last.iter_mut().zip(keys).for_each(|(last, &key)| *last = as_what.greatest(key));
    let mut bases = [0usize; BLOCK];
    let mut len = cells.len();
    while len > 1 {
        let step = half(len);
        len -= step;
        let next = half(len);
        for (base, &last) in bases[..lanes].iter_mut().zip(&last) {
            let right = *base + step;
            *base = select_unpredictable(read(&cells[right]) <= last, right, *base);
            prefetch(cells, *base + next);
        }
    }
    for (i, (&base, &wanted)) in bases.iter().zip(keys).enumerate() {
        let there = cells.get(base).map(&read);
        answer(i, base, there.unwrap_or(0), there.is_some_and(|there| as_what.key(there) == wanted));
    }
}

/// Values and found bits of one chunk of queries.
pub(super) fn answer(words: &[u64], queries: &[u32], values: &mut [u32], found: &mut [u32]) {
    let blocks = queries.chunks(BLOCK).zip(values.chunks_mut(BLOCK)).zip(found.chunks_mut(BLOCK / 32));
    for ((queries, values), found) in blocks {
        found.fill(0);
        search(
            words,
            Pairs,
            |&word| word,
            queries,
            |i, _, word, hit| {
                values[i] = if hit { word as u32 } else { 0 };
                found[i / 32] |= u32::from(hit) << (i % 32);
            },
        );
    }
}

/// As [`answer`], for keys and values in columns. The values of a block are prefetched before the first is read.
pub(super) fn answer_columns<K: Word, V: Word>(
    (column, values): (&[K], &[V]),
    queries: &[K],
    to: &mut [V],
    found: &mut [u32],
) {
    for ((queries, to), found) in queries.chunks(BLOCK).zip(to.chunks_mut(BLOCK)).zip(found.chunks_mut(BLOCK / 32)) {
        let mut places = [usize::MAX; BLOCK];
        search(
            column,
            Keys,
            |&key| key.into(),
            queries,
            |i, at, _, hit| {
                prefetch(values, at);
                places[i] = if hit { at } else { usize::MAX };
            },
        );
        found.fill(0);
        for (i, (to, &at)) in to.iter_mut().zip(&places).enumerate() {
            found[i / 32] |= u32::from(at != usize::MAX) << (i % 32);
            // Sets have no values.
            *to = values.get(at).copied().unwrap_or(V::low(0));
        }
    }
}

/// Found bits of one chunk of queries.
pub(super) fn contains<K: Word>(column: &[K], queries: &[K], found: &mut [u32]) {
    for (queries, found) in queries.chunks(BLOCK).zip(found.chunks_mut(BLOCK / 32)) {
        found.fill(0);
        let bit = |i: usize, _, _, hit| found[i / 32] |= u32::from(hit) << (i % 32);
        search(column, Keys, |&key| key.into(), queries, bit);
    }
}
