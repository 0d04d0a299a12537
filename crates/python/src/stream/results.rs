//! Combines results into batches of moderate size.

use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;
use arrow_select::coalesce::BatchCoalescer;
use koel_arrow::Error;
use koel_arrow::external::{Limit, row_bytes};

use super::work::Outlet;
use crate::error::Result;

/// The number of rows per batch.
const ROWS: usize = 1 << 16;
/// The maximum size of buffered rows, in bytes.
const BYTES: u64 = 32 << 20;

/// Combines the results of a job into batches for its outlet.
pub(crate) struct Results<'a> {
    outlet: &'a Outlet,
    buffered: BatchCoalescer,
    max_bytes: usize,
}

impl<'a> Results<'a> {
    pub(crate) fn new(outlet: &'a Outlet, schema: &SchemaRef, limit: &Limit) -> Self {
        let buffered = BatchCoalescer::new(Arc::clone(schema), ROWS).with_biggest_coalesce_batch_size(Some(ROWS / 2));
        Results { outlet, buffered, max_bytes: (limit.bytes() / 32).min(BYTES) as usize }
    }

    /// Adds rows. Their columns are renamed to those of the result.
    pub(crate) fn push(&mut self, rows: &RecordBatch) -> Result<()> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        let rows = RecordBatch::try_new_with_options(self.buffered.schema(), rows.columns().to_vec(), &options);
        let rows = rows.map_err(Error::from)?;
        // Large batches are not combined: the text of a batch is limited to 2 GiB.
        if row_bytes(&rows) > self.max_bytes {
            self.flush()?;
            return self.outlet.push(rows);
        }
        self.buffered.push_batch(rows).map_err(Error::from)?;
        if self.buffered.size() > self.max_bytes {
            return self.flush();
        }
        self.push_completed()
    }

    /// Passes all buffered rows to the outlet.
    pub(crate) fn flush(&mut self) -> Result<()> {
        self.buffered.finish_buffered_batch().map_err(Error::from)?;
        self.push_completed()
    }

    fn push_completed(&mut self) -> Result<()> {
        while let Some(rows) = self.buffered.next_completed_batch() {
            self.outlet.push(rows)?;
        }
        Ok(())
    }
}
