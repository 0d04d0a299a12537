//! The canonical rule: deferred acceptance with one word per slot.
//!
//! ```text
//! place(key, value):   age = 1
//!   loop:  slot, rem = function (age - 1) mod H of key;  mine = [age][rem][value];  there = image[slot]
//!          there has my age and my rem:  the same key: the greater word is kept, the other is dropped    (a duplicate)
//!          there < mine:  image[slot] = mine;  done if the slot was empty;  otherwise continue with the displaced pair
//!          age += 1;  past MAX_AGE: unplaced, the attempt has failed
//! find(key):   for i in 1..=H:  slot, rem = function i - 1 of key
//!          found if rem is equal and the age there belongs to function i - 1
//!          absent if [age][rem] there is below [i][rem]: the key would have displaced it
//! ```
//!
//! **The image does not depend on the order.** A key's proposals are a fixed list of (slot, word), a slot ends with the
//! greatest word that was ever offered to it, and a word is offered exactly when the one before it on its list was
//! rejected or displaced. That is Gale and Shapley's deferred acceptance, whose result is the same for every order of
//! proposals. Ages increase along a list, so a pair that was rejected often becomes strong, and lists that contain a
//! slot twice still end.
//!
//! **Dropped duplicates change nothing.** Duplicates have one list, and at each place the greatest of them is the
//! strongest, so it wins whatever a lesser one would have won. Every lesser duplicate meets one that beats it, so the
//! number of drops is exact. No two *different* keys ever differ in the value alone, so values never decide which key
//! keeps a slot.

use std::ops::Range;

use super::{Cell, Functions};
use crate::scheme::{Audit, Placing, Violation, slot};

/// The number of reads and the value of a lookup.
pub(crate) fn search<C: Cell>(functions: &Functions, image: &[C], key: u32) -> (u32, Option<u32>) {
    for i in 0..functions.count as usize {
        let (at, rem) = functions.probe(i, key);
        let there = image[at as usize].word();
        if slot::is_pair(there) && slot::remainder(there) == rem && functions.turn(slot::age(there)) == i {
            return (i as u32 + 1, Some(slot::value(there)));
        }
        if ((there >> 32) as u32) < slot::upper(i as u32 + 1, rem) {
            return (i as u32 + 1, None);
        }
    }
    (functions.count, None)
}

/// The pair in a slot.
pub(crate) fn pair(functions: &Functions, at: u32, word: u64) -> Option<(u32, u32)> {
    if !slot::is_pair(word) {
        return None;
    }
    let key = functions.key_at(functions.turn(slot::age(word)), at, slot::remainder(word));
    Some((key, slot::value(word)))
}

/// Adds one pair, and moves displaced pairs to their next places until none is left.
pub(crate) fn place<C: Cell>(functions: &Functions, image: &mut [C], mut key: u32, mut value: u32) -> Placing {
    let mut age = 1;
    while age <= slot::MAX_AGE {
        let (at, rem) = functions.probe(functions.turn(age), key);
        let mine = slot::word(age, rem, value);
        let there = image[at as usize].word();
        if there >> 32 == mine >> 32 {
            image[at as usize] = C::of(there.max(mine));
            return Placing::Duplicate(key);
        }
        if there < mine {
            image[at as usize] = C::of(mine);
            let Some(displaced) = pair(functions, at, there) else { return Placing::Placed };
            (key, value) = displaced;
            age = slot::age(there);
        }
        age += 1;
    }
    Placing::Unplaced
}

/// Replaces the key's pair by a tombstone. Slots still only grow, so the rule above applies to later operations, for
/// which the slot is occupied.
pub(crate) fn remove<C: Cell>(functions: &Functions, image: &mut [C], key: u32) -> bool {
    let found = (0..functions.count as usize)
        .map(|i| functions.probe(i, key).0)
        .find(|&at| pair(functions, at, image[at as usize].word()).is_some_and(|(there, _)| there == key));
    if let Some(at) = found {
        image[at as usize] = C::of(slot::TOMBSTONE);
    }
    found.is_some()
}

/// Checks that every pair is on its list at its age, that every earlier place has a stronger word, and that keys are
/// unique.
pub(crate) fn audit<C: Cell>(functions: &Functions, image: &[C], slots: Range<u64>) -> Result<Audit, Violation> {
    let mut audit = Audit::default();
    for slot in slots {
        let at = slot as usize;
        let word = image[at].word();
        let age = slot::age(word);
        let Some((key, value)) = pair(functions, at as u32, word) else {
            match word {
                slot::EMPTY => {}
                slot::TOMBSTONE => audit.tombstones += 1,
                _ => return Err(Violation::Word { slot, word }),
            }
            continue;
        };
        if functions.probe(functions.turn(age), key) != (at as u32, slot::remainder(word)) {
            return Err(Violation::Misplaced { slot, key: key.into() });
        }
        for earlier in 1..age {
            let (other, rem) = functions.probe(functions.turn(earlier), key);
            let there = image[other as usize].word();
            if there < slot::word(earlier, rem, value) {
                return Err(Violation::Blocking { slot, key: key.into(), age, earlier });
            }
        }
        for i in 0..functions.count as usize {
            let (other, _) = functions.probe(i, key);
            let there = pair(functions, other, image[other as usize].word());
            if other as usize != at && there.is_some_and(|(k, _)| k == key) {
                return Err(Violation::Twice { slot, other: u64::from(other), key: key.into() });
            }
        }
        audit.pairs += 1;
        audit.greatest_age = audit.greatest_age.max(age);
    }
    Ok(audit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheme::{Cuckoo, Request, Scheme};

    fn built(functions: u32, pairs: &[(u32, u32)], slots: u64) -> (Functions, Vec<u64>) {
        let request = Request { slots, pairs: pairs.len() as u64, seed: 9, attempt: 0 };
        let plan = Cuckoo::canonical(functions).plan(request).expect("a plan");
        let mut image = vec![slot::EMPTY; plan.slot_count() as usize];
        for &(key, value) in pairs {
            assert_ne!(place(&plan.functions(), &mut image, key, value), Placing::Unplaced);
        }
        (plan.functions(), image)
    }

    fn some_pairs() -> Vec<(u32, u32)> {
        (0..800u32).map(|i| (i.wrapping_mul(0x9e37_79b9), i)).collect()
    }

    fn audit_all(functions: &Functions, image: &[u64]) -> Result<Audit, Violation> {
        audit(functions, image, 0..image.len() as u64)
    }

    #[test]
    fn any_order_gives_the_same_image_and_it_passes_the_audit() {
        let pairs = some_pairs();
        let (functions, image) = built(4, &pairs, 1000);
        let backwards: Vec<_> = pairs.iter().rev().copied().collect();
        assert_eq!(built(4, &backwards, 1000).1, image);
        assert_eq!(audit_all(&functions, &image).expect("sound").pairs, 800);
        assert!(pairs.iter().all(|&(k, v)| search(&functions, &image, k).1 == Some(v)));
        let keys: std::collections::HashSet<_> = pairs.iter().map(|&(k, _)| k).collect();
        let absent = (1_000_000..1_010_000u32).filter(|k| !keys.contains(k));
        assert_eq!(absent.filter(|&k| search(&functions, &image, k).1.is_some()).count(), 0);
    }

    #[test]
    fn the_greatest_duplicate_is_kept() {
        for order in [[(7, 1), (7, 9), (7, 5)], [(7, 9), (7, 5), (7, 1)]] {
            let (functions, image) = built(2, &order, 16);
            assert_eq!(search(&functions, &image, 7).1, Some(9));
            assert_eq!(audit_all(&functions, &image).map(|a| a.pairs), Ok(1));
        }
    }

    #[test]
    fn the_audit_detects_every_kind_of_damage() {
        let (functions, image) = built(4, &some_pairs(), 1000);
        // A pair at its first place whose second place is free.
        let (at, second, rem, value) = (0..1000u32)
            .find_map(|at| {
                let word = image[at as usize];
                let (key, value) = pair(&functions, at, word)?;
                let (second, rem) = functions.probe(1, key);
                (slot::age(word) == 1 && image[second as usize] == slot::EMPTY).then_some((at, second, rem, value))
            })
            .expect("such a pair among 800");
        let damaged = |changes: &[(u32, u64)]| {
            let mut copy = image.clone();
            changes.iter().for_each(|&(at, word)| copy[at as usize] = word);
            audit_all(&functions, &copy)
        };
        assert!(damaged(&[]).is_ok());
        assert!(matches!(damaged(&[(at, 5)]), Err(Violation::Word { .. })), "age 0, but not empty");
        assert!(matches!(damaged(&[(at, u64::MAX)]), Err(Violation::Word { .. })), "an age that none can have");
        let copy = slot::word(2, rem, value);
        let twice = damaged(&[(second, copy)]);
        assert!(matches!(twice, Err(Violation::Twice { .. })), "{twice:?}");
        let moved = damaged(&[(second, copy), (at, slot::EMPTY)]);
        assert!(matches!(moved, Err(Violation::Blocking { age: 2, earlier: 1, .. })), "{moved:?}");
        // Not every remainder in a slot belongs to a key: find a word that decodes to a key of another slot.
        let stray = (0..1 << 10)
            .map(|r| slot::word(1, (r << 18) + 1, 0))
            .find(|&word| matches!(damaged(&[(at, word)]), Err(Violation::Misplaced { .. })));
        assert!(stray.is_some());
    }
}
