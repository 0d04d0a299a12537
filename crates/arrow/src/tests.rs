//! Compares joins and groups of columns of every type with plain loops.
//!
//! Columns are small numbers, which Arrow casts to the type under test: keys are equal if the numbers are.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Int64Array, StructArray, UInt32Array};
use arrow_cast::cast;
use arrow_schema::{DataType, Field, IntervalUnit, TimeUnit};
use koel::{Any, Cpu, IdOrder, JoinKind};

use crate::encode::{Encoder, NullEquality, Words};
use crate::group::{NullKeys, with_hashes};
use crate::join::{Joined, RightKeys};
use crate::keys::{Column, Keys};

type Numbers = Vec<Option<i64>>;

pub(crate) fn devices() -> Vec<Any> {
    let mut devices = vec![Any::Cpu(Cpu::new())];
    #[cfg(feature = "opencl")]
    match koel::OpenCl::best() {
        Ok(device) => devices.push(Any::OpenCl(device)),
        Err(error) => {
            assert!(std::env::var_os("KOEL_REQUIRE_OPENCL").is_none(), "an OpenCL device is required: {error}");
            eprintln!("not tested on OpenCL: {error}");
        }
    }
    devices
}

/// Whether all combinations of limits are tested (`KOEL_TEST_FULL`), which takes minutes.
pub(crate) fn full() -> bool {
    std::env::var_os("KOEL_TEST_FULL").is_some()
}

/// Random numbers below `below`, a fifth of which are null.
struct Stream(u64);

impl Stream {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ mixed >> 29
    }

    fn numbers(&mut self, rows: usize, below: u64) -> Numbers {
        let number = |stream: &mut Stream| (!stream.next().is_multiple_of(5)).then(|| (stream.next() % below) as i64);
        (0..rows).map(|_| number(self)).collect()
    }
}

/// Types to which small numbers can be cast. The types of one row are comparable with each other.
fn types() -> Vec<Vec<DataType>> {
    use DataType::*;
    let dictionary = |keys, values| Dictionary(Box::new(keys), Box::new(values));
    let mut types = vec![
        vec![Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64, dictionary(Int8, Int32)],
        vec![Float32, Float64, Float16],
        vec![Decimal32(9, 2), Decimal64(18, 4), Decimal128(38, 2), Decimal128(10, 0), Decimal128(38, 30)],
        vec![Decimal256(50, 3)],
        vec![Date32],
        vec![Date64],
        vec![Time32(TimeUnit::Second), Time64(TimeUnit::Nanosecond), Time32(TimeUnit::Millisecond)],
        vec![
            Timestamp(TimeUnit::Microsecond, Some("+01:00".into())),
            Timestamp(TimeUnit::Second, Some("UTC".into())),
            Timestamp(TimeUnit::Nanosecond, Some("UTC".into())),
        ],
        vec![Timestamp(TimeUnit::Millisecond, None), Timestamp(TimeUnit::Microsecond, None)],
        vec![Duration(TimeUnit::Millisecond), Duration(TimeUnit::Second), Duration(TimeUnit::Nanosecond)],
        vec![Utf8, LargeUtf8, Utf8View, dictionary(Int16, Utf8), dictionary(UInt32, LargeUtf8)],
        vec![Binary, LargeBinary, BinaryView],
    ];
    types.push(vec![Interval(IntervalUnit::MonthDayNano)]);
    types
}

/// Numbers as a column of a type, in pieces.
fn column(numbers: &Numbers, to: &DataType, pieces: usize) -> Column {
    let whole: ArrayRef = Arc::new(Int64Array::from(numbers.clone()));
    let through = |array: &ArrayRef, by: &DataType| cast(array, by).expect("a cast");
    let array = match to {
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => {
            through(&through(&whole, &DataType::Utf8), to)
        }
        // Numbers are seconds in every unit.
        DataType::Timestamp(_, zone) => {
            through(&through(&whole, &DataType::Timestamp(TimeUnit::Second, zone.clone())), to)
        }
        DataType::Duration(_) => through(&through(&whole, &DataType::Duration(TimeUnit::Second)), to),
        DataType::Time32(_) | DataType::Time64(_) => {
            let seconds = through(&through(&whole, &DataType::Int32), &DataType::Time32(TimeUnit::Second));
            through(&seconds, to)
        }
        DataType::Date32 | DataType::Interval(_) => match to {
            DataType::Interval(_) => through(&through(&whole, &DataType::Duration(TimeUnit::Nanosecond)), to),
            _ => through(&through(&whole, &DataType::Int32), to),
        },
        DataType::Dictionary(keys, values) => {
            let values = DataType::Dictionary(keys.clone(), values.clone());
            through(
                &through(&whole, if values.to_string().contains("Utf8") { &DataType::Utf8 } else { &DataType::Int32 }),
                &values,
            )
        }
        _ => through(&whole, to),
    };
    assert_eq!(array.null_count().max(array.logical_null_count()), whole.null_count(), "{to}");
    if pieces == 1 {
        return Column::new("k", array);
    }
    let field = Field::new("k", to.clone(), true);
    let schema = arrow_schema::Schema::new(vec![field]);
    let step = array.len().div_ceil(pieces).max(1);
    let batch = |start: usize| {
        let part = array.slice(start, step.min(array.len() - start));
        arrow_array::RecordBatch::try_new(Arc::new(schema.clone()), vec![part]).expect("a batch")
    };
    let batches: Vec<_> = (0..array.len()).step_by(step).map(batch).collect();
    Column::of_batches(&schema, &batches, "k").expect("the column")
}

/// The result of a join, by nested loops.
fn nested(
    left: &[Numbers],
    right: &[Numbers],
    how: JoinKind,
    nulls: NullEquality,
) -> (Vec<Option<u32>>, Vec<Option<u32>>) {
    let rows = |side: &[Numbers]| side[0].len();
    let equal = |i: usize, j: usize| {
        left.iter().zip(right).all(|(left, right)| match (left[i], right[j]) {
            (None, None) => nulls == NullEquality::NullEquals,
            (a, b) => a == b,
        })
    };
    let (mut lefts, mut rights) = (Vec::new(), Vec::new());
    for i in 0..rows(left) {
        let partners: Vec<_> = (0..rows(right)).filter(|&j| equal(i, j)).collect();
        match how {
            JoinKind::Semi | JoinKind::Anti => {
                if partners.is_empty() == (how == JoinKind::Anti) {
                    lefts.push(Some(i as u32));
                }
            }
            _ if partners.is_empty() && how.keeps_left() => {
                lefts.push(Some(i as u32));
                rights.push(None);
            }
            _ => partners.iter().for_each(|&j| {
                lefts.push(Some(i as u32));
                rights.push(Some(j as u32));
            }),
        }
    }
    if how.keeps_right() {
        for j in (0..rows(right)).filter(|&j| !(0..rows(left)).any(|i| equal(i, j))) {
            lefts.push(None);
            rights.push(Some(j as u32));
        }
    }
    (lefts, rights)
}

fn listed(rows: &UInt32Array) -> Vec<Option<u32>> {
    rows.iter().collect()
}

fn check_joins(device: &Any, left: &[Numbers], right: &[Numbers], columns: [&[Column]; 2], bits: u32, what: &str) {
    let [left_keys, right_keys] = columns.map(|columns| Keys::new(columns.to_vec()).expect("keys"));
    for nulls in [NullEquality::NothingEquals, NullEquality::NullEquals] {
        let index = RightKeys::with_hashes(device, &right_keys, nulls, bits).expect(what);
        for how in JoinKind::ALL {
            let Joined { left: lefts, right: rights } = index.join(&left_keys, how).expect(what);
            let expected = nested(left, right, how, nulls);
            let found = (listed(&lefts), rights.as_ref().map(listed).unwrap_or_default());
            assert_eq!(found, expected, "{what}, {how}, {nulls:?}, {bits} bits");
        }
        crate::prepared::tests::check(device, &left_keys, &right_keys, nulls, what);
    }
}

#[test]
fn columns_of_every_type_are_joined() {
    let mut stream = Stream(1);
    for device in devices() {
        for group in types() {
            for (i, right_type) in group.iter().enumerate() {
                let left_type = &group[(i + 1) % group.len()];
                let (left, right) = (stream.numbers(50, 30), stream.numbers(40, 25));
                for (pieces, bits) in [(1, 64), (3, 64), (1, 2)] {
                    let columns = [column(&left, left_type, pieces), column(&right, right_type, pieces)];
                    let what = format!("{left_type} with {right_type} in {pieces} pieces");
                    let [left_column, right_column] = columns;
                    check_joins(
                        &device,
                        std::slice::from_ref(&left),
                        std::slice::from_ref(&right),
                        [&[left_column], &[right_column]],
                        bits,
                        &what,
                    );
                }
            }
        }
    }
}

#[test]
fn columns_are_joined_by_several_keys() {
    let all: Vec<DataType> = types().into_iter().map(|group| group[0].clone()).collect();
    let mut stream = Stream(2);
    for device in devices() {
        for count in [2, 3, 5] {
            for start in 0..all.len() {
                let of: Vec<_> = (0..count).map(|i| &all[(start + i * 3) % all.len()]).collect();
                let numbers =
                    |stream: &mut Stream, rows| (0..count).map(|_| stream.numbers(rows, 3)).collect::<Vec<_>>();
                let (left, right) = (numbers(&mut stream, 40), numbers(&mut stream, 50));
                let columns = |side: &[Numbers]| {
                    side.iter().zip(&of).map(|(numbers, of)| column(numbers, of, 2)).collect::<Vec<_>>()
                };
                let (lefts, rights) = (columns(&left), columns(&right));
                check_joins(
                    &device,
                    &left,
                    &right,
                    [&lefts, &rights],
                    if start % 2 == 0 { 64 } else { 1 },
                    &format!("{of:?}"),
                );
            }
        }
    }
}

/// Ranges whose product exceeds 64 bits, and single ranges that exceed 64 bits.
#[test]
fn wide_ranges_are_numbered() {
    let device = &devices()[0];
    let spread = |numbers: &Numbers, by: i64| -> ArrayRef {
        Arc::new(Int64Array::from_iter(numbers.iter().map(|number| number.map(|number| number.wrapping_mul(by)))))
    };
    let decimal = |numbers: &Numbers| -> ArrayRef {
        let wide = numbers.iter().map(|number| number.map(|number| i128::from(number) * 10_i128.pow(36)));
        let array = arrow_array::Decimal128Array::from_iter(wide);
        Arc::new(array.with_precision_and_scale(38, 0).expect("a decimal"))
    };
    let mut stream = Stream(3);
    for count in 1..5 {
        let mut numbers = |rows| (0..count).map(|_| stream.numbers(rows, 4)).collect::<Vec<_>>();
        let (left, right) = (numbers(50), numbers(60));
        // 4 numbers with this distance wrap around 2^64, so two columns of them exceed 64 bits.
        let by = i64::MAX / 2 + 77;
        let spreads = |side: &[Numbers]| side.iter().map(|one| Column::new("s", spread(one, by))).collect::<Vec<_>>();
        check_joins(device, &left, &right, [&spreads(&left), &spreads(&right)], 64, "integers");
        let decimals = |side: &[Numbers]| side.iter().map(|one| Column::new("d", decimal(one))).collect::<Vec<_>>();
        check_joins(device, &left, &right, [&decimals(&left), &decimals(&right)], 64, "decimals");
    }
}

/// A right column that is too wide for 64 bits, and left columns of fewer bits: both are split at the same bit.
#[test]
fn decimals_of_two_widths_are_split_at_the_same_bit() {
    let right = arrow_array::Decimal128Array::from(vec![5, (1 << 64) + 7, (1 << 32) + 7, -3]);
    let left = arrow_array::Decimal64Array::from(vec![(1 << 32) + 7, -3, 7]);
    let keys = |array: ArrayRef| Keys::of_arrays(&[array]).expect("keys");
    let right = keys(Arc::new(right.with_precision_and_scale(38, 0).expect("a decimal")));
    let left = keys(Arc::new(left.with_precision_and_scale(18, 0).expect("a decimal")));
    let rows = crate::join(&devices()[0], &left, &right, JoinKind::Inner, NullEquality::default()).expect("rows");
    assert_eq!((rows.left, rows.right), (vec![0, 1].into(), Some(vec![2, 3].into())));
}

#[test]
fn structs_are_compared_by_fields_and_validity() {
    let device = &devices()[0];
    let mut stream = Stream(4);
    let (left, right) = (stream.numbers(40, 5), stream.numbers(40, 5));
    let of = |numbers: &Numbers| {
        let text = column(numbers, &DataType::Utf8, 1);
        let field = Field::new("t", DataType::Utf8, true);
        let nulls = Int64Array::from(numbers.clone()).nulls().cloned();
        Column::new(
            "s",
            Arc::new(StructArray::new(vec![field].into(), vec![text.chunks()[0].clone()], nulls)) as ArrayRef,
        )
    };
    check_joins(
        device,
        std::slice::from_ref(&left),
        std::slice::from_ref(&right),
        [&[of(&left)], &[of(&right)]],
        64,
        "structs",
    );
    // A struct whose field is null is not null, so it differs from a null struct: they are two groups.
    let there = StructArray::new(
        vec![Field::new("t", DataType::Int64, true)].into(),
        vec![Arc::new(Int64Array::from(vec![None, None, Some(1)]))],
        Some(vec![true, false, true].into()),
    );
    let keys = Keys::of_arrays(&[Arc::new(there) as ArrayRef]).expect("keys");
    let groups = with_hashes(device, &keys, IdOrder::FirstSeen, NullKeys::Group, 64).expect("groups");
    assert_eq!(groups.codes.values(), &[0, 1, 2]);
}

#[test]
fn zeros_are_equal_and_nan_is_nan() {
    let of = |values: [f64; 5]| -> ArrayRef { Arc::new(arrow_array::Float64Array::from(values.to_vec())) };
    let left = of([0.0, -0.0, f64::NAN, -f64::NAN, 1.0]);
    let right = of([-0.0, f64::from_bits(0x7ff8_0000_0000_0001), 2.0, f64::INFINITY, 5e-324]);
    for device in devices() {
        let keys = |array: &ArrayRef| Keys::of_arrays(std::slice::from_ref(array)).expect("keys");
        let rows =
            crate::join(&device, &keys(&left), &keys(&right), JoinKind::Inner, NullEquality::default()).expect("rows");
        assert_eq!((rows.left, rows.right), (vec![0, 1, 2, 3].into(), Some(vec![0, 0, 1, 1].into())));
        let groups = crate::factorize(&device, &keys(&left), IdOrder::FirstSeen, NullKeys::Group).expect("groups");
        assert_eq!(groups.codes.values(), &[0, 0, 1, 1, 2]);
    }
}

#[test]
fn groups_are_those_of_a_map_in_both_orders() {
    let mut stream = Stream(5);
    for device in devices() {
        for (i, of) in types().concat().into_iter().enumerate() {
            let (first, second) = (stream.numbers(60, 9), stream.numbers(60, 2));
            let keys =
                Keys::new(vec![column(&first, &of, 1 + i % 3), column(&second, &DataType::Int8, 2)]).expect("keys");
            for nulls in [NullKeys::Group, NullKeys::Drop] {
                let dropped =
                    |key: &(Option<i64>, Option<i64>)| nulls == NullKeys::Drop && (key.0.is_none() || key.1.is_none());
                let rows: Vec<_> = first.iter().copied().zip(second.iter().copied()).collect();
                let mut seen: Vec<u32> = Vec::new();
                for row in 0..rows.len() {
                    if !dropped(&rows[row]) && !rows[..row].contains(&rows[row]) {
                        seen.push(row as u32);
                    }
                }
                let bits = [64, 1][i % 2];
                let groups = with_hashes(&device, &keys, IdOrder::FirstSeen, nulls, bits).expect("groups");
                assert_eq!(groups.rows.values()[..], seen[..], "{of}");
                let ascending = with_hashes(&device, &keys, IdOrder::Ascending, nulls, bits).expect("groups");
                // Null is last. Text is ordered by its characters, and not by the numbers that it contains.
                let text = of.to_string().contains("Utf8") || of.to_string().contains("Binary");
                let rank = |key: Option<i64>, text| {
                    key.map_or((1, String::new(), 0), |key| {
                        (0, if text { key.to_string() } else { String::new() }, key)
                    })
                };
                let mut sorted = seen.clone();
                sorted.sort_by_key(|&row| {
                    let (a, b) = rows[row as usize];
                    (rank(a, text), rank(b, false))
                });
                assert_eq!(ascending.rows.values()[..], sorted[..], "{of}");
                for (groups, first_occurrences) in [(&groups, &seen), (&ascending, &sorted)] {
                    let codes: BTreeMap<_, _> =
                        first_occurrences.iter().zip(0..).map(|(&row, code)| (rows[row as usize], code)).collect();
                    let expected: Vec<_> = rows.iter().map(|row| codes.get(row).copied()).collect();
                    assert_eq!(listed(&groups.codes), expected, "{of}");
                }
            }
        }
    }
}

#[test]
fn integers_are_not_copied() {
    let device = &devices()[0];
    let wide = Int64Array::from(vec![3, -1, 3]);
    let narrow = UInt32Array::from(vec![3, 1, 3]);
    let keys = |array: ArrayRef| Keys::of_arrays(&[array]).expect("keys");
    let right = keys(Arc::new(wide.clone()));
    let (encoder, words) = Encoder::fit(device, &right, NullEquality::default(), 64).expect("words");
    let Words::Wide(words) = words else { panic!("64 bits") };
    assert_eq!(words.inner().as_ptr(), wide.values().inner().as_ptr());
    let Words::Wide(left) = encoder.encode(&keys(Arc::new(wide.slice(1, 2))), &right).expect("words") else {
        panic!("64 bits")
    };
    assert_eq!(left.inner().as_ptr(), wide.values()[1..].as_ptr().cast());
    let (_, words) = Encoder::fit(device, &keys(Arc::new(narrow.clone())), NullEquality::default(), 64).expect("words");
    let Words::Narrow(words) = words else { panic!("32 bits") };
    assert_eq!(words.inner().as_ptr(), narrow.values().inner().as_ptr());
}
