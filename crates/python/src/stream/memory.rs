//! Memory limits and temporary folders of streams.

use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use koel_arrow::external::Limit;
use pyo3::exceptions::{PyNotADirectoryError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyString};

use crate::error::of_io;
use crate::memory::{check, half, obtainable};

/// The smallest memory limit. A smaller one would split a table into too many partitions.
const MIN_LIMIT: u64 = 1 << 20;

/// Memory that work needs in addition to its limit, in bytes.
const OVERHEAD: u64 = 64 << 20;

/// The minimum share of the limit per thread, in bytes.
const BYTES_PER_THREAD: u64 = 16 << 20;

/// The limit for the arguments `memory_limit` and `temp_dir`. It is lowered if the process cannot allocate three times
/// as much, without the overhead, so that neither the work nor the reader of its result runs out of memory.
pub(crate) fn limit(memory: Option<&Bound<'_, PyAny>>, folder: Option<PathBuf>) -> PyResult<Limit> {
    // At most half of the memory of the device and of this machine is used anyway.
    let bytes = memory.map_or(Ok(u64::MAX), bytes)?;
    check(OVERHEAD + 3 * MIN_LIMIT)?;
    let bytes = match obtainable(bytes.saturating_mul(3).saturating_add(OVERHEAD)) {
        // The process can allocate enough.
        given if given >= half() => bytes,
        given => bytes.min((given - OVERHEAD.min(given)) / 3).max(MIN_LIMIT),
    };
    let Some(folder) = folder else { return Ok(Limit::new(bytes)) };
    let found = std::fs::metadata(&folder).map_err(|error| of_io(&folder, &error))?;
    if !found.is_dir() {
        let text =
            format!("temp_dir is {}, which is not a folder: pass a folder for temporary files", folder.display());
        return Err(PyNotADirectoryError::new_err(text));
    }
    Ok(Limit::new(bytes).in_folder(folder))
}

/// The maximum number of threads for a limit, at least 2: the allocator keeps some freed memory for each thread.
pub(crate) fn threads(limit: u64) -> usize {
    usize::try_from(limit / BYTES_PER_THREAD).unwrap_or(usize::MAX).max(2)
}

/// The maximum memory that the work allocates between two batches.
pub(crate) fn needs(limit: u64) -> u64 {
    limit.min(half() / 4).saturating_add(OVERHEAD / 2)
}

/// Returns freed memory to the system while work with a memory limit runs. The allocator keeps freed memory for a
/// second, which saves page faults but counts towards the limit.
pub(crate) struct Purge {
    limit: u64,
    /// The number of bytes that other objects of this module used when the work began, or use now if that is less.
    others: AtomicU64,
}

impl Purge {
    /// `limit` is the memory limit in bytes; `u64::MAX` means none.
    pub(crate) fn new(limit: u64) -> Self {
        Purge { limit, others: AtomicU64::new(0) }
    }

    /// Must be called before the work allocates memory.
    pub(crate) fn begin(&self) {
        if self.limit < u64::MAX {
            release();
            self.others.store(committed(), Relaxed);
        }
    }

    /// Returns freed memory if the work has more than 1.25 times the limit. Must be called regularly.
    pub(crate) fn run(&self) {
        if self.limit == u64::MAX {
            return;
        }
        let now = committed();
        let others = self.others.fetch_min(now, Relaxed).min(now);
        if now - others > self.limit.saturating_add(self.limit / 4) {
            release();
        }
    }
}

/// Returns freed memory to the system.
fn release() {
    // SAFETY: any thread can call this at any time.
    #[expect(unsafe_code, reason = "a function of a C library")]
    unsafe {
        libmimalloc_sys::mi_collect(true);
    }
}

/// The number of bytes that the allocator has from the system.
fn committed() -> u64 {
    let (mut bytes, null) = (0, std::ptr::null_mut);
    // SAFETY: results are written through the pointers that are not null.
    #[expect(unsafe_code, reason = "a function of a C library")]
    unsafe {
        libmimalloc_sys::mi_process_info(null(), null(), null(), null(), null(), &raw mut bytes, null(), null());
    }
    bytes as u64
}

fn bytes(memory: &Bound<'_, PyAny>) -> PyResult<u64> {
    let advice = "pass a number of bytes, or text like \"300MB\", \"4GB\" or \"16GiB\" (K, M, G are powers \
                  of 1000, Ki, Mi, Gi of 1024)";
    let wrong = || PyValueError::new_err(format!("memory_limit is {memory}: {advice}"));
    let bytes = if memory.is_instance_of::<PyInt>() {
        memory.extract::<u64>().map_err(|_| wrong())?
    } else if memory.is_instance_of::<PyString>() {
        parsed(&memory.extract::<String>()?).ok_or_else(wrong)?
    } else {
        return Err(PyTypeError::new_err(format!("memory_limit is a {}: {advice}", memory.get_type().name()?)));
    };
    if bytes < MIN_LIMIT {
        return Err(PyValueError::new_err(format!("memory_limit is {bytes} bytes: pass 1Mi or more")));
    }
    Ok(bytes)
}

/// Parses the formats of the command line's `--memory`: 300M, 4GB, 1.5Gi, 5e9, 2^32.
fn parsed(text: &str) -> Option<u64> {
    const UNITS: [(&str, u64); 6] =
        [("Ki", 1 << 10), ("Mi", 1 << 20), ("Gi", 1 << 30), ("K", 1000), ("M", 1_000_000), ("G", 1_000_000_000)];
    let plain = text.strip_suffix('B').unwrap_or(text).replace('_', "");
    if let Some((base, exponent)) = plain.split_once('^') {
        return base.parse::<u64>().ok()?.checked_pow(exponent.parse().ok()?);
    }
    let unit = UNITS.iter().find_map(|&(name, factor)| plain.strip_suffix(name).map(|digits| (digits, factor)));
    let (digits, factor) = match plain.split_once(['e', 'E']) {
        Some((digits, exponent)) => (digits, 10u64.checked_pow(exponent.parse().ok()?)?),
        None => unit.unwrap_or((&plain, 1)),
    };
    scaled(digits, factor)
}

/// A decimal number times a factor, if the product is an integer.
fn scaled(digits: &str, factor: u64) -> Option<u64> {
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(fraction) {
        return None;
    }
    let parts = 10u64.checked_pow(fraction.len().try_into().ok()?)?;
    let part = fraction.parse::<u64>().ok()?.checked_mul(factor)?;
    let whole = whole.parse::<u64>().ok()?.checked_mul(factor)?;
    part.is_multiple_of(parts).then(|| whole.checked_add(part / parts))?
}
