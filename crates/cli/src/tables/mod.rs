//! Tables of named columns of any types: reads files as Arrow batches, and writes them.
//!
//! ```text
//! read/       Parquet, Arrow IPC, CSV and TSV, NDJSON, .npy: detected by their first bytes, or by name
//! write/      the same formats, by the extension of the output
//! kinds.rs    types that a column of text can have, and their names;   moments.rs   dates and times as text
//! doubles.rs  which numbers a double represents
//! options.rs  options for reading tables, for all commands that do
//! memory.rs   files in memory as CSV, for the fuzz targets
//! ```
//!
//! This module handles only files: the crate `koel-arrow` joins and groups columns. `input` reads the keys and values
//! of tables for `koel build` through this module, and reads FASTA and FASTQ itself.

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

/// The most rows of a batch, and of a row group in output.
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

/// The rows of a file, in order, as batches of at most [`ROWS`] rows.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub(crate) schema: SchemaRef,
    pub(crate) batches: Vec<RecordBatch>,
    pub(crate) rows: usize,
}

impl Table {
    /// A table of these batches, cut to the maximum size.
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
