//! Runs work without the GIL, on koel's own thread pool.
//!
//! ```text
//! detached(work)   releases the GIL, runs the work in the pool, and acquires the GIL; a panic becomes a KoelError
//! Ctrl-C           the calling thread waits and polls for signals, which Python reports only to its main thread;
//!                  on Ctrl-C it sets a flag, which the work checks between pieces
//! pool             created at the first call, with RAYON_NUM_THREADS threads, or all that the process may use
//! streams          have their own threads: stream/work.rs
//! fork             the child has none of the threads, so it creates a new pool; it does not touch the pool of the
//!                  parent, whose locks may be held by threads that no longer exist
//! ```
//!
//! Work in the pool must not take a lock that another call may hold. A pool thread that waits for a subtask runs tasks
//! of other calls meanwhile, so it could deadlock with itself. The calling thread takes all locks and opens the device.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use koel::Any;
use pyo3::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::device::Chosen;
use crate::error::{DeviceError, Failure, KoelError, Result};
use crate::memory;

/// Elements per task of a parallel loop over a column.
pub(crate) const CHUNK: usize = 1 << 14;
/// Rows of a result between two checks for cancellation.
pub(crate) const PIECE: usize = 1 << 24;
/// The interval between two checks for Ctrl-C.
pub(crate) const PATIENCE: Duration = Duration::from_millis(50);

/// The cancellation flag of a call.
#[derive(Default)]
pub(crate) struct Stop(AtomicBool);

impl Stop {
    /// Checks for cancellation. Work calls it between pieces.
    ///
    /// # Errors
    /// An error if the work was cancelled. The caller replaces it with the cause of the cancellation.
    pub(crate) fn check(&self) -> Result<()> {
        if self.0.load(Ordering::Relaxed) { Err(KoelError::new_err("interrupted").into()) } else { Ok(()) }
    }
}

/// Runs work in the pool without the GIL.
pub(crate) fn detached<T: Send>(py: Python<'_>, work: impl FnOnce(&Stop) -> Result<T> + Send) -> PyResult<T> {
    Ok(py.detach(|| in_pool(work))?)
}

/// Chooses a device and runs work on it in the pool, without the GIL.
pub(crate) fn detached_on<T: Send>(
    py: Python<'_>,
    choose: impl FnOnce() -> Result<Chosen> + Send,
    work: impl FnOnce(Any, &Stop) -> Result<T> + Send,
) -> PyResult<T> {
    Ok(py.detach(|| {
        let chosen = choose()?;
        in_pool(|stop| work(chosen.device(), stop))
    })?)
}

/// Runs work in the pool and waits for it. The calling thread must not hold the GIL.
pub(crate) fn in_pool<T: Send>(work: impl FnOnce(&Stop) -> Result<T> + Send) -> Result<T> {
    let (stop, result, is_done) = (Stop::default(), Mutex::new(None), Condvar::new());
    let mut interrupted = None;
    pool()?.in_place_scope(|scope| {
        scope.spawn(|_| {
            let done = caught(|| work(&stop));
            *result.lock().unwrap_or_else(PoisonError::into_inner) = Some(done);
            is_done.notify_one();
        });
        let mut waiting = result.lock().unwrap_or_else(PoisonError::into_inner);
        while waiting.is_none() {
            let (still, late) = is_done.wait_timeout(waiting, PATIENCE).unwrap_or_else(PoisonError::into_inner);
            waiting = still;
            if late.timed_out() && waiting.is_none() && interrupted.is_none() {
                drop(waiting);
                interrupted = Python::attach(|py| py.check_signals()).err();
                stop.0.store(interrupted.is_some(), Ordering::Relaxed);
                waiting = result.lock().unwrap_or_else(PoisonError::into_inner);
            }
        }
    });
    match (interrupted, result.into_inner().unwrap_or_else(PoisonError::into_inner)) {
        (Some(interrupted), _) => Err(interrupted.into()),
        (None, Some(done)) => done,
        (None, None) => {
            Err(KoelError::new_err("the result of a call is missing; this is a bug in koel, please report it").into())
        }
    }
}

/// Runs work on the calling thread, and returns a panic as an error.
pub(crate) fn caught<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(Failure::Python(panicked(&*panic))))
}

/// The thread pool of a process.
struct Pool {
    process: u32,
    threads: ThreadPool,
}

/// The latest pool; null before the first call. A pool that is stored here is never dropped, so references to it stay
/// valid.
static POOL: AtomicPtr<Pool> = AtomicPtr::new(std::ptr::null_mut());

/// Returns the pool of this process, and creates it if necessary.
fn pool() -> Result<&'static ThreadPool> {
    loop {
        let latest = POOL.load(Ordering::Acquire);
        // SAFETY: a stored pointer is from `Box::into_raw` and is never freed.
        #[expect(unsafe_code, reason = "pools live as long as the process")]
        if let Some(pool) = unsafe { latest.as_ref() }
            && pool.process == process::id()
        {
            return Ok(&pool.threads);
        }
        let threads = threads("koel", usize::MAX)?;
        let mine = Box::into_raw(Box::new(Pool { process: process::id(), threads }));
        if POOL.compare_exchange(latest, mine, Ordering::AcqRel, Ordering::Acquire).is_err() {
            // Another thread stored its pool first.
            // SAFETY: the pointer was not stored, so no other thread has it.
            #[expect(unsafe_code, reason = "drops the box from above")]
            drop(unsafe { Box::from_raw(mine) });
        }
    }
}

/// Creates a pool of RAYON_NUM_THREADS threads, or as many as the process may use, but at most `most`.
pub(crate) fn threads(name: &'static str, most: usize) -> Result<ThreadPool> {
    let available = match koel::threads::requested()? {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        requested => requested,
    };
    let builder = ThreadPoolBuilder::new().num_threads(available.min(most));
    builder.thread_name(move |i| format!("{name}-{i}")).build().map_err(|error| {
        // Under a memory limit, the stacks of threads are the first allocations that fail.
        if let Err(no_memory) = memory::check(32 << 20) {
            return no_memory;
        }
        let advice = "allow more threads or memory, or set RAYON_NUM_THREADS to a lower number";
        DeviceError::new_err(format!("CPU threads could not be started: {error}: {advice}")).into()
    })
}

/// Converts a panic to a Python exception.
pub(crate) fn panicked(panic: &(dyn std::any::Any + Send)) -> PyErr {
    let text =
        panic.downcast_ref::<&str>().map(ToString::to_string).or_else(|| panic.downcast_ref::<String>().cloned());
    KoelError::new_err(format!(
        "koel panicked ({}); unless an array was changed while a call read it, this is a bug in koel, please \
         report it",
        text.unwrap_or_default()
    ))
}
