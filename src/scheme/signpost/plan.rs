//! The integers that define the meaning of a signpost image. Files and digests contain their bytes.

use std::marker::PhantomData;

use bytemuck::NoUninit;

use super::functions::SignpostFunctions;
use super::post::words_behind;
use crate::scheme::bucketized::MOST_BUCKETS;
use crate::scheme::bucketized::wide::{LINE_WORDS, Layout};
use crate::scheme::stored::MOST_STORED;
use crate::scheme::{FIRST_SALTED, Plan, Salt, slot};

/// The minimum number of buckets of a stash that is not empty.
const MIN_STASH: u32 = slot::MIN_BUCKETS;

/// The integers that determine a signpost image.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SignpostPlan<L: Layout> {
    numbers: Numbers,
    layout: PhantomData<L>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, NoUninit)]
#[repr(C)]
struct Numbers {
    buckets: u32,
    stash_buckets: u32,
    attempt: u32,
    reserved: u32,
    seed: u64,
    salt: Salt,
}

/// The number of bytes of a plan without its salt.
const STORED: usize = std::mem::offset_of!(Numbers, salt);
const _: () = assert!(STORED <= MOST_STORED && STORED + Salt::BYTES == size_of::<Numbers>());

impl<L: Layout> SignpostPlan<L> {
    /// The number of such tables in files and digests: that of the scheme, and the types of keys and values.
    pub const ID: u32 = super::NUMBER | L::CODE << 16;

    pub(super) fn new(buckets: u32, seed: u64, attempt: u32) -> Self {
        let numbers = Numbers { buckets, stash_buckets: 0, attempt, reserved: 0, seed, salt: Salt::NONE };
        SignpostPlan { numbers, layout: PhantomData }
    }

    /// The number of buckets of the table, without the stash.
    pub fn buckets(&self) -> u32 {
        self.numbers.buckets
    }

    /// The number of buckets of the stash.
    pub fn stash_buckets(&self) -> u32 {
        self.numbers.stash_buckets
    }

    /// The starts of the stash and of the entries after it, in words of the image.
    pub fn sections(&self) -> (usize, usize) {
        let stash = self.numbers.buckets as usize * LINE_WORDS;
        (stash, stash + self.numbers.stash_buckets as usize * LINE_WORDS)
    }

    /// The functions with their constants.
    pub fn functions(&self) -> SignpostFunctions<L::Key> {
        SignpostFunctions::new(self)
    }
}

impl<L: Layout> Plan for SignpostPlan<L> {
    type Key = L::Key;
    type Value = L::Value;

    fn stored(&self) -> &[u8] {
        &bytemuck::bytes_of(&self.numbers)[..STORED]
    }
    fn of_stored(scheme: u32, stored: &[u8]) -> Result<Self, String> {
        if scheme != Self::ID {
            return Err(format!("its plan is of scheme number {scheme}, not of {}", Self::ID));
        }
        let words = bytemuck::pod_collect_to_vec::<u8, u32>(stored);
        let &[buckets, stash_buckets, attempt, reserved, low, high] = words.as_slice() else {
            return Err("its plan has the wrong length".into());
        };
        if stored.len() != STORED {
            return Err("its plan has the wrong length".into());
        }
        if !(u64::from(slot::MIN_BUCKETS)..=MOST_BUCKETS).contains(&buckets.into()) {
            return Err(format!("no table of its scheme has {buckets} buckets"));
        }
        let most = Self::new(buckets, 0, 0).with_stash(u64::from(buckets) * L::SLOTS as u64).stash_buckets();
        if stash_buckets != 0 && !(MIN_STASH..=most).contains(&stash_buckets) {
            return Err(format!("no table of {buckets} buckets has {stash_buckets} in its stash"));
        }
        if reserved != 0 {
            return Err("its plan has bits that mean nothing".into());
        }
        let mut plan = Self::new(buckets, u64::from(high) << 32 | u64::from(low), attempt);
        plan.numbers.stash_buckets = stash_buckets;
        Ok(plan)
    }
    fn takes_salt(&self) -> bool {
        true
    }
    fn salt(&self) -> Option<Salt> {
        Some(self.numbers.salt).filter(|&salt| salt != Salt::NONE)
    }
    fn with_salt(self, salt: Option<Salt>) -> Self {
        let salt = salt.filter(|_| self.numbers.attempt >= FIRST_SALTED).unwrap_or(Salt::NONE);
        SignpostPlan { numbers: Numbers { salt, ..self.numbers }, ..self }
    }
    fn with_stash(self, keys: u64) -> Self {
        let stash_buckets = match keys {
            0 => 0,
            _ => (2 * keys).div_ceil(L::SLOTS as u64).max(MIN_STASH.into()) as u32,
        };
        SignpostPlan { numbers: Numbers { stash_buckets, ..self.numbers }, ..self }
    }
    fn slots(&self) -> u64 {
        u64::from(self.numbers.buckets) * L::SLOTS as u64
    }
    fn words(&self) -> u64 {
        let lines = u64::from(self.numbers.buckets) + u64::from(self.numbers.stash_buckets);
        lines * LINE_WORDS as u64 + words_behind::<L>(self.numbers.buckets)
    }
    fn cells(&self) -> u64 {
        (u64::from(self.numbers.buckets) + u64::from(self.numbers.stash_buckets)) * L::SLOTS as u64
    }
    fn bucket_slots(&self) -> u32 {
        L::SLOTS as u32
    }
    fn bucket_bytes(&self) -> u64 {
        8 * LINE_WORDS as u64
    }
    fn empty_word(&self) -> u64 {
        slot::EMPTY
    }
    fn seed(&self) -> u64 {
        self.numbers.seed
    }
    fn attempt(&self) -> u32 {
        self.numbers.attempt
    }
}
