//! A join whose build side does not fit in memory: DataFusion's own, over the batches that were read and the rest.
//!
//! ```text
//! build     batches and the rest of the input  ->  a file, sorted into another one, which each probe partition reads
//! probe     each partition separately: sorted by its keys, on disk if necessary, and merged by SortMergeJoinExec. If a
//!           join ends with build rows, the first partition reads all probe partitions, because a partition does not
//!           know the matches of the others
//! memory    three quarters of the memory of the batches, in equal parts: a separate pool for each sort
//! result    projected, and sorted into the order that the plan requires
//! ```
//!
//! If the session cannot spill, or DataFusion cannot merge keys of these types, the fallback is `HashJoinExec`, which
//! needs less memory than koel and may succeed.
//!
//! The result is not in koel's order, so with `koel.ordered` a build side that does not fit is an error.

use std::sync::{Arc, Mutex, PoisonError};

use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::JoinType;
use datafusion::common::utils::memory::get_record_batch_memory_size;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryReservation};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, PhysicalExprRef, PhysicalSortExpr};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode, SortMergeJoinExec};
use datafusion::physical_plan::limit::LocalLimitExec;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, SpillMetrics};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{EmptyRecordBatchStream, ExecutionPlan, ExecutionPlanProperties};
use futures::{StreamExt, TryStreamExt, stream};

use super::build::Refused;
use crate::source::{Source, Spilled, plan_of};

/// A join executed by DataFusion.
pub(super) struct SortMergeFallback {
    join: Arc<HashJoinExec>,
    strategy: Strategy,
    /// The session.
    context: Arc<TaskContext>,
    /// The memory for the pools of each partition: of those that have not started, and then of their streams.
    memory: Mutex<Vec<Option<Arc<MemoryReservation>>>>,
}

enum Strategy {
    /// The sorted build side in a file, and the bytes for the merge of each partition.
    Merge(Spilled, usize),
    /// `HashJoinExec`, and whether it joins a single partition.
    Hash(Arc<dyn ExecutionPlan>, bool),
}

impl SortMergeFallback {
    /// Replaces this join, or one partition of it.
    pub(super) async fn new(
        join: &Arc<HashJoinExec>,
        partition: Option<usize>,
        refused: Refused,
        metrics: (&ExecutionPlanMetricsSet, usize),
        context: &Arc<TaskContext>,
    ) -> Result<Self> {
        let all = join.right.output_partitioning().partition_count();
        let partitions = if partition.is_some() { 1 } else { all };
        let new = |strategy, memory: Option<Arc<MemoryReservation>>| SortMergeFallback {
            join: Arc::clone(join),
            strategy,
            context: Arc::clone(context),
            memory: Mutex::new(vec![memory; partitions]),
        };
        let schema = join.left.schema();
        if !(context.runtime_env().disk_manager.tmp_files_enabled() && can_merge(join)?) {
            let probes = partition.map_or(0..all, |partition| partition..partition + 1);
            let probe = plan_of(join.right.schema(), probes.map(|at| probe(join, at, context)))?;
            let plan = hashed(join, plan_of(schema, [in_memory(refused)])?, probe)?;
            return Ok(new(Strategy::Hash(plan, partition.is_some()), None));
        }
        let Refused { batches, rest, reservation, .. } = refused;
        let sorts = if has_end(*join.join_type()) { 1 } else { partitions };
        let largest = batches.iter().map(get_record_batch_memory_size).max().unwrap_or_default();
        // A quarter is left for operators below: a `RepartitionExec` that spills every batch can deadlock
        // (apache/datafusion#24883).
        let each = (reservation.size() / 4 * 3 / sorts).max(BATCHES_A_SORT * largest);
        reservation.resize(each * sorts);
        let spills = || SpillMetrics::new(metrics.0, metrics.1);
        let build = Spilled::write(batches, rest, context, spills(), SPILLED).await?;
        let build = sorted(plan_of(schema, [Source::File(build)])?, &keys(join).0)?;
        let build = build.execute(0, own_pool(context, each * sorts)?)?;
        let build = Spilled::write(vec![], build, context, spills(), SPILLED).await?;
        Ok(new(Strategy::Merge(build, each), Some(Arc::new(reservation))))
    }

    /// The name of the operator that joins.
    pub(super) fn name(&self) -> &'static str {
        match &self.strategy {
            Strategy::Merge(..) => "SortMergeJoinExec",
            Strategy::Hash(..) => "HashJoinExec",
        }
    }

    /// Executes a partition of the result. Returns the stream, and whether all partitions have been started.
    pub(super) fn execute(&self, partition: usize) -> Result<(SendableRecordBatchStream, bool)> {
        let schema = ExecutionPlan::schema(self.join.as_ref());
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let (held, partitions) = (memory.pop().flatten(), self.join.right.output_partitioning().partition_count());
        let rows = match &self.strategy {
            Strategy::Hash(plan, is_of_one) => {
                plan.execute(if *is_of_one { 0 } else { partition }, Arc::clone(&self.context))?
            }
            Strategy::Merge(build, bytes) => {
                let is_shared = self.join.mode != PartitionMode::Partitioned;
                let probes = match (is_shared && has_end(*self.join.join_type()), partition) {
                    (false, at) => at..at + 1,
                    (true, 0) => 0..partitions,
                    (true, _) => return Ok((Box::pin(EmptyRecordBatchStream::new(schema)), memory.is_empty())),
                };
                let probes = probes.map(|at| probe(&self.join, at, &self.context));
                let probe = CoalescePartitionsExec::new(plan_of(self.join.right.schema(), probes)?);
                let build = plan_of(self.join.left.schema(), [Source::File(build.clone())])?;
                merged(&self.join, build, Arc::new(probe))?.execute(0, own_pool(&self.context, *bytes)?)?
            }
        };
        let rows = rows.inspect_ok(move |_| {
            let _ = &held;
        });
        Ok((Box::pin(RecordBatchStreamAdapter::new(schema, rows)), memory.is_empty()))
    }
}

/// A partition of the probe side, in the session.
fn probe(join: &HashJoinExec, at: usize, context: &Arc<TaskContext>) -> Source {
    Source::Partition(Arc::clone(&join.right), at, Arc::clone(context))
}

/// The description of the file.
const SPILLED: &str = "KoelJoinExec build side";

/// Whether a join ends with build rows.
pub(super) fn has_end(how: JoinType) -> bool {
    use JoinType::{Full, Left, LeftAnti, LeftMark, LeftSemi};
    matches!(how, Left | Full | LeftSemi | LeftAnti | LeftMark)
}

/// The number of batches that a sort needs memory for.
const BATCHES_A_SORT: usize = 24;

/// A session whose operators share this number of bytes.
fn own_pool(context: &TaskContext, bytes: usize) -> Result<Arc<TaskContext>> {
    let pool = Arc::new(GreedyMemoryPool::new(bytes));
    let runtime = RuntimeEnvBuilder::from_runtime_env(&context.runtime_env()).with_memory_pool(pool).build_arc()?;
    let mut config = context.session_config().clone();
    let to_merge = &mut config.options_mut().execution.sort_spill_reservation_bytes;
    *to_merge = (*to_merge).min(bytes / 4);
    Ok(Arc::new(TaskContext::default().with_session_config(config).with_runtime(runtime)))
}

/// Whether `SortMergeJoinExec` can compare keys of these types: for pairs of rows all types that have an order, and for
/// semi, anti and mark joins the types listed here.
fn can_merge(join: &HashJoinExec) -> Result<bool> {
    use DataType::{
        Binary, BinaryView, Boolean, Date32, Date64, Decimal128, FixedSizeBinary, LargeBinary, LargeUtf8, Struct,
        Timestamp, Utf8, Utf8View,
    };
    let is_of_pairs = matches!(join.join_type(), JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full);
    for (build, probe) in join.on() {
        let of = build.data_type(&join.left.schema())?;
        let is_listed = matches!(of, Boolean | Date32 | Date64 | Decimal128(..) | Timestamp(_, None))
            || matches!(of, Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView | FixedSizeBinary(_));
        let is_taken = of.is_integer() || is_listed || is_of_pairs && !matches!(of, Struct(_));
        if !is_taken || of != probe.data_type(&join.right.schema())? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The batches that were read, then the rest. The memory of the batches is released when the reader starts, because the
/// reader accounts for its own memory.
fn in_memory(refused: Refused) -> Source {
    let Refused { batches, rest, reservation, .. } = refused;
    let schema = rest.schema();
    let first = stream::iter(batches.into_iter().map(move |batch| {
        reservation.free();
        Ok(batch)
    }));
    Source::once(schema, first.chain(rest))
}

/// The keys of both sides.
fn keys(join: &HashJoinExec) -> (Vec<PhysicalExprRef>, Vec<PhysicalExprRef>) {
    join.on().iter().cloned().unzip()
}

/// A `SortMergeJoinExec` with a sorted build side.
fn merged(
    join: &HashJoinExec,
    build: Arc<dyn ExecutionPlan>,
    probe: Arc<dyn ExecutionPlan>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let probe = sorted(probe, &keys(join).1)?;
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
    if let Some(order) = ExecutionPlan::properties(join).output_ordering() {
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

/// A `HashJoinExec`.
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
