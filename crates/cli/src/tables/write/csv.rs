//! CSV and TSV: blocks (blocks.rs) are formatted by all threads and written in their order.
//!
//! A null is an empty field.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use rayon::prelude::*;

use super::Unwritten;
use super::blocks::{Blocks, Size};
use super::cells::{self, Column};
use super::packed::{Output, Packed, Packing, gzip};
use crate::text;

/// Rows that a thread formats at a time.
const BLOCK: Size = Size { rows: 1 << 15, bytes: 1 << 20 };
/// Bytes that they and their text take, if most fields are numbers of many digits.
const TAKEN: u64 = 8 << 20;

pub(super) struct Writer {
    blocks: Blocks,
    lines: Lines,
}

struct Lines {
    output: Packed,
    delimiter: u8,
    /// Blocks to be formatted, and how many are at once.
    waiting: Vec<RecordBatch>,
    at_once: usize,
    /// The text of those before, to be used again.
    buffers: Vec<Vec<u8>>,
}

impl Writer {
    /// Writes the names of the columns. `memory` bytes may be used; the text is the same whatever they are.
    pub(super) fn new(
        output: Output,
        schema: &SchemaRef,
        delimiter: u8,
        packing: Packing,
        memory: u64,
    ) -> Result<Writer, Unwritten> {
        if let Some(field) = schema.fields().iter().find(|field| !cells::is_writable(field.data_type())) {
            return Err(Unwritten::Because(format!(
                "column {} is of type {}, which cannot be written as CSV: write .parquet or .arrow, or remove the column",
                text::name(field.name()),
                field.data_type()
            )));
        }
        let output = Packed::new(output, packing)?;
        let fitting = usize::try_from(memory / 4 / TAKEN).unwrap_or(usize::MAX);
        let at_once = fitting.clamp(1, 2 * rayon::current_num_threads());
        let mut lines = Lines { output, delimiter, waiting: Vec::new(), at_once, buffers: Vec::new() };
        let mut names = Vec::new();
        for (i, field) in schema.fields().iter().enumerate() {
            names.extend((i > 0).then_some(delimiter));
            cells::text(field.name(), delimiter, &mut names);
        }
        names.push(b'\n');
        if packing == Packing::Gzip {
            names = gzip(&names)?;
        }
        lines.output.put(&names)?;
        Ok(Writer { blocks: Blocks::plain(schema, BLOCK), lines })
    }

    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<(), Unwritten> {
        self.blocks.push(batch, |block| self.lines.push(block))
    }

    pub(super) fn finish(mut self) -> Result<(), Unwritten> {
        self.blocks.finish(|block| self.lines.push(block))?;
        self.lines.format()?;
        Ok(self.lines.output.finish()?)
    }
}

impl Lines {
    fn push(&mut self, block: RecordBatch) -> Result<(), Unwritten> {
        self.waiting.push(block);
        if self.waiting.len() < self.at_once { Ok(()) } else { self.format() }
    }

    /// Formats and writes the blocks that wait.
    fn format(&mut self) -> Result<(), Unwritten> {
        let (delimiter, is_gzip) = (self.delimiter, self.output.is_gzip());
        let mut buffers = std::mem::take(&mut self.buffers);
        buffers.resize_with(self.waiting.len(), Vec::new);
        let blocks = std::mem::take(&mut self.waiting);
        blocks.par_iter().zip(&mut buffers).try_for_each(|(block, buffer)| {
            let columns = block.columns().iter().map(|array| cells::column(array, delimiter));
            // Others were refused with the schema.
            let columns = columns.collect::<Option<Vec<_>>>();
            let columns =
                columns.ok_or_else(|| Unwritten::Because("a batch is of another schema than the output".into()))?;
            buffer.clear();
            format(&columns, 0..block.num_rows(), delimiter, buffer);
            if is_gzip {
                *buffer = gzip(buffer)?;
            }
            Ok::<_, Unwritten>(())
        })?;
        for buffer in &buffers {
            self.output.put(buffer)?;
        }
        self.buffers = buffers;
        Ok(())
    }
}

/// Some rows as text.
fn format(columns: &[Column<'_>], rows: std::ops::Range<usize>, delimiter: u8, out: &mut Vec<u8>) {
    for row in rows {
        for (i, column) in columns.iter().enumerate() {
            if i > 0 {
                out.push(delimiter);
            }
            if column.nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)) {
                column.cells.put(row, out);
            }
        }
        out.push(b'\n');
    }
}
