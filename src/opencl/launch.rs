//! Running a kernel: the one place of the OpenCL backend with `unsafe`.
//!
//! `ocl` checks buffers by itself; what it cannot check is a kernel, which may do anything with the memory it is given. So
//! every kernel goes through [`OpenCl::launch`], whose safety rests on three things: arguments are passed with their types as
//! the kernel declares them (`ocl` compares sizes), every kernel in `cl/` guards its indices by lengths it is passed, and its
//! sizes are those of buffers that the caller borrows until the command is enqueued. The queue keeps buffers alive after
//! that: OpenCL releases memory when the last command on it is done.

use ocl::core::{self, ArgVal, Mem};
use ocl::prm::Uint16;
use ocl::{Event, Program};

use super::OpenCl;
use crate::backend::HashBackend;
use crate::error::{Error, Result};

/// An argument of a kernel.
#[derive(Clone, Copy)]
pub(super) enum Arg<'a> {
    /// A `__global` pointer.
    Buffer(&'a Mem),
    /// A `uint`.
    U32(u32),
    /// A `ulong`.
    U64(u64),
    /// A `uint16`.
    U32x16(&'a Uint16),
}

impl OpenCl {
    /// Runs a kernel over at least `items` work-items, rounded up to whole groups; the kernel guards the rest.
    pub(super) fn launch(&self, program: &Program, name: &'static str, items: usize, args: &[Arg]) -> Result<()> {
        self.shared.ledger.kernel(name, items);
        if items == 0 {
            return Ok(());
        }
        let failed = |error: core::Error| self.error(name, error.into(), 0);
        // A kernel object is not to be shared between threads, and making one is cheap.
        let kernel = core::create_kernel(program.as_core(), name).map_err(failed)?;
        for (index, arg) in args.iter().enumerate() {
            let value = match arg {
                Arg::Buffer(memory) => ArgVal::mem(memory),
                Arg::U32(number) => ArgVal::scalar(number),
                Arg::U64(number) => ArgVal::scalar(number),
                Arg::U32x16(numbers) => ArgVal::vector(*numbers),
            };
            core::set_kernel_arg(&kernel, index as u32, value).map_err(failed)?;
        }
        let mut event = Event::empty();
        let global = [items.next_multiple_of(self.group), 1, 1];
        let local = Some([self.group, 1, 1]);
        #[expect(unsafe_code, reason = "enqueueing a kernel gives it memory that nobody can check")]
        // SAFETY: see the head of this file.
        unsafe {
            let queue = self.shared.queue.as_core();
            core::enqueue_kernel(queue, &kernel, 1, None, &global, local, None::<&Event>, Some(&mut event))
                .map_err(failed)?;
        }
        self.shared.record(event);
        Ok(())
    }

    /// A driver's error in our words. `bytes` is the size of what was being allocated, if anything was.
    pub(super) fn error(&self, doing: &str, error: ocl::Error, bytes: u64) -> Error {
        use core::Status::{CL_MEM_OBJECT_ALLOCATION_FAILURE, CL_OUT_OF_HOST_MEMORY, CL_OUT_OF_RESOURCES};
        let device = self.info().to_string();
        match error.api_status() {
            Some(CL_MEM_OBJECT_ALLOCATION_FAILURE | CL_OUT_OF_HOST_MEMORY) => Error::OutOfMemory { device, bytes },
            Some(CL_OUT_OF_RESOURCES) if bytes > 0 => Error::OutOfMemory { device, bytes },
            _ => Error::Device { device, doing: doing.into(), message: error.to_string() },
        }
    }
}
