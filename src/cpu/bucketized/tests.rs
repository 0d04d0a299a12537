//! The CPU's tables compared with the sequential reference, on one thread and on more than the machine has.

mod canonical;
mod parts;

use crate::backend::scheme_tests::{audited, counted, sequential};
use crate::backend::{HashBackend, Kernels, Placed, Removed};
use crate::cpu::Cpu;
use crate::cpu::tests::schemes::{self, Pairs, answers, built, columns, keys_of, placed, shuffled};
use crate::error::Result;
use crate::scheme::bucketized::BucketizedPlan;
use crate::scheme::hash::SplitMix64;
use crate::scheme::{Bucketized, Insertion, Kind, LookupMode, Placing, Plan, Request, Scheme, slot};

/// Distinct keys with distinct values; both include 0 and the greatest.
fn distinct(count: usize) -> Pairs {
    (0..count as u32).map(|i| (i.wrapping_mul(0x9e37_79b9) ^ 0u32.wrapping_sub(i & 1), !i.wrapping_sub(1))).collect()
}

fn cpus() -> [Cpu; 2] {
    schemes::with_threads([1, 3])
}

/// A plan for which the reference builds, and its image.
fn referenced(scheme: &Bucketized, pairs: &[(u32, u32)], slots: u64) -> (BucketizedPlan, Vec<u64>) {
    let attempt = |attempt| {
        let plan = scheme.plan(Request { slots, pairs: pairs.len() as u64, seed: 5, attempt }).expect("a plan");
        let (image, placing) = sequential(&plan, pairs);
        (placing != Placing::Unplaced).then_some((plan, image))
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
            assert_eq!(audited(&plan, &image).pairs, pairs.len() as u64);
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
        schemes::sentinel_pairs(&cpu, &plan);
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
            let mut queries = keys_of(&pairs);
            queries.extend((0..2 * size + 37).map(|_| stream.next_u32()));
            let mut queries = keys_of(&shuffled(queries.iter().map(|&key| (key, 0)).collect(), 1));
            queries.extend([0, u32::MAX, 0]);
            for image in [&image, &after] {
                schemes::lookups_agree(&cpus(), &plan, image, &queries);
            }
        }
    }
}

#[test]
fn assign_changes_values_and_nothing_else() {
    for scheme in every_scheme() {
        let pairs: Pairs = distinct(30_000).into_iter().filter(|&(key, _)| key != u32::MAX).collect();
        let (plan, image) = referenced(&scheme, &pairs, slots_for(30_000, 0.9));
        schemes::assigned(&cpus(), &plan, &image, &pairs);
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
            schemes::decoded(&cpus(), &plan, &image, pairs.len());
        }
    }
}

#[test]
fn any_image_can_be_read_and_built_on() {
    let [cpu] = schemes::with_threads([2]);
    let pairs = distinct(3000);
    for scheme in every_scheme() {
        let plan = scheme.plan(Request { slots: 4096, pairs: 3000, seed: 2, attempt: 0 }).expect("a plan");
        schemes::arbitrary_images(&cpu, &plan, &pairs, &keys_of(&pairs));
    }
}
