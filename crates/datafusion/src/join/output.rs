//! Results in batches of about the session's size, whatever sizes they come in.

use std::collections::VecDeque;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::BatchCoalescer;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::error::Result;

/// What waits to be handed on.
pub(super) struct Output {
    /// None for results without columns, which are but a number of rows.
    joined_up: Option<BatchCoalescer>,
    ready: VecDeque<RecordBatch>,
}

impl Output {
    pub(super) fn new(schema: SchemaRef, batch_size: usize) -> Self {
        let joined_up = (!schema.fields().is_empty()).then(|| {
            // A batch that is half full is handed on as it is: copying it would cost more than it saves.
            BatchCoalescer::new(schema, batch_size).with_biggest_coalesce_batch_size(Some(batch_size / 2))
        });
        Output { joined_up, ready: VecDeque::new() }
    }

    /// Takes rows in.
    pub(super) fn push(&mut self, batch: RecordBatch) -> Result<()> {
        match &mut self.joined_up {
            Some(joined_up) => joined_up.push_batch(batch)?,
            None => self.ready.push_back(batch),
        }
        Ok(())
    }

    /// No more rows come.
    pub(super) fn finish(&mut self) -> Result<()> {
        if let Some(joined_up) = &mut self.joined_up {
            joined_up.finish_buffered_batch()?;
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
