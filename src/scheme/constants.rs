//! The constants of a table's functions, derived from its seed or from a salt of all its keys.
//!
//! ```text
//! attempts 0 to 7     SplitMix64 of (seed, attempt)
//! attempts from 8 on  BLAKE3-XOF( "koel constants" | salt | attempt | scheme, kind, parameters, slots )
//!                     salt = first 16 bytes of BLAKE3( "koel salt" | seed | bits of a key | keys | the keys, ascending )
//! ```
//!
//! Anyone who knows the seed knows the constants of attempts 0 to 7, and can choose keys that crowd into a few slots
//! under each of them. A salt depends on every key: changing one key to fit the constants changes the constants. It is
//! a function of the set of keys, so it is the same on every device and for every order of the input.
//!
//! A salt is not a secret. Anyone who knows all keys and the seed can compute it. If random constants fail once in 2^k,
//! it takes 2^k tries to find a set of keys whose salted attempt fails, and every further attempt multiplies that.
//!
//! The inputs of the hash have a fixed width, and each scheme has a fixed list of numbers, so that two different inputs
//! never have the same bytes. None of them depends on values, on the sentinel pair, or on the number of pairs.

use std::fmt;

use bytemuck::NoUninit;

use super::hash::{MixKeys, MixKeys64, SplitMix64};
use super::{Key, Plan};

/// The first attempt whose constants are drawn from a salt, in schemes that use salts ([`Plan::takes_salt`]).
pub const FIRST_SALTED: u32 = 8;

/// A hash of all keys of a table, from which the constants of attempts from [`FIRST_SALTED`] on are drawn.
#[derive(Clone, Copy, PartialEq, Eq, NoUninit)]
#[repr(transparent)]
pub struct Salt([u8; Salt::BYTES]);

impl Salt {
    /// The number of bytes of a salt.
    pub const BYTES: usize = 16;
    /// The salt in the plan of a table without one.
    pub(super) const NONE: Salt = Salt([0; Salt::BYTES]);

    /// The salt of these keys, which must be distinct and ascending.
    pub fn of<K: Key>(seed: u64, keys: &[K]) -> Salt {
        debug_assert!(keys.windows(2).all(|two| two[0] < two[1]), "keys ascend, each once");
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"koel salt");
        hasher.update(&seed.to_le_bytes());
        hasher.update(&K::BITS.to_le_bytes());
        hasher.update(&(keys.len() as u64).to_le_bytes());
        hasher.update_rayon(bytemuck::cast_slice(keys));
        let mut bytes = [0; Salt::BYTES];
        bytes.copy_from_slice(&hasher.finalize().as_bytes()[..Salt::BYTES]);
        Salt(bytes)
    }

    /// A stored salt; `None` for zeros.
    pub(crate) fn from_bytes(bytes: [u8; Salt::BYTES]) -> Option<Salt> {
        Some(Salt(bytes)).filter(|&salt| salt != Salt::NONE)
    }

    /// The bytes in files and digests.
    pub fn bytes(&self) -> [u8; Salt::BYTES] {
        self.0
    }
}

impl fmt::Debug for Salt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The stream of the constants of one attempt.
pub enum Constants {
    Seeded(SplitMix64),
    /// Boxed because a reader is 30 times as large as the other variant.
    Salted(Box<blake3::OutputReader>),
}

impl Constants {
    /// The constants of a plan. `numbers` are its scheme, kind, parameters and slots: everything on which its functions
    /// depend. Every plan of the scheme has the same number of them.
    pub(super) fn of(plan: &impl Plan, numbers: &[u32]) -> Constants {
        let Some(salt) = plan.salt() else {
            return Constants::Seeded(SplitMix64::for_attempt(plan.seed(), plan.attempt()));
        };
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"koel constants");
        hasher.update(&salt.0);
        hasher.update(&plan.attempt().to_le_bytes());
        hasher.update(bytemuck::cast_slice(numbers));
        Constants::Salted(Box::new(hasher.finalize_xof()))
    }

    /// The next 64 bits.
    fn next_u64(&mut self) -> u64 {
        match self {
            Constants::Seeded(stream) => stream.next_u64(),
            Constants::Salted(reader) => {
                let mut bytes = [0; 8];
                reader.fill(&mut bytes);
                u64::from_le_bytes(bytes)
            }
        }
    }

    /// The keys of the next 64-bit mixer.
    pub(super) fn next_mix_keys_64(&mut self) -> MixKeys64 {
        let [before, times, between] = [(); 3].map(|()| self.next_u64());
        MixKeys64::new(before, times, between)
    }

    /// The next 32 bits.
    pub(super) fn next_u32(&mut self) -> u32 {
        (self.next_u64() >> 32) as u32
    }

    /// The keys of the next mixer.
    pub(super) fn next_mix_keys(&mut self) -> MixKeys {
        let (xors, times) = (self.next_u64(), self.next_u32());
        MixKeys::of_draws(xors, times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheme::{Cuckoo, Request, Scheme};

    fn salt() -> Salt {
        Salt::of(2026, &[1, 2, 3, u32::MAX])
    }

    /// Computed in Python, with the package `blake3`, from the definition above.
    #[test]
    fn salt_and_constants_equal_those_of_another_implementation() {
        assert_eq!(format!("{:?}", salt()), "0a42408cc83bc0e310cb8612740620b6");
        let plan = Cuckoo::canonical(4).plan(Request { slots: 100, pairs: 4, seed: 2026, attempt: 8 }).expect("a plan");
        let keys = plan.with_salt(Some(salt())).functions().keys;
        assert_eq!(keys[0], MixKeys::new(0x1f80_21ce, 0x3cb5_7249, 0xc036_701f));
        assert_eq!(keys[1], MixKeys::new(0x9753_639b, 0x4316_633f, 0x605f_d787));
    }

    #[test]
    fn every_part_of_the_input_matters() {
        let salts =
            [salt(), Salt::of(2027, &[1, 2, 3, u32::MAX]), Salt::of(2026, &[1, 2, 3u32]), Salt::of::<u32>(2026, &[])];
        let plan = |slots, attempt, salt| {
            let request = Request { slots, pairs: 4, seed: 2026, attempt };
            Cuckoo::canonical(4).plan(request).expect("a plan").with_salt(salt)
        };
        let draw = |plan, numbers: &[u32]| Constants::of(&plan, numbers).next_u64();
        let mut draws: Vec<u64> = salts.iter().map(|&salt| draw(plan(100, 8, Some(salt)), &[1, 2])).collect();
        draws.extend([draw(plan(100, 9, Some(salt())), &[1, 2]), draw(plan(100, 8, Some(salt())), &[1, 3])]);
        draws.extend([draw(plan(100, 8, None), &[1, 2]), draw(plan(100, 9, None), &[1, 2])]);
        let distinct: std::collections::BTreeSet<_> = draws.iter().collect();
        assert_eq!(distinct.len(), draws.len());
        // Without a salt it is the stream of the seed, at any attempt.
        assert_eq!(draws[7], SplitMix64::for_attempt(2026, 9).next_u64());
    }
}
