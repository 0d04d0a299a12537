//! The functions that a [`Scheme`](crate::scheme::Scheme) needs about an image, for both kinds and both types of slots.

use std::ops::Range;

use super::{Cell, CuckooPlan, canonical, classic};
use crate::scheme::{Audit, Kind, Placing, Plan, Violation, slot};

/// The number of reads and the value of a lookup.
pub(crate) fn search<C: Cell>(plan: &CuckooPlan, slots: &[C], key: u32) -> (u32, Option<u32>) {
    match plan.kind() {
        Kind::Canonical => canonical::search(&plan.functions(), slots, key),
        Kind::Classic => classic::search(plan, slots, key),
    }
}

/// The pair in a slot.
pub(crate) fn pair<C: Cell>(plan: &CuckooPlan, slots: &[C], at: u64) -> Option<(u32, u32)> {
    let word = slots.get(at as usize)?.word();
    match plan.kind() {
        Kind::Canonical => canonical::pair(&plan.functions(), at as u32, word),
        Kind::Classic => classic::pair(word),
    }
}

/// The age of the pair in a slot.
pub(crate) fn age<C: Cell>(plan: &CuckooPlan, slots: &[C], at: u64) -> u32 {
    let Some(word) = slots.get(at as usize).map(|cell| cell.word()) else { return 0 };
    match plan.kind() {
        Kind::Canonical if !slot::is_pair(word) => 0,
        Kind::Canonical => slot::age(word),
        Kind::Classic => classic::age(&plan.functions(), at as u32, word),
    }
}

/// Adds pairs one by one.
pub(crate) fn place<C: Cell>(plan: &CuckooPlan, slots: &mut [C], pairs: &[(u32, u32)]) -> Placing {
    let functions = plan.functions();
    Placing::of_each(pairs, |key, value| match plan.kind() {
        Kind::Canonical => canonical::place(&functions, slots, key, value),
        Kind::Classic => classic::place(plan, slots, key, value),
    })
}

/// Removes the pairs of these keys, and counts them.
pub(crate) fn remove<C: Cell>(plan: &CuckooPlan, slots: &mut [C], keys: &[u32]) -> u64 {
    let functions = plan.functions();
    let mut remove = |&key: &u32| match plan.kind() {
        Kind::Canonical => canonical::remove(&functions, slots, key),
        Kind::Classic => classic::remove(&functions, slots, key),
    };
    keys.iter().filter(|&key| remove(key)).count() as u64
}

/// Checks every invariant of the pairs in some slots.
pub(crate) fn audit<C: Cell>(plan: &CuckooPlan, slots: &[C], range: Range<u64>) -> Result<Audit, Violation> {
    match plan.kind() {
        Kind::Canonical => canonical::audit(&plan.functions(), slots, range),
        Kind::Classic => classic::audit(&plan.functions(), slots, range),
    }
}
