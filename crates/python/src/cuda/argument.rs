//! CUDA arrays as arguments.

use koel::opencl::cuda::Cuda;
use numpy::PyUntypedArray;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict};

use super::dlpack::{self, CUDA, CUDA_MANAGED, INT, UINT};
use crate::error::Result;
use crate::tables::Type;

/// A column of integers in CUDA memory.
pub(crate) struct GpuColumn {
    pub(crate) name: String,
    pub(crate) of: Type,
    pub(crate) len: usize,
    pub(super) address: u64,
    /// Bytes from one item to the next.
    pub(super) stride: usize,
    /// The number of the device, if the protocol has it.
    ordinal: Option<i32>,
}

impl GpuColumn {
    /// CUDA's number of its device.
    pub(crate) fn ordinal(&self) -> Result<i32> {
        match self.ordinal {
            Some(ordinal) => Ok(ordinal),
            None => Ok(Cuda::device_of(self.address)?),
        }
    }
}

/// An argument in CUDA memory, with what keeps that memory; `None` of any other argument.
///
/// # Errors
/// TypeError or ValueError if it is not a column of integers, and what its `__dlpack__` raises.
pub(crate) fn column<'py>(name: &str, given: &Bound<'py, PyAny>) -> PyResult<Option<(GpuColumn, Bound<'py, PyAny>)>> {
    if given.cast::<PyUntypedArray>().is_ok() {
        return Ok(None);
    }
    if let Some(device) = given.getattr_opt("__dlpack_device__")?
        && given.hasattr("__dlpack__")?
        // Some versions of pyarrow crash in `__dlpack_device__` of an array of nulls.
        && !given.hasattr("__arrow_c_array__")?
    {
        let (kind, _): (i32, i32) = device.call0()?.extract()?;
        return if matches!(kind, CUDA | CUDA_MANAGED) { by_dlpack(name, given).map(Some) } else { Ok(None) };
    }
    match given.getattr_opt("__cuda_array_interface__")? {
        Some(interface) => by_interface(name, &interface).map(|column| Some((column, given.clone()))),
        None => Ok(None),
    }
}

fn by_dlpack<'py>(name: &str, given: &Bound<'py, PyAny>) -> PyResult<(GpuColumn, Bound<'py, PyAny>)> {
    // 1 is CUDA's legacy default stream, which the producer makes wait for its work.
    let stream = [("stream", 1)].into_py_dict(given.py())?;
    let capsule = given.call_method("__dlpack__", (), Some(&stream))?;
    let array = dlpack::read(name, &capsule)?;
    if !matches!(array.device.kind, CUDA | CUDA_MANAGED) {
        let kind = array.device.kind;
        let text = format!("{name} has a __dlpack_device__ of CUDA and an array of device type {kind}: give a copy");
        return Err(PyTypeError::new_err(text));
    }
    let letter = match (array.dtype.code, array.dtype.lanes) {
        (INT, 1) => 'i',
        (UINT, 1) => 'u',
        _ => '?',
    };
    let of = of_integers(name, letter, array.dtype.bits.into())?;
    let len = one_dimension(name, &array.shape)?;
    let item = of.bytes();
    let stride = array.strides.map(|strides| strides[0].saturating_mul(item as i64));
    let stride = checked_stride(name, stride, len, item)?;
    let (name, ordinal) = (name.into(), Some(array.device.ordinal));
    Ok((GpuColumn { name, of, len, address: array.address, stride, ordinal }, capsule))
}

fn by_interface(name: &str, interface: &Bound<'_, PyAny>) -> PyResult<GpuColumn> {
    let interface: &Bound<'_, PyDict> = interface.cast()?;
    let missing = |key: &str| PyTypeError::new_err(format!("{name}: its __cuda_array_interface__ has no {key}"));
    let item = |key: &str| interface.get_item(key)?.ok_or_else(|| missing(key));
    let typestr: String = item("typestr")?.extract()?;
    let mut letters = typestr.chars();
    let (order, letter) = (letters.next(), letters.next().unwrap_or('?'));
    let bytes: u32 = letters.as_str().parse().unwrap_or(0);
    if order == Some('>') {
        return Err(PyTypeError::new_err(format!("{name} is big-endian: give a little-endian copy")));
    }
    if interface.get_item("mask")?.is_some_and(|mask| !mask.is_none()) {
        return Err(PyTypeError::new_err(format!(
            "{name} has a mask, which would be ignored: fill or drop missing values"
        )));
    }
    let of = of_integers(name, letter, bytes.saturating_mul(8))?;
    let len = one_dimension(name, &item("shape")?.extract::<Vec<i64>>()?)?;
    let strides: Option<Vec<i64>> = match interface.get_item("strides")? {
        Some(strides) if !strides.is_none() => Some(strides.extract()?),
        _ => None,
    };
    let stride = strides.map(|strides| strides.first().copied().ok_or_else(|| missing("stride"))).transpose()?;
    let stride = checked_stride(name, stride, len, of.bytes())?;
    let (address, _): (u64, bool) = item("data")?.extract()?;
    // The address determines the device, and an empty array has none.
    let ordinal = if len == 0 { Some(0) } else { None };
    Ok(GpuColumn { name: name.into(), of, len, address, stride, ordinal })
}

fn of_integers(name: &str, letter: char, bits: u32) -> PyResult<Type> {
    match (letter, bits) {
        ('i' | 'u', 32 | 64) => Ok(Type { bits, is_signed: letter == 'i' }),
        ('i' | 'u', _) => Err(PyTypeError::new_err(format!(
            "{name} has integers of {bits} bits in the memory of a GPU: give {name} as int32 or int64"
        ))),
        _ => Err(PyTypeError::new_err(format!(
            "{name} is in the memory of a GPU (CUDA), where koel takes int32, int64, uint32 and uint64: give integers, or a \
             copy in main memory, such as tensor.cpu()"
        ))),
    }
}

fn one_dimension(name: &str, shape: &[i64]) -> PyResult<usize> {
    let &[len] = shape else {
        let text = format!("{name} has {} dimensions and columns have one: give {name}.ravel()", shape.len());
        return Err(PyValueError::new_err(text));
    };
    match u32::try_from(len) {
        Ok(len) if len < u32::MAX => Ok(len as usize),
        _ => Err(PyValueError::new_err(format!(
            "{name} has {len} rows, and a call takes up to 2^32 - 2: give it in parts"
        ))),
    }
}

fn checked_stride(name: &str, stride: Option<i64>, len: usize, item: usize) -> PyResult<usize> {
    match stride {
        None => Ok(item),
        Some(_) if len <= 1 => Ok(item),
        Some(stride) => match usize::try_from(stride) {
            Ok(stride) if stride >= item => Ok(stride),
            _ => {
                let text =
                    format!("{name} has a stride of {stride} bytes in the memory of a GPU: give a contiguous copy");
                Err(PyValueError::new_err(text))
            }
        },
    }
}
