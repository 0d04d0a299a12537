//! Searches in blocks: all keys of a block take the same step at the same time.
//!
//! One search alone waits for a line of memory in each of its last steps. A block of 128 searches waits for 128 lines
//! together: each search asks for the word of its next step as soon as it knows it, and looks at it when all others
//! have asked for theirs. Where it goes is a coin toss to the branch predictor, so it is a choice of two numbers and no
//! branch.

use std::hint::select_unpredictable;

use super::super::BLOCK;
use super::super::memory::prefetch;
use crate::scheme::sorted::search::{half, key, word};

/// Looks up to [`BLOCK`] keys up among ascending words: for each the word that stands where its own would, and its
/// place. Nothing is found where there are no words.
#[inline(always)]
pub(super) fn search<T>(
    words: &[T],
    read: impl Fn(&T) -> u64,
    keys: &[u32],
    mut answer: impl FnMut(usize, usize, u64, bool),
) {
    let lanes = keys.len().min(BLOCK);
    // The greatest word that a key can have.
    let mut last = [0; BLOCK];
    last.iter_mut().zip(keys).for_each(|(last, &key)| *last = word(key, u32::MAX));
    let mut bases = [0usize; BLOCK];
    let mut len = words.len();
    while len > 1 {
        let step = half(len);
        len -= step;
        let next = half(len);
        for (base, &last) in bases[..lanes].iter_mut().zip(&last) {
            let right = *base + step;
            *base = select_unpredictable(read(&words[right]) <= last, right, *base);
            prefetch(words, *base + next);
        }
    }
    for (i, (&base, &wanted)) in bases.iter().zip(keys).enumerate() {
        let there = words.get(base).map(&read);
        answer(i, base, there.unwrap_or(0), there.is_some_and(|there| key(there) == wanted));
    }
}

/// Values and found bits of one chunk of queries.
pub(super) fn answer(words: &[u64], queries: &[u32], values: &mut [u32], found: &mut [u32]) {
    let blocks = queries.chunks(BLOCK).zip(values.chunks_mut(BLOCK)).zip(found.chunks_mut(BLOCK / 32));
    for ((queries, values), found) in blocks {
        found.fill(0);
        search(
            words,
            |&word| word,
            queries,
            |i, _, word, hit| {
                values[i] = if hit { word as u32 } else { 0 };
                found[i / 32] |= u32::from(hit) << (i % 32);
            },
        );
    }
}
