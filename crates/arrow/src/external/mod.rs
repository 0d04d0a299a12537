//! Joins and groups under a memory limit: tables come batch by batch, and what does not fit goes to temporary files.
//!
//! ```text
//! join      the right table, if it fits: an index of it, and left batches go through     (join.rs)
//!           else both are dealt by the hashes of their keys, and joined part by part     (pair.rs)
//! group     the table, if it fits; else dealt likewise, and grouped part by part         (group.rs)
//!           a key with too many rows is added up piece by piece                          (fold.rs, sums.rs)
//!
//! hash.rs   hashes of keys            parts.rs   rows dealt by them, each with its number
//! spill.rs  batches in a file         merge.rs   results of parts in one order, by these numbers
//! spool.rs  the same for others: a result that is needed twice
//! ```
//!
//! The result is that of [`join`](fn@crate::join) and [`group_by`](crate::group_by), row for row and in the same order: left
//! rows are put in order again by their numbers, and each left row, and each key, is in one part. There may be more than
//! 2^32 rows, since a row's number has 64 bits here.
//!
//! Columns of dictionaries come out as their values ([`result_type`]).
//!
//! What it is not: a way to use less memory than a batch of each side takes, or than rows of one key take in each other's
//! product. The limit is what is kept to, not what is allocated at once.

mod fold;
mod group;
mod hash;
mod join;
mod merge;
mod pair;
mod parts;
mod spill;
mod spool;
mod sums;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{ArrowError, SchemaRef};
use koel::{Any, HashBackend};

use crate::error::Result;
use crate::keys::{Column, Keys};

pub use group::{GroupBy, Grouped, Of};
pub use join::{Join, JoinedRows, Output};
pub use parts::result_type;
pub use spool::Spooled;

pub use crate::sizes::row_bytes;

/// How much memory may be used, and where what does not fit goes.
///
/// ```
/// use koel_arrow::external::Limit;
/// let limit = Limit::new(300_000_000).in_folder("/var/tmp");
/// assert_eq!(limit.bytes(), 300_000_000);
/// ```
#[derive(Clone, Debug)]
pub struct Limit {
    bytes: u64,
    folder: PathBuf,
    /// What is made of a row besides its columns.
    of_row: u64,
}

/// Words, a table of them, lists of rows, and room to build these.
const OF_A_ROW: u64 = 48;
/// Values of an aggregate, and what comes of them.
const OF_AN_AGGREGATE: u64 = 24;

impl Limit {
    /// So many bytes. Temporary files are in the system's folder for them.
    ///
    /// What is counted are columns and the tables made of their keys. A process takes some 50 MB besides, and more with a
    /// driver of OpenCL.
    pub fn new(bytes: u64) -> Self {
        Limit { bytes, folder: std::env::temp_dir(), of_row: OF_A_ROW }
    }

    /// With temporary files in this folder. They have no names there, and go with the process.
    pub fn in_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = folder.into();
        self
    }

    /// The limit in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Where temporary files are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The same, and no more than half of a device's memory, for rows of which so many aggregates are made.
    fn of(&self, device: &Any, aggregates: usize) -> Limit {
        let most = device.info().memory.map_or(u64::MAX, |bytes| bytes / 2);
        let of_row = OF_A_ROW + OF_AN_AGGREGATE * aggregates as u64;
        Limit { bytes: self.bytes.min(most), of_row, ..self.clone() }
    }

    /// Whether so many rows can be worked on at once: their columns, and what is made of them.
    fn fits(&self, rows: u64, bytes: u64) -> bool {
        rows < ROWS_OF_A_PART && bytes.saturating_add(rows * self.of_row) <= self.bytes / 2
    }

    /// Bytes of a block of results: a block of each run is in memory while they are merged.
    fn block_bytes(&self) -> u64 {
        (self.bytes / 1024).clamp(16 << 10, 512 << 10)
    }

    /// Bytes of left rows, or of rows that are added up, that are worked on at a time.
    fn batch_bytes(&self) -> u64 {
        (self.bytes / 32).clamp(64 << 10, 8 << 20)
    }
}

/// Row numbers within a part have 32 bits.
const ROWS_OF_A_PART: u64 = 1 << 31;

/// A table that comes batch by batch, in the order of its rows. `E` is the error of whoever reads it.
pub struct Batches<'a, E> {
    schema: SchemaRef,
    batches: Box<dyn Iterator<Item = std::result::Result<RecordBatch, E>> + 'a>,
}

impl<'a, E> Batches<'a, E> {
    /// Of batches that have this schema.
    pub fn new(
        schema: SchemaRef,
        batches: impl IntoIterator<Item = std::result::Result<RecordBatch, E>, IntoIter: 'a>,
    ) -> Self {
        Batches { schema, batches: Box::new(batches.into_iter()) }
    }

    /// The columns.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }
}

impl<E> std::fmt::Debug for Batches<'_, E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batches").field("schema", &self.schema).finish_non_exhaustive()
    }
}

/// How far the work is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stage {
    /// Rows do not fit, and are dealt to temporary files.
    Dealing,
    /// A part of so many, from 1.
    Part(usize, usize),
    /// Results are put in order, and handed on.
    Merging,
}

/// One table: its columns as they are spilled, with the numbers of rows behind them, and which of them are its keys.
struct Side {
    schema: SchemaRef,
    keys: Vec<usize>,
    /// Rows that have come.
    rows: u64,
}

impl Side {
    fn new(schema: &SchemaRef, keys: Vec<usize>) -> Result<Self> {
        if let Some(&missing) = keys.iter().find(|&&key| key >= schema.fields().len()) {
            let what = format!("key column {missing} of {}", schema.fields().len());
            return Err(ArrowError::SchemaError(what).into());
        }
        let side = Side { schema: parts::numbered_schema(schema), keys, rows: 0 };
        // Types that cannot be keys are refused before any rows are read.
        side.keys.iter().try_for_each(|&key| {
            let field = side.schema.field(key);
            crate::probe::check_key(field.name(), field.data_type())
        })?;
        Ok(side)
    }

    /// The next batch, with numbers; none of no rows.
    fn numbered(&mut self, batch: &RecordBatch) -> Result<Vec<RecordBatch>> {
        let batches = parts::numbered(&self.schema, batch, self.rows)?;
        self.rows += batch.num_rows() as u64;
        Ok(batches)
    }

    fn keys_of(&self, batch: &RecordBatch) -> Result<Keys> {
        let column = |&key: &usize| Column::new(self.schema.field(key).name(), Arc::clone(batch.column(key)));
        Keys::new(self.keys.iter().map(column).collect())
    }

    /// All columns of these batches, each in one piece if it fits one.
    fn columns(&self, batches: Vec<RecordBatch>) -> Result<Vec<Column>> {
        let mut columns: Vec<Vec<ArrayRef>> = vec![Vec::with_capacity(batches.len()); self.schema.fields().len()];
        for batch in batches {
            columns.iter_mut().zip(batch.columns()).for_each(|(pieces, column)| pieces.push(Arc::clone(column)));
        }
        let column = |(pieces, field): (Vec<ArrayRef>, &Arc<arrow_schema::Field>)| {
            let column = Column::of_chunks(field.name(), field.data_type(), pieces)?;
            Ok(column.one_piece().unwrap_or(column))
        };
        columns.into_iter().zip(self.schema.fields()).map(column).collect()
    }
}

/// Rows in memory, until they are too many.
#[derive(Default)]
struct Held {
    batches: Vec<RecordBatch>,
    rows: u64,
    bytes: u64,
}

impl Held {
    fn push(&mut self, batch: RecordBatch) -> Result<()> {
        let bytes = row_bytes(&batch) as u64;
        // A slice of something much larger would keep all of that.
        let is_part = batch.get_array_memory_size() as u64 > 2 * bytes + SMALL;
        self.rows += batch.num_rows() as u64;
        self.bytes += bytes;
        self.batches.push(if is_part { spill::copied(&batch)? } else { batch });
        Ok(())
    }
}

/// Bytes that a batch may hold besides its rows.
const SMALL: u64 = 64 << 10;

/// A batch of so many rows, also of no columns.
fn batch_of(schema: &SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}

/// A batch without its last column, the numbers of rows.
fn without_numbers(schema: &SchemaRef, batch: &RecordBatch) -> Result<RecordBatch> {
    let columns = &batch.columns()[..batch.num_columns().saturating_sub(1)];
    batch_of(schema, columns.to_vec(), batch.num_rows())
}
