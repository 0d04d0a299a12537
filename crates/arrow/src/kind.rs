//! Which types can be equal: what both sides of a join must have.

use arrow_schema::{DataType, IntervalUnit, TimeUnit};

use crate::error::{Cast, Error, Result};
use crate::keys::{Column, Keys};
use crate::plain::plain_type;

/// What values of a type are. Values of two types can be equal if these are.
#[derive(PartialEq, Eq, Debug)]
enum Kind {
    Integer,
    Float,
    Boolean,
    Decimal(i8),
    /// As wide as no other decimal.
    WideDecimal(i8),
    Date32,
    Date64,
    Time(TimeUnit),
    /// Whether it has a time zone: then it is a moment, and the zone is how it is shown.
    Timestamp(TimeUnit, bool),
    Duration(TimeUnit),
    Interval(IntervalUnit),
    Text,
    Binary,
    Struct(Vec<Kind>),
    Null,
    /// What no key is.
    Other,
}

impl Kind {
    fn of(data_type: &DataType) -> Self {
        use DataType::*;
        match data_type {
            Int8 | Int16 | Int32 | Int64 | UInt8 | UInt16 | UInt32 | UInt64 => Kind::Integer,
            Float16 | Float32 | Float64 => Kind::Float,
            Boolean => Kind::Boolean,
            Decimal32(_, scale) | Decimal64(_, scale) | Decimal128(_, scale) => Kind::Decimal(*scale),
            Decimal256(_, scale) => Kind::WideDecimal(*scale),
            Date32 => Kind::Date32,
            Date64 => Kind::Date64,
            Time32(unit) | Time64(unit) => Kind::Time(*unit),
            Timestamp(unit, zone) => Kind::Timestamp(*unit, zone.is_some()),
            Duration(unit) => Kind::Duration(*unit),
            Interval(unit) => Kind::Interval(*unit),
            Utf8 | LargeUtf8 | Utf8View => Kind::Text,
            Binary | LargeBinary | BinaryView | FixedSizeBinary(_) => Kind::Binary,
            Dictionary(_, values) => Kind::of(values),
            Struct(fields) => Kind::Struct(fields.iter().map(|field| Kind::of(field.data_type())).collect()),
            Null => Kind::Null,
            _ => Kind::Other,
        }
    }
}

/// Refuses two sides of a join whose keys cannot be equal: what [`join`](fn@crate::join) does before anything is built.
///
/// # Errors
/// [`Error::KeyCount`], [`Error::TypeMismatch`] with the cast that would help.
pub fn check_types(left: &Keys, right: &Keys) -> Result<()> {
    let (lefts, rights) = (left.columns(), right.columns());
    if lefts.len() != rights.len() {
        return Err(Error::KeyCount { left: lefts.len(), right: rights.len() });
    }
    lefts.iter().zip(rights).try_for_each(|(left, right)| check_pair(left, right))
}

/// Whether values of two types can be equal. Types that keys cannot have are left to
/// [`Error::UnsupportedKey`], which says more.
pub fn can_be_equal(left: &DataType, right: &DataType) -> bool {
    Kind::of(left) == Kind::of(right)
}

fn check_pair(left: &Column, right: &Column) -> Result<()> {
    let (left_type, right_type) = (left.data_type(), right.data_type());
    if can_be_equal(left_type, right_type) {
        return Ok(());
    }
    Err(Error::TypeMismatch {
        left: left.name().into(),
        left_type: left_type.clone(),
        right: right.name().into(),
        right_type: right_type.clone(),
        cast: cast(left, right).map(Box::new),
    })
}

/// The cast that makes two columns comparable: of the side whose values the type of the other side has too, or a wider one
/// of its kind.
fn cast(left: &Column, right: &Column) -> Option<Cast> {
    let of_right = |to| Some(Cast { column: right.name().into(), is_left: false, to });
    let of_left = |to| Some(Cast { column: left.name().into(), is_left: true, to });
    match widened(right.data_type(), left.data_type()) {
        Some(to) => of_right(to),
        None => of_left(widened(left.data_type(), right.data_type())?),
    }
}

/// Digits of a decimal.
fn digits(of: &DataType) -> i32 {
    match plain_type(of) {
        DataType::Decimal32(digits, _)
        | DataType::Decimal64(digits, _)
        | DataType::Decimal128(digits, _)
        | DataType::Decimal256(digits, _) => digits.into(),
        _ => 0,
    }
}

/// The type to which values of one type are cast, that they equal those of another one; `None` if the other one has to be
/// cast.
fn widened(from: &DataType, to: &DataType) -> Option<DataType> {
    match (Kind::of(from), Kind::of(to)) {
        (Kind::Null | Kind::Other | Kind::Struct(_), _) | (_, Kind::Null | Kind::Other | Kind::Struct(_)) => None,
        (Kind::Text, Kind::Binary) => Some(plain_type(to)),
        (Kind::Binary, Kind::Text) => None,
        (_, Kind::Text) => Some(DataType::Utf8),
        (Kind::Integer | Kind::Decimal(_) | Kind::WideDecimal(_), Kind::Float) => Some(DataType::Float64),
        // Integers have up to 20 digits.
        (Kind::Integer | Kind::Boolean, Kind::Decimal(scale)) if scale <= 18 => Some(DataType::Decimal128(38, scale)),
        (Kind::Decimal(own), Kind::Decimal(scale)) if own < scale && digits(from) + i32::from(scale - own) <= 38 => {
            Some(DataType::Decimal128(38, scale))
        }
        (Kind::Integer | Kind::Boolean, Kind::WideDecimal(scale)) => Some(DataType::Decimal256(76, scale)),
        (Kind::Decimal(own) | Kind::WideDecimal(own), Kind::WideDecimal(scale))
            if own <= scale && digits(from) + i32::from(scale - own) <= 76 =>
        {
            Some(DataType::Decimal256(76, scale))
        }
        (Kind::Boolean | Kind::Date32 | Kind::Date64 | Kind::Time(_) | Kind::Timestamp(..), Kind::Integer) => {
            Some(DataType::Int64)
        }
        (Kind::Date32, Kind::Date64) => Some(DataType::Date64),
        (Kind::Date32 | Kind::Date64, Kind::Timestamp(..)) => Some(plain_type(to)),
        (Kind::Timestamp(from, zoned), Kind::Timestamp(unit, other)) if zoned == other && from < unit => {
            Some(plain_type(to))
        }
        // Neither may have both the finer unit and a zone.
        (Kind::Timestamp(from, false), Kind::Timestamp(unit, true)) => match plain_type(to) {
            DataType::Timestamp(_, zone) => Some(DataType::Timestamp(from.max(unit), zone)),
            _ => None,
        },
        (Kind::Time(from), Kind::Time(unit)) if from < unit => Some(plain_type(to)),
        (Kind::Duration(from), Kind::Duration(unit)) if from < unit => Some(plain_type(to)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Date32Array, Decimal128Array, Int32Array, Int64Array, LargeStringArray, StringArray};
    use arrow_array::{Float64Array, TimestampMicrosecondArray, new_empty_array};

    use super::*;

    fn keys(array: ArrayRef) -> Keys {
        Keys::new(vec![Column::new("k", array)]).expect("one column")
    }

    #[test]
    fn casts_are_to_types_that_hold_the_values() {
        let decimal = |precision, scale| DataType::Decimal128(precision, scale);
        let zoned = |unit| DataType::Timestamp(unit, Some("UTC".into()));
        use TimeUnit::{Microsecond, Nanosecond, Second};
        for (left, right, is_left, to) in [
            (DataType::Int64, decimal(5, 2), true, decimal(38, 2)),
            (decimal(5, 2), decimal(9, 1), false, decimal(38, 2)),
            (DataType::Float32, DataType::UInt8, false, DataType::Float64),
            (DataType::Utf8View, DataType::Date32, false, DataType::Utf8),
            (DataType::Date64, DataType::Date32, false, DataType::Date64),
            (DataType::Utf8, DataType::FixedSizeBinary(3), true, DataType::FixedSizeBinary(3)),
            (zoned(Second), DataType::Timestamp(Nanosecond, None), false, zoned(Nanosecond)),
            (zoned(Microsecond), zoned(Second), false, zoned(Microsecond)),
            (DataType::Time32(Second), DataType::Time64(Nanosecond), true, DataType::Time64(Nanosecond)),
        ] {
            let [left, right] = [left, right].map(|of| Column::new("k", new_empty_array(&of)));
            assert_eq!(cast(&left, &right), Some(Cast { column: "k".into(), is_left, to }));
        }
        // These would not fit.
        for (left, right) in [(DataType::Int64, decimal(38, 20)), (decimal(38, 0), decimal(38, 10))] {
            let [left, right] = [left, right].map(|of| Column::new("k", new_empty_array(&of)));
            assert_eq!(cast(&left, &right), None);
        }
        let [none, dates] = [DataType::Null, DataType::Date32].map(|of| Column::new("k", new_empty_array(&of)));
        assert_eq!((cast(&none, &dates), cast(&dates, &none)), (None, None));
    }

    #[test]
    fn types_that_can_be_equal_are_compared_and_others_named() {
        let integers: [ArrayRef; 2] = [Arc::new(Int32Array::from(vec![1])), Arc::new(Int64Array::from(vec![1]))];
        let texts: [ArrayRef; 2] =
            [Arc::new(StringArray::from(vec!["1"])), Arc::new(LargeStringArray::from(vec!["1"]))];
        for [a, b] in [integers.clone(), texts.clone()] {
            assert!(check_types(&keys(a), &keys(b)).is_ok());
        }
        let micros = TimestampMicrosecondArray::from(vec![1]);
        let decimal = Decimal128Array::from(vec![1]);
        let others: Vec<ArrayRef> = vec![
            integers[1].clone(),
            texts[0].clone(),
            Arc::new(Float64Array::from(vec![1.0])),
            Arc::new(decimal.clone().with_precision_and_scale(10, 2).expect("a decimal")),
            Arc::new(decimal.with_precision_and_scale(10, 3).expect("a decimal")),
            Arc::new(Date32Array::from(vec![1])),
            Arc::new(micros.clone()),
            Arc::new(micros.with_timezone("UTC")),
        ];
        for (i, left) in others.iter().enumerate() {
            for right in &others[i + 1..] {
                let error = check_types(&keys(left.clone()), &keys(right.clone())).expect_err("two kinds").to_string();
                assert!(error.contains(&format!("is {}", left.data_type())), "{error}");
                assert!(error.contains(&right.data_type().to_string()), "{error}");
                // A date is no text of a float, and there is nothing to cast.
                let has_none = |of: &ArrayRef| matches!(of.data_type(), DataType::Float64 | DataType::Decimal128(..));
                let is_day = |of: &ArrayRef| matches!(of.data_type(), DataType::Date32 | DataType::Timestamp(..));
                let advice = if has_none(left) && is_day(right) { "cast both to one type" } else { "cast `k` to " };
                assert!(error.contains(advice), "{error}");
            }
        }
        let two = Keys::of_arrays(&integers).expect("two columns");
        assert!(matches!(check_types(&two, &keys(integers[0].clone())), Err(Error::KeyCount { left: 2, right: 1 })));
    }
}
