//! The number of bytes of each row of a side in a result, known before rows are gathered: a single long row may match
//! many rows.

use arrow_array::ArrayRef;

use crate::sizes::{add_contents, slot};

/// The bytes of each row of some columns.
pub(super) struct Lengths {
    slot: u64,
    /// The bytes of each row in addition to its slot; empty if all are 0.
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

    /// The greatest number of bytes of a row.
    pub(super) fn longest(&self) -> u64 {
        self.longest
    }

    /// The bytes of this row; a missing row takes a slot too.
    #[inline]
    pub(super) fn of_row(&self, row: u32) -> u64 {
        self.slot + self.of_row.get(row as usize).map_or(0, |&bytes| bytes.into())
    }
}
