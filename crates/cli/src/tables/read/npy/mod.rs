//! NumPy's `.npy` as columns. Only the requested columns are decoded.
//!
//! ```text
//! shape (n,)           column_1
//! shape (n, k)         column_1 to column_k, stored by row, or by column in Fortran order
//! records, (n,)        one column per named field
//! ```

mod header;

use std::collections::HashSet;
use std::io::{self, Cursor};
use std::sync::Arc;

use arrow_array::builder::StringBuilder;
use arrow_array::types::*;
use arrow_array::{ArrayRef, BooleanArray, PrimitiveArray, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use bytes::Bytes;
use rayon::prelude::*;

use crate::failure::{Failure, Result};
use crate::input::Name;
use crate::{progress, tables, text};

use super::super::{ROWS, Table};
use super::Data;
use super::stream::{self, Stream};
use header::Element;

/// The most columns.
const COLUMNS: u64 = 1 << 16;

/// A file whose header is known.
pub(super) struct Npy {
    data: Data,
    schema: SchemaRef,
    fields: Vec<Scalar>,
    /// The position of the rows, the bytes of a row, and the number of rows.
    start: u64,
    width: usize,
    rows: usize,
    /// Whether each column is stored as a whole.
    is_split: bool,
}

/// The offset of a field in its row, and its type.
#[derive(Clone)]
struct Scalar {
    at: usize,
    width: usize,
    is_big_endian: bool,
    data_type: DataType,
}

impl Npy {
    pub(super) fn open(name: &Name, data: Data) -> Result<Npy> {
        let damaged = |reason: String| name.fail(format!("the .npy header is damaged: {reason}"));
        let head = data.head(header::MOST + 16).map_err(|error| name.io(&error))?;
        let mut reader = Cursor::new(&head);
        let header = header::read(&mut reader).map_err(damaged)?;
        let start = reader.position();
        let (rows, count) = match (&header.shape[..], &header.element) {
            (&[rows], _) => (rows, 1),
            (shape @ &[_, 0], Element::Plain(_)) => {
                return Err(name.fail(format!(
                    "the array has shape {shape:?}, without columns: give one of shape (n, k) with one column or more"
                )));
            }
            (&[rows, count], Element::Plain(_)) if count <= COLUMNS => (rows, count),
            (shape, _) => {
                return Err(name.fail(format!(
                    "the array has shape {shape:?}: give one of shape (n,) or (n, k), with up to {COLUMNS} columns, or of \
                     records"
                )));
            }
        };
        let named = match header.element {
            Element::Plain(code) => (1..=count).map(|i| (format!("column_{i}"), code.clone())).collect(),
            Element::Record(fields) => fields,
            Element::Nested(field) => {
                return Err(name.fail(format!(
                    "records hold others, first in the field {}: save plain fields",
                    text::name(&field)
                )));
            }
        };
        let (mut fields, mut columns, mut width) = (Vec::new(), Vec::new(), 0);
        for (field, code) in named {
            let bytes = header::width(&code).ok_or_else(|| unread(name, &field, &code))?;
            // Padding does not have a name.
            if !field.is_empty() {
                let scalar = Scalar::of(&code, width).ok_or_else(|| unread(name, &field, &code))?;
                columns.push(Field::new(field, scalar.data_type.clone(), false));
                fields.push(scalar);
            }
            width += bytes;
        }
        let mut seen = HashSet::new();
        if let Some(field) = columns.iter().find(|field| !seen.insert(field.name())) {
            return Err(name.fail(format!("two fields are called {}: rename one of them", text::name(field.name()))));
        }
        if width == 0 || fields.is_empty() {
            return Err(name.fail("its rows have no bytes: save named fields of one byte or more"));
        }
        let there = data.length() - start;
        if rows.checked_mul(width as u64).is_none_or(|wanted| wanted > there) {
            return Err(name.fail(format!(
                "{rows} rows of {width} bytes are announced, and {there} bytes are there: is the file cut short?"
            )));
        }
        let rows = usize::try_from(rows).map_err(|error| damaged(error.to_string()))?;
        let is_split = header.fortran_order && count > 1;
        Ok(Npy { data, schema: Arc::new(Schema::new(columns)), fields, start, width, rows, is_split })
    }

    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    pub(super) fn read(&self, name: &Name, places: &[usize]) -> Result<Table> {
        progress::bytes(self.data.length());
        let all = self.data.whole().map_err(|error| name.io(&error))?;
        // `open` has checked that all rows exist.
        let range = |start: u64, length: usize| Ok(all.slice(start as usize..start as usize + length));
        let schema = self.projected(name, places)?;
        let starts: Vec<usize> = (0..self.rows).step_by(ROWS).collect();
        let batch = |&start: &usize| self.batch(name, &schema, places, (start, ROWS.min(self.rows - start)), range);
        let batches = starts.par_iter().map(batch).collect::<Result<Vec<_>>>()?;
        Ok(Table::of(schema, batches))
    }

    pub(super) fn stream<'a>(&'a self, name: &'a Name, places: &[usize]) -> Result<Stream<'a>> {
        // Only the wanted columns are read, if each of them is stored as a whole.
        let width = if self.is_split { places.iter().map(|&i| self.fields[i].width).sum() } else { self.width };
        progress::bytes((self.rows * width) as u64);
        let (schema, places) = (self.projected(name, places)?, places.to_vec());
        let most = stream::rows_of(self.width);
        let projected = schema.clone();
        let range = |start: u64, length: usize| {
            progress::advance_bytes(length as u64);
            self.data.range(start, length)
        };
        let batches = (0..self.rows)
            .step_by(most)
            .map(move |start| self.batch(name, &projected, &places, (start, most.min(self.rows - start)), range));
        Ok(Stream::of(schema, batches))
    }

    fn projected(&self, name: &Name, places: &[usize]) -> Result<SchemaRef> {
        Ok(Arc::new(self.schema.project(places).map_err(|error| name.fail(error))?))
    }

    /// Returns `count` rows from `first` on; `range` returns their bytes.
    fn batch(
        &self,
        name: &Name,
        schema: &SchemaRef,
        places: &[usize],
        (first, count): (usize, usize),
        range: impl Fn(u64, usize) -> io::Result<Bytes>,
    ) -> Result<RecordBatch> {
        let range = |at: usize, length: usize| range(self.start + at as u64, length).map_err(|error| name.io(&error));
        let rows = if self.is_split { Bytes::new() } else { range(first * self.width, count * self.width)? };
        let array = |&place: &usize| {
            let field = &self.fields[place];
            let array = match self.is_split {
                false => field.array(&rows, field.at, self.width),
                true => field.array(
                    &range(field.at * self.rows + first * field.width, count * field.width)?,
                    0,
                    field.width,
                ),
            };
            array.ok_or_else(|| {
                name.fail(format!("the field {} is not UTF-8", text::name(self.schema.field(place).name())))
            })
        };
        let arrays = places.iter().map(array).collect::<Result<Vec<_>>>()?;
        tables::batch(schema, arrays, count).map_err(|error| name.fail(error))
    }
}

fn unread(name: &Name, field: &str, code: &str) -> Failure {
    let advice = "save numbers, booleans or texts of bytes (S)";
    let field = text::name(field);
    name.fail(format!("the column {field} is of type {code}, which is not read: {advice}"))
}

impl Scalar {
    fn of(code: &str, at: usize) -> Option<Scalar> {
        let width = header::width(code)?;
        let order = code.as_bytes().first()?;
        let is_big_endian = *order == b'>' || (*order == b'=' && cfg!(target_endian = "big"));
        let data_type = match code.get(1..)? {
            "i1" => DataType::Int8,
            "i2" => DataType::Int16,
            "i4" => DataType::Int32,
            "i8" => DataType::Int64,
            "u1" => DataType::UInt8,
            "u2" => DataType::UInt16,
            "u4" => DataType::UInt32,
            "u8" => DataType::UInt64,
            "f4" => DataType::Float32,
            "f8" => DataType::Float64,
            "b1" => DataType::Boolean,
            code if code.starts_with('S') => DataType::Utf8,
            _ => return None,
        };
        Some(Scalar { at, width, is_big_endian, data_type })
    }

    /// The array of this field, which begins at offset `at` of each row of `width` bytes; `None` if texts are not
    /// UTF-8.
    fn array(&self, rows: &[u8], at: usize, width: usize) -> Option<ArrayRef> {
        let count = rows.len().checked_div(width).unwrap_or(0);
        let cells = (0..count).map(|row| &rows[row * width + at..][..self.width]);
        macro_rules! numbers {
            ($($name:ident => $type:ty),*) => {
                match self.data_type {
                    $(DataType::$name => Arc::new(PrimitiveArray::<$type>::from_iter_values(cells.map(|cell| {
                        let mut bytes = [0; size_of::<<$type as ArrowPrimitiveType>::Native>()];
                        bytes.copy_from_slice(cell);
                        if self.is_big_endian {
                            bytes.reverse();
                        }
                        <$type as ArrowPrimitiveType>::Native::from_le_bytes(bytes)
                    }))),)*
                    DataType::Boolean => Arc::new(BooleanArray::from_iter(cells.map(|cell| Some(cell[0] != 0)))),
                    _ => return texts(cells),
                }
            };
        }
        Some(numbers!(
            Int8 => Int8Type, Int16 => Int16Type, Int32 => Int32Type, Int64 => Int64Type,
            UInt8 => UInt8Type, UInt16 => UInt16Type, UInt32 => UInt32Type, UInt64 => UInt64Type,
            Float32 => Float32Type, Float64 => Float64Type
        ))
    }
}

/// Texts, without the zeros that pad them.
fn texts<'a>(cells: impl Iterator<Item = &'a [u8]>) -> Option<ArrayRef> {
    let mut texts = StringBuilder::new();
    for cell in cells {
        let length = cell.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        texts.append_value(std::str::from_utf8(&cell[..length]).ok()?);
    }
    Some(Arc::new(texts.finish()))
}
