//! The CPU's two-level tables compared with the sequential reference, on one thread and on more than the machine has.

use std::collections::HashMap;

use crate::backend::{Decoded, HashBackend, Kernels, Placed, Probe, bitmap_words};
use crate::cpu::{Cpu, Memory};
use crate::error::Result;
use crate::scheme::fks::FksPlan;
use crate::scheme::hash::SplitMix64;
use crate::scheme::{Fks, FksFamily, Kind, Placing, Plan, Request, Scheme};

const THREADS: [usize; 3] = [1, 2, 5];
const SIZES: [usize; 11] = [0, 1, 2, 7, 127, 409, 512, 1000, 4095, 4097, 60_000];

type Pairs = Vec<(u32, u32)>;

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

fn all_schemes() -> [Fks; 3] {
    [Fks::canonical(), Fks::classic(), Fks::classic().family(FksFamily::Sahu)]
}

fn plan_of(scheme: &Fks, pairs: usize, seed: u64) -> FksPlan {
    let slots = if pairs == 512 { 576 } else { scheme.default_load().slots_for(pairs as u64) };
    scheme.plan(Request { slots, pairs: pairs as u64, seed, attempt: 0 }).expect("a plan")
}

fn cpus() -> Vec<Cpu> {
    THREADS.into_iter().map(|threads| Cpu::with_threads(threads).expect("threads")).collect()
}

fn columns(cpu: &Cpu, pairs: &[(u32, u32)]) -> (Memory<u32>, Memory<u32>) {
    let (keys, values): (Vec<u32>, Vec<u32>) = pairs.iter().copied().unzip();
    (cpu.upload(&keys).expect("memory"), cpu.upload(&values).expect("memory"))
}

/// The result of a build in an image of noise.
fn built(cpu: &Cpu, plan: &FksPlan, pairs: &[(u32, u32)]) -> (Vec<u64>, Placed) {
    let mut image = cpu.filled(plan.words() as usize, 0x1234_5678_9abc_def0).expect("memory");
    let (keys, values) = columns(cpu, pairs);
    let placed = Kernels::<Fks>::place(cpu, plan, &mut image, &keys, &values).expect("placed");
    (image.words().to_vec(), placed)
}

fn reference(plan: &FksPlan, pairs: &[(u32, u32)]) -> (Vec<u64>, Placing) {
    let mut image = vec![plan.empty_word(); plan.words() as usize];
    let placing = Fks::place(plan, &mut image, pairs);
    (image, placing)
}

fn audited(plan: &FksPlan, image: &[u64]) -> u64 {
    Fks::audit(plan, image, 0..plan.words()).expect("sound").pairs
}

fn looked_up(cpu: &Cpu, plan: &FksPlan, image: &[u64], queries: &[u32]) -> Vec<Option<u32>> {
    let image = cpu.upload(image).expect("memory");
    let queries = cpu.upload(queries).expect("memory");
    let len = queries.words().len();
    let mut values = cpu.filled(len, 77).expect("memory");
    let mut found = cpu.filled(bitmap_words(len), u32::MAX).expect("memory");
    Kernels::<Fks>::lookup(cpu, plan, &image, &queries, &mut values, &mut found).expect("looked up");
    let bit = |i: usize| found.words()[i / 32] >> (i % 32) & 1 == 1;
    assert!((len..32 * found.words().len()).all(|i| !bit(i)), "bits past the end");
    assert!((0..len).all(|i| bit(i) || values.words()[i] == 0), "a miss is 0");
    (0..len).map(|i| bit(i).then_some(values.words()[i])).collect()
}

#[test]
fn canonical_images_equal_the_reference() {
    let cpus = cpus();
    for size in SIZES {
        for seed in 0..3 {
            let plan = plan_of(&Fks::canonical(), size, seed);
            let pairs = distinct(size);
            let (expected, placing) = reference(&plan, &pairs);
            assert_eq!(placing, Placing::Placed);
            for cpu in &cpus {
                let (image, placed) = built(cpu, &plan, &shuffled(pairs.clone(), seed));
                assert_eq!(placed, Placed::default());
                assert!(image == expected, "{size} pairs, {}", cpu.info().driver);
            }
        }
    }
}

#[test]
fn duplicates_are_counted_exactly_and_take_no_slot() {
    let mut stream = SplitMix64::new(1);
    let random: Pairs = (0..4000).map(|_| (stream.next_u32() % 1500 + 17, stream.next_u32() % 3)).collect();
    let equal: Pairs = (0..400).map(|i| (7, i * 3 % 400)).collect();
    let thrice: Pairs = distinct(130).repeat(3);
    for (pairs, slots) in [(random, 12_000), (equal, 576), (thrice, 576)] {
        let mut times: HashMap<u32, u64> = HashMap::new();
        pairs.iter().for_each(|(key, _)| *times.entry(*key).or_default() += 1);
        let duplicates = pairs.len() as u64 - times.len() as u64;
        let least_duplicate = times.iter().filter(|&(_, &times)| times > 1).map(|(&key, _)| key).min();
        for scheme in all_schemes() {
            let request = Request { slots, pairs: 1, seed: 5, attempt: 0 };
            let plan = scheme.plan(request).expect("a plan");
            let (expected, placing) = reference(&plan, &pairs);
            assert_eq!(Some(placing), least_duplicate.map(Placing::Duplicate));
            for cpu in cpus() {
                for seed in 0..3 {
                    let (image, placed) = built(&cpu, &plan, &shuffled(pairs.clone(), seed));
                    assert_eq!(placed, Placed { duplicates, least_duplicate, ..Placed::default() }, "{scheme:?}");
                    assert_eq!(audited(&plan, &image), times.len() as u64);
                    assert!(scheme.kind() == Kind::Classic || image == expected);
                }
            }
        }
    }
}

#[test]
fn overfull_buckets_are_counted_and_nothing_is_built() {
    for scheme in all_schemes() {
        let plan = scheme.plan(Request { slots: 5 * 576, pairs: 1, seed: 5, attempt: 0 }).expect("a plan");
        let functions = &plan.functions();
        let of_bucket = |bucket, count: usize| (0..).filter(move |&key| functions.bucket(key) == bucket).take(count);
        let crowd: Pairs =
            of_bucket(1, 520).chain(of_bucket(4, 513)).chain(of_bucket(2, 512)).map(|k| (k, 1)).collect();
        for cpu in cpus() {
            let (_, placed) = built(&cpu, &plan, &crowd);
            assert_eq!(placed, Placed { unplaced: 9, ..Placed::default() });
        }
    }
}

/// Too few rounds: the pairs that the last seed number leaves unplaced are reported.
#[test]
fn buckets_without_a_valid_seed_number_are_reported() {
    let scheme = Fks::classic().iterations(1);
    let plan = plan_of(&scheme, 512, 5);
    for cpu in cpus() {
        assert!(built(&cpu, &plan, &distinct(512)).1.unplaced > 0);
    }
}

#[test]
fn classic_builds_pass_the_audit_and_one_thread_repeats() {
    for scheme in all_schemes().into_iter().filter(|scheme| scheme.kind() == Kind::Classic) {
        for size in SIZES {
            let pairs = distinct(size);
            let plan = plan_of(&scheme, size, 2);
            for cpu in cpus() {
                let (image, placed) = built(&cpu, &plan, &pairs);
                assert_eq!(placed, Placed::default());
                assert_eq!(audited(&plan, &image), size as u64);
                if cpu.info().units == 1 {
                    assert!(built(&cpu, &plan, &pairs).0 == image);
                }
            }
        }
    }
}

#[test]
fn the_sentinel_pair_is_counted_and_stored_outside() {
    let mut pairs = distinct(3000);
    pairs.retain(|&(key, _)| key != u32::MAX);
    for scheme in all_schemes().into_iter().filter(|scheme| scheme.kind() == Kind::Classic) {
        let plan = plan_of(&scheme, 3000, 2);
        for cpu in cpus() {
            let mut marked = pairs.clone();
            marked.insert(17, (u32::MAX, 5));
            let (image, placed) = built(&cpu, &plan, &marked);
            assert_eq!(placed, Placed { outside: Some(5), ..Placed::default() });
            assert_eq!(audited(&plan, &image), pairs.len() as u64);
            let only = [(u32::MAX, 3), (u32::MAX, 8), (u32::MAX, 1)];
            let (_, placed) = built(&cpu, &plan, &only);
            assert_eq!(
                placed,
                Placed { duplicates: 2, least_duplicate: Some(u32::MAX), outside: Some(8), unplaced: 0, stash: 0 }
            );
            let (_, placed) = built(&cpu, &plan.with_outside(Some(1)), &only);
            assert_eq!(
                placed,
                Placed { duplicates: 3, least_duplicate: Some(u32::MAX), outside: Some(8), unplaced: 0, stash: 0 }
            );
            assert_eq!(built(&cpu, &plan.with_outside(Some(1)), &[]).1, Placed::default());
        }
    }
}

#[test]
fn lookups_agree_with_the_reference_on_hits_and_misses() {
    for scheme in all_schemes() {
        for size in [0, 1, 127, 128, 1000, 20_000] {
            let pairs = distinct(size);
            let plan = plan_of(&scheme, size, 4);
            let (image, _) = reference(&plan, &pairs);
            let mut stream = SplitMix64::new(3);
            let mut queries: Vec<u32> = pairs.iter().map(|&(key, _)| key).collect();
            queries.extend((0..2 * size + 37).map(|_| stream.next_u32()));
            queries.extend([0, u32::MAX, 0]);
            let outside = [None, Some(0), Some(6)]
                .into_iter()
                .filter(|outside| outside.is_none() || plan.outside_key().is_some());
            for plan in outside.map(|value| plan.with_outside(value)) {
                let expected: Vec<_> = queries.iter().map(|&key| Fks::find(&plan, &image, key)).collect();
                for cpu in cpus() {
                    for len in [0, 1, 31, 33, 129, queries.len()] {
                        let from = queries.len() - len.min(queries.len());
                        let answers = looked_up(&cpu, &plan, &image, &queries[from..]);
                        assert!(answers == expected[from..], "{scheme:?} {size} {len}");
                    }
                }
            }
        }
    }
}

#[test]
fn assign_changes_values_and_nothing_else() {
    for scheme in all_schemes() {
        let pairs = distinct(10_000);
        let plan = plan_of(&scheme, pairs.len(), 4);
        let (image, _) = reference(&plan, &pairs);
        let mut after: HashMap<u32, u32> = pairs.iter().copied().collect();
        let absent = (1..).find(|key| !after.contains_key(key)).expect("a key");
        let changes: Pairs = pairs.iter().step_by(3).map(|&(key, value)| (key, value ^ 0xffff)).collect();
        after.extend(changes.iter().copied());
        for cpu in cpus() {
            let mut memory = cpu.upload(&image).expect("memory");
            let (keys, values) = columns(&cpu, &[&changes[..], &[(absent, 3), (u32::MAX, 4)]].concat());
            Kernels::<Fks>::assign(&cpu, &plan, &mut memory, &keys, &values).expect("assigned");
            assert_eq!(audited(&plan, memory.words()), 10_000);
            assert!(after.iter().all(|(&key, &value)| Fks::find(&plan, memory.words(), key) == Some(value)));
            assert!(memory.words().iter().zip(&image).all(|(new, old)| new >> 32 == old >> 32));
        }
    }
}

#[test]
fn decode_is_the_pair_of_each_word() {
    for scheme in all_schemes() {
        for size in [0, 1, 5000] {
            let plan = plan_of(&scheme, size, 4);
            let (image, _) = reference(&plan, &distinct(size));
            for cpu in cpus() {
                let image = cpu.upload(&image).expect("memory");
                let Decoded { keys, values, taken } = Kernels::<Fks>::decode(&cpu, &plan, &image).expect("decoded");
                let mut pairs = 0;
                for word in 0..image.words().len() {
                    let there = taken.words()[word / 32] >> (word % 32) & 1 == 1;
                    let pair = (keys.words()[word], values.words()[word]);
                    assert_eq!(there.then_some(pair), Fks::pair(&plan, image.words(), word as u64));
                    assert!(there || pair == (0, 0));
                    pairs += usize::from(there);
                }
                assert_eq!(pairs, size);
            }
        }
    }
}

#[test]
fn any_image_can_be_read() -> Result<()> {
    let cpu = Cpu::with_threads(2)?;
    let mut stream = SplitMix64::new(8);
    let queries: Vec<u32> = distinct(2000).iter().map(|&(key, _)| key).collect();
    for scheme in all_schemes() {
        let plan = plan_of(&scheme, 2000, 4);
        for constant in [None, Some(0), Some(u64::MAX), Some(1 << 63)] {
            let image: Vec<u64> = (0..plan.words()).map(|_| constant.unwrap_or_else(|| stream.next_u64())).collect();
            let expected: Vec<_> = queries.iter().map(|&key| Fks::find(&plan, &image, key)).collect();
            assert!(looked_up(&cpu, &plan, &image, &queries) == expected);
            let mut image = cpu.upload(&image)?;
            let (keys, values) = columns(&cpu, &distinct(2000));
            Kernels::<Fks>::decode(&cpu, &plan, &image)?;
            Kernels::<Fks>::assign(&cpu, &plan, &mut image, &keys, &values)?;
        }
    }
    Ok(())
}

#[test]
fn the_stages_are_those_of_the_poster() -> Result<()> {
    let cpu = Cpu::with_threads(2)?;
    let plan = plan_of(&Fks::canonical(), 5000, 4);
    cpu.ledger().take();
    let (_, times) = cpu.stages(|| {
        built(&cpu, &plan, &distinct(5000));
        Ok(())
    })?;
    let stages = ["fks_count", "fks_scan", "fks_shuffle", "fks_cuckoo"];
    assert_eq!(times[0].name, "set-up");
    assert_eq!(times[1..].iter().map(|stage| stage.name).collect::<Vec<_>>(), stages);
    let ledger = cpu.ledger().take();
    assert_eq!(ledger.iter().map(|stage| (stage.name, stage.host)).collect::<Vec<_>>(), stages.map(|name| (name, 0)));
    Ok(())
}
