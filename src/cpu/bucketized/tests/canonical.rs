//! Canonical builds: images word for word, duplicates, tombstones.

use std::collections::HashMap;

use super::*;

/// The image with the words of each bucket sorted, as builds leave them. The reference does not change buckets that
/// received no pairs, so their tombstones are out of order.
fn in_order(plan: &BucketizedPlan, mut image: Vec<u64>) -> Vec<u64> {
    image.chunks_mut(plan.bucket_slots() as usize).for_each(|words| words.sort_unstable_by(|a, b| b.cmp(a)));
    image
}

#[test]
fn canonical_images_equal_the_reference() {
    // A part has 2048 slots: some sizes end at a part, some a bucket before or after.
    let cases = [(0, 0.9), (1, 0.5), (7, 0.5), (128, 0.7), (1000, 0.9), (2000, 0.97), (40_000, 0.99), (60_000, 0.93)];
    let by_slots = [2032, 2048, 2064, 4096, 4112, 20_480 - 16].map(|slots| (slots * 9 / 10, slots as u64));
    let by_load = cases.map(|(size, load)| (size, slots_for(size, load)));
    for (size, slots) in by_load.into_iter().chain(by_slots) {
        for bucket_slots in [4, 8, 16] {
            let pairs = distinct(size);
            let slots = if bucket_slots == 4 { slots + slots / 20 } else { slots };
            let (plan, expected) = referenced(&Bucketized::canonical(bucket_slots), &pairs, slots);
            for cpu in cpus() {
                let mixed = shuffled(pairs.clone(), size as u64);
                let (first, second) = mixed.split_at(size / 3);
                for batches in [&[pairs.as_slice()][..], &[mixed.as_slice()], &[first, second]] {
                    let (image, placed) = built(&cpu, &plan, batches);
                    assert_eq!(placed, Placed::default());
                    assert!(image == expected, "S {bucket_slots}, {size} pairs, {}", cpu.info().driver);
                }
            }
        }
    }
}

/// Batches with duplicates, by name.
fn batches_with_duplicates() -> Vec<(&'static str, Pairs)> {
    let mut stream = SplitMix64::new(1);
    let random = (0..100_000).map(|_| (stream.next_u32() % 30_000 + 17, stream.next_u32() % 3)).collect();
    // Adjacent duplicates meet in flight, on threads that scan one bucket at the same time.
    let neighbours = distinct(20_000).iter().flat_map(|&(key, value)| (0..5).map(move |i| (key, value ^ i))).collect();
    let apart = distinct(30_000).repeat(3);
    let equal = (0..100_000).map(|i| (7, i * 3 % 100_000)).collect();
    vec![
        ("random", random),
        ("neighbours", neighbours),
        ("apart", apart),
        ("equal", equal),
        ("identical", vec![(u32::MAX, 9); 100_000]),
    ]
}

#[test]
fn canonical_duplicates_are_counted_exactly_on_any_number_of_threads() {
    let cpus = schemes::with_threads([1, 2, 3, 8]);
    for (name, pairs) in batches_with_duplicates() {
        let counts = counted(&pairs);
        for bucket_slots in [4, 8, 16] {
            // Only as many slots as distinct keys need: missed duplicates would not fit.
            let slots = slots_for(pairs.len() - counts.duplicates as usize, 0.95);
            let (plan, expected) = referenced(&Bucketized::canonical(bucket_slots), &pairs, slots);
            for cpu in &cpus {
                for seed in 0..3 {
                    let pairs = if seed == 0 { pairs.clone() } else { shuffled(pairs.clone(), seed) };
                    let (image, placed) = built(cpu, &plan, &[&pairs]);
                    assert_eq!(placed, counts, "{name}, S {bucket_slots}, {}", cpu.info().driver);
                    assert!(image == expected, "{name}, S {bucket_slots}, {}", cpu.info().driver);
                }
            }
        }
    }
}

#[test]
fn a_million_duplicates_of_one_key_are_placed() {
    let pairs: Pairs = (0..1_000_000).map(|i| (3, i)).collect();
    let plan = Bucketized::canonical(8).plan(Request { slots: 2048, pairs: 1, seed: 1, attempt: 0 }).expect("a plan");
    for cpu in cpus() {
        let (image, placed) = built(&cpu, &plan, &[&pairs]);
        assert_eq!(placed, Placed { duplicates: 999_999, least_duplicate: Some(3), ..Placed::default() });
        answers(&cpu, &plan, &image, &[3, 4], &[Some(999_999), None]);
    }
}

/// With few buckets, a remainder is nearly the whole key, and two are rarely equal. This test constructs keys with
/// equal remainders, at all ages.
#[test]
fn words_with_one_remainder_are_distinguished() {
    let plan = Bucketized::canonical(8).plan(Request { slots: 512, pairs: 400, seed: 1, attempt: 0 }).expect("a plan");
    let functions = plan.functions();
    for remainder in [0, 1, 77, u32::MAX >> slot::AGE_BITS] {
        // Keys with this remainder, one per home; some remainders occur in few homes.
        let pairs: Pairs = (0..64)
            .map(|home| functions.key_at(0, home, remainder))
            .enumerate()
            .filter(|&(home, key)| functions.home(key) == (home as u32, remainder))
            .map(|(home, key)| (key, home as u32))
            .collect();
        // Two of every three keys, each at an age of one of its buckets. Tombstones do not end searches.
        let mut image = vec![slot::TOMBSTONE; plan.words() as usize];
        let mut held = HashMap::new();
        for &(key, home) in pairs.iter().filter(|(_, home)| home % 3 != 0) {
            let age = home * 5 % slot::MAX_AGE + 1;
            let bucket = functions.bucket(functions.turn(age), home, remainder) as usize;
            let free = image[8 * bucket..][..8].iter_mut().find(|word| **word == slot::TOMBSTONE).expect("memory");
            *free = slot::word(age, remainder, age * 100 + home);
            held.insert(key, age * 100 + home);
        }
        let queries: Vec<u32> = pairs.iter().map(|&(key, _)| key).chain(0..100).collect();
        let expected: Vec<_> = queries.iter().map(|key| held.get(key).copied()).collect();
        for cpu in cpus() {
            answers(&cpu, &plan, &image, &queries, &expected);
        }
    }
}

#[test]
fn lifting_and_placing_again_compacts_the_image() {
    for bucket_slots in [4, 8, 16] {
        let pairs = distinct(30_000);
        let (plan, image) = referenced(&Bucketized::canonical(bucket_slots), &pairs, slots_for(30_000, 0.96));
        for every in [1, 2, 7] {
            let (gone, left): (Vec<_>, Vec<_>) = pairs.iter().enumerate().partition(|(i, _)| i % every == 0);
            let gone: Vec<u32> = gone.iter().map(|(_, pair)| pair.0).collect();
            let left: Pairs = left.iter().map(|(_, pair)| **pair).collect();
            let mut expected = vec![slot::EMPTY; image.len()];
            assert_eq!(Bucketized::place(&plan, &mut expected, &left), Placing::Placed);
            let mut with_tombstones = image.clone();
            Bucketized::remove(&plan, &mut with_tombstones, &gone);
            for cpu in cpus() {
                let mut memory = cpu.upload(&with_tombstones).expect("memory");
                let lifted = Kernels::<Bucketized>::lift(&cpu, &plan, &mut memory).expect("lifted");
                assert!(memory.words().iter().all(|&word| slot::age(word) <= 1));
                let again: Pairs = (0..image.len())
                    .filter(|i| lifted.taken.words()[i / 32] >> (i % 32) & 1 == 1)
                    .map(|i| (lifted.keys.words()[i], lifted.values.words()[i]))
                    .collect();
                assert_eq!(placed(&cpu, &plan, &mut memory, &again), Placed::default());
                assert!(memory.words() == expected, "S {bucket_slots}, every {every}");
            }
        }
    }
}

#[test]
fn pairs_can_be_placed_among_tombstones() {
    for bucket_slots in [4, 8, 16] {
        let pairs = distinct(30_000);
        let (first, second) = pairs.split_at(27_000);
        let (plan, _) = referenced(&Bucketized::canonical(bucket_slots), &pairs, slots_for(30_000, 0.95));
        let gone: Vec<u32> = first.iter().step_by(10).map(|&(key, _)| key).collect();
        let mut expected = vec![slot::EMPTY; plan.words() as usize];
        Bucketized::place(&plan, &mut expected, first);
        Bucketized::remove(&plan, &mut expected, &gone);
        assert_eq!(Bucketized::place(&plan, &mut expected, second), Placing::Placed);
        for cpu in cpus() {
            let mut image = cpu.filled(plan.words() as usize, plan.empty_word()).expect("memory");
            placed(&cpu, &plan, &mut image, first);
            Kernels::<Bucketized>::remove(&cpu, &plan, &mut image, &cpu.upload(&gone).expect("memory"))
                .expect("removed");
            assert_eq!(placed(&cpu, &plan, &mut image, second), Placed::default());
            assert!(image.words() == in_order(&plan, expected.clone()));
        }
    }
}
