//! The CPU's tables compared with the sequential reference, on one thread and on more than the machine has.

use crate::backend::scheme_tests::{a_batch_of_duplicates_is_counted, audited, counted};
use crate::backend::{HashBackend, Placed};
use crate::cpu::Cpu;
use crate::cpu::tests::schemes::{self, Pairs, all_are_found, built, keys_of, shuffled};
use crate::scheme::cuckoo::{CuckooPlan, HashFamily, Reinsertion};
use crate::scheme::hash::SplitMix64;
use crate::scheme::{Cuckoo, Kind, Placing, Plan, Request, Scheme};

const SIZES: [usize; 9] = [0, 1, 2, 7, 127, 128, 129, 1000, 100_000];

/// Distinct keys with distinct values.
fn distinct(count: usize) -> Pairs {
    (0..count as u32).map(|i| (i.wrapping_mul(0x9e37_79b9) ^ 0x5555, !i)).collect()
}

fn planned(scheme: &Cuckoo, pairs: usize, load: f64, attempt: u32) -> CuckooPlan {
    let slots = (pairs as f64 / load).ceil() as u64;
    scheme.plan(Request { slots, pairs: pairs as u64, seed: 5, attempt }).expect("a plan")
}

fn cpus() -> [Cpu; 4] {
    schemes::with_threads([1, 2, 3, 8])
}

/// The image of the sequential rule, and the number of duplicates; `None` if a pair found no slot.
fn reference(plan: &CuckooPlan, pairs: &[(u32, u32)]) -> Option<(Vec<u64>, u64)> {
    let mut image = vec![plan.empty_word(); plan.words() as usize];
    let mut duplicates = 0;
    for &(key, value) in pairs {
        match Cuckoo::place(plan, &mut image, &[(key, value)]) {
            Placing::Placed => {}
            Placing::Duplicate(_) => duplicates += 1,
            Placing::Unplaced => return None,
        }
    }
    Some((image, duplicates))
}

/// A plan for which the reference builds, and its image.
fn referenced(scheme: &Cuckoo, pairs: &[(u32, u32)], load: f64) -> (CuckooPlan, Vec<u64>, u64) {
    let attempt = |attempt| {
        let plan = planned(scheme, pairs.len(), load, attempt);
        reference(&plan, pairs).map(|(image, duplicates)| (plan, image, duplicates))
    };
    (0..16).find_map(attempt).expect("one of sixteen attempts")
}

fn load_of(functions: u32) -> f64 {
    [0.45, 0.8, 0.8, 0.9][functions as usize - 2]
}

#[test]
fn canonical_images_equal_the_reference() {
    let cpus = cpus();
    for functions in 2..=5 {
        for size in SIZES {
            let pairs = distinct(size);
            let (plan, expected, _) = referenced(&Cuckoo::canonical(functions), &pairs, load_of(functions));
            audited(&plan, &expected);
            for cpu in &cpus {
                let mixed = shuffled(pairs.clone(), size as u64);
                let (first, second) = mixed.split_at(size / 3);
                for batches in [&[mixed.as_slice()][..], &[first, second]] {
                    let (image, placed) = built(cpu, &plan, batches);
                    assert_eq!(placed, Placed::default());
                    assert!(image == expected, "H {functions}, {size} pairs, {}", cpu.info().driver);
                }
            }
        }
    }
}

#[test]
fn canonical_duplicates_are_counted_exactly_on_any_number_of_threads() {
    let cpus = cpus();
    let mut stream = SplitMix64::new(1);
    let random: Pairs = (0..100_000).map(|_| (stream.next_u32() % 30_000 + 17, stream.next_u32() % 3)).collect();
    let equal: Pairs = (0..100_000).map(|i| (7, i * 3 % 100_000)).collect();
    let identical: Pairs = vec![(u32::MAX, 9); 100_000];
    let thrice: Pairs = distinct(30_000).repeat(3);
    for (name, pairs) in [("random", random), ("equal", equal), ("identical", identical), ("thrice", thrice)] {
        let expected_counts = counted(&pairs);
        for functions in 2..=5 {
            let (plan, expected, duplicates) = referenced(&Cuckoo::canonical(functions), &pairs, 0.9);
            assert_eq!(duplicates, expected_counts.duplicates);
            for cpu in &cpus {
                for seed in 0..3 {
                    let (image, placed) = built(cpu, &plan, &[&shuffled(pairs.clone(), seed)]);
                    assert_eq!(placed, expected_counts, "{name}, H {functions}, {}", cpu.info().driver);
                    assert!(image == expected, "{name}, H {functions}, {}", cpu.info().driver);
                }
            }
        }
    }
}

#[test]
fn duplicates_of_pairs_in_the_image_are_counted() {
    for scheme in [Cuckoo::canonical(4), Cuckoo::classic(4)] {
        let pairs = distinct(20_000);
        let (plan, _, _) = referenced(&scheme, &pairs, 0.5);
        let again: Pairs = pairs[5_000..5_100].to_vec();
        let least_duplicate = again.iter().map(|&(key, _)| key).min();
        for cpu in cpus() {
            let (_, placed) = built(&cpu, &plan, &[&pairs, &again]);
            assert_eq!(placed, Placed { duplicates: 100, least_duplicate, ..Placed::default() });
            if scheme.kind() == Kind::Canonical {
                a_batch_of_duplicates_is_counted(&cpu, &plan, 100_000).expect("placed");
            }
        }
    }
}

#[test]
fn more_pairs_than_slots_are_reported() {
    let pairs = distinct(1000);
    for scheme in [Cuckoo::canonical(3), Cuckoo::classic(3)] {
        let plan = scheme.plan(Request { slots: 900, pairs: 1000, seed: 1, attempt: 0 }).expect("a plan");
        for cpu in cpus() {
            let (_, placed) = built(&cpu, &plan, &[&pairs]);
            assert!(placed.unplaced > 0);
        }
    }
}

#[test]
fn classic_builds_pass_the_audit_with_each_family_and_rule() {
    let cpus = cpus();
    let pairs = distinct(50_000);
    for functions in 2..=5 {
        for family in HashFamily::ALL {
            for rule in Reinsertion::ALL {
                let scheme = Cuckoo::classic(functions).family(family).reinsertion(rule);
                for cpu in &cpus {
                    let attempts = (0..64).map(|attempt| {
                        let plan = planned(&scheme, pairs.len(), load_of(functions) - 0.05, attempt);
                        (plan, built(cpu, &plan, &[&pairs]))
                    });
                    let (plan, (image, placed)) =
                        attempts.into_iter().find(|(_, (_, placed))| placed.unplaced == 0).expect("an attempt");
                    assert_eq!(placed, Placed::default());
                    assert_eq!(audited(&plan, &image).pairs, 50_000);
                    all_are_found(cpu, &plan, &image, &pairs);
                }
            }
        }
    }
}

#[test]
fn one_thread_repeats_a_classic_build() {
    let cpu = Cpu::with_threads(1).expect("a thread");
    let pairs = distinct(100_000);
    let plan = planned(&Cuckoo::classic(4), pairs.len(), 0.8, 0);
    let (image, placed) = built(&cpu, &plan, &[&pairs]);
    assert_eq!(placed, Placed::default());
    for _ in 0..3 {
        assert!(built(&cpu, &plan, &[&pairs]).0 == image);
    }
}

#[test]
fn classic_duplicates_and_the_sentinel_key() {
    let mut pairs = distinct(10_000);
    pairs.retain(|&(key, _)| key != u32::MAX);
    let count = pairs.len() as u64;
    pairs.extend([pairs[17], pairs[17], pairs[4_000]]);
    let least_duplicate = Some(pairs[17].0.min(pairs[4_000].0));
    let plan = planned(&Cuckoo::classic(4), pairs.len(), 0.5, 0);
    for cpu in cpus() {
        let (_, placed) = built(&cpu, &plan, &[&pairs]);
        assert_eq!(placed, Placed { duplicates: 3, least_duplicate, ..Placed::default() });

        let mut marked = pairs.clone();
        marked.push((u32::MAX, 5));
        let (image, placed) = built(&cpu, &plan, &[&marked]);
        assert_eq!(placed, Placed { duplicates: 3, least_duplicate, outside: Some(5), unplaced: 0, stash: 0 });
        assert_eq!(image.iter().filter(|&&word| word != plan.empty_word()).count() as u64, count + 3);
        schemes::sentinel_pairs(&cpu, &plan);
    }
}

#[test]
fn lookups_agree_with_the_reference_on_hits_and_misses() {
    for functions in 2..=5 {
        for scheme in [Cuckoo::canonical(functions), Cuckoo::classic(functions)] {
            for size in [0, 1, 2, 127, 128, 1000, 40_000] {
                let pairs = distinct(size);
                let (plan, image, _) = referenced(&scheme, &pairs, load_of(functions) - 0.05);
                let mut stream = SplitMix64::new(3);
                let mut queries = keys_of(&pairs);
                queries.extend((0..2 * size + 37).map(|_| stream.next_u32()));
                queries.extend([0, u32::MAX, 0]);
                schemes::lookups_agree(&schemes::with_threads([1, 3]), &plan, &image, &queries);
            }
        }
    }
}

#[test]
fn assign_changes_values_and_nothing_else() {
    for scheme in [Cuckoo::canonical(4), Cuckoo::classic(4)] {
        let pairs = distinct(30_000);
        let (plan, image, _) = referenced(&scheme, &pairs, 0.8);
        schemes::assigned(&cpus(), &plan, &image, &pairs);
    }
}

#[test]
fn decode_is_the_pair_of_each_slot() {
    for scheme in [Cuckoo::canonical(4), Cuckoo::classic(4)] {
        for size in [0, 1, 100, 25_000] {
            let (plan, image, _) = referenced(&scheme, &distinct(size), 0.8);
            schemes::decoded(&cpus(), &plan, &image, size);
        }
    }
}

#[test]
fn any_image_can_be_read_and_built_on() {
    let [cpu] = schemes::with_threads([2]);
    let pairs = distinct(3000);
    for scheme in [Cuckoo::canonical(3), Cuckoo::classic(3)] {
        let plan = scheme.plan(Request { slots: 5000, pairs: 3000, seed: 2, attempt: 0 }).expect("a plan");
        schemes::arbitrary_images(&cpu, &plan, &pairs, &keys_of(&pairs));
    }
}
