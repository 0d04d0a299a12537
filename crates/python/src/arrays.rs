//! Reads NumPy arrays, and other arrays in main memory, as Arrow arrays, without a copy where possible.

use std::panic::AssertUnwindSafe;
use std::ptr::NonNull;
use std::sync::Arc;

use arrow_array::types::*;
use arrow_array::{ArrayRef, ArrowPrimitiveType, BooleanArray, PrimitiveArray};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};
use koel_arrow::written_bits;
use numpy::{
    Element, PyArray1, PyArrayDescr, PyArrayDescrMethods, PyArrayMethods, PyUntypedArray, PyUntypedArrayMethods,
};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyMemoryView, PyString, PyType};
use rayon::prelude::*;

use crate::error::Failure;
use crate::input::Nan;
use crate::memory;
use crate::run::{CHUNK, detached};
use crate::text;

/// Arrays of up to this length are searched for missing values on the calling thread.
const SERIAL_LEN: usize = 1 << 17;

/// Converts an array in main memory to a NumPy array: NumPy arrays, buffers, and tensors on the CPU. Returns `None` for
/// other objects.
///
/// # Errors
/// TypeError for arrays in GPU memory, for PyOpenCL arrays, and if the library of the array refuses the conversion.
pub(crate) fn array<'py>(name: &str, given: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyUntypedArray>>> {
    if let Ok(array) = given.cast::<PyUntypedArray>() {
        return Ok(Some(array.clone()));
    }
    if given.is_instance_of::<PyString>() || given.is_instance_of::<PyBytes>() {
        return Ok(None);
    }
    // NumPy would read a PyOpenCL array item by item.
    if given.get_type().module().is_ok_and(|module| module == "pyopencl.array") {
        let text = format!("{name} is a PyOpenCL array, whose context koel cannot use: pass {name}.get()");
        return Err(PyTypeError::new_err(text));
    }
    let dlpack = given.getattr_opt("__dlpack_device__")?;
    let device = dlpack.map(|device| device.call0()?.extract::<(i32, i32)>()).transpose()?.map(|(device, _)| device);
    let gpu = match device {
        _ if given.hasattr("__cuda_array_interface__")? => Some("CUDA"),
        // Main memory: of the CPU, or pinned for CUDA or ROCm.
        None | Some(1 | 3 | 11) => None,
        Some(2 | 13) => Some("CUDA"),
        Some(8) => Some("Metal"),
        Some(10) => Some("ROCm"),
        Some(14) => Some("oneAPI"),
        Some(_) => Some("DLPack"),
    };
    if let Some(gpu) = gpu {
        let what = given.get_type();
        let advice = "pass a copy in main memory, such as tensor.cpu() or cupy.asnumpy(array)";
        let text = format!("{name} is a {} in the memory of a GPU ({gpu}): {advice}", what.name()?);
        return Err(PyTypeError::new_err(text));
    }
    let function =
        if given.hasattr("__array__")? || given.hasattr("__array_interface__")? || PyMemoryView::from(given).is_ok() {
            "asarray"
        } else if device.is_some() && given.hasattr("__dlpack__")? {
            "from_dlpack"
        } else {
            return Ok(None);
        };
    let array = given.py().import("numpy")?.call_method1(function, (given,)).map_err(|error| {
        PyTypeError::new_err(format!("{name} cannot be read as a NumPy array ({error}): pass a NumPy array"))
    })?;
    Ok(Some(array.cast_into()?))
}

/// Returns the array as a contiguous, aligned array of one dimension; a copy if necessary.
pub(crate) fn contiguous<'py>(name: &str, array: &Bound<'py, PyUntypedArray>) -> PyResult<Bound<'py, PyUntypedArray>> {
    if array.ndim() != 1 {
        let text = format!(
            "{name} has {} dimensions, but a column has one: pass {name}.ravel(), or a tuple of columns",
            array.ndim()
        );
        return Err(PyValueError::new_err(text));
    }
    refuse_masked(name, array)?;
    let dtype = array.dtype();
    if dtype.is_native_byteorder() == Some(false) {
        let text = format!("{name} is big-endian: pass {name}.astype({name}.dtype.newbyteorder(\"=\"))");
        return Err(PyTypeError::new_err(text));
    }
    // Longer arrays are rejected later anyway. Rejecting them here avoids a copy.
    if array.len() > u32::MAX as usize {
        let (requested, most) = (array.len() as u64, u64::from(u32::MAX) - 1);
        return Err(Failure::Koel(koel::Error::TooLarge {
            what: "rows of a table (pass it in parts)",
            requested,
            most,
        })
        .into());
    }
    // Subclasses may override methods, so the base class is used.
    let base = array.py().import("numpy")?.call_method1("asarray", (array,))?.cast_into::<PyUntypedArray>()?;
    if base.is_c_contiguous() && base.is_aligned() { Ok(base) } else { Ok(base.call_method0("copy")?.cast_into()?) }
}

/// Reads an array that [`contiguous`] returned, except arrays of objects.
pub(crate) fn values(name: &str, array: &Bound<'_, PyUntypedArray>, nan: Nan) -> PyResult<ArrayRef> {
    let refused = || {
        let text = format!(
            "{name} has dtype {}: koel supports integers, floats of up to 64 bits, bool, datetime64, timedelta64 and text",
            array.dtype()
        );
        PyTypeError::new_err(text)
    };
    if matches!(array.dtype().kind(), b'U' | b'S') {
        // Text is copied.
        memory::check_rows(array.len(), (array.len() * array.dtype().itemsize()) as u64)?;
    }
    Ok(match (array.dtype().kind(), array.dtype().itemsize()) {
        (b'i', 1) => of_words::<Int8Type>(array)?,
        (b'i', 2) => of_words::<Int16Type>(array)?,
        (b'i', 4) => of_words::<Int32Type>(array)?,
        (b'i', 8) => of_words::<Int64Type>(array)?,
        (b'u', 1) => of_words::<UInt8Type>(array)?,
        (b'u', 2) => of_words::<UInt16Type>(array)?,
        (b'u', 4) => of_words::<UInt32Type>(array)?,
        (b'u', 8) => of_words::<UInt64Type>(array)?,
        (b'f', 2) => of_floats::<Float16Type>(array, nan, |value| value.is_nan())?,
        (b'f', 4) => of_floats::<Float32Type>(array, nan, |value| value.is_nan())?,
        (b'f', 8) => of_floats::<Float64Type>(array, nan, |value| value.is_nan())?,
        (b'b', 1) => {
            let bytes = words::<UInt8Type>(array)?;
            Arc::new(BooleanArray::new(BooleanBuffer::collect_bool(bytes.len(), |i| bytes[i] != 0), None))
        }
        (b'M' | b'm', 8) => of_times(name, array)?,
        (b'U', width) => text::of_letters(name, &words_of_items::<UInt32Type>(array, width / 4)?, width / 4)?,
        (b'S', width) => text::of_bytes(&words_of_items::<UInt8Type>(array, width)?, width),
        _ => return Err(refused()),
    })
}

/// Rejects masked arrays.
pub(crate) fn refuse_masked(name: &str, array: &Bound<'_, PyAny>) -> PyResult<()> {
    static MASKED: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    if !array.is_instance(MASKED.import(array.py(), "numpy.ma", "MaskedArray")?)? {
        return Ok(());
    }
    let advice = "pass a.filled(..), or an Arrow column with nulls";
    Err(PyTypeError::new_err(format!("{name} is a masked array, whose mask would be ignored: {advice}")))
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
    is_nan: impl Fn(T::Native) -> bool + Sync,
) -> PyResult<ArrayRef>
where
    T::Native: Element,
{
    let words = words::<T>(array)?;
    let nulls = if nan == Nan::Missing { nulls(array.py(), &words, is_nan)? } else { None };
    Ok(Arc::new(PrimitiveArray::<T>::new(words, nulls)))
}

/// Returns a null for each missing value; `None` if no value is missing. Long arrays are read on all threads.
fn nulls<T: Copy + Sync>(
    py: Python<'_>,
    words: &[T],
    is_missing: impl Fn(T) -> bool + Sync,
) -> PyResult<Option<NullBuffer>> {
    let any = |words: &[T]| words.iter().any(|&word| is_missing(word));
    let is_valid = |row: usize| !is_missing(words[row]);
    if words.len() <= SERIAL_LEN {
        return Ok(any(words).then(|| NullBuffer::new(BooleanBuffer::collect_bool(words.len(), is_valid))));
    }
    detached(py, |_| {
        let any = words.par_chunks(CHUNK).any(any);
        Ok(any.then(|| NullBuffer::new(written_bits(words.len(), is_valid))))
    })
}

/// Reads datetime64 and timedelta64. Units that Arrow lacks are converted to seconds if they are whole seconds.
fn of_times(name: &str, array: &Bound<'_, PyUntypedArray>) -> PyResult<ArrayRef> {
    let dtype = array.dtype();
    let (unit, step): (String, i64) =
        array.py().import("numpy")?.call_method1("datetime_data", (&dtype,))?.extract()?;
    let kind = if dtype.kind() == b'M' { "datetime64" } else { "timedelta64" };
    let (array, unit) = match (unit.as_str(), step) {
        ("s" | "ms" | "us" | "ns", 1) => (array.clone(), unit),
        // Units of one or more whole seconds. Months and years have no fixed length, so only dates convert.
        ("W", _) => (seconds(name, array, 604_800 * step, kind)?, "s".into()),
        ("D", _) => (seconds(name, array, 86_400 * step, kind)?, "s".into()),
        ("h", _) => (seconds(name, array, 3_600 * step, kind)?, "s".into()),
        ("m", _) => (seconds(name, array, 60 * step, kind)?, "s".into()),
        ("s", _) => (seconds(name, array, step, kind)?, "s".into()),
        ("M", _) if kind == "datetime64" => (seconds(name, array, 31 * 86_400 * step, kind)?, "s".into()),
        ("Y", _) if kind == "datetime64" => (seconds(name, array, 366 * 86_400 * step, kind)?, "s".into()),
        _ => {
            let text = format!(
                "{name} has dtype {dtype}: pass {name}.astype(\"{kind}[ns]\"), or another unit from seconds to nanoseconds"
            );
            return Err(PyTypeError::new_err(text));
        }
    };
    macro_rules! of_unit {
        ($type:ty) => {{
            let words = words::<$type>(&array)?;
            let nulls = nulls(array.py(), &words, |word| word == i64::MIN)?;
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

/// Converts times or durations to seconds, from a unit of at most `most` seconds. Checks for overflow, which NumPy does
/// not report.
fn seconds<'py>(
    name: &str,
    array: &Bound<'py, PyUntypedArray>,
    most: i64,
    kind: &str,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let words = words::<Int64Type>(array)?;
    if words.iter().any(|&word| word != i64::MIN && word.checked_mul(most).is_none()) {
        return Err(PyValueError::new_err(format!(
            "{name} has dates that do not fit in a 64-bit number of seconds \
                                                  since 1970"
        )));
    }
    Ok(array.call_method1("astype", (format!("{kind}[s]"),))?.cast_into()?)
}

/// Keeps a NumPy array alive while an Arrow buffer uses its memory.
struct Owner {
    _array: AssertUnwindSafe<Py<PyAny>>,
}

/// Returns the memory of a contiguous, aligned array as values of type `T`, without a copy.
fn words<T: ArrowPrimitiveType>(array: &Bound<'_, PyUntypedArray>) -> PyResult<ScalarBuffer<T::Native>>
where
    T::Native: Element,
{
    // Bools and times have another dtype of the same width.
    let array = match array.dtype().is_equiv_to(&PyArrayDescr::of::<T::Native>(array.py())) {
        true => array.clone().into_any(),
        false => array.call_method1("view", (PyArrayDescr::of::<T::Native>(array.py()),))?,
    };
    let array = array.cast_into::<PyArray1<T::Native>>()?;
    if !(array.is_c_contiguous() && array.is_aligned()) {
        return Err(PyValueError::new_err("NumPy returned an array that is not contiguous"));
    }
    let (start, len) = (array.data().cast::<u8>(), array.len());
    let Some(start) = NonNull::new(start).filter(|_| len > 0) else { return Ok(ScalarBuffer::default()) };
    let owner = Arc::new(Owner { _array: AssertUnwindSafe(array.into_any().unbind()) });
    // SAFETY: the array is contiguous, so its items are stored from `start` on. NumPy does not move or free them while
    // `owner` holds a reference to the array.
    #[expect(unsafe_code, reason = "shares the memory of the array")]
    let buffer = unsafe { Buffer::from_custom_allocation(start, len * size_of::<T::Native>(), owner) };
    Ok(ScalarBuffer::new(buffer, 0, len))
}

/// Returns the memory of an array whose items consist of `width` values of type `T` each.
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
