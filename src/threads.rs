//! The threads of passes outside of any pool of koel: those of the caller's pool, or of rayon's global pool. Public for
//! koel's other crates, which also have a thread per device.
//!
//! Rayon starts its global pool at its first use, and panics if the system cannot create threads. So it is started
//! here, before its first use, and the system's error is kept.
//!
//! **Why there is a maximum.** Rayon's threads search for work while others start. On two busy cores, 1,000 threads
//! started in 2 to 4 seconds, 4,096 in half a minute, and 10,000 in more than a minute.
//!
//! **Why a waiting thread works meanwhile.** The thread of a device is in no pool, so its parallel work runs on the
//! threads of a pool, and the waiting thread may be the only one of them.

use std::error::Error as _;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::Duration;

use rayon::ThreadPoolBuilder;

use crate::error::{Error, Result};

/// How long a waiting thread sleeps if its pool has nothing to do.
const PAUSE: Duration = Duration::from_micros(50);

/// The variables by which rayon chooses the number of threads; the first that is set counts.
const VARIABLES: [&str; 2] = ["RAYON_NUM_THREADS", "RAYON_RS_NUM_CPUS"];

/// The maximum number of threads of a pool: 1,024, or the number of CPUs if that is greater.
pub fn most() -> usize {
    thread::available_parallelism().map_or(1, usize::from).max(1024)
}

/// The number of threads that the environment requests; 0 for one per CPU.
///
/// # Errors
/// [`Error::InvalidParameter`] if the value is neither a number nor empty, or exceeds [`most`]. Rayon ignores other
/// words, and starts up to 65,535 threads.
pub fn requested() -> Result<usize> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(|value| (name, value));
    let Some((name, value)) = VARIABLES.into_iter().find_map(set) else { return Ok(0) };
    let number = value.to_str().and_then(|value| value.parse().ok()).filter(|&number| number <= most());
    number.ok_or_else(|| Error::parameter(name, value.display(), "set it to 1 to 1024, or unset it for one per CPU"))
}

/// Starts rayon's global pool, unless this thread is in a pool or the global pool was started.
///
/// # Errors
/// Those of [`requested`], or [`Error::Device`] if it could not be started. There is no second attempt, because rayon
/// does not support one.
pub fn ready() -> Result<()> {
    if rayon::current_thread_index().is_some() {
        return Ok(());
    }
    static STARTED: OnceLock<std::result::Result<(), String>> = OnceLock::new();
    match STARTED.get_or_init(start) {
        Ok(()) => Ok(()),
        Err(reason) => {
            requested()?;
            Err(Error::Device {
                device: "cpu".into(),
                doing: "starting threads".into(),
                message: format!("{reason}: allow more threads or memory, or set RAYON_NUM_THREADS to fewer threads"),
            })
        }
    }
}

fn start() -> std::result::Result<(), String> {
    let threads = requested();
    // If the variable is invalid, one thread: later uses of rayon that cannot return errors would start thousands.
    match ThreadPoolBuilder::new().num_threads(*threads.as_ref().unwrap_or(&1)).build_global() {
        Ok(()) => threads.map(drop).map_err(|error| error.to_string()),
        Err(error) if error.source().is_some() => Err(error.to_string()),
        // The program started the pool before koel did. Only a use shows whether that succeeded.
        Err(_) => std::panic::catch_unwind(rayon::current_num_threads)
            .map(drop)
            .map_err(|_| "this program tried before, and failed".into()),
    }
}

/// Works for the pool of this thread until `is_over` returns true. Returns at once on a thread outside of any pool,
/// whose caller blocks instead.
pub fn wait_for(mut is_over: impl FnMut() -> bool) {
    while rayon::current_thread_index().is_some() && !is_over() {
        if rayon::yield_now() != Some(rayon::Yield::Executed) {
            thread::sleep(PAUSE);
        }
    }
}

/// Threads for devices, in a scope that may end at any time, also by an error or a panic. Leaving the scope waits as
/// [`wait_for`] does: the scope itself would block, and the blocked thread of a pool may be the one that has to work.
#[derive(Debug, Default)]
pub struct Workers {
    running: AtomicUsize,
    ended: AtomicBool,
}

impl Workers {
    /// Starts a thread. If it panics, the work of the others ends.
    ///
    /// # Errors
    /// [`Error::Device`] if the system cannot create the thread.
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

    /// Signals the threads to begin nothing more.
    pub fn end(&self) {
        self.ended.store(true, Relaxed);
    }

    /// Whether the threads must begin nothing more.
    pub fn has_ended(&self) -> bool {
        self.ended.load(Relaxed)
    }

    /// A guard to keep while threads may run: dropping it waits for all of them, and during a panic ends their work.
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
