//! NDJSON: an object a line. Nulls have no field.

use std::fs::File;
use std::io::{BufWriter, Write};

use arrow_array::RecordBatch;
use arrow_json::LineDelimitedWriter;
use arrow_schema::SchemaRef;

use super::Unwritten;
use super::blocks::{Blocks, Size};

/// Rows that are formatted at a time.
const BLOCK: Size = Size { rows: 1 << 15, bytes: 1 << 20 };

pub(super) struct Writer {
    blocks: Blocks,
    output: BufWriter<File>,
}

impl Writer {
    pub(super) fn new(file: File, schema: &SchemaRef) -> Writer {
        Writer { blocks: Blocks::plain(schema, BLOCK), output: BufWriter::new(file) }
    }

    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<(), Unwritten> {
        self.blocks.push(batch, |block| put(&mut self.output, &block))
    }

    pub(super) fn finish(mut self) -> Result<(), Unwritten> {
        self.blocks.finish(|block| put(&mut self.output, &block))?;
        Ok(self.output.flush()?)
    }
}

fn put(output: &mut BufWriter<File>, block: &RecordBatch) -> Result<(), Unwritten> {
    // In memory first, as the writer reports errors of files as those of JSON.
    let mut writer = LineDelimitedWriter::new(Vec::new());
    writer.write(block)?;
    writer.finish()?;
    Ok(output.write_all(&writer.into_inner())?)
}
