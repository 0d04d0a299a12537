//! Identifies the rows of a build side by a digest: two build sides with the same digest have the same rows and keys.
//!
//! ```text
//! scan        Parquet and Arrow files: address, size, time of change, ETag, version; columns, filter
//! filter      its expression;   projection: its expressions
//! exchange    nothing, because all partitions are read
//! join        key columns, and whether nulls are equal
//! ```
//!
//! A build side with any other operator or expression has no digest, and is not shared: results of volatile functions
//! and dynamic filters, for example, do not depend on the files alone.
//!
//! Types are hashed by their `TypeId`, so that another build of the program has other digests.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal, NegativeExpr,
    NotExpr, TryCastExpr,
};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::repartition::RepartitionExec;
use xxhash_rust::xxh3::Xxh3;

use super::spec::column_of;
use crate::in_order::KoelInOrderExec;

/// The key columns of a join's build side, if all keys are columns.
pub(super) fn key_columns(join: &HashJoinExec) -> Option<Vec<usize>> {
    join.on().iter().map(|(build, _)| column_of(build)).collect()
}

/// The digest of a join's build side, whose rows are those of `input`.
pub(super) fn identity(join: &HashJoinExec, input: &Arc<dyn ExecutionPlan>) -> Option<u128> {
    let schema = input.schema();
    let names = schema.fields().iter().map(|field| field.name()).collect::<std::collections::HashSet<_>>();
    // A prepared side contains values instead of dictionaries, and names its keys.
    let has_dictionary = schema.flattened_fields().iter().any(|of| matches!(of.data_type(), DataType::Dictionary(..)));
    if has_dictionary || names.len() < schema.fields().len() {
        return None;
    }
    let mut to = Xxh3::new();
    env!("CARGO_PKG_VERSION").hash(&mut to);
    key_columns(join)?.hash(&mut to);
    join.null_equality().hash(&mut to);
    add(input, &mut to)?;
    Some(to.digest128())
}

fn add(plan: &Arc<dyn ExecutionPlan>, to: &mut Xxh3) -> Option<()> {
    if plan.fetch().is_some() {
        return None;
    }
    add_columns(&plan.schema(), to);
    if let Some(scan) = plan.downcast_ref::<DataSourceExec>() {
        return add_scan(scan.data_source().downcast_ref::<FileScanConfig>()?, to);
    }
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        add_expression(filter.predicate(), to)?;
        filter.projection().as_ref().map(|columns| columns.to_vec()).hash(to);
    } else if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        add_projection(projection.expr(), to)?;
    } else if !is_exchange(plan) {
        return None;
    }
    let children = plan.children();
    let [child] = children[..] else { return None };
    add(child, to)
}

/// Whether an operator returns the rows of its input.
fn is_exchange(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<RepartitionExec>()
        || plan.is::<CoalescePartitionsExec>()
        || plan.is::<CooperativeExec>()
        || plan.is::<KoelInOrderExec>()
}

fn add_scan(scan: &FileScanConfig, to: &mut Xxh3) -> Option<()> {
    let source = scan.file_source();
    // Text is read with options that the scan does not show.
    if scan.limit.is_some() || !matches!(source.file_type(), "parquet" | "arrow") {
        return None;
    }
    source.file_type().hash(to);
    scan.object_store_url.as_str().hash(to);
    add_columns(source.table_schema().file_schema(), to);
    source.table_schema().table_partition_cols().hash(to);
    for file in scan.file_groups.iter().flat_map(|group| group.files()) {
        let of = &file.object_meta;
        let changed = of.last_modified.timestamp_nanos_opt()?;
        // Extensions may select rows.
        if !file.extensions.is_empty() || (changed == 0 && of.e_tag.is_none()) {
            return None;
        }
        let location: &str = of.location.as_ref();
        (location, of.size, changed, &of.e_tag, &of.version).hash(to);
        (&file.range, &file.partition_values).hash(to);
    }
    "the end of the files".hash(to);
    match source.filter() {
        Some(filter) => add_expression(&filter, to)?,
        None => "all rows".hash(to),
    }
    match source.projection() {
        Some(columns) => add_projection(columns.as_ref(), to),
        None => Some(()),
    }
}

fn add_columns(schema: &Schema, to: &mut Xxh3) {
    schema.fields().hash(to);
}

fn add_projection(columns: &[ProjectionExpr], to: &mut Xxh3) -> Option<()> {
    columns.len().hash(to);
    columns.iter().try_for_each(|column| {
        column.alias.hash(to);
        add_expression(&column.expr, to)
    })
}

/// Adds an expression that depends on its input only.
fn add_expression(expression: &Arc<dyn PhysicalExpr>, to: &mut impl Hasher) -> Option<()> {
    let mut is_known = true;
    let walked = expression.apply(|part| {
        is_known &= part.is::<Column>()
            || part.is::<Literal>()
            || part.is::<BinaryExpr>()
            || part.is::<CastExpr>()
            || part.is::<TryCastExpr>()
            || part.is::<InListExpr>()
            || part.is::<IsNullExpr>()
            || part.is::<IsNotNullExpr>()
            || part.is::<LikeExpr>()
            || part.is::<CaseExpr>()
            || part.is::<NotExpr>()
            || part.is::<NegativeExpr>();
        Ok(if is_known { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    });
    if walked.is_err() || !is_known {
        return None;
    }
    expression.hash(to);
    Some(())
}
