//! The form in which results of keys without names are written. Results of named columns are written as they are.
//!
//! ```text
//! key      letters, if --letters is given: text, or bytes in .npy
//! count    the narrowest unsigned type that holds the number of rows
//! ```

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt32Type, UInt64Type};
use arrow_array::{ArrayRef, FixedSizeBinaryArray, RecordBatch, StringArray};
use arrow_buffer::{Buffer, OffsetBuffer};
use arrow_schema::{DataType, Field, SchemaRef};

use super::columns::{batch, schema_of};
use crate::failure::{Failure, Result};
use crate::input::letters_of;
use crate::number::Type;
use crate::output::RowOptions;
use crate::tables::read::Source;
use crate::tables::read::rows::KEY;
use crate::tables::write::{Form, form_of};

/// What is done with columns of a result before they are written.
#[derive(Default)]
pub(super) struct Shape {
    /// Letters of a key.
    letters: Option<u32>,
    /// The type of counts; `None` if columns are named.
    counts: Option<DataType>,
    is_npy: bool,
}

impl Shape {
    /// The shape of results of this source.
    pub(super) fn of(source: &Source, output: &RowOptions) -> Shape {
        let Some(rows) = source.unnamed_rows() else { return Shape::default() };
        let counts = if Type::of_count(rows) == Type::U32 { DataType::UInt32 } else { DataType::UInt64 };
        let is_npy = output.output.as_deref().and_then(form_of) == Some(Form::Npy);
        Shape { letters: source.letters().filter(|_| output.letters), counts: Some(counts), is_npy }
    }

    fn type_of(&self, field: &Field) -> DataType {
        match (field.name().as_str(), self.letters, &self.counts) {
            (KEY, Some(k), Some(_)) if self.is_npy => DataType::FixedSizeBinary(k as i32),
            (KEY, Some(_), Some(_)) => DataType::Utf8,
            ("count", _, Some(counts)) => counts.clone(),
            _ => field.data_type().clone(),
        }
    }

    /// The schema of what is written for results of this schema.
    pub(super) fn schema(&self, schema: &SchemaRef) -> SchemaRef {
        let fields = schema.fields().iter();
        let shaped =
            schema_of(fields.map(|field| field.as_ref().clone().with_data_type(self.type_of(field))).collect());
        if self.counts.is_some() { shaped } else { Arc::clone(schema) }
    }

    /// What is written for a batch of results.
    pub(super) fn batch(&self, result: RecordBatch) -> Result<RecordBatch> {
        if self.counts.is_none() {
            return Ok(result);
        }
        let schema = self.schema(&result.schema());
        let columns = schema.fields().iter().zip(result.columns());
        let columns =
            columns.map(|(field, column)| self.column(field.data_type(), column)).collect::<Result<Vec<_>>>()?;
        Ok(batch(&schema, columns, result.num_rows())?)
    }

    /// A column as one of this type.
    fn column(&self, to: &DataType, column: &ArrayRef) -> Result<ArrayRef> {
        let k = self.letters.unwrap_or_default();
        Ok(match to {
            to if to == column.data_type() => Arc::clone(column),
            DataType::UInt32 => {
                Arc::new(column.as_primitive::<Int64Type>().unary::<_, UInt32Type>(|count| count as u32))
            }
            DataType::UInt64 => {
                Arc::new(column.as_primitive::<Int64Type>().unary::<_, UInt64Type>(|count| count as u64))
            }
            DataType::Utf8 => {
                let offsets = OffsetBuffer::from_lengths(std::iter::repeat_n(k as usize, column.len()));
                let texts = StringArray::try_new(offsets, letters(column, k)?, None);
                Arc::new(texts.map_err(koel_arrow::Error::from)?)
            }
            _ => {
                let bytes = FixedSizeBinaryArray::try_new(k as i32, letters(column, k)?, None);
                Arc::new(bytes.map_err(koel_arrow::Error::from)?)
            }
        })
    }
}

/// The letters of all keys, one after the other.
fn letters(keys: &ArrayRef, k: u32) -> Result<Buffer> {
    let mut all = Vec::with_capacity(keys.len() * k as usize);
    let mut push = |key: u64| {
        let letters = letters_of(key.into(), k);
        let not_a_kmer = || Failure::Input(format!("the key {key} is not a k-mer of {k} letters: omit --letters"));
        all.extend(letters.ok_or_else(not_a_kmer)?);
        Ok::<_, Failure>(())
    };
    if let Some(keys) = keys.as_primitive_opt::<UInt32Type>() {
        keys.values().iter().try_for_each(|&key| push(key.into()))?;
    } else {
        keys.as_primitive::<UInt64Type>().values().iter().try_for_each(|&key| push(key))?;
    }
    Ok(all.into())
}
