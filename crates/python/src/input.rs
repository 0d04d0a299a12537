//! Arguments as Arrow columns.
//!
//! ```text
//! tuple, MultiIndex            its columns: keys of several columns
//! NumPy array                  in place if it is contiguous, else a copy (arrays.rs); text of fixed width is copied (text.rs)
//! pandas, with a NumPy dtype   its array
//! Arrow (PyCapsule)            in place (arrow.rs): polars, pyarrow, DuckDB, pandas with Arrow's types; a table is its columns
//! nullable pandas              through pyarrow, if it is installed
//! lists, arrays of objects     values of one type (objects.rs); those that neither NumPy nor Arrow knows through pyarrow
//! buffers, `__array__`, DLPack   through NumPy, in main memory
//! ```
//!
//! Arrays are read without the interpreter's lock, as NumPy's own functions do. If one is changed meanwhile, the result
//! is unspecified, or an error.

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

/// Whether NaN means that a value is missing, as it does to pandas. NaT always does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nan {
    Value,
    Missing,
}

/// What results are made as.
pub(crate) enum Origin<'py> {
    /// NumPy: rows are taken out of this array.
    Numpy(Bound<'py, PyUntypedArray>),
    /// Arrow.
    Arrow(FieldRef),
}

/// One column.
pub(crate) struct Given<'py> {
    pub(crate) column: Column,
    pub(crate) origin: Origin<'py>,
}

/// The columns of a key.
pub(crate) struct GivenKeys<'py> {
    pub(crate) columns: Vec<Given<'py>>,
    /// Whether they came as a tuple or a table, so that results are tuples too.
    pub(crate) is_tuple: bool,
}

impl<'py> GivenKeys<'py> {
    /// Of an argument with this name.
    pub(crate) fn of(name: &str, given: &Bound<'py, PyAny>, nan: Nan) -> PyResult<Self> {
        if let Ok(tuple) = given.cast::<PyTuple>() {
            if tuple.is_empty() {
                return Err(PyValueError::new_err(format!("{name} is an empty tuple: give at least one column")));
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
        // To Arrow a frame of pandas may have its index as a column more.
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

    /// The columns as keys.
    pub(crate) fn keys(&self) -> PyResult<Keys> {
        let columns = self.columns.iter().map(|given| given.column.clone()).collect();
        Ok(Keys::new(columns).map_err(Failure::from)?)
    }

    /// Refuses ordered categories where keys are sorted, as [`check_order`].
    pub(crate) fn check_order(&self, instead: &str) -> PyResult<()> {
        self.columns.iter().try_for_each(|given| check_order(&given.field(), instead))
    }

    /// Of each column whether it is Arrow's.
    pub(crate) fn form(&self) -> Vec<bool> {
        self.columns.iter().map(|given| matches!(given.origin, Origin::Arrow(_))).collect()
    }

    /// Whether all columns are Arrow's.
    pub(crate) fn is_arrow(&self) -> bool {
        self.form().into_iter().all(|is_arrow| is_arrow)
    }
}

/// Gives columns without values the types of those that they are compared with: an empty list is not one of floats, and
/// a categorical without categories not one of any type.
pub(crate) fn agree(left: &mut GivenKeys<'_>, right: &mut GivenKeys<'_>) -> PyResult<()> {
    for (left, right) in left.columns.iter_mut().zip(&mut right.columns) {
        follow(&mut left.column, right.column.data_type())?;
        follow(&mut right.column, left.column.data_type())?;
        if left.column.has_values() && right.column.has_values() {
            check_extensions(&left.field(), &right.field())?;
        }
    }
    Ok(())
}

/// Gives a column without values another type.
pub(crate) fn follow(column: &mut Column, other: &DataType) -> PyResult<()> {
    let is_untyped = match column.data_type() {
        _ if column.is_empty() => true,
        DataType::Null => true,
        DataType::Dictionary(..) => column.chunks().iter().all(|chunk| chunk.logical_null_count() == chunk.len()),
        // What NumPy and pandas make of a column without values.
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

/// Refuses to compare columns of different extension types, such as periods of months and of days: the values of their
/// storage have other meanings.
pub(crate) fn check_extensions(left: &Field, right: &Field) -> PyResult<()> {
    // The name and parameters. Values of the excluded types are compared by their stored values.
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
        "`{}` has type {} and `{}` {}: convert both to one type, for example by .asfreq(..), .astype(\"int64\") or \
         .astype(str) (pandas), or by .storage or .cast(..) (pyarrow)",
        left.name(),
        shown(left),
        right.name(),
        shown(right)
    )))
}

/// Whether the parameters of two extension types are equal, as JSON if both are JSON.
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

/// Refuses ordered categories where values are ordered: they would be ordered as text. `instead` is a call that works.
pub(crate) fn check_order(field: &Field, instead: &str) -> PyResult<()> {
    if field.dict_is_ordered() != Some(true) {
        return Ok(());
    }
    Err(PyTypeError::new_err(format!(
        "`{}` has ordered categories, which koel cannot order: give their codes (pandas: .cat.codes; polars: \
         .to_physical()) or their text, which is ordered alphabetically (.astype(str); .cast(pl.String)), or use {instead}",
        field.name()
    )))
}

impl<'py> Given<'py> {
    /// The type and name of the column.
    pub(crate) fn field(&self) -> Field {
        match &self.origin {
            Origin::Arrow(field) => field.as_ref().clone().with_name(self.column.name()),
            Origin::Numpy(_) => Field::new(self.column.name(), self.column.data_type().clone(), true),
        }
    }

    /// Of one column.
    pub(crate) fn of(name: &str, given: &Bound<'py, PyAny>, nan: Nan) -> PyResult<Self> {
        if let Ok(array) = given.cast::<PyUntypedArray>() {
            return Given::of_numpy(name, array, nan);
        }
        if is_multi_index(given)? || is_frame(given)? {
            let what = given.get_type();
            let text = format!(
                "{name} is a {} where a column is needed: give one of its columns, or a tuple of them",
                what.name()?
            );
            return Err(PyTypeError::new_err(text));
        }
        // pandas, with values in an array of NumPy.
        if given.getattr_opt("dtype")?.is_some_and(|dtype| dtype.is_instance_of::<PyArrayDescr>())
            && given.hasattr("to_numpy")?
        {
            return Given::of_numpy(name, given.call_method0("to_numpy")?.cast()?, nan);
        }
        if let Some((chunks, field)) = arrow(name, given)? {
            if is_table(&field) {
                let text = format!("{name} is a table or a struct where a column is needed: give one of its columns");
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
            let text = format!("{name} is a {}: give an array, a list or an Arrow column", what.name()?);
            return Err(PyTypeError::new_err(text));
        }
        // A copy, which no other thread changes.
        let items = given.py().get_type::<PyList>().call1((given,))?.cast_into::<PyList>()?;
        let objects = Objects::new(name, items)?;
        let array = objects.to_numpy()?;
        match array.dtype().kind() {
            b'O' => Given::of_objects(name, &array, &objects, nan),
            _ => Given::of_numpy(name, &array, nan),
        }
    }

    /// Of an array of objects, which are these.
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
        let array = arrays::plain(name, array)?;
        if matches!(array.dtype().kind(), b'O' | b'T') {
            let items = array.call_method0("tolist")?.cast_into::<PyList>()?;
            let column = Given::of_objects(name, &array, &Objects::new(name, items)?, nan)?.column;
            return Ok(Given { column, origin });
        }
        Ok(Given { column: Column::new(name, arrays::values(name, &array, nan)?), origin })
    }
}

/// Whether it is a table, which comes as structs. Extension types may be structs too, such as the intervals of pandas.
fn is_table(field: &Field) -> bool {
    matches!(field.data_type(), DataType::Struct(_)) && field.extension_type_name().is_none()
}

/// The columns of a table, which comes as structs.
fn columns_of_table<'py>(name: &str, chunks: &[ArrayRef], field: &FieldRef) -> PyResult<Vec<Given<'py>>> {
    let DataType::Struct(fields) = field.data_type() else { return Ok(Vec::new()) };
    if fields.is_empty() {
        return Err(PyValueError::new_err(format!("{name} is a table without columns")));
    }
    if chunks.iter().any(|chunk| chunk.null_count() > 0) {
        return Err(PyTypeError::new_err(format!(
            "{name} has structs that are null: give its fields as a tuple of columns"
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
    // Since pandas 3 its public classes say that they are of `pandas`.
    Ok(module == "pandas" || module.to_str()?.starts_with("pandas."))
}

fn is_multi_index(given: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(given.get_type().name()? == "MultiIndex" && is_of_pandas(given)?)
}

pub(crate) fn is_frame(given: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(given.get_type().name()? == "DataFrame" && is_of_pandas(given)?)
}

/// The chunks of an object with Arrow's PyCapsule interface.
pub(crate) fn arrow(name: &str, given: &Bound<'_, PyAny>) -> PyResult<Option<(Vec<ArrayRef>, FieldRef)>> {
    // pandas has the interface for columns that are NumPy arrays as well, which it would copy.
    let is_numpy = given.getattr_opt("dtype")?.is_some_and(|dtype| dtype.is_instance_of::<PyArrayDescr>());
    if is_numpy {
        return Ok(None);
    }
    // To Arrow its objects are their addresses.
    if given.getattr_opt("dtype")?.is_some_and(|dtype| dtype.to_string() == "Object") {
        return Err(PyTypeError::new_err(format!("{name} holds Python objects: give a column of one type")));
    }
    crate::arrow::column(given).map_err(|error| {
        let text = error.value(given.py());
        PyTypeError::new_err(format!("{name} cannot be read as an Arrow column: {text}"))
    })
}

/// The error of pyarrow for a column or frame of pandas.
pub(crate) fn by_pyarrow(name: &str, given: &Bound<'_, PyAny>, error: PyErr) -> PyErr {
    let py = given.py();
    if error.is_instance_of::<PyMemoryError>(py) || !error.is_instance_of::<PyException>(py) {
        return error;
    }
    // It has several parts, of which one names the column.
    let args = error.value(py).getattr("args").and_then(|args| args.try_iter());
    let parts: Vec<String> = args.into_iter().flatten().flatten().map(|part| part.to_string()).collect();
    let parts = parts.join(": ");
    let dtype = given.getattr("dtype").map(|dtype| dtype.to_string()).unwrap_or_default();
    let advice = if dtype.starts_with("Sparse") || parts.starts_with("Sparse") {
        "give dense values, by .sparse.to_dense()"
    } else {
        "give values of one type"
    };
    PyTypeError::new_err(format!("{name} cannot be read by pyarrow ({parts}): {advice}"))
}

/// Columns of pandas, and objects of NumPy, of which pyarrow knows the type.
fn through_pyarrow(name: &str, given: &Bound<'_, PyAny>) -> PyResult<(Vec<ArrayRef>, FieldRef)> {
    let pyarrow = given.py().import("pyarrow").map_err(|_| {
        let text = format!(
            "{name} is read through pyarrow, which is not installed: install it, or give a column of polars or DuckDB"
        );
        PyTypeError::new_err(text)
    })?;
    let keywords = PyDict::new(given.py());
    keywords.set_item("from_pandas", true)?;
    let array =
        pyarrow.call_method("array", (given,), Some(&keywords)).map_err(|error| by_pyarrow(name, given, error))?;
    arrow(name, &array)?.ok_or_else(|| {
        PyTypeError::new_err(format!("{name}: this pyarrow has no PyCapsule interface: install 14 or later"))
    })
}
