//! Merged groups of morsels equal the groups of the whole table, bit for bit.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, Decimal128Array, Float32Array, Float64Array, Int8Array, Int64Array, RecordBatch,
    StringArray, UInt64Array,
};
use koel::IdOrder;

use super::tests::{device, first_seen, grouped, keys};
use super::*;
use crate::aggregate::{Aggregation, Function, group_by};
use crate::group::NullKeys;

const ROWS: usize = 3000;

/// A key column with few or many values, and columns of all types with states.
fn table(distinct: usize) -> RecordBatch {
    let mixed = |row: usize| row.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
    let is_there = |row: usize| !mixed(row).is_multiple_of(7);
    let doubles = [1e300, -1e300, 1.0, 1e-300, -0.0, 0.1, -1.0, 3e-320];
    let key = (0..ROWS).map(|row| (row % 13 > 0).then(|| format!("{}", mixed(row) % distinct)));
    let columns: [(&str, ArrayRef); 8] = [
        ("key", Arc::new(key.collect::<StringArray>())),
        ("i8", Arc::new((0..ROWS).map(|row| is_there(row).then_some(row as i8)).collect::<Int8Array>())),
        ("i64", Arc::new((0..ROWS).map(|row| Some((row as i64 - 1500) << 40)).collect::<Int64Array>())),
        ("u64", Arc::new((0..ROWS).map(|row| is_there(row).then_some(row as u64)).collect::<UInt64Array>())),
        (
            "decimal",
            Arc::new(
                Decimal128Array::from_iter((0..ROWS).map(|row| is_there(row).then_some(row as i128 * 12_345 - 7)))
                    .with_precision_and_scale(15, 2)
                    .expect("a decimal"),
            ),
        ),
        ("bool", Arc::new((0..ROWS).map(|row| is_there(row).then_some(row % 3 == 0)).collect::<BooleanArray>())),
        (
            "f64",
            Arc::new((0..ROWS).map(|row| is_there(row).then_some(doubles[mixed(row) % 8])).collect::<Float64Array>()),
        ),
        ("f32", Arc::new((0..ROWS).map(|row| Some(row as f32 * 1.1e-3)).collect::<Float32Array>())),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true))).expect("a table")
}

/// All aggregates with states.
fn aggregates(table: &RecordBatch) -> Vec<Of> {
    let everywhere = [Function::Count, Function::Sum, Function::Min, Function::Max, Function::First, Function::Last];
    let mut all = vec![Of { function: Function::Count, column: None, name: "rows".into() }];
    for (at, field) in table.schema().fields().iter().enumerate().skip(1) {
        let mean = (field.name() != "bool").then_some(Function::Mean);
        all.extend(everywhere.into_iter().chain(mean).map(|function| Of {
            function,
            column: Some(at),
            name: format!("{}_{}", field.name(), function.name()),
        }));
    }
    all
}

fn in_memory(table: &RecordBatch, of: &GroupBy<'_>) -> Result<RecordBatch> {
    let aggregation = |of: &Of| match of.column {
        Some(at) => {
            let column = Column::new(table.schema().field(at).name(), Arc::clone(table.column(at)));
            Aggregation::new(of.function, column).named(&of.name)
        }
        None => Aggregation::rows().named(&of.name),
    };
    let wanted: Vec<_> = of.aggregates.iter().map(aggregation).collect();
    group_by(&of.devices[0], &keys(table, of.by), &wanted, of.order, of.nulls)
}

#[test]
fn groups_of_morsels_are_merged_exactly() -> Result<()> {
    let (device, limits) = (device(), [Limit::new(60_000), Limit::new(1 << 40)]);
    for (distinct, rows) in [(1, 97), (5, 700), (5, ROWS), (400, 1000), (100_000, 1000)] {
        let table = table(distinct);
        let aggregates = aggregates(&table);
        for limit in &limits {
            for (order, nulls) in [(IdOrder::FirstSeen, NullKeys::Group), (IdOrder::Ascending, NullKeys::Drop)] {
                let of = GroupBy { order, nulls, ..first_seen(&device, &aggregates, limit) };
                assert!(preaggregate::Plan::of(of.grouping(&device), &table.schema()).is_some());
                let (found, expected) = (grouped(&of, &table, rows)?, in_memory(&table, &of)?);
                assert_eq!(found, expected, "{distinct} keys, {rows} rows, {order:?}");
            }
        }
    }
    Ok(())
}

/// In a sorted table, only groups at the ends of morsels are merged.
#[test]
fn groups_of_sorted_tables_are_merged_exactly() -> Result<()> {
    let (device, limit) = (device(), Limit::new(1 << 40));
    // Whether few of the groups are at the ends of morsels.
    for (per_key, rows, are_few) in
        [(4, 1000, true), (4, 1001, true), (7, 97, true), (3, 4, false), (1500, 700, false), (2, 2999, true)]
    {
        for last in [0, i64::MAX] {
            let mut columns = table(5).columns().to_vec();
            let keys = (0..ROWS).map(|row| if row + 1 < ROWS { (row / per_key) as i64 } else { last });
            columns[0] = Arc::new(keys.collect::<Int64Array>());
            let names = table(5).schema();
            let columns = columns.into_iter().zip(names.fields()).map(|(column, field)| (field.name(), column, true));
            let table = RecordBatch::try_from_iter_with_nullable(columns)?;
            let aggregates = aggregates(&table);
            for order in IdOrder::ALL {
                let (of, before) =
                    (GroupBy { order, ..first_seen(&device, &aggregates, &limit) }, sorted::MERGED.get());
                let (found, expected) = (grouped(&of, &table, rows)?, in_memory(&table, &of)?);
                let is_merged = sorted::MERGED.get() > before;
                assert_eq!(is_merged, are_few && last > 0, "{per_key} rows per key, {rows} rows, {last}");
                assert_eq!(found, expected, "{per_key} rows per key, {rows} rows, {order:?}, {last}");
            }
        }
    }
    Ok(())
}

#[test]
fn sums_of_doubles_keep_what_cancels() -> Result<()> {
    let (device, limit) = (device(), Limit::new(1 << 40));
    let of = |function: Function| Of { function, column: Some(1), name: function.name().into() };
    let wanted = [Function::Sum, Function::Mean].map(of);
    let of = first_seen(&device, &wanted, &limit);
    let huge = f64::MAX;
    for values in [
        // The sum of each batch exceeds all doubles, but the sums of both batches cancel out.
        vec![huge, huge, huge, -huge, -huge, -huge],
        vec![1e300, 1.0, 1e-300, -1e300, -1.0, 1e-320],
        vec![f64::INFINITY, 1.0, 2.0, f64::NEG_INFINITY, 3.0, 4.0],
        vec![f64::INFINITY, 1.0, 2.0, 5.0, 3.0, 4.0],
        vec![f64::NAN, 1.0, 2.0, 5.0, 3.0, 4.0],
        vec![-0.0; 6],
    ] {
        let key: ArrayRef = Arc::new(Int64Array::from(vec![1; 6]));
        let values: ArrayRef = Arc::new(Float64Array::from(values));
        let table = RecordBatch::try_from_iter([("key", key), ("value", values)])?;
        let (found, expected) = (grouped(&of, &table, 3)?, in_memory(&table, &of)?);
        let bits =
            |of: &RecordBatch| [1, 2].map(|at| of.column(at).to_data().buffers()[0].typed_data::<u64>().to_vec());
        assert_eq!(bits(&found), bits(&expected), "{table:?}");
    }
    Ok(())
}

#[test]
fn a_sum_that_does_not_fit_names_the_first_row_of_its_group() -> Result<()> {
    let (device, limit) = (device(), Limit::new(1 << 40));
    let sum = [Of { function: Function::Sum, column: Some(1), name: "sum".into() }];
    let of = first_seen(&device, &sum, &limit);
    let key: ArrayRef = Arc::new(Int64Array::from(vec![1, 1, 1, 1, 2, 1, 2, 2, 1]));
    let large: ArrayRef = Arc::new(Int64Array::from(vec![0, 0, 0, 0, i64::MAX, 1, i64::MAX, -5, 0]));
    let table = RecordBatch::try_from_iter([("key", key), ("value", large)])?;
    for rows in [1, 3, 9] {
        let error = grouped(&of, &table, rows).expect_err("a sum of 65 bits");
        assert!(matches!(&error, Error::Overflow { column, row: 4, .. } if column == "value"), "{error}");
    }
    Ok(())
}
