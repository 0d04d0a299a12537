//! Device memory that was freed, kept for whoever asks for as much: a second build of the same size allocates nothing.
//!
//! ```text
//! allocate    memory of the same room that is kept? the latest of it. otherwise new memory; if there is none,
//!             all that is kept is given back, and the device is asked once more
//! drop        memory is kept, and the oldest given back where that would be too much
//! ```
//!
//! Its contents are whatever they were. All commands of a device stand in one queue that keeps their order, so what
//! earlier owners have queued is done before what the next one queues; memory that commands of other queues may still
//! use (see [`interop::raw_mem`](crate::opencl::interop::raw_mem)) is never kept.

use std::collections::VecDeque;
use std::sync::Mutex;

use ocl::core::{Mem, Status};

use super::commands::create;
use crate::backend::DeviceInfo;
use crate::opencl::{OpenCl, lock};

/// Above so many bytes, room is rounded up to one of sixteen steps between powers of two. Below it stays exact, which
/// simulators that watch over the ends of buffers like.
const EXACT: usize = 1 << 20;
/// Steps between powers of two.
const STEPS_LOG2: u32 = 4;
/// Buffers kept at most.
const MOST_BUFFERS: usize = 256;
/// Bytes kept at most where a device does not say how many it has.
const MOST_BYTES: u64 = 256 << 20;

#[derive(Default)]
pub(in crate::opencl) struct Pool {
    /// Bytes kept at most: an eighth of the device's.
    most: u64,
    /// Bytes of the device's memory, if known.
    memory: Option<u64>,
    shelf: Mutex<Shelf>,
}

#[derive(Default)]
struct Shelf {
    /// The oldest first.
    kept: VecDeque<Kept>,
    kept_bytes: u64,
    /// Bytes in use by buffers that will come back.
    used_bytes: u64,
}

struct Kept {
    room: usize,
    memory: Mem,
}

impl Pool {
    pub(in crate::opencl) fn of(info: &DeviceInfo) -> Pool {
        let most = info.memory.map_or(MOST_BYTES, |memory| memory / 8);
        Pool { most, memory: info.memory, shelf: Mutex::default() }
    }

    /// Memory with room for so many bytes, if some is kept.
    fn take(&self, room: usize) -> Option<Mem> {
        let shelf = &mut *lock(&self.shelf);
        let kept = shelf.kept.remove(shelf.kept.iter().rposition(|kept| kept.room == room)?)?;
        shelf.kept_bytes -= room as u64;
        shelf.used_bytes += room as u64;
        Some(kept.memory)
    }

    /// Gives memory back to the device until so many bytes more would fit: drivers that allocate late do not say in
    /// time that they do not.
    fn make_room(&self, bytes: u64) {
        let Some(memory) = self.memory else { return };
        let shelf = &mut *lock(&self.shelf);
        while shelf.used_bytes + shelf.kept_bytes + bytes > memory - memory / 8 {
            let Some(oldest) = shelf.kept.pop_front() else { return };
            shelf.kept_bytes -= oldest.room as u64;
        }
    }

    /// Takes back memory that [`OpenCl::memory`] gave; `keep` says whether it can be given again.
    pub(in crate::opencl) fn put(&self, memory: &Mem, room: usize, keep: bool) {
        let bytes = room as u64;
        let shelf = &mut *lock(&self.shelf);
        shelf.used_bytes = shelf.used_bytes.saturating_sub(bytes);
        if !keep || bytes > self.most {
            return;
        }
        shelf.kept.push_back(Kept { room, memory: memory.clone() });
        shelf.kept_bytes += bytes;
        while shelf.kept_bytes > self.most || shelf.kept.len() > MOST_BUFFERS {
            let Some(oldest) = shelf.kept.pop_front() else { return };
            shelf.kept_bytes -= oldest.room as u64;
        }
    }

    /// Gives all that is kept back to the device; whether there was anything.
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
    /// Memory with room for at least so many bytes, and its room. Its contents are unspecified. The caller has checked the
    /// number.
    pub(in crate::opencl) fn memory(&self, bytes: usize) -> ocl::Result<(Mem, usize)> {
        let pool = &self.0.pool;
        let room = room(bytes, self.0.info.largest_buffer);
        if let Some(memory) = pool.take(room) {
            return Ok((memory, room));
        }
        pool.make_room(room as u64);
        let memory = self.with_room(|| create(&self.0.context, room))?;
        self.0.ledger.allocation(room as u64);
        lock(&pool.shelf).used_bytes += room as u64;
        Ok((memory, room))
    }

    /// Does what needs memory of the device, and does it again after giving back what is kept, if there was none.
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
        // Memory is given back when the last command that uses it is done.
        match self.0.queue.finish() {
            Ok(()) => deed().map_err(Into::into),
            Err(_) => Err(error),
        }
    }
}

/// Whether a driver may have said that there is no memory.
fn lacks_memory(error: &ocl::Error) -> bool {
    use Status::{CL_MEM_OBJECT_ALLOCATION_FAILURE, CL_OUT_OF_HOST_MEMORY, CL_OUT_OF_RESOURCES};
    let said = error.api_status();
    matches!(said, Some(CL_MEM_OBJECT_ALLOCATION_FAILURE | CL_OUT_OF_HOST_MEMORY | CL_OUT_OF_RESOURCES))
}

/// The room of memory for so many bytes: a sixteenth more at most, and no more than a buffer can have.
fn room(bytes: usize, largest_buffer: Option<u64>) -> usize {
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
            assert_eq!(room(bytes, None), bytes);
        }
        for bytes in [EXACT + 8, 8_000_024, 8 << 20, (1 << 30) + 8, 987_654_312] {
            let room = room(bytes, None);
            assert!(room >= bytes && room - bytes <= bytes / 16, "{bytes} {room}");
            assert_eq!(room % size_of::<u64>(), 0, "whole elements");
            assert_eq!(self::room(room, None), room, "rounding again changes nothing");
            assert_eq!(self::room(bytes, Some(bytes as u64)), bytes, "no more than a buffer can have");
        }
        assert_eq!(room(usize::MAX - 7, None), usize::MAX - 7);
    }
}
