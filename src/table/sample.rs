//! A sample of a column of keys, which shows whether to expect duplicates, and of which keys.
//!
//! The sample consists of runs of adjacent rows, spread evenly. Adjacent duplicates are found within a run. Scattered
//! duplicates are found across runs if there are fewer than a few million keys, or if one key has a thousandth of the
//! rows.

use crate::backend::{DeviceBuffer, HashBackend};
use crate::error::Result;
use crate::scheme::Key;

/// Adjacent rows per run of a sample.
const RUN: u32 = 64;
const RUNS: u64 = 64;
/// The minimum number of keys that are sampled: with fewer keys, a build that finds duplicates late is fast too.
const LEAST_SAMPLED: u64 = 1 << 18;
/// A key with this share (1 / `SHARE`) of the keys in a sample is heavy.
const SHARE: usize = 64;

/// Some of the keys of a column, in ascending order.
pub(super) struct Sample<K>(Vec<K>);

impl<K: Key> Sample<K> {
    /// A sample, if there are enough keys. It is so small that the transfer to the host takes less time than examining
    /// it on a device.
    fn of<B: HashBackend>(backend: &B, keys: &B::Buffer<K>) -> Result<Option<Sample<K>>> {
        let len = keys.len() as u64;
        if !(LEAST_SAMPLED..=u64::from(u32::MAX)).contains(&len) {
            return Ok(None);
        }
        let last = len - u64::from(RUN);
        let run = |run: u64| (last * run / (RUNS - 1)) as u32;
        let index: Vec<u32> = (0..RUNS).flat_map(|r| (0..RUN).map(move |i| run(r) + i)).collect();
        let mut sample = backend.download(&backend.gather(keys, &backend.upload(&index)?)?)?;
        sample.sort_unstable();
        Ok(Some(Sample(sample)))
    }

    /// Returns the sample if it has duplicates. They are also duplicates in the column, because runs do not overlap. If
    /// few keys have duplicates, the sample usually misses them.
    pub(super) fn with_duplicates<B: HashBackend>(backend: &B, keys: &B::Buffer<K>) -> Result<Option<Sample<K>>> {
        Ok(Sample::of(backend, keys)?.filter(|sample| sample.0.windows(2).any(|two| two[0] == two[1])))
    }

    /// The heavy keys, ascending; none if other keys have duplicates too.
    pub(super) fn heavy_keys(&self) -> Vec<K> {
        let mut heavy = Vec::new();
        for duplicates in self.0.chunk_by(|one, other| one == other) {
            if duplicates.len() >= self.0.len().div_ceil(SHARE) {
                heavy.push(duplicates[0]);
            } else if duplicates.len() > 1 {
                return Vec::new();
            }
        }
        heavy
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cpu;

    fn sample(keys: &[u32]) -> Result<Option<Sample<u32>>> {
        let cpu = Cpu::new();
        Sample::with_duplicates(&cpu, &cpu.upload(keys)?)
    }

    #[test]
    fn distinct_and_short_columns_have_no_sampled_duplicates() -> Result<()> {
        // As short as a sampled column can be, so that the runs are as close to each other as possible.
        let distinct: Vec<u32> = (0..LEAST_SAMPLED as u32).collect();
        assert!(sample(&distinct)?.is_none());
        assert!(sample(&vec![1; LEAST_SAMPLED as usize - 1])?.is_none());
        Ok(())
    }

    #[test]
    fn heavy_keys_are_returned_only_if_no_others_have_duplicates() -> Result<()> {
        let column = |key: fn(u32) -> u32| (0..LEAST_SAMPLED as u32).map(key).collect::<Vec<u32>>();
        let found = |key| -> Result<Vec<u32>> { Ok(sample(&column(key))?.expect("copies").heavy_keys()) };
        assert_eq!(found(|i| if i % 2 == 0 { 9 } else { 10 + i })?, [9]);
        assert_eq!(found(|i| if i % 8 < 3 { 9 - i % 8 } else { 10 + i })?, [7, 8, 9]);
        assert_eq!(found(|i| if i % 2 == 0 { 9 } else { 10 + i / 2 / 2 })?, [], "other keys occur twice");
        assert_eq!(found(|i| i / 2)?, [], "no key is heavy");
        Ok(())
    }
}
