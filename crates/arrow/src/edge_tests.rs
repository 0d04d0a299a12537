//! Edge cases: the ends of ranges, floats with unusual bits, dictionaries of all kinds, missing rows.

use std::sync::Arc;

use arrow_array::types::{Int8Type, Int32Type};
use arrow_array::{
    Array, ArrayRef, DictionaryArray, Float32Array, Float64Array, Int8Array, Int32Array, Int64Array, RecordBatch,
    StringArray, StructArray, UInt32Array, UInt64Array,
};
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use koel::{Any, IdOrder, JoinKind};

use crate::leaf::leaves;
use crate::strings::StringColumn;
use crate::tests::devices;
use crate::{Aggregation, Column, Function, Keys, NullEquality, NullKeys, distinct, factorize, group_by, join};

fn keys(array: impl Array + 'static) -> Keys {
    Keys::of_arrays(&[Arc::new(array) as ArrayRef]).expect("keys")
}

fn wide(array: &ArrayRef) -> Vec<Option<i128>> {
    let integers = arrow_cast::cast(array, &DataType::Decimal128(38, 0)).expect("integers");
    arrow_array::cast::AsArray::as_primitive::<arrow_array::types::Decimal128Type>(&integers).iter().collect()
}

#[test]
fn ends_of_ranges_are_keys_like_others() {
    let int64 = [None, Some(i64::MIN), Some(-1), Some(0), Some(1 << 32), Some(i64::MAX), Some(i64::MIN + 1)];
    let uint64 = [Some(0), Some(u64::MAX), Some(1 << 63), None, Some(1 << 32), Some(i64::MAX as u64)];
    let int32 = [Some(i32::MIN), Some(i32::MAX), Some(0), Some(-1), None];
    let uint32 = [Some(0), Some(u32::MAX), Some(1 << 31), Some(1)];
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(int64.to_vec())),
        Arc::new(Int64Array::from_iter_values(int64.into_iter().flatten())),
        Arc::new(UInt64Array::from(uint64.to_vec())),
        Arc::new(UInt64Array::from_iter_values(uint64.into_iter().flatten())),
        Arc::new(Int32Array::from(int32.to_vec())),
        Arc::new(Int32Array::from_iter_values(int32.into_iter().flatten())),
        Arc::new(UInt32Array::from(uint32.to_vec())),
    ];
    for device in devices() {
        for (left, right) in columns.iter().flat_map(|left| columns.iter().map(move |right| (left, right))) {
            let (lefts, rights) = (wide(left), wide(right));
            for nulls in [NullEquality::NothingEquals, NullEquality::NullEquals] {
                let pairs = lefts.iter().zip(0_u32..).flat_map(|(a, i)| {
                    let equal = move |b: &Option<i128>| a == b && (a.is_some() || nulls == NullEquality::NullEquals);
                    rights.iter().zip(0_u32..).filter(move |(b, _)| equal(b)).map(move |(_, j)| (i, j))
                });
                let (of_left, of_right): (Vec<u32>, Vec<u32>) = pairs.unzip();
                let sides = [left, right].map(|side| Keys::of_arrays(std::slice::from_ref(side)).expect("keys"));
                let rows = join(&device, &sides[0], &sides[1], JoinKind::Inner, nulls).expect("rows");
                let what = format!("{} with {}, {nulls:?}", left.data_type(), right.data_type());
                assert_eq!((rows.left, rows.right), (of_left.into(), Some(of_right.into())), "{what}");
            }
        }
    }
}

/// Texts whose first bytes are equal, and texts that are the start of others.
#[test]
fn ascending_texts_have_the_order_of_their_bytes() {
    let long = "the same first bytes, ";
    let mut texts: Vec<String> = ["", "\0", "\0\0", "a", "a\0", "a\0b", "ab", "\u{e9}"].map(String::from).to_vec();
    texts.extend((0..200).flat_map(|i| [format!("{long}{}", i * 7919 % 211), format!("{}{long}", i % 13)]));
    let column = StringArray::from_iter_values(&texts);
    let groups = factorize(&devices()[0], &keys(column), IdOrder::Ascending, NullKeys::Group).expect("groups");
    let found: Vec<&String> = groups.rows.values().iter().map(|&row| &texts[row as usize]).collect();
    let expected: std::collections::BTreeSet<&String> = texts.iter().collect();
    assert!(found.iter().copied().eq(expected), "{found:?}");
}

#[test]
fn ascending_floats_have_one_zero_and_one_nan() {
    let values = vec![f64::NAN, 1.0, -0.0, -f64::NAN, 0.0, f64::NEG_INFINITY];
    let dictionary = |values: ArrayRef| {
        let keys = Int8Array::from_iter_values(0..values.len() as i8);
        DictionaryArray::<Int8Type>::new(keys, values)
    };
    let floats = Float64Array::from(values.clone());
    let singles = Float32Array::from_iter_values(values.iter().map(|&value| value as f32));
    let field = Field::new("f", DataType::Float64, false);
    let all: [ArrayRef; 4] = [
        Arc::new(floats.clone()),
        Arc::new(singles.clone()),
        Arc::new(dictionary(Arc::new(singles))),
        Arc::new(StructArray::new(vec![field].into(), vec![Arc::new(floats)], None)),
    ];
    let ones: ArrayRef = Arc::new(Int32Array::from(vec![2, 2, 2, 1, 1, 2]));
    for array in all {
        let alone = Keys::of_arrays(std::slice::from_ref(&array)).expect("keys");
        let groups = factorize(&devices()[0], &alone, IdOrder::Ascending, NullKeys::Group).expect("groups");
        assert_eq!((groups.rows, groups.codes), (vec![5, 2, 1, 0].into(), vec![3, 2, 1, 3, 1, 0].into()));
        // Rows that are equal in the first column are ordered by the second column.
        let both = Keys::of_arrays(&[array, ones.clone()]).expect("keys");
        let groups = factorize(&devices()[0], &both, IdOrder::Ascending, NullKeys::Group).expect("groups");
        assert_eq!(groups.rows, vec![5, 4, 2, 1, 3, 0].into());
    }
}

/// Rows of one dictionary in batches, as read from a file.
fn batches(dictionary: &DictionaryArray<Int32Type>, rows: usize) -> Column {
    let schema = Arc::new(Schema::new(vec![Field::new("d", dictionary.data_type().clone(), true)]));
    let batch = |row| RecordBatch::try_new(schema.clone(), vec![Arc::new(dictionary.slice(row, 1))]).expect("a batch");
    let batches: Vec<_> = (0..rows).map(batch).collect();
    Column::of_batches(&schema, &batches, "d").expect("the column")
}

#[test]
fn shared_dictionaries_are_processed_once() {
    let values: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None, Some("b"), Some("a"), Some("never")]));
    // The value under a null key is unspecified, and a value may be null.
    let of_row = vec![2, 0, 1, 3, i32::MAX, 2];
    let there = Some(vec![true, true, true, true, false, true].into());
    let dictionary = DictionaryArray::<Int32Type>::new(Int32Array::new(of_row.into(), there), values);
    let column = batches(&dictionary, 6);
    assert_eq!(column.chunks().len(), 6);
    let leaf = &leaves("d", column.data_type(), column.chunks()).expect("strings")[0];
    assert_eq!(StringColumn::of(leaf).expect("strings").len(), 5);
    let several = Keys::new(vec![column]).expect("keys");
    for device in devices() {
        let groups = factorize(&device, &several, IdOrder::FirstSeen, NullKeys::Group).expect("groups");
        assert_eq!((groups.codes, groups.rows), (vec![0, 1, 2, 1, 2, 0].into(), vec![0, 1, 2].into()));
        let plain = keys(StringArray::from(vec![Some("never"), Some("a"), None, Some("b")]));
        for (left, right, pairs) in [
            (&plain, &several, vec![(1, 1), (1, 3), (2, 2), (2, 4), (3, 0), (3, 5)]),
            (&several, &plain, vec![(0, 3), (1, 1), (2, 2), (3, 1), (4, 2), (5, 3)]),
        ] {
            let rows = join(&device, left, right, JoinKind::Inner, NullEquality::NullEquals).expect("rows");
            let (of_left, of_right): (Vec<u32>, Vec<u32>) = pairs.into_iter().unzip();
            assert_eq!((rows.left, rows.right), (of_left.into(), Some(of_right.into())));
        }
    }
}

#[test]
fn dictionaries_too_large_to_merge_are_reported() {
    let of = |first: i32| -> DictionaryArray<Int8Type> {
        let texts = (first..first + 100).map(|i| Some(i.to_string())).collect::<Vec<_>>();
        texts.iter().map(|text| text.as_deref()).collect()
    };
    let schema = Schema::new(vec![Field::new("d", of(0).data_type().clone(), true)]);
    let batch = |first| RecordBatch::try_new(Arc::new(schema.clone()), vec![Arc::new(of(first))]).expect("a batch");
    let column = |second| Column::of_batches(&schema, &[batch(0), batch(second)], "d").expect("the column");
    let rows = UInt32Array::from(vec![Some(199), None, Some(0)]);
    for outcome in [column(100).take(&rows), column(100).one_piece().map(|column| column.chunks()[0].clone())] {
        let error = outcome.expect_err("200 values").to_string();
        assert!(error.contains("column `d`") && error.contains("cast it to Dictionary(Int32, LargeUtf8)"), "{error}");
    }
    let plain = column(100).plain().expect("text");
    assert_eq!(*plain.data_type(), DataType::Utf8);
    assert_eq!(plain.take(&rows).expect("rows").as_ref(), &StringArray::from(vec![Some("199"), None, Some("0")]));
    assert_eq!(plain.one_piece().expect("one piece").len(), 200);
    let inner = Field::new("d", of(0).data_type().clone(), true);
    let whole = StructArray::new(vec![inner].into(), vec![Arc::new(of(0))], None);
    let plain = Column::new("s", Arc::new(whole)).plain().expect("text");
    assert_eq!(*plain.data_type(), DataType::Struct(vec![Field::new("d", DataType::Utf8, true)].into()));
}

#[test]
fn rows_are_taken_from_the_pieces_that_have_them() {
    let whole = Int64Array::from_iter((0..40).map(|number| (number % 7 != 3).then_some(number)));
    let whole: ArrayRef = Arc::new(whole);
    let dictionary = |values| DataType::Dictionary(Box::new(DataType::Int8), Box::new(values));
    let types = [
        DataType::Int64,
        DataType::Utf8,
        DataType::Utf8View,
        DataType::LargeBinary,
        dictionary(DataType::Utf8),
        dictionary(DataType::Utf8View),
    ];
    let cast = |of: &DataType| match of {
        DataType::LargeBinary => {
            let text = arrow_cast::cast(&whole, &DataType::Utf8).expect("text");
            arrow_cast::cast(&text, of).expect("a cast")
        }
        DataType::Dictionary(_, values) => {
            let values = arrow_cast::cast(&whole, values).expect("text");
            let keys = Int8Array::from_iter((0..40_i8).map(|key| (key % 7 != 3).then_some(key)));
            Arc::new(DictionaryArray::new(keys, values)) as ArrayRef
        }
        of => arrow_cast::cast(&whole, of).expect("a cast"),
    };
    let mut all: Vec<ArrayRef> = types.iter().map(cast).collect();
    let inner = Field::new("t", DataType::Utf8View, true);
    all.push(Arc::new(StructArray::new(vec![inner].into(), vec![all[2].clone()], whole.nulls().cloned())));
    for array in all {
        let pieces = [0..10, 10..10, 10..25, 25..26, 26..40];
        let chunks = pieces.map(|rows| array.slice(rows.start, rows.len())).to_vec();
        let column = Column::of_chunks("x", array.data_type(), chunks).expect("the column");
        let runs = (0..40).flat_map(|start| (start..=40).map(move |end| (start..end).map(Some).collect::<Vec<_>>()));
        let others = [
            vec![Some(12), None, Some(24)],
            vec![Some(39), Some(0), Some(25), None],
            vec![None, None],
            vec![Some(26), Some(26)],
            // Ascending rows that are not consecutive: from several pieces, and none from the first piece.
            vec![Some(3), Some(12), Some(12), Some(25), Some(39)],
            vec![Some(11), Some(13), Some(26), Some(26)],
        ];
        for rows in runs.chain(others).map(UInt32Array::from) {
            let expected = arrow_select::take::take(&array, &rows, None).expect("rows");
            let found = column.take(&rows).expect("rows");
            // The dictionaries may differ, but the rows have the same values.
            let plain = |array: &ArrayRef| Column::new("x", array.clone()).plain().expect("values").chunks()[0].clone();
            assert_eq!(plain(&found).as_ref(), plain(&expected).as_ref(), "{} {rows:?}", array.data_type());
        }
        // Consecutive rows in one piece are not copied.
        let run = column.take(&vec![12, 13, 14].into()).expect("rows").to_data();
        assert!(run.ptr_eq(&array.slice(12, 3).to_data()), "{}", array.data_type());
    }
}

#[test]
fn a_dictionary_that_pieces_share_counts_once() {
    let of_10 = |values: ArrayRef| DictionaryArray::<Int8Type>::new(Int8Array::from_iter_values(0..10), values);
    let texts = (0..10).map(|i| format!("category {i}")).collect::<Vec<_>>();
    let text: ArrayRef = Arc::new(StringArray::from_iter_values(&texts));
    let views: ArrayRef = Arc::new(arrow_array::StringViewArray::from_iter_values(&texts));
    for dictionary in [of_10(text), of_10(views)] {
        let array: ArrayRef = Arc::new(dictionary);
        let chunks = vec![array.clone(); 20];
        let column = Column::of_chunks("c", array.data_type(), chunks).expect("the column");
        assert_eq!(column.one_piece().expect("one dictionary").len(), 200);
        let taken = column.take(&UInt32Array::from(vec![Some(199), None, Some(3)])).expect("one dictionary");
        assert_eq!((taken.data_type(), taken.null_count()), (array.data_type(), 1));
        let keys = Keys::new(vec![column]).expect("keys");
        let groups = factorize(&devices()[0], &keys, IdOrder::Ascending, NullKeys::Group).expect("groups");
        assert_eq!(groups.rows.len(), 10);
    }
}

#[test]
fn small_dictionaries_of_pieces_may_differ() {
    // The keys of the pieces have one byte, and the pieces together have more values than such keys can number.
    let piece = |piece: i32| -> ArrayRef {
        let texts = StringArray::from_iter_values((0..100).map(|i| format!("{}", piece * 50 + i)));
        Arc::new(DictionaryArray::<Int8Type>::new(Int8Array::from_iter_values(0..100), Arc::new(texts)))
    };
    let chunks: Vec<ArrayRef> = (0..5).map(piece).collect();
    let column = Column::of_chunks("c", &chunks[0].data_type().clone(), chunks).expect("the column");
    let keys = Keys::new(vec![column]).expect("keys");
    // Piece p has the texts from 50 p to 50 p + 99. The first half of them is also in the previous piece.
    let expected: Vec<u32> = (0..500).map(|row| row / 100 * 50 + row % 100).collect();
    let firsts: Vec<u32> = (0..500).filter(|row| row / 100 == 0 || row % 100 >= 50).collect();
    for device in devices() {
        let groups = factorize(&device, &keys, IdOrder::FirstSeen, NullKeys::Group).expect("groups");
        assert_eq!((groups.codes.values().to_vec(), groups.rows.values().to_vec()), (expected.clone(), firsts.clone()));
        let rows = distinct(&device, &keys, IdOrder::FirstSeen, NullKeys::Group).expect("rows");
        assert_eq!(rows.values().to_vec(), firsts);
        let texts = arrow_cast::cast(&groups.keys(&keys).expect("the keys")[0], &DataType::Utf8).expect("texts");
        assert_eq!(texts.as_ref(), &StringArray::from_iter_values((0..300).map(|i| i.to_string())));
    }
}

#[test]
fn structs_without_fields_are_keys() {
    let structs: ArrayRef = Arc::new(StructArray::new_empty_fields(3, Some(vec![true, false, true].into())));
    let keys = Keys::of_arrays(&[structs]).expect("keys");
    let groups = factorize(&devices()[0], &keys, IdOrder::Ascending, NullKeys::Group).expect("groups");
    assert_eq!((groups.codes, groups.rows), (vec![0, 1, 0].into(), vec![0, 1].into()));
    assert_eq!(keys.columns()[0].plain().expect("the same").len(), 3);
}

#[test]
fn columns_of_too_many_rows_are_refused() {
    let nulls: ArrayRef = Arc::new(arrow_array::NullArray::new(u32::MAX as usize / 2));
    let error = Column::of_chunks("n", &DataType::Null, vec![nulls; 3]).expect_err("rows").to_string();
    assert!(error.contains("too many rows of a table (give it in parts)"), "{error}");
}

#[test]
fn types_that_no_array_has_are_refused() {
    let groups = |of| {
        let keys = Keys::new(vec![Column::of_chunks("t", &of, Vec::new()).expect("no rows")]).expect("keys");
        factorize(&devices()[0], &keys, IdOrder::FirstSeen, NullKeys::Group)
    };
    let error = groups(DataType::Time32(TimeUnit::Nanosecond)).expect_err("no such type").to_string();
    assert!(error.contains("use a type of Arrow's format"), "{error}");
    assert!(groups(DataType::Time64(TimeUnit::Nanosecond)).expect("a type of Arrow's").is_empty());
}

#[test]
fn missing_rows_and_columns_are_errors() {
    let column = Column::new("x", Arc::new(Int64Array::from(vec![1, 2])));
    let error = column.take(&vec![0, 2].into()).expect_err("two rows").to_string();
    assert!(error.contains("row 2 of column `x`, which has 2 rows"), "{error}");
    assert!(column.take(&UInt32Array::from(vec![None, Some(1)])).is_ok());
    // The number under a null is not a row number.
    let under = UInt32Array::new(vec![7, 1].into(), Some(vec![false, true].into()));
    assert_eq!(column.take(&under).expect("rows").as_ref(), &Int64Array::from(vec![None, Some(2)]));

    let field = |name: &str, of| Field::new(name, of, true);
    let schema = Schema::new(vec![field("a", DataType::Int64), field("b", DataType::Utf8)]);
    let narrow = Arc::new(Schema::new(vec![field("a", DataType::Int64)]));
    let batch = RecordBatch::try_new(narrow, vec![Arc::new(Int64Array::from(vec![1]))]).expect("a batch");
    let error = Column::of_batches(&schema, &[batch], "b").expect_err("no b").to_string();
    assert!(error.contains("a batch has no column `b`"), "{error}");
}

fn aggregated(device: &Any, of: Column, groups: Vec<Option<i64>>, function: Function) -> ArrayRef {
    let wanted = [Aggregation::new(function, of)];
    let keys = keys(Int64Array::from(groups));
    let table = group_by(device, &keys, &wanted, IdOrder::FirstSeen, NullKeys::Drop).expect("groups");
    table.column(1).clone()
}

#[test]
fn structs_with_a_null_in_them_are_counted() {
    let inner = Int64Array::from(vec![None, None, Some(1), Some(1), None, None]);
    let there = vec![true, true, true, true, false, true];
    let structs = StructArray::new(
        vec![Field::new("i", DataType::Int64, true)].into(),
        vec![Arc::new(inner)],
        Some(there.into()),
    );
    let column = Column::new("s", Arc::new(structs));
    for device in devices() {
        let groups = vec![Some(7), Some(7), Some(7), Some(7), Some(8), None];
        let count = |function| aggregated(&device, column.clone(), groups.clone(), function);
        assert_eq!(count(Function::DistinctCount).as_ref(), &Int64Array::from(vec![2, 0]));
        assert_eq!(count(Function::Count).as_ref(), &Int64Array::from(vec![4, 0]));
    }
}

#[test]
fn text_without_rows_has_extremes() {
    let schema = Schema::new(vec![Field::new("t", DataType::Utf8, true)]);
    let none = || Column::of_batches(&schema, &[], "t").expect("the column");
    for function in [Function::Min, Function::Max, Function::First, Function::DistinctCount] {
        assert_eq!(aggregated(&devices()[0], none(), vec![], function).len(), 0, "{}", function.name());
    }
}

#[test]
fn columns_without_a_chunk_have_no_rows_of_any_type() {
    let some: ArrayRef = Arc::new(StringArray::from(vec![Some("fig"), None]));
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None]));
    for (device, some) in devices().iter().flat_map(|device| [(device, &some), (device, &numbers)]) {
        let column = |chunks| Column::of_chunks("c", some.data_type(), chunks).expect("the column");
        let (none, some) = (column(Vec::new()), column(vec![some.clone()]));
        let [none, some] = [none, some].map(|column| Keys::new(vec![column]).expect("keys"));
        for (left, right, rows) in [(&some, &none, 2), (&none, &some, 0), (&none, &none, 0)] {
            let all = join(device, left, right, JoinKind::Left, NullEquality::NullEquals).expect("rows");
            assert_eq!(all.len(), rows);
            let pairs = join(device, left, right, JoinKind::Inner, NullEquality::NullEquals).expect("rows");
            assert!(pairs.is_empty());
        }
        assert!(factorize(device, &none, IdOrder::Ascending, NullKeys::Group).expect("groups").is_empty());
    }
}
