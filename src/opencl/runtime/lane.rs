//! A chunk of queries on the device, the pinned slots of its columns, and its pending commands.

use std::ops::Range;

use ocl::core::{self, Event};

use super::commands::Straight;
use super::staging::{COPIED_AT_ONCE, Slot, copy};
use crate::backend::queries::{Column, set_flags};
use crate::backend::{Answers, Chunk, ChunkOf, DeviceBuffer, Queries, Word};
use crate::error::{Error, Result};
use crate::opencl::{Buffer, OpenCl};
use crate::parallel::{both, each};

/// Bytes that one thread touches: a large page. If several threads touch a new one, each of them fills a page with
/// zeros, and all pages but one are freed again.
const LARGE_PAGE: usize = 2 << 20;
/// Bytes of the smallest pages.
const PAGE: usize = 4 << 10;

/// A chunk on the device, and its pending commands.
pub(super) struct Lane<'a, Q: Word, A: Word> {
    pub(super) chunk: Option<ChunkOf<OpenCl, Q, A>>,
    /// A slot for the queries; `None` if the caller's memory is pinned.
    queries: Option<Slot>,
    found: Option<Transfer<'a, u32>>,
    words: Vec<Transfer<'a, A>>,
    /// The event of the latest pass.
    passed: Option<Event>,
}

/// How one column of results is transferred to the host.
struct Transfer<'a, T: Word> {
    /// A slot; `None` if the caller's memory is pinned.
    slot: Option<Slot>,
    pending: Option<Pending<'a, T>>,
}

/// Pending results.
enum Pending<'a, T: Word> {
    /// To a slot, with their final destination.
    ToSlot(Column<'a, T>),
    /// To the caller's memory, with the event of the transfer.
    Straight(Event),
}

impl<'a, Q: Word, A: Word> Lane<'a, Q, A> {
    /// An empty lane. Columns without a slot are in pinned memory of the caller.
    pub(super) fn new(queries: Option<Slot>, found: Option<Option<Slot>>, words: Vec<Option<Slot>>) -> Self {
        let (found, words) = (found.map(Transfer::new), words.into_iter().map(Transfer::new).collect());
        Lane { chunk: None, queries, found, words, passed: None }
    }

    /// Whether the host copies any column.
    pub(super) fn has_slots(&self) -> bool {
        let found = self.found.as_ref().is_some_and(|transfer| transfer.slot.is_some());
        self.queries.is_some() || found || self.words.iter().any(|transfer| transfer.slot.is_some())
    }

    /// Waits until the results of its chunk have arrived, so that no transfer is pending.
    pub(super) fn wait(&mut self) -> ocl::Result<()> {
        self.queries.as_mut().and_then(Slot::pinned).map_or(Ok(()), |slot| slot.settle())?;
        self.found.iter_mut().try_for_each(Transfer::wait)?;
        self.words.iter_mut().try_for_each(Transfer::wait)
    }

    /// Copies the results of its chunk to their destination and queries `rows` to their slot, by all threads. Touches
    /// the memory for the answers to these queries. No transfer is pending.
    pub(super) fn copy(
        &mut self,
        queries: &Queries<'_, Q>,
        rows: Range<usize>,
        next: &mut Answers<'_, A>,
    ) -> ocl::Result<()> {
        let Lane { queries: slot, found, words, .. } = self;
        let (mut copied, mut loaded) = (Ok(()), Ok(()));
        let mut copy_results = || {
            found.iter_mut().try_for_each(Transfer::take_out)?;
            words.iter_mut().try_for_each(Transfer::take_out)?;
            found.iter().zip(&mut next.found).for_each(|(transfer, to)| transfer.touch(to));
            words.iter().zip(&mut next.words).for_each(|(transfer, to)| transfer.touch(&mut Column::Words(to)));
            Ok(())
        };
        let mut load = || {
            if let Some(slot) = slot.as_mut().and_then(Slot::pinned) {
                queries.write(rows.start, &mut slot.words()?[..rows.len()], COPIED_AT_ONCE / size_of::<Q>());
            }
            Ok(())
        };
        both(&mut || copied = copy_results(), &mut || loaded = load());
        copied.and(loaded)
    }

    /// The chunk of this lane if it has the same length, otherwise a new one.
    pub(super) fn chunk_for(&mut self, device: &OpenCl, first: usize, len: usize) -> Result<ChunkOf<OpenCl, Q, A>> {
        if let Some(chunk) = self.chunk.take().filter(|chunk| chunk.queries.len() == len) {
            return Ok(Chunk { first, ..chunk });
        }
        // Its memory may have belonged to another buffer before.
        self.passed = None;
        Ok(Chunk::of_queries(first, Buffer::allocate(device, len)?))
    }

    /// Enqueues the transfer of a chunk's queries, and lets the device's queue wait for it. Queries without a slot are
    /// in pinned memory.
    pub(super) fn send(
        &mut self,
        device: &OpenCl,
        chunk: ChunkOf<OpenCl, Q, A>,
        pinned: Option<&'a [Q]>,
        up: &mut Straight<'a>,
    ) -> ocl::Result<()> {
        // The transfer waits for the pass that read the memory to be overwritten; for new memory, for everything that
        // is queued.
        let after = match self.passed.take() {
            Some(passed) => passed,
            None => device.mark()?,
        };
        let to = &self.chunk.insert(chunk).queries;
        let there = match (self.queries.as_mut().and_then(Slot::pinned), pinned) {
            (Some(slot), _) => up.send_pinned(slot, to.len(), to, 0, &[after])?,
            (None, Some(pinned)) => up.send(pinned, to, 0, &[after])?,
            (None, None) => return Err("queries without memory".into()),
        };
        core::enqueue_barrier_with_wait_list(device.0.queue.as_core(), Some(&there), None::<&mut Event>, None)?;
        Ok(())
    }

    /// Enqueues the transfers of the results of the latest pass.
    pub(super) fn fetch(
        &mut self,
        device: &OpenCl,
        answers: Answers<'a, A>,
        down: &mut Straight<'a>,
        failed: impl Fn(ocl::Error) -> Error,
    ) -> Result<()> {
        let passed = self.passed.insert(device.mark().map_err(&failed)?);
        let Some(chunk) = &self.chunk else { return Ok(()) };
        for ((transfer, to), from) in self.found.iter_mut().zip(answers.found).zip(&chunk.bits) {
            transfer.fetch(device, to, from, down, passed, &failed)?;
        }
        for ((transfer, to), from) in self.words.iter_mut().zip(answers.words).zip(&chunk.words) {
            transfer.fetch(device, Column::Words(to), from, down, passed, &failed)?;
        }
        Ok(())
    }
}

impl<'a, T: Word> Transfer<'a, T> {
    fn new(slot: Option<Slot>) -> Self {
        Transfer { slot, pending: None }
    }

    fn fetch(
        &mut self,
        device: &OpenCl,
        to: Column<'a, T>,
        from: &Buffer<T>,
        down: &mut Straight<'a>,
        after: &Event,
        failed: impl Fn(ocl::Error) -> Error,
    ) -> Result<()> {
        device.check_owner(from)?;
        let len = to.words();
        Error::check_length("a column of answers", from.len().min(len), len)?;
        let after = std::slice::from_ref(after);
        self.pending = Some(match (self.slot.as_mut().and_then(Slot::pinned), to) {
            (None, Column::Words(to)) => Pending::Straight(down.fetch(to, from, 0, after).map_err(failed)?),
            (None, Column::Flags(_)) => return Err(failed("flags without a slot".into())),
            (Some(slot), to) => {
                down.fetch_pinned(slot, len, from, 0, after).map_err(failed)?;
                Pending::ToSlot(to)
            }
        });
        Ok(())
    }

    /// Waits for pending results.
    fn wait(&mut self) -> ocl::Result<()> {
        match (&self.pending, self.slot.as_mut().and_then(Slot::pinned)) {
            (Some(Pending::Straight(arrived)), _) => core::wait_for_event(arrived)?,
            (Some(Pending::ToSlot(_)), Some(slot)) => slot.settle()?,
            _ => {}
        }
        Ok(())
    }

    /// Copies results that have arrived to their destination.
    fn take_out(&mut self) -> ocl::Result<()> {
        if let (Some(Pending::ToSlot(to)), Some(slot)) =
            (self.pending.take(), self.slot.as_mut().and_then(Slot::pinned))
        {
            let from = &slot.words()?[..to.words()];
            match to {
                Column::Words(to) => copy(from, to),
                Column::Flags(to) => set_flags(bytemuck::cast_slice(from), to),
            }
        }
        Ok(())
    }

    /// Writes to each page of memory to which results will be copied, so that the system allocates it now.
    fn touch(&self, to: &mut Column<'_, T>) {
        match to {
            _ if self.slot.is_none() => {}
            Column::Words(to) => touch(to, T::zeroed()),
            Column::Flags(to) => touch(to, false),
        }
    }
}

fn touch<T: Copy + Send + Sync>(to: &mut [T], value: T) {
    each(to, LARGE_PAGE / size_of::<T>(), |_, to| {
        to.iter_mut().step_by(PAGE / size_of::<T>()).for_each(|place| *place = value);
    });
}
