//! `koel.cuda`: memory pools that let PyTorch and CuPy allocate arrays that koel uses in place.
//!
//! PyTorch finds the C functions below by name in the library of this module. CuPy calls the Python functions.

#![expect(unsafe_code, reason = "functions that PyTorch finds by name")]

use std::ffi::c_void;
use std::panic::catch_unwind;
use std::ptr::null_mut;

use koel::opencl::cuda::Cuda;
use numpy::{PyArrayDescr, PyArrayDescrMethods};
use pyo3::exceptions::{PyImportError, PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use super::array::Dtype;
use super::{Array, published};
use crate::device::{begin_on_gpu, check_on_gpu};
use crate::error::Result;
use crate::run::detached;
use crate::tables::Type;

/// The module `koel.cuda`.
pub(crate) fn module(py: Python<'_>) -> PyResult<Bound<'_, PyModule>> {
    let module = PyModule::new(py, "koel.cuda")?;
    module.setattr("__doc__", "Memory on an NVIDIA GPU for arrays that koel uses without a copy.")?;
    module.add_function(wrap_pyfunction!(empty, &module)?)?;
    module.add_function(wrap_pyfunction!(pool, &module)?)?;
    // For `import koel.cuda`.
    py.import("sys")?.getattr("modules")?.set_item("koel.cuda", &module)?;
    Ok(module)
}

/// Creates a PyTorch or CuPy memory pool that allocates from koel. koel uses arrays from the
/// pool in place; it copies other arrays on the GPU.
///
/// Args:
///     library: "torch", for a `torch.cuda.MemPool` of the current device; or "cupy", for a
///         `cupy.cuda.MemoryPool`.
///
/// Raises:
///     ImportError: if the library is not installed.
///
/// >>> import koel, torch  # doctest: +SKIP
/// >>> pool = koel.cuda.pool("torch")  # doctest: +SKIP
/// >>> with torch.cuda.use_mem_pool(pool):  # doctest: +SKIP
/// ...     keys = torch.arange(1000, device="cuda")
/// >>> torch.from_dlpack(koel.unique(keys))[:3]  # doctest: +SKIP
/// tensor([0, 1, 2], device='cuda:0')
///
/// >>> import cupy  # doctest: +SKIP
/// >>> cupy.cuda.set_allocator(koel.cuda.pool("cupy").malloc)  # doctest: +SKIP
#[pyfunction]
#[pyo3(signature = (library="torch"))]
fn pool<'py>(py: Python<'py>, library: &str) -> PyResult<Bound<'py, PyAny>> {
    // PyTorch does not keep the allocator alive, so it is never dropped.
    static OF_TORCH: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    match library {
        "torch" => {
            let memory = py.import("torch.cuda.memory")?;
            let allocator = OF_TORCH.get_or_try_init(py, || {
                let names = (this_library(py)?, "koel_cuda_malloc", "koel_cuda_free");
                memory.call_method1("CUDAPluggableAllocator", names).map(Bound::unbind)
            })?;
            py.import("torch.cuda")?.call_method1("MemPool", (allocator.bind(py).call_method0("allocator")?,))
        }
        "cupy" => {
            let cupy = py.import("cupy.cuda")?;
            let functions = (wrap_pyfunction!(allocate, py)?, wrap_pyfunction!(free, py)?);
            let allocator = cupy.call_method1("PythonFunctionAllocator", functions)?;
            cupy.call_method1("MemoryPool", (allocator.getattr("malloc")?,))
        }
        _ => Err(PyValueError::new_err(format!("library is {library:?}: pass \"torch\" or \"cupy\""))),
    }
}

/// Allocates an array with unspecified contents. `torch.from_dlpack(array)` and
/// `cupy.from_dlpack(array)` share its memory, so koel uses these in place too.
///
/// Args:
///     shape: a length, or a tuple of lengths.
///     dtype: int64 (the default), int32, uint32, uint64, float32, float64 or bool, in any form
///         that NumPy accepts.
///     device: the number of the CUDA device.
///
/// >>> import koel, torch  # doctest: +SKIP
/// >>> keys = torch.from_dlpack(koel.cuda.empty(3, "int64"))  # doctest: +SKIP
/// >>> keys[:] = torch.tensor([7, 3, 7])  # doctest: +SKIP
/// >>> torch.from_dlpack(koel.unique(keys))  # doctest: +SKIP
/// tensor([3, 7], device='cuda:0')
#[pyfunction]
#[pyo3(signature = (shape, dtype=None, *, device=0))]
fn empty(shape: &Bound<'_, PyAny>, dtype: Option<&Bound<'_, PyAny>>, device: i32) -> PyResult<Array> {
    let py = shape.py();
    let of = dtype.map_or(Ok(INT64), type_of)?;
    let shape = match shape.extract::<usize>() {
        Ok(len) => vec![len],
        Err(_) => shape.extract::<Vec<usize>>()?,
    };
    let bytes = shape.iter().try_fold(of.bytes(), |bytes, &len| bytes.checked_mul(len));
    let bytes = bytes.ok_or_else(|| PyOverflowError::new_err("shape has too many items"))?;
    let mut arrays = detached(py, |_| {
        begin_on_gpu("koel.cuda.empty")?;
        let cuda = Cuda::nth(device)?;
        published(&cuda, vec![Array::shaped(cuda.allocate(bytes)?, shape, of)])
    })?;
    Ok(arrays.remove(0))
}

const INT64: Dtype = Dtype::Integers(Type { bits: 64, is_signed: true });

fn type_of(dtype: &Bound<'_, PyAny>) -> PyResult<Dtype> {
    let dtype = PyArrayDescr::new(dtype.py(), dtype)?;
    match (dtype.kind(), 8 * dtype.itemsize() as u32) {
        (kind @ (b'i' | b'u'), bits @ (32 | 64)) => Ok(Dtype::Integers(Type { bits, is_signed: kind == b'i' })),
        (b'f', bits @ (32 | 64)) => Ok(Dtype::Floats(bits)),
        (b'b', _) => Ok(Dtype::Flags),
        _ => {
            let text = format!("dtype is {dtype}: pass int32, int64, uint32, uint64, float32, float64 or bool");
            Err(PyTypeError::new_err(text))
        }
    }
}

/// Returns the path of the library of this module.
fn this_library(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    let modules = py.import("sys")?.getattr("modules")?;
    // In a wheel, the library is a submodule of the package.
    for name in ["koel.koel", "koel"] {
        let module = modules.call_method1("get", (name,))?;
        if let Some(file) = module.getattr_opt("__file__")?
            && !file.extract::<String>()?.ends_with(".py")
        {
            return Ok(file);
        }
    }
    Err(PyImportError::new_err("the koel module has no __file__: import it from a file"))
}

/// Allocates device memory for CuPy, and returns its address.
#[pyfunction]
fn allocate(py: Python<'_>, bytes: usize, device: i32) -> PyResult<u64> {
    detached(py, |_| lend(bytes, device))
}

/// Frees memory from `allocate`.
#[pyfunction]
fn free(py: Python<'_>, address: u64, device: i32) -> PyResult<()> {
    detached(py, |_| return_lent(address, device))
}

fn lend(bytes: usize, device: i32) -> Result<u64> {
    begin_on_gpu("the pool")?;
    Ok(Cuda::nth(device)?.lend(bytes)?)
}

fn return_lent(address: u64, device: i32) -> Result<()> {
    check_on_gpu("the pool")?;
    Ok(Cuda::nth(device)?.free_lent(address)?)
}

/// Allocates device memory for PyTorch, or returns null. The caller may hold PyTorch's locks and the interpreter lock.
#[unsafe(no_mangle)]
extern "C" fn koel_cuda_malloc(bytes: isize, device: i32, _stream: *mut c_void) -> *mut c_void {
    let address = catch_unwind(|| lend(bytes.max(0) as usize, device).ok()).ok().flatten();
    address.map_or_else(null_mut, |address| address as *mut c_void)
}

/// Frees memory from `koel_cuda_malloc`.
#[unsafe(no_mangle)]
extern "C" fn koel_cuda_free(address: *mut c_void, _bytes: isize, device: i32, _stream: *mut c_void) {
    // PyTorch's interface has no error to return.
    let _ = catch_unwind(|| return_lent(address as u64, device).is_ok());
}
