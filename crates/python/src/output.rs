//! Returns results as NumPy arrays, or as Arrow columns if the argument was an Arrow column.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt64Type};
use arrow_array::{Array, ArrayRef, RecordBatch, UInt32Array};
use arrow_schema::{DataType, Field, FieldRef, Schema};
use koel::NO_ROW;
use koel_arrow::{Column, Keys, mapped};
use numpy::{Element, PyArray1, PyArrayDescr, PyArrayMethods, PyReadwriteArray1};
use pyo3::exceptions::{PyException, PyImportError, PyIndexError, PyMemoryError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyCFunction, PyCapsule, PyDict, PySlice, PySliceMethods, PyTuple};
use pyo3_arrow::ffi::{to_array_pycapsules, to_schema_pycapsule};
use rayon::prelude::*;

use crate::arrays;
use crate::error::{Failure, KoelError, Result};
use crate::input::{Given, GivenKeys, Nan, Origin, arrow};
use crate::run::CHUNK;
use crate::stream::Batch;
use crate::to_numpy::to_numpy;

/// The number of values in the `repr` of a column, and the maximum number of characters of each.
const REPR_VALUES: usize = 6;
const REPR_CHARS: usize = 40;

/// A column of an Arrow type. Convert it with `to_pandas`, `to_polars`, `to_pyarrow` or
/// `to_numpy`, or pass it to `pandas.Series`, `polars.Series`, `pyarrow.array` or
/// `numpy.asarray`. It can be pickled.
///
/// Args:
///     column: a polars or pyarrow column, or another object with Arrow's PyCapsule interface.
///     name: the name of the column.
///
/// >>> import koel, pyarrow
/// >>> column = koel.unique(pyarrow.array(["plum", "fig", "plum"]))
/// >>> column
/// <koel.Column of 2 Utf8: ['fig', 'plum']>
/// >>> column.to_pandas().tolist()
/// ['fig', 'plum']
#[pyclass(frozen, module = "koel", name = "Column")]
pub(crate) struct ArrowColumn {
    array: ArrayRef,
    field: FieldRef,
}

impl ArrowColumn {
    pub(crate) fn new(array: ArrayRef, field: FieldRef) -> Self {
        ArrowColumn { array, field }
    }

    /// Creates a column that shares the memory of a NumPy array.
    pub(crate) fn of_numpy<'py>(name: &str, array: &Bound<'py, PyAny>) -> PyResult<Bound<'py, Self>> {
        let values = arrays::values(name, array.cast()?, Nan::Value)?;
        Bound::new(array.py(), ArrowColumn::named(name, values))
    }

    /// Creates a column with this name and without metadata.
    pub(crate) fn named(name: &str, array: ArrayRef) -> Self {
        let field = field(name, array.data_type());
        ArrowColumn { array, field }
    }
}

#[pymethods]
impl ArrowColumn {
    #[new]
    #[pyo3(signature = (column, name=""))]
    fn of(column: &Bound<'_, PyAny>, name: &str) -> PyResult<Self> {
        // `arrow` skips NumPy-backed pandas columns, which have the interface too.
        let given = match arrow("column", column)? {
            None => crate::arrow::column(column)?,
            given => given,
        };
        let Some((chunks, field)) = given else {
            return Err(PyTypeError::new_err(format!(
                "column is a {}: pass an Arrow column",
                column.get_type().name()?
            )));
        };
        let whole = Column::of_chunks(name, field.data_type(), chunks).and_then(|column| column.one_piece());
        let whole = whole.map_err(Failure::from)?;
        Ok(ArrowColumn::new(whole.chunks()[0].clone(), field.as_ref().clone().with_name(name).into()))
    }

    /// Supports pickle and copy. The column is pickled as part of a batch, whose schema preserves the metadata.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let schema = Arc::new(Schema::new(vec![Arc::clone(&self.field)]));
        let batch = RecordBatch::try_new(schema, vec![Arc::clone(&self.array)]).map_err(koel_arrow::Error::from);
        let batch = Batch(batch.map_err(Failure::from)?);
        (py.import("operator")?.getattr("getitem")?, (batch, self.field.name())).into_pyobject(py)
    }

    /// The pyarrow type of the column.
    ///
    /// >>> import koel, pyarrow
    /// >>> koel.unique(pyarrow.array(["plum", "fig"])).type
    /// DataType(string)
    #[getter]
    fn r#type<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::to_pyarrow(slf)?.getattr("type")
    }

    /// Arrow's PyCapsule interface.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        Ok(to_array_pycapsules(py, self.field.clone(), &self.array, requested_schema)?)
    }

    /// Arrow's PyCapsule interface.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        Ok(to_schema_pycapsule(py, self.field.as_ref())?)
    }

    /// Supports `numpy.asarray`.
    #[pyo3(signature = (dtype=None, copy=None))]
    fn __array__<'py>(
        slf: &Bound<'py, Self>,
        dtype: Option<Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if copy == Some(false) {
            return Err(PyValueError::new_err("a NumPy array of this column is always a copy: omit copy=False"));
        }
        let array = Self::to_numpy(slf)?;
        match dtype.filter(|dtype| !dtype.is_none()) {
            Some(dtype) => array.call_method1("astype", (dtype,)),
            None => Ok(array),
        }
    }

    /// Converts the column to a NumPy array. Nulls become NaN or NaT. Integers with nulls become
    /// float64 if it holds them exactly, else objects.
    ///
    /// >>> import koel, pyarrow
    /// >>> koel.unique(pyarrow.array([2, 1, 2])).to_numpy()
    /// array([1, 2])
    fn to_numpy<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let array = Self::to_pyarrow(slf)?;
        let objects = |array: &Bound<'py, PyAny>| {
            let keywords = [("dtype", "object")].into_py_dict(py)?;
            py.import("numpy")?.call_method("array", (array.call_method0("to_pylist")?,), Some(&keywords))
        };
        let this = slf.get();
        if this.array.null_count() > 0 && !fits_floats(&this.array) {
            return objects(&array);
        }
        let keywords = [("zero_copy_only", false)].into_py_dict(py)?;
        // pyarrow cannot convert some types to NumPy, such as dictionaries of views.
        array.call_method("to_numpy", (), Some(&keywords)).or_else(|_| objects(&array))
    }

    /// Converts the column to a pandas Series. Integers with nulls get a nullable dtype, such as
    /// Int64.
    ///
    /// >>> import koel, pyarrow
    /// >>> koel.unique(pyarrow.array(["plum", "fig", "plum"])).to_pandas().tolist()
    /// ['fig', 'plum']
    fn to_pandas<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        series(&Self::to_pyarrow(slf)?, slf.get().field.name())
    }

    /// Converts the column to a polars Series.
    ///
    /// >>> import koel, polars
    /// >>> koel.unique(polars.Series(["plum", "fig", "plum"])).to_polars().to_list()
    /// ['fig', 'plum']
    fn to_polars<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        library(slf.py(), "polars")?.call_method1("Series", (slf,))
    }

    /// Converts the column to a pyarrow array.
    ///
    /// >>> import koel, pyarrow
    /// >>> koel.unique(pyarrow.array(["plum", "fig"])).to_pyarrow().type
    /// DataType(string)
    fn to_pyarrow<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        library(slf.py(), "pyarrow")?.call_method1("array", (slf,))
    }

    /// Converts the column to a list of Python values.
    ///
    /// >>> import koel, pyarrow
    /// >>> koel.unique(pyarrow.array(["plum", None, "fig"])).to_pylist()
    /// ['fig', 'plum', None]
    fn to_pylist<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::to_pyarrow(slf)?.call_method0("to_pylist")
    }

    fn __len__(&self) -> usize {
        self.array.len()
    }

    fn __iter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Ok(Self::to_pylist(slf)?.try_iter()?.into_any())
    }

    fn __getitem__<'py>(slf: &Bound<'py, Self>, at: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let (py, this) = (slf.py(), slf.get());
        let len = this.array.len();
        if let Ok(slice) = at.cast::<PySlice>() {
            let pyo3::types::slice::PySliceIndices { start, step, slicelength, .. } = slice.indices(len as isize)?;
            if step == 1 {
                let part = this.array.slice(start as usize, slicelength);
                return Ok(Bound::new(py, ArrowColumn::new(part, this.field.clone()))?.into_any());
            }
            return Err(PyValueError::new_err(
                "a column supports only slices with step 1: use column.to_pyarrow().take(..)",
            ));
        }
        let at: isize =
            at.extract().map_err(|_| PyTypeError::new_err("the index of a column must be a row number or a slice"))?;
        let place = if at < 0 { len.checked_add_signed(at) } else { usize::try_from(at).ok() };
        let place = place.filter(|&place| place < len);
        let place = place
            .ok_or_else(|| PyIndexError::new_err(format!("row {at} is out of range for a column of {len} rows")))?;
        let one = Bound::new(py, ArrowColumn::new(this.array.slice(place, 1), this.field.clone()))?;
        Self::to_pylist(&one)?.get_item(0)
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let (py, this) = (slf.py(), slf.get());
        let len = this.array.len();
        let first = Bound::new(py, ArrowColumn::new(this.array.slice(0, len.min(REPR_VALUES)), this.field.clone()))?;
        let values = match Self::to_pylist(&first) {
            Ok(values) => values.try_iter()?.map(|value| shortened(&value?)).collect::<PyResult<Vec<_>>>()?,
            Err(error) if error.is_instance_of::<PyMemoryError>(py) || !error.is_instance_of::<PyException>(py) => {
                return Err(error);
            }
            // For example, pyarrow is not installed.
            Err(_) => return Ok(format!("<koel.Column of {len} {}>", this.field.data_type())),
        };
        let more = if len > values.len() { ", .." } else { "" };
        Ok(format!("<koel.Column of {len} {}: [{}{more}]>", this.field.data_type(), values.join(", ")))
    }
}

/// Returns the `repr` of a value, shortened.
fn shortened(value: &Bound<'_, PyAny>) -> PyResult<String> {
    let text = value.repr()?.to_string();
    Ok(match text.char_indices().nth(REPR_CHARS) {
        Some((end, _)) => format!("{}..", &text[..end]),
        None => text,
    })
}

/// Returns the error for a class that can be saved but not pickled.
pub(crate) fn not_pickled(class: &str) -> PyErr {
    PyTypeError::new_err(format!("a koel.{class} cannot be pickled: use save(path) and koel.{class}.open(path)"))
}

/// Imports an optional library.
pub(crate) fn library<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyModule>> {
    let missing = |_| PyImportError::new_err(format!("this needs {name}, which is not installed: pip install {name}"));
    py.import(name).map_err(missing)
}

/// Converts a pyarrow array to a pandas Series without changing any value.
pub(crate) fn series<'py>(array: &Bound<'py, PyAny>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    let py = array.py();
    let pandas = library(py, "pandas")?;
    let keywords = PyDict::new(py);
    let of = array.getattr("type")?.str()?.to_string();
    // Without this, integers with nulls become floats.
    let is_integer = of.strip_prefix('u').unwrap_or(&of).starts_with("int");
    if is_integer && array.getattr("null_count")?.extract::<usize>()? > 0 {
        let capital = if of.starts_with('u') { of.replacen("ui", "UI", 1) } else { of.replacen('i', "I", 1) };
        let dtype = pandas.getattr(format!("{capital}Dtype"))?.call0()?.unbind();
        let mapper = PyCFunction::new_closure(py, None, None, move |_, _| Python::attach(|py| dtype.clone_ref(py)))?;
        keywords.set_item("types_mapper", mapper)?;
    }
    let series = array.call_method("to_pandas", (), Some(&keywords))?;
    series.setattr("name", if name.is_empty() { None } else { Some(name) })?;
    Ok(series)
}

/// Returns whether float64 holds all values exactly, if they are 64-bit integers; true for other types.
fn fits_floats(array: &ArrayRef) -> bool {
    const MOST: u64 = 1 << 53;
    match array.data_type() {
        DataType::Int64 => array.as_primitive::<Int64Type>().iter().flatten().all(|value| value.unsigned_abs() <= MOST),
        DataType::UInt64 => array.as_primitive::<UInt64Type>().iter().flatten().all(|value| value <= MOST),
        _ => true,
    }
}

/// Converts row numbers to int64, with -1 for nulls. Must be called in the pool, because it uses all threads.
pub(crate) fn numbers(rows: &UInt32Array) -> Vec<i64> {
    let mut numbers = mapped(rows.values(), i64::from);
    if let Some(nulls) = rows.nulls().filter(|nulls| nulls.null_count() > 0) {
        numbers.par_chunks_mut(CHUNK).enumerate().for_each(|(chunk, numbers)| {
            for (number, row) in numbers.iter_mut().zip(chunk * CHUNK..) {
                if nulls.is_null(row) {
                    *number = -1;
                }
            }
        });
    }
    numbers
}

/// Converts row numbers to int64, with -1 for [`NO_ROW`].
pub(crate) fn found(rows: &[u32]) -> Vec<i64> {
    mapped(rows, |row| if row == NO_ROW { -1 } else { i64::from(row) })
}

/// Returns `is(row)` for each row.
pub(crate) fn flags(rows: usize, is: impl Fn(usize) -> bool + Send + Sync) -> Vec<bool> {
    let mut flags = vec![false; rows];
    flags.par_chunks_mut(CHUNK).enumerate().for_each(|(chunk, flags)| {
        for (flag, row) in flags.iter_mut().zip(chunk * CHUNK..) {
            *flag = is(row);
        }
    });
    flags
}

/// A new NumPy array that is filled without the GIL before it is returned to Python. NumPy requests huge pages for long
/// arrays, which makes the first write cheap.
pub(crate) struct Fresh<'py, T: Element>(PyReadwriteArray1<'py, T>);

impl<'py, T: Element> Fresh<'py, T> {
    /// Allocates an array of zeros.
    ///
    /// # Errors
    /// MemoryError if there is not enough memory.
    pub(crate) fn zeros(py: Python<'py>, len: usize) -> PyResult<Self> {
        let array = py.import("numpy")?.call_method1("zeros", (len, PyArrayDescr::of::<T>(py)))?;
        Ok(Fresh(array.cast_into::<PyArray1<T>>()?.try_readwrite()?))
    }

    pub(crate) fn slice(&mut self) -> PyResult<&mut [T]> {
        Ok(self.0.as_slice_mut()?)
    }

    pub(crate) fn into_array(self) -> Bound<'py, PyArray1<T>> {
        (**self.0).clone()
    }
}

/// Converts a result to a NumPy array.
pub(crate) fn array<T: Element>(py: Python<'_>, values: Vec<T>) -> Bound<'_, PyAny> {
    PyArray1::from_vec(py, values).into_any()
}

/// The keys of a result: the values of gathered columns, and `None` for others, which are taken later with
/// `ndarray.take`, because it supports all dtypes.
pub(crate) struct KeyRows(Vec<Option<ArrayRef>>);

impl KeyRows {
    /// Takes rows of the columns that are [gathered](GivenKeys::is_gathered). Does not need the GIL.
    pub(crate) fn gather(keys: &Keys, is_gathered: &[bool], rows: &UInt32Array) -> Result<KeyRows> {
        let take = |(column, &is_gathered): (&Column, &bool)| is_gathered.then(|| column.take_wide(rows)).transpose();
        Ok(KeyRows(keys.columns().iter().zip(is_gathered).map(take).collect::<koel_arrow::Result<_>>()?))
    }

    /// Keeps the columns of a result that are gathered.
    pub(crate) fn from_arrays(columns: Vec<ArrayRef>, is_gathered: &[bool]) -> KeyRows {
        let keep = |(column, &is_gathered): (ArrayRef, &bool)| is_gathered.then_some(column);
        KeyRows(columns.into_iter().zip(is_gathered).map(keep).collect())
    }

    /// Returns the keys in the form of the argument: a column, or a tuple of columns. `rows` are the rows to take of
    /// columns that are not gathered.
    pub(crate) fn into_python<'py>(
        self,
        py: Python<'py>,
        given: &GivenKeys<'py>,
        rows: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let column = |(given, gathered): (&Given<'py>, Option<ArrayRef>)| match (&given.origin, gathered) {
            (Origin::Arrow(field), Some(gathered)) => {
                let field = retyped(field, &gathered);
                Ok(Bound::new(py, ArrowColumn::new(gathered, field))?.into_any())
            }
            (Origin::Numpy(_), Some(gathered)) => to_numpy(py, given.column.name(), gathered, false),
            (Origin::Numpy(array), None) => array.call_method1("take", (rows,)),
            (Origin::Arrow(_), None) => {
                Err(KoelError::new_err("a column of the result is missing; this is a bug in koel, please report it"))
            }
        };
        let columns = given.columns.iter().zip(self.0).map(column).collect::<PyResult<Vec<_>>>()?;
        if given.is_tuple { Ok(PyTuple::new(py, columns)?.into_any()) } else { Ok(columns[0].clone()) }
    }
}

/// Returns the field of an argument for a result, with the type of the result and nullable.
fn retyped(field: &FieldRef, array: &ArrayRef) -> FieldRef {
    if field.data_type() == array.data_type() && field.is_nullable() {
        return field.clone();
    }
    Arc::new(field.as_ref().clone().with_data_type(array.data_type().clone()).with_nullable(true))
}

/// Returns a field without metadata.
fn field(name: &str, data_type: &DataType) -> FieldRef {
    Arc::new(Field::new(name, data_type.clone(), true))
}
