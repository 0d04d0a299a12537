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
//! pinned itself, no slots are used, the host copies nothing, and chunks are longer.
//!
//! The first chunks and the last ones are short, each twice as long as the one beside it: while the first one comes, and
//! while the last one goes, one direction of the bus has nothing to do.
//!
//! ```text
//! write i    after the pass over the lane's last chunk, which read what is now written over
//! pass i     after write i
//! read i     after pass i
//! ```
//!
//! Buffers are given back only when no queue but the device's own can still have commands on them: whatever happens,
//! both queues of transfers are waited for (by the two [`Straight`]) before the lanes go.

use std::collections::VecDeque;

use ocl::core::{self, Event};

use super::commands::Straight;
use super::staging::{Queues, Slot, copy};
use crate::backend::chunks::{Pass, one_by_one};
use crate::backend::{Answers, Chunk, ChunkOf, DeviceBuffer, QUERIES_AT_ONCE, Word};
use crate::error::{Error, Result};
use crate::opencl::{Buffer, OpenCl};

/// Chunks on the device at a time.
const LANES: usize = 4;
/// The first chunk and the last are such a fraction of a full one.
const SHORTEST_SHARE: usize = 8;
/// Queries of a full chunk where the caller's memory is pinned. A command costs a bus about 20 us.
const PINNED_AT_ONCE: usize = 2 * QUERIES_AT_ONCE;

/// A chunk on the device, and what is under way for it.
struct Lane<'a, Q: Word, A: Word> {
    chunk: Option<ChunkOf<OpenCl, Q, A>>,
    /// A slot for the queries; none where the caller's memory is pinned.
    queries: Option<Slot>,
    bits: Vec<Way<'a, u32>>,
    words: Vec<Way<'a, A>>,
    /// The end of the latest pass, or of what its memory was used for before.
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
        let full = self.full_chunk(queries, &answers, each);
        let shortest = (full / SHORTEST_SHARE).next_multiple_of(32);
        let lanes = if queries.len() > shortest { self.lanes(queries, &answers) } else { None };
        let Some((queues, mut lanes)) = lanes else { return one_by_one(self, queries, answers, pass) };
        let failed =
            |error: ocl::Error| self.failed_using("transferring queries and answers", (full * each) as u64, error);

        let (bits, words) = (answers.bits.is_some(), answers.words.len());
        let mut to_bits: Vec<_> = answers.bits.into_iter().collect();
        let mut to_words = answers.words;
        // Memory for queries may have been another's a moment ago: all of it waits once for what is queued now.
        let lens = chunk_lens(queries.len(), (shortest, full));
        let is_new = |i: usize| i < LANES || lens[i] != lens[i - LANES];
        let new = (0..lens.len()).filter(|&i| is_new(i)).map(|i| Buffer::allocate(self, lens[i]));
        let mut new: VecDeque<Buffer<Q>> = new.collect::<Result<_>>()?;
        let free = self.mark().map_err(failed)?;
        // These go before the lanes, and wait until nothing is under way.
        let (mut up, mut down) = (Straight::new(&queues.up), Straight::new(&queues.down));
        let mut first = 0;
        for (i, &len) in lens.iter().enumerate() {
            let lane = &mut lanes[i % LANES];
            if is_new(i) {
                (lane.chunk, lane.passed) =
                    (new.pop_front().map(|queries| Chunk::asking(first, queries)), Some(free.clone()));
            }
            let there = lane.load(first, &queries[first..first + len], &mut up).map_err(failed)?;
            if let (Some(chunk), Some(there)) = (lane.chunk.take(), there) {
                let (chunk, passed) = self.ordered(there, || pass(chunk))?;
                lane.passed = Some(passed);
                lane.chunk.insert(chunk).check(bits, words)?;
            }
            lane.fetch(self, next_of(&mut to_bits, len.div_ceil(32)), next_of(&mut to_words, len), &mut down, failed)?;
            first += len;
            lanes[(i + 1) % LANES].take_out().map_err(failed)?;
        }
        (lens.len()..lens.len() + LANES).try_for_each(|i| lanes[i % LANES].take_out()).map_err(failed)
    }

    /// Queries of a full chunk, of which, or of whose answers, one has so many bytes.
    fn full_chunk<Q: Word, A: Word>(&self, queries: &[Q], answers: &Answers<'_, A>, bytes: usize) -> usize {
        let staging = &self.0.staging;
        let all_pinned = staging.is_pinned(queries)
            && answers.bits.iter().all(|bits| staging.is_pinned(bits))
            && answers.words.iter().all(|words| staging.is_pinned(words));
        let most = if all_pinned { PINNED_AT_ONCE } else { QUERIES_AT_ONCE.min(self.0.sizes.slot / bytes) };
        (most / 32 * 32).max(32)
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
}

/// Queries of each chunk, whole bitmap words but in the last: rising from the shortest to full ones, and falling.
fn chunk_lens(queries: usize, (shortest, full): (usize, usize)) -> Vec<usize> {
    let (mut lens, mut left, mut rising) = (Vec::new(), queries, shortest);
    while left > 0 {
        let falling = (left / 2).next_multiple_of(32).max(shortest);
        let len = rising.min(falling).min(left);
        rising = full.min(2 * rising);
        lens.push(len);
        left -= len;
    }
    lens
}

/// The next words of each column, so many.
fn next_of<'a, T>(columns: &mut [&'a mut [T]], len: usize) -> Vec<&'a mut [T]> {
    columns.iter_mut().map(|column| column.split_off_mut(..len).unwrap_or_default()).collect()
}

impl<'a, Q: Word, A: Word> Lane<'a, Q, A> {
    /// Queues the transfer of queries into the chunk that is here; the event of its end.
    fn load(&mut self, first: usize, asked: &'a [Q], up: &mut Straight<'a>) -> ocl::Result<Option<Event>> {
        let (Some(chunk), Some(passed)) = (&mut self.chunk, &self.passed) else { return Ok(None) };
        chunk.first = first;
        let after = std::slice::from_ref(passed);
        let there = match self.queries.as_mut().and_then(Slot::pinned) {
            Some(slot) => {
                copy(asked, &mut slot.words()?[..asked.len()]);
                up.send_pinned(slot, asked.len(), &chunk.queries, after)?
            }
            None => up.send(asked, &chunk.queries, 0, after)?,
        };
        Ok(Some(there))
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
        let (Some(chunk), Some(passed)) = (&self.chunk, &self.passed) else { return Ok(()) };
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
                down.fetch_pinned(slot, to.len(), from, after).map_err(failed)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_rise_and_fall_and_are_all_queries() {
        assert_eq!(chunk_lens(1000, (64, 512)), [64, 128, 256, 288, 160, 64, 40]);
        assert_eq!(chunk_lens(4000, (64, 512))[..6], [64, 128, 256, 512, 512, 512]);
        for (queries, shortest, full) in [(1, 32, 32), (32, 32, 256), (33, 32, 256), (100_000, 128, 1024), (77, 32, 32)]
        {
            let lens = chunk_lens(queries, (shortest, full));
            assert_eq!(lens.iter().sum::<usize>(), queries);
            let (last, others) = lens.split_last().expect("one");
            assert!(others.iter().all(|len| len % 32 == 0 && (shortest..=full).contains(len)) && *last <= full);
        }
    }
}
