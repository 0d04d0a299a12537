//! Tests of the Robin Hood scheme: loads, pictures and other patterns of keys, crowds, the paper's cells and their
//! limits, maximum ages.

use std::collections::BTreeMap;

use crate::common::{devices, on_one_thread, size, sizes};
use koel::backend::HashBackend;
use koel::device::Any;
use koel::scheme::robin_hood::cell::{CANONICAL, PAIRS};
use koel::scheme::robin_hood::max_ages::MaxAges;
use koel::scheme::robin_hood::prime::is_prime;
use koel::scheme::{Plan, RobinHoodPlan};
use koel::workload::Workload;
use koel::{Error, HashTable, Kind, RobinHood, Scheme, Sequence};

type Table = HashTable<Any, RobinHood>;

/// The sequences that reach every load.
const SCATTERED: [Sequence; 2] = [Sequence::Coherent, Sequence::Random];

/// Schemes of both kinds, with every number of bits.
fn kinds_and_bits() -> impl Iterator<Item = RobinHood> {
    let kinds = [RobinHood::canonical(), RobinHood::classic()];
    kinds.into_iter().flat_map(|scheme| [0, 2, 3, 4].map(|bits| scheme.clone().max_ages(bits)))
}

/// Truncates values to 28 bits.
fn narrow(values: &[u32]) -> Vec<u32> {
    values.iter().map(|value| value & 0x0fff_ffff).collect()
}

/// Builds a table, and queries every key, keys between them and others.
fn built(device: &Any, scheme: &RobinHood, load: f64, keys: &[u32]) -> Table {
    let values = narrow(keys);
    let builder = HashTable::builder(scheme.clone()).load_factor(load);
    let table = builder.build(device, keys, &values).unwrap_or_else(|e| panic!("{scheme:?} at {load}: {e}"));
    answers(&table, &keys.iter().copied().zip(values).collect());
    table
}

fn answers(table: &Table, model: &BTreeMap<u32, u32>) {
    let queries: Vec<u32> = model.keys().flat_map(|&key| [key, key ^ 1, !key]).collect();
    let expected: Vec<_> = queries.iter().map(|query| model.get(query).copied()).collect();
    assert_eq!(table.get(&queries).unwrap(), expected, "{:?}", table.plan());
    assert_eq!(table.audit().unwrap().pairs, model.len() as u64);
    let pairs: BTreeMap<u32, u32> = table.to_pairs().unwrap().into_iter().collect();
    assert_eq!(&pairs, model);
}

#[test]
#[ignore = "slow: parameters of the scheme, on every device; CI runs it"]
fn tables_reach_their_loads() {
    let n = sizes(200_000, 20_000, 500);
    for (device, seed) in devices().iter().zip(0..) {
        let keys = Workload::new(n, seed).keys();
        for scheme in kinds_and_bits() {
            for sequence in SCATTERED {
                for load in [0.8, 0.99] {
                    let table = built(device, &scheme.clone().sequence(sequence), load, &keys);
                    // The load is lower, because the slots are rounded up to a prime.
                    assert!((0.0..0.02).contains(&(load - table.load_factor())), "{}", table.load_factor());
                    assert!(scheme.kind() == Kind::Classic || table.restarts() == 0);
                }
            }
        }
        // A prime number of pairs, so that there are as many slots as pairs.
        let full = (keys.len() as u32..).find(|&slots| is_prime(slots)).unwrap();
        let table = built(device, &RobinHood::canonical(), 1.0, &Workload::new(full, seed).keys());
        assert_eq!(table.load_factor(), 1.0);
        let paper = Sequence::PaperRandom;
        built(device, &RobinHood::canonical().sequence(paper), 0.85, &keys);
        built(device, &RobinHood::classic().sequence(paper), 0.5, &keys);
    }
}

#[test]
fn tiny_tables_always_build() {
    on_one_thread(|device| {
        for scheme in kinds_and_bits() {
            Sequence::ALL.into_iter().for_each(|sequence| tiny_tables_of(device, &scheme.clone().sequence(sequence)));
        }
    });
}

fn tiny_tables_of(device: &Any, scheme: &RobinHood) {
    for n in 1..=64 {
        for seed in 0..u64::from(sizes(100, 16, 2)) {
            let load = Workload::new(n, seed ^ 0xabc);
            let (keys, values) = (load.keys(), narrow(&load.values()));
            let built = HashTable::builder(scheme.clone()).seed(seed).build(device, &keys, &values);
            let table = built.unwrap_or_else(|error| panic!("{scheme:?}, n = {n}, seed {seed}: {error}"));
            if seed % 16 == 0 {
                answers(&table, &keys.into_iter().zip(values).collect());
            }
        }
    }
}

/// Keys of a picture: its columns and rows, every second pixel, and a stride equal to the capacity.
#[test]
#[ignore = "slow: parameters of the scheme, on every device; CI runs it"]
fn pictures_of_any_width_are_built() {
    let side = sizes(8192, 1024, 256);
    let strip: Vec<u32> = (0..8 * side).map(|i| i % 8 + side * (i / 8)).collect();
    let checkerboard: Vec<u32> = (0..sizes(1 << 17, 1 << 14, 1 << 9))
        .map(|i| (i % 256, i / 256))
        .map(|(x, y)| 2 * x + y % 2 + side * y)
        .collect();
    let rows: Vec<u32> = (0..8 * side).map(|i| i % side + (side << 8) * (i / side)).collect();
    let multiples: Vec<u32> = (0..sizes(20_000, 5000, 500)).map(|i| i * (1 << 15)).collect();
    for device in devices() {
        for keys in [&strip, &checkerboard, &rows, &multiples] {
            for scheme in [RobinHood::canonical(), RobinHood::canonical().max_ages(4), RobinHood::classic()] {
                for load in [0.8, 0.9] {
                    built(&device, &scheme, load, keys);
                    built(&device, &scheme.clone().sequence(Sequence::Random), load, keys);
                }
            }
            // The requested number of slots is a multiple of the width, or the stride itself.
            let values = narrow(keys);
            let builder = HashTable::builder(RobinHood::canonical());
            for slots in [2 * keys.len() as u64, 1 << 15] {
                if slots >= keys.len() as u64 {
                    let table = builder.clone().slots(slots as usize).build(&device, keys, &values).unwrap();
                    answers(&table, &keys.iter().copied().zip(values.iter().copied()).collect());
                }
            }
        }
    }
}

/// Keys of one home at attempt 0.
fn class_of(plan: &RobinHoodPlan, count: u32) -> Vec<u32> {
    let rule = plan.rule();
    (0..count).map(|quotient| rule.functions.key(77, quotient)).collect()
}

#[test]
#[ignore = "slow: parameters of the scheme, on every device; CI runs it"]
fn a_class_of_the_first_modulus_is_scattered_by_the_next() {
    for device in devices() {
        for scheme in [RobinHood::canonical(), RobinHood::canonical().max_ages(2), RobinHood::classic()] {
            for sequence in Sequence::ALL {
                let scheme = scheme.clone().sequence(sequence);
                let builder = HashTable::builder(scheme.clone()).slots(10_007).seed(3);
                let plan = *builder.build(&device, &[], &[]).unwrap().plan();
                let keys = class_of(&plan, 4000);
                let values = narrow(&keys);
                let model = || keys.iter().copied().zip(values.iter().copied()).collect();

                let table = builder.clone().build(&device, &keys, &values).unwrap();
                assert!(table.restarts() > 0 && table.capacity() > 10_007, "{scheme:?}");
                answers(&table, &model());
                // A batch that needs the next attempt results in the table that one build creates.
                let mut batched = builder.clone().build(&device, &keys[..10], &values[..10]).unwrap();
                assert_eq!(batched.restarts(), 0);
                assert!(batched.insert(&keys[10..], &values[10..]).unwrap().rebuilt);
                assert_eq!(batched.digest().unwrap(), table.digest().unwrap(), "{scheme:?}");

                let refused = builder.clone().attempts(1).build(&device, &keys, &values);
                let Err(error @ Error::Crowded { attempts: 1, .. }) = refused else { panic!("{refused:?}") };
                let (named, text) = (format!("modulo {}", plan.slots()), error.to_string());
                assert!(text.contains("congruent to ") && text.contains(&named), "{text}");
                let Error::Crowded { crowd, .. } = error else { unreachable!() };
                assert_eq!(crowd.keys, 4000);
                assert!((1..=62).contains(&crowd.most));
            }
        }
    }
}

#[test]
#[ignore = "slow: parameters of the scheme, on every device; CI runs it"]
fn failures_are_reported_and_nothing_is_lost() {
    let n = sizes(50_000, 6000, 3000);
    let load = Workload::new(n, 1);
    let (keys, values) = (load.keys(), narrow(&load.values()));
    // A prime number of pairs, so that there are as many slots as pairs.
    let slots = (u64::from(n)..).find(|&slots| is_prime(slots as u32)).unwrap();
    let full = Workload::new(slots as u32, 2).keys();
    for device in devices() {
        for scheme in kinds_and_bits() {
            let paper = scheme.clone().sequence(Sequence::PaperRandom);
            let refused =
                HashTable::builder(paper).slots(slots as usize).attempts(2).build(&device, &full, &narrow(&full));
            assert!(
                matches!(refused, Err(Error::TooFull { attempts: 2, unplaced: 1.., .. })),
                "{scheme:?}: {refused:?}"
            );
        }
        let classic = HashTable::builder(RobinHood::classic()).slots(slots as usize).attempts(1);
        let refused = classic.build(&device, &full, &narrow(&full));
        assert!(matches!(refused, Err(Error::TooFull { attempts: 1, unplaced: 1.., .. })), "{refused:?}");
        let mut table = HashTable::builder(RobinHood::classic()).slots(100).build(&device, &[1], &[2]).unwrap();
        let before = table.digest().unwrap();
        assert!(matches!(table.insert(&keys[..200], &values[..200]), Err(Error::TooFull { .. })));
        assert_eq!((table.digest().unwrap(), table.get(&[1]).unwrap()), (before, vec![Some(2)]));
    }
}

#[test]
#[ignore = "slow: parameters of the scheme, on every device; CI runs it"]
fn keys_and_values_too_wide_for_a_cell_are_refused() {
    for device in devices() {
        let classic = || HashTable::builder(RobinHood::classic()).slots(100);
        let alone = || HashTable::builder(RobinHood::classic().keys_alone()).slots(100);
        let most = (1 << 28) - 1;
        let mut table = classic().build(&device, &[u32::MAX, 0], &[most, 0]).unwrap();
        assert_eq!(table.get(&[0, u32::MAX]).unwrap(), [Some(0), Some(most)]);
        let is = |refused: koel::Result<()>, what: &str, given: u32, bits: u32| match refused {
            Err(Error::TooWide { what: w, given: g, bits: b, .. }) => {
                assert_eq!((w, g, b), (what, u64::from(given), bits))
            }
            other => panic!("{other:?}"),
        };
        is(classic().build(&device, &[5, 6], &[7, 1 << 28]).map(drop), "value", 1 << 28, 28);
        is(table.insert(&[9], &[u32::MAX]).map(drop), "value", u32::MAX, 28);
        is(table.upsert(&[0], &[1 << 30]).map(drop), "value", 1 << 30, 28);
        is(alone().build(&device, &[1 << 28], &[0]).map(drop), "key", 1 << 28, 28);
        is(alone().build(&device, &[3], &[1]).map(drop), "value", 1, 0);
        assert_eq!(table.len(), 2, "a refused batch changes nothing");
    }
}

#[test]
#[ignore = "slow: parameters of the scheme, on every device; CI runs it"]
fn keys_alone_take_four_bytes() {
    let n = sizes(100_000, 20_000, 600);
    let keys: Vec<u32> = Workload::new(n, 3)
        .keys()
        .iter()
        .map(|key| key >> 4)
        .collect::<std::collections::BTreeSet<_>>()
        .into_iter()
        .collect();
    for device in devices() {
        for bits in [0, 2, 3, 4] {
            for sequence in SCATTERED {
                let scheme = RobinHood::classic().keys_alone().max_ages(bits).sequence(sequence);
                let zeros = vec![0; keys.len()];
                let builder = HashTable::builder(scheme).load_factor(0.95);
                let mut table = builder.build(&device, &keys, &zeros).unwrap();
                assert_eq!(table.plan().words(), table.capacity().div_ceil(2) as u64);
                let model: BTreeMap<u32, u32> = keys.iter().map(|&key| (key, 0)).collect();
                answers(&table, &model);
                // Keys with bits above the lower 28.
                let wide: Vec<u32> = keys.iter().map(|&key| key | 5 << 28).collect();
                assert!(!table.contains(&wide).unwrap().contains(&true));
                assert_eq!(table.stats().unwrap().bucket_bytes, 4);
                let absent = (0..).find(|key| !model.contains_key(key)).unwrap();
                assert_eq!(table.upsert(&[absent, keys[0]], &[0, 0]).unwrap().added, 1);
                assert_eq!(table.remove(&[absent, absent, keys[1]]).unwrap(), 2);
                assert_eq!(table.get(&[absent, keys[0], keys[1]]).unwrap(), [None, Some(0), None]);
                table.audit().unwrap();
            }
        }
    }
}

/// Equation 1, computed from the complete table.
fn maximum_ages_are_those_of_equation_1(table: &Table, exact: bool) {
    let plan = table.plan();
    let (rule, image) = (plan.rule(), table.backend().download(table.image()).unwrap());
    let mut greatest = vec![0; plan.slots() as usize];
    for cell in 0..plan.cells() {
        if let Some((key, _)) = RobinHood::pair(plan, &image, cell) {
            let greatest = &mut greatest[rule.aim(key).0 as usize];
            *greatest = RobinHood::age(plan, &image, cell).max(*greatest);
        }
    }
    let (levels, least) = match rule.max_ages {
        MaxAges::Array(levels) => (levels, 0),
        MaxAges::Packed(levels) => (levels, 1),
        MaxAges::None => return,
    };
    for (home, greatest) in (0..).zip(greatest) {
        let bound = rule.bound(&image, home);
        let needed = levels.bound(levels.code(greatest).max(least));
        assert!(bound == needed || !exact && bound > needed, "home {home}: {bound}, but {needed} is needed");
    }
}

#[test]
#[ignore = "slow: parameters of the scheme, on every device; CI runs it"]
fn maximum_ages_are_exact_and_bound_every_lookup() {
    let n = sizes(100_000, 20_000, 500);
    let keys = Workload::new(n, 9).keys();
    for device in devices() {
        for scheme in kinds_and_bits() {
            for sequence in SCATTERED {
                let scheme = scheme.clone().sequence(sequence);
                let table = built(&device, &scheme, 0.95, &keys);
                maximum_ages_are_those_of_equation_1(&table, true);
                let plan = table.plan();
                let (rule, image) = (plan.rule(), device.download(table.image()).unwrap());
                for query in Workload::new(0, 4).queries(2000, 0) {
                    assert!(RobinHood::reads(plan, &image, query) <= rule.bound(&image, rule.aim(query).0).max(1));
                }
            }
        }
    }
}

#[test]
#[ignore = "slow: parameters of the scheme, on every device; CI runs it"]
fn maximum_ages_follow_batches_removal_and_compaction() {
    let n = size(20_000, 400) as usize;
    let load = Workload::new(n as u32, 9);
    let (keys, values) = (load.keys(), load.values());
    let slots = (n as u64) * 10 / 9;
    for device in devices() {
        for bits in [2, 3, 4] {
            let builder = || HashTable::builder(RobinHood::canonical().max_ages(bits)).slots(slots as usize);
            let mut table = builder().build(&device, &keys[..n / 2], &values[..n / 2]).unwrap();
            assert!(!table.insert(&keys[n / 2..], &values[n / 2..]).unwrap().rebuilt);
            maximum_ages_are_those_of_equation_1(&table, true);
            let whole = builder().build(&device, &keys, &values).unwrap();
            assert_eq!(table.digest().unwrap(), whole.digest().unwrap());

            table.remove(&keys[..n / 3]).unwrap();
            maximum_ages_are_those_of_equation_1(&table, false);
            let rest = || keys[n / 3..].iter().copied().zip(values[n / 3..].iter().copied()).collect();
            answers(&table, &rest());
            table.compact().unwrap();
            maximum_ages_are_those_of_equation_1(&table, true);
            answers(&table, &rest());
            let fresh = builder().build(&device, &keys[n / 3..], &values[n / 3..]).unwrap();
            assert_eq!(table.digest().unwrap(), fresh.digest().unwrap());
        }
    }
}

/// The paper's atomic maximum is the canonical rule, so its bytes do not depend on the schedule either.
#[test]
#[ignore = "slow: parameters of the scheme, on every device; CI runs it"]
fn classic_tables_are_the_same_on_any_number_of_threads() {
    let load = Workload::new(size(100_000, 500), 4);
    let (mut keys, mut values) = (load.keys(), narrow(&load.values()));
    let scheme = RobinHood::classic();
    let digest = |device: &Any, keys: &[u32], values: &[u32]| {
        HashTable::builder(scheme.clone()).build(device, keys, values).unwrap().digest().unwrap()
    };
    let first = digest(&devices()[0], &keys, &values);
    keys.reverse();
    values.reverse();
    assert!(devices().iter().all(|device| digest(device, &keys, &values) == first));
}

/// The requested slots are rounded up to a prime, and the bytes do not depend on the requested number.
#[test]
#[ignore = "slow: parameters of the scheme, on every device; CI runs it"]
fn slots_requested_below_the_same_prime_give_the_same_bytes() {
    let device = &devices()[0];
    let build = |slots: u64| {
        HashTable::builder(RobinHood::canonical()).slots(slots as usize).build(device, &[1, 2], &[3, 4]).unwrap()
    };
    let digests: Vec<_> = (98..=101).map(|slots| build(slots).digest().unwrap()).collect();
    assert!(digests.iter().all(|digest| *digest == digests[0]));
    assert_ne!(build(102).digest().unwrap(), digests[0]);
    let mut table = build(98);
    assert_eq!((table.capacity(), table.insert(&[5], &[6]).unwrap().rebuilt), (101, false));
}

/// `1 / density` times the bits of the keys (Section 3.1).
#[test]
#[ignore = "slow: parameters of the scheme, on every device; CI runs it"]
fn tables_sized_by_key_density_take_the_bits_they_are_given() {
    let keys: Vec<u32> = (0..size(50_000, 5000)).map(|i| i * 5001 % (1 << 28)).collect();
    for (density, key_bits) in [(1.0 / 1.2, 28), (0.7, 28)] {
        let load = RobinHood::load_for_key_density(density, key_bits, 4).unwrap();
        let builder = HashTable::builder(RobinHood::classic().keys_alone()).load_factor(load.get());
        let table = builder.build(&devices()[1], &keys, &vec![0; keys.len()]).unwrap();
        let (bits, of_keys) = (64.0 * table.plan().words() as f64, f64::from(key_bits) * keys.len() as f64);
        assert!((of_keys / bits - density).abs() < 5e-3, "{} for {density}", of_keys / bits);
    }
    assert_eq!(64 - CANONICAL.value_bits - CANONICAL.age_bits, CANONICAL.name_bits);
    assert_eq!((PAIRS.age_bits, PAIRS.name_bits, PAIRS.value_bits), (4, 32, 28), "the paper's word");
}
