//! Transfers from several devices to one, through slots of pinned memory. The buses of all devices work concurrently.
//!
//! ```text
//! down, a queue of each source    read 0 | read 1 | read 2 | read 3 | read 4  | ..
//! slots                             0        1        2        3        4         of 8 in turn
//! up, a queue of this device                                   write 0 | write 1 | ..
//! ```
//! Events of one context cannot be used in another. So the host waits for a read before it enqueues the write, and for
//! that write before the slot is reused for another read. Reads are enqueued ahead, so that no bus waits for the host.

use std::collections::{BTreeSet, VecDeque};

use ocl::core::Event;

use super::commands::Straight;
use super::staging::Slot;
use crate::backend::{HashBackend, Piece, Word};
use crate::error::Result;
use crate::opencl::{Buffer, OpenCl, backend};

/// The number of slots, which are used in turn, and of reads that are enqueued ahead of the current write.
const SLOTS: usize = 8;
const AHEAD: usize = 4;

/// A message for an impossible state.
const NO_MEMORY: &str = "a slot without memory";

/// A read into a slot, which is to be written to the device.
struct Ahead {
    slot: usize,
    len: usize,
    at: usize,
}

/// The slots, and the queue in which they are written to the device.
struct Transfer<'a, T: Word> {
    slots: Vec<Slot>,
    up: Straight<'a>,
    to: &'a Buffer<T>,
    /// The event for which the first write waits.
    after: Option<Event>,
}

impl<T: Word> Transfer<'_, T> {
    fn write(&mut self, Ahead { slot, len, at }: Ahead) -> ocl::Result<()> {
        let after = self.after.take();
        let slot = self.slots[slot].pinned().ok_or(NO_MEMORY)?;
        self.up.send_pinned(slot, len, self.to, at, after.as_slice()).map(drop)
    }
}

impl OpenCl {
    /// Writes the pieces to `to[at..]`. Returns false if the device has no slots or queues for transfers; the caller
    /// then uses another path.
    pub(in crate::opencl) fn pull<T: Word>(
        &self,
        to: &mut Buffer<T>,
        at: usize,
        pieces: &[Piece<'_, OpenCl, T>],
    ) -> Result<bool> {
        self.check_owner(to)?;
        let mut count = 0_usize;
        for Piece { device, buffer, range } in pieces {
            device.check_owner(buffer)?;
            backend::range(range.start, range.len(), buffer)?;
            count = count.saturating_add(range.len());
        }
        backend::range(at, count, to)?;
        if count == 0 {
            return Ok(true);
        }
        let done = self.with_room(|| self.pulled(to, at, pieces)).map_err(|error| {
            let from = pieces.iter().map(|piece| piece.device.info().id.as_str()).collect::<BTreeSet<_>>();
            let doing = format!("bringing elements from {}", from.into_iter().collect::<Vec<_>>().join(", "));
            self.failed_using(doing, to.bytes(), error)
        })?;
        if done {
            pieces.iter().for_each(|piece| piece.device.ledger().transfer(0, piece.range.len() * size_of::<T>()));
            self.ledger().transfer(count * size_of::<T>(), 0);
        }
        Ok(done)
    }

    fn pulled<T: Word>(&self, to: &Buffer<T>, mut at: usize, pieces: &[Piece<'_, OpenCl, T>]) -> ocl::Result<bool> {
        let sources: Option<Vec<_>> = pieces.iter().map(|piece| piece.device.transfer_queues()).collect();
        let (Some(queues), Some(sources)) = (self.transfer_queues(), sources) else { return Ok(false) };
        let Some(slots) = self.slots(SLOTS) else { return Ok(false) };
        let most = (self.0.sizes.slot / size_of::<T>()).max(1);
        let (mut ahead, mut number) = (VecDeque::with_capacity(AHEAD + 1), 0);
        // The memory may have belonged to another buffer before.
        let mut way = Transfer { slots, up: Straight::new(&queues.up), to, after: Some(self.mark()?) };
        // Guards wait when they are dropped, even after an error, so that no buffer is reused while it is read.
        let mut guards = Vec::with_capacity(pieces.len());
        for (Piece { buffer, range, .. }, queues) in pieces.iter().zip(sources) {
            let down = guards.push_mut(Straight::new(&queues.down));
            for first in range.clone().step_by(most) {
                let (slot, len) = (number % SLOTS, most.min(range.end - first));
                let pinned = way.slots[slot].pinned().ok_or(NO_MEMORY)?;
                down.fetch_pinned(pinned, len, buffer, first, &[])?;
                ahead.push_back(Ahead { slot, len, at });
                if ahead.len() > AHEAD {
                    ahead.pop_front().map_or(Ok(()), |oldest| way.write(oldest))?;
                }
                (number, at) = (number + 1, at + len);
            }
        }
        ahead.into_iter().try_for_each(|rest| way.write(rest))?;
        way.slots.iter_mut().filter_map(Slot::pinned).try_for_each(|slot| slot.settle())?;
        Ok(true)
    }
}
