//! Input tables, read in batches.
//!
//! ```text
//! Table      a stream of batches, of which only the schema has been read
//! Picked     the needed columns of a table, some of them converted to another type
//! ```
//!
//! Batches are read by a thread that does not hold the interpreter's lock, as Arrow's C stream interface requires: a
//! stream that is implemented in Python acquires the lock itself.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BooleanArray, Int8Array, RecordBatch, RecordBatchOptions, RecordBatchReader, new_null_array,
};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use koel_arrow::external::Batches;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::work::Outlet;
use crate::error::{Failure, KoelError, Result};
use crate::input::{by_pyarrow, is_frame};
use crate::memory;

/// An input table.
pub(crate) struct Table {
    name: &'static str,
    reader: Box<dyn RecordBatchReader + Send>,
    schema: SchemaRef,
    /// The position of each name; `None` if several columns have it.
    by_name: HashMap<String, Option<usize>>,
    /// The number of rows, if it is known.
    rows: Option<usize>,
}

impl Table {
    /// Opens the table that is the value of the argument `name`.
    pub(crate) fn of(name: &'static str, given: &Bound<'_, PyAny>) -> PyResult<Self> {
        let reader = reader_of(name, given)?;
        let schema = reader.schema();
        // The attributes of pyarrow and polars. The length of a DuckDB relation is unknown until its query runs.
        let rows = ["num_rows", "height"].iter().find_map(|&rows| given.getattr(rows).ok()?.extract().ok());
        let mut by_name = HashMap::with_capacity(schema.fields().len());
        for (at, field) in schema.fields().iter().enumerate() {
            by_name.entry(field.name().clone()).and_modify(|at| *at = None).or_insert(Some(at));
        }
        Ok(Table { name, reader, schema, by_name, rows })
    }

    /// The number of rows; `usize::MAX` if it is unknown.
    pub(crate) fn rows_or_max(&self) -> usize {
        self.rows.unwrap_or(usize::MAX)
    }

    pub(crate) fn schema(&self) -> &Schema {
        &self.schema
    }

    /// The type of the column at position `at`.
    pub(crate) fn type_of(&self, at: usize) -> &DataType {
        self.schema.field(at).data_type()
    }

    /// Whether a column has this name.
    pub(crate) fn has(&self, column: &str) -> bool {
        self.by_name.contains_key(column)
    }

    /// The position of the column with this name.
    pub(crate) fn index_of(&self, column: &str) -> Result<usize> {
        match self.by_name.get(column) {
            Some(&Some(at)) => Ok(at),
            Some(None) => Err(koel_arrow::Error::AmbiguousColumn { column: column.into() }.into()),
            None => {
                let there = self.schema.fields().iter().map(|field| field.name().clone()).collect();
                Err(koel_arrow::Error::MissingColumn { column: column.into(), there }.into())
            }
        }
    }
}

/// A reader of the table that is the value of the argument `name`.
pub(crate) fn reader_of(name: &str, given: &Bound<'_, PyAny>) -> PyResult<Box<dyn RecordBatchReader + Send>> {
    if is_frame(given)? {
        let pyarrow = given.py().import("pyarrow").map_err(|_| {
            PyTypeError::new_err(format!(
                "{name} is a pandas DataFrame, which koel reads through pyarrow: install pyarrow"
            ))
        })?;
        // By default, pyarrow may add a column for the index of the DataFrame.
        let keywords = PyDict::new(given.py());
        keywords.set_item("preserve_index", false)?;
        let table = pyarrow.getattr("Table")?.call_method("from_pandas", (given,), Some(&keywords));
        let table = table.map_err(|error| by_pyarrow(name, given, error))?;
        return reader_of(name, &table);
    }
    let table = crate::arrow::table(given).map_err(|error| {
        let advice = "pass a table with named columns";
        PyTypeError::new_err(format!("{name} cannot be read as a table: {}: {advice}", error.value(given.py())))
    })?;
    if let Some(table) = table {
        return Ok(table);
    }
    let text = format!(
        "{name} is a {}: pass a table, such as a polars or pandas DataFrame, a pyarrow Table or RecordBatchReader, a DuckDB \
         relation, or another object with __arrow_c_stream__",
        given.get_type().name()?
    );
    Err(PyTypeError::new_err(text))
}

/// How a column is read.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) enum ReadAs {
    Unchanged,
    /// A column of type null as nulls of another type.
    Nulls(DataType),
    /// A boolean column as the numbers 0 and 1.
    Numbers,
}

/// The needed columns of a table.
pub(crate) struct Picked {
    table: Table,
    columns: Vec<(usize, ReadAs)>,
    schema: SchemaRef,
}

impl Picked {
    /// Selects columns by position.
    pub(crate) fn new(table: Table, columns: Vec<(usize, ReadAs)>) -> Self {
        let field = |(at, how): &(usize, ReadAs)| {
            let field: Field = table.schema.field(*at).clone();
            match how {
                ReadAs::Unchanged => field,
                ReadAs::Nulls(of) => field.with_data_type(of.clone()).with_nullable(true),
                ReadAs::Numbers => field.with_data_type(DataType::Int8),
            }
        };
        let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
        Picked { table, columns, schema }
    }

    /// See [`Table::rows_or_max`].
    pub(crate) fn rows_or_max(&self) -> usize {
        self.table.rows_or_max()
    }

    /// The schema of the needed columns.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// All rows, in batches. Returns an error once the work is stopped.
    pub(crate) fn batches(mut self, outlet: &Outlet) -> Batches<'_, Failure> {
        let schema = Arc::clone(&self.schema);
        let next = move || {
            if let Err(stopped) = outlet.check() {
                return Some(Err(stopped));
            }
            let batch = self.next()?;
            Some(batch.and_then(|batch| outlet.check_for(&batch).map(|()| batch)))
        };
        Batches::new(schema, std::iter::from_fn(next))
    }

    /// Reads all rows. Must be called without the interpreter's lock.
    pub(crate) fn read(mut self) -> Result<Vec<RecordBatch>> {
        let next = || {
            let batch = self.next()?;
            Some(batch.and_then(|batch| memory::check(4 * memory::bytes(batch.columns())).map(|()| batch)))
        };
        std::iter::from_fn(next).collect()
    }

    fn next(&mut self) -> Option<Result<RecordBatch>> {
        let batch = self.table.reader.next()?.map_err(|error| read_error(self.table.name, error));
        Some(batch.and_then(|batch| picked(&self.columns, &self.schema, &batch)))
    }
}

fn picked(columns: &[(usize, ReadAs)], schema: &SchemaRef, batch: &RecordBatch) -> Result<RecordBatch> {
    let rows = batch.num_rows();
    let column = |(at, how): &(usize, ReadAs)| -> ArrayRef {
        let column = batch.column(*at);
        match (how, column.as_any().downcast_ref::<BooleanArray>()) {
            (ReadAs::Nulls(of), _) => new_null_array(of, rows),
            (ReadAs::Numbers, Some(flags)) => {
                Arc::new(flags.iter().map(|flag| flag.map(i8::from)).collect::<Int8Array>())
            }
            _ => Arc::clone(column),
        }
    };
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let columns = columns.iter().map(column).collect();
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options).map_err(koel_arrow::Error::from)?)
}

/// An error of the library that produces the rows, of which the C interface passes on the text.
fn read_error(name: &str, error: ArrowError) -> Failure {
    KoelError::new_err(format!("{name} could not be read completely: {}", crate::arrow::text(error))).into()
}
