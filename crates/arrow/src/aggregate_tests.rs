//! Compares aggregates with plain loops.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{
    Array, ArrayRef, BooleanArray, Decimal128Array, Float64Array, Int32Array, Int64Array, StringArray, UInt64Array,
};
use arrow_cast::cast;
use arrow_schema::DataType;
use koel::IdOrder;

use crate::tests::devices;
use crate::{Aggregation, Column, Error, Function, Keys, NullKeys, group_by};

/// The group of each row, `i % 7` for row `i`, and its value. Every third value is null, and all values of group 5.
fn rows() -> (Vec<i32>, Vec<Option<i64>>) {
    let group = |i: i64| (i % 7) as i32;
    let value = |i: i64| (i % 3 > 0 && i % 7 != 5).then_some((i * i * 31) % 101 - 50);
    ((0..200).map(group).collect(), (0..200).map(value).collect())
}

fn aggregate(device: &koel::Any, function: Function, values: ArrayRef) -> crate::Result<ArrayRef> {
    let (ids, _) = rows();
    let keys = Keys::new(vec![Column::new("k", Arc::new(Int32Array::from(ids)))])?;
    let wanted = [Aggregation::new(function, Column::new("v", values))];
    let batch = group_by(device, &keys, &wanted, IdOrder::Ascending, NullKeys::Group)?;
    assert_eq!(batch.schema().field(1).name(), &format!("v_{}", function.name()));
    Ok(batch.column(1).clone())
}

/// The values of each group, without nulls.
fn by_group() -> Vec<Vec<i64>> {
    let (ids, values) = rows();
    let of = |group| ids.iter().zip(&values).filter(move |(id, _)| **id == group).filter_map(|(_, value)| *value);
    (0..7).map(|group| of(group).collect()).collect()
}

#[test]
fn numbers_of_every_type_are_aggregated() {
    let (_, values) = rows();
    let signed: ArrayRef = Arc::new(Int64Array::from(values.clone()));
    let positive: ArrayRef = Arc::new(Int64Array::from_iter(values.iter().map(|value| value.map(|value| value + 50))));
    use DataType::*;
    for device in devices() {
        for (of, sum_is) in [
            (Int8, Int64),
            (Int16, Int64),
            (Int32, Int64),
            (Int64, Int64),
            (UInt8, UInt64),
            (UInt16, UInt64),
            (UInt32, UInt64),
            (UInt64, UInt64),
            (Float16, Float64),
            (Float32, Float64),
            (Float64, Float64),
            (Decimal32(9, 2), Decimal128(38, 2)),
            (Decimal64(18, 2), Decimal128(38, 2)),
            (Decimal128(20, 3), Decimal128(38, 3)),
            (Dictionary(Box::new(Int8), Box::new(Int32)), Int64),
        ] {
            let unsigned = sum_is == UInt64;
            let source = if unsigned { &positive } else { &signed };
            let through = if let Dictionary(..) = of { cast(source, &Int32).expect("a cast") } else { source.clone() };
            let column = cast(&through, &of).expect("a cast");
            let shift = if unsigned { 50 } else { 0 };
            let groups: Vec<Vec<i64>> =
                by_group().into_iter().map(|group| group.into_iter().map(|value| value + shift).collect()).collect();
            for function in
                [Function::Count, Function::Sum, Function::Min, Function::Max, Function::Mean, Function::DistinctCount]
            {
                let found = aggregate(&device, function, column.clone()).expect("an aggregate");
                let expected: Vec<Option<f64>> = groups
                    .iter()
                    .map(|group| {
                        let mut distinct = group.clone();
                        distinct.sort_unstable();
                        distinct.dedup();
                        match function {
                            Function::Count => Some(group.len() as f64),
                            Function::DistinctCount => Some(distinct.len() as f64),
                            Function::Min => distinct.first().map(|&value| value as f64),
                            Function::Max => distinct.last().map(|&value| value as f64),
                            Function::Sum => (!group.is_empty()).then(|| group.iter().sum::<i64>() as f64),
                            _ => (!group.is_empty()).then(|| group.iter().sum::<i64>() as f64 / group.len() as f64),
                        }
                    })
                    .collect();
                let type_is = match function {
                    Function::Count | Function::DistinctCount => Int64,
                    Function::Mean => Float64,
                    Function::Sum => sum_is.clone(),
                    _ => {
                        if let Dictionary(_, values) = &of {
                            values.as_ref().clone()
                        } else {
                            of.clone()
                        }
                    }
                };
                assert_eq!(found.data_type(), &type_is, "{} of {of}", function.name());
                let found = cast(&found, &Float64).expect("a cast");
                let found: Vec<_> = found.as_primitive::<Float64Type>().iter().collect();
                assert_eq!(found, expected, "{} of {of}", function.name());
            }
        }
    }
}

#[test]
fn text_and_moments_have_extremes_and_ends() {
    let device = &devices()[0];
    let (_, values) = rows();
    let numbers: ArrayRef = Arc::new(Int64Array::from(values.clone()));
    let groups = by_group();
    let text = |value: &i64| format!("{value:>4}");
    let column = StringArray::from_iter(values.iter().map(|value| value.as_ref().map(text)));
    for (function, greatest) in [(Function::Min, false), (Function::Max, true)] {
        let found = aggregate(device, function, Arc::new(column.clone())).expect("an extreme");
        let expected: StringArray = groups
            .iter()
            .map(|group| if greatest { group.iter().map(text).max() } else { group.iter().map(text).min() })
            .collect();
        assert_eq!(found.as_string::<i32>(), &expected);
        let moments =
            cast(&numbers, &DataType::Timestamp(arrow_schema::TimeUnit::Second, Some("UTC".into()))).expect("a cast");
        let found = aggregate(device, function, moments.clone()).expect("an extreme");
        assert_eq!(found.data_type(), moments.data_type());
        let expected: Vec<_> = groups
            .iter()
            .map(|group| if greatest { group.iter().max() } else { group.iter().min() }.copied())
            .collect();
        assert_eq!(found.as_primitive::<TimestampSecondType>().iter().collect::<Vec<_>>(), expected);
        let there = BooleanArray::from_iter(values.iter().map(|value| value.map(|value| value > 0)));
        let found = aggregate(device, function, Arc::new(there)).expect("an extreme");
        let positive = |group: &Vec<i64>| {
            if greatest { group.iter().map(|v| *v > 0).max() } else { group.iter().map(|v| *v > 0).min() }
        };
        assert_eq!(found.as_boolean(), &BooleanArray::from_iter(groups.iter().map(positive)));
    }
    let (first, last) =
        (aggregate(device, Function::First, numbers.clone()), aggregate(device, Function::Last, numbers));
    let at = |row: usize| values[row];
    let ends =
        |array: crate::Result<ArrayRef>| array.expect("rows").as_primitive::<Int64Type>().iter().collect::<Vec<_>>();
    assert_eq!(ends(first), (0..7).map(at).collect::<Vec<_>>());
    assert_eq!(
        ends(last),
        (0..7).map(|group| at((0..200).rev().find(|row| row % 7 == group).expect("a row"))).collect::<Vec<_>>()
    );
}

#[test]
fn sums_of_booleans_count_those_that_are_true() {
    let (_, values) = rows();
    let flags: ArrayRef = Arc::new(BooleanArray::from_iter(values.iter().map(|value| value.map(|value| value > 0))));
    let keys = arrow_array::Int8Array::from_iter(values.iter().map(|value| value.map(|value| i8::from(value > 0))));
    let names: ArrayRef = Arc::new(BooleanArray::from(vec![false, true]));
    let dictionary = arrow_array::DictionaryArray::<Int8Type>::new(keys, names);
    let trues = |group: &Vec<i64>| group.iter().filter(|value| **value > 0).count();
    // A group without values has no sum.
    let there: Vec<Option<Vec<i64>>> =
        by_group().into_iter().map(|group| Some(group).filter(|g| !g.is_empty())).collect();
    let sums = Int64Array::from_iter(there.iter().map(|group| group.as_ref().map(|group| trues(group) as i64)));
    let mean = |group: &Vec<i64>| trues(group) as f64 / group.len() as f64;
    let means = Float64Array::from_iter(there.iter().map(|group| group.as_ref().map(mean)));
    for device in devices() {
        for column in [flags.clone(), Arc::new(dictionary.clone()) as ArrayRef] {
            assert_eq!(aggregate(&device, Function::Sum, column.clone()).expect("sums").as_ref(), &sums);
            assert_eq!(aggregate(&device, Function::Mean, column).expect("means").as_ref(), &means);
        }
    }
}

#[test]
fn sums_are_exact_or_refused_by_name() {
    let one_group = |values: ArrayRef, function| {
        let keys = Keys::of_arrays(&[Arc::new(Int32Array::from(vec![1; values.len()])) as ArrayRef])?;
        let wanted = [Aggregation::new(function, Column::new("amount", values))];
        Ok(group_by(&devices()[0], &keys, &wanted, IdOrder::FirstSeen, NullKeys::Group)?.column(1).clone())
    };
    let decimals = |values: Vec<i128>| -> ArrayRef {
        Arc::new(Decimal128Array::from(values).with_precision_and_scale(38, 1).expect("a decimal"))
    };
    let most = 10_i128.pow(38) - 1;
    for values in [
        Arc::new(Int64Array::from(vec![i64::MAX, 1])) as ArrayRef,
        Arc::new(UInt64Array::from(vec![u64::MAX, 1])),
        decimals(vec![most, 1]),
        decimals(vec![most, most, most]),
    ] {
        let error = one_group(values, Function::Sum).expect_err("an overflow");
        assert!(matches!(&error, Error::Overflow { column, row: 0, .. } if column == "amount"), "{error}");
        assert!(error.to_string().contains("`amount`"), "{error}");
    }
    // Intermediate sums do not overflow.
    let sum = one_group(Arc::new(Int64Array::from(vec![i64::MAX, 1, -5])), Function::Sum).expect("a sum");
    assert_eq!(sum.as_primitive::<Int64Type>().values(), &[i64::MAX - 4]);
    let sum = one_group(decimals(vec![most, most, -most]), Function::Sum).expect("a sum");
    assert_eq!(sum.as_primitive::<Decimal128Type>().values(), &[most]);
    let mean = one_group(Arc::new(Int64Array::from(vec![i64::MAX, i64::MAX])), Function::Mean).expect("a mean");
    assert_eq!(mean.as_primitive::<Float64Type>().values(), &[i64::MAX as f64]);
    for (function, values) in [
        (Function::Sum, Arc::new(StringArray::from(vec!["1"])) as ArrayRef),
        (Function::Mean, Arc::new(StringArray::from(vec!["1"]))),
        (Function::Sum, cast(&Int32Array::from(vec![1]), &DataType::Date32).expect("a date")),
    ] {
        let error = one_group(values, function).expect_err("no numbers").to_string();
        assert!(error.contains("`amount`") && error.contains("cast it"), "{error}");
    }
}

#[test]
fn sums_of_doubles_have_the_same_bits_everywhere() {
    let values: Vec<f64> = (0..40_000).map(|i| [1e16, 1.0, -1e16, 0.1][i % 4] / (1 + i % 13) as f64).collect();
    let ids: Vec<i32> = (0..40_000).map(|i| i * 7919 % 30).collect();
    let sums: Vec<Vec<u64>> = devices()
        .iter()
        .map(|device| {
            let keys = Keys::of_arrays(&[Arc::new(Int32Array::from(ids.clone())) as ArrayRef]).expect("keys");
            let wanted =
                [Aggregation::new(Function::Sum, Column::new("v", Arc::new(Float64Array::from(values.clone()))))];
            let batch = group_by(device, &keys, &wanted, IdOrder::FirstSeen, NullKeys::Group).expect("sums");
            batch.column(1).as_primitive::<Float64Type>().values().iter().map(|sum| sum.to_bits()).collect()
        })
        .collect();
    assert_eq!(sums[0].len(), 30);
    sums.iter().for_each(|other| assert_eq!(other, &sums[0]));
}
