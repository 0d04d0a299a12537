//! The number of bytes of rows, computed from their values. It does not depend on buffers, on the division into
//! batches, or on the values under nulls, so tables are split by bytes at positions that depend on the rows only.
//!
//! ```text
//! bytes of rows   rows * slot(type) + content(rows)
//! slot            the fixed size of each row: numbers, offsets of text and lists, the fields of a struct
//! content         the bytes of texts and of elements of lists, for rows that are not null
//! dictionaries    count as the values of their rows
//! ```

use std::ops::Range;

use arrow_array::array::AnyDictionaryArray;
use arrow_array::cast::AsArray;
use arrow_array::{Array, OffsetSizeTrait, RecordBatch};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;

/// The number of bytes that is assumed for a row of a type whose values are not measured, such as a union.
const UNKNOWN: usize = 16;

/// The length up to which texts are stored in their views.
const INLINE: u32 = 12;

/// Returns the number of bytes of the rows of a batch.
pub fn row_bytes(batch: &RecordBatch) -> usize {
    batch.columns().iter().map(|column| array_bytes(column)).sum()
}

/// Returns how many rows, from the first on, take at most `most` bytes together, and the number of their bytes.
///
/// Cost: one pass over the lengths of texts and lists.
pub fn rows_within(batch: &RecordBatch, most: usize) -> (usize, usize) {
    // Each row takes at least the bytes of its slots, which limits the number of rows.
    let slots: usize = batch.columns().iter().map(|column| slot(column.data_type())).sum();
    let most_rows = batch.num_rows().min(most.checked_div(slots).unwrap_or(usize::MAX));
    let (mut within, mut bytes, mut end) = (0, 0, most_rows);
    while within < end {
        // Try all rows first, because they usually fit.
        let rows = if bytes == 0 && end == most_rows { end } else { (end - within).div_ceil(2) };
        let next = within..within + rows;
        let more: usize = batch.columns().iter().map(|column| bytes_of(column, next.clone())).sum();
        match bytes + more <= most {
            true => (within, bytes) = (next.end, bytes + more),
            false => end = next.end - 1,
        }
    }
    (within, bytes)
}

/// Returns the number of bytes of the rows of an array.
pub(crate) fn array_bytes(array: &dyn Array) -> usize {
    bytes_of(array, 0..array.len())
}

fn bytes_of(array: &dyn Array, rows: Range<usize>) -> usize {
    rows.len() * slot(array.data_type()) + content(array, rows)
}

/// Adds the bytes of each row of an array that are not in its slot.
pub(crate) fn add_contents(array: &dyn Array, of_rows: &mut [u32]) {
    fn add<T: OffsetSizeTrait>(offsets: &[T], of_rows: &mut [u32]) {
        for (of_row, ends) in of_rows.iter_mut().zip(offsets.windows(2)) {
            *of_row = of_row.saturating_add((ends[1] - ends[0]).as_usize() as u32);
        }
    }
    match array.data_type() {
        DataType::Utf8 => add(array.as_string::<i32>().value_offsets(), of_rows),
        DataType::LargeUtf8 => add(array.as_string::<i64>().value_offsets(), of_rows),
        DataType::Utf8View => add_views(array.as_string_view().views(), array.nulls(), of_rows),
        DataType::BinaryView => add_views(array.as_binary_view().views(), array.nulls(), of_rows),
        fixed if is_fixed(fixed) => (),
        DataType::Dictionary(..) => {
            let mut of_rows = of_rows.iter_mut();
            each_value(array.as_any_dictionary(), |bytes| {
                if let Some(of_row) = of_rows.next() {
                    *of_row = of_row.saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX));
                }
            });
        }
        _ => {
            for (row, of_row) in of_rows.iter_mut().enumerate() {
                *of_row = of_row.saturating_add(u32::try_from(content(array, row..row + 1)).unwrap_or(u32::MAX));
            }
        }
    }
}

fn add_views(views: &[u128], nulls: Option<&NullBuffer>, of_rows: &mut [u32]) {
    for (row, (of_row, view)) in of_rows.iter_mut().zip(views).enumerate() {
        let is_there = nulls.is_none_or(|nulls| nulls.is_valid(row));
        *of_row = of_row.saturating_add(if is_there { of_view(view) } else { 0 });
    }
}

/// The number of bytes of the slot of a row of a type.
pub(crate) fn slot(data_type: &DataType) -> usize {
    match data_type {
        DataType::Null => 0,
        DataType::Boolean => 1,
        DataType::FixedSizeBinary(width) => usize::try_from(*width).unwrap_or(0),
        DataType::Utf8 | DataType::Binary | DataType::List(_) | DataType::Map(..) => 4,
        DataType::LargeUtf8 | DataType::LargeBinary | DataType::LargeList(_) => 8,
        DataType::Utf8View | DataType::BinaryView => 16,
        DataType::FixedSizeList(of, length) => usize::try_from(*length).unwrap_or(0) * slot(of.data_type()),
        DataType::Struct(fields) => fields.iter().map(|field| slot(field.data_type())).sum(),
        DataType::Dictionary(_, values) => slot(values),
        other => other.primitive_width().unwrap_or(UNKNOWN),
    }
}

/// Whether rows of a type have no bytes outside of their slots.
pub(crate) fn is_fixed(data_type: &DataType) -> bool {
    match data_type {
        DataType::FixedSizeList(of, _) => is_fixed(of.data_type()),
        DataType::Struct(fields) => fields.iter().all(|field| is_fixed(field.data_type())),
        DataType::Dictionary(_, values) => is_fixed(values),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => false,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => false,
        DataType::List(_) | DataType::LargeList(_) | DataType::Map(..) => false,
        _ => true,
    }
}

/// The number of bytes of some rows in addition to their slots.
fn content(array: &dyn Array, rows: Range<usize>) -> usize {
    if rows.is_empty() || is_fixed(array.data_type()) {
        return 0;
    }
    let of_valid = |of: &dyn Fn(Range<usize>) -> usize| valid(array.nulls(), rows.clone(), of);
    match array.data_type() {
        DataType::Utf8 => of_valid(&|rows| between(array.as_string::<i32>().value_offsets(), rows).len()),
        DataType::LargeUtf8 => of_valid(&|rows| between(array.as_string::<i64>().value_offsets(), rows).len()),
        DataType::Binary => of_valid(&|rows| between(array.as_binary::<i32>().value_offsets(), rows).len()),
        DataType::LargeBinary => of_valid(&|rows| between(array.as_binary::<i64>().value_offsets(), rows).len()),
        DataType::Utf8View => of_valid(&|rows| of_views(&array.as_string_view().views()[rows])),
        DataType::BinaryView => of_valid(&|rows| of_views(&array.as_binary_view().views()[rows])),
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            of_valid(&|rows| bytes_of(list.values(), between(list.value_offsets(), rows)))
        }
        DataType::LargeList(_) => {
            let list = array.as_list::<i64>();
            of_valid(&|rows| bytes_of(list.values(), between(list.value_offsets(), rows)))
        }
        DataType::Map(..) => {
            let map = array.as_map();
            of_valid(&|rows| bytes_of(map.entries(), between(map.value_offsets(), rows)))
        }
        DataType::FixedSizeList(_, length) => {
            let (list, length) = (array.as_fixed_size_list(), usize::try_from(*length).unwrap_or(0));
            of_valid(&|rows| content(list.values(), rows.start * length..rows.end * length))
        }
        DataType::Struct(_) => {
            let columns = array.as_struct().columns();
            of_valid(&|rows| columns.iter().map(|column| content(column, rows.clone())).sum())
        }
        DataType::Dictionary(..) => {
            let mut sum = 0;
            each_value(array.slice(rows.start, rows.len()).as_any_dictionary(), |bytes| sum += bytes);
            sum
        }
        _ => 0,
    }
}

/// Calls `put` with the content of the value of each row, 0 for nulls. The loops over text and binary are short, so
/// that the processor loads several values at a time from a dictionary that exceeds the caches.
fn each_value(dictionary: &dyn AnyDictionaryArray, mut put: impl FnMut(usize)) {
    let (values, nulls) = (dictionary.values(), dictionary.nulls());
    // All rows are null.
    if values.is_empty() {
        return;
    }
    let keys = dictionary.normalized_keys();
    macro_rules! each {
        (|$at:ident| $bytes:expr) => {{
            let is_there = |row: usize, at: usize| {
                nulls.is_none_or(|nulls| nulls.is_valid(row)) && values.nulls().is_none_or(|nulls| nulls.is_valid(at))
            };
            keys.iter().enumerate().for_each(|(row, &$at)| put(if is_there(row, $at) { $bytes } else { 0 }))
        }};
    }
    macro_rules! texts {
        ($offsets:expr) => {{
            let offsets = $offsets;
            each!(|at| (offsets[at + 1] - offsets[at]) as usize)
        }};
    }
    macro_rules! views {
        ($views:expr) => {{
            let views = $views;
            each!(|at| of_view(&views[at]) as usize)
        }};
    }
    let of_value = |at: usize| content(values, at..at + 1);
    match values.data_type() {
        DataType::Utf8 => texts!(values.as_string::<i32>().value_offsets()),
        DataType::LargeUtf8 => texts!(values.as_string::<i64>().value_offsets()),
        DataType::Binary => texts!(values.as_binary::<i32>().value_offsets()),
        DataType::LargeBinary => texts!(values.as_binary::<i64>().value_offsets()),
        DataType::Utf8View => views!(values.as_string_view().views()),
        DataType::BinaryView => views!(values.as_binary_view().views()),
        _ if values.len() <= keys.len() => {
            let of_values: Vec<usize> = (0..values.len()).map(of_value).collect();
            each!(|at| of_values[at])
        }
        _ => each!(|at| of_value(at)),
    }
}

/// The sum of `of` over each run of rows that are not null.
fn valid(nulls: Option<&NullBuffer>, rows: Range<usize>, of: &dyn Fn(Range<usize>) -> usize) -> usize {
    match nulls.map(|nulls| nulls.slice(rows.start, rows.len())).filter(|nulls| nulls.null_count() > 0) {
        None => of(rows),
        Some(nulls) => nulls.valid_slices().map(|(start, end)| of(rows.start + start..rows.start + end)).sum(),
    }
}

/// The range of the values that belong to some rows.
fn between<T: Copy + TryInto<usize>>(offsets: &[T], rows: Range<usize>) -> Range<usize> {
    let at = |row: usize| offsets.get(row).and_then(|&offset| offset.try_into().ok()).unwrap_or(0);
    at(rows.start)..at(rows.end)
}

fn of_views(views: &[u128]) -> usize {
    views.iter().map(|view| of_view(view) as usize).sum()
}

/// The number of bytes of a text outside of its view. The lower half of the first word of a view is the length.
#[inline]
fn of_view(view: &u128) -> u32 {
    let length = *view as u32;
    if length > INLINE { length } else { 0 }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::builder::{Int64Builder, ListBuilder, StringDictionaryBuilder};
    use arrow_array::types::Int32Type;
    use arrow_array::{ArrayRef, BooleanArray, DictionaryArray, Int64Array, StringArray, StringViewArray, StructArray};

    use super::*;

    /// Arrays of four rows, with the number of bytes of all rows, and of the last two.
    fn cases() -> [(ArrayRef, usize, usize); 9] {
        let long = "x".repeat(100);
        let texts: ArrayRef = Arc::new(StringArray::from(vec![&long, "", &long, "ab"]));
        let under_nulls = StringArray::new(
            texts.as_string::<i32>().offsets().clone(),
            texts.as_string::<i32>().values().clone(),
            Some(vec![false, true, false, true].into()),
        );
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, Some(3), Some(4)]));
        let mut lists = ListBuilder::new(Int64Builder::new());
        for length in [100, 0, 0, 3] {
            lists.append_value((0..length).map(Some));
        }
        let mut names = StringDictionaryBuilder::<Int32Type>::new();
        names.extend([Some(&long[..]), None, Some("b"), Some(&long)]);
        let both = StructArray::try_from(vec![("a", texts.clone()), ("b", numbers.clone())]).expect("columns");
        [
            (texts, 4 * 4 + 202, 2 * 4 + 102),
            (Arc::new(under_nulls), 4 * 4 + 2, 2 * 4 + 2),
            (numbers, 4 * 8, 2 * 8),
            (Arc::new(BooleanArray::from(vec![true; 4])), 4, 2),
            (Arc::new(StringViewArray::from(vec![&long, "ab", "", &long[..13]])), 4 * 16 + 113, 2 * 16 + 13),
            (Arc::new(lists.finish()), 4 * 4 + 103 * 8, 2 * 4 + 3 * 8),
            (Arc::new(names.finish()), 4 * 4 + 201, 2 * 4 + 101),
            (Arc::new(both), 4 * 12 + 202, 2 * 12 + 102),
            (Arc::new([None::<&str>; 4].into_iter().collect::<DictionaryArray<Int32Type>>()), 4 * 4, 2 * 4),
        ]
    }

    #[test]
    fn slices_have_the_bytes_of_their_rows() {
        for (array, all, last) in cases() {
            assert_eq!((array_bytes(&array), array_bytes(&array.slice(2, 2))), (all, last), "{}", array.data_type());
            let mut contents = [0; 4];
            add_contents(&array, &mut contents);
            let of_slots = 4 * slot(array.data_type());
            if array.null_count() == 0 {
                assert_eq!(of_slots + contents.iter().sum::<u32>() as usize, all, "{}", array.data_type());
            }
        }
    }

    #[test]
    fn rows_are_cut_by_the_sum_of_their_bytes() {
        for (array, all, _) in cases() {
            let batch = RecordBatch::try_from_iter([("a", Arc::clone(&array))]).expect("a column");
            for most in 0..all + 2 {
                let of = |rows: usize| array_bytes(&array.slice(0, rows));
                let expected = (0..=4).rfind(|&rows| of(rows) <= most).map(|rows| (rows, of(rows)));
                assert_eq!(Some(rows_within(&batch, most)), expected, "{most} of {}", array.data_type());
            }
        }
    }
}
