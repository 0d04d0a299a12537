//! The first row of each piece of a column, and the piece that contains a row.
//!
//! Rows are divided into blocks whose length is about the average length of a piece, and the piece of the first row of
//! each block is stored. So the piece of a row is found without a search, unless the lengths of pieces differ much.

use arrow_array::{Array, ArrayRef};

/// The first row of each piece.
#[derive(Clone, Debug)]
pub(crate) struct Starts {
    starts: Vec<u32>,
    /// The piece that contains the first row of each block, followed by the last piece.
    of_block: Vec<u32>,
    /// The binary logarithm of the number of rows of a block.
    shift: u32,
}

impl Starts {
    /// The starts of these pieces, which must have fewer than 2^32 rows in total, unless there is only one piece.
    pub(crate) fn of(chunks: &[ArrayRef]) -> Self {
        Starts::of_lengths(chunks.iter().map(|chunk| chunk.len()))
    }

    /// As [`of`](Self::of), for pieces of these lengths.
    pub(crate) fn of_lengths(lengths: impl Iterator<Item = usize>) -> Self {
        let (mut starts, mut rows) = (Vec::new(), 0_u32);
        for length in lengths {
            starts.push(rows);
            rows = rows.saturating_add(u32::try_from(length).unwrap_or(u32::MAX));
        }
        let shift = (rows / (starts.len() as u32).max(1)).max(1).ilog2();
        let (mut of_block, mut piece) = (Vec::with_capacity((rows >> shift) as usize + 2), 0);
        for block in 0..=rows >> shift {
            while starts.get(piece + 1).is_some_and(|&start| start <= block << shift) {
                piece += 1;
            }
            of_block.push(piece as u32);
        }
        of_block.push(starts.len().saturating_sub(1) as u32);
        Starts { starts, of_block, shift }
    }

    /// The first row of a piece.
    pub(crate) fn start(&self, piece: usize) -> u32 {
        self.starts[piece]
    }

    /// The piece of a row, and the position of the row in the piece.
    #[inline]
    pub(crate) fn place(&self, row: u32) -> (usize, usize) {
        let block = (row >> self.shift) as usize;
        let (first, last) = (self.of_block[block] as usize, self.of_block[block + 1] as usize);
        let piece = first + self.starts[first + 1..=last].partition_point(|&start| start <= row);
        (piece, (row - self.starts[piece]) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_those_of_a_search() {
        let cases: [&[usize]; 6] =
            [&[7], &[1, 1, 1], &[100, 100, 100, 37], &[1, 5000, 1, 1, 1, 64], &[3, 1, 1, 1, 900, 2], &[64, 64, 64]];
        for lengths in cases {
            let starts = Starts::of_lengths(lengths.iter().copied());
            let mut row = 0;
            for (piece, &length) in lengths.iter().enumerate() {
                assert_eq!(starts.start(piece), row);
                for place in 0..length {
                    assert_eq!(starts.place(row), (piece, place), "row {row} of {lengths:?}");
                    row += 1;
                }
            }
        }
        Starts::of(&[]);
    }
}
