//! What a caller gives, as Arrow columns.
//!
//! ```text
//! tuple                        its items, each a column: keys of several columns
//! NumPy array                  where it lies, if it is contiguous; else a copy
//! pandas, with a NumPy dtype   its array
//! Arrow (PyCapsule)            where it lies: polars, pyarrow, DuckDB, pandas with pyarrow types; a table is its columns
//! text in NumPy, nullable pandas, objects    through pyarrow, if it is installed
//! anything else                numpy.asarray
//! ```
//!
//! Arrays are read while the interpreter's lock is let go, as NumPy's own functions do: whoever writes to one meanwhile gets an
//! answer that means nothing, or an error.

use std::panic::AssertUnwindSafe;
use std::ptr::NonNull;
use std::sync::Arc;

use arrow_array::types::*;
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, BooleanArray, PrimitiveArray, StructArray};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, FieldRef};
use koel_arrow::{Column, Keys};
use numpy::{
    Element, PyArray1, PyArrayDescr, PyArrayDescrMethods, PyArrayMethods, PyUntypedArray, PyUntypedArrayMethods,
};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyTuple, PyType};
use pyo3_arrow::PyChunkedArray;
use pyo3_arrow::input::AnyArray;

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
        if let Some((chunks, field)) = arrow(given)? {
            if let DataType::Struct(_) = field.data_type() {
                return Ok(GivenKeys { columns: columns_of_table(name, &chunks, &field)?, is_tuple: true });
            }
            return Ok(GivenKeys { columns: vec![Given::of_chunks(name, chunks, field)?], is_tuple: false });
        }
        Ok(GivenKeys { columns: vec![Given::of(name, given, nan)?], is_tuple: false })
    }

    /// The columns as keys.
    pub(crate) fn keys(&self) -> PyResult<Keys> {
        Keys::new(self.columns.iter().map(|given| given.column.clone()).collect())
            .map_err(|error| crate::error::Failure::from(error).into())
    }

    /// Whether results are Arrow's.
    pub(crate) fn is_arrow(&self) -> bool {
        self.columns.first().is_some_and(|given| matches!(given.origin, Origin::Arrow(_)))
    }
}

impl<'py> Given<'py> {
    /// Of one column.
    pub(crate) fn of(name: &str, given: &Bound<'py, PyAny>, nan: Nan) -> PyResult<Self> {
        if let Ok(array) = given.cast::<PyUntypedArray>() {
            return Given::of_numpy(name, array, nan);
        }
        // pandas, where values lie in an array of NumPy.
        if given.getattr_opt("dtype")?.is_some_and(|dtype| dtype.is_instance_of::<PyArrayDescr>())
            && given.hasattr("to_numpy")?
        {
            return Given::of_numpy(name, given.call_method0("to_numpy")?.cast()?, nan);
        }
        if let Some((chunks, field)) = arrow(given)? {
            if let DataType::Struct(_) = field.data_type() {
                let text = format!("{name} is a table or a struct where a column is needed: give one of its columns");
                return Err(PyTypeError::new_err(text));
            }
            return Given::of_chunks(name, chunks, field);
        }
        let module = given.get_type().module()?.to_string();
        if module.starts_with("pandas.") {
            let (chunks, field) = through_pyarrow(name, given)?;
            return Given::of_chunks(name, chunks, field);
        }
        let array = given.py().import("numpy")?.call_method1("asarray", (given,))?;
        Given::of_numpy(name, array.cast()?, nan)
    }

    fn of_chunks(name: &str, chunks: Vec<ArrayRef>, field: FieldRef) -> PyResult<Self> {
        let column = Column::of_chunks(name, field.data_type(), chunks);
        let column = column.map_err(|error| PyErr::from(crate::error::Failure::from(error)))?;
        Ok(Given { column, origin: Origin::Arrow(field) })
    }

    fn of_numpy(name: &str, array: &Bound<'py, PyUntypedArray>, nan: Nan) -> PyResult<Self> {
        let py = array.py();
        if array.ndim() != 1 {
            let text = format!(
                "{name} has {} dimensions and columns have one: give a.ravel(), or a tuple of columns",
                array.ndim()
            );
            return Err(PyValueError::new_err(text));
        }
        static MASKED: PyOnceLock<Py<PyType>> = PyOnceLock::new();
        if array.is_instance(MASKED.import(py, "numpy.ma", "MaskedArray")?)? {
            let text = format!(
                "{name} is a masked array, whose mask would be passed over: give a.filled(..), or an Arrow column with nulls"
            );
            return Err(PyTypeError::new_err(text));
        }
        let dtype = array.dtype();
        if dtype.is_native_byteorder() == Some(false) {
            let text = format!("{name} is big-endian: give a.astype(a.dtype.newbyteorder(\"=\"))");
            return Err(PyTypeError::new_err(text));
        }
        let origin = Origin::Numpy(array.clone());
        let array = if array.is_c_contiguous() && array.is_aligned() {
            array.clone()
        } else {
            array.call_method0("copy")?.cast_into()?
        };
        let refused = || {
            let text = format!(
                "{name} has dtype {dtype}: koel takes integers, floats of up to 64 bits, bool, datetime64, timedelta64 and text"
            );
            PyTypeError::new_err(text)
        };
        let column: ArrayRef = match (dtype.kind(), dtype.itemsize()) {
            (b'i', 1) => of_words::<Int8Type>(&array)?,
            (b'i', 2) => of_words::<Int16Type>(&array)?,
            (b'i', 4) => of_words::<Int32Type>(&array)?,
            (b'i', 8) => of_words::<Int64Type>(&array)?,
            (b'u', 1) => of_words::<UInt8Type>(&array)?,
            (b'u', 2) => of_words::<UInt16Type>(&array)?,
            (b'u', 4) => of_words::<UInt32Type>(&array)?,
            (b'u', 8) => of_words::<UInt64Type>(&array)?,
            (b'f', 2) => of_floats::<Float16Type>(&array, nan, |value| value.is_nan())?,
            (b'f', 4) => of_floats::<Float32Type>(&array, nan, |value| value.is_nan())?,
            (b'f', 8) => of_floats::<Float64Type>(&array, nan, |value| value.is_nan())?,
            (b'b', 1) => {
                let bytes = words::<UInt8Type>(&array)?;
                Arc::new(BooleanArray::new(BooleanBuffer::collect_bool(bytes.len(), |i| bytes[i] != 0), None))
            }
            (b'M' | b'm', 8) => of_times(name, &array)?,
            (b'O' | b'U' | b'S' | b'T', _) => {
                let (chunks, field) = through_pyarrow(name, &array)?;
                let column = Given::of_chunks(name, chunks, field)?.column;
                return Ok(Given { column, origin });
            }
            _ => return Err(refused()),
        };
        Ok(Given { column: Column::new(name, column), origin })
    }
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

/// The chunks of an object with Arrow's PyCapsule interface.
fn arrow(given: &Bound<'_, PyAny>) -> PyResult<Option<(Vec<ArrayRef>, FieldRef)>> {
    // pandas has the interface for columns that lie in arrays of NumPy as well, which it would copy.
    let is_numpy = given.getattr_opt("dtype")?.is_some_and(|dtype| dtype.is_instance_of::<PyArrayDescr>());
    if is_numpy || !(given.hasattr("__arrow_c_array__")? || given.hasattr("__arrow_c_stream__")?) {
        return Ok(None);
    }
    let chunked: PyChunkedArray = given.extract::<AnyArray>()?.into_chunked_array().map_err(PyErr::from)?;
    Ok(Some(chunked.into_inner()))
}

/// Text, and what else NumPy and pandas hold as objects: pyarrow knows what it is.
fn through_pyarrow(name: &str, given: &Bound<'_, PyAny>) -> PyResult<(Vec<ArrayRef>, FieldRef)> {
    let pyarrow = given.py().import("pyarrow").map_err(|_| {
        let text = format!("{name} holds text or objects, which koel reads as Arrow columns: install pyarrow, or give one of polars or DuckDB");
        PyTypeError::new_err(text)
    })?;
    let keywords = pyo3::types::PyDict::new(given.py());
    keywords.set_item("from_pandas", true)?;
    let array = pyarrow.call_method("array", (given,), Some(&keywords))?;
    arrow(&array)?.ok_or_else(|| {
        PyTypeError::new_err(format!("{name}: this pyarrow has no PyCapsule interface: install 14 or later"))
    })
}

fn of_words<T: ArrowPrimitiveType>(array: &Bound<'_, PyUntypedArray>) -> PyResult<ArrayRef>
where
    T::Native: Element,
{
    Ok(Arc::new(PrimitiveArray::<T>::new(words::<T>(array)?, None)))
}

fn of_floats<T: ArrowPrimitiveType>(
    array: &Bound<'_, PyUntypedArray>,
    nan: Nan,
    is_nan: impl Fn(T::Native) -> bool,
) -> PyResult<ArrayRef>
where
    T::Native: Element,
{
    let words = words::<T>(array)?;
    let nulls = if nan == Nan::Missing { nulls(&words, is_nan) } else { None };
    Ok(Arc::new(PrimitiveArray::<T>::new(words, nulls)))
}

/// Nulls where values are missing; none if none are.
fn nulls<T: Copy>(words: &[T], is_missing: impl Fn(T) -> bool) -> Option<NullBuffer> {
    let any = words.iter().any(|&word| is_missing(word));
    any.then(|| NullBuffer::new(BooleanBuffer::collect_bool(words.len(), |i| !is_missing(words[i]))))
}

/// Moments and spans of time, of the units that Arrow has too.
fn of_times(name: &str, array: &Bound<'_, PyUntypedArray>) -> PyResult<ArrayRef> {
    let dtype = array.dtype();
    let (unit, step): (String, i64) =
        array.py().import("numpy")?.call_method1("datetime_data", (&dtype,))?.extract()?;
    let kind = if dtype.kind() == b'M' { "datetime64" } else { "timedelta64" };
    let (array, unit) = match (unit.as_str(), step) {
        ("s" | "ms" | "us" | "ns", 1) => (array.clone(), unit),
        // Coarser than a second, and so a whole number of them; months and years of calendars only where they are moments.
        ("W" | "D" | "h" | "m" | "s", _) => (as_type(array, &format!("{kind}[s]"))?, "s".into()),
        ("Y" | "M", _) if kind == "datetime64" => (as_type(array, "datetime64[s]")?, "s".into()),
        _ => {
            let text = format!(
                "{name} has dtype {dtype}: give a.astype(\"{kind}[ns]\"), or another unit from seconds to nanoseconds"
            );
            return Err(PyTypeError::new_err(text));
        }
    };
    macro_rules! of_unit {
        ($type:ty) => {{
            let words = words::<$type>(&array)?;
            let nulls = nulls(&words, |word| word == i64::MIN);
            Ok(Arc::new(PrimitiveArray::<$type>::new(words, nulls)))
        }};
    }
    match (kind, unit.as_str()) {
        ("datetime64", "s") => of_unit!(TimestampSecondType),
        ("datetime64", "ms") => of_unit!(TimestampMillisecondType),
        ("datetime64", "us") => of_unit!(TimestampMicrosecondType),
        ("datetime64", _) => of_unit!(TimestampNanosecondType),
        (_, "s") => of_unit!(DurationSecondType),
        (_, "ms") => of_unit!(DurationMillisecondType),
        (_, "us") => of_unit!(DurationMicrosecondType),
        _ => of_unit!(DurationNanosecondType),
    }
}

fn as_type<'py>(array: &Bound<'py, PyUntypedArray>, dtype: &str) -> PyResult<Bound<'py, PyUntypedArray>> {
    Ok(array.call_method1("astype", (dtype,))?.cast_into()?)
}

/// Keeps an array of NumPy while Arrow reads its memory.
struct Owner {
    _array: AssertUnwindSafe<Py<PyAny>>,
}

/// The memory of a contiguous, aligned array, as words of this type.
fn words<T: ArrowPrimitiveType>(array: &Bound<'_, PyUntypedArray>) -> PyResult<ScalarBuffer<T::Native>>
where
    T::Native: Element,
{
    // Flags and moments are words by another name.
    let array = match array.dtype().is_equiv_to(&PyArrayDescr::of::<T::Native>(array.py())) {
        true => array.clone().into_any(),
        false => array.call_method1("view", (PyArrayDescr::of::<T::Native>(array.py()),))?,
    };
    let array = array.cast_into::<PyArray1<T::Native>>()?;
    let (start, len) = (array.data().cast::<u8>(), array.len());
    let Some(start) = NonNull::new(start).filter(|_| len > 0) else { return Ok(ScalarBuffer::default()) };
    let owner = Arc::new(Owner { _array: AssertUnwindSafe(array.into_any().unbind()) });
    // SAFETY: the array is contiguous, so its items lie from `start` on; NumPy does not move or free them while it has an owner.
    #[expect(unsafe_code, reason = "reads where the array lies, without a copy")]
    let buffer = unsafe { Buffer::from_custom_allocation(start, len * size_of::<T::Native>(), owner) };
    Ok(ScalarBuffer::new(buffer, 0, len))
}

/// A field of a column that has a name and nothing else to tell.
pub(crate) fn field(name: &str, data_type: &DataType) -> FieldRef {
    Arc::new(Field::new(name, data_type.clone(), true))
}
