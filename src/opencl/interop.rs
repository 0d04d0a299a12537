//! OpenCL's own handles, in and out, so that kernels of your own and koel's work on the same memory, whichever crate or
//! language made it.
//!
//! ```text
//! device_from_raw    a cl_command_queue that you made   ->  an `OpenCl` that shares it, and its context
//! buffer_from_raw    a cl_mem of that context           ->  a `Buffer`, without a copy
//! raw_context, raw_queue, raw_device, raw_mem           the handles of what koel made
//! ```
//!
//! **Who owns a reference.** A handle that goes in is retained: koel has a reference of its own until the last [`OpenCl`] or
//! the [`Buffer`] goes, and the caller's stays the caller's, to be released at any time. A handle that comes out is
//! borrowed: it is valid as long as what it was taken from. Whoever keeps it longer, or hands it to a wrapper that releases
//! it in the end, retains it first (`clRetainMemObject` and the like).
//!
//! **Order.** koel's commands stand in the queue of its device and may be under way when a call returns. Commands of your own
//! in the same queue keep their order with them. With those in other queues, call [`finish`](crate::HashBackend::finish)
//! before yours, and let yours be finished before koel is called.
//!
//! **Which library.** A handle means something to the OpenCL library that made it, and koel loads the system's, or what
//! `KOEL_OPENCL` names. Bindings that link to OpenCL in the ordinary way call the same one, for koel's loader defines those
//! functions. Where a binding loads a library itself, the two must be one: see to it that `KOEL_OPENCL` names no other.
//!
//! The types are those that `cl-sys`, `opencl-sys` and other bindings have, so no crate's version is part of this contract.
//! With the crate [`opencl3`](https://crates.io/crates/opencl3):
//!
//! ```ignore
//! let queue = CommandQueue::create_default(&context, CL_QUEUE_PROFILING_ENABLE)?;
//! let keys = unsafe { Buffer::<u32>::create(&context, CL_MEM_READ_WRITE, n, null_mut())? };
//! // .. kernels of your own write the keys, and then
//! queue.finish()?;
//! // SAFETY: both are alive, of the OpenCL that the program is linked to, and nobody else uses them meanwhile.
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

/// A context, as OpenCL knows it.
#[expect(non_camel_case_types, reason = "the name is OpenCL's")]
pub type cl_context = *mut c_void;
/// A queue of commands, as OpenCL knows it.
#[expect(non_camel_case_types, reason = "the name is OpenCL's")]
pub type cl_command_queue = *mut c_void;
/// A device, as OpenCL knows it.
#[expect(non_camel_case_types, reason = "the name is OpenCL's")]
pub type cl_device_id = *mut c_void;
/// Memory of a context, as OpenCL knows it.
#[expect(non_camel_case_types, reason = "the name is OpenCL's")]
pub type cl_mem = *mut c_void;

/// The device of a queue, sharing the queue and its context. Retains both, and tests the device's 64-bit atomics.
///
/// With profiling on in the queue, times are the device's; without, they are the clock's on the wall.
///
/// # Safety
/// `queue` is null or a valid `cl_command_queue` of the OpenCL library that koel loads (the [module](self) says which). Its
/// reference stays the caller's.
///
/// # Errors
/// [`Error::InvalidParameter`] for null; [`Error::NoDevice`] if koel has no OpenCL, for `KOEL_OPENCL` is `off`;
/// [`Error::Unsupported`] if the device is not usable or the queue runs commands out of order; [`Error::Device`] if the
/// driver fails.
#[expect(unsafe_code, reason = "only the caller knows what a pointer is")]
pub unsafe fn device_from_raw(queue: cl_command_queue) -> Result<OpenCl> {
    not_null(queue, "the handle of a queue")?;
    // Others may have found an OpenCL where koel may not look.
    let status = koel_opencl_loader::status();
    if !matches!(status, Status::Loaded { .. }) {
        return Err(Error::NoDevice { wanted: "the device of a queue".into(), reason: status.to_string() });
    }
    // SAFETY: it is valid, as the caller promises; this retains it.
    OpenCl::of_queue(unsafe { CommandQueue::from_raw_copied_ptr(queue) })
}

/// A buffer over memory that is on the device already, of as many elements as it has room for. Retains the memory, and
/// costs some questions to the driver. Memory in koel's own pool never comes of it.
///
/// Calls that get the same memory by two such buffers (one handle given twice, a buffer and its part, parts that overlap)
/// are refused with [`Error::Aliased`].
///
/// # Safety
/// - `memory` is null or a valid `cl_mem` of the OpenCL library that `device` is of. Its reference stays the caller's.
/// - Its flags allow what koel will do with it: it is read by kernels and by the host if it is an input, written if it is
///   an output. Host memory that it was made over (`CL_MEM_USE_HOST_PTR`) outlives the [`Buffer`], and is that of no other.
/// - While a call of koel works on it, and until its device has [finished](crate::HashBackend::finish), no command of
///   another queue writes to it, none reads it where koel writes, and it is not mapped.
///
/// # Errors
/// [`Error::InvalidParameter`] for null, for images and pipes, and if its size is no multiple of an element's;
/// [`Error::WrongDevice`] if it was made in another context than the device's; [`Error::Device`] if the driver does not tell.
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

/// The memory of a buffer. Borrowed: valid as long as `buffer`. It may have room for more than the buffer's elements, a
/// sixteenth at most; of an empty one, one element is there.
///
/// The memory is not given to another buffer when this one goes, for commands of other queues may still use it.
pub fn raw_mem<T: Word>(buffer: &Buffer<T>) -> cl_mem {
    buffer.lend();
    buffer.memory().as_ptr()
}

fn not_null(handle: *mut c_void, what: &'static str) -> Result<()> {
    if handle.is_null() {
        return Err(Error::parameter(what, "(null)", "give one that was made"));
    }
    Ok(())
}
