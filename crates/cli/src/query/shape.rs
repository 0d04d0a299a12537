//! The form in which results of keys without names are written. Results of named columns are written as they are.
//!
//! ```text
//! key           letters, if --letters is given: text, or bytes in .npy
//! count         the narrowest unsigned type that holds the number of rows
//! left, right   in .npy zeros for nulls, and after them a field that shows whether the row has them: left_found, found
//! ```

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt32Type, UInt64Type};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, SchemaRef};
use koel::JoinKind;

use super::columns::{batch, schema_of};
use crate::failure::Result;
use crate::input::letters;
use crate::number::{Number, Type};
use crate::output::RowOptions;
use crate::tables::read::Source;
use crate::tables::read::rows::{KEY, LEFT, RIGHT};
use crate::tables::write::{FLAG, Form};

/// How columns of a result are converted before they are written.
#[derive(Default)]
pub(super) struct Shape {
    /// The number of letters of a key.
    letters: Option<u32>,
    /// The type of counts; `None` if columns are named.
    counts: Option<DataType>,
    is_npy: bool,
    /// Columns that may be null, and the names of their flags in .npy.
    flags: Vec<(&'static str, &'static str)>,
}

impl Shape {
    /// The shape of results that are computed from this source.
    pub(super) fn of(source: &Source, output: &RowOptions) -> Shape {
        let Some(rows) = source.unnamed_rows() else { return Shape::default() };
        let counts = if Type::of_count(rows) == Type::U32 { DataType::UInt32 } else { DataType::UInt64 };
        let is_npy = output.place().form() == Form::Npy;
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

    fn type_of(&self, field: &Field) -> DataType {
        match (field.name().as_str(), self.letters, &self.counts) {
            (KEY, Some(k), Some(_)) if self.is_npy => DataType::FixedSizeBinary(k as i32),
            (KEY, Some(_), Some(_)) => DataType::Utf8,
            ("count", _, Some(counts)) => counts.clone(),
            _ => field.data_type().clone(),
        }
    }

    /// The schema of the output, given that of the results.
    pub(super) fn schema(&self, schema: &SchemaRef) -> SchemaRef {
        if self.counts.is_none() {
            return Arc::clone(schema);
        }
        let shaped = schema.fields().iter().map(|field| {
            let shaped = field.as_ref().clone().with_data_type(self.type_of(field));
            match self.flags.iter().find(|(name, _)| name == field.name()) {
                Some((_, flag)) => shaped.with_metadata([(FLAG.to_owned(), (*flag).to_owned())].into()),
                None => shaped,
            }
        });
        schema_of(shaped.collect())
    }

    /// Converts a batch of results for the output.
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

    /// Converts a column to this type.
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
            to => match column.as_primitive_opt::<UInt32Type>() {
                Some(keys) => letters::column(keys.iter().map(|key| key.map(Number::from)), k, to)?,
                None => {
                    let keys = column.as_primitive::<UInt64Type>();
                    letters::column(keys.iter().map(|key| key.map(Number::from)), k, to)?
                }
            },
        })
    }
}
