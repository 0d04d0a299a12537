//! Which types can be equal: what both sides of a join must have.

use std::fmt::Write;

use arrow_schema::{DataType, IntervalUnit, TimeUnit};

use crate::error::{Error, Result};
use crate::keys::{Column, Keys};

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

fn check_pair(left: &Column, right: &Column) -> Result<()> {
    let (left_type, right_type) = (left.data_type(), right.data_type());
    if Kind::of(left_type) == Kind::of(right_type) {
        return Ok(());
    }
    Err(Error::TypeMismatch {
        left: left.name().into(),
        left_type: left_type.clone(),
        right: right.name().into(),
        right_type: right_type.clone(),
        advice: advice(left, right),
    })
}

/// The cast that makes two columns comparable.
fn advice(left: &Column, right: &Column) -> String {
    let (of_left, of_right) = (Kind::of(left.data_type()), Kind::of(right.data_type()));
    // Which side is cast, and to what: the type that loses nothing.
    let (column, to) = match (&of_left, &of_right) {
        (Kind::Text | Kind::Binary, _) => (right, left.data_type()),
        (_, Kind::Text | Kind::Binary) => (left, right.data_type()),
        (Kind::Integer, Kind::Float) | (Kind::Decimal(_), Kind::Float) => (left, right.data_type()),
        (Kind::Float, Kind::Integer) | (Kind::Float, Kind::Decimal(_)) => (right, left.data_type()),
        (Kind::Decimal(a), Kind::Decimal(b)) if a > b => (right, left.data_type()),
        (Kind::Integer, Kind::Decimal(_)) | (Kind::Decimal(_), Kind::Decimal(_)) => (left, right.data_type()),
        (Kind::Date32, Kind::Timestamp(..) | Kind::Date64) => (left, right.data_type()),
        _ => (right, left.data_type()),
    };
    let mut text = format!("cast `{}` to ", column.name());
    // Infallible for strings.
    let _ = write!(text, "{to}");
    text
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Date32Array, Decimal128Array, Int32Array, Int64Array, LargeStringArray, StringArray};
    use arrow_array::{Float64Array, TimestampMicrosecondArray};

    use super::*;

    fn keys(array: ArrayRef) -> Keys {
        Keys::new(vec![Column::new("k", array)]).expect("one column")
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
                assert!(error.contains(&right.data_type().to_string()) && error.contains("cast `k` to "), "{error}");
            }
        }
        let two = Keys::of_arrays(&integers).expect("two columns");
        assert!(matches!(check_types(&two, &keys(integers[0].clone())), Err(Error::KeyCount { left: 2, right: 1 })));
    }
}
