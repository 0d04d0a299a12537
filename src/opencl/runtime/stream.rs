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

use ocl::core::{self, Event};

use super::commands::Straight;
use super::staging::{Queues, Slot, copy};
use crate::backend::chunks::{check_columns, one_by_one};
use crate::backend::{Answers, Chunk, DeviceBuffer, QUERIES_AT_ONCE};
use crate::error::{Error, Result};
use crate::opencl::{Buffer, OpenCl};

/// Chunks on the device at a time.
const LANES: usize = 4;
/// Fewer queries are not worth a chunk of their own: a fraction of a full one.
const SMALLEST_SHARE: usize = 8;

/// A chunk on the device, and what is under way for it.
struct Lane<'a> {
    chunk: Option<Chunk<Buffer<u32>>>,
    /// A slot for the queries and one for each column of answers; none where the caller's memory is pinned.
    queries: Option<Slot>,
    answers: Vec<Option<Slot>>,
    /// The end of the latest pass.
    passed: Option<Event>,
    /// Where the answers go that are under way, and when they have come.
    coming: Vec<(&'a mut [u32], Option<Event>)>,
}

impl OpenCl {
    pub(in crate::opencl) fn stream(
        &self,
        queries: &[u32],
        answers: Vec<Answers<'_>>,
        mut pass: impl FnMut(Chunk<Buffer<u32>>) -> Result<Chunk<Buffer<u32>>>,
    ) -> Result<()> {
        answers.iter().try_for_each(|column| column.check(queries.len()))?;
        let len = self.chunk_len(queries.len());
        let lanes = if queries.len() > len { self.lanes(queries, &answers) } else { None };
        let Some((queues, mut lanes)) = lanes else { return one_by_one(self, queries, answers, pass) };
        let bytes = (len * size_of::<u32>()) as u64;
        let failed = |error: ocl::Error| self.failed_using("transferring queries and answers", bytes, error);

        let wanted = answers.len();
        let mut places: Vec<_> = answers.into_iter().map(|column| column.to.chunks_mut(len / column.each)).collect();
        // These go before the lanes, and wait until nothing is under way.
        let (mut up, mut down) = (Straight::new(&queues.up), Straight::new(&queues.down));
        for (i, asked) in queries.chunks(len).enumerate() {
            let lane = &mut lanes[i % LANES];
            let chunk = lane.chunk_for(self, i * len, asked.len())?;
            lane.load(self, chunk, asked, &mut up).map_err(failed)?;
            let to: Vec<_> = places.iter_mut().map(|places| places.next().unwrap_or_default()).collect();
            if let Some(chunk) = lane.chunk.take() {
                let chunk = lane.chunk.insert(pass(chunk)?);
                check_columns(chunk, wanted)?;
                for (to, from) in to.iter().zip(&chunk.answers) {
                    self.check_owner(from)?;
                    Error::check_length("a column of answers", from.len().min(to.len()), to.len())?;
                }
            }
            lane.fetch(self, to, &mut down).map_err(failed)?;
            lanes[(i + 1) % LANES].take_out().map_err(failed)?;
        }
        let count = queries.len().div_ceil(len);
        (count..count + LANES).try_for_each(|i| lanes[i % LANES].take_out()).map_err(failed)
    }

    /// Queries of a chunk: fewer than usual where there are few, so that they overlap all the same.
    fn chunk_len(&self, queries: usize) -> usize {
        let most = QUERIES_AT_ONCE.min(self.0.sizes.slot / size_of::<u32>()) / 32 * 32;
        let share = queries.div_ceil(LANES + 1).next_multiple_of(32);
        share.clamp((most / SMALLEST_SHARE).next_multiple_of(32), most.max(32))
    }

    /// Empty lanes with slots, if they can be had.
    fn lanes<'a>(&self, queries: &[u32], answers: &[Answers<'_>]) -> Option<(&Queues, Vec<Lane<'a>>)> {
        let (queues, staging) = (self.transfer_queues()?, &self.0.staging);
        let straight: Vec<bool> = answers.iter().map(|column| staging.is_pinned(column.to)).collect();
        let from_slots = !staging.is_pinned(queries);
        let of_a_lane = usize::from(from_slots) + straight.iter().filter(|&&straight| !straight).count();
        let mut slots = self.slots(LANES * of_a_lane)?.into_iter();
        let lane = |_| Lane {
            chunk: None,
            queries: from_slots.then(|| slots.next()).flatten(),
            answers: straight.iter().map(|&straight| if straight { None } else { slots.next() }).collect(),
            passed: None,
            coming: Vec::new(),
        };
        Some((queues, (0..LANES).map(lane).collect()))
    }

    /// An event that comes when all is done that this device's queue holds now.
    fn mark(&self) -> ocl::Result<Event> {
        let mut event = Event::null();
        core::enqueue_marker_with_wait_list(self.0.queue.as_core(), None::<&Event>, Some(&mut event), None)?;
        self.0.queue.flush()?;
        Ok(event)
    }
}

impl<'a> Lane<'a> {
    /// The chunk that was here, if it is as long, or a new one.
    fn chunk_for(&mut self, device: &OpenCl, first: usize, len: usize) -> Result<Chunk<Buffer<u32>>> {
        if let Some(chunk) = self.chunk.take().filter(|chunk| chunk.queries.len() == len) {
            return Ok(Chunk { first, ..chunk });
        }
        // Its memory may have been another's a moment ago.
        self.passed = None;
        Ok(Chunk { first, queries: Buffer::allocate(device, len)?, answers: Vec::new() })
    }

    /// Queues the transfer of a chunk's queries, and lets the device's queue wait for it.
    fn load(
        &mut self,
        device: &OpenCl,
        chunk: Chunk<Buffer<u32>>,
        asked: &'a [u32],
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
                up.send_pinned(slot, asked.len(), to, &[after])?
            }
            None => up.send(asked, to, 0, &[after])?,
        };
        core::enqueue_barrier_with_wait_list(device.0.queue.as_core(), Some(&there), None::<&mut Event>, None)?;
        Ok(())
    }

    /// Queues the transfers of the answers of the pass that was queued last.
    fn fetch(&mut self, device: &OpenCl, to: Vec<&'a mut [u32]>, down: &mut Straight<'a>) -> ocl::Result<()> {
        let passed = self.passed.insert(device.mark()?);
        let Some(chunk) = &self.chunk else { return Ok(()) };
        for ((to, slot), from) in to.into_iter().zip(&mut self.answers).zip(&chunk.answers) {
            let after = std::slice::from_ref(passed);
            match slot.as_mut().and_then(Slot::pinned) {
                Some(slot) => {
                    down.fetch_pinned(slot, to.len(), from, after)?;
                    self.coming.push((to, None));
                }
                None => {
                    let come = down.fetch(to, from, 0, after)?;
                    self.coming.push((&mut [], Some(come)));
                }
            }
        }
        Ok(())
    }

    /// Waits for the answers that are under way, and puts them where they are wanted.
    fn take_out(&mut self) -> ocl::Result<()> {
        for ((to, come), slot) in self.coming.drain(..).zip(&mut self.answers) {
            if let Some(come) = come {
                core::wait_for_event(&come)?;
            } else if let Some(slot) = slot.as_mut().and_then(Slot::pinned) {
                let here = slot.words()?;
                copy(&here[..to.len()], to);
            }
        }
        Ok(())
    }
}
