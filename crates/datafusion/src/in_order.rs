//! Concatenates partitions by number, and reads them concurrently.
//!
//! ```text
//! a task per partition    reads MOST_AHEAD batches ahead, or AHEAD if there is no memory for them
//! the reader              returns all of partition 0, then of partition 1, and so on
//! ```
//!
//! `CoalescePartitionsExec` returns batches as they arrive, which differs from run to run. With `koel.ordered` this
//! operator replaces it, and is inserted below exchanges, so that ordered input gives ordered output.
//!
//! This is not a sort: it does not compare rows.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::{EvaluationType, SchedulingType};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning,
    PlanProperties, ReplaceChildrenOptions, Statistics,
};
use futures::{StreamExt, stream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The number of batches that each partition may read ahead if there is no memory for more.
const AHEAD: usize = 2;
/// The number of batches if there is memory, limited so that a slow reader does not buffer the whole result.
const MOST_AHEAD: usize = 64;

/// An operator with one output partition: the partitions of its input, concatenated by number.
#[derive(Debug)]
pub struct KoelInOrderExec {
    input: Arc<dyn ExecutionPlan>,
    /// The number of rows that are required; `None` for all.
    fetch: Option<usize>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl KoelInOrderExec {
    /// Concatenates the partitions of an input, limited to `fetch` rows.
    pub fn new(input: Arc<dyn ExecutionPlan>, fetch: Option<usize>) -> Self {
        let mut equivalences = input.equivalence_properties().clone();
        // Each partition may be sorted, but their concatenation is not.
        equivalences.clear_orderings();
        equivalences.clear_per_partition_constants();
        let (one, emits) = (Partitioning::UnknownPartitioning(1), input.pipeline_behavior());
        let properties = PlanProperties::new(equivalences, one, emits, input.boundedness())
            .with_evaluation_type(EvaluationType::Eager)
            .with_scheduling_type(SchedulingType::Cooperative);
        KoelInOrderExec { input, fetch, properties: Arc::new(properties), metrics: ExecutionPlanMetricsSet::new() }
    }

    /// The input.
    pub fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }
}

/// A batch that was read ahead; its memory is reserved until the batch is returned.
struct Ahead {
    batch: Result<RecordBatch>,
    _permit: Permit,
    _place: OwnedSemaphorePermit,
}

enum Permit {
    Memory(#[expect(dead_code, reason = "given back when it is dropped")] MemoryReservation),
    Turn(#[expect(dead_code, reason = "given back when it is dropped")] OwnedSemaphorePermit),
}

/// Reads a partition as far ahead as memory allows.
async fn read(mut input: SendableRecordBatchStream, to: UnboundedSender<Ahead>, memory: MemoryReservation) {
    let (turns, most) = (Arc::new(Semaphore::new(AHEAD)), Arc::new(Semaphore::new(MOST_AHEAD)));
    while let Some(batch) = input.next().await {
        let Ok(place) = Arc::clone(&most).acquire_owned().await else { return };
        let own = memory.new_empty();
        let bytes = batch.as_ref().map_or(0, RecordBatch::get_array_memory_size);
        let room = match own.try_grow(bytes) {
            Ok(()) => Permit::Memory(own),
            Err(_) => match Arc::clone(&turns).acquire_owned().await {
                Ok(turn) => Permit::Turn(turn),
                Err(_) => return,
            },
        };
        let is_last = batch.is_err();
        if to.send(Ahead { batch, _permit: room, _place: place }).is_err() || is_last {
            return;
        }
    }
}

/// The remaining partitions in order, and the tasks that read them.
struct Reader {
    partitions: std::vec::IntoIter<(UnboundedReceiver<Ahead>, SpawnedTask<()>)>,
    now: Option<(UnboundedReceiver<Ahead>, SpawnedTask<()>)>,
    wanted: usize,
    metrics: BaselineMetrics,
}

impl Reader {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        while self.wanted > 0 {
            let Some((receiver, _)) = &mut self.now else { return Ok(None) };
            match receiver.recv().await {
                Some(ahead) => {
                    let batch = ahead.batch?;
                    let batch = batch.slice(0, batch.num_rows().min(self.wanted));
                    self.wanted -= batch.num_rows();
                    self.metrics.record_output(batch.num_rows());
                    return Ok(Some(batch));
                }
                None => {
                    // A task that panicked ended its partition too early.
                    if let Some((_, task)) = self.now.take() {
                        task.join().await.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))?;
                    }
                    self.now = self.partitions.next();
                }
            }
        }
        Ok(None)
    }
}

impl ExecutionPlan for KoelInOrderExec {
    fn name(&self) -> &str {
        "KoelInOrderExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match <[_; 1]>::try_from(children) {
            Ok([input]) => Ok(Arc::new(KoelInOrderExec::new(input, self.fetch))),
            Err(others) => Err(not_one(others.len())),
        }
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return Err(DataFusionError::Internal(format!("KoelInOrderExec has no partition {partition}")));
        }
        let memory = MemoryConsumer::new("KoelInOrderExec").register(context.memory_pool());
        let partitions = (0..self.input.output_partitioning().partition_count()).map(|partition| {
            let input = self.input.execute(partition, Arc::clone(&context))?;
            let (to, from) = unbounded_channel();
            Ok((from, SpawnedTask::spawn(read(input, to, memory.new_empty()))))
        });
        let mut partitions = partitions.collect::<Result<Vec<_>>>()?.into_iter();
        let (now, wanted) = (partitions.next(), self.fetch.unwrap_or(usize::MAX));
        let reader = Reader { partitions, now, wanted, metrics: BaselineMetrics::new(&self.metrics, 0) };
        let step = async |mut reader: Reader| Ok(reader.next().await?.map(|batch| (batch, reader)));
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), stream::try_unfold(reader, step))))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn child_stats_requests(&self, _partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(None)]
    }

    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], _args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        match inputs {
            [input] => Ok(Arc::new(Statistics::clone(input).with_fetch(self.fetch, 0, 1)?)),
            others => Err(not_one(others.len())),
        }
    }

    fn fetch(&self) -> Option<usize> {
        self.fetch
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        Some(Arc::new(KoelInOrderExec::new(Arc::clone(&self.input), limit)))
    }
}

fn not_one(children: usize) -> DataFusionError {
    DataFusionError::Internal(format!("KoelInOrderExec has one child, and not {children}"))
}

impl DisplayAs for KoelInOrderExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let partitions = self.input.output_partitioning().partition_count();
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "KoelInOrderExec: partitions={partitions}")?;
                self.fetch.map_or(Ok(()), |fetch| write!(f, ", fetch={fetch}"))
            }
            DisplayFormatType::TreeRender => {
                writeln!(f, "partitions={partitions}")?;
                self.fetch.map_or(Ok(()), |fetch| writeln!(f, "fetch={fetch}"))
            }
        }
    }
}
