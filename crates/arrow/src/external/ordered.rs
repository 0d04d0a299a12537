//! The ordered driver: all threads of the pool process morsels, and the caller passes on their results in order.
//!
//! ```text
//! caller   repeat  read morsels until `ahead` are in flight or the oldest is done; queue each of them; spawn tasks of the
//!                  pool for queued morsels, unless half of `bytes` is kept
//!                  the oldest morsel  not started: run it here, and pass on its results as they are computed
//!                                     running:     execute other tasks of the pool, or sleep, until it is done
//!                                     done:        pass on its results, then run the rest of it
//! task     take the oldest queued morsel, if there is one; run it; keep its results until more than `bytes` are kept
//!          by all tasks; leave the rest of its batches to the caller
//! ```
//!
//! A task never waits for another morsel or for the caller, even if it runs within another task on its thread. The
//! caller waits for its own tasks only, as in any fork-join program, and runs a morsel that no task has started. So a
//! pool with one thread makes progress, and so does a caller that is a thread of the pool itself. On such a thread, no
//! task starts while the caller works, so the number of waiting tasks is bounded too.
//!
//! Memory is bounded because tasks stop keeping results. The caller repeats the batch at which a task stopped, and
//! skips the results that were kept, so the work must emit the same results for a batch each time. A task without
//! enough memory also leaves its batch to the caller, which needs less memory because it processes one batch at a time.
//!
//! Errors and panics are results too: the one of the first morsel that has any is reported after all earlier results.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use arrow_array::RecordBatch;
use koel::threads;
use rayon::ScopeFifo;

use super::devices::{Emit, Stop};
use super::{Limit, MorselOf, memory, row_bytes};
use crate::error::{Error, Result};

/// Receives results in order, each with its number of bytes ([`row_bytes`]) if a task has computed it.
pub(super) type Take<'a, E> = dyn FnMut(RecordBatch, Option<u64>) -> std::result::Result<(), E> + 'a;

/// An item that morsels return and the work processes, such as a batch.
pub(super) trait Input: Send {
    /// The number of rows.
    fn rows(&self) -> usize;
}

impl Input for RecordBatch {
    fn rows(&self) -> usize {
        self.num_rows()
    }
}

/// The work on each batch of a morsel.
pub(super) type BatchWork<'a, T = RecordBatch> =
    dyn Fn(&T, Emit<'_, RecordBatch>) -> std::result::Result<(), Stop> + Sync + 'a;

/// How far tasks may run ahead of the caller.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ahead {
    /// The number of morsels that were read, but whose results were not passed on.
    pub(super) morsels: usize,
    /// The number of bytes of stored results.
    pub(super) bytes: u64,
}

impl Ahead {
    /// Allows a small part of the limit, and at most two morsels per thread. If the memory for these is not available,
    /// allows one morsel only: tasks check memory too, but do not know how much others are about to allocate.
    ///
    /// # Errors
    /// Returns an error if the pool has no threads, and none can be started.
    pub(super) fn of(limit: &Limit) -> Result<Ahead> {
        // This must precede reading the number of threads, which also starts the pool, but panics if that fails.
        threads::ready()?;
        let most = 2 * rayon::current_num_threads();
        let within = (limit.bytes() / (8 * limit.batch_bytes())) as usize;
        let morsels = within.clamp(2, most.max(2));
        // For each morsel: a batch as it is read, the intermediate results, and two batches of results.
        let in_flight = 4 * limit.batch_bytes() * morsels as u64;
        // More stored results would not keep more threads busy.
        let bytes = in_flight.min(limit.bytes() / 8);
        match memory::check(in_flight + bytes) {
            Ok(()) => Ok(Ahead { morsels, bytes }),
            Err(_) => Ok(Ahead { morsels: 1, bytes: 0 }),
        }
    }
}

/// A morsel that no thread has started.
struct Job<'a, E, T> {
    morsel: MorselOf<'a, E, T>,
    results: Arc<Slot<E, T>>,
}

/// The destination of a morsel's results.
struct Slot<E, T> {
    done: Mutex<Option<Done<E, T>>>,
    changed: Condvar,
}

/// A morsel that a task has run.
struct Done<E, T> {
    /// Results, each with its number of bytes.
    results: Vec<(RecordBatch, u64)>,
    /// Batches whose results were not stored. If some results of the first batch were stored, the caller skips `skip`
    /// of them.
    rest: Vec<T>,
    skip: usize,
    end: End<E>,
}

/// How a morsel ended.
enum End<E> {
    Completed,
    Failed(E),
    Panicked(Box<dyn std::any::Any + Send>),
}

/// The state that the caller and its tasks share.
struct Shared<'w, 'a, E, T> {
    work: &'w BatchWork<'w, T>,
    queue: Mutex<VecDeque<Job<'a, E, T>>>,
    /// Tasks that were spawned, but have not begun.
    waiting: AtomicUsize,
    /// The number of rows of all morsels so far.
    rows: AtomicU64,
    /// The bytes of stored results, and their limit.
    kept: AtomicU64,
    most: u64,
    /// Whether results are no longer wanted.
    has_ended: AtomicBool,
}

/// Processes the batches of all morsels, and calls `take` with the results in order. Returns the number of rows of the
/// morsels.
///
/// # Errors
/// The first error in the order of rows: of a morsel, of reading it, of `work`, or of `take`.
///
/// # Panics
/// Panics if `work`, a morsel or `take` does.
pub(super) fn in_order<'a, E: From<Error> + Send, T: Input>(
    morsels: &mut dyn Iterator<Item = std::result::Result<MorselOf<'a, E, T>, E>>,
    ahead: Ahead,
    work: &BatchWork<'_, T>,
    take: &mut Take<'_, E>,
) -> std::result::Result<u64, E> {
    let shared = Shared {
        work,
        queue: Mutex::default(),
        waiting: AtomicUsize::new(0),
        rows: AtomicU64::new(0),
        kept: AtomicU64::new(0),
        most: ahead.bytes,
        has_ended: AtomicBool::new(false),
    };
    rayon::in_place_scope_fifo(|scope| {
        let _leaving = Leaving(&shared);
        let mut in_flight: VecDeque<Arc<Slot<E, T>>> = VecDeque::new();
        let (mut is_last, mut failed) = (false, None);
        loop {
            // Finished results are passed on before more morsels are read: the next morsel of a slow source may take
            // long.
            while !is_last && in_flight.len() < ahead.morsels && in_flight.front().is_none_or(|slot| !slot.is_done()) {
                match morsels.next() {
                    Some(Ok(morsel)) => {
                        let results = Arc::new(Slot { done: Mutex::new(None), changed: Condvar::new() });
                        in_flight.push_back(Arc::clone(&results));
                        lock(&shared.queue).push_back(Job { morsel, results });
                        shared.spawn_tasks(scope);
                    }
                    Some(Err(error)) => (is_last, failed) = (true, Some(error)),
                    None => is_last = true,
                }
            }
            let Some(slot) = in_flight.pop_front() else { break };
            shared.spawn_tasks(scope);
            match shared.not_started(&slot) {
                Some(morsel) => morsel(&mut |batch| {
                    shared.count(&batch);
                    shared.pass_on(&batch, 0, take)
                })?,
                None => shared.finish(slot.wait(), scope, take)?,
            }
        }
        failed.map_or(Ok(()), Err)
    })?;
    Ok(shared.rows.into_inner())
}

/// Makes tasks end when the caller leaves, also by an error or a panic.
struct Leaving<'s, 'w, 'a, E, T>(&'s Shared<'w, 'a, E, T>);

impl<E, T> Drop for Leaving<'_, '_, '_, E, T> {
    fn drop(&mut self) {
        self.0.has_ended.store(true, Relaxed);
        // Morsels are dropped after the lock is released, because dropping them runs code of the caller.
        let queue = std::mem::take(&mut *lock(&self.0.queue));
        drop(queue);
    }
}

impl<'a, E: From<Error> + Send, T: Input> Shared<'_, 'a, E, T> {
    /// Spawns tasks for queued morsels, unless more than half of the budget is in use: results that exceed the budget
    /// are discarded, and the caller alone would compute them again.
    fn spawn_tasks<'scope>(&'scope self, scope: &ScopeFifo<'scope>) {
        while self.waiting.load(Relaxed) < lock(&self.queue).len() && self.has_room() {
            self.waiting.fetch_add(1, Relaxed);
            scope.spawn_fifo(move |_| self.run_one());
        }
    }

    fn has_room(&self) -> bool {
        self.kept.load(Relaxed) <= self.most / 2
    }

    /// One task.
    fn run_one(&self) {
        self.waiting.fetch_sub(1, Relaxed);
        if !self.has_room() {
            return;
        }
        let Some(Job { morsel, results }) = lock(&self.queue).pop_front() else { return };
        let mut done = Done { results: Vec::new(), rest: Vec::new(), skip: 0, end: End::Completed };
        let run = || morsel(&mut |batch| self.keep(batch, &mut done));
        done.end = match catch_unwind(AssertUnwindSafe(run)) {
            Ok(Ok(())) => End::Completed,
            Ok(Err(error)) => End::Failed(error),
            Err(panic) => End::Panicked(panic),
        };
        *lock(&results.done) = Some(done);
        results.changed.notify_all();
    }

    fn count(&self, batch: &T) {
        self.rows.fetch_add(batch.rows() as u64, Relaxed);
    }

    /// Stores the results of a batch, or the batch itself if its results exceed the limit.
    fn keep(&self, batch: T, done: &mut Done<E, T>) -> std::result::Result<(), E> {
        if self.has_ended.load(Relaxed) {
            return Ok(());
        }
        self.count(&batch);
        if !done.rest.is_empty() {
            done.rest.push(batch);
            return Ok(());
        }
        let (results, mut kept) = (&mut done.results, 0);
        let worked = (self.work)(&batch, &mut |result| {
            let bytes = row_bytes(&result) as u64;
            let is_kept = self.kept.fetch_add(bytes, Relaxed) + bytes <= self.most;
            if !is_kept || self.has_ended.load(Relaxed) {
                self.kept.fetch_sub(bytes, Relaxed);
                return Err(Stop::Unwanted);
            }
            results.push((result, bytes));
            kept += 1;
            Ok(())
        });
        match worked {
            Ok(()) => Ok(()),
            Err(Stop::Failed(error)) if !is_short_of_memory(&error) => Err(error.into()),
            Err(Stop::Failed(_) | Stop::Unwanted) => {
                done.rest.push(batch);
                done.skip = kept;
                Ok(())
            }
        }
    }

    /// The morsel of the caller's oldest slot, if no task has started it. In that case, it is the oldest morsel of the
    /// queue.
    fn not_started(&self, slot: &Arc<Slot<E, T>>) -> Option<MorselOf<'a, E, T>> {
        let mut queue = lock(&self.queue);
        let is_first = queue.front().is_some_and(|job| Arc::ptr_eq(&job.results, slot));
        if is_first { queue.pop_front().map(|job| job.morsel) } else { None }
    }

    /// Passes on the results of a morsel that a task has run.
    fn finish<'scope>(
        &'scope self,
        done: Done<E, T>,
        scope: &ScopeFifo<'scope>,
        take: &mut Take<'_, E>,
    ) -> std::result::Result<(), E> {
        let Done { results, rest, mut skip, end } = done;
        for (result, bytes) in results {
            self.kept.fetch_sub(bytes, Relaxed);
            self.spawn_tasks(scope);
            take(result, Some(bytes))?;
        }
        for batch in rest {
            self.pass_on(&batch, std::mem::take(&mut skip), take)?;
        }
        match end {
            End::Completed => Ok(()),
            End::Failed(error) => Err(error),
            End::Panicked(panic) => resume_unwind(panic),
        }
    }

    /// Processes a batch on this thread, and passes on its results immediately, except for the first `skip`.
    fn pass_on(&self, batch: &T, mut skip: usize, take: &mut Take<'_, E>) -> std::result::Result<(), E> {
        let mut refused = None;
        let worked = (self.work)(batch, &mut |result| {
            if skip > 0 {
                skip -= 1;
                return Ok(());
            }
            take(result, None).map_err(|error| {
                refused = Some(error);
                Stop::Unwanted
            })
        });
        match (refused, worked) {
            (Some(error), _) => Err(error),
            (None, Err(Stop::Failed(error))) => Err(error.into()),
            (None, _) => Ok(()),
        }
    }
}

impl<E, T> Slot<E, T> {
    fn is_done(&self) -> bool {
        lock(&self.done).is_some()
    }

    /// Waits for the task that runs this morsel. Meanwhile, a thread of the pool executes other tasks.
    fn wait(&self) -> Done<E, T> {
        threads::wait_for(|| self.is_done());
        let mut done = lock(&self.done);
        loop {
            match done.take() {
                Some(done) => return done,
                None => done = self.changed.wait(done).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

fn is_short_of_memory(error: &Error) -> bool {
    matches!(error, Error::Koel(koel::Error::OutOfMemory { .. }))
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
