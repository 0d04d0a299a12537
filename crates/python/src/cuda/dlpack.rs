//! The structures of dlpack.h, in their unversioned form.

#![expect(unsafe_code, reason = "capsules hold pointers")]

use std::ffi::{CStr, c_void};

use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;

/// kDLCUDA and kDLCUDAManaged.
pub(super) const CUDA: i32 = 2;
pub(super) const CUDA_MANAGED: i32 = 13;
/// The codes of `DLDataType`.
pub(super) const INT: u8 = 0;
pub(super) const UINT: u8 = 1;
pub(super) const FLOAT: u8 = 2;
pub(super) const BFLOAT: u8 = 4;
pub(super) const BOOL: u8 = 6;

const NAME: &CStr = c"dltensor";

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct DataType {
    pub(super) code: u8,
    pub(super) bits: u8,
    pub(super) lanes: u16,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Device {
    pub(super) kind: i32,
    pub(super) ordinal: i32,
}

#[repr(C)]
struct Tensor {
    data: *mut c_void,
    device: Device,
    dimensions: i32,
    dtype: DataType,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

#[repr(C)]
struct Managed {
    tensor: Tensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

/// The description of an array in a capsule.
pub(super) struct Described {
    pub(super) address: u64,
    pub(super) device: Device,
    pub(super) dtype: DataType,
    pub(super) shape: Vec<i64>,
    /// In items; `None` if the array is contiguous.
    pub(super) strides: Option<Vec<i64>>,
}

/// Reads a capsule without consuming it: the destructor of the capsule still frees the array.
///
/// # Errors
/// TypeError if the object is not a DLPack capsule, or the capsule was consumed.
pub(super) fn read(name: &str, capsule: &Bound<'_, PyAny>) -> PyResult<Described> {
    let refused = |what: &str| {
        PyTypeError::new_err(format!(
            "{name}: its __dlpack__ returned {what}: pass another array, or a copy in main memory"
        ))
    };
    // SAFETY: the function accepts any object.
    if unsafe { ffi::PyCapsule_IsValid(capsule.as_ptr(), NAME.as_ptr()) } == 0 {
        return Err(refused("an object that is not an unused DLPack capsule"));
    }
    // SAFETY: the capsule is valid and has this name.
    let managed = unsafe { ffi::PyCapsule_GetPointer(capsule.as_ptr(), NAME.as_ptr()) }.cast::<Managed>();
    // SAFETY: DLPack guarantees that an unused capsule with this name contains this structure.
    let tensor = unsafe { &(*managed).tensor };
    let dimensions = usize::try_from(tensor.dimensions).map_err(|_| refused("an array of less than 0 dimensions"))?;
    if dimensions > 0 && tensor.shape.is_null() {
        return Err(refused("an array without a shape"));
    }
    let numbers = |of: *const i64| match dimensions {
        0 => Vec::new(),
        // SAFETY: shape and strides have one item per dimension.
        _ => unsafe { std::slice::from_raw_parts(of, dimensions) }.to_vec(),
    };
    Ok(Described {
        address: (tensor.data as u64).wrapping_add(tensor.byte_offset),
        device: tensor.device,
        dtype: tensor.dtype,
        shape: numbers(tensor.shape),
        strides: (!tensor.strides.is_null()).then(|| numbers(tensor.strides)),
    })
}

/// The data that an exported array needs until its consumer deletes it.
struct Kept<T> {
    _owner: T,
    shape: Vec<i64>,
    strides: Vec<i64>,
}

/// Returns a capsule of a contiguous array. `owner` keeps its memory alive.
pub(super) fn capsule<'py, T: Send + 'static>(
    py: Python<'py>,
    owner: T,
    (address, shape): (u64, &[usize]),
    device: Device,
    dtype: DataType,
) -> PyResult<Bound<'py, PyAny>> {
    let strides = (0..shape.len()).map(|i| shape[i + 1..].iter().product::<usize>() as i64).collect();
    let shape: Vec<i64> = shape.iter().map(|&len| len as i64).collect();
    let mut kept = Box::new(Kept { _owner: owner, shape, strides });
    let (dimensions, shape, strides) = (kept.shape.len() as i32, kept.shape.as_mut_ptr(), kept.strides.as_mut_ptr());
    let kept = Box::into_raw(kept);
    let tensor = Tensor { data: address as *mut c_void, device, dimensions, dtype, shape, strides, byte_offset: 0 };
    let managed = Box::into_raw(Box::new(Managed { tensor, context: kept.cast(), deleter: Some(delete::<T>) }));
    // SAFETY: the name is static, and the destructor expects this pointer.
    let object = unsafe { ffi::PyCapsule_New(managed.cast(), NAME.as_ptr(), Some(forget)) };
    // SAFETY: `object` is a new reference, or null with an exception set.
    unsafe { Bound::from_owned_ptr_or_err(py, object) }.inspect_err(|_| {
        // SAFETY: the structure was not passed to a consumer.
        unsafe { delete::<T>(managed) }
    })
}

unsafe extern "C" fn delete<T>(managed: *mut Managed) {
    // SAFETY: `capsule` created both boxes, and DLPack calls the deleter once.
    unsafe {
        let managed = Box::from_raw(managed);
        drop(Box::from_raw(managed.context.cast::<Kept<T>>()));
    }
}

/// The destructor of a capsule: frees the array unless a consumer took it.
unsafe extern "C" fn forget(capsule: *mut ffi::PyObject) {
    // SAFETY: `capsule` created the object. A consumer that takes the array renames the capsule, and calls the deleter.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, NAME.as_ptr()) == 0 {
            return;
        }
        let managed = ffi::PyCapsule_GetPointer(capsule, NAME.as_ptr()).cast::<Managed>();
        if let Some(deleter) = (*managed).deleter {
            deleter(managed);
        }
    }
}

/// The error for an export that is not supported.
pub(super) fn refuse(what: &str) -> PyErr {
    PyBufferError::new_err(what.to_owned())
}
