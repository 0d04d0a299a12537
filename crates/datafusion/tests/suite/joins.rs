//! Compares every join type, mode, null rule and key type with HashJoinExec, on random batches.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::{JoinSide, JoinType, NullEquality, ScalarValue};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, col, lit};
use datafusion::physical_expr::{Partitioning, PhysicalExprRef};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter};
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::repartition::RepartitionExec;
use koel_datafusion::{KoelJoinExec, KoelOptions, KoelRule};

use crate::common::{KEYS, Table, config, rows};

pub(crate) const TYPES: [JoinType; 10] = [
    JoinType::Inner,
    JoinType::Left,
    JoinType::Right,
    JoinType::Full,
    JoinType::LeftSemi,
    JoinType::RightSemi,
    JoinType::LeftAnti,
    JoinType::RightAnti,
    JoinType::LeftMark,
    JoinType::RightMark,
];

/// `lx + rx < bound`, with columns in another order than those of the tables.
pub(crate) fn filter(left: &Table, right: &Table, bound: i64) -> JoinFilter {
    let at = |table: &Table, name: &str| table.schema.index_of(name).expect("a column");
    let schema = Schema::new(vec![Field::new("rx", DataType::Int64, true), Field::new("lx", DataType::Int64, true)]);
    let of = |name: &str, i| Arc::new(Column::new(name, i)) as PhysicalExprRef;
    let sum = Arc::new(BinaryExpr::new(of("lx", 1), Operator::Plus, of("rx", 0)));
    let less = Arc::new(BinaryExpr::new(sum, Operator::Lt, lit(ScalarValue::Int64(Some(bound)))));
    let columns = vec![
        ColumnIndex { index: at(right, "rx"), side: JoinSide::Right },
        ColumnIndex { index: at(left, "lx"), side: JoinSide::Left },
    ];
    JoinFilter::new(less, columns, Arc::new(schema))
}

/// A hash join of two tables on their first columns.
pub(crate) struct Join<'a> {
    pub(crate) tables: [&'a Table; 2],
    pub(crate) keys: usize,
    pub(crate) how: JoinType,
    pub(crate) filter: Option<JoinFilter>,
    pub(crate) nulls: NullEquality,
    pub(crate) mode: PartitionMode,
    pub(crate) projection: Option<Vec<usize>>,
}

impl Join<'_> {
    pub(crate) fn stock(&self) -> Arc<dyn ExecutionPlan> {
        let [left, right] = self.tables;
        let on: Vec<(PhysicalExprRef, PhysicalExprRef)> = (0..self.keys)
            .map(|i| {
                let (l, r) = (col(&format!("l{i}"), &left.schema), col(&format!("r{i}"), &right.schema));
                (l.expect("a key"), r.expect("a key"))
            })
            .collect();
        let [mut build, mut probe] = [left.plan(), right.plan()];
        match self.mode {
            PartitionMode::CollectLeft => build = Arc::new(CoalescePartitionsExec::new(build)),
            _ => {
                let by = |plan, keys: Vec<PhysicalExprRef>| {
                    Arc::new(RepartitionExec::try_new(plan, Partitioning::Hash(keys, 3)).expect("a partitioning"))
                };
                build = by(build, on.iter().map(|(l, _)| Arc::clone(l)).collect());
                probe = by(probe, on.iter().map(|(_, r)| Arc::clone(r)).collect());
            }
        }
        let projection = self.projection.clone();
        let join = HashJoinExec::try_new(
            build,
            probe,
            on,
            self.filter.clone(),
            &self.how,
            projection,
            self.mode,
            self.nulls,
            false,
        );
        Arc::new(join.expect("a join"))
    }

    /// The same join with koel.
    pub(crate) fn koel(&self) -> Arc<dyn ExecutionPlan> {
        let plan = KoelRule::default().optimize(self.stock(), &ConfigOptions::default()).expect("a plan");
        assert!(plan.is::<KoelJoinExec>(), "{:?} stayed", self.how);
        plan
    }

    pub(crate) async fn check(&self, what: &str) {
        let of = |batch_size| config(KoelOptions::default(), batch_size);
        let (stock, koel) = (self.stock(), self.koel());
        assert_eq!(stock.schema(), koel.schema(), "{what}");
        let (stock, koel) = (rows(stock, of(64)).await, rows(koel, of(64)).await);
        let (how, nulls, mode) = (self.how, self.nulls, self.mode);
        assert_eq!(stock.len(), koel.len(), "{what}: {how} {nulls:?} {mode:?} filter {}", self.filter.is_some());
        assert!(stock == koel, "{what}: {how} {nulls:?} {mode:?} filter {}", self.filter.is_some());
    }
}

/// Checks all join types, modes and null rules, with and without a filter.
async fn check_all(left: &Table, right: &Table, keys: usize, what: &str) {
    for how in TYPES {
        for mode in [PartitionMode::CollectLeft, PartitionMode::Partitioned] {
            for nulls in [NullEquality::NullEqualsNothing, NullEquality::NullEqualsNull] {
                for filter in [None, Some(filter(left, right, 900))] {
                    let join = Join { tables: [left, right], keys, how, filter, nulls, mode, projection: None };
                    join.check(what).await;
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn joins_of_every_kind_match_stock() {
    for (seed, of) in (0..).zip(KEYS) {
        let left = Table::random(seed, "l", &[of], &[&[40, 1], &[0, 33], &[]], 50, 0.1);
        let right = Table::random(100 + seed, "r", &[of], &[&[70, 1, 1], &[90], &[0], &[5, 64]], 60, 0.1);
        check_all(&left, &right, 1, of).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn joins_by_several_columns_match_stock() {
    for keys in [&["int64", "utf8"][..], &["date", "int32", "decimal"], &["utf8view", "dictionary"]] {
        let left = Table::random(1, "l", keys, &[&[80, 7], &[60]], 5, 0.1);
        let right = Table::random(2, "r", keys, &[&[100], &[1, 1], &[90]], 6, 0.1);
        check_all(&left, &right, keys.len(), &keys.join(", ")).await;
    }
}

#[tokio::test]
async fn joins_with_an_empty_side_match_stock() {
    let sides: [&[&[usize]]; 3] = [&[&[]], &[&[0], &[0, 0]], &[&[20, 1], &[3]]];
    for (i, left) in sides.iter().enumerate() {
        for right in &sides[..if i == 2 { 2 } else { 3 }] {
            let left = Table::random(3, "l", &["int64"], left, 9, 0.2);
            let right = Table::random(4, "r", &["int64"], right, 9, 0.2);
            check_all(&left, &right, 1, "empty sides").await;
        }
    }
}

#[tokio::test]
async fn joins_by_keys_without_nulls_and_by_heavy_keys_match_stock() {
    let unique = Table::random(5, "l", &["int64"], &[&[300]], 1 << 20, 0.0);
    let right = Table::random(6, "r", &["int64"], &[&[400], &[100]], 1 << 20, 0.0);
    check_all(&unique, &right, 1, "hardly any partner").await;
    // Each probe row matches all build rows: the result is many times longer than both sides, and slices end within a
    // row.
    let heavy = Table::random(7, "l", &["int32"], &[&[150]], 1, 0.0);
    let right = Table::random(8, "r", &["int32"], &[&[40], &[1]], 2, 0.1);
    check_all(&heavy, &right, 1, "a heavy key").await;
}

#[tokio::test]
async fn one_batch_may_have_many_results() {
    // More results than are buffered at once: they are listed in pieces, which may end anywhere.
    let left = Table::random(11, "l", &["int32"], &[&[700]], 1, 0.0);
    let right = Table::random(12, "r", &["int32"], &[&[60, 300]], 2, 0.1);
    for how in [JoinType::Inner, JoinType::Right, JoinType::Full, JoinType::RightAnti, JoinType::LeftMark] {
        for filter in [None, Some(filter(&left, &right, 400))] {
            let (nulls, mode) = (NullEquality::NullEqualsNothing, PartitionMode::CollectLeft);
            let projection = Some(vec![1]);
            Join { tables: [&left, &right], keys: 1, how, filter, nulls, mode, projection }.check("many results").await;
        }
    }
}

#[tokio::test]
async fn projections_choose_and_order_columns() {
    let left = Table::random(9, "l", &["int64"], &[&[50], &[20]], 20, 0.1);
    let right = Table::random(10, "r", &["int64"], &[&[60], &[30]], 20, 0.1);
    for how in TYPES {
        let width = Join {
            tables: [&left, &right],
            keys: 1,
            how,
            filter: None,
            nulls: NullEquality::NullEqualsNothing,
            mode: PartitionMode::CollectLeft,
            projection: None,
        }
        .stock()
        .schema()
        .fields()
        .len();
        for projection in [vec![width - 1, 0], vec![1], (0..width).rev().collect()] {
            for filter in [None, Some(filter(&left, &right, 700))] {
                let join = Join {
                    tables: [&left, &right],
                    keys: 1,
                    how,
                    filter,
                    nulls: NullEquality::NullEqualsNothing,
                    mode: PartitionMode::Partitioned,
                    projection: Some(projection.clone()),
                };
                join.check(&format!("projection {projection:?}")).await;
            }
        }
    }
}
