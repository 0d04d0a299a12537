//! `koel.BatchReader` and `koel.Batch`: results that are computed while they are read.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, StructArray};
use arrow_schema::{ArrowError, Field, FieldRef, SchemaRef};
use koel_arrow::external::Limit;
use koel_arrow::{Column, shown_name};
use pyo3::exceptions::{PyKeyError, PyKeyboardInterrupt, PyMemoryError, PyOSError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyTuple, PyType};
use pyo3_arrow::ffi::{ArrayIterator, to_array_pycapsules, to_schema_pycapsule, to_stream_pycapsule};

use super::table::reader_of;
use super::work::{Job, Work, gone};
use crate::error::Failure;
use crate::output::{ArrowColumn, library, series};

/// A result that is read in batches. Iteration returns one `koel.Batch` at a time; `to_pandas`,
/// `to_polars` and `to_pyarrow` read all rows; DuckDB and other libraries use Arrow's PyCapsule
/// interface.
///
/// The computation starts when the first batch is requested, and stays a few batches ahead of
/// the reader. Rows can be read only once. Closing or dropping a reader stops the computation
/// and deletes its temporary files.
///
/// >>> import koel, pyarrow as pa
/// >>> with koel.unique_stream(pa.table({"k": [3, 1, 3]})) as reader:
/// ...     for batch in reader:
/// ...         print(len(batch), batch["k"].to_pylist())
/// 2 [3, 1]
#[pyclass(frozen, module = "koel")]
pub(crate) struct BatchReader {
    work: Arc<Work>,
    schema: SchemaRef,
}

impl BatchReader {
    pub(crate) fn new(job: Job, schema: SchemaRef, limit: &Limit) -> Self {
        BatchReader { work: Arc::new(Work::new(job, limit.bytes())), schema }
    }

    /// Reads all batches. Returns at least one, which may be empty.
    ///
    /// The methods that convert all rows pass batches to the library instead of the stream: the library would release
    /// the interpreter's lock while it reads the stream, but pyo3 assumes that a method holds the lock.
    fn batches<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, Batch>>> {
        py.detach(|| self.work.check_unread())?;
        let mut batches = Vec::new();
        while let Some(batch) = py.detach(|| self.work.next())? {
            batches.push(Bound::new(py, Batch(batch))?);
        }
        if batches.is_empty() {
            batches.push(Bound::new(py, Batch(RecordBatch::new_empty(Arc::clone(&self.schema))))?);
        }
        Ok(batches)
    }
}

#[pymethods]
impl BatchReader {
    /// Arrow's PyCapsule interface: a stream of the batches that have not been read yet.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        py.detach(|| self.work.check_unread())?;
        let batches = Batches { work: Arc::clone(&self.work), is_done: false };
        let arrays = batches.map(|batch| Ok(Arc::new(StructArray::from(batch?)) as ArrayRef));
        let arrays = ArrayIterator::new(arrays, row_field(&self.schema));
        Ok(to_stream_pycapsule(py, Box::new(arrays), requested_schema)?)
    }

    /// Arrow's PyCapsule interface.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        Ok(to_schema_pycapsule(py, self.schema.as_ref())?)
    }

    /// Reads all rows into a pandas DataFrame. Integers with nulls have a nullable type, such as
    /// Int64.
    ///
    /// >>> import koel, pandas as pd
    /// >>> koel.unique_stream(pd.DataFrame({"k": [3, 1, 3]})).to_pandas()["k"].tolist()
    /// [3, 1]
    fn to_pandas<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        frame(&Self::to_pyarrow(slf)?)
    }

    /// Reads all rows into a polars DataFrame.
    ///
    /// >>> import koel, polars as pl
    /// >>> koel.unique_stream(pl.DataFrame({"k": [3, 1, 3]})).to_polars()["k"].to_list()
    /// [3, 1]
    fn to_polars<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let polars = library(slf.py(), "polars")?;
        let batches = slf.get().batches(slf.py())?;
        let frames = batches.iter().map(|batch| polars.call_method1("DataFrame", (batch,)));
        polars.call_method1("concat", (frames.collect::<PyResult<Vec<_>>>()?,))
    }

    /// Reads all rows into a pyarrow Table.
    ///
    /// >>> import koel, pyarrow as pa
    /// >>> koel.unique_stream(pa.table({"k": [3, 1, 3]})).to_pyarrow().to_pydict()
    /// {'k': [3, 1]}
    fn to_pyarrow<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let pyarrow = library(slf.py(), "pyarrow")?;
        let batches = slf.get().batches(slf.py())?;
        let batches = batches.iter().map(Batch::to_pyarrow).collect::<PyResult<Vec<_>>>()?;
        pyarrow.getattr("Table")?.call_method1("from_batches", (batches,))
    }

    /// Raises an error: pandas and other libraries would otherwise make an array of the batches.
    #[pyo3(signature = (*_arguments, **_keywords))]
    fn __array__(&self, _arguments: &Bound<'_, PyTuple>, _keywords: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
        Err(PyTypeError::new_err("a koel.BatchReader is not an array: use to_pandas(), to_polars() or to_pyarrow()"))
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Batch>> {
        Ok(py.detach(|| self.work.next())?.map(Batch))
    }

    /// The names of the columns.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        names(&self.schema)
    }

    /// The schema, as a pyarrow Schema. Libraries that use the PyCapsule interface do not need it.
    #[getter]
    fn schema<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        library(slf.py(), "pyarrow")?.call_method1("schema", (slf,))
    }

    /// A dict with the numbers of input rows and of result rows, and with `spilled_bytes`, the
    /// number of bytes written to temporary files. None until the result is complete.
    #[getter]
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let Some(counts) = py.detach(|| self.work.counts())? else { return Ok(None) };
        let stats = PyDict::new(py);
        counts.into_iter().try_for_each(|(name, count)| stats.set_item(name, count))?;
        Ok(Some(stats))
    }

    /// Whether `close` was called.
    #[getter]
    fn closed(&self, py: Python<'_>) -> bool {
        py.detach(|| self.work.is_closed())
    }

    /// Stops the computation if it is still running, and waits until its temporary files are
    /// deleted. The end of a `with` block calls this method.
    ///
    /// >>> import koel, pyarrow as pa
    /// >>> reader = koel.unique_stream(pa.table({"k": [3, 1, 3]}))
    /// >>> reader.close()
    /// >>> reader.closed
    /// True
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.work.close())
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_error))]
    fn __exit__(&self, py: Python<'_>, _error: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.close(py)
    }

    fn __repr__(&self) -> String {
        format!("<koel.BatchReader of {}>", names(&self.schema).join(", "))
    }
}

/// Batches for a library that may or may not hold the interpreter's lock, and gets errors as text.
struct Batches {
    work: Arc<Work>,
    is_done: bool,
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_done {
            return None;
        }
        // The caller may hold the interpreter's lock, and the worker thread may need it.
        let next = Python::try_attach(|py| py.detach(|| self.work.next()).map_err(|error| to_arrow_error(py, &error)));
        let next = next.unwrap_or_else(|| Err(ArrowError::ExternalError(gone().to_string().into())));
        // After an error, the next call returns the error again: no caller may mistake it for the end of the rows.
        self.is_done = matches!(next, Ok(None));
        next.transpose()
    }
}

/// Converts a Python exception to an Arrow error of the same kind and with the same text.
fn to_arrow_error(py: Python<'_>, error: &PyErr) -> ArrowError {
    // A C string ends at the first zero byte.
    let text = error.to_string().replace('\0', " ");
    if error.is_instance_of::<PyKeyboardInterrupt>(py) {
        // Python has delivered the interrupt, but the library that reads raises another error: interrupt again.
        let again = py.import("_thread").and_then(|threads| threads.call_method0("interrupt_main"));
        return ArrowError::ExternalError(again.map_or_else(|error| error.to_string(), |_| text).into());
    }
    if error.is_instance_of::<PyMemoryError>(py) {
        return ArrowError::MemoryError(text);
    }
    if error.is_instance_of::<PyOSError>(py) {
        return ArrowError::IoError(text, std::io::Error::other("koel"));
    }
    ArrowError::ExternalError(text.into())
}

/// A batch of rows of a result. `to_pandas`, `to_polars` and `to_pyarrow` convert it; other
/// libraries use Arrow's PyCapsule interface. `batch["name"]` is a `koel.Column`. Batches can be
/// pickled.
///
/// Args:
///     rows: a pyarrow RecordBatch, or another table with Arrow's PyCapsule interface.
///
/// >>> import koel, pyarrow as pa
/// >>> batch = next(koel.unique_stream(pa.table({"k": [3, 1, 3]})))
/// >>> pa.record_batch(batch).to_pydict()
/// {'k': [3, 1]}
#[pyclass(frozen, module = "koel")]
pub(crate) struct Batch(pub(crate) RecordBatch);

#[pymethods]
impl Batch {
    #[new]
    fn of(rows: &Bound<'_, PyAny>) -> PyResult<Self> {
        let reader = reader_of("rows", rows)?;
        let (schema, batches) = (reader.schema(), reader.collect::<Result<Vec<_>, _>>());
        Ok(Batch(
            batches.map_err(koel_arrow::Error::from).and_then(|all| one_batch(schema, &all)).map_err(Failure::from)?,
        ))
    }

    /// For pickle and copy.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyType>, (Bound<'py, PyAny>,))> {
        Ok((slf.get_type(), (Self::to_pyarrow(slf)?,)))
    }

    /// Arrow's PyCapsule interface.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let rows = StructArray::from(self.0.clone());
        Ok(to_array_pycapsules(py, row_field(&self.0.schema()), &rows, requested_schema)?)
    }

    /// Arrow's PyCapsule interface.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        Ok(to_schema_pycapsule(py, self.0.schema_ref().as_ref())?)
    }

    /// The names of the columns.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        names(self.0.schema_ref())
    }

    /// Converts the rows to a pyarrow RecordBatch.
    ///
    /// >>> import koel, pyarrow as pa
    /// >>> next(koel.unique_stream(pa.table({"k": [3, 1, 3]}))).to_pyarrow().num_rows
    /// 2
    fn to_pyarrow<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        library(slf.py(), "pyarrow")?.call_method1("record_batch", (slf,))
    }

    /// Converts the rows to a pandas DataFrame. Integers with nulls have a nullable type, such as
    /// Int64.
    ///
    /// >>> import koel, pandas as pd
    /// >>> next(koel.unique_stream(pd.DataFrame({"k": [3, 1, 3]}))).to_pandas()["k"].tolist()
    /// [3, 1]
    fn to_pandas<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        frame(&Self::to_pyarrow(slf)?)
    }

    /// Converts the rows to a polars DataFrame.
    ///
    /// >>> import koel, polars as pl
    /// >>> next(koel.unique_stream(pl.DataFrame({"k": [3, 1, 3]}))).to_polars()["k"].to_list()
    /// [3, 1]
    fn to_polars<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        library(slf.py(), "polars")?.call_method1("DataFrame", (slf,))
    }

    fn __getitem__(&self, name: &str) -> PyResult<ArrowColumn> {
        let schema = self.0.schema_ref();
        let mut places = (0..).zip(schema.fields()).filter(|(_, field)| field.name() == name).map(|(place, _)| place);
        let Some(place) = places.next() else {
            let missing = koel_arrow::Error::MissingColumn { column: name.into(), there: names(schema) };
            return Err(PyKeyError::new_err(missing.to_string()));
        };
        if places.next().is_some() {
            let (name, advice) = (shown_name(name), "use to_pyarrow() and select one by position");
            return Err(PyKeyError::new_err(format!("several columns are called `{name}`: {advice}")));
        }
        Ok(ArrowColumn::new(Arc::clone(self.0.column(place)), Arc::clone(&schema.fields()[place])))
    }

    fn __len__(&self) -> usize {
        self.0.num_rows()
    }

    fn __repr__(&self) -> String {
        format!("<koel.Batch of {} rows: {}>", self.0.num_rows(), names(self.0.schema_ref()).join(", "))
    }
}

/// Concatenates batches.
fn one_batch(schema: SchemaRef, batches: &[RecordBatch]) -> koel_arrow::Result<RecordBatch> {
    let column = |(at, field): (usize, &FieldRef)| {
        let chunks = batches.iter().map(|batch| Arc::clone(batch.column(at))).collect();
        let column = Column::of_chunks(field.name(), field.data_type(), chunks)?.one_piece()?;
        Ok(Arc::clone(&column.chunks()[0]))
    };
    let columns = schema.fields().iter().enumerate().map(column).collect::<koel_arrow::Result<_>>()?;
    let rows = batches.iter().map(RecordBatch::num_rows).sum();
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(schema, columns, &options)?)
}

fn names(schema: &SchemaRef) -> Vec<String> {
    schema.fields().iter().map(|field| field.name().clone()).collect()
}

/// The field of a struct with these columns.
fn row_field(schema: &SchemaRef) -> FieldRef {
    Arc::new(Field::new_struct("", schema.fields().clone(), false))
}

/// Converts a pyarrow Table or RecordBatch to a pandas DataFrame with the same values.
fn frame<'py>(table: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let columns = PyDict::new(table.py());
    let names: Vec<String> = table.getattr("schema")?.getattr("names")?.extract()?;
    for (at, name) in names.iter().enumerate() {
        columns.set_item(at, series(&table.call_method1("column", (at,))?, name)?)?;
    }
    let frame = library(table.py(), "pandas")?.call_method1("DataFrame", (columns,))?;
    // Set separately, because two columns may have the same name.
    frame.setattr("columns", names)?;
    Ok(frame)
}
