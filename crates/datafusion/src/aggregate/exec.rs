//! The operator and its role in plans.
//!
//! A [`KoelAggregateExec`] keeps the `AggregateExec` that it replaces, and takes schema, partitions, order and
//! statistics from it; only the execution differs.

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{OrderingRequirements, PhysicalExpr};
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::CardinalityEffect;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet, SpillMetrics};
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements, PlanProperties, ReplaceChildrenOptions,
    Statistics,
};
use log::debug;

use super::metrics::Metrics;
use super::spec::{Spec, refused};
use super::spill::Spill;
use super::stream::aggregated;
use crate::device::Devices;
use crate::options::KoelOptions;
use crate::shown::as_stock;

/// An aggregate by koel: DISTINCT, COUNT, SUM, MIN, MAX and AVG by keys.
///
/// The groups of each partition are in order of first occurrence of their keys. koel finds the group of each row;
/// DataFusion's accumulators aggregate the values, so results equal those of `AggregateExec`.
///
/// Memory: a word and a key for each group, and the accumulators, in a reservation. If the reservation fails, a partial
/// aggregate emits its states; any other one continues in an `AggregateExec`, which can spill, in an unspecified order.
pub struct KoelAggregateExec {
    stock: Arc<AggregateExec>,
    options: KoelOptions,
    metrics: ExecutionPlanMetricsSet,
    devices: Devices,
}

impl KoelAggregateExec {
    /// Creates an aggregate that replaces `stock`.
    ///
    /// # Errors
    /// Returns the reason if koel does not support the aggregate.
    pub fn of(stock: &AggregateExec, options: &KoelOptions) -> std::result::Result<Self, String> {
        refused(stock)?;
        Ok(Self::new(Arc::new(stock.clone()), options.clone()))
    }

    fn new(stock: Arc<AggregateExec>, options: KoelOptions) -> Self {
        KoelAggregateExec { stock, options, metrics: ExecutionPlanMetricsSet::new(), devices: Devices::default() }
    }

    /// The aggregate that it replaces.
    pub fn stock(&self) -> &AggregateExec {
        &self.stock
    }

    /// An aggregate that replaces another stock aggregate. With other children, koel may not support it.
    fn around(&self, stock: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(aggregate) = stock.downcast_ref::<AggregateExec>() else {
            return Err(DataFusionError::Internal(format!("koel: an AggregateExec became a {}", stock.name())));
        };
        match Self::of(aggregate, &self.options) {
            Ok(own) => Ok(Arc::new(own)),
            Err(why) => {
                debug!("koel leaves an aggregate with other inputs to DataFusion: {why}");
                Ok(stock)
            }
        }
    }
}

impl ExecutionPlan for KoelAggregateExec {
    fn name(&self) -> &str {
        "KoelAggregateExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.stock.properties()
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        self.stock.input_distribution_requirements()
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        self.stock.required_input_ordering()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        self.stock.maintains_input_order()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.stock.children()
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
        let spec = Arc::new(Spec::new(&self.stock, &self.options, &context)?);
        let spills = SpillMetrics::new(&self.metrics, partition);
        let spill = Spill::new(Arc::clone(&self.stock), Arc::clone(&context), spills);
        let consumer = MemoryConsumer::new(format!("KoelAggregateExec[{partition}]")).with_can_spill(true);
        let reservation = consumer.register(context.memory_pool());
        let input = self.stock.input().execute(partition, context)?;
        aggregated(spec, spill, input, reservation, Metrics::new(&self.metrics, partition, self.devices.clone()))
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

    fn cardinality_effect(&self) -> CardinalityEffect {
        self.stock.cardinality_effect()
    }
}

impl DisplayAs for KoelAggregateExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        as_stock(self.name(), self.stock.as_ref(), &self.devices, t, f)
    }
}

impl fmt::Debug for KoelAggregateExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KoelAggregateExec")
            .field("stock", &self.stock)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
