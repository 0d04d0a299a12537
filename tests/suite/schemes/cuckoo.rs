//! Tests of the cuckoo scheme: loads, tiny tables, families of hash functions, re-insertion rules, restarts.

use crate::common::{on_one_thread, one_thread, opencl_devices, size, sizes, tiny_tables};
use koel::backend::HashBackend;
use koel::device::Any;
use koel::workload::Workload;
use koel::{Cpu, Cuckoo, Error, HashFamily, HashTable, Reinsertion};

#[test]
#[ignore = "slow: parameters of the scheme, on every device; CI runs it"]
fn tiny_canonical_tables_always_build() {
    for functions in 2..=5 {
        on_one_thread(|cpu| tiny_tables(cpu, &Cuckoo::canonical(functions), u64::from(sizes(1000, 100, 3))));
        opencl_devices().iter().for_each(|gpu| tiny_tables(gpu, &Cuckoo::canonical(functions), 2));
    }
}

#[test]
#[ignore = "slow: parameters of the scheme, on every device; CI runs it"]
fn tiny_classic_tables_always_build_with_the_papers_cures() {
    for rule in [Reinsertion::SkipSameSlot, Reinsertion::RandomFunction] {
        for functions in 2..=5 {
            let scheme = Cuckoo::classic(functions).reinsertion(rule);
            on_one_thread(|cpu| tiny_tables(cpu, &scheme, u64::from(sizes(1000, 100, 2))));
            opencl_devices().iter().for_each(|gpu| tiny_tables(gpu, &scheme, 1));
        }
    }
}

#[test]
#[ignore = "slow: parameters of the scheme, on every device; CI runs it"]
fn canonical_tables_reach_their_loads() {
    let n = size(200_000, 500);
    let devices = [Any::Cpu(Cpu::new())].into_iter().chain(opencl_devices());
    for device in devices {
        for (functions, load_factor) in [(2, 0.45), (3, 0.90), (4, 0.95), (5, 0.99)] {
            for seed in 0..4 {
                let load = Workload::new(n, seed);
                let built = HashTable::builder(Cuckoo::canonical(functions)).load_factor(load_factor).seed(seed).build(
                    &device,
                    &load.keys(),
                    &load.values(),
                );
                let table = built.unwrap_or_else(|e| panic!("H = {functions} on {}: {e}", device.info()));
                assert!((table.load_factor() - load_factor).abs() < 1e-3 * f64::from(size(1, 10)));
                table.audit().unwrap();
            }
        }
    }
}

/// Space from 1.02 to 4.5 N, every family and every rule; lookups are checked.
#[test]
#[ignore = "slow: parameters of the scheme, on every device; CI runs it"]
fn classic_tables_build_in_every_space_with_every_family_and_rule() {
    let n = size(50_000, 300);
    let load = Workload::new(n, 4);
    let (keys, values) = (load.keys(), load.values());
    let devices: Vec<_> = std::iter::once(Any::Cpu(Cpu::new())).chain(opencl_devices()).collect();
    for device in &devices {
        for (functions, space) in [(2, 2.3), (3, 1.15), (4, 1.25), (4, 1.05), (5, 1.02), (4, 4.5)] {
            for family in HashFamily::ALL {
                for rule in Reinsertion::ALL {
                    let scheme = Cuckoo::classic(functions).family(family).reinsertion(rule);
                    let capacity = (f64::from(n) * space) as u64;
                    let built =
                        HashTable::builder(scheme.clone()).slots(capacity as usize).build(device, &keys, &values);
                    let table = built.unwrap_or_else(|e| panic!("{scheme:?} in {space} N: {e}"));
                    assert!(table.get(&keys).unwrap().iter().zip(&values).all(|(got, want)| *got == Some(*want)));
                    table.audit().unwrap();
                }
            }
        }
    }
}

/// A limit of three swaps is too low for some seeds, so restarts occur and are counted. One swap is too few for all.
#[test]
#[ignore = "slow: parameters of the scheme, on every device; CI runs it"]
fn restarts_are_counted_and_a_hopeless_chain_is_a_typed_error() {
    let load = Workload::new(40, 4);
    let (keys, values) = (load.keys(), load.values());
    for device in std::iter::once(one_thread()).chain(opencl_devices()) {
        let restarted = (0..20).any(|seed| {
            let builder = HashTable::builder(Cuckoo::classic(4).chain(3)).seed(seed).slots(64);
            builder.build(&device, &keys, &values).is_ok_and(|table| table.restarts() > 0)
        });
        assert!(restarted);
        let load = Workload::new(2000, 4);
        let builder = HashTable::builder(Cuckoo::classic(4).chain(1)).attempts(5);
        let refused = builder.build(&device, &load.keys(), &load.values());
        assert!(matches!(refused, Err(Error::TooFull { attempts: 5, .. })), "{refused:?}");
    }
}

/// In nearly full tables, a batch often needs other constants. The table equals that of one build, rebuilt or not. If
/// there are few attempts and the one build fails, the batch fails too.
#[test]
#[ignore = "slow: parameters of the scheme, on every device; CI runs it"]
fn a_batch_that_needs_a_new_attempt_still_equals_one_build() {
    for device in std::iter::once(one_thread()).chain(opencl_devices()) {
        let (mut rebuilt, mut refused) = (0, 0);
        for (functions, slots, n) in [(2, 34, 16), (3, 40, 37)] {
            for seed in 0..u64::from(size(150, 5)) {
                for attempts in [1, 2, 32] {
                    let load = Workload::new(n, seed);
                    let (keys, values) = (load.keys(), load.values());
                    let scheme = Cuckoo::canonical(functions);
                    let builder = HashTable::builder(scheme).slots(slots).seed(seed).attempts(attempts);
                    let half = keys.len() / 2;
                    let Ok(mut table) = builder.build(&device, &keys[..half], &values[..half]) else { continue };
                    let before = table.digest().unwrap();
                    let done = table.insert(&keys[half..], &values[half..]);
                    match (builder.build(&device, &keys, &values), done) {
                        (Ok(whole), Ok(done)) => {
                            assert_eq!(table.digest().unwrap(), whole.digest().unwrap());
                            rebuilt += u32::from(done.rebuilt);
                        }
                        (Err(Error::TooFull { .. }), Err(Error::TooFull { .. })) => {
                            assert_eq!(table.digest().unwrap(), before, "a refused batch changes nothing");
                            refused += 1;
                        }
                        (whole, done) => panic!("{whole:?} at once, {done:?} in batches"),
                    }
                }
            }
        }
        assert!(rebuilt > 0 && refused > 0 || size(1, 0) == 0, "{rebuilt} rebuilt, {refused} refused");
    }
}

/// However often the sentinel key occurs, it counts once, and its duplicates are reported like those of any other key.
#[test]
#[ignore = "slow: parameters of the scheme, on every device; CI runs it"]
fn the_sentinel_key_takes_no_slot_and_is_handled_like_others() {
    for device in std::iter::once(one_thread()).chain(opencl_devices()) {
        let scheme = Cuckoo::classic(4);
        let pair = HashTable::builder(scheme.clone()).slots(1).build(&device, &[1, u32::MAX], &[5, 6]).unwrap();
        assert_eq!(pair.get(&[1, u32::MAX]).unwrap(), [Some(5), Some(6)]);
        let mut table =
            HashTable::builder(scheme.clone()).load_factor(0.5).build(&device, &[1, 2, u32::MAX], &[3, 4, 5]).unwrap();
        let slots = table.capacity();
        let done = table.upsert(&[u32::MAX], &[9]).unwrap();
        assert_eq!((done.added, done.overwritten, done.rebuilt, table.capacity()), (0, 1, false, slots));
        assert_eq!(table.get(&[u32::MAX]).unwrap(), [Some(9)]);
        let mut full = HashTable::builder(scheme).slots(40).build(&device, &[7, u32::MAX], &[1, 1]).unwrap();
        let mut batch: Vec<u32> = (100..140).collect();
        batch.push(u32::MAX);
        let refused = full.insert(&batch, &batch);
        assert!(matches!(refused, Err(Error::DuplicateKey { key: 0xffff_ffff })), "{refused:?}");
    }
}

/// A classic build that cannot succeed fails quickly on every device: the first failed chain stops the others.
#[test]
#[ignore = "slow: parameters of the scheme, on every device; CI runs it"]
fn impossible_classic_builds_fail_quickly() {
    let load = Workload::new(size(20_000, 200), 4);
    let (keys, values) = (load.keys(), load.values());
    for device in std::iter::once(Any::Cpu(Cpu::new())).chain(opencl_devices()) {
        let builder = HashTable::builder(Cuckoo::classic(2)).load_factor(1.0).attempts(4);
        let refused = builder.build(&device, &keys, &values);
        assert!(matches!(refused, Err(Error::TooFull { attempts: 4, .. })), "{refused:?}");
    }
}

#[test]
fn one_thread_builds_classic_tables_reproducibly() {
    let load = Workload::new(20_000, 4);
    let build = || {
        HashTable::builder(Cuckoo::classic(4))
            .build(&one_thread(), &load.keys(), &load.values())
            .unwrap()
            .digest()
            .unwrap()
    };
    assert_eq!(build(), build());
}

/// Structured keys: counters, strides, all bits in the high half, reversed bits.
#[test]
fn structured_keys_build_like_random_ones() {
    let n = size(20_000, 300);
    let patterns: [fn(u32) -> u32; 6] =
        [|i| i, |i| i << 12, |i| i.reverse_bits(), |i| i * 0x1_0001, |i| i.rotate_right(16), |i| u32::MAX - 3 * i];
    for (functions, load) in [(2, 0.45), (3, 0.90), (4, 0.95), (5, 0.98)] {
        for pattern in patterns {
            let keys: Vec<u32> = (0..n).map(pattern).collect();
            for seed in 0..5 {
                let builder = HashTable::builder(Cuckoo::canonical(functions)).load_factor(load).seed(seed);
                let table = builder.build(&Any::Cpu(Cpu::new()), &keys, &keys).unwrap();
                assert!(table.restarts() < 8, "H = {functions}: {} restarts", table.restarts());
            }
        }
    }
}
