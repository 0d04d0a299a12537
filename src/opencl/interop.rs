//! Imports and exports OpenCL handles, so that your kernels and koel's work on the same memory, whichever crate or
//! language allocated it.
//!
//! ```text
//! device_from_raw    your cl_command_queue              ->  an `OpenCl` that shares it, and its context
//! buffer_from_raw    a cl_mem of that context           ->  a `Buffer`, without a copy
//! raw_context, raw_queue, raw_device, raw_mem           the handles of koel's objects
//! ```
//!
//! **Ownership.** An imported handle is retained: koel has a separate reference until the last [`OpenCl`] or the
//! [`Buffer`] is dropped, and the caller may release its own at any time. An exported handle is borrowed: it is valid
//! as long as the object that it was taken from. To keep it longer, or to pass it to a wrapper that releases it in the
//! end, retain it first (`clRetainMemObject` and the like).
//!
//! **Order.** koel enqueues its commands in the queue of its device, and they may still be running when a call returns.
//! Your commands in the same queue are ordered with them. With commands in other queues, call
//! [`finish`](crate::HashBackend::finish) before yours, and wait for yours before you call koel.
//!
//! **Library.** A handle is valid only for the OpenCL library that created it. koel loads the system's library, or the
//! one that `KOEL_OPENCL` names. Bindings that link to OpenCL call the same one, because koel's loader defines those
//! functions. If a binding loads a library itself, it must be the same one: make sure that `KOEL_OPENCL` names no
//! other.
//!
//! The types are those of `cl-sys`, `opencl-sys` and other bindings, so this interface does not depend on a version of
//! a crate. With the crate [`opencl3`](https://crates.io/crates/opencl3):
//!
//! ```ignore
//! let queue = CommandQueue::create_default(&context, CL_QUEUE_PROFILING_ENABLE)?;
//! let keys = unsafe { Buffer::<u32>::create(&context, CL_MEM_READ_WRITE, n, null_mut())? };
//! // .. your kernels write the keys, and then
//! queue.finish()?;
//! // SAFETY: both are alive, belong to the OpenCL that the program is linked to, and are not used elsewhere meanwhile.
//! let device = unsafe { interop::device_from_raw(queue.get())? };
//! let keys = unsafe { interop::buffer_from_raw::<u32>(&device, keys.get())? };
//! let set = HashSet::builder(CuckooSet::canonical(4)).build_on(&device, &keys)?;
//! ```

use std::ffi::c_void;

use koel_opencl_loader::Status;
use ocl::core::{CommandQueue, Mem};

use super::{Buffer, OpenCl};
use crate::backend::Word;
use crate::error::{Error, Result};

/// An OpenCL context.
#[expect(non_camel_case_types, reason = "the name is OpenCL's")]
pub type cl_context = *mut c_void;
/// An OpenCL command queue.
#[expect(non_camel_case_types, reason = "the name is OpenCL's")]
pub type cl_command_queue = *mut c_void;
/// An OpenCL device.
#[expect(non_camel_case_types, reason = "the name is OpenCL's")]
pub type cl_device_id = *mut c_void;
/// OpenCL memory of a context.
#[expect(non_camel_case_types, reason = "the name is OpenCL's")]
pub type cl_mem = *mut c_void;

/// The device of a queue, sharing the queue and its context. Retains both, and tests the device's atomics.
///
/// If the queue has profiling enabled, times are measured by the device, otherwise by the host's clock.
///
/// # Safety
/// `queue` is null or a valid `cl_command_queue` of the OpenCL library that koel loads (see the [module](self)). The
/// caller keeps its reference.
///
/// # Errors
/// [`Error::InvalidParameter`] for null; [`Error::NoDevice`] if koel has no OpenCL because `KOEL_OPENCL` is `off`;
/// [`Error::Unsupported`] if the device is not usable or the queue runs commands out of order; [`Error::Device`] if the
/// driver fails.
#[expect(unsafe_code, reason = "only the caller knows what a pointer is")]
pub unsafe fn device_from_raw(queue: cl_command_queue) -> Result<OpenCl> {
    not_null(queue, "the handle of a queue")?;
    // The caller may have an OpenCL library that koel must not use.
    let status = koel_opencl_loader::status();
    if !matches!(status, Status::Loaded { .. }) {
        return Err(Error::NoDevice { wanted: "the device of a queue".into(), reason: status.to_string() });
    }
    // SAFETY: it is valid, as the caller promises; this retains it.
    OpenCl::of_queue(unsafe { CommandQueue::from_raw_copied_ptr(queue) })
}

/// A buffer over existing memory of the device, with as many elements as fit. Retains the memory, and costs some calls
/// of the driver. The memory is never added to koel's pool.
///
/// Calls that receive the same memory through two such buffers (one handle imported twice, a buffer and its sub-buffer,
/// overlapping sub-buffers) return [`Error::Aliased`].
///
/// # Safety
/// - `memory` is null or a valid `cl_mem` of the OpenCL library of `device`. The caller keeps its reference.
/// - Its flags allow koel's accesses: kernels and the host read it if it is an input, and write it if it is an output.
///   Host memory that it was created over (`CL_MEM_USE_HOST_PTR`) outlives the [`Buffer`], and is not used by other
///   buffers.
/// - While a call of koel works on it, and until its device has [finished](crate::HashBackend::finish), no command of
///   another queue writes to it, or reads it while koel writes, and it is not mapped.
///
/// # Errors
/// [`Error::InvalidParameter`] for null, for images and pipes, and if its size is not a multiple of an element's;
/// [`Error::WrongDevice`] if it was created in another context than the device's; [`Error::Device`] if a query of the
/// driver fails.
#[expect(unsafe_code, reason = "only the caller knows what a pointer is")]
pub unsafe fn buffer_from_raw<T: Word>(device: &OpenCl, memory: cl_mem) -> Result<Buffer<T>> {
    not_null(memory, "the handle of a buffer")?;
    // SAFETY: it is valid, as the caller promises; this retains it.
    Buffer::of_memory(device, unsafe { Mem::from_raw_copied_ptr(memory) })
}

/// The context of a device. Borrowed: valid as long as `device` or a clone of it.
pub fn raw_context(device: &OpenCl) -> cl_context {
    device.0.context.as_core().as_ptr()
}

/// The queue of a device, in which all work is done in the order of the calls. Borrowed: valid as long as `device` or a
/// clone of it.
pub fn raw_queue(device: &OpenCl) -> cl_command_queue {
    device.0.queue.as_core().as_ptr()
}

/// The device itself. Valid as long as `device` or a clone of it.
pub fn raw_device(device: &OpenCl) -> cl_device_id {
    device.0.device.as_raw()
}

/// The memory of a buffer. Borrowed: valid as long as `buffer`. It may be larger than the buffer's elements, by at most
/// a sixteenth; that of an empty buffer has one element.
///
/// The memory is not reused for another buffer when this one is dropped, because commands of other queues may still use
/// it.
pub fn raw_mem<T: Word>(buffer: &Buffer<T>) -> cl_mem {
    buffer.lend();
    buffer.memory().as_ptr()
}

fn not_null(handle: *mut c_void, what: &'static str) -> Result<()> {
    if handle.is_null() {
        return Err(Error::parameter(what, "(null)", "pass a valid handle"));
    }
    Ok(())
}
