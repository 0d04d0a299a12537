//! Rows without column names as a source with a column `key` and one of values: CSV and TSV of numbers, `.npy`, FASTA and
//! FASTQ.
//!
//! Rows are read when the source is opened, because the types of numbers depend on all of them: into memory, or into a temporary
//! file under a limit.

use std::sync::Arc;

use arrow_array::{RecordBatch, UInt32Array, UInt64Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use crate::failure::Result;
use crate::input::{Inputs, Name, Pairs, ReadOptions, Spooled, Want};
use crate::memory;
use crate::number::{Numbers, Span, Type};

use super::super::Table;
use super::csv::typed::Typed;
use super::stream::Stream;
use super::{Form, Source};

/// The column of keys.
pub(crate) const KEY: &str = "key";
/// The column of values.
pub(crate) const VALUE: &str = "value";

/// What accompanies the keys of the two sides of a join.
pub(crate) const LEFT: &str = "left";
pub(crate) const RIGHT: &str = "right";

/// What accompanies the keys.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Payload {
    Nothing,
    Values,
    /// Row numbers, from 0.
    RowNumbers,
}

/// Rows that were read, and are not a source yet: the type of keys may depend on other rows.
pub(crate) struct Unnamed {
    name: Name,
    letters: Option<u32>,
    payload: Payload,
    numbers: Read,
}

enum Read {
    Memory(Pairs),
    File(Spooled),
}

pub(super) struct Rows {
    schema: SchemaRef,
    data: Data,
    letters: Option<u32>,
}

enum Data {
    Memory(RecordBatch),
    File { rows: Spooled, keys: Type, payload: Payload },
}

/// Reads all rows, into a temporary file if `is_spooled`.
pub(crate) fn read(inputs: Inputs<'_>, options: &ReadOptions, payload: Payload, is_spooled: bool) -> Result<Unnamed> {
    let (name, letters) = (inputs.name().clone(), inputs.letters(options));
    let want = if payload == Payload::Values { Want::Pairs } else { Want::Keys };
    let numbers = match is_spooled {
        true => Read::File(Spooled::read(inputs, options, want)?),
        false => Read::Memory(inputs.columns(options, want)?),
    };
    Ok(Unnamed { name, letters, payload, numbers })
}

impl Unnamed {
    /// The type of the keys, and the least and the greatest key.
    pub(crate) fn keys(&self) -> (Type, Span) {
        match &self.numbers {
            Read::Memory(Pairs { keys, .. }) => (keys.kind(), keys.span()),
            Read::File(rows) => (rows.types().0, rows.span_of_keys()),
        }
    }

    /// The columns `key`, of numbers of a type that holds all keys, and `value`, what accompanies them.
    pub(crate) fn into_source(self, keys: Type, value: &str) -> Result<Source> {
        // From here on, Arrow stores the rows.
        memory::end_when_short();
        let Unnamed { name, letters, payload, numbers } = self;
        let (rows, values) = match &numbers {
            Read::Memory(Pairs { keys, values }) => (keys.len() as u64, values.kind()),
            Read::File(rows) => (rows.len(), rows.types().1),
        };
        let values = match payload {
            Payload::Nothing => None,
            Payload::Values => Some(values),
            Payload::RowNumbers => Some(Type::of_count(rows)),
        };
        let values = values.map(|values| Field::new(value, type_of(values), false));
        let fields = [Field::new(KEY, type_of(keys), false)].into_iter().chain(values);
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let data = match numbers {
            Read::Memory(pairs) => Data::Memory(batch(&schema, &name, (keys, payload), (pairs.keys, pairs.values), 0)?),
            Read::File(rows) => Data::File { rows, keys, payload },
        };
        Ok(Source { name, form: Form::Rows(Rows { schema, data, letters }), types: Typed::default() })
    }
}

impl Rows {
    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    pub(super) fn count(&self) -> u64 {
        match &self.data {
            Data::Memory(rows) => rows.num_rows() as u64,
            Data::File { rows, .. } => rows.len(),
        }
    }

    /// The letters of a key, if keys are k-mers of sequences.
    pub(super) fn letters(&self) -> Option<u32> {
        self.letters
    }

    pub(super) fn read(&self, name: &Name, places: &[usize]) -> Result<Table> {
        if let Data::Memory(rows) = &self.data {
            let rows = rows.project(places).map_err(|error| name.fail(error))?;
            // In one piece, so that `unique` takes the keys without a copy.
            return Ok(Table { schema: rows.schema(), rows: rows.num_rows(), batches: vec![rows] });
        }
        let stream = self.stream(name, places)?;
        Ok(Table::of(Arc::clone(stream.schema()), stream.collect::<Result<Vec<_>>>()?))
    }

    pub(super) fn stream<'a>(&'a self, name: &'a Name, places: &[usize]) -> Result<Stream<'a>> {
        let places = places.to_vec();
        let schema = Arc::new(self.schema.project(&places).map_err(|error| name.fail(error))?);
        let project = move |batch: &RecordBatch| batch.project(&places).map_err(|error| name.fail(error));
        Ok(match &self.data {
            Data::Memory(rows) => Stream::of(schema, std::iter::once_with(move || project(rows))),
            Data::File { rows, keys: kind, payload } => {
                let (blocks, mut next) = (rows.blocks(), 0);
                Stream::of(
                    schema,
                    blocks.map(move |block| {
                        let (keys, values) = block?;
                        let (first, rows) = (next, keys.len() as u64);
                        next += rows;
                        project(&batch(&self.schema, name, (*kind, *payload), (keys, values), first)?)
                    }),
                )
            }
        })
    }
}

/// Rows of this schema; the number of the first one is `first`.
fn batch(
    schema: &SchemaRef,
    name: &Name,
    types: (Type, Payload),
    (keys, values): (Numbers, Numbers),
    first: u64,
) -> Result<RecordBatch> {
    let numbers = first..first + keys.len() as u64;
    let kind = values.kind();
    let mut columns = vec![keys.into_array(types.0)];
    match types.1 {
        Payload::Nothing => {}
        Payload::Values => columns.push(values.into_array(kind)),
        // Row numbers are of 64 bits only if 32 do not suffice.
        Payload::RowNumbers => columns.push(match schema.field(1).data_type() {
            DataType::UInt32 => Arc::new(UInt32Array::from_iter_values(numbers.map(|row| row as u32))),
            _ => Arc::new(UInt64Array::from_iter_values(numbers)),
        }),
    }
    RecordBatch::try_new(Arc::clone(schema), columns).map_err(|error| name.fail(error))
}

/// Arrow's type for numbers of this type.
pub(crate) fn type_of(kind: Type) -> DataType {
    match kind {
        Type::U32 => DataType::UInt32,
        Type::I32 => DataType::Int32,
        Type::U64 => DataType::UInt64,
        Type::I64 => DataType::Int64,
        Type::F64 => DataType::Float64,
    }
}
