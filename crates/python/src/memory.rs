//! Checks that enough memory is available before work begins.
//!
//! koel returns an error if it cannot allocate a large buffer, but arrow-rs aborts the process if an allocation fails.
//! Therefore, each call first checks that the system can provide the memory that the call may need, and raises
//! `MemoryError` if not, for example because of `ulimit -v`. The estimates are high, so a call that would barely
//! fit may be rejected. Streams check before each batch (stream/work.rs).

use arrow_array::{Array, ArrayRef};
use koel::{Cpu, HashBackend};
use koel_arrow::Column;
use memmap2::MmapOptions;
use pyo3::exceptions::PyMemoryError;

use crate::error::Result;

/// Bytes per row of keys: encoded keys, a hash table, codes, row numbers, and copies of some of these.
const BYTES_PER_ROW: u64 = 96;
/// Bytes that every call needs.
const BYTES_PER_CALL: u64 = 4 << 20;

/// Checks that the system can provide `bytes` of memory.
///
/// # Errors
/// MemoryError if it cannot.
pub(crate) fn check(bytes: u64) -> Result<()> {
    if is_obtainable(bytes) {
        return Ok(());
    }
    let advice = "free memory, raise the limit of this process (ulimit -v), or process less data at a time, for example \
                  with the stream functions and a memory_limit";
    let text = format!(
        "this needs up to {} MB of memory, which the system cannot provide: {advice}",
        bytes.div_ceil(1_000_000)
    );
    Err(PyMemoryError::new_err(text).into())
}

/// Checks the memory for a call with `rows` rows and `bytes` bytes of values.
pub(crate) fn check_rows(rows: usize, bytes: u64) -> Result<()> {
    check(BYTES_PER_CALL + (rows as u64).saturating_mul(BYTES_PER_ROW).saturating_add(bytes.saturating_mul(3)))
}

/// Checks the memory for a call with these columns.
pub(crate) fn check_columns<'a>(columns: impl IntoIterator<Item = &'a Column>) -> Result<()> {
    let (rows, bytes) = columns
        .into_iter()
        .fold((0, 0), |(rows, bytes), column| (rows + column.len(), bytes + self::bytes(column.chunks())));
    check_rows(rows, bytes)
}

/// Returns the size of arrays in bytes.
pub(crate) fn bytes(arrays: &[ArrayRef]) -> u64 {
    arrays.iter().map(|array| array.to_data().get_slice_memory_size().unwrap_or_default() as u64).sum()
}

/// Estimates how many bytes the system can provide, up to `most`. The estimate may be too low by a quarter.
pub(crate) fn obtainable(most: u64) -> u64 {
    let mut bytes = most.min(half());
    while !is_obtainable(bytes) {
        bytes = bytes / 4 * 3;
    }
    bytes
}

/// Returns whether the system can allocate `bytes`. Requests at most half of the machine's memory, because the system
/// refuses requests that it could never satisfy. It accepts requests that exceed the memory that is free now.
fn is_obtainable(bytes: u64) -> bool {
    let Ok(bytes) = usize::try_from(bytes.min(half())) else { return false };
    bytes == 0 || MmapOptions::new().len(bytes).map_anon().is_ok()
}

/// Returns half of the machine's memory, in bytes.
pub(crate) fn half() -> u64 {
    Cpu::of_caller().info().memory.map_or(u64::MAX, |bytes| bytes / 2)
}
