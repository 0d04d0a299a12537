//! Writes answers as rows: a query and its answer.
//!
//! ```text
//! query     of the type of the queries; in text any 64-bit integer, as the type is known only after the last query
//! answer    null for a miss; .npy has 0, and false in the field `found`
//! places    record and offset in place of the answer
//! ```

use std::sync::Arc;

use arrow_array::types::{Decimal128Type, Int32Type, Int64Type, UInt8Type, UInt32Type, UInt64Type};
use arrow_array::{ArrayRef, ArrowPrimitiveType, BooleanArray, PrimitiveArray, RecordBatch, StringArray, UInt64Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use crate::failure::{Failure, Result};
use crate::input::{Places, letters};
use crate::number::{Number, Type};
use crate::output::RowOptions;
use crate::tables::write::{FLAG, Form, Sink};

/// The rows of a batch.
const BATCH: usize = 1 << 16;

/// How the numbers of a column are written.
#[derive(Clone, Copy)]
pub(super) enum Shown {
    /// As numbers of this type.
    Number(Type),
    /// As numbers from -2^63 to 2^64 - 1.
    AnyNumber,
    /// As k-mers of this number of letters.
    Letters(u32),
    /// As yes or no; in text as 1 or 0.
    Flag,
}

/// The name of a column, and how it is written.
#[derive(Clone, Copy)]
pub(super) struct Column {
    name: &'static str,
    shown: Shown,
    /// Whether the column is null for misses.
    misses: bool,
}

impl Column {
    pub(super) fn of(name: &'static str, shown: Shown) -> Column {
        Column { name, shown, misses: false }
    }

    /// A column that is null for misses.
    pub(super) fn maybe(name: &'static str, shown: Shown) -> Column {
        Column { name, shown, misses: true }
    }

    fn field(self, output: &RowOptions) -> Field {
        let place = output.place();
        let is_npy = place.form() == Form::Npy;
        let data_type = match self.shown {
            Shown::Number(kind) => kind.data_type(),
            Shown::AnyNumber => DataType::Decimal128(20, 0),
            Shown::Letters(k) if is_npy => DataType::FixedSizeBinary(k as i32),
            Shown::Letters(_) => DataType::Utf8,
            Shown::Flag if place.is_text() => DataType::UInt8,
            Shown::Flag => DataType::Boolean,
        };
        let field = Field::new(self.name, data_type, self.misses);
        match is_npy && self.misses {
            true => field.with_metadata([(FLAG.to_owned(), "found".to_owned())].into()),
            false => field,
        }
    }
}

/// The output of rows.
pub(super) struct Rows {
    sink: Sink,
    schema: SchemaRef,
    columns: [Column; 2],
    places: Option<Places>,
    queries: Vec<Number>,
    answers: Vec<Option<Number>>,
    /// The number of rows written in earlier batches.
    written: u64,
}

impl Rows {
    /// Opens an output with these columns, or with record and offset in place of the second one; `memory` is the limit
    /// in bytes.
    pub(super) fn open(
        output: &RowOptions,
        columns: [Column; 2],
        places: Option<Places>,
        memory: Option<u64>,
    ) -> Result<Rows> {
        let fields = match places {
            None => columns.map(|column| column.field(output)).to_vec(),
            Some(_) => vec![
                columns[0].field(output),
                Field::new("record", DataType::Utf8, true),
                Field::new("offset", DataType::UInt64, true),
            ],
        };
        let schema = Arc::new(Schema::new(fields));
        let sink = Sink::within(memory.unwrap_or(u64::MAX), output.place(), &schema)?;
        Ok(Rows { sink, schema, columns, places, queries: Vec::new(), answers: Vec::new(), written: 0 })
    }

    /// Writes a query and its answer, if it has an answer.
    pub(super) fn write(&mut self, query: Number, answer: Option<Number>) -> Result<()> {
        self.queries.push(query);
        self.answers.push(answer);
        if self.queries.len() == BATCH { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        let [of_queries, of_answers] = self.columns;
        let mut columns =
            vec![self.column(self.queries.iter().copied().map(Some), of_queries, self.schema.field(0))?];
        match &self.places {
            None => columns.push(self.column(self.answers.iter().copied(), of_answers, self.schema.field(1))?),
            Some(places) => {
                let found = self.answers.iter().map(|answer| answer.map(|place| places.at(place)).transpose());
                let (records, offsets): (Vec<_>, Vec<_>) =
                    found.collect::<Result<Vec<_>>>()?.into_iter().map(Option::unzip).unzip();
                columns.push(Arc::new(StringArray::from(records)));
                columns.push(Arc::new(UInt64Array::from(offsets)));
            }
        }
        self.written += self.queries.len() as u64;
        self.queries.clear();
        self.answers.clear();
        let rows = RecordBatch::try_new(Arc::clone(&self.schema), columns);
        self.sink.write(&rows.map_err(koel_arrow::Error::from)?)
    }

    /// Writes the last batch and moves the file to its final name.
    pub(super) fn finish(mut self) -> Result<()> {
        self.flush()?;
        self.sink.finish().map(|_| ())
    }

    /// Converts numbers to an array of this field.
    fn column(
        &self,
        numbers: impl Iterator<Item = Option<Number>> + Clone,
        of: Column,
        field: &Field,
    ) -> Result<ArrayRef> {
        if let Shown::Number(kind) = of.shown
            && let Some((row, number)) = (self.written + 1..)
                .zip(numbers.clone())
                .find_map(|(row, number)| number.filter(|&number| !kind.holds(number)).map(|number| (row, number)))
        {
            let wide = if number > i64::MAX.into() { Type::U64 } else { Type::I64 };
            return Err(Failure::Input(format!(
                "row {row} of the output: the {} {number} does not fit the type of its column, {}: give --keys {}",
                of.name,
                kind.name(),
                wide.name()
            )));
        }
        column(numbers, of, field)
    }
}

/// Converts numbers, all of which fit, to an array of this field.
fn column(numbers: impl Iterator<Item = Option<Number>>, of: Column, field: &Field) -> Result<ArrayRef> {
    fn of_type<T: ArrowPrimitiveType>(
        numbers: impl Iterator<Item = Option<Number>>,
        native: impl Fn(Number) -> T::Native,
    ) -> PrimitiveArray<T> {
        numbers.map(|number| number.map(&native)).collect()
    }
    Ok(match (of.shown, field.data_type()) {
        (Shown::Letters(k), data_type) => letters::column(numbers, k, data_type)?,
        (_, DataType::Boolean) => Arc::new(numbers.map(|n| n.map(|n| n != 0)).collect::<BooleanArray>()),
        (_, DataType::UInt8) => Arc::new(of_type::<UInt8Type>(numbers, |number| number as u8)),
        (_, DataType::UInt32) => Arc::new(of_type::<UInt32Type>(numbers, |number| number as u32)),
        (_, DataType::Int32) => Arc::new(of_type::<Int32Type>(numbers, |number| number as i32)),
        (_, DataType::UInt64) => Arc::new(of_type::<UInt64Type>(numbers, |number| number as u64)),
        (_, DataType::Int64) => Arc::new(of_type::<Int64Type>(numbers, |number| number as i64)),
        (_, data_type) => {
            Arc::new(of_type::<Decimal128Type>(numbers, |number| number).with_data_type(data_type.clone()))
        }
    })
}
