//! Tests of the cuckoo set (Alcantara et al. 2011, Section 4.4): keys may occur more than once, a slot has 32 bits, and
//! the image is that of the cuckoo table without the values.

use std::collections::BTreeSet;

use crate::common::{devices, image, on_one_thread, opencl_devices, size};
use koel::backend::{HashBackend, Kernels, Placed};
use koel::device::Any;
use koel::scheme::{CuckooSetPlan, Plan, Request};
use koel::workload::Workload;
use koel::{Cpu, CuckooSet, Duplicates, Error, HashFamily, HashTable, Kind, Reinsertion, Scheme};

fn schemes() -> Vec<CuckooSet> {
    (2..=5).flat_map(|functions| [CuckooSet::canonical(functions), CuckooSet::classic(functions)]).collect()
}

/// The halves of an image's words, the lower first.
fn halves(words: &[u64]) -> Vec<u32> {
    words.iter().flat_map(|&word| [word as u32, (word >> 32) as u32]).collect()
}

#[test]
fn tiny_sets_always_build() {
    on_one_thread(|device| schemes().iter().for_each(|scheme| tiny_sets(device, scheme)));
}

/// The values of sets are 0, so only loads and attempts of the suite for tables of pairs are tested.
fn tiny_sets(device: &Any, scheme: &CuckooSet) {
    for n in 1..=64 {
        for seed in 0..u64::from(size(50, 2)) {
            let keys = Workload::new(n, seed).keys();
            let built = HashTable::builder(scheme.clone()).seed(seed).build(device, &keys, &vec![0; keys.len()]);
            let set = built.unwrap_or_else(|error| panic!("{scheme:?}, n = {n}, seed {seed}: {error}"));
            assert!(set.contains(&keys).unwrap().iter().all(|&there| there));
        }
    }
}

/// The slots are the upper halves of the table with the same parameters and with values of 0, at every load, size and
/// seed, also with tombstones and compacted. Writing values next to the slots therefore results in that table.
#[test]
#[ignore = "slow: parameters of the scheme, on every device; CI runs it"]
fn slots_are_the_upper_halves_of_the_cuckoo_table() {
    for functions in 2..=5 {
        let scheme = CuckooSet::canonical(functions);
        for device in devices() {
            for n in [0, 1, 20, 1001, size(20_000, 300)] {
                let keys = Workload::new(n, 3).keys();
                let zeros = vec![0; keys.len()];
                let mut set = HashTable::builder(scheme.clone()).seed(8).build(&device, &keys, &zeros).unwrap();
                let mut table =
                    HashTable::builder(scheme.cuckoo().clone()).seed(8).build(&device, &keys, &zeros).unwrap();
                let gone = &keys[..keys.len() / 3];
                for step in 0..3 {
                    match step {
                        1 => assert_eq!(set.remove(gone).unwrap(), table.remove(gone).unwrap()),
                        2 => _ = (set.compact().unwrap(), table.compact().unwrap()),
                        _ => {}
                    }
                    assert_eq!(set.plan().cuckoo(), table.plan());
                    let uppers: Vec<u32> = image(&table).iter().map(|word| (word >> 32) as u32).collect();
                    assert_eq!(halves(&image(&set))[..uppers.len()], uppers, "H = {functions}, n = {n}, step {step}");
                    assert_eq!(set.plan().words(), set.slots().div_ceil(2) as u64);
                    assert_eq!(set.to_pairs().unwrap(), table.to_pairs().unwrap());
                }
            }
        }
    }
}

/// Places keys with duplicates, attempt by attempt.
fn placed(device: &Any, scheme: &CuckooSet, slots: u64, keys: &[u32]) -> (CuckooSetPlan, Vec<u64>, Placed) {
    let (there, zeros) = (device.upload(keys).unwrap(), device.filled(keys.len(), 0).unwrap());
    let attempt = |attempt| {
        let plan = scheme.plan(Request { slots, pairs: keys.len() as u64, seed: 4, attempt }).unwrap();
        let mut image = device.filled(plan.words() as usize, plan.empty_word()).unwrap();
        let placed = Kernels::<CuckooSet>::place(device, &plan, &mut image, &there, &zeros).unwrap();
        (placed.unplaced == 0).then(|| (plan.with_outside(placed.outside), device.download(&image).unwrap(), placed))
    };
    (0..32).find_map(attempt).unwrap_or_else(|| panic!("{scheme:?}: {} keys in {slots} slots", keys.len()))
}

/// Each key occurs m times, and there are slots for the distinct keys: duplicates are dropped and counted.
#[test]
#[ignore = "slow: parameters of the scheme, on every device; CI runs it"]
fn duplicate_keys_are_accepted() {
    for device in devices() {
        for scheme in schemes() {
            for times in [1, 2, 3, 64] {
                let distinct = Workload::new(size(3000, 100), 6).keys();
                let keys: Vec<u32> = (0..times).flat_map(|_| distinct.iter().copied()).collect();
                let slots = scheme.default_load().slots_for(distinct.len() as u64);
                let (plan, image, placed) = placed(&device, &scheme, slots, &keys);
                assert_eq!(placed.duplicates, (keys.len() - distinct.len()) as u64, "{scheme:?}, {times} of each");
                assert_eq!(placed.least_duplicate, distinct.iter().copied().min().filter(|_| times > 1));
                let audit = CuckooSet::audit(&plan, &image, 0..plan.cells()).unwrap();
                assert_eq!(audit.pairs + u64::from(plan.outside().is_some()), distinct.len() as u64);
                assert!(distinct.iter().all(|&key| CuckooSet::find(&plan, &image, key) == Some(0)));
                if scheme.kind() == Kind::Canonical {
                    let pairs = distinct.iter().map(|&key| (key, 0));
                    assert_eq!(
                        crate::common::reference::<CuckooSet>(&plan, pairs),
                        Some(image),
                        "{scheme:?}, {times} of each"
                    );
                }
            }
        }
    }
}

/// The sentinel key of a classic set is stored once, outside its image.
#[test]
#[ignore = "slow: parameters of the scheme, on every device; CI runs it"]
fn the_sentinel_key_is_handled_like_others() {
    for device in devices() {
        for scheme in [CuckooSet::canonical(4), CuckooSet::classic(4)] {
            let keys = [u32::MAX, 5, u32::MAX, 0, 5, u32::MAX];
            let (plan, image, placed) = placed(&device, &scheme, 20, &keys);
            assert_eq!((placed.duplicates, placed.least_duplicate), (3, Some(5)));
            assert_eq!(placed.outside.is_some(), scheme.kind() == Kind::Classic);
            let there = [0, 5, u32::MAX].map(|key| CuckooSet::find(&plan, &image, key));
            assert_eq!((there, CuckooSet::find(&plan, &image, 1)), ([Some(0); 3], None));
            let builder = HashTable::builder(scheme).slots(20);
            let mut set = builder.build(&device, &[u32::MAX, 1], &[0, 0]).unwrap();
            let refused = set.insert(&[u32::MAX], &[0]);
            assert!(matches!(refused, Err(Error::DuplicateKey { key: 0xffff_ffff })), "{refused:?}");
            assert_eq!((set.remove(&[u32::MAX, u32::MAX]).unwrap(), set.len()), (1, 1));
            assert_eq!(set.insert(&[u32::MAX], &[0]).unwrap().added, 1);
            assert_eq!(set.contains(&[u32::MAX, 1, 2]).unwrap(), [true, true, false]);
        }
    }
}

#[test]
#[ignore = "slow: parameters of the scheme, on every device; CI runs it"]
fn duplicates_of_one_key_are_one_key() {
    let n = size(200_000, 500) as usize;
    for device in devices() {
        for scheme in schemes() {
            for key in [7, u32::MAX] {
                let (plan, image, placed) = placed(&device, &scheme, 16, &vec![key; n]);
                assert_eq!((placed.duplicates, placed.least_duplicate), (n as u64 - 1, Some(key)));
                assert_eq!(CuckooSet::find(&plan, &image, key), Some(0));
            }
        }
    }
}

/// Sets have no values: values other than 0 are rejected, and nothing is overwritten.
#[test]
#[ignore = "slow: parameters of the scheme, on every device; CI runs it"]
fn values_are_refused() {
    for device in devices() {
        for scheme in [CuckooSet::canonical(4), CuckooSet::classic(4)] {
            let builder = HashTable::builder(scheme).duplicates(Duplicates::KeepLast);
            let refused = builder.build(&device, &[1, 2], &[0, 1]);
            assert!(matches!(refused, Err(Error::TooWide { what: "value", given: 1, bits: 0, .. })), "{refused:?}");
            let mut set = builder.build(&device, &[1, 2, 1], &[0; 3]).unwrap();
            assert!(matches!(set.upsert(&[1], &[9]), Err(Error::TooWide { .. })));
            let done = set.upsert(&[1, 3], &[0, 0]).unwrap();
            assert_eq!((done.added, done.overwritten, set.len()), (1, 1, 3));
            assert_eq!(set.get(&[1, 4]).unwrap(), [Some(0), None]);
        }
    }
}

/// Space from 1.02 to 4.5 N, every family and every rule, with keys that occur twice each.
#[test]
#[ignore = "slow: parameters of the scheme, on every device; CI runs it"]
fn classic_sets_build_in_every_space_with_every_family_and_rule() {
    let distinct = Workload::new(size(20_000, 200), 4).keys();
    let keys = [&distinct[..], &distinct[..]].concat();
    for device in std::iter::once(Any::Cpu(Cpu::new())).chain(opencl_devices()) {
        for (functions, space) in [(2, 2.3), (3, 1.15), (4, 1.25), (4, 1.05), (5, 1.02), (4, 4.5)] {
            for family in HashFamily::ALL {
                for rule in Reinsertion::ALL {
                    let scheme = CuckooSet::classic(functions).family(family).reinsertion(rule);
                    let slots = (distinct.len() as f64 * space) as u64;
                    let (plan, image, placed) = placed(&device, &scheme, slots, &keys);
                    assert_eq!(placed.duplicates, distinct.len() as u64);
                    let stand: BTreeSet<u32> = (0..plan.cells())
                        .filter_map(|at| CuckooSet::pair(&plan, &image, at))
                        .map(|pair| pair.0)
                        .collect();
                    assert!(stand.into_iter().chain(plan.outside().map(|(key, _)| key)).eq(sorted(&distinct)));
                }
            }
        }
    }
}

fn sorted(keys: &[u32]) -> Vec<u32> {
    let mut keys = keys.to_vec();
    keys.sort_unstable();
    keys
}

#[test]
fn half_the_bytes_of_the_table() {
    for (slots, words) in [(16, 8), (17, 9), (1000, 500), (1001, 501)] {
        let set = HashTable::builder(CuckooSet::default()).slots(slots).build(&Cpu::new(), &[1], &[0]).unwrap();
        assert_eq!((set.capacity(), set.image().words().len()), (slots, words));
        assert_eq!((set.stats().unwrap().bucket_bytes, set.stats().unwrap().bytes), (4, 8 * words as u64));
    }
}

/// A set of one slot, which is half of a word.
#[test]
#[ignore = "slow: parameters of the scheme, on every device; CI runs it"]
fn a_classic_set_of_one_slot() {
    for device in devices() {
        let builder = HashTable::builder(CuckooSet::classic(4)).slots(1);
        let set = builder.build(&device, &[9, u32::MAX], &[0, 0]).unwrap();
        assert_eq!((set.contains(&[9, u32::MAX, 8]).unwrap(), image(&set).len()), (vec![true, true, false], 1));
        set.audit().unwrap();
        assert!(matches!(builder.build(&device, &[9, 10], &[0, 0]), Err(Error::TooFull { .. })));
    }
}
