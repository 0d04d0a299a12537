//! Memory of an OpenCL device.

use std::fmt;

use ocl::core::{MemInfo, MemInfoResult};
use ocl::flags::MemFlags;

use super::OpenCl;
use crate::backend::{DeviceBuffer, Word};
use crate::error::{Error, Result};

/// Elements in the memory of an OpenCL device, freed on drop.
///
/// OpenCL has no buffer of length 0; behind an empty one here stands memory for one element.
pub struct Buffer<T: Word> {
    memory: ocl::Buffer<T>,
    context: ocl::core::Context,
    len: usize,
}

impl<T: Word> Buffer<T> {
    /// Memory with unspecified contents.
    pub(super) fn allocate(device: &OpenCl, len: usize) -> Result<Buffer<T>> {
        let bytes = (len as u64).saturating_mul(size_of::<T>() as u64);
        if let Some(most) = device.0.info.largest_buffer.filter(|&most| bytes > most) {
            return Err(Error::TooLarge { what: "bytes in one buffer of this device", asked: bytes, most });
        }
        let memory = ocl::Buffer::builder()
            .queue(device.0.queue.clone())
            .flags(MemFlags::new().read_write())
            .len(len.max(1))
            .build()
            .map_err(|error| device.failed_allocating(format!("allocating {bytes} bytes"), bytes, error))?;
        Ok(Buffer { memory, context: device.0.context.as_core().clone(), len })
    }

    /// Takes a buffer of the `ocl` crate, so that data that is on the device already need not leave it. No cost.
    ///
    /// Commands on it in other queues must have finished, and its flags must allow what koel will do with it.
    ///
    /// # Errors
    /// [`Error::WrongDevice`] if it was made in another context than `device`'s.
    pub fn from_ocl(device: &OpenCl, memory: ocl::Buffer<T>) -> Result<Buffer<T>> {
        let info = memory.mem_info(MemInfo::Context);
        let len = memory.len();
        match info.map_err(|error| device.failed("asking a buffer for its context", error))? {
            MemInfoResult::Context(context) if context.as_ptr() == device.0.context.as_core().as_ptr() => {
                Ok(Buffer { memory, context, len })
            }
            _ => Err(Error::WrongDevice),
        }
    }

    /// The buffer as the `ocl` crate knows it, for kernels of your own. Of an empty one, one element is there.
    ///
    /// koel's commands on it stand in the queue of the [`OpenCl`] that made it, so wait for them first
    /// ([`finish`](crate::HashBackend::finish)) or use the same queue.
    pub fn ocl(&self) -> &ocl::Buffer<T> {
        &self.memory
    }

    pub(super) fn context(&self) -> &ocl::core::Context {
        &self.context
    }

    pub(super) fn bytes(&self) -> u64 {
        self.len as u64 * size_of::<T>() as u64
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
