//! Arrays in the memory of a GPU: CUDA's, of PyTorch, CuPy, JAX and Numba.
//!
//! ```text
//! argument.rs   arguments, by DLPack or __cuda_array_interface__          dlpack.rs    DLPack's structures
//! array.rs      koel.Array: results that stay on the GPU
//! keys.rs       keys as words of tables, on the device, and back          isin.rs      koel.isin
//! columns.rs    unique, factorize, get_indexer                            voxels.rs    voxelize, neighbours
//! join.rs       join, Index                                               tuples.rs    keys of several columns
//! groups.rs     group_by                            rows_of_groups.rs    first, last and nunique in group_by
//! pool.rs       koel.cuda: memory for PyTorch and CuPy
//! ```
//!
//! A call copies its arguments on the device into memory that OpenCL shares (`koel::opencl::cuda`), unless they lie in
//! such memory. It waits for all of the GPU's CUDA work first. Its results are complete when it returns.

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

/// The OpenCL device with the memory of some arrays, for `device=` of a call.
///
/// # Errors
/// TypeError if the arrays or the requested device are different ones; DeviceError without a driver.
fn device_of(requested: &str, arrays: &[&dyn Placed]) -> Result<(Cuda, Any)> {
    device::begin_on_gpu(requested)?;
    let mut first: Option<(&str, i32)> = None;
    for array in arrays {
        let Some(ordinal) = array.ordinal()? else { continue };
        let (name, of_first) = *first.get_or_insert((array.name(), ordinal));
        if ordinal != of_first {
            let other = array.name();
            let text = format!(
                "{name} is on CUDA device {of_first} and {other} on CUDA device {ordinal}: give arrays of one device"
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
                "{name} is on CUDA device {ordinal}, which is {id}, and the device of this call is {requested}: leave out device="
            );
            return Err(PyTypeError::new_err(text).into());
        }
    }
    Ok((cuda, device))
}

/// The CUDA side of a table's device, which must have the column.
///
/// # Errors
/// TypeError if the table is on another device; DeviceError in a child of a fork.
fn beside(device: &Any, column: &GpuColumn) -> Result<Cuda> {
    let Any::OpenCl(opencl) = device else {
        let text = format!(
            "{} is in the memory of a GPU (CUDA) and the table is on {}: build the table on the GPU, or give a copy in main \
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
            "{} is on CUDA device {ordinal} and the table is on CUDA device {}: give an array of that device",
            column.name,
            cuda.ordinal()
        );
        return Err(PyTypeError::new_err(text).into());
    }
    Ok(cuda)
}

/// Runs work on the device of its arrays, whose columns it imports together. It runs on the calling thread: waking
/// another one takes longer than a small call.
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

/// As [`on_device`], and publishes the results.
pub(crate) fn on_gpu(
    py: Python<'_>,
    requested: &str,
    arrays: &[&(dyn Placed + Sync)],
    work: impl Fn(&Cuda, &Any) -> Result<Vec<Array>> + Send + Sync,
) -> PyResult<Vec<Array>> {
    on_device(py, requested, arrays, |cuda, device| published(cuda, work(cuda, device)?))
}

/// Runs a query of keys on the device of a table, which must have them, and publishes the results. The caller does not
/// hold the interpreter's lock.
pub(crate) fn queried(
    device: &Any,
    keys: &GpuColumn,
    work: impl Fn(&Cuda) -> Result<Vec<Array>>,
) -> Result<Vec<Array>> {
    let cuda = beside(device, keys)?;
    with_imported(&cuda, &[keys], || published(&cuda, work(&cuda)?))
}

/// Imports columns, and runs work that uses them. If memory is short, runs it once more after what is kept for later
/// calls was freed; then each column is imported when it is first used.
fn with_imported<T>(cuda: &Cuda, columns: &[&GpuColumn], work: impl Fn() -> Result<T>) -> Result<T> {
    /// Releases the columns here, where the interpreter's lock is not held, also when the work panics.
    struct Held<'a>(&'a [&'a GpuColumn]);
    impl Drop for Held<'_> {
        fn drop(&mut self) {
            self.0.iter().for_each(|column| column.release());
        }
    }
    let held = Held(columns);
    match GpuColumn::import(cuda, columns).and_then(|()| work()) {
        Err(Failure::Koel(koel::Error::OutOfMemory { .. })) => {
            drop(held);
            let _held = Held(columns);
            cuda.trim()?;
            work()
        }
        done => done,
    }
}

/// Waits until results are complete.
fn published(cuda: &Cuda, results: Vec<Array>) -> Result<Vec<Array>> {
    cuda.publish(&results.iter().map(Array::memory).collect::<Vec<_>>())?;
    Ok(results)
}

/// A GPU column and what keeps its memory.
pub(crate) type Owned<'py> = (GpuColumn, Bound<'py, PyAny>);

/// Two arguments in CUDA memory, by their names; `None` if neither is.
///
/// # Errors
/// TypeError if one of them is in main memory.
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

/// Refuses a call with one array on a GPU and another in main memory.
fn mixed(gpu: &str, host: &str) -> PyErr {
    PyTypeError::new_err(format!(
        "{gpu} is in the memory of a GPU (CUDA) and {host} in main memory: give both on the GPU, or copies of both in main \
         memory, such as tensor.cpu()"
    ))
}
