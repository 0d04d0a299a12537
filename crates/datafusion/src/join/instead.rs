//! A join whose build side finds no room: DataFusion's own, over what was read so far and what is still to come.
//!
//! ```text
//! build     batches read so far  ->  a file;  then the rest of the input
//! probe     as it is: nothing of it was read
//! memory    what the batches had is a pool of its own, which sorts share: nobody else can take it from them
//! both      dealt by the hash of their keys, if the probe side has several partitions
//!           sorted by their keys, on disk if need be, and merged: SortMergeJoinExec
//! result    projected, and put into the order and the partitions that the plan counts on
//! ```
//!
//! Where the session has no disk, or DataFusion cannot sort a key's type, it is `HashJoinExec`, which needs less memory than koel
//! and may find it.
//!
//! What it is not: in koel's order. With `koel.ordered` a build side that finds no room is an error.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::runtime::SpawnedTask;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{FairSpillPool, MemoryReservation};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, PhysicalExprRef, PhysicalSortExpr};
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode, SortMergeJoinExec};
use datafusion::physical_plan::limit::LocalLimitExec;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, SpillMetrics};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::spill::SpillManager;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, Partitioning};
use futures::{Stream, StreamExt, stream};

use super::build::Refused;

/// A join by DataFusion.
pub(super) struct Instead {
    plan: Arc<dyn ExecutionPlan>,
    name: &'static str,
    /// Whether it is that of one partition, whose only one is 0.
    is_of_one: bool,
    context: Arc<TaskContext>,
    /// What the pool in the context is made of.
    _memory: Option<MemoryReservation>,
}

impl Instead {
    /// In the place of this join, or of one partition of it.
    pub(super) async fn new(
        join: &HashJoinExec,
        partition: Option<usize>,
        refused: Refused,
        metrics: (&ExecutionPlanMetricsSet, usize),
        context: &Arc<TaskContext>,
    ) -> Result<Self> {
        let schema = join.right.schema();
        let partitions = match partition {
            Some(partition) => partition..partition + 1,
            None => 0..join.right.output_partitioning().partition_count(),
        };
        let source = |at| Source::Partition(Arc::clone(&join.right), at, Arc::clone(context));
        let probe = plan_of(schema, partitions.clone().map(source))?;
        let schema = join.left.schema();
        let is_of_one = partition.is_some();
        if context.runtime_env().disk_manager.tmp_files_enabled() && can_merge(join)? {
            let own = own_pool(context, refused.reservation.size(), partitions.len())?;
            let (build, memory) = on_disk(refused, &schema, metrics, context).await?;
            let plan = merged(join, plan_of(schema, [build])?, probe)?;
            return Ok(Instead { plan, name: "SortMergeJoinExec", is_of_one, context: own, _memory: Some(memory) });
        }
        let plan = hashed(join, plan_of(schema, [in_memory(refused)])?, probe)?;
        Ok(Instead { plan, name: "HashJoinExec", is_of_one, context: Arc::clone(context), _memory: None })
    }

    /// The name of the operator that joins.
    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    /// A partition of the result.
    pub(super) fn execute(&self, partition: usize) -> Result<SendableRecordBatchStream> {
        self.plan.execute(if self.is_of_one { 0 } else { partition }, Arc::clone(&self.context))
    }
}

/// A session whose operators share so many bytes among them, for two sorts in each partition.
fn own_pool(context: &TaskContext, bytes: usize, partitions: usize) -> Result<Arc<TaskContext>> {
    let pool = Arc::new(FairSpillPool::new(bytes));
    let runtime = RuntimeEnvBuilder::from_runtime_env(&context.runtime_env()).with_memory_pool(pool).build_arc()?;
    let mut config = context.session_config().clone();
    let to_merge = &mut config.options_mut().execution.sort_spill_reservation_bytes;
    *to_merge = (*to_merge).min(bytes / (8 * partitions.max(1)));
    Ok(Arc::new(TaskContext::default().with_session_config(config).with_runtime(runtime)))
}

/// Whether `SortMergeJoinExec` compares keys of these types. Floats it cannot, where one is NaN.
fn can_merge(join: &HashJoinExec) -> Result<bool> {
    use DataType::{
        Binary, BinaryView, Boolean, Date32, Date64, Decimal128, FixedSizeBinary, LargeBinary, LargeUtf8, Timestamp,
        Utf8, Utf8View,
    };
    for (build, probe) in join.on() {
        let of = build.data_type(&join.left.schema())?;
        let is_plain = matches!(
            of,
            Boolean
                | Date32
                | Date64
                | Decimal128(..)
                | Timestamp(_, None)
                | Utf8
                | LargeUtf8
                | Utf8View
                | Binary
                | LargeBinary
                | BinaryView
                | FixedSizeBinary(_)
        );
        if !(of.is_integer() || is_plain) || of != probe.data_type(&join.right.schema())? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// What was read, then the rest. Memory is given back once the reader begins, who accounts for its own.
fn in_memory(refused: Refused) -> Source {
    let Refused { batches, rest, reservation, .. } = refused;
    let schema = rest.schema();
    let first = stream::iter(batches.into_iter().map(move |batch| {
        reservation.free();
        Ok(batch)
    }));
    Source::once(schema, first.chain(rest))
}

/// The same by way of a file. What the batches had is free for others.
async fn on_disk(
    refused: Refused,
    schema: &SchemaRef,
    (metrics, partition): (&ExecutionPlanMetricsSet, usize),
    context: &Arc<TaskContext>,
) -> Result<(Source, MemoryReservation)> {
    let metrics = SpillMetrics::new(metrics, partition);
    let spills = SpillManager::new(context.runtime_env(), metrics, Arc::clone(schema));
    let Refused { batches, rest, reservation, .. } = refused;
    let written = SpawnedTask::spawn_blocking(move || {
        let file = spills.spill_record_batch_and_finish(&batches, "KoelJoinExec build side")?;
        drop(batches);
        file.map(|file| spills.read_spill_as_stream(file, None)).transpose()
    });
    let written = written.join().await.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))??;
    let source = match written {
        Some(first) => Source::once(Arc::clone(schema), first.chain(rest)),
        None => Source::once(Arc::clone(schema), rest),
    };
    Ok((source, reservation))
}

/// By `SortMergeJoinExec`.
fn merged(
    join: &HashJoinExec,
    mut build: Arc<dyn ExecutionPlan>,
    mut probe: Arc<dyn ExecutionPlan>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let (on_build, on_probe): (Vec<_>, Vec<_>) = join.on().iter().cloned().unzip();
    let partitions = probe.output_partitioning().partition_count();
    if partitions > 1 {
        let by = |keys: &[PhysicalExprRef]| Partitioning::Hash(keys.to_vec(), partitions);
        build = Arc::new(RepartitionExec::try_new(build, by(&on_build))?);
        probe = Arc::new(RepartitionExec::try_new(probe, by(&on_probe))?);
    }
    let [build, probe] = [sorted(build, &on_build)?, sorted(probe, &on_probe)?];
    let order = vec![SortOptions::default(); join.on().len()];
    let (on, how) = (join.on().to_vec(), *join.join_type());
    let all = SortMergeJoinExec::try_new(build, probe, on, join.filter.clone(), how, order, join.null_equality())?;
    let mut plan: Arc<dyn ExecutionPlan> = Arc::new(all);
    if let Some(columns) = &join.projection {
        let schema = plan.schema();
        let column = |&at: &usize| {
            let name = schema.field(at).name();
            ProjectionExpr { expr: Arc::new(Column::new(name, at)), alias: name.clone() }
        };
        let columns: Vec<_> = columns.iter().map(column).collect();
        plan = Arc::new(ProjectionExec::try_new(columns, plan)?);
    }
    let promised = ExecutionPlan::properties(join);
    if partitions > 1 && !matches!(promised.partitioning, Partitioning::UnknownPartitioning(_)) {
        plan = Arc::new(RepartitionExec::try_new(plan, promised.partitioning.clone())?);
    }
    if let Some(order) = promised.output_ordering() {
        plan = Arc::new(SortExec::new(order.clone(), plan).with_preserve_partitioning(true));
    }
    Ok(match join.fetch() {
        Some(rows) => Arc::new(LocalLimitExec::new(plan, rows)),
        None => plan,
    })
}

fn sorted(plan: Arc<dyn ExecutionPlan>, by: &[PhysicalExprRef]) -> Result<Arc<dyn ExecutionPlan>> {
    let by = by.iter().map(|key| PhysicalSortExpr::new(Arc::clone(key), SortOptions::default()));
    let by = LexOrdering::new(by).ok_or_else(|| DataFusionError::Internal("koel: a join without keys".into()))?;
    Ok(Arc::new(SortExec::new(by, plan).with_preserve_partitioning(true)))
}

/// By `HashJoinExec`.
fn hashed(
    join: &HashJoinExec,
    build: Arc<dyn ExecutionPlan>,
    probe: Arc<dyn ExecutionPlan>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let (on, filter, projection) = (join.on().to_vec(), join.filter.clone(), join.projection.clone());
    let projection = projection.map(|columns| columns.to_vec());
    let (how, mode, nulls) = (join.join_type(), PartitionMode::CollectLeft, join.null_equality());
    let plan = HashJoinExec::try_new(build, probe, on, filter, how, projection, mode, nulls, false)?;
    Ok(match join.fetch() {
        Some(rows) => Arc::new(LocalLimitExec::new(Arc::new(plan), rows)),
        None => Arc::new(plan),
    })
}

/// Where the rows of a partition come from.
enum Source {
    /// A partition of another plan, in a session of its own.
    Partition(Arc<dyn ExecutionPlan>, usize, Arc<TaskContext>),
    /// A stream that can be had once.
    Once(Mutex<Option<SendableRecordBatchStream>>),
}

impl Source {
    fn once(schema: SchemaRef, rows: impl Stream<Item = Result<RecordBatch>> + Send + 'static) -> Self {
        Source::Once(Mutex::new(Some(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))))
    }
}

#[derive(Debug)]
struct Origin {
    schema: SchemaRef,
    source: Source,
}

/// A plan of these partitions.
fn plan_of(schema: SchemaRef, partitions: impl IntoIterator<Item = Source>) -> Result<Arc<dyn ExecutionPlan>> {
    let partition = |source| Arc::new(Origin { schema: Arc::clone(&schema), source }) as Arc<dyn PartitionStream>;
    let partitions = partitions.into_iter().map(partition).collect();
    Ok(Arc::new(StreamingTableExec::try_new(schema, partitions, None, None, false, None)?))
}

impl PartitionStream for Origin {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let stream = match &self.source {
            Source::Partition(plan, partition, context) => plan.execute(*partition, Arc::clone(context)),
            Source::Once(stream) => stream
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take()
                .ok_or_else(|| DataFusionError::Internal("koel: a build side can be read once".into())),
        };
        stream.unwrap_or_else(|error| {
            let failed = stream::once(std::future::ready(Err(error)));
            Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), failed))
        })
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Partition(plan, partition, _) => write!(f, "partition {partition} of {}", plan.name()),
            Source::Once(_) => write!(f, "a stream"),
        }
    }
}
