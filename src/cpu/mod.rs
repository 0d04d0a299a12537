//! The CPU backend: rayon threads, `wide` lanes, software prefetch.
//!
//! ```text
//! memory.rs           buffers: huge pages, lazily zero memory, mapped files; prefetches
//! lanes/              selects the instructions of the hot loops, among those of the processor
//! chunk_queue.rs      distributes the input of one pass with queues over the threads; other passes: `crate::parallel`
//! ahead.rs            passes in which each key has one place
//! atomic.rs           operations on a word that threads share
//! place.rs            one place of an image: a word, or half of one; exclusive or shared
//! block.rs            blocks of keys and the queues between them
//! acceptance.rs       builds by atomic maximum, and
//! search.rs           lookups, in tables of single slots
//! columns.rs          an image's pairs as columns, for every scheme
//! lines.rs            the passes over images of lines: tables of 64-bit keys or values
//! slot_lists/         those of them in which a key has a list of slots: cuckoo, Robin Hood
//! network.rs          sorts one bucket without branches
//! parts.rs            partitions pairs into the parts of a new table
//! route.rs            selects the tables that are built one partition at a time
//! primitives.rs       the passes that do not depend on a scheme, on plain slices
//! relational.rs       the other passes for groups and joins
//! aggregate.rs        the part of them for values of 64 bits: aggregates of groups, and sums of doubles
//! first_occurrences/  the first row of each key of a column
//! groups.rs           aggregates of the groups of a column without storing ids
//! joins/              an index of a right column, and joins with it
//! sort.rs             a radix sort of pairs, the longest of the primitives
//! backend.rs          `HashBackend`: checks ranges, enters the pool, writes the ledger
//! probe.rs            `Probe`: clocks, random accesses, and in strided.rs strided updates, for benchmarks
//! cuckoo/             `Passes<Cuckoo>`, and of the schemes with its images: `Quadratic`, `CuckooSet`
//! bucketized/         `Passes<Bucketized>`
//! horton/             `Passes<Horton>`
//! robin_hood/         `Passes<RobinHood>`
//! signpost/           `Passes<Signpost>`
//! fks/                `Passes<Fks>`
//! sorted/             `Passes<Sorted>`
//! perfect/            `Passes<Perfect>`
//! ```
//!
//! Tables are larger than the caches, so most of the time is spent waiting for memory, and one core can wait for a
//! hundred cache lines at once. Each pass therefore works on **blocks** of 128 keys: it hashes all of them with SIMD
//! lanes, prefetches their slots, and reads them while the lines of the next block are being fetched. A key that needs
//! another slot is queued for a later block.
//!
//! The code is not written for one instruction set. `wide` selects its lanes when koel is compiled (SSE2 for baseline
//! x86-64); `lanes/` describes which newer instructions such a program still uses.

mod acceptance;
mod aggregate;
mod ahead;
mod atomic;
mod backend;
mod block;
mod bucketized;
mod chunk_queue;
mod columns;
mod cuckoo;
pub(crate) mod first_occurrences;
mod fks;
pub(crate) mod groups;
mod horton;
pub(crate) mod joins;
mod lanes;
mod lines;
mod memory;
mod network;
mod parts;
mod perfect;
mod place;
mod primitives;
mod probe;
mod relational;
mod robin_hood;
mod route;
mod search;
mod signpost;
mod slot_lists;
mod sort;
mod sorted;
mod strided;
mod sums;
#[cfg(test)]
mod tests;

use std::fs;
use std::sync::{Arc, LazyLock, Mutex, OnceLock};

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::backend::{BuildRoute, DeviceInfo, DeviceKind, Ledger};
use crate::error::{Error, Result};
use crate::{parallel, threads};
use block::{Workspace, Workspaces};

pub use memory::Memory;
#[cfg(feature = "opencl")]
pub(crate) use memory::atomic;

/// Keys whose slots are prefetched together. One core gains from up to 64 to 128 cache lines in flight. Two blocks (one
/// that is read, one that is in flight) are 16 KiB of lines: a small part of an L2 cache, and a third of an L1 cache.
/// Blocks and chunks are short under Miri, so that a few keys already occupy several threads.
const BLOCK: usize = if cfg!(miri) { 32 } else { 128 };

/// Items that a thread takes at a time: enough to make the overhead negligible. A multiple of 32, so that no two
/// threads write to one word of a bitmap.
const CHUNK: usize = if cfg!(miri) { 32 } else { 4 << 10 };

/// The processors of this machine as a device, driven by a pool of threads.
///
/// Clones are handles of the same device and share pool and ledger.
///
/// ```
/// use koel::{Cpu, HashBackend};
/// let cpu = Cpu::with_threads(2)?;
/// let buffer = cpu.upload(&[1u32, 2, 3])?;
/// assert_eq!(cpu.download(&buffer)?, [1, 2, 3]);
/// # Ok::<(), koel::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Cpu {
    inner: Arc<Inner>,
}

/// The threads of a device.
#[derive(Debug)]
enum Workers {
    /// Rayon's global pool, or the pool of the calling thread.
    Global,
    /// A pool.
    Pool(Arc<ThreadPool>),
    /// The calling thread.
    Caller,
}

#[derive(Debug)]
struct Inner {
    workers: Workers,
    info: DeviceInfo,
    ledger: Ledger,
    workspaces: Workspaces,
    /// The build strategy, if it was set.
    route: Mutex<Option<BuildRoute>>,
}

impl Cpu {
    /// All threads: rayon's global pool, which honours `RAYON_NUM_THREADS`. Called from a thread of another rayon pool,
    /// work stays in that pool.
    ///
    /// This never fails. If the system gives no threads for the pool, every operation returns [`Error::Device`]. If
    /// `RAYON_NUM_THREADS` is not a number, or exceeds both 1,024 and the number of CPUs, every operation returns
    /// [`Error::InvalidParameter`].
    pub fn new() -> Cpu {
        Cpu::on(Workers::Global, threads::ready().map_or(1, |()| rayon::current_num_threads()))
    }

    /// The calling thread alone: for programs with their own threads, such as query engines, each with its own tables.
    /// Passes of this device do not use other threads. The host's processing of answers and files still uses rayon's
    /// global pool: answers for more than 2^14 queries, digests, saving, opening, audits.
    pub fn of_caller() -> Cpu {
        Cpu::on(Workers::Caller, 1)
    }

    /// A pool of its own with `threads` threads; they end with the last clone.
    ///
    /// With one thread, classic tables repeat byte for byte too; canonical tables do so with any number.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`] for 0 threads, or for more than both 1,024 and the number of CPUs;
    /// [`Error::Device`] if the system gives none.
    pub fn with_threads(threads: usize) -> Result<Cpu> {
        if threads == 0 || threads > threads::most() {
            static ADVICE: LazyLock<String> = LazyLock::new(|| format!("use 1 to {}", threads::most()));
            return Err(Error::parameter("threads", threads, &ADVICE));
        }
        let pool = ThreadPoolBuilder::new().num_threads(threads).thread_name(|i| format!("koel-{i}")).build();
        let pool = pool.map_err(|error| failed("starting threads", error))?;
        Ok(Cpu::from_pool(Arc::new(pool)))
    }

    /// The threads of an existing pool.
    pub fn from_pool(pool: Arc<ThreadPool>) -> Cpu {
        let threads = pool.current_num_threads();
        Cpu::on(Workers::Pool(pool), threads)
    }

    fn on(workers: Workers, count: usize) -> Cpu {
        let threads = match workers {
            Workers::Caller => "the calling thread".into(),
            _ => format!("rayon, {count} thread{}", if count == 1 { "" } else { "s" }),
        };
        let driver = format!("{threads}, {} lanes", lanes::name());
        let (name, memory) = machine();
        let mut info = DeviceInfo::new("cpu", DeviceKind::Cpu, name, driver, count);
        info.memory = *memory;
        Cpu {
            inner: Arc::new(Inner {
                workers,
                info,
                ledger: Ledger::default(),
                workspaces: Workspaces::default(),
                route: Mutex::default(),
            }),
        }
    }

    fn workspaces(&self) -> &Workspaces {
        &self.inner.workspaces
    }

    /// Runs `work` on a thread of the pool, so that all parallel work in it uses that pool, or on the calling thread
    /// alone.
    ///
    /// Returns an error if a thread was short of memory for its workspace meanwhile.
    fn run<R: Send>(&self, work: impl FnOnce() -> R + Send) -> Result<R> {
        let before = self.workspaces().shortages();
        let (mut work, mut done) = (Some(work), None);
        let mut once = || done = work.take().map(|work| work());
        match &self.inner.workers {
            Workers::Pool(pool) => parallel::within(pool, &mut once),
            Workers::Global => {
                threads::ready()?;
                once();
            }
            Workers::Caller => parallel::alone(&mut once),
        }
        let is_whole = self.workspaces().shortages() == before;
        done.filter(|_| is_whole).ok_or_else(|| memory::out_of_memory(size_of::<Workspace>()))
    }
}

impl Default for Cpu {
    fn default() -> Self {
        Cpu::new()
    }
}

/// The name of the processors, and the bytes of memory if known. They are cached, because reading them takes a fraction
/// of a millisecond.
fn machine() -> &'static (String, Option<u64>) {
    static MACHINE: OnceLock<(String, Option<u64>)> = OnceLock::new();
    MACHINE.get_or_init(|| {
        let name = proc_field("/proc/cpuinfo", "model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned());
        let kib =
            proc_field("/proc/meminfo", "MemTotal").and_then(|field| field.strip_suffix(" kB")?.parse::<u64>().ok());
        (name, kib.map(|kib| kib * 1024))
    })
}

/// The first `name: value` of a file under /proc, if it exists.
fn proc_field(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let of_line = |line: &str| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    };
    text.lines().find_map(of_line)
}

/// Converts an error of the system to an error of this device.
fn failed(doing: &str, error: impl std::fmt::Display) -> Error {
    Error::Device { device: "cpu".into(), doing: doing.into(), message: error.to_string() }
}
