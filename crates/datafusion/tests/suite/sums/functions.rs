//! Windows, DISTINCT, other types, and rewrites of sums by DataFusion's optimizer.

use datafusion::arrow::datatypes::DataType;
use datafusion::execution::SessionStateBuilder;
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::physical_plan::displayable;
use datafusion::prelude::{SessionContext, col};
use koel_datafusion::{KoelOptions, WithKoel, koel_sum};

use super::{BY_KEY, Bits, Row, bits, by_group, config, expected, oracle, register, rows, run, session};
use crate::common::sorted;

/// The sum of the frame of each row, by the row's number.
fn frames(values: &[Option<f64>], frame: impl Fn(usize) -> std::ops::Range<usize>) -> Bits {
    let of = |row: usize| {
        let values: Vec<f64> = values[frame(row)].iter().flatten().copied().collect();
        let special: Vec<f64> = values.iter().copied().filter(|value| !value.is_finite()).collect();
        // Infinities and NaN are added by the rules of IEEE 754.
        let sum = if special.is_empty() { oracle::sum(&values) } else { special.iter().sum() };
        let sum = if sum.is_nan() { f64::NAN } else { sum };
        (row as i64, vec![(!values.is_empty()).then(|| sum.to_bits())])
    };
    (0..values.len()).map(of).collect()
}

#[tokio::test]
async fn frames_of_windows_have_exact_sums() {
    let mut values: Vec<Option<f64>> = rows(7, 6, 400).into_iter().map(|row| row.value).collect();
    let special = [(20, f64::NAN), (60, f64::INFINITY), (62, f64::NEG_INFINITY), (100, f64::INFINITY)];
    special.into_iter().for_each(|(at, value)| values[at] = Some(value));
    (150..160).for_each(|at| values[at] = None);
    let count = values.len();
    let row = |(number, &value): (usize, &Option<f64>)| Row { number: number as i64, group: 0, value };
    let context = session(&values.iter().enumerate().map(row).collect::<Vec<_>>(), 1, config(2, 50));
    let sum = |frame: &str| format!("select i, sum(x) over (order by i {frame}) from t");
    let sliding = sum("rows between 3 preceding and 1 following");
    assert_eq!(bits(&context, &sliding).await, frames(&values, |row| row.saturating_sub(3)..(row + 2).min(count)));
    let growing = sum("rows between unbounded preceding and current row");
    assert_eq!(bits(&context, &growing).await, frames(&values, |row| 0..row + 1));
    let shrinking = sum("rows between current row and unbounded following");
    assert_eq!(bits(&context, &shrinking).await, frames(&values, |row| row..count));
    // The mean of one value is that value, and the mean of no values is null.
    let each = "select i, avg(x) over (order by i rows between current row and current row) from t";
    assert_eq!(bits(&context, each).await, frames(&values, |row| row..row + 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn distinct_values_are_added_once() {
    let mut rows = rows(8, 10, 800);
    rows.extend(rows.clone());
    let once: Bits = {
        let mut rows = rows.clone();
        rows.sort_by_key(|row| (row.group, row.value.map(f64::to_bits)));
        rows.dedup_by_key(|row| (row.group, row.value.map(f64::to_bits)));
        expected(&rows)
    };
    let all = expected(&rows);
    for partitions in [1, 4] {
        let context = session(&rows, partitions, config(partitions, 100));
        assert_eq!(bits(&context, "select k, sum(distinct x) from t group by k").await, once);
        // DataFusion would rewrite these aggregates as sums of sums.
        let both = bits(&context, "select k, sum(distinct x), sum(x + 0.0) from t group by k").await;
        for (group, sums) in both {
            assert_eq!(sums, [once[&group][0], all[&group][0]], "group {group}");
        }
        let windows = "select i + 0 * k, sum(distinct x) over (order by i rows between 1 preceding and current row) \
                       from (select i, min(k) as k, min(x) as x from t where k = 4 group by i)";
        let found = bits(&context, windows).await;
        let tenth = Some(0.1f64.to_bits());
        assert!(found.values().all(|sums| sums[0].is_none() || sums[0] == tenth) && found.len() > 20);
    }
}

/// A sum together with a DISTINCT of another column: DataFusion's optimizer rewrites it as a sum of sums if it is named
/// `sum`.
#[tokio::test]
async fn a_sum_with_distinct_is_rounded_once() {
    let rows = rows(9, 9, 2000);
    let all = expected(&rows);
    let context = session(&rows, 2, config(2, 100));
    let sql = "select k, sum(x), cast(count(distinct i % 50) as double) from t group by k";
    for (group, found) in bits(&context, sql).await {
        assert_eq!(found[0], all[&group][0], "group {group}");
    }
}

#[tokio::test]
async fn other_floats_are_added_as_doubles() {
    let rows: Vec<Row> = (0..1000)
        .map(|number| Row { number, group: number % 3, value: Some(f64::from((number as f32).sin())) })
        .collect();
    let expected = expected(&rows);
    let context = session(&rows, 2, config(2, 64));
    assert_eq!(bits(&context, "select k, sum(arrow_cast(x, 'Float32')) from t group by k").await, expected);
    let halves: Bits = by_group(&rows)
        .into_iter()
        .map(|(group, values)| (group, vec![Some((values.len() as f64 * 0.25).to_bits()), Some(0.25f64.to_bits())]))
        .collect();
    let half = "arrow_cast(0.25 + 0 * x, 'Float16')";
    let sql = format!("select k, sum({half}), avg({half}) from t group by k");
    assert_eq!(bits(&context, &sql).await, halves);
}

/// Sums of other types have DataFusion's results, and all columns have DataFusion's names and types.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_types_names_and_schemas_match_stock() {
    // Multiples of a quarter, whose sums as doubles are exact in any order.
    let value = |number: i64| (number % 7 != 0).then_some((number % 41) as f64 * 0.25);
    let rows: Vec<Row> = (0..2000).map(|number| Row { number, group: number % 11, value: value(number) }).collect();
    let koel = session(&rows, 3, config(3, 100));
    let builder = SessionStateBuilder::new().with_default_features().with_config(config(3, 100));
    let stock = SessionContext::new_with_state(builder.build());
    register(&stock, &rows, 3);
    for columns in [
        "sum(i), avg(i), mean(i)",
        "sum(x), avg(x)",
        "sum(x), sum(distinct x), avg(distinct x)",
        "sum(x) filter (where i > 5), sum(x) filter (where i > 9), SUM(x)",
        "sum(arrow_cast(i, 'Decimal128(20, 2)')), avg(arrow_cast(i, 'Decimal128(20, 2)'))",
        "sum(arrow_cast(i, 'UInt32')), sum(distinct i), count(distinct i), sum(i + 3)",
        "avg(arrow_cast(i, 'Duration(Second)')), sum(arrow_cast(i, 'Duration(Second)'))",
        "sum(x order by i), avg(x) as mean",
        "sum(distinct i), sum(x), min(x)",
    ] {
        for sql in [format!("select k, {columns} from t group by k"), format!("select {columns} from t")] {
            let [expected, found] = [run(&stock, &sql).await, run(&koel, &sql).await];
            assert_eq!(expected.schema(), found.schema(), "{sql}");
            assert_eq!(
                sorted(&expected.schema(), std::slice::from_ref(&expected)),
                sorted(&found.schema(), &[found]),
                "{sql}"
            );
        }
    }
    let windows = "select i, sum(x) over (order by i), sum(x) over (partition by k), sum(i) over (partition by k order by i rows 2 preceding), \
                   avg(arrow_cast(i, 'Decimal128(20, 2)')) over (order by i) from t";
    let [expected, found] = [run(&stock, windows).await, run(&koel, windows).await];
    assert_eq!(expected.schema(), found.schema());
    assert_eq!(sorted(&expected.schema(), std::slice::from_ref(&expected)), sorted(&found.schema(), &[found]));
    for sql in ["select sum(name) from t", "select avg(name) from t"] {
        assert_eq!(stock.sql(sql).await.is_err(), koel.sql(sql).await.is_err(), "{sql}");
    }
}

#[tokio::test]
async fn partial_aggregates_have_states_of_exact_sums() {
    let context = session(&rows(10, 5, 100), 2, config(2, 10));
    let plan = context.sql(BY_KEY).await.expect("SQL").create_physical_plan().await.expect("a plan");
    let shown = displayable(plan.as_ref()).indent(false).to_string();
    assert!(shown.contains("KoelAggregateExec: mode=Partial") && !shown.contains("KoelNoteExec"), "{shown}");
    let mut partial = plan;
    while !displayable(partial.as_ref()).one_line().to_string().contains("mode=Partial") {
        partial = std::sync::Arc::clone(partial.children()[0]);
    }
    let types: Vec<_> = partial.schema().fields().iter().skip(1).map(|field| field.data_type().clone()).collect();
    assert_eq!(types, [DataType::FixedSizeBinary(18), DataType::LargeBinary]);
}

/// `sum(x + a)` is the sum of rounded terms, and not a sum plus a product. A DataFrame calls the function itself.
#[tokio::test]
async fn sums_of_terms_are_not_rewritten() {
    let rows = rows(11, 3, 500);
    let context = session(&rows, 1, config(1, 100));
    let terms: Vec<Row> = rows.iter().map(|row| Row { value: row.value.map(|value| value + 0.1), ..*row }).collect();
    let found = bits(&context, "select k, sum(x + 0.1), sum(x + 0.2), sum(x + 0.3) from t group by k").await;
    assert!(expected(&terms).iter().all(|(group, sum)| found[group][0] == sum[0]));
    let builder = SessionStateBuilder::new().with_default_features().with_koel_known(KoelOptions::default());
    let known = SessionContext::new_with_state(builder.build());
    register(&known, &rows, 1);
    let table = known.table("t").await.expect("a table");
    let sums = table.aggregate(vec![], vec![koel_sum().call(vec![col("x")]), count(col("x"))]).expect("a plan");
    let found = sums.collect().await.expect("rows");
    let all: Vec<f64> = rows.iter().filter_map(|row| row.value).collect();
    let column = datafusion::arrow::array::AsArray::as_primitive::<datafusion::arrow::datatypes::Float64Type>(
        found[0].column_by_name("sum(t.x)").expect("the name of DataFusion's sum"),
    );
    assert_eq!(column.value(0).to_bits(), oracle::sum(&all).to_bits());
}
