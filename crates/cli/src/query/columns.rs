//! Columns of a table: which ones a command reads, and where they are.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{Field, Schema, SchemaRef};

use crate::failure::Result;
use crate::tables;

/// The columns that a command reads: those of the result, and its keys.
pub(crate) fn wanted_columns(shown: &[String], keys: &[String]) -> Vec<String> {
    let mut seen: HashSet<&String> = shown.iter().collect();
    let hidden = keys.iter().filter(|key| seen.insert(key));
    shown.iter().chain(hidden).cloned().collect()
}

/// The positions of the columns of these names.
pub(super) fn places(schema: &Schema, names: &[String]) -> Result<Vec<usize>> {
    names.iter().map(|name| place(schema, name)).collect()
}

/// The position of the column of this name.
pub(super) fn place(schema: &Schema, name: &str) -> Result<usize> {
    schema.fields().iter().position(|field| field.name() == name).ok_or_else(|| {
        let there = schema.fields().iter().map(|field| field.name().clone()).collect();
        koel_arrow::Error::MissingColumn { column: name.into(), there }.into()
    })
}

/// The schema with these names.
pub(super) fn renamed<'a>(schema: &Schema, names: impl Iterator<Item = &'a String>) -> SchemaRef {
    let named = |(field, name): (&Arc<Field>, &String)| field.as_ref().clone().with_name(name);
    schema_of(schema.fields().iter().zip(names).map(named).collect())
}

/// A batch of `rows` rows; it may have no columns.
pub(super) fn batch(schema: &SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> koel_arrow::Result<RecordBatch> {
    Ok(tables::batch(schema, columns, rows)?)
}

/// A schema of these columns.
pub(super) fn schema_of(fields: Vec<Field>) -> SchemaRef {
    Arc::new(Schema::new(fields))
}
