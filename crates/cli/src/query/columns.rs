//! Columns of a table: which ones a command reads, and where they are.

use std::collections::{HashMap, HashSet};
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

/// The position of each column by its name: of equal names, that of the first one.
pub(super) struct Places<'a> {
    schema: &'a Schema,
    by_name: HashMap<&'a str, usize>,
}

impl<'a> Places<'a> {
    pub(super) fn new(schema: &'a Schema) -> Self {
        let places = schema.fields().iter().enumerate().rev();
        Places { schema, by_name: places.map(|(place, field)| (field.name().as_str(), place)).collect() }
    }

    /// The position of the column of this name.
    pub(super) fn of(&self, name: &str) -> Result<usize> {
        self.by_name.get(name).copied().ok_or_else(|| {
            let there = self.schema.fields().iter().map(|field| field.name().clone()).collect();
            koel_arrow::Error::MissingColumn { column: name.into(), there }.into()
        })
    }
}

/// The positions of the columns of these names.
pub(super) fn places(schema: &Schema, names: &[String]) -> Result<Vec<usize>> {
    let places = Places::new(schema);
    names.iter().map(|name| places.of(name)).collect()
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
