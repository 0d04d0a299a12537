//! CSV and TSV: pieces of a batch are formatted by all threads and written in their order.
//!
//! A null is an empty field. Gzip is packed piece by piece, each a member of its own, as `bgzip` does; zstd in one frame,
//! because not everybody reads several.

use std::io::{self, BufWriter, Write};

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, SchemaRef};
use arrow_select::take::take;
use rayon::prelude::*;

use crate::text;

use super::cells::{self, Column};
use super::{Packing, Unwritten};

/// Rows of a piece.
const PIECE: usize = 1 << 15;

type Output = Box<dyn Write>;

pub(super) struct Writer {
    output: Packed,
    delimiter: u8,
    /// Bytes of the pieces that were written last, to be used again.
    buffers: Vec<Vec<u8>>,
}

enum Packed {
    Plain(BufWriter<Output>),
    Gzip(BufWriter<Output>),
    Zstd(zstd::stream::write::Encoder<'static, BufWriter<Output>>),
}

impl Writer {
    /// Writes the names of the columns.
    pub(super) fn new(
        output: Output,
        schema: &SchemaRef,
        delimiter: u8,
        packing: Packing,
    ) -> Result<Writer, Unwritten> {
        if let Some(field) = schema.fields().iter().find(|field| !cells::is_writable(field.data_type())) {
            return Err(Unwritten::Because(format!(
                "the column {} is of type {}, which text has no form for: write .parquet or .arrow, or leave the column out",
                text::name(field.name()),
                field.data_type()
            )));
        }
        let output = BufWriter::new(output);
        let output = match packing {
            Packing::Not => Packed::Plain(output),
            Packing::Gzip => Packed::Gzip(output),
            Packing::Zstd => Packed::Zstd(zstd::stream::write::Encoder::new(output, 1)?),
        };
        let mut writer = Writer { output, delimiter, buffers: Vec::new() };
        let mut names = Vec::new();
        for (i, field) in schema.fields().iter().enumerate() {
            names.extend((i > 0).then_some(delimiter));
            cells::text(field.name(), delimiter, &mut names);
        }
        names.push(b'\n');
        if packing == Packing::Gzip {
            names = gzip(&names)?;
        }
        writer.put(&names)?;
        Ok(writer)
    }

    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<(), Unwritten> {
        let arrays = batch.columns().iter().map(plain).collect::<Result<Vec<_>, _>>()?;
        let columns = arrays.iter().map(|array| cells::column(array, self.delimiter)).collect::<Option<Vec<_>>>();
        // Others were refused with the schema.
        let columns =
            columns.ok_or_else(|| Unwritten::Because("a batch is of another schema than the output".into()))?;
        let (rows, delimiter) = (batch.num_rows(), self.delimiter);
        let is_gzip = matches!(self.output, Packed::Gzip(_));
        let mut buffers = std::mem::take(&mut self.buffers);
        let at_once = 2 * rayon::current_num_threads();
        buffers.resize_with(at_once, Vec::new);
        for start in (0..rows).step_by(at_once * PIECE) {
            buffers.par_iter_mut().enumerate().try_for_each(|(i, buffer)| {
                buffer.clear();
                let start = (start + i * PIECE).min(rows);
                format(&columns, start..(start + PIECE).min(rows), delimiter, buffer);
                if is_gzip && !buffer.is_empty() {
                    *buffer = gzip(buffer)?;
                }
                io::Result::Ok(())
            })?;
            for buffer in &buffers {
                self.put(buffer)?;
            }
        }
        self.buffers = buffers;
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.output {
            Packed::Plain(output) | Packed::Gzip(output) => output.write_all(bytes),
            Packed::Zstd(output) => output.write_all(bytes),
        }
    }

    pub(super) fn finish(self) -> Result<(), Unwritten> {
        let mut output = match self.output {
            Packed::Plain(output) | Packed::Gzip(output) => output,
            Packed::Zstd(output) => output.finish()?,
        };
        Ok(output.flush()?)
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

/// An array without a dictionary.
fn plain(array: &ArrayRef) -> Result<ArrayRef, Unwritten> {
    match array.data_type() {
        DataType::Dictionary(..) => {
            use arrow_array::cast::AsArray;
            let dictionary = array.as_any_dictionary();
            take(dictionary.values(), dictionary.keys(), None).map_err(|error| Unwritten::Because(error.to_string()))
        }
        _ => Ok(array.clone()),
    }
}

/// A member of a gzip file.
fn gzip(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let packed = Vec::with_capacity(bytes.len() / 2);
    let mut encoder = flate2::write::GzEncoder::new(packed, flate2::Compression::default());
    encoder.write_all(bytes)?;
    encoder.finish()
}
