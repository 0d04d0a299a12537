//! Scans of the probe side skip rows by bounds of the build side, as with HashJoinExec.

use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::physical_plan::collect;
use koel_datafusion::KoelOptions;

use crate::rule::{answer, context};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scans_use_bounds_of_the_build_keys() {
    let folder = tempfile::tempdir().expect("a folder");
    let context = context(KoelOptions::default());
    let file = |name: &str| folder.path().join(name).display().to_string();
    for (name, rows) in [
        ("few", "select value as id, value % 3 as x from generate_series(5003, 5009) where value <> 5005"),
        ("many", "select value as id, value % 5 as y from generate_series(1, 20000)"),
    ] {
        let to = file(&format!("{name}.parquet"));
        let copy = format!("copy ({rows}) to '{to}' stored as parquet options ('format.max_row_group_size' '1000')");
        answer(&context, &copy).await;
        answer(&context, &format!("create external table {name} stored as parquet location '{to}'")).await;
    }
    let sql = "select count(*), sum(y) from few join many on few.id = many.id where few.x >= 0 and many.y >= 0";
    for mode in ["1048576", "0"] {
        // Build sides above this threshold are partitioned.
        answer(&context, &format!("set datafusion.optimizer.hash_join_single_partition_threshold = {mode}")).await;
        answer(&context, &format!("set datafusion.optimizer.hash_join_single_partition_threshold_rows = {mode}")).await;
        let ran = answer(&context, &format!("explain analyze {sql}")).await;
        assert!(ran.contains("KoelJoinExec"), "{ran}");
        assert!(ran.contains("id@0 >= 5003 AND id@0 <= 5009"), "{ran}");
        answer(&context, "set koel.enabled = false").await;
        let stock = answer(&context, sql).await;
        answer(&context, "set koel.enabled = true").await;
        assert_eq!(answer(&context, sql).await, stock);
    }
}

/// Scans can read bounds of other types, and do not skip rows that have a match.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bounds_of_other_types_keep_matching_rows() {
    let folder = tempfile::tempdir().expect("a folder");
    let context = context(KoelOptions::default());
    for (i, key) in [
        "cast('1992-01-01' as date) + cast(value % 2000 as int)",
        "concat('key ', lpad(cast(value % 2000 as varchar), 5, '0'))",
        "cast(value % 2000 as decimal(12, 2)) - 500",
        "to_timestamp(value % 2000)",
        "arrow_cast(value % 2000, 'UInt16')",
    ]
    .iter()
    .enumerate()
    {
        for (name, rows) in [("few", "generate_series(703, 1290)"), ("many", "generate_series(1, 20000)")] {
            let to = folder.path().join(format!("{name}{i}.parquet")).display().to_string();
            let copy = format!(
                "copy (select {key} as id, value % 7 as x from {rows}) to '{to}' stored as parquet options ('format.max_row_group_size' '1000')"
            );
            answer(&context, &copy).await;
            answer(&context, &format!("create external table {name}{i} stored as parquet location '{to}'")).await;
        }
        let from = format!("few{i} as few join many{i} as many on few.id = many.id");
        let sql = format!("select count(*), sum(many.x) from {from} where few.x > 0");
        let ran = answer(&context, &format!("explain analyze {sql}")).await;
        assert!(ran.contains("KoelJoinExec") && ran.contains("id@0 >= ") && ran.contains("id@0 <= "), "{ran}");
        let koel = answer(&context, &sql).await;
        answer(&context, "set koel.enabled = false").await;
        assert_eq!(koel, answer(&context, &sql).await, "{key}");
        answer(&context, "set koel.enabled = true").await;
    }
}

/// Bounds are not computed for tables in memory, which do not use them.
#[tokio::test]
async fn bounds_that_no_one_reads_are_not_computed() {
    let context = context(KoelOptions::default());
    answer(&context, "create table few as select value as id from generate_series(5, 9)").await;
    answer(&context, "create table many as select value as id from generate_series(1, 90)").await;
    let sql = "select few.id from few join many on few.id = many.id";
    let plan = context.sql(sql).await.expect(sql).create_physical_plan().await.expect(sql);
    assert_eq!(collect(Arc::clone(&plan), context.task_ctx()).await.expect("rows").len(), 1);
    let mut filters = vec![];
    plan.apply(|operator| {
        filters.extend(operator.dynamic_expressions_produced());
        Ok(TreeNodeRecursion::Continue)
    })
    .expect("a plan");
    let [filter] = &filters[..] else { panic!("{} filters", filters.len()) };
    assert_eq!(filter.snapshot().expect("a filter").expect("an open one").to_string(), "true");
}
