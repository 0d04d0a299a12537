//! Work without the interpreter's lock, on threads of this module's own.
//!
//! ```text
//! detached(work)   lets go of the lock, runs the work in the pool, takes the lock back; a panic becomes a KoelError
//! pool             as many threads as the process may use, or as RAYON_NUM_THREADS says; made at the first call
//! after a fork     the child has none of these threads, so it makes a pool of its own; the parent's is left alone, for its locks
//!                  may be held by threads that are gone
//! ```

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process;
use std::sync::atomic::{AtomicPtr, Ordering};

use pyo3::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::error::{DeviceError, Failure, KoelError, Result};

/// The threads of one process.
struct Pool {
    process: u32,
    threads: ThreadPool,
}

/// The latest pool; none before the first call. What is put here stays for good, so that whoever has it may use it.
static POOL: AtomicPtr<Pool> = AtomicPtr::new(std::ptr::null_mut());

/// Runs work that needs no Python object, and lets other threads of Python run meanwhile.
pub(crate) fn detached<T: Send>(py: Python<'_>, work: impl FnOnce() -> Result<T> + Send) -> PyResult<T> {
    let done = py.detach(|| {
        let pool = pool()?;
        catch_unwind(AssertUnwindSafe(|| pool.install(work)))
            .unwrap_or_else(|panic| Err(Failure::Python(panicked(&*panic))))
    });
    // What came in between: Ctrl-C.
    py.check_signals()?;
    Ok(done?)
}

/// Lets Ctrl-C end long work between two of its pieces.
pub(crate) fn between_pieces() -> Result<()> {
    Ok(Python::attach(|py| py.check_signals())?)
}

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
        let threads = ThreadPoolBuilder::new().thread_name(|i| format!("koel-{i}")).build().map_err(|error| {
            let advice = "allow more threads or memory, or set RAYON_NUM_THREADS to fewer threads";
            DeviceError::new_err(format!("cpu, while starting threads: {error}: {advice}"))
        })?;
        let mine = Box::new(Pool { process: process::id(), threads });
        let mine = Box::into_raw(mine);
        if POOL.compare_exchange(latest, mine, Ordering::AcqRel, Ordering::Acquire).is_err() {
            // Another thread was sooner.
            // SAFETY: nobody else has seen this pointer.
            #[expect(unsafe_code, reason = "takes back the box that was given away above")]
            drop(unsafe { Box::from_raw(mine) });
        }
    }
}

fn panicked(panic: &(dyn Any + Send)) -> PyErr {
    let text =
        panic.downcast_ref::<&str>().map(ToString::to_string).or_else(|| panic.downcast_ref::<String>().cloned());
    KoelError::new_err(format!(
        "koel failed within ({}); this is a fault of koel, please report it, unless an array was changed while a call read it",
        text.unwrap_or_default()
    ))
}
