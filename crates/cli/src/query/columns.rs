//! Columns of a file: those that are needed are read, each is made one piece, and rows of them are taken by number.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, UInt32Array};
use arrow_schema::{Field, Schema, SchemaRef};
use arrow_select::concat::concat;
use koel_arrow::{Column, Keys};
use rayon::prelude::*;

use crate::failure::Result;
use crate::progress::Progress;
use crate::tables::Table;
use crate::tables::read::Source;

/// Columns of a file, in memory.
pub(crate) struct Loaded {
    columns: Vec<Column>,
    rows: usize,
}

/// Columns of a result that come from one file, and under which names.
pub(crate) struct Picked {
    columns: Vec<Column>,
    fields: Vec<Field>,
}

/// The columns that a command needs: those asked for, or all, and its keys besides.
pub(crate) fn wanted_columns(source: &Source, asked: Option<&[String]>, keys: &[String]) -> Vec<String> {
    let all = || source.columns().into_iter().map(String::from).collect();
    let mut names: Vec<String> = asked.map_or_else(all, <[String]>::to_vec);
    for key in keys {
        if !names.contains(key) {
            names.push(key.clone());
        }
    }
    names
}

impl Loaded {
    /// Reads these columns.
    pub(crate) fn read(source: &Source, names: &[String], progress: &Progress) -> Result<Loaded> {
        let Table { schema, batches, rows } = source.read(Some(names), progress)?;
        let column = |at: usize| {
            let field = schema.field(at);
            let chunks: Vec<ArrayRef> = batches.iter().map(|batch| Arc::clone(batch.column(at))).collect();
            one_piece(field, chunks)
        };
        let columns = (0..names.len()).into_par_iter().map(column).collect::<koel_arrow::Result<_>>()?;
        Ok(Loaded { columns, rows })
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// The column of this name, which was read.
    pub(crate) fn column(&self, name: &str) -> Result<Column> {
        let found = self.columns.iter().find(|column| column.name() == name).cloned();
        Ok(found.ok_or_else(|| koel_arrow::Error::MissingColumn { column: name.into(), there: self.names() })?)
    }

    fn names(&self) -> Vec<String> {
        self.columns.iter().map(|column| column.name().into()).collect()
    }

    /// Key columns.
    pub(crate) fn keys(&self, names: &[String]) -> Result<Keys> {
        Ok(Keys::new(names.iter().map(|name| self.column(name)).collect::<Result<_>>()?)?)
    }

    /// These columns, each under the name that it has in the result.
    pub(crate) fn pick<'a>(&self, names: impl IntoIterator<Item = (&'a str, String)>) -> Result<Picked> {
        let mut picked = Picked { columns: Vec::new(), fields: Vec::new() };
        for (name, shown) in names {
            let column = self.column(name)?;
            picked.fields.push(Field::new(shown, column.data_type().clone(), true));
            picked.columns.push(column);
        }
        Ok(picked)
    }
}

/// A column in one piece, where it fits one: text of more than 2 GiB may not.
fn one_piece(field: &Field, chunks: Vec<ArrayRef>) -> koel_arrow::Result<Column> {
    let whole = match &chunks[..] {
        [one] => Some(Arc::clone(one)),
        [] => Some(arrow_array::new_empty_array(field.data_type())),
        several => concat(&several.iter().map(|chunk| chunk.as_ref()).collect::<Vec<_>>()).ok(),
    };
    match whole {
        Some(whole) => Ok(Column::new(field.name(), whole)),
        None => {
            let schema = Arc::new(Schema::new(vec![field.clone().with_nullable(true)]));
            let batch = |chunk| RecordBatch::try_new(Arc::clone(&schema), vec![chunk]);
            let batches = chunks.into_iter().map(batch).collect::<std::result::Result<Vec<_>, _>>()?;
            Column::of_batches(&schema, &batches, field.name())
        }
    }
}

impl Picked {
    pub(crate) fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// Rows of all columns, null where a number is null.
    pub(crate) fn take(&self, rows: &UInt32Array) -> Result<Vec<ArrayRef>> {
        let taken: koel_arrow::Result<Vec<_>> = self.columns.par_iter().map(|column| column.take(rows)).collect();
        Ok(taken?)
    }

    pub(crate) fn schema(&self) -> SchemaRef {
        Arc::new(Schema::new(self.fields.clone()))
    }
}
