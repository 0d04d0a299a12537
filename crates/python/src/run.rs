//! Runs work without the interpreter's lock, on threads of this module.
//!
//! ```text
//! detached(work)   releases the lock, runs the work in the pool, takes the lock again; a panic becomes a KoelError
//! meanwhile        the calling thread waits, and checks for Ctrl-C regularly, which Python reports only to its main
//!                  thread; on Ctrl-C it sets a flag, which the work checks between its pieces
//! pool             as many threads as the process may use, or as RAYON_NUM_THREADS says; made at the first call
//! streams          have threads of their own: stream/work.rs
//! after a fork     the child has none of these threads, so it makes a pool of its own; the parent's is left alone, for its locks
//!                  may be held by threads that are gone
//! ```
//!
//! Work in the pool must not take a lock that another call may hold: a thread that waits for a part of its work runs
//! the work of other calls meanwhile, and could wait for itself. The calling thread takes all locks, and selects the
//! device.

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
/// The time between two checks for Ctrl-C.
pub(crate) const PATIENCE: Duration = Duration::from_millis(50);

/// Whether the work was cancelled.
#[derive(Default)]
pub(crate) struct Stop(AtomicBool);

impl Stop {
    /// Ends cancelled work; called between two pieces.
    ///
    /// # Errors
    /// An error that is not reported: the reason of the cancellation is reported instead.
    pub(crate) fn check(&self) -> Result<()> {
        if self.0.load(Ordering::Relaxed) { Err(KoelError::new_err("interrupted").into()) } else { Ok(()) }
    }
}

/// Runs work that needs no Python objects, while other Python threads can run.
pub(crate) fn detached<T: Send>(py: Python<'_>, work: impl FnOnce(&Stop) -> Result<T> + Send) -> PyResult<T> {
    Ok(py.detach(|| in_pool(work))?)
}

/// The same on a device.
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

/// Runs work in the pool, on a thread that does not hold the interpreter's lock.
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
        (None, None) => Err(KoelError::new_err("koel lost what it worked on; please report it").into()),
    }
}

/// Runs work on the calling thread. A panic becomes an error.
pub(crate) fn caught<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(Failure::Python(panicked(&*panic))))
}

/// The threads of one process.
struct Pool {
    process: u32,
    threads: ThreadPool,
}

/// The latest pool; `None` before the first call. Pools are never dropped, so references to them stay valid.
static POOL: AtomicPtr<Pool> = AtomicPtr::new(std::ptr::null_mut());

/// The pool of this process.
fn pool() -> Result<&'static ThreadPool> {
    loop {
        let latest = POOL.load(Ordering::Acquire);
        // SAFETY: what is put there comes from a box and is never freed.
        #[expect(unsafe_code, reason = "pools live as long as the process")]
        if let Some(pool) = unsafe { latest.as_ref() }
            && pool.process == process::id()
        {
            return Ok(&pool.threads);
        }
        let threads = threads("koel", usize::MAX)?;
        let mine = Box::into_raw(Box::new(Pool { process: process::id(), threads }));
        if POOL.compare_exchange(latest, mine, Ordering::AcqRel, Ordering::Acquire).is_err() {
            // Another thread was sooner.
            // SAFETY: no one else has seen this pointer.
            #[expect(unsafe_code, reason = "takes back the box that was given away above")]
            drop(unsafe { Box::from_raw(mine) });
        }
    }
}

/// As many threads as the process may use, but at most `most`.
pub(crate) fn threads(name: &'static str, most: usize) -> Result<ThreadPool> {
    let available = match koel::threads::requested()? {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        requested => requested,
    };
    let builder = ThreadPoolBuilder::new().num_threads(available.min(most));
    builder.thread_name(move |i| format!("{name}-{i}")).build().map_err(|error| {
        // The stacks of threads are the first that does not fit.
        if let Err(no_memory) = memory::check(32 << 20) {
            return no_memory;
        }
        let advice = "allow more threads or memory, or set RAYON_NUM_THREADS to fewer threads";
        DeviceError::new_err(format!("cpu, while starting threads: {error}: {advice}")).into()
    })
}

pub(crate) fn panicked(panic: &(dyn std::any::Any + Send)) -> PyErr {
    let text =
        panic.downcast_ref::<&str>().map(ToString::to_string).or_else(|| panic.downcast_ref::<String>().cloned());
    KoelError::new_err(format!(
        "koel failed within ({}); this is a bug in koel, please report it, unless an array was \
         changed while a call read it",
        text.unwrap_or_default()
    ))
}
