//! The number of bytes that each row of one side takes in the result, computed before rows are gathered: a single long
//! row may match many rows.

use arrow_array::{Array, ArrayRef};
use rayon::prelude::*;

use crate::sizes::{add_contents, is_fixed, slot};

/// The number of rows that a thread measures at a time.
const PART: usize = 1 << 16;
/// The greatest number of parts for which one thread measures all.
const FEW: usize = 4;

/// The number of bytes of each row of some columns.
pub(super) struct Lengths {
    slot: u64,
    /// The number of bytes of each row in addition to its slot; empty if all are 0.
    of_row: Vec<u32>,
    longest: u64,
}

impl Lengths {
    /// Measures columns of `rows` rows, each given in pieces. All threads measure large columns, unless this thread
    /// works `alone`.
    pub(super) fn of<'a>(columns: impl Iterator<Item = &'a [ArrayRef]>, rows: usize, alone: bool) -> Self {
        let mut lengths = Lengths { slot: 0, of_row: Vec::new(), longest: 0 };
        for pieces in columns {
            let Some(first) = pieces.first() else { continue };
            lengths.slot += slot(first.data_type()) as u64;
            if is_fixed(first.data_type()) {
                continue;
            }
            if lengths.of_row.is_empty() {
                lengths.of_row = vec![0; rows];
            }
            let mut rest = &mut lengths.of_row[..];
            let mut parts = Vec::new();
            for piece in pieces {
                for start in (0..piece.len()).step_by(PART) {
                    let part = piece.slice(start, PART.min(piece.len() - start));
                    let own;
                    (own, rest) = rest.split_at_mut(part.len());
                    parts.push((part, own));
                }
            }
            let add = |(part, own): (ArrayRef, &mut [u32])| add_contents(&part, own);
            // Small inputs are batches, which other threads process at the same time.
            match parts.len() > FEW && !alone {
                true => parts.into_par_iter().for_each(add),
                false => parts.into_iter().for_each(add),
            }
        }
        lengths.longest = lengths.slot + u64::from(lengths.of_row.iter().copied().max().unwrap_or(0));
        lengths
    }

    /// Assigns the mean length of all rows to each row, computed from the sizes of buffers: the values are not read.
    pub(super) fn mean<'a>(columns: impl Iterator<Item = &'a ArrayRef>, rows: usize) -> Self {
        let bytes = |column: &ArrayRef| column.to_data().get_slice_memory_size().unwrap_or(0) as u64;
        let mean = columns.map(bytes).sum::<u64>() / rows.max(1) as u64 + 1;
        Lengths { slot: mean, of_row: Vec::new(), longest: mean }
    }

    /// The greatest number of bytes of a row.
    pub(super) fn longest(&self) -> u64 {
        self.longest
    }

    /// The number of bytes of this row. A missing row takes a slot too.
    #[inline]
    pub(super) fn of_row(&self, row: u32) -> u64 {
        self.slot + self.of_row.get(row as usize).map_or(0, |&bytes| bytes.into())
    }
}
