//! Which types have values that can be equal: the key columns of both sides of a join must have such types.

use arrow_schema::{DataType, IntervalUnit};

use crate::error::{Cast, Error, Result};
use crate::keys::{Column, Keys};
use crate::leaf::scales;
use crate::plain::plain_type;

/// The kind of a type. Values of two types can be equal if their kinds are.
#[derive(PartialEq, Eq, Debug)]
enum Kind {
    Integer,
    Float,
    Boolean,
    /// Of any scale.
    Decimal,
    /// Of 256 bits, with this scale.
    WideDecimal(i8),
    Date32,
    Date64,
    /// Times, timestamps and durations of any unit.
    Time,
    /// Whether it has a time zone. If so, it is a point in time, and the zone only affects its output.
    Timestamp(bool),
    Duration,
    Interval(IntervalUnit),
    Text,
    Binary,
    Struct(Vec<Kind>),
    Null,
    /// Not supported as a key.
    Other,
}

impl Kind {
    fn of(data_type: &DataType) -> Self {
        use DataType::*;
        match data_type {
            Int8 | Int16 | Int32 | Int64 | UInt8 | UInt16 | UInt32 | UInt64 => Kind::Integer,
            Float16 | Float32 | Float64 => Kind::Float,
            Boolean => Kind::Boolean,
            Decimal32(..) | Decimal64(..) | Decimal128(..) => Kind::Decimal,
            Decimal256(_, scale) => Kind::WideDecimal(*scale),
            Date32 => Kind::Date32,
            Date64 => Kind::Date64,
            Time32(_) | Time64(_) => Kind::Time,
            Timestamp(_, zone) => Kind::Timestamp(zone.is_some()),
            Duration(_) => Kind::Duration,
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

/// Returns an error if the keys of the two sides of a join cannot be equal. [`join`](fn@crate::join) calls it before it
/// builds an index. A column whose rows are all null, or whose type is Null, can be compared with any type.
///
/// Cost: if two types differ, a check of the nulls of both columns.
///
/// # Errors
/// [`Error::KeyCount`]; [`Error::TypeMismatch`] with a cast that fixes it, if there is one; [`Error::UnsupportedKey`].
pub fn check_types(left: &Keys, right: &Keys) -> Result<()> {
    // An empty column of numbers is more likely a mistake than a column of nulls.
    let is_null = |of: &Column| plain_type(of.data_type()) == DataType::Null || !(of.is_empty() || of.has_values());
    check_pairs(left, right, |left, right| is_null(left) || is_null(right))
}

/// As [`check_types`], but checks types only, for tables whose rows are not in memory.
pub(crate) fn check_kinds(left: &Keys, right: &Keys) -> Result<()> {
    check_pairs(left, right, |_, _| false)
}

/// The scales at which the values of both sides are integers, one for each column of plain values; `None` if all scales
/// are equal.
pub(crate) fn common_scales(left: &Keys, right: &Keys) -> Result<Option<Vec<i8>>> {
    let all = |keys: &Keys| -> Result<Vec<i8>> {
        let each = keys.columns().iter().map(|column| scales(column.name(), column.data_type()));
        Ok(each.collect::<Result<Vec<_>>>()?.concat())
    };
    let (left, right) = (all(left)?, all(right)?);
    Ok((left != right).then(|| left.into_iter().zip(right).map(|(left, right)| left.max(right)).collect()))
}

/// Whether values of two types can be equal. Decimals of up to 128 bits, times, timestamps and durations are compared
/// by value, whatever their scale or unit. Types that keys cannot have are not checked here, because
/// [`Error::UnsupportedKey`] reports them with more detail.
pub fn can_be_equal(left: &DataType, right: &DataType) -> bool {
    Kind::of(left) == Kind::of(right)
}

fn check_pairs(left: &Keys, right: &Keys, may_differ: impl Fn(&Column, &Column) -> bool) -> Result<()> {
    let (lefts, rights) = (left.columns(), right.columns());
    if lefts.len() != rights.len() {
        return Err(Error::KeyCount { left: lefts.len(), right: rights.len() });
    }
    let mut pairs = lefts.iter().zip(rights);
    let differ = |(left, right): &(&Column, &Column)| {
        !can_be_equal(left.data_type(), right.data_type()) && !may_differ(left, right)
    };
    let Some((left, right)) = pairs.find(differ) else { return Ok(()) };
    let (left_type, right_type) = (left.data_type(), right.data_type());
    // A cast does not help if one of the types cannot be the type of a key.
    scales(left.name(), left_type).and(scales(right.name(), right_type))?;
    Err(Error::TypeMismatch {
        left: left.name().into(),
        left_type: left_type.clone(),
        right: right.name().into(),
        right_type: right_type.clone(),
        cast: cast(left, right).map(Box::new),
    })
}

/// The cast that makes two columns comparable: to the type of the other side if that type represents all values, and
/// otherwise to a wider type of the same kind.
fn cast(left: &Column, right: &Column) -> Option<Cast> {
    let of_right = |to| Some(Cast { column: right.name().into(), is_left: false, to });
    let of_left = |to| Some(Cast { column: left.name().into(), is_left: true, to });
    match widened(right.data_type(), left.data_type()) {
        Some(to) => of_right(to),
        None => of_left(widened(left.data_type(), right.data_type())?),
    }
}

/// Whether a decimal keeps all of its digits if it has this scale and 76 digits in total.
fn fits(of: &DataType, scale: i8) -> bool {
    match plain_type(of) {
        DataType::Decimal32(digits, own)
        | DataType::Decimal64(digits, own)
        | DataType::Decimal128(digits, own)
        | DataType::Decimal256(digits, own) => {
            own <= scale && i32::from(digits) + i32::from(scale) - i32::from(own) <= 76
        }
        _ => true,
    }
}

/// The type to which values must be cast so that they can equal values of another type; `None` if the values of the
/// other type must be cast instead.
fn widened(from: &DataType, to: &DataType) -> Option<DataType> {
    match (Kind::of(from), Kind::of(to)) {
        (Kind::Null | Kind::Other | Kind::Struct(_), _) | (_, Kind::Null | Kind::Other | Kind::Struct(_)) => None,
        (Kind::Text, Kind::Binary) => Some(plain_type(to)),
        (Kind::Binary, Kind::Text) => None,
        (_, Kind::Text) => Some(DataType::Utf8),
        (Kind::Integer | Kind::Decimal | Kind::WideDecimal(_), Kind::Float) => Some(DataType::Float64),
        // Decimals of all scales can be compared with each other.
        (Kind::Integer | Kind::Boolean, Kind::Decimal) => Some(DataType::Decimal128(38, 0)),
        // Integers have up to 20 digits.
        (Kind::Integer | Kind::Boolean, Kind::WideDecimal(scale)) if scale <= 56 => {
            Some(DataType::Decimal256(76, scale))
        }
        (Kind::Decimal | Kind::WideDecimal(_), Kind::WideDecimal(scale)) if fits(from, scale) => {
            Some(DataType::Decimal256(76, scale))
        }
        (Kind::Boolean | Kind::Date32 | Kind::Date64 | Kind::Time | Kind::Timestamp(_), Kind::Integer) => {
            Some(DataType::Int64)
        }
        (Kind::Date32, Kind::Date64) => Some(DataType::Date64),
        (Kind::Date32 | Kind::Date64, Kind::Timestamp(_)) => Some(plain_type(to)),
        (Kind::Timestamp(false), Kind::Timestamp(true)) => match (plain_type(from), plain_type(to)) {
            (DataType::Timestamp(unit, _), DataType::Timestamp(_, zone)) => Some(DataType::Timestamp(unit, zone)),
            _ => None,
        },
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
        use arrow_schema::TimeUnit::{Nanosecond, Second};
        for (left, right, is_left, to) in [
            (DataType::Int64, decimal(5, 2), true, decimal(38, 0)),
            (decimal(38, 2), DataType::Decimal256(40, 3), true, DataType::Decimal256(76, 3)),
            (DataType::Float32, DataType::UInt8, false, DataType::Float64),
            (DataType::Utf8View, DataType::Date32, false, DataType::Utf8),
            (DataType::Date64, DataType::Date32, false, DataType::Date64),
            (DataType::Utf8, DataType::FixedSizeBinary(3), true, DataType::FixedSizeBinary(3)),
            (zoned(Second), DataType::Timestamp(Nanosecond, None), false, zoned(Nanosecond)),
        ] {
            let [left, right] = [left, right].map(|of| Column::new("k", new_empty_array(&of)));
            assert_eq!(cast(&left, &right), Some(Cast { column: "k".into(), is_left, to }));
        }
        // A cast to the type of the other side would lose values.
        let [left, right] =
            [decimal(38, 0), DataType::Decimal256(76, 39)].map(|of| Column::new("k", new_empty_array(&of)));
        assert_eq!(cast(&left, &right), None);
        let [none, dates] = [DataType::Null, DataType::Date32].map(|of| Column::new("k", new_empty_array(&of)));
        assert_eq!((cast(&none, &dates), cast(&dates, &none)), (None, None));
    }

    #[test]
    fn comparable_types_are_compared_and_others_reported() {
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
            Arc::new(decimal.with_precision_and_scale(10, 2).expect("a decimal")),
            Arc::new(Date32Array::from(vec![1])),
            Arc::new(micros.clone()),
            Arc::new(micros.with_timezone("UTC")),
        ];
        for (i, left) in others.iter().enumerate() {
            for right in &others[i + 1..] {
                let error = check_types(&keys(left.clone()), &keys(right.clone())).expect_err("two kinds").to_string();
                assert!(error.contains(&format!("is {}", left.data_type())), "{error}");
                assert!(error.contains(&right.data_type().to_string()), "{error}");
                // A date cannot equal a text or a float, and no cast changes that.
                let has_none = |of: &ArrayRef| matches!(of.data_type(), DataType::Float64 | DataType::Decimal128(..));
                let is_day = |of: &ArrayRef| matches!(of.data_type(), DataType::Date32 | DataType::Timestamp(..));
                let advice = if has_none(left) && is_day(right) { "cast both to one type" } else { "cast `k` to " };
                assert!(error.contains(advice), "{error}");
            }
        }
        // Text holds the values of both a float and a date.
        let text = |array: &ArrayRef| keys(arrow_cast::cast(array, &DataType::Utf8).expect("text"));
        assert!(check_types(&text(&others[2]), &text(&others[4])).is_ok());
        let two = Keys::of_arrays(&integers).expect("two columns");
        assert!(matches!(check_types(&two, &keys(integers[0].clone())), Err(Error::KeyCount { left: 2, right: 1 })));
    }
}
