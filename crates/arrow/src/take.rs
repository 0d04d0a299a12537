//! Rows of a column by their numbers.

use arrow_array::{Array, ArrayRef, UInt32Array, new_empty_array, new_null_array};
use arrow_schema::DataType;
use arrow_select::interleave::interleave;
use arrow_select::take::take;

use crate::error::Result;

/// The rows with these numbers of a column in pieces; null where a number is null.
pub(crate) fn take_chunks(data_type: &DataType, chunks: &[ArrayRef], rows: &UInt32Array) -> Result<ArrayRef> {
    match chunks {
        [] if rows.is_empty() => Ok(new_empty_array(data_type)),
        [] => Ok(take(&new_empty_array(data_type), rows, None)?),
        [one] => Ok(take(one, rows, None)?),
        several => {
            let starts = Starts::of(several);
            // One piece more has the row that stands for none.
            let none = new_null_array(data_type, 1);
            let mut pieces: Vec<&dyn Array> = several.iter().map(|chunk| chunk.as_ref()).collect();
            pieces.push(none.as_ref());
            let places: Vec<_> =
                rows.iter().map(|row| row.map_or((several.len(), 0), |row| starts.place(row))).collect();
            Ok(interleave(&pieces, &places)?)
        }
    }
}

/// Where each piece of a column begins.
#[derive(Clone, Debug)]
pub(crate) struct Starts(Vec<u32>);

impl Starts {
    /// Of fewer than 2^32 rows.
    pub(crate) fn of(chunks: &[ArrayRef]) -> Self {
        Starts(
            chunks
                .iter()
                .scan(0, |start, chunk| {
                    let this = *start;
                    *start += chunk.len() as u32;
                    Some(this)
                })
                .collect(),
        )
    }

    /// The piece of a row, and its place there.
    #[inline]
    pub(crate) fn place(&self, row: u32) -> (usize, usize) {
        let piece = self.0.partition_point(|&start| start <= row) - 1;
        (piece, (row - self.0[piece]) as usize)
    }
}
