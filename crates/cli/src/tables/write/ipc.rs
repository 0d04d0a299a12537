//! Arrow IPC, not packed: batches are on the disk as they are in memory, so writing takes no computing, and readers may map
//! the file.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, StructArray};
use arrow_ipc::writer::{FileWriter, StreamWriter};
use arrow_schema::{ArrowError, DataType, SchemaRef};

use super::Unwritten;

pub(super) enum Writer {
    File(FileWriter<BufWriter<File>>),
    Stream(StreamWriter<BufWriter<File>>),
}

impl Writer {
    pub(super) fn file(file: File, schema: &SchemaRef) -> Result<Writer, Unwritten> {
        Ok(Writer::File(FileWriter::try_new(BufWriter::new(file), schema)?))
    }

    pub(super) fn stream(file: File, schema: &SchemaRef) -> Result<Writer, Unwritten> {
        Ok(Writer::Stream(StreamWriter::try_new(BufWriter::new(file), schema)?))
    }

    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<(), Unwritten> {
        let columns = batch.columns().iter().map(compact).collect::<Result<Vec<_>, _>>()?;
        let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let batch = &RecordBatch::try_new_with_options(batch.schema(), columns, &rows)?;
        match self {
            Writer::File(writer) => writer.write(batch)?,
            Writer::Stream(writer) => writer.write(batch)?,
        }
        Ok(())
    }

    pub(super) fn finish(self) -> Result<(), Unwritten> {
        // It writes the end before it hands back the file.
        let mut file = match self {
            Writer::File(writer) => writer.into_inner()?,
            Writer::Stream(writer) => writer.into_inner()?,
        };
        Ok(file.flush()?)
    }
}

/// An array whose views hold the text of its rows alone: buffers of views are written as they are, and those of rows that
/// were taken are still those of all rows.
fn compact(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    Ok(match array.data_type() {
        DataType::Utf8View => Arc::new(array.as_string_view().gc()),
        DataType::BinaryView => Arc::new(array.as_binary_view().gc()),
        DataType::Struct(fields) => {
            let array = array.as_struct();
            let columns = array.columns().iter().map(compact).collect::<Result<_, _>>()?;
            Arc::new(StructArray::try_new_with_length(fields.clone(), columns, array.nulls().cloned(), array.len())?)
        }
        _ => Arc::clone(array),
    })
}

impl From<ArrowError> for Unwritten {
    fn from(error: ArrowError) -> Unwritten {
        match error {
            ArrowError::IoError(_, error) => Unwritten::Io(error),
            error => Unwritten::Because(format!("{error}: write another format, or leave the column out")),
        }
    }
}
