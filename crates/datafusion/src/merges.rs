//! Replaces sort-merge joins whose inputs are sorted for them only by hash joins without the sorts.
//!
//! ```text
//! SortMergeJoinExec              HashJoinExec (Partitioned), built from the smaller side,
//!   SortExec: keys of the left   ->   the left input
//!   SortExec: keys of the right       the right input
//! ```
//!
//! `datafusion.optimizer.prefer_hash_join = false` creates such plans. Sorting both sides costs more than hashing one;
//! and if memory is short, koel's join sorts and merges as this one would (join/sort_merge_fallback.rs).
//!
//! A sort-merge join is kept if the input of a side is sorted already, or if an operator above requires the order of
//! its rows.

use std::sync::Arc;

use datafusion::common::stats::Precision;
use datafusion::error::Result;
use datafusion::physical_plan::analyze::AnalyzeExec;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode, SortMergeJoinExec};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, replace_children_if_necessary};

/// Returns a plan in which hash joins replace sort-merge joins, if `takes` accepts them.
pub(crate) fn hashed(
    plan: Arc<dyn ExecutionPlan>,
    takes: &impl Fn(&HashJoinExec) -> bool,
) -> Result<Arc<dyn ExecutionPlan>> {
    // Rows of several partitions have no order after they are collected.
    let is_ordered = plan.output_partitioning().partition_count() == 1 && plan.output_ordering().is_some();
    below(plan, is_ordered, takes)
}

/// Rewrites a part of a plan as [`hashed`] does; `is_ordered` is whether operators above require its order.
fn below(
    node: Arc<dyn ExecutionPlan>,
    is_ordered: bool,
    takes: &impl Fn(&HashJoinExec) -> bool,
) -> Result<Arc<dyn ExecutionPlan>> {
    if let Some(join) = node.downcast_ref::<SortMergeJoinExec>()
        && !is_ordered
        && let Some([left, right]) = unsorted(join)
        && let Some(hashed) = hash_join(join, [&left, &right])?.filter(takes)
    {
        let children = vec![below(left, false, takes)?, below(right, false, takes)?];
        let hashed = hashed.builder().with_new_children(children)?.build()?;
        return smaller_left(hashed);
    }
    if node.is::<AnalyzeExec>()
        && let [child] = node.children()[..]
    {
        let child = hashed(Arc::clone(child), takes)?;
        return replace_children_if_necessary(node, vec![child]);
    }
    let wants = node.required_input_ordering();
    // The order of children is irrelevant if the node has none. Nodes do not always report which order they preserve.
    let is_handed_on = is_ordered && node.output_ordering().is_some() && !node.is::<SortExec>();
    let of = |(i, child): (usize, &Arc<dyn ExecutionPlan>)| {
        let is_wanted = wants.get(i).is_some_and(Option::is_some);
        below(Arc::clone(child), is_wanted || is_handed_on, takes)
    };
    let children = node.children().into_iter().enumerate().map(of).collect::<Result<_>>()?;
    replace_children_if_necessary(node, children)
}

/// The reason to keep a sort-merge join.
pub(crate) fn why_not(join: &SortMergeJoinExec, refused: impl Fn(&HashJoinExec) -> Option<String>) -> String {
    let Some([left, right]) = unsorted(join) else { return "one of its inputs is already sorted".into() };
    let hashed = hash_join(join, [&left, &right]).ok().flatten();
    hashed.and_then(|hashed| refused(&hashed)).unwrap_or_else(|| "those above count on the order of its rows".into())
}

/// The inputs without their sorts. `None` if an input is already sorted without a `SortExec`.
fn unsorted(join: &SortMergeJoinExec) -> Option<[Arc<dyn ExecutionPlan>; 2]> {
    let of = |input: &Arc<dyn ExecutionPlan>| {
        // The order is created by the merge below, which may be replaced too.
        if input.is::<SortMergeJoinExec>() {
            return Some(Arc::clone(input));
        }
        let sort = input.downcast_ref::<SortExec>()?;
        let keeps_partitions =
            sort.preserve_partitioning() || sort.input().output_partitioning().partition_count() == 1;
        (keeps_partitions && sort.fetch().is_none()).then(|| Arc::clone(sort.input()))
    };
    Some([of(join.left())?, of(join.right())?])
}

/// The hash join of these inputs. `None` if DataFusion does not support it.
fn hash_join(join: &SortMergeJoinExec, [left, right]: [&Arc<dyn ExecutionPlan>; 2]) -> Result<Option<HashJoinExec>> {
    let (on, filter, how) = (join.on().to_vec(), join.filter().clone(), join.join_type());
    let (mode, nulls) = (PartitionMode::Partitioned, join.null_equality());
    let hashed =
        HashJoinExec::try_new(Arc::clone(left), Arc::clone(right), on, filter, &how, None, mode, nulls, false)?;
    Ok((hashed.schema() == join.schema()).then_some(hashed))
}

/// Swaps the sides of a join if necessary, so that it is built from the side that is known to be smaller.
fn smaller_left(join: HashJoinExec) -> Result<Arc<dyn ExecutionPlan>> {
    let known = StatisticsContext::new();
    let of = |plan: &Arc<dyn ExecutionPlan>| known.compute(plan.as_ref(), &StatisticsArgs::new()).ok();
    let is_smaller = |right: &Precision<usize>, left: &Precision<usize>| Some(right.get_value()? < left.get_value()?);
    let is_right = match (of(&join.left), of(&join.right)) {
        (Some(left), Some(right)) => is_smaller(&right.total_byte_size, &left.total_byte_size)
            .or_else(|| is_smaller(&right.num_rows, &left.num_rows))
            .unwrap_or(false),
        _ => false,
    };
    if is_right { join.swap_inputs(PartitionMode::Partitioned) } else { Ok(Arc::new(join)) }
}
