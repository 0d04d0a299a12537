//! Memory of an OpenCL device.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use ocl::core::{self, Mem, MemInfo, MemInfoResult, MemObjectType};

use super::pool::Pool;
use crate::backend::{DeviceBuffer, Word};
use crate::error::{Error, Result};
use crate::opencl::OpenCl;

/// Elements in the memory of an OpenCL device. When the buffer is dropped, the device caches its memory for the next
/// buffer of that size, up to an eighth of the device's memory, unless the handle of the buffer was exported
/// ([`interop`](crate::opencl::interop)).
///
/// OpenCL has no buffers of length 0, so an empty buffer has memory for one element.
pub struct Buffer<T: Word> {
    memory: Mem,
    context: core::Context,
    len: usize,
    /// Bytes of the memory.
    capacity: usize,
    /// The pool of its memory; empty if the memory was imported.
    home: Weak<Pool>,
    /// Whether commands in queues other than its device's may use it.
    lent: AtomicBool,
    /// Its position in another buffer, if it is a sub-buffer.
    part_of: Option<Part>,
    elements: PhantomData<T>,
}

/// The range of a sub-buffer in its whole buffer.
struct Part {
    /// The handle of the whole buffer.
    whole: usize,
    bytes: Range<u64>,
}

/// The position of memory whose handle may be used elsewhere, for [`Place::aliases`].
pub(in crate::opencl) struct Place {
    /// The address of the [`Buffer`].
    buffer: usize,
    whole: usize,
    bytes: Range<u64>,
}

impl Place {
    /// Whether two buffers share memory. The same buffer twice is not an alias, because it can then only be read.
    pub(in crate::opencl) fn aliases(&self, other: &Place) -> bool {
        let meet = self.bytes.start < other.bytes.end && other.bytes.start < self.bytes.end;
        self.buffer != other.buffer && self.whole == other.whole && meet
    }
}

impl<T: Word> Buffer<T> {
    /// Memory with unspecified contents.
    pub(in crate::opencl) fn allocate(device: &OpenCl, len: usize) -> Result<Buffer<T>> {
        let bytes = (len as u64).saturating_mul(size_of::<T>() as u64);
        let most = device.0.info.largest_buffer.unwrap_or(u64::MAX).min(isize::MAX as u64);
        if bytes > most {
            return Err(Error::TooLarge { what: "bytes in one buffer of this device", requested: bytes, most });
        }
        // OpenCL has no buffers of length 0.
        let (memory, capacity) = device
            .memory(len.max(1) * size_of::<T>())
            .map_err(|error| device.failed_allocating(format!("allocating {bytes} bytes"), bytes, error))?;
        let (context, home) = (device.0.context.as_core().clone(), Arc::downgrade(&device.0.pool));
        let (lent, part_of, elements) = (AtomicBool::new(false), None, PhantomData);
        let buffer = Buffer { memory, context, len, capacity, home, lent, part_of, elements };
        // Tests fail if code relies on the contents.
        #[cfg(test)]
        device.poison(&buffer)?;
        Ok(buffer)
    }

    /// Imports memory whose handle is valid and was retained for it. Costs some calls of the driver.
    pub(in crate::opencl) fn of_memory(device: &OpenCl, memory: Mem) -> Result<Buffer<T>> {
        let info = |which| {
            core::get_mem_object_info(&memory, which)
                .map_err(|error| device.failed("asking a buffer for its context, size and place", error))
        };
        let context = match info(MemInfo::Context)? {
            MemInfoResult::Context(context) if context.as_ptr() == device.0.context.as_core().as_ptr() => context,
            _ => return Err(Error::WrongDevice),
        };
        let (MemInfoResult::Type(MemObjectType::Buffer), MemInfoResult::Size(capacity)) =
            (info(MemInfo::Type)?, info(MemInfo::Size)?)
        else {
            return Err(Error::parameter("memory", "that is an image or a pipe", "use a buffer"));
        };
        if !capacity.is_multiple_of(size_of::<T>()) {
            let advice = "use memory for whole elements";
            return Err(Error::parameter("memory of", format!("{capacity} bytes"), advice));
        }
        let part_of = match (info(MemInfo::AssociatedMemobject)?, info(MemInfo::Offset)?) {
            (MemInfoResult::AssociatedMemobject(Some(whole)), MemInfoResult::Offset(at)) => {
                let bytes = at as u64..(at as u64).saturating_add(capacity as u64);
                Some(Part { whole: whole.as_ptr() as usize, bytes })
            }
            _ => None,
        };
        let (len, home) = (capacity / size_of::<T>(), Weak::new());
        let (lent, elements) = (AtomicBool::new(true), PhantomData);
        Ok(Buffer { memory, context, len, capacity, home, lent, part_of, elements })
    }

    /// The memory, for commands in the queue of its device. Other queues may only use memory that was
    /// [lent](Self::lend).
    pub(in crate::opencl) fn memory(&self) -> &Mem {
        &self.memory
    }

    /// Bytes of its memory, which may be more than its elements take.
    #[cfg(test)]
    pub(in crate::opencl) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Allows commands in other queues to use the memory, so that it is not reused for another buffer.
    pub(in crate::opencl) fn lend(&self) {
        self.lent.store(true, Ordering::Relaxed);
    }

    /// Whether its memory belongs to this pool.
    pub(in crate::opencl) fn is_of(&self, pool: &Arc<Pool>) -> bool {
        std::ptr::eq(self.home.as_ptr(), Arc::as_ptr(pool))
    }

    pub(in crate::opencl) fn context(&self) -> &ocl::core::Context {
        &self.context
    }

    /// The position of its memory, if its handle may be used elsewhere.
    pub(in crate::opencl) fn place(&self) -> Option<Place> {
        let buffer = std::ptr::from_ref(self) as usize;
        let whole = || (self.memory.as_ptr() as usize, 0..u64::MAX);
        let place = |part: &Part| (part.whole, part.bytes.clone());
        let (whole, bytes) = self.part_of.as_ref().map_or_else(whole, place);
        self.lent.load(Ordering::Relaxed).then_some(Place { buffer, whole, bytes })
    }

    /// The same memory with at most this many elements.
    pub(in crate::opencl) fn shortened(mut self, len: usize) -> Buffer<T> {
        self.len = self.len.min(len);
        self
    }

    pub(in crate::opencl) fn bytes(&self) -> u64 {
        self.len as u64 * size_of::<T>() as u64
    }
}

impl<T: Word> Drop for Buffer<T> {
    fn drop(&mut self) {
        if let Some(pool) = self.home.upgrade() {
            pool.put(&self.memory, self.capacity, !self.lent.load(Ordering::Relaxed));
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
