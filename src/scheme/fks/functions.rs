//! The hash functions of both levels, and their constants.
//!
//! ```text
//! mixer   bucket   = reduce(mix_0(key), B)
//!         slot     of sub-table i = reduce(mix_{1+i}(key ^ s GOLDEN), 192);  remainder: the low half, as in `slot.rs`
//! sahu    bucket   = (a key + b) mod p mod B
//!         slot     of sub-table i = (c_i key + d_i) mod p mod 192;  c_i, d_i = number s of the list ^ six constants
//! ```
//!
//! A seed number changes the input of the three mixers instead of their constants, so 256 sets of functions need no
//! more constants than one. Two keys whose XOR equals the XOR of two tweaks exchange their places between two seed
//! numbers. This is harmless, because a bucket has one seed number.
//!
//! Sahu's sums and products wrap modulo 2^32 **before** `mod p`, like those of Alcantara 2011 (`hash.rs` explains why
//! that must stay), and his seeds are `short`s: sign-extended to 32 bits before the XOR, as printed. A seed that makes
//! a multiplier 0 modulo 2^16 is drawn again, because the function would use half of the key's bits, or none.

use super::{BUCKET_SLOTS, FksFamily, FksPlan, SEEDS, SEEDS_OF_WORD, SUBTABLE_SLOTS, SUBTABLES};
use crate::scheme::constants::Constants;
use crate::scheme::hash::{self, GOLDEN, Lane, MixKeys, linear_family};
use crate::scheme::{Fks, Scheme, slot};

/// The prime p of Sahu 2015.
pub const SAHU_PRIME: u32 = 1_900_813;
/// The number of seeds in Sahu's list.
pub const SAHU_SEEDS: usize = 20;
/// The numbers that are XOR-ed with a seed to compute c_0, d_0, c_1, d_1, c_2, d_2 (Sahu 2015, Section 0.4).
pub(crate) const SAHU_XORS: [u32; 6] = [0xffff, 0xcba9, 0x7531, 0xbeef, 0xd9f1, 0x337a];

/// The number that is XOR-ed with a key under a seed number (mixers). The numbers of adjacent seed numbers differ in
/// many bits.
#[inline(always)]
pub(crate) fn tweak<L: Lane>(seed: L) -> L {
    seed.times(L::splat(GOLDEN))
}

/// The sub-table (from 0) of an offer of this age.
#[inline(always)]
pub(crate) fn turn(age: u32) -> u32 {
    age.wrapping_sub(1) % SUBTABLES
}

/// The position of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The bucket.
    pub bucket: u32,
    /// The sub-table, from 0.
    pub subtable: u32,
    /// The slot within the sub-table.
    pub at: u32,
}

/// The functions of one plan, with all constants precomputed.
#[derive(Clone, Debug)]
pub struct Functions {
    /// Constants of the first-level function and of the three sub-tables' mixers. Sahu's functions use only the first,
    /// with his `a` as `before` and `b` as `between`.
    pub keys: [MixKeys; 1 + SUBTABLES as usize],
    /// Sahu's list of seeds, sign-extended; zeros with mixers.
    pub list: [u32; SAHU_SEEDS],
    /// B.
    pub buckets: u32,
    /// The family.
    pub family: FksFamily,
}

impl Functions {
    pub(super) fn new(plan: &FksPlan) -> Self {
        let mut stream = Constants::of(plan, &[Fks::ID, plan.kind, plan.family, plan.buckets]);
        let (family, buckets) = (plan.family(), plan.buckets.max(1));
        if family == FksFamily::Mixer {
            let keys = std::array::from_fn(|_| stream.next_mix_keys());
            return Functions { keys, list: [0; SAHU_SEEDS], buckets, family };
        }
        // The multiplier is odd, because an even one would map keys that differ only in the highest bit to one bucket.
        let (a, b) = (stream.next_u32() | 1, stream.next_u32());
        let mut keys = [MixKeys::default(); 1 + SUBTABLES as usize];
        keys[0] = MixKeys::new(a, 1, b);
        Functions { keys, list: std::array::from_fn(|_| sahu_seed(&mut stream)), buckets, family }
    }

    /// The bucket of a key.
    #[inline(always)]
    pub fn bucket(&self, key: u32) -> u32 {
        let MixKeys { before: a, between: b, .. } = self.keys[0];
        match self.family {
            FksFamily::Mixer => self.mixed_bucket(key),
            FksFamily::Sahu => linear_family(key, a, b, SAHU_PRIME, self.buckets),
        }
    }

    /// The buckets of several keys (mixers).
    #[inline(always)]
    pub fn mixed_bucket<L: Lane>(&self, key: L) -> L {
        hash::reduce(hash::mix(key, self.keys[0]), self.buckets)
    }

    /// Slot and remainder of a key in sub-table `i`; `tweak` is that of the bucket's seed number (mixers).
    #[inline(always)]
    pub fn probe<L: Lane>(&self, i: u32, tweak: L, key: L) -> (L, L) {
        slot::split(hash::mix(key ^ tweak, self.keys[1 + (i % SUBTABLES) as usize]), SUBTABLE_SLOTS)
    }

    /// The key that is stored in a slot of sub-table `i` with this remainder (mixers).
    #[inline(always)]
    pub fn key_at(&self, i: u32, seed: u32, slot: u32, remainder: u32) -> u32 {
        let mixed = slot::join(slot, remainder, SUBTABLE_SLOTS);
        hash::unmix(mixed, self.keys[1 + (i % SUBTABLES) as usize]) ^ tweak(seed)
    }

    /// The slot of a key in sub-table `i` under a seed number. Past the end of Sahu's list the last seed is used.
    #[inline(always)]
    pub fn location(&self, i: u32, seed: u32, key: u32) -> u32 {
        if self.family == FksFamily::Mixer {
            return self.probe(i, tweak(seed), key).0;
        }
        let constants = self.list[(seed as usize).min(SAHU_SEEDS - 1)];
        let i = (i % SUBTABLES) as usize;
        let (c, d) = (constants ^ SAHU_XORS[2 * i], constants ^ SAHU_XORS[2 * i + 1]);
        linear_family(key, c, d, SAHU_PRIME, SUBTABLE_SLOTS)
    }

    /// The number of seed numbers of a bucket.
    pub fn seeds(&self) -> u32 {
        match self.family {
            FksFamily::Mixer => SEEDS,
            FksFamily::Sahu => SAHU_SEEDS as u32,
        }
    }

    /// The number of slots of the image, which the seed numbers follow.
    pub fn slots(&self) -> usize {
        self.buckets as usize * BUCKET_SLOTS as usize
    }

    /// The seed number of a bucket.
    #[inline(always)]
    pub fn seed(&self, image: &[u64], bucket: u32) -> u32 {
        let word = self.slots() + (bucket / SEEDS_OF_WORD) as usize;
        let shift = 8 * (bucket % SEEDS_OF_WORD);
        image.get(word).map_or(0, |word| (word >> shift) as u32 & (SEEDS - 1))
    }

    /// Overwrites the seed number of a bucket.
    pub(super) fn set_seed(&self, image: &mut [u64], bucket: u32, seed: u32) {
        let shift = 8 * (bucket % SEEDS_OF_WORD);
        if let Some(word) = image.get_mut(self.slots() + (bucket / SEEDS_OF_WORD) as usize) {
            *word = *word & !(u64::from(SEEDS - 1) << shift) | u64::from(seed) << shift;
        }
    }

    /// The position of a slot of the image; `None` for words that contain seed numbers.
    #[inline(always)]
    pub fn position(&self, word: u64) -> Option<Position> {
        let word = u32::try_from(word).ok().filter(|&word| (word as usize) < self.slots())?;
        let (bucket, slot) = (word / BUCKET_SLOTS, word % BUCKET_SLOTS);
        Some(Position { bucket, subtable: slot / SUBTABLE_SLOTS, at: slot % SUBTABLE_SLOTS })
    }

    /// The word of the image for a slot of a bucket's sub-table.
    #[inline(always)]
    pub fn word(bucket: u32, subtable: u32, at: u32) -> usize {
        bucket as usize * BUCKET_SLOTS as usize + (subtable * SUBTABLE_SLOTS + at) as usize
    }
}

/// The next of Sahu's seeds, sign-extended.
fn sahu_seed(stream: &mut Constants) -> u32 {
    loop {
        let seed = (stream.next_u32() >> 16) as u16 as i16 as u32;
        let sees_half = |i: &usize| (seed ^ SAHU_XORS[2 * i]) & 0xffff == 0;
        if !(0..SUBTABLES as usize).any(|i| sees_half(&i)) {
            return seed;
        }
    }
}
