//! The OpenCL backend: any device with OpenCL 1.2 and 64-bit atomics, GPU or CPU.
//!
//! ```text
//! device.rs      which devices there are, which can be used, which is best
//! selftest.rs    the proof that a device's 64-bit atomics work
//! program.rs     the sources in cl/, the numbers printed in front of them, the compiler
//! launch.rs      running a kernel
//! commands.rs    what the driver is trusted with: the one place with `unsafe`
//! timing.rs      how long the device was busy
//! buffer.rs      memory, and how it comes from and goes to the `ocl` crate
//! pool.rs        memory that was freed and is kept
//! staging.rs     long transfers, by way of pinned memory
//! pinned.rs      host memory that needs no such way
//! stream.rs      queries in chunks, transfers and kernels overlapped
//! backend.rs     `HashBackend`: transfers; the rest by primitives.rs
//! scan.rs        prefix sums of any number of counts
//! sort.rs        a radix sort of pairs
//! relational.rs  what grouping and joining are made of
//! tally.rs       what became of a batch: the counts of all schemes' kernels
//! shape.rs       one work-item a key, several, or one for many keys: which is faster here
//! route.rs       pairs one by one, or part by part: how a table is built
//! parts.rs       dealing pairs to the parts of a table
//! cuckoo.rs      `Kernels<Cuckoo>`, and of what is one with a single function
//! bucketized.rs  `Kernels<Bucketized>`; its builds and batches part by part: bucketized_parts.rs
//! fks.rs         `Kernels<Fks>`
//! horton.rs      `Kernels<Horton>`; horton_parts.rs: its builds part by part
//! sorted.rs      `Kernels<Sorted>`
//! robin_hood.rs  `Kernels<RobinHood>`
//! perfect.rs     `Kernels<Perfect>`
//! ```
//!
//! Needs nothing to build, link or start: the library is looked for when a device is asked for. Without one,
//! [`devices`] is empty and [`OpenCl::best`] an error that says what was tried.
//!
//! The order of work is that of the calls: each [`OpenCl`] has one in-order queue, and its clones share it. Several
//! threads may use one at once.
//!
//! What it is not: a wrapper of OpenCL. Kernels of your own run next to koel's through the `ocl` crate: make the
//! context and the queue there ([`OpenCl::from_ocl`]), and hand buffers over ([`Buffer::from_ocl`], [`Buffer::ocl`]).

mod backend;
mod bucketized;
mod bucketized_parts;
mod buffer;
mod commands;
mod cuckoo;
mod device;
mod fks;
mod horton;
mod horton_parts;
mod launch;
mod parts;
mod perfect;
mod pinned;
mod pool;
mod primitives;
mod program;
mod relational;
mod robin_hood;
mod route;
mod scan;
mod selftest;
mod shape;
mod sort;
mod sorted;
mod staging;
mod stream;
mod tally;
mod timing;

#[cfg(test)]
mod mirror;
#[cfg(test)]
mod mirror_divisor;
#[cfg(test)]
mod mirror_fks;
#[cfg(test)]
mod mirror_horton;
#[cfg(test)]
mod mirror_perfect;
#[cfg(test)]
mod mirror_robin_hood;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use koel_opencl_loader::unknown_code; // the crate also defines what `ocl` links to
use ocl::core::Status;

pub use buffer::Buffer;
pub use device::devices;
/// The crate whose contexts, queues and buffers can be shared with koel.
pub use ocl;
pub use pinned::PinnedVec;
pub use shape::LookupShape;

pub use crate::backend::BuildRoute;
use crate::backend::{DeviceInfo, Ledger};
use crate::error::{Error, Result};

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
    /// Work-items of a group of a table's kernels: [`GROUP`], or what a test wants.
    group: usize,
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
        staging: staging::Staging,
    ) -> Inner {
        let (clocks, pool) = (timing::Clocks::of(&queue), Arc::new(pool::Pool::of(&info)));
        let (ledger, programs, shape) = (Ledger::default(), Mutex::default(), Mutex::default());
        let (group, staging, route) = (GROUP, Arc::new(staging), Mutex::default());
        Inner { info, ledger, context, queue, device, group, programs, clocks, pool, staging, shape, route }
    }
}

/// Work-items of a group: the paper's 64. In the prototypes that was 5% better than 128 or 256 on an H200 while a table
/// fits the L2 cache; from memory all were alike.
const GROUP: usize = 64;

impl fmt::Debug for OpenCl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenCl").field("info", &self.0.info).finish_non_exhaustive()
    }
}

impl OpenCl {
    /// The same device, context and queue with another size of work-groups, so that tests can vary it.
    #[cfg(test)]
    fn with_group(&self, group: usize) -> OpenCl {
        let staging = staging::Staging::new(false).expect("a variable that is understood");
        OpenCl(Arc::new(Inner { group, ..self.anew(staging) }))
    }

    /// The same with slots of so many bytes, by way of which all transfers go that fill half of one.
    #[cfg(test)]
    fn with_slots(&self, bytes: usize) -> OpenCl {
        let sizes = staging::Sizes { slot: bytes, shortest: bytes / 2 };
        OpenCl(Arc::new(self.anew(staging::Staging::with_sizes(true, sizes))))
    }

    #[cfg(test)]
    fn anew(&self, staging: staging::Staging) -> Inner {
        let Inner { info, context, queue, device, .. } = &*self.0;
        Inner::new(info.clone(), context.clone(), queue.clone(), *device, staging)
    }

    /// Fills fresh memory with what nobody expects.
    #[cfg(test)]
    fn poison<T: crate::backend::Word>(&self, buffer: &Buffer<T>) -> Result<()> {
        let poison: T = bytemuck::cast_slice(&[0xdead_beef_dead_beef_u64])[0];
        let (queue, memory) = (self.0.queue.as_core(), buffer.memory());
        if buffer.bytes() > primitives::MOST_FILLED {
            return self.fill(buffer, poison, primitives::MOST_FILLERS);
        }
        let (none, len) = (None::<&ocl::core::Event>, memory.len());
        let filled = ocl::core::enqueue_fill_buffer(
            queue,
            memory.as_core(),
            poison,
            0,
            len,
            none,
            None::<&mut ocl::core::Event>,
            None,
        );
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
