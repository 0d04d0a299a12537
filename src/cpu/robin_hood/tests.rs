//! The CPU's Robin Hood tables compared with the sequential reference, on one thread and on more than the machine has.

use std::collections::HashMap;

use crate::backend::{Decoded, HashBackend, Kernels, Placed, bitmap_words};
use crate::cpu::{Cpu, Memory};
use crate::error::{Error, Result};
use crate::scheme::hash::{MixKeys, SplitMix64, mix};
use crate::scheme::{Audit, Kind, Placing, Plan, Request, RobinHood, RobinHoodPlan, Scheme, Sequence};

const THREADS: [usize; 3] = [1, 2, 7];

type Pairs = Vec<(u32, u32)>;

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

fn shuffled(mut pairs: Pairs, seed: u64) -> Pairs {
    let mut stream = SplitMix64::new(seed);
    for i in (1..pairs.len()).rev() {
        pairs.swap(i, stream.next_u64() as usize % (i + 1));
    }
    pairs
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

fn cpus() -> Vec<Cpu> {
    THREADS.into_iter().map(|threads| Cpu::with_threads(threads).expect("threads")).collect()
}

fn columns(cpu: &Cpu, pairs: &[(u32, u32)]) -> (Memory<u32>, Memory<u32>) {
    let (keys, values): (Vec<u32>, Vec<u32>) = pairs.iter().copied().unzip();
    (cpu.upload(&keys).expect("memory"), cpu.upload(&values).expect("memory"))
}

/// The image after some batches, and the counts of the last one.
fn built(cpu: &Cpu, plan: &RobinHoodPlan, batches: &[&[(u32, u32)]]) -> (Vec<u64>, Placed) {
    let mut image = cpu.filled(plan.words() as usize, plan.empty_word()).expect("memory");
    let mut placed = Placed::default();
    for batch in batches {
        let (keys, values) = columns(cpu, batch);
        placed = Kernels::<RobinHood>::place(cpu, plan, &mut image, &keys, &values).expect("placed");
    }
    (image.words().to_vec(), placed)
}

/// The image built by the one-key-at-a-time rule.
fn referenced(plan: &RobinHoodPlan, pairs: &[(u32, u32)]) -> Vec<u64> {
    let mut image = vec![plan.empty_word(); plan.words() as usize];
    assert_ne!(RobinHood::place(plan, &mut image, pairs), Placing::Unplaced, "{plan:?}");
    image
}

fn audited(plan: &RobinHoodPlan, image: &[u64]) -> Audit {
    RobinHood::audit(plan, image, 0..plan.cells()).unwrap_or_else(|error| panic!("{plan:?}: {error}"))
}

fn looked_up(cpu: &Cpu, plan: &RobinHoodPlan, image: &[u64], queries: &[u32]) -> Vec<Option<u32>> {
    let image = cpu.upload(image).expect("memory");
    let queries = cpu.upload(queries).expect("memory");
    let mut values = cpu.filled(queries.words().len(), 0xdead_beef).expect("memory");
    let mut found = cpu.filled(bitmap_words(queries.words().len()), u32::MAX).expect("memory");
    Kernels::<RobinHood>::lookup(cpu, plan, &image, &queries, &mut values, &mut found).expect("looked up");
    let bit = |i: usize| found.words()[i / 32] >> (i % 32) & 1 == 1;
    let past = 32 * found.words().len() - queries.words().len();
    assert!(found.words().last().is_none_or(|&last| past == 0 || last >> (32 - past) == 0), "bits past the end");
    let value = |(i, &value): (usize, &u32)| {
        assert!(bit(i) || value == 0);
        bit(i).then_some(value)
    };
    values.words().iter().enumerate().map(value).collect()
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
            for cpu in [Cpu::with_threads(1), Cpu::with_threads(3)].map(|cpu| cpu.expect("threads")) {
                for len in [0, 1, 31, 33, 128, 129, queries.len()] {
                    let queries = &queries[queries.len() - len.min(queries.len())..];
                    let expected: Vec<_> = queries.iter().map(|key| map.get(key).copied()).collect();
                    assert!(looked_up(&cpu, &plan, &image, queries) == expected, "{scheme:?}, {size}, {len}");
                }
            }
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
            let mut times: HashMap<u32, u64> = HashMap::new();
            pairs.iter().for_each(|(key, _)| *times.entry(*key).or_default() += 1);
            let duplicates = pairs.len() as u64 - times.len() as u64;
            let least_duplicate = times.iter().filter(|&(_, &times)| times > 1).map(|(&key, _)| key).min();
            let plan = planned(&scheme, slots_for(&scheme, times.len()));
            let expected = referenced(&plan, &pairs);
            for (cpu, seed) in cpus.iter().zip(0..) {
                let (image, placed) = built(cpu, &plan, &[&shuffled(pairs.clone(), seed)]);
                assert_eq!(placed, Placed { duplicates, least_duplicate, ..Placed::default() }, "{scheme:?}, {name}");
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
        let limits = scheme.limits();
        let pairs = distinct(&scheme, 20_000);
        let plan = planned(&scheme, slots_for(&scheme, pairs.len()));
        let image = referenced(&plan, &pairs);
        let mut after: HashMap<u32, u32> = pairs.iter().copied().collect();
        let absent = (3..).find(|key| !after.contains_key(key)).expect("one");
        let mut changes: Pairs =
            pairs.iter().step_by(3).map(|&(key, value)| (key, cut(value ^ 0xffff, limits.value_bits))).collect();
        after.extend(changes.iter().copied());
        changes.push((absent, 0));
        for cpu in cpus() {
            let mut memory = cpu.upload(&image).expect("memory");
            let (keys, values) = columns(&cpu, &changes);
            Kernels::<RobinHood>::assign(&cpu, &plan, &mut memory, &keys, &values).expect("assigned");
            audited(&plan, memory.words());
            let everywhere =
                after.iter().all(|(&key, &value)| RobinHood::find(&plan, memory.words(), key) == Some(value));
            assert!(everywhere, "{scheme:?}");
            let bits = plan.layout().value_bits;
            assert!(memory.words().iter().zip(&image).all(|(new, old)| new >> bits == old >> bits), "{scheme:?}");
        }
    }
}

#[test]
fn decode_is_the_pair_of_each_cell() {
    for scheme in every_table() {
        for size in [0, 1, 100, 25_000] {
            let plan = planned(&scheme, slots_for(&scheme, size));
            let image = referenced(&plan, &distinct(&scheme, size));
            for cpu in cpus() {
                let Decoded { keys, values, taken } =
                    Kernels::<RobinHood>::decode(&cpu, &plan, &cpu.upload(&image).expect("memory")).expect("decoded");
                let cells = plan.cells() as usize;
                let lengths = (keys.words().len(), values.words().len(), taken.words().len());
                assert_eq!(lengths, (cells, cells, bitmap_words(cells)));
                for cell in 0..cells {
                    let there = taken.words()[cell / 32] >> (cell % 32) & 1 == 1;
                    let pair = (keys.words()[cell], values.words()[cell]);
                    assert_eq!(there.then_some(pair), RobinHood::pair(&plan, &image, cell as u64), "{scheme:?}");
                }
            }
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
            let found = looked_up(&cpu, &plan, memory.words(), &gone);
            assert!(found.iter().all(Option::is_none));

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
fn any_image_can_be_read_and_built_on() -> Result<()> {
    let cpu = Cpu::with_threads(2)?;
    let mut stream = SplitMix64::new(8);
    for scheme in every_table() {
        let plan = planned(&scheme, 1500);
        let noise: Vec<u64> = (0..plan.words()).map(|_| stream.next_u64()).collect();
        let pairs = distinct(&scheme, 900);
        let queries = queries(&pairs);
        for fill in [0, u64::MAX, 1, 1 << 63] {
            let image: Vec<u64> = noise.iter().map(|&noise| if fill == 1 { noise } else { fill }).collect();
            let expected: Vec<_> = queries.iter().map(|&key| RobinHood::find(&plan, &image, key)).collect();
            assert!(looked_up(&cpu, &plan, &image, &queries) == expected, "{scheme:?}, {fill}");
            let mut image = cpu.upload(&image)?;
            let (keys, values) = columns(&cpu, &pairs);
            Kernels::<RobinHood>::decode(&cpu, &plan, &image)?;
            Kernels::<RobinHood>::assign(&cpu, &plan, &mut image, &keys, &values)?;
            Kernels::<RobinHood>::place(&cpu, &plan, &mut image, &keys, &values)?;
            if scheme.kind() == Kind::Canonical {
                Kernels::<RobinHood>::remove(&cpu, &plan, &mut image, &keys)?;
                Kernels::<RobinHood>::lift(&cpu, &plan, &mut image)?;
            }
        }
    }
    Ok(())
}
