//! Gathers rows of a column by number, from as few of its pieces as possible.

use std::sync::Arc;

use arrow_array::types::UInt32Type;
use arrow_array::{Array, ArrayRef, UInt32Array, new_null_array};
use arrow_schema::{ArrowError, DataType};
use arrow_select::concat::concat;
use arrow_select::interleave::interleave;
use arrow_select::take::take;

type Result<T> = std::result::Result<T, ArrowError>;

/// The rows with these numbers, which must be valid, of a column in pieces; null if a number is null.
pub(crate) fn take_chunks(data_type: &DataType, chunks: &[ArrayRef], rows: &UInt32Array) -> Result<ArrayRef> {
    let starts = Starts::of(chunks);
    let Some((least, greatest)) = ends(rows) else {
        return Ok(new_null_array(data_type, rows.len()));
    };
    // Only the pieces that contain some of the rows.
    let (first, last) = (starts.place(least).0, starts.place(greatest).0);
    let (chunks, start) = (&chunks[first..=last], starts.0[first]);
    if is_run(rows) {
        return slice_chunks(chunks, (least - start) as usize, rows.len());
    }
    if let [one] = chunks {
        return match start {
            0 => take(one, rows, None),
            // The value under a null is unspecified.
            start => take(one, &rows.unary::<_, UInt32Type>(|row| row.wrapping_sub(start)), None),
        };
    }
    // Ascending rows, such as the left ones of a join, are a run in each piece. The runs of numbers are copied once
    // more, which takes less time than writing the position of each row.
    if rows.null_count() == 0 && data_type.is_primitive() && rows.values().is_sorted() {
        return take_runs(chunks, start, rows);
    }
    // One more piece contains the null row, with the dictionaries of the first piece.
    let none = match rows.null_count() {
        0 => None,
        _ => Some(take(&chunks[0], &UInt32Array::from(vec![None]), None)?),
    };
    let pieces: Vec<&dyn Array> = chunks.iter().chain(&none).map(AsRef::as_ref).collect();
    let place = |row| {
        let (piece, row) = starts.place(row);
        (piece - first, row)
    };
    let places: Vec<_> = rows.iter().map(|row| row.map_or((chunks.len(), 0), place)).collect();
    interleave(&pieces, &places)
}

/// The least and the greatest row; `None` if there are no rows.
pub(crate) fn ends(rows: &UInt32Array) -> Option<(u32, u32)> {
    let both = |a: (u32, u32), b: (u32, u32)| (a.0.min(b.0), a.1.max(b.1));
    match rows.null_count() {
        0 => rows.values().iter().map(|&row| (row, row)).reduce(both),
        _ => rows.iter().flatten().map(|row| (row, row)).reduce(both),
    }
}

/// Whether row numbers are consecutive, as for a left side on which each row has one match.
fn is_run(rows: &UInt32Array) -> bool {
    let numbers = rows.values();
    rows.null_count() == 0
        && numbers.iter().zip(numbers.iter().skip(1)).all(|(&row, &next)| next == row.wrapping_add(1))
}

/// `rows` rows from row `skip` on; not copied if they are in one piece.
fn slice_chunks(chunks: &[ArrayRef], mut skip: usize, mut rows: usize) -> Result<ArrayRef> {
    let mut slices = Vec::with_capacity(chunks.len());
    for chunk in chunks {
        let part = rows.min(chunk.len() - skip);
        slices.push(chunk.slice(skip, part));
        (skip, rows) = (0, rows - part);
    }
    match &slices[..] {
        [one] => Ok(Arc::clone(one)),
        several => concat(&several.iter().map(AsRef::as_ref).collect::<Vec<_>>()),
    }
}

/// Ascending rows of pieces, of which the first begins with row `start`.
fn take_runs(chunks: &[ArrayRef], mut start: u32, rows: &UInt32Array) -> Result<ArrayRef> {
    let mut rest = &rows.values()[..];
    let mut taken = Vec::with_capacity(chunks.len());
    for chunk in chunks {
        // All pieces together have fewer than 2^32 rows.
        let end = start + chunk.len() as u32;
        let (run, behind) = rest.split_at(rest.partition_point(|&row| row < end));
        if !run.is_empty() {
            let run: UInt32Array = run.iter().map(|row| row - start).collect::<Vec<_>>().into();
            taken.push(take(chunk, &run, None)?);
        }
        (start, rest) = (end, behind);
    }
    concat(&taken.iter().map(AsRef::as_ref).collect::<Vec<_>>())
}

/// Where each piece of a column begins.
#[derive(Clone, Debug)]
pub(crate) struct Starts(Vec<u32>);

impl Starts {
    /// There must be fewer than 2^32 rows.
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

    /// The piece of a row, and its position there.
    #[inline]
    pub(crate) fn place(&self, row: u32) -> (usize, usize) {
        let piece = self.0.partition_point(|&start| start <= row) - 1;
        (piece, (row - self.0[piece]) as usize)
    }
}
