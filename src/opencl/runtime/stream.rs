//! Queries from the host, answered to the host, in chunks whose transfers both ways and kernels overlap.
//!
//! ```text
//! host     copy 0 | copy 1 | copy 2 | copy 3 | out 0, copy 4 | out 1, copy 5 | ..     between the caller's memory and slots
//! up               write 0 | write 1 | write 2 | write 3       | write 4       | ..    a queue
//! compute                   | pass 0  | pass 1  | pass 2        | pass 3        | ..   the device's queue
//! down                                 | read 0  | read 1        | read 2        | ..  a queue
//! ```
//!
//! Four lanes, each with a chunk on the device and a pinned slot for each of its columns; chunk i goes through lane
//! i mod 4: one chunk comes, one is worked on, one goes, and the next is queued meanwhile, so that the bus never waits for
//! the host. Before a lane is used again, the answers of its last chunk are taken out of it. Where the caller's memory is
//! pinned itself, no slots are used and the host copies nothing.
//!
//! ```text
//! write i    after the pass over the lane's last chunk, which read what is now written over
//! pass i     after write i
//! read i     after pass i
//! ```
//!
//! Buffers are given back only when no queue but the device's own can still have commands on them: whatever happens,
//! both queues of transfers are waited for (by the two [`Straight`]) before the lanes go.

use std::slice::ChunksMut;

use ocl::core::{self, Event};

use super::commands::Straight;
use super::staging::{Queues, Slot, copy};
use crate::backend::chunks::{Pass, one_by_one};
use crate::backend::{Answers, Chunk, ChunkOf, DeviceBuffer, QUERIES_AT_ONCE, Word};
use crate::error::{Error, Result};
use crate::opencl::{Buffer, OpenCl};

/// Chunks on the device at a time.
const LANES: usize = 4;
/// Fewer queries are not worth a chunk of their own: a fraction of a full one.
const SMALLEST_SHARE: usize = 8;

/// A chunk on the device, and what is under way for it.
struct Lane<'a, Q: Word, A: Word> {
    chunk: Option<ChunkOf<OpenCl, Q, A>>,
    /// A slot for the queries; none where the caller's memory is pinned.
    queries: Option<Slot>,
    bits: Vec<Way<'a, u32>>,
    words: Vec<Way<'a, A>>,
    /// The end of the latest pass.
    passed: Option<Event>,
}

/// How one column of answers comes to the host.
struct Way<'a, T: Word> {
    /// A slot; none where the caller's memory is pinned.
    slot: Option<Slot>,
    coming: Option<Coming<'a, T>>,
}

/// Answers that are under way.
enum Coming<'a, T: Word> {
    /// To a slot, and where they go from there.
    ToSlot(&'a mut [T]),
    /// To the caller's memory, and when they have come.
    Straight(Event),
}

impl OpenCl {
    pub(in crate::opencl) fn stream<Q: Word, A: Word>(
        &self,
        queries: &[Q],
        answers: Answers<'_, A>,
        pass: Pass<'_, OpenCl, Q, A>,
    ) -> Result<()> {
        answers.check(queries.len())?;
        let each = size_of::<Q>().max(size_of::<A>());
        let len = self.chunk_len(queries.len(), each);
        let lanes = if queries.len() > len { self.lanes(queries, &answers) } else { None };
        let Some((queues, mut lanes)) = lanes else { return one_by_one(self, queries, answers, pass) };
        let failed =
            |error: ocl::Error| self.failed_using("transferring queries and answers", (len * each) as u64, error);

        let (bits, words) = (answers.bits.is_some(), answers.words.len());
        let mut to_bits: Vec<_> = answers.bits.into_iter().map(|to| to.chunks_mut(len / 32)).collect();
        let mut to_words: Vec<_> = answers.words.into_iter().map(|to| to.chunks_mut(len)).collect();
        // These go before the lanes, and wait until nothing is under way.
        let (mut up, mut down) = (Straight::new(&queues.up), Straight::new(&queues.down));
        for (i, asked) in queries.chunks(len).enumerate() {
            let lane = &mut lanes[i % LANES];
            let chunk = lane.chunk_for(self, i * len, asked.len())?;
            lane.load(self, chunk, asked, &mut up).map_err(failed)?;
            if let Some(chunk) = lane.chunk.take() {
                lane.chunk.insert(pass(chunk)?).check(bits, words)?;
            }
            lane.fetch(self, next_of(&mut to_bits), next_of(&mut to_words), &mut down, failed)?;
            lanes[(i + 1) % LANES].take_out().map_err(failed)?;
        }
        let count = queries.len().div_ceil(len);
        (count..count + LANES).try_for_each(|i| lanes[i % LANES].take_out()).map_err(failed)
    }

    /// Queries of a chunk, of which, or of whose answers, one has so many bytes: fewer than usual where there are few, so
    /// that they overlap all the same.
    fn chunk_len(&self, queries: usize, bytes: usize) -> usize {
        let most = QUERIES_AT_ONCE.min(self.0.sizes.slot / bytes) / 32 * 32;
        let share = queries.div_ceil(LANES + 1).next_multiple_of(32);
        share.clamp((most / SMALLEST_SHARE).next_multiple_of(32), most.max(32))
    }

    /// Empty lanes with slots, if they can be had.
    fn lanes<'a, Q: Word, A: Word>(
        &self,
        queries: &[Q],
        answers: &Answers<'_, A>,
    ) -> Option<(&Queues, Vec<Lane<'a, Q, A>>)> {
        let (queues, staging) = (self.transfer_queues()?, &self.0.staging);
        let by_slot = |pinned: bool| !pinned;
        let queries = by_slot(staging.is_pinned(queries));
        let bits: Vec<bool> = answers.bits.iter().map(|bits| by_slot(staging.is_pinned(bits))).collect();
        let words: Vec<bool> = answers.words.iter().map(|words| by_slot(staging.is_pinned(words))).collect();
        let of_a_lane = [queries].iter().chain(&bits).chain(&words).filter(|&&by_slot| by_slot).count();
        let mut slots = self.slots(LANES * of_a_lane)?.into_iter();
        let mut slot = |by_slot: bool| if by_slot { slots.next() } else { None };
        let lanes = (0..LANES).map(|_| Lane {
            chunk: None,
            queries: slot(queries),
            bits: bits.iter().map(|&by_slot| Way { slot: slot(by_slot), coming: None }).collect(),
            words: words.iter().map(|&by_slot| Way { slot: slot(by_slot), coming: None }).collect(),
            passed: None,
        });
        Some((queues, lanes.collect()))
    }

    /// An event that comes when all is done that this device's queue holds now.
    pub(super) fn mark(&self) -> ocl::Result<Event> {
        let mut event = Event::null();
        core::enqueue_marker_with_wait_list(self.0.queue.as_core(), None::<&Event>, Some(&mut event), None)?;
        self.0.queue.flush()?;
        Ok(event)
    }
}

/// The next piece of each column.
fn next_of<'a, T>(columns: &mut [ChunksMut<'a, T>]) -> Vec<&'a mut [T]> {
    columns.iter_mut().map(|pieces| pieces.next().unwrap_or_default()).collect()
}

impl<'a, Q: Word, A: Word> Lane<'a, Q, A> {
    /// The chunk that was here, if it is as long, or a new one.
    fn chunk_for(&mut self, device: &OpenCl, first: usize, len: usize) -> Result<ChunkOf<OpenCl, Q, A>> {
        if let Some(chunk) = self.chunk.take().filter(|chunk| chunk.queries.len() == len) {
            return Ok(Chunk { first, ..chunk });
        }
        // Its memory may have been another's a moment ago.
        self.passed = None;
        Ok(Chunk::asking(first, Buffer::allocate(device, len)?))
    }

    /// Queues the transfer of a chunk's queries, and lets the device's queue wait for it.
    fn load(
        &mut self,
        device: &OpenCl,
        chunk: ChunkOf<OpenCl, Q, A>,
        asked: &'a [Q],
        up: &mut Straight<'a>,
    ) -> ocl::Result<()> {
        // After the pass that read what is written over; in new memory, after all that is queued.
        let after = match self.passed.take() {
            Some(passed) => passed,
            None => device.mark()?,
        };
        let to = &self.chunk.insert(chunk).queries;
        let there = match self.queries.as_mut().and_then(Slot::pinned) {
            Some(slot) => {
                copy(asked, &mut slot.words()?[..asked.len()]);
                up.send_pinned(slot, asked.len(), to, 0, &[after])?
            }
            None => up.send(asked, to, 0, &[after])?,
        };
        core::enqueue_barrier_with_wait_list(device.0.queue.as_core(), Some(&there), None::<&mut Event>, None)?;
        Ok(())
    }

    /// Queues the transfers of the answers of the pass that was queued last.
    fn fetch(
        &mut self,
        device: &OpenCl,
        to_bits: Vec<&'a mut [u32]>,
        to_words: Vec<&'a mut [A]>,
        down: &mut Straight<'a>,
        failed: impl Fn(ocl::Error) -> Error,
    ) -> Result<()> {
        let passed = self.passed.insert(device.mark().map_err(&failed)?);
        let Some(chunk) = &self.chunk else { return Ok(()) };
        for ((way, to), from) in self.bits.iter_mut().zip(to_bits).zip(&chunk.bits) {
            way.fetch(device, to, from, down, passed, &failed)?;
        }
        for ((way, to), from) in self.words.iter_mut().zip(to_words).zip(&chunk.words) {
            way.fetch(device, to, from, down, passed, &failed)?;
        }
        Ok(())
    }

    /// Waits for the answers that are under way, and puts them where they are wanted.
    fn take_out(&mut self) -> ocl::Result<()> {
        self.bits.iter_mut().try_for_each(Way::take_out)?;
        self.words.iter_mut().try_for_each(Way::take_out)
    }
}

impl<'a, T: Word> Way<'a, T> {
    fn fetch(
        &mut self,
        device: &OpenCl,
        to: &'a mut [T],
        from: &Buffer<T>,
        down: &mut Straight<'a>,
        after: &Event,
        failed: impl Fn(ocl::Error) -> Error,
    ) -> Result<()> {
        device.check_owner(from)?;
        Error::check_length("a column of answers", from.len().min(to.len()), to.len())?;
        let after = std::slice::from_ref(after);
        self.coming = Some(match self.slot.as_mut().and_then(Slot::pinned) {
            Some(slot) => {
                down.fetch_pinned(slot, to.len(), from, 0, after).map_err(failed)?;
                Coming::ToSlot(to)
            }
            None => Coming::Straight(down.fetch(to, from, 0, after).map_err(failed)?),
        });
        Ok(())
    }

    fn take_out(&mut self) -> ocl::Result<()> {
        match self.coming.take() {
            Some(Coming::Straight(come)) => core::wait_for_event(&come)?,
            Some(Coming::ToSlot(to)) => {
                if let Some(slot) = self.slot.as_mut().and_then(Slot::pinned) {
                    copy(&slot.words()?[..to.len()], to);
                }
            }
            None => {}
        }
        Ok(())
    }
}
