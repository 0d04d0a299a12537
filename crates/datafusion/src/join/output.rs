//! Result batches of the session's batch size.
//!
//! ```text
//! as it arrives  a batch that is at least half full is returned unchanged: copying it would cost more than it saves
//! exact         each batch except for the last has the session's size, so that it does not depend on the device
//! ```

use std::collections::VecDeque;
use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::compute::BatchCoalescer;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::error::Result;

/// Rows that wait for the next batch.
pub(super) struct Output {
    /// `None` for results without columns, which are only a number of rows.
    joined_up: Option<BatchCoalescer>,
    /// The number of rows without columns that are not in a batch yet.
    rows: usize,
    schema: SchemaRef,
    batch_size: usize,
    ready: VecDeque<RecordBatch>,
}

impl Output {
    pub(super) fn new(schema: SchemaRef, batch_size: usize, is_exact: bool) -> Self {
        let as_it_is = (!is_exact).then_some(batch_size / 2);
        let joined_up = (!schema.fields().is_empty())
            .then(|| BatchCoalescer::new(Arc::clone(&schema), batch_size).with_biggest_coalesce_batch_size(as_it_is));
        Output { joined_up, rows: 0, schema, batch_size, ready: VecDeque::new() }
    }

    /// Adds rows.
    pub(super) fn push(&mut self, batch: RecordBatch) -> Result<()> {
        match &mut self.joined_up {
            // Longer batches than the session's would be returned unchanged.
            Some(joined_up) => {
                for from in (0..batch.num_rows()).step_by(self.batch_size) {
                    joined_up.push_batch(batch.slice(from, self.batch_size.min(batch.num_rows() - from)))?;
                }
            }
            None => {
                self.rows += batch.num_rows();
                while self.rows >= self.batch_size {
                    self.count(self.batch_size)?;
                }
            }
        }
        Ok(())
    }

    /// Returns batches of this number of rows without columns.
    fn count(&mut self, rows: usize) -> Result<()> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        self.ready.push_back(RecordBatch::try_new_with_options(Arc::clone(&self.schema), vec![], &options)?);
        self.rows -= rows;
        Ok(())
    }

    /// Ends the input.
    pub(super) fn finish(&mut self) -> Result<()> {
        match &mut self.joined_up {
            Some(joined_up) => joined_up.finish_buffered_batch()?,
            None if self.rows > 0 => self.count(self.rows)?,
            None => {}
        }
        Ok(())
    }

    /// The next complete batch.
    pub(super) fn next(&mut self) -> Option<RecordBatch> {
        match &mut self.joined_up {
            Some(joined_up) => joined_up.next_completed_batch(),
            None => self.ready.pop_front(),
        }
    }
}
