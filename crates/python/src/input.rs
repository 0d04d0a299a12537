//! What a caller gives, as Arrow columns.
//!
//! ```text
//! tuple                        its items, each a column: keys of several columns
//! NumPy array                  where it lies, if it is contiguous; else a copy; text of fixed width as text (text.rs)
//! pandas, with a NumPy dtype   its array
//! Arrow (PyCapsule)            where it lies: polars, pyarrow, DuckDB, pandas with pyarrow types; a table is its columns
//! objects, nullable pandas     through pyarrow, if it is installed; objects of one type alone (text.rs)
//! anything else                numpy.asarray
//! ```
//!
//! Arrays are read while the interpreter's lock is let go, as NumPy's own functions do: whoever writes to one meanwhile gets an
//! answer that means nothing, or an error.

use std::panic::AssertUnwindSafe;
use std::ptr::NonNull;
use std::sync::Arc;

use arrow_array::types::*;
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, BooleanArray, PrimitiveArray, StructArray, new_null_array};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};
use arrow_schema::{DataType, FieldRef};
use koel_arrow::{Column, Keys};
use numpy::{
    Element, PyArray1, PyArrayDescr, PyArrayDescrMethods, PyArrayMethods, PyUntypedArray, PyUntypedArrayMethods,
};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyString, PyTuple, PyType};
use pyo3_arrow::PyChunkedArray;
use pyo3_arrow::input::AnyArray;

use crate::error::Failure;
use crate::text::{self, Kind};

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
        // To Arrow a frame of pandas may have its index as a column more.
        if is_of_pandas(given)? && given.hasattr("columns")? {
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
            if let DataType::Struct(_) = field.data_type() {
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

    /// Of each column whether it is Arrow's.
    pub(crate) fn form(&self) -> Vec<bool> {
        self.columns.iter().map(|given| matches!(given.origin, Origin::Arrow(_))).collect()
    }

    /// Whether numbers of rows are Arrow's: where all columns are.
    pub(crate) fn is_arrow(&self) -> bool {
        self.form().into_iter().all(|is_arrow| is_arrow)
    }
}

/// Gives columns that have no values the types of those that they are compared with: an empty list is no list of floats.
pub(crate) fn agree(left: &mut GivenKeys<'_>, right: &mut GivenKeys<'_>) -> PyResult<()> {
    fn follow(column: &mut Column, other: &DataType) -> PyResult<()> {
        if column.data_type() == other || !(column.is_empty() || *column.data_type() == DataType::Null) {
            return Ok(());
        }
        let chunk = new_null_array(other, column.len());
        *column = Column::of_chunks(column.name(), other, vec![chunk]).map_err(Failure::from)?;
        Ok(())
    }
    for (left, right) in left.columns.iter_mut().zip(&mut right.columns) {
        follow(&mut left.column, right.column.data_type())?;
        follow(&mut right.column, left.column.data_type())?;
    }
    Ok(())
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
        if let Some((chunks, field)) = arrow(name, given)? {
            if let DataType::Struct(_) = field.data_type() {
                let text = format!("{name} is a table or a struct where a column is needed: give one of its columns");
                return Err(PyTypeError::new_err(text));
            }
            return Given::of_chunks(name, chunks, field);
        }
        if is_of_pandas(given)? {
            let (chunks, field) = through_pyarrow(name, given)?;
            return Given::of_chunks(name, chunks, field);
        }
        if given.is_none()
            || given.is_instance_of::<PyString>()
            || given.is_instance_of::<PyBytes>()
            || !given.hasattr("__len__")?
        {
            let text = format!(
                "{name} is a {} and no column: give an array, a list, or an Arrow column",
                given.get_type().name()?
            );
            return Err(PyTypeError::new_err(text));
        }
        let array = given.py().import("numpy")?.call_method1("asarray", (given,))?;
        Given::of_numpy(name, array.cast()?, nan)
    }

    fn of_chunks(name: &str, chunks: Vec<ArrayRef>, field: FieldRef) -> PyResult<Self> {
        let column = Column::of_chunks(name, field.data_type(), chunks);
        let column = column.map_err(Failure::from)?;
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
        refuse_masked(name, array)?;
        let dtype = array.dtype();
        if dtype.is_native_byteorder() == Some(false) {
            let text = format!("{name} is big-endian: give a.astype(a.dtype.newbyteorder(\"=\"))");
            return Err(PyTypeError::new_err(text));
        }
        // A longer one is refused anyway, and need not be copied before.
        if array.len() > u32::MAX as usize {
            let (asked, most) = (array.len() as u64, u64::from(u32::MAX) - 1);
            return Err(Failure::Koel(koel::Error::TooLarge {
                what: "rows of a table (give it in parts)",
                asked,
                most,
            })
            .into());
        }
        let origin = Origin::Numpy(array.clone());
        // Methods of a subclass may do anything.
        let base: Bound<'py, PyUntypedArray> = py.import("numpy")?.call_method1("asarray", (array,))?.cast_into()?;
        let array =
            if base.is_c_contiguous() && base.is_aligned() { base } else { base.call_method0("copy")?.cast_into()? };
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
            (b'U', width) => text::of_letters(name, &words_of_items::<UInt32Type>(&array, width / 4)?, width / 4)?,
            (b'S', width) => text::of_bytes(&words_of_items::<UInt8Type>(&array, width)?, width),
            (b'O' | b'T', _) => match text::kind(name, &array)? {
                Kind::Pandas(series) => return Ok(Given { column: Given::of(name, &series, nan)?.column, origin }),
                Kind::Arrow => {
                    let (chunks, field) = through_pyarrow(name, &array)?;
                    let column = Given::of_chunks(name, chunks, field)?.column;
                    return Ok(Given { column, origin });
                }
            },
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

/// Refuses arrays of which a mask says that some values are not there.
pub(crate) fn refuse_masked(name: &str, array: &Bound<'_, PyAny>) -> PyResult<()> {
    static MASKED: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    if !array.is_instance(MASKED.import(array.py(), "numpy.ma", "MaskedArray")?)? {
        return Ok(());
    }
    let advice = "whose mask would be passed over: give a.filled(..), or an Arrow column with nulls";
    Err(PyTypeError::new_err(format!("{name} is a masked array, {advice}")))
}

pub(crate) fn is_of_pandas(given: &Bound<'_, PyAny>) -> PyResult<bool> {
    let module = given.get_type().module()?;
    // Since pandas 3 its public classes say that they are of `pandas`.
    Ok(module == "pandas" || module.to_str()?.starts_with("pandas."))
}

/// The chunks of an object with Arrow's PyCapsule interface.
fn arrow(name: &str, given: &Bound<'_, PyAny>) -> PyResult<Option<(Vec<ArrayRef>, FieldRef)>> {
    // pandas has the interface for columns that lie in arrays of NumPy as well, which it would copy.
    let is_numpy = given.getattr_opt("dtype")?.is_some_and(|dtype| dtype.is_instance_of::<PyArrayDescr>());
    if is_numpy || !(given.hasattr("__arrow_c_array__")? || given.hasattr("__arrow_c_stream__")?) {
        return Ok(None);
    }
    // To Arrow its objects are their addresses.
    if given.getattr_opt("dtype")?.is_some_and(|dtype| dtype.to_string() == "Object") {
        return Err(PyTypeError::new_err(format!("{name} holds Python objects: give a column of one type")));
    }
    let read = given.extract::<AnyArray>().and_then(|array| Ok(array.into_chunked_array()?));
    let chunked: PyChunkedArray = read.map_err(|error| {
        PyTypeError::new_err(format!("{name} cannot be read as an Arrow column ({error}): cast it to another type"))
    })?;
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
    let array = pyarrow.call_method("array", (given,), Some(&keywords)).map_err(|error| {
        PyTypeError::new_err(format!("{name} is no column to pyarrow ({error}): give values of one type"))
    })?;
    arrow(name, &array)?.ok_or_else(|| {
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
        ("W", _) => (seconds(name, array, 604_800 * step, kind)?, "s".into()),
        ("D", _) => (seconds(name, array, 86_400 * step, kind)?, "s".into()),
        ("h", _) => (seconds(name, array, 3_600 * step, kind)?, "s".into()),
        ("m", _) => (seconds(name, array, 60 * step, kind)?, "s".into()),
        ("s", _) => (seconds(name, array, step, kind)?, "s".into()),
        ("M", _) if kind == "datetime64" => (seconds(name, array, 31 * 86_400 * step, kind)?, "s".into()),
        ("Y", _) if kind == "datetime64" => (seconds(name, array, 366 * 86_400 * step, kind)?, "s".into()),
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

/// Moments or spans in seconds, of a unit that has at most `most` of them: NumPy does not tell where they do not fit.
fn seconds<'py>(
    name: &str,
    array: &Bound<'py, PyUntypedArray>,
    most: i64,
    kind: &str,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let words = words::<Int64Type>(array)?;
    if words.iter().any(|&word| word != i64::MIN && word.checked_mul(most).is_none()) {
        return Err(PyValueError::new_err(format!("{name} has dates that are no 64-bit number of seconds from 1970")));
    }
    Ok(array.call_method1("astype", (format!("{kind}[s]"),))?.cast_into()?)
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
    if !(array.is_c_contiguous() && array.is_aligned()) {
        return Err(PyValueError::new_err("NumPy gave an array that is not contiguous where one was asked for"));
    }
    let (start, len) = (array.data().cast::<u8>(), array.len());
    let Some(start) = NonNull::new(start).filter(|_| len > 0) else { return Ok(ScalarBuffer::default()) };
    let owner = Arc::new(Owner { _array: AssertUnwindSafe(array.into_any().unbind()) });
    // SAFETY: the array is contiguous, so its items lie from `start` on; NumPy does not move or free them while it has an owner.
    #[expect(unsafe_code, reason = "reads where the array lies, without a copy")]
    let buffer = unsafe { Buffer::from_custom_allocation(start, len * size_of::<T::Native>(), owner) };
    Ok(ScalarBuffer::new(buffer, 0, len))
}

/// The memory of items that consist of so many words each.
fn words_of_items<T: ArrowPrimitiveType>(
    array: &Bound<'_, PyUntypedArray>,
    width: usize,
) -> PyResult<ScalarBuffer<T::Native>>
where
    T::Native: Element,
{
    if width == 0 || array.is_empty() {
        return Ok(ScalarBuffer::default());
    }
    let view = array.call_method1("view", (PyArrayDescr::of::<T::Native>(array.py()),))?;
    words::<T>(&view.cast_into()?)
}
