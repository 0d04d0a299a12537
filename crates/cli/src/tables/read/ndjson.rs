//! NDJSON: one JSON object a line, whose fields are columns.
//!
//! ```text
//! open    parses every line for the types of the columns, in the order in which their names first occur
//! read    decodes the wanted columns, in chunks of whole lines
//! ```
//!
//! A missing field is a null. Integers are exact: a column mixes them with doubles only where doubles represent them.

use std::io::{BufRead, BufReader, Read};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_json::ReaderBuilder;
use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use crate::failure::Result;
use crate::input::Name;
use crate::{progress, text};

use super::super::Table;
use super::Data;
use super::csv::LONGEST;
use super::guarded::guarded;
use super::stream::{BYTES, ROWS, Stream};

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// Doubles represent all integers up to this one.
const EXACT: u64 = 1 << 53;

/// A file whose columns and their types are known.
pub(super) struct Ndjson {
    data: Data,
    schema: SchemaRef,
    start: u64,
}

impl Ndjson {
    pub(super) fn open(name: &Name, data: Data, head: &[u8]) -> Result<Ndjson> {
        let start = if head.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() as u64 } else { 0 };
        let (mut reader, mut line, mut number) = (BufReader::new(data.reader(start)), Vec::new(), 0);
        let mut columns = Vec::new();
        while read_line(name, &mut reader, &mut line, number)? {
            number += 1;
            if !line.trim_ascii().is_empty() {
                survey(&line, &mut columns).map_err(|reason| name.at(number, reason))?;
            }
        }
        if columns.is_empty() {
            return Err(name.fail("no object has a field: NDJSON has one object per line"));
        }
        let schema = Arc::new(Schema::new(fields(&columns)));
        Ok(Ndjson { data, schema, start })
    }

    pub(super) fn data(&self) -> &Data {
        &self.data
    }

    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    pub(super) fn read(&self, name: &Name, places: &[usize]) -> Result<Table> {
        let stream = self.stream(name, places)?;
        let schema = Arc::clone(stream.schema());
        let table = Table::of(schema, stream.collect::<Result<Vec<_>>>()?);
        // The lines were parsed when the file was opened.
        self.data.check_unchanged().map_err(|error| name.io(&error))?;
        Ok(table)
    }

    pub(super) fn stream<'a>(&'a self, name: &'a Name, places: &[usize]) -> Result<Stream<'a>> {
        progress::bytes(self.data.length());
        let schema: SchemaRef = Arc::new(self.schema.project(places).map_err(|error| name.fail(error))?);
        let projected = Arc::clone(&schema);
        let (mut reader, mut line, mut number) = (BufReader::new(self.data.reader(self.start)), Vec::new(), 0);
        let batches = std::iter::from_fn(move || {
            let (mut chunk, mut rows) = (Vec::new(), 0);
            while rows < ROWS && chunk.len() < BYTES {
                match read_line(name, &mut reader, &mut line, number) {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(failure) => return Some(Err(failure)),
                }
                number += 1;
                progress::advance_bytes(line.len() as u64);
                if !line.trim_ascii().is_empty() {
                    chunk.extend_from_slice(&line);
                    rows += 1;
                }
            }
            (rows > 0).then(|| decode(&projected, &chunk).map_err(|reason| name.fail(reason)))
        });
        Ok(Stream::of(schema, batches))
    }
}

/// Reads the next line, with its end; false if there is none.
fn read_line(name: &Name, reader: &mut impl BufRead, line: &mut Vec<u8>, before: u64) -> Result<bool> {
    const TOO_LONG: &str = "this line is longer than 16 MiB, the most that koel reads: write one object a line";
    line.clear();
    reader.take(LONGEST as u64 + 1).read_until(b'\n', line).map_err(|error| name.io(&error))?;
    if line.len() > LONGEST {
        return Err(name.at(before + 1, TOO_LONG));
    }
    Ok(!line.is_empty())
}

/// The rows of some whole lines, at most [`ROWS`].
fn decode(schema: &SchemaRef, lines: &[u8]) -> std::result::Result<RecordBatch, String> {
    guarded(|| {
        let decoder = ReaderBuilder::new(Arc::clone(schema)).with_batch_size(ROWS).build_decoder();
        let mut decoder = decoder.map_err(|error| error.to_string())?;
        decoder.decode(lines).map_err(|error| error.to_string())?;
        let batch = decoder.flush().map_err(|error| error.to_string())?;
        batch.ok_or_else(|| "the file changed while it was being read".into())
    })
}

/// The type of the values of a column so far.
#[derive(Debug, Default)]
enum Shape {
    /// All are null.
    #[default]
    Null,
    Boolean,
    Number {
        has_doubles: bool,
        /// Whether doubles do not represent all of the integers.
        has_large: bool,
    },
    Text,
    List(Box<Shape>),
    Object(Vec<(String, Shape)>),
}

impl Shape {
    fn field(&self, name: &str) -> Field {
        let data_type = match self {
            Shape::Null => DataType::Null,
            Shape::Boolean => DataType::Boolean,
            Shape::Number { has_doubles: true, .. } => DataType::Float64,
            Shape::Number { .. } => DataType::Int64,
            Shape::Text => DataType::Utf8,
            Shape::List(items) => DataType::List(Arc::new(items.field("item"))),
            Shape::Object(members) => DataType::Struct(fields(members)),
        };
        Field::new(name, data_type, true)
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

fn fields(members: &[(String, Shape)]) -> Fields {
    members.iter().map(|(name, shape)| shape.field(name)).collect()
}

/// Adds the types of a line's values to those of the columns.
fn survey(line: &[u8], columns: &mut Vec<(String, Shape)>) -> std::result::Result<(), String> {
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
    if has_long_integer(line) {
        return Err("an integer does not fit in 64 bits: write it in quotes, as text".into());
    }
    Ok(())
}

/// Whether a number without a fraction or exponent, outside of texts, exceeds 64 bits; the parser makes it a double.
fn has_long_integer(line: &[u8]) -> bool {
    let (mut at, mut is_text) = (0, false);
    while at < line.len() {
        match line[at] {
            b'\\' if is_text => at += 1,
            b'"' => is_text = !is_text,
            b'0'..=b'9' | b'-' if !is_text => {
                let is_number = |byte: &u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
                let length = line[at..].iter().take_while(|byte| is_number(byte)).count();
                let number = std::str::from_utf8(&line[at..at + length]).unwrap_or_default();
                if length > 18 && !number.contains(['.', 'e', 'E']) && number.parse::<i64>().is_err() {
                    return true;
                }
                at += length - 1;
            }
            _ => {}
        }
        at += 1;
    }
    false
}

/// Adds the type of one value to those before.
struct Values<'a> {
    shape: &'a mut Shape,
    /// The column that the value is in; none of the object that is the row.
    column: Option<&'a str>,
}

impl Values<'_> {
    fn conflict<E: Error>(&self, what: &str) -> E {
        let Some(column) = self.column else {
            return E::custom("this line is not an object: NDJSON has one object per line");
        };
        let (column, before) = (text::name(column), self.shape.name());
        E::custom(format!(
            "column {column}: {what} where lines before have {before}: write values of one type, e.g. all as text in \
             quotes"
        ))
    }

    fn is<E: Error>(self, shape: Shape) -> std::result::Result<(), E> {
        if self.column.is_none() {
            return Err(self.conflict(shape.name()));
        }
        if matches!(self.shape, Shape::Null) {
            *self.shape = shape;
            return Ok(());
        }
        match (&mut *self.shape, &shape) {
            (Shape::Boolean, Shape::Boolean) | (Shape::Text, Shape::Text) => {}
            (Shape::Number { has_doubles, has_large }, Shape::Number { has_doubles: doubles, has_large: large }) => {
                *has_doubles |= doubles;
                *has_large |= large;
                if *has_doubles && *has_large {
                    let column = text::name(self.column.unwrap_or_default());
                    return Err(E::custom(format!(
                        "column {column}: doubles and integers beyond 2^53, which doubles do not represent: write \
                         these numbers in quotes, as text"
                    )));
                }
            }
            _ => return Err(self.conflict(shape.name())),
        }
        Ok(())
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
        self.is(Shape::Number { has_doubles: false, has_large: number.unsigned_abs() > EXACT })
    }

    fn visit_u64<E: Error>(self, number: u64) -> std::result::Result<(), E> {
        self.is(Shape::Number { has_doubles: false, has_large: number > EXACT })
    }

    fn visit_f64<E: Error>(self, _: f64) -> std::result::Result<(), E> {
        self.is(Shape::Number { has_doubles: true, has_large: false })
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
            let place = match members.get(next) {
                Some((member, _)) if *member == key => next,
                _ => members.iter().position(|(member, _)| *member == key).unwrap_or(members.len()),
            };
            if place == members.len() {
                members.push((key.clone(), Shape::Null));
            }
            next = place + 1;
            let column = Some(self.column.unwrap_or(&key));
            values.next_value_seed(Values { shape: &mut members[place].1, column })?;
        }
        Ok(())
    }
}
