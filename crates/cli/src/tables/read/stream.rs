//! The rows of a file as a stream: batches in their order, cut so small that some of them fit anywhere.
//!
//! Each format hands out batches as they come out of the file, which are as small as the file allows: a batch of an Arrow
//! file is decoded whole, and a row of text is in one piece. Here they are cut to what a batch may have.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use crate::failure::Result;
use koel_arrow::external::row_bytes;

/// The most rows of a batch.
pub(super) const ROWS: usize = 1 << 16;
/// About the most bytes of a batch; a row that is longer is a batch of its own.
pub(super) const BYTES: usize = 4 << 20;

/// Rows that begin a word of a bitmap: cut there, those behind need no shifting.
const WORD: usize = 64;

/// The number of rows of a batch whose rows have `bytes` bytes.
pub(super) fn rows_of(bytes: usize) -> usize {
    (BYTES / bytes.max(1)).clamp(1, ROWS)
}

/// Batches of at most [`ROWS`] rows and about [`BYTES`] bytes, in the order of the file's rows. After an error there are no
/// more.
pub(crate) struct Stream<'a> {
    schema: SchemaRef,
    batches: Box<dyn Iterator<Item = Result<RecordBatch>> + Send + 'a>,
    /// Parts of the batch that came last, the next of them at the end.
    parts: Vec<RecordBatch>,
    has_failed: bool,
    /// Text columns without any value, whose types only the user can state.
    untyped: Vec<String>,
    /// What is to be so at the end.
    at_end: Option<Box<dyn FnOnce() -> Result<()> + Send + 'a>>,
}

impl<'a> Stream<'a> {
    /// Batches of this schema, however large they are.
    pub(super) fn of(schema: SchemaRef, batches: impl Iterator<Item = Result<RecordBatch>> + Send + 'a) -> Stream<'a> {
        Stream {
            schema,
            batches: Box::new(batches),
            parts: Vec::new(),
            has_failed: false,
            untyped: Vec::new(),
            at_end: None,
        }
    }

    /// With something that is looked at behind the last batch.
    pub(super) fn checked(self, at_end: impl FnOnce() -> Result<()> + Send + 'a) -> Stream<'a> {
        Stream { at_end: Some(Box::new(at_end)), ..self }
    }

    pub(super) fn with_untyped(self, untyped: Vec<String>) -> Stream<'a> {
        Stream { untyped, ..self }
    }

    /// Whether a column is of text and has no value.
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
            let Some(part) = self.parts.pop() else {
                let next = self.batches.next().or_else(|| self.at_end.take().and_then(|check| check().err()).map(Err));
                match next? {
                    Ok(batch) => self.parts.push(batch),
                    Err(failure) => {
                        self.has_failed = true;
                        return Some(Err(failure));
                    }
                }
                continue;
            };
            let rows = part.num_rows();
            if rows > ROWS || (rows > 1 && row_bytes(&part) > BYTES) {
                // In halves, as rows at its end may be much longer than those at its begin.
                let half = rows.div_ceil(2);
                let half = if half >= WORD { half.next_multiple_of(WORD).min(rows - 1) } else { half };
                self.parts.extend([part.slice(half, rows - half), part.slice(0, half)]);
            } else if rows > 0 {
                return Some(Ok(part));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

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
        // Long texts at the end alone.
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
