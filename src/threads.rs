//! The threads of passes that are in no pool of their own: those of the pool that calls, or rayon's global ones. Public
//! for koel's own crates, which have threads for devices too.
//!
//! Rayon starts its global pool at its first use, and panics if the system cannot create threads. So it is started
//! here, before its first use, and the system's error is kept.
//!
//! **Why who waits for a thread works meanwhile.** A device's thread is in no pool, so what it does in parallel is done
//! by a pool's threads, of which the one that waits may be the last.

use std::error::Error as _;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::Duration;

use rayon::ThreadPoolBuilder;

use crate::error::{Error, Result};

/// How long who waits sleeps when its pool has nothing to do.
const PAUSE: Duration = Duration::from_micros(50);

/// Starts rayon's global pool, if this thread is in no pool and no one has started it.
///
/// # Errors
/// [`Error::Device`] if it could not be started. It is not tried again: rayon cannot.
pub fn ready() -> Result<()> {
    if rayon::current_thread_index().is_some() {
        return Ok(());
    }
    static STARTED: OnceLock<std::result::Result<(), String>> = OnceLock::new();
    match STARTED.get_or_init(start) {
        Ok(()) => Ok(()),
        Err(reason) => Err(Error::Device {
            device: "cpu".into(),
            doing: "starting threads".into(),
            message: format!("{reason}: allow more threads or memory, or set RAYON_NUM_THREADS to fewer threads"),
        }),
    }
}

fn start() -> std::result::Result<(), String> {
    match ThreadPoolBuilder::new().build_global() {
        Ok(()) => Ok(()),
        Err(error) if error.source().is_some() => Err(error.to_string()),
        // The rest of the program started the pool first. Only a use shows whether that succeeded.
        Err(_) => std::panic::catch_unwind(rayon::current_num_threads)
            .map(drop)
            .map_err(|_| "this program tried before, and failed".into()),
    }
}

/// Waits until this is so, and works for the pool that the thread is of. A thread of no pool does not wait: it has
/// calls that sleep until it is so.
pub fn wait_for(mut is_over: impl FnMut() -> bool) {
    while rayon::current_thread_index().is_some() && !is_over() {
        if rayon::yield_now() != Some(rayon::Yield::Executed) {
            thread::sleep(PAUSE);
        }
    }
}

/// Threads for devices, in a scope that may end at any time, also by an error or a panic. Leaving the scope waits as
/// [`wait_for`] does; the scope itself would sleep, and a sleeping thread of a pool may be the one that is waited for.
#[derive(Debug, Default)]
pub struct Workers {
    running: AtomicUsize,
    ended: AtomicBool,
}

impl Workers {
    /// Starts a thread, which ends the others' work if it panics.
    ///
    /// # Errors
    /// [`Error::Device`] if the system cannot create them.
    pub fn start<'scope, R: Send + 'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        number: usize,
        work: impl FnOnce() -> R + Send + 'scope,
    ) -> Result<ScopedJoinHandle<'scope, R>> {
        self.running.fetch_add(1, Relaxed);
        // It is dropped as well where no thread starts.
        let member = Member(self);
        let in_thread = move || {
            let _member = member;
            work()
        };
        let started = thread::Builder::new().name(format!("koel-device-{number}")).spawn_scoped(scope, in_thread);
        started.map_err(|error| {
            self.end();
            Error::Device { device: "cpu".into(), doing: "starting a thread".into(), message: error.to_string() }
        })
    }

    /// Has nothing more begun.
    pub fn end(&self) {
        self.ended.store(true, Relaxed);
    }

    /// Whether nothing more is to begin.
    pub fn has_ended(&self) -> bool {
        self.ended.load(Relaxed)
    }

    /// To be held while threads may run: waits for all of them when it is dropped, and ends their work if that is by a
    /// panic.
    pub fn leader(&self) -> Leader<'_> {
        Leader(self)
    }
}

struct Member<'a>(&'a Workers);

impl Drop for Member<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.end();
        }
        self.0.running.fetch_sub(1, Release);
    }
}

/// The guard that [`Workers::leader`] returns.
#[derive(Debug)]
pub struct Leader<'a>(&'a Workers);

impl Drop for Leader<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.end();
        }
        wait_for(|| self.0.running.load(Acquire) == 0);
    }
}
