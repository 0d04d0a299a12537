//! Background work whose result is read in batches.
//!
//! ```text
//! Work      used by the reader: takes batches, waits for them, stops the work
//! Outlet    used by the worker thread: passes batches to the reader, and checks whether the work was stopped
//! State     shared by both: the job before it starts, some batches, the outcome
//! ```
//!
//! The work starts when the first batch is requested. It does not run in the pool (run.rs), but on its own threads: it
//! waits for its reader and for slow inputs, and would block threads of the pool that other calls need.
//!
//! The worker thread needs the interpreter's lock to read tables that are implemented in Python, and to drop columns
//! that Python owns. To prevent deadlocks, a thread that waits here does not hold the interpreter's lock, and a thread
//! that acquires the interpreter's lock holds no lock of this module.
//!
//! Before Python exits, all work is stopped and awaited, because Python terminates threads that acquire its lock later.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, ThreadId};

use arrow_array::RecordBatch;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use super::memory::{self as limits, Purge};
use crate::error::{Failure, KoelError, Result};
use crate::memory;
use crate::run::{PATIENCE, panicked, threads};

/// The maximum number of batches that are buffered for the reader.
const MAX_BUFFERED: usize = 2;

/// The entries of `BatchReader.stats`.
pub(crate) type Counts = Vec<(&'static str, u64)>;
/// Computes a result, and pushes it to the outlet.
pub(crate) type Job = Box<dyn FnOnce(&Outlet) -> Result<Counts> + Send>;

/// The work of one reader.
pub(crate) struct Work(Arc<Shared>);

struct Shared {
    /// The process in which the threads run.
    process: u32,
    /// The memory limit in bytes.
    limit: u64,
    purge: Purge,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The job, until the work starts or is stopped.
    job: Option<Job>,
    /// The worker thread, once it has started.
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

    /// Signals the worker thread to stop, without waiting for it.
    fn stop(&self) {
        let mut state = self.lock();
        state.is_stopped = true;
        // Dropped after the lock is released, because dropping them may acquire the interpreter's lock.
        let unused = (state.job.take(), std::mem::take(&mut state.batches));
        drop(state);
        self.changed.notify_all();
        drop(unused);
    }

    /// Waits until the work has ended, if it has started.
    fn wait_for_end(&self) -> PyResult<()> {
        let mut state = self.lock();
        while state.has_begun && state.end.is_none() {
            state = self.wait(state)?;
        }
        Ok(())
    }

    /// Waits for a change of the state, and checks for Ctrl-C.
    fn wait<'a>(&'a self, state: MutexGuard<'a, State>) -> PyResult<MutexGuard<'a, State>> {
        if state.worker == Some(thread::current().id()) {
            let text = "an input table waits for the result that is computed from it: read the result elsewhere than \
                        in the table's own code";
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

/// The error of calls after Python has started to shut down.
pub(crate) fn gone() -> PyErr {
    PyRuntimeError::new_err("Python is shutting down: no more rows can be read")
}

impl Work {
    /// `limit` is the memory limit in bytes.
    pub(crate) fn new(job: Job, limit: u64) -> Self {
        let state = Mutex::new(State { job: Some(job), ..State::default() });
        Work(Arc::new(Shared {
            process: process::id(),
            limit,
            purge: Purge::new(limit),
            state,
            changed: Condvar::new(),
        }))
    }

    /// Returns the next batch; `None` after the last one. Must be called without the interpreter's lock.
    ///
    /// # Errors
    /// The error that ended the work, on every call; or the exception of a signal handler, after which the call can be
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

    /// Stops the work, and waits until it has ended and deleted its files. Must be called without the interpreter's
    /// lock.
    pub(crate) fn close(&self) -> PyResult<()> {
        // A forked child does not have the threads, so there is nothing to wait for.
        if self.0.process != process::id() {
            return Ok(());
        }
        self.0.stop();
        self.0.wait_for_end()
    }

    /// The counts, if the work has succeeded. Like the functions below, must be called without the interpreter's lock.
    pub(crate) fn counts(&self) -> PyResult<Option<Counts>> {
        self.check_process()?;
        Ok(self.0.lock().end.as_ref().and_then(|end| end.as_ref().ok().cloned()))
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.0.process != process::id() || self.0.lock().is_stopped
    }

    /// Returns an error if the reader is closed, or if all rows have been read.
    pub(crate) fn check_unread(&self) -> PyResult<()> {
        self.check_process()?;
        let state = self.0.lock();
        match (state.is_stopped, &state.end) {
            (true, _) => Err(PyValueError::new_err("this reader is closed")),
            (_, Some(Ok(_))) if state.batches.is_empty() => Err(PyValueError::new_err(
                "all rows of this reader have been read, and they can be read only once: call the function again",
            )),
            _ => Ok(()),
        }
    }

    fn check_process(&self) -> PyResult<()> {
        if self.0.process == process::id() {
            return Ok(());
        }
        let text = "this reader was created before a fork, and its threads run only in the parent process: create a \
                    reader in this process";
        Err(PyRuntimeError::new_err(text))
    }

    fn begin(&self, job: Job) -> Result<()> {
        let pool = threads("koel-stream", limits::threads(self.0.limit))?;
        let shared = Arc::clone(&self.0);
        // The interpreter's lock is held, so that `RUNNING` is not locked during a fork.
        Python::try_attach(|_| {
            let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
            running.retain(|of| of.strong_count() > 0);
            running.push(Arc::downgrade(&shared));
        })
        .ok_or_else(gone)?;
        // The pool is dropped when this function returns, so its threads exit when the work is done.
        pool.spawn(move || {
            shared.lock().worker = Some(thread::current().id());
            shared.purge.begin();
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
        // In a forked child, the lock may be held by a thread that does not exist there.
        if self.0.process == process::id() {
            self.0.stop();
        }
    }
}

/// The payload of `check_or_unwind`, which ends the work early without a panic.
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

/// Passes the batches of the work to the reader.
pub(crate) struct Outlet(Arc<Shared>);

impl Outlet {
    /// Passes a batch on. Waits while the buffer is full.
    pub(crate) fn push(&self, batch: RecordBatch) -> Result<()> {
        self.check()?;
        let mut state = self.0.lock();
        while state.batches.len() >= MAX_BUFFERED && !state.is_stopped {
            state = self.0.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.is_stopped {
            // Dropping the batch may acquire the interpreter's lock.
            drop(state);
            return Err(stopped().into());
        }
        state.batches.push_back(batch);
        drop(state);
        self.0.changed.notify_all();
        Ok(())
    }

    /// Returns an error if the work was stopped, or if the memory that it needs until the next check is not available.
    /// Also returns freed memory to the system if the work exceeds its limit.
    pub(crate) fn check(&self) -> Result<()> {
        if self.0.lock().is_stopped {
            return Err(stopped().into());
        }
        self.0.purge.run();
        memory::check(limits::needs(self.0.limit))
    }

    /// Returns an error if the memory to process a batch, which is copied, is not available.
    pub(crate) fn check_for(&self, batch: &RecordBatch) -> Result<()> {
        memory::check(limits::needs(self.0.limit).saturating_add(memory::bytes(batch.columns()).saturating_mul(4)))
    }

    /// Like [`check`](Self::check), but unwinds without a panic message, for callers that cannot return an error.
    pub(crate) fn check_or_unwind(&self) {
        if let Err(failure) = self.check() {
            resume_unwind(Box::new(Stopped(failure)));
        }
    }
}

/// All work that has started.
static RUNNING: Mutex<Vec<Weak<Shared>>> = Mutex::new(Vec::new());

/// Stops all work and waits for it. Python calls this before it exits.
#[pyfunction]
pub(crate) fn end_streams(py: Python<'_>) -> PyResult<()> {
    let running = std::mem::take(&mut *RUNNING.lock().unwrap_or_else(PoisonError::into_inner));
    py.detach(|| {
        let own = running.iter().filter_map(Weak::upgrade).filter(|work| work.process == process::id());
        let own: Vec<Arc<Shared>> = own.collect();
        own.iter().for_each(|work| work.stop());
        // Ctrl-C ends the wait for work whose table blocks, but not the wait for the others.
        let ends: Vec<PyResult<()>> = own.iter().map(|work| work.wait_for_end()).collect();
        ends.into_iter().collect()
    })
}
