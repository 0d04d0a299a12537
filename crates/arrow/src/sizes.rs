//! How many bytes rows take: those of a slice alone, and not of the memory that it is a part of.

use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;

/// Bytes of a row where nobody knows, as of unions.
const UNKNOWN: usize = 16;

/// Views of texts that are in them hold as many bytes.
const INLINE: usize = 12;

/// About how many bytes the rows of a batch take, without what else is in their buffers. Values that a dictionary names are not
/// counted.
pub fn row_bytes(batch: &RecordBatch) -> usize {
    batch.columns().iter().map(|column| array_bytes(column)).sum()
}

/// About how many bytes an array takes.
pub(crate) fn array_bytes(array: &dyn Array) -> usize {
    if let Some(dictionary) = array.as_any_dictionary_opt() {
        return array_bytes(dictionary.keys());
    }
    let rows = array.len();
    let nulls = if array.nulls().is_some() { rows.div_ceil(8) } else { 0 };
    nulls
        + match array.data_type() {
            DataType::Null => 0,
            DataType::Boolean => rows.div_ceil(8),
            DataType::FixedSizeBinary(width) => rows * usize::try_from(*width).unwrap_or(0),
            DataType::Utf8 => 4 * rows + between(array.as_string::<i32>().value_offsets()).1,
            DataType::LargeUtf8 => 8 * rows + between(array.as_string::<i64>().value_offsets()).1,
            DataType::Binary => 4 * rows + between(array.as_binary::<i32>().value_offsets()).1,
            DataType::LargeBinary => 8 * rows + between(array.as_binary::<i64>().value_offsets()).1,
            DataType::Utf8View => of_views(array.as_string_view().views()),
            DataType::BinaryView => of_views(array.as_binary_view().views()),
            DataType::List(_) => 4 * rows + within(array.as_list::<i32>().values(), array.as_list::<i32>().offsets()),
            DataType::LargeList(_) => {
                8 * rows + within(array.as_list::<i64>().values(), array.as_list::<i64>().offsets())
            }
            DataType::Map(..) => 4 * rows + within(array.as_map().entries(), array.as_map().offsets()),
            DataType::FixedSizeList(..) => array_bytes(array.as_fixed_size_list().values()),
            DataType::Struct(_) => array.as_struct().columns().iter().map(|column| array_bytes(column)).sum(),
            other => rows * other.primitive_width().unwrap_or(UNKNOWN),
        }
}

/// Where the values of some rows begin, and how many they are.
fn between<T: Copy + TryInto<usize>>(offsets: &[T]) -> (usize, usize) {
    let at = |offset: Option<&T>| offset.and_then(|&offset| offset.try_into().ok()).unwrap_or(0);
    let (first, last) = (at(offsets.first()), at(offsets.last()));
    (first, last.saturating_sub(first))
}

fn within<T: Copy + TryInto<usize>>(values: &dyn Array, offsets: &[T]) -> usize {
    let (first, length) = between(offsets);
    array_bytes(&values.slice(first, length))
}

fn of_views(views: &[u128]) -> usize {
    // The low half of its first word is the length of a text.
    let lengths = views.iter().map(|view| (view & u128::from(u32::MAX)) as usize);
    size_of_val(views) + lengths.filter(|&length| length > INLINE).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::builder::{Int64Builder, ListBuilder, StringDictionaryBuilder};
    use arrow_array::types::Int32Type;
    use arrow_array::{ArrayRef, BooleanArray, Int64Array, StringArray, StringViewArray, StructArray};

    use super::*;

    #[test]
    fn slices_take_what_their_rows_do() {
        let long = "x".repeat(100);
        let texts: ArrayRef = Arc::new(StringArray::from(vec![&long, "", &long, "ab"]));
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, Some(3), Some(4)]));
        let mut lists = ListBuilder::new(Int64Builder::new());
        for length in [100, 0, 0, 3] {
            lists.append_value((0..length).map(Some));
        }
        let mut names = StringDictionaryBuilder::<Int32Type>::new();
        names.extend([Some(&long[..]), None, Some("b"), Some("c")]);
        let both = StructArray::try_from(vec![("a", texts.clone()), ("b", numbers.clone())]).expect("columns");
        let cases: [(ArrayRef, usize, usize); 7] = [
            (texts, 4 * 4 + 202, 2 * 4 + 102),
            (numbers, 4 * 8 + 1, 2 * 8 + 1),
            (Arc::new(BooleanArray::from(vec![true; 4])), 1, 1),
            (Arc::new(StringViewArray::from(vec![&long, "ab", "", &long[..13]])), 4 * 16 + 113, 2 * 16 + 13),
            (Arc::new(lists.finish()), 4 * 4 + 103 * 8, 2 * 4 + 3 * 8),
            (Arc::new(names.finish()), 4 * 4 + 1, 2 * 4 + 1),
            (Arc::new(both), 4 * 12 + 203, 2 * 12 + 103),
        ];
        for (array, all, last) in cases {
            assert_eq!((array_bytes(&array), array_bytes(&array.slice(2, 2))), (all, last), "{}", array.data_type());
        }
    }
}
