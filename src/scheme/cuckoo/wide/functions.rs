//! The hash functions of tables of 64-bit keys or values: those of `cuckoo/functions.rs`, with mixers of the keys'
//! width.

use super::plan::CuckooLinePlan;
use crate::scheme::Cuckoo;
use crate::scheme::Scheme;
use crate::scheme::bucketized::wide::Layout;
use crate::scheme::bucketized::wide::slot::{self, Fields, SlotKey};
use crate::scheme::constants::Constants;
use crate::scheme::cuckoo::MAX_FUNCTIONS;
use crate::scheme::slot::{AGE_BITS, MAX_AGE};
use crate::scheme::slot_lists::SlotLists;

/// The H functions of one attempt.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlotFunctions<K: SlotKey> {
    /// A mixer for each function; the others are not used.
    pub mixers: [K::Mixer; MAX_FUNCTIONS],
    /// H.
    pub count: u32,
    /// The number of slots of the table.
    pub slots: u32,
    /// The function of each age, so that no division is needed.
    turn: [u8; 1 << AGE_BITS],
}

impl<K: SlotKey> SlotFunctions<K> {
    /// The functions of a plan, with the constants of its attempt.
    pub(super) fn new<L: Layout<Key = K>>(plan: &CuckooLinePlan<L>) -> Self {
        let (count, slots) = (plan.function_count(), plan.slot_count());
        // The type of values is not an input: a set has the same functions as tables of its keys.
        let keys = Cuckoo::ID | (L::CODE & 0xf) << 16;
        let mut stream = Constants::of(plan, &[keys, count, slots]);
        let mixers = std::array::from_fn(|_| K::next_mixer(&mut stream));
        let turn = std::array::from_fn(|age| (age as u32).saturating_sub(1).rem_euclid(count) as u8);
        SlotFunctions { mixers, count, slots, turn }
    }

    /// The function (from 0) that a proposal of this age uses.
    #[inline(always)]
    pub fn turn(&self, age: u32) -> usize {
        usize::from(self.turn[age as usize % self.turn.len()])
    }

    /// Slot and remainder of a key under function `i`.
    #[inline(always)]
    pub fn probe(&self, i: usize, key: K) -> (u32, K) {
        key.mixed(self.mixers[i]).split(self.slots)
    }

    /// The key of the pair with this word in `slot`.
    #[inline(always)]
    pub fn key_of(&self, slot: u32, word: u64) -> K {
        let turn = self.turn(slot::age::<K>(word));
        K::join(slot, slot::remainder::<K>(word), self.slots).unmixed(self.mixers[turn])
    }
}

/// The goal of a key is the key itself, because each function mixes it separately.
impl<K: SlotKey> SlotLists for SlotFunctions<K> {
    type Key = K;
    type Goal = K;
    const FIELDS: Fields = slot::FIELDS;

    fn slots(&self) -> u32 {
        self.slots
    }
    #[inline(always)]
    fn turns(&self) -> u32 {
        self.count
    }
    fn ages(&self, turn: u32) -> u64 {
        (1..=MAX_AGE).filter(|&age| self.turn(age) == turn as usize).fold(0, |ages, age| ages | 1 << age)
    }
    #[inline(always)]
    fn goal(&self, key: K) -> K {
        key
    }
    #[inline(always)]
    fn key(&self, goal: K) -> K {
        goal
    }
    #[inline(always)]
    fn probe(&self, goal: K, age: u32) -> (u32, K) {
        SlotFunctions::probe(self, self.turn(age), goal)
    }
    #[inline(always)]
    fn goal_in(&self, slot: u32, word: u64) -> K {
        self.key_of(slot, word)
    }
}
