//! The CPU's tables compared with the sequential reference, on one thread and on more than the machine has.

mod parts;

use std::collections::HashMap;

use crate::backend::scheme_tests::{self, compare_decoded, compare_lookups, counted, sequential};
use crate::backend::{HashBackend, Kernels, Placed};
use crate::cpu::Cpu;
use crate::cpu::tests::schemes::{self, Pairs, all_are_found, columns, keys_of, shuffled};
use crate::error::Result;
use crate::scheme::hash::SplitMix64;
use crate::scheme::horton::{HortonFamily, HortonPlan, bucket};
use crate::scheme::{Horton, Load, Placing, Plan, Request, Scheme};

/// Distinct keys with distinct values, including the extreme keys, except for the empty marker's.
fn distinct(count: usize) -> Pairs {
    let random = (1..count as u32).map(|i| (i.wrapping_mul(0x9e37_79b9) ^ 0x5555, !i));
    let mut pairs: Pairs = random.filter(|&(key, _)| key != 0 && key < u32::MAX - 1).take(count).collect();
    pairs.extend([(0, 0), (u32::MAX - 1, u32::MAX)]);
    pairs.drain(..pairs.len() - count);
    pairs
}

fn planned(scheme: &Horton, pairs: usize, load: f64, attempt: u32) -> HortonPlan {
    let slots = Load::new(load).expect("a load").slots_for(pairs as u64);
    scheme.plan(Request { slots, pairs: pairs as u64, seed: 5, attempt }).expect("a plan")
}

fn cpus() -> [Cpu; 2] {
    schemes::with_threads([1, 3])
}

fn built(cpu: &Cpu, plan: &HortonPlan, pairs: &[(u32, u32)]) -> (Vec<u64>, Placed) {
    schemes::built(cpu, plan, &[pairs])
}

/// Every shape of bucket and entries, each with a feasible load.
fn variants() -> [(Horton, f64); 9] {
    [
        (Horton::canonical(4), 0.5),
        (Horton::canonical(4), 0.85),
        (Horton::canonical(8), 0.9),
        (Horton::canonical(16), 0.93),
        (Horton::canonical(4).tags(16).bits(4), 0.8),
        (Horton::canonical(8).tags(5).bits(4), 0.7),
        (Horton::canonical(16).tags(32).bits(2), 0.8),
        (Horton::canonical(8).tags(2).bits(3), 0.4),
        (Horton::canonical(8).tags(32).bits(2), 0.5),
    ]
}

/// This many keys of one home.
fn crowd(plan: &HortonPlan, home: u32, count: usize) -> Pairs {
    let functions = plan.functions();
    (0..u32::MAX).filter(|&key| functions.home(key).0 == home).take(count).map(|key| (key, !key)).collect()
}

fn assert_equal_images(scheme: &Horton, size: usize, load: f64, attempt: u32, seed: u64) {
    let pairs = distinct(size);
    let plan = planned(scheme, size, load, attempt);
    let (expected, placing) = sequential(&plan, &pairs);
    for cpu in cpus() {
        let (image, placed) = built(&cpu, &plan, &shuffled(pairs.clone(), seed));
        let context = format!("{scheme:?}, {size} pairs at {load}, {}", cpu.info().driver);
        assert_eq!(placed.unplaced > 0, placing == Placing::Unplaced, "{context}");
        assert_eq!((placed.duplicates, placed.outside), (0, None), "{context}");
        assert!(placed.unplaced > 0 || image == expected, "{context}");
    }
}

#[test]
fn tiny_images_are_the_reference_word_for_word() {
    for (scheme, load) in variants() {
        for size in 1..=64 {
            assert_equal_images(&scheme, size, load, 0, size as u64);
        }
    }
}

#[test]
fn images_equal_the_reference() {
    for (scheme, load) in variants() {
        for (size, attempt) in [(127, 0), (1000, 1), (30_000, 2)] {
            assert_equal_images(&scheme, size, load, attempt, 7);
        }
    }
    for (slots, load) in [(4, 0.90), (8, 0.95), (16, 0.96)] {
        assert_equal_images(&Horton::canonical(slots), 30_000, load, 0, 8);
    }
    let plan = planned(&Horton::canonical(8), 30_000, 0.95, 0);
    assert_eq!(sequential(&plan, &distinct(30_000)).1, Placing::Placed, "this was to be a table that can be built");
}

#[test]
fn previous_contents_of_the_image_do_not_matter() {
    let cpu = Cpu::with_threads(2).expect("threads");
    let pairs = distinct(5000);
    let plan = planned(&Horton::canonical(8), 5000, 0.9, 0);
    let expected = built(&cpu, &plan, &pairs).0;
    assert!(schemes::built_over(&cpu, 0x1234_5678_9abc_def0, &plan, &[&pairs]).0 == expected);
}

#[test]
fn crowds_are_built_and_found_unless_they_are_too_large() {
    for slots in [4, 8, 16] {
        let plan = planned(&Horton::canonical(slots), 2000, 0.5, 0);
        for count in [40, 64] {
            let mut pairs = crowd(&plan, 3, count);
            pairs.extend(distinct(500).into_iter().filter(|&(key, _)| plan.functions().home(key).0 != 3));
            let (expected, placing) = sequential(&plan, &pairs);
            for cpu in cpus() {
                let (image, placed) = built(&cpu, &plan, &shuffled(pairs.clone(), 1));
                assert_eq!(placed.unplaced > 0, placing == Placing::Unplaced, "{slots} {count}");
                if placing == Placing::Placed {
                    assert!(image == expected, "{slots} {count}");
                    let stashed = (plan.slots()..plan.words()).filter_map(|at| Horton::pair(&plan, &image, at));
                    assert!(stashed.count() > 0, "the stash was to be used");
                    all_are_found(&cpu, &plan, &image, &pairs);
                }
            }
        }
        let pairs: Pairs = [crowd(&plan, 3, 65), crowd(&plan, 7, 70)].concat();
        for cpu in cpus() {
            assert_eq!(built(&cpu, &plan, &pairs).1, Placed { unplaced: 2, ..Placed::default() });
        }
    }
}

#[test]
fn more_pairs_than_slots_are_reported() {
    for slots in [4, 8, 16] {
        let plan = planned(&Horton::canonical(slots), 1000, 1.0, 0);
        for cpu in cpus() {
            assert!(built(&cpu, &plan, &distinct(1200)).1.unplaced > 0);
        }
    }
}

#[test]
fn duplicates_are_counted_exactly_unless_a_home_is_overfull() {
    let mut stream = SplitMix64::new(1);
    let random: Pairs = (0..20_000).map(|_| (stream.next_u32() % 9_000 + 17, stream.next_u32() % 3)).collect();
    let twice: Pairs = distinct(9_000).repeat(2);
    let one: Pairs = [distinct(10_000), vec![distinct(10_000)[4321]]].concat();
    for (name, pairs) in [("random", random), ("twice", twice), ("one", one)] {
        let counts = counted(&pairs);
        for slots in [4, 8, 16] {
            let plan = planned(&Horton::canonical(slots), pairs.len(), 0.7, 0);
            for cpu in cpus() {
                let (_, placed) = built(&cpu, &plan, &shuffled(pairs.clone(), 3));
                assert_eq!(placed, counts, "{name} {slots}");
            }
        }
    }
}

#[test]
fn a_million_duplicates_of_one_key_are_reported_at_once() {
    let pairs = vec![(7, 1); 1_000_000];
    let plan = planned(&Horton::canonical(8), pairs.len(), 0.9, 0);
    for cpu in cpus() {
        assert_eq!(built(&cpu, &plan, &pairs).1.unplaced, 1);
        let few = built(&cpu, &plan, &pairs[..64]).1;
        assert_eq!(few, Placed { duplicates: 63, least_duplicate: Some(7), ..Placed::default() });
    }
}

#[test]
fn the_sentinel_pair_is_in_the_plan() {
    let plan = planned(&Horton::canonical(8), 1000, 0.9, 0);
    let pairs = distinct(1000);
    for cpu in cpus() {
        let expected = built(&cpu, &plan, &pairs).0;
        let marked = [pairs.clone(), vec![(u32::MAX, 5)]].concat();
        let (image, placed) = built(&cpu, &plan, &marked);
        assert_eq!(placed, Placed { outside: Some(5), ..Placed::default() });
        assert!(image == expected);
        schemes::sentinel_pairs(&cpu, &plan);
        let mixed = [(u32::MAX, 3), (9, 8), (u32::MAX, 1), (9, 8), (9, 7)];
        assert_eq!(built(&cpu, &plan, &mixed).1, Placed { outside: Some(3), ..counted(&mixed) });
    }
}

#[test]
fn lookups_agree_with_the_reference_on_hits_and_misses() {
    for (scheme, load) in variants() {
        for size in [1, 129, 20_000] {
            let pairs = distinct(size);
            let plan = planned(&scheme, size, load, 0);
            let (image, placing) = sequential(&plan, &pairs);
            assert_eq!(placing, Placing::Placed, "{scheme:?} {size}");
            let mut stream = SplitMix64::new(3);
            let mut queries = keys_of(&shuffled(pairs, 4));
            queries.extend((0..size + 5000).map(|_| stream.next_u32()));
            queries.extend([0, u32::MAX, u32::MAX - 1, 0]);
            schemes::lookups_agree(&cpus(), &plan, &image, &queries);
        }
    }
}

#[test]
fn assign_changes_values_and_nothing_else() {
    for (scheme, load) in variants() {
        let pairs = distinct(20_000);
        let plan = planned(&scheme, pairs.len(), load, 0);
        schemes::assigned(&cpus(), &plan, &sequential(&plan, &pairs).0, &pairs);
    }
}

#[test]
fn decode_is_the_pair_of_each_word() {
    for (scheme, load) in variants() {
        for size in [1, 100, 20_000] {
            let plan = planned(&scheme, size, load, 0);
            schemes::decoded(&cpus(), &plan, &sequential(&plan, &distinct(size)).0, size);
        }
    }
}

#[test]
fn any_image_can_be_read() -> Result<()> {
    let cpu = Cpu::with_threads(2)?;
    let mut stream = SplitMix64::new(8);
    let jenkins = |slots| Horton::classic(slots).family(HortonFamily::Jenkins);
    let schemes = variants().map(|(scheme, _)| scheme).into_iter();
    for scheme in schemes.chain([4, 8, 16].map(Horton::classic)).chain([4, 8, 16].map(jenkins)) {
        let plan = planned(&scheme, 3000, 0.6, 0);
        let noise: Vec<u64> = (0..plan.words()).map(|_| stream.next_u64()).collect();
        // Keys that occur in the noise, and others.
        let mut queries: Vec<u32> = (0..3000).collect();
        for (at, mask) in [(0, u64::MAX), (1, 0x7_0000_ffff), (2, 0x3ff_0000_ffff)] {
            let image: Vec<u64> = noise.iter().map(|&noise| noise & mask).collect();
            queries.extend(image.iter().map(|word| (word >> 32) as u32).take(500 * at));
            let mut memory = cpu.upload(&image)?;
            compare_lookups(&cpu, &plan, &memory, &queries)?;
            compare_decoded(&cpu, &plan, &memory)?;
            let (keys, values): (Vec<u32>, Vec<u32>) = distinct(3000).into_iter().unzip();
            scheme_tests::assign(&cpu, &plan, &mut memory, &keys, &values)?;
        }
    }
    Ok(())
}

/// Sorted pairs of each home, and a key with a second bucket for every entry of a crowded home: an image like those of
/// classic tables, for any functions.
#[test]
fn classic_lookups_follow_every_entry_in_both_families() -> Result<()> {
    for family in HortonFamily::ALL {
        let plan = planned(&Horton::classic(8).family(family), 2000, 0.5, 1);
        let functions = plan.functions();
        let mut image = vec![plan.empty_word(); plan.words() as usize];
        let mut queries = Vec::new();
        for home in 0..40 {
            let keys = crowd(&plan, home, 14);
            let words: Vec<u64> = keys.iter().map(|&(key, value)| u64::from(key) << 32 | u64::from(value)).collect();
            let code = home % functions.count + 1;
            let (led, tag) = (keys[13].0, functions.home(keys[13].0).1);
            bucket::write_b(&mut image[bucket::range(&functions, home)], &words[..7], u64::from(code) << (tag * 3));
            let to = functions.led(led, home, tag, code).expect("a bucket");
            if to >= 40 {
                bucket::write_a(&mut image[bucket::range(&functions, to)], &words[13..]);
            }
            queries.extend(keys.iter().map(|&(key, _)| key));
        }
        let expected = scheme_tests::find_all(&plan, &image, &queries);
        assert!(expected.iter().flatten().count() > 300);
        for cpu in cpus() {
            schemes::answers(&cpu, &plan, &image, &queries, &expected);
        }
    }
    Ok(())
}
