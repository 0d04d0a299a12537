//! The OpenCL backend: any device with OpenCL 1.2, GPU or CPU. For devices without 64-bit atomics, which are of the
//! partial [`Tier`], the CPU backend changes tables, and builds those of some schemes (`Passes::partial_build`).
//!
//! ```text
//! runtime/       devices, memory, programs, commands, clocks
//! passes/        shared by schemes: scans, sorts, bitmaps, parts of a table
//! interop.rs     imports and exports OpenCL handles
//! cuda/          memory shared with CUDA
//! backend.rs     `HashBackend`: transfers; the rest is in passes/primitives.rs
//! cuckoo/        `Passes<Cuckoo>`, also for quadratic tables and sets
//! bucketized/    `Passes<Bucketized>`; builds and batches one partition at a time: parts.rs
//! fks.rs         `Passes<Fks>`
//! horton/        `Passes<Horton>`; builds one partition at a time: parts.rs
//! sorted/        `Passes<Sorted>`
//! robin_hood/    `Passes<RobinHood>`
//! slot_lists.rs  cuckoo and Robin Hood tables of 64-bit keys or values
//! perfect.rs     `Passes<Perfect>`
//! mirror/        tests: compares each function of cl/ with the same one in Rust, bit for bit
//! ```
//!
//! Nothing is needed to build, link or start a program: the library is loaded when a device is requested. Without one,
//! [`devices`] is empty and [`OpenCl::best`] returns an error that lists what was tried.
//!
//! Work is done in the order of the calls: each [`OpenCl`] has one in-order queue, and its clones share it. Several
//! threads may use one concurrently.
//!
//! This is not a wrapper of OpenCL. Use any wrapper to run your kernels together with koel's: [`interop`] imports and
//! exports OpenCL handles.

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

use koel_opencl_loader::unknown_code; // the crate also defines the functions that `ocl` links to
use ocl::core::Status;

pub use runtime::buffer::Buffer;
pub use runtime::device::devices;
pub use runtime::pinned::PinnedVec;

pub use crate::tuning::{BuildRoute, LookupShape};

use crate::backend::{DeviceInfo, Ledger, Tier};
use crate::cpu::Cpu;
use crate::error::{Error, Result};
use runtime::sizes::Sizes;
use runtime::{pool, program, staging, timing};

/// An OpenCL device with a context and an in-order queue. Clones share the device.
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
    /// The CPU that works in place of a device of the partial tier.
    builder: Option<Cpu>,
    /// The shape of lookups, once it is known.
    shape: Mutex<Option<LookupShape>>,
    /// The route of builds, if it was set.
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
        let builder = (info.tier != Tier::Full).then(Cpu::new);
        Inner { info, ledger, context, queue, device, sizes, programs, clocks, pool, staging, builder, shape, route }
    }
}

impl fmt::Debug for OpenCl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenCl").field("info", &self.0.info).finish_non_exhaustive()
    }
}

impl OpenCl {
    /// A new handle of the same device, context and queue with other sizes, and with or without slots for long
    /// transfers.
    #[cfg(test)]
    fn anew(&self, staged: bool, sizes: Sizes) -> Inner {
        let Inner { info, context, queue, device, .. } = &*self.0;
        Inner::new(info.clone(), context.clone(), queue.clone(), *device, staged, sizes)
    }

    /// Fills new memory with an unlikely value.
    #[cfg(test)]
    fn poison<T: crate::backend::Word>(&self, buffer: &Buffer<T>) -> Result<()> {
        let poison: T = bytemuck::cast_slice(&[0xdead_beef_dead_beef_u64])[0];
        if buffer.bytes() > passes::primitives::MOST_FILLED {
            return self.fill(buffer, poison, passes::primitives::MOST_FILLERS);
        }
        let filled = self.fill_by_driver(buffer, poison, buffer.capacity() / size_of::<T>(), None);
        filled.map_err(|error| self.failed("poisoning", error))
    }

    /// The driver's message, as an error that names the device and the operation.
    fn failed(&self, doing: impl Into<String>, error: impl Into<ocl::Error>) -> Error {
        Error::Device { device: self.0.info.to_string(), doing: doing.into(), message: describe(&error.into()) }
    }

    /// As [`failed`](Self::failed), for an allocation of this many `bytes`.
    fn failed_allocating(&self, doing: impl Into<String>, bytes: u64, error: impl Into<ocl::Error>) -> Error {
        let error = error.into();
        match error.api_status() {
            Some(Status::CL_OUT_OF_RESOURCES) if unknown_code().is_none() => self.out_of_memory(bytes),
            _ => self.failed_using(doing, bytes, error),
        }
    }

    /// As [`failed`](Self::failed), for a use of `bytes` bytes of memory. Drivers that allocate late report a lack of
    /// memory only when it is used. "Out of resources" may have any cause here, including a faulty kernel.
    fn failed_using(&self, doing: impl Into<String>, bytes: u64, error: impl Into<ocl::Error>) -> Error {
        let error = error.into();
        match error.api_status() {
            Some(Status::CL_MEM_OBJECT_ALLOCATION_FAILURE | Status::CL_OUT_OF_HOST_MEMORY) => self.out_of_memory(bytes),
            _ => self.failed(doing, error),
        }
    }

    fn out_of_memory(&self, bytes: u64) -> Error {
        // A retry can then use all free memory.
        self.0.pool.empty();
        Error::OutOfMemory { device: self.0.info.to_string(), bytes }
    }

    /// Returns an error for a buffer of another context. Memory of another handle of this context is not kept in the
    /// pool of this one, because the other handle's queue is not ordered with the commands here.
    fn check_owner<T: crate::backend::Word>(&self, buffer: &Buffer<T>) -> Result<()> {
        if !buffer.is_of(&self.0.pool) {
            buffer.lend();
        }
        if buffer.context().as_ptr() == self.0.context.as_core().as_ptr() { Ok(()) } else { Err(Error::WrongDevice) }
    }
}

/// The driver's message, without the banner that the crate adds. If the driver returned a code that OpenCL does not
/// define, the message includes the code on the thread that received the error.
fn describe(error: &ocl::Error) -> String {
    match error.api_status() {
        Some(Status::CL_OUT_OF_RESOURCES) if let Some(unknown) = unknown_code() => unknown.to_string(),
        Some(status) => format!("{status:?}"),
        None => error.to_string().split_whitespace().collect::<Vec<_>>().join(" "),
    }
}

/// Locks a mutex whose holder cannot leave a broken value, even if it panics.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Held while platforms, contexts and programs are created: no driver is trusted to do that on two threads concurrently
/// (PoCL 3.1 then loses devices, Oclgrind crashes).
static START_UP: Mutex<()> = Mutex::new(());
