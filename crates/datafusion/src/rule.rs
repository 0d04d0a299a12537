//! Which joins koel takes.
//!
//! ```text
//! SortMergeJoinExec   ->  HashJoinExec, if its inputs are sorted for it alone (merges.rs)
//! HashJoinExec        ->  KoelJoinExec, if koel can answer it
//! any other one       ->  itself, below a note that says why, which the log says too
//! ```
//!
//! With `koel.ordered`, exchanges then keep the order of rows (ordered.rs).
//!
//! The rule never fails a plan and changes no answer but one: NaNs of any bits are equal to koel. A join that it does not know
//! all about stays as it is.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::{HashJoinExec, SortMergeJoinExec};
use log::debug;

use crate::join::KoelJoinExec;
use crate::merges;
use crate::note::{self, KoelNoteExec};
use crate::options::KoelOptions;
use crate::ordered::in_one_order;

/// Puts [`KoelJoinExec`] in the place of `HashJoinExec`, and of `SortMergeJoinExec` with its sorts.
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
        let plan = match options.merges {
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
    let taken = if let Some(join) = node.downcast_ref::<HashJoinExec>() {
        KoelJoinExec::of(join, options)
    } else if node.is::<SortMergeJoinExec>() && options.merges {
        Err("a side of it comes sorted, its order is wanted, or its keys are none of koel's".into())
    } else {
        return Transformed::no(node);
    };
    match taken {
        Ok(taken) => Transformed::yes(Arc::new(taken)),
        Err(why) => {
            debug!("koel leaves a {} to DataFusion: {why}", node.name());
            if options.notes { Transformed::yes(Arc::new(KoelNoteExec::new(node, why))) } else { Transformed::no(node) }
        }
    }
}
