//! `.npy`: a plain array for one column, records for several. Supports numbers, booleans and ASCII text of one width.
//!
//! ```text
//! nulls     an error, except in fields with the metadata FLAG: these have zeros for nulls, and are followed by a
//!           boolean field, which is false for nulls and has the name that the metadata states
//! length    known at the end, when the header is written again. The header is padded for any length, as in NumPy
//! ```

use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array as _, ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, SchemaRef};
use rayon::prelude::*;

use crate::text;

use super::Unwritten;
use super::blocks::{Blocks, Size};

/// The maximum size of the rows that are converted at a time, and of those that one thread converts.
const BLOCK: Size = Size { rows: 1 << 18, bytes: 4 << 20 };
const PIECE: usize = 1 << 14;

/// Metadata of a field: the name of the field that shows which rows have a value.
pub(crate) const FLAG: &str = "koel.flag";

pub(super) struct Writer {
    blocks: Blocks,
    rows: Rows,
}

struct Rows {
    array: Array<File>,
    columns: Vec<Column>,
}

struct Column {
    name: String,
    /// The bytes of a value.
    width: usize,
    has_flag: bool,
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
            codes.extend(field.metadata().get(FLAG).map(|flag| (flag.clone(), ("|b1".to_owned(), 1))));
        }
        let descr = match &codes[..] {
            [(_, (code, _))] => format!("'{code}'"),
            codes => {
                // Names are written as Python string literals, without escapes.
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
        let column = |field: &Arc<Field>| Column {
            name: field.name().clone(),
            width: code(field.data_type()).map_or(0, |(_, width)| width),
            has_flag: field.metadata().contains_key(FLAG),
        };
        let columns = schema.fields().iter().map(column).collect();
        Ok(Writer { blocks: Blocks::new(schema, BLOCK), rows: Rows { array: Array::begin(file, descr)?, columns } })
    }

    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<(), Unwritten> {
        self.blocks.push(batch, |block| self.rows.write(&block.batch()?))
    }

    pub(super) fn finish(mut self) -> Result<(), Unwritten> {
        self.blocks.finish(|block| self.rows.write(&block.batch()?))?;
        Ok(self.rows.array.finish()?)
    }
}

impl Rows {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), Unwritten> {
        let columns = || batch.columns().iter().zip(&self.columns);
        if let Some((_, column)) = columns().find(|(array, column)| array.logical_null_count() > 0 && !column.has_flag)
        {
            return Err(Unwritten::Because(format!(
                "the column {} has nulls, and .npy none: write .parquet, .arrow or .csv",
                text::name(&column.name)
            )));
        }
        // NumPy removes zero bytes at the end of a text.
        let is_text = |value: &[u8]| value.is_ascii() && value.last().is_some_and(|&byte| byte != 0);
        for (array, column) in columns() {
            if let Some(values) = array.as_fixed_size_binary_opt()
                && !values.iter().flatten().all(is_text)
            {
                return Err(Unwritten::Because(format!(
                    "the column {} has bytes that are not text, and .npy holds numbers, booleans and text: write .parquet \
                     or .arrow",
                    text::name(&column.name)
                )));
            }
        }
        let width = self.columns.iter().map(|column| column.width + usize::from(column.has_flag)).sum::<usize>();
        let rows = batch.num_rows();
        let mut bytes = vec![0; width * rows];
        bytes.par_chunks_mut((PIECE * width).max(1)).enumerate().for_each(|(i, piece)| {
            let mut at = 0;
            for (array, column) in columns() {
                let array = array.slice(i * PIECE, PIECE.min(rows - i * PIECE));
                // Blocks have zeros in place of nulls.
                fill(&array, piece, at, width);
                at += column.width;
                if column.has_flag {
                    (0..array.len()).for_each(|row| piece[row * width + at] = array.is_valid(row).into());
                    at += 1;
                }
            }
        });
        Ok(self.array.extend(rows as u64, &bytes)?)
    }
}

/// The code of a type, and the bytes of its values.
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

/// Writes a column into rows of `width` bytes, at offset `at` of each.
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
                // `new` has refused other types.
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

/// Writes a one-dimensional array to a file.
struct Array<W: Write + Seek> {
    writer: BufWriter<W>,
    descr: String,
    length: u64,
}

impl<W: Write + Seek> Array<W> {
    /// Begins an array with elements of this type at the start of a file.
    fn begin(file: W, descr: String) -> io::Result<Array<W>> {
        let mut writer = BufWriter::with_capacity(1 << 16, file);
        writer.write_all(&header(&descr, 0))?;
        Ok(Array { writer, descr, length: 0 })
    }

    /// Writes the bytes of `count` elements.
    fn extend(&mut self, count: u64, elements: &[u8]) -> io::Result<()> {
        self.length += count;
        self.writer.write_all(elements)
    }

    /// Writes the remaining elements, and the length.
    fn finish(mut self) -> io::Result<()> {
        self.writer.seek(SeekFrom::Start(0))?;
        self.writer.write_all(&header(&self.descr, self.length))?;
        self.writer.flush()
    }
}

/// A header of version 1.0, with space for a length of 21 digits, padded to a multiple of 64 bytes.
fn header(descr: &str, length: u64) -> Vec<u8> {
    const DIGITS: usize = 21;
    let length = length.to_string();
    let space = " ".repeat(DIGITS - length.len());
    let mut text = format!("{{'descr': {descr}, 'fortran_order': False, 'shape': ({length},), }}{space}");
    let start = 10;
    // `Writer::new` returned an error if the header would be too long.
    let size = (start + text.len() + 1).next_multiple_of(64) - start;
    text.push_str(&" ".repeat(size - text.len() - 1));
    text.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((size as u16).to_le_bytes());
    bytes.extend(text.as_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    /// `numpy.save` (NumPy 2) writes the same headers for arrays of these types.
    #[test]
    fn headers_are_those_of_numpy() {
        let one = "{'descr': '<u4', 'fortran_order': False, 'shape': (3,), }";
        let written = header("'<u4'", 3);
        assert_eq!(written[..10], *b"\x93NUMPY\x01\x00\x76\x00");
        assert_eq!(written.len(), 128);
        assert_eq!(written[10..], *format!("{one:<117}\n").as_bytes());
    }

    #[test]
    fn any_length_has_the_same_space() {
        for descr in ["'<u4'", "[('key', '<u4'), ('value', '<u4'), ('found', '|b1')]"] {
            let empty = header(descr, 0);
            assert!(empty.len().is_multiple_of(64));
            assert_eq!(empty.len(), header(descr, u64::MAX).len());
        }
        let mut file = Cursor::new(Vec::new());
        let mut array = Array::begin(&mut file, "'<u4'".into()).expect("memory");
        for number in 0..1000_u32 {
            array.extend(1, &number.to_le_bytes()).expect("memory");
        }
        array.finish().expect("memory");
        let bytes = file.into_inner();
        assert_eq!(bytes.len(), 128 + 4000);
        assert!(bytes.starts_with(&header("'<u4'", 1000)) && bytes.ends_with(&999_u32.to_le_bytes()));
    }
}
