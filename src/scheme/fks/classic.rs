//! The poster's own build (Alcantara et al. 2009; as code in Sahu 2015): all pairs of a bucket in step.
//!
//! ```text
//! bucket:    for each seed number:   empty all slots; no pair is placed;  repeat `iterations` times:
//!                for sub-table i = 0, 1, 2:   each unplaced pair writes its key into its slot of sub-table i
//!                    (barrier)                a pair of sub-table i is placed exactly if its key is in its slot
//!                    (barrier)
//!                all are placed:  this is the seed number; each pair writes key and value into its slot
//!            no such number:  the attempt has failed
//! find:      the first of the three slots that contains the key
//! ```
//!
//! If several pairs write one slot, the device determines which one remains; here it is the last. The bytes therefore
//! differ between devices and, with several threads, between runs.
//!
//! As in the classic cuckoo table, the key 0xFFFFFFFF marks empty slots, and its pair is stored in the plan. Duplicates
//! move in step, because they see the same keys in the same slots: they end in one slot, and are counted when all pairs
//! write their key and value.
//!
//! Sahu's listing has errors; `docs/papers.md` describes what koel does instead.

use std::ops::Range;

use super::canonical::buckets_of;
use super::{BUCKET_PAIRS, BUCKET_SLOTS, FksPlan, Functions, SUBTABLES, partitioned};
pub(crate) use crate::scheme::cuckoo::classic::{EMPTY, EMPTY_KEY, entry, key, pair};
use crate::scheme::{Audit, Placing, Plan, Violation};

/// The number of reads and the value of a lookup. The sentinel key takes no reads: its pair is stored in the plan.
pub(crate) fn search(plan: &FksPlan, image: &[u64], wanted: u32) -> (u32, Option<u32>) {
    if wanted == EMPTY_KEY {
        return (0, plan.outside().map(|(_, value)| value));
    }
    let functions = plan.functions();
    for (i, word) in (1..).zip(words_of(&functions, image, wanted)) {
        if key(image[word]) == wanted {
            return (i, Some(image[word] as u32));
        }
    }
    (SUBTABLES, None)
}

/// The words of the image that may contain a key, in the order in which a lookup reads them.
fn words_of(functions: &Functions, image: &[u64], key: u32) -> impl Iterator<Item = usize> {
    let bucket = functions.bucket(key);
    let seed = functions.seed(image, bucket);
    (0..SUBTABLES).map(move |i| Functions::word(bucket, i, functions.location(i, seed, key)))
}

/// Builds the image of these pairs. Its earlier contents are ignored.
pub(crate) fn place(plan: &FksPlan, image: &mut [u64], pairs: &[(u32, u32)]) -> Placing {
    let functions = plan.functions();
    image.fill(EMPTY);
    image[functions.slots()..].fill(0);
    let inside = pairs.iter().copied().filter(|&(key, _)| key != EMPTY_KEY);
    let mut least = pairs.iter().map(|&(key, _)| key).find(|&key| key == EMPTY_KEY);
    for (number, pairs) in (0..).zip(&partitioned(&functions, inside)) {
        let first = Functions::word(number, 0, 0);
        let bucket = &mut image[first..first + BUCKET_SLOTS as usize];
        let Some((seed, copy)) = build(&functions, plan.iterations(), bucket, pairs) else { return Placing::Unplaced };
        functions.set_seed(image, number, seed);
        least = least.into_iter().chain(copy).min();
    }
    least.map_or(Placing::Placed, Placing::Duplicate)
}

/// Builds one bucket of empty slots. Returns its seed number and the smallest duplicate key.
pub(crate) fn build(
    functions: &Functions,
    iterations: u32,
    bucket: &mut [u64],
    pairs: &[(u32, u32)],
) -> Option<(u32, Option<u32>)> {
    if pairs.len() > BUCKET_PAIRS as usize {
        return None;
    }
    let (seed, places) =
        (0..functions.seeds()).find_map(|seed| Some((seed, rounds(functions, iterations, seed, pairs)?)))?;
    let mut least = None;
    for (&(new, value), at) in pairs.iter().zip(places) {
        if key(bucket[at]) == new {
            least = Some(least.map_or(new, |least: u32| least.min(new)));
        }
        bucket[at] = entry(new, value);
    }
    Some((seed, least))
}

/// The slot of each pair of a bucket after the rounds under one seed number, if all are placed.
fn rounds(functions: &Functions, iterations: u32, seed: u32, pairs: &[(u32, u32)]) -> Option<Vec<usize>> {
    let slots_of = |&(key, _): &(u32, u32)| {
        std::array::from_fn(|i| Functions::word(0, i as u32, functions.location(i as u32, seed, key)))
    };
    let slots: Vec<[usize; SUBTABLES as usize]> = pairs.iter().map(slots_of).collect();
    let mut keys = [EMPTY_KEY; BUCKET_SLOTS as usize];
    let mut is_in: Vec<Option<usize>> = vec![None; pairs.len()];
    for _ in 0..iterations {
        for i in 0..SUBTABLES as usize {
            for ((pair, slots), is_in) in pairs.iter().zip(&slots).zip(&mut is_in).filter(|(_, is_in)| is_in.is_none())
            {
                keys[slots[i]] = pair.0;
                *is_in = Some(slots[i]);
            }
            for (pair, is_in) in pairs.iter().zip(&mut is_in) {
                *is_in = is_in.filter(|&at| keys[at] == pair.0);
            }
        }
        if is_in.iter().all(Option::is_some) {
            return is_in.into_iter().collect();
        }
    }
    // Without pairs no round is needed.
    pairs.is_empty().then(Vec::new)
}

/// The sub-table (from 1) of the pair in a word; 0 if there is no pair.
pub(crate) fn age(functions: &Functions, image: &[u64], word: u64) -> u32 {
    let there = image.get(word as usize).copied().and_then(pair);
    functions.position(word).filter(|_| there.is_some()).map_or(0, |position| position.subtable + 1)
}

/// Checks that every pair is in one of its slots, that keys are unique, and that seed numbers are in range.
pub(crate) fn audit(functions: &Functions, image: &[u64], words: Range<u64>) -> Result<Audit, Violation> {
    let mut audit = Audit::default();
    for slot in words {
        let word = image[slot as usize];
        let Some(position) = functions.position(slot) else {
            audit_seeds(functions, image, slot)?;
            continue;
        };
        let Some((key_here, _)) = pair(word) else {
            if word != EMPTY {
                return Err(Violation::Word { slot, word });
            }
            continue;
        };
        let location = functions.location(position.subtable, functions.seed(image, position.bucket), key_here);
        if functions.bucket(key_here) != position.bucket || location != position.at {
            return Err(Violation::Misplaced { slot, key: key_here.into() });
        }
        let first = words_of(functions, image, key_here).find(|&at| key(image[at]) == key_here);
        if let Some(other) = first.filter(|&other| other as u64 != slot) {
            return Err(Violation::Twice { slot, other: other as u64, key: key_here.into() });
        }
        audit.pairs += 1;
        audit.greatest_age = audit.greatest_age.max(position.subtable + 1);
    }
    Ok(audit)
}

/// Checks the seed numbers in one word.
fn audit_seeds(functions: &Functions, image: &[u64], word: u64) -> Result<(), Violation> {
    for bucket in buckets_of(functions, image, word)? {
        if functions.seed(image, bucket) >= functions.seeds() {
            return Err(Violation::Bucket {
                bucket: bucket.into(),
                reason: "its seed number is past the end of the list",
            });
        }
        let first = Functions::word(bucket, 0, 0);
        let slots = &image[first..first + BUCKET_SLOTS as usize];
        if slots.iter().filter(|&&word| pair(word).is_some()).count() > BUCKET_PAIRS as usize {
            return Err(Violation::Bucket { bucket: bucket.into(), reason: "it holds more than 512 pairs" });
        }
    }
    Ok(())
}
