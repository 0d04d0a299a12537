//! How many bytes each row of a side takes in a result, known before rows are put together: a single long row may be the
//! partner of many.

use arrow_array::ArrayRef;

use crate::sizes::{add_contents, slot};

/// Bytes of each row of some columns.
pub(super) struct Lengths {
    slot: u64,
    /// What rows take besides their slots; none if that is nothing for all of them.
    of_row: Vec<u32>,
    longest: u64,
}

impl Lengths {
    /// The lengths of columns with `rows` rows, each in pieces.
    pub(super) fn of<'a>(columns: impl Iterator<Item = &'a [ArrayRef]>, rows: usize) -> Self {
        let mut lengths = Lengths { slot: 0, of_row: Vec::new(), longest: 0 };
        for pieces in columns {
            let Some(first) = pieces.first() else { continue };
            lengths.slot += slot(first.data_type()) as u64;
            if !crate::sizes::is_fixed(first.data_type()) {
                lengths.of_row.resize(rows, 0);
                let mut rest = &mut lengths.of_row[..];
                for piece in pieces {
                    let (own, behind) = rest.split_at_mut(piece.len());
                    add_contents(piece, own);
                    rest = behind;
                }
            }
        }
        lengths.longest = lengths.slot + u64::from(lengths.of_row.iter().copied().max().unwrap_or(0));
        lengths
    }

    /// The most that a row takes.
    pub(super) fn longest(&self) -> u64 {
        self.longest
    }

    /// What this row takes; no row takes a slot too.
    #[inline]
    pub(super) fn of_row(&self, row: u32) -> u64 {
        self.slot + self.of_row.get(row as usize).map_or(0, |&bytes| bytes.into())
    }
}
