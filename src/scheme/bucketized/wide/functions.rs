//! The hash functions of a line table: those of canonical tables of 32 bits (`bucketized/functions.rs`), with a mixer
//! of the keys' width. Longer remainders are folded to 32 bits.
//!
//! ```text
//! x = mixed(key);  bucket 1 and remainder = split(x);   f = folded(remainder)
//! bucket 2 = bucket 1 moved within its part by 1 + a hash of (f, part)
//! bucket 3 = bucket 1 moved within the table by 1 + a hash of f
//! ```

use super::line::Layout;
use super::plan::LinePlan;
use super::slot::{self, SlotKey};
use crate::scheme::bucketized::functions::{Functions, MAX_FUNCTIONS};
use crate::scheme::constants::Constants;
use crate::scheme::hash::MixKeys;

/// The functions of one attempt.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LineFunctions<K: SlotKey> {
    /// The mixer of keys.
    pub mixer: K::Mixer,
    /// The functions that derive buckets 2 and 3 from bucket 1 and a 32-bit remainder.
    pub steps: Functions,
}

impl<K: SlotKey> LineFunctions<K> {
    /// The functions of a plan, with the constants of its attempt.
    pub fn new<L: Layout<Key = K>>(plan: &LinePlan<L>) -> Self {
        Self::drawn::<L>(&mut Constants::of(plan, &[LinePlan::<L>::ID, plan.buckets()]), plan.buckets())
    }

    /// Functions of this many buckets, with the next constants of a stream.
    pub(in crate::scheme) fn drawn<L: Layout<Key = K>>(stream: &mut Constants, buckets: u32) -> Self {
        let mixer = K::next_mixer(stream);
        let mut keys = [MixKeys::default(); MAX_FUNCTIONS];
        keys[1] = stream.next_mix_keys();
        keys[2] = stream.next_mix_keys();
        let part_bits = L::PART_BITS;
        LineFunctions { mixer, steps: Functions { count: 3, buckets, bucket_slots: L::SLOTS as u32, part_bits, keys } }
    }

    /// The function that a proposal of this age uses.
    #[inline(always)]
    pub fn turn(&self, age: u32) -> usize {
        self.steps.turn(age)
    }

    /// Bucket 1 and the remainder of a key.
    #[inline(always)]
    pub fn home(&self, key: K) -> (u32, K) {
        key.mixed(self.mixer).split(self.steps.buckets)
    }

    /// The bucket of function `turn` for a key with this home.
    #[inline(always)]
    pub fn bucket(&self, turn: usize, home: u32, remainder: K) -> u32 {
        self.steps.bucket(turn, home, remainder.folded())
    }

    /// Bucket 1 of a key that function `turn` maps to `bucket`.
    #[inline(always)]
    pub fn home_of(&self, turn: usize, bucket: u32, remainder: K) -> u32 {
        self.steps.home_of(turn, bucket, remainder.folded())
    }

    /// The key of the pair with this word in `bucket`.
    #[inline(always)]
    pub fn key_of(&self, bucket: u32, word: u64) -> K {
        let remainder = slot::remainder::<K>(word);
        let home = self.home_of(self.turn(slot::age::<K>(word)), bucket, remainder);
        K::join(home, remainder, self.steps.buckets).unmixed(self.mixer)
    }
}
