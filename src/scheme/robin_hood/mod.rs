//! The Robin Hood table (Garcia et al. 2011, Coherent Parallel Hashing): each key has an endless list of slots, and a
//! slot keeps the pair that is further along its list.
//!
//! ```text
//! canonical  cell = [age 6][quotient 26][value 32]: every key and value, loads to 0.99; removal by tombstones
//! classic    cell = [age 4][key 32][value 28], or [age 4][key 28]: the paper's; after the build the maximum age of each
//!            place replaces the ages
//! ```
//!
//! `params.rs` has the parameters, `plan.rs` the stored integers, `prime.rs` the number of slots, `functions.rs` the
//! hash functions, `cell.rs` the cell layouts, `rule.rs` the rule, `max_ages.rs` the limits of lookups and `audit.rs`
//! the invariants. This file implements the scheme. `wide/` has the canonical tables of 64-bit keys or values.

mod audit;
#[doc(hidden)]
pub mod cell;
mod functions;
#[doc(hidden)]
pub mod max_ages;
mod params;
mod plan;
#[doc(hidden)]
pub mod prime;
mod rule;
#[cfg(test)]
mod rule_tests;
pub(crate) mod wide;

pub use functions::Functions;
pub use params::{RobinHood, Sequence};
pub use plan::RobinHoodPlan;
pub use rule::Rule;
pub use wide::{RobinHoodLinePlan, RobinHoodOf};

use std::ops::Range;

use self::max_ages::MaxAges;
use super::{Audit, Crowd, Key, Kind, Limits, Load, Placing, Plan, Request, Scheme, Updates, Violation};
use crate::error::{Error, Result};
use crate::memory;

/// The maximum number of slots of a request. The primes of all attempts are below 2^31, so the sum of two places fits
/// 32 bits.
pub(crate) const MOST_SLOTS: u64 = (1 << 31) - (1 << 15);
/// The number of attempts for which there is a prime.
const ATTEMPTS: u32 = 1024;

/// The number of slots of attempt 0, and that of the requested attempt. Both are primes.
fn sizes(request: &Request) -> Result<(u32, u32)> {
    let Request { slots: requested, attempt, .. } = *request;
    let too_large = || Error::TooLarge { what: "slots of a Robin Hood table", requested, most: MOST_SLOTS };
    if requested > MOST_SLOTS {
        return Err(too_large());
    }
    if attempt >= ATTEMPTS {
        return Err(Error::parameter("attempt", attempt, "use 0 to 1023"));
    }
    let base = prime::prime_from((requested as u32).max(cell::LEAST_SLOTS), 0).ok_or_else(too_large)?;
    Ok((base, prime::prime_from(base, attempt).ok_or_else(too_large)?))
}

/// The largest class of keys that share a home, given the homes of all keys, if its list has fewer slots. `key` returns
/// the smallest key of a home.
fn crowd_of<K: Key>(
    functions: &Functions,
    last_age: u32,
    homes: impl ExactSizeIterator<Item = u32>,
    key: impl Fn(u32) -> K,
) -> Option<Crowd> {
    let most = functions.seats(last_age);
    // Without memory to search for a crowd, none is reported.
    let mut sorted = memory::reserved(homes.len()).ok()?;
    sorted.extend(homes);
    sorted.sort_unstable();
    let largest = sorted.chunk_by(|a, b| a == b).max_by_key(|class| class.len())?;
    if largest.len() as u64 <= most {
        return None;
    }
    let m = functions.slots;
    let which = match functions.sequence {
        // The class is the home.
        Sequence::Coherent => format!("congruent to {} modulo {m}", largest[0]),
        Sequence::Random => format!("alike in that their hashes are congruent to {} modulo {m}", largest[0]),
        Sequence::PaperRandom => format!("congruent to {} modulo {m}", key(largest[0])),
    };
    Some(Crowd { which, keys: largest.len() as u64, most })
}

impl Scheme for RobinHood {
    const NAME: &'static str = "robin_hood";
    const ID: u32 = 4;
    const KINDS: &'static [Kind] = &Kind::ALL;
    type Key = u32;
    type Value = u32;
    type Plan = RobinHoodPlan;

    /// Classic tables are rebuilt too, because the second pass of a build overwrites the ages.
    fn updates(&self) -> Updates {
        match self.kind() {
            Kind::Canonical => Updates::Tombstones,
            Kind::Classic => Updates::Rebuild,
        }
    }

    /// Both kinds use the same rule, by which duplicates meet.
    fn keeps_one(&self) -> bool {
        true
    }

    fn of_kind(kind: Kind) -> Self {
        match kind {
            Kind::Canonical => RobinHood::canonical(),
            Kind::Classic => RobinHood::classic(),
        }
    }

    fn kind(&self) -> Kind {
        self.kind
    }

    fn check(&self) -> Result<()> {
        if !params::MAX_AGES_BITS.contains(&self.max_ages) {
            return Err(Error::parameter("max_ages", self.max_ages, "use 2, 3 or 4, or 0 for none"));
        }
        if self.keys_alone && self.kind == Kind::Canonical {
            let advice = "canonical tables have values of 32 bits; classic ones can be of keys alone";
            return Err(Error::parameter("keys alone", "in a canonical table", advice));
        }
        Ok(())
    }

    /// Steps by a constant cause clusters, whose ages exceed the maximum long before a table is full.
    fn default_load(&self) -> Load {
        Load::from_millionths(match (self.kind, self.sequence) {
            (Kind::Canonical, Sequence::PaperRandom) => 800_000,
            (Kind::Canonical, _) => 900_000,
            (Kind::Classic, Sequence::PaperRandom) => 500_000,
            (Kind::Classic, _) => 800_000,
        })
    }

    fn plan(&self, request: Request) -> Result<RobinHoodPlan> {
        self.check()?;
        let Request { attempt, seed, .. } = request;
        let (base, slots) = sizes(&request)?;
        Ok(RobinHoodPlan {
            kind: self.kind.code(),
            sequence: self.sequence as u32,
            keys_alone: u32::from(self.keys_alone),
            max_ages: self.max_ages,
            base,
            slots,
            attempt,
            reserved: 0,
            seed,
        })
    }

    fn from_plan(plan: &RobinHoodPlan) -> Self {
        let (kind, sequence, keys_alone) = (plan.kind(), plan.sequence(), plan.keys_alone());
        RobinHood { kind, sequence, max_ages: plan.max_ages, keys_alone }
    }

    fn find(plan: &RobinHoodPlan, image: &[u64], key: u32) -> Option<u32> {
        let rule = plan.rule();
        rule.search(image, key).1.map(|at| rule.layout.value(rule.layout.get(image, at)))
    }

    /// Counts cells. Reads of the maximum ages of a canonical table are not counted: they are at most a 16th of its
    /// size.
    fn reads(plan: &RobinHoodPlan, image: &[u64], key: u32) -> u32 {
        plan.rule().search(image, key).0
    }

    fn pair(plan: &RobinHoodPlan, image: &[u64], at: u64) -> Option<(u32, u32)> {
        if at >= plan.cells() {
            return None;
        }
        let rule = plan.rule();
        rule.pair(at as u32, rule.layout.get(image, at as u32))
    }

    fn age(plan: &RobinHoodPlan, image: &[u64], at: u64) -> u32 {
        if at >= plan.cells() {
            return 0;
        }
        let rule = plan.rule();
        rule.age(at as u32, rule.layout.get(image, at as u32))
    }

    fn place(plan: &RobinHoodPlan, image: &mut [u64], pairs: &[(u32, u32)]) -> Placing {
        let rule = plan.rule();
        let placing = Placing::of_each(pairs, |key, value| rule.place(image, key, value));
        if placing != Placing::Unplaced {
            rule.write_max_ages(image);
        }
        placing
    }

    fn remove(plan: &RobinHoodPlan, image: &mut [u64], keys: &[u32]) -> u64 {
        if plan.kind() == Kind::Classic {
            return 0;
        }
        let rule = plan.rule();
        keys.iter().filter(|&&key| rule.remove(image, key)).count() as u64
    }

    fn audit(plan: &RobinHoodPlan, image: &[u64], cells: Range<u64>) -> std::result::Result<Audit, Violation> {
        plan.rule().audit(image, cells)
    }

    /// A 32-bit age for each home, from which the maximum ages are computed.
    fn scratch_bytes(plan: &RobinHoodPlan, _: u64) -> u64 {
        if plan.max_ages() == MaxAges::None { 0 } else { 4 * plan.slots() }
    }

    fn limits(&self) -> Limits {
        match (self.kind, self.keys_alone) {
            (Kind::Canonical, _) => Limits::NONE,
            (Kind::Classic, false) => Limits { value_bits: cell::PAIRS.value_bits, ..Limits::NONE },
            (Kind::Classic, true) => {
                Limits { key_bits: cell::KEYS.name_bits, value_bits: cell::KEYS.value_bits, ..Limits::NONE }
            }
        }
    }

    fn names_crowds(&self) -> bool {
        true
    }

    fn crowd(plan: &RobinHoodPlan, keys: &[u32]) -> Option<Crowd> {
        let functions = plan.rule().functions;
        let homes = keys.iter().map(|&key| functions.split(key).0);
        crowd_of(&functions, plan.layout().max_age, homes, |home| functions.key(home, 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan_of(scheme: &RobinHood, slots: u64, attempt: u32) -> RobinHoodPlan {
        scheme.plan(Request { slots, pairs: slots / 2, seed: 1, attempt }).expect("a plan")
    }

    #[test]
    fn parameters_out_of_range_are_refused() {
        for bits in [1, 5, u32::MAX] {
            assert!(RobinHood::canonical().max_ages(bits).check().is_err());
            assert!(RobinHood::classic().max_ages(bits).check().is_err());
        }
        assert!(RobinHood::canonical().keys_alone().check().is_err());
        let request = |slots, attempt| Request { slots, pairs: 1, seed: 0, attempt };
        for slots in [MOST_SLOTS + 1, u64::MAX] {
            assert!(matches!(RobinHood::canonical().plan(request(slots, 0)), Err(Error::TooLarge { .. })));
        }
        assert!(RobinHood::canonical().plan(request(100, ATTEMPTS)).is_err());
        let last = RobinHood::canonical().plan(request(MOST_SLOTS, ATTEMPTS - 1)).expect("a prime for each attempt");
        assert!(last.slots < 1 << 31);
    }

    /// Every attempt has a different prime, and requests between two primes have the same plan.
    #[test]
    fn the_slots_are_the_primes_from_those_requested() {
        for (requested, expected) in
            [(0, [67, 71, 73]), (67, [67, 71, 73]), (1000, [1009, 1013, 1019]), (1009, [1009, 1013, 1019])]
        {
            for (attempt, slots) in (0..).zip(expected) {
                let plan = plan_of(&RobinHood::canonical(), requested, attempt);
                assert_eq!((plan.slots(), plan.requested_slots()), (slots, u64::from(expected[0] as u32)));
                assert_eq!(plan_of(&RobinHood::canonical(), plan.requested_slots(), attempt), plan);
            }
        }
        assert_eq!(plan_of(&RobinHood::canonical(), 100, 3), plan_of(&RobinHood::canonical(), 101, 3));
    }

    #[test]
    fn images_have_the_minimum_length() {
        let words = |scheme: &RobinHood| (plan_of(scheme, 1009, 0).words(), plan_of(scheme, 1009, 0).cells());
        let canonical = RobinHood::canonical();
        assert_eq!(words(&canonical), (1009, 1009));
        assert_eq!([2, 3, 4].map(|bits| words(&canonical.clone().max_ages(bits)).0), [1009 + 32, 1009 + 49, 1009 + 64]);
        assert_eq!(words(&RobinHood::classic()), (1009, 1009));
        assert_eq!(words(&RobinHood::classic().keys_alone()), (505, 1009));
    }

    #[test]
    fn a_stored_plan_gives_its_parameters_back() {
        for sequence in Sequence::ALL {
            for scheme in [RobinHood::canonical().max_ages(3), RobinHood::classic().keys_alone().max_ages(0)] {
                let scheme = scheme.sequence(sequence);
                assert_eq!(RobinHood::from_plan(&plan_of(&scheme, 1000, 5)), scheme);
            }
        }
        let good = plan_of(&RobinHood::canonical(), 1000, 2);
        for bad in [
            RobinHoodPlan { kind: 9, ..good },
            RobinHoodPlan { sequence: 3, ..good },
            RobinHoodPlan { keys_alone: 1, ..good },
            RobinHoodPlan { kind: 1, keys_alone: 2, ..good },
            RobinHoodPlan { max_ages: 1, ..good },
            RobinHoodPlan { max_ages: 64, ..good },
            RobinHoodPlan { base: 1010, ..good },
            RobinHoodPlan { base: 61, slots: 61, attempt: 0, ..good },
            RobinHoodPlan { slots: good.slots + 2, ..good },
            RobinHoodPlan { slots: 0, ..good },
            RobinHoodPlan { base: u32::MAX, ..good },
            RobinHoodPlan { attempt: 3, ..good },
            RobinHoodPlan { attempt: u32::MAX, ..good },
            RobinHoodPlan { reserved: 1, ..good },
        ] {
            assert!(bad.checked().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn limits_match_the_cells() {
        assert_eq!(RobinHood::canonical().limits(), Limits::NONE);
        let limits = |scheme: RobinHood| (scheme.limits().key_bits, scheme.limits().value_bits);
        assert_eq!(limits(RobinHood::classic()), (32, 28));
        assert_eq!(limits(RobinHood::classic().keys_alone()), (28, 0));
    }
}
