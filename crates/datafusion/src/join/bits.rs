//! One bit per build row, set by any number of partitions.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The build rows that have a match. `set` and `get` need no memory ordering: bits are read only after all partitions
/// have finished, and [`Build::is_last`](super::build::Build::is_last) synchronizes with them.
pub(super) struct Bits(Vec<AtomicU64>);

impl Bits {
    pub(super) fn new(rows: usize) -> Self {
        Bits((0..rows.div_ceil(64)).map(|_| AtomicU64::new(0)).collect())
    }

    /// The number of bytes for this number of bits.
    pub(super) fn bytes(rows: usize) -> usize {
        rows.div_ceil(64) * 8
    }

    #[inline]
    pub(super) fn set(&self, row: u32) {
        if let Some(word) = self.0.get(row as usize / 64) {
            let bit = 1 << (row % 64);
            // Most rows of a heavy key find the bit set: a read shares the cache line, a write does not.
            if word.load(Relaxed) & bit == 0 {
                word.fetch_or(bit, Relaxed);
            }
        }
    }

    #[inline]
    pub(super) fn get(&self, row: u32) -> bool {
        self.0.get(row as usize / 64).is_some_and(|word| word.load(Relaxed) >> (row % 64) & 1 == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_those_that_were_set() {
        let bits = Bits::new(70);
        [0, 63, 64, 69, 1000].into_iter().for_each(|row| bits.set(row));
        assert_eq!((0..130).filter(|&row| bits.get(row)).collect::<Vec<_>>(), [0, 63, 64, 69]);
        Bits::new(0).set(0);
        assert!(!Bits::new(0).get(0));
    }
}
