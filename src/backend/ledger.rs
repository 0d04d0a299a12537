//! Who did the work: for each stage, how many items kernels processed and how many a loop on the host did; and how long
//! each took, for backends that have no clock of their own.
//!
//! `verify --json` prints the counts, so that a "GPU build" that runs on the host can be seen for what it is.

use std::sync::{Mutex, MutexGuard};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

/// The counts of one stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    /// The kernel's or the loop's name.
    pub name: &'static str,
    /// Items that kernels (on the CPU backend: parallel passes) processed.
    pub kernel: u64,
    /// Items that one host thread looped over.
    pub host: u64,
}

/// How long a stage took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageTime {
    /// The kernel's or the pass's name.
    pub name: &'static str,
    /// The sum over all its runs.
    pub time: Duration,
}

impl StageTime {
    /// Adds up times of one name, in the order of their first use.
    pub(crate) fn gather(times: impl IntoIterator<Item = (&'static str, Duration)>) -> Vec<StageTime> {
        let mut gathered: Vec<StageTime> = Vec::new();
        for (name, time) in times {
            match gathered.iter_mut().find(|stage| stage.name == name) {
                Some(stage) => stage.time += time,
                None => gathered.push(StageTime { name, time }),
            }
        }
        gathered
    }
}

/// The stages of a device, in order of first use.
#[derive(Debug, Default)]
pub struct Ledger {
    stages: Mutex<Vec<Stage>>,
    watches: Mutex<Vec<Watch>>,
}

/// When the passes of one thread began.
#[derive(Debug)]
struct Watch {
    thread: ThreadId,
    laps: Vec<(&'static str, Instant)>,
}

impl Ledger {
    /// Counts items that a kernel processed.
    pub fn kernel(&self, name: &'static str, items: usize) {
        self.add(name, items as u64, 0);
    }

    /// Counts items that a loop on the host processed.
    pub fn host(&self, name: &'static str, items: usize) {
        self.add(name, 0, items as u64);
    }

    /// All stages since this was last asked.
    pub fn take(&self) -> Vec<Stage> {
        std::mem::take(&mut *lock(&self.stages))
    }

    /// Runs `work`, whose passes are finished when the next one is counted, and tells how long each took.
    pub(crate) fn timed_passes<R>(&self, work: impl FnOnce() -> R) -> (R, Vec<StageTime>) {
        let thread = thread::current().id();
        lock(&self.watches).push(Watch { thread, laps: Vec::new() });
        let done = work();
        let end = Instant::now();
        let mut watches = lock(&self.watches);
        // The latest of this thread: an inner call has ended by now.
        let mine = watches.iter().rposition(|watch| watch.thread == thread);
        let laps = mine.map_or(Vec::new(), |at| watches.remove(at).laps);
        let ends = laps.iter().skip(1).map(|&(_, start)| start).chain([end]);
        let times = laps.iter().zip(ends).map(|(&(name, start), end)| (name, end - start));
        (done, StageTime::gather(times))
    }

    fn add(&self, name: &'static str, kernel: u64, host: u64) {
        let thread = thread::current().id();
        for watch in lock(&self.watches).iter_mut().filter(|watch| watch.thread == thread) {
            watch.laps.push((name, Instant::now()));
        }
        let mut stages = lock(&self.stages);
        let at = match stages.iter().position(|stage| stage.name == name) {
            Some(at) => at,
            None => {
                stages.push(Stage { name, kernel: 0, host: 0 });
                stages.len() - 1
            }
        };
        stages[at].kernel += kernel;
        stages[at].host += host;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
