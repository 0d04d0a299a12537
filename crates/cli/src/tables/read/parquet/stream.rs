//! Row groups in steps: each wanted column has a reader of its own, all of them decode as many rows, and no more of a column
//! is in memory than a page and these rows.
//!
//! How many rows fit a step is guessed from the metadata and from what the last rows took. Where that was wrong, the readers
//! are opened anew at the row where they are: with fewer rows as often as it takes, which halves at least, and with more of
//! them once a row group, as rows in front of a reader are skipped by going over their pages.

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::SchemaRef;
use koel_arrow::external::row_bytes;
use parquet::arrow::arrow_reader::ParquetRecordBatchReader;
use parquet::basic::Type;
use rayon::prelude::*;

use super::super::guarded::guarded;
use super::super::stream::{self, Stream};
use super::{Parquet, batch_of, failed, rows_of};
use crate::failure::Result;
use crate::input::Name;

/// Rows of the first step: the metadata may not tell how long the texts of a dictionary become.
const FIRST: usize = 128;
/// The most rows of a step with texts: some may be much longer than those before them, and what a step takes is seen when it
/// was taken.
const TEXTS: usize = 1 << 14;

impl Parquet {
    pub(in super::super) fn stream<'a>(&'a self, name: &'a Name, places: &[usize]) -> Result<Stream<'a>> {
        let schema = self.projected(name, places)?;
        let steps = Steps {
            parquet: self,
            name,
            schema: schema.clone(),
            places: places.to_vec(),
            group: 0,
            next: 0,
            size: FIRST,
            most: stream::ROWS,
            readers: Vec::new(),
            may_grow: true,
        };
        Ok(Stream::of(schema, steps))
    }

    /// The most rows of a row group that a step may have, and how many fit a batch, as its metadata have it.
    fn fitting(&self, group: usize, places: &[usize]) -> (usize, usize) {
        let metadata = self.metadata.metadata();
        let leaves = metadata.file_metadata().schema_descr();
        let (mut most, mut bytes) = (stream::ROWS, 0u64);
        for (leaf, column) in metadata.row_group(group).columns().iter().enumerate() {
            if places.contains(&leaves.get_column_root_idx(leaf)) {
                // Texts of a dictionary are longer than what stands for them; newer files say how long they are.
                let long = column.uncompressed_size().max(column.unencoded_byte_array_data_bytes().unwrap_or(0));
                bytes = bytes.saturating_add(u64::try_from(long).unwrap_or(0));
                if column.column_type() == Type::BYTE_ARRAY {
                    most = TEXTS;
                }
            }
        }
        let rows = rows_of(metadata.row_group(group)).max(1);
        (most, stream::rows_of(usize::try_from(bytes).unwrap_or(usize::MAX) / rows))
    }
}

/// The rows that are left.
struct Steps<'a> {
    parquet: &'a Parquet,
    name: &'a Name,
    schema: SchemaRef,
    places: Vec<usize>,
    /// The row group that is being read, and its next row.
    group: usize,
    next: usize,
    /// Rows of a step, and the most that it may have.
    size: usize,
    most: usize,
    /// One a column; none before a row group is begun, and where steps become others.
    readers: Vec<ParquetRecordBatchReader>,
    /// Whether steps of this row group may become longer.
    may_grow: bool,
}

impl Iterator for Steps<'_> {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Result<RecordBatch>> {
        loop {
            let rows = rows_of(self.parquet.metadata.metadata().row_groups().get(self.group)?);
            if self.next < rows {
                let count = self.size.min(rows - self.next);
                return Some(self.step(count));
            }
            self.readers.clear();
            (self.group, self.next, self.may_grow) = (self.group + 1, 0, true);
        }
    }
}

impl Steps<'_> {
    /// The next rows.
    fn step(&mut self, mut count: usize) -> Result<RecordBatch> {
        if self.readers.len() < self.places.len() {
            if self.next == 0 {
                let metadata = || Ok(self.parquet.fitting(self.group, &self.places));
                let (most, fitting) = guarded(metadata).map_err(|reason| failed(self.name, &reason))?;
                self.most = most;
                self.size = self.size.min(most).min(fitting);
                count = count.min(self.size);
            }
            self.open()?;
        }
        let arrays = self.readers.par_iter_mut().zip(&self.places).map(|(reader, &place)| {
            guarded(|| {
                let batch = reader.next().transpose().map_err(|error| error.to_string())?;
                Ok(batch.map(|batch| batch.column(0).clone()).filter(|column| column.len() >= count))
            })
            .map_err(|reason| self.parquet.column_failed(self.name, self.group, place, &reason))
        });
        // Of several faults the first column's.
        let arrays = arrays.collect::<Vec<_>>().into_iter().collect::<Result<Option<Vec<ArrayRef>>>>()?;
        let batch = batch_of(self.name, self.group, &self.schema, arrays, count)?;
        self.next += count;
        let fitting = stream::rows_of(row_bytes(&batch).div_ceil(count)).min(self.most);
        let is_too_long = fitting <= self.size / 2;
        if is_too_long || (self.may_grow && fitting >= 2 * self.size) {
            self.readers.clear();
            self.size = fitting;
            self.may_grow &= is_too_long;
        }
        Ok(batch)
    }

    /// Readers of all columns, from the next row on.
    fn open(&mut self) -> Result<()> {
        let readers = self.places.iter().map(|&place| {
            guarded(|| self.parquet.reader(self.group, place, self.size, self.next))
                .map_err(|reason| self.parquet.column_failed(self.name, self.group, place, &reason))
        });
        self.readers = readers.collect::<Result<_>>()?;
        Ok(())
    }
}
