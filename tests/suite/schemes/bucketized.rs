//! Tests of the bucketized scheme: loads, tiny tables, duplicates in different buckets, policies of the classic table.

use crate::common::{on_one_thread, one_thread, opencl_devices, size, sizes, tiny_tables};
use koel::backend::HashBackend;
use koel::device::Any;
use koel::workload::Workload;
use koel::{Bucketized, Cpu, Duplicates, Error, HashTable, Insertion, LookupMode};

#[test]
#[ignore = "slow: parameters of the scheme, on every device; CI runs it"]
fn tiny_canonical_tables_always_build() {
    for slots in [4, 8, 16] {
        on_one_thread(|cpu| tiny_tables(cpu, &Bucketized::canonical(slots), u64::from(sizes(1000, 100, 2))));
        opencl_devices().iter().for_each(|gpu| tiny_tables(gpu, &Bucketized::canonical(slots), 1));
    }
}

#[test]
#[ignore = "slow: parameters of the scheme, on every device; CI runs it"]
fn tiny_classic_tables_always_build() {
    for (functions, slots) in [(2, 4), (2, 8), (3, 8), (4, 16)] {
        for insertion in Insertion::ALL {
            let scheme = Bucketized::classic(functions, slots).insertion(insertion);
            on_one_thread(|cpu| tiny_tables(cpu, &scheme, u64::from(sizes(1000, 100, 1))));
            opencl_devices().iter().for_each(|gpu| tiny_tables(gpu, &scheme, 1));
        }
    }
}

#[test]
#[ignore = "slow: parameters of the scheme, on every device; CI runs it"]
fn canonical_tables_reach_ninety_nine_percent_without_a_restart() {
    let n = size(300_000, 500);
    for device in [Any::Cpu(Cpu::new())].into_iter().chain(opencl_devices()) {
        for (slots, load_factor) in [(4, 0.97), (8, 0.99), (16, 0.99)] {
            for seed in 0..3 {
                let load = Workload::new(n, seed);
                let (keys, values) = (load.keys(), load.values());
                let builder = HashTable::builder(Bucketized::canonical(slots)).load_factor(load_factor).seed(seed);
                let table = builder.build(&device, &keys, &values).unwrap();
                assert_eq!(table.restarts(), 0, "S = {slots} on {}", device.info());
                table.audit().unwrap();
                let stats = table.stats().unwrap();
                // Priorities end unsuccessful lookups early, so they read as many buckets as successful ones.
                assert!((stats.reads_per_miss - stats.reads_per_hit).abs() < 0.15, "{stats:?}");
                assert!(table.get(&keys).unwrap().iter().zip(&values).all(|(got, value)| *got == Some(*value)));
            }
        }
    }
}

/// At load 0.9 and 8 slots per bucket, hits and misses read 1.22 buckets (BCHT without priorities: 1.65).
#[test]
fn reads_at_load_nine_tenths() {
    let load = Workload::new(1 << 17, 3);
    let builder = HashTable::builder(Bucketized::canonical(8)).load_factor(0.9);
    let stats = builder.build(&Cpu::new(), &load.keys(), &load.values()).unwrap().stats().unwrap();
    assert!((stats.reads_per_hit - 1.225).abs() < 0.01, "{}", stats.reads_per_hit);
    assert!((stats.reads_per_miss - 1.225).abs() < 0.02, "{}", stats.reads_per_miss);
    assert_eq!(stats.bucket_bytes, 64);
    assert_eq!(stats.buckets[0].by_pairs.iter().zip(0..).map(|(count, pairs)| count * pairs).sum::<u64>(), 1 << 17);
    assert_eq!(stats.keys_by_reads.iter().sum::<u64>(), 1 << 17);
}

/// Enough duplicates of a few keys to fill all of their buckets, and pairs of duplicates in different buckets.
#[test]
#[ignore = "slow: parameters of the scheme, on every device; CI runs it"]
fn duplicates_are_found_in_every_bucket() {
    for device in [one_thread(), Any::Cpu(Cpu::new())].into_iter().chain(opencl_devices()) {
        let load = Workload::new(size(20_000, 300), 6);
        let (mut keys, mut values) = (load.keys(), load.values());
        // In a nearly full table the duplicates of a key are stored in its later buckets too.
        let twice: Vec<u32> = keys.iter().copied().step_by(50).collect();
        keys.extend(&twice);
        values.extend(twice.iter().map(|key| key ^ 1));
        let builder = HashTable::builder(Bucketized::canonical(4)).load_factor(0.97);
        let refused = builder.build(&device, &keys, &values);
        let least = *twice.iter().min().unwrap();
        assert!(matches!(refused, Err(Error::DuplicateKey { key }) if key == u64::from(least)), "{refused:?}");
        let last = builder.clone().duplicates(Duplicates::KeepLast).build(&device, &keys, &values).unwrap();
        assert!(last.get(&twice).unwrap().iter().zip(&twice).all(|(got, key)| *got == Some(key ^ 1)));
        assert_eq!(last.len(), load.keys().len());
        let crowd: Vec<u32> = (0..size(100_000, 2000)).map(|i| if i % 2 == 0 { 5 } else { i }).collect();
        let table = builder.clone().duplicates(Duplicates::KeepFirst).build(&device, &crowd, &crowd).unwrap();
        assert_eq!(table.len(), crowd.len() / 2);
        table.audit().unwrap();
    }
}

#[test]
#[ignore = "slow: parameters of the scheme, on every device; CI runs it"]
fn classic_tables_build_with_every_policy_and_answer_in_every_mode() {
    let n = size(40_000, 300);
    let load = Workload::new(n, 4);
    let (keys, values) = (load.keys(), load.values());
    for device in [Any::Cpu(Cpu::new())].into_iter().chain(opencl_devices()) {
        for (functions, slots, load_factor) in [(2, 8, 0.9), (2, 4, 0.85), (3, 4, 0.93), (4, 16, 0.95)] {
            for insertion in Insertion::ALL {
                for mode in LookupMode::ALL {
                    let scheme = Bucketized::classic(functions, slots).insertion(insertion).lookup_mode(mode);
                    let builder = HashTable::builder(scheme.clone()).load_factor(load_factor);
                    let table = builder.build(&device, &keys, &values).unwrap_or_else(|e| panic!("{scheme:?}: {e}"));
                    assert!(table.get(&keys).unwrap().iter().zip(&values).all(|(got, want)| *got == Some(*want)));
                    let queries = load.queries(1000, 50);
                    let expected: Vec<_> = queries.iter().map(|&query| load.answer(query)).collect();
                    assert_eq!(table.get(&queries).unwrap(), expected);
                    table.audit().unwrap();
                    let reads = table.stats().unwrap().reads_per_miss;
                    assert_eq!(reads, f64::from(functions), "a classic miss reads every candidate bucket");
                }
            }
        }
    }
}
