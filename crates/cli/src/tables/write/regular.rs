//! Normalizes arrays: equal rows of a type have equal buffers, however the arrays were cut or computed.
//!
//! ```text
//! nulls        a bitmap only if there is a null; the fields of a null struct are null
//! null values  zeros; no text or elements
//! offsets      begin at zero
//! views        refer to one buffer, which has their texts in order
//! ```
//!
//! Dictionaries are not normalized: their values and the order of these are kept, because readers may rely on them.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowDictionaryKeyType, ByteArrayType, ByteViewType};
use arrow_array::{
    Array, ArrayRef, BooleanArray, DictionaryArray, FixedSizeListArray, GenericByteArray, GenericByteViewArray,
    GenericListArray, MapArray, OffsetSizeTrait, StructArray, UInt64Array, downcast_dictionary_array,
};
use arrow_buffer::{ArrowNativeType, BooleanBuffer, BooleanBufferBuilder, MutableBuffer, NullBuffer, OffsetBuffer};
use arrow_schema::{ArrowError, DataType};
use koel_arrow::take;

/// The same rows in normalized form. Rows that are null in `hidden` become null too.
pub(super) fn regular(array: &ArrayRef, hidden: Option<&NullBuffer>) -> Result<ArrayRef, ArrowError> {
    let nulls = NullBuffer::union(array.nulls(), hidden).filter(|nulls| nulls.null_count() > 0);
    let nulls = nulls.map(|nulls| NullBuffer::new(fresh(nulls.inner())));
    Ok(match array.data_type() {
        DataType::Boolean => {
            let values = array.as_boolean().values();
            let values = nulls.as_ref().map_or_else(|| fresh(values), |nulls| fresh(&(values & nulls.inner())));
            Arc::new(BooleanArray::new(values, nulls))
        }
        DataType::Utf8 => texts(array.as_string::<i32>(), nulls)?,
        DataType::LargeUtf8 => texts(array.as_string::<i64>(), nulls)?,
        DataType::Binary => texts(array.as_binary::<i32>(), nulls)?,
        DataType::LargeBinary => texts(array.as_binary::<i64>(), nulls)?,
        DataType::Utf8View => views(array.as_string_view(), nulls)?,
        DataType::BinaryView => views(array.as_binary_view(), nulls)?,
        DataType::List(_) => list(array.as_list::<i32>(), nulls)?,
        DataType::LargeList(_) => list(array.as_list::<i64>(), nulls)?,
        DataType::Map(field, sorted) => {
            let map = array.as_map();
            let entries: ArrayRef = Arc::new(map.entries().clone());
            let (offsets, entries) = elements(map.offsets(), &entries, nulls.as_ref())?;
            Arc::new(MapArray::try_new(field.clone(), offsets, entries.as_struct().clone(), nulls, *sorted)?)
        }
        DataType::FixedSizeList(field, length) => {
            let list = array.as_fixed_size_list();
            let hidden = nulls.as_ref().map(|nulls| nulls.expand(usize::try_from(*length).unwrap_or(0)));
            let values = regular(list.values(), hidden.as_ref())?;
            Arc::new(FixedSizeListArray::try_new_with_length(field.clone(), *length, values, nulls, list.len())?)
        }
        DataType::Struct(fields) => {
            let columns = array.as_struct().columns();
            let columns = columns.iter().map(|column| regular(column, nulls.as_ref())).collect::<Result<_, _>>()?;
            Arc::new(StructArray::try_new_with_length(fields.clone(), columns, nulls, array.len())?)
        }
        DataType::Dictionary(..) => downcast_dictionary_array!(
            array => names(array, nulls.as_ref())?,
            _ => Arc::clone(array),
        ),
        DataType::FixedSizeBinary(width) => numbers(array, usize::try_from(*width).ok(), nulls)?,
        other => numbers(array, other.primitive_width(), nulls)?,
    })
}

/// Copies bits to the start of a new buffer, followed by zeros.
fn fresh(bits: &BooleanBuffer) -> BooleanBuffer {
    let mut fresh = BooleanBufferBuilder::new(bits.len());
    fresh.append_buffer(bits);
    fresh.finish()
}

/// Normalizes an array whose values have `width` bytes each: nulls become zeros. Arrays of other layouts are unchanged.
fn numbers(array: &ArrayRef, width: Option<usize>, nulls: Option<NullBuffer>) -> Result<ArrayRef, ArrowError> {
    let Some(width) = width.filter(|_| nulls.is_some() || array.nulls().is_some()) else {
        return Ok(Arc::clone(array));
    };
    let data = array.to_data();
    let values = data.buffers()[0].slice_with_length(data.offset() * width, data.len() * width);
    let values = match &nulls {
        None => values,
        Some(nulls) => {
            let mut all = MutableBuffer::from_len_zeroed(values.len());
            for (start, end) in nulls.valid_slices() {
                all[start * width..end * width].copy_from_slice(&values[start * width..end * width]);
            }
            all.into()
        }
    };
    let regular = data.into_builder().offset(0).null_bit_buffer(None).nulls(nulls).buffers(vec![values]);
    Ok(arrow_array::make_array(regular.build()?))
}

/// Normalizes only the keys: all blocks share the values, which would be validated again with each block.
fn names<K: ArrowDictionaryKeyType>(
    array: &DictionaryArray<K>,
    nulls: Option<&NullBuffer>,
) -> Result<ArrayRef, ArrowError> {
    let keys: ArrayRef = Arc::new(array.keys().clone());
    let keys = regular(&keys, nulls)?.as_primitive::<K>().clone();
    Ok(Arc::new(DictionaryArray::try_new(keys, Arc::clone(array.values()))?))
}

fn texts<T: ByteArrayType>(array: &GenericByteArray<T>, nulls: Option<NullBuffer>) -> Result<ArrayRef, ArrowError> {
    let offsets = array.offsets();
    let is_empty = |(start, end): (usize, usize)| offsets[start] == offsets[end];
    match &nulls {
        None if array.nulls().is_none() => return Ok(Arc::new(array.clone())),
        Some(nulls) if !(!nulls.inner()).set_slices().all(is_empty) => {
            let rows = nulls.iter().enumerate().map(|(row, is_there)| is_there.then(|| array.value(row)));
            return Ok(Arc::new(rows.collect::<GenericByteArray<T>>()));
        }
        _ => {}
    }
    // Keeps only the text of these rows; it is validated again.
    let (first, last) = (offsets[0].as_usize(), offsets[array.len()].as_usize());
    let values = array.values().slice_with_length(first, last - first);
    let offsets = OffsetBuffer::from_lengths(offsets.lengths());
    Ok(Arc::new(GenericByteArray::<T>::try_new(offsets, values, nulls)?))
}

fn views<T: ByteViewType + ?Sized>(
    array: &GenericByteViewArray<T>,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, ArrowError> {
    if nulls.is_none() && array.nulls().is_none() {
        return Ok(Arc::new(array.gc()));
    }
    let view = |(row, &view): (usize, &u128)| match &nulls {
        Some(nulls) if nulls.is_null(row) => 0,
        _ => view,
    };
    let views: Vec<u128> = array.views().iter().enumerate().map(view).collect();
    let regular = GenericByteViewArray::<T>::try_new(views.into(), array.data_buffers().to_vec(), nulls)?;
    Ok(Arc::new(regular.gc()))
}

fn list<O: OffsetSizeTrait>(array: &GenericListArray<O>, nulls: Option<NullBuffer>) -> Result<ArrayRef, ArrowError> {
    let (DataType::List(field) | DataType::LargeList(field)) = array.data_type() else {
        return Ok(Arc::new(array.clone()));
    };
    let (offsets, values) = elements(array.offsets(), array.values(), nulls.as_ref())?;
    Ok(Arc::new(GenericListArray::<O>::try_new(field.clone(), offsets, values, nulls)?))
}

/// The elements of lists that are not null, and the offset of each list.
fn elements<O: OffsetSizeTrait>(
    offsets: &OffsetBuffer<O>,
    values: &ArrayRef,
    nulls: Option<&NullBuffer>,
) -> Result<(OffsetBuffer<O>, ArrayRef), ArrowError> {
    let is_there = |row: usize| nulls.is_none_or(|nulls| nulls.is_valid(row));
    let lengths = offsets.lengths().enumerate().map(|(row, length)| if is_there(row) { length } else { 0 });
    let regular_offsets: OffsetBuffer<O> = OffsetBuffer::from_lengths(lengths);
    let (first, last) = (offsets[0].as_usize(), offsets[offsets.len() - 1].as_usize());
    let count = regular_offsets[regular_offsets.len() - 1].as_usize();
    let values = match count == last - first {
        true => values.slice(first, count),
        false => {
            let rows = (0..offsets.len() - 1).filter(|&row| is_there(row));
            let rows = rows.flat_map(|row| offsets[row].as_usize() as u64..offsets[row + 1].as_usize() as u64);
            take(values, &UInt64Array::from_iter_values(rows))?
        }
    };
    Ok((regular_offsets, regular(&values, None)?))
}
