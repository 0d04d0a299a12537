//! Vectors that are written by all threads.
//!
//! Elements are written in blocks by simple loops. With rayon's `map` and `collect`, each element costs a function
//! call, which takes several times as long as the work of this crate on an element.

use arrow_buffer::{BooleanBuffer, Buffer};
use rayon::prelude::*;

use crate::encode::CHUNK;

/// The number of elements of a block: few enough for the first-level cache.
const BLOCK: usize = 256;

/// Creates a vector of `len` elements. `write` receives the position of a block and its elements, and writes all of
/// them.
#[inline]
pub(crate) fn written<T: Copy + Default + Send>(len: usize, write: impl Fn(usize, &mut [T]) + Sync) -> Vec<T> {
    let block = |number: usize| {
        let (start, mut block) = (number * BLOCK, [T::default(); BLOCK]);
        write(start, &mut block[..BLOCK.min(len - start)]);
        block
    };
    let blocks = (0..len.div_ceil(BLOCK)).into_par_iter().with_min_len(CHUNK / BLOCK).map(block);
    let mut all = blocks.collect::<Vec<_>>().into_flattened();
    all.truncate(len);
    all
}

/// As [`written`], with an element per row of pieces of these lengths. `write` receives the number of a piece, a row of
/// it, and the elements of this row and the following ones, all of which are in this piece.
#[inline]
pub(crate) fn written_in_pieces<T: Copy + Default + Send>(
    lengths: impl Iterator<Item = usize>,
    write: impl Fn(usize, usize, &mut [T]) + Sync,
) -> Vec<T> {
    let mut starts = vec![0];
    starts.extend(lengths.scan(0, |end, len| {
        *end += len;
        Some(*end)
    }));
    written(starts.last().copied().unwrap_or(0), |mut start, mut rest| {
        let mut piece = starts.partition_point(|&first| first <= start) - 1;
        while !rest.is_empty() {
            let (own, later) = rest.split_at_mut(rest.len().min(starts[piece + 1] - start));
            if !own.is_empty() {
                write(piece, start - starts[piece], own);
            }
            (start, rest, piece) = (start + own.len(), later, piece + 1);
        }
    })
}

/// Applies `f` to each value, in order, on all threads of rayon's pool.
#[doc(hidden)]
#[inline]
pub fn mapped<T: Copy + Sync, U: Copy + Default + Send>(values: &[T], f: impl Fn(T) -> U + Sync) -> Vec<U> {
    written(values.len(), |start, to| {
        for (to, &value) in to.iter_mut().zip(&values[start..]) {
            *to = f(value);
        }
    })
}

/// A bit for each of `len` rows, computed on all threads of rayon's pool.
#[doc(hidden)]
#[inline]
pub fn written_bits(len: usize, is_set: impl Fn(usize) -> bool + Sync) -> BooleanBuffer {
    let words = written(len.div_ceil(64), |start, to| {
        for (word, number) in to.iter_mut().zip(start..) {
            let first = 64 * number;
            *word = (0..64.min(len - first)).fold(0, |word, bit| word | u64::from(is_set(first + bit)) << bit);
        }
    });
    BooleanBuffer::new(Buffer::from_vec(words), 0, len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_is_written_once_and_in_its_place() {
        for len in [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * CHUNK + 5] {
            let values: Vec<u64> = (0..len as u64).collect();
            assert!(mapped(&values, |value| value).iter().eq(&values), "{len}");
            assert!(written_bits(len, |row| row % 3 == 1).iter().eq((0..len).map(|row| row % 3 == 1)), "{len}");
        }
    }

    #[test]
    fn blocks_are_cut_where_pieces_end() {
        let lengths = [0, 3, 0, BLOCK, 1, 2 * CHUNK + 7, 0];
        let found = written_in_pieces(lengths.into_iter(), |piece, row, to: &mut [(usize, usize)]| {
            assert!(row + to.len() <= lengths[piece]);
            to.iter_mut().zip(row..).for_each(|(to, row)| *to = (piece, row));
        });
        let expected = lengths.iter().enumerate().flat_map(|(piece, &len)| (0..len).map(move |row| (piece, row)));
        assert!(found.into_iter().eq(expected));
        assert!(written_in_pieces(std::iter::empty(), |_, _, _: &mut [u8]| ()).is_empty());
    }
}
