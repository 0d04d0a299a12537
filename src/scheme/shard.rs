//! The shard of a key.
//!
//! ```text
//! shard(key) = high half of x * P        x: 32-bit keys mixed, or the upper half of 64-bit keys mixed,
//!                                           by separate mixers, from the seed and no attempt
//! ```
//!
//! The table of a shard uses other mixers, so the choice of the shard does not affect the distribution of keys within
//! it. P is a parameter of the table and not of the machine: 16 shards have the same bytes on one device, on two and on
//! eight.

use crate::error::{Error, Result};
use crate::file::MOST_SHARDS;
use crate::scheme::Key;
use crate::scheme::hash::{MixKeys, MixKeys64, SplitMix64, mix, mix_64, reduce};

/// The stream of constants of shards: that of an attempt number that tables never reach.
const STREAM: u32 = u32::MAX;

/// Maps keys to shards.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShardOf {
    pub(crate) shards: usize,
    pub(crate) seed: u64,
    /// The mixer of 32-bit keys.
    pub(crate) narrow: MixKeys,
    /// The mixer of 64-bit keys.
    pub(crate) wide: MixKeys64,
}

impl ShardOf {
    /// The map of keys to this many shards, for this seed.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`] for 0 shards, or more than the maximum.
    pub(crate) fn new(shards: usize, seed: u64) -> Result<ShardOf> {
        if !(1..=MOST_SHARDS).contains(&shards) {
            return Err(Error::parameter("the number of shards", shards, "use 1 to 4096"));
        }
        let mut stream = SplitMix64::for_attempt(seed, STREAM);
        let narrow = MixKeys::of_draws(stream.next_u64(), stream.next_u32());
        let wide = MixKeys64::new(stream.next_u64(), stream.next_u64(), stream.next_u64());
        Ok(ShardOf { shards, seed, narrow, wide })
    }

    /// The shard of a key.
    #[inline(always)]
    pub(crate) fn of<K: Key>(&self, key: K) -> usize {
        let word: u64 = key.into();
        let mixed =
            if K::BITS == u32::BITS { mix(word as u32, self.narrow) } else { (mix_64(word, self.wide) >> 32) as u32 };
        reduce(mixed, self.shards as u32) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_numbers_of_shards_are_refused() {
        assert!(ShardOf::new(1, 0).is_ok() && ShardOf::new(MOST_SHARDS, 0).is_ok());
        assert!(ShardOf::new(0, 0).is_err() && ShardOf::new(MOST_SHARDS + 1, 0).is_err());
    }

    #[test]
    fn keys_of_both_widths_are_spread_evenly_over_shards() -> Result<()> {
        for seed in [0, 7] {
            let which = ShardOf::new(7, seed)?;
            let mut counts = [[0; 7]; 2];
            for key in 0..70_000u64 {
                counts[0][which.of(key as u32)] += 1;
                counts[1][which.of(key << 32)] += 1;
            }
            // Five standard deviations.
            assert!(counts.iter().flatten().all(|count: &i32| (count - 10_000).abs() < 470), "{counts:?}");
        }
        let of = |seed| (0..64u32).map(|key| Ok(ShardOf::new(9, seed)?.of(key))).collect::<Result<Vec<_>>>();
        assert_ne!(of(1)?, of(2)?, "another seed, other shards");
        Ok(())
    }
}
