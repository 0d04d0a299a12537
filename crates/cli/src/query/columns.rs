//! Columns of a file in memory, and rows of them by number.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, UInt32Array, new_null_array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use koel_arrow::{Column, Keys, plain_type};
use rayon::prelude::*;

use crate::failure::Result;
use crate::tables::read::Source;
use crate::tables::{self, Table};

/// Columns of a file, in memory.
pub(crate) struct Loaded {
    columns: Vec<Column>,
    /// The field of each column in the file.
    fields: Vec<Field>,
    /// The position of each column, by its name.
    places: HashMap<String, usize>,
    rows: usize,
}

/// Columns of a result that come from one file, and their names in the result.
pub(crate) struct Picked {
    columns: Vec<Column>,
    fields: Vec<Field>,
}

/// The columns that a command reads: those of the result, and its keys.
pub(crate) fn wanted_columns(shown: &[String], keys: &[String]) -> Vec<String> {
    let mut seen: HashSet<&String> = shown.iter().collect();
    let hidden = keys.iter().filter(|key| seen.insert(key));
    shown.iter().chain(hidden).cloned().collect()
}

/// Into how many chunks columns are read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pieces {
    /// As in the file: for rows that are taken in order, which are mostly in the same chunk.
    Many,
    /// Concatenated to one chunk: for rows that are taken in random order.
    One,
}

impl Loaded {
    /// Reads these columns.
    pub(crate) fn read(source: &Source, names: &[String], pieces: Pieces) -> Result<Loaded> {
        let Table { schema, batches, rows } = source.read(Some(names))?;
        let mut chunks: Vec<Vec<ArrayRef>> = vec![Vec::with_capacity(batches.len()); names.len()];
        for batch in batches {
            chunks.iter_mut().zip(batch.columns()).for_each(|(chunks, column)| chunks.push(Arc::clone(column)));
        }
        // The chunks of a column are dropped as soon as they are concatenated, not after all columns.
        let columns: koel_arrow::Result<Vec<Column>> =
            schema.fields().par_iter().zip(chunks).map(|(field, chunks)| column_of(field, chunks, pieces)).collect();
        let columns = columns?;
        let typed = |(field, column): (&Arc<Field>, &Column)| {
            field.as_ref().clone().with_data_type(column.data_type().clone()).with_nullable(true)
        };
        let fields = schema.fields().iter().zip(&columns).map(typed).collect();
        let places = columns.iter().enumerate().map(|(place, column)| (column.name().to_owned(), place)).collect();
        Ok(Loaded { columns, fields, places, rows })
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// The column with this name, which must have been read.
    pub(crate) fn column(&self, name: &str) -> Result<Column> {
        Ok(self.columns[self.place(name)?].clone())
    }

    /// The first chunk of the only column, without other references to it.
    pub(crate) fn into_only(mut self) -> Option<ArrayRef> {
        self.columns.pop().and_then(|column| column.chunks().first().cloned())
    }

    /// The field of a column in the file.
    pub(crate) fn field(&self, name: &str) -> Result<&Field> {
        Ok(&self.fields[self.place(name)?])
    }

    fn place(&self, name: &str) -> Result<usize> {
        let found = self.places.get(name).copied();
        let there = || self.columns.iter().map(|column| column.name().into()).collect();
        Ok(found.ok_or_else(|| koel_arrow::Error::MissingColumn { column: name.into(), there: there() })?)
    }

    /// Replaces a column of nulls by nulls of another type.
    pub(crate) fn put_nulls(&mut self, name: &str, of: &DataType) {
        let columns = self.columns.iter_mut().zip(&mut self.fields);
        for (column, field) in columns.filter(|(column, _)| column.name() == name) {
            *column = Column::new(name, new_null_array(of, column.len()));
            field.set_data_type(of.clone());
        }
    }

    /// Key columns.
    pub(crate) fn keys(&self, names: &[String]) -> Result<Keys> {
        Ok(Keys::new(names.iter().map(|name| self.column(name)).collect::<Result<_>>()?)?)
    }

    /// These columns, each under the name that it has in the result.
    pub(crate) fn pick<'a>(&self, names: impl IntoIterator<Item = (&'a str, String)>) -> Result<Picked> {
        let mut picked = Picked { columns: Vec::new(), fields: Vec::new() };
        for (name, shown) in names {
            picked.fields.push(self.field(name)?.clone().with_name(shown));
            picked.columns.push(self.column(name)?);
        }
        Ok(picked)
    }
}

/// Makes a column of these chunks, concatenated if requested and possible: text of more than 2 GiB does not fit in one.
/// A column of dictionaries has only one, as some formats require; if the dictionaries have too many values together,
/// they are replaced by their values.
fn column_of(field: &Field, chunks: Vec<ArrayRef>, pieces: Pieces) -> koel_arrow::Result<Column> {
    let data_type = field.data_type();
    let column = Column::of_chunks(field.name(), data_type, chunks)?;
    if pieces == Pieces::Many && !data_type.is_nested() && plain_type(data_type) == *data_type {
        return Ok(column);
    }
    match column.one_piece() {
        Ok(whole) => Ok(whole),
        Err(_) => {
            let plain = column.plain()?;
            Ok(plain.one_piece().unwrap_or(plain))
        }
    }
}

impl Picked {
    pub(crate) fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// Rows of all columns, null where a number is null.
    pub(crate) fn take(&self, rows: &UInt32Array) -> koel_arrow::Result<Vec<ArrayRef>> {
        self.columns.par_iter().map(|column| column.take(rows)).collect()
    }
}

/// A batch of `rows` rows; it may have no columns.
pub(super) fn batch(schema: &SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> koel_arrow::Result<RecordBatch> {
    Ok(tables::batch(schema, columns, rows)?)
}

/// A schema of these columns.
pub(super) fn schema_of(fields: Vec<Field>) -> SchemaRef {
    Arc::new(Schema::new(fields))
}
