//! NDJSON: an object a line. Nulls have no field, and numbers that are not finite are nulls.

use std::sync::Arc;

use arrow_array::{Array, RecordBatch};
use arrow_json::writer::{LineDelimited, NullableEncoder};
use arrow_json::{Encoder, EncoderFactory, EncoderOptions, WriterBuilder};
use arrow_schema::{ArrowError, FieldRef, SchemaRef};

use super::Unwritten;
use super::blocks::{Blocks, Size};
use super::cells::{self, Cells, Column};
use super::packed::{Output, Packed, Packing, gzip};

/// Rows that are formatted at a time.
const BLOCK: Size = Size { rows: 1 << 15, bytes: 1 << 20 };

pub(super) struct Writer {
    blocks: Blocks,
    output: Packed,
    /// Whether nothing was written.
    is_empty: bool,
}

impl Writer {
    pub(super) fn new(output: Output, schema: &SchemaRef, packing: Packing) -> Result<Writer, Unwritten> {
        Ok(Writer { blocks: Blocks::plain(schema, BLOCK), output: Packed::new(output, packing)?, is_empty: true })
    }

    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<(), Unwritten> {
        self.is_empty &= batch.num_rows() == 0;
        self.blocks.push(batch, |block| put(&mut self.output, &block))
    }

    pub(super) fn finish(mut self) -> Result<(), Unwritten> {
        self.blocks.finish(|block| put(&mut self.output, &block))?;
        if self.is_empty && self.output.is_gzip() {
            // A file of gzip has at least one member.
            self.output.put(&gzip(&[])?)?;
        }
        Ok(self.output.finish()?)
    }
}

fn put(output: &mut Packed, block: &RecordBatch) -> Result<(), Unwritten> {
    // In memory first, as the writer reports errors of files as those of JSON.
    let builder = WriterBuilder::new().with_encoder_factory(Arc::new(AsText));
    let mut writer = builder.build::<_, LineDelimited>(Vec::new());
    writer.write(block)?;
    writer.finish()?;
    let text = writer.into_inner();
    let text = if output.is_gzip() { gzip(&text)? } else { text };
    Ok(output.put(&text)?)
}

/// Moments, periods and decimals as in CSV: Arrow has neither zones by name nor years above 9999, and writes a decimal of
/// zero as 000 if its scale is negative, which JSON does not allow.
#[derive(Debug)]
struct AsText;

impl EncoderFactory for AsText {
    fn make_default_encoder<'a>(
        &self,
        _: &'a FieldRef,
        array: &'a dyn Array,
        _: &'a EncoderOptions,
    ) -> Result<Option<NullableEncoder<'a>>, ArrowError> {
        let is_quoted = array.data_type().is_temporal();
        if !is_quoted && !array.data_type().is_decimal() {
            return Ok(None);
        }
        let encoder = |Column { cells, nulls }| NullableEncoder::new(Box::new(Cell { cells, is_quoted }), nulls);
        Ok(cells::column(array, b',').map(encoder))
    }
}

/// Cells without characters that JSON escapes.
struct Cell<'a> {
    cells: Box<dyn Cells + 'a>,
    is_quoted: bool,
}

impl Encoder for Cell<'_> {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        out.extend(self.is_quoted.then_some(b'"'));
        self.cells.put(row, out);
        out.extend(self.is_quoted.then_some(b'"'));
    }
}
