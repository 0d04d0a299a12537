//! Sort-merge joins whose inputs are sorted for them alone: hash joins, without the sorts.
//!
//! ```text
//! SortMergeJoinExec              HashJoinExec (Partitioned), built from the side with fewer rows,
//!   SortExec: keys of the left   ->   the left input
//!   SortExec: keys of the right       the right input
//! ```
//!
//! `datafusion.optimizer.prefer_hash_join = false` plans them. Sorting both sides costs more than hashing one; and where that one
//! finds no room, koel's join sorts and merges as this one would (join/instead.rs).
//!
//! One stays where a side comes sorted already, or where someone above counts on the order in which rows leave it.

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode, SortMergeJoinExec};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, replace_children_if_necessary};

/// A plan with hash joins that pass `takes` in the place of sort-merge joins.
pub(crate) fn hashed(
    plan: Arc<dyn ExecutionPlan>,
    takes: &impl Fn(&HashJoinExec) -> bool,
) -> Result<Arc<dyn ExecutionPlan>> {
    // Rows of several partitions are in no order once they are collected.
    let is_ordered = plan.output_partitioning().partition_count() == 1 && plan.output_ordering().is_some();
    below(plan, is_ordered, takes)
}

/// The same of a part of a plan, on whose order those above count or not.
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
    let (keeps, wants) = (node.maintains_input_order(), node.required_input_ordering());
    let of = |(i, child): (usize, &Arc<dyn ExecutionPlan>)| {
        let is_wanted = wants.get(i).is_some_and(Option::is_some);
        let is_handed_on = is_ordered && keeps.get(i).copied().unwrap_or(true);
        below(Arc::clone(child), is_wanted || is_handed_on, takes)
    };
    let children = node.children().into_iter().enumerate().map(of).collect::<Result<_>>()?;
    replace_children_if_necessary(node, children)
}

/// The inputs without their sorts. None if one comes in order by itself.
fn unsorted(join: &SortMergeJoinExec) -> Option<[Arc<dyn ExecutionPlan>; 2]> {
    let of = |input: &Arc<dyn ExecutionPlan>| {
        // The order of a merge below is that merge's, which need not stay.
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

/// The hash join of these inputs. None if DataFusion has none.
fn hash_join(join: &SortMergeJoinExec, [left, right]: [&Arc<dyn ExecutionPlan>; 2]) -> Result<Option<HashJoinExec>> {
    let (on, filter, how) = (join.on().to_vec(), join.filter().clone(), join.join_type());
    let (mode, nulls) = (PartitionMode::Partitioned, join.null_equality());
    let hashed =
        HashJoinExec::try_new(Arc::clone(left), Arc::clone(right), on, filter, &how, None, mode, nulls, false)?;
    Ok((hashed.schema() == join.schema()).then_some(hashed))
}

/// The same, built from the side that is known to have fewer rows.
fn smaller_left(join: HashJoinExec) -> Result<Arc<dyn ExecutionPlan>> {
    let rows = |plan: &Arc<dyn ExecutionPlan>| {
        let of = StatisticsContext::new().compute(plan.as_ref(), &StatisticsArgs::new());
        of.ok().and_then(|of| of.num_rows.get_value().copied())
    };
    match (rows(&join.left), rows(&join.right)) {
        (Some(left), Some(right)) if right < left => join.swap_inputs(PartitionMode::Partitioned),
        _ => Ok(Arc::new(join)),
    }
}
