//! Writes the cells of a column as text: all types for CSV; timestamps, periods and decimals for NDJSON.

use std::io::Write;

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrowNativeTypeOp};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, IntervalUnit, TimeUnit};

use crate::number::digits;

use super::super::moments::{write_date, write_moment, write_period, write_time};

/// A column whose cells can be written as text. Writing to memory does not fail.
pub(in super::super) trait Cells: Sync {
    /// Writes the cell of a row, which must not be null.
    fn put(&self, row: usize, out: &mut Vec<u8>);
}

/// The cells of a column, and its nulls.
pub(in super::super) struct Column<'a> {
    pub(in super::super) cells: Box<dyn Cells + 'a>,
    pub(in super::super) nulls: Option<NullBuffer>,
}

/// Whether cells of this type can be written as text.
pub(super) fn is_writable(data_type: &DataType) -> bool {
    use DataType::*;
    match data_type {
        Dictionary(_, values) => is_writable(values) && !matches!(**values, Dictionary(..)),
        other => !other.is_nested() && !matches!(other, RunEndEncoded(..)),
    }
}

/// The cells of an array; `None` if its type cannot be written as text.
pub(in super::super) fn column<'a>(array: &'a dyn Array, delimiter: u8) -> Option<Column<'a>> {
    use DataType::*;
    macro_rules! values {
        ($arrow:ty) => {
            array.as_primitive_opt::<$arrow>()?.values()
        };
    }
    let cells: Box<dyn Cells + 'a> = match array.data_type() {
        Int8 => whole(values!(Int8Type)),
        Int16 => whole(values!(Int16Type)),
        Int32 => whole(values!(Int32Type)),
        Int64 => whole(values!(Int64Type)),
        UInt8 => whole(values!(UInt8Type)),
        UInt16 => whole(values!(UInt16Type)),
        UInt32 => whole(values!(UInt32Type)),
        UInt64 => whole(values!(UInt64Type)),
        Float16 => {
            let halves = values!(Float16Type);
            By::new(move |row, out: &mut Vec<u8>| shortest(halves[row].to_f32(), out))
        }
        Float32 => float(values!(Float32Type)),
        Float64 => float(values!(Float64Type)),
        Boolean => {
            let bits = array.as_boolean_opt()?;
            By::new(move |row, out: &mut Vec<u8>| out.extend(if bits.value(row) { &b"true"[..] } else { b"false" }))
        }
        Date32 => {
            let days = values!(Date32Type);
            By::new(move |row, out: &mut Vec<u8>| write_date(out, days[row].into()))
        }
        Date64 => {
            let millis = values!(Date64Type);
            By::new(move |row, out: &mut Vec<u8>| match millis[row] {
                // A multiple of whole days, as the type requires.
                day if day.rem_euclid(86_400_000) == 0 => write_date(out, day / 86_400_000),
                moment => write_moment(out, moment, 1_000),
            })
        }
        Time32(TimeUnit::Second) => times(values!(Time32SecondType), 1),
        Time32(_) => times(values!(Time32MillisecondType), 1_000),
        Time64(TimeUnit::Microsecond) => times(values!(Time64MicrosecondType), 1_000_000),
        Time64(_) => times(values!(Time64NanosecondType), 1_000_000_000),
        Timestamp(unit, zone) => {
            let parts = match unit {
                TimeUnit::Second => values!(TimestampSecondType),
                TimeUnit::Millisecond => values!(TimestampMillisecondType),
                TimeUnit::Microsecond => values!(TimestampMicrosecondType),
                TimeUnit::Nanosecond => values!(TimestampNanosecondType),
            };
            moments(parts, a_second(*unit), zone.is_some())
        }
        Duration(unit) => {
            let parts = match unit {
                TimeUnit::Second => values!(DurationSecondType),
                TimeUnit::Millisecond => values!(DurationMillisecondType),
                TimeUnit::Microsecond => values!(DurationMicrosecondType),
                TimeUnit::Nanosecond => values!(DurationNanosecondType),
            };
            let a_second = a_second(*unit);
            By::new(move |row, out: &mut Vec<u8>| write_period(out, 0, 0, (parts[row].into(), a_second.into())))
        }
        Interval(IntervalUnit::YearMonth) => {
            let months = values!(IntervalYearMonthType);
            By::new(move |row, out: &mut Vec<u8>| write_period(out, months[row], 0, (0, 1)))
        }
        Interval(IntervalUnit::DayTime) => {
            let periods = values!(IntervalDayTimeType);
            By::new(move |row, out: &mut Vec<u8>| {
                write_period(out, 0, periods[row].days, (periods[row].milliseconds.into(), 1_000));
            })
        }
        Interval(IntervalUnit::MonthDayNano) => {
            let periods = values!(IntervalMonthDayNanoType);
            By::new(move |row, out: &mut Vec<u8>| {
                let period = periods[row];
                write_period(out, period.months, period.days, (period.nanoseconds.into(), 1_000_000_000));
            })
        }
        Decimal32(precision, scale) => decimals::<Decimal32Type>(values!(Decimal32Type), *precision, *scale),
        Decimal64(precision, scale) => decimals::<Decimal64Type>(values!(Decimal64Type), *precision, *scale),
        Decimal128(precision, scale) => decimals::<Decimal128Type>(values!(Decimal128Type), *precision, *scale),
        Decimal256(precision, scale) => decimals::<Decimal256Type>(values!(Decimal256Type), *precision, *scale),
        Utf8 => {
            let texts = array.as_string_opt::<i32>()?;
            By::new(move |row, out: &mut Vec<u8>| text(texts.value(row), delimiter, out))
        }
        LargeUtf8 => {
            let texts = array.as_string_opt::<i64>()?;
            By::new(move |row, out: &mut Vec<u8>| text(texts.value(row), delimiter, out))
        }
        Utf8View => {
            let texts = array.as_string_view_opt()?;
            By::new(move |row, out: &mut Vec<u8>| text(texts.value(row), delimiter, out))
        }
        Binary => {
            let bytes = array.as_binary_opt::<i32>()?;
            By::new(move |row, out: &mut Vec<u8>| hexadecimal(bytes.value(row), out))
        }
        LargeBinary => {
            let bytes = array.as_binary_opt::<i64>()?;
            By::new(move |row, out: &mut Vec<u8>| hexadecimal(bytes.value(row), out))
        }
        BinaryView => {
            let bytes = array.as_binary_view_opt()?;
            By::new(move |row, out: &mut Vec<u8>| hexadecimal(bytes.value(row), out))
        }
        FixedSizeBinary(_) => {
            let bytes = array.as_fixed_size_binary_opt()?;
            By::new(move |row, out: &mut Vec<u8>| hexadecimal(bytes.value(row), out))
        }
        Null => By::new(|_, _: &mut Vec<u8>| {}),
        _ => return None,
    };
    Some(Column { cells, nulls: array.logical_nulls() })
}

/// Cells written by a function.
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

/// Integers, written as a sign and digits.
trait Whole: Copy + Sync {
    fn is_negative(self) -> bool;
    fn digits(self) -> u64;
}

macro_rules! wholes {
    ($($signed:ty, $unsigned:ty;)*) => {$(
        impl Whole for $signed {
            #[inline]
            fn is_negative(self) -> bool {
                self < 0
            }
            #[inline]
            fn digits(self) -> u64 {
                self.unsigned_abs().into()
            }
        }
        impl Whole for $unsigned {
            #[inline]
            fn is_negative(self) -> bool {
                false
            }
            #[inline]
            fn digits(self) -> u64 {
                self.into()
            }
        }
    )*};
}

wholes! { i8, u8; i16, u16; i32, u32; i64, u64; }

fn whole<T: Whole>(values: &[T]) -> Box<dyn Cells + '_> {
    By::new(move |row, out: &mut Vec<u8>| {
        if values[row].is_negative() {
            out.push(b'-');
        }
        digits::write(values[row].digits(), out);
    })
}

fn float<T: std::fmt::Debug + Copy + Sync>(values: &[T]) -> Box<dyn Cells + '_> {
    By::new(move |row, out: &mut Vec<u8>| shortest(values[row], out))
}

/// Writes the shortest text that is parsed as the same float. It is never parsed as an integer.
fn shortest<T: std::fmt::Debug>(value: T, out: &mut Vec<u8>) {
    // Writing to memory does not fail.
    let _ = write!(out, "{value:?}");
}

fn decimals<T: DecimalType + Sync>(values: &[T::Native], precision: u8, scale: i8) -> Box<dyn Cells + '_>
where
    T::Native: Sync,
{
    By::new(move |row, out: &mut Vec<u8>| match values[row].is_zero() && scale < 0 {
        // Arrow appends the zeros of the scale to a zero too.
        true => out.push(b'0'),
        false => out.extend(T::format_decimal(values[row], precision, scale).as_bytes()),
    })
}

fn a_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// Times of a day.
fn times<T: Into<i64> + Copy + Sync>(parts: &[T], a_second: i64) -> Box<dyn Cells + '_> {
    By::new(move |row, out: &mut Vec<u8>| write_time(out, parts[row].into(), a_second))
}

/// Timestamps; those with a time zone are written as UTC.
fn moments(parts: &[i64], a_second: i64, has_zone: bool) -> Box<dyn Cells + '_> {
    By::new(move |row, out: &mut Vec<u8>| {
        write_moment(out, parts[row], a_second);
        out.extend(has_zone.then_some(b'Z'));
    })
}

/// Writes each byte as two hexadecimal digits.
fn hexadecimal(bytes: &[u8], out: &mut Vec<u8>) {
    for byte in bytes {
        let _ = write!(out, "{byte:02x}");
    }
    // Without quotes, it would be read as null.
    if bytes.is_empty() {
        out.extend(b"\"\"");
    }
}

/// Writes a text. It is quoted if it would be read as something else without quotes, or as null because it is empty.
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
