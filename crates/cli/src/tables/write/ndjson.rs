//! NDJSON: one object per line. Null fields are omitted, and numbers that are not finite are written as null.

use std::sync::Arc;

use arrow_array::{Array, RecordBatch};
use arrow_json::writer::{LineDelimited, NullableEncoder};
use arrow_json::{Encoder, EncoderFactory, EncoderOptions, WriterBuilder};
use arrow_schema::{ArrowError, FieldRef, SchemaRef};

use super::cells::{self, Cells, Column};
use super::packed::{Output, Packing};
use super::{Unwritten, lines};

/// Returns a writer of rows.
pub(super) fn writer(
    output: Output,
    schema: &SchemaRef,
    packing: Packing,
    memory: u64,
) -> Result<lines::Writer, Unwritten> {
    lines::Writer::new(output, schema, packing, memory, Vec::new(), format)
}

fn format(rows: &RecordBatch, out: &mut Vec<u8>) -> Result<(), Unwritten> {
    let builder = WriterBuilder::new().with_encoder_factory(Arc::new(AsText));
    let mut writer = builder.build::<_, LineDelimited>(out);
    writer.write(rows)?;
    Ok(writer.finish()?)
}

/// Formats timestamps, periods and decimals as in CSV. Arrow supports neither named time zones nor years above 9999,
/// and writes a decimal zero with a negative scale as 000, which JSON does not allow.
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

/// Cells whose text has no characters that JSON escapes.
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
