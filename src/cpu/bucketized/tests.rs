//! The CPU's tables compared with the sequential reference, on one thread and on more than the machine has.

mod canonical;
mod parts;

use std::collections::HashMap;

use crate::backend::{Decoded, HashBackend, Kernels, Placed, Removed, bitmap_words};
use crate::cpu::{Cpu, Memory};
use crate::error::Result;
use crate::scheme::bucketized::BucketizedPlan;
use crate::scheme::hash::SplitMix64;
use crate::scheme::{Bucketized, Insertion, Kind, LookupMode, Placing, Plan, Request, Scheme, slot};

type Pairs = Vec<(u32, u32)>;

/// Distinct keys with distinct values; both include 0 and the greatest.
fn distinct(count: usize) -> Pairs {
    (0..count as u32).map(|i| (i.wrapping_mul(0x9e37_79b9) ^ 0u32.wrapping_sub(i & 1), !i.wrapping_sub(1))).collect()
}

fn shuffled(mut pairs: Pairs, seed: u64) -> Pairs {
    let mut stream = SplitMix64::new(seed);
    for i in (1..pairs.len()).rev() {
        pairs.swap(i, stream.next_u64() as usize % (i + 1));
    }
    pairs
}

fn cpus() -> Vec<Cpu> {
    [1, 3].map(|threads| Cpu::with_threads(threads).expect("threads")).into()
}

fn columns(cpu: &Cpu, pairs: &[(u32, u32)]) -> (Memory<u32>, Memory<u32>) {
    let (keys, values): (Vec<u32>, Vec<u32>) = pairs.iter().copied().unzip();
    (cpu.upload(&keys).expect("memory"), cpu.upload(&values).expect("memory"))
}

fn placed(cpu: &Cpu, plan: &BucketizedPlan, image: &mut Memory<u64>, pairs: &[(u32, u32)]) -> Placed {
    let (keys, values) = columns(cpu, pairs);
    Kernels::<Bucketized>::place(cpu, plan, image, &keys, &values).expect("placed")
}

fn built(cpu: &Cpu, plan: &BucketizedPlan, batches: &[&[(u32, u32)]]) -> (Vec<u64>, Placed) {
    let mut image = cpu.filled(plan.words() as usize, plan.empty_word()).expect("memory");
    let counted = batches.iter().map(|batch| placed(cpu, plan, &mut image, batch)).last();
    (image.words().to_vec(), counted.unwrap_or_default())
}

/// A plan for which the reference builds, and its image.
fn referenced(scheme: &Bucketized, pairs: &[(u32, u32)], slots: u64) -> (BucketizedPlan, Vec<u64>) {
    let attempt = |attempt| {
        let plan = scheme.plan(Request { slots, pairs: pairs.len() as u64, seed: 5, attempt }).expect("a plan");
        let mut image = vec![plan.empty_word(); plan.words() as usize];
        (Bucketized::place(&plan, &mut image, pairs) != Placing::Unplaced).then_some((plan, image))
    };
    (0..16).find_map(attempt).expect("one of sixteen attempts")
}

fn slots_for(pairs: usize, load: f64) -> u64 {
    (pairs as f64 / load).ceil() as u64
}

fn every_scheme() -> Vec<Bucketized> {
    let mut schemes: Vec<Bucketized> = [4, 8, 16].map(Bucketized::canonical).into();
    for mode in LookupMode::ALL {
        for (functions, slots) in [(2, 4), (2, 8), (3, 16), (4, 8)] {
            schemes.push(Bucketized::classic(functions, slots).lookup_mode(mode));
        }
    }
    schemes
}

fn looked_up(cpu: &Cpu, plan: &BucketizedPlan, image: &[u64], queries: &[u32]) -> Vec<Option<u32>> {
    let image = cpu.upload(image).expect("memory");
    let queries = cpu.upload(queries).expect("memory");
    let len = queries.words().len();
    let mut values = cpu.filled(len, 77).expect("memory");
    let mut found = cpu.filled(bitmap_words(len), u32::MAX).expect("memory");
    Kernels::<Bucketized>::lookup(cpu, plan, &image, &queries, &mut values, &mut found).expect("looked up");
    let bit = |i: usize| found.words()[i / 32] >> (i % 32) & 1 == 1;
    assert!((len..32 * found.words().len()).all(|i| !bit(i)), "bits past the end");
    let answer = |i: usize| {
        assert!(bit(i) || values.words()[i] == 0, "a miss is 0");
        bit(i).then_some(values.words()[i])
    };
    (0..len).map(answer).collect()
}

#[test]
fn duplicates_of_pairs_in_the_image_are_counted() {
    for scheme in every_scheme() {
        let pairs: Pairs = distinct(20_000).into_iter().filter(|&(key, _)| key != u32::MAX).collect();
        let (plan, _) = referenced(&scheme, &pairs, slots_for(20_000, 0.9));
        let again: Pairs = pairs[5_000..5_100].to_vec();
        let least_duplicate = again.iter().map(|&(key, _)| key).min();
        for cpu in cpus() {
            let (image, placed) = built(&cpu, &plan, &[&pairs, &again]);
            assert_eq!(placed, Placed { duplicates: 100, least_duplicate, ..Placed::default() });
            let found = Bucketized::audit(&plan, &image, 0..plan.words()).map(|audit| audit.pairs);
            assert_eq!(found, Ok(pairs.len() as u64));
        }
    }
}

#[test]
fn more_pairs_than_slots_are_reported() {
    let pairs = distinct(1100);
    for scheme in every_scheme() {
        let plan = scheme.plan(Request { slots: 900, pairs: 1100, seed: 1, attempt: 0 }).expect("a plan");
        for cpu in cpus() {
            assert!(built(&cpu, &plan, &[&pairs]).1.unplaced > 0);
        }
    }
}

#[test]
fn classic_images_equal_the_reference() {
    let mut pairs = distinct(20_000);
    pairs.retain(|&(key, _)| key != u32::MAX);
    for insertion in Insertion::ALL {
        for scheme in every_scheme().into_iter().filter(|scheme| scheme.kind() == Kind::Classic) {
            let (plan, expected) = referenced(&scheme.insertion(insertion), &pairs, slots_for(20_000, 0.92));
            for cpu in cpus() {
                let (image, placed) = built(&cpu, &plan, &[&pairs]);
                assert_eq!(placed, Placed::default());
                assert!(image == expected);
            }
        }
    }
}

#[test]
fn classic_duplicates_and_the_sentinel_key() {
    let mut pairs = distinct(10_000);
    pairs.retain(|&(key, _)| key != u32::MAX);
    let count = pairs.len();
    pairs.extend([pairs[17], pairs[17], pairs[4_000]]);
    let least_duplicate = Some(pairs[17].0.min(pairs[4_000].0));
    let (plan, _) = referenced(&Bucketized::classic(2, 8), &pairs, slots_for(pairs.len(), 0.9));
    for cpu in cpus() {
        let (_, placed) = built(&cpu, &plan, &[&pairs]);
        assert_eq!(placed, Placed { duplicates: 3, least_duplicate, ..Placed::default() });
        let mut marked = pairs.clone();
        marked.insert(600, (u32::MAX, 5));
        let (image, placed) = built(&cpu, &plan, &[&marked]);
        assert_eq!(placed, Placed { duplicates: 3, least_duplicate, outside: Some(5), unplaced: 0, stash: 0 });
        assert_eq!(image.iter().filter(|&&word| word != plan.empty_word()).count(), count);
        let only = [(u32::MAX, 3), (u32::MAX, 8), (u32::MAX, 1)];
        let (_, placed) = built(&cpu, &plan, &[&only]);
        assert_eq!(
            placed,
            Placed { duplicates: 2, least_duplicate: Some(u32::MAX), outside: Some(8), unplaced: 0, stash: 0 }
        );
        let (_, placed) = built(&cpu, &plan.with_outside(Some(1)), &[&only]);
        assert_eq!(
            placed,
            Placed { duplicates: 3, least_duplicate: Some(u32::MAX), outside: Some(8), unplaced: 0, stash: 0 }
        );
        assert_eq!(built(&cpu, &plan.with_outside(Some(1)), &[&[]]).1, Placed::default());
    }
}

#[test]
fn lookups_agree_with_the_reference_on_hits_and_misses() {
    for scheme in every_scheme() {
        for size in [0, 1, 127, 1000, 30_000] {
            let mut pairs = distinct(size);
            if scheme.kind() == Kind::Classic {
                pairs.retain(|&(key, _)| key != u32::MAX);
            }
            let (plan, image) = referenced(&scheme, &pairs, slots_for(size, 0.93));
            let mut after = image.clone();
            let gone: Vec<u32> = pairs.iter().step_by(3).map(|&(key, _)| key).collect();
            assert_eq!(Bucketized::remove(&plan, &mut after, &gone), gone.len() as u64);
            let mut stream = SplitMix64::new(3);
            let mut queries: Vec<u32> = pairs.iter().map(|&(key, _)| key).collect();
            queries.extend((0..2 * size + 37).map(|_| stream.next_u32()));
            let mut queries: Vec<u32> =
                shuffled(queries.iter().map(|&key| (key, 0)).collect(), 1).iter().map(|q| q.0).collect();
            queries.extend([0, u32::MAX, 0]);
            for plan in [plan, plan.with_outside(Some(0)), plan.with_outside(Some(u32::MAX))] {
                if plan.outside().is_some() && plan.kind() == Kind::Canonical {
                    continue;
                }
                for image in [&image, &after] {
                    let expected: Vec<_> = queries.iter().map(|&key| Bucketized::find(&plan, image, key)).collect();
                    for cpu in cpus() {
                        for len in [0, 1, 31, 32, 33, 127, 128, 129, 5000, queries.len()] {
                            let start = queries.len() - len.min(queries.len());
                            let found = looked_up(&cpu, &plan, image, &queries[start..]);
                            assert!(found == expected[start..], "{scheme:?} {size} {len}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn assign_changes_values_and_nothing_else() {
    for scheme in every_scheme() {
        let pairs: Pairs = distinct(30_000).into_iter().filter(|&(key, _)| key != u32::MAX).collect();
        let (plan, image) = referenced(&scheme, &pairs, slots_for(30_000, 0.9));
        let mut after: HashMap<u32, u32> = pairs.iter().copied().collect();
        let mut changes: Pairs = pairs.iter().step_by(3).map(|&(key, value)| (key, value ^ 0xffff)).collect();
        after.extend(changes.iter().copied());
        let absent = (0..).find(|key| !after.contains_key(key)).expect("an absent key");
        changes.extend([(u32::MAX, 4), (absent, 5)]);
        for cpu in cpus() {
            let mut memory = cpu.upload(&image).expect("memory");
            let (keys, values) = columns(&cpu, &changes);
            Kernels::<Bucketized>::assign(&cpu, &plan, &mut memory, &keys, &values).expect("assigned");
            assert!(memory.words().iter().zip(&image).all(|(new, old)| new >> 32 == old >> 32));
            assert!(after.iter().all(|(&key, &value)| Bucketized::find(&plan, memory.words(), key) == Some(value)));
        }
    }
}

#[test]
fn removing_counts_each_key_once_and_equals_the_reference() {
    for scheme in every_scheme() {
        let pairs: Pairs = distinct(30_000).into_iter().filter(|&(key, _)| key != u32::MAX).collect();
        let (plan, image) = referenced(&scheme, &pairs, slots_for(30_000, 0.95));
        let mut gone: Vec<u32> = pairs.iter().step_by(3).map(|&(key, _)| key).collect();
        let (count, mut expected) = (gone.len() as u64, image.clone());
        assert_eq!(Bucketized::remove(&plan, &mut expected, &gone), count);
        // Keys repeated, adjacent and far apart, and keys that are absent.
        gone.extend(gone.clone().iter().flat_map(|&key| [key, key]));
        gone.extend((0..5000).filter(|key| Bucketized::find(&plan, &image, *key).is_none()));
        for cpu in cpus() {
            for outside in [false, true] {
                let mut keys = gone.clone();
                keys.extend(outside.then_some(u32::MAX));
                let mut memory = cpu.upload(&image).expect("memory");
                let removed =
                    Kernels::<Bucketized>::remove(&cpu, &plan, &mut memory, &cpu.upload(&keys).expect("memory"))
                        .expect("removed");
                let outside = outside && scheme.kind() == Kind::Classic;
                assert_eq!(removed, Removed { pairs: count, outside });
                assert!(memory.words() == expected);
            }
        }
    }
}

#[test]
fn decode_is_the_pair_of_each_slot() {
    for scheme in every_scheme() {
        for size in [0, 1, 25_000] {
            let pairs: Pairs = distinct(size).into_iter().filter(|&(key, _)| key != u32::MAX).collect();
            let (plan, image) = referenced(&scheme, &pairs, slots_for(size, 0.9));
            for cpu in cpus() {
                let Decoded { keys, values, taken } =
                    Kernels::<Bucketized>::decode(&cpu, &plan, &cpu.upload(&image).expect("memory")).expect("decoded");
                for at in 0..image.len() {
                    let pair = (keys.words()[at], values.words()[at]);
                    let there = taken.words()[at / 32] >> (at % 32) & 1 == 1;
                    assert_eq!(there.then_some(pair), Bucketized::pair(&plan, &image, at as u64));
                    assert!(there || pair == (0, 0));
                }
            }
        }
    }
}

#[test]
fn any_image_can_be_read_and_built_on() -> Result<()> {
    let cpu = Cpu::with_threads(2)?;
    let mut stream = SplitMix64::new(8);
    let noise: Vec<u64> = (0..4096).map(|_| stream.next_u64()).collect();
    let pairs = distinct(3000);
    for scheme in every_scheme() {
        let plan = scheme.plan(Request { slots: 4096, pairs: 3000, seed: 2, attempt: 0 })?;
        for word in [0, u64::MAX, 1, 1 << 63] {
            let image: Vec<u64> = noise.iter().map(|&noise| if word == 1 { noise } else { word }).collect();
            let mut image = cpu.upload(&image)?;
            let (keys, values) = columns(&cpu, &pairs);
            looked_up(&cpu, &plan, image.words(), keys.words());
            Kernels::<Bucketized>::decode(&cpu, &plan, &image)?;
            Kernels::<Bucketized>::assign(&cpu, &plan, &mut image, &keys, &values)?;
            Kernels::<Bucketized>::place(&cpu, &plan, &mut image, &keys, &values)?;
            Kernels::<Bucketized>::remove(&cpu, &plan, &mut image, &keys)?;
        }
    }
    Ok(())
}
