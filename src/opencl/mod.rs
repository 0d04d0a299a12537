//! The OpenCL backend: any device with OpenCL 1.2 and 64-bit atomics, GPU or CPU.
//!
//! ```text
//! runtime/       devices, memory, programs, commands, clocks
//! passes/        what schemes share: scans, sorts, bitmaps, parts of a table
//! interop.rs     handles of OpenCL, in and out
//! cuda/          memory shared with CUDA
//! backend.rs     `HashBackend`: transfers; the rest by passes/primitives.rs
//! cuckoo/        `Passes<Cuckoo>`, and of what is one with a single function
//! bucketized/    `Passes<Bucketized>`; its builds and batches part by part: parts.rs
//! fks.rs         `Passes<Fks>`
//! horton/        `Passes<Horton>`; its builds part by part: parts.rs
//! sorted/        `Passes<Sorted>`
//! robin_hood/    `Passes<RobinHood>`
//! slot_lists.rs  both of cuckoo and Robin Hood tables of 64-bit keys or values
//! perfect.rs     `Passes<Perfect>`
//! mirror/        tests: each function of cl/ beside its twin in Rust, bit for bit
//! ```
//!
//! Needs nothing to build, link or start: the library is looked for when a device is asked for. Without one,
//! [`devices`] is empty and [`OpenCl::best`] an error that says what was tried.
//!
//! The order of work is that of the calls: each [`OpenCl`] has one in-order queue, and its clones share it. Several
//! threads may use one at once.
//!
//! What it is not: a wrapper of OpenCL. Kernels of your own run next to koel's by any wrapper: [`interop`] takes and
//! gives OpenCL's own handles.

mod backend;
mod bucketized;
mod cuckoo;
pub mod cuda;
mod fks;
mod horton;
pub mod interop;
mod passes;
mod perfect;
mod robin_hood;
mod runtime;
mod signpost;
mod slot_lists;
mod sorted;

#[cfg(test)]
mod mirror;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use koel_opencl_loader::unknown_code; // the crate also defines what `ocl` links to
use ocl::core::Status;

pub use runtime::buffer::Buffer;
pub use runtime::device::devices;
pub use runtime::pinned::PinnedVec;

pub use crate::tuning::{BuildRoute, LookupShape};

use crate::backend::{DeviceInfo, Ledger};
use crate::error::{Error, Result};
use runtime::sizes::Sizes;
use runtime::{pool, program, staging, timing};

/// An OpenCL device with a context and an in-order queue. Clones are the same device.
///
/// ```no_run
/// use koel::{HashBackend, OpenCl};
/// let device = OpenCl::best()?;
/// println!("{}", device.info());
/// # Ok::<(), koel::Error>(())
/// ```
#[derive(Clone)]
pub struct OpenCl(Arc<Inner>);

struct Inner {
    info: DeviceInfo,
    ledger: Ledger,
    context: ocl::Context,
    queue: ocl::Queue,
    device: ocl::Device,
    sizes: Sizes,
    programs: Mutex<HashMap<program::Key, ocl::core::Program>>,
    clocks: timing::Clocks,
    pool: Arc<pool::Pool>,
    staging: Arc<staging::Staging>,
    /// How lookups read buckets, once that is known.
    shape: Mutex<Option<LookupShape>>,
    /// How tables are built, if that was decided.
    route: Mutex<Option<BuildRoute>>,
}

impl Inner {
    fn new(
        info: DeviceInfo,
        context: ocl::Context,
        queue: ocl::Queue,
        device: ocl::Device,
        staged: bool,
        sizes: Sizes,
    ) -> Inner {
        let (clocks, pool) = (timing::Clocks::of(&queue), Arc::new(pool::Pool::of(&info)));
        let (ledger, programs, shape) = (Ledger::default(), Mutex::default(), Mutex::default());
        let (staging, route) = (Arc::new(staging::Staging::new(staged, info.driver.clone())), Mutex::default());
        Inner { info, ledger, context, queue, device, sizes, programs, clocks, pool, staging, shape, route }
    }
}

impl fmt::Debug for OpenCl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenCl").field("info", &self.0.info).finish_non_exhaustive()
    }
}

impl OpenCl {
    /// A new handle of the same device, context and queue in other sizes, with long transfers by way of slots or without.
    #[cfg(test)]
    fn anew(&self, staged: bool, sizes: Sizes) -> Inner {
        let Inner { info, context, queue, device, .. } = &*self.0;
        Inner::new(info.clone(), context.clone(), queue.clone(), *device, staged, sizes)
    }

    /// Fills fresh memory with what nobody expects.
    #[cfg(test)]
    fn poison<T: crate::backend::Word>(&self, buffer: &Buffer<T>) -> Result<()> {
        let poison: T = bytemuck::cast_slice(&[0xdead_beef_dead_beef_u64])[0];
        if buffer.bytes() > passes::primitives::MOST_FILLED {
            return self.fill(buffer, poison, passes::primitives::MOST_FILLERS);
        }
        let filled = self.fill_by_driver(buffer, poison, buffer.room() / size_of::<T>(), None);
        filled.map_err(|error| self.failed("poisoning", error))
    }

    /// What the driver said, as an error that names the device and the deed.
    fn failed(&self, doing: impl Into<String>, error: impl Into<ocl::Error>) -> Error {
        Error::Device { device: self.0.info.to_string(), doing: doing.into(), message: told(&error.into()) }
    }

    /// The same where memory was asked for: `bytes` of it.
    fn failed_allocating(&self, doing: impl Into<String>, bytes: u64, error: impl Into<ocl::Error>) -> Error {
        let error = error.into();
        match error.api_status() {
            Some(Status::CL_OUT_OF_RESOURCES) if unknown_code().is_none() => self.no_room(bytes),
            _ => self.failed_using(doing, bytes, error),
        }
    }

    /// The same where memory was used, `bytes` of it: drivers that allocate late only then find out that there is none.
    /// Here "out of resources" may have any cause, a kernel gone wrong among them.
    fn failed_using(&self, doing: impl Into<String>, bytes: u64, error: impl Into<ocl::Error>) -> Error {
        let error = error.into();
        match error.api_status() {
            Some(Status::CL_MEM_OBJECT_ALLOCATION_FAILURE | Status::CL_OUT_OF_HOST_MEMORY) => self.no_room(bytes),
            _ => self.failed(doing, error),
        }
    }

    fn no_room(&self, bytes: u64) -> Error {
        // Whoever tries again finds what there is.
        self.0.pool.empty();
        Error::OutOfMemory { device: self.0.info.to_string(), bytes }
    }

    /// Refuses a buffer of another context. Memory of this context that is another handle's is not kept by that one:
    /// its queue does not know of what is done here.
    fn check_owner<T: crate::backend::Word>(&self, buffer: &Buffer<T>) -> Result<()> {
        if !buffer.is_of(&self.0.pool) {
            buffer.lend();
        }
        if buffer.context().as_ptr() == self.0.context.as_core().as_ptr() { Ok(()) } else { Err(Error::WrongDevice) }
    }
}

/// The driver's words, without the banner that the crate puts round them. On the thread that got the error, it names a
/// code that OpenCL does not have.
fn told(error: &ocl::Error) -> String {
    match error.api_status() {
        Some(Status::CL_OUT_OF_RESOURCES) if let Some(unknown) = unknown_code() => unknown.to_string(),
        Some(status) => format!("{status:?}"),
        None => error.to_string().split_whitespace().collect::<Vec<_>>().join(" "),
    }
}

/// A lock whose holder cannot leave a broken value behind.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Held while platforms, contexts and programs come about: no driver is trusted to do that on two threads at once (PoCL
/// 3.1 then loses devices, Oclgrind crashes).
static START_UP: Mutex<()> = Mutex::new(());
