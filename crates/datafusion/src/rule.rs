//! Which operators koel takes.
//!
//! ```text
//! SortMergeJoinExec   ->  HashJoinExec, if its inputs are sorted for it alone (merges.rs)
//! HashJoinExec        ->  KoelJoinExec, if koel can answer it
//! AggregateExec       ->  KoelAggregateExec, if it has keys and koel can answer it
//! any other one       ->  itself, below a note that says why, which the log says too
//! ```
//!
//! With `koel.ordered`, exchanges then keep the order of rows (ordered.rs).
//!
//! The rule never fails a plan and changes no answer but one: in joins NaNs of any bits are equal to koel. An operator that it does
//! not know all about stays as it is.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::joins::{HashJoinExec, SortMergeJoinExec};
use log::debug;

use crate::aggregate::KoelAggregateExec;
use crate::join::KoelJoinExec;
use crate::merges;
use crate::note::{self, KoelNoteExec};
use crate::options::KoelOptions;
use crate::ordered::in_one_order;

/// Puts [`KoelJoinExec`] in the place of `HashJoinExec`, and of `SortMergeJoinExec` with its sorts, and [`KoelAggregateExec`] in
/// that of `AggregateExec`.
///
/// It belongs behind DataFusion's own rules. Options are those of the session, or else these.
///
/// ```
/// use std::sync::Arc;
/// use datafusion::execution::SessionStateBuilder;
/// use koel_datafusion::KoelRule;
///
/// let state = SessionStateBuilder::new().with_default_features();
/// let state = state.with_physical_optimizer_rule(Arc::new(KoelRule::default())).build();
/// # let _ = state;
/// ```
#[derive(Clone, Debug, Default)]
pub struct KoelRule {
    options: KoelOptions,
}

impl KoelRule {
    /// A rule for sessions that do not know [`KoelOptions`].
    pub fn new(options: KoelOptions) -> Self {
        KoelRule { options }
    }
}

impl PhysicalOptimizerRule for KoelRule {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let options = config.extensions.get::<KoelOptions>().unwrap_or(&self.options);
        if !options.enabled {
            return Ok(plan);
        }
        // Who merges can spill; in one order koel cannot hand over to it.
        let plan = match options.merges && !options.ordered {
            true => merges::hashed(plan, &|join| KoelJoinExec::of(join, options).is_ok())?,
            false => plan,
        };
        let plan = plan.transform_up(|node| Ok(replaced(node, options))).data()?;
        if options.ordered { in_one_order(plan) } else { Ok(plan) }
    }

    fn name(&self) -> &str {
        "koel"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn replaced(node: Arc<dyn ExecutionPlan>, options: &KoelOptions) -> Transformed<Arc<dyn ExecutionPlan>> {
    // Of an earlier run: what is below has been looked at anew.
    if node.name() == note::NAME
        && let [below] = node.children()[..]
    {
        return Transformed::yes(Arc::clone(below));
    }
    match taken(&node, options) {
        None => Transformed::no(node),
        Some(Ok(taken)) => Transformed::yes(taken),
        Some(Err(why)) => {
            debug!("koel leaves a {} to DataFusion: {why}", node.name());
            if options.notes { Transformed::yes(Arc::new(KoelNoteExec::new(node, why))) } else { Transformed::no(node) }
        }
    }
}

/// koel's operator in the place of a node, or why there is none; `None` for nodes that are not its matter.
fn taken(
    node: &Arc<dyn ExecutionPlan>,
    options: &KoelOptions,
) -> Option<std::result::Result<Arc<dyn ExecutionPlan>, String>> {
    if let Some(join) = node.downcast_ref::<HashJoinExec>() {
        return Some(KoelJoinExec::of(join, options).map(|own| Arc::new(own) as _));
    }
    if let Some(join) = node.downcast_ref::<SortMergeJoinExec>() {
        return Some(Err(match (options.merges, options.ordered) {
            (false, _) => "koel.merges is off".into(),
            (true, true) => "koel.ordered leaves merges, which can spill".into(),
            (true, false) => merges::why_not(join, |hashed| KoelJoinExec::of(hashed, options).err()),
        }));
    }
    // Without keys there is nothing to group.
    let aggregate = node.downcast_ref::<AggregateExec>().filter(|own| !own.group_expr().is_true_no_grouping())?;
    Some(KoelAggregateExec::of(aggregate, options).map(|own| Arc::new(own) as _))
}
