//! Key columns: what is joined and grouped by.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, UInt32Array};
use arrow_schema::{DataType, Schema};
use koel::Error as KoelError;

use crate::error::{Error, Result};
use crate::take::take_chunks;

/// A column, in one piece or several.
#[derive(Clone, Debug)]
pub struct Column {
    name: String,
    data_type: DataType,
    chunks: Vec<ArrayRef>,
    rows: usize,
}

impl Column {
    /// A column in one piece.
    pub fn new(name: impl Into<String>, array: ArrayRef) -> Self {
        let (data_type, rows) = (array.data_type().clone(), array.len());
        Column { name: name.into(), data_type, chunks: vec![array], rows }
    }

    /// The column of this name, of batches of one schema.
    ///
    /// # Errors
    /// [`Error::MissingColumn`], [`Error::AmbiguousColumn`].
    pub fn of_batches(schema: &Schema, batches: &[RecordBatch], name: &str) -> Result<Self> {
        let mut named = schema.fields().iter().enumerate().filter(|(_, field)| field.name() == name);
        let Some((at, field)) = named.next() else {
            let there = schema.fields().iter().map(|field| field.name().clone()).collect();
            return Err(Error::MissingColumn { column: name.into(), there });
        };
        if named.next().is_some() {
            return Err(Error::AmbiguousColumn { column: name.into() });
        }
        // Empty pieces have no rows to be found in.
        let chunks: Vec<_> =
            batches.iter().filter(|batch| batch.num_rows() > 0).map(|batch| Arc::clone(batch.column(at))).collect();
        let rows = chunks.iter().map(|chunk: &ArrayRef| chunk.len()).sum();
        Ok(Column { name: name.into(), data_type: field.data_type().clone(), chunks, rows })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its type.
    pub fn data_type(&self) -> &DataType {
        &self.data_type
    }

    /// Its pieces, in order.
    pub fn chunks(&self) -> &[ArrayRef] {
        &self.chunks
    }

    /// Rows.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// The rows with these numbers, in one piece; null where a number is null.
    ///
    /// # Errors
    /// [`Error::Arrow`] for numbers that no row has, or text that does not fit its type's offsets.
    pub fn take(&self, rows: &UInt32Array) -> Result<ArrayRef> {
        take_chunks(&self.data_type, &self.chunks, rows)
    }
}

/// Key columns of one table: one or more, equally long. A row's key is what it has in all of them.
#[derive(Clone, Debug)]
pub struct Keys {
    columns: Vec<Column>,
    rows: usize,
}

impl Keys {
    /// Keys of these columns.
    ///
    /// # Errors
    /// [`Error::KeyCount`] for none, [`Error::Uneven`], [`koel::Error::TooLarge`] from 2^32 - 1 rows on.
    pub fn new(columns: Vec<Column>) -> Result<Self> {
        let Some(first) = columns.first() else {
            return Err(Error::KeyCount { left: 0, right: 0 });
        };
        let rows = first.rows;
        if let Some(uneven) = columns.iter().find(|column| column.rows != rows) {
            return Err(Error::Uneven { column: uneven.name.clone(), rows: uneven.rows, expected: rows });
        }
        // Row numbers are 32 bits wide, and the last one stands for no row.
        const MOST: u64 = u32::MAX as u64 - 1;
        if rows as u64 > MOST {
            return Err(KoelError::TooLarge { what: "rows of a table", asked: rows as u64, most: MOST }.into());
        }
        Ok(Keys { columns, rows })
    }

    /// Keys of arrays, which are called 0, 1, .. in messages.
    ///
    /// # Errors
    /// As [`Keys::new`].
    pub fn of_arrays(arrays: &[ArrayRef]) -> Result<Self> {
        Keys::new(arrays.iter().enumerate().map(|(i, array)| Column::new(i.to_string(), Arc::clone(array))).collect())
    }

    /// Keys of the columns of these names, of batches of one schema.
    ///
    /// # Errors
    /// As [`Keys::new`] and [`Column::of_batches`].
    pub fn of_batches<S: AsRef<str>>(schema: &Schema, batches: &[RecordBatch], names: &[S]) -> Result<Self> {
        Keys::new(names.iter().map(|name| Column::of_batches(schema, batches, name.as_ref())).collect::<Result<_>>()?)
    }

    /// The columns.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Rows.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }
}
