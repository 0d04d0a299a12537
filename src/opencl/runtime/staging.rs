//! Long transfers, through pinned memory.
//!
//! ```text
//! upload      the threads of the host copy a piece into a pinned slot; the bus reads it while they fill the next one
//! download    the bus fills slots; the threads read one while the next ones are filled
//! ```
//!
//! A driver transfers ordinary memory by one thread through a small internal pinned buffer, at a fraction of the
//! bus's rate (on an H200 8.5 GB/s to the device and 16 from it, against 55 in each direction from pinned memory).
//!
//! The slots are allocated on first use, at most [`MOST_SLOTS`] of them, and are freed with the device. A transfer
//! without slots (the driver has no more memory, or other threads use them) is a plain one, and so are short transfers,
//! and all transfers of devices that use the host's memory.

use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock};

use super::commands::Pinned;
use crate::backend::Word;
use crate::opencl::{Buffer, OpenCl, lock};
use crate::parallel::each;

/// Slots of a device: enough for a lookup in chunks and two transfers at a time; 256 MiB.
const MOST_SLOTS: usize = 32;
/// Slots of a transfer.
const SLOTS_OF_A_TRANSFER: usize = 4;
/// Bytes that one thread copies at a time.
pub(super) const COPIED_AT_ONCE: usize = 128 << 10;

/// Pinned memory of a device, and the queues for transfers from and to it, in addition to the one for kernels.
pub(in crate::opencl) struct Staging {
    wanted: bool,
    slots: Mutex<Slots>,
    queues: OnceLock<Option<Queues>>,
    /// The driver of the device.
    driver: String,
}

/// The addresses of all [`PinnedVec`](crate::opencl::PinnedVec)s, with the driver that allocated them: memory pinned
/// for one of its devices is pinned for all of them.
static PINNED: Mutex<Vec<(String, Range<usize>)>> = Mutex::new(Vec::new());

#[derive(Default)]
struct Slots {
    free: Vec<Pinned>,
    made: usize,
    /// Whether the driver had no more memory for slots.
    refused: bool,
}

/// A queue for each direction.
pub(in crate::opencl) struct Queues {
    pub(in crate::opencl) up: ocl::Queue,
    pub(in crate::opencl) down: ocl::Queue,
}

/// A slot that is returned on drop, possibly with a pending transfer.
pub(in crate::opencl) struct Slot {
    pinned: Option<Pinned>,
    staging: Arc<Staging>,
}

impl Drop for Slot {
    fn drop(&mut self) {
        lock(&self.staging.slots).free.extend(self.pinned.take());
    }
}

impl Staging {
    /// Creates the state for a device of this driver. Long transfers use slots if `wanted`.
    pub(in crate::opencl) fn new(wanted: bool, driver: String) -> Staging {
        Staging { wanted, slots: Mutex::default(), queues: OnceLock::new(), driver }
    }

    /// Whether the device has separate memory, so that long transfers use slots.
    pub(in crate::opencl) fn is_wanted(&self) -> bool {
        self.wanted
    }

    /// Registers pinned memory.
    pub(in crate::opencl) fn note(&self, range: Range<usize>) {
        lock(&PINNED).push((self.driver.clone(), range));
    }

    /// Unregisters pinned memory.
    pub(in crate::opencl) fn forget(&self, range: &Range<usize>) {
        lock(&PINNED).retain(|(driver, pinned)| *driver != self.driver || pinned != range);
    }

    #[cfg(test)]
    pub(in crate::opencl) fn slots_made(&self) -> usize {
        lock(&self.slots).made
    }

    /// Whether all of the slice is in a [`PinnedVec`](crate::opencl::PinnedVec) that the device's bus can access.
    pub(in crate::opencl) fn is_pinned<T>(&self, data: &[T]) -> bool {
        let Range { start, end } = data.as_ptr_range();
        let (start, end) = (start as usize, end as usize);
        let holds = |pinned: &Range<usize>| pinned.start <= start && end <= pinned.end;
        lock(&PINNED).iter().any(|(driver, pinned)| holds(pinned) && *driver == self.driver)
    }
}

impl OpenCl {
    /// This many slots, or `None`.
    pub(in crate::opencl) fn slots(&self, count: usize) -> Option<Vec<Slot>> {
        let staging = &self.0.staging;
        // All threads of the host fill and read them. If no threads can be started, transfers are plain.
        if !staging.wanted || crate::threads::ready().is_err() {
            return None;
        }
        let slots = &mut *lock(&staging.slots);
        while slots.free.len() < count {
            if slots.refused || slots.made >= MOST_SLOTS {
                return None;
            }
            match Pinned::new(&self.0.context, &self.0.queue, self.0.sizes.slot) {
                Ok(slot) => slots.free.push(slot),
                Err(_) => slots.refused = true,
            }
            slots.made = slots.made.saturating_add(usize::from(!slots.refused));
        }
        let taken = slots.free.split_off(slots.free.len() - count);
        Some(taken.into_iter().map(|pinned| Slot { pinned: Some(pinned), staging: staging.clone() }).collect())
    }

    /// The queues for transfers that overlap with kernels, if they can be created.
    pub(in crate::opencl) fn transfer_queues(&self) -> Option<&Queues> {
        let staging = &self.0.staging;
        if !staging.wanted {
            return None;
        }
        let queue = || ocl::Queue::new(&self.0.context, self.0.device, None).ok();
        let queues = || Some(Queues { up: queue()?, down: queue()? });
        staging.queues.get_or_init(queues).as_ref()
    }

    /// Writes to `buffer[at..]` through slots, and returns when the data is in the slots. Returns false if it did
    /// nothing.
    pub(in crate::opencl) fn write_staged<T: Word>(
        &self,
        buffer: &Buffer<T>,
        at: usize,
        data: &[T],
    ) -> ocl::Result<bool> {
        let Some((mut slots, len)) = self.slots_for(data) else { return Ok(false) };
        let count = slots.len();
        for (i, piece) in data.chunks(len).enumerate() {
            let Some(slot) = slots[i % count].pinned() else { continue };
            copy(piece, &mut slot.words()?[..piece.len()]);
            let event = slot.send(&self.0.queue, piece.len(), buffer, at + i * len, &[])?;
            self.moving(self.event_to_stamp().map(|_| event));
        }
        Ok(true)
    }

    /// Reads `buffer[at..]` through slots. Returns false if it did nothing.
    pub(in crate::opencl) fn read_staged<T: Word>(
        &self,
        buffer: &Buffer<T>,
        at: usize,
        data: &mut [T],
    ) -> ocl::Result<bool> {
        let Some((mut slots, len)) = self.slots_for(data) else { return Ok(false) };
        let (count, whole) = (slots.len(), data.len());
        // Transfers piece number i, if there is one, to its slot.
        let fetch = |slots: &mut [Slot], i: usize| -> ocl::Result<()> {
            if let (Some(left), Some(slot)) = (whole.checked_sub(i * len), slots[i % count].pinned())
                && left > 0
            {
                let event = slot.fetch(&self.0.queue, left.min(len), buffer, at + i * len, &[])?;
                self.moving(self.event_to_stamp().map(|_| event));
            }
            Ok(())
        };
        (0..count).try_for_each(|i| fetch(&mut slots, i))?;
        for (i, piece) in data.chunks_mut(len).enumerate() {
            if let Some(slot) = slots[i % count].pinned() {
                let here = slot.words()?;
                copy(&here[..piece.len()], piece);
            }
            fetch(&mut slots, i + count)?;
        }
        Ok(true)
    }

    /// Slots for a transfer, and the elements that each takes at a time; `None` if a plain transfer is faster.
    fn slots_for<T: Word>(&self, data: &[T]) -> Option<(Vec<Slot>, usize)> {
        let (staging, sizes) = (&self.0.staging, self.0.sizes);
        if size_of_val(data) < sizes.shortest || !staging.wanted || staging.is_pinned(data) {
            return None;
        }
        // Shorter transfers use shorter pieces, so that copies and the bus still overlap.
        let bytes = (size_of_val(data) / SLOTS_OF_A_TRANSFER).clamp(sizes.shortest / 2, sizes.slot);
        let len = (bytes / size_of::<T>()).max(1);
        Some((self.slots(data.len().div_ceil(len).min(SLOTS_OF_A_TRANSFER))?, len))
    }
}

impl Slot {
    pub(in crate::opencl) fn pinned(&mut self) -> Option<&mut Pinned> {
        self.pinned.as_mut()
    }
}

/// Copies by all threads of the host.
pub(in crate::opencl) fn copy<T: Word>(from: &[T], to: &mut [T]) {
    let len = COPIED_AT_ONCE / size_of::<T>();
    if from.len() <= len {
        return to.copy_from_slice(from);
    }
    each((to, from), len, |_, (to, from)| to.copy_from_slice(from));
}
