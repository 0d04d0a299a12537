//! The rows of a file as a stream of batches, in order. Batches are so small that several of them fit in memory.
//!
//! The readers of formats return batches as small as the format allows: a batch of an Arrow file is decoded as a whole,
//! and a row of text is never split. This module cuts them to the maximum size.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use crate::failure::Result;
use koel_arrow::external::row_bytes;

/// The most rows of a batch.
pub(super) const ROWS: usize = 1 << 16;
/// About the most bytes of a batch; a longer row is a batch of its own.
pub(super) const BYTES: usize = 4 << 20;

/// Batches are cut at multiples of this number of rows, so that their bitmaps begin with a word and are not shifted.
const WORD: usize = 64;

/// The number of rows of a batch whose rows have `bytes` bytes.
pub(super) fn rows_of(bytes: usize) -> usize {
    (BYTES / bytes.max(1)).clamp(1, ROWS)
}

/// Batches of any size.
pub(super) type Batches<'a> = Box<dyn Iterator<Item = Result<RecordBatch>> + Send + 'a>;

/// A part of a file that any thread can read independently, and more than once, such as a row group.
#[derive(Clone)]
pub(super) struct Part<'a> {
    pub(super) rows: u64,
    /// The estimated bytes of its rows.
    pub(super) bytes: u64,
    pub(super) read: Arc<dyn Fn() -> Batches<'a> + Send + Sync + 'a>,
}

/// A part of a stream.
pub(crate) struct StreamPart<'a> {
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
    /// Reads the part from its first row on.
    pub(crate) open: Arc<dyn Fn() -> Stream<'a> + Send + Sync + 'a>,
}

/// The source of batches.
enum Input<'a> {
    Sequence(Batches<'a>),
    #[cfg_attr(not(feature = "parquet"), allow(dead_code, reason = "only Parquet files have parts"))]
    Parts(std::vec::IntoIter<Part<'a>>),
}

/// Batches of at most [`ROWS`] rows and about [`BYTES`] bytes, in the order of the file's rows. The stream ends after
/// an error.
pub(crate) struct Stream<'a> {
    schema: SchemaRef,
    input: Input<'a>,
    /// Pieces of the last batch, in reverse order.
    pieces: Vec<RecordBatch>,
    has_failed: bool,
    /// Text columns without any value, whose types only the user can state.
    untyped: Vec<String>,
    /// A check to run after the last batch.
    at_end: Option<Arc<dyn Fn() -> Result<()> + Send + Sync + 'a>>,
}

impl<'a> Stream<'a> {
    /// A stream of batches with this schema, of any size.
    pub(super) fn of(schema: SchemaRef, batches: impl Iterator<Item = Result<RecordBatch>> + Send + 'a) -> Stream<'a> {
        Stream::from(schema, Input::Sequence(Box::new(batches)))
    }

    /// A stream of parts with this schema, in order.
    #[cfg_attr(not(feature = "parquet"), allow(dead_code, reason = "only Parquet files have parts"))]
    pub(super) fn of_parts(schema: SchemaRef, parts: Vec<Part<'a>>) -> Stream<'a> {
        Stream::from(schema, Input::Parts(parts.into_iter()))
    }

    /// Concatenates streams that all have this schema. If all have parts, these are the parts of the result.
    pub(super) fn joined(schema: SchemaRef, streams: Vec<Stream<'a>>) -> Stream<'a> {
        let part = |StreamPart { rows, bytes, open }: StreamPart<'a>| Part {
            rows,
            bytes,
            read: Arc::new(move || Box::new(open())),
        };
        match streams.iter().all(|stream| matches!(stream.input, Input::Parts(_))) {
            true => {
                Stream::of_parts(schema, streams.into_iter().flat_map(Stream::into_parts).flatten().map(part).collect())
            }
            false => Stream::of(schema, streams.into_iter().flatten()),
        }
    }

    fn from(schema: SchemaRef, input: Input<'a>) -> Stream<'a> {
        Stream { schema, input, pieces: Vec::new(), has_failed: false, untyped: Vec::new(), at_end: None }
    }

    /// Applies `convert` to each batch.
    pub(super) fn converted(
        self,
        schema: SchemaRef,
        convert: impl Fn(RecordBatch) -> Result<RecordBatch> + Send + Sync + 'a,
    ) -> Stream<'a> {
        let convert = Arc::new(convert);
        let of = move |batches: Batches<'a>| -> Batches<'a> {
            let convert = Arc::clone(&convert);
            Box::new(batches.map(move |batch| convert(batch?)))
        };
        let input = match self.input {
            Input::Sequence(batches) => Input::Sequence(of(batches)),
            Input::Parts(parts) => {
                let part = |Part { rows, bytes, read }: Part<'a>| {
                    let of = of.clone();
                    Part { rows, bytes, read: Arc::new(move || of(read())) }
                };
                Input::Parts(parts.map(part).collect::<Vec<_>>().into_iter())
            }
        };
        Stream { schema, input, ..self }
    }

    /// Adds a check that runs after the last batch, and after the last batch of each part.
    pub(super) fn checked(self, at_end: impl Fn() -> Result<()> + Send + Sync + 'a) -> Stream<'a> {
        Stream { at_end: Some(Arc::new(at_end)), ..self }
    }

    /// The bytes of the largest part, if there are several.
    pub(crate) fn largest_part(&self) -> Option<u64> {
        match &self.input {
            Input::Parts(parts) if parts.len() > 1 => parts.as_slice().iter().map(|part| part.bytes).max(),
            _ => None,
        }
    }

    /// The parts, in order; the stream itself if it has none.
    pub(crate) fn into_parts(self) -> std::result::Result<Vec<StreamPart<'a>>, Self> {
        let Stream { schema, input: Input::Parts(parts), at_end, .. } = self else { return Err(self) };
        let part = |part: Part<'a>| {
            let (rows, bytes, schema, at_end) = (part.rows, part.bytes, Arc::clone(&schema), at_end.clone());
            let input = move || Input::Parts(vec![part.clone()].into_iter());
            let open = move || Stream { at_end: at_end.clone(), ..Stream::from(Arc::clone(&schema), input()) };
            StreamPart { rows, bytes, open: Arc::new(open) }
        };
        Ok(parts.map(part).collect())
    }

    /// The next batch as the source returns it.
    fn read(&mut self) -> Option<Result<RecordBatch>> {
        loop {
            match &mut self.input {
                Input::Sequence(batches) => {
                    let end = || self.at_end.take().and_then(|check| check().err()).map(Err);
                    return batches.next().or_else(end);
                }
                Input::Parts(parts) => {
                    let all: Vec<Part<'a>> = parts.collect();
                    self.input = Input::Sequence(Box::new(all.into_iter().flat_map(|part| (part.read)())));
                }
            }
        }
    }

    pub(super) fn with_untyped(self, untyped: Vec<String>) -> Stream<'a> {
        Stream { untyped, ..self }
    }

    /// Whether a column is text without any value.
    pub(crate) fn is_untyped(&self, column: &str) -> bool {
        self.untyped.iter().any(|untyped| untyped == column)
    }

    pub(super) fn untyped(&self) -> &[String] {
        &self.untyped
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }
}

impl Iterator for Stream<'_> {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Result<RecordBatch>> {
        while !self.has_failed {
            let Some(piece) = self.pieces.pop() else {
                match self.read()? {
                    Ok(batch) => self.pieces.push(batch),
                    Err(failure) => {
                        self.has_failed = true;
                        return Some(Err(failure));
                    }
                }
                continue;
            };
            let rows = piece.num_rows();
            if rows > ROWS || (rows > 1 && row_bytes(&piece) > BYTES) {
                // Halves the batch, because rows at its end may be much longer than those at its start.
                let half = rows.div_ceil(2);
                let half = if half >= WORD { half.next_multiple_of(WORD).min(rows - 1) } else { half };
                self.pieces.extend([piece.slice(half, rows - half), piece.slice(0, half)]);
            } else if rows > 0 {
                return Some(Ok(piece));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{ArrayRef, Int64Array, StringArray};
    use arrow_select::concat::concat_batches;

    use super::*;
    use crate::failure::Failure;

    fn batches(batch: &RecordBatch) -> Vec<RecordBatch> {
        let stream = Stream::of(batch.schema(), [Ok(batch.slice(0, 0)), Ok(batch.clone())].into_iter());
        stream.collect::<Result<_>>().unwrap_or_else(|failure| panic!("{failure}"))
    }

    #[test]
    fn batches_are_cut_by_rows_and_by_bytes() {
        for rows in [0, 1, 2, ROWS - 1, ROWS, ROWS + 1, 300_001] {
            let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows as i64));
            let batch = RecordBatch::try_from_iter([("a", numbers)]).expect("a column");
            let found = batches(&batch);
            assert!(found.iter().all(|batch| (1..=ROWS).contains(&batch.num_rows())));
            assert_eq!(concat_batches(&batch.schema(), &found).expect("one schema"), batch);
            assert!(found.len() <= 2 * rows.div_ceil(ROWS), "{} of {rows}", found.len());
        }
        // Only the texts at the end are long.
        let long = "x".repeat(BYTES / 3);
        let texts = (0..1000).map(|i| if i < 990 { "short" } else { &long });
        let texts: ArrayRef = Arc::new(StringArray::from_iter_values(texts));
        let batch = RecordBatch::try_from_iter([("a", texts)]).expect("a column");
        let found = batches(&batch);
        assert!(found.iter().all(|batch| batch.num_rows() == 1 || row_bytes(batch) <= BYTES));
        assert!(found[0].num_rows() >= 500 && found.len() < 20);
        assert_eq!(concat_batches(&batch.schema(), &found).expect("one schema"), batch);
    }

    #[test]
    fn nothing_follows_an_error() {
        let batch = RecordBatch::try_from_iter([("a", Arc::new(Int64Array::from(vec![1])) as ArrayRef)]);
        let batch = batch.expect("a column");
        let parts = [Ok(batch.clone()), Err(Failure::Input("so".into())), Ok(batch.clone())];
        let mut stream = Stream::of(batch.schema(), parts.into_iter());
        assert!(stream.next().is_some_and(|part| part.is_ok()));
        assert!(stream.next().is_some_and(|part| part.is_err()));
        assert!(stream.next().is_none() && stream.next().is_none());
    }
}
