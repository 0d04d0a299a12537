//! The canonical rule: deferred acceptance with buckets of S words.
//!
//! ```text
//! place(key, value):   age = 1
//!   loop:  mine = [age][rem][value];   bucket = the one that function (age - 1) mod 3 names
//!          a word there has my age and my rem: the same key: the greater word is kept, the other dropped (a duplicate)
//!          the least word there < mine: replace it by mine; done if it was empty; else continue with the displaced one
//!          age += 1;  past MAX_AGE: unplaced, the attempt has failed
//! find(key):   for i in 1..=3:  bucket = the one that function i - 1 names
//!          found if a word there has my rem and an age that belongs to function i - 1
//!          absent if the least word there is below [i][rem]: the key would have displaced it
//! ```
//!
//! This is the rule of the cuckoo table (`cuckoo/canonical.rs`), with the S greatest words instead of the greatest. By
//! the same argument of Gale and Shapley, the image does not depend on the order of operations. The slot of a word
//! within its bucket would depend on it, so **a build ends by sorting the words of each bucket in descending order**.
//! The least word is then the last, and one read shows whether a search may end.
//!
//! **Duplicates.** In a sequential build, as here, duplicates are dropped when they meet, as in the cuckoo table: they
//! share one list, and a slot that rejects the greater duplicate also rejects the lesser one. Threads that scan one
//! bucket at the same time can miss each other's words. A backend must prevent that, or search the complete image for
//! duplicates. An image that contained duplicates at any time is invalid, because they took slots from other pairs.
//!
//! **Removing** replaces the word in its slot by a tombstone, the greatest possible word. Slots still only grow, so a
//! least word below mine still proves that the key was never offered here.

use std::ops::Range;

use super::{BucketizedPlan, Functions};
use crate::scheme::{Audit, Placing, Violation, slot};

/// The number of buckets read, and the slot and word of the key.
pub(crate) fn search(
    plan: &BucketizedPlan,
    functions: &Functions,
    image: &[u64],
    key: u32,
) -> (u32, Option<(u64, u64)>) {
    let (home, rem) = functions.home(key);
    for turn in 0..3 {
        let bucket = functions.bucket(turn, home, rem);
        let words = plan.bucket(image, bucket);
        let is_mine = |&word: &u64| {
            slot::is_pair(word) && slot::remainder(word) == rem && functions.turn(slot::age(word)) == turn
        };
        let reads = turn as u32 + 1;
        if let Some(i) = words.iter().position(is_mine) {
            return (reads, Some((u64::from(bucket) * words.len() as u64 + i as u64, words[i])));
        }
        let mine = slot::upper(reads, rem);
        if words.iter().any(|&word| ((word >> 32) as u32) < mine) {
            return (reads, None);
        }
    }
    (3, None)
}

/// The pair of a word in a bucket.
pub(crate) fn pair(functions: &Functions, bucket: u32, word: u64) -> Option<(u32, u32)> {
    let key = || functions.key_at(functions.turn(slot::age(word)), bucket, slot::remainder(word));
    slot::is_pair(word).then(|| (key(), slot::value(word)))
}

/// Sorts the words of every bucket in descending order, which ends a build. Tombstones are then first, so that the
/// least word is the last again.
pub(crate) fn sort(plan: &BucketizedPlan, image: &mut [u64]) {
    for bucket in image.chunks_exact_mut(plan.bucket_slots as usize) {
        bucket.sort_unstable_by(|a, b| b.cmp(a));
    }
}

/// Adds one pair, and moves displaced pairs to their next places until none is left. Does not keep buckets sorted.
pub(crate) fn place(plan: &BucketizedPlan, functions: &Functions, image: &mut [u64], key: u32, value: u32) -> Placing {
    let (mut key, mut value, mut age) = (key, value, 1);
    while age <= slot::MAX_AGE {
        let (home, rem) = functions.home(key);
        let bucket = functions.bucket(functions.turn(age), home, rem);
        let mine = slot::word(age, rem, value);
        let words = plan.bucket_mut(image, bucket);
        if let Some(copy) = words.iter_mut().find(|word| **word >> 32 == mine >> 32) {
            *copy = mine.max(*copy);
            return Placing::Duplicate(key);
        }
        if let Some(least) = words.iter_mut().min().filter(|least| **least < mine) {
            let displaced = std::mem::replace(least, mine);
            let Some(pair) = pair(functions, bucket, displaced) else { return Placing::Placed };
            (key, value) = pair;
            age = slot::age(displaced);
        }
        age += 1;
    }
    Placing::Unplaced
}

/// Replaces the key's pair by a tombstone.
pub(crate) fn remove(plan: &BucketizedPlan, functions: &Functions, image: &mut [u64], key: u32) -> bool {
    let (_, found) = search(plan, functions, image, key);
    if let Some((at, _)) = found {
        image[at as usize] = slot::TOMBSTONE;
    }
    found.is_some()
}

/// Checks that every pair is on its list at its age, that every earlier bucket on the list is full of stronger words,
/// that keys are unique, and that every bucket is sorted.
pub(crate) fn audit(
    plan: &BucketizedPlan,
    functions: &Functions,
    image: &[u64],
    range: Range<u64>,
) -> Result<Audit, Violation> {
    let mut audit = Audit::default();
    let slots = u64::from(plan.bucket_slots);
    for bucket in range.start / slots..range.end.div_ceil(slots) {
        let words = plan.bucket(image, bucket as u32);
        for (i, &word) in words.iter().enumerate() {
            let slot = bucket * slots + i as u64;
            let Some((key, value)) = pair(functions, bucket as u32, word) else {
                match word {
                    slot::EMPTY => {}
                    slot::TOMBSTONE => audit.tombstones += 1,
                    _ => return Err(Violation::Word { slot, word }),
                }
                continue;
            };
            let age = slot::age(word);
            check(plan, functions, image, (slot, age), key, value)?;
            audit.pairs += 1;
            audit.greatest_age = audit.greatest_age.max(age);
        }
        // A tombstone stays where its pair was.
        if !words.iter().filter(|&&word| word != slot::TOMBSTONE).is_sorted_by(|a, b| a >= b) {
            return Err(Violation::Unsorted { bucket });
        }
    }
    Ok(audit)
}

/// Checks one pair that is stored in `slot` at `age`.
fn check(
    plan: &BucketizedPlan,
    functions: &Functions,
    image: &[u64],
    (slot, age): (u64, u32),
    key: u32,
    value: u32,
) -> Result<(), Violation> {
    let (home, rem) = functions.home(key);
    let bucket_at = |age: u32| functions.bucket(functions.turn(age), home, rem);
    let word = slot::word(age, rem, value);
    let slots = u64::from(plan.bucket_slots);
    if u64::from(bucket_at(age)) != slot / slots || image[slot as usize] != word {
        return Err(Violation::Misplaced { slot, key: key.into() });
    }
    for earlier in 1..age {
        if plan.bucket(image, bucket_at(earlier)).iter().any(|&there| there < slot::word(earlier, rem, value)) {
            return Err(Violation::Blocking { slot, key: key.into(), age, earlier });
        }
    }
    for turn in 0..3 {
        let bucket = functions.bucket(turn, home, rem);
        for (i, &there) in plan.bucket(image, bucket).iter().enumerate() {
            let other = u64::from(bucket) * slots + i as u64;
            if other != slot && pair(functions, bucket, there).is_some_and(|(k, _)| k == key) {
                return Err(Violation::Twice { slot, other, key: key.into() });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheme::{Bucketized, Plan, Request, Scheme};

    fn built(bucket_slots: u32, pairs: &[(u32, u32)], slots: u64) -> (BucketizedPlan, Vec<u64>) {
        let request = Request { slots, pairs: pairs.len() as u64, seed: 9, attempt: 0 };
        let plan = Bucketized::canonical(bucket_slots).plan(request).expect("a plan");
        let mut image = vec![slot::EMPTY; plan.words() as usize];
        assert_ne!(Bucketized::place(&plan, &mut image, pairs), Placing::Unplaced);
        (plan, image)
    }

    fn some_pairs(count: u32) -> Vec<(u32, u32)> {
        (0..count).map(|i| (i.wrapping_mul(0x9e37_79b9), i)).collect()
    }

    fn audit_all(plan: &BucketizedPlan, image: &[u64]) -> Result<Audit, Violation> {
        Bucketized::audit(plan, image, 0..plan.words())
    }

    #[test]
    fn any_order_gives_the_same_image_and_it_passes_the_audit() {
        for (bucket_slots, load) in [(4, 0.97), (8, 0.99), (16, 0.99)] {
            let pairs = some_pairs(20_000);
            let slots = (20_000.0 / load) as u64;
            let (plan, image) = built(bucket_slots, &pairs, slots);
            let backwards: Vec<_> = pairs.iter().rev().copied().collect();
            assert_eq!(built(bucket_slots, &backwards, slots).1, image);
            assert_eq!(audit_all(&plan, &image).expect("sound").pairs, 20_000);
            assert!(pairs.iter().all(|&(k, v)| Bucketized::find(&plan, &image, k) == Some(v)));
            let keys: std::collections::HashSet<_> = pairs.iter().map(|&(k, _)| k).collect();
            let absent = (1_000_000..1_010_000u32).filter(|k| !keys.contains(k));
            assert_eq!(absent.filter(|&k| Bucketized::find(&plan, &image, k).is_some()).count(), 0);
        }
    }

    #[test]
    fn the_greatest_duplicate_is_kept() {
        for order in [[(7, 1), (7, 9), (7, 5)], [(7, 9), (7, 5), (7, 1)]] {
            let (plan, image) = built(8, &order, 16);
            assert_eq!(Bucketized::find(&plan, &image, 7), Some(9));
            assert_eq!(audit_all(&plan, &image).map(|a| a.pairs), Ok(1));
        }
    }

    #[test]
    fn removing_leaves_tombstones_and_other_pairs() {
        let pairs = some_pairs(4000);
        let (plan, mut image) = built(8, &pairs, 4100);
        let gone: Vec<u32> = pairs.iter().map(|&(k, _)| k).filter(|k| k % 3 == 0).collect();
        assert_eq!(Bucketized::remove(&plan, &mut image, &gone), gone.len() as u64);
        assert_eq!(Bucketized::remove(&plan, &mut image, &gone), 0);
        let audit = audit_all(&plan, &image).expect("sound");
        assert_eq!((audit.pairs, audit.tombstones), (4000 - gone.len() as u64, gone.len() as u64));
        let expected = |k: u32, v: u32| (!k.is_multiple_of(3)).then_some(v);
        assert!(pairs.iter().all(|&(k, v)| Bucketized::find(&plan, &image, k) == expected(k, v)));
    }

    #[test]
    fn the_audit_detects_every_kind_of_damage() {
        let (plan, image) = built(8, &some_pairs(3000), 4000);
        let functions = plan.functions();
        let damaged = |changes: &[(u64, u64)]| {
            let mut copy = image.clone();
            changes.iter().for_each(|&(at, word)| copy[at as usize] = word);
            audit_all(&plan, &copy)
        };
        // A pair in the first slot of its bucket, at age 1, whose second bucket has a free slot.
        let (at, rem, value, second) = (0..plan.words())
            .step_by(8)
            .find_map(|at| {
                let (key, value) = pair(&functions, (at / 8) as u32, image[at as usize])?;
                let (home, rem) = functions.home(key);
                let second = u64::from(functions.bucket(1, home, rem)) * 8 + 7;
                let fits = slot::age(image[at as usize]) == 1 && image[second as usize] == slot::EMPTY;
                (fits && image[at as usize + 1] != slot::EMPTY).then_some((at, rem, value, second))
            })
            .expect("such a pair among 3000");
        assert!(damaged(&[]).is_ok());
        assert!(matches!(damaged(&[(at, 5)]), Err(Violation::Word { .. })), "age 0, but not empty");
        assert!(matches!(damaged(&[(at, u64::MAX)]), Err(Violation::Word { .. })), "an age that none can have");
        let (here, next) = (image[at as usize], image[at as usize + 1]);
        let swapped = damaged(&[(at, next), (at + 1, here)]);
        assert!(matches!(swapped, Err(Violation::Unsorted { .. })), "{swapped:?}");
        let copy = slot::word(2, rem, value);
        let twice = damaged(&[(second, copy)]);
        assert!(matches!(twice, Err(Violation::Twice { .. } | Violation::Blocking { .. })), "{twice:?}");
        // The pair is removed from its first bucket, and the others moved up.
        let mut changes: Vec<_> = (at..at + 7).map(|i| (i, image[i as usize + 1])).collect();
        changes.extend([(at + 7, slot::EMPTY), (second, copy)]);
        let moved = damaged(&changes);
        assert!(matches!(moved, Err(Violation::Blocking { .. })), "{moved:?}");
        assert_eq!(damaged(&[(at, slot::TOMBSTONE)]).map(|audit| audit.tombstones), Ok(1));
    }
}
