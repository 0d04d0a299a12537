//! Structures that are built once and queried often: `Table`, `Set`, `Index`, `MultiTable`.
//!
//! ```text
//! integers.rs   converts keys and values to words of 32 or 64 bits, and back
//! table.rs, set.rs, index.rs, multi.rs    one class each: koel's structure of the same name, for all widths
//! ```
//!
//! A reader-writer lock protects structures that can change: queries of several threads run concurrently, and a change
//! waits for them. The calling thread acquires this lock, without holding the interpreter's lock (run.rs explains why).
//! The files are those of the command `koel` and of the library.

/// Evaluates the body with the structure in `$any_width`, whose keys are `$K`.
macro_rules! with_keys {
    ($any_width:expr, |$inner:ident, $K:ident| $body:expr) => {
        with_keys!(@ $any_width, $inner, $K, $body, (Narrow, u32), (Wide, u64))
    };
    (@ $any_width:expr, $inner:ident, $K:ident, $body:expr, $(($variant:ident, $key:ty)),*) => {
        match $any_width {
            $(AnyWidth::$variant($inner) => {
                #[allow(dead_code, reason = "some bodies do not use the type")]
                type $K = $key;
                $body
            })*
        }
    };
}

/// The same for a table, whose values are `$V`.
macro_rules! with_table {
    ($any_width:expr, |$inner:ident, $K:ident, $V:ident| $body:expr) => {
        with_table!(
            @ $any_width, $inner, $K, $V, $body,
            (Narrow, u32, u32), (NarrowToWide, u32, u64), (WideToNarrow, u64, u32), (Wide, u64, u64)
        )
    };
    (@ $any_width:expr, $inner:ident, $K:ident, $V:ident, $body:expr, $(($variant:ident, $key:ty, $value:ty)),*) => {
        match $any_width {
            $(AnyWidth::$variant($inner) => {
                #[allow(dead_code, reason = "some bodies do not use the type")]
                type $K = $key;
                #[allow(dead_code, reason = "some bodies do not use the type")]
                type $V = $value;
                $body
            })*
        }
    };
}

mod index;
mod integers;
mod multi;
mod set;
mod table;

use std::path::PathBuf;
use std::process;
use std::sync::{LockResult, PoisonError, RwLock, RwLockReadGuard, TryLockError, TryLockResult};
use std::thread::sleep;
use std::time::Duration;

use koel::Error;
use koel::table::{Contents, FileInfo, read_info};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::device::check_after_fork;
use crate::error::{Failure, FileError, KoelError, Result};
#[cfg(feature = "opencl")]
use crate::run::caught;
use crate::run::{Stop, detached, in_pool};

pub(crate) use index::Index;
pub(crate) use integers::Type;
pub(crate) use multi::MultiTable;
pub(crate) use set::Set;
pub(crate) use table::Table;

/// A structure that several threads can use concurrently. Poisoning of the lock is ignored, because a panic leaves the
/// structure as it was before.
struct Shared<T> {
    lock: RwLock<T>,
    device: String,
    process: u32,
}

/// The number of attempts of a forked child to acquire a lock, and the pause between them.
const TRIES: u32 = 100;
const PAUSE: Duration = Duration::from_millis(20);

impl<T: Send + Sync> Shared<T> {
    fn new(any_width: T, device: &str) -> Self {
        Shared { lock: RwLock::new(any_width), device: device.into(), process: process::id() }
    }

    /// Runs work that reads the structure, in the pool.
    fn read<R: Send>(&self, py: Python<'_>, work: impl FnOnce(&T, &Stop) -> Result<R> + Send) -> PyResult<R> {
        Ok(py.detach(|| {
            let any_width = self.reader()?;
            let any_width: &T = &any_width;
            in_pool(|stop| work(any_width, stop))
        })?)
    }

    /// The same on the calling thread, for queries of CUDA arrays: waking a thread of the pool would take longer than a
    /// small query.
    #[cfg(feature = "opencl")]
    fn read_here<R: Send>(&self, py: Python<'_>, work: impl FnOnce(&T) -> Result<R> + Send) -> PyResult<R> {
        Ok(py.detach(|| {
            let any_width = self.reader()?;
            caught(|| work(&any_width))
        })?)
    }

    /// Runs work that reads two structures, which may be the same one.
    fn read_both<R: Send>(
        &self,
        py: Python<'_>,
        other: &Self,
        work: impl FnOnce(&T, &T) -> Result<R> + Send,
    ) -> PyResult<R> {
        Ok(py.detach(|| {
            // Locks are always acquired in the same order. Otherwise, two calls that hold one lock each could deadlock
            // with changes that wait for these locks. The same lock is not acquired twice, because the second attempt
            // could wait for a change that waits for the first one.
            let first_is_mine = std::ptr::from_ref(self) <= std::ptr::from_ref(other);
            let (first, second) = if first_is_mine { (self, other) } else { (other, self) };
            let first_table = first.reader()?;
            let second_table = if std::ptr::eq(first, second) { None } else { Some(second.reader()?) };
            let (first, second): (&T, &T) = (&first_table, second_table.as_deref().unwrap_or(&first_table));
            let (mine, theirs) = if first_is_mine { (first, second) } else { (second, first) };
            in_pool(|_| work(mine, theirs))
        })?)
    }

    /// Runs work that changes the structure, in the pool.
    fn write<R: Send>(&self, py: Python<'_>, work: impl FnOnce(&mut T, &Stop) -> Result<R> + Send) -> PyResult<R> {
        Ok(py.detach(|| {
            let mut any_width = self.acquire(|| self.lock.write(), || self.lock.try_write())?;
            let any_width: &mut T = &mut any_width;
            in_pool(|stop| work(any_width, stop))
        })?)
    }

    fn reader(&self) -> Result<RwLockReadGuard<'_, T>> {
        self.acquire(|| self.lock.read(), || self.lock.try_read())
    }

    /// Acquires the lock. In a forked child, a thread that does not exist there may hold it, so the wait is limited.
    fn acquire<G>(&self, take: impl FnOnce() -> LockResult<G>, attempt: impl Fn() -> TryLockResult<G>) -> Result<G> {
        check_after_fork(&self.device)?;
        if self.process == process::id() {
            return Ok(take().unwrap_or_else(PoisonError::into_inner));
        }
        for _ in 0..TRIES {
            match attempt() {
                Ok(any_width) => return Ok(any_width),
                Err(TryLockError::Poisoned(any_width)) => return Ok(any_width.into_inner()),
                Err(TryLockError::WouldBlock) => sleep(PAUSE),
            }
        }
        let text = "a thread was changing this table when its process was forked: start processes with spawn, or open \
                    a saved file";
        Err(KoelError::new_err(text).into())
    }
}

/// Runs work on a structure that is on this device, in the pool.
fn with_device<T: Send>(py: Python<'_>, device: &str, work: impl FnOnce(&Stop) -> Result<T> + Send) -> PyResult<T> {
    check_after_fork(device)?;
    detached(py, work)
}

/// The same on the calling thread, for queries of CUDA arrays.
#[cfg(feature = "opencl")]
fn with_gpu<T: Send>(py: Python<'_>, device: &str, work: impl FnOnce() -> Result<T> + Send) -> PyResult<T> {
    check_after_fork(device)?;
    Ok(py.detach(|| caught(work))?)
}

/// Reads the header of a file. Returns an error if the file does not contain a `class`.
fn info(path: &PathBuf, wanted: Contents, class: &str) -> Result<(FileInfo, Type)> {
    let info = read_info(path)?;
    let keys = Type::of_file(info.key_bits, info.key_type);
    if info.contents != wanted {
        let class_of = match info.contents {
            Contents::Map => "koel.Table",
            Contents::Set => "koel.Set",
            Contents::Multi => "koel.MultiTable or a koel.Index",
            _ => "structure of the command koel",
        };
        let text = format!("{} contains a {class_of}, not a {class}", path.display());
        return Err(FileError::new_err(text).into());
    }
    Ok((info, keys))
}

/// Checks that a load factor is above 0 and at most 1.
fn check_load(load_factor: Option<f64>) -> PyResult<()> {
    match load_factor {
        Some(load) if !(load > 0.0 && load <= 1.0) => {
            Err(PyValueError::new_err(format!("load_factor {load} is not valid: use a number above 0 and up to 1")))
        }
        _ => Ok(()),
    }
}

/// Converts the error of a build or an insertion to a message with the caller's key and the arguments of Python.
fn to_error(failure: Failure, keys: Type) -> Failure {
    match failure {
        Failure::Koel(Error::DuplicateKey { key }) => PyValueError::new_err(format!(
            "key {} occurs more than once: remove the duplicates, or set duplicates=\"first\" or \"last\"",
            keys.shown(key)
        ))
        .into(),
        Failure::Koel(Error::TooFull { pairs, slots, .. }) => PyValueError::new_err(format!(
            "{pairs} keys do not fit in {slots} slots: use a lower load_factor or another seed"
        ))
        .into(),
        other => other,
    }
}

/// Applies the settings of a caller to a builder.
macro_rules! with_settings {
    ($builder:expr, $load:expr, $seed:expr, $type:expr) => {{
        let mut builder = $builder.key_type($type.key_type());
        if let Some(load) = $load {
            builder = builder.load_factor(load);
        }
        if let Some(seed) = $seed {
            builder = builder.seed(seed);
        }
        builder
    }};
}
use with_settings;
