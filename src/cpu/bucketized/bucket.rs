//! Operations on one bucket: comparing all its words at once, sorting them, and offering another word.
//!
//! ```text
//! words        [upper value] [upper value] [upper value] ..     in memory: value upper value upper ..
//! compare      sixteen 32-bit lanes hold a line; each lane is compared with the wanted upper half, and the bits of the
//!              odd lanes, which hold upper halves, are the result: word i is bit 2 i + 1
//! ```

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::cpu::lanes::{Lanes, Portable};
use crate::cpu::network;

/// The lanes of a line that hold upper halves, as a bitmask.
const UPPERS: u32 = 0b1010_1010_1010_1010;

/// A word of an image that can be read: a plain one, or one that other threads may be changing.
pub(super) trait Cell: Sync + Sized {
    fn get(&self) -> u64;

    /// Returns the words of a bucket whose upper half equals `upper` in all bits of `care`: bit 2 i + 1 is set for word
    /// i.
    fn same_upper<const S: usize>(cells: &[Self; S], lanes: impl Lanes, upper: u32, care: u32) -> u32;
}

impl Cell for u64 {
    #[inline(always)]
    fn get(&self) -> u64 {
        *self
    }

    #[inline(always)]
    fn same_upper<const S: usize>(words: &[u64; S], lanes: impl Lanes, upper: u32, care: u32) -> u32 {
        const { assert!(S == 4 || S.is_multiple_of(8) && S <= 16) }
        let (upper, care) = (u64::from(upper) << 32, u64::from(care) << 32);
        if S == 4 {
            let mut line = [0; 8];
            line[..4].copy_from_slice(&words[..4]);
            return lanes.same(&line, upper, care) & UPPERS & 0xff;
        }
        let lines = words.as_chunks::<8>().0.iter().enumerate();
        lines.fold(0, |found, (i, line)| found | (lanes.same(line, upper, care) & UPPERS) << (16 * i))
    }
}

impl Cell for AtomicU64 {
    #[inline(always)]
    fn get(&self) -> u64 {
        self.load(Relaxed)
    }

    #[inline(always)]
    fn same_upper<const S: usize>(cells: &[AtomicU64; S], _: impl Lanes, upper: u32, care: u32) -> u32 {
        cells.iter().enumerate().fold(0, |found, (i, cell)| {
            let there = (cell.get() >> 32) as u32;
            found | u32::from((there ^ upper) & care == 0) << (2 * i + 1)
        })
    }
}

/// The buckets of an image.
#[inline(always)]
pub(super) fn buckets<const S: usize, C>(image: &[C]) -> &[[C; S]] {
    image.as_chunks().0
}

/// Sorts the words of a bucket in descending order. A sorted bucket is not written to.
#[inline(always)]
pub(super) fn sort<const S: usize>(words: &mut [u64; S]) {
    // All pairs of neighbours are compared, without a branch between them.
    if (1..S).fold(true, |sorted, i| sorted & (words[i - 1] >= words[i])) {
        return;
    }
    network::sort_descending::<S, S>(words);
}

/// The result of an offer to a bucket.
pub(super) enum Offered {
    /// A word with the same upper half was there; the greater of the two is kept.
    Duplicate,
    /// The least word of the bucket and `mine`, which is not kept; it may be an empty slot.
    Out(u64),
}

/// Offers a word to a bucket in descending order, and keeps that order.
#[inline(always)]
pub(super) fn offer<const S: usize>(words: &mut [u64; S], mut mine: u64) -> Offered {
    let duplicates = u64::same_upper(words, Portable, (mine >> 32) as u32, u32::MAX);
    if duplicates != 0 {
        let copy = &mut words[duplicates.trailing_zeros() as usize / 2 % S];
        *copy = mine.max(*copy);
        return Offered::Duplicate;
    }
    for word in words {
        (*word, mine) = ((*word).max(mine), (*word).min(mine));
    }
    Offered::Out(mine)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quickcheck::quickcheck;
    use std::array;

    fn sorts<const S: usize>(noise: &[u64]) -> bool {
        // Few values, so that equal ones occur.
        let mut words: [u64; S] = array::from_fn(|i| noise.get(i).map_or(i as u64, |word| word % 20));
        let mut expected = words;
        expected.sort_unstable_by(|a, b| b.cmp(a));
        sort(&mut words);
        words == expected
    }

    fn compares<const S: usize>(noise: &[u64], wanted: u64, care: u32) -> bool {
        let word = |i: usize| noise.get(i).map_or(0, |&word| (word % 4) << 62 | (wanted % 2) << 33 | i as u64);
        let (words, upper): ([u64; S], u32) =
            (array::from_fn(word), ((wanted << 62 | (wanted % 2) << 33) >> 32) as u32);
        let cells = words.map(AtomicU64::new);
        let same = |word: u64| ((word >> 32) as u32 ^ upper) & care == 0;
        let expected = (0..S).fold(0, |bits, i| bits | u32::from(same(words[i])) << (2 * i + 1));
        u64::same_upper(&words, Portable, upper, care) == expected
            && AtomicU64::same_upper(&cells, Portable, upper, care) == expected
    }

    fn offers<const S: usize>(noise: &[u64], mine: u64) -> bool {
        // Distinct keys in the upper halves, followed by empty slots.
        let mut pairs: Vec<u64> = noise.iter().take(S).map(|word| word % 9 + 1).collect();
        pairs.sort_unstable();
        pairs.dedup();
        let mut words: [u64; S] = array::from_fn(|i| pairs.get(i).map_or(0, |key| (key << 32) | (key % 3)));
        words.sort_unstable_by(|a, b| b.cmp(a));
        let mine = ((mine % 9 + 1) << 32) | (mine % 5);
        let mut expected: Vec<u64> = words.iter().copied().chain([mine]).collect();
        expected.sort_unstable_by(|a, b| b.cmp(a));
        let copy = words.iter().any(|word| word >> 32 == mine >> 32);
        // Of two words with one upper half, the greater is first.
        expected.dedup_by_key(|word| if copy { *word >> 32 } else { *word | (u64::from(*word == 0) * mine) });
        expected.resize(S + 1, 0);
        match offer(&mut words, mine) {
            Offered::Duplicate => copy && words == expected[..S],
            Offered::Out(word) => !copy && words == expected[..S] && word == expected[S],
        }
    }

    quickcheck! {
        fn offering(noise: Vec<u64>, mine: u64) -> bool {
            offers::<4>(&noise, mine) && offers::<8>(&noise, mine) && offers::<16>(&noise, mine)
        }

        fn sorting(noise: Vec<u64>) -> bool {
            sorts::<4>(&noise) && sorts::<8>(&noise) && sorts::<16>(&noise)
        }

        fn comparing(noise: Vec<u64>, wanted: u64) -> bool {
            compares::<4>(&noise, wanted, u32::MAX) && compares::<8>(&noise, wanted, u32::MAX >> 4) && compares::<16>(&noise, wanted, 7)
        }
    }
}
