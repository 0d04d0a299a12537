//! Arrow IPC without compression: blocks (blocks.rs) have the same layout on disk as in memory, and readers may map the
//! file.

use std::io::{BufWriter, Write};

use arrow_array::RecordBatch;
use arrow_ipc::writer::{FileWriter, StreamWriter};
use arrow_schema::{ArrowError, SchemaRef};

use super::blocks::{Blocks, Size};
use super::packed::Output;
use super::{Unwritten, unknown};

/// The maximum size of a batch of the file.
const BLOCK: Size = Size { rows: 1 << 17, bytes: 4 << 20 };

pub(super) struct Writer {
    blocks: Blocks,
    form: Form,
}

enum Form {
    File(FileWriter<BufWriter<Output>>),
    Stream(StreamWriter<BufWriter<Output>>),
}

impl Writer {
    pub(super) fn file(output: Output, schema: &SchemaRef) -> Result<Writer, Unwritten> {
        let form = Form::File(FileWriter::try_new(BufWriter::new(output), schema)?);
        Ok(Writer { blocks: Blocks::new(schema, BLOCK), form })
    }

    pub(super) fn stream(output: Output, schema: &SchemaRef) -> Result<Writer, Unwritten> {
        let form = Form::Stream(StreamWriter::try_new(BufWriter::new(output), schema)?);
        Ok(Writer { blocks: Blocks::new(schema, BLOCK), form })
    }

    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<(), Unwritten> {
        self.blocks.push(batch, |block| Ok(self.form.write(&block.batch()?)?))
    }

    pub(super) fn finish(mut self) -> Result<(), Unwritten> {
        self.blocks.finish(|block| Ok::<_, Unwritten>(self.form.write(&block.batch()?)?))?;
        // The writer writes the footer before it returns the output.
        let mut output = match self.form {
            Form::File(writer) => writer.into_inner()?,
            Form::Stream(writer) => writer.into_inner()?,
        };
        Ok(output.flush()?)
    }
}

impl Form {
    fn write(&mut self, block: &RecordBatch) -> Result<(), ArrowError> {
        match self {
            Form::File(writer) => writer.write(block),
            Form::Stream(writer) => writer.write(block),
        }
    }
}

impl From<ArrowError> for Unwritten {
    fn from(error: ArrowError) -> Unwritten {
        match error {
            ArrowError::IoError(_, error) => Unwritten::Io(error),
            error => Unwritten::Because(unknown(&error.to_string())),
        }
    }
}
