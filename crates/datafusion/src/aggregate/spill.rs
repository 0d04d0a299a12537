//! The fallback of a partition without memory: a final AggregateExec, which can spill to disk.
//!
//! ```text
//! states of the groups so far (from a file), then those of all remaining rows    ->    AggregateExec, mode Final
//! ```

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateInputMode, AggregateMode};
use datafusion::physical_plan::metrics::SpillMetrics;
use datafusion::physical_plan::{EmptyRecordBatchStream, ExecutionPlan};
use futures::stream::BoxStream;
use futures::{StreamExt, stream};

use crate::source::{Source, Spilled, plan_of};

/// The fallback aggregate.
pub(super) struct Spill {
    stock: Arc<AggregateExec>,
    context: Arc<TaskContext>,
    spills: SpillMetrics,
}

impl Spill {
    pub(super) fn new(stock: Arc<AggregateExec>, context: Arc<TaskContext>, spills: SpillMetrics) -> Self {
        Spill { stock, context, spills }
    }

    /// The pool of the session.
    pub(super) fn pool(&self) -> &Arc<dyn MemoryPool> {
        self.context.memory_pool()
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

    /// The result of these states, through a file if there is a disk, and of the remaining input.
    pub(super) async fn go_on(
        self,
        states: RecordBatch,
        batch_size: usize,
        rest: BoxStream<'static, Result<RecordBatch>>,
    ) -> Result<SendableRecordBatchStream> {
        let schema = states.schema();
        let starts = (0..states.num_rows()).step_by(batch_size);
        let slices: Vec<_> = starts.map(|at| states.slice(at, batch_size.min(states.num_rows() - at))).collect();
        drop(states);
        let has_disk = self.context.runtime_env().disk_manager.tmp_files_enabled();
        let states = if has_disk {
            let none = Box::pin(EmptyRecordBatchStream::new(Arc::clone(&schema)));
            Spilled::write(slices, none, &self.context, self.spills, "KoelAggregateExec groups").await?.read()?.boxed()
        } else {
            stream::iter(slices.into_iter().map(Ok)).boxed()
        };
        let input = plan_of(Arc::clone(&schema), [Source::once(schema, states.chain(rest))])?;
        made(&self.stock, AggregateMode::Final, input)?.execute(0, self.context)
    }
}

/// The aggregate `stock` in another mode, with another input.
fn made(stock: &AggregateExec, mode: AggregateMode, input: Arc<dyn ExecutionPlan>) -> Result<AggregateExec> {
    let (functions, filters) = (stock.aggr_expr().to_vec(), stock.filter_expr());
    let (keys, filters) = match (mode.input_mode(), stock.mode().input_mode()) {
        (AggregateInputMode::Raw, _) => (stock.group_expr().clone(), filters.to_vec()),
        (_, AggregateInputMode::Raw) => (stock.group_expr().as_final(), vec![None; functions.len()]),
        _ => (stock.group_expr().clone(), vec![None; functions.len()]),
    };
    AggregateExec::try_new(mode, keys, functions, filters, input, stock.input_schema())
}
