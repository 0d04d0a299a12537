//! Keys of two tables whose types differ: converts them to equal types, or reports why that is not possible.

use arrow_schema::{DataType, Schema};
use koel_arrow::{Column, Error, Keys, can_be_equal, check_types, plain_type};

use super::inputs::Rows;
use crate::failure::{Failure, Result};
use crate::number::{Span, Type};
use crate::tables::kind_of;
use crate::tables::read::Source;
use crate::text;

/// Gives key columns without values the type of the other side, if values of the two types cannot be equal. Text
/// without values, and a column of type Null, have no type of their own.
pub(super) fn give_types([left, right]: [&mut Rows<'_>; 2], on: &[(usize, usize)]) {
    for &(own, other) in on {
        let type_of = |rows: &Rows<'_>, at: usize| rows.schema().field(at).data_type().clone();
        let (own_type, other_type) = (type_of(left, own), type_of(right, other));
        if can_be_equal(&own_type, &other_type) {
        } else if left.is_open(own) {
            left.put_nulls(own, &other_type);
        } else if right.is_open(other) {
            right.put_nulls(other, &own_type);
        }
    }
}

/// Key columns of these types, without rows.
pub(super) fn types_of(schema: &Schema, keys: impl Iterator<Item = usize>) -> koel_arrow::Result<Keys> {
    let column = |at: usize| Column::of_chunks(schema.field(at).name(), schema.field(at).data_type(), Vec::new());
    Keys::new(keys.map(column).collect::<koel_arrow::Result<_>>()?)
}

/// Returns an error if values of two key columns, at these positions, cannot be equal.
pub(super) fn check_keys(left: &Schema, right: &Schema, on: &[(usize, usize)]) -> koel_arrow::Result<()> {
    let (left, right) = (types_of(left, on.iter().map(|on| on.0))?, types_of(right, on.iter().map(|on| on.1))?);
    check_types(&left, &right)
}

/// The type in which keys of rows without column names are compared: one that holds all numbers of both types, or else
/// all keys that occur.
pub(super) fn common([(left, of_left), (right, of_right)]: [(Type, Span); 2]) -> Result<Type> {
    if left == right {
        return Ok(left);
    }
    let of_all = of_left.and(of_right);
    left.of_both(right).or(of_all.narrowest()).ok_or_else(|| {
        let (left, right) = (left.name(), right.name());
        Failure::Input(format!(
            "left keys are {left} and right keys {right}, and no type holds both {} and {}: drop rows that cannot \
             match",
            of_all.least, of_all.greatest
        ))
    })
}

/// Advice for types without equal values.
pub(super) const NEVER_EQUAL: &str = "no values of these types are equal: join on other columns";

/// Whether no cast can make values of these types equal: one is a date or a time, the other a number.
pub(super) fn are_never_equal(left: &DataType, right: &DataType) -> bool {
    let (left, right) = (plain_type(left), plain_type(right));
    left.is_temporal() && right.is_numeric() || left.is_numeric() && right.is_temporal()
}

/// Whether values are text.
pub(super) fn is_string(of: &DataType) -> bool {
    matches!(plain_type(of), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// Converts a type mismatch to an error that advises `--types`.
pub(super) fn to_failure(error: Error, [left_source, right_source]: [&Source; 2]) -> Failure {
    let Error::TypeMismatch { left, left_type, right, right_type, cast } = &error else { return error.into() };
    let sides = [(left_source, left, left_type, right_type), (right_source, right, right_type, left_type)];
    let read_as = |side: usize| {
        let (_, column, _, to) = sides[side];
        kind_of(to).map(|kind| {
            let rounds = if kind == "float64" { " (which rounds whole numbers beyond 2^53)" } else { "" };
            format!("--types {}={kind}{rounds}", text::name(column))
        })
    };
    // If one side is text, the advice is to compare values: as text, `0001` does not equal 1, and such rows would
    // silently not match.
    let of_text = sides.iter().position(|(_, _, own, _)| is_string(own));
    let as_value = of_text.and_then(read_as).zip(of_text.and_then(|side| read_as(1 - side)));
    // The side to convert: the one that the error's cast names, otherwise a CSV file, whose types were detected.
    let lossless = cast.as_ref().map(|cast| usize::from(!cast.is_left));
    let side = lossless.or_else(|| sides.iter().position(|(source, ..)| source.is_text()));
    let advice = match (as_value, side.and_then(read_as)) {
        _ if are_never_equal(left_type, right_type) => NEVER_EQUAL.into(),
        (Some((value, string)), _) => format!("give {value}, or {string} to compare them as text"),
        (None, Some(option)) => format!("give {option}"),
        (None, None) => return error.into(),
    };
    let (left, right) = (text::name(left), text::name(right));
    Failure::Input(format!("left key `{left}` is {left_type} and right key `{right}` is {right_type}: {advice}"))
}
