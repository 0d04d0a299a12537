//! The H hash functions of a table, and their constants.

use super::{CuckooPlan, HashFamily, MAX_FUNCTIONS};
use crate::scheme::constants::Constants;
use crate::scheme::hash::{self, ALCANTARA_PRIME, Lane, MixKeys, linear_family, xor_family};
use crate::scheme::{Cuckoo, Scheme, slot};

/// The H functions of one plan, with all constants precomputed.
#[derive(Clone, Debug)]
pub struct Functions {
    /// Constants of each function: the keys of a mixer, or the papers' `a` as `before` and `b` as `between`.
    pub keys: [MixKeys; MAX_FUNCTIONS],
    /// H.
    pub count: u32,
    /// The number of slots of the table.
    pub slots: u32,
    family: HashFamily,
    /// The function of each age, so that no division is needed.
    turn: [u8; 1 << slot::AGE_BITS],
}

impl Functions {
    pub(super) fn new(plan: &CuckooPlan) -> Self {
        let count = plan.functions.clamp(1, MAX_FUNCTIONS as u32);
        let family = plan.family();
        // Sets and quadratic tables share these functions: a set becomes a cuckoo table with the same constants.
        let numbers = [Cuckoo::ID, plan.kind, plan.family, plan.functions, plan.slots];
        let mut stream = Constants::of(plan, &numbers);
        let keys = std::array::from_fn(|_| match family {
            HashFamily::Mixer => stream.next_mix_keys(),
            HashFamily::Linear | HashFamily::Xor => family_constants(&mut stream),
        });
        let turn = std::array::from_fn(|age| (age as u32).saturating_sub(1).rem_euclid(count) as u8);
        Functions { keys, count, slots: plan.slots, family, turn }
    }

    /// The function (from 0) that a proposal of this age uses.
    #[inline(always)]
    pub fn turn(&self, age: u32) -> usize {
        usize::from(self.turn[age as usize % self.turn.len()])
    }

    /// Slot and remainder of a key under function `i` (canonical tables).
    #[inline(always)]
    pub fn probe<L: Lane>(&self, i: usize, key: L) -> (L, L) {
        slot::split(hash::mix(key, self.keys[i]), self.slots)
    }

    /// The key that is stored in `slot` by function `i` with this remainder (canonical tables).
    #[inline(always)]
    pub fn key_at(&self, i: usize, slot: u32, remainder: u32) -> u32 {
        hash::unmix(slot::join(slot, remainder, self.slots), self.keys[i])
    }

    /// The slot of a key under function `i` (classic tables).
    #[inline(always)]
    pub fn location(&self, i: usize, key: u32) -> u32 {
        let MixKeys { before: a, between: b, .. } = self.keys[i];
        match self.family {
            HashFamily::Mixer => hash::reduce(hash::mix(key, self.keys[i]), self.slots),
            HashFamily::Linear => linear_family(key, a, b, ALCANTARA_PRIME, self.slots),
            HashFamily::Xor => xor_family(key, a, b, ALCANTARA_PRIME, self.slots),
        }
    }

    /// Every slot of a key under function 0, 1, .., H - 1 (classic tables).
    #[inline(always)]
    pub fn locations(&self, key: u32) -> impl Iterator<Item = u32> + '_ {
        (0..self.count as usize).map(move |i| self.location(i, key))
    }
}

/// Draws `a` from `1..p` and `b` from `0..p`. A multiplier of 0 would map every key to one slot, so it is drawn again.
fn family_constants(stream: &mut Constants) -> MixKeys {
    loop {
        let (a, b) = (stream.next_u32() % ALCANTARA_PRIME, stream.next_u32() % ALCANTARA_PRIME);
        if a != 0 {
            return MixKeys::new(a, 1, b);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheme::hash::SplitMix64;

    #[test]
    fn zero_multipliers_are_redrawn() {
        // SplitMix64 maps the state 0 to the output 0, and adds its increment before every output.
        let increment = 0x9e37_79b9_7f4a_7c15_u64;
        let mut zero_first = SplitMix64::new(increment.wrapping_neg());
        assert_eq!(zero_first.clone().next_u32() % ALCANTARA_PRIME, 0, "the first draw is refused");
        zero_first.next_u64();
        zero_first.next_u64();
        let after_it = family_constants(&mut Constants::Seeded(zero_first));
        let all = SplitMix64::new(increment.wrapping_neg());
        assert_eq!(family_constants(&mut Constants::Seeded(all)), after_it);
    }
}
