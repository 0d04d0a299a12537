//! Arrow IPC, not packed: batches are on the disk as they are in memory, so writing takes no computing, and readers may map
//! the file.

use std::fs::File;
use std::io::{BufWriter, Write};

use arrow_array::RecordBatch;
use arrow_ipc::writer::{FileWriter, StreamWriter};
use arrow_schema::{ArrowError, SchemaRef};

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

impl From<ArrowError> for Unwritten {
    fn from(error: ArrowError) -> Unwritten {
        match error {
            ArrowError::IoError(_, error) => Unwritten::Io(error),
            error => Unwritten::Because(format!("{error}: write another format, or leave the column out")),
        }
    }
}
