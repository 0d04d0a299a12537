//! Reads arguments as Arrow columns.
//!
//! ```text
//! tuple, MultiIndex            a key of several columns
//! NumPy array                  without a copy if contiguous (arrays.rs); strings and bytes are copied (text.rs)
//! pandas, with a NumPy dtype   as its NumPy array
//! Arrow (PyCapsule)            without a copy (arrow.rs): polars, pyarrow, DuckDB, Arrow-backed pandas;
//!                              a table is a key of several columns
//! nullable pandas              through pyarrow
//! lists, arrays of objects     values of one type (objects.rs); types unknown to NumPy and Arrow through pyarrow
//! buffers, `__array__`, DLPack   through NumPy, in main memory
//! ```
//!
//! Arrays are read without the GIL, as by NumPy's own functions. If another thread changes an array during a call, the
//! call returns an unspecified result or fails.

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{Array, ArrayRef, StructArray, new_null_array};
use arrow_schema::{DataType, Field, FieldRef};
use koel_arrow::{Column, Keys};
use numpy::{PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::{PyException, PyMemoryError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PySequence, PyString, PyTuple};

use crate::arrays;
use crate::error::Failure;
use crate::objects::Objects;

/// Whether NaN is a value, or missing as in pandas. NaT is always missing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nan {
    Value,
    Missing,
}

/// The form of a column, in which results are returned.
pub(crate) enum Origin<'py> {
    /// A NumPy array, from which results are gathered.
    Numpy(Bound<'py, PyUntypedArray>),
    /// An Arrow column with this field.
    Arrow(FieldRef),
}

/// A column argument.
pub(crate) struct Given<'py> {
    pub(crate) column: Column,
    pub(crate) origin: Origin<'py>,
}

/// A key argument: one or more columns.
pub(crate) struct GivenKeys<'py> {
    pub(crate) columns: Vec<Given<'py>>,
    /// Whether the argument is a tuple or a table. Results are tuples then.
    pub(crate) is_tuple: bool,
}

impl<'py> GivenKeys<'py> {
    /// Reads the argument `given`. Error messages call it `name`.
    pub(crate) fn of(name: &str, given: &Bound<'py, PyAny>, nan: Nan) -> PyResult<Self> {
        if let Ok(tuple) = given.cast::<PyTuple>() {
            if tuple.is_empty() {
                return Err(PyValueError::new_err(format!("{name} is an empty tuple: pass at least one column")));
            }
            let columns = tuple.iter().enumerate().map(|(i, item)| Given::of(&format!("{name}[{i}]"), &item, nan));
            return Ok(GivenKeys { columns: columns.collect::<PyResult<_>>()?, is_tuple: true });
        }
        if is_multi_index(given)? {
            let levels: usize = given.getattr("nlevels")?.extract()?;
            let columns = (0..levels).map(|level| {
                Given::of(&format!("{name}[{level}]"), &given.call_method1("get_level_values", (level,))?, nan)
            });
            return Ok(GivenKeys { columns: columns.collect::<PyResult<_>>()?, is_tuple: true });
        }
        // Through the Arrow interface, a pandas DataFrame may have its index as an additional column.
        if is_frame(given)? {
            let mut columns = Vec::new();
            for item in given.call_method0("items")?.try_iter()? {
                let (label, column): (Bound<'py, PyAny>, Bound<'py, PyAny>) = item?.extract()?;
                columns.push(Given::of(&label.str()?.to_string(), &column, nan)?);
            }
            if columns.is_empty() {
                return Err(PyValueError::new_err(format!("{name} is a table without columns")));
            }
            return Ok(GivenKeys { columns, is_tuple: true });
        }
        if let Some((chunks, field)) = arrow(name, given)? {
            if is_table(&field) {
                return Ok(GivenKeys { columns: columns_of_table(name, &chunks, &field)?, is_tuple: true });
            }
            return Ok(GivenKeys { columns: vec![Given::of_chunks(name, chunks, field)?], is_tuple: false });
        }
        Ok(GivenKeys { columns: vec![Given::of(name, given, nan)?], is_tuple: false })
    }

    /// Returns the columns as [`Keys`].
    pub(crate) fn keys(&self) -> PyResult<Keys> {
        let columns = self.columns.iter().map(|given| given.column.clone()).collect();
        Ok(Keys::new(columns).map_err(Failure::from)?)
    }

    /// Rejects ordered categories, as [`check_order`] does.
    pub(crate) fn check_order(&self, instead: &str) -> PyResult<()> {
        self.columns.iter().try_for_each(|given| check_order(&given.field(), instead))
    }

    /// Returns for each column whether rows of a result are taken from its Arrow array: an Arrow column, or a NumPy
    /// array of numbers without missing values, which has the same values.
    pub(crate) fn is_gathered(&self) -> Vec<bool> {
        let is_gathered = |given: &Given<'_>| match &given.origin {
            Origin::Arrow(_) => true,
            Origin::Numpy(array) => {
                let (dtype, column) = (array.dtype(), &given.column);
                matches!(dtype.kind(), b'i' | b'u' | b'f')
                    && column.data_type().is_numeric()
                    && array.is_exact_instance_of::<PyUntypedArray>()
                    && column.chunks().iter().all(|chunk| chunk.null_count() == 0)
            }
        };
        self.columns.iter().map(is_gathered).collect()
    }

    /// Returns whether all columns are Arrow columns.
    pub(crate) fn is_arrow(&self) -> bool {
        self.columns.iter().all(|given| matches!(given.origin, Origin::Arrow(_)))
    }
}

/// Unifies the types of columns that are compared. A column without values, such as an empty list or a categorical
/// without categories, adopts the type of the other column.
pub(crate) fn unify_types(left: &mut GivenKeys<'_>, right: &mut GivenKeys<'_>) -> PyResult<()> {
    for (left, right) in left.columns.iter_mut().zip(&mut right.columns) {
        adopt_type(&mut left.column, right.column.data_type())?;
        adopt_type(&mut right.column, left.column.data_type())?;
        if left.column.has_values() && right.column.has_values() {
            check_extensions(&left.field(), &right.field())?;
        }
    }
    Ok(())
}

/// Changes the type of a column without values.
pub(crate) fn adopt_type(column: &mut Column, other: &DataType) -> PyResult<()> {
    let is_untyped = match column.data_type() {
        _ if column.is_empty() => true,
        DataType::Null => true,
        DataType::Dictionary(..) => column.chunks().iter().all(|chunk| chunk.logical_null_count() == chunk.len()),
        // NumPy and pandas read columns without values as floats.
        DataType::Float64 if !other.is_numeric() => column.chunks().iter().all(|chunk| {
            let values = chunk.as_primitive::<Float64Type>();
            values.iter().flatten().all(f64::is_nan)
        }),
        _ => false,
    };
    if column.data_type() == other || !is_untyped {
        return Ok(());
    }
    let chunk = new_null_array(other, column.len());
    *column = Column::of_chunks(column.name(), other, vec![chunk]).map_err(Failure::from)?;
    Ok(())
}

/// Rejects the comparison of different extension types, such as periods of months and of days, because their stored
/// values have different meanings.
pub(crate) fn check_extensions(left: &Field, right: &Field) -> PyResult<()> {
    // The name and parameters. The excluded types are compared by their stored values.
    fn of(field: &Field) -> Option<(&str, &str)> {
        let name = field.extension_type_name().filter(|name| !["arrow.uuid", "arrow.json"].contains(name))?;
        Some((name, field.extension_type_metadata().unwrap_or_default()))
    }
    let are_equal = match (of(left), of(right)) {
        (Some((left, of_left)), Some((right, of_right))) => left == right && same_parameters(of_left, of_right)?,
        (None, None) => true,
        _ => false,
    };
    let is_null = |field: &Field| *field.data_type() == DataType::Null;
    if are_equal || is_null(left) || is_null(right) {
        return Ok(());
    }
    let shown = |field: &Field| match of(field) {
        Some((name, parameters)) => format!("{name} {parameters}").trim_end().to_owned(),
        None => field.data_type().to_string(),
    };
    Err(PyTypeError::new_err(format!(
        "`{}` has type {} and `{}` has type {}: convert both to one type, for example with .asfreq(..), .astype(\"int64\") or \
         .astype(str) (pandas), or with .storage or .cast(..) (pyarrow)",
        left.name(),
        shown(left),
        right.name(),
        shown(right)
    )))
}

/// Returns whether the parameters of two extension types are equal. They are compared as JSON if both are JSON.
fn same_parameters(left: &str, right: &str) -> PyResult<bool> {
    if left == right {
        return Ok(true);
    }
    Python::attach(|py| {
        let parse = py.import("json")?.getattr("loads")?;
        match (parse.call1((left,)), parse.call1((right,))) {
            (Ok(left), Ok(right)) => left.eq(right),
            _ => Ok(false),
        }
    })
}

/// Rejects ordered categories in calls that order values, because koel would order them as text. `instead` is an
/// alternative that the message recommends.
pub(crate) fn check_order(field: &Field, instead: &str) -> PyResult<()> {
    if field.dict_is_ordered() != Some(true) {
        return Ok(());
    }
    Err(PyTypeError::new_err(format!(
        "`{}` has ordered categories, which koel cannot order: pass their codes (pandas: .cat.codes; polars: \
         .to_physical()) or their text, which is ordered alphabetically (.astype(str); .cast(pl.String)), or use {instead}",
        field.name()
    )))
}

impl<'py> Given<'py> {
    /// Returns the field of the column.
    pub(crate) fn field(&self) -> Field {
        match &self.origin {
            Origin::Arrow(field) => field.as_ref().clone().with_name(self.column.name()),
            Origin::Numpy(_) => Field::new(self.column.name(), self.column.data_type().clone(), true),
        }
    }

    /// Reads the argument `given`, which is one column. Error messages call it `name`.
    pub(crate) fn of(name: &str, given: &Bound<'py, PyAny>, nan: Nan) -> PyResult<Self> {
        if let Ok(array) = given.cast::<PyUntypedArray>() {
            return Given::of_numpy(name, array, nan);
        }
        if is_multi_index(given)? || is_frame(given)? {
            let what = given.get_type();
            let text = format!(
                "{name} is a {}, but a column is needed: pass one of its columns, or a tuple of them",
                what.name()?
            );
            return Err(PyTypeError::new_err(text));
        }
        // pandas, with values in a NumPy array.
        if given.getattr_opt("dtype")?.is_some_and(|dtype| dtype.is_instance_of::<PyArrayDescr>())
            && given.hasattr("to_numpy")?
        {
            return Given::of_numpy(name, given.call_method0("to_numpy")?.cast()?, nan);
        }
        if let Some((chunks, field)) = arrow(name, given)? {
            if is_table(&field) {
                let text = format!("{name} is a table or a struct, but a column is needed: pass one of its columns");
                return Err(PyTypeError::new_err(text));
            }
            return Given::of_chunks(name, chunks, field);
        }
        if is_of_pandas(given)? {
            let (chunks, field) = through_pyarrow(name, given)?;
            return Given::of_chunks(name, chunks, field);
        }
        if let Some(array) = arrays::array(name, given)? {
            return Given::of_numpy(name, &array, nan);
        }
        let is_text = given.is_instance_of::<PyString>() || given.is_instance_of::<PyBytes>();
        if is_text || given.cast::<PySequence>().is_err() {
            let what = given.get_type();
            let text = format!("{name} is a {}: pass an array, a list or an Arrow column", what.name()?);
            return Err(PyTypeError::new_err(text));
        }
        // A copy, which other threads cannot change.
        let items = given.py().get_type::<PyList>().call1((given,))?.cast_into::<PyList>()?;
        let objects = Objects::new(name, items)?;
        let array = objects.to_numpy()?;
        match array.dtype().kind() {
            b'O' => Given::of_objects(name, &array, &objects, nan),
            _ => Given::of_numpy(name, &array, nan),
        }
    }

    /// Reads an array of Python objects. `objects` are its items.
    fn of_objects(name: &str, array: &Bound<'py, PyUntypedArray>, objects: &Objects<'py>, nan: Nan) -> PyResult<Self> {
        let column = if let Some(values) = objects.to_arrow()? {
            Column::new(name, values)
        } else if let Some(times) = objects.times()? {
            Given::of(name, &times, nan)?.column
        } else {
            let (chunks, field) = through_pyarrow(name, array)?;
            Given::of_chunks(name, chunks, field)?.column
        };
        Ok(Given { column, origin: Origin::Numpy(array.clone()) })
    }

    fn of_chunks(name: &str, chunks: Vec<ArrayRef>, field: FieldRef) -> PyResult<Self> {
        let column = Column::of_chunks(name, field.data_type(), chunks);
        let column = column.map_err(Failure::from)?;
        Ok(Given { column, origin: Origin::Arrow(field) })
    }

    fn of_numpy(name: &str, array: &Bound<'py, PyUntypedArray>, nan: Nan) -> PyResult<Self> {
        let origin = Origin::Numpy(array.clone());
        let array = arrays::contiguous(name, array)?;
        if matches!(array.dtype().kind(), b'O' | b'T') {
            let items = array.call_method0("tolist")?.cast_into::<PyList>()?;
            let column = Given::of_objects(name, &array, &Objects::new(name, items)?, nan)?.column;
            return Ok(Given { column, origin });
        }
        Ok(Given { column: Column::new(name, arrays::values(name, &array, nan)?), origin })
    }
}

/// Returns whether a field is a table, which is a struct without an extension type: extension types, such as pandas
/// intervals, may be structs too.
fn is_table(field: &Field) -> bool {
    matches!(field.data_type(), DataType::Struct(_)) && field.extension_type_name().is_none()
}

/// Returns the columns of a table, whose chunks are struct arrays.
fn columns_of_table<'py>(name: &str, chunks: &[ArrayRef], field: &FieldRef) -> PyResult<Vec<Given<'py>>> {
    let DataType::Struct(fields) = field.data_type() else { return Ok(Vec::new()) };
    if fields.is_empty() {
        return Err(PyValueError::new_err(format!("{name} is a table without columns")));
    }
    if chunks.iter().any(|chunk| chunk.null_count() > 0) {
        return Err(PyTypeError::new_err(format!(
            "{name} contains null structs: pass its fields as a tuple of columns"
        )));
    }
    let part = |(i, field): (usize, &FieldRef)| {
        let part = |chunk: &ArrayRef| chunk.as_any().downcast_ref::<StructArray>().map(|chunk| chunk.column(i).clone());
        Given::of_chunks(field.name(), chunks.iter().filter_map(part).collect(), field.clone())
    };
    fields.iter().enumerate().map(part).collect()
}

fn is_of_pandas(given: &Bound<'_, PyAny>) -> PyResult<bool> {
    let module = given.get_type().module()?;
    // The module of public classes is `pandas` since pandas 3.
    Ok(module == "pandas" || module.to_str()?.starts_with("pandas."))
}

fn is_multi_index(given: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(given.get_type().name()? == "MultiIndex" && is_of_pandas(given)?)
}

pub(crate) fn is_frame(given: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(given.get_type().name()? == "DataFrame" && is_of_pandas(given)?)
}

/// Reads the chunks of an object with Arrow's PyCapsule interface. Returns `None` if it has none, or is a NumPy-backed
/// pandas column.
pub(crate) fn arrow(name: &str, given: &Bound<'_, PyAny>) -> PyResult<Option<(Vec<ArrayRef>, FieldRef)>> {
    // NumPy-backed pandas columns have the interface too, but it copies them.
    let is_numpy = given.getattr_opt("dtype")?.is_some_and(|dtype| dtype.is_instance_of::<PyArrayDescr>());
    if is_numpy {
        return Ok(None);
    }
    // polars exports a column of objects as the addresses of the objects.
    if given.getattr_opt("dtype")?.is_some_and(|dtype| dtype.to_string() == "Object") {
        return Err(PyTypeError::new_err(format!("{name} contains Python objects: pass a column of one type")));
    }
    crate::arrow::column(given).map_err(|error| {
        let text = error.value(given.py());
        PyTypeError::new_err(format!("{name} cannot be read as an Arrow column: {text}"))
    })
}

/// Converts an error that pyarrow raised for a pandas column or DataFrame.
pub(crate) fn by_pyarrow(name: &str, given: &Bound<'_, PyAny>, error: PyErr) -> PyErr {
    let py = given.py();
    if error.is_instance_of::<PyMemoryError>(py) || !error.is_instance_of::<PyException>(py) {
        return error;
    }
    // One of the arguments of the exception names the column.
    let args = error.value(py).getattr("args").and_then(|args| args.try_iter());
    let parts: Vec<String> = args.into_iter().flatten().flatten().map(|part| part.to_string()).collect();
    let parts = parts.join(": ");
    let dtype = given.getattr("dtype").map(|dtype| dtype.to_string()).unwrap_or_default();
    let advice = if dtype.starts_with("Sparse") || parts.starts_with("Sparse") {
        "pass dense values, with .sparse.to_dense()"
    } else {
        "pass values of one type"
    };
    PyTypeError::new_err(format!("{name} cannot be read by pyarrow ({parts}): {advice}"))
}

/// Reads pandas columns and NumPy arrays of objects through pyarrow.
fn through_pyarrow(name: &str, given: &Bound<'_, PyAny>) -> PyResult<(Vec<ArrayRef>, FieldRef)> {
    let pyarrow = given.py().import("pyarrow").map_err(|_| {
        let text = format!(
            "{name} is read through pyarrow, which is not installed: install pyarrow, or pass a polars or DuckDB column"
        );
        PyTypeError::new_err(text)
    })?;
    let keywords = PyDict::new(given.py());
    keywords.set_item("from_pandas", true)?;
    let array =
        pyarrow.call_method("array", (given,), Some(&keywords)).map_err(|error| by_pyarrow(name, given, error))?;
    arrow(name, &array)?.ok_or_else(|| {
        PyTypeError::new_err(format!("{name}: this version of pyarrow has no PyCapsule interface: install 14 or later"))
    })
}
