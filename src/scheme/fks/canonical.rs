//! The canonical rule: deferred acceptance within each bucket, under the least seed number that places all of its
//! pairs.
//!
//! ```text
//! bucket:   for s = 0, 1, .., 255:   empty all slots; offer each pair;  all have a slot:  s is the seed number
//!           no such s:  the bucket cannot be built, and the attempt has failed
//! offer:    age = 1
//!   loop:   i = (age - 1) mod 3;  slot, rem = function i under s of key;  mine = [age][rem][value]
//!           there = the word in that slot of sub-table i
//!           there has my age and my rem:  the same key: the greater word is kept, the other is dropped   (a duplicate)
//!           there < mine:  mine takes the slot;  done if it was empty;  otherwise continue with the displaced pair
//!           age += 1;  past MAX_AGE: s fails
//! ```
//!
//! **The image does not depend on the order.** Under one seed number this is the rule of `scheme/cuckoo/canonical.rs`
//! with three lists of slots instead of one. So its result is a function of the set of pairs, including whether all
//! pairs are placed, and the least seed number that places all is one too. Nothing depends on other buckets. A
//! sub-table has 192 slots, more than the 16 that a word needs to lose nothing of its key.
//!
//! **Duplicates change only their count**, for the same reason. In a complete bucket each duplicate but one has met a
//! greater one and was dropped, whatever the seed number. Duplicates do count towards an overfull bucket; the attempt
//! fails then, and duplicates are detected elsewhere.
//!
//! A word alone does not identify its key: that also takes its sub-table and the seed number of its bucket.

use std::ops::Range;

use super::{BUCKET_PAIRS, BUCKET_SLOTS, Functions, Position, SEEDS_OF_WORD, SUBTABLES, partitioned, turn, tweak};
use crate::scheme::{Audit, Placing, Violation, slot};

/// The number of reads and the value of a lookup.
pub fn search(functions: &Functions, image: &[u64], key: u32) -> (u32, Option<u32>) {
    let bucket = functions.bucket(key);
    let tweak = tweak(functions.seed(image, bucket));
    for i in 0..SUBTABLES {
        let (at, rem) = functions.probe(i, tweak, key);
        let there = image[Functions::word(bucket, i, at)];
        if slot::is_pair(there) && slot::remainder(there) == rem && turn(slot::age(there)) == i {
            return (i + 1, Some(slot::value(there)));
        }
        if ((there >> 32) as u32) < slot::upper(i + 1, rem) {
            return (i + 1, None);
        }
    }
    (SUBTABLES, None)
}

/// The pair in a slot of a bucket with this seed number.
pub fn pair(functions: &Functions, seed: u32, subtable: u32, at: u32, word: u64) -> Option<(u32, u32)> {
    if !slot::is_pair(word) || turn(slot::age(word)) != subtable {
        return None;
    }
    Some((functions.key_at(subtable, seed, at, slot::remainder(word)), slot::value(word)))
}

/// The pair in a word of the image.
pub fn pair_at(functions: &Functions, image: &[u64], word: u64) -> Option<(u32, u32)> {
    let Position { bucket, subtable, at } = functions.position(word)?;
    pair(functions, functions.seed(image, bucket), subtable, at, *image.get(word as usize)?)
}

/// Builds the image of these pairs. Its earlier contents are ignored.
pub fn place(functions: &Functions, image: &mut [u64], pairs: &[(u32, u32)]) -> Placing {
    image.fill(slot::EMPTY);
    let buckets = partitioned(functions, pairs.iter().copied());
    let mut least: Option<u32> = None;
    for (number, pairs) in (0..).zip(&buckets) {
        let first = Functions::word(number, 0, 0);
        let bucket = &mut image[first..first + BUCKET_SLOTS as usize];
        let Some((seed, placing)) = build(functions, bucket, pairs) else { return Placing::Unplaced };
        functions.set_seed(image, number, seed);
        if let Placing::Duplicate(key) = placing {
            least = Some(least.map_or(key, |least| least.min(key)));
        }
    }
    least.map_or(Placing::Placed, Placing::Duplicate)
}

/// Builds one bucket. Returns its seed number and whether there were duplicates.
pub fn build(functions: &Functions, bucket: &mut [u64], pairs: &[(u32, u32)]) -> Option<(u32, Placing)> {
    if pairs.len() > BUCKET_PAIRS as usize {
        return None;
    }
    (0..functions.seeds()).find_map(|seed| match accept(functions, seed, bucket, pairs) {
        Placing::Unplaced => None,
        placing => Some((seed, placing)),
    })
}

/// Fills a bucket's slots under one seed number.
pub fn accept(functions: &Functions, seed: u32, bucket: &mut [u64], pairs: &[(u32, u32)]) -> Placing {
    bucket.fill(slot::EMPTY);
    Placing::of_each(pairs, |key, value| offer(functions, seed, bucket, key, value))
}

/// Adds one pair to a bucket, and moves displaced pairs to their next places until none is left.
fn offer(functions: &Functions, seed: u32, bucket: &mut [u64], mut key: u32, mut value: u32) -> Placing {
    let mut age = 1;
    while age <= slot::MAX_AGE {
        let subtable = turn(age);
        let (at, rem) = functions.probe(subtable, tweak(seed), key);
        let mine = slot::word(age, rem, value);
        let slot = &mut bucket[Functions::word(0, subtable, at)];
        let there = *slot;
        if there >> 32 == mine >> 32 {
            *slot = there.max(mine);
            return Placing::Duplicate(key);
        }
        if there < mine {
            *slot = mine;
            let Some(displaced) = pair(functions, seed, subtable, at, there) else { return Placing::Placed };
            (key, value) = displaced;
            age = slot::age(there);
        }
        age += 1;
    }
    Placing::Unplaced
}

/// Checks that every pair is in its bucket, on its list at its age, that every earlier place has a stronger word, that
/// keys are unique, and that every seed number is the least that works.
pub fn audit(functions: &Functions, image: &[u64], words: Range<u64>) -> Result<Audit, Violation> {
    let mut audit = Audit::default();
    for slot in words {
        let word = image[slot as usize];
        let Some(position) = functions.position(slot) else {
            audit_seeds(functions, image, slot)?;
            continue;
        };
        if word == slot::EMPTY {
            continue;
        }
        let seed = functions.seed(image, position.bucket);
        let Some((key, value)) = pair(functions, seed, position.subtable, position.at, word) else {
            return Err(Violation::Word { slot, word });
        };
        let tweak = tweak(seed);
        let place = (position.at, slot::remainder(word));
        if functions.bucket(key) != position.bucket || functions.probe(position.subtable, tweak, key) != place {
            return Err(Violation::Misplaced { slot, key: key.into() });
        }
        let age = slot::age(word);
        for earlier in 1..age {
            let (other, rem) = functions.probe(turn(earlier), tweak, key);
            let there = image[Functions::word(position.bucket, turn(earlier), other)];
            if there < slot::word(earlier, rem, value) {
                return Err(Violation::Blocking { slot, key: key.into(), age, earlier });
            }
        }
        for i in (0..SUBTABLES).filter(|&i| i != position.subtable) {
            let other = Functions::word(position.bucket, i, functions.probe(i, tweak, key).0) as u64;
            if pair_at(functions, image, other).is_some_and(|(there, _)| there == key) {
                return Err(Violation::Twice { slot, other, key: key.into() });
            }
        }
        audit.pairs += 1;
        audit.greatest_age = audit.greatest_age.max(age);
    }
    Ok(audit)
}

/// Checks each seed number in one word against the pairs of its bucket.
fn audit_seeds(functions: &Functions, image: &[u64], word: u64) -> Result<(), Violation> {
    let mut scratch = [slot::EMPTY; BUCKET_SLOTS as usize];
    for bucket in buckets_of(functions, image, word)? {
        let first = Functions::word(bucket, 0, 0) as u64;
        let slots = first..first + u64::from(BUCKET_SLOTS);
        let pairs: Vec<_> = slots.filter_map(|slot| pair_at(functions, image, slot)).collect();
        if pairs.len() > BUCKET_PAIRS as usize {
            return Err(Violation::Bucket { bucket: bucket.into(), reason: "it holds more than 512 pairs" });
        }
        let seats = |seed| accept(functions, seed, &mut scratch, &pairs) != Placing::Unplaced;
        if (0..functions.seed(image, bucket)).any(seats) {
            return Err(Violation::Bucket { bucket: bucket.into(), reason: "a smaller seed number places its pairs" });
        }
    }
    Ok(())
}

/// The buckets whose seed numbers are in a word. The rest of the word must be 0.
pub(super) fn buckets_of(functions: &Functions, image: &[u64], slot: u64) -> Result<Range<u32>, Violation> {
    let first = (slot - functions.slots() as u64) as u32 * SEEDS_OF_WORD;
    let last = functions.buckets.min(first + SEEDS_OF_WORD);
    let word = image[slot as usize];
    let used = 8 * (last - first);
    if used < u64::BITS && word >> used != 0 {
        return Err(Violation::Word { slot, word });
    }
    Ok(first..last)
}
