//! Rows without column names as a source with the columns `key` and `value`: CSV and TSV of numbers, `.npy`, FASTA and
//! FASTQ.
//!
//! Rows are read when the source is opened, because the types of numbers depend on all of them: into memory, or into a temporary
//! file under a limit.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int32Array, Int64Array, RecordBatch, UInt32Array, UInt64Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use crate::failure::Result;
use crate::input::{Inputs, Name, Pairs, ReadOptions, Spooled, Want};
use crate::number::{Numbers, Type};

use super::super::Table;
use super::stream::Stream;
use super::{Form, Source};

/// The column of keys.
pub(crate) const KEY: &str = "key";
/// The column of values.
pub(crate) const VALUE: &str = "value";

pub(super) struct Rows {
    schema: SchemaRef,
    data: Data,
    letters: Option<u32>,
}

enum Data {
    Memory(RecordBatch),
    File(Spooled),
}

/// Reads all rows, into a temporary file if `is_spooled`.
pub(crate) fn open(inputs: Inputs<'_>, options: &ReadOptions, want: Want, is_spooled: bool) -> Result<Source> {
    let (name, letters) = (inputs.name().clone(), inputs.letters(options));
    let schema_of = |keys, values| {
        let mut fields = vec![Field::new(KEY, type_of(keys), false)];
        fields.extend((want == Want::Pairs).then(|| Field::new(VALUE, type_of(values), false)));
        Arc::new(Schema::new(fields))
    };
    let (schema, data) = if is_spooled {
        let rows = Spooled::read(inputs, options, want)?;
        let (keys, values) = rows.types();
        (schema_of(keys, values), Data::File(rows))
    } else {
        let Pairs { keys, values } = inputs.columns(options, want)?;
        let schema = schema_of(keys.kind(), values.kind());
        let rows = batch(&schema, &name, keys, values)?;
        (schema, Data::Memory(rows))
    };
    Ok(Source { name, form: Form::Rows(Rows { schema, data, letters }) })
}

impl Rows {
    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    pub(super) fn count(&self) -> u64 {
        match &self.data {
            Data::Memory(rows) => rows.num_rows() as u64,
            Data::File(rows) => rows.len(),
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
            Data::File(rows) => {
                let blocks = rows.blocks()?;
                Stream::of(
                    schema,
                    blocks.map(move |block| {
                        let (keys, values) = block?;
                        project(&batch(&self.schema, name, keys, values)?)
                    }),
                )
            }
        })
    }
}

fn batch(schema: &SchemaRef, name: &Name, keys: Numbers, values: Numbers) -> Result<RecordBatch> {
    let mut columns = vec![column(keys)?];
    if schema.fields().len() > 1 {
        columns.push(column(values)?);
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

/// Numbers as an array.
pub(crate) fn column(numbers: Numbers) -> Result<ArrayRef> {
    Ok(match numbers.kind() {
        Type::U32 => Arc::new(UInt32Array::from(numbers.into_values::<u32>()?)),
        Type::I32 => Arc::new(Int32Array::from(bytemuck::cast_vec::<u32, i32>(numbers.into_values()?))),
        Type::U64 => Arc::new(UInt64Array::from(numbers.into_values::<u64>()?)),
        Type::I64 => Arc::new(Int64Array::from(bytemuck::cast_vec::<u64, i64>(numbers.into_values()?))),
        Type::F64 => Arc::new(Float64Array::from(bytemuck::cast_vec::<u64, f64>(numbers.into_values()?))),
    })
}
