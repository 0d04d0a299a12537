//! The paper's baseline: a bucketized cuckoo table (BCHT) as Breslow et al. 2016 describe it in Section 3.
//!
//! ```text
//! place:   load-balancing: the candidate with the most free slots, ties decided by the key
//!          first-fit:      the first candidate with a free slot
//!          all full:       breadth-first search, from the candidates, for a bucket with a free slot;
//!                          a bucket leads to the other buckets of its pairs; at most `reach` buckets are visited;
//!                          then every pair on the path moves by one bucket, from the far end
//! find:    bandwidth-optimized: candidate by candidate, until the key is found;  latency-optimized: all of them
//! ```
//!
//! Slots are `[key][value]`, and the pair whose key marks empty slots is stored outside the image, as in the classic
//! cuckoo table.
//!
//! A lookup does not stop at a bucket with a free slot. A pair that was placed while its first bucket was full stays in
//! its second one when others are removed from the first, so every candidate is searched.

use std::ops::Range;

use super::{BucketizedPlan, Functions, Insertion, LookupMode};
use crate::scheme::cuckoo::classic::{EMPTY, EMPTY_KEY, entry, key, pair};
use crate::scheme::{Audit, Placing, Violation};

/// The number of buckets read, and the key's word. The sentinel key takes no reads: its pair is stored in the plan.
pub(crate) fn search(plan: &BucketizedPlan, functions: &Functions, image: &[u64], wanted: u32) -> (u32, Option<u64>) {
    if wanted == EMPTY_KEY {
        return (0, None);
    }
    let slots = u64::from(plan.bucket_slots);
    for (i, bucket) in functions.locations(wanted).enumerate() {
        if let Some(at) = plan.bucket(image, bucket).iter().position(|&word| key(word) == wanted) {
            let reads = match plan.lookup_mode() {
                LookupMode::BandwidthOptimized => i as u32 + 1,
                LookupMode::LatencyOptimized => functions.count,
            };
            return (reads, Some(u64::from(bucket) * slots + at as u64));
        }
    }
    (functions.count, None)
}

/// The candidate for a new pair; `None` if all candidates are full.
pub(crate) fn candidate(plan: &BucketizedPlan, functions: &Functions, image: &[u64], key: u32) -> Option<u32> {
    let free = |bucket: u32| plan.bucket(image, bucket).iter().filter(|&&word| word == EMPTY).count();
    match plan.insertion() {
        Insertion::FirstFit => functions.locations(key).find(|&bucket| free(bucket) > 0),
        Insertion::LoadBalancing => {
            let first = functions.first_choice(key);
            // `max_by_key` returns the last of equal ones, so the order is reversed.
            let order =
                (0..functions.count).rev().map(|i| functions.location(((first + i) % functions.count) as usize, key));
            order.max_by_key(|&bucket| free(bucket)).filter(|&bucket| free(bucket) > 0)
        }
    }
}

/// A bucket reached by moving one pair of another bucket to it.
struct Step {
    bucket: u32,
    /// The previous step, and the word of the image that would move from its bucket to this one.
    from: Option<(usize, u64)>,
}

/// Adds one pair.
pub(crate) fn place(plan: &BucketizedPlan, functions: &Functions, image: &mut [u64], new: u32, value: u32) -> Placing {
    if new == EMPTY_KEY || search(plan, functions, image, new).1.is_some() {
        return Placing::Duplicate(new);
    }
    let free_bucket = match candidate(plan, functions, image, new) {
        Some(bucket) => Some(bucket),
        None => free_slot(plan, functions, image, new),
    };
    let Some(bucket) = free_bucket else { return Placing::Unplaced };
    match plan.bucket_mut(image, bucket).iter_mut().find(|word| **word == EMPTY) {
        Some(free) => {
            *free = entry(new, value);
            Placing::Placed
        }
        None => Placing::Unplaced,
    }
}

/// Frees a slot in a candidate of the key by moving other pairs along a shortest path.
fn free_slot(plan: &BucketizedPlan, functions: &Functions, image: &mut [u64], key_in: u32) -> Option<u32> {
    let slots = u64::from(plan.bucket_slots);
    let free = |image: &[u64], bucket: u32| plan.bucket(image, bucket).iter().position(|&word| word == EMPTY);
    let mut steps: Vec<Step> = functions.locations(key_in).map(|bucket| Step { bucket, from: None }).collect();
    let mut at = 0;
    let end = 'search: loop {
        let bucket = steps.get(at)?.bucket;
        for i in 0..slots {
            let word = u64::from(bucket) * slots + i;
            for next in functions.locations(key(image[word as usize])).filter(|&next| next != bucket) {
                steps.push(Step { bucket: next, from: Some((at, word)) });
                if free(image, next).is_some() {
                    break 'search steps.len() - 1;
                }
                if steps.len() >= plan.reach as usize {
                    return None;
                }
            }
        }
        at += 1;
    };
    // Begins at the far end: each pair moves to the slot that has just become free. The path contains no bucket twice,
    // because a breadth-first search would have found a shorter path first.
    let mut step = end;
    while let Some((before, word)) = steps[step].from {
        let to = free(image, steps[step].bucket)?;
        let to = steps[step].bucket as usize * slots as usize + to;
        image[to] = std::mem::replace(&mut image[word as usize], EMPTY);
        step = before;
    }
    Some(steps[step].bucket)
}

/// Empties the slot of the key's pair.
pub(crate) fn remove(plan: &BucketizedPlan, functions: &Functions, image: &mut [u64], gone: u32) -> bool {
    let found = search(plan, functions, image, gone).1;
    if let Some(at) = found {
        image[at as usize] = EMPTY;
    }
    found.is_some()
}

/// The function (from 1) that maps a pair to its bucket; 0 for an empty slot.
pub(crate) fn age(functions: &Functions, bucket: u32, word: u64) -> u32 {
    let first = || functions.locations(key(word)).position(|location| location == bucket);
    pair(word).and_then(|_| first()).map_or(0, |i| i as u32 + 1)
}

/// Checks that every pair is in one of its buckets, and that keys are unique.
pub(crate) fn audit(
    plan: &BucketizedPlan,
    functions: &Functions,
    image: &[u64],
    range: Range<u64>,
) -> Result<Audit, Violation> {
    let mut audit = Audit::default();
    for slot in range {
        let word = image[slot as usize];
        let bucket = (slot / u64::from(plan.bucket_slots)) as u32;
        let Some((key_here, _)) = pair(word) else {
            if word != EMPTY {
                return Err(Violation::Word { slot, word });
            }
            continue;
        };
        let age = age(functions, bucket, word);
        if age == 0 {
            return Err(Violation::Misplaced { slot, key: key_here.into() });
        }
        if let Some(other) = search(plan, functions, image, key_here).1.filter(|&other| other != slot) {
            return Err(Violation::Twice { slot, other, key: key_here.into() });
        }
        audit.pairs += 1;
        audit.greatest_age = audit.greatest_age.max(age);
    }
    Ok(audit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheme::{Bucketized, Plan, Request, Scheme};

    fn built(scheme: &Bucketized, count: u32, load: f64) -> (BucketizedPlan, Vec<u64>, Placing) {
        let slots = (f64::from(count) / load) as u64;
        let plan = scheme.plan(Request { slots, pairs: count.into(), seed: 3, attempt: 0 }).expect("a plan");
        let mut image = vec![EMPTY; plan.words() as usize];
        let pairs: Vec<_> = (0..count).map(|i| (i.wrapping_mul(0x9e37_79b9), i)).collect();
        let placing = Bucketized::place(&plan, &mut image, &pairs);
        (plan, image, placing)
    }

    fn reads_per_hit(plan: &BucketizedPlan, image: &[u64]) -> f64 {
        let keys: Vec<u32> = image.iter().filter_map(|&word| pair(word)).map(|(key, _)| key).collect();
        let reads: u64 = keys.iter().map(|&key| u64::from(Bucketized::reads(plan, image, key))).sum();
        reads as f64 / keys.len() as f64
    }

    #[test]
    fn the_reads_of_the_paper_for_both_policies() {
        let (plan, image, placing) = built(&Bucketized::classic(2, 8), 60_000, 0.9);
        assert_eq!(placing, Placing::Placed);
        // 1.5 buckets per hit, because both functions are used equally.
        assert!((reads_per_hit(&plan, &image) - 1.5).abs() < 0.02);
        let first_fit = Bucketized::classic(2, 8).insertion(Insertion::FirstFit);
        let (plan, image, placing) = built(&first_fit, 60_000, 0.9);
        assert_eq!(placing, Placing::Placed);
        assert!(reads_per_hit(&plan, &image) < 1.3);
        assert_eq!(Bucketized::audit(&plan, &image, 0..plan.words()).map(|audit| audit.pairs), Ok(60_000));
        let latency = built(&first_fit.lookup_mode(LookupMode::LatencyOptimized), 1000, 0.9);
        assert_eq!(reads_per_hit(&latency.0, &latency.1), 2.0);
    }

    #[test]
    fn the_breadth_first_search_fills_tables_beyond_ninety_five_percent() {
        for insertion in Insertion::ALL {
            for (functions, slots, load) in [(2, 8, 0.96), (2, 4, 0.93), (3, 4, 0.96)] {
                let (plan, image, placing) =
                    built(&Bucketized::classic(functions, slots).insertion(insertion), 30_000, load);
                assert_eq!(placing, Placing::Placed, "{insertion:?}, f = {functions}, S = {slots}");
                let audit = Bucketized::audit(&plan, &image, 0..plan.words());
                assert_eq!(audit.map(|audit| audit.pairs), Ok(30_000));
            }
        }
    }

    #[test]
    fn failed_searches_terminate() {
        let (_, _, placing) = built(&Bucketized::classic(2, 4).reach(64), 4001, 1.0001);
        assert_eq!(placing, Placing::Unplaced);
    }

    #[test]
    fn removed_slots_are_reused() {
        let (plan, mut image, _) = built(&Bucketized::classic(2, 8), 1000, 0.99);
        let keys: Vec<u32> = (0..500u32).map(|i| i.wrapping_mul(0x9e37_79b9)).collect();
        assert_eq!(Bucketized::remove(&plan, &mut image, &keys), 500);
        let again: Vec<_> = keys.iter().map(|&key| (key, 1)).collect();
        assert_eq!(Bucketized::place(&plan, &mut image, &again), Placing::Placed);
        assert!(keys.iter().all(|&key| Bucketized::find(&plan, &image, key) == Some(1)));
        assert_eq!(Bucketized::audit(&plan, &image, 0..plan.words()).map(|audit| audit.pairs), Ok(1000));
    }
}
