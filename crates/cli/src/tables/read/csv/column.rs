//! Converts the fields of a column in a piece of text to an array.

use std::sync::Arc;

use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, Float64Type, Int32Type, Int64Type, TimestampMicrosecondType,
    UInt32Type, UInt64Type,
};
use arrow_array::{ArrayRef, BooleanArray, PrimitiveArray, StringArray};
use arrow_buffer::{BooleanBufferBuilder, NullBufferBuilder, OffsetBuffer, ScalarBuffer};

use super::super::super::doubles;
use super::super::super::kinds::{Kind, Seen};
use super::super::super::moments::{MICROS_A_DAY, Moment, date, moment};
use super::fields::Field;
use crate::number::Words;

/// How the fields of a column are collected.
pub(super) enum Cells {
    /// The column is not wanted.
    Skipped,
    /// Only the classes of the fields are recorded, because they did not fit the guessed type.
    Classes,
    Int32(Numbers<Int32Type>),
    Int64(Numbers<Int64Type>),
    UInt32(Numbers<UInt32Type>),
    UInt64(Numbers<UInt64Type>),
    Float64(Numbers<Float64Type>),
    Date32(Numbers<Date32Type>),
    Timestamp(Numbers<TimestampMicrosecondType>, bool),
    Decimal(Numbers<Decimal128Type>, u8, i8),
    Bool(BooleanBufferBuilder, NullBufferBuilder),
    Utf8(Texts),
    /// Numbers that the `parse` function of [`numbers`](super::piece::numbers) returns. The flag says whether plain
    /// integers may bypass that function.
    Words(Words, bool),
}

/// Numbers; 0 for nulls.
pub(super) struct Numbers<T: ArrowPrimitiveType> {
    values: Vec<T::Native>,
    /// The validity of the rows up to the last null; later rows are valid.
    nulls: NullBufferBuilder,
}

impl<T: ArrowPrimitiveType> Numbers<T> {
    fn new(rows: usize) -> Numbers<T> {
        Numbers { values: Vec::with_capacity(rows), nulls: NullBufferBuilder::new(rows) }
    }

    #[inline]
    pub(super) fn push(&mut self, value: T::Native) {
        self.values.push(value);
    }

    fn maybe(&mut self, value: Option<T::Native>) {
        if value.is_none() {
            self.nulls.append_n_non_nulls(self.values.len() - self.nulls.len());
            self.nulls.append_null();
        }
        self.values.push(value.unwrap_or_default());
    }

    fn finish(mut self) -> PrimitiveArray<T> {
        self.nulls.append_n_non_nulls(self.values.len() - self.nulls.len());
        PrimitiveArray::new(ScalarBuffer::from(self.values), self.nulls.finish())
    }
}

/// Texts, concatenated.
pub(super) struct Texts {
    ends: Vec<i32>,
    bytes: Vec<u8>,
    nulls: NullBufferBuilder,
}

/// Why a field cannot be added to its column.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The field has another type.
    Type,
    /// The texts of the piece are longer than an array allows.
    Length,
}

impl Cells {
    /// Creates cells for a type, and for about `rows` rows.
    pub(super) fn of(kind: Kind, rows: usize) -> Cells {
        match kind {
            Kind::Int32 => Cells::Int32(Numbers::new(rows)),
            Kind::Int64 => Cells::Int64(Numbers::new(rows)),
            Kind::UInt32 => Cells::UInt32(Numbers::new(rows)),
            Kind::UInt64 => Cells::UInt64(Numbers::new(rows)),
            Kind::Float64 => Cells::Float64(Numbers::new(rows)),
            Kind::Date32 => Cells::Date32(Numbers::new(rows)),
            Kind::Timestamp { is_utc } => Cells::Timestamp(Numbers::new(rows), is_utc),
            Kind::Decimal(precision, scale) => Cells::Decimal(Numbers::new(rows), precision, scale),
            Kind::Bool => Cells::Bool(BooleanBufferBuilder::new(rows), NullBufferBuilder::new(rows)),
            Kind::Utf8 => {
                let mut ends = Vec::with_capacity(rows + 1);
                ends.push(0);
                Cells::Utf8(Texts { ends, bytes: Vec::new(), nulls: NullBufferBuilder::new(rows) })
            }
        }
    }

    /// Adds a field, or a null.
    ///
    /// # Errors
    /// If the field does not have the type; nothing is added then.
    pub(super) fn push(&mut self, field: Field<'_>) -> Result<(), Refusal> {
        let is_null = field.is_null();
        let text = field.text();
        let text = &text[..];
        match self {
            Cells::Skipped | Cells::Classes | Cells::Words(..) => {}
            Cells::Int32(numbers) => numbers.maybe(read(is_null, || number(text))?),
            Cells::Int64(numbers) => numbers.maybe(read(is_null, || number(text))?),
            Cells::UInt32(numbers) => numbers.maybe(read(is_null, || number(text))?),
            Cells::UInt64(numbers) => numbers.maybe(read(is_null, || number(text))?),
            Cells::Float64(numbers) => numbers.maybe(read(is_null, || float(text))?),
            Cells::Date32(numbers) => numbers.maybe(read(is_null, || date(text))?),
            Cells::Timestamp(numbers, is_utc) => numbers.maybe(read(is_null, || micros(text, *is_utc))?),
            Cells::Decimal(numbers, precision, scale) => {
                numbers.maybe(read(is_null, || decimal(text, *precision, *scale))?);
            }
            Cells::Bool(bits, nulls) => {
                let bit = read(is_null, || truth(text))?;
                bits.append(bit == Some(true));
                nulls.append(bit.is_some());
            }
            Cells::Utf8(texts) => {
                let end = i32::try_from(texts.bytes.len() + text.len()).map_err(|_| Refusal::Length)?;
                texts.bytes.extend_from_slice(text);
                texts.ends.push(end);
                texts.nulls.append(!is_null);
            }
        }
        Ok(())
    }

    /// The classes of the values, as far as they matter for the type of the whole column.
    pub(super) fn seen(&self) -> Seen {
        let any = |nulls: &NullBufferBuilder, length: usize, class: Seen| {
            let has_values = nulls.as_slice().is_none_or(|bits| bits.iter().any(|&bits| bits != 0));
            if length > 0 && (has_values || nulls.len() < length) { class } else { Seen::default() }
        };
        match self {
            Cells::Int64(numbers) => {
                // Combines the bits of all numbers, to avoid a branch for each of them.
                let (signs, tops) = numbers
                    .values
                    .iter()
                    .fold((0, 0), |(signs, tops), &value| (signs | value, tops | value.unsigned_abs()));
                let sign = if signs < 0 { Seen::NEGATIVE } else { Seen::default() };
                let wide = wide(tops, || numbers.values.iter().map(|&value| value.into()));
                any(&numbers.nulls, numbers.values.len(), Seen::WHOLE.and(sign).and(wide))
            }
            Cells::UInt64(numbers) => {
                let tops = numbers.values.iter().fold(0, |tops, value| tops | value);
                let big = if i64::try_from(tops).is_err() { Seen::BIG } else { Seen::default() };
                let wide = wide(tops, || numbers.values.iter().map(|&value| value.into()));
                any(&numbers.nulls, numbers.values.len(), Seen::WHOLE.and(big).and(wide))
            }
            Cells::Float64(numbers) => any(&numbers.nulls, numbers.values.len(), Seen::FLOAT),
            Cells::Date32(numbers) => any(&numbers.nulls, numbers.values.len(), Seen::DATE),
            Cells::Timestamp(numbers, false) => any(&numbers.nulls, numbers.values.len(), Seen::TIME),
            Cells::Timestamp(numbers, true) => any(&numbers.nulls, numbers.values.len(), Seen::UTC),
            Cells::Bool(bits, nulls) => any(nulls, bits.len(), Seen::BOOL),
            Cells::Utf8(texts) => any(&texts.nulls, texts.ends.len() - 1, Seen::TEXT),
            _ => Seen::default(),
        }
    }

    /// The array; `None` for a skipped column. `Err` if texts are not UTF-8.
    pub(super) fn finish(self) -> Result<Option<ArrayRef>, ()> {
        Ok(Some(match self {
            Cells::Skipped | Cells::Classes | Cells::Words(..) => return Ok(None),
            Cells::Int32(numbers) => Arc::new(numbers.finish()),
            Cells::Int64(numbers) => Arc::new(numbers.finish()),
            Cells::UInt32(numbers) => Arc::new(numbers.finish()),
            Cells::UInt64(numbers) => Arc::new(numbers.finish()),
            Cells::Float64(numbers) => Arc::new(numbers.finish()),
            Cells::Date32(numbers) => Arc::new(numbers.finish()),
            Cells::Timestamp(numbers, is_utc) => {
                Arc::new(numbers.finish().with_data_type(Kind::Timestamp { is_utc }.data_type()))
            }
            Cells::Decimal(numbers, precision, scale) => {
                Arc::new(numbers.finish().with_data_type(Kind::Decimal(precision, scale).data_type()))
            }
            Cells::Bool(mut bits, mut nulls) => Arc::new(BooleanArray::new(bits.finish(), nulls.finish())),
            Cells::Utf8(mut texts) => {
                let offsets = OffsetBuffer::new(ScalarBuffer::from(texts.ends));
                let array = StringArray::try_new(offsets, texts.bytes.into(), texts.nulls.finish());
                Arc::new(array.map_err(|_| ())?)
            }
        }))
    }
}

/// Returns `Seen::WIDE` if a double cannot represent some of the numbers. `tops` is the bitwise OR of their absolute
/// values.
fn wide<I: Iterator<Item = i128>>(tops: u64, numbers: impl FnOnce() -> I) -> Seen {
    let is_wide = tops > 1 << 53 && numbers().any(|number| !doubles::holds_whole(number));
    if is_wide { Seen::WIDE } else { Seen::default() }
}

/// The value, or `None` for a null.
fn read<T>(is_null: bool, value: impl FnOnce() -> Option<T>) -> Result<Option<T>, Refusal> {
    if is_null { Ok(None) } else { value().map(Some).ok_or(Refusal::Type) }
}

fn number<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// A number; `None` if it is beyond the range of doubles.
fn float(text: &[u8]) -> Option<f64> {
    number(text).filter(|float: &f64| float.is_finite() || !text.iter().any(u8::is_ascii_digit))
}

fn truth(text: &[u8]) -> Option<bool> {
    match text {
        b"true" | b"True" | b"TRUE" | b"1" => Some(true),
        b"false" | b"False" | b"FALSE" | b"0" => Some(false),
        _ => None,
    }
}

/// Parses a timestamp that has an offset if `wants_utc`, and none otherwise. A date without a time is a timestamp
/// without an offset, at midnight.
fn micros(text: &[u8], wants_utc: bool) -> Option<i64> {
    match moment(text) {
        Some(Moment { micros, is_utc }) => (is_utc == wants_utc).then_some(micros),
        None if wants_utc => None,
        None => Some(i64::from(date(text)?) * MICROS_A_DAY),
    }
}

/// An exact decimal number: digits beyond the scale must be 0.
fn decimal(text: &[u8], precision: u8, scale: i8) -> Option<i128> {
    let (sign, digits) = match text {
        [b'-', digits @ ..] => (-1, digits),
        [b'+', digits @ ..] => (1, digits),
        digits => (1, digits),
    };
    let point = digits.iter().position(|&byte| byte == b'.').unwrap_or(digits.len());
    let (whole, fraction) = (&digits[..point], digits.get(point + 1..).unwrap_or(&[]));
    let scale = usize::try_from(scale).ok()?;
    let beyond = fraction.get(scale..).unwrap_or(&[]);
    if whole.len() + fraction.len() == 0 || beyond.iter().any(|&byte| byte != b'0') {
        return None;
    }
    let zeros = std::iter::repeat_n(&b'0', scale.saturating_sub(fraction.len()));
    let mut number = 0i128;
    for byte in whole.iter().chain(&fraction[..scale.min(fraction.len())]).chain(zeros) {
        let digit = byte.is_ascii_digit().then(|| i128::from(byte - b'0'))?;
        number = number.checked_mul(10)?.checked_add(digit)?;
    }
    (number < 10i128.pow(precision.into())).then_some(sign * number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_exact() {
        let read = |text: &str| decimal(text.as_bytes(), 5, 2);
        let expected = [
            ("1.5", Some(150)),
            ("-0.05", Some(-5)),
            ("+7", Some(700)),
            ("1.230", Some(123)),
            (".5", Some(50)),
            ("999.99", Some(99_999)),
            ("1000", None),
            ("1.234", None),
            ("", None),
            (".", None),
            ("-", None),
            ("1e2", None),
            ("1.2.0", None),
        ];
        assert!(expected.iter().all(|&(text, number)| read(text) == number));
        assert_eq!(decimal(&[b'9'; 60], 38, 0), None);
    }
}
