//! Queries from the host, with results to the host, in chunks: transfers in both directions, kernels and copies by the
//! host overlap.
//!
//! ```text
//! host     in 0 | in 1 | .. | out 0, in 8 | out 1, in 9 | ..             tasks, between the caller's memory and slots
//! up              write 0 | write 1 | write 2 | ..                       a queue
//! compute                   | pass 0  | pass 1  | pass 2  | ..           the device's queue
//! down                                | read 0  | read 1  | read 2 | ..  a queue
//! ```
//!
//! A [`Lane`] has a chunk on the device and a pinned slot for each of its columns. The calling thread enqueues the
//! commands of each chunk, in order, and waits for the oldest results. A lane whose results have arrived belongs to a
//! task, which copies them out of the slots, and the queries of a later chunk to their slot. Several tasks are pending
//! at any time, so that no thread of the host becomes idle: waking one takes longer than a thread's share of a chunk.
//! If the caller's memory is pinned, no slots are used and the host copies nothing.
//!
//! ```text
//! write i    after the pass over the lane's last chunk, which read the memory that is overwritten
//! pass i     after write i
//! read i     after pass i
//! ```
//!
//! Buffers are returned to the pool only when no queue but the device's own can have commands on them. The lane of a
//! task has no pending transfer. Even after an error, the two [`Straight`] wait for both transfer queues before the
//! other lanes are dropped.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};

use ocl::core::{self, Event};

use super::commands::Straight;
use super::lane::Lane;
use super::staging::Queues;
use crate::backend::chunks::{Pass, one_by_one};
use crate::backend::queries::Column;
use crate::backend::{Answers, QUERIES_AT_ONCE, Queries, Word};
use crate::error::{Error, Result};
use crate::opencl::OpenCl;
use crate::parallel::with_tasks;
use crate::threads;

/// Chunks in slots or on the device at a time.
const LANES: usize = 8;
/// The lanes among them that belong to tasks of the host.
const COPYING: usize = 4;
/// The smallest chunk is this fraction of a full one: fewer queries are not worth a separate chunk.
const SMALLEST_SHARE: usize = 8;

/// A lane that a task returns: the queries `rows` are in its slot.
struct Loaded<'a, Q: Word, A: Word> {
    lane: Lane<'a, Q, A>,
    rows: Range<usize>,
    /// The destination of their answers.
    to: Answers<'a, A>,
    copied: ocl::Result<()>,
}

impl OpenCl {
    pub(in crate::opencl) fn stream<Q: Word, A: Word>(
        &self,
        queries: Queries<'_, Q>,
        mut answers: Answers<'_, A>,
        pass: Pass<'_, OpenCl, Q, A>,
    ) -> Result<()> {
        answers.check(queries.len())?;
        let len = self.chunk_len(queries.len(), size_of::<Q>().max(size_of::<A>()));
        let count = queries.len().div_ceil(len);
        let columns = (answers.found.is_some(), answers.words.len());
        // Without results, nothing shows when the device has read the queries.
        let is_long = count > 1 && columns != (false, 0);
        let lanes = if is_long { self.lanes(count.min(LANES), &queries, &answers) } else { None };
        let Some((queues, lanes)) = lanes else { return one_by_one(self, queries, answers, pass) };
        let has_slots = lanes.iter().any(Lane::has_slots);
        let failed = |error| self.failed_transferring(len, error);

        // Lanes with pending commands, the oldest first. They are dropped after the bus, which waits for the commands.
        let mut queued: VecDeque<Lane<'_, Q, A>> = VecDeque::with_capacity(LANES);
        let (up, down) = (Straight::new(&queues.up), Straight::new(&queues.down));
        let mut bus = Bus { device: self, queries, columns, pass, up, down };
        let (mut unused, mut copying) = (lanes.into_iter(), VecDeque::with_capacity(LANES));
        with_tasks(|start| {
            // After the last chunk, results are copied out of each lane, and no queries to it.
            for i in 0..count + count.min(LANES) {
                let lane = unused.next().map_or_else(|| oldest(&mut queued).map_err(failed), Ok)?;
                let rows = (i * len).min(queries.len())..((i + 1) * len).min(queries.len());
                let (sender, receiver) = sync_channel(1);
                let mut loaded = Loaded { lane, to: answers.next(rows.len()), rows, copied: Ok(()) };
                let task = move || {
                    if has_slots {
                        loaded.copied = loaded.lane.copy(&queries, loaded.rows.clone(), &mut loaded.to);
                    }
                    // After an error, no one receives it.
                    let _ = sender.send(loaded);
                };
                if has_slots {
                    start(Box::new(task))
                } else {
                    task()
                }
                copying.push_back(receiver);
                if copying.len() >= COPYING.min(count) || i >= count {
                    bus.enqueue(received(&mut copying).map_err(failed)?, &mut queued)?;
                }
            }
            while !copying.is_empty() {
                bus.enqueue(received(&mut copying).map_err(failed)?, &mut queued)?;
            }
            Ok(())
        })
    }

    fn failed_transferring(&self, queries: usize, error: ocl::Error) -> Error {
        self.failed_using("transferring queries and answers", (queries * size_of::<u64>()) as u64, error)
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
        count: usize,
        queries: &Queries<'_, Q>,
        answers: &Answers<'_, A>,
    ) -> Option<(&Queues, Vec<Lane<'a, Q, A>>)> {
        let (queues, staging) = (self.transfer_queues()?, &self.0.staging);
        let queries = !queries.words().is_some_and(|words| staging.is_pinned(words));
        let found = answers.found.as_ref().map(|found| match found {
            Column::Words(bits) => !staging.is_pinned(bits),
            Column::Flags(_) => true,
        });
        let words: Vec<bool> = answers.words.iter().map(|words| !staging.is_pinned(words)).collect();
        let of_a_lane = [queries].iter().chain(&found).chain(&words).filter(|&&by_slot| by_slot).count();
        let mut slots = self.slots(count * of_a_lane)?.into_iter();
        let mut slot = |by_slot: bool| if by_slot { slots.next() } else { None };
        let lanes = (0..count).map(|_| {
            let (queries, found) = (slot(queries), found.map(&mut slot));
            Lane::new(queries, found, words.iter().map(|&by_slot| slot(by_slot)).collect())
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

/// The oldest lane, after its results have arrived. After an error it stays where it is.
fn oldest<'a, Q: Word, A: Word>(queued: &mut VecDeque<Lane<'a, Q, A>>) -> ocl::Result<Lane<'a, Q, A>> {
    queued.front_mut().map_or(Ok(()), Lane::wait)?;
    queued.pop_front().ok_or_else(|| "no chunk is pending".into())
}

/// The lane of the oldest task. Executes other tasks until it has ended.
fn received<T>(copying: &mut VecDeque<Receiver<T>>) -> ocl::Result<T> {
    let receiver = copying.pop_front().ok_or("no task is pending")?;
    let mut early = None;
    threads::wait_for(|| {
        early = Some(receiver.try_recv());
        !matches!(early, Some(Err(TryRecvError::Empty)))
    });
    // Without a result, the task has panicked.
    match early {
        Some(Ok(lane)) => Ok(lane),
        _ => receiver.recv().map_err(|_| "a copy by the host has failed".into()),
    }
}

/// The commands for each chunk.
struct Bus<'a, 'p, Q: Word, A: Word> {
    device: &'a OpenCl,
    queries: Queries<'a, Q>,
    /// Whether there is a column of bits, and the number of columns of words.
    columns: (bool, usize),
    pass: Pass<'p, OpenCl, Q, A>,
    up: Straight<'a>,
    down: Straight<'a>,
}

impl<'a, Q: Word, A: Word> Bus<'a, '_, Q, A> {
    /// Enqueues the transfer of a lane's queries, the pass over them, and the transfers of its results.
    fn enqueue(&mut self, loaded: Loaded<'a, Q, A>, queued: &mut VecDeque<Lane<'a, Q, A>>) -> Result<()> {
        let Loaded { lane, rows, to, copied } = loaded;
        let (len, device) = (rows.len(), self.device);
        let failed = |error| device.failed_transferring(len, error);
        copied.map_err(failed)?;
        if rows.is_empty() {
            return Ok(());
        }
        // After an error, too, the lane is dropped after the bus.
        let lane = queued.push_back_mut(lane);
        let chunk = lane.chunk_for(device, rows.start, len)?;
        lane.send(device, chunk, self.queries.words().map(|words| &words[rows]), &mut self.up).map_err(failed)?;
        if let Some(chunk) = lane.chunk.take() {
            lane.chunk.insert((self.pass)(chunk)?).check(self.columns.0, self.columns.1)?;
        }
        lane.fetch(device, to, &mut self.down, failed)
    }
}
