//! Joins of left columns in batches. The calling thread processes each batch.
//!
//! Results are counted before any is written, so the first rows of the batch are buffered. A result that is too long is
//! detected before memory is allocated for it, and a batch that fails marks no rows.

use super::{CHUNK, Right, atomic_u32, mark};
use crate::backend::join_rows::{JoinKind, JoinRows};
use crate::error::{Error, Result};
use crate::memory;
use crate::scheme::Key;

impl<K: Key> Right<K> {
    /// The results of a left batch, without the unmatched right rows, which follow all batches. Sets the bits of the
    /// right first rows that matched, if `bits` is not empty; after an error they are unchanged.
    pub(crate) fn batch(&self, left: &[K], kind: JoinKind, bits: &mut [u32]) -> Result<JoinRows> {
        let (mut first_occurrences, mut results) = (memory::zeroed(left.len())?, 0);
        for (left, first_occurrences) in left.chunks(CHUNK).zip(first_occurrences.chunks_mut(CHUNK)) {
            results += self.probe(left, kind, first_occurrences);
        }
        let results = results_at_once(results)?;
        let of_right = if kind.has_right() { results } else { 0 };
        let mut rows = JoinRows { left: memory::zeroed(results)?, right: memory::zeroed(of_right)? };
        self.write(kind, 0, &first_occurrences, 0, &mut rows.left, &mut rows.right);
        if !bits.is_empty() {
            mark(&first_occurrences, atomic_u32(bits));
        }
        Ok(rows)
    }
}

/// The length of the result of a batch, which must fit in one buffer.
///
/// # Errors
/// [`Error::TooLarge`] from 2^32 rows on, on every device.
pub(crate) fn results_at_once(len: u64) -> Result<usize> {
    let most = u32::MAX.into();
    let what = "results of a batch (give shorter ones)";
    usize::try_from(len).ok().filter(|_| len <= most).ok_or(Error::TooLarge { what, requested: len, most })
}
