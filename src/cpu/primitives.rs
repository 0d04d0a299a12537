//! The passes that no scheme owns, on plain slices. Callers have checked the lengths.

use std::ops::Range;

use super::memory::{Memory, prefetch};
use super::{BLOCK, CHUNK};
use crate::error::Result;
use crate::memory;
use crate::parallel::{Per, collect, each, fold};

/// Words of a bitmap for one chunk.
const CHUNK_WORDS: usize = CHUNK / 32;

/// 0, 1, ..
pub(super) fn iota(to: &mut [u32]) {
    each(to, CHUNK, |chunk, to| {
        let first = (chunk * CHUNK) as u32;
        to.iter_mut().zip(0..).for_each(|(to, i)| *to = first.wrapping_add(i));
    });
}

/// `!x` for every x.
pub(super) fn complement(words: &mut [u32]) {
    each(words, CHUNK, |_, chunk| chunk.iter_mut().for_each(|x| *x = !*x));
}

/// The greatest of them; 0 if there is none.
pub(super) fn greatest(words: &[u32]) -> u32 {
    fold(words, CHUNK, |_, chunk| chunk.iter().copied().max().unwrap_or(0), u32::max)
}

/// `from[index[i]]`, or 0 past the end.
pub(super) fn gather(from: &[u32], index: &[u32], to: &mut [u32]) {
    each((to, index), CHUNK, |_, (to, index)| {
        for (i, to) in to.iter_mut().enumerate() {
            if let Some(&ahead) = index.get(i + BLOCK) {
                prefetch(from, ahead as usize);
            }
            *to = from.get(index[i] as usize).copied().unwrap_or(0);
        }
    });
}

/// The elements of each column whose bit equals `keep`, in their order.
///
/// Count the kept ones of each chunk, cut the output where the chunks' shares begin, and let each chunk fill its own.
pub(super) fn select(bits: &[u32], keep: bool, columns: &[&[u32]]) -> Result<Vec<Memory<u32>>> {
    let len = columns.first().map_or(0, |column| column.len());
    let kept = |word: usize| {
        let wanted = if keep { bits[word] } else { !bits[word] };
        let past = 32 - (len - 32 * word).min(32) as u32;
        wanted & (u32::MAX >> past)
    };
    let count = |_, words: Range<usize>| words.map(|word| kept(word).count_ones() as usize).sum();
    let counts: Vec<usize> = collect(0..bits.len(), CHUNK_WORDS, count)?;
    let select_column = |column: &&[u32]| {
        let mut selected = Memory::zeroed(counts.iter().sum())?;
        let mut rest = selected.words_mut()?;
        let mut shares = memory::reserved(counts.len())?;
        for &count in &counts {
            shares.push(rest.split_off_mut(..count).unwrap_or_default());
        }
        let columns = (0..bits.len(), Per(CHUNK_WORDS, &mut shares[..]));
        each(columns, CHUNK_WORDS, |_, (words, Per(_, share))| {
            let mut share = share[0].iter_mut();
            for word in words {
                let mut left = kept(word);
                while left != 0 {
                    let bit = left.trailing_zeros() as usize;
                    if let Some(to) = share.next() {
                        *to = column[32 * word + bit];
                    }
                    left &= left - 1;
                }
            }
        });
        Ok(selected)
    };
    columns.iter().map(select_column).collect()
}
