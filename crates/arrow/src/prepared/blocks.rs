//! Stores rows in blocks, each of which is a message of Arrow IPC.
//!
//! A block has [`ROWS`] rows, whatever the batches of the table were, and its bytes depend on the values only: columns
//! are copied, so that they begin with their first value, and the bytes under nulls are zero. This applies to columns
//! of plain values, text and binary, and to structs and lists of them. In other nested types, the bytes under nulls are
//! kept.
//!
//! Blocks may be damaged or untrusted. Panics of Arrow's decoder are converted to errors, and compressed buffers are
//! rejected, because their lengths cannot be trusted.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, GenericListArray, OffsetSizeTrait, RecordBatch, StructArray, UInt32Array, make_array,
};
use arrow_buffer::{Buffer, NullBuffer};
use arrow_ipc::convert::fb_to_schema;
use arrow_ipc::reader::StreamDecoder;
use arrow_ipc::root_as_message;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{DataType, Schema, SchemaRef};
use rayon::prelude::*;

use crate::error::Result;
use crate::external::batch_of;
use crate::keys::Column;
use crate::take::take;

/// The number of rows of a block; the last may have fewer.
pub(super) const ROWS: usize = 1 << 16;
/// The bytes before a message: a marker, and the length of the header.
const PREFIX: usize = 8;
/// Marks the end of a stream; it follows each block.
const END: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];

/// Encodes the schema as a message.
pub(super) fn schema_message(schema: &Schema) -> Result<Vec<u8>> {
    Ok(StreamWriter::try_new(Vec::new(), schema)?.get_ref().clone())
}

/// Encodes these rows as a block.
pub(super) fn block(schema: &SchemaRef, columns: &[Column], start: usize, rows: usize) -> Result<Vec<u8>> {
    let numbers: UInt32Array = (start as u32..(start + rows) as u32).collect::<Vec<_>>().into();
    let of = |column: &Column| canonical(&column.take(&numbers)?);
    let batch = batch_of(schema, columns.par_iter().map(of).collect::<Result<_>>()?, rows)?;
    let mut writer = StreamWriter::try_new(Vec::new(), schema)?;
    let message = writer.get_ref().len();
    writer.write(&batch)?;
    // This includes the end of the stream: without it, a decoder would wait for the body of columns without bytes.
    Ok(writer.into_inner()?.split_off(message))
}

/// The same values in new buffers that begin with the first value, and have zeros under nulls.
fn canonical(array: &ArrayRef) -> Result<ArrayRef> {
    Ok(match array.data_type() {
        DataType::Struct(fields) => {
            // Rows are gathered first, so that the fields of a null struct are null.
            let (array, nulls) = (gathered(array)?, nulls_of(array));
            let columns = array.as_struct().columns().iter().map(canonical).collect::<Result<_>>()?;
            Arc::new(StructArray::try_new_with_length(fields.clone(), columns, nulls, array.len())?)
        }
        DataType::List(_) => Arc::new(list(gathered(array)?.as_list::<i32>())?),
        DataType::LargeList(_) => Arc::new(list(gathered(array)?.as_list::<i64>())?),
        DataType::Utf8View => Arc::new(gathered(array)?.as_string_view().gc()),
        DataType::BinaryView => Arc::new(gathered(array)?.as_binary_view().gc()),
        _ => gathered(array)?,
    })
}

/// A copy of the rows of an array. The index of a null is out of bounds, so that no bytes are copied for it.
fn gathered(array: &ArrayRef) -> Result<ArrayRef> {
    let nulls = nulls_of(array);
    let is_fixed = array.data_type().is_primitive()
        || matches!(array.data_type(), DataType::FixedSizeBinary(1..) | DataType::Utf8View | DataType::BinaryView);
    let row = |row: u32| match &nulls {
        Some(nulls) if is_fixed && nulls.is_null(row as usize) => u32::MAX,
        _ => row,
    };
    let rows = UInt32Array::new((0..array.len() as u32).map(row).collect(), nulls.clone());
    let taken = take(array, &rows)?;
    // Whether an array without nulls has a bitmap depends on the batches, so the bitmap is removed.
    if nulls.is_some() || taken.nulls().is_none() {
        return Ok(taken);
    }
    Ok(make_array(taken.into_data().into_builder().nulls(None).build()?))
}

fn nulls_of(array: &ArrayRef) -> Option<NullBuffer> {
    array.nulls().filter(|nulls| nulls.null_count() > 0).cloned()
}

/// The same list with canonical elements.
fn list<O: OffsetSizeTrait>(list: &GenericListArray<O>) -> Result<GenericListArray<O>> {
    let (DataType::List(field) | DataType::LargeList(field)) = list.data_type() else { return Ok(list.clone()) };
    let (first, end) = (list.offsets()[0], list.offsets()[list.len()]);
    let values = canonical(&list.values().slice(first.as_usize(), (end - first).as_usize()))?;
    let offsets = list.offsets().clone().subtract(first);
    Ok(GenericListArray::try_new(Arc::clone(field), offsets, values, list.nulls().cloned())?)
}

/// Decodes the schema in a message.
pub(super) fn read_schema(message: &[u8]) -> std::result::Result<SchemaRef, String> {
    guarded(|| {
        let message = header_of(message)?;
        let message = root_as_message(message).map_err(|error| error.to_string())?;
        let schema = message.header_as_schema().ok_or("its schema is missing")?;
        Ok(Arc::new(fb_to_schema(schema)))
    })
}

/// Decodes the rows of a block. `schema` is the message with the schema. Buffers are not copied if they are aligned.
pub(super) fn read_block(schema: Buffer, mut block: Buffer, rows: u64) -> std::result::Result<RecordBatch, String> {
    guarded(|| {
        check(&block)?;
        let mut decoder = StreamDecoder::new();
        decoder.decode(&mut schema.clone()).map_err(|error| error.to_string())?;
        let batch = decoder.decode(&mut block).map_err(|error| error.to_string())?;
        match batch {
            Some(batch) if batch.num_rows() as u64 == rows => Ok(batch),
            _ => Err("a block has another number of rows".into()),
        }
    })
}

/// Checks that a block is a complete message without compression.
fn check(bytes: &[u8]) -> std::result::Result<(), String> {
    let header = header_of(bytes)?;
    let message = root_as_message(header).map_err(|error| error.to_string())?;
    let body = bytes.len().checked_sub(PREFIX + header.len() + END.len());
    if body.is_none_or(|body| i64::try_from(body) != Ok(message.bodyLength())) || !bytes.ends_with(&END) {
        return Err("a block has another length".into());
    }
    let batch = message.header_as_record_batch().ok_or("a block has no rows")?;
    match batch.compression().is_some() || batch.length() < 0 {
        true => Err("a block is compressed, or has a number of rows below 0".into()),
        false => Ok(()),
    }
}

/// The header of a message.
fn header_of(bytes: &[u8]) -> std::result::Result<&[u8], String> {
    let length = bytes.get(4..PREFIX).and_then(|length| Some(u32::from_le_bytes(length.try_into().ok()?)));
    let header = length.and_then(|length| bytes.get(PREFIX..)?.get(..length as usize));
    header.ok_or_else(|| "a message is cut short".into())
}

/// Calls `work`, and converts a panic to an error.
fn guarded<T>(work: impl FnOnce() -> std::result::Result<T, String>) -> std::result::Result<T, String> {
    // The values that `work` uses are dropped and not used again.
    let unsound = |_| Err("its bytes are not valid Arrow IPC".into());
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(unsound)
}
