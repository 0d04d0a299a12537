//! What a caller gets: NumPy's arrays, or Arrow columns where Arrow came in.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BooleanArray, UInt32Array};
use arrow_buffer::BooleanBuffer;
use arrow_schema::{DataType, Field, FieldRef};
use koel::NO_ROW;
use koel_arrow::{Column, Keys};
use numpy::PyArray1;
use pyo3::exceptions::{PyIndexError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyTuple};
use pyo3_arrow::ffi::{to_array_pycapsules, to_schema_pycapsule};
use rayon::prelude::*;

use crate::error::{KoelError, Result};
use crate::input::{Given, GivenKeys, Origin};
use crate::run::CHUNK;

/// An Arrow column, for whichever library reads the PyCapsule interface: `polars.Series(column)`, `pyarrow.array(column)`,
/// and by `numpy.asarray(column)` for NumPy.
///
/// >>> import koel, pyarrow
/// >>> column = koel.unique(pyarrow.array(["plum", "fig", "plum"]))
/// >>> pyarrow.array(column).to_pylist()
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

    /// A column that is koel's own, with this name.
    pub(crate) fn named(name: &str, array: ArrayRef) -> Self {
        let field = field(name, array.data_type());
        ArrowColumn { array, field }
    }
}

#[pymethods]
impl ArrowColumn {
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

    /// For `numpy.asarray`. Columns with nulls, and of types that NumPy has not, go through pyarrow.
    #[pyo3(signature = (dtype=None, copy=None))]
    fn __array__<'py>(
        slf: &Bound<'py, Self>,
        dtype: Option<Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if copy == Some(false) {
            return Err(PyValueError::new_err("an array of this column is a copy: leave out copy=False"));
        }
        let array = slf.call_method0("to_numpy")?;
        match dtype.filter(|dtype| !dtype.is_none()) {
            Some(dtype) => array.call_method1("astype", (dtype,)),
            None => Ok(array),
        }
    }

    /// The column as an array of NumPy.
    ///
    /// >>> import koel, pyarrow
    /// >>> left, right = koel.join(pyarrow.array([1, 2]), pyarrow.array([2, 2]))
    /// >>> right.to_numpy()
    /// array([0, 1], dtype=uint32)
    fn to_numpy<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let this = slf.get();
        if this.array.null_count() == 0 {
            if let Some(rows) = this.array.as_any().downcast_ref::<UInt32Array>() {
                return Ok(PyArray1::from_slice(py, rows.values()).into_any());
            }
            if let Some(flags) = this.array.as_any().downcast_ref::<BooleanArray>() {
                return Ok(PyArray1::from_vec(py, flags.values().iter().collect()).into_any());
            }
        }
        let array = slf.call_method0("to_pyarrow")?;
        let keywords = PyDict::new(py);
        keywords.set_item("zero_copy_only", false)?;
        array.call_method("to_numpy", (), Some(&keywords)).or_else(|_| {
            // pyarrow has no way to NumPy for some types, such as dictionaries of views.
            let keywords = PyDict::new(py);
            keywords.set_item("dtype", "object")?;
            py.import("numpy")?.call_method("array", (array.call_method0("to_pylist")?,), Some(&keywords))
        })
    }

    /// The column as an array of pyarrow.
    ///
    /// >>> import koel, pyarrow
    /// >>> koel.unique(pyarrow.array(["plum", "fig"])).to_pyarrow().type
    /// DataType(string)
    fn to_pyarrow<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let pyarrow = slf.py().import("pyarrow").map_err(|_| {
            PyTypeError::new_err("this needs pyarrow, which is not installed; polars.Series(column) does without")
        })?;
        pyarrow.call_method1("array", (slf,))
    }

    /// The values as Python's.
    ///
    /// >>> import koel, pyarrow
    /// >>> koel.unique(pyarrow.array(["plum", None, "fig"])).to_pylist()
    /// ['fig', 'plum', None]
    fn to_pylist<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.call_method0("to_pyarrow")?.call_method0("to_pylist")
    }

    fn __len__(&self) -> usize {
        self.array.len()
    }

    fn __getitem__<'py>(slf: &Bound<'py, Self>, at: isize) -> PyResult<Bound<'py, PyAny>> {
        let len = slf.get().array.len();
        let place = if at < 0 { len.checked_add_signed(at) } else { usize::try_from(at).ok() };
        let place = place.filter(|&place| place < len);
        let place = place.ok_or_else(|| PyIndexError::new_err(format!("row {at} of a column of {len}")))?;
        let this = slf.get();
        let one = Bound::new(slf.py(), ArrowColumn::new(this.array.slice(place, 1), this.field.clone()))?;
        one.call_method0("to_pylist")?.get_item(0)
    }

    fn __repr__(&self) -> String {
        format!("<koel.Column of {} {}>", self.array.len(), self.field.data_type())
    }
}

/// Numbers of rows or groups: int64 with -1 where there is none, or a column with nulls there. They are made in the pool, as all
/// here that takes all threads.
pub(crate) enum Numbers {
    Numpy(Vec<i64>),
    Arrow(UInt32Array),
}

impl Numbers {
    pub(crate) fn of(rows: UInt32Array, is_arrow: bool) -> Self {
        if is_arrow { Numbers::Arrow(rows) } else { Numbers::Numpy(with_minus_one(&rows)) }
    }

    pub(crate) fn of_found(rows: Vec<u32>, is_arrow: bool) -> Self {
        if is_arrow {
            return Numbers::Arrow(rows.iter().map(|&row| (row != NO_ROW).then_some(row)).collect());
        }
        let number = |&row: &u32| if row == NO_ROW { -1 } else { i64::from(row) };
        Numbers::Numpy(rows.par_iter().with_min_len(CHUNK).map(number).collect())
    }

    pub(crate) fn into_python<'py>(self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Numbers::Numpy(rows) => Ok(PyArray1::from_vec(py, rows).into_any()),
            Numbers::Arrow(rows) => Ok(Bound::new(py, ArrowColumn::named(name, Arc::new(rows)))?.into_any()),
        }
    }
}

fn with_minus_one(rows: &UInt32Array) -> Vec<i64> {
    let values = rows.values().par_iter().with_min_len(CHUNK);
    match rows.nulls().filter(|nulls| nulls.null_count() > 0) {
        None => values.map(|&row| i64::from(row)).collect(),
        Some(nulls) => {
            values.enumerate().map(|(i, &row)| if nulls.is_valid(i) { i64::from(row) } else { -1 }).collect()
        }
    }
}

/// Answers by yes and no.
pub(crate) enum Flags {
    Numpy(Vec<bool>),
    Arrow(BooleanArray),
}

impl Flags {
    /// Of so many rows.
    pub(crate) fn of(rows: usize, is: impl Fn(usize) -> bool + Send + Sync, is_arrow: bool) -> Self {
        if is_arrow {
            return Flags::Arrow(BooleanArray::new(BooleanBuffer::collect_bool(rows, is), None));
        }
        Flags::Numpy((0..rows).into_par_iter().with_min_len(CHUNK).map(is).collect())
    }

    pub(crate) fn into_python<'py>(self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Flags::Numpy(flags) => Ok(PyArray1::from_vec(py, flags).into_any()),
            Flags::Arrow(flags) => Ok(Bound::new(py, ArrowColumn::named(name, Arc::new(flags)))?.into_any()),
        }
    }
}

/// What was taken out of the columns of a key: nothing yet of NumPy's, because its own `take` knows all of its types.
pub(crate) struct Taken(Vec<Option<ArrayRef>>);

impl Taken {
    /// Rows of key columns; without the interpreter's lock.
    pub(crate) fn of(keys: &Keys, is_arrow: &[bool], rows: &UInt32Array) -> Result<Taken> {
        let take = |(column, &is_arrow): (&Column, &bool)| is_arrow.then(|| column.take_wide(rows)).transpose();
        Ok(Taken(keys.columns().iter().zip(is_arrow).map(take).collect::<koel_arrow::Result<_>>()?))
    }

    /// Arrow columns that are there already, for those that came as such.
    pub(crate) fn done(columns: Vec<ArrayRef>, is_arrow: &[bool]) -> Taken {
        Taken(columns.into_iter().zip(is_arrow).map(|(column, &is_arrow)| is_arrow.then_some(column)).collect())
    }

    /// As keys came: a column, or a tuple of them. `rows` are those of NumPy's columns.
    pub(crate) fn into_python<'py>(
        self,
        py: Python<'py>,
        given: &GivenKeys<'py>,
        rows: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let column = |(given, taken): (&Given<'py>, Option<ArrayRef>)| match (&given.origin, taken) {
            (Origin::Arrow(field), Some(taken)) => {
                let field = retyped(field, &taken);
                Ok(Bound::new(py, ArrowColumn::new(taken, field))?.into_any())
            }
            (Origin::Numpy(array), _) => array.call_method1("take", (rows,)),
            (Origin::Arrow(_), None) => Err(KoelError::new_err("koel lost a column; please report it")),
        };
        let columns = given.columns.iter().zip(self.0).map(column).collect::<PyResult<Vec<_>>>()?;
        if given.is_tuple { Ok(PyTuple::new(py, columns)?.into_any()) } else { Ok(columns[0].clone()) }
    }
}

/// A field as it was, unless the values have another type now.
fn retyped(field: &FieldRef, array: &ArrayRef) -> FieldRef {
    if field.data_type() == array.data_type() && field.is_nullable() {
        return field.clone();
    }
    Arc::new(field.as_ref().clone().with_data_type(array.data_type().clone()).with_nullable(true))
}

/// A field of a column that has a name and nothing else to tell.
fn field(name: &str, data_type: &DataType) -> FieldRef {
    Arc::new(Field::new(name, data_type.clone(), true))
}
