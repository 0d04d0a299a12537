//! Memory of an OpenCL device.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use ocl::core::{MemInfo, MemInfoResult};
use ocl::flags::MemFlags;

use super::pool::Pool;
use crate::backend::{DeviceBuffer, Word};
use crate::error::{Error, Result};
use crate::opencl::OpenCl;

/// Elements in the memory of an OpenCL device, freed on drop: the device keeps it for the next buffer of that size, up
/// to an eighth of its memory, unless [`ocl`](Self::ocl) was asked for.
///
/// OpenCL has no buffer of length 0; behind an empty one here stands memory for one element.
pub struct Buffer<T: Word> {
    memory: ocl::Buffer<T>,
    context: ocl::core::Context,
    len: usize,
    /// Where its memory comes from; nowhere, if it was made by others.
    home: Weak<Pool>,
    /// Whether commands in other queues than its device's may use it.
    lent: AtomicBool,
    /// Where it lies in another buffer, if it is a part of one.
    part_of: Option<Part>,
}

/// Bytes of a buffer that was divided.
struct Part {
    /// The handle of the whole.
    whole: usize,
    bytes: Range<u64>,
}

/// Memory that others may have a handle of, for [`Place::aliases`].
pub(in crate::opencl) struct Place {
    /// The address of the [`Buffer`].
    buffer: usize,
    whole: usize,
    bytes: Range<u64>,
}

impl Place {
    /// Whether two buffers share memory. One that is given twice does not count: it can only be read.
    pub(in crate::opencl) fn aliases(&self, other: &Place) -> bool {
        let meet = self.bytes.start < other.bytes.end && other.bytes.start < self.bytes.end;
        self.buffer != other.buffer && self.whole == other.whole && meet
    }
}

/// New memory of a context, with this queue for commands that name none. The builder of `ocl` takes the context from a
/// queue too, but panics if the driver fails to tell it.
pub(in crate::opencl) fn create<T: Word>(
    context: &ocl::Context,
    queue: &ocl::Queue,
    flags: MemFlags,
    len: usize,
) -> ocl::Result<ocl::Buffer<T>> {
    let mut memory = ocl::Buffer::builder().context(context).flags(flags).len(len).build()?;
    memory.set_default_queue(queue.clone());
    Ok(memory)
}

impl<T: Word> Buffer<T> {
    /// Memory with unspecified contents.
    pub(in crate::opencl) fn allocate(device: &OpenCl, len: usize) -> Result<Buffer<T>> {
        let bytes = (len as u64).saturating_mul(size_of::<T>() as u64);
        // Sizes are numbers of bytes to a driver, and ocl multiplies without a look.
        let most = device.0.info.largest_buffer.unwrap_or(u64::MAX).min(isize::MAX as u64);
        if bytes > most {
            return Err(Error::TooLarge { what: "bytes in one buffer of this device", asked: bytes, most });
        }
        let memory = device
            .memory(len)
            .map_err(|error| device.failed_allocating(format!("allocating {bytes} bytes"), bytes, error))?;
        let (context, home) = (device.0.context.as_core().clone(), Arc::downgrade(&device.0.pool));
        let buffer = Buffer { memory, context, len, home, lent: AtomicBool::new(false), part_of: None };
        // Whoever trusts in what is there does not pass the tests.
        #[cfg(test)]
        device.poison(&buffer)?;
        Ok(buffer)
    }

    /// Takes a buffer of the `ocl` crate, so that data that is on the device already need not leave it. Costs some
    /// questions to the driver.
    ///
    /// Commands on it in other queues must have finished, and its flags must allow what koel will do with it. Calls that
    /// get the same memory by two such buffers (clones of one, a buffer and its part, parts that overlap) are refused
    /// with [`Error::Aliased`].
    ///
    /// # Errors
    /// [`Error::WrongDevice`] if it was made in another context than `device`'s; [`Error::Device`] if the driver does
    /// not tell.
    pub fn from_ocl(device: &OpenCl, memory: ocl::Buffer<T>) -> Result<Buffer<T>> {
        let info = |which| {
            memory.mem_info(which).map_err(|error| device.failed("asking a buffer for its context and place", error))
        };
        let context = match info(MemInfo::Context)? {
            MemInfoResult::Context(context) if context.as_ptr() == device.0.context.as_core().as_ptr() => context,
            _ => return Err(Error::WrongDevice),
        };
        let part_of = match (info(MemInfo::AssociatedMemobject)?, info(MemInfo::Offset)?, info(MemInfo::Size)?) {
            (
                MemInfoResult::AssociatedMemobject(Some(whole)),
                MemInfoResult::Offset(at),
                MemInfoResult::Size(bytes),
            ) => Some(Part {
                whole: whole.as_ptr() as usize,
                bytes: at as u64..(at as u64).saturating_add(bytes as u64),
            }),
            _ => None,
        };
        let len = memory.len();
        Ok(Buffer { memory, context, len, home: Weak::new(), lent: AtomicBool::new(true), part_of })
    }

    /// The buffer as the `ocl` crate knows it, for kernels of your own. It may have room for more than this buffer's
    /// elements, a sixteenth at most; of an empty one, one element is there.
    ///
    /// koel's commands on it stand in the queue of the [`OpenCl`] that made it, so wait for them first
    /// ([`finish`](crate::HashBackend::finish)) or use the same queue.
    pub fn ocl(&self) -> &ocl::Buffer<T> {
        self.lend();
        &self.memory
    }

    /// The same for koel's own commands, in the queue of its device.
    pub(in crate::opencl) fn memory(&self) -> &ocl::Buffer<T> {
        &self.memory
    }

    /// Commands in other queues may use it from now on, so that its memory is not given to another buffer.
    pub(in crate::opencl) fn lend(&self) {
        self.lent.store(true, Ordering::Relaxed);
    }

    /// Whether its memory is of this pool.
    pub(in crate::opencl) fn is_of(&self, pool: &Arc<Pool>) -> bool {
        std::ptr::eq(self.home.as_ptr(), Arc::as_ptr(pool))
    }

    pub(in crate::opencl) fn context(&self) -> &ocl::core::Context {
        &self.context
    }

    /// Where its memory is, if others may have a handle of it.
    pub(in crate::opencl) fn place(&self) -> Option<Place> {
        let buffer = std::ptr::from_ref(self) as usize;
        let whole = || (self.memory.as_core().as_ptr() as usize, 0..u64::MAX);
        let place = |part: &Part| (part.whole, part.bytes.clone());
        let (whole, bytes) = self.part_of.as_ref().map_or_else(whole, place);
        self.lent.load(Ordering::Relaxed).then_some(Place { buffer, whole, bytes })
    }

    pub(in crate::opencl) fn bytes(&self) -> u64 {
        self.len as u64 * size_of::<T>() as u64
    }
}

impl<T: Word> Drop for Buffer<T> {
    fn drop(&mut self) {
        if let Some(pool) = self.home.upgrade() {
            pool.put(&self.memory, !self.lent.load(Ordering::Relaxed));
        }
    }
}

impl<T: Word> DeviceBuffer for Buffer<T> {
    fn len(&self) -> usize {
        self.len
    }
}

impl<T: Word> fmt::Debug for Buffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer").field("len", &self.len).finish_non_exhaustive()
    }
}
