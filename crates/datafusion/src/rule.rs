//! The optimizer rule: selects the operators that koel replaces.
//!
//! ```text
//! SortMergeJoinExec   ->  HashJoinExec, if its inputs are sorted for it only (merges.rs)
//! HashJoinExec        ->  KoelJoinExec, if koel supports it
//! AggregateExec       ->  KoelAggregateExec, if it has keys and koel supports it
//! any other one       ->  itself, below a note with the reason, which is also logged
//! ```
//!
//! With `koel.ordered`, exchanges then preserve the order of rows (ordered.rs).
//!
//! The rule never fails, and does not change results, with one exception: in joins, koel treats NaNs of any bits as
//! equal. An operator with an unknown property is kept.

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
use crate::fallback_reason::{self, KoelNoteExec};
use crate::join::KoelJoinExec;
use crate::merges;
use crate::options::KoelOptions;
use crate::ordered::in_one_order;

/// Replaces `HashJoinExec`, and `SortMergeJoinExec` with its sorts, by [`KoelJoinExec`], and `AggregateExec` by
/// [`KoelAggregateExec`].
///
/// Add it after DataFusion's own rules. The options are those of the session, or else those of the rule.
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
    /// A rule for sessions without [`KoelOptions`].
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
        // A merge join can spill; with `koel.ordered` koel cannot fall back to it.
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
    // A note of an earlier run: the operator below has been processed again.
    if node.name() == fallback_reason::NAME
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

/// koel's operator that replaces a node, or the reason why there is none; `None` for nodes of other kinds.
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
    // Aggregates without keys are not replaced.
    let aggregate = node.downcast_ref::<AggregateExec>().filter(|own| !own.group_expr().is_true_no_grouping())?;
    Some(KoelAggregateExec::of(aggregate, options).map(|own| Arc::new(own) as _))
}
