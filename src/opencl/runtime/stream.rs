//! Queries from the host, with results to the host, in chunks: transfers in both directions and kernels overlap.
//!
//! ```text
//! host     copy 0 | copy 1 | copy 2 | copy 3 | out 0, copy 4 | out 1, copy 5 | ..     between the caller's memory and slots
//! up               write 0 | write 1 | write 2 | write 3       | write 4       | ..    a queue
//! compute                   | pass 0  | pass 1  | pass 2        | pass 3        | ..   the device's queue
//! down                                 | read 0  | read 1        | read 2        | ..  a queue
//! ```
//!
//! Four lanes, each with a chunk on the device and a pinned slot for each of its columns; chunk i uses lane i mod 4.
//! One chunk is uploaded, one processed, one downloaded, and the next is enqueued meanwhile, so that the bus never
//! waits for the host. Before a lane is used again, the results of its last chunk are copied out of it. If the caller's
//! memory is pinned, no slots are used and the host copies nothing.
//!
//! ```text
//! write i    after the pass over the lane's last chunk, which read the memory that is overwritten
//! pass i     after write i
//! read i     after pass i
//! ```
//!
//! Buffers are returned to the pool only when no queue but the device's own can have commands on them: even after an
//! error, the two [`Straight`] wait for both transfer queues before the lanes are dropped.

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
/// The smallest chunk is this fraction of a full one: fewer queries are not worth a separate chunk.
const SMALLEST_SHARE: usize = 8;

/// A chunk on the device, and its pending commands.
struct Lane<'a, Q: Word, A: Word> {
    chunk: Option<ChunkOf<OpenCl, Q, A>>,
    /// A slot for the queries; `None` if the caller's memory is pinned.
    queries: Option<Slot>,
    bits: Vec<Transfer<'a, u32>>,
    words: Vec<Transfer<'a, A>>,
    /// The event of the latest pass.
    passed: Option<Event>,
}

/// How one column of results is transferred to the host.
struct Transfer<'a, T: Word> {
    /// A slot; `None` if the caller's memory is pinned.
    slot: Option<Slot>,
    coming: Option<Coming<'a, T>>,
}

/// Pending results.
enum Coming<'a, T: Word> {
    /// To a slot, with their final destination.
    ToSlot(&'a mut [T]),
    /// To the caller's memory, with the event of the transfer.
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
        // These are dropped before the lanes, and wait until nothing is pending.
        let (mut up, mut down) = (Straight::new(&queues.up), Straight::new(&queues.down));
        for (i, queried) in queries.chunks(len).enumerate() {
            let lane = &mut lanes[i % LANES];
            let chunk = lane.chunk_for(self, i * len, queried.len())?;
            lane.load(self, chunk, queried, &mut up).map_err(failed)?;
            if let Some(chunk) = lane.chunk.take() {
                lane.chunk.insert(pass(chunk)?).check(bits, words)?;
            }
            lane.fetch(self, next_of(&mut to_bits), next_of(&mut to_words), &mut down, failed)?;
            lanes[(i + 1) % LANES].take_out().map_err(failed)?;
        }
        let count = queries.len().div_ceil(len);
        (count..count + LANES).try_for_each(|i| lanes[i % LANES].take_out()).map_err(failed)
    }

    /// The number of queries of a chunk if a query or its result has this many bytes. Short batches have smaller
    /// chunks, so that they still overlap.
    fn chunk_len(&self, queries: usize, bytes: usize) -> usize {
        let most = QUERIES_AT_ONCE.min(self.0.sizes.slot / bytes) / 32 * 32;
        let share = queries.div_ceil(LANES + 1).next_multiple_of(32);
        share.clamp((most / SMALLEST_SHARE).next_multiple_of(32), most.max(32))
    }

    /// Empty lanes with slots, if available.
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
            bits: bits.iter().map(|&by_slot| Transfer { slot: slot(by_slot), coming: None }).collect(),
            words: words.iter().map(|&by_slot| Transfer { slot: slot(by_slot), coming: None }).collect(),
            passed: None,
        });
        Some((queues, lanes.collect()))
    }

    /// An event that completes after everything that is now in this device's queue.
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
    /// The chunk of this lane if it has the same length, otherwise a new one.
    fn chunk_for(&mut self, device: &OpenCl, first: usize, len: usize) -> Result<ChunkOf<OpenCl, Q, A>> {
        if let Some(chunk) = self.chunk.take().filter(|chunk| chunk.queries.len() == len) {
            return Ok(Chunk { first, ..chunk });
        }
        // Its memory may have belonged to another buffer before.
        self.passed = None;
        Ok(Chunk::of_queries(first, Buffer::allocate(device, len)?))
    }

    /// Enqueues the transfer of a chunk's queries, and lets the device's queue wait for it.
    fn load(
        &mut self,
        device: &OpenCl,
        chunk: ChunkOf<OpenCl, Q, A>,
        queried: &'a [Q],
        up: &mut Straight<'a>,
    ) -> ocl::Result<()> {
        // The transfer waits for the pass that read the memory to be overwritten; for new memory, for everything that
        // is queued.
        let after = match self.passed.take() {
            Some(passed) => passed,
            None => device.mark()?,
        };
        let to = &self.chunk.insert(chunk).queries;
        let there = match self.queries.as_mut().and_then(Slot::pinned) {
            Some(slot) => {
                copy(queried, &mut slot.words()?[..queried.len()]);
                up.send_pinned(slot, queried.len(), to, 0, &[after])?
            }
            None => up.send(queried, to, 0, &[after])?,
        };
        core::enqueue_barrier_with_wait_list(device.0.queue.as_core(), Some(&there), None::<&mut Event>, None)?;
        Ok(())
    }

    /// Enqueues the transfers of the results of the latest pass.
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

    /// Waits for the pending results, and copies them to their destination.
    fn take_out(&mut self) -> ocl::Result<()> {
        self.bits.iter_mut().try_for_each(Transfer::take_out)?;
        self.words.iter_mut().try_for_each(Transfer::take_out)
    }
}

impl<'a, T: Word> Transfer<'a, T> {
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
