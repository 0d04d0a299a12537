//! `--types` for files whose columns already have types: a value is converted as its text in CSV would be.
//!
//! So the option has the same meaning for every format: a value is kept exactly, or refused; only float64 rounds. In
//! addition:
//!
//! ```text
//! 5.0, true           are converted to the integers 5 and 1
//! 2024-02-29 00:00    is converted to a date, and a date to its first moment
//! timestamps          without a time zone are taken as UTC, and vice versa
//! float16, float32    are converted to the float64 of the same value
//! binary              is converted to utf8 of the same bytes, and to no other type
//! ```

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float16Type, Float32Type};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, Float64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use koel_arrow::{Column, plain_type};
use rayon::prelude::*;

use super::super::super::kinds::Kind;
use super::super::super::write::cells;
use super::super::super::{Table, TableReading};
use super::super::stream::Stream;
use super::column::Cells;
use super::fields::{self, Dialect};
use crate::failure::{Failure, Result};
use crate::input::Name;
use crate::{tables, text};

/// The types that the user states, by column.
#[derive(Default)]
pub(in super::super) struct Typed(HashMap<String, Kind>);

impl Typed {
    pub(in super::super) fn new(options: &TableReading) -> Typed {
        Typed(options.text.types.iter().flat_map(|types| types.0.iter().cloned()).collect())
    }

    /// The type to convert a column to, if it differs from the column's own.
    pub(in super::super) fn other(&self, field: &Field) -> Option<Kind> {
        let own = plain_type(field.data_type());
        let is_text = matches!(own, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
        let kind = *self.0.get(field.name())?;
        (kind.data_type() != own && !(is_text && kind == Kind::Utf8)).then_some(kind)
    }

    /// The schema after the conversion, given the schema of the file.
    pub(in super::super) fn schema(&self, schema: SchemaRef) -> SchemaRef {
        if self.0.is_empty() {
            return schema;
        }
        let typed = |field: &Arc<Field>| match self.other(field) {
            Some(kind) => Arc::new(field.as_ref().clone().with_data_type(kind.data_type())),
            None => Arc::clone(field),
        };
        let fields: Vec<_> = schema.fields().iter().map(typed).collect();
        Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
    }

    pub(in super::super) fn table(&self, name: &Name, table: Table) -> Result<Table> {
        if self.0.is_empty() {
            return Ok(table);
        }
        let schema = self.schema(Arc::clone(&table.schema));
        let batches = table.batches.into_par_iter().map(|batch| self.batch(name, &schema, &batch));
        Ok(Table { batches: batches.collect::<Result<_>>()?, schema, rows: table.rows })
    }

    pub(in super::super) fn stream<'a>(&'a self, name: &'a Name, stream: Stream<'a>) -> Stream<'a> {
        if self.0.is_empty() {
            return stream;
        }
        let schema = self.schema(Arc::clone(stream.schema()));
        let typed = Arc::clone(&schema);
        stream.converted(schema, move |batch| self.batch(name, &typed, &batch))
    }

    fn batch(&self, name: &Name, schema: &SchemaRef, batch: &RecordBatch) -> Result<RecordBatch> {
        let typed = |(field, column): (&Arc<Field>, &ArrayRef)| match self.other(field) {
            Some(kind) => column_as(kind, name, field, column),
            None => Ok(Arc::clone(column)),
        };
        let columns = batch.schema_ref().fields().iter().zip(batch.columns()).map(typed).collect::<Result<Vec<_>>>()?;
        tables::batch(schema, columns, batch.num_rows()).map_err(|error| name.fail(error))
    }
}

/// Converts a column to another type.
fn column_as(kind: Kind, name: &Name, field: &Field, column: &ArrayRef) -> Result<ArrayRef> {
    let refused = |what: String| -> Failure { name.fail(format!("column {}: {what}", text::name(field.name()))) };
    let plain = Column::new(field.name(), Arc::clone(column)).plain()?.one_piece()?;
    let array = &plain.chunks()[0];
    match (array.data_type(), kind) {
        // Text that was stored without the annotation that it is text.
        (of, Kind::Utf8) if is_binary(of) => {
            let texts = texts(array).ok_or_else(|| refused("a value is not UTF-8: omit the column in --types".into()));
            return texts.map(|texts| Arc::new(texts) as ArrayRef);
        }
        (of, _) if is_binary(of) => {
            return Err(refused(format!(
                "it is of type {of}, which --types converts to utf8 only: omit the column there"
            )));
        }
        // The text of these floats has fewer digits than that of the double of the same value.
        (DataType::Float16, Kind::Float64) => return Ok(Arc::new(doubles::<Float16Type>(array))),
        (DataType::Float32, Kind::Float64) => return Ok(Arc::new(doubles::<Float32Type>(array))),
        _ => {}
    }
    let written = cells::column(array, DIALECT.delimiter);
    let written = written.ok_or_else(|| {
        refused(format!("it is of type {}, which --types does not convert: omit the column there", field.data_type()))
    })?;
    let (mut read, mut cell) = (Cells::of(kind, array.len()), Vec::new());
    for row in 0..array.len() {
        cell.clear();
        if !written.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            written.cells.put(row, &mut cell);
            adapt(&mut cell, array.data_type(), kind);
        }
        let (value, ..) = fields::field(&cell, 0, DIALECT).map_err(|what| refused(what.into()))?;
        read.push(value).map_err(|_| {
            let value = fields::shown(value);
            let kind = kind.name();
            refused(format!("{value} is not of the type {kind}: correct it, or give the column another of --types"))
        })?;
    }
    // A wanted column has an array, and the text that was written is UTF-8.
    read.finish().ok().flatten().ok_or_else(|| refused("it is not UTF-8".into()))
}

fn is_binary(of: &DataType) -> bool {
    use DataType::{Binary, BinaryView, FixedSizeBinary, LargeBinary};
    matches!(of, Binary | LargeBinary | BinaryView | FixedSizeBinary(_))
}

/// The values of a binary column as text; `None` if one is not UTF-8.
fn texts(array: &ArrayRef) -> Option<StringArray> {
    let bytes: Vec<Option<&[u8]>> = match array.data_type() {
        DataType::Binary => array.as_binary::<i32>().iter().collect(),
        DataType::LargeBinary => array.as_binary::<i64>().iter().collect(),
        DataType::BinaryView => array.as_binary_view().iter().collect(),
        DataType::FixedSizeBinary(_) => array.as_fixed_size_binary().iter().collect(),
        _ => return None,
    };
    let text = |bytes: Option<&'_ [u8]>| bytes.map(|bytes| std::str::from_utf8(bytes).ok().map(String::from));
    bytes.into_iter().map(|bytes| text(bytes).map_or(Some(None), |text| text.map(Some))).collect()
}

fn doubles<T: ArrowPrimitiveType>(array: &ArrayRef) -> Float64Array
where
    T::Native: Into<f64>,
{
    array.as_primitive::<T>().unary(Into::into)
}

const DIALECT: Dialect<'_> = Dialect { delimiter: b',', has_quotes: true, nulls: &[] };

/// Converts the text of a cell to the form that the other type expects, with the same value.
fn adapt(cell: &mut Vec<u8>, own: &DataType, kind: Kind) {
    use DataType::{Boolean, Date32, Date64, Timestamp};
    let is_moment = matches!(own, Date32 | Date64 | Timestamp(..));
    let is_exact = matches!(kind, Kind::Int32 | Kind::Int64 | Kind::UInt32 | Kind::UInt64 | Kind::Decimal(..));
    if is_exact && own.is_floating() {
        write_digits(cell);
    }
    match kind {
        Kind::Int32 | Kind::Int64 | Kind::UInt32 | Kind::UInt64 => match own {
            Boolean => *cell = if cell == b"true" { b"1".to_vec() } else { b"0".to_vec() },
            own if own.is_floating() || own.is_decimal() => {
                let whole = cell.iter().position(|&byte| byte == b'.');
                if let Some(whole) = whole.filter(|&at| cell[at + 1..].iter().all(|&byte| byte == b'0')) {
                    cell.truncate(whole);
                }
            }
            _ => {}
        },
        Kind::Date32 | Kind::Timestamp { .. } if is_moment => {
            const MIDNIGHT: &[u8] = b"00:00:00";
            if cell.ends_with(b"Z") {
                cell.pop();
            }
            let has_time = cell.contains(&b':');
            match kind {
                Kind::Date32 if cell.ends_with(MIDNIGHT) => cell.truncate(cell.len() - MIDNIGHT.len() - 1),
                Kind::Timestamp { is_utc: true } => {
                    if !has_time {
                        cell.push(b'T');
                        cell.extend(MIDNIGHT);
                    }
                    cell.push(b'Z');
                }
                _ => {}
            }
        }
        _ => {}
    }
}

/// Writes a float without an exponent, and zero without a sign.
fn write_digits(cell: &mut Vec<u8>) {
    let number = std::str::from_utf8(cell).ok().and_then(|text| text.parse::<f64>().ok());
    match number {
        Some(0.0) => *cell = b"0".to_vec(),
        Some(number) if cell.contains(&b'e') => *cell = number.to_string().into_bytes(),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::builder::StringDictionaryBuilder;
    use arrow_array::types::{Int32Type, Int64Type};
    use arrow_array::{
        BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Int64Array, ListArray,
        TimestampNanosecondArray, TimestampSecondArray,
    };

    use super::*;

    /// The cells of a column after the conversion, or the error.
    fn typed(array: ArrayRef, kind: &str) -> std::result::Result<Vec<String>, String> {
        let kind = Kind::named(kind)?;
        let field = Field::new("v", array.data_type().clone(), true);
        let name = Name::of("t".as_ref());
        let typed = Typed([("v".into(), kind)].into());
        let schema = Arc::new(Schema::new(vec![field]));
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![array]).map_err(|error| error.to_string())?;
        let schema = typed.schema(schema);
        let batch = typed.batch(&name, &schema, &batch).map_err(|failure| failure.to_string())?;
        assert_eq!(*batch.column(0).data_type(), kind.data_type());
        let cells = cells::column(batch.column(0), b',').ok_or("nested")?;
        Ok((0..batch.num_rows())
            .map(|row| {
                let mut cell = Vec::new();
                if !cells.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                    cells.cells.put(row, &mut cell);
                }
                String::from_utf8_lossy(&cell).into_owned()
            })
            .collect())
    }

    #[test]
    fn values_are_exact_or_refused() {
        let decimals = |values: Vec<i128>| {
            Arc::new(Decimal128Array::from(values).with_precision_and_scale(20, 3).expect("a decimal")) as ArrayRef
        };
        let mut dictionary = StringDictionaryBuilder::<Int32Type>::new();
        ["7", "7", "-1"].iter().for_each(|text| dictionary.append_value(text));
        let seconds = || TimestampSecondArray::from(vec![Some(86_400), None]);
        let cases: Vec<(ArrayRef, &str, std::result::Result<&[&str], &str>)> = vec![
            (Arc::new(Float64Array::from(vec![Some(5.0), None, Some(-3.0)])), "int64", Ok(&["5", "", "-3"])),
            (Arc::new(Float64Array::from(vec![1e16, -0.0])), "uint64", Ok(&["10000000000000000", "0"])),
            (Arc::new(Float64Array::from(vec![1e-5, 2.5])), "decimal(18,6)", Ok(&["0.000010", "2.500000"])),
            (Arc::new(Float32Array::from(vec![0.1])), "float64", Ok(&["0.10000000149011612"])),
            (Arc::new(Float64Array::from(vec![1e300])), "int64", Err("is not of the type int64")),
            (Arc::new(Float64Array::from(vec![5.5])), "int64", Err("column v: `5.5` is not of the type int64")),
            (Arc::new(Int64Array::from(vec![5_000_000_000])), "int32", Err("`5000000000` is not of the type int32")),
            (Arc::new(Int64Array::from(vec![7, -7])), "utf8", Ok(&["7", "-7"])),
            (Arc::new(Int64Array::from(vec![7])), "decimal(5,2)", Ok(&["7.00"])),
            (decimals(vec![1_500, 2_000]), "decimal(5,1)", Ok(&["1.5", "2.0"])),
            (decimals(vec![1_234]), "decimal(5,1)", Err("`1.234` is not")),
            (decimals(vec![2_000]), "uint32", Ok(&["2"])),
            (Arc::new(BooleanArray::from(vec![true, false])), "int64", Ok(&["1", "0"])),
            (Arc::new(StringArray::from(vec![Some("7"), None])), "int64", Ok(&["7", ""])),
            (Arc::new(StringArray::from(vec![""])), "int64", Err("`` is not of the type int64")),
            (Arc::new(dictionary.finish()), "int64", Ok(&["7", "7", "-1"])),
            (Arc::new(StringArray::from(vec!["2024-02-29"])), "date32", Ok(&["2024-02-29"])),
            (Arc::new(Date32Array::from(vec![1])), "timestamp_utc", Ok(&["1970-01-02T00:00:00Z"])),
            (Arc::new(Date32Array::from(vec![1])), "timestamp", Ok(&["1970-01-02T00:00:00"])),
            (Arc::new(seconds()), "timestamp_utc", Ok(&["1970-01-02T00:00:00Z", ""])),
            (Arc::new(seconds().with_timezone("Europe/Oslo")), "timestamp", Ok(&["1970-01-02T00:00:00", ""])),
            (Arc::new(seconds()), "date32", Ok(&["1970-01-02", ""])),
            (Arc::new(TimestampNanosecondArray::from(vec![1_001])), "timestamp", Err("is not of the type timestamp")),
            (Arc::new(BinaryArray::from(vec![&b"ab"[..]])), "utf8", Ok(&["ab"])),
            (Arc::new(BinaryArray::from(vec![&b"\xab"[..]])), "utf8", Err("a value is not UTF-8")),
            (Arc::new(BinaryArray::from(vec![&b"12"[..]])), "int64", Err("converts to utf8 only")),
        ];
        for (array, kind, expected) in cases {
            let of = array.data_type().clone();
            match (typed(array, kind), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{of} as {kind}"),
                (Err(error), Err(part)) => assert!(error.contains(part), "{of} as {kind}: {error}"),
                (found, expected) => panic!("{of} as {kind}: {found:?} and not {expected:?}"),
            }
        }
        let lists = ListArray::from_iter_primitive::<Int64Type, _, _>([Some([Some(1)])]);
        assert!(typed(Arc::new(lists), "utf8").is_err_and(|error| error.contains("omit the column")));
    }

    #[test]
    fn text_stays_as_it_is() {
        let typed = Typed([("v".into(), Kind::Utf8)].into());
        assert_eq!(typed.other(&Field::new("v", DataType::Utf8View, true)), None);
        assert_eq!(typed.other(&Field::new("v", DataType::LargeUtf8, true)), None);
        assert_eq!(typed.other(&Field::new("w", DataType::Int64, true)), None);
    }
}
