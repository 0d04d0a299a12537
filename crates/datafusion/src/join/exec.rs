//! The operator and its role in plans.
//!
//! A [`KoelJoinExec`] keeps the `HashJoinExec` that it replaces, and takes schema, partitions, order and statistics
//! from it; only the execution differs.
//!
//! ```text
//! CollectLeft    one build side, started by the first partition to run, awaited by all
//! Partitioned    one for each partition
//! shared         one for all partitions of a join and for other joins (sharing.rs): given, or from the session's cache
//! ```

use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{JoinSide, NullEquality};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::DynamicFilterPhysicalExpr;
use datafusion::physical_plan::joins::utils::{ColumnIndex, build_join_schema};
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, InputDistributionRequirements,
    PlanProperties, ReplaceChildrenOptions, Statistics,
};
use futures::future::{BoxFuture, Shared};
use futures::{FutureExt, TryStreamExt, stream};
use koel_arrow::{PreparedJoin, can_be_equal, check_key};
use log::warn;

use super::bounds::Bounds;
use super::build::{Build, Read};
use super::cache::KoelBuildCache;
use super::identity::{identity, key_columns};
use super::metrics::{BuildMetrics, ProbeMetrics};
use super::sharing::{Cached, Counts, Sharing};
use super::sort_merge_fallback::{SortMergeFallback, has_end};
use super::spec::Spec;
use super::stream::probed;
use crate::device::{self, Devices};
use crate::error::external;
use crate::in_order::KoelInOrderExec;
use crate::options::KoelOptions;
use crate::ordered::NO_ORDER;
use crate::shown::as_stock;

/// A build side that is being built, for the partitions that wait for it.
type Building = Shared<BoxFuture<'static, std::result::Result<Side, Arc<DataFusionError>>>>;

/// The join implementation, chosen when the size of the build side is known.
#[derive(Clone)]
enum Side {
    Koel(Arc<Build>),
    Stock(Arc<SortMergeFallback>),
}

/// A join by koel.
///
/// Rows are in the order of `HashJoinExec`: probe rows in their order if it preserves it, the build rows of one probe
/// row in theirs, and build rows at the end in theirs.
///
/// Memory: the concatenated build side, and an index estimated at `40 + 16 * keys` bytes per row plus a megabyte, all
/// in a reservation. If the reservation fails, DataFusion sorts both sides, on disk if necessary, and merges them, or
/// hashes them if it cannot merge; rows are then in its order.
pub struct KoelJoinExec {
    stock: Arc<HashJoinExec>,
    options: KoelOptions,
    /// The sources of the columns of the result.
    columns: Vec<ColumnIndex>,
    /// The build side that the caller has given.
    given: Option<Arc<PreparedJoin>>,
    /// The source of a build side that others use too.
    sharing: OnceLock<Option<Sharing>>,
    /// The build side that all partitions share.
    building: Arc<Mutex<Option<Building>>>,
    /// Whether a partition ran out of memory, while the partitions are running.
    is_short: Mutex<Weak<AtomicBool>>,
    /// The bounds that all build sides report to scans of the probe side.
    bounds: OnceLock<Option<Arc<Bounds>>>,
    metrics: ExecutionPlanMetricsSet,
    devices: Devices,
}

impl KoelJoinExec {
    /// Creates a join that replaces `stock`.
    ///
    /// # Errors
    /// Returns the reason if koel does not support the join.
    pub fn of(stock: &HashJoinExec, options: &KoelOptions) -> std::result::Result<Self, String> {
        refused(stock)?;
        let stock = stock.builder().build().map_err(|error| error.to_string())?;
        Ok(Self::new(Arc::new(stock), options.clone()))
    }

    fn new(stock: Arc<HashJoinExec>, options: KoelOptions) -> Self {
        let (_, all) = build_join_schema(&stock.left.schema(), &stock.right.schema(), stock.join_type());
        let columns = match &stock.projection {
            Some(chosen) => chosen.iter().filter_map(|&i| all.get(i).cloned()).collect(),
            None => all,
        };
        KoelJoinExec {
            stock,
            options,
            columns,
            given: None,
            sharing: OnceLock::new(),
            building: Arc::default(),
            is_short: Mutex::default(),
            bounds: OnceLock::new(),
            metrics: ExecutionPlanMetricsSet::new(),
            devices: Devices::default(),
        }
    }

    /// The join that it replaces.
    pub fn stock(&self) -> &HashJoinExec {
        &self.stock
    }

    /// The same join with a build side that was prepared before. The left child is not executed: the prepared rows must
    /// be its rows. All partitions, and all joins that get the same `Arc`, share the build side.
    ///
    /// # Errors
    /// Returns the difference, if the columns, keys or equality of nulls are not those of the join; or the reason why
    /// the join cannot use the build side: keys are not columns, or partitions of the result end with build rows.
    pub fn with_build_side(&self, side: Arc<PreparedJoin>) -> Result<Self> {
        let Some(on) = key_columns(&self.stock) else {
            let what = "koel: keys of a prepared build side are columns: project the expressions below the join";
            return Err(DataFusionError::Plan(what.into()));
        };
        if self.stock.mode == PartitionMode::Partitioned && has_end(*self.stock.join_type()) {
            let how = self.stock.join_type();
            let what = format!("koel: a prepared build side of a {how} join needs the partition mode CollectLeft");
            return Err(DataFusionError::Plan(what));
        }
        side.check(&self.stock.left.schema(), &on, self.nulls()).map_err(external)?;
        let join = Self::new(Arc::clone(&self.stock), self.options.clone());
        Ok(KoelJoinExec { given: Some(side), ..join })
    }

    /// The source of a build side that all partitions share, and other joins too.
    fn sharing(&self, context: &TaskContext) -> Option<Sharing> {
        let made = || {
            if let Some(given) = &self.given {
                return Some(Sharing::Given(Arc::clone(given)));
            }
            let options = self.options(context);
            let cache = context.session_config().get_extension::<KoelBuildCache>();
            let cache = cache.filter(|_| options.build_cache_bytes > 0)?;
            let input: Arc<dyn ExecutionPlan> =
                match (self.stock.mode, self.stock.left.downcast_ref::<RepartitionExec>()) {
                    (PartitionMode::CollectLeft, _) => Arc::clone(&self.stock.left),
                    // Build rows at the end of a partition must belong to it.
                    (PartitionMode::Partitioned, Some(exchange)) if !has_end(*self.stock.join_type()) => {
                        let parts = Arc::clone(exchange.input());
                        match parts.output_partitioning().partition_count() {
                            1 => parts,
                            _ => Arc::new(KoelInOrderExec::new(parts, None)),
                        }
                    }
                    _ => return None,
                };
            let folder = Some(&options.build_cache_folder).filter(|folder| !folder.is_empty());
            Some(Sharing::Cached(Arc::new(Cached {
                cache,
                identity: identity(&self.stock, &input)?,
                limit: options.build_cache_bytes,
                folder: folder.map(Into::into),
                on: key_columns(&self.stock)?,
                input,
                counts: Counts::new(&self.metrics),
            })))
        };
        self.sharing.get_or_init(made).clone()
    }

    fn options<'a>(&'a self, context: &'a TaskContext) -> &'a KoelOptions {
        context.session_config().options().extensions.get::<KoelOptions>().unwrap_or(&self.options)
    }

    fn nulls(&self) -> koel_arrow::NullEquality {
        match self.stock.null_equality() {
            NullEquality::NullEqualsNothing => koel_arrow::NullEquality::NothingEquals,
            NullEquality::NullEqualsNull => koel_arrow::NullEquality::NullEquals,
        }
    }

    /// The dynamic filter in scans of the probe side, if DataFusion put one there and a scan reads it.
    fn bounds(&self, builds: usize) -> Option<Arc<Bounds>> {
        let made = || {
            let [filter] = <[_; 1]>::try_from(self.stock.dynamic_expressions_produced()).ok()?;
            let filter = Arc::downcast::<DynamicFilterPhysicalExpr>(filter).ok()?;
            if !Bounds::are_read(&filter, &self.stock.right) {
                // No scan uses the bounds, so the pass over the keys is unnecessary.
                return None;
            }
            let schemas = [self.stock.left.schema(), self.stock.right.schema()];
            // Without bounds scans read more, but the join is correct.
            Bounds::new(filter, &self.stock.on, schemas, self.nulls(), builds).ok().map(Arc::new)
        };
        self.bounds.get_or_init(made).clone()
    }

    fn spec(&self, context: &TaskContext) -> Spec {
        let (on_build, on_probe) = self.stock.on.iter().cloned().unzip();
        let options = self.options(context);
        let mut kept = self.is_short.lock().unwrap_or_else(PoisonError::into_inner);
        let is_short = kept.upgrade().unwrap_or_default();
        *kept = Arc::downgrade(&is_short);
        let builds = match self.sharing(context) {
            Some(_) => 1,
            None => self.stock.left.output_partitioning().partition_count(),
        };
        Spec {
            how: *self.stock.join_type(),
            nulls: self.nulls(),
            on_build,
            on_probe,
            filter: self.stock.filter.clone(),
            build_schema: self.stock.left.schema(),
            probe_schema: self.stock.right.schema(),
            schema: self.schema(),
            columns: self.columns.clone(),
            batch_size: context.session_config().batch_size().max(1),
            fetch: self.stock.fetch(),
            bounds: self.bounds(builds),
            is_short,
            // As set when the plan was created.
            ordered: self.options.ordered,
            device: options.device.clone(),
            min_rows: options.min_rows,
            are_many: self.stock.mode == PartitionMode::Partitioned && builds > 1 && 2 * builds >= device::threads(),
        }
    }

    /// The build side of a partition, or the shared one.
    fn building(&self, partition: usize, spec: &Arc<Spec>, context: &Arc<TaskContext>) -> Result<Building> {
        let is_shared = self.stock.mode != PartitionMode::Partitioned || self.sharing(context).is_some();
        let begin = |partition: usize, probes: usize| {
            let name = format!("KoelJoinExec[{partition}]");
            let reservation = MemoryConsumer::new(name).register(context.memory_pool());
            let metrics = BuildMetrics::new(&self.metrics, partition, self.devices.clone());
            let build = match self.sharing(context) {
                Some(sharing) => {
                    sharing.build(Arc::clone(spec), probes, reservation, metrics, Arc::clone(context)).boxed()
                }
                None => {
                    let input = self.stock.left.execute(partition, Arc::clone(context))?;
                    Build::collect(input, Arc::clone(spec), [partition, probes], reservation, metrics).boxed()
                }
            };
            let (stock, of_one) = (Arc::clone(&self.stock), (!is_shared).then_some(partition));
            let (metrics, devices) = (self.metrics.clone(), self.devices.clone());
            let (spec, context) = (Arc::clone(spec), Arc::clone(context));
            let side = async move {
                let refused = match build.await? {
                    Read::Whole(build) => return Ok(Side::Koel(build)),
                    Read::Refused(refused) => refused,
                };
                if spec.ordered {
                    return Err(refused.why.context(NO_ORDER));
                }
                warn!("koel leaves a {} join to DataFusion: {}", spec.how, refused.why);
                if let Some(bounds) = &spec.bounds {
                    bounds.stay_open();
                }
                let sort_merge_fallback =
                    SortMergeFallback::new(&stock, of_one, refused, (&metrics, partition), &context).await?;
                devices.add(format!("none, by {}", sort_merge_fallback.name()));
                Ok(Side::Stock(Arc::new(sort_merge_fallback)))
            };
            Ok::<_, DataFusionError>(side.map(|side| side.map_err(Arc::new)).boxed().shared())
        };
        if !is_shared {
            return begin(partition, 1);
        }
        let mut shared = self.building.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(building) = &*shared {
            return Ok(building.clone());
        }
        let building = begin(0, self.stock.right.output_partitioning().partition_count())?;
        Ok(shared.insert(building).clone())
    }
}

/// Returns the reason if koel's result would differ from that of `HashJoinExec`.
fn refused(join: &HashJoinExec) -> std::result::Result<(), String> {
    if join.null_aware {
        return Err("NOT IN with nulls (a null-aware anti join) is not koel's".into());
    }
    if join.mode == PartitionMode::Auto {
        return Err("its partition mode is still Auto".into());
    }
    for (left, right) in join.on() {
        let (build, probe) = match (left.data_type(&join.left.schema()), right.data_type(&join.right.schema())) {
            (Ok(build), Ok(probe)) => (build, probe),
            (Err(error), _) | (_, Err(error)) => return Err(error.to_string()),
        };
        for (key, of) in [(left, &build), (right, &probe)] {
            check_key(&key.to_string(), of).map_err(|error| error.to_string())?;
        }
        // A struct that contains a null equals itself in DataFusion, but nothing in koel.
        if join.null_equality() == NullEquality::NullEqualsNothing && [&build, &probe].into_iter().any(has_inner_nulls)
        {
            return Err(format!("key {left} is a struct whose fields may be null"));
        }
        if !can_be_equal(&build, &probe) {
            return Err(format!("keys {left} of {build} and {right} of {probe} are compared by a cast"));
        }
    }
    let misplaced = join.filter().into_iter().flat_map(|filter| filter.column_indices());
    if misplaced.into_iter().any(|column| column.side == JoinSide::None) {
        return Err("its filter has a column of neither side".into());
    }
    Ok(())
}

/// Whether a value of a type may contain a null without being null.
fn has_inner_nulls(of: &DataType) -> bool {
    match of {
        DataType::Struct(fields) => {
            fields.iter().any(|field| field.is_nullable() || has_inner_nulls(field.data_type()))
        }
        DataType::Dictionary(_, values) => has_inner_nulls(values),
        _ => false,
    }
}

impl ExecutionPlan for KoelJoinExec {
    fn name(&self) -> &str {
        "KoelJoinExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.stock.properties()
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        self.stock.input_distribution_requirements()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        ExecutionPlan::maintains_input_order(self.stock.as_ref())
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.stock.children()
    }

    fn dynamic_expressions_produced(&self) -> Vec<Arc<dyn PhysicalExpr>> {
        self.stock.dynamic_expressions_produced()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.stock.apply_expressions(f)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let stock = Arc::clone(&self.stock).replace_children(children, options)?;
        self.around(stock)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        #[expect(deprecated, reason = "the trait still requires it")]
        let stock = Arc::clone(&self.stock).with_new_children(children)?;
        self.around(stock)
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        let stock = Arc::clone(&self.stock).reset_state()?;
        self.around(stock)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let builds = self.stock.left.output_partitioning().partition_count();
        let probes = self.stock.right.output_partitioning().partition_count();
        let wanted = if self.stock.mode == PartitionMode::Partitioned { probes } else { 1 };
        if builds != wanted {
            let mode = self.stock.mode;
            let what = format!("KoelJoinExec: {builds} build partitions in mode {mode:?} where {wanted} are needed");
            return Err(DataFusionError::Internal(what));
        }
        let spec = Arc::new(self.spec(&context));
        let building = self.building(partition, &spec, &context)?;
        let reservation = MemoryConsumer::new(format!("KoelJoinExec probe[{partition}]"));
        let reservation = reservation.register(context.memory_pool());
        let metrics = ProbeMetrics::new(&self.metrics, partition, self.devices.clone());
        let (schema, probe) = (self.schema(), Arc::clone(&self.stock.right));
        let shared = Arc::clone(&self.building);
        let rows = async move {
            Ok::<_, DataFusionError>(match building.await.map_err(DataFusionError::Shared)? {
                Side::Koel(build) => probed(spec, build, probe.execute(partition, context)?, reservation, metrics),
                Side::Stock(sort_merge_fallback) => {
                    let (rows, is_last) = sort_merge_fallback.execute(partition)?;
                    if is_last {
                        // If the plan is executed again, it builds again.
                        *shared.lock().unwrap_or_else(PoisonError::into_inner) = None;
                    }
                    metrics.counted(rows)
                }
            })
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, stream::once(rows).try_flatten())))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        self.stock.child_stats_requests(partition)
    }

    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        self.stock.statistics_from_inputs(inputs, args)
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        self.stock.benefits_from_input_partitioning()
    }

    fn supports_limit_pushdown(&self) -> bool {
        self.stock.supports_limit_pushdown()
    }

    fn fetch(&self) -> Option<usize> {
        self.stock.fetch()
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        self.around(self.stock.with_fetch(limit)?).ok()
    }
}

impl KoelJoinExec {
    /// A join that replaces another stock join.
    fn around(&self, stock: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(join) = stock.downcast_ref::<HashJoinExec>() else {
            return Err(DataFusionError::Internal(format!("koel: a HashJoinExec became a {}", stock.name())));
        };
        let join = Self::new(Arc::new(join.builder().build()?), self.options.clone());
        Ok(Arc::new(match &self.given {
            Some(side) => join.with_build_side(Arc::clone(side))?,
            None => join,
        }))
    }
}

impl DisplayAs for KoelJoinExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        as_stock(self.name(), self.stock.as_ref(), &self.devices, t, f)
    }
}

impl fmt::Debug for KoelJoinExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KoelJoinExec")
            .field("stock", &self.stock)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
