//! Where a partition goes on that finds no memory: in a final AggregateExec, which can spill to disk.
//!
//! ```text
//! states of the groups so far, then those of all rows that still come    ->    AggregateExec, mode Final
//! ```

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateInputMode, AggregateMode};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use futures::stream::BoxStream;
use futures::{StreamExt, stream};

/// The aggregate that would go on.
pub(super) struct Over {
    stock: Arc<AggregateExec>,
    context: Arc<TaskContext>,
}

impl Over {
    pub(super) fn new(stock: Arc<AggregateExec>, context: Arc<TaskContext>) -> Self {
        Over { stock, context }
    }

    /// The schema of states.
    pub(super) fn state_schema(&self) -> Result<SchemaRef> {
        match self.stock.mode().input_mode() {
            AggregateInputMode::Partial => Ok(self.stock.input().schema()),
            AggregateInputMode::Raw => {
                Ok(made(&self.stock, AggregateMode::Partial, Arc::clone(self.stock.input()))?.schema())
            }
        }
    }

    /// The result of these states and what comes behind them.
    pub(super) fn go_on(
        self,
        states: RecordBatch,
        batch_size: usize,
        rest: BoxStream<'static, Result<RecordBatch>>,
    ) -> Result<SendableRecordBatchStream> {
        let schema = states.schema();
        let starts = (0..states.num_rows()).step_by(batch_size);
        let slices = starts.map(move |at| Ok(states.slice(at, batch_size.min(states.num_rows() - at))));
        let all = RecordBatchStreamAdapter::new(Arc::clone(&schema), stream::iter(slices).chain(rest));
        let once = Once { schema: Arc::clone(&schema), stream: Mutex::new(Some(Box::pin(all))) };
        let input = StreamingTableExec::try_new(Arc::clone(&schema), vec![Arc::new(once)], None, [], false, None)?;
        made(&self.stock, AggregateMode::Final, Arc::new(input))?.execute(0, self.context)
    }
}

/// The same aggregate in another mode.
fn made(stock: &AggregateExec, mode: AggregateMode, input: Arc<dyn ExecutionPlan>) -> Result<AggregateExec> {
    let (functions, filters) = (stock.aggr_expr().to_vec(), stock.filter_expr());
    let (keys, filters) = match (mode.input_mode(), stock.mode().input_mode()) {
        (AggregateInputMode::Raw, _) => (stock.group_expr().clone(), filters.to_vec()),
        (_, AggregateInputMode::Raw) => (stock.group_expr().as_final(), vec![None; functions.len()]),
        _ => (stock.group_expr().clone(), vec![None; functions.len()]),
    };
    AggregateExec::try_new(mode, keys, functions, filters, input, stock.input_schema())
}

/// A stream as the input of a plan that runs once.
struct Once {
    schema: SchemaRef,
    stream: Mutex<Option<SendableRecordBatchStream>>,
}

impl PartitionStream for Once {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner).take();
        stream.unwrap_or_else(|| {
            let error = DataFusionError::Internal("koel: a stream was asked for twice".into());
            Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), stream::iter([Err(error)])))
        })
    }
}

impl fmt::Debug for Once {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Once").finish_non_exhaustive()
    }
}
