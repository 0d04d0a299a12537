//! The CPU's Robin Hood tables compared with the sequential reference, on one thread and on more than the machine has.

use std::collections::HashMap;

use crate::backend::scheme_tests::{audited, counted, find_all, sequential};
use crate::backend::{Decoded, HashBackend, Kernels, Placed};
use crate::cpu::Cpu;
use crate::cpu::tests::schemes::{self, Pairs, answers, built, shuffled};
use crate::error::{Error, Result};
use crate::scheme::hash::{MixKeys, SplitMix64, mix};
use crate::scheme::{Kind, Placing, Plan, Request, RobinHood, RobinHoodPlan, Scheme, Sequence};

/// Every kind, sequence and number of bits.
fn every_table() -> impl Iterator<Item = RobinHood> {
    let kinds = [RobinHood::canonical(), RobinHood::classic(), RobinHood::classic().keys_alone()];
    kinds.into_iter().flat_map(|kind| {
        let sequences = Sequence::ALL.into_iter().map(move |sequence| kind.clone().sequence(sequence));
        sequences.flat_map(|scheme| [0, 2, 3, 4].map(|bits| scheme.clone().max_ages(bits)))
    })
}

/// The `bits` lowest bits of x.
fn cut(x: u32, bits: u32) -> u32 {
    (u64::from(x) & ((1 << bits) - 1)) as u32
}

/// Distinct keys in no order, and distinct values, as wide as the table's cells allow. In 28 bits the mixed numbers
/// have occasional duplicates, so those keys are scattered by a multiplication instead.
fn distinct(scheme: &RobinHood, count: usize) -> Pairs {
    let limits = scheme.limits();
    let key = |i: u32| match limits.key_bits {
        32 => mix(i, MixKeys::new(7, 9, 11)),
        bits => cut(i.wrapping_mul(i).wrapping_add(i).wrapping_mul(0x2c1b_3c6d).wrapping_add(i), bits),
    };
    let mut taken = std::collections::HashSet::new();
    let keys = (0..).map(key).filter(|&key| taken.insert(key));
    keys.take(count).zip(0..).map(|(key, i): (u32, u32)| (key, cut(!i, limits.value_bits))).collect()
}

fn planned(scheme: &RobinHood, slots: u64) -> RobinHoodPlan {
    scheme.plan(Request { slots, pairs: 0, seed: 5, attempt: 0 }).expect("a plan")
}

/// Slots for this many pairs, at a load at which every table of this sequence can be built.
fn slots_for(scheme: &RobinHood, pairs: usize) -> u64 {
    let paper_random = *scheme == scheme.clone().sequence(Sequence::PaperRandom);
    let load = if paper_random { 0.7 } else { 0.9 };
    (pairs as f64 / load).ceil() as u64
}

fn cpus() -> [Cpu; 3] {
    schemes::with_threads([1, 2, 7])
}

/// The image built by the one-key-at-a-time rule.
fn referenced(plan: &RobinHoodPlan, pairs: &[(u32, u32)]) -> Vec<u64> {
    let (image, placing) = sequential(plan, pairs);
    assert_ne!(placing, Placing::Unplaced, "{plan:?}");
    image
}

/// The keys of some pairs, keys near them, and noise, including keys that are too wide for tables of keys alone.
fn queries(pairs: &[(u32, u32)]) -> Vec<u32> {
    let mut stream = SplitMix64::new(3);
    let mut queries: Vec<u32> = pairs.iter().flat_map(|&(key, _)| [key, key ^ 1, key | 1 << 28, !key]).collect();
    queries.extend((0..2 * pairs.len() + 37).map(|_| stream.next_u32()));
    queries.extend([0, u32::MAX, 0, (1 << 28) - 1, 1 << 28]);
    queries
}

#[test]
fn images_equal_the_reference_on_any_number_of_threads_and_in_batches() {
    let cpus = cpus();
    for scheme in every_table() {
        for size in [0, 1, 2, 127, 129, 1000, 40_000] {
            let pairs = distinct(&scheme, size);
            let plan = planned(&scheme, slots_for(&scheme, size));
            let expected = referenced(&plan, &pairs);
            assert_eq!(audited(&plan, &expected).pairs, size as u64);
            for cpu in &cpus {
                let mixed = shuffled(pairs.clone(), size as u64);
                let (first, second) = mixed.split_at(size / 3);
                let (image, placed) = built(cpu, &plan, &[&mixed]);
                assert_eq!(placed, Placed::default(), "{scheme:?}");
                assert!(image == expected, "{scheme:?}, {size} pairs, {}", cpu.info().driver);
                if scheme.kind() == Kind::Canonical {
                    assert!(built(cpu, &plan, &[first, second, &[]]).0 == expected, "{scheme:?}, in batches");
                }
            }
        }
    }
}

#[test]
fn lookups_agree_with_the_reference_on_hits_and_misses() {
    for scheme in every_table() {
        for size in [0, 1, 2, 127, 128, 1000, 20_000] {
            let pairs = distinct(&scheme, size);
            let plan = planned(&scheme, slots_for(&scheme, size));
            let image = referenced(&plan, &pairs);
            let queries = queries(&pairs);
            let map: HashMap<u32, u32> = pairs.iter().copied().collect();
            let expected: Vec<_> = queries.iter().map(|key| map.get(key).copied()).collect();
            assert!(find_all(&plan, &image, &queries) == expected, "{scheme:?}, {size}");
            schemes::lookups_agree(&schemes::with_threads([1, 3]), &plan, &image, &queries);
        }
    }
}

#[test]
fn duplicates_are_counted_exactly_on_any_number_of_threads() {
    let cpus = cpus();
    for scheme in every_table() {
        let bits = scheme.limits().value_bits;
        let mut stream = SplitMix64::new(1);
        let value = |x: u32| cut(x, bits);
        let random: Pairs =
            (0..60_000).map(|_| (stream.next_u32() % 20_000 + 17, value(stream.next_u32() % 3))).collect();
        let equal: Pairs = (0..60_000).map(|i| (7, value(i * 3 % 60_000))).collect();
        let thrice: Pairs = distinct(&scheme, 20_000).repeat(3);
        for (name, pairs) in [("random", random), ("equal", equal), ("thrice", thrice)] {
            let counts = counted(&pairs);
            let plan = planned(&scheme, slots_for(&scheme, pairs.len() - counts.duplicates as usize));
            let expected = referenced(&plan, &pairs);
            for (cpu, seed) in cpus.iter().zip(0..) {
                let (image, placed) = built(cpu, &plan, &[&shuffled(pairs.clone(), seed)]);
                assert_eq!(placed, counts, "{scheme:?}, {name}");
                assert!(image == expected, "{scheme:?}, {name}");
            }
        }
    }
}

#[test]
fn duplicates_of_pairs_in_the_image_are_counted() {
    for sequence in Sequence::ALL {
        let scheme = RobinHood::canonical().sequence(sequence).max_ages(3);
        let pairs = distinct(&scheme, 20_000);
        let plan = planned(&scheme, slots_for(&scheme, pairs.len()));
        let again = &pairs[5_000..5_100];
        let least_duplicate = again.iter().map(|&(key, _)| key).min();
        for cpu in cpus() {
            let (image, placed) = built(&cpu, &plan, &[&pairs, again]);
            assert_eq!(placed, Placed { duplicates: 100, least_duplicate, ..Placed::default() });
            assert!(image == referenced(&plan, &pairs));
        }
    }
}

#[test]
fn more_pairs_than_places_are_reported() {
    for scheme in every_table() {
        let plan = planned(&scheme, 900);
        // More pairs than slots, and more keys of one class than its list has slots.
        let class: Pairs = (0..63).map(|i| (11 + i * plan.slot_count(), 0)).collect();
        for pairs in [distinct(&scheme, 1000), class] {
            let is_class = pairs.len() == 63;
            if is_class && scheme == scheme.clone().sequence(Sequence::Random) {
                continue;
            }
            for cpu in cpus() {
                let placed = built(&cpu, &plan, &[&pairs]).1;
                assert!(placed.unplaced > 0, "{scheme:?}");
                if is_class {
                    let seats = plan.rule().functions.seats(plan.layout().max_age);
                    assert!(placed.unplaced >= 63 - seats, "{scheme:?}");
                }
            }
        }
    }
}

#[test]
fn assign_changes_values_and_nothing_else() {
    for scheme in every_table() {
        let pairs = distinct(&scheme, 20_000);
        let plan = planned(&scheme, slots_for(&scheme, pairs.len()));
        schemes::assigned(&cpus(), &plan, &referenced(&plan, &pairs), &pairs);
    }
}

#[test]
fn decode_is_the_pair_of_each_cell() {
    for scheme in every_table() {
        for size in [0, 1, 100, 25_000] {
            let plan = planned(&scheme, slots_for(&scheme, size));
            schemes::decoded(&cpus(), &plan, &referenced(&plan, &distinct(&scheme, size)), size);
        }
    }
}

/// Removes and lifts as the reference does. Placing the lifted pairs again gives the table of the remaining pairs,
/// including the maximum ages.
#[test]
fn removing_and_compacting_give_the_table_of_the_remaining_pairs() {
    for scheme in every_table().filter(|scheme| scheme.kind() == Kind::Canonical) {
        let pairs = distinct(&scheme, 20_000);
        let plan = planned(&scheme, slots_for(&scheme, pairs.len()));
        let image = referenced(&plan, &pairs);
        let mut gone: Vec<u32> = pairs.iter().step_by(3).map(|pair| pair.0).collect();
        let count = gone.len() as u64;
        gone.extend(gone.clone());
        let rest: Pairs = pairs.iter().enumerate().filter(|(i, _)| i % 3 != 0).map(|(_, &pair)| pair).collect();
        let mut expected = image.clone();
        assert_eq!(RobinHood::remove(&plan, &mut expected, &gone), count);
        for cpu in cpus() {
            let mut memory = cpu.upload(&image).expect("memory");
            let removed = Kernels::<RobinHood>::remove(&cpu, &plan, &mut memory, &cpu.upload(&gone).expect("memory"));
            assert_eq!(removed.expect("removed").pairs, count);
            assert!(memory.words() == expected, "{scheme:?}");
            let audit = audited(&plan, memory.words());
            assert_eq!((audit.pairs, audit.tombstones), (rest.len() as u64, count));
            answers(&cpu, &plan, memory.words(), &gone, &vec![None; gone.len()]);

            let Decoded { keys, values, taken } = Kernels::<RobinHood>::lift(&cpu, &plan, &mut memory).expect("lifted");
            let lifted = cpu.select_pairs(&taken, true, &keys, &values).expect("selected");
            assert!(lifted.0.words().len() > 1000);
            Kernels::<RobinHood>::place(&cpu, &plan, &mut memory, &lifted.0, &lifted.1).expect("placed");
            assert!(memory.words() == referenced(&plan, &rest), "{scheme:?}");
        }
        // No pair must be placed again, and yet the maximum ages change.
        let cpu = Cpu::new();
        let mut memory = cpu.upload(&image).expect("memory");
        let all: Vec<u32> = pairs.iter().map(|pair| pair.0).collect();
        Kernels::<RobinHood>::remove(&cpu, &plan, &mut memory, &cpu.upload(&all).expect("memory")).expect("removed");
        Kernels::<RobinHood>::lift(&cpu, &plan, &mut memory).expect("lifted");
        let none = cpu.filled(0, 0u32).expect("memory");
        Kernels::<RobinHood>::place(&cpu, &plan, &mut memory, &none, &none).expect("placed");
        assert!(memory.words().iter().all(|&word| word == 0), "{scheme:?}");
    }
}

#[test]
fn classic_tables_are_not_changed_by_removal() -> Result<()> {
    let cpu = Cpu::new();
    let plan = planned(&RobinHood::classic(), 100);
    let mut image = cpu.filled(plan.words() as usize, 0u64)?;
    let keys = cpu.filled(1, 0u32)?;
    let removed = Kernels::<RobinHood>::remove(&cpu, &plan, &mut image, &keys);
    assert!(matches!(removed, Err(Error::InvalidParameter { .. })));
    let lifted = Kernels::<RobinHood>::lift(&cpu, &plan, &mut image);
    assert!(matches!(lifted, Err(Error::InvalidParameter { .. })));
    Ok(())
}

#[test]
fn any_image_can_be_read_and_built_on() {
    let [cpu] = schemes::with_threads([2]);
    for scheme in every_table() {
        let pairs = distinct(&scheme, 900);
        schemes::arbitrary_images(&cpu, &planned(&scheme, 1500), &pairs, &queries(&pairs));
    }
}
