//! Sums and means of floats are exact, whatever the order and the partitioning of rows.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::datatypes::{Float64Type, Int64Type};
use datafusion::datasource::MemTable;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use koel_datafusion::{KoelOptions, WithKoel};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

mod functions;
mod oracle;

/// A row: its number, its group and its value.
#[derive(Clone, Copy, Debug)]
struct Row {
    number: i64,
    group: i64,
    value: Option<f64>,
}

/// A session with koel and the table `t (i, k, name, x)` of these rows.
fn session(rows: &[Row], partitions: usize, config: SessionConfig) -> SessionContext {
    let builder = SessionStateBuilder::new().with_default_features().with_config(config);
    let context = SessionContext::new_with_state(builder.with_koel(KoelOptions::default()).build());
    register(&context, rows, partitions);
    context
}

fn register(context: &SessionContext, rows: &[Row], partitions: usize) {
    let batch = |rows: &[Row]| {
        let numbers: ArrayRef = Arc::new(rows.iter().map(|row| Some(row.number)).collect::<Int64Array>());
        let groups: ArrayRef = Arc::new(rows.iter().map(|row| Some(row.group)).collect::<Int64Array>());
        let names = rows.iter().map(|row| Some(format!("the group number {}", row.group)));
        let names: ArrayRef = Arc::new(names.collect::<StringArray>());
        let values: ArrayRef = Arc::new(rows.iter().map(|row| row.value).collect::<Float64Array>());
        RecordBatch::try_from_iter_with_nullable([
            ("i", numbers, true),
            ("k", groups, true),
            ("name", names, true),
            ("x", values, true),
        ])
        .expect("columns")
    };
    let size = context.copied_config().batch_size();
    let parts = rows.chunks(rows.len().div_ceil(partitions).max(1));
    let mut parts: Vec<Vec<RecordBatch>> = parts.map(|part| part.chunks(size).map(batch).collect()).collect();
    if parts.is_empty() {
        parts.push(vec![batch(&[])]);
    }
    let table = MemTable::try_new(parts[0][0].schema(), parts).expect("a table");
    context.register_table("t", Arc::new(table)).expect("a new name");
}

fn config(partitions: usize, batch_size: usize) -> SessionConfig {
    SessionConfig::new().with_target_partitions(partitions).with_batch_size(batch_size)
}

async fn run(context: &SessionContext, sql: &str) -> RecordBatch {
    let plan = context.sql(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let schema = Arc::new(plan.schema().as_arrow().clone());
    let batches = plan.collect().await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    concat_batches(&batches.first().map_or(schema, RecordBatch::schema), &batches).expect("batches of one schema")
}

type Bits = BTreeMap<i64, Vec<Option<u64>>>;

/// The bits of the other columns, by the integer in the first one.
async fn bits(context: &SessionContext, sql: &str) -> Bits {
    let all = run(context, sql).await;
    let keys = all.column(0).as_primitive::<Int64Type>();
    let of = |row: usize| {
        let columns = all.columns()[1..].iter().map(|column| {
            let column = column.as_primitive::<Float64Type>();
            column.is_valid(row).then(|| column.value(row).to_bits())
        });
        (keys.value(row), columns.collect())
    };
    let found: Bits = (0..all.num_rows()).map(of).collect();
    assert_eq!(found.len(), all.num_rows(), "a key occurs twice");
    found
}

/// Values of all magnitudes, of similar magnitudes, that cancel out, and that grow, and nulls. Some groups have no
/// values.
fn rows(seed: u64, groups: i64, count: usize) -> Vec<Row> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut rows = Vec::new();
    for number in 0..count as i64 {
        let group = random.random_range(0..groups);
        let value = match group % 6 {
            0 => random.random_range(-1.0..1.0),
            1 => f64::from_bits(random.random::<u64>() & !(1 << 62)),
            2 => random.random_range(-1.0..1.0) * 2f64.powi(random.random_range(-900..900)),
            3 => (number as f64).powi(3) * 0.01,
            4 => 0.1,
            _ => f64::from_bits(random.random::<u64>() >> random.random_range(12..50)),
        };
        let is_null = group == 5 || random.random_bool(0.1);
        rows.push(Row { number, group, value: (!is_null).then_some(value) });
        if group % 6 == 2 && number % 2 == 0 {
            rows.push(Row { number: number + count as i64, group, value: Some(-value) });
        }
    }
    rows
}

fn by_group(rows: &[Row]) -> BTreeMap<i64, Vec<f64>> {
    let mut groups: BTreeMap<i64, Vec<f64>> = BTreeMap::new();
    for row in rows {
        groups.entry(row.group).or_default().extend(row.value);
    }
    groups
}

/// The bits of the sums, computed by another algorithm.
fn expected(rows: &[Row]) -> Bits {
    let sum = |values: Vec<f64>| (!values.is_empty()).then(|| oracle::sum(&values).to_bits());
    by_group(rows).into_iter().map(|(group, values)| (group, vec![sum(values)])).collect()
}

const BY_KEY: &str = "select k, sum(x) from t group by k";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sums_are_exact_in_any_order_partition_and_batch() {
    let mut rows = rows(1, 25, 6000);
    let sums = expected(&rows);
    let both = "select k, sum(x), avg(x) from t group by k";
    let means = bits(&session(&rows, 1, config(1, 8192)), both).await;
    let mut random = StdRng::seed_from_u64(2);
    for (partitions, batch_size) in [(1, 8192), (1, 7), (2, 1000), (3, 64), (7, 500), (16, 100), (16, 8192)] {
        for koel in [true, false] {
            rows.shuffle(&mut random);
            let context = session(&rows, partitions, config(partitions, batch_size));
            context.sql(&format!("set koel.enabled = {koel}")).await.expect("an option");
            let what = format!("{partitions} partitions, batches of {batch_size}, koel {koel}");
            assert_eq!(bits(&context, BY_KEY).await, sums, "{what}");
            assert_eq!(bits(&context, both).await, means, "{what}");
            let by_text = "select min(k), sum(x) from t group by name";
            assert_eq!(bits(&context, by_text).await, sums, "{what}, by texts");
            let of_all = "select 0, sum(x), mean(x) from t";
            let all: Vec<f64> = rows.iter().filter_map(|row| row.value).collect();
            assert_eq!(bits(&context, of_all).await[&0][0], Some(oracle::sum(&all).to_bits()), "{what}, all");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn means_are_rounded_once() {
    let mut random = StdRng::seed_from_u64(3);
    let value = |random: &mut StdRng| (random.random::<i64>() >> random.random_range(1..50)) as f64 * 2f64.powi(-20);
    let rows: Vec<Row> = (0..5000)
        .map(|number| Row { number, group: random.random_range(0..400), value: Some(value(&mut random)) })
        .collect();
    let expected: Bits = by_group(&rows)
        .into_iter()
        .map(|(group, values)| (group, vec![Some(oracle::mean(&values).to_bits())]))
        .collect();
    for partitions in [1, 4] {
        let context = session(&rows, partitions, config(partitions, 300));
        assert_eq!(bits(&context, "select k, avg(x) from t group by k").await, expected);
        let windows = "select distinct k, mean(x) over (partition by k) from t";
        assert_eq!(bits(&context, windows).await, expected);
    }
}

#[tokio::test]
async fn special_values_and_limits_of_doubles() {
    let (inf, nan, max) = (f64::INFINITY, f64::NAN, f64::MAX);
    let tiny = f64::from_bits(1);
    let groups: [(&[f64], f64, f64); 11] = [
        (&[inf, 1.0], inf, inf),
        (&[1.0, -inf], -inf, -inf),
        (&[inf, -inf], nan, nan),
        (&[-nan, 1.0, inf], nan, nan),
        (&[max, max], inf, max),
        (&[max, max, -max], max, max / 3.0),
        (&[-max, -max, -max], -inf, -max),
        (&[tiny, tiny, tiny], f64::from_bits(3), tiny),
        (&[-0.0, -0.0], 0.0, 0.0),
        (&[1e308, -1e308, 1e-308], 1e-308, 1e-308 / 3.0),
        (&[], 0.0, 0.0),
    ];
    let mut rows = Vec::new();
    let mut expected = Bits::new();
    for (group, (values, sum, mean)) in (0..).zip(groups) {
        rows.extend(values.iter().map(|&value| Row { number: 0, group, value: Some(value) }));
        rows.push(Row { number: 1, group, value: None });
        let result = |value: f64| (!values.is_empty()).then(|| value.to_bits());
        expected.insert(group, vec![result(sum), result(mean)]);
    }
    for partitions in [1, 3] {
        let context = session(&rows, partitions, config(partitions, 2));
        assert_eq!(bits(&context, "select k, sum(x), avg(x) from t group by k").await, expected);
        for (&group, expected) in &expected {
            let sql = format!("select 0, sum(x), avg(x) from t where k = {group}");
            assert_eq!(&bits(&context, &sql).await[&0], expected, "{sql}");
        }
    }
    let none = session(&[], 1, config(2, 10));
    assert_eq!(bits(&none, "select 0, sum(x), avg(x) from t").await[&0], [None, None]);
    assert!(bits(&none, BY_KEY).await.is_empty());
}

#[tokio::test]
async fn filtered_rows_are_not_aggregated() {
    let rows = rows(4, 12, 3000);
    let kept: Vec<Row> = rows.iter().filter(|row| row.number % 3 == 1).copied().collect();
    let expected: Bits = expected(&rows)
        .into_keys()
        .map(|group| (group, expected(&kept).remove(&group).unwrap_or(vec![None])))
        .collect();
    for partitions in [1, 3] {
        let context = session(&rows, partitions, config(partitions, 100));
        let sql = "select k, sum(x) filter (where case when i % 3 = 2 then null else i % 3 = 1 end) from t group by k";
        assert_eq!(bits(&context, sql).await, expected);
    }
}

/// Partial aggregates that are skipped convert rows to states without grouping them, before a repartitioning.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partial_aggregates_that_are_skipped_have_the_same_sums() {
    let rows = rows(5, 2000, 6000);
    let expected = expected(&rows);
    let skipping = config(3, 100)
        .set_usize("datafusion.execution.skip_partial_aggregation_probe_rows_threshold", 10)
        .set_str("datafusion.execution.skip_partial_aggregation_probe_ratio_threshold", "0.1");
    for koel in [true, false] {
        let context = session(&rows, 3, skipping.clone());
        context.sql(&format!("set koel.enabled = {koel}")).await.expect("an option");
        assert_eq!(bits(&context, BY_KEY).await, expected, "koel {koel}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_that_are_spilled_have_the_same_sums() {
    let rows = rows(6, 20_000, 60_000);
    let sums = expected(&rows);
    let sql = "select min(k), sum(x), avg(x) from t group by name";
    let means = bits(&session(&rows, 1, config(1, 8192)), sql).await;
    assert!(sums.iter().all(|(group, sum)| means[group][0] == sum[0]));
    for koel in [true, false] {
        let runtime = RuntimeEnvBuilder::new().with_memory_limit(6 << 20, 1.0).build_arc().expect("a runtime");
        let builder = SessionStateBuilder::new().with_default_features().with_config(config(1, 500));
        let builder = builder.with_runtime_env(runtime).with_koel(KoelOptions::default());
        let context = SessionContext::new_with_state(builder.build());
        register(&context, &rows, 1);
        context.sql(&format!("set koel.enabled = {koel}")).await.expect("an option");
        assert_eq!(bits(&context, sql).await, means, "koel {koel}");
        let explained = run(&context, &format!("explain analyze {sql}")).await;
        let text = explained.column(1).as_string::<i32>().value(0);
        assert!(!text.contains("spill_count=0"), "nothing was spilled: {text}");
    }
}
