//! The slot lists of a canonical table. `cpu/acceptance.rs` describes the build, and `scheme/cuckoo/canonical.rs` the
//! rule, with a proof that it does not depend on order.

use wide::u32x8;

use crate::cpu::acceptance::Accepts;
use crate::cpu::block::Lists;
use crate::cpu::place::Shared;
use crate::scheme::cuckoo::{Functions, MAX_FUNCTIONS, canonical};
use crate::scheme::slot;

/// The lists of a canonical table.
pub(super) struct Canonical<'a> {
    functions: &'a Functions,
    /// For each function the ages that belong to it, one bit per age.
    ages: [u32; MAX_FUNCTIONS],
}

impl<'a> Canonical<'a> {
    pub(super) fn new(functions: &'a Functions) -> Self {
        let mut ages = [0; MAX_FUNCTIONS];
        for age in 1..=slot::MAX_AGE {
            ages[functions.turn(age)] |= 1 << age;
        }
        Canonical { functions, ages }
    }
}

impl Lists for Canonical<'_> {
    const STRIDE: usize = 1;

    #[inline(always)]
    fn aim(&self, age: u32, keys: u32x8) -> (u32x8, u32x8) {
        let (slots, remainders) = self.functions.probe(self.functions.turn(age), keys);
        (slots, remainders | u32x8::splat(slot::upper(age, 0)))
    }

    #[inline(always)]
    fn judge(&self, age: u32) -> impl Fn(u32, u64) -> (bool, bool) {
        let ages = self.ages[self.functions.turn(age)];
        move |upper, word| {
            let there = (word >> 32) as u32;
            let same_remainder = (upper ^ there) << slot::AGE_BITS == 0;
            (same_remainder & ((ages >> slot::age(word)) & 1 == 1), there < upper)
        }
    }

    fn last_age(&self) -> u32 {
        self.functions.count
    }
}

/// Implemented for images of words and of halves of words: an offer of a set has the value 0.
impl<P: Shared> Accepts<P> for Canonical<'_> {
    const MAX_AGE: u32 = slot::MAX_AGE;

    #[inline(always)]
    fn offer(&self, _: u32, upper: u32, value: u32) -> u64 {
        u64::from(upper) << 32 | u64::from(value)
    }

    #[inline(always)]
    fn displaced(&self, at: u32, word: u64) -> Option<(u32, u32, u32)> {
        canonical::pair(self.functions, at, word).map(|(key, value)| (slot::age(word), key, value))
    }
}
