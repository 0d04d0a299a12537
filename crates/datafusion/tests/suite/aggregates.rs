//! Compares every mode, function and key type with AggregateExec, on random batches.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch};
use datafusion::config::ConfigOptions;
use datafusion::datasource::MemTable;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::{FairSpillPool, GreedyMemoryPool, MemoryPool};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::{SessionStateBuilder, TaskContext};
use datafusion::physical_expr::Partitioning;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, collect, displayable};
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::StreamExt;
use koel_datafusion::{KoelAggregateExec, KoelOptions, KoelRule, WithKoel};

use crate::common::{KEYS, Table, listed, rows, sorted};
use crate::devices::has_opencl;
use crate::rule::{answer, context};

/// A plan without koel for SQL over a table `t`. Shapes: one partition (`one`), partial and final aggregates (`final`),
/// or final aggregates over hash partitions (`hash`).
async fn stock(table: &Table, sql: &str, shape: &str) -> Arc<dyn ExecutionPlan> {
    let partitions = if shape == "one" { 1 } else { 3 };
    let config = SessionConfig::new().with_target_partitions(partitions).with_repartition_aggregations(shape == "hash");
    let context = SessionContext::new_with_config(config);
    let of = MemTable::try_new(Arc::clone(&table.schema), table.partitions.clone()).expect("a table");
    context.register_table("t", Arc::new(of)).expect("a new name");
    context.sql(sql).await.expect(sql).create_physical_plan().await.expect(sql)
}

/// The numbers of koel's and of other aggregates in a plan.
fn aggregates(plan: &dyn ExecutionPlan) -> (usize, usize) {
    let own = (usize::from(plan.is::<KoelAggregateExec>()), usize::from(plan.is::<AggregateExec>()));
    let children = plan.children().into_iter().map(|child| aggregates(child.as_ref()));
    children.fold(own, |a, b| (a.0 + b.0, a.1 + b.1))
}

fn with_koel(plan: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    // The input is shared with the stock plan, and some of its operators run only once.
    let plan = reset_plan_states(plan).expect("a fresh plan");
    let plan =
        KoelRule::new(KoelOptions::default().device("cpu")).optimize(plan, &ConfigOptions::default()).expect("a plan");
    let (koel, others) = aggregates(plan.as_ref());
    assert!(koel > 0 && others == 0, "{}", displayable(plan.as_ref()).indent(false));
    plan
}

fn small() -> SessionConfig {
    SessionConfig::new().with_batch_size(64).with_option_extension(KoelOptions::default().device("cpu"))
}

const FUNCTIONS: &str = "count(*), count(t1), sum(t1), min(t1), max(t1), avg(t1), count(distinct t1), \
    round(sum(t2), 4), min(t2), max(t2), round(avg(t2), 4), sum(t3), min(t3), max(t3), avg(t3), min(t4), max(t4), \
    min(t5), max(t5), min(ty), count(tx) filter (where tx > 500), sum(tx) filter (where tx < 300 or t1 is null)";
/// Types of t1, t2, ..
const VALUES: [&str; 5] = ["int32", "float", "decimal", "date", "utf8view"];

async fn check(table: &Table, sql: &str) {
    for shape in ["one", "final", "hash"] {
        let stock = stock(table, sql, shape).await;
        let koel = with_koel(Arc::clone(&stock));
        assert_eq!(stock.schema(), koel.schema(), "{sql}");
        let (stock, koel) = (rows(stock, small()).await, rows(koel, small()).await);
        assert_eq!(stock.len(), koel.len(), "{shape}: {sql}");
        let differ = stock.iter().zip(&koel).find(|(stock, koel)| stock != koel);
        assert!(differ.is_none(), "{shape}: {sql}\n{differ:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn functions_by_keys_of_every_type_match_stock() {
    for (seed, of) in (0..).zip(KEYS) {
        let keys = [&[of], &VALUES[..]].concat();
        let table = Table::random(seed, "t", &keys, &[&[70, 1, 1], &[0, 90], &[200, 5]], 30, 0.1);
        check(&table, &format!("select t0, {FUNCTIONS} from t group by t0")).await;
        check(&table, "select distinct t0 from t").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn functions_by_several_keys_match_stock() {
    let keys = [&["int64"], &VALUES[..], &["dictionary", "boolean", "timestamp", "binary"]].concat();
    let table = Table::random(1, "t", &keys, &[&[170, 1], &[300], &[0]], 7, 0.1);
    for by in [
        "t1, t5",
        "t0, t3, t4",
        "t5, t6",
        "t2, t7",
        "t8, t9, t5, t7",
        "t0, t1, t2, t3, t4, t5, t6, t7, t8, t9",
        "t1 % 3, upper(t5)",
    ] {
        check(&table, &format!("select {by}, {FUNCTIONS} from t group by {by}")).await;
        check(&table, &format!("select distinct {by} from t")).await;
    }
}

#[tokio::test]
async fn inputs_without_rows_have_no_groups() {
    let all: [&[&[usize]]; 4] = [&[&[]], &[&[0], &[0, 0]], &[&[1]], &[&[], &[1, 1], &[]]];
    for partitions in all {
        let table = Table::random(3, "t", &[&["int64"], &VALUES[..]].concat(), partitions, 9, 0.2);
        check(&table, &format!("select t0, {FUNCTIONS} from t group by t0")).await;
        check(&table, "select distinct t5, t0 from t").await;
    }
}

/// In the middle of a partition, key words become wider and too wide, and there are too many texts.
#[tokio::test]
async fn many_groups_match_stock() {
    let keys = ["int64", "utf8view", "decimal", "int32"];
    let table = Table::random(4, "t", &keys, &[&[3000, 2000, 5000, 1, 4000], &[9000]], 20_000, 0.01);
    for by in ["t0", "t1", "t2", "t0, t1", "t0, t2", "t3, t0", "t3", "t0 % 100, t2"] {
        check(&table, &format!("select {by}, count(*), sum(tx), min(ty) from t group by {by}")).await;
    }
}

#[tokio::test]
async fn groups_of_zeros_and_nans_match_stock() {
    let odd = f64::from_bits(0xFFF8_0000_0000_0123);
    let values =
        vec![Some(0.0), Some(-0.0), Some(f64::NAN), Some(odd), None, Some(-1.0), Some(-0.0), Some(odd), Some(0.0)];
    let column: ArrayRef = Arc::new(Float64Array::from(values.clone()));
    let number: ArrayRef = Arc::new((0..values.len() as i64).map(|i| Some(i % 2)).collect::<Int64Array>());
    let batch = RecordBatch::try_from_iter([("t0", column), ("t1", number)]).expect("columns");
    let table = Table { schema: batch.schema(), partitions: vec![vec![batch.slice(1, 4), batch.clone()], vec![batch]] };
    for by in ["t0", "t0, t1"] {
        for shape in ["one", "hash"] {
            let stock = stock(&table, &format!("select {by}, count(*) from t group by {by}"), shape).await;
            let koel = with_koel(Arc::clone(&stock));
            assert_eq!(rows(stock, small()).await, rows(koel, small()).await, "{by} {shape}");
        }
    }
}

/// Modes that SQL plans rarely or never have.
#[tokio::test]
async fn other_modes_match_stock() {
    let table = Table::random(5, "t", &[&["utf8"], &VALUES[..]].concat(), &[&[300, 200], &[100], &[400]], 40, 0.1);
    let sql = format!("select t0, {} from t group by t0", FUNCTIONS.replace("round(", "abs(").replace(", 4)", ")"));
    let sql = sql.replace("abs(sum(t2)), ", "").replace("abs(avg(t2)), ", "");
    let plan = stock(&table, &sql, "hash").await;
    fn find(plan: &Arc<dyn ExecutionPlan>, mode: AggregateMode) -> Option<AggregateExec> {
        match plan.downcast_ref::<AggregateExec>().filter(|own| *own.mode() == mode) {
            Some(own) => Some(own.clone()),
            None => plan.children().into_iter().find_map(|child| find(child, mode)),
        }
    }
    let partial = find(&plan, AggregateMode::Partial).expect("a partial aggregate");
    let with = |mode, input: Arc<dyn ExecutionPlan>, states: bool| -> Arc<dyn ExecutionPlan> {
        let keys = if states { partial.group_expr().as_final() } else { partial.group_expr().clone() };
        let filters = if states { vec![None; partial.aggr_expr().len()] } else { partial.filter_expr().to_vec() };
        let of =
            AggregateExec::try_new(mode, keys, partial.aggr_expr().to_vec(), filters, input, partial.input_schema());
        Arc::new(of.expect("an aggregate"))
    };
    let by_hash = |input: Arc<dyn ExecutionPlan>, keys| -> Arc<dyn ExecutionPlan> {
        Arc::new(RepartitionExec::try_new(input, Partitioning::Hash(keys, 3)).expect("a partitioning"))
    };
    let keys = partial.group_expr().input_exprs();
    let split = with(AggregateMode::SinglePartitioned, by_hash(Arc::clone(partial.input()), keys), false);
    let states = || -> Arc<dyn ExecutionPlan> { Arc::new(partial.clone()) };
    let final_keys = partial.group_expr().as_final().input_exprs();
    let reduced = with(AggregateMode::PartialReduce, by_hash(states(), final_keys), true);
    let reduced = with(AggregateMode::Final, Arc::new(CoalescePartitionsExec::new(reduced)), true);
    for stock in [split, reduced] {
        let koel = with_koel(Arc::clone(&stock));
        assert_eq!(stock.schema(), koel.schema());
        assert!(rows(stock, small()).await == rows(koel, small()).await);
    }
}

/// If hardly any two rows share a group, a partial aggregate returns rows ungrouped.
#[tokio::test]
async fn partial_aggregates_are_skipped_if_rows_share_no_group() {
    let table = Table::random(6, "t", &["int64"], &[&[500, 500, 500], &[500, 1, 900]], 1 << 20, 0.05);
    let stock = stock(
        &table,
        "select t0, count(*), sum(tx), avg(tx), min(ty), count(tx) filter (where tx > 300) from t group by t0",
        "hash",
    )
    .await;
    let koel = with_koel(Arc::clone(&stock));
    let mut config = small();
    config.options_mut().execution.skip_partial_aggregation_probe_rows_threshold = 600;
    let (wanted, found) = (rows(Arc::clone(&stock), config.clone()).await, rows(Arc::clone(&koel), config).await);
    assert!(wanted == found);
    let [of_stock, of_koel] = [stock, koel].map(|plan| sum_of(plan.as_ref(), "skipped_aggregation_rows"));
    assert!(of_koel > 1000 && of_koel == of_stock, "{of_koel} {of_stock}");
}

fn runtime(bytes: usize, disk: bool) -> Arc<RuntimeEnv> {
    runtime_of(Arc::new(GreedyMemoryPool::new(bytes)), disk)
}

fn runtime_of(pool: Arc<dyn MemoryPool>, disk: bool) -> Arc<RuntimeEnv> {
    let mode = if disk { DiskManagerMode::OsTmpDirectory } else { DiskManagerMode::Disabled };
    let disk = DiskManagerBuilder::default().with_mode(mode);
    let builder = RuntimeEnvBuilder::new().with_memory_pool(pool).with_disk_manager_builder(disk);
    builder.build_arc().expect("a runtime")
}

fn sum_of(plan: &dyn ExecutionPlan, metric: &str) -> usize {
    let own = plan.metrics().and_then(|all| all.sum_by_name(metric)).map_or(0, |n| n.as_usize());
    own + plan.children().into_iter().map(|child| sum_of(child.as_ref(), metric)).sum::<usize>()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn aggregates_without_memory_return_their_results() {
    let keys = [&["int64"], &VALUES[..]].concat();
    let table = Table::random(7, "t", &keys, &[&[2000; 20], &[3000; 10]], 40_000, 0.05);
    let config = small().with_batch_size(1000);
    // With two keys, one of them text, AggregateExec itself needs several MB to merge its spilled states.
    for (by, tight) in [("t0", 3_000_000), ("t5", 4_000_000), ("t0, t5", 9_000_000)] {
        let sql = format!(
            "select {by}, count(*), sum(t3), avg(t1), min(t4), count(tx) filter (where tx > 500) from t group by {by}"
        );
        for (shape, bytes) in [("one", tight), ("final", tight), ("hash", tight * 3)] {
            let stock = stock(&table, &sql, shape).await;
            let koel = with_koel(Arc::clone(&stock));
            let wanted = rows(stock, config.clone()).await;
            let context = TaskContext::default().with_session_config(config.clone()).with_runtime(runtime(bytes, true));
            let schema = koel.schema();
            let found = collect(Arc::clone(&koel), Arc::new(context)).await;
            let found = found.unwrap_or_else(|error| panic!("{by} {shape}: {error}"));
            assert!(
                sum_of(koel.as_ref(), "handed_over") > 0 || shape != "one" || by == "t0, t5",
                "{by}: no aggregate was handed over"
            );
            assert!(sorted(&schema, &found) == wanted, "{by} {shape}");
        }
    }
}

/// A pool that divides memory among spilling consumers: a partition that has handed over is no longer counted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fair_pools_are_supported() {
    let table = Table::random(7, "t", &["int64", "int32"], &[&[2000; 20], &[3000; 10]], 40_000, 0.05);
    let sql = "select t0, count(*), sum(tx), max(t1) from t group by t0";
    let config = small().with_batch_size(1000);
    for (shape, bytes) in [("one", 3_000_000), ("final", 3_000_000), ("hash", 9_000_000)] {
        let stock = stock(&table, sql, shape).await;
        let koel = with_koel(Arc::clone(&stock));
        let wanted = rows(stock, config.clone()).await;
        let pool: Arc<dyn MemoryPool> = Arc::new(FairSpillPool::new(bytes));
        let runtime = runtime_of(Arc::clone(&pool), true);
        let context = TaskContext::default().with_session_config(config.clone()).with_runtime(runtime);
        let found = collect(Arc::clone(&koel), Arc::new(context)).await;
        let found = found.unwrap_or_else(|error| panic!("{shape}: {error}"));
        // Partial aggregates emit their states early, so the final ones may have little left to hand over.
        assert!(sum_of(koel.as_ref(), "handed_over") > 0 || shape == "hash", "{shape}: no aggregate was handed over");
        assert!(sorted(&koel.schema(), &found) == wanted, "{shape}");
        assert_eq!(pool.reserved(), 0, "{shape}");
    }
}

#[tokio::test]
async fn memory_is_released() {
    let table = Table::random(8, "t", &["int64"], &[&[5000]], 3000, 0.0);
    let plan = with_koel(stock(&table, "select t0, sum(tx) from t group by t0", "one").await);
    let runtime = runtime(100_000_000, false);
    let context = Arc::new(TaskContext::default().with_session_config(small()).with_runtime(Arc::clone(&runtime)));
    let mut stream = plan.execute(0, context).expect("a stream");
    assert_eq!(stream.next().await.expect("rows").expect("a batch").num_rows(), 64);
    assert!(sum_of(plan.as_ref(), "peak_mem_used") > 2000 * 24);
    drop(stream);
    assert_eq!(runtime.memory_pool.reserved(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_device_returns_the_same_groups_in_the_same_order() {
    if !has_opencl() {
        return;
    }
    for keys in [
        &["int64"][..],
        &["utf8view", "int32"],
        &["int32", "int64"],
        &["decimal", "date", "timestamp"],
        &["boolean"],
        &["binary"],
        &["utf8"],
    ] {
        let table = Table::random(9, "t", keys, &[&[900, 1, 700, 0, 500]], 90, 0.1);
        let by: Vec<String> = (0..keys.len()).map(|i| format!("t{i}")).collect();
        let sql = format!("select {}, count(*), sum(tx), min(ty) from t group by {}", by.join(", "), by.join(", "));
        for shape in ["one", "hash"] {
            let plan = with_koel(stock(&table, &sql, shape).await);
            let of = async |device: &str| {
                let options = KoelOptions::default().device(device).min_rows(0);
                let config = SessionConfig::new().with_batch_size(64).with_option_extension(options);
                let plan = reset_plan_states(Arc::clone(&plan)).expect("a fresh plan");
                let context = Arc::new(TaskContext::default().with_session_config(config));
                let batches = collect(Arc::clone(&plan), context).await.expect("a result");
                let text = displayable(plan.as_ref()).indent(false).to_string();
                // Texts are grouped on the CPU.
                let is_text = keys.iter().any(|key| ["utf8", "utf8view", "binary"].contains(key));
                assert!(text.contains(if is_text { "device=cpu" } else { device }), "{text}");
                if shape == "one" { listed(&plan.schema(), &batches) } else { sorted(&plan.schema(), &batches) }
            };
            assert!(of("cpu").await == of("opencl:0").await, "{keys:?} {shape}");
        }
    }
}

/// An aggregate over a join of 40 billion pairs: detects streams that cannot be stopped.
#[tokio::test(flavor = "current_thread")]
async fn a_dropped_stream_stops_the_work() {
    let table = Table::random(10, "t", &["int32"], &[&[8000; 25]], 1, 0.0);
    let context = context(KoelOptions::default().device("cpu"));
    let of = MemTable::try_new(Arc::clone(&table.schema), table.partitions.clone()).expect("a table");
    context.register_table("t", Arc::new(of)).expect("a new name");
    let sql = "select a.t0, count(*), max(b.ty) from t a, t b where a.tx < b.tx group by a.t0";
    let plan = context.sql(sql).await.expect(sql).create_physical_plan().await.expect(sql);
    assert!(aggregates(plan.as_ref()).0 > 0);
    let waited = tokio::time::timeout(std::time::Duration::from_millis(300), collect(plan, context.task_ctx())).await;
    assert!(waited.is_err(), "40 billion pairs in 300 ms");
}

#[tokio::test]
async fn aggregates_are_replaced_and_report_where_they_ran() {
    let context = context(KoelOptions::default().device("cpu"));
    answer(
        &context,
        "create table t as select value as id, value % 10 as a, cast(value as text) as x from generate_series(1, 1000)",
    )
    .await;
    let sql = "select a, count(*), sum(id), min(x), max(x), avg(id) from t group by a";
    let plan = answer(&context, &format!("explain {sql}")).await;
    assert!(plan.contains("KoelAggregateExec: mode=") && !plan.contains(" AggregateExec"), "{plan}");
    let ran = answer(&context, &format!("explain analyze {sql}")).await;
    for part in [
        "device=cpu",
        "group_time=",
        "aggregate_time=",
        "emit_time=",
        "input_rows=1.0",
        "output_rows=10",
        "peak_mem_used=",
    ] {
        assert!(ran.contains(part), "{part} is missing in {ran}");
    }
    for (sql, why) in [
        ("select a, id, count(*) from t group by rollup(a, id)", "several sets of keys"),
        ("select a, stddev(id) from t group by a", "is none of count, sum, min, max, avg"),
        ("select a, sum(distinct id), sum(distinct a) from t group by a", "has to be kept apart"),
        (
            "select many, count(*) from (select a, array_agg(id) as many from t group by a) group by many",
            "which keys cannot have",
        ),
        ("select a, max(id) from (select * from t order by a limit 500) group by a", "sorted by keys"),
        ("select distinct a from t limit 3", "a limit may end it early"),
    ] {
        let plan = answer(&context, &format!("explain verbose {sql}")).await;
        assert!(plan.contains("KoelNoteExec: not by koel, since ") && plan.contains(why), "{sql}: {plan}");
        answer(&context, sql).await;
    }
    // An aggregate without keys has no note.
    let plan = answer(&context, "explain select count(*), sum(id) from t").await;
    assert!(plan.contains("AggregateExec") && !plan.contains("Koel"), "{plan}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn ordered_groups_are_in_order_of_first_occurrence() {
    let table = Table::random(11, "t", &["utf8view", "int64", "float"], &[&[500, 300], &[700], &[100, 200]], 200, 0.1);
    let config = SessionConfig::new().with_target_partitions(3).with_batch_size(64);
    let builder = SessionStateBuilder::new().with_default_features().with_config(config);
    let context =
        SessionContext::new_with_state(builder.with_koel(KoelOptions::default().ordered(true).min_rows(0)).build());
    let of = MemTable::try_new(Arc::clone(&table.schema), table.partitions.clone()).expect("a table");
    context.register_table("t", Arc::new(of)).expect("a new name");
    let has_opencl = has_opencl();
    for (sql, hash) in [
        ("select t0 from t group by t0", false),
        ("select t1, sum(t2), avg(t2), min(t0) from t group by t1", true),
        ("select t0, t1, sum(t2) from t group by t0, t1", true),
        ("select distinct t1, t0 from t", false),
    ] {
        answer(&context, &format!("set datafusion.optimizer.repartition_aggregations = {hash}")).await;
        let mut first = None;
        for run in 0..20 {
            let device = if run % 4 == 3 && has_opencl { "opencl:0" } else { "cpu" };
            answer(&context, &format!("set koel.device = '{device}'")).await;
            let plan = context.sql(sql).await.expect(sql).create_physical_plan().await.expect(sql);
            assert_eq!(aggregates(plan.as_ref()).1, 0);
            let schema = plan.schema();
            let rows = listed(&schema, &collect(plan, context.task_ctx()).await.expect(sql));
            // Compares the bits of float sums too.
            match &first {
                None => first = Some(rows),
                Some(first) => assert!(rows == *first, "{sql} has another order in run {run}"),
            }
        }
        if sql == "select t0 from t group by t0" {
            let batches: Vec<RecordBatch> =
                table.partitions.iter().flatten().map(|batch| batch.project(&[0]).expect("a column")).collect();
            let mut seen = std::collections::HashSet::new();
            let all = listed(&batches[0].schema(), &batches);
            let wanted: Vec<String> = all.into_iter().filter(|row| seen.insert(row.clone())).collect();
            assert_eq!(first.expect("rows"), wanted);
        }
    }
}
