//! Rows without column names as a source with a column `key` and a column of values: CSV and TSV of numbers, `.npy`,
//! FASTA and FASTQ.
//!
//! Rows are read when the source is opened, because the types of numbers depend on all of them. They are stored in
//! memory, or in a temporary file if there is a memory limit.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{Field, Schema, SchemaRef};

use crate::failure::Result;
use crate::input::{Inputs, Name, Pairs, ReadOptions, Want};
use crate::number::{Column, Span, Type};

use super::super::Table;
use super::csv::typed::Typed;
use super::stream::Stream;
use super::{Form, Source};

/// The name of the key column.
pub(crate) const KEY: &str = "key";
/// The name of the value column.
pub(crate) const VALUE: &str = "value";

/// The names of the value columns of the two sides of a join.
pub(crate) const LEFT: &str = "left";
pub(crate) const RIGHT: &str = "right";

/// The values that accompany the keys.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Payload {
    Nothing,
    Values,
    /// Row numbers, from 0.
    RowNumbers,
}

/// Rows that were read, but are not a source yet: the type of keys may depend on other rows.
pub(crate) struct Unnamed {
    name: Name,
    letters: Option<u32>,
    payload: Payload,
    pairs: Pairs,
}

pub(super) struct Rows {
    schema: SchemaRef,
    data: Data,
    count: u64,
    keys: Type,
    payload: Payload,
    letters: Option<u32>,
}

enum Data {
    /// One batch.
    Memory(Vec<ArrayRef>),
    File(Box<Pairs>),
}

/// Reads all rows, into a temporary file if `is_spooled`.
pub(crate) fn read(inputs: Inputs<'_>, options: &ReadOptions, payload: Payload, is_spooled: bool) -> Result<Unnamed> {
    let (name, letters) = (inputs.name().clone(), inputs.letters(options));
    let want = if payload == Payload::Values { Want::Pairs } else { Want::Keys };
    Ok(Unnamed { name, letters, payload, pairs: inputs.pairs(options, want, is_spooled)? })
}

impl Unnamed {
    /// The type of the keys, and a span of all types that hold them.
    pub(crate) fn keys(&self) -> (Type, Span) {
        (self.pairs.types().0, self.pairs.span_of_keys())
    }

    /// Converts the rows to a source with the column `key`, whose type holds all keys, and a column of the accompanying
    /// values, which is named `value`.
    pub(crate) fn into_source(self, keys: Type, value: &str) -> Source {
        let Unnamed { name, letters, payload, pairs } = self;
        let values = match payload {
            Payload::Nothing => None,
            Payload::Values => Some(pairs.types().1),
            // Row numbers have 64 bits only if 32 do not suffice.
            Payload::RowNumbers => Some(Type::of_count(pairs.rows())),
        };
        let values = values.map(|values| Field::new(value, values.data_type(), false));
        let fields = [Field::new(KEY, keys.data_type(), false)].into_iter().chain(values);
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let count = pairs.rows();
        let data = if pairs.is_in_file() { Data::File(Box::new(pairs)) } else { Data::Memory(pairs.into_arrays(keys)) };
        let rows = Rows { schema, data, count, keys, payload, letters };
        Source { name, form: Form::Rows(rows), data: None, types: Typed::default() }
    }
}

impl Rows {
    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// The number of letters of a key, if keys are k-mers of sequences.
    pub(super) fn letters(&self) -> Option<u32> {
        self.letters
    }

    pub(super) fn read(&self, name: &Name, places: &[usize]) -> Result<Table> {
        let batches = self.batches(name, places.to_vec()).collect::<Result<Vec<_>>>()?;
        Ok(Table { schema: self.projected(name, places)?, rows: self.count() as usize, batches })
    }

    pub(super) fn stream<'a>(&'a self, name: &'a Name, places: &[usize]) -> Result<Stream<'a>> {
        Ok(Stream::of(self.projected(name, places)?, self.batches(name, places.to_vec())))
    }

    fn projected(&self, name: &Name, places: &[usize]) -> Result<SchemaRef> {
        Ok(Arc::new(self.schema.project(places).map_err(|error| name.fail(error))?))
    }

    fn batches<'a>(
        &'a self,
        name: &'a Name,
        places: Vec<usize>,
    ) -> impl Iterator<Item = Result<RecordBatch>> + Send + 'a {
        let arrays: Box<dyn Iterator<Item = Result<Vec<ArrayRef>>> + Send> = match &self.data {
            Data::Memory(arrays) => Box::new(std::iter::once_with(|| Ok(arrays.clone()))),
            Data::File(pairs) => Box::new(pairs.arrays(self.keys)),
        };
        let mut next = 0;
        arrays.map(move |arrays| {
            let batch = self.batch(name, arrays?, next, &places)?;
            next += batch.num_rows() as u64;
            Ok(batch)
        })
    }

    /// The columns at these positions for some rows, the first of which has the number `first`.
    fn batch(&self, name: &Name, mut columns: Vec<ArrayRef>, first: u64, places: &[usize]) -> Result<RecordBatch> {
        if self.payload == Payload::RowNumbers {
            let numbers = first..first + columns[0].len() as u64;
            let kind = Type::of_count(self.count);
            columns.push(Column::of(numbers, kind).into_array(kind));
        }
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns).and_then(|batch| batch.project(places));
        batch.map_err(|error| name.fail(error))
    }
}
