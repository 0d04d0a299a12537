//! The cells of a column as text: what CSV has for each type.

use std::io::Write;

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, TimeUnit};

use super::super::moments::{write_date, write_moment};

/// A column whose cells can be written. Writing to memory does not fail.
pub(super) trait Cells: Sync {
    /// Writes the cell of a row, which is no null.
    fn put(&self, row: usize, out: &mut Vec<u8>);
}

/// A column, and where it has nulls.
pub(super) struct Column<'a> {
    pub(super) cells: Box<dyn Cells + 'a>,
    pub(super) nulls: Option<NullBuffer>,
}

/// Whether cells of a type can be written as text.
pub(super) fn is_writable(data_type: &DataType) -> bool {
    use DataType::*;
    match data_type {
        Null | Boolean | Int8 | Int16 | Int32 | Int64 | UInt8 | UInt16 | UInt32 | UInt64 => true,
        Float32 | Float64 | Utf8 | LargeUtf8 | Utf8View | Date32 | Date64 | Timestamp(..) | Decimal128(..) => true,
        Dictionary(_, values) => is_writable(values) && !matches!(**values, Dictionary(..)),
        _ => false,
    }
}

/// The cells of an array of a type that is writable.
pub(super) fn column<'a>(array: &'a ArrayRef, delimiter: u8) -> Option<Column<'a>> {
    let cells: Box<dyn Cells + 'a> = match array.data_type() {
        DataType::Int8 => whole(array.as_primitive_opt::<Int8Type>()?.values()),
        DataType::Int16 => whole(array.as_primitive_opt::<Int16Type>()?.values()),
        DataType::Int32 => whole(array.as_primitive_opt::<Int32Type>()?.values()),
        DataType::Int64 => whole(array.as_primitive_opt::<Int64Type>()?.values()),
        DataType::UInt8 => whole(array.as_primitive_opt::<UInt8Type>()?.values()),
        DataType::UInt16 => whole(array.as_primitive_opt::<UInt16Type>()?.values()),
        DataType::UInt32 => whole(array.as_primitive_opt::<UInt32Type>()?.values()),
        DataType::UInt64 => whole(array.as_primitive_opt::<UInt64Type>()?.values()),
        DataType::Float32 => float(array.as_primitive_opt::<Float32Type>()?.values()),
        DataType::Float64 => float(array.as_primitive_opt::<Float64Type>()?.values()),
        DataType::Boolean => {
            let bits = array.as_boolean_opt()?;
            By::new(move |row, out: &mut Vec<u8>| out.extend(if bits.value(row) { &b"true"[..] } else { b"false" }))
        }
        DataType::Date32 => {
            let days = array.as_primitive_opt::<Date32Type>()?.values();
            By::new(move |row, out: &mut Vec<u8>| write_date(out, days[row].into()))
        }
        DataType::Date64 => {
            let millis = array.as_primitive_opt::<Date64Type>()?.values();
            By::new(move |row, out: &mut Vec<u8>| write_date(out, millis[row].div_euclid(86_400_000)))
        }
        DataType::Timestamp(unit, zone) => moments(array, *unit, zone.is_some())?,
        DataType::Decimal128(precision, scale) => {
            let (values, precision, scale) = (array.as_primitive_opt::<Decimal128Type>()?.values(), *precision, *scale);
            By::new(move |row, out: &mut Vec<u8>| {
                out.extend(Decimal128Type::format_decimal(values[row], precision, scale).as_bytes());
            })
        }
        DataType::Utf8 => {
            let texts = array.as_string_opt::<i32>()?;
            By::new(move |row, out: &mut Vec<u8>| text(texts.value(row), delimiter, out))
        }
        DataType::LargeUtf8 => {
            let texts = array.as_string_opt::<i64>()?;
            By::new(move |row, out: &mut Vec<u8>| text(texts.value(row), delimiter, out))
        }
        DataType::Utf8View => {
            let texts = array.as_string_view_opt()?;
            By::new(move |row, out: &mut Vec<u8>| text(texts.value(row), delimiter, out))
        }
        DataType::Null => By::new(|_, _: &mut Vec<u8>| {}),
        _ => return None,
    };
    Some(Column { cells, nulls: array.logical_nulls() })
}

/// Cells that a function writes.
struct By<F>(F);

impl<'a, F: Fn(usize, &mut Vec<u8>) + Sync + 'a> By<F> {
    #[expect(clippy::new_ret_no_self, reason = "of all kinds of cells there is one type")]
    fn new(put: F) -> Box<dyn Cells + 'a> {
        Box::new(By(put))
    }
}

impl<F: Fn(usize, &mut Vec<u8>) + Sync> Cells for By<F> {
    #[inline]
    fn put(&self, row: usize, out: &mut Vec<u8>) {
        (self.0)(row, out);
    }
}

fn whole<T: itoa::Integer + Copy + Sync>(values: &[T]) -> Box<dyn Cells + '_> {
    By::new(move |row, out: &mut Vec<u8>| out.extend_from_slice(itoa::Buffer::new().format(values[row]).as_bytes()))
}

/// In the fewest digits that are read as the same number, and never as a whole one.
fn float<T: std::fmt::Debug + Copy + Sync>(values: &[T]) -> Box<dyn Cells + '_> {
    By::new(move |row, out: &mut Vec<u8>| {
        let _ = write!(out, "{:?}", values[row]);
    })
}

/// Moments of a zone are written as of UTC.
fn moments(array: &ArrayRef, unit: TimeUnit, has_zone: bool) -> Option<Box<dyn Cells + '_>> {
    let (parts, a_second) = match unit {
        TimeUnit::Second => (array.as_primitive_opt::<TimestampSecondType>()?.values(), 1),
        TimeUnit::Millisecond => (array.as_primitive_opt::<TimestampMillisecondType>()?.values(), 1_000),
        TimeUnit::Microsecond => (array.as_primitive_opt::<TimestampMicrosecondType>()?.values(), 1_000_000),
        TimeUnit::Nanosecond => (array.as_primitive_opt::<TimestampNanosecondType>()?.values(), 1_000_000_000),
    };
    Some(By::new(move |row, out: &mut Vec<u8>| {
        write_moment(out, parts[row], a_second);
        out.extend(has_zone.then_some(b'Z'));
    }))
}

/// A text, in quotes where it would be taken for something else without; so is an empty one, which is no null.
pub(super) fn text(text: &str, delimiter: u8, out: &mut Vec<u8>) {
    let text = text.as_bytes();
    let is_special = |&byte: &u8| byte == delimiter || byte == b'"' || byte == b'\n' || byte == b'\r';
    if !text.is_empty() && !text.iter().any(is_special) {
        out.extend_from_slice(text);
        return;
    }
    out.push(b'"');
    for &byte in text {
        out.extend(std::iter::repeat_n(byte, if byte == b'"' { 2 } else { 1 }));
    }
    out.push(b'"');
}
