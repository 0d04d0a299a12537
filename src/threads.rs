//! The threads of passes that do not run in a pool of koel: those of the caller's pool, or of rayon's global pool. The
//! module is public for koel's other crates, which also have a thread per device.
//!
//! Rayon starts its global pool at its first use, and panics if the system cannot create threads. So koel starts the
//! pool before its first use, and keeps the system's error.
//!
//! **Why there is a maximum.** Rayon's threads search for work while others start. On two busy cores, 1,000 threads
//! started in 2 to 4 seconds, 4,096 in half a minute, and 10,000 in more than a minute.
//!
//! **Why a waiting thread executes tasks.** The thread of a device is not in a pool, so its parallel work runs on the
//! threads of a pool, and the waiting thread may be the only thread of that pool.

use std::error::Error as _;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{LazyLock, OnceLock};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::Duration;

use rayon::ThreadPoolBuilder;

use crate::error::{Error, Result};

/// How long a waiting thread sleeps if its pool has no tasks.
const PAUSE: Duration = Duration::from_micros(50);

/// The variables by which rayon chooses the number of threads. The first one that is set applies.
const VARIABLES: [&str; 2] = ["RAYON_NUM_THREADS", "RAYON_RS_NUM_CPUS"];

/// The maximum number of threads of a pool: 1,024, or the number of CPUs if that is greater.
pub fn most() -> usize {
    thread::available_parallelism().map_or(1, usize::from).max(1024)
}

/// The number of threads that the environment requests; 0 means one per CPU.
///
/// # Errors
/// [`Error::InvalidParameter`] if the value is neither a number nor empty, or exceeds [`most`]. Rayon ignores values
/// that are not numbers, and starts up to 65,535 threads.
pub fn requested() -> Result<usize> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(|value| (name, value));
    let Some((name, value)) = VARIABLES.into_iter().find_map(set) else { return Ok(0) };
    let number = value.to_str().and_then(|value| value.parse().ok()).filter(|&number| number <= most());
    static ADVICE: LazyLock<String> =
        LazyLock::new(|| format!("set it to 1 to {}, or unset it for one per CPU", most()));
    number.ok_or_else(|| Error::parameter(name, value.display(), &ADVICE))
}

/// Starts rayon's global pool, unless this thread is in a pool or the global pool was started.
///
/// # Errors
/// Those of [`requested`], or [`Error::Device`] if the pool could not be started. Later calls return the same error,
/// because rayon does not support a second attempt.
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
    // If the variable is invalid, the pool has one thread: later uses of rayon that cannot return errors would start
    // thousands.
    match ThreadPoolBuilder::new().num_threads(*threads.as_ref().unwrap_or(&1)).build_global() {
        Ok(()) => threads.map(drop).map_err(|error| error.to_string()),
        Err(error) if error.source().is_some() => Err(error.to_string()),
        // The program started the pool before koel did. Only a use of the pool shows whether that succeeded.
        Err(_) => std::panic::catch_unwind(rayon::current_num_threads)
            .map(drop)
            .map_err(|_| "this program tried before, and failed".into()),
    }
}

/// Executes tasks of this thread's pool until `is_over` returns true. On a thread outside of any pool, it returns at
/// once, and the caller blocks instead.
pub fn wait_for(mut is_over: impl FnMut() -> bool) {
    while rayon::current_thread_index().is_some() && !is_over() {
        if rayon::yield_now() != Some(rayon::Yield::Executed) {
            thread::sleep(PAUSE);
        }
    }
}

/// Threads for devices, in a scope that may end at any time, also by an error or a panic. Leaving the scope waits as
/// [`wait_for`] does. The scope itself would block, and the blocked thread may be the only thread of its pool.
#[derive(Debug, Default)]
pub struct Workers {
    running: AtomicUsize,
    ended: AtomicBool,
}

impl Workers {
    /// Starts a thread. If it panics, the other threads are signalled to end.
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
        // `member` is also dropped if no thread starts.
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

    /// Signals the threads not to begin further work.
    pub fn end(&self) {
        self.ended.store(true, Relaxed);
    }

    /// Whether the threads must not begin further work.
    pub fn has_ended(&self) -> bool {
        self.ended.load(Relaxed)
    }

    /// A guard to keep while threads may run. Dropping it waits for all threads; during a panic, it signals them to end
    /// first.
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
