//! Memory that work needs, checked before it begins.
//!
//! Buffers in proportion to data are allocated so that a shortage is an error, but arrow-rs ends the process if one of
//! its allocations fails. Work therefore begins only if the system would give as much memory as it may take: `ulimit
//! -v` and the like are known beforehand, and raise `MemoryError`. The estimates are generous, so a call may be refused
//! that would just have fitted. A stream checks before each batch (stream/work.rs).

use arrow_array::{Array, ArrayRef};
use koel::{Cpu, HashBackend};
use koel_arrow::Column;
use memmap2::MmapOptions;
use pyo3::exceptions::PyMemoryError;

use crate::error::Result;

/// Bytes per row of keys: words, a table of them, codes, row numbers, and copies of some of these.
const OF_A_ROW: u64 = 96;
/// Bytes that any call needs.
const OF_A_CALL: u64 = 4 << 20;

/// Returns an error if the system does not have this much memory.
///
/// # Errors
/// MemoryError.
pub(crate) fn check(bytes: u64) -> Result<()> {
    if is_obtainable(bytes) {
        return Ok(());
    }
    let advice = "free some, raise the limit of this process (ulimit -v), or use less data at a time, such as with the functions \
                  for streams and a memory_limit";
    let text = format!(
        "this needs up to {} MB of memory, which the system does not provide: {advice}",
        bytes.div_ceil(1_000_000)
    );
    Err(PyMemoryError::new_err(text).into())
}

/// The same for a call with this many rows, and this many bytes of values.
pub(crate) fn check_rows(rows: usize, bytes: u64) -> Result<()> {
    check(OF_A_CALL + (rows as u64).saturating_mul(OF_A_ROW).saturating_add(bytes.saturating_mul(3)))
}

/// The same for a call with these columns.
pub(crate) fn check_columns<'a>(columns: impl IntoIterator<Item = &'a Column>) -> Result<()> {
    let (rows, bytes) = columns
        .into_iter()
        .fold((0, 0), |(rows, bytes), column| (rows + column.len(), bytes + self::bytes(column.chunks())));
    check_rows(rows, bytes)
}

/// The bytes of arrays.
pub(crate) fn bytes(arrays: &[ArrayRef]) -> u64 {
    arrays.iter().map(|array| array.to_data().get_slice_memory_size().unwrap_or_default() as u64).sum()
}

/// How much memory the system gives, up to `most` bytes, and to within a quarter.
pub(crate) fn obtainable(most: u64) -> u64 {
    let mut bytes = most.min(half());
    while !is_obtainable(bytes) {
        bytes = bytes / 4 * 3;
    }
    bytes
}

/// Whether the system can allocate this much memory. At most half of the machine's memory is requested: the system
/// refuses requests that it could never satisfy, but not those that exceed the memory that is free now.
fn is_obtainable(bytes: u64) -> bool {
    let Ok(bytes) = usize::try_from(bytes.min(half())) else { return false };
    bytes == 0 || MmapOptions::new().len(bytes).map_anon().is_ok()
}

/// Half of the memory of this machine.
pub(crate) fn half() -> u64 {
    Cpu::of_caller().info().memory.map_or(u64::MAX, |bytes| bytes / 2)
}
