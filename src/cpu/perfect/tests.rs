//! Lookups, overwriting and decoding on threads, compared with the one-key functions.

use crate::backend::{Decoded, HashBackend, Kernels, Placed, bitmap_words};
use crate::cpu::{BLOCK, Cpu, Memory};
use crate::scheme::cuckoo::classic::EMPTY_KEY;
use crate::scheme::hash::SplitMix64;
use crate::scheme::{Perfect, PerfectPlan, Plan, Request, Scheme};
use crate::workload::Workload;

fn cpus() -> [Cpu; 2] {
    [1, 3].map(|threads| Cpu::with_threads(threads).expect("threads"))
}

/// A table of random keys, by the first attempt that succeeds.
fn table(cpu: &Cpu, scheme: Perfect, keys: &[u32], values: &[u32]) -> (PerfectPlan, Memory<u64>) {
    let (keys, values) = (cpu.upload(keys).expect("memory"), cpu.upload(values).expect("memory"));
    for attempt in 0..32 {
        let slots = keys.words().len() as u64 * 10 / 9;
        let plan = scheme.plan(Request { slots, pairs: 0, seed: 2, attempt }).expect("a plan");
        let mut image = cpu.filled(plan.words() as usize, plan.empty_word()).expect("memory");
        let placed = Kernels::<Perfect>::place(cpu, &plan, &mut image, &keys, &values).expect("placed");
        if placed.unplaced == 0 {
            assert_eq!(placed, Placed::default());
            return (plan, image);
        }
    }
    panic!("no attempt fits");
}

fn looked_up(cpu: &Cpu, plan: &PerfectPlan, image: &Memory<u64>, queries: &[u32]) -> Vec<Option<u32>> {
    let mut values = cpu.filled(queries.len(), 0xdead_beef).expect("memory");
    let mut found = cpu.filled(bitmap_words(queries.len()), u32::MAX).expect("memory");
    let queries = cpu.upload(queries).expect("memory");
    Kernels::<Perfect>::lookup(cpu, plan, image, &queries, &mut values, &mut found).expect("answers");
    let bits = found.words();
    let tail = values.words().len() % 32;
    assert!(tail == 0 || bits.last().is_none_or(|word| word >> tail == 0), "bits past the end");
    let answer = |(i, &value): (usize, &u32)| {
        let hit = bits[i / 32] >> (i % 32) & 1 == 1;
        assert!(hit || value == 0, "a miss has value 0");
        hit.then_some(value)
    };
    values.words().iter().enumerate().map(answer).collect()
}

#[test]
fn lookups_of_any_length_equal_single_lookups() {
    let load = Workload::new(20_000, 4);
    for cpu in cpus() {
        for scheme in [Perfect::default(), Perfect::volume(2000, 1500)] {
            let (plan, image) = table(&cpu, scheme, &load.keys(), &load.values());
            for plan in [plan, plan.with_outside(Some(77))] {
                for len in [0, 1, 7, 8, 31, 32, 33, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 3 * BLOCK + 5, 40_000] {
                    let mut queries = load.queries(len, 60);
                    queries.iter_mut().skip(5).step_by(97).for_each(|query| *query = EMPTY_KEY);
                    let expected: Vec<_> =
                        queries.iter().map(|&query| Perfect::find(&plan, image.words(), query)).collect();
                    assert_eq!(looked_up(&cpu, &plan, &image, &queries), expected, "{len} queries");
                }
            }
        }
    }
}

#[test]
fn assigning_overwrites_only_values() {
    let load = Workload::new(9000, 4);
    for cpu in cpus() {
        let keys = load.keys();
        let (plan, mut image) = table(&cpu, Perfect::default(), &keys, &load.values());
        let mut changed: Vec<u32> = keys.iter().copied().step_by(3).collect();
        changed.extend(load.queries(1000, 0).iter().filter(|key| **key != EMPTY_KEY));
        changed.push(EMPTY_KEY);
        changed.sort_unstable();
        changed.dedup();
        let new: Vec<u32> = changed.iter().map(|key| key ^ 0x5555).collect();
        let mut expected = image.words().to_vec();
        for &key in &changed {
            let at = plan.functions().location(&expected, key) as usize;
            if key != EMPTY_KEY && (expected[at] >> 32) as u32 == key {
                expected[at] = u64::from(key) << 32 | u64::from(key ^ 0x5555);
            }
        }
        let (changed, new) = (cpu.upload(&changed).expect("memory"), cpu.upload(&new).expect("memory"));
        Kernels::<Perfect>::assign(&cpu, &plan, &mut image, &changed, &new).expect("assigned");
        assert!(image.words() == expected);
    }
}

#[test]
fn decoding_gives_every_pair_and_no_offset() {
    let load = Workload::new(5000, 4);
    for cpu in cpus() {
        let (plan, image) = table(&cpu, Perfect::volume(300, 300), &load.keys(), &load.values());
        let Decoded { keys, values, taken } = Kernels::<Perfect>::decode(&cpu, &plan, &image).expect("columns");
        assert_eq!(keys.words().len() as u64, plan.slots());
        for at in 0..keys.words().len() {
            let pair = Perfect::pair(&plan, image.words(), at as u64);
            assert_eq!(taken.words()[at / 32] >> (at % 32) & 1 == 1, pair.is_some(), "word {at}");
            assert_eq!((keys.words()[at], values.words()[at]), pair.unwrap_or((0, 0)), "word {at}");
        }
    }
}

#[test]
fn any_image_is_read_within_its_bounds() {
    let cpu = Cpu::with_threads(2).expect("threads");
    for scheme in [Perfect::plane(1000), Perfect::volume(100, 100)] {
        let plan = scheme.plan(Request { slots: 3000, pairs: 0, seed: 1, attempt: 2 }).expect("a plan");
        let mut stream = SplitMix64::new(6);
        let words: Vec<u64> = (0..plan.words()).map(|_| stream.next_u64()).collect();
        let queries: Vec<u32> = (0..5000).map(|_| stream.next_u32()).chain([0, EMPTY_KEY]).collect();
        let mut image = cpu.upload(&words).expect("memory");
        let expected: Vec<_> = queries.iter().map(|&query| Perfect::find(&plan, &words, query)).collect();
        assert_eq!(looked_up(&cpu, &plan, &image, &queries), expected);
        let keys = cpu.upload(&queries).expect("memory");
        Kernels::<Perfect>::assign(&cpu, &plan, &mut image, &keys, &keys).expect("no panic");
    }
}
