//! A collision-free table with one place for each key: n pairs in n^2 slots, the second level of FKS perfect hashing
//! (Fredman, Komlos and Szemeredi 1984; the background of Alcantara's 2009 poster), here for a whole set. It is a
//! baseline: one read per lookup, and far too many slots.
//!
//! ```text
//! c      = maximum number of pairs         the unit of capacity and load
//! image  = c^2 slots, [age = 1][remainder][value]      (`slot.rs`)
//! place:   slot, rem = function of the key;  empty: store the pair there;  another key: the attempt has failed
//! find:    one slot
//! ```
//!
//! Each of the n(n - 1)/2 pairs of keys collides with probability 1/c^2, so an attempt at load 1 succeeds with
//! probability e^(-1/2) = 0.61, whatever n, and 32 attempts fail once in 10^13 builds.
//!
//! Devices need no code for this scheme: it is a canonical cuckoo table with a single function (`CuckooImage`). A key
//! whose slot is occupied has no further place, so it is unplaced. Duplicates meet in their slot, as in other schemes,
//! and the greater value is kept.
//!
//! The table is not meant for large sets. It needs 128 MiB at [`MOST_PAIRS`]; a two-level table needs fewer than three
//! slots for two pairs.

use std::ops::Range;

use bytemuck::NoUninit;

use super::cuckoo::CuckooImage;
use super::head::head;
use super::stored::{equal_to_planned, stored};
use super::{
    Audit, Cuckoo, CuckooPlan, Kind, Limits, Load, Placing, Plan, Request, Salt, Scheme, Updates, Violation, slot,
};
use crate::error::{Error, Result};

/// The maximum number of pairs of a table. Its slots take 128 MiB.
pub const MOST_PAIRS: u32 = 1 << 12;
/// The minimum, so that the remainders in c^2 slots distinguish all keys.
const FEWEST_PAIRS: u32 = 4;
const _: () = assert!(FEWEST_PAIRS * FEWEST_PAIRS >= slot::MIN_BUCKETS);

/// A table of c^2 slots for c pairs. It has no parameters.
///
/// Capacity and load count pairs, not slots: at the default load of 1 a table of n pairs has n^2 slots of eight bytes
/// each. At most [`MOST_PAIRS`]. Canonical only, because no pair is ever displaced.
///
/// ```
/// use koel::{Cpu, HashTable, Quadratic};
/// let table = HashTable::builder(Quadratic).build(&Cpu::new(), &[1, 2, 3, 4, 5], &[10, 20, 30, 40, 50])?;
/// assert_eq!((table.capacity(), table.image().words().len()), (5, 25));
/// assert_eq!(table.get(&[4, 6])?, [Some(40), None]);
/// # Ok::<(), koel::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quadratic;

/// The integers that determine the image of a [`Quadratic`] table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, NoUninit)]
#[repr(C)]
pub struct QuadraticPlan {
    pairs: u32,
    attempt: u32,
    seed: u64,
    salt: Salt,
}

impl QuadraticPlan {
    /// The plan, if its fields are valid together.
    fn checked(self) -> std::result::Result<Self, String> {
        equal_to_planned(&Quadratic, self, 0)
    }
}

impl Plan for QuadraticPlan {
    type Key = u32;
    type Value = u32;

    head!();
    stored!(Quadratic, salted, [pairs, attempt, seed]);

    fn slots(&self) -> u64 {
        u64::from(self.pairs)
    }
    fn words(&self) -> u64 {
        u64::from(self.pairs) * u64::from(self.pairs)
    }
    fn empty_word(&self) -> u64 {
        slot::EMPTY
    }
}

impl CuckooImage for Quadratic {
    type Cell = u64;

    fn cuckoo_plan(plan: &QuadraticPlan) -> CuckooPlan {
        CuckooPlan::of_one_function(plan.pairs.saturating_mul(plan.pairs), plan.seed, plan.attempt, plan.salt)
    }
}

impl Scheme for Quadratic {
    const NAME: &'static str = "quadratic";
    const ID: u32 = 8;
    const KINDS: &'static [Kind] = &[Kind::Canonical];
    type Key = u32;
    type Value = u32;
    type Plan = QuadraticPlan;

    fn updates(&self) -> Updates {
        Updates::Tombstones
    }

    fn keeps_one(&self) -> bool {
        true
    }

    fn of_kind(_: Kind) -> Self {
        Quadratic
    }

    fn default_load(&self) -> Load {
        Load::from_millionths(1_000_000)
    }

    fn limits(&self) -> Limits {
        Limits { pairs: u64::from(MOST_PAIRS), ..Limits::NONE }
    }

    fn plan(&self, request: Request) -> Result<QuadraticPlan> {
        let Request { slots, seed, attempt, .. } = request;
        match u32::try_from(slots) {
            Ok(pairs @ ..=MOST_PAIRS) => {
                Ok(QuadraticPlan { pairs: pairs.max(FEWEST_PAIRS), attempt, seed, salt: Salt::NONE })
            }
            _ => {
                let what = "requested slots (a quadratic table has the square of their number of words)";
                Err(Error::TooLarge { what, requested: slots, most: u64::from(MOST_PAIRS) })
            }
        }
    }

    fn from_plan(_: &QuadraticPlan) -> Self {
        Quadratic
    }

    fn find(plan: &QuadraticPlan, image: &[u64], key: u32) -> Option<u32> {
        Cuckoo::find(&Self::cuckoo_plan(plan), image, key)
    }

    fn reads(plan: &QuadraticPlan, image: &[u64], key: u32) -> u32 {
        Cuckoo::reads(&Self::cuckoo_plan(plan), image, key)
    }

    fn pair(plan: &QuadraticPlan, image: &[u64], word: u64) -> Option<(u32, u32)> {
        Cuckoo::pair(&Self::cuckoo_plan(plan), image, word)
    }

    fn age(plan: &QuadraticPlan, image: &[u64], word: u64) -> u32 {
        Cuckoo::age(&Self::cuckoo_plan(plan), image, word)
    }

    fn place(plan: &QuadraticPlan, image: &mut [u64], pairs: &[(u32, u32)]) -> Placing {
        Cuckoo::place(&Self::cuckoo_plan(plan), image, pairs)
    }

    fn remove(plan: &QuadraticPlan, image: &mut [u64], keys: &[u32]) -> u64 {
        Cuckoo::remove(&Self::cuckoo_plan(plan), image, keys)
    }

    /// As in a cuckoo table. In addition, no pair may have an age above 1, which only occurs in attempts that fail.
    fn audit(plan: &QuadraticPlan, image: &[u64], words: Range<u64>) -> std::result::Result<Audit, Violation> {
        let is_old = |word: u64| slot::is_pair(word) && slot::age(word) > 1;
        let end = words.clone().find(|&at| is_old(image[at as usize])).unwrap_or(words.end);
        let audit = Cuckoo::audit(&Self::cuckoo_plan(plan), image, words.start..end)?;
        if end < words.end {
            return Err(Violation::Word { slot: end, word: image[end as usize] });
        }
        Ok(audit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(pairs: u64, attempt: u32) -> QuadraticPlan {
        Quadratic.plan(Request { slots: pairs, pairs, seed: 3, attempt }).expect("a plan")
    }

    /// The first attempt that succeeds with these pairs, and its image.
    fn built(pairs: &[(u32, u32)]) -> (QuadraticPlan, Vec<u64>) {
        (0..64)
            .find_map(|attempt| {
                let plan = plan(pairs.len() as u64, attempt);
                let mut image = vec![plan.empty_word(); plan.words() as usize];
                (Quadratic::place(&plan, &mut image, pairs) == Placing::Placed).then_some((plan, image))
            })
            .expect("an attempt")
    }

    #[test]
    fn every_key_is_found_in_the_one_slot_that_is_read() {
        for n in [1, 2, 4, 5, 17, 300] {
            let pairs: Vec<(u32, u32)> = (0..n).map(|i: u32| (i.wrapping_mul(0x9e37_79b9), !i)).collect();
            let (plan, image) = built(&pairs);
            assert_eq!(Quadratic::audit(&plan, &image, 0..plan.words()).map(|audit| audit.pairs), Ok(u64::from(n)));
            for &(key, value) in &pairs {
                assert_eq!(Quadratic::find(&plan, &image, key), Some(value));
                assert_eq!(Quadratic::reads(&plan, &image, key), 1);
                assert_eq!(
                    (Quadratic::find(&plan, &image, key + 1), Quadratic::reads(&plan, &image, key + 1)),
                    (None, 1)
                );
            }
        }
    }

    /// An attempt fails exactly if two keys share a slot, which this test computes from the slots alone.
    #[test]
    fn attempts_fail_if_two_keys_share_a_slot() {
        let mut failed = 0;
        for attempt in 0..200 {
            let pairs: Vec<(u32, u32)> = (0..40).map(|i| (i, i)).collect();
            let plan = plan(40, attempt);
            let functions = Quadratic::cuckoo_plan(&plan).functions();
            let slots: std::collections::BTreeSet<u32> =
                pairs.iter().map(|&(key, _)| functions.probe(0, key).0).collect();
            let mut image = vec![plan.empty_word(); plan.words() as usize];
            let placed = Quadratic::place(&plan, &mut image, &pairs) == Placing::Placed;
            assert_eq!(placed, slots.len() == pairs.len());
            failed += u32::from(!placed);
        }
        assert!((40..120).contains(&failed), "1 - e^(-1/2) of 200 are 79, and {failed} failed");
    }

    #[test]
    fn sizes_out_of_range_are_refused() {
        let at = |slots| Quadratic.plan(Request { slots, pairs: 1, seed: 0, attempt: 0 });
        assert_eq!(at(0).map(|plan| (plan.slots(), plan.words())).ok(), Some((4, 16)));
        assert_eq!(at(4096).map(|plan| plan.words()).ok(), Some(1 << 24));
        for slots in [4097, 1 << 32, u64::MAX] {
            assert!(matches!(at(slots), Err(Error::TooLarge { most: 4096, .. })));
        }
        let good = plan(10, 1);
        assert_eq!(good.checked(), Ok(good));
        for pairs in [0, 3, 4097, u32::MAX] {
            assert!(QuadraticPlan { pairs, ..good }.checked().is_err());
        }
    }

    #[test]
    fn the_audit_detects_ages_above_1() {
        let (plan, mut image) = built(&[(1, 2), (3, 4)]);
        let at = image.iter().position(|&word| word != slot::EMPTY).expect("a pair");
        image[at] += 1 << slot::AGE_SHIFT;
        let found = Quadratic::audit(&plan, &image, 0..plan.words());
        assert_eq!(found, Err(Violation::Word { slot: at as u64, word: image[at] }));
    }
}
