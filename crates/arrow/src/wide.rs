//! Results that do not fit their type: text of more than 2 GiB, or more dictionary values than the keys can number.
//!
//! Arrow's text, binary and lists address 2^31 bytes or values with 32-bit offsets. Results of
//! [`Column::take_wide`](crate::Column::take_wide) have the column's type if the rows fit in it, and otherwise
//! [`wide_type`].

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{ByteArrayType, Int32Type};
use arrow_array::{
    Array, ArrayRef, DictionaryArray, FixedSizeListArray, GenericByteArray, GenericListArray, Int32Array,
    LargeBinaryArray, LargeListArray, LargeStringArray, OffsetSizeTrait, StructArray, downcast_dictionary_array,
};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, FieldRef};

use crate::error::Result;

/// The type with 64-bit offsets, and with dictionary keys of at least 32 bits, at any depth except in maps.
pub(crate) fn wide_type(of: &DataType) -> DataType {
    use DataType::*;
    match of {
        Utf8 => LargeUtf8,
        Binary => LargeBinary,
        List(field) | LargeList(field) => LargeList(wide_field(field)),
        FixedSizeList(field, length) => FixedSizeList(wide_field(field), *length),
        Struct(fields) => Struct(fields.iter().map(wide_field).collect()),
        Dictionary(keys, values) => {
            let keys = match **keys {
                Int8 | Int16 | UInt8 | UInt16 => Box::new(Int32),
                _ => keys.clone(),
            };
            Dictionary(keys, Box::new(wide_type(values)))
        }
        other => other.clone(),
    }
}

fn wide_field(field: &FieldRef) -> FieldRef {
    Arc::new(field.as_ref().clone().with_data_type(wide_type(field.data_type())))
}

/// The same values as an array of [`wide_type`]. Text is not copied.
pub(crate) fn widened(array: &ArrayRef) -> Result<ArrayRef> {
    Ok(match array.data_type() {
        DataType::Utf8 => {
            let array = array.as_string::<i32>();
            Arc::new(LargeStringArray::try_new(offsets(array), array.values().clone(), array.nulls().cloned())?)
        }
        DataType::Binary => {
            let array = array.as_binary::<i32>();
            Arc::new(LargeBinaryArray::try_new(offsets(array), array.values().clone(), array.nulls().cloned())?)
        }
        DataType::List(field) => Arc::new(list(array.as_list::<i32>(), field)?),
        DataType::LargeList(field) => Arc::new(list(array.as_list::<i64>(), field)?),
        DataType::FixedSizeList(field, length) => {
            let list = array.as_fixed_size_list();
            let (values, nulls) = (widened(list.values())?, list.nulls().cloned());
            Arc::new(FixedSizeListArray::try_new_with_length(wide_field(field), *length, values, nulls, list.len())?)
        }
        DataType::Struct(fields) => {
            let array = array.as_struct();
            let columns = array.columns().iter().map(widened).collect::<Result<_>>()?;
            let fields = fields.iter().map(wide_field).collect();
            Arc::new(StructArray::try_new_with_length(fields, columns, array.nulls().cloned(), array.len())?)
        }
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            let values = widened(dictionary.values())?;
            match wide_type(array.data_type()) {
                DataType::Dictionary(keys, _) if *keys == DataType::Int32 => {
                    Arc::new(DictionaryArray::<Int32Type>::try_new(keys_of(array), values)?)
                }
                _ => dictionary.with_values(values),
            }
        }
        _ => Arc::clone(array),
    })
}

fn wide_offsets<O: OffsetSizeTrait>(of: &OffsetBuffer<O>) -> OffsetBuffer<i64> {
    // The new offsets ascend, as `OffsetBuffer` requires, because the original ones do.
    OffsetBuffer::new(of.iter().map(|offset| offset.as_usize() as i64).collect())
}

fn offsets<T: ByteArrayType>(of: &GenericByteArray<T>) -> OffsetBuffer<i64> {
    wide_offsets(of.offsets())
}

fn list<O: OffsetSizeTrait>(of: &GenericListArray<O>, field: &FieldRef) -> Result<LargeListArray> {
    let values = widened(of.values())?;
    Ok(LargeListArray::try_new(wide_field(field), wide_offsets(of.offsets()), values, of.nulls().cloned())?)
}

/// Keys of up to 32 bits. A key under a null is unspecified, and may not fit.
// One of the types is the type of the cast.
#[allow(clippy::unnecessary_cast)]
fn keys_of(array: &ArrayRef) -> Int32Array {
    let keys: ScalarBuffer<i32> = downcast_dictionary_array! {
        array => array.keys().values().iter().map(|&key| key as i32).collect(),
        _ => Vec::new().into(),
    };
    Int32Array::new(keys, array.nulls().cloned())
}

/// Whether Arrow could not create an array because offsets or dictionary keys are too narrow, whatever the error
/// message.
pub(crate) fn is_too_narrow(error: &ArrowError) -> bool {
    match error {
        ArrowError::OffsetOverflowError(_) | ArrowError::DictionaryKeyOverflowError => true,
        ArrowError::InvalidArgumentError(what) => what.contains("offset overflow"),
        _ => false,
    }
}

/// Returns the array. In tests, returns an error if its 32-bit offsets exceed a limit that is lower than 2 GiB.
pub(crate) fn within_offsets(made: ArrayRef) -> std::result::Result<ArrayRef, ArrowError> {
    #[cfg(test)]
    if longest(&made) > tests::MOST.get() {
        return Err(ArrowError::OffsetOverflowError(longest(&made)));
    }
    Ok(made)
}

/// The greatest 32-bit offset in an array.
#[cfg(test)]
fn longest(array: &dyn Array) -> usize {
    let end = |offsets: &[i32]| offsets.last().map_or(0, |&end| end as usize);
    match array.data_type() {
        DataType::Utf8 => end(array.as_string::<i32>().value_offsets()),
        DataType::Binary => end(array.as_binary::<i32>().value_offsets()),
        DataType::List(_) => end(array.as_list::<i32>().value_offsets()).max(longest(array.as_list::<i32>().values())),
        DataType::LargeList(_) => longest(array.as_list::<i64>().values()),
        DataType::FixedSizeList(..) => longest(array.as_fixed_size_list().values()),
        DataType::Struct(_) => array.as_struct().columns().iter().map(|column| longest(column)).max().unwrap_or(0),
        DataType::Dictionary(..) => longest(array.as_any_dictionary().values()),
        _ => 0,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::cell::Cell;

    use arrow_array::builder::{ListBuilder, StringBuilder};
    use arrow_array::types::{Int8Type, UInt16Type};
    use arrow_array::{Int64Array, StringArray, UInt32Array};
    use arrow_schema::Field;
    use koel::IdOrder;

    use super::*;
    use crate::tests::devices;
    use crate::{Aggregation, Column, Error, Function, Keys, NullKeys, distinct, factorize, group_by};

    thread_local! {
        /// The limit of the 32-bit offsets of this thread's arrays.
        pub(super) static MOST: Cell<usize> = const { Cell::new(usize::MAX) };
    }

    fn texts() -> StringArray {
        (0..40).map(|row| (row % 9 > 0).then(|| format!("text {}", row % 20))).collect()
    }

    /// Columns of 40 rows, in three pieces, whose values have 100 bytes or more.
    fn columns() -> Vec<Column> {
        let texts: ArrayRef = Arc::new(texts());
        let binary = arrow_cast::cast(&texts, &DataType::Binary).expect("a cast");
        let field = Field::new("t", DataType::Utf8, true);
        let structs = StructArray::new(vec![field].into(), vec![texts.clone()], texts.nulls().cloned());
        let mut lists = ListBuilder::new(StringBuilder::new());
        for row in 0..40 {
            lists.append_value((0..row % 4).map(|i| Some(format!("{row} {i}"))));
        }
        let dictionary = |of: DataType| {
            let of = DataType::Dictionary(Box::new(of), Box::new(DataType::Utf8));
            arrow_cast::cast(&texts, &of).expect("a cast")
        };
        let all: [ArrayRef; 6] = [
            texts.clone(),
            binary,
            Arc::new(structs),
            Arc::new(lists.finish()),
            dictionary(DataType::UInt8),
            dictionary(DataType::Int64),
        ];
        let pieces = |array: ArrayRef| {
            let chunks = [(0, 15), (15, 5), (20, 20)].map(|(start, rows)| array.slice(start, rows)).to_vec();
            Column::of_chunks("c", array.data_type(), chunks).expect("a column")
        };
        all.map(pieces).into_iter().collect()
    }

    #[test]
    fn rows_that_do_not_fit_are_of_the_wide_type() {
        let rows = UInt32Array::from((0..30).map(|row| (row % 7 > 0).then_some(row * 11 % 40)).collect::<Vec<_>>());
        for column in columns() {
            let expected = column.take(&rows).expect("rows");
            assert_eq!(column.take_wide(&rows).expect("rows").data_type(), column.data_type());
            MOST.set(60);
            let (strict, wide) = (column.take(&rows), column.take_wide(&rows));
            let whole = column.one_piece();
            MOST.set(usize::MAX);
            for error in [strict.expect_err("more than 60 bytes"), whole.expect_err("more than 60 bytes")] {
                assert!(error.is_too_long(), "{error}");
                let to = wide_type(column.data_type());
                let remedy = format!("cast it to {to}");
                assert!(error.to_string().contains("column `c`") && error.to_string().contains(&remedy), "{error}");
            }
            let wide = wide.expect("rows");
            assert_eq!(*wide.data_type(), wide_type(column.data_type()));
            let expected = arrow_cast::cast(&expected, wide.data_type()).expect("a cast");
            let plain = |array: &ArrayRef| Column::new("c", array.clone()).plain().expect("values").chunks()[0].clone();
            assert_eq!(plain(&wide).as_ref(), plain(&expected).as_ref());
        }
    }

    #[test]
    fn groups_may_have_more_text_than_their_types() {
        let (device, groups) = (&devices()[0], (0..40).map(|row| row % 10).collect::<Int64Array>());
        let keys = Keys::of_arrays(&[Arc::new(groups) as ArrayRef]).expect("keys");
        let column = columns().swap_remove(0);
        let functions = [Function::First, Function::Last, Function::Min, Function::Max];
        let wanted = functions.map(|function| Aggregation::new(function, column.clone()));
        let found = |order| group_by(device, &keys, &wanted, order, NullKeys::Group).expect("groups");
        let expected = found(IdOrder::FirstSeen);
        MOST.set(30);
        let wide = found(IdOrder::FirstSeen);
        let text = Keys::new(vec![column.clone()]).expect("keys");
        for order in [IdOrder::FirstSeen, IdOrder::Ascending] {
            let groups = factorize(device, &text, order, NullKeys::Group).expect("groups");
            assert_eq!(*groups.keys(&text).expect("keys")[0].data_type(), DataType::LargeUtf8);
        }
        MOST.set(usize::MAX);
        for (wide, expected) in wide.columns().iter().zip(expected.columns()).skip(1) {
            assert_eq!(*wide.data_type(), DataType::LargeUtf8);
            assert_eq!(wide, &arrow_cast::cast(expected, wide.data_type()).expect("a cast"));
        }
    }

    /// 40 dictionaries of 8 values; 8-bit keys can number 128 values.
    #[test]
    fn dictionaries_of_pieces_may_differ() {
        let text = |number: usize| format!("category {:03}", number * 37 % 300);
        let piece = |piece: usize| -> ArrayRef {
            let texts: Vec<String> = (0..8).map(|i| text(piece * 5 + i)).collect();
            Arc::new(texts.iter().map(|text| Some(text.as_str())).collect::<DictionaryArray<Int8Type>>())
        };
        let chunks: Vec<ArrayRef> = (0..40).map(piece).collect();
        let column = Column::of_chunks("d", &chunks[0].data_type().clone(), chunks).expect("a column");
        let expected: Vec<String> = (0..40).flat_map(|piece| (0..8).map(move |i| text(piece * 5 + i))).collect();
        let keys = Keys::new(vec![column]).expect("keys");
        let mut sorted: Vec<&String> = expected.iter().collect();
        sorted.sort();
        sorted.dedup();
        let mut seen: Vec<&String> = Vec::new();
        expected.iter().for_each(|text| {
            if !seen.contains(&text) {
                seen.push(text)
            }
        });
        let values = |array: &ArrayRef| -> Vec<String> {
            let plain = arrow_cast::cast(array, &DataType::Utf8).expect("text");
            plain.as_string::<i32>().iter().map(|text| text.expect("a value").to_owned()).collect()
        };
        for device in devices() {
            for (order, expected) in [(IdOrder::FirstSeen, &seen), (IdOrder::Ascending, &sorted)] {
                let rows = distinct(&device, &keys, order, NullKeys::Group).expect("rows");
                let groups = factorize(&device, &keys, order, NullKeys::Group).expect("groups");
                assert_eq!(groups.rows, rows);
                let found = groups.keys(&keys).expect("keys");
                assert_eq!(values(&found[0]).iter().collect::<Vec<_>>(), **expected);
                let wanted = [Aggregation::rows(), Aggregation::new(Function::Last, keys.columns()[0].clone())];
                let table = group_by(&device, &keys, &wanted, order, NullKeys::Group).expect("groups");
                assert_eq!(values(table.column(0)), values(&found[0]));
                assert_eq!(values(table.column(2)), values(&found[0]));
            }
        }
        let error = keys.columns()[0].one_piece().expect_err("200 values").to_string();
        assert!(error.contains("cast it to Dictionary(Int32, LargeUtf8)"), "{error}");
        let wide = DataType::Dictionary(DataType::Int32.into(), DataType::LargeUtf8.into());
        let chunks = keys.columns()[0].chunks().iter().map(|chunk| arrow_cast::cast(chunk, &wide).expect("a cast"));
        Column::of_chunks("c", &wide, chunks.collect()).expect("chunks").one_piece().expect("32 bits number them");
    }

    #[test]
    fn types_without_a_wider_one_are_errors() {
        let of: ArrayRef = Arc::new(texts().iter().collect::<DictionaryArray<UInt16Type>>());
        assert_eq!(widened(&of).expect("wider").data_type(), &wide_type(of.data_type()));
        let error: Error = Error::NotOneArray { column: "c\n".into(), found: DataType::Utf8View };
        assert!(error.to_string().contains("column `c\\n`"), "{error}");
    }
}
