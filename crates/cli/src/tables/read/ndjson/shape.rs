//! The types of columns of NDJSON, according to the lines that were read.
//!
//! Integers are exact: a column with integers and doubles is an error if doubles do not represent the integers.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use crate::text;

/// Doubles represent all integers up to this one.
const EXACT: u64 = 1 << 53;

/// The type of the values of a column so far.
#[derive(Clone, Debug, Default)]
pub(super) enum Shape {
    /// All are null.
    #[default]
    Null,
    Boolean,
    Number {
        has_doubles: bool,
        /// Whether doubles do not represent all of the integers.
        has_large: bool,
        has_negative: bool,
        /// Whether an integer fits only in uint64.
        has_unsigned: bool,
    },
    Text,
    List(Box<Shape>),
    Object(Columns),
}

/// The columns of a file, or the members of an object, in the order in which their names first occur.
pub(super) type Columns = Vec<(String, Shape)>;

impl Shape {
    fn field(&self, name: &str) -> Field {
        let data_type = match self {
            Shape::Null => DataType::Null,
            Shape::Boolean => DataType::Boolean,
            Shape::Number { has_doubles: true, .. } => DataType::Float64,
            Shape::Number { has_unsigned: true, .. } => DataType::UInt64,
            Shape::Number { .. } => DataType::Int64,
            Shape::Text => DataType::Utf8,
            Shape::List(items) => DataType::List(Arc::new(items.field("item"))),
            Shape::Object(members) => DataType::Struct(fields(members)),
        };
        Field::new(name, data_type, true)
    }

    /// Adds the type of other values of the same column.
    fn unite(&mut self, other: Shape, column: &str) -> std::result::Result<(), String> {
        match (self, other) {
            (_, Shape::Null) | (Shape::Boolean, Shape::Boolean) | (Shape::Text, Shape::Text) => Ok(()),
            (null @ Shape::Null, other) => {
                *null = other;
                Ok(())
            }
            (
                Shape::Number { has_doubles, has_large, has_negative, has_unsigned },
                Shape::Number {
                    has_doubles: doubles,
                    has_large: large,
                    has_negative: negative,
                    has_unsigned: unsigned,
                },
            ) => {
                *has_doubles |= doubles;
                *has_large |= large;
                *has_negative |= negative;
                *has_unsigned |= unsigned;
                let what = if *has_doubles && *has_large {
                    "doubles and integers beyond 2^53, which doubles do not represent"
                } else if *has_negative && *has_unsigned {
                    "negative numbers and integers from 2^63 on, which no type of 64 bits represents"
                } else {
                    return Ok(());
                };
                Err(format!("column {}: {what}: write these numbers in quotes, as text", text::name(column)))
            }
            (Shape::List(items), Shape::List(others)) => items.unite(*others, column),
            (Shape::Object(members), Shape::Object(others)) => unite(members, others, Some(column)),
            (before, other) => Err(conflict(column, other.name(), before.name())),
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Shape::Null => "nulls",
            Shape::Boolean => "booleans",
            Shape::Number { .. } => "numbers",
            Shape::Text => "text",
            Shape::List(_) => "lists",
            Shape::Object(_) => "objects",
        }
    }
}

pub(super) fn fields(members: &[(String, Shape)]) -> Fields {
    members.iter().map(|(name, shape)| shape.field(name)).collect()
}

/// Adds the types of another file's columns to those of the files before, or those of members of a column.
pub(super) fn unite(members: &mut Columns, others: Columns, column: Option<&str>) -> std::result::Result<(), String> {
    let mut next = 0;
    for (name, other) in others {
        let (place, shape) = member(members, next, &name);
        next = place + 1;
        shape.unite(other, column.unwrap_or(&name))?;
    }
    Ok(())
}

/// The member of this name, which is added if there is none; most often it is the one at `expected`.
fn member<'a>(members: &'a mut Columns, expected: usize, name: &str) -> (usize, &'a mut Shape) {
    let place = match members.get(expected) {
        Some((member, _)) if member == name => expected,
        _ => members.iter().position(|(member, _)| member == name).unwrap_or(members.len()),
    };
    if place == members.len() {
        members.push((name.into(), Shape::Null));
    }
    (place, &mut members[place].1)
}

/// Adds the types of a line's values to those of the columns.
pub(super) fn survey(line: &[u8], columns: &mut Columns) -> std::result::Result<(), String> {
    let mut row = Shape::Object(std::mem::take(columns));
    let mut parser = serde_json::Deserializer::from_slice(line);
    let outcome = Values { shape: &mut row, column: None }.deserialize(&mut parser).and_then(|()| parser.end());
    if let Shape::Object(members) = row {
        *columns = members;
    }
    outcome.map_err(|error| {
        let (reason, at) = (error.to_string(), error.column());
        let reason = reason.split(" at line ").next().unwrap_or_default();
        if error.is_data() { reason.into() } else { format!("this is not a JSON object, byte {at}: {reason}") }
    })?;
    match column_of_long_integer(line) {
        Some(column) => {
            let column = text::name(&column);
            Err(format!("column {column}: an integer does not fit in 64 bits: write it in quotes, as text"))
        }
        None => Ok(()),
    }
}

fn conflict(column: &str, what: &str, before: &str) -> String {
    let column = text::name(column);
    format!(
        "column {column}: {what} where lines before have {before}: write values of one type, e.g. all as text in quotes"
    )
}

/// The column of a number without a fraction or exponent that exceeds 64 bits; the parser makes it a double.
fn column_of_long_integer(line: &[u8]) -> Option<String> {
    let (mut at, mut is_text) = (0, false);
    // Where the last text begins, and the last name of a column; the depth of objects and lists.
    let (mut start, mut column, mut depth) = (0, 0..0, 0);
    while at < line.len() {
        match line[at] {
            b'\\' if is_text => at += 1,
            b'"' => {
                is_text = !is_text;
                if is_text {
                    start = at;
                } else if depth == 1 && line[at + 1..].trim_ascii_start().starts_with(b":") {
                    column = start..at + 1;
                }
            }
            b'{' | b'[' if !is_text => depth += 1,
            b'}' | b']' if !is_text => depth -= 1,
            b'0'..=b'9' | b'-' if !is_text => {
                let is_number = |byte: &u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
                let length = line[at..].iter().take_while(|byte| is_number(byte)).count();
                let number = std::str::from_utf8(&line[at..at + length]).unwrap_or_default();
                if length > 18
                    && !number.contains(['.', 'e', 'E'])
                    && number.parse::<i64>().is_err()
                    && number.parse::<u64>().is_err()
                {
                    return Some(serde_json::from_slice(&line[column]).unwrap_or_default());
                }
                at += length - 1;
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// Adds the type of one value to those before.
struct Values<'a> {
    shape: &'a mut Shape,
    /// The column that contains the value; `None` for the object that is the row.
    column: Option<&'a str>,
}

impl Values<'_> {
    fn conflict<E: Error>(&self, what: &str) -> E {
        match self.column {
            None => E::custom("this line is not an object: NDJSON has one object per line"),
            Some(column) => E::custom(conflict(column, what, self.shape.name())),
        }
    }

    fn is<E: Error>(self, shape: Shape) -> std::result::Result<(), E> {
        let Some(column) = self.column else { return Err(self.conflict(shape.name())) };
        self.shape.unite(shape, column).map_err(E::custom)
    }
}

impl<'de> DeserializeSeed<'de> for Values<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> std::result::Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Values<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> std::result::Result<(), E> {
        if self.column.is_none() { Err(self.conflict("null")) } else { Ok(()) }
    }

    fn visit_bool<E: Error>(self, _: bool) -> std::result::Result<(), E> {
        self.is(Shape::Boolean)
    }

    fn visit_i64<E: Error>(self, number: i64) -> std::result::Result<(), E> {
        self.is(Shape::Number {
            has_doubles: false,
            has_large: number.unsigned_abs() > EXACT,
            has_negative: number < 0,
            has_unsigned: false,
        })
    }

    fn visit_u64<E: Error>(self, number: u64) -> std::result::Result<(), E> {
        let has_unsigned = i64::try_from(number).is_err();
        self.is(Shape::Number { has_doubles: false, has_large: number > EXACT, has_negative: false, has_unsigned })
    }

    fn visit_f64<E: Error>(self, _: f64) -> std::result::Result<(), E> {
        self.is(Shape::Number { has_doubles: true, has_large: false, has_negative: false, has_unsigned: false })
    }

    fn visit_str<E: Error>(self, _: &str) -> std::result::Result<(), E> {
        self.is(Shape::Text)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> std::result::Result<(), A::Error> {
        if self.column.is_some() && matches!(self.shape, Shape::Null) {
            *self.shape = Shape::List(Box::default());
        }
        let Shape::List(items) = self.shape else { return Err(self.conflict("a list")) };
        while values.next_element_seed(Values { shape: items, column: self.column })?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut values: A) -> std::result::Result<(), A::Error> {
        if matches!(self.shape, Shape::Null) {
            *self.shape = Shape::Object(Vec::new());
        }
        let Shape::Object(members) = self.shape else { return Err(self.conflict("an object")) };
        let mut next = 0;
        while let Some(key) = values.next_key::<String>()? {
            // Most lines have the same fields in the same order.
            let (place, shape) = member(members, next, &key);
            next = place + 1;
            let column = Some(self.column.unwrap_or(&key));
            values.next_value_seed(Values { shape, column })?;
        }
        Ok(())
    }
}
