//! Hashes for tables that live as long as a query. Their seed is random, so an attacker cannot choose keys that
//! collide; group numbers do not depend on it.

use std::sync::OnceLock;

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// A hash function.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hash {
    seed: u64,
    /// The bits that a hash may have set: all, except in tests of collisions.
    mask: u64,
}

impl Hash {
    pub(super) fn new() -> Self {
        static HASH: OnceLock<Hash> = OnceLock::new();
        *HASH.get_or_init(|| {
            let bits = std::env::var("KOEL_HASH_BITS").ok().and_then(|bits| bits.parse().ok());
            let bits: u32 = bits.filter(|bits| (1..=64).contains(bits)).unwrap_or(64);
            // Without randomness from the system, the seed is fixed: results do not depend on it.
            Hash { seed: koel::random_seed().unwrap_or(0x9E37_79B9_7F4A_7C15), mask: u64::MAX >> (64 - bits) }
        })
    }

    /// The hash of 128 bits.
    #[inline]
    pub(super) fn of(self, low: u64, high: u64) -> u64 {
        let folded = |a: u64, b: u64| {
            let product = u128::from(a) * u128::from(b);
            product as u64 ^ (product >> 64) as u64
        };
        // The second product mixes what the first one does not if a factor is 0.
        folded(folded(low ^ self.seed, 0xA076_1D64_78BD_642F) ^ high, 0xE703_7ED1_A0B4_28DB) & self.mask
    }

    /// The hash of bytes.
    #[inline]
    pub(super) fn of_bytes(self, bytes: &[u8]) -> u64 {
        xxh3_64_with_seed(bytes, self.seed) & self.mask
    }
}
