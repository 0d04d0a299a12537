//! Tests of the sorted scheme: ascending order, full loads, every size, clustered keys, invalid files.

use std::collections::BTreeMap;

use crate::common::{devices, holds_exactly, image, open_mapped, size};
use koel::backend::HashBackend;
use koel::device::Any;
use koel::scheme::Plan;
use koel::workload::Workload;
use koel::{Cpu, Error, HashTable, Sorted};

/// Checks that the pairs are in ascending order, whatever the order of the input.
fn ascend(device: &Any, pairs: &BTreeMap<u32, u32>) {
    let at = format!("{} pairs on {}", pairs.len(), device.info());
    let (keys, values): (Vec<u32>, Vec<u32>) = pairs.iter().rev().unzip();
    let table = HashTable::builder(Sorted).build(device, &keys, &values).unwrap();
    assert_eq!((table.capacity(), table.restarts()), (pairs.len().max(1), 0), "{at}: no slot is left free");
    let ascending: Vec<(u32, u32)> = pairs.iter().map(|(&key, &value)| (key, value)).collect();
    assert!(table.to_pairs().unwrap() == ascending, "{at}: the order");
    holds_exactly(&table, pairs, &at);
    let words: Vec<u64> = ascending.iter().map(|&(key, value)| u64::from(key) << 32 | u64::from(value)).collect();
    assert!(image(&table)[..words.len()] == words, "{at}: the words");
}

#[test]
#[ignore = "slow: parameters of the scheme, on every device; CI runs it"]
fn every_size_ascends_and_fills_its_slots() {
    for device in devices() {
        let around = (7..=14).map(|power| 1 << power).flat_map(|n| [n - 1, n, n + 1]);
        for n in (0..=70).chain(around.filter(|&n| n <= size(1 << 14, 128))) {
            let load = Workload::new(n, u64::from(n));
            ascend(&device, &load.keys().into_iter().zip(load.values()).collect());
        }
    }
}

#[test]
#[ignore = "slow: parameters of the scheme, on every device; CI runs it"]
fn extremes_and_crowds_ascend() {
    let n = size(40_000, 300);
    // Consecutive keys at both ends; all keys but one in a few thousandths of the range; only high or low bits.
    let both_ends = (0..n).flat_map(|i| [(i, !i), (!i, i)]).collect();
    let crowd = (0..n).map(|i| (0x7000_0000 + i, i)).chain([(0, 1), (u32::MAX, 2)]).collect();
    let high = (0..n).map(|i| (i.rotate_right(16), i)).collect();
    for device in devices() {
        for pairs in [&both_ends, &crowd, &high] {
            ascend(&device, pairs);
        }
    }
}

#[test]
#[ignore = "slow: parameters of the scheme, on every device; CI runs it"]
fn every_lookup_reads_few_words() {
    let n = size(1 << 16, 256);
    for device in devices() {
        let load = Workload::new(n, 3);
        let table = HashTable::builder(Sorted).build(&device, &load.keys(), &load.values()).unwrap();
        let stats = table.stats().unwrap();
        // log2(n), one step because the division is not in the middle, and the last word.
        let most = f64::from(n.ilog2() + 3);
        assert!(stats.reads_per_hit == stats.reads_per_miss && stats.reads_per_hit <= most, "{stats:?}");
        assert_eq!(stats.ages, [0, u64::from(n)]);
    }
}

#[test]
#[ignore = "slow: parameters of the scheme, on every device; CI runs it"]
fn free_slots_are_not_pairs_and_the_seed_has_no_effect() {
    for device in devices() {
        let build = |seed| HashTable::builder(Sorted).slots(100).seed(seed).build(&device, &[0, 5], &[0, 6]).unwrap();
        let table = build(1);
        holds_exactly(&table, &BTreeMap::from([(0, 0), (5, 6)]), "with free slots");
        assert_eq!(image(&table), image(&build(2)));
        assert_eq!((table.plan().slots(), table.plan().pairs()), (100, 2));
        let mut table = table;
        assert_eq!(table.remove(&[0]).unwrap(), 1);
        holds_exactly(&table, &BTreeMap::from([(5, 6)]), "(0, 0) was removed");
        let refused = table.insert(&(10..200).collect::<Vec<_>>(), &[1; 190]);
        assert!(matches!(refused, Err(Error::TooFull { pairs: 191, slots: 100, .. })), "{refused:?}");
    }
}

#[test]
fn files_with_wrong_plans_are_refused_or_harmless() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.koel");
    let cpu = Cpu::new();
    HashTable::builder(Sorted).slots(10).build(&cpu, &[1, 2, 3], &[4, 5, 6]).unwrap().save(&path).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let open_with = |at: usize, value: u8| {
        let mut lying = bytes.clone();
        lying[at] = value;
        std::fs::write(&path, &lying).unwrap();
        open_mapped::<Sorted>(&path)
    };
    // The kind; the slots: more, fewer and 0; more pairs than slots; the field that must be 0.
    for (at, value) in [(48, 1), (52, 11), (52, 9), (52, 0), (56, 11), (60, 1)] {
        let opened = open_with(at, value);
        assert!(matches!(opened, Err(Error::BadFile { .. })), "byte {at}: {opened:?}");
    }
    // Fewer or more pairs than the image contains.
    for pairs in [0, 2, 4, 10] {
        let opened = open_with(56, pairs).unwrap();
        let queries: Vec<u32> = (0..100).chain([u32::MAX]).collect();
        assert!(opened.get(&queries).unwrap()[4..].iter().all(Option::is_none));
        assert!(matches!(opened.audit(), Err(Error::Damaged(_))), "{pairs} pairs");
    }
}
