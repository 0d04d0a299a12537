//! A cache of freed device memory: a second build of the same size allocates nothing.
//!
//! ```text
//! allocate    the latest cached memory of this capacity; otherwise new memory; if there is none, all cached memory is
//!             freed, and the allocation is retried
//! drop        memory is cached, and the oldest is freed if there would be too much
//! ```
//!
//! The contents are unspecified. All commands of a device are in one in-order queue, so those of earlier owners
//! complete before those of the next one. Memory that commands of other queues may still use (see
//! [`interop::raw_mem`](crate::opencl::interop::raw_mem)) is never cached.

use std::collections::VecDeque;
use std::sync::Mutex;

use ocl::core::{Mem, Status};

use super::commands::create;
use crate::backend::DeviceInfo;
use crate::opencl::{OpenCl, lock};

/// Above this many bytes, capacities are rounded up to one of sixteen steps between powers of two. Smaller capacities
/// are exact, so that simulators detect accesses beyond the ends of buffers.
const EXACT: usize = 1 << 20;
/// Steps between powers of two.
const STEPS_LOG2: u32 = 4;
/// The maximum number of cached buffers.
const MOST_BUFFERS: usize = 256;
/// The maximum number of cached bytes if a device does not report the size of its memory.
const MOST_BYTES: u64 = 256 << 20;

#[derive(Default)]
pub(in crate::opencl) struct Pool {
    /// The maximum number of cached bytes: an eighth of the device's memory.
    most: u64,
    /// Bytes of the device's memory, if known.
    memory: Option<u64>,
    shelf: Mutex<Shelf>,
}

#[derive(Default)]
struct Shelf {
    /// Cached memory, the oldest first.
    kept: VecDeque<Kept>,
    kept_bytes: u64,
    /// Bytes used by buffers that will be returned.
    used_bytes: u64,
}

struct Kept {
    capacity: usize,
    memory: Mem,
}

impl Pool {
    pub(in crate::opencl) fn of(info: &DeviceInfo) -> Pool {
        let most = info.memory.map_or(MOST_BYTES, |memory| memory / 8);
        Pool { most, memory: info.memory, shelf: Mutex::default() }
    }

    /// Cached memory of this capacity, if there is some.
    fn take(&self, capacity: usize) -> Option<Mem> {
        let shelf = &mut *lock(&self.shelf);
        let kept = shelf.kept.remove(shelf.kept.iter().rposition(|kept| kept.capacity == capacity)?)?;
        shelf.kept_bytes -= capacity as u64;
        shelf.used_bytes += capacity as u64;
        Some(kept.memory)
    }

    /// Frees cached memory until this many more bytes fit, because drivers that allocate late do not report a lack of
    /// memory in time.
    fn evict(&self, bytes: u64) {
        let Some(memory) = self.memory else { return };
        let shelf = &mut *lock(&self.shelf);
        while shelf.used_bytes + shelf.kept_bytes + bytes > memory - memory / 8 {
            let Some(oldest) = shelf.kept.pop_front() else { return };
            shelf.kept_bytes -= oldest.capacity as u64;
        }
    }

    /// Returns memory that [`OpenCl::memory`] allocated; `keep` is whether it may be cached.
    pub(in crate::opencl) fn put(&self, memory: &Mem, capacity: usize, keep: bool) {
        let bytes = capacity as u64;
        let shelf = &mut *lock(&self.shelf);
        shelf.used_bytes = shelf.used_bytes.saturating_sub(bytes);
        if !keep || bytes > self.most {
            return;
        }
        shelf.kept.push_back(Kept { capacity, memory: memory.clone() });
        shelf.kept_bytes += bytes;
        while shelf.kept_bytes > self.most || shelf.kept.len() > MOST_BUFFERS {
            let Some(oldest) = shelf.kept.pop_front() else { return };
            shelf.kept_bytes -= oldest.capacity as u64;
        }
    }

    /// Frees all cached memory. Returns whether there was any.
    pub(in crate::opencl) fn empty(&self) -> bool {
        let shelf = &mut *lock(&self.shelf);
        shelf.kept_bytes = 0;
        !std::mem::take(&mut shelf.kept).is_empty()
    }

    #[cfg(test)]
    pub(in crate::opencl) fn kept_bytes(&self) -> u64 {
        lock(&self.shelf).kept_bytes
    }
}

impl OpenCl {
    /// Memory for at least this many bytes, and its capacity. Its contents are unspecified. The caller has checked the
    /// number.
    pub(in crate::opencl) fn memory(&self, bytes: usize) -> ocl::Result<(Mem, usize)> {
        let pool = &self.0.pool;
        let capacity = capacity(bytes, self.0.info.largest_buffer);
        if let Some(memory) = pool.take(capacity) {
            return Ok((memory, capacity));
        }
        pool.evict(capacity as u64);
        let memory = self.with_room(|| create(&self.0.context, capacity))?;
        self.0.ledger.allocation(capacity as u64);
        lock(&pool.shelf).used_bytes += capacity as u64;
        Ok((memory, capacity))
    }

    /// Runs an operation that needs device memory. If there is not enough, frees all cached memory and retries.
    pub(in crate::opencl) fn with_room<R, E: Into<ocl::Error>>(
        &self,
        deed: impl FnMut() -> std::result::Result<R, E>,
    ) -> ocl::Result<R> {
        self.again_if(lacks_memory, deed)
    }

    pub(in crate::opencl) fn again_if<R, E: Into<ocl::Error>>(
        &self,
        lacking: impl Fn(&ocl::Error) -> bool,
        mut deed: impl FnMut() -> std::result::Result<R, E>,
    ) -> ocl::Result<R> {
        let error = match deed() {
            Ok(done) => return Ok(done),
            Err(error) => error.into(),
        };
        if !lacking(&error) || !self.0.pool.empty() {
            return Err(error);
        }
        // Memory is freed when the last command that uses it has completed.
        match self.0.queue.finish() {
            Ok(()) => deed().map_err(Into::into),
            Err(_) => Err(error),
        }
    }
}

/// Whether a driver may have reported a lack of memory.
fn lacks_memory(error: &ocl::Error) -> bool {
    use Status::{CL_MEM_OBJECT_ALLOCATION_FAILURE, CL_OUT_OF_HOST_MEMORY, CL_OUT_OF_RESOURCES};
    let said = error.api_status();
    matches!(said, Some(CL_MEM_OBJECT_ALLOCATION_FAILURE | CL_OUT_OF_HOST_MEMORY | CL_OUT_OF_RESOURCES))
}

/// The capacity of memory for this many bytes: at most a sixteenth more, and at most that of the largest buffer.
fn capacity(bytes: usize, largest_buffer: Option<u64>) -> usize {
    if bytes <= EXACT {
        return bytes;
    }
    let step = 1 << (bytes.ilog2() - STEPS_LOG2);
    match bytes.checked_next_multiple_of(step) {
        Some(rounded) if largest_buffer.is_none_or(|most| rounded as u64 <= most) => rounded,
        _ => bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_exact_below_a_mebibyte_and_a_sixteenth_more_at_most_above() {
        for bytes in [4, 8, 4000, EXACT] {
            assert_eq!(capacity(bytes, None), bytes);
        }
        for bytes in [EXACT + 8, 8_000_024, 8 << 20, (1 << 30) + 8, 987_654_312] {
            let capacity = capacity(bytes, None);
            assert!(capacity >= bytes && capacity - bytes <= bytes / 16, "{bytes} {capacity}");
            assert_eq!(capacity % size_of::<u64>(), 0, "whole elements");
            assert_eq!(self::capacity(capacity, None), capacity, "rounding again changes nothing");
            assert_eq!(self::capacity(bytes, Some(bytes as u64)), bytes, "no more than a buffer can have");
        }
        assert_eq!(capacity(usize::MAX - 7, None), usize::MAX - 7);
    }
}
