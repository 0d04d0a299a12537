//! Combines results into batches of moderate size.

use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;
use arrow_select::coalesce::BatchCoalescer;
use koel_arrow::Error;
use koel_arrow::external::{Limit, row_bytes};

use super::work::Outlet;
use crate::error::Result;

/// Rows of a batch.
const ROWS: usize = 1 << 16;
/// The most bytes of rows that wait for others.
const BYTES: u64 = 32 << 20;

/// Where a job puts its results.
pub(crate) struct Results<'a> {
    outlet: &'a Outlet,
    waiting: BatchCoalescer,
    most: usize,
}

impl<'a> Results<'a> {
    pub(crate) fn new(outlet: &'a Outlet, schema: &SchemaRef, limit: &Limit) -> Self {
        let waiting = BatchCoalescer::new(Arc::clone(schema), ROWS).with_biggest_coalesce_batch_size(Some(ROWS / 2));
        Results { outlet, waiting, most: (limit.bytes() / 32).min(BYTES) as usize }
    }

    /// Takes rows, whose columns get the names that they have in the result.
    pub(crate) fn push(&mut self, rows: &RecordBatch) -> Result<()> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        let rows = RecordBatch::try_new_with_options(self.waiting.schema(), rows.columns().to_vec(), &options);
        let rows = rows.map_err(Error::from)?;
        // Long rows do not wait for others: text of a batch is at most 2 GiB long.
        if row_bytes(&rows) > self.most {
            self.flush()?;
            return self.outlet.push(rows);
        }
        self.waiting.push_batch(rows).map_err(Error::from)?;
        if self.waiting.size() > self.most {
            return self.flush();
        }
        self.hand_on()
    }

    /// Hands on what waits.
    pub(crate) fn flush(&mut self) -> Result<()> {
        self.waiting.finish_buffered_batch().map_err(Error::from)?;
        self.hand_on()
    }

    fn hand_on(&mut self) -> Result<()> {
        while let Some(rows) = self.waiting.next_completed_batch() {
            self.outlet.push(rows)?;
        }
        Ok(())
    }
}
