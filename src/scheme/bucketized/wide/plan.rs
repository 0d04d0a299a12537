//! The integers that define the meaning of an image of lines. Files and digests contain their bytes.

use std::marker::PhantomData;

use bytemuck::NoUninit;

use super::functions::LineFunctions;
use super::line::{LINE_WORDS, Layout};
use crate::scheme::bucketized::MOST_BUCKETS;
use crate::scheme::stored::MOST_STORED;
use crate::scheme::{Bucketized, FIRST_SALTED, Plan, Salt, Scheme, slot};

/// The integers that determine an image of lines: canonical bucketized tables of 64-bit keys or values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinePlan<L: Layout> {
    numbers: Numbers,
    layout: PhantomData<L>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, NoUninit)]
#[repr(C)]
struct Numbers {
    buckets: u32,
    attempt: u32,
    seed: u64,
    salt: Salt,
}

/// The number of bytes of a plan without its salt.
const STORED: usize = std::mem::offset_of!(Numbers, salt);
const _: () = assert!(STORED <= MOST_STORED && STORED + Salt::BYTES == size_of::<Numbers>());

impl<L: Layout> LinePlan<L> {
    /// The number of such tables in files and digests: that of the scheme, and the types of keys and values.
    pub const ID: u32 = Bucketized::ID | L::CODE << 16;

    pub(super) fn new(buckets: u32, seed: u64, attempt: u32) -> Self {
        LinePlan { numbers: Numbers { buckets, attempt, seed, salt: Salt::NONE }, layout: PhantomData }
    }

    /// The number of buckets.
    pub fn buckets(&self) -> u32 {
        self.numbers.buckets
    }

    /// The functions with their constants.
    pub fn functions(&self) -> LineFunctions<L::Key> {
        LineFunctions::new(self)
    }
}

impl<L: Layout> Plan for LinePlan<L> {
    type Key = L::Key;
    type Value = L::Value;

    fn stored(&self) -> &[u8] {
        &bytemuck::bytes_of(&self.numbers)[..STORED]
    }
    fn of_stored(scheme: u32, stored: &[u8]) -> Result<Self, String> {
        if scheme != Self::ID {
            return Err(format!("its plan is of scheme number {scheme}, not of {}", Self::ID));
        }
        let &[buckets, attempt, low, high] = bytemuck::pod_collect_to_vec::<u8, u32>(stored).as_slice() else {
            return Err("its plan has the wrong length".into());
        };
        if stored.len() != STORED {
            return Err("its plan has the wrong length".into());
        }
        if !(u64::from(slot::MIN_BUCKETS)..=MOST_BUCKETS).contains(&buckets.into()) {
            return Err(format!("no table of its scheme has {buckets} buckets"));
        }
        Ok(LinePlan::new(buckets, u64::from(high) << 32 | u64::from(low), attempt))
    }
    fn takes_salt(&self) -> bool {
        true
    }
    fn salt(&self) -> Option<Salt> {
        Some(self.numbers.salt).filter(|&salt| salt != Salt::NONE)
    }
    fn with_salt(self, salt: Option<Salt>) -> Self {
        let salt = salt.filter(|_| self.numbers.attempt >= FIRST_SALTED).unwrap_or(Salt::NONE);
        LinePlan { numbers: Numbers { salt, ..self.numbers }, ..self }
    }
    fn slots(&self) -> u64 {
        u64::from(self.numbers.buckets) * L::SLOTS as u64
    }
    fn words(&self) -> u64 {
        u64::from(self.numbers.buckets) * LINE_WORDS as u64
    }
    fn cells(&self) -> u64 {
        self.slots()
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
