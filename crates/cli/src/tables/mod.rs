//! Tables of named columns of any types: files of them as batches of Arrow, and back.
//!
//! ```text
//! read/       Parquet, Arrow IPC, CSV and TSV, .npy: detected by their first bytes, or by name
//! write/      the same formats, by the extension of the output
//! kinds.rs    types that a column of text can have, and their names;   moments.rs   dates and times as text
//! doubles.rs  which numbers a double holds
//! options.rs  how tables are read, for every command that reads some
//! memory.rs   files in memory as CSV, for the fuzz targets
//! ```
//!
//! This is files alone: what joins and groups columns is the crate `koel-arrow`. `input` takes keys and values of the
//! tables that `koel build` makes from here, and reads FASTA and FASTQ.

mod doubles;
mod kinds;
#[doc(hidden)]
pub mod memory;
mod moments;
pub(crate) mod options;
pub(crate) mod read;
#[cfg(test)]
mod tests;
pub(crate) mod write;

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{ArrowError, SchemaRef};

pub(crate) use kinds::kind_of;
pub(crate) use options::{TableReading, TextReading};

/// The most rows of a batch, and of a row group that is written.
const ROWS: usize = 1 << 20;

/// A batch of `rows` rows; it may have no columns.
pub(crate) fn batch(
    schema: &SchemaRef,
    columns: Vec<ArrayRef>,
    rows: usize,
) -> std::result::Result<RecordBatch, ArrowError> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
}

/// The rows of a file, in its order, as batches of at most [`ROWS`] rows.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) schema: SchemaRef,
    pub(crate) batches: Vec<RecordBatch>,
    pub(crate) rows: usize,
}

impl Table {
    /// A table of these batches, cut to what a batch may have.
    fn of(schema: SchemaRef, batches: impl IntoIterator<Item = RecordBatch>) -> Table {
        let mut table = Table { schema, batches: Vec::new(), rows: 0 };
        for batch in batches {
            let rows = batch.num_rows();
            table.rows += rows;
            let pieces = (0..rows).step_by(ROWS).map(|start| batch.slice(start, ROWS.min(rows - start)));
            table.batches.extend(pieces);
        }
        table
    }
}
