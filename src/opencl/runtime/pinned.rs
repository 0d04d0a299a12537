//! Host memory that a device's bus reads and writes directly, for queries and results of the caller.
//!
//! ```text
//! ordinary memory    the host copies it to pinned slots, and the bus reads them        staging.rs
//! pinned memory      the bus reads it directly
//! ```
//!
//! A device knows the addresses of all such memory that it or another device of its driver has allocated. So calls
//! recognise pinned memory in any slice they receive, even if the slice is only a part of it.

use std::ops::Range;
use std::sync::Arc;

use super::commands::map_pinned;
use super::staging::Staging;
use crate::backend::Word;
use crate::error::{Error, Result};
use crate::opencl::OpenCl;

/// Host memory that a device's bus reads and writes at its full rate, used like a slice. See [`OpenCl::pinned`].
pub struct PinnedVec<T: Word> {
    len: usize,
    memory: HostMemory<T>,
}

enum HostMemory<T: Word> {
    Mapped { map: ocl::MemMap<u64>, range: Range<usize>, staging: Arc<Staging> },
    Plain(Box<[T]>),
}

impl<T: Word> PinnedVec<T> {
    /// Whether the memory is pinned: otherwise the driver had no such memory.
    pub fn is_pinned(&self) -> bool {
        matches!(self.memory, HostMemory::Mapped { .. })
    }
}

impl<T: Word> std::ops::Deref for PinnedVec<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match &self.memory {
            HostMemory::Mapped { map, .. } => &bytemuck::cast_slice(map)[..self.len],
            HostMemory::Plain(words) => words,
        }
    }
}

impl<T: Word> std::ops::DerefMut for PinnedVec<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        match &mut self.memory {
            HostMemory::Mapped { map, .. } => &mut bytemuck::cast_slice_mut(map)[..self.len],
            HostMemory::Plain(words) => words,
        }
    }
}

impl<T: Word> Drop for PinnedVec<T> {
    fn drop(&mut self) {
        if let HostMemory::Mapped { range, staging, .. } = &self.memory {
            staging.forget(range);
        }
    }
}

impl<T: Word> std::fmt::Debug for PinnedVec<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PinnedVec").field("len", &self.len).field("pinned", &self.is_pinned()).finish()
    }
}

impl OpenCl {
    /// Allocates zeros in host memory that the bus of this device, and the buses of other devices of its driver, read
    /// and write at their full rate. Queries in this memory, and results written to it, are transferred directly,
    /// without a copy on the host. If the driver has no such memory, ordinary memory is returned.
    ///
    /// Cost: the system cannot move or swap its pages, and allocating them takes far longer than using them once.
    ///
    /// ```no_run
    /// use koel::{Cuckoo, HashTable, OpenCl};
    /// let device = OpenCl::best()?;
    /// let table = HashTable::builder(Cuckoo::default()).build(&device, &[5, 6], &[50, 60])?;
    /// let (mut queries, mut values) = (device.pinned(1 << 24)?, device.pinned(1 << 24)?);
    /// let mut found = device.pinned((1 << 24) / 32)?;
    /// queries[7] = 6;
    /// table.get_into(&queries, &mut values, &mut found)?;
    /// assert_eq!((values[7], found[0]), (60, 1 << 7));
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::TooLarge`] if the bytes exceed an address space; [`Error::OutOfMemory`] if there is no ordinary memory
    /// either.
    pub fn pinned<T: Word>(&self, len: usize) -> Result<PinnedVec<T>> {
        let most = isize::MAX as usize / size_of::<T>();
        if len > most {
            return Err(Error::TooLarge { what: "words of host memory", requested: len as u64, most: most as u64 });
        }
        let staging = &self.0.staging;
        if let Ok(mut map) = map_pinned(&self.0.context, &self.0.queue, len * size_of::<T>()) {
            let Range { start, end } = map.as_mut_ptr_range();
            let range = start as usize..end as usize;
            staging.note(range.clone());
            return Ok(PinnedVec { len, memory: HostMemory::Mapped { map, range, staging: staging.clone() } });
        }
        let bytes = (len as u64).saturating_mul(size_of::<T>() as u64);
        let capacity = bytemuck::allocation::try_zeroed_slice_box(len);
        let words = capacity.map_err(|()| Error::OutOfMemory { device: "this machine".into(), bytes })?;
        Ok(PinnedVec { len, memory: HostMemory::Plain(words) })
    }
}
