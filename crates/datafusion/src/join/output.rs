//! Results in batches of the session's size, whatever sizes they come in.
//!
//! ```text
//! as it comes   a batch that is half full is handed on as it is: copying it would cost more than it saves
//! exact         each batch but the last has just so many rows, so that it does not tell which device has made it
//! ```

use std::collections::VecDeque;
use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::compute::BatchCoalescer;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::error::Result;

/// What waits to be handed on.
pub(super) struct Output {
    /// None for results without columns, which are but a number of rows.
    joined_up: Option<BatchCoalescer>,
    /// Rows without columns that are no batch yet.
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

    /// Takes rows in.
    pub(super) fn push(&mut self, batch: RecordBatch) -> Result<()> {
        match &mut self.joined_up {
            // Longer ones than the session's would be handed on as they are.
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

    /// A batch of so many rows without columns.
    fn count(&mut self, rows: usize) -> Result<()> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        self.ready.push_back(RecordBatch::try_new_with_options(Arc::clone(&self.schema), vec![], &options)?);
        self.rows -= rows;
        Ok(())
    }

    /// No more rows come.
    pub(super) fn finish(&mut self) -> Result<()> {
        match &mut self.joined_up {
            Some(joined_up) => joined_up.finish_buffered_batch()?,
            None if self.rows > 0 => self.count(self.rows)?,
            None => {}
        }
        Ok(())
    }

    /// A batch that is complete.
    pub(super) fn next(&mut self) -> Option<RecordBatch> {
        match &mut self.joined_up {
            Some(joined_up) => joined_up.next_completed_batch(),
            None => self.ready.pop_front(),
        }
    }
}
