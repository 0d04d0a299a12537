//! `.npy`: a plain array of one column, records of several. Numbers, booleans and ASCII text of one width, without nulls.

use std::fs::File;

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, SchemaRef};
use rayon::prelude::*;

use crate::output::npy;
use crate::text;

use super::Unwritten;
use super::blocks::{Blocks, Size};

/// Rows that are put together at a time, and those of a thread.
const BLOCK: Size = Size { rows: 1 << 18, bytes: 4 << 20 };
const PIECE: usize = 1 << 14;

pub(super) struct Writer {
    blocks: Blocks,
    rows: Rows,
}

struct Rows {
    writer: npy::Writer<File>,
    names: Vec<String>,
    widths: Vec<usize>,
}

impl Writer {
    pub(super) fn new(file: File, schema: &SchemaRef) -> Result<Writer, Unwritten> {
        let mut codes = Vec::new();
        for field in schema.fields() {
            let code = code(field.data_type()).ok_or_else(|| {
                Unwritten::Because(format!(
                    "the column {} is of type {}, and .npy holds numbers and booleans: write .parquet, .arrow or .csv",
                    text::name(field.name()),
                    field.data_type()
                ))
            })?;
            codes.push((field.name().clone(), code));
        }
        let descr = match &codes[..] {
            [(_, (code, _))] => format!("'{code}'"),
            codes => {
                // Names are Python's strings.
                let plain = |name: &str| {
                    name.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'\'' && byte != b'\\')
                };
                if let Some((name, _)) = codes.iter().find(|(name, _)| !plain(name)) {
                    return Err(Unwritten::Because(format!(
                        "{name} cannot be the name of a field in .npy: write another format"
                    )));
                }
                let fields: Vec<_> = codes.iter().map(|(name, (code, _))| format!("('{name}', '{code}')")).collect();
                format!("[{}]", fields.join(", "))
            }
        };
        if descr.len() > 60_000 {
            return Err(Unwritten::Because("these are more columns than .npy holds: write another format".into()));
        }
        let (names, widths) = codes.into_iter().map(|(name, (_, width))| (name, width)).unzip();
        let rows = Rows { writer: npy::Writer::of(file, descr)?, names, widths };
        Ok(Writer { blocks: Blocks::new(schema, BLOCK), rows })
    }

    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<(), Unwritten> {
        self.blocks.push(batch, |block| self.rows.write(&block))
    }

    pub(super) fn finish(mut self) -> Result<(), Unwritten> {
        self.blocks.finish(|block| self.rows.write(&block))?;
        Ok(self.rows.writer.finish()?)
    }
}

impl Rows {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), Unwritten> {
        if let Some(at) = batch.columns().iter().position(|column| column.logical_null_count() > 0) {
            let name = &self.names[at];
            return Err(Unwritten::Because(format!(
                "the column {} has nulls, and .npy none: write .parquet, .arrow or .csv",
                text::name(name)
            )));
        }
        // NumPy removes zero bytes at the end of a text.
        let is_text = |value: &[u8]| value.is_ascii() && value.last().is_some_and(|&byte| byte != 0);
        for (column, name) in batch.columns().iter().zip(&self.names) {
            if let Some(values) = column.as_fixed_size_binary_opt()
                && !values.iter().flatten().all(is_text)
            {
                return Err(Unwritten::Because(format!(
                    "the column {} has bytes that are not text, and .npy holds numbers, booleans and text: write .parquet \
                     or .arrow",
                    text::name(name)
                )));
            }
        }
        let (width, rows) = (self.widths.iter().sum::<usize>(), batch.num_rows());
        let mut bytes = vec![0; width * rows];
        bytes.par_chunks_mut((PIECE * width).max(1)).enumerate().for_each(|(i, piece)| {
            let mut at = 0;
            for (column, &bytes) in batch.columns().iter().zip(&self.widths) {
                fill(&column.slice(i * PIECE, PIECE.min(rows - i * PIECE)), piece, at, width);
                at += bytes;
            }
        });
        Ok(self.writer.extend(rows as u64, &bytes)?)
    }
}

/// A type's code and bytes.
fn code(data_type: &DataType) -> Option<(String, usize)> {
    let (code, width) = match data_type {
        DataType::Boolean => ("|b1", 1),
        DataType::Int8 => ("|i1", 1),
        DataType::Int16 => ("<i2", 2),
        DataType::Int32 => ("<i4", 4),
        DataType::Int64 => ("<i8", 8),
        DataType::UInt8 => ("|u1", 1),
        DataType::UInt16 => ("<u2", 2),
        DataType::UInt32 => ("<u4", 4),
        DataType::UInt64 => ("<u8", 8),
        DataType::Float32 => ("<f4", 4),
        DataType::Float64 => ("<f8", 8),
        DataType::FixedSizeBinary(width) if *width > 0 => {
            return Some((format!("|S{width}"), usize::try_from(*width).ok()?));
        }
        _ => return None,
    };
    Some((code.into(), width))
}

/// Writes a column into rows of `width` bytes, at the same offset of each.
fn fill(column: &ArrayRef, rows: &mut [u8], at: usize, width: usize) {
    macro_rules! numbers {
        ($($name:ident => $type:ty),*) => {
            match column.data_type() {
                $(DataType::$name => {
                    for (row, value) in rows.chunks_exact_mut(width).zip(column.as_primitive::<$type>().values()) {
                        let bytes = value.to_le_bytes();
                        row[at..at + bytes.len()].copy_from_slice(&bytes);
                    }
                })*
                DataType::Boolean => {
                    let bits = column.as_boolean().values();
                    for (row, bit) in rows.chunks_exact_mut(width).zip(bits) {
                        row[at] = bit.into();
                    }
                }
                DataType::FixedSizeBinary(_) => {
                    for (row, value) in rows.chunks_exact_mut(width).zip(column.as_fixed_size_binary().iter().flatten()) {
                        row[at..at + value.len()].copy_from_slice(value);
                    }
                }
                // `new` has refused it.
                _ => {}
            }
        };
    }
    numbers!(
        Int8 => Int8Type, Int16 => Int16Type, Int32 => Int32Type, Int64 => Int64Type,
        UInt8 => UInt8Type, UInt16 => UInt16Type, UInt32 => UInt32Type, UInt64 => UInt64Type,
        Float32 => Float32Type, Float64 => Float64Type
    );
}
