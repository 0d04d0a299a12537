//! Key columns split into columns of plain values.
//!
//! ```text
//! integers, dates, times, timestamps, durations, decimals of 32, 64 and 128 bits    the values, unchanged
//! booleans                    0 and 1
//! floats                      their values, with 0 in place of -0 and a single NaN
//! intervals                   a column per part;     decimals of 256 bits: two halves
//! text and binary             the values, unchanged; a dictionary of them: its values, and the index of each row
//! other dictionaries          the value of each row
//! structs                     whether each is valid, and a column per field
//! ```
//!
//! Buffers are shared with the arrays, not copied, except for booleans, half floats, intervals and dictionaries.

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef, FixedSizeBinaryArray, downcast_dictionary_array, new_empty_array, new_null_array};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, IntervalUnit, TimeUnit};

use crate::error::{Error, Result};
use crate::keys::Column;
use crate::take::take;
use crate::written::{mapped, written_in_pieces};

/// A column of plain values, in pieces. A clone shares the pieces.
#[derive(Clone)]
pub(crate) struct Leaf {
    pub(crate) pieces: Vec<Piece>,
    /// A value `v` represents `v / 10^scale`: the scale is the number of decimal places, or 3 for milliseconds.
    pub(crate) scale: i8,
}

/// A piece of a column.
#[derive(Clone)]
pub(crate) struct Piece {
    pub(crate) values: Values,
    /// The rows that are not null; `None` if all are.
    pub(crate) nulls: Option<NullBuffer>,
    pub(crate) rows: usize,
}

/// Values of one type.
#[derive(Clone)]
pub(crate) enum Values {
    I8(ScalarBuffer<i8>),
    I16(ScalarBuffer<i16>),
    I32(ScalarBuffer<i32>),
    I64(ScalarBuffer<i64>),
    I128(ScalarBuffer<i128>),
    U8(ScalarBuffer<u8>),
    U16(ScalarBuffer<u16>),
    U32(ScalarBuffer<u32>),
    U64(ScalarBuffer<u64>),
    F32(ScalarBuffer<f32>),
    F64(ScalarBuffer<f64>),
    Bytes(Bytes),
}

/// Strings of bytes, and the index of each row's string; without indices, row i has string i.
#[derive(Clone)]
pub(crate) struct Bytes {
    pub(crate) strings: Strings,
    pub(crate) keys: Option<ScalarBuffer<u32>>,
}

/// Strings of bytes in Arrow's layouts.
#[derive(Clone)]
pub(crate) enum Strings {
    Small(OffsetBuffer<i32>, Buffer),
    Large(OffsetBuffer<i64>, Buffer),
    Views(arrow_array::BinaryViewArray),
    Fixed(FixedSizeBinaryArray),
}

impl Strings {
    pub(crate) fn len(&self) -> usize {
        match self {
            Strings::Small(offsets, _) => offsets.len() - 1,
            Strings::Large(offsets, _) => offsets.len() - 1,
            Strings::Views(array) => array.len(),
            Strings::Fixed(array) => array.len(),
        }
    }

    /// The address of the strings in memory. Equal addresses mean the same strings, as long as both arrays exist.
    pub(crate) fn place(&self) -> [usize; 3] {
        match self {
            Strings::Small(offsets, bytes) => [offsets.as_ptr().addr(), bytes.as_ptr().addr(), offsets.len()],
            Strings::Large(offsets, bytes) => [offsets.as_ptr().addr(), bytes.as_ptr().addr(), offsets.len()],
            Strings::Views(array) => [array.views().as_ptr().addr(), array.data_buffers().as_ptr().addr(), array.len()],
            Strings::Fixed(array) => [array.value_data().as_ptr().addr(), array.value_size(), array.len()],
        }
    }

    #[inline]
    pub(crate) fn get(&self, i: usize) -> &[u8] {
        match self {
            Strings::Small(offsets, bytes) => &bytes[offsets[i] as usize..offsets[i + 1] as usize],
            Strings::Large(offsets, bytes) => &bytes[offsets[i] as usize..offsets[i + 1] as usize],
            Strings::Views(array) => array.value(i),
            Strings::Fixed(array) => array.value(i),
        }
    }
}

/// A value of fixed width, compared as an integer.
pub(crate) trait Fixed: Copy + Send + Sync {
    /// The type of the integers by which values are compared: two values are equal if, and only if, their integers are.
    type Whole: Ord + Copy + Send + Sync;
    fn whole(self) -> Self::Whole;
    fn widen(whole: Self::Whole) -> i128;
    /// An integer that has the order of the values, with NaN last. Equal values have equal integers.
    fn rank(self) -> i128;
}

macro_rules! fixed {
    ($($integer:ty),*) => {$(
        impl Fixed for $integer {
            type Whole = $integer;
            #[inline(always)]
            fn whole(self) -> $integer {
                self
            }
            #[inline(always)]
            fn widen(whole: $integer) -> i128 {
                whole.into()
            }
            #[inline(always)]
            fn rank(self) -> i128 {
                self.into()
            }
        }
    )*};
}
fixed!(i8, i16, i32, i64, i128, u8, u16, u32, u64);

impl Fixed for f64 {
    type Whole = u64;
    #[inline(always)]
    fn whole(self) -> u64 {
        // Adding 0 turns -0 into 0.
        if self.is_nan() { f64::NAN.to_bits() } else { (self + 0.0).to_bits() }
    }
    #[inline(always)]
    fn widen(whole: u64) -> i128 {
        whole.into()
    }
    #[inline(always)]
    fn rank(self) -> i128 {
        // The bits of positive doubles have the order of the doubles, and those of negative doubles the reverse order.
        let bits = self.whole();
        i128::from(if bits >> 63 == 1 { !bits } else { bits | 1 << 63 })
    }
}

impl Fixed for f32 {
    type Whole = u64;
    #[inline(always)]
    fn whole(self) -> u64 {
        f64::from(self).whole()
    }
    #[inline(always)]
    fn widen(whole: u64) -> i128 {
        whole.into()
    }
    #[inline(always)]
    fn rank(self) -> i128 {
        f64::from(self).rank()
    }
}

/// Runs the first body with `$values` as a slice, if values have a fixed width; the other body is for strings.
macro_rules! with_values {
    ($of:expr, |$values:ident| $body:expr, |$bytes:ident| $other:expr) => {
        match $of {
            $crate::leaf::Values::I8($values) => $body,
            $crate::leaf::Values::I16($values) => $body,
            $crate::leaf::Values::I32($values) => $body,
            $crate::leaf::Values::I64($values) => $body,
            $crate::leaf::Values::I128($values) => $body,
            $crate::leaf::Values::U8($values) => $body,
            $crate::leaf::Values::U16($values) => $body,
            $crate::leaf::Values::U32($values) => $body,
            $crate::leaf::Values::U64($values) => $body,
            $crate::leaf::Values::F32($values) => $body,
            $crate::leaf::Values::F64($values) => $body,
            $crate::leaf::Values::Bytes($bytes) => $other,
        }
    };
}
pub(crate) use with_values;

impl Piece {
    /// Replaces the elements of null rows in `written`, whose first element belongs to row `start`.
    pub(crate) fn replace_nulls<T: Copy>(&self, start: usize, written: &mut [T], by: T) {
        if let Some(nulls) = self.nulls.as_ref().filter(|nulls| nulls.null_count() > 0) {
            for (to, row) in written.iter_mut().zip(start..) {
                if nulls.is_null(row) {
                    *to = by;
                }
            }
        }
    }
}

impl Leaf {
    /// A vector with an element per row, written by all threads. `write` receives the number of a piece, a row of it,
    /// and the elements of this row and of following rows.
    #[inline]
    pub(crate) fn written<T: Copy + Default + Send>(&self, write: impl Fn(usize, usize, &mut [T]) + Sync) -> Vec<T> {
        written_in_pieces(self.pieces.iter().map(|piece| piece.rows), write)
    }

    /// Whether any row is null.
    pub(crate) fn has_nulls(&self) -> bool {
        self.pieces.iter().any(|piece| piece.nulls.as_ref().is_some_and(|nulls| nulls.null_count() > 0))
    }

    /// Whether the values are strings.
    pub(crate) fn is_bytes(&self) -> bool {
        self.pieces.iter().any(|piece| matches!(piece.values, Values::Bytes(_)))
    }

    /// The number of lower bits at which values are split, if they must be split.
    pub(crate) fn half_bits(&self) -> u32 {
        if self.pieces.iter().any(|piece| matches!(piece.values, Values::I128(_))) { 64 } else { 32 }
    }

    /// The upper part and the `bits` lower bits of each value, as two columns. Two values are equal if, and only if,
    /// both of their parts are. Both sides of a join are split at the same bit, whatever their types.
    pub(crate) fn halves(&self, bits: u32) -> [Leaf; 2] {
        fn split<T: Fixed>(values: &[T], bits: u32) -> [Values; 2] {
            let wide = |value: T| T::widen(value.whole());
            // Values of 64 bits are split at bit 32. The upper part of a wider value must not wrap, because that value
            // does not equal any of them.
            let upper = |value: i128| i64::try_from(value >> bits).unwrap_or(i64::MAX);
            [
                Values::I64(mapped(values, |value| upper(wide(value))).into()),
                Values::U64(mapped(values, |value| wide(value) as u64 & (u64::MAX >> (64 - bits))).into()),
            ]
        }
        let piece = |piece: &Piece| {
            let none = || Values::U8(Vec::new().into());
            let halves = with_values!(&piece.values, |values| split(values, bits), |_bytes| [none(), none()]);
            halves.map(|values| Piece { values, nulls: piece.nulls.clone(), rows: piece.rows })
        };
        let (upper, lower) = self.pieces.iter().map(|each| piece(each).into()).unzip();
        [upper, lower].map(|pieces| Leaf { pieces, scale: self.scale })
    }

    /// The same numbers at another scale. A number that is not whole at this scale, or exceeds 128 bits, is replaced by
    /// [`NO_NUMBER`].
    pub(crate) fn at_scale(&self, scale: i8) -> Leaf {
        fn scaled<T: Fixed>(values: &[T], steps: i32) -> Values {
            let factor = 10_i128.checked_pow(steps.unsigned_abs());
            let one = |value: T| match (T::widen(value.whole()), factor) {
                (0, _) => 0,
                (_, None) => NO_NUMBER,
                (value, Some(factor)) if steps > 0 => value.checked_mul(factor).unwrap_or(NO_NUMBER),
                (value, Some(factor)) if value % factor == 0 => value / factor,
                _ => NO_NUMBER,
            };
            Values::I128(mapped(values, one).into())
        }
        let steps = i32::from(scale) - i32::from(self.scale);
        if steps == 0 {
            return self.clone();
        }
        let piece = |piece: &Piece| {
            let values = with_values!(&piece.values, |values| scaled(values, steps), |_bytes| piece.values.clone());
            Piece { values, ..piece.clone() }
        };
        Leaf { pieces: self.pieces.iter().map(piece).collect(), scale }
    }
}

/// Replaces numbers that cannot be represented at a scale. It does not equal any decimal, because decimals of 128 bits
/// have at most 38 digits.
const NO_NUMBER: i128 = i128::MAX;

/// The error message for types that no Arrow array has.
const NO_ARRAYS: &str = "no array can have this type: use a type of Arrow's format";

/// Splits a column into columns of plain values. Comparable types have the same number of them.
pub(crate) fn leaves(name: &str, data_type: &DataType, chunks: &[ArrayRef]) -> Result<Vec<Leaf>> {
    let none;
    let chunks = if chunks.is_empty() {
        // Without a chunk, the type would be unknown.
        none = [empty(name, data_type)?];
        &none[..]
    } else {
        chunks
    };
    let scales = scales(name, data_type)?.into_iter();
    let mut leaves: Vec<Leaf> = scales.map(|scale| Leaf { pieces: Vec::new(), scale }).collect();
    for chunk in chunks {
        let mut pieces = Vec::with_capacity(leaves.len());
        take_apart(name, chunk, None, &mut pieces)?;
        leaves.iter_mut().zip(pieces).for_each(|(leaf, piece)| leaf.pieces.push(piece));
    }
    Ok(leaves)
}

/// Splits a left column whose type is not comparable with that of the right column, which is allowed if one of the two
/// has only nulls. The result has the columns of the right type and the nulls of the left column, with unspecified
/// values. Left values that are not null have no match, because then all right values are null.
pub(crate) fn nulls_like(left: &Column, right: &DataType) -> Result<Vec<Leaf>> {
    let missing = new_null_array(right, left.len());
    let mut leaves = leaves(left.name(), right, &[missing])?;
    let is_there = left.is_there();
    let nulls = NullBuffer::from_iter((0..left.len() as u32).map(is_there));
    leaves.iter_mut().flat_map(|leaf| &mut leaf.pieces).for_each(|piece| piece.nulls = Some(nulls.clone()));
    Ok(leaves)
}

/// An array without rows.
///
/// # Errors
/// [`Error::UnsupportedKey`] if the type cannot be the type of a key, or of any array.
fn empty(name: &str, data_type: &DataType) -> Result<ArrayRef> {
    scales(name, data_type)?;
    Ok(new_empty_array(data_type))
}

/// The scales of the columns of plain values into which a type is split.
///
/// # Errors
/// [`Error::UnsupportedKey`].
pub(crate) fn scales(name: &str, data_type: &DataType) -> Result<Vec<i8>> {
    use DataType::*;
    let unsupported = |advice| Err(Error::UnsupportedKey { column: name.into(), found: data_type.clone(), advice });
    Ok(match data_type {
        Struct(fields) => {
            let mut all = vec![0];
            for field in fields {
                all.extend(scales(name, field.data_type())?);
            }
            all
        }
        Dictionary(keys, _) if !keys.is_dictionary_key_type() => return unsupported(NO_ARRAYS),
        Dictionary(_, values) => scales(name, values)?,
        Decimal256(..) | Interval(IntervalUnit::DayTime) => vec![0; 2],
        Interval(IntervalUnit::MonthDayNano) => vec![0; 3],
        List(_) | LargeList(_) | FixedSizeList(..) | ListView(_) | LargeListView(_) | Map(..) => {
            return unsupported("give its elements as columns of their own, or cast it to text");
        }
        Union(..) => return unsupported("give its variants as columns of their own"),
        RunEndEncoded(..) => return unsupported("cast it to the type of its values"),
        FixedSizeBinary(..0)
        | Time32(TimeUnit::Microsecond | TimeUnit::Nanosecond)
        | Time64(TimeUnit::Second | TimeUnit::Millisecond) => return unsupported(NO_ARRAYS),
        Decimal32(_, scale) | Decimal64(_, scale) | Decimal128(_, scale) => vec![*scale],
        Time32(unit) | Time64(unit) | Timestamp(unit, _) | Duration(unit) => vec![match unit {
            TimeUnit::Second => 0,
            TimeUnit::Millisecond => 3,
            TimeUnit::Microsecond => 6,
            TimeUnit::Nanosecond => 9,
        }],
        _ => vec![0],
    })
}

fn take_apart(name: &str, chunk: &ArrayRef, above: Option<&NullBuffer>, to: &mut Vec<Piece>) -> Result<()> {
    let nulls = NullBuffer::union(above, chunk.logical_nulls().as_ref());
    let rows = chunk.len();
    let mut put = |values| to.push(Piece { values, nulls: nulls.clone(), rows });
    macro_rules! native {
        ($variant:ident, $arrow:ty) => {
            put(Values::$variant(chunk.as_primitive::<$arrow>().values().clone()))
        };
    }
    match chunk.data_type() {
        DataType::Null => {
            to.push(Piece { values: Values::U8(vec![0; rows].into()), nulls: Some(NullBuffer::new_null(rows)), rows })
        }
        DataType::Boolean => put(Values::U8(chunk.as_boolean().values().iter().map(u8::from).collect())),
        DataType::Int8 => native!(I8, Int8Type),
        DataType::Int16 => native!(I16, Int16Type),
        DataType::Int32 => native!(I32, Int32Type),
        DataType::Int64 => native!(I64, Int64Type),
        DataType::UInt8 => native!(U8, UInt8Type),
        DataType::UInt16 => native!(U16, UInt16Type),
        DataType::UInt32 => native!(U32, UInt32Type),
        DataType::UInt64 => native!(U64, UInt64Type),
        DataType::Float16 => {
            put(Values::F32(chunk.as_primitive::<Float16Type>().values().iter().map(|half| half.to_f32()).collect()))
        }
        DataType::Float32 => native!(F32, Float32Type),
        DataType::Float64 => native!(F64, Float64Type),
        DataType::Date32 => native!(I32, Date32Type),
        DataType::Date64 => native!(I64, Date64Type),
        DataType::Time32(TimeUnit::Second) => native!(I32, Time32SecondType),
        DataType::Time32(_) => native!(I32, Time32MillisecondType),
        DataType::Time64(TimeUnit::Microsecond) => native!(I64, Time64MicrosecondType),
        DataType::Time64(_) => native!(I64, Time64NanosecondType),
        DataType::Timestamp(TimeUnit::Second, _) => native!(I64, TimestampSecondType),
        DataType::Timestamp(TimeUnit::Millisecond, _) => native!(I64, TimestampMillisecondType),
        DataType::Timestamp(TimeUnit::Microsecond, _) => native!(I64, TimestampMicrosecondType),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => native!(I64, TimestampNanosecondType),
        DataType::Duration(TimeUnit::Second) => native!(I64, DurationSecondType),
        DataType::Duration(TimeUnit::Millisecond) => native!(I64, DurationMillisecondType),
        DataType::Duration(TimeUnit::Microsecond) => native!(I64, DurationMicrosecondType),
        DataType::Duration(TimeUnit::Nanosecond) => native!(I64, DurationNanosecondType),
        DataType::Decimal32(..) => native!(I32, Decimal32Type),
        DataType::Decimal64(..) => native!(I64, Decimal64Type),
        DataType::Decimal128(..) => native!(I128, Decimal128Type),
        DataType::Decimal256(..) => {
            let parts = || chunk.as_primitive::<Decimal256Type>().values().iter().map(|value| value.to_parts());
            put(Values::I128(parts().map(|(_, upper)| upper).collect()));
            put(Values::I128(parts().map(|(lower, _)| lower as i128).collect()));
        }
        DataType::Interval(IntervalUnit::YearMonth) => native!(I32, IntervalYearMonthType),
        DataType::Interval(IntervalUnit::DayTime) => {
            let values = chunk.as_primitive::<IntervalDayTimeType>().values();
            put(Values::I32(values.iter().map(|value| value.days).collect()));
            put(Values::I32(values.iter().map(|value| value.milliseconds).collect()));
        }
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            let values = chunk.as_primitive::<IntervalMonthDayNanoType>().values();
            put(Values::I32(values.iter().map(|value| value.months).collect()));
            put(Values::I32(values.iter().map(|value| value.days).collect()));
            put(Values::I64(values.iter().map(|value| value.nanoseconds).collect()));
        }
        DataType::Struct(_) => {
            // A null struct differs from a struct whose fields are null.
            let there = (0..rows).map(|row| u8::from(nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)))).collect();
            put(Values::U8(there));
            for field in chunk.as_struct().columns() {
                take_apart(name, field, nulls.as_ref(), to)?;
            }
        }
        DataType::Dictionary(..) => {
            let array = chunk.as_any_dictionary();
            // The index of each row's value has 32 bits.
            match strings(array.values()).filter(|strings| u32::try_from(strings.len()).is_ok()) {
                Some(strings) => put(Values::Bytes(Bytes { strings, keys: Some(dictionary_keys(chunk)) })),
                None => take_apart(name, &take(array.values(), array.keys())?, above, to)?,
            }
        }
        other => match strings(chunk) {
            Some(strings) => put(Values::Bytes(Bytes { strings, keys: None })),
            None => {
                let advice = "cast it to a type of numbers, text or bytes";
                return Err(Error::UnsupportedKey { column: name.into(), found: other.clone(), advice });
            }
        },
    }
    Ok(())
}

/// The strings of an array of text or binary.
fn strings(array: &ArrayRef) -> Option<Strings> {
    Some(match array.data_type() {
        DataType::Utf8 => {
            let array = array.as_string::<i32>();
            Strings::Small(array.offsets().clone(), array.values().clone())
        }
        DataType::LargeUtf8 => {
            let array = array.as_string::<i64>();
            Strings::Large(array.offsets().clone(), array.values().clone())
        }
        DataType::Utf8View => Strings::Views(array.as_string_view().clone().to_binary_view()),
        DataType::Binary => {
            let array = array.as_binary::<i32>();
            Strings::Small(array.offsets().clone(), array.values().clone())
        }
        DataType::LargeBinary => {
            let array = array.as_binary::<i64>();
            Strings::Large(array.offsets().clone(), array.values().clone())
        }
        DataType::BinaryView => Strings::Views(array.as_binary_view().clone()),
        DataType::FixedSizeBinary(_) => Strings::Fixed(array.as_fixed_size_binary().clone()),
        _ => return None,
    })
}

/// The index of each row's value; unspecified for nulls.
// One of the types is already the type of the cast.
#[allow(clippy::unnecessary_cast)]
fn dictionary_keys(array: &ArrayRef) -> ScalarBuffer<u32> {
    downcast_dictionary_array! {
        array => array.keys().values().iter().map(|&key| key as u32).collect(),
        _ => Vec::new().into(),
    }
}
