//! The integers that define the meaning of a sorted image of 64-bit keys or values. Files and digests contain their
//! bytes.

use std::marker::PhantomData;

use bytemuck::NoUninit;

use super::columns::{key_words, value_words};
use crate::error::Result;
use crate::scheme::bucketized::wide::Layout;
use crate::scheme::sorted::plan::pairs_beyond;
use crate::scheme::stored::MOST_STORED;
use crate::scheme::{Plan, Scheme, Sorted};

/// The integers that determine a sorted image of 64-bit keys or values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ColumnsPlan<L: Layout> {
    numbers: Numbers,
    layout: PhantomData<L>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, NoUninit)]
#[repr(C)]
struct Numbers {
    slots: u32,
    pairs: u32,
    seed: u64,
}
const _: () = assert!(size_of::<Numbers>() <= MOST_STORED);

impl<L: Layout> ColumnsPlan<L> {
    /// The number of such tables in files and digests: that of the scheme, and the types of keys and values.
    pub const ID: u32 = Sorted::ID | L::CODE << 16;

    pub(super) fn new(slots: u32, pairs: u32, seed: u64) -> Self {
        ColumnsPlan { numbers: Numbers { slots, pairs, seed }, layout: PhantomData }
    }

    /// The number of pairs, which are in the first slots.
    pub fn pairs(&self) -> u32 {
        self.numbers.pairs
    }

    /// The number of slots, which always fits 32 bits.
    pub fn slot_count(&self) -> u32 {
        self.numbers.slots
    }

    /// The number of `pairs` beyond the slots. If all fit, their number must be the one that this plan was created for.
    pub(crate) fn pairs_beyond(&self, pairs: usize) -> Result<u64> {
        pairs_beyond(self.slot_count(), self.pairs(), pairs)
    }
}

impl<L: Layout> Plan for ColumnsPlan<L> {
    type Key = L::Key;
    type Value = L::Value;

    fn stored(&self) -> &[u8] {
        bytemuck::bytes_of(&self.numbers)
    }
    fn of_stored(scheme: u32, stored: &[u8]) -> std::result::Result<Self, String> {
        if scheme != Self::ID {
            return Err(format!("its plan is of scheme number {scheme}, not of {}", Self::ID));
        }
        let Some((&[slots, pairs, low, high], [])) = stored.as_chunks::<4>().0.split_first_chunk::<4>() else {
            return Err("its plan has the wrong length".into());
        };
        if stored.len() != size_of::<Numbers>() {
            return Err("its plan has the wrong length".into());
        }
        let [slots, pairs, low, high] = [slots, pairs, low, high].map(u32::from_le_bytes);
        if slots == 0 || pairs > slots {
            return Err(format!("no sorted table has {pairs} pairs in {slots} slots"));
        }
        Ok(ColumnsPlan::new(slots, pairs, u64::from(high) << 32 | u64::from(low)))
    }
    fn slots(&self) -> u64 {
        self.numbers.slots.into()
    }
    fn words(&self) -> u64 {
        key_words::<L>(self.slot_count()) + value_words::<L>(self.slot_count())
    }
    fn cells(&self) -> u64 {
        self.slots()
    }
    /// The word after the pairs. It is not a marker: a pair may have the same word.
    fn empty_word(&self) -> u64 {
        0
    }
    fn seed(&self) -> u64 {
        self.numbers.seed
    }
    /// There are no constants to draw, so there is one attempt.
    fn attempt(&self) -> u32 {
        0
    }
}
