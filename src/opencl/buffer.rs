//! Memory of an OpenCL device.

use std::fmt;

use ocl::core::{Mem, MemInfo, MemInfoResult};

use super::OpenCl;
use crate::backend::{DeviceBuffer, HashBackend, Word};
use crate::error::{Error, Result};

/// Device memory: koel's own, or a program's that it handed in by [`OpenCl::adopt`].
pub struct Buffer<T: Word> {
    pub(super) memory: ocl::Buffer<T>,
    /// Elements in use. OpenCL has no empty buffers, so one of length 0 has an element that is never touched.
    len: usize,
    /// The address of the context, which tells devices apart.
    context: usize,
}

impl<T: Word> Buffer<T> {
    /// The buffer of the `ocl` crate, to pass to kernels of one's own. If [`DeviceBuffer::len`] is 0 it has one element.
    pub fn ocl(&self) -> &ocl::Buffer<T> {
        &self.memory
    }

    pub(super) fn core(&self) -> &Mem {
        self.memory.as_core()
    }
}

impl<T: Word> DeviceBuffer for Buffer<T> {
    fn len(&self) -> usize {
        self.len
    }
}

impl<T: Word> fmt::Debug for Buffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} elements)", self.len)
    }
}

impl OpenCl {
    /// Takes a buffer of the `ocl` crate as it is; nothing is copied, and both names stay valid.
    ///
    /// The caller sees to it that nothing else writes to it while koel works on it, and that what was enqueued on other
    /// queues is done.
    ///
    /// # Errors
    /// [`Error::WrongDevice`] if it was made in another context than this device's.
    pub fn adopt<T: Word>(&self, memory: ocl::Buffer<T>) -> Result<Buffer<T>> {
        match memory.mem_info(MemInfo::Context) {
            Ok(MemInfoResult::Context(context)) if context.as_ptr() as usize == self.context_address() => {
                let len = memory.len();
                Ok(Buffer { memory, len, context: self.context_address() })
            }
            _ => Err(Error::WrongDevice),
        }
    }

    pub(super) fn allocate<T: Word>(&self, len: usize) -> Result<Buffer<T>> {
        let bytes = (len as u64).saturating_mul(size_of::<T>() as u64);
        let no_room = || Error::OutOfMemory { device: self.info().to_string(), bytes };
        if self.info().largest_buffer.is_some_and(|largest| bytes > largest) {
            return Err(no_room());
        }
        let memory = ocl::Buffer::builder()
            .queue(self.shared.queue.clone())
            .len(len.max(1))
            .build()
            .map_err(|error| self.error("allocating", error, bytes))?;
        Ok(Buffer { memory, len, context: self.context_address() })
    }

    /// Refuses buffers of other contexts.
    pub(super) fn check<T: Word>(&self, buffer: &Buffer<T>) -> Result<()> {
        if buffer.context == self.context_address() { Ok(()) } else { Err(Error::WrongDevice) }
    }

    fn context_address(&self) -> usize {
        self.shared.context.as_ptr() as usize
    }
}
