//! The form in which results of keys without names are written. Results of named columns are written as they are.
//!
//! ```text
//! key           letters, if --letters is given: text, or bytes in .npy
//! count         the narrowest unsigned type that holds the number of rows
//! left, right   in .npy zeros for nulls, and a flag after them: left_found, found
//! ```

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt32Type, UInt64Type};
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, BooleanArray, FixedSizeBinaryArray, PrimitiveArray, RecordBatch, StringArray,
    downcast_primitive_array,
};
use arrow_buffer::{BooleanBuffer, Buffer, OffsetBuffer};
use arrow_schema::{DataType, Field, SchemaRef};
use koel::JoinKind;

use super::columns::{batch, schema_of};
use crate::failure::{Failure, Result};
use crate::input::letters_of;
use crate::number::Type;
use crate::output::RowOptions;
use crate::tables::read::Source;
use crate::tables::read::rows::{KEY, LEFT, RIGHT};
use crate::tables::write::{Form, form_of};

/// What is done with columns of a result before they are written.
#[derive(Default)]
pub(super) struct Shape {
    /// Letters of a key.
    letters: Option<u32>,
    /// The type of counts; `None` if columns are named.
    counts: Option<DataType>,
    is_npy: bool,
    /// Columns of .npy that rows may lack, and their flags.
    flags: Vec<(&'static str, &'static str)>,
}

impl Shape {
    /// The shape of results of this source.
    pub(super) fn of(source: &Source, output: &RowOptions) -> Shape {
        let Some(rows) = source.unnamed_rows() else { return Shape::default() };
        let counts = if Type::of_count(rows) == Type::U32 { DataType::UInt32 } else { DataType::UInt64 };
        let is_npy = output.output.as_deref().and_then(form_of) == Some(Form::Npy);
        Shape { letters: source.letters().filter(|_| output.letters), counts: Some(counts), is_npy, flags: Vec::new() }
    }

    /// The shape of a join with this left side.
    pub(super) fn of_join(left: &Source, output: &RowOptions, how: JoinKind) -> Shape {
        let mut shape = Shape::of(left, output);
        if shape.is_npy {
            shape.flags.extend(how.keeps_right().then_some((LEFT, "left_found")));
            shape.flags.extend(how.keeps_left().then_some((RIGHT, "found")));
        }
        shape
    }

    /// The flag of a column that rows may lack.
    fn flag(&self, column: &str) -> Option<&'static str> {
        self.flags.iter().find(|(name, _)| *name == column).map(|(_, flag)| *flag)
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
        if self.counts.is_none() {
            return Arc::clone(schema);
        }
        let shaped = schema.fields().iter().flat_map(|field| {
            let flag = self.flag(field.name()).map(|flag| Field::new(flag, DataType::Boolean, false));
            [field.as_ref().clone().with_data_type(self.type_of(field))].into_iter().chain(flag)
        });
        schema_of(shaped.collect())
    }

    /// What is written for a batch of results.
    pub(super) fn batch(&self, result: RecordBatch) -> Result<RecordBatch> {
        if self.counts.is_none() {
            return Ok(result);
        }
        let before = result.schema();
        let mut columns = Vec::new();
        for (field, column) in before.fields().iter().zip(result.columns()) {
            match self.flag(field.name()) {
                Some(_) => columns.extend(with_flags(column)),
                None => columns.push(self.column(&self.type_of(field), column)?),
            }
        }
        Ok(batch(&self.schema(&before), columns, result.num_rows())?)
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

/// A column of numbers with zeros in place of nulls, and whether each row has a number.
fn with_flags(column: &ArrayRef) -> [ArrayRef; 2] {
    fn filled<T: ArrowPrimitiveType>(column: &PrimitiveArray<T>) -> ArrayRef {
        Arc::new(PrimitiveArray::<T>::from_iter_values(column.iter().map(Option::unwrap_or_default)))
    }
    let numbers = downcast_primitive_array!(
        column => filled(column),
        _ => Arc::clone(column),
    );
    let found = BooleanBuffer::collect_bool(column.len(), |row| column.is_valid(row));
    [numbers, Arc::new(BooleanArray::new(found, None))]
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
