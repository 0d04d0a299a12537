//! A note in a plan: the reason why koel does not execute an operator.

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
    Statistics,
};

/// Shows in plans why the operator below it was not replaced. It returns that operator's streams, so it does not
/// process rows.
#[derive(Debug)]
pub struct KoelNoteExec {
    below: Arc<dyn ExecutionPlan>,
    why: String,
}

impl KoelNoteExec {
    /// A note above an operator.
    pub fn new(below: Arc<dyn ExecutionPlan>, why: impl Into<String>) -> Self {
        KoelNoteExec { below, why: why.into() }
    }

    /// The operator.
    pub fn below(&self) -> &Arc<dyn ExecutionPlan> {
        &self.below
    }

    /// The reason.
    pub fn why(&self) -> &str {
        &self.why
    }
}

/// The name that identifies a note. A downcast cannot, because it finds the operator below.
pub(crate) const NAME: &str = "KoelNoteExec";

impl ExecutionPlan for KoelNoteExec {
    fn name(&self) -> &str {
        NAME
    }

    /// A downcast finds the operator below.
    fn downcast_delegate(&self) -> Option<&dyn ExecutionPlan> {
        Some(self.below.as_ref())
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.below.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.below]
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
            Ok([below]) => Ok(Arc::new(KoelNoteExec { below, why: self.why.clone() })),
            Err(others) => Err(DataFusionError::Internal(format!("{NAME} has one child, and not {}", others.len()))),
        }
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.below.execute(partition, context)
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], _args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        match inputs {
            [below] => Ok(Arc::clone(below)),
            others => Err(DataFusionError::Internal(format!("{NAME} has one child, and not {}", others.len()))),
        }
    }

    fn supports_limit_pushdown(&self) -> bool {
        true
    }
}

impl DisplayAs for KoelNoteExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "{NAME}: not by koel, since {}", self.why)
            }
            DisplayFormatType::TreeRender => writeln!(f, "not by koel, since {}", self.why),
        }
    }
}
