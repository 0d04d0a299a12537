//! Reads row groups in steps, each group on any thread. Each wanted column has its own reader, and all readers decode
//! the same number of rows per step, so only one page and these rows of a column are in memory.
//!
//! The number of rows per step is estimated from the metadata and from the size of the last rows. If the estimate was
//! wrong, the readers are reopened at their current row: as often as necessary for shorter steps, which are at most
//! half as long, and at most once per row group for longer ones, because a reader skips rows by scanning their pages.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use arrow_array::RecordBatch;
use koel_arrow::external::row_bytes;
use parquet::arrow::arrow_reader::ParquetRecordBatchReader;
use parquet::basic::Type;
use parquet::file::metadata::ColumnChunkMetaData;
use rayon::prelude::*;

use super::super::guarded::guarded;
use super::super::stream::{self, Stream};
use super::{Chosen, Parquet, failed, rows_of};
use crate::failure::Result;
use crate::input::Name;

/// The number of rows of the first step: the metadata may not include the decoded length of a dictionary's texts.
const FIRST: usize = 128;
/// The most rows of a step with texts: some may be much longer than those before them, and the size of a step is known
/// only afterwards.
const TEXTS: usize = 1 << 14;

impl Parquet {
    /// Returns these columns as a stream. Those of `keys` may be dictionaries.
    pub(in super::super) fn stream<'a>(
        &'a self,
        name: &'a Name,
        places: &[usize],
        keys: &[usize],
    ) -> Result<Stream<'a>> {
        let chosen = Arc::new(self.chosen(name, places, keys)?);
        let schema = chosen.schema.clone();
        let fitting = Arc::new(AtomicUsize::new(FIRST));
        let mut parts = Vec::new();
        let groups = self.metadata.metadata().num_row_groups();
        let alone = groups >= 2 * rayon::current_num_threads();
        for group in 0..groups {
            let bytes = guarded(|| Ok(self.bytes(group, &chosen.parts))).map_err(|reason| failed(name, &reason))?;
            let (chosen, fitting) = (Arc::clone(&chosen), Arc::clone(&fitting));
            let steps = move || Steps {
                parquet: self,
                name,
                chosen: Arc::clone(&chosen),
                group,
                next: 0,
                size: 0,
                fitting: Arc::clone(&fitting),
                most: stream::ROWS,
                readers: Vec::new(),
                may_grow: true,
                is_checked: false,
                has_ended: false,
                alone,
            };
            let rows = rows_of(self.metadata.metadata().row_group(group)) as u64;
            parts.push(stream::Part { rows, bytes, read: Arc::new(move || Box::new(steps())) });
        }
        Ok(Stream::of_parts(schema, parts))
    }

    /// Returns the most rows of a step of a row group, and how many rows fit in a batch, according to the metadata.
    fn fitting(&self, group: usize, chosen: &Chosen) -> (usize, usize) {
        let metadata = self.metadata.metadata().row_group(group);
        let is_text = |(place, column): (usize, &ColumnChunkMetaData)| {
            column.column_type() == Type::BYTE_ARRAY
                && self.schema().field(place).data_type() == chosen.metadata.schema().field(place).data_type()
        };
        let has_texts = self.wanted(group, &chosen.parts).any(is_text);
        let bytes = usize::try_from(self.bytes(group, &chosen.parts)).unwrap_or(usize::MAX);
        (if has_texts { TEXTS } else { stream::ROWS }, stream::rows_of(bytes / rows_of(metadata).max(1)))
    }

    /// The bytes of the wanted columns of a row group, according to its metadata.
    fn bytes(&self, group: usize, parts: &[Vec<usize>]) -> u64 {
        self.wanted(group, parts).fold(0, |bytes, (_, column)| {
            // Texts of a dictionary are longer than their codes; recent writers store their length.
            let long = column.uncompressed_size().max(column.unencoded_byte_array_data_bytes().unwrap_or(0));
            bytes.saturating_add(u64::try_from(long).unwrap_or(0))
        })
    }

    /// The metadata of the wanted columns of a row group, each with the position of its column.
    fn wanted(&self, group: usize, parts: &[Vec<usize>]) -> impl Iterator<Item = (usize, &ColumnChunkMetaData)> {
        let metadata = self.metadata.metadata();
        let leaves = metadata.file_metadata().schema_descr();
        let mut is_wanted = vec![false; self.schema().fields().len()];
        parts.iter().flatten().for_each(|&place| is_wanted[place] = true);
        let columns = metadata.row_group(group).columns().iter().enumerate();
        columns
            .map(|(leaf, column)| (leaves.get_column_root_idx(leaf), column))
            .filter(move |&(place, _)| is_wanted[place])
    }
}

/// The unread rows of a row group.
struct Steps<'a> {
    parquet: &'a Parquet,
    name: &'a Name,
    chosen: Arc<Chosen>,
    /// The row group, and its next row.
    group: usize,
    next: usize,
    /// The number of rows of a step, 0 before the first one, and its maximum.
    size: usize,
    most: usize,
    /// The last number of rows per step in the row group that was read last. The next row group begins with it.
    fitting: Arc<AtomicUsize>,
    /// One reader per part of the columns; empty before a row group begins, and when the length of steps changes.
    readers: Vec<ParquetRecordBatchReader>,
    /// Whether steps of this row group may become longer.
    may_grow: bool,
    /// Whether it is known that nothing follows the last row of this row group.
    is_checked: bool,
    has_ended: bool,
    /// Whether one thread decodes all columns. Then there are enough row groups for all threads, and a thread that
    /// waited for others to decode a column would begin another row group.
    alone: bool,
}

impl Iterator for Steps<'_> {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Result<RecordBatch>> {
        let rows = self.rows();
        if self.size == 0 {
            self.size = self.fitting.load(Relaxed);
        }
        if self.next < rows {
            return Some(self.step(self.size.min(rows - self.next)));
        }
        let is_read = std::mem::replace(&mut self.has_ended, true);
        if is_read {
            return None;
        }
        self.fitting.store(self.size, Relaxed);
        self.check_end().err().map(Err)
    }
}

impl Steps<'_> {
    /// The number of rows of the row group.
    fn rows(&self) -> usize {
        self.parquet.metadata.metadata().row_groups().get(self.group).map_or(0, rows_of)
    }

    /// Reads the next `count` rows.
    fn step(&mut self, mut count: usize) -> Result<RecordBatch> {
        if self.readers.len() < self.chosen.parts.len() {
            if self.next == 0 {
                let metadata = || Ok(self.parquet.fitting(self.group, &self.chosen));
                let (most, fitting) = guarded(metadata).map_err(|reason| failed(self.name, &reason))?;
                self.most = most;
                self.size = self.size.min(most).min(fitting);
                count = count.min(self.size);
                // All rows fit in one step, so readers are used one after another and dropped.
                if count == self.rows() {
                    return self.whole(count);
                }
            }
            self.open()?;
        }
        let rows = self.rows();
        let next = |(reader, part): (&mut ParquetRecordBatchReader, &Vec<usize>)| {
            let found = guarded(|| next_of(reader, self.next, count, rows));
            found.map_err(|reason| self.parquet.part_failed(self.name, &self.chosen, self.group, part, &reason))
        };
        let found = match self.alone {
            true => self.readers.iter_mut().zip(&self.chosen.parts).map(next).collect(),
            false => self.readers.par_iter_mut().zip(&self.chosen.parts).map(next).collect(),
        };
        let batch = self.batch(found, count)?;
        let fitting = stream::rows_of(row_bytes(&batch).div_ceil(count)).min(self.most);
        let is_too_long = fitting <= self.size / 2;
        // The readers are kept to check that these rows were the last.
        if self.next == self.rows() {
            self.size = self.size.min(fitting);
        } else if is_too_long || (self.may_grow && fitting >= 2 * self.size) {
            self.readers.clear();
            self.size = fitting;
            self.may_grow &= is_too_long;
        }
        Ok(batch)
    }

    /// Reads all rows of a row group that fits in one step.
    fn whole(&mut self, rows: usize) -> Result<RecordBatch> {
        let read = |part: &Vec<usize>| {
            let found = guarded(|| {
                let mut reader = self.parquet.reader(&self.chosen, self.group, part, self.size, 0)?;
                let batch = next_of(&mut reader, 0, rows, rows)?;
                check_end(reader, rows)?;
                Ok(batch)
            });
            found.map_err(|reason| self.parquet.part_failed(self.name, &self.chosen, self.group, part, &reason))
        };
        let found = match self.alone {
            true => self.chosen.parts.iter().map(read).collect(),
            false => self.chosen.parts.par_iter().map(read).collect(),
        };
        let batch = self.batch(found, rows)?;
        self.is_checked = true;
        self.size = stream::rows_of(row_bytes(&batch).div_ceil(rows)).min(self.most);
        Ok(batch)
    }

    /// Combines the rows that the readers returned. If several failed, the error of the first column is returned.
    fn batch(&mut self, found: Vec<Result<RecordBatch>>, rows: usize) -> Result<RecordBatch> {
        let found = found.into_iter().collect::<Result<Vec<RecordBatch>>>()?;
        let batch = self.chosen.batch(self.name, self.group, found.iter(), rows)?;
        self.next += rows;
        Ok(batch)
    }

    /// Checks that nothing follows the last row of a row group, as when the whole group is read at once.
    fn check_end(&mut self) -> Result<()> {
        // A row group may be empty.
        if !self.is_checked && self.readers.len() < self.chosen.parts.len() {
            self.open()?;
        }
        for (reader, part) in std::mem::take(&mut self.readers).into_iter().zip(&self.chosen.parts) {
            guarded(|| check_end(reader, self.next))
                .map_err(|reason| self.parquet.part_failed(self.name, &self.chosen, self.group, part, &reason))?;
        }
        self.is_checked = false;
        Ok(())
    }

    /// Opens readers of all columns, from the next row on.
    fn open(&mut self) -> Result<()> {
        let readers = self.chosen.parts.iter().map(|part| {
            guarded(|| self.parquet.reader(&self.chosen, self.group, part, self.size, self.next))
                .map_err(|reason| self.parquet.part_failed(self.name, &self.chosen, self.group, part, &reason))
        });
        self.readers = readers.collect::<Result<_>>()?;
        Ok(())
    }
}

/// The next `count` rows of a part, after the first `before` rows of the row group.
fn next_of(
    reader: &mut ParquetRecordBatchReader,
    before: usize,
    count: usize,
    of_group: usize,
) -> std::result::Result<RecordBatch, String> {
    match reader.next().transpose().map_err(|error| error.to_string())? {
        Some(batch) if batch.num_rows() >= count => Ok(batch),
        ended => {
            super::check_rows(of_group, before + ended.map_or(0, |batch| batch.num_rows()))?;
            Err("it ends too early".into())
        }
    }
}

/// Checks that a part has no further rows.
fn check_end(reader: ParquetRecordBatchReader, rows: usize) -> std::result::Result<(), String> {
    let all = reader.into_iter().try_fold(rows, |rows, batch| Ok(rows + batch?.num_rows()));
    super::check_rows(rows, all.map_err(|error: arrow_schema::ArrowError| error.to_string())?)
}
