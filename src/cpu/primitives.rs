//! The passes that do not depend on a scheme, on slices. The callers have checked the lengths.

use std::ops::Range;

use super::memory::{Memory, prefetch};
use super::{BLOCK, CHUNK};
use crate::backend::Word;
use crate::error::Result;
use crate::memory;
use crate::parallel::{Per, collect, each, fold};

/// Words of a bitmap for one chunk.
const CHUNK_WORDS: usize = CHUNK / 32;

/// Writes 0, 1, ..
pub(super) fn iota(to: &mut [u32]) {
    each(to, CHUNK, |chunk, to| {
        let first = (chunk * CHUNK) as u32;
        to.iter_mut().zip(0..).for_each(|(to, i)| *to = first.wrapping_add(i));
    });
}

/// The results of `of_row` for 0, 1, .. to `rows`.
pub(super) fn of_rows<T: Word>(rows: usize, of_row: impl Fn(usize) -> T + Sync) -> Result<Memory<T>> {
    let mut all = Memory::zeroed(rows)?;
    each((0..rows, all.words_mut()?), CHUNK, |_, (rows, to)| {
        rows.zip(to).for_each(|(row, to)| *to = of_row(row));
    });
    Ok(all)
}

/// Replaces every x by `!x`.
pub(super) fn complement(words: &mut [u32]) {
    each(words, CHUNK, |_, chunk| chunk.iter_mut().for_each(|x| *x = !*x));
}

/// The greatest word; 0 if there are none.
pub(super) fn greatest<T: Word>(words: &[T]) -> T {
    let of_chunk = |_, chunk: &[T]| chunk.iter().copied().max();
    fold(words, CHUNK, of_chunk, Option::max).unwrap_or(T::zeroed())
}

/// Writes `from[index[i]]`, or 0 for indexes past the end.
pub(super) fn gather<T: Word>(from: &[T], index: &[u32], to: &mut [T]) {
    each((to, index), CHUNK, |_, (to, index)| {
        for (i, to) in to.iter_mut().enumerate() {
            if let Some(&ahead) = index.get(i + BLOCK) {
                prefetch(from, ahead as usize);
            }
            *to = from.get(index[i] as usize).copied().unwrap_or(T::zeroed());
        }
    });
}

/// The elements that a bitmap keeps. They are counted only once, whatever the number of columns.
pub(super) struct Kept<'a> {
    bits: &'a [u32],
    flip: u32,
    len: usize,
    /// The number of kept elements per chunk.
    counts: Vec<usize>,
}

impl<'a> Kept<'a> {
    /// Keeps those of `len` elements whose bit equals `keep`.
    pub(super) fn new(bits: &'a [u32], keep: bool, len: usize) -> Result<Self> {
        let flip = if keep { 0 } else { u32::MAX };
        let mut kept = Kept { bits, flip, len, counts: Vec::new() };
        let count = |_, words: Range<usize>| words.map(|word| kept.in_word(word).count_ones() as usize).sum();
        kept.counts = collect(0..bits.len(), CHUNK_WORDS, count)?;
        Ok(kept)
    }

    /// The kept elements among 32, one bit each.
    #[inline(always)]
    fn in_word(&self, word: usize) -> u32 {
        let past = 32 - (self.len - 32 * word).min(32) as u32;
        (self.bits[word] ^ self.flip) & (u32::MAX >> past)
    }

    /// The kept elements of a column, in order.
    pub(super) fn of<T: Word>(&self, column: &[T]) -> Result<Memory<T>> {
        self.of_rows(|row| column[row])
    }

    /// The results of `of_row` for the kept elements, in order. Each chunk fills its own range of the output.
    pub(super) fn of_rows<T: Word>(&self, of_row: impl Fn(usize) -> T + Sync) -> Result<Memory<T>> {
        let mut selected = Memory::zeroed(self.counts.iter().sum())?;
        let mut rest = selected.words_mut()?;
        let mut shares = memory::reserved(self.counts.len())?;
        for &count in &self.counts {
            shares.push(rest.split_off_mut(..count).unwrap_or_default());
        }
        let columns = (0..self.bits.len(), Per(CHUNK_WORDS, &mut shares[..]));
        each(columns, CHUNK_WORDS, |_, (words, Per(_, share))| {
            let mut share = share[0].iter_mut();
            for word in words {
                let mut left = self.in_word(word);
                while left != 0 {
                    let bit = left.trailing_zeros() as usize;
                    if let Some(to) = share.next() {
                        *to = of_row(32 * word + bit);
                    }
                    left &= left - 1;
                }
            }
        });
        Ok(selected)
    }
}
