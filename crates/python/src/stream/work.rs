//! Work whose result is read in batches.
//!
//! ```text
//! Work      used by the reader: takes batches, waits for them, stops the work
//! Outlet    used by the worker thread: passes batches on, and checks whether the reader still wants them
//! State     between both: the job until it begins, some batches, how it ended
//! ```
//!
//! The work begins when the first batch is requested. It has threads of its own instead of those of the pool (run.rs):
//! it waits for its reader and for slow inputs, and a waiting thread of the pool would not be available to other calls.
//!
//! A thread that waits here does not hold the interpreter's lock, and a thread that takes the interpreter's lock holds
//! none of these locks: tables that run Python, and columns that Python owns, need it in the working thread.
//!
//! Before Python exits, all work is stopped, and its end awaited: Python terminates threads that take its lock later in
//! the middle of their work.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, ThreadId};

use arrow_array::RecordBatch;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use super::memory as limits;
use crate::error::{Failure, KoelError, Result};
use crate::memory;
use crate::run::{PATIENCE, panicked, threads};

/// Batches that wait for their reader.
const WAITING: usize = 2;

/// How many rows there were, by name.
pub(crate) type Counts = Vec<(&'static str, u64)>;
/// What is to be done.
pub(crate) type Job = Box<dyn FnOnce(&Outlet) -> Result<Counts> + Send>;

/// The work of one reader.
pub(crate) struct Work(Arc<Shared>);

struct Shared {
    /// The process that has the threads.
    process: u32,
    /// The memory limit in bytes.
    limit: u64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Until the work begins.
    job: Option<Job>,
    /// The thread that works, from then on.
    worker: Option<ThreadId>,
    has_begun: bool,
    is_stopped: bool,
    batches: VecDeque<RecordBatch>,
    end: Option<std::result::Result<Counts, Arc<PyErr>>>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the thread that works stop soon, without waiting for it.
    fn stop(&self) {
        let mut state = self.lock();
        state.is_stopped = true;
        // To let go of these may take the interpreter's lock.
        let unused = (state.job.take(), std::mem::take(&mut state.batches));
        drop(state);
        self.changed.notify_all();
        drop(unused);
    }

    /// Waits until a thread that works, if there is one, has ended.
    fn wait_for_end(&self) -> PyResult<()> {
        let mut state = self.lock();
        while state.has_begun && state.end.is_none() {
            state = self.wait(state)?;
        }
        Ok(())
    }

    /// Waits for a change, and looks for Ctrl-C.
    fn wait<'a>(&'a self, state: MutexGuard<'a, State>) -> PyResult<MutexGuard<'a, State>> {
        if state.worker == Some(thread::current().id()) {
            let text = "a table waits for the result that is made of it: read the result elsewhere than in the table's own code";
            return Err(PyRuntimeError::new_err(text));
        }
        let (state, late) = self.changed.wait_timeout(state, PATIENCE).unwrap_or_else(PoisonError::into_inner);
        if !late.timed_out() {
            return Ok(state);
        }
        drop(state);
        Python::try_attach(|py| py.check_signals()).unwrap_or_else(|| Err(gone()))?;
        Ok(self.lock())
    }
}

/// The error while Python is shutting down.
pub(crate) fn gone() -> PyErr {
    PyRuntimeError::new_err("Python is shutting down: no more rows can be read")
}

impl Work {
    /// `limit` is the memory limit in bytes.
    pub(crate) fn new(job: Job, limit: u64) -> Self {
        let state = Mutex::new(State { job: Some(job), ..State::default() });
        Work(Arc::new(Shared { process: process::id(), limit, state, changed: Condvar::new() }))
    }

    /// The next batch; `None` after the last one. Must be called without the interpreter's lock.
    ///
    /// # Errors
    /// The error that ended the work, on each call; or the exception of a signal handler, after which the call may be
    /// repeated.
    pub(crate) fn next(&self) -> PyResult<Option<RecordBatch>> {
        self.check_process()?;
        let mut state = self.0.lock();
        if let Some(job) = state.job.take() {
            state.has_begun = true;
            drop(state);
            if let Err(error) = self.begin(job) {
                self.0.lock().end = Some(Err(Arc::new(error.into())));
            }
            state = self.0.lock();
        }
        loop {
            if state.is_stopped {
                return Err(PyValueError::new_err("this reader is closed"));
            }
            if let Some(batch) = state.batches.pop_front() {
                drop(state);
                self.0.changed.notify_all();
                return Ok(Some(batch));
            }
            match &state.end {
                Some(Ok(_)) => return Ok(None),
                Some(Err(error)) => {
                    let error = Arc::clone(error);
                    drop(state);
                    return Err(Python::try_attach(|py| error.clone_ref(py)).unwrap_or_else(gone));
                }
                None => state = self.0.wait(state)?,
            }
        }
    }

    /// Stops the work and waits until its threads and files are gone. Must be called without the interpreter's lock.
    pub(crate) fn close(&self) -> PyResult<()> {
        // A child of a fork has nothing to wait for.
        if self.0.process != process::id() {
            return Ok(());
        }
        self.0.stop();
        self.0.wait_for_end()
    }

    /// The counts of finished work. Must be called without the interpreter's lock, as the functions below.
    pub(crate) fn counts(&self) -> PyResult<Option<Counts>> {
        self.check_process()?;
        Ok(self.0.lock().end.as_ref().and_then(|end| end.as_ref().ok().cloned()))
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.0.process != process::id() || self.0.lock().is_stopped
    }

    /// Refuses to give rows away that have been read.
    pub(crate) fn check_unread(&self) -> PyResult<()> {
        self.check_process()?;
        let state = self.0.lock();
        match (state.is_stopped, &state.end) {
            (true, _) => Err(PyValueError::new_err("this reader is closed")),
            (_, Some(Ok(_))) if state.batches.is_empty() => Err(PyValueError::new_err(
                "this reader was read to its end, and rows are read once: call the function again",
            )),
            _ => Ok(()),
        }
    }

    fn check_process(&self) -> PyResult<()> {
        if self.0.process == process::id() {
            return Ok(());
        }
        let text =
            "this reader is of the parent of a process made by fork, which has its threads: make one in this process";
        Err(PyRuntimeError::new_err(text))
    }

    fn begin(&self, job: Job) -> Result<()> {
        let pool = threads("koel-stream", limits::threads(self.0.limit))?;
        let shared = Arc::clone(&self.0);
        // With the interpreter's lock, so that no fork finds it locked.
        Python::try_attach(|_| {
            let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
            running.retain(|of| of.strong_count() > 0);
            running.push(Arc::downgrade(&shared));
        })
        .ok_or_else(gone)?;
        // The threads go when the work is done, since no one has the pool then.
        pool.spawn(move || {
            shared.lock().worker = Some(thread::current().id());
            let outlet = Outlet(shared);
            let done = catch_unwind(AssertUnwindSafe(|| job(&outlet))).unwrap_or_else(|panic| Err(unwound(panic)));
            outlet.0.lock().end = Some(done.map_err(|error| Arc::new(error.into())));
            outlet.0.changed.notify_all();
        });
        Ok(())
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        // In a child of a fork a thread that is gone may hold the lock.
        if self.0.process == process::id() {
            self.0.stop();
        }
    }
}

/// The reason why the work ended early, if it did not panic.
struct Stopped(Failure);

fn stopped() -> PyErr {
    KoelError::new_err("stopped")
}

fn unwound(panic: Box<dyn Any + Send>) -> Failure {
    match panic.downcast::<Stopped>() {
        Ok(stopped) => stopped.0,
        Err(panic) => panicked(&*panic).into(),
    }
}

/// Where the work's batches go.
pub(crate) struct Outlet(Arc<Shared>);

impl Outlet {
    /// Hands a batch on, when there is room.
    pub(crate) fn push(&self, batch: RecordBatch) -> Result<()> {
        self.check()?;
        let mut state = self.0.lock();
        while state.batches.len() >= WAITING && !state.is_stopped {
            state = self.0.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.is_stopped {
            // A batch may take the interpreter's lock as it goes.
            drop(state);
            return Err(stopped().into());
        }
        state.batches.push_back(batch);
        drop(state);
        self.0.changed.notify_all();
        Ok(())
    }

    /// Ends work that was cancelled, or whose memory until the next check is not available.
    pub(crate) fn check(&self) -> Result<()> {
        if self.0.lock().is_stopped {
            return Err(stopped().into());
        }
        limits::purge(self.0.limit);
        memory::check(limits::needs(self.0.limit))
    }

    /// The same before work on a batch, of which copies are made.
    pub(crate) fn check_for(&self, batch: &RecordBatch) -> Result<()> {
        memory::check(limits::needs(self.0.limit).saturating_add(memory::bytes(batch.columns()).saturating_mul(4)))
    }

    /// The same where no error can be returned: between parts, each of which may take long. It unwinds without a panic
    /// message.
    pub(crate) fn check_or_unwind(&self) {
        if let Err(failure) = self.check() {
            resume_unwind(Box::new(Stopped(failure)));
        }
    }
}

/// Work that has begun.
static RUNNING: Mutex<Vec<Weak<Shared>>> = Mutex::new(Vec::new());

/// Stops all work and waits for it. Python calls this before it exits.
#[pyfunction]
pub(crate) fn end_streams(py: Python<'_>) -> PyResult<()> {
    let running = std::mem::take(&mut *RUNNING.lock().unwrap_or_else(PoisonError::into_inner));
    py.detach(|| {
        let own = running.iter().filter_map(Weak::upgrade).filter(|work| work.process == process::id());
        let own: Vec<Arc<Shared>> = own.collect();
        own.iter().for_each(|work| work.stop());
        // Ctrl-C ends the wait for one whose table blocks, and not that for the others.
        let ends: Vec<PyResult<()>> = own.iter().map(|work| work.wait_for_end()).collect();
        ends.into_iter().collect()
    })
}
