//! Tests of the quadratic scheme: one read per lookup, load 1 at every size, limits, and batches.

use crate::common::{devices, on_one_thread, one_thread, opencl_devices, size, tiny_tables};
use koel::device::Any;
use koel::workload::Workload;
use koel::{Cpu, Duplicates, Error, HashTable, Quadratic};

#[test]
#[ignore = "slow: parameters of the scheme, on every device; CI runs it"]
fn tiny_tables_always_build() {
    on_one_thread(|cpu| tiny_tables(cpu, &Quadratic, u64::from(size(300, 3))));
    opencl_devices().iter().for_each(|gpu| tiny_tables(gpu, &Quadratic, 2));
}

/// The largest possible table, and one pair more.
#[test]
#[ignore = "slow: parameters of the scheme, on every device; CI runs it"]
fn it_reaches_its_limit_and_no_further() {
    let n = size(4096, 256);
    let load = Workload::new(n, 3);
    let (keys, values) = (load.keys(), load.values());
    for device in std::iter::once(Any::Cpu(Cpu::new())).chain(opencl_devices()) {
        let table = HashTable::builder(Quadratic).build(&device, &keys, &values).unwrap();
        assert_eq!((table.capacity(), table.load_factor()), (n as usize, 1.0));
        let stats = table.stats().unwrap();
        assert_eq!((stats.reads_per_hit, stats.reads_per_miss), (1.0, 1.0));
        assert_eq!(stats.ages, [0, n.into()], "no key is displaced");
        assert!(table.get(&keys).unwrap().iter().zip(&values).all(|(got, want)| *got == Some(*want)));
        table.audit().unwrap();
    }
    let load = Workload::new(4097, 3);
    let mut keys = load.keys();
    let refused = HashTable::builder(Quadratic).build(&one_thread(), &keys, &keys);
    assert!(matches!(refused, Err(Error::TooLarge { requested: 4097, most: 4096, .. })), "{refused:?}");
    keys[4096] = keys[0];
    let refused = HashTable::builder(Quadratic).build(&one_thread(), &keys, &keys);
    assert!(matches!(refused, Err(Error::DuplicateKey { key }) if key == u64::from(keys[0])), "{refused:?}");
    let refused = HashTable::builder(Quadratic).slots(4097).build(&one_thread(), &[1], &[1]);
    assert!(matches!(refused, Err(Error::TooLarge { .. })), "{refused:?}");
}

/// At load 0.5 the slots for 3,000 distinct keys are too many, but those for one key are not.
#[test]
#[ignore = "slow: parameters of the scheme, on every device; CI runs it"]
fn duplicates_are_found_before_a_size_is_refused() {
    let (keys, values): (Vec<u32>, Vec<u32>) = (vec![7; 3000], (0..3000).collect());
    let distinct = Workload::new(3000, 3).keys();
    for device in devices() {
        let builder = HashTable::builder(Quadratic).load_factor(0.5);
        let kept = builder.clone().duplicates(Duplicates::KeepLast).build(&device, &keys, &values).unwrap();
        assert_eq!((kept.len(), kept.get(&[7]).unwrap()), (1, vec![Some(2999)]));
        let refused = builder.build(&device, &keys, &values);
        assert!(matches!(refused, Err(Error::DuplicateKey { key: 7 })), "{refused:?}");
        let mut table = builder.build(&device, &[], &[]).unwrap();
        let refused = table.insert(&keys, &values);
        assert!(matches!(refused, Err(Error::DuplicateKey { key: 7 })), "{refused:?}");
        let refused = builder.build(&device, &distinct, &distinct);
        assert!(matches!(refused, Err(Error::TooLarge { requested: 6000, most: 4096, .. })), "{refused:?}");
        let refused = table.insert(&distinct, &distinct);
        assert!(matches!(refused, Err(Error::TooLarge { requested: 6000, most: 4096, .. })), "{refused:?}");
    }
}

/// There are more slots than pairs, but a batch is rejected if a build of all pairs would be.
#[test]
#[ignore = "slow: parameters of the scheme, on every device; CI runs it"]
fn full_tables_refuse_further_pairs() {
    for device in devices() {
        let mut table = HashTable::builder(Quadratic).slots(8).build(&device, &[1, 2, 3, 4], &[0; 4]).unwrap();
        assert_eq!(table.insert(&[5, 6, 7, 8], &[1; 4]).unwrap().added, 4);
        let before = table.digest().unwrap();
        let refused = table.insert(&[9], &[1]);
        assert!(matches!(refused, Err(Error::TooFull { pairs: 9, slots: 8, .. })), "{refused:?}");
        assert!(matches!(table.insert(&[8], &[1]), Err(Error::DuplicateKey { key: 8 })));
        assert_eq!(table.digest().unwrap(), before);
        assert_eq!(table.upsert(&[8], &[7]).unwrap().overwritten, 1);
        assert_eq!(table.get(&[8, 9]).unwrap(), [Some(7), None]);
    }
}

/// A build restarts if two keys collide: for about 39% of the seeds at every size.
#[test]
fn restarts_are_as_frequent_as_the_birthday_says() {
    let seeds = 200;
    for n in [16, 100, size(400, 100)] {
        let load = Workload::new(n, 1);
        let (keys, values) = (load.keys(), load.values());
        let restarted = (0..seeds).filter(|&seed| {
            HashTable::builder(Quadratic).seed(seed).build(&one_thread(), &keys, &values).unwrap().restarts() > 0
        });
        let restarted = restarted.count();
        assert!((50..105).contains(&restarted), "n = {n}: {restarted} of {seeds}");
    }
}

/// A tombstone keeps its slot: if its key is added again, the slot is occupied, and the table is rebuilt.
#[test]
#[ignore = "slow: parameters of the scheme, on every device; CI runs it"]
fn reinserting_a_removed_key_rebuilds_the_table() {
    for device in devices() {
        let build = |keys: &[u32]| HashTable::builder(Quadratic).slots(20).build(&device, keys, keys).unwrap();
        let mut table = build(&[1, 2, 3]);
        table.remove(&[2]).unwrap();
        assert_eq!((table.tombstones(), table.len()), (1, 2));
        assert!(table.insert(&[2], &[2]).unwrap().rebuilt);
        assert_eq!(table.digest().unwrap(), build(&[1, 2, 3]).digest().unwrap());
    }
}
