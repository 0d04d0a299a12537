//! Columns without dictionaries, and without views inside lists and structs: what a spill file holds.
//!
//! A block of rows is written by itself. A dictionary, or the buffers of a view, would be written again with each block.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, FixedSizeListArray, GenericListArray, LargeBinaryArray, LargeStringArray, MapArray,
    OffsetSizeTrait, StructArray,
};
use arrow_schema::{DataType, FieldRef};
use arrow_select::take::take;

use crate::error::Result;

/// The type of results that are made of a column of this type: values in place of dictionaries, at any depth, and large
/// strings in place of views inside lists and structs.
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

/// The same values as a column of [`result_type`].
///
/// # Errors
/// [`Error::Arrow`](crate::Error::Arrow) if the values of a dictionary, one for each row, are longer than their type can
/// address.
pub(super) fn flattened(column: &ArrayRef) -> Result<ArrayRef> {
    array_of(column, false)
}

fn array_of(column: &ArrayRef, is_inner: bool) -> Result<ArrayRef> {
    if type_of(column.data_type(), is_inner) == *column.data_type() {
        return Ok(Arc::clone(column));
    }
    Ok(match column.data_type() {
        DataType::Dictionary(..) => {
            let dictionary = column.as_any_dictionary();
            take(&array_of(dictionary.values(), is_inner)?, dictionary.keys(), None)?
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
            let (entries, nulls) = (struct_of(map.entries())?, map.nulls().cloned());
            Arc::new(MapArray::try_new(inner_field(of), map.offsets().clone(), entries, nulls, *sorted)?)
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
    let values = array_of(list.values(), true)?;
    Ok(GenericListArray::try_new(inner_field(of), list.offsets().clone(), values, list.nulls().cloned())?)
}
