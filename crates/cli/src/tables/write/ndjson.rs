//! NDJSON: an object a line. Nulls have no field.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::sync::Arc;

use arrow_array::{Array, RecordBatch};
use arrow_json::writer::{LineDelimited, NullableEncoder};
use arrow_json::{Encoder, EncoderFactory, EncoderOptions, WriterBuilder};
use arrow_schema::{ArrowError, DataType, FieldRef, SchemaRef};

use super::Unwritten;
use super::blocks::{Blocks, Size};
use super::cells::{self, Cells};

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
    let builder = WriterBuilder::new().with_encoder_factory(Arc::new(Decimals));
    let mut writer = builder.build::<_, LineDelimited>(Vec::new());
    writer.write(block)?;
    writer.finish()?;
    Ok(output.write_all(&writer.into_inner())?)
}

/// Decimals of negative scale as in CSV: Arrow writes a zero as 000, which JSON does not allow.
#[derive(Debug)]
struct Decimals;

impl EncoderFactory for Decimals {
    fn make_default_encoder<'a>(
        &self,
        _: &'a FieldRef,
        array: &'a dyn Array,
        _: &'a EncoderOptions,
    ) -> Result<Option<NullableEncoder<'a>>, ArrowError> {
        use DataType::*;
        let (Decimal32(_, scale) | Decimal64(_, scale) | Decimal128(_, scale) | Decimal256(_, scale)) =
            array.data_type()
        else {
            return Ok(None);
        };
        let cells = if *scale < 0 { cells::decimals_of(array) } else { None };
        Ok(cells.map(|cells| NullableEncoder::new(Box::new(Numbers(cells)), array.nulls().cloned())))
    }
}

/// Numbers as CSV has them.
struct Numbers<'a>(Box<dyn Cells + 'a>);

impl Encoder for Numbers<'_> {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        self.0.put(row, out);
    }
}
