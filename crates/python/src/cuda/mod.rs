//! Arrays in CUDA memory, of PyTorch, CuPy, JAX and Numba.
//!
//! ```text
//! argument.rs   arguments, through DLPack or __cuda_array_interface__     dlpack.rs    the structures of DLPack
//! array.rs      koel.Array: results that stay on the GPU
//! keys.rs       conversions between keys and words, on the device         isin.rs      koel.isin
//! columns.rs    unique, factorize, get_indexer                            voxels.rs    voxelize, neighbours
//! join.rs       join, Index                                               tuples.rs    keys of several columns
//! groups.rs     group_by                            rows_of_groups.rs    first, last and nunique in group_by
//! pool.rs       koel.cuda: memory for PyTorch and CuPy
//! ```
//!
//! A call first waits for all CUDA work of the GPU. It copies its arguments on the device into memory that OpenCL can
//! access (`koel::opencl::cuda`), unless they are already in such memory. Its results are complete when it returns.

mod argument;
mod array;
mod columns;
mod dlpack;
mod groups;
mod isin;
mod join;
mod keys;
mod pool;
mod rows_of_groups;
mod tuples;
mod voxels;

use koel::Any;
use koel::opencl::cuda::Cuda;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::device;
use crate::error::{Failure, Result};
use crate::run::caught;

pub(crate) use argument::{GpuColumn, Placed, column};
pub(crate) use array::{Array, Dtype};
pub(crate) use columns::{Options, factorize, indexer, unique};
pub(crate) use groups::group_by;
pub(crate) use isin::isin;
pub(crate) use join::{join, joined};
pub(crate) use keys::{Imported, copied, flags, rows};
pub(crate) use pool::module;
pub(crate) use tuples::{Keys, key_pair};
pub(crate) use voxels::{neighbours, voxelize};

/// Returns the device that contains the arrays, which must match the `device=` argument of the call.
///
/// # Errors
/// TypeError if the arrays are on different devices, or not on the requested one; DeviceError without a driver.
fn device_of(requested: &str, arrays: &[&dyn Placed]) -> Result<(Cuda, Any)> {
    device::begin_on_gpu(requested)?;
    let mut first: Option<(&str, i32)> = None;
    for array in arrays {
        let Some(ordinal) = array.ordinal()? else { continue };
        let (name, of_first) = *first.get_or_insert((array.name(), ordinal));
        if ordinal != of_first {
            let other = array.name();
            let text = format!(
                "{name} is on CUDA device {of_first} and {other} on CUDA device {ordinal}: pass arrays on one device"
            );
            return Err(PyTypeError::new_err(text).into());
        }
    }
    let (name, ordinal) = first.unwrap_or((arrays[0].name(), 0));
    let cuda = Cuda::nth(ordinal)?;
    let device = Any::OpenCl(cuda.device().clone());
    let id = device::shown(&device);
    if requested != "auto" && requested != id {
        let is_same = device::device(requested, usize::MAX)?.is(&id);
        if !is_same {
            let text = format!(
                "{name} is on CUDA device {ordinal}, which is {id}, but device={requested:?} was given: omit device="
            );
            return Err(PyTypeError::new_err(text).into());
        }
    }
    Ok((cuda, device))
}

/// Returns the CUDA device of a table, which must also contain the column.
///
/// # Errors
/// TypeError if the table is on another device; DeviceError in a forked child.
fn cuda_of_table(device: &Any, column: &GpuColumn) -> Result<Cuda> {
    let Any::OpenCl(opencl) = device else {
        let text = format!(
            "{} is in GPU memory (CUDA) and the table is on {}: build the table on the GPU, or pass a copy in main \
             memory, such as tensor.cpu()",
            column.name,
            device::shown(device)
        );
        return Err(PyTypeError::new_err(text).into());
    };
    device::begin_on_gpu(&column.name)?;
    let (ordinal, cuda) = (column.ordinal()?, Cuda::of(opencl)?);
    if let Some(ordinal) = ordinal.filter(|&ordinal| ordinal != cuda.ordinal()) {
        let text = format!(
            "{} is on CUDA device {ordinal} and the table is on CUDA device {}: pass an array on that device",
            column.name,
            cuda.ordinal()
        );
        return Err(PyTypeError::new_err(text).into());
    }
    Ok(cuda)
}

/// Imports all columns at once, and runs `work` on the device of the arrays. `work` runs on the calling thread, because
/// waking another thread takes longer than a small call.
pub(crate) fn on_device<T: Send>(
    py: Python<'_>,
    requested: &str,
    arrays: &[&(dyn Placed + Sync)],
    work: impl Fn(&Cuda, &Any) -> Result<T> + Send + Sync,
) -> PyResult<T> {
    Ok(py.detach(|| {
        let arrays: Vec<&dyn Placed> = arrays.iter().map(|&array| array as &dyn Placed).collect();
        let (cuda, device) = device_of(requested, &arrays)?;
        let columns: Vec<&GpuColumn> = arrays.iter().filter_map(|array| array.column()).collect();
        caught(|| with_imported(&cuda, &columns, || work(&cuda, &device)))
    })?)
}

/// As [`on_device`], and waits until the results are complete.
pub(crate) fn on_gpu(
    py: Python<'_>,
    requested: &str,
    arrays: &[&(dyn Placed + Sync)],
    work: impl Fn(&Cuda, &Any) -> Result<Vec<Array>> + Send + Sync,
) -> PyResult<Vec<Array>> {
    on_device(py, requested, arrays, |cuda, device| published(cuda, work(cuda, device)?))
}

/// Queries a table with keys on its device, and waits until the results are complete. The caller must have released the
/// interpreter lock.
pub(crate) fn queried(
    device: &Any,
    keys: &GpuColumn,
    work: impl Fn(&Cuda) -> Result<Vec<Array>>,
) -> Result<Vec<Array>> {
    let cuda = cuda_of_table(device, keys)?;
    with_imported(&cuda, &[keys], || published(&cuda, work(&cuda)?))
}

/// Imports the columns and runs `work`. If memory is exhausted, frees the memory that is cached for later calls and
/// runs `work` once more; each column is then imported when it is first used.
fn with_imported<T>(cuda: &Cuda, columns: &[&GpuColumn], work: impl Fn() -> Result<T>) -> Result<T> {
    /// Releases the columns while the interpreter lock is released, also if `work` panics.
    struct ReleaseOnDrop<'a>(&'a [&'a GpuColumn]);
    impl Drop for ReleaseOnDrop<'_> {
        fn drop(&mut self) {
            self.0.iter().for_each(|column| column.release());
        }
    }
    let imported = ReleaseOnDrop(columns);
    match GpuColumn::import(cuda, columns).and_then(|()| work()) {
        Err(Failure::Koel(koel::Error::OutOfMemory { .. })) => {
            drop(imported);
            let _imported = ReleaseOnDrop(columns);
            cuda.trim()?;
            work()
        }
        done => done,
    }
}

/// Waits until the results are complete.
fn published(cuda: &Cuda, results: Vec<Array>) -> Result<Vec<Array>> {
    cuda.publish(&results.iter().map(Array::memory).collect::<Vec<_>>())?;
    Ok(results)
}

/// A column and the owner of its memory.
pub(crate) type Owned<'py> = (GpuColumn, Bound<'py, PyAny>);

/// Reads two named arguments that must both be in CUDA memory; `None` if neither is.
///
/// # Errors
/// TypeError if only one of them is in CUDA memory.
pub(crate) fn pair<'py>(
    first: (&str, &Bound<'py, PyAny>),
    second: (&str, &Bound<'py, PyAny>),
) -> PyResult<Option<(Owned<'py>, Owned<'py>)>> {
    match (column(first.0, first.1)?, column(second.0, second.1)?) {
        (None, None) => Ok(None),
        (Some(first), Some(second)) => Ok(Some((first, second))),
        (Some(_), None) => Err(mixed(first.0, second.0)),
        (None, Some(_)) => Err(mixed(second.0, first.0)),
    }
}

/// The error of a call with one array on a GPU and another in main memory.
fn mixed(gpu: &str, host: &str) -> PyErr {
    PyTypeError::new_err(format!(
        "{gpu} is in GPU memory (CUDA) and {host} is in main memory: pass both on the GPU, or copies of both in main \
         memory, such as tensor.cpu()"
    ))
}
