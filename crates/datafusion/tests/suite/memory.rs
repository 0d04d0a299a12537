//! Build sides that do not fit in memory: the query still returns its result, within its memory limit.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::common::{JoinType, NullEquality};
use datafusion::config::ConfigOptions;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::joins::PartitionMode;
use datafusion::physical_plan::{ExecutionPlan, collect, displayable};
use koel_datafusion::{KoelOptions, KoelRule};

use crate::common::{KEYS, Table, config, rows, sorted};
use crate::joins::{Join, TYPES, filter};

fn context(runtime: Arc<RuntimeEnv>, options: KoelOptions) -> Arc<TaskContext> {
    let config = config(options, 512);
    Arc::new(TaskContext::default().with_session_config(config).with_runtime(runtime))
}

fn runtime(bytes: usize, disk: DiskManagerMode) -> Arc<RuntimeEnv> {
    let disk = DiskManagerBuilder::default().with_mode(disk);
    let runtime = RuntimeEnvBuilder::new().with_memory_limit(bytes, 1.0).with_disk_manager_builder(disk);
    runtime.build_arc().expect("a runtime")
}

async fn run(plan: &Arc<dyn ExecutionPlan>, context: Arc<TaskContext>) -> Result<Vec<RecordBatch>> {
    collect(Arc::clone(plan), context).await
}

fn shown(plan: &Arc<dyn ExecutionPlan>) -> String {
    displayable(plan.as_ref()).indent(false).to_string()
}

/// Compares the rows with those of stock DataFusion without a memory limit.
async fn check_merged(join: &Join<'_>) {
    let what = format!("{}, {:?}, {:?}, filter {}", join.how, join.mode, join.nulls, join.filter.is_some());
    let expected = rows(join.stock(), config(KoelOptions::default(), 512)).await;
    // Less than the build side needs. With one build side per partition, less than one of these needs, because they
    // may run one after the other.
    let bytes = if join.mode == PartitionMode::Partitioned { 2 << 20 } else { 8 << 20 };
    let (plan, runtime) = (join.koel(), runtime(bytes, DiskManagerMode::OsTmpDirectory));
    let context = context(Arc::clone(&runtime), KoelOptions::default());
    let batches = run(&plan, context).await.unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(expected == sorted(&plan.schema(), &batches), "{what}");
    assert!(shown(&plan).contains("none, by SortMergeJoinExec"), "{what}: {}", shown(&plan));
    assert_eq!(runtime.memory_pool.reserved(), 0, "{what}");
    drop((batches, plan));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn joins_without_memory_are_merged_on_disk() {
    let of = |seed, key| {
        let left = Table::random(seed, "l", &[key], &[&[900; 90], &[500; 90]], 120_000, 0.02);
        let right = Table::random(50 + seed, "r", &[key], &[&[100; 20], &[1], &[80; 5]], 120_000, 0.02);
        (left, right)
    };
    let (nulls, mode) = (NullEquality::NullEqualsNothing, PartitionMode::CollectLeft);
    let (left, right) = of(1, "int64");
    for how in TYPES {
        let filtered = (PartitionMode::Partitioned, Some(filter(&left, &right, 900)));
        for (mode, filter) in [(PartitionMode::CollectLeft, None), filtered] {
            let projection = (how == JoinType::Full).then(|| vec![4, 0, 1]);
            check_merged(&Join { tables: [&left, &right], keys: 1, how, filter, nulls, mode, projection }).await;
        }
    }
    for (seed, key) in (2..).zip(["utf8", "float", "dictionary", "date"]) {
        let (left, right) = of(seed, key);
        let nulls = NullEquality::NullEqualsNull;
        let (how, filter, projection) = (JoinType::Full, None, None);
        check_merged(&Join { tables: [&left, &right], keys: 1, how, filter, nulls, mode, projection }).await;
    }
}

/// koel needs more memory in addition to the rows than HashJoinExec, which has enough here.
#[tokio::test]
async fn joins_without_memory_for_koel_and_without_a_disk_are_hashed() {
    for (seed, key) in (0..).zip(KEYS.into_iter().filter(|key| *key != "boolean")) {
        let left = Table::random(seed, "l", &[key], &[&[1000; 8]], 20_000, 0.1);
        let right = Table::random(50 + seed, "r", &[key], &[&[700; 2], &[400]], 20_000, 0.1);
        for how in [JoinType::Inner, JoinType::Full, JoinType::RightMark] {
            let (nulls, mode) = (NullEquality::NullEqualsNothing, PartitionMode::CollectLeft);
            let join = Join { tables: [&left, &right], keys: 1, how, filter: None, nulls, mode, projection: None };
            let expected = rows(join.stock(), config(KoelOptions::default(), 512)).await;
            let bytes: usize = left.partitions[0].iter().map(RecordBatch::get_array_memory_size).sum();
            let (plan, runtime) = (join.koel(), runtime(bytes + 8000 * 45, DiskManagerMode::Disabled));
            let batches = run(&plan, context(runtime, KoelOptions::default())).await.expect("an answer");
            assert!(expected == sorted(&plan.schema(), &batches), "{how} by {key}");
            assert!(shown(&plan).contains("none, by HashJoinExec"), "{how} by {key}: {}", shown(&plan));
        }
    }
}

#[tokio::test]
async fn without_any_memory_the_error_says_so() {
    let left = Table::random(7, "l", &["int64"], &[&[5000, 5000]], 1000, 0.0);
    let right = Table::random(8, "r", &["int64"], &[&[100]], 1000, 0.0);
    let (how, nulls, mode) = (JoinType::Inner, NullEquality::NullEqualsNothing, PartitionMode::CollectLeft);
    let plan = Join { tables: [&left, &right], keys: 1, how, filter: None, nulls, mode, projection: None }.koel();
    let small = |disk| runtime(200_000, disk);
    let error =
        run(&plan, context(small(DiskManagerMode::Disabled), KoelOptions::default())).await.expect_err("out of memory");
    assert!(matches!(error.find_root(), DataFusionError::ResourcesExhausted(_)), "{error}");
    // With `koel.ordered` there is no fallback.
    let stock = Join { tables: [&left, &right], keys: 1, how, filter: None, nulls, mode, projection: None }.stock();
    let options = KoelOptions::default().ordered(true);
    let plan = KoelRule::new(options.clone()).optimize(stock, &ConfigOptions::default()).expect("a plan");
    let error = run(&plan, context(small(DiskManagerMode::OsTmpDirectory), options)).await.expect_err("out of memory");
    assert!(matches!(error.find_root(), DataFusionError::ResourcesExhausted(_)), "{error}");
    assert!(error.to_string().contains("koel.ordered = false"), "{error}");
}
