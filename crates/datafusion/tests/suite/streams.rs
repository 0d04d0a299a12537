//! Properties of a running join: sizes of batches, order, memory, and dropped streams.

use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::array::RecordBatch;
use datafusion::common::{JoinType, NullEquality};
use datafusion::execution::TaskContext;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_plan::collect;
use datafusion::physical_plan::joins::PartitionMode;
use futures::StreamExt;
use koel_datafusion::KoelOptions;

use crate::common::{Table, config, listed};
use crate::joins::{Join, TYPES, filter};

fn join<'a>(tables: [&'a Table; 2], how: JoinType) -> Join<'a> {
    let (nulls, mode) = (NullEquality::NullEqualsNothing, PartitionMode::CollectLeft);
    Join { tables, keys: 1, how, filter: None, nulls, mode, projection: None }
}

fn context(batch_size: usize) -> Arc<TaskContext> {
    Arc::new(TaskContext::default().with_session_config(config(KoelOptions::default(), batch_size)))
}

#[tokio::test]
async fn batches_have_at_most_the_batch_size_of_the_session() {
    let left = Table::random(1, "l", &["int64"], &[&[300]], 20, 0.1);
    let right = Table::random(2, "r", &["int64"], &[&[400, 3, 300]], 40, 0.1);
    for how in TYPES {
        for filter in [None, Some(filter(&left, &right, 1000))] {
            let join = Join { filter, ..join([&left, &right], how) };
            let batches = collect(join.koel(), context(50)).await.expect("a result");
            assert!(batches.iter().all(|batch| (1..=50).contains(&batch.num_rows())), "{how}");
        }
    }
}

#[tokio::test]
async fn probe_rows_keep_their_order() {
    let left = Table::random(3, "l", &["int64"], &[&[200]], 50, 0.1);
    let right = Table::random(4, "r", &["int64"], &[&[100, 1, 300]], 60, 0.1);
    let probe = listed(&right.schema, &right.partitions[0]);
    for how in [JoinType::Inner, JoinType::Right, JoinType::RightSemi, JoinType::RightAnti, JoinType::RightMark] {
        for filter in [None, Some(filter(&left, &right, 900))] {
            let join = Join { filter, ..join([&left, &right], how) };
            let plan = join.koel();
            assert!(plan.maintains_input_order()[1], "{how}");
            let at =
                |batch: &RecordBatch| ["r0", "rx", "ry"].map(|name| batch.schema().index_of(name).expect("a column"));
            let rows = collect(plan, context(30)).await.expect("a result");
            let rows: Vec<_> = rows.iter().map(|batch| batch.project(&at(batch)).expect("probe columns")).collect();
            let mut rest = probe.iter();
            let mut last = None;
            for row in listed(&right.schema, &rows) {
                if last.as_ref() != Some(&row) {
                    assert!(rest.any(|other| *other == row), "{how}: {row} is out of order");
                    last = Some(row);
                }
            }
        }
    }
}

#[tokio::test]
async fn limits_end_a_join() {
    let left = Table::random(5, "l", &["int64"], &[&[100]], 10, 0.0);
    let right = Table::random(6, "r", &["int64"], &[&[500, 500]], 10, 0.0);
    let plan = join([&left, &right], JoinType::Inner).koel().with_fetch(Some(77)).expect("joins can be limited");
    assert_eq!(plan.fetch(), Some(77));
    let rows: usize = collect(plan, context(50)).await.expect("a result").iter().map(|batch| batch.num_rows()).sum();
    assert_eq!(rows, 77);
}

#[tokio::test]
async fn memory_is_released() {
    let left = Table::random(9, "l", &["int64"], &[&[5000]], 1000, 0.0);
    let right = Table::random(10, "r", &["int64"], &[&[1000], &[1000]], 1000, 0.0);
    let runtime = RuntimeEnvBuilder::new().with_memory_limit(100_000_000, 1.0).build_arc().expect("a runtime");
    let context = Arc::new(TaskContext::default().with_runtime(Arc::clone(&runtime)));
    let plan = join([&left, &right], JoinType::Full).koel();
    let mut streams: Vec<_> =
        (0..2).map(|partition| plan.execute(partition, Arc::clone(&context)).expect("a stream")).collect();
    for stream in &mut streams {
        stream.next().await.expect("rows").expect("a batch");
    }
    assert!(runtime.memory_pool.reserved() > 5000 * 40);
    drop((streams, plan));
    assert_eq!(runtime.memory_pool.reserved(), 0);
}

/// The reported parts of a join's time add up to its total time.
#[tokio::test]
async fn times_are_reported() {
    let left = Table::random(13, "l", &["int64"], &[&[50_000]], 10_000, 0.0);
    let right = Table::random(14, "r", &["int64"], &[&[40_000]], 10_000, 0.0);
    let plan = join([&left, &right], JoinType::Inner).koel();
    collect(Arc::clone(&plan), context(8192)).await.expect("a result");
    let metrics = plan.metrics().expect("metrics");
    let of = |name: &str| metrics.sum_by_name(name).map_or(0, |time| time.as_usize());
    let parts = ["build_time", "probe_time", "join_time"].map(of);
    assert!(parts.iter().all(|&part| part > 1000), "{parts:?}");
    let all = metrics.elapsed_compute().expect("a time");
    // The total and the parts are measured by separate clocks, so they differ slightly.
    assert!(all * 10 >= parts.iter().sum::<usize>() * 9, "{all} of {parts:?}");
}

/// 2,000,000 probe rows with 4,000 matches each: detects operators that compute rows in advance or cannot be stopped.
#[tokio::test(flavor = "current_thread")]
async fn a_dropped_stream_stops_the_work() {
    let left = Table::random(11, "l", &["int32"], &[&[4000]], 1, 0.0);
    let right = Table::random(12, "r", &["int32"], &[&[8000; 25]], 1, 0.0);
    let never = filter(&left, &right, -1);
    let all = join([&left, &right], JoinType::Inner).koel();
    let mut stream = all.execute(0, context(8192)).expect("a stream");
    assert_eq!(stream.next().await.expect("rows").expect("a batch").num_rows(), 8192);
    drop(stream);
    // The filter removes all rows, so this join can be stopped only if it yields to other tasks on the same thread.
    let none = Join { filter: Some(never), ..join([&left, &right], JoinType::Inner) }.koel();
    let waited = tokio::time::timeout(Duration::from_millis(300), collect(none, context(8192))).await;
    assert!(waited.is_err(), "800 million pairs in 300 ms");
}
