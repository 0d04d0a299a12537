//! `koel.ordered`: plans whose rows come in one order, run after run.
//!
//! Scans, filters, joins and groups keep or make one order in each partition. It is lost where several partitions become
//! one, or others, and whoever is first goes first:
//!
//! ```text
//! CoalescePartitionsExec                               ->  KoelInOrderExec
//! RepartitionExec of several partitions                ->  the same of KoelInOrderExec: one input is dealt in its order
//! a join that ends with build rows, of shared build,   ->  its probe side through KoelInOrderExec: else the partition that
//!     several probe partitions                             happens to be the last one has them
//! the plan as a whole, of several partitions           ->  KoelInOrderExec of it: who collects it takes what comes first
//! ```
//!
//! Sorts and merges of sorted partitions stay, and so do unions that interleave and nested-loop joins: equal rows of a merge,
//! and what comes out of the other two, are not in one order yet. Behind a round-robin exchange rows may be dealt otherwise on
//! a device than on the CPU, for batches end elsewhere there.
//!
//! What it cannot order: scans that take files from each other, so `datafusion.execution.enable_file_stream_work_stealing`
//! has to be off; and limits of sorts that tell each other how far they are
//! (`datafusion.optimizer.enable_topk_dynamic_filter_pushdown`), where equal rows compete for the last place.

use std::sync::Arc;

use datafusion::common::JoinType;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, Partitioning, replace_children_if_necessary};

use crate::in_order::KoelInOrderExec;
use crate::join::KoelJoinExec;

/// A plan whose rows come in one order, if those of its scans do.
///
/// # Errors
/// What DataFusion reports of nodes with other children.
pub(crate) fn in_one_order(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let plan = plan.transform_up(ordered).data()?;
    Ok(if is_one(&plan) { plan } else { in_order(&plan) })
}

/// A node whose rows come in one order, if those of its children do.
fn ordered(node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    if let Some(coalesced) = node.downcast_ref::<CoalescePartitionsExec>() {
        let in_order = KoelInOrderExec::new(Arc::clone(coalesced.input()), coalesced.fetch());
        return Ok(Transformed::yes(Arc::new(in_order)));
    }
    if let Some(dealt) = node.downcast_ref::<RepartitionExec>() {
        if dealt.preserve_order() || is_one(dealt.input()) {
            return Ok(Transformed::no(node));
        }
        let input = in_order(dealt.input());
        return Ok(Transformed::yes(Arc::new(RepartitionExec::try_new(input, dealt.partitioning().clone())?)));
    }
    let join = node.downcast_ref::<KoelJoinExec>().map(KoelJoinExec::stock).or_else(|| node.downcast_ref());
    let Some([build, probe]) = join.and_then(split_end) else { return Ok(Transformed::no(node)) };
    let partitioning = node.output_partitioning().clone();
    let joined = replace_children_if_necessary(node, vec![build, in_order(&probe)])?;
    Ok(Transformed::yes(match partitioning {
        // Whoever is above may count on which partition a row is in.
        Partitioning::Hash(..) => Arc::new(RepartitionExec::try_new(joined, partitioning)?),
        _ => joined,
    }))
}

/// The sides of a join whose end is any partition's.
fn split_end(join: &HashJoinExec) -> Option<[Arc<dyn ExecutionPlan>; 2]> {
    use JoinType::{Full, Left, LeftAnti, LeftMark, LeftSemi};
    let has_end = matches!(join.join_type(), Left | Full | LeftSemi | LeftAnti | LeftMark);
    let is_split = *join.partition_mode() == PartitionMode::CollectLeft && !is_one(join.right());
    (has_end && is_split).then(|| [Arc::clone(join.left()), Arc::clone(join.right())])
}

fn is_one(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.output_partitioning().partition_count() == 1
}

fn in_order(plan: &Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    Arc::new(KoelInOrderExec::new(Arc::clone(plan), None))
}
