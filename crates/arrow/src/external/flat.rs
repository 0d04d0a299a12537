//! Replaces dictionaries, and views in lists and structs, as spill files require.
//!
//! Blocks of rows are written separately: each block would contain a whole dictionary, or all buffers of a view.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, FixedSizeListArray, GenericListArray, LargeBinaryArray, LargeStringArray, MapArray,
    OffsetSizeTrait, StructArray,
};
use arrow_schema::{DataType, FieldRef};

use crate::error::Result;
use crate::take::take;

/// The type of results for a column of this type: at any depth, dictionaries are replaced by their values, and views in
/// lists and structs by large strings.
pub fn result_type(data_type: &DataType) -> DataType {
    type_of(data_type, false)
}

fn type_of(data_type: &DataType, is_inner: bool) -> DataType {
    match data_type {
        DataType::Dictionary(_, values) => type_of(values, is_inner),
        DataType::Utf8View if is_inner => DataType::LargeUtf8,
        DataType::BinaryView if is_inner => DataType::LargeBinary,
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(inner_field).collect()),
        DataType::List(of) => DataType::List(inner_field(of)),
        DataType::LargeList(of) => DataType::LargeList(inner_field(of)),
        DataType::FixedSizeList(of, length) => DataType::FixedSizeList(inner_field(of), *length),
        DataType::Map(of, sorted) => DataType::Map(inner_field(of), *sorted),
        other => other.clone(),
    }
}

fn inner_field(field: &FieldRef) -> FieldRef {
    Arc::new(field.as_ref().clone().with_data_type(type_of(field.data_type(), true)))
}

/// The same values as an array of [`result_type`].
///
/// # Errors
/// [`Error::Arrow`](crate::Error::Arrow) if the values of a dictionary, one per row, exceed the offsets of their type.
pub fn flattened(column: &ArrayRef) -> Result<ArrayRef> {
    array_of(column, false)
}

fn array_of(column: &ArrayRef, is_inner: bool) -> Result<ArrayRef> {
    if type_of(column.data_type(), is_inner) == *column.data_type() {
        return Ok(Arc::clone(column));
    }
    Ok(match column.data_type() {
        DataType::Dictionary(..) => {
            let dictionary = column.as_any_dictionary();
            take(&array_of(dictionary.values(), is_inner)?, dictionary.keys())?
        }
        DataType::Utf8View => Arc::new(column.as_string_view().iter().collect::<LargeStringArray>()),
        DataType::BinaryView => Arc::new(column.as_binary_view().iter().collect::<LargeBinaryArray>()),
        DataType::Struct(_) => Arc::new(struct_of(column.as_struct())?),
        DataType::List(of) => Arc::new(list_of(column.as_list::<i32>(), of)?),
        DataType::LargeList(of) => Arc::new(list_of(column.as_list::<i64>(), of)?),
        DataType::FixedSizeList(of, length) => {
            let list = column.as_fixed_size_list();
            let (values, nulls) = (array_of(list.values(), true)?, list.nulls().cloned());
            Arc::new(FixedSizeListArray::try_new_with_length(inner_field(of), *length, values, nulls, list.len())?)
        }
        DataType::Map(of, sorted) => {
            let map = column.as_map();
            let (first, end) = (map.offsets()[0], map.offsets()[map.len()]);
            let entries = struct_of(&map.entries().slice(first as usize, (end - first) as usize))?;
            let offsets = map.offsets().clone().subtract(first);
            Arc::new(MapArray::try_new(inner_field(of), offsets, entries, map.nulls().cloned(), *sorted)?)
        }
        _ => Arc::clone(column),
    })
}

fn struct_of(of: &StructArray) -> Result<StructArray> {
    let columns = of.columns().iter().map(|column| array_of(column, true)).collect::<Result<Vec<_>>>()?;
    let fields = of.fields().iter().map(inner_field).collect();
    Ok(StructArray::try_new_with_length(fields, columns, of.nulls().cloned(), of.len())?)
}

fn list_of<O: OffsetSizeTrait>(list: &GenericListArray<O>, of: &FieldRef) -> Result<GenericListArray<O>> {
    // A slice refers to the elements of all rows; only the elements of its own rows are converted.
    let (first, end) = (list.offsets()[0], list.offsets()[list.len()]);
    let values = array_of(&list.values().slice(first.as_usize(), (end - first).as_usize()), true)?;
    let offsets = list.offsets().clone().subtract(first);
    Ok(GenericListArray::try_new(inner_field(of), offsets, values, list.nulls().cloned())?)
}

#[cfg(test)]
mod tests {
    use arrow_array::builder::{ListBuilder, StringViewBuilder};

    use super::*;

    #[test]
    fn slices_of_lists_have_the_elements_of_their_rows_alone() {
        let mut lists = ListBuilder::new(StringViewBuilder::new());
        for row in ["a", "b", "c"] {
            lists.values().append_value(row);
            lists.append(true);
        }
        let lists: ArrayRef = Arc::new(lists.finish());
        let last = flattened(&lists.slice(2, 1)).expect("a list");
        let last = last.as_list::<i32>();
        assert_eq!(last.values().len(), 1);
        assert_eq!(last.value(0).as_string::<i64>().value(0), "c");
    }
}
