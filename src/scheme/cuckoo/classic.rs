//! The paper's own table: Listings 4.1 (insertion) and 4.2 (retrieval) of Alcantara et al. 2011.
//!
//! ```text
//! place:   entry = [key][value];  location = function 1 of key
//!          at most `chain` times:  entry = exchange(image[location], entry);  done if its key is EMPTY_KEY
//!                                  location = the place after this one on the evicted key's list (`Reinsertion`)
//!          otherwise: unplaced, the build restarts with new constants
//! find:    the first of the H slots that contains the key
//! ```
//!
//! As in the paper, the key 0xFFFFFFFF marks empty slots. It is still a valid key: its pair is stored in the plan, and
//! no kernel writes it to a slot.
//!
//! The insertion does not detect duplicates, because the paper's input has none. Every build therefore ends with a pass
//! that looks up the key of each slot, and counts the keys that a lookup finds in another slot.

use std::ops::Range;

use super::{Cell, CuckooPlan, Functions, Reinsertion};
use crate::scheme::hash::{MixKeys, mix, reduce};
use crate::scheme::{Audit, Placing, Plan, Violation};

/// The key that marks an empty slot.
pub const EMPTY_KEY: u32 = u32::MAX;
/// An empty slot: the paper's special item with the key of all ones and the value zero (Section 4.3.1.2).
pub const EMPTY: u64 = (EMPTY_KEY as u64) << 32;

/// The load above which H = 2, 3, 4, 5 random functions cannot place random keys (Dietzfelbinger et al. 2010, the
/// paper's reference 5).
pub const THRESHOLDS: [f64; 4] = [0.5, 0.918, 0.977, 0.992];

/// The maximum number of swaps of a chain: the paper's 7 lg N, which suits four functions at 1.25 N and more.
///
/// Near the load above which H functions cannot place random keys ([`THRESHOLDS`]), chains become longer. The limit
/// therefore grows with the inverse square of the distance to that load, up to 64 times (with its first power, random
/// re-insertion of three functions at 1.15 N failed 32 attempts). The paper leaves that case open ("it depends on both
/// the table size and the number of items").
pub fn default_chain(functions: u32, pairs: u64, slots: u64) -> u32 {
    // Rounded up.
    let lg = u64::from(u64::BITS - (pairs.max(16) - 1).leading_zeros());
    let limit_permille = (1000.0 * THRESHOLDS[(functions.clamp(2, 5) - 2) as usize]).round() as u64;
    let load_permille = (u128::from(pairs) * 1000 / u128::from(slots.max(1))).min(1000) as u64;
    // At the paper's 1.25 N the distance is 977 - 800 permille.
    let distance = limit_permille.saturating_sub(load_permille).max(1);
    let factor = (177u64 * 177).div_ceil(distance * distance).clamp(1, 64);
    (7 * lg * factor) as u32
}

/// The key of an entry.
#[inline(always)]
pub fn key(entry: u64) -> u32 {
    (entry >> 32) as u32
}

/// An entry with this key and value.
#[inline(always)]
pub fn entry(key: u32, value: u32) -> u64 {
    (u64::from(key) << 32) | u64::from(value)
}

/// The pair in a slot.
#[inline(always)]
pub fn pair(entry: u64) -> Option<(u32, u32)> {
    (key(entry) != EMPTY_KEY).then_some((key(entry), entry as u32))
}

/// The next slot of a pair that was evicted from `from` after `swaps` swaps of its chain.
#[inline(always)]
pub fn next_location(functions: &Functions, rule: Reinsertion, key: u32, from: u32, swaps: u32) -> u32 {
    let count = functions.count as usize;
    if rule == Reinsertion::RandomFunction {
        let draw = mix(key, MixKeys::new(swaps, 1, from));
        return functions.location(reduce(draw, functions.count) as usize, key);
    }
    // Listing 4.1: the earliest function that maps to this slot. A pair that no function maps here restarts at the
    // first.
    let here = (0..count).find(|&i| functions.location(i, key) == from).unwrap_or(count - 1);
    let after = |step: usize| functions.location((here + step) % count, key);
    if rule == Reinsertion::AsPublished {
        return after(1);
    }
    (1..count).map(after).find(|&location| location != from).unwrap_or(from)
}

/// The number of reads and the value of a lookup. The sentinel key takes no reads: its pair is stored in the plan.
pub fn search<C: Cell>(plan: &CuckooPlan, image: &[C], wanted: u32) -> (u32, Option<u32>) {
    if wanted == EMPTY_KEY {
        return (0, plan.outside().map(|(_, value)| value));
    }
    let functions = plan.functions();
    for (i, at) in functions.locations(wanted).enumerate() {
        let there = image[at as usize].word();
        if key(there) == wanted {
            return (i as u32 + 1, Some(there as u32));
        }
    }
    (functions.count, None)
}

/// Adds one pair by Listing 4.1.
pub fn place<C: Cell>(plan: &CuckooPlan, image: &mut [C], new: u32, value: u32) -> Placing {
    place_counted(plan, image, new, value).0
}

/// Like [`place`], and returns the number of slots tried: the iterations of the listing's loop. A duplicate tries none.
pub fn place_counted<C: Cell>(plan: &CuckooPlan, image: &mut [C], new: u32, value: u32) -> (Placing, u32) {
    if new == EMPTY_KEY || search(plan, image, new).1.is_some() {
        return (Placing::Duplicate(new), 0);
    }
    let functions = plan.functions();
    let mut moving = C::of(entry(new, value));
    let mut location = functions.location(0, new);
    for swaps in 0..plan.chain() {
        std::mem::swap(&mut image[location as usize], &mut moving);
        let out = key(moving.word());
        if out == EMPTY_KEY {
            return (Placing::Placed, swaps + 1);
        }
        location = next_location(&functions, plan.reinsertion(), out, location, swaps);
    }
    (Placing::Unplaced, plan.chain())
}

/// Empties the slot of the key's pair, if the image contains one. Lookups do not stop at empty slots, so no tombstone
/// is needed.
pub fn remove<C: Cell>(functions: &Functions, image: &mut [C], gone: u32) -> bool {
    if gone == EMPTY_KEY {
        return false;
    }
    let found = functions.locations(gone).find(|&at| key(image[at as usize].word()) == gone);
    if let Some(at) = found {
        image[at as usize] = C::of(EMPTY);
    }
    found.is_some()
}

/// The function (from 1) that maps the pair in a slot to it; 0 if the slot is empty.
pub fn age(functions: &Functions, at: u32, entry: u64) -> u32 {
    if key(entry) == EMPTY_KEY {
        return 0;
    }
    functions.locations(key(entry)).position(|location| location == at).map_or(0, |i| i as u32 + 1)
}

/// Checks that every pair is in one of its slots, and that keys are unique.
pub fn audit<C: Cell>(functions: &Functions, image: &[C], slots: Range<u64>) -> Result<Audit, Violation> {
    let mut audit = Audit::default();
    for slot in slots {
        let at = slot as usize;
        let word = image[at].word();
        let Some((key_here, _)) = pair(word) else {
            if word != EMPTY {
                return Err(Violation::Word { slot, word });
            }
            continue;
        };
        if !functions.locations(key_here).any(|location| location as usize == at) {
            return Err(Violation::Misplaced { slot, key: key_here.into() });
        }
        let first = functions.locations(key_here).find(|&l| key(image[l as usize].word()) == key_here);
        if let Some(other) = first.filter(|&l| l as usize != at) {
            return Err(Violation::Twice { slot, other: u64::from(other), key: key_here.into() });
        }
        audit.pairs += 1;
        audit.greatest_age = audit.greatest_age.max(age(functions, at as u32, word));
    }
    Ok(audit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheme::{Cuckoo, Request, Scheme};

    fn plan(scheme: &Cuckoo, pairs: u64, slots: u64) -> CuckooPlan {
        scheme.plan(Request { slots, pairs, seed: 3, attempt: 0 }).expect("a plan")
    }

    #[test]
    fn the_default_chain_equals_that_of_the_paper() {
        assert_eq!(default_chain(4, 1 << 25, 5 << 23), 7 * 25);
        assert_eq!(default_chain(4, 1 << 20, 4 << 20), 7 * 20);
        assert!(default_chain(5, 1_000_000, 1_020_000) > 7 * 20);
    }

    #[test]
    fn as_published_skips_functions_that_share_a_slot_and_the_fix_does_not() {
        // A key whose first two functions agree and whose third differs: the published rule returns it to the same
        // slot.
        let plan = plan(&Cuckoo::classic(3), 8, 8);
        let functions = plan.functions();
        let agreeing = (0..10_000u32).find(|&k| {
            let l: Vec<_> = functions.locations(k).collect();
            l[0] == l[1] && l[1] != l[2]
        });
        let k = agreeing.expect("some key in a table of eight slots");
        let from = functions.location(0, k);
        assert_eq!(next_location(&functions, Reinsertion::AsPublished, k, from, 0), from);
        assert_eq!(next_location(&functions, Reinsertion::SkipSameSlot, k, from, 0), functions.location(2, k));
        let drawn: std::collections::HashSet<_> =
            (0..64).map(|s| next_location(&functions, Reinsertion::RandomFunction, k, from, s)).collect();
        assert_eq!(drawn.len(), 2, "a random function reaches both slots of this key");
    }

    #[test]
    fn every_rule_places_and_finds_pairs() {
        for rule in Reinsertion::ALL {
            let plan = plan(&Cuckoo::classic(4).reinsertion(rule), 800, 1000);
            let mut image = vec![EMPTY; 1000];
            for k in 0..800u32 {
                assert_eq!(place(&plan, &mut image, k * 7, k), Placing::Placed);
            }
            assert_eq!(place(&plan, &mut image, 7, 1), Placing::Duplicate(7));
            assert_eq!(audit(&plan.functions(), &image, 0..1000).map(|a| a.pairs), Ok(800));
            assert!((0..800u32).all(|k| search(&plan, &image, k * 7).1 == Some(k)));
            assert_eq!(search(&plan, &image, 1).1, None);
        }
    }
}
