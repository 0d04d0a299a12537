//! The CPU's tables compared with the sequential reference, on one thread and on more than the machine has.

use std::collections::HashMap;

use crate::backend::{Decoded, HashBackend, Kernels, Placed, bitmap_words};
use crate::cpu::{Cpu, Memory};
use crate::error::Result;
use crate::scheme::cuckoo::{CuckooPlan, HashFamily, Reinsertion};
use crate::scheme::hash::SplitMix64;
use crate::scheme::{Cuckoo, Placing, Plan, Request, Scheme};

const THREADS: [usize; 4] = [1, 2, 3, 8];
const SIZES: [usize; 9] = [0, 1, 2, 7, 127, 128, 129, 1000, 100_000];

type Pairs = Vec<(u32, u32)>;

/// Distinct keys with distinct values.
fn distinct(count: usize) -> Pairs {
    (0..count as u32).map(|i| (i.wrapping_mul(0x9e37_79b9) ^ 0x5555, !i)).collect()
}

fn shuffled(mut pairs: Pairs, seed: u64) -> Pairs {
    let mut stream = SplitMix64::new(seed);
    for i in (1..pairs.len()).rev() {
        pairs.swap(i, stream.next_u64() as usize % (i + 1));
    }
    pairs
}

fn planned(scheme: &Cuckoo, pairs: usize, load: f64, attempt: u32) -> CuckooPlan {
    let slots = (pairs as f64 / load).ceil() as u64;
    scheme.plan(Request { slots, pairs: pairs as u64, seed: 5, attempt }).expect("a plan")
}

fn cpus() -> impl Iterator<Item = Cpu> {
    THREADS.into_iter().map(|threads| Cpu::with_threads(threads).expect("threads"))
}

fn columns(cpu: &Cpu, pairs: &[(u32, u32)]) -> (Memory<u32>, Memory<u32>) {
    let (keys, values): (Vec<u32>, Vec<u32>) = pairs.iter().copied().unzip();
    (cpu.upload(&keys).expect("memory"), cpu.upload(&values).expect("memory"))
}

fn built(cpu: &Cpu, plan: &CuckooPlan, batches: &[&[(u32, u32)]]) -> (Vec<u64>, Placed) {
    let mut image = cpu.filled(plan.words() as usize, plan.empty_word()).expect("memory");
    let mut placed = Placed::default();
    for batch in batches {
        let (keys, values) = columns(cpu, batch);
        placed = Kernels::<Cuckoo>::place(cpu, plan, &mut image, &keys, &values).expect("placed");
    }
    (image.words().to_vec(), placed)
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

fn audited(plan: &CuckooPlan, image: &[u64]) -> Result<u64> {
    Ok(Cuckoo::audit(plan, image, 0..plan.slots())?.pairs)
}

fn load_of(functions: u32) -> f64 {
    [0.45, 0.8, 0.8, 0.9][functions as usize - 2]
}

fn looked_up(cpu: &Cpu, plan: &CuckooPlan, image: &[u64], queries: &[u32]) -> Vec<Option<u32>> {
    let image = cpu.upload(image).expect("memory");
    let queries = cpu.upload(queries).expect("memory");
    let len = queries.words().len();
    let mut values = cpu.filled(len, 77).expect("memory");
    let mut found = cpu.filled(bitmap_words(len), u32::MAX).expect("memory");
    Kernels::<Cuckoo>::lookup(cpu, plan, &image, &queries, &mut values, &mut found).expect("looked up");
    let bit = |i: usize| found.words()[i / 32] >> (i % 32) & 1 == 1;
    assert!((len..32 * found.words().len()).all(|i| !bit(i)), "bits past the end");
    let answer = |i: usize| {
        assert!(bit(i) || values.words()[i] == 0, "a miss is 0");
        bit(i).then_some(values.words()[i])
    };
    (0..len).map(answer).collect()
}

#[test]
fn canonical_images_equal_the_reference() {
    let cpus: Vec<Cpu> = cpus().collect();
    for functions in 2..=5 {
        for size in SIZES {
            let pairs = distinct(size);
            let (plan, expected, _) = referenced(&Cuckoo::canonical(functions), &pairs, load_of(functions));
            audited(&plan, &expected).expect("sound");
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
    let cpus: Vec<Cpu> = cpus().collect();
    let mut stream = SplitMix64::new(1);
    let random: Pairs = (0..100_000).map(|_| (stream.next_u32() % 30_000 + 17, stream.next_u32() % 3)).collect();
    let equal: Pairs = (0..100_000).map(|i| (7, i * 3 % 100_000)).collect();
    let identical: Pairs = vec![(u32::MAX, 9); 100_000];
    let thrice: Pairs = distinct(30_000).repeat(3);
    for (name, pairs) in [("random", random), ("equal", equal), ("identical", identical), ("thrice", thrice)] {
        let mut times: HashMap<u32, u64> = HashMap::new();
        pairs.iter().for_each(|(key, _)| *times.entry(*key).or_default() += 1);
        let duplicates = pairs.len() as u64 - times.len() as u64;
        let least_duplicate = times.iter().filter(|&(_, &times)| times > 1).map(|(&key, _)| key).min();
        for functions in 2..=5 {
            let (plan, expected, counted) = referenced(&Cuckoo::canonical(functions), &pairs, 0.9);
            assert_eq!(counted, duplicates);
            for cpu in &cpus {
                for seed in 0..3 {
                    let (image, placed) = built(cpu, &plan, &[&shuffled(pairs.clone(), seed)]);
                    let expected_counts = Placed { duplicates, least_duplicate, ..Placed::default() };
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
    let cpus: Vec<Cpu> = cpus().collect();
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
                    assert_eq!(audited(&plan, &image).expect("sound"), 50_000);
                    let queries: Vec<u32> = pairs.iter().map(|&(key, _)| key).collect();
                    let answers = looked_up(cpu, &plan, &image, &queries);
                    assert!(answers.iter().zip(&pairs).all(|(answer, &(_, value))| *answer == Some(value)));
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
        let (_, placed) = built(&cpu, &plan.with_outside(Some(1)), &[&[]]);
        assert_eq!(placed, Placed::default());
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
                let mut queries: Vec<u32> = pairs.iter().map(|&(key, _)| key).collect();
                queries.extend((0..2 * size + 37).map(|_| stream.next_u32()));
                queries.extend([0, u32::MAX, 0]);
                for cpu in [Cpu::with_threads(1), Cpu::with_threads(3)] {
                    let cpu = cpu.expect("threads");
                    for len in [0, 1, 31, 32, 33, 128, 129, queries.len()] {
                        let queries = &queries[queries.len() - len.min(queries.len())..];
                        for plan in [plan, plan.with_outside(Some(0)), plan.with_outside(Some(6))] {
                            if plan.outside().is_some() && plan.kind() == crate::scheme::Kind::Canonical {
                                continue;
                            }
                            let expected: Vec<_> =
                                queries.iter().map(|&key| Cuckoo::find(&plan, &image, key)).collect();
                            assert!(looked_up(&cpu, &plan, &image, queries) == expected, "{scheme:?} {size} {len}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn assign_changes_values_and_nothing_else() {
    for scheme in [Cuckoo::canonical(4), Cuckoo::classic(4)] {
        let pairs = distinct(30_000);
        let (plan, image, _) = referenced(&scheme, &pairs, 0.8);
        let mut changes: Pairs = pairs.iter().step_by(3).map(|&(key, value)| (key, value ^ 0xffff)).collect();
        changes.extend([(u32::MAX, 4), (3, 5)]);
        let absent = |key| Cuckoo::find(&plan, &image, key).is_none();
        assert!(absent(u32::MAX) && absent(3));
        let mut after: HashMap<u32, u32> = pairs.iter().copied().collect();
        after.extend(changes.iter().filter(|(key, _)| after.contains_key(key)).copied().collect::<Pairs>());
        for cpu in cpus() {
            let mut memory = cpu.upload(&image).expect("memory");
            let (keys, values) = columns(&cpu, &changes);
            Kernels::<Cuckoo>::assign(&cpu, &plan, &mut memory, &keys, &values).expect("assigned");
            audited(&plan, memory.words()).expect("sound");
            assert!(after.iter().all(|(&key, &value)| Cuckoo::find(&plan, memory.words(), key) == Some(value)));
            assert!(memory.words().iter().zip(&image).all(|(new, old)| new >> 32 == old >> 32));
        }
    }
}

#[test]
fn decode_is_the_pair_of_each_slot() {
    for scheme in [Cuckoo::canonical(4), Cuckoo::classic(4)] {
        for size in [0, 1, 100, 25_000] {
            let (plan, image, _) = referenced(&scheme, &distinct(size), 0.8);
            for cpu in cpus() {
                let Decoded { keys, values, taken: full } =
                    Kernels::<Cuckoo>::decode(&cpu, &plan, &cpu.upload(&image).expect("memory")).expect("decoded");
                assert_eq!(full.words().len(), bitmap_words(image.len()));
                assert_eq!(full.words().iter().map(|word| word.count_ones() as usize).sum::<usize>(), size);
                for slot in 0..image.len() {
                    let pair = (keys.words()[slot], values.words()[slot]);
                    let there = full.words()[slot / 32] >> (slot % 32) & 1 == 1;
                    assert_eq!(there.then_some(pair), Cuckoo::pair(&plan, &image, slot as u64));
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
    let noise: Vec<u64> = (0..5000).map(|_| stream.next_u64()).collect();
    let pairs = distinct(3000);
    let queries: Vec<u32> = pairs.iter().map(|&(key, _)| key).collect();
    for scheme in [Cuckoo::canonical(3), Cuckoo::classic(3)] {
        let plan = scheme.plan(Request { slots: 5000, pairs: 3000, seed: 2, attempt: 0 })?;
        for word in [0, u64::MAX, 1, 1 << 63] {
            let image: Vec<u64> = noise.iter().map(|&noise| if word == 1 { noise } else { word }).collect();
            let expected: Vec<_> = queries.iter().map(|&key| Cuckoo::find(&plan, &image, key)).collect();
            assert!(looked_up(&cpu, &plan, &image, &queries) == expected);
            let mut image = cpu.upload(&image)?;
            let (keys, values) = columns(&cpu, &pairs);
            Kernels::<Cuckoo>::decode(&cpu, &plan, &image)?;
            Kernels::<Cuckoo>::assign(&cpu, &plan, &mut image, &keys, &values)?;
            Kernels::<Cuckoo>::place(&cpu, &plan, &mut image, &keys, &values)?;
        }
    }
    Ok(())
}
