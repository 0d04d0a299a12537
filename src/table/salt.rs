//! The salt of a table's keys: taken before a salted attempt, and recomputed by an audit.
//!
//! Both sort the keys on this machine, 4 bytes a key. Few builds come so far (`spec/constants.rs`), and those have given
//! back the memory of their image, so no device needs more than its build does anyway.

use rayon::prelude::*;

use crate::backend::{DeviceBuffer, HashBackend};
use crate::error::{Error, Result};
use crate::spec::{Kind, Plan, Salt, Scheme, Violation};

/// Keys that are read from the device at a time.
const CHUNK: usize = 1 << 21;

/// The salt of a column of distinct keys.
///
/// Cost: the column is read to this machine, which holds it once, and sorted by all threads.
pub(super) fn of<B: HashBackend>(backend: &B, seed: u64, keys: &B::Buffer<u32>) -> Result<Salt> {
    let mut sorted = Vec::new();
    let bytes = 4 * keys.len() as u64;
    sorted.try_reserve_exact(keys.len()).map_err(|_| Error::OutOfMemory { device: "this machine".into(), bytes })?;
    sorted.resize(keys.len(), 0);
    for (piece, i) in sorted.chunks_mut(CHUNK).zip(0..) {
        backend.read(keys, i * CHUNK, piece)?;
    }
    sorted.par_sort_unstable();
    Ok(Salt::of(seed, &sorted))
}

/// Whether the salt of an audited image is that of its keys, where the table promises it: a worn table keeps the salt
/// that it had before its pairs were removed, and so does a classic one, which leaves no trace of removed pairs.
pub(super) fn check<S: Scheme>(plan: &S::Plan, image: &[u64], tombstones: u64) -> std::result::Result<(), Violation> {
    let Some(salt) = plan.salt().filter(|_| plan.kind() == Kind::Canonical && tombstones == 0) else { return Ok(()) };
    let in_image = (0..plan.cells()).into_par_iter().filter_map(|cell| S::pair(plan, image, cell));
    let mut keys: Vec<u32> = in_image.map(|(key, _)| key).collect();
    keys.extend(plan.outside().map(|(key, _)| key));
    keys.par_sort_unstable();
    if Salt::of(plan.seed(), &keys) == salt { Ok(()) } else { Err(Violation::Salt) }
}
