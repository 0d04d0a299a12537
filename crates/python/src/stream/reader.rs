//! What a stream gives: a reader of batches.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StructArray};
use arrow_schema::{ArrowError, Field, FieldRef, SchemaRef};
use pyo3::exceptions::{PyKeyError, PyKeyboardInterrupt, PyMemoryError, PyOSError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyTuple};
use pyo3_arrow::ffi::{ArrayIterator, to_array_pycapsules, to_schema_pycapsule, to_stream_pycapsule};

use super::work::{Job, Work, gone};
use crate::output::ArrowColumn;

/// A result that comes batch by batch, for whichever library reads Arrow's PyCapsule interface:
/// `pyarrow.RecordBatchReader.from_stream(reader)`, `polars.DataFrame(reader)`, DuckDB; or by iteration.
///
/// Work begins when the first batch is asked for, and stays a few batches ahead of who reads. Rows are read once. A reader that is
/// closed or dropped before its end stops its work, and temporary files are gone then.
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
    pub(crate) fn new(job: Job, schema: SchemaRef) -> Self {
        BatchReader { work: Arc::new(Work::new(job)), schema }
    }
}

#[pymethods]
impl BatchReader {
    /// Arrow's PyCapsule interface: the batches that have not been read.
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

    /// The columns, as a schema of pyarrow. Libraries that read the PyCapsule interface do without.
    #[getter]
    fn schema<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        pyarrow(slf.py())?.call_method1("schema", (slf,))
    }

    /// When all rows have been made, a dict that says how many there were on the way in and out, and `spilled_bytes`, the bytes written
    /// to temporary files; None before.
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

    /// Stops the work, if it is not done, and waits until its temporary files are gone. The end of a `with` block does it as well.
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

/// Batches for a reader that may hold the interpreter's lock or not, and knows nothing of Python's errors.
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
        // Whoever calls may hold the lock, and the work may need it.
        let next = Python::try_attach(|py| py.detach(|| self.work.next()).map_err(|error| told(py, &error)));
        let next = next.unwrap_or_else(|| Err(ArrowError::ExternalError(gone().to_string().into())));
        // An error comes again, lest rows end without a word.
        self.is_done = matches!(next, Ok(None));
        next.transpose()
    }
}

/// An error as Arrow's, which has kinds and a text.
fn told(py: Python<'_>, error: &PyErr) -> ArrowError {
    // The text of a C string has no zeros.
    let text = error.to_string().replace('\0', " ");
    if error.is_instance_of::<PyKeyboardInterrupt>(py) {
        // Python has told it, and the library that reads raises something else of it: Python tells it once more then.
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

/// Some rows of a result, for whichever library reads Arrow's PyCapsule interface: `pyarrow.record_batch(batch)`,
/// `polars.DataFrame(batch)`; `batch["name"]` is a `koel.Column`.
///
/// >>> import koel, pyarrow as pa
/// >>> batch = next(koel.unique_stream(pa.table({"k": [3, 1, 3]})))
/// >>> pa.record_batch(batch).to_pydict()
/// {'k': [3, 1]}
#[pyclass(frozen, module = "koel")]
pub(crate) struct Batch(RecordBatch);

#[pymethods]
impl Batch {
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

    /// The rows as a RecordBatch of pyarrow.
    ///
    /// >>> import koel, pyarrow as pa
    /// >>> next(koel.unique_stream(pa.table({"k": [3, 1, 3]}))).to_pyarrow().num_rows
    /// 2
    fn to_pyarrow<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        pyarrow(slf.py())?.call_method1("record_batch", (slf,))
    }

    fn __getitem__(&self, name: &str) -> PyResult<ArrowColumn> {
        let schema = self.0.schema_ref();
        let place = schema.index_of(name).map_err(|_| {
            PyKeyError::new_err(format!("there is no column {name:?}: there are {}", names(schema).join(", ")))
        })?;
        Ok(ArrowColumn::new(Arc::clone(self.0.column(place)), Arc::clone(&schema.fields()[place])))
    }

    fn __len__(&self) -> usize {
        self.0.num_rows()
    }

    fn __repr__(&self) -> String {
        format!("<koel.Batch of {} rows: {}>", self.0.num_rows(), names(self.0.schema_ref()).join(", "))
    }
}

fn names(schema: &SchemaRef) -> Vec<String> {
    schema.fields().iter().map(|field| field.name().clone()).collect()
}

/// A row as a struct.
fn row_field(schema: &SchemaRef) -> FieldRef {
    Arc::new(Field::new_struct("", schema.fields().clone(), false))
}

fn pyarrow(py: Python<'_>) -> PyResult<Bound<'_, PyModule>> {
    py.import("pyarrow").map_err(|_| {
        PyTypeError::new_err("this needs pyarrow, which is not installed; polars.DataFrame(..) does without")
    })
}
