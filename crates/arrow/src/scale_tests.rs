//! Compares joins of decimals of two scales, of times of two units, and of columns without values with plain loops.

use std::sync::Arc;

use arrow_array::types::Int8Type;
use arrow_array::{
    Array, ArrayRef, Decimal128Array, DictionaryArray, DurationMillisecondArray, DurationSecondArray, Int64Array,
    NullArray, RecordBatch, StringArray, TimestampMicrosecondArray, TimestampMillisecondArray,
    TimestampNanosecondArray, TimestampSecondArray, UInt64Array, new_null_array,
};
use arrow_schema::{DataType, Field};
use koel::JoinKind;

use crate::external::{Batches, Join, Limit, Output};
use crate::tests::devices;
use crate::{Error, FirstKeys, Keys, NullEquality, Result, RightKeys, join};

type Rows = Vec<(Option<u32>, Option<u32>)>;

fn keys(array: &ArrayRef) -> Keys {
    Keys::of_arrays(std::slice::from_ref(array)).expect("keys")
}

/// The rows of a left join.
fn in_memory(left: &ArrayRef, right: &ArrayRef, nulls: NullEquality) -> Result<Rows> {
    let rows = join(&devices()[0], &keys(left), &keys(right), JoinKind::Left, nulls)?;
    Ok(rows.left.iter().zip(rows.right.iter().flatten()).collect())
}

/// As [`in_memory`], but under a limit that spills all rows.
fn in_files(left: &ArrayRef, right: &ArrayRef, nulls: NullEquality) -> Result<Rows> {
    let table = |key: &ArrayRef| {
        let number: ArrayRef = Arc::new(UInt64Array::from_iter_values(0..key.len() as u64));
        let columns = [("key", Arc::clone(key), true), ("row", number, false)];
        let batch = RecordBatch::try_from_iter_with_nullable(columns).expect("a table");
        Batches::new(batch.schema(), [Ok::<_, Error>(batch)])
    };
    let (devices, columns) = (&devices()[..1], [Output::Left(1), Output::Right(1)]);
    let (how, limit) = (JoinKind::Left, &Limit::new(1));
    let join = Join { devices, on: &[(0, 0)], how, nulls, columns: &columns, limit, watch: &|_| () };
    let mut found = Vec::new();
    let rows = join.run(table(left), table(right), |batch| {
        let of = |at: usize| UInt64Array::from(batch.column(at).to_data());
        found.extend(
            of(0).iter().zip(&of(1)).map(|(left, right)| (left.map(|row| row as u32), right.map(|row| row as u32))),
        );
        Ok::<_, Error>(())
    })?;
    assert!(rows.spilled > 0);
    Ok(found)
}

/// The result of a left join, by nested loops.
fn nested(left: usize, right: usize, equal: impl Fn(usize, usize) -> bool) -> Rows {
    let mut rows = Rows::new();
    for i in 0..left {
        let partners: Vec<usize> = (0..right).filter(|&j| equal(i, j)).collect();
        rows.extend(partners.iter().map(|&j| (Some(i as u32), Some(j as u32))));
        rows.extend(partners.is_empty().then_some((Some(i as u32), None)));
    }
    rows
}

/// Joins columns whose values are multiples of units: `units.0` on the left, `units.1` on the right.
fn check(left: (&ArrayRef, &[Option<i128>]), right: (&ArrayRef, &[Option<i128>]), units: (i128, i128)) {
    for nulls in [NullEquality::NothingEquals, NullEquality::NullEquals] {
        let equal = |i: usize, j: usize| match (left.1[i], right.1[j]) {
            (None, None) => nulls == NullEquality::NullEquals,
            // A product that does not fit 128 bits is beyond all values of the other side.
            (Some(a), Some(b)) => {
                matches!((a.checked_mul(units.0), b.checked_mul(units.1)), (Some(a), Some(b)) if a == b)
            }
            _ => false,
        };
        let expected = nested(left.1.len(), right.1.len(), equal);
        let what = format!("{} with {}, {nulls:?}", left.0.data_type(), right.0.data_type());
        assert_eq!(in_memory(left.0, right.0, nulls).expect(&what), expected, "{what}");
        if nulls == NullEquality::NullEquals {
            assert_eq!(in_files(left.0, right.0, nulls).expect(&what), expected, "{what}, in files");
        }
    }
}

#[test]
fn moments_of_two_units_are_equal_where_their_values_are() {
    // Values that are whole or fractional in coarser units, both ends of the range, and values whose products wrap in
    // 64 bits.
    let values = |unit: i64| -> Vec<Option<i128>> {
        let seconds = [0, 1, -1, 1_700_000_000, -1_700_000_000].map(|seconds| seconds * unit);
        let others =
            [1, -1, 1500, 1_500_000, i64::MAX, i64::MIN, i64::MIN + 1, 18_446_744_073_709_551, 9_223_372_036_855];
        seconds.into_iter().chain(others).map(|value| Some(value.into())).chain([None]).collect()
    };
    let words = |of: &[Option<i128>]| of.iter().map(|value| value.map(|value| value as i64)).collect::<Vec<_>>();
    let sides: Vec<(Vec<Option<i128>>, ArrayRef, i128)> = [1_000_000_000, 1_000_000, 1_000, 1]
        .into_iter()
        .map(|unit| {
            let all = values(1_000_000_000 / unit);
            let of = words(&all);
            let array: ArrayRef = match unit {
                1_000_000_000 => Arc::new(TimestampSecondArray::from(of)),
                1_000_000 => Arc::new(TimestampMillisecondArray::from(of)),
                1_000 => Arc::new(TimestampMicrosecondArray::from(of)),
                _ => Arc::new(TimestampNanosecondArray::from(of)),
            };
            (all, array, unit.into())
        })
        .collect();
    for (left, right) in sides.iter().flat_map(|left| sides.iter().map(move |right| (left, right))) {
        check((&left.1, &left.0), (&right.1, &right.0), (left.2, right.2));
        // Without nulls, the right buffer is the column of words.
        let rows = right.1.len() - 1;
        check(
            (&left.1.slice(0, rows), &left.0[..rows]),
            (&right.1.slice(0, rows), &right.0[..rows]),
            (left.2, right.2),
        );
    }
    let (seconds, millis) = (DurationSecondArray::from(vec![2, 3]), DurationMillisecondArray::from(vec![2000, 2001]));
    let rows = in_memory(&(Arc::new(seconds) as ArrayRef), &(Arc::new(millis) as ArrayRef), NullEquality::NullEquals);
    assert_eq!(rows.expect("durations"), [(Some(0), Some(0)), (Some(1), None)]);
}

#[test]
fn decimals_of_two_scales_are_equal_where_their_values_are() {
    let ten = |places: u32| 10_i128.pow(places);
    let scales = [-3_i8, 0, 3, 38];
    let decimals = |scale: i8| {
        // The values 1 and 1.5, and the greatest values of 38 digits, whole and fractional.
        let mut all =
            vec![Some(0), None, Some(15), Some(1), Some(-1), Some(ten(38) - 1), Some(1 - ten(38)), Some(ten(37))];
        all.extend((0..38).map(|places| Some(3 * ten(places))));
        all.extend([Some(ten(20)), Some(15 * ten(19)), Some(-15 * ten(2)), Some(1234), Some(123_400)]);
        let array = Decimal128Array::from(all.clone()).with_precision_and_scale(38, scale).expect("a decimal");
        (Arc::new(array) as ArrayRef, all)
    };
    for (left, right) in scales.into_iter().flat_map(|left| scales.into_iter().map(move |right| (left, right))) {
        let (of_left, of_right) = (decimals(left), decimals(right));
        let finer = left.max(right);
        let unit = |scale: i8| {
            let places = i32::from(finer) - i32::from(scale);
            // With more than 38 places, only 0 fits: any factor that is too large has the same effect.
            ten(places.min(38) as u32)
        };
        check((&of_left.0, &of_left.1), (&of_right.0, &of_right.1), (unit(left), unit(right)));
    }
}

#[test]
#[ignore = "slow: every pair of types; CI runs it"]
fn a_column_of_nulls_joins_with_any_type() {
    let text: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None, Some("b")]));
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(0), Some(1), None]));
    let dictionary = DictionaryArray::<Int8Type>::new(vec![Some(1), None, Some(0)].into(), text.slice(0, 2));
    let field = |of: &ArrayRef| Field::new("f", of.data_type().clone(), false);
    let structs =
        arrow_array::StructArray::new(vec![field(&numbers.slice(0, 2))].into(), vec![numbers.slice(0, 2)], None);
    let wide = arrow_cast::cast(&numbers, &DataType::Decimal256(50, 3)).expect("a cast");
    let all: [ArrayRef; 5] = [text, numbers, Arc::new(dictionary), Arc::new(structs), wide];
    let of_null = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Null));
    let empty_dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let types = all.iter().map(|array| array.data_type().clone()).chain([of_null, empty_dictionary, DataType::Float64]);
    let mut columns: Vec<ArrayRef> = types.map(|of| new_null_array(&of, 2)).collect();
    columns.push(Arc::new(NullArray::new(2)));
    for (nothing, other) in columns.iter().flat_map(|nothing| all.iter().map(move |other| (nothing, other))) {
        let is_null: Vec<bool> = {
            let nulls = other.logical_nulls();
            (0..other.len()).map(|row| nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))).collect()
        };
        let what = format!("{} with {}", nothing.data_type(), other.data_type());
        for nulls in [NullEquality::NothingEquals, NullEquality::NullEquals] {
            let equal = |row: usize| is_null[row] && nulls == NullEquality::NullEquals;
            let expected = nested(2, other.len(), |_, row| equal(row));
            assert_eq!(in_memory(nothing, other, nulls).expect(&what), expected, "{what}");
            let expected = nested(other.len(), 2, |row, _| equal(row));
            assert_eq!(in_memory(other, nothing, nulls).expect(&what), expected, "{what}, other way");
            let first = FirstKeys::new(&devices()[0], &keys(nothing), nulls).expect(&what);
            let found = first.find(&keys(other)).expect(&what);
            let none = koel::NO_ROW;
            assert_eq!(
                found,
                (0..other.len()).map(|row| if equal(row) { 0 } else { none }).collect::<Vec<_>>(),
                "{what}"
            );
        }
        // Keys of this column and a column with values.
        let two = |array: &ArrayRef| {
            let ones: ArrayRef = Arc::new(Int64Array::from(vec![1; array.len()]));
            Keys::of_arrays(&[ones, Arc::clone(array)]).expect("keys")
        };
        let index = RightKeys::new(&devices()[0], &two(nothing), NullEquality::NullEquals).expect(&what);
        let rows = index.join(&two(other), JoinKind::Semi).expect(&what);
        assert_eq!(rows.left.len(), is_null.iter().filter(|&&null| null).count(), "{what}");
    }
    // The types of tables without rows are checked too.
    let empty: ArrayRef = Arc::new(Int64Array::from(Vec::<i64>::new()));
    assert!(matches!(in_memory(&all[0], &empty, NullEquality::NullEquals), Err(Error::TypeMismatch { .. })));
    let none: ArrayRef = Arc::new(NullArray::new(0));
    assert_eq!(in_memory(&all[0], &none, NullEquality::NullEquals).expect("no rows").len(), 3);
}
