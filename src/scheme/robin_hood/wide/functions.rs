//! The hash functions of tables of 64-bit keys or values: the walk of `robin_hood/functions.rs`, from homes computed by
//! a 64-bit division.
//!
//! Constants are drawn from the stream of seed and attempt: first the mixer of keys, which has their width, and then
//! the constants that 32-bit tables draw after theirs. So `u32` keys have the same places as in tables with 32-bit
//! values.

use super::plan::RobinHoodLinePlan;
use crate::backend::Word;
use crate::scheme::bucketized::wide::Layout;
use crate::scheme::bucketized::wide::slot::{Fields, SlotKey};
use crate::scheme::constants::Constants;
use crate::scheme::divisor::LongDivisor;
use crate::scheme::hash::MixKeys;
use crate::scheme::robin_hood::{Functions, Sequence};
use crate::scheme::slot_lists::SlotLists;

/// The lists of one plan.
#[derive(Clone, Debug)]
pub struct WalkFunctions<K: SlotKey> {
    /// The walk from a home on. Its mixer of keys is not used.
    pub walk: Functions,
    /// The mixer of keys (random).
    pub mixer: K::Mixer,
    /// Division by m.
    pub by_slots: LongDivisor,
}

/// The home of a key, which determines its places, and the quotient that words store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Goal<K> {
    /// The place of age 1.
    pub home: u32,
    /// x / m.
    pub quotient: K,
}

impl<K: SlotKey> WalkFunctions<K> {
    pub(super) fn new<L: Layout<Key = K>>(plan: &RobinHoodLinePlan<L>) -> Self {
        let mut stream = Constants::of(plan, &[]);
        let mixer = K::next_mixer(&mut stream);
        let walk = Functions::drawn(plan.sequence(), plan.slot_count(), MixKeys::default(), &mut stream);
        let by_slots = LongDivisor::new(walk.slots);
        WalkFunctions { walk, mixer, by_slots }
    }

    /// The key with this home and quotient. Arbitrary for invalid arguments, but never panics.
    #[inline(always)]
    pub fn key_of(&self, home: u32, quotient: u64) -> K {
        let x = quotient.wrapping_mul(self.walk.slots.into()).wrapping_add(self.walk.rest_of(home).into());
        let x = K::low(x);
        if self.walk.sequence == Sequence::Random { x.unmixed(self.mixer) } else { x }
    }
}

impl<K: SlotKey> SlotLists for WalkFunctions<K> {
    type Key = K;
    type Goal = Goal<K>;
    const FIELDS: Fields = super::FIELDS;

    fn slots(&self) -> u32 {
        self.walk.slots
    }
    #[inline(always)]
    fn turns(&self) -> u32 {
        Self::FIELDS.max_age()
    }
    /// Each place has one age.
    #[inline(always)]
    fn ages(&self, turn: u32) -> u64 {
        2 << turn
    }
    #[inline(always)]
    fn goal(&self, key: K) -> Goal<K> {
        let x = if self.walk.sequence == Sequence::Random { key.mixed(self.mixer) } else { key };
        let (quotient, rest) = self.by_slots.divide(x.into());
        Goal { home: self.walk.home_of(rest), quotient: Word::low(quotient) }
    }
    #[inline(always)]
    fn key(&self, goal: Goal<K>) -> K {
        self.key_of(goal.home, goal.quotient.into())
    }
    #[inline(always)]
    fn probe(&self, goal: Goal<K>, age: u32) -> (u32, K) {
        (self.walk.place(goal.home, age), goal.quotient)
    }
    #[inline(always)]
    fn goal_in(&self, slot: u32, word: u64) -> Goal<K> {
        let home = self.walk.home(slot, Self::FIELDS.age::<K>(word));
        Goal { home, quotient: Self::FIELDS.remainder(word) }
    }
}
