//! A record of what ran where: for each stage, the number of items that kernels processed, and the number that a loop
//! on the host processed. For backends without a clock, also the duration of each stage.
//!
//! `verify --json` prints the counts, so that a "GPU build" that runs on the host can be detected.

use std::sync::{Mutex, MutexGuard};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

/// The counts of one stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    /// The name of the kernel or the loop.
    pub name: &'static str,
    /// Items that kernels (on the CPU backend: parallel passes) processed.
    pub kernel: u64,
    /// Items that one host thread looped over.
    pub host: u64,
}

/// Memory that was allocated on a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allocations {
    /// The number of allocations.
    pub count: u64,
    /// The number of bytes.
    pub bytes: u64,
}

/// Bytes that were transferred between a device and the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transfers {
    /// Uploads and writes.
    pub to_device: u64,
    /// Downloads and reads.
    pub to_host: u64,
    /// The duration of the transfers by the device's timestamps: without waiting for kernels, and without copies on the
    /// host from and to pinned memory. Zero if the queue does not have timestamps.
    pub time: Duration,
}

/// The duration of a stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageTime {
    /// The name of the kernel or the pass.
    pub name: &'static str,
    /// The sum over all runs of the stage.
    pub time: Duration,
}

impl StageTime {
    /// Adds up the times of each name, in the order of first use.
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
    allocations: Mutex<Allocations>,
    transfers: Mutex<Transfers>,
}

/// The stage before the first pass of a thread's work.
const SET_UP: &str = "set-up";

/// The time at which the passes of one thread began. An inner call of the same thread has a separate watch; its passes
/// count for the outer call too.
#[derive(Debug)]
struct Watch {
    thread: ThreadId,
    laps: Vec<(&'static str, Instant)>,
}

/// Removes the latest watch of this thread on drop, also after a panic.
struct Running<'a>(&'a Ledger);

impl Running<'_> {
    fn start(ledger: &Ledger) -> Running<'_> {
        let laps = vec![(SET_UP, Instant::now())];
        lock(&ledger.watches).push(Watch { thread: thread::current().id(), laps });
        Running(ledger)
    }

    fn take(&self) -> Vec<(&'static str, Instant)> {
        let me = thread::current().id();
        let mut watches = lock(&self.0.watches);
        let mine = watches.iter_mut().rev().find(|watch| watch.thread == me);
        mine.map_or(Vec::new(), |watch| std::mem::take(&mut watch.laps))
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let me = thread::current().id();
        let mut watches = lock(&self.0.watches);
        if let Some(at) = watches.iter().rposition(|watch| watch.thread == me) {
            watches.remove(at);
        }
    }
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

    /// Returns all stages since the last call.
    pub fn take(&self) -> Vec<Stage> {
        std::mem::take(&mut *lock(&self.stages))
    }

    /// Counts memory that was allocated on the device (OpenCL: by the driver, without reused buffers).
    pub fn allocation(&self, bytes: u64) {
        let mut all = lock(&self.allocations);
        *all = Allocations { count: all.count + 1, bytes: all.bytes + bytes };
    }

    /// Returns the allocations since the last call. The CPU backend does not count them.
    pub fn take_allocations(&self) -> Allocations {
        std::mem::take(&mut *lock(&self.allocations))
    }

    /// Counts bytes that were sent to the device or read from it.
    pub fn transfer(&self, to_device: usize, to_host: usize) {
        let mut all = lock(&self.transfers);
        all.to_device += to_device as u64;
        all.to_host += to_host as u64;
    }

    /// Adds to the duration of transfers.
    pub fn transfer_time(&self, time: Duration) {
        lock(&self.transfers).time += time;
    }

    /// Returns the transfers by uploads, writes, downloads and reads since the last call. The time of an upload is
    /// included after a later read from the device or a later [`finish`](super::HashBackend::finish). Transfers of
    /// queries and answers in chunks (`get` and `contains` of host memory) and those of the CPU backend are not
    /// counted.
    pub fn take_transfers(&self) -> Transfers {
        std::mem::take(&mut *lock(&self.transfers))
    }

    /// Runs `work`, and measures each pass from the end of the previous one. The time before the first pass is a
    /// separate stage, [`SET_UP`], so that the times add up to that of the work.
    pub(crate) fn timed_passes<R>(&self, work: impl FnOnce() -> R) -> (R, Vec<StageTime>) {
        let running = Running::start(self);
        let done = work();
        let end = Instant::now();
        let laps = running.take();
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

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    fn names(times: &[StageTime]) -> Vec<&'static str> {
        times.iter().map(|stage| stage.name).collect()
    }

    #[test]
    fn all_of_the_work_belongs_to_a_stage() {
        let ledger = Ledger::default();
        let ((), times) = ledger.timed_passes(|| {
            ledger.kernel("first", 1);
            ledger.host("second", 1);
            ledger.kernel("first", 1);
        });
        assert_eq!(names(&times), [SET_UP, "first", "second"]);
        let ((_, inner), outer) = ledger.timed_passes(|| ledger.timed_passes(|| ledger.kernel("pass", 1)));
        assert_eq!((names(&inner), names(&outer)), (vec![SET_UP, "pass"], vec![SET_UP, "pass"]));
        assert!(outer.iter().map(|stage| stage.time).sum::<Duration>() >= inner.iter().map(|stage| stage.time).sum());
    }

    #[test]
    fn panics_remove_the_watch() {
        let ledger = Ledger::default();
        let ((), times) = ledger.timed_passes(|| {
            ledger.kernel("kept", 1);
            let work = || ledger.timed_passes(|| panic!("in the middle of it"));
            assert!(catch_unwind(AssertUnwindSafe(work)).is_err());
            ledger.kernel("after", 1);
        });
        assert_eq!(names(&times), [SET_UP, "kept", "after"], "the outer watch ran on");
        assert!(lock(&ledger.watches).is_empty());
    }
}
