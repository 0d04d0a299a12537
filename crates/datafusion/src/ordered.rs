//! `koel.ordered`: plans whose rows have the same order in every run.
//!
//! Scans, filters, joins and aggregates preserve or create one order in each partition. The order is lost where several
//! partitions are merged or redistributed, and batches are taken as they arrive:
//!
//! ```text
//! CoalescePartitionsExec                              ->  KoelInOrderExec
//! RepartitionExec of several partitions               ->  RepartitionExec of KoelInOrderExec: splits rows in order
//! InterleaveExec                                      ->  a union in order, repartitioned
//! SortExec with a limit, of several partitions        ->  SortExec of KoelInOrderExec: partitions share a threshold
//! a join that ends with build rows, of shared build,  ->  its probe side through KoelInOrderExec: otherwise the
//!     several probe partitions                            partition that finishes last returns the build rows
//! the plan as a whole, of several partitions          ->  KoelInOrderExec of it, because collecting returns rows as
//!                                                         they arrive
//! ```
//!
//! Round-robin exchanges distribute whole batches, so koel's operators return batches of the session's size on every
//! device. Other sorts and merges of sorted partitions are kept: among equal rows they decide by input position, not by
//! time.
//!
//! Some plans cannot be ordered: infinite inputs; scans that steal files from each other, so
//! `datafusion.execution.enable_file_stream_work_stealing` must be off; and scans that skip rows because of a sort with
//! a limit (`datafusion.optimizer.enable_topk_dynamic_filter_pushdown`), which changes the ends of batches from run to
//! run.

use std::sync::Arc;

use datafusion::common::JoinType;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec, PartitionMode};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::union::{InterleaveExec, UnionExec};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, replace_children_if_necessary};
use log::warn;

use crate::in_order::KoelInOrderExec;
use crate::join::KoelJoinExec;

/// Advice in an error if DataFusion, which can spill, would return rows in another order.
pub(crate) const NO_ORDER: &str = "koel.ordered needs all in memory: allow more, or SET koel.ordered = false";

/// Returns a plan whose rows have one order, if the rows of its scans do.
///
/// # Errors
/// The errors of DataFusion for nodes with other children.
pub(crate) fn in_one_order(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    if plan.boundedness().is_unbounded() {
        warn!("koel.ordered does nothing for a query that never ends");
        return Ok(plan);
    }
    let plan = plan.transform_up(ordered).data()?;
    Ok(if is_one(&plan) { plan } else { in_order(&plan) })
}

/// Returns a node whose rows have one order, if the rows of its children do.
fn ordered(node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    if let Some(coalesced) = node.downcast_ref::<CoalescePartitionsExec>() {
        let in_order = KoelInOrderExec::new(Arc::clone(coalesced.input()), coalesced.fetch());
        return Ok(Transformed::yes(Arc::new(in_order)));
    }
    if let Some(split) = node.downcast_ref::<RepartitionExec>() {
        if split.preserve_order() || is_one(split.input()) {
            return Ok(Transformed::no(node));
        }
        let input = in_order(split.input());
        return Ok(Transformed::yes(Arc::new(RepartitionExec::try_new(input, split.partitioning().clone())?)));
    }
    if let Some(interleaved) = node.downcast_ref::<InterleaveExec>() {
        let all = UnionExec::try_new(interleaved.inputs().clone())?;
        let split = RepartitionExec::try_new(in_order(&all), node.output_partitioning().clone())?;
        return Ok(Transformed::yes(Arc::new(split)));
    }
    if let Some(sort) = node.downcast_ref::<SortExec>()
        && sort.fetch().is_some()
        && !is_one(sort.input())
    {
        let sort = SortExec::new(sort.expr().clone(), in_order(sort.input())).with_fetch(sort.fetch());
        return Ok(Transformed::yes(Arc::new(sort)));
    }
    let Some([build, probe]) = split_end(node.as_ref()) else { return Ok(Transformed::no(node)) };
    let probe = in_order(&probe);
    replace_children_if_necessary(node, vec![build, probe]).map(Transformed::yes)
}

/// The sides of a join whose final build rows may be returned by any partition.
fn split_end(node: &dyn ExecutionPlan) -> Option<[Arc<dyn ExecutionPlan>; 2]> {
    use JoinType::{Full, Left, LeftAnti, LeftMark, LeftSemi};
    let (how, build, probe) = if let Some(join) = node.downcast_ref::<NestedLoopJoinExec>() {
        (join.join_type(), join.left(), join.right())
    } else {
        let join = node.downcast_ref::<KoelJoinExec>().map(KoelJoinExec::stock);
        let join = join.or_else(|| node.downcast_ref::<HashJoinExec>());
        let join = join.filter(|join| *join.partition_mode() == PartitionMode::CollectLeft)?;
        (join.join_type(), join.left(), join.right())
    };
    let has_end = matches!(how, Left | Full | LeftSemi | LeftAnti | LeftMark);
    (has_end && !is_one(probe)).then(|| [Arc::clone(build), Arc::clone(probe)])
}

fn is_one(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.output_partitioning().partition_count() == 1
}

fn in_order(plan: &Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    Arc::new(KoelInOrderExec::new(Arc::clone(plan), None))
}
