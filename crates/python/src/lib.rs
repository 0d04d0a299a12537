//! The Python module `koel`.
//!
//! ```text
//! input.rs      reads arguments as Arrow columns (arrays.rs, text.rs: NumPy; objects.rs: lists; arrow.rs: Arrow)
//! output.rs     returns results as NumPy arrays or Arrow columns
//! keys.rs       unique, factorize, isin, get_indexer          join.rs, group_by.rs
//! voxels.rs     point clouds                                  kmers.rs     k-mers of DNA
//! dedup.rs      duplicate texts
//! cuda/         arrays in GPU memory, as arguments and results
//! tables/       Table, Set, Index, MultiTable
//! stream/       join_stream, group_by_stream, unique_stream, PreparedJoin: tables in batches, with a memory limit
//! device.rs     opens devices by name                         run.rs       runs work without the GIL; forks
//! memory.rs     checks that enough memory is available        error.rs     exceptions
//! ```
//!
//! The algorithms are in koel and koel-arrow. This crate adds the Python API: names, types and exceptions.

mod arrays;
mod arrow;
#[cfg(feature = "opencl")]
mod cuda;
mod dedup;
mod device;
mod error;
mod group_by;
mod input;
mod join;
mod keys;
mod kmers;
mod memory;
mod objects;
mod output;
mod run;
mod stream;
mod tables;
mod text;
mod to_numpy;
mod voxels;

use pyo3::prelude::*;

// mimalloc keeps freed memory for the next call. Without it, page faults took up to half of the time of a join or
// lookup.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Bulk hash tables for columns: the same result, in the same order, on CPU and GPU.
///
/// unique, factorize, isin, get_indexer, join and group_by take NumPy arrays, lists, Arrow
/// columns (of polars, pyarrow, DuckDB, pandas) and tuples of columns. The same call returns
/// the same result on every device, thread count and run.
// The module does not need the GIL: classes are frozen, lists are copied before they are read, and locks protect the
// state that calls share.
#[pymodule(gil_used = false)]
fn koel(module: &Bound<'_, PyModule>) -> PyResult<()> {
    macro_rules! functions {
        ($($function:path),* $(,)?) => { $(module.add_function(wrap_pyfunction!($function, module)?)?;)* };
    }
    functions!(
        keys::unique,
        keys::factorize,
        keys::isin,
        keys::get_indexer,
        join::join,
        group_by::group_by,
        dedup::dedup,
        voxels::voxelize,
        voxels::neighbours,
        kmers::kmers,
        stream::join_stream,
        stream::group_by_stream,
        stream::unique_stream,
        device::devices
    );
    // Threads of streams may call into Python, so they must end before Python exits.
    let end = wrap_pyfunction!(stream::end_streams, module)?;
    module.py().import("atexit")?.call_method1("register", (end,))?;
    module.add_class::<stream::BatchReader>()?;
    module.add_class::<stream::Batch>()?;
    module.add_class::<stream::PreparedJoin>()?;
    module.add_class::<output::ArrowColumn>()?;
    module.add_class::<device::Device>()?;
    #[cfg(feature = "opencl")]
    {
        module.add_class::<cuda::Array>()?;
        module.add("cuda", cuda::module(module.py())?)?;
    }
    module.add_class::<tables::Table>()?;
    module.add_class::<tables::Set>()?;
    module.add_class::<tables::Index>()?;
    module.add_class::<tables::MultiTable>()?;
    module.add("KoelError", module.py().get_type::<error::KoelError>())?;
    module.add("DeviceError", module.py().get_type::<error::DeviceError>())?;
    module.add("FileError", module.py().get_type::<error::FileError>())?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))
}
