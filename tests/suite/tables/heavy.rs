//! Skewed keys: one key in every row, or in half of them, or a few keys in all rows.
//!
//! Benchmarks measure the cost of such input. These tests check that operations end, with correct results and equal
//! bytes.

use std::collections::BTreeMap;

use crate::common::{Check, devices, fitting, for_every_kind, holds_exactly, label, max_pairs, size, sizes};
use koel::backend::HashBackend;
use koel::scheme::{Kind, Scheme};
use koel::{
    Aggregate, AnyScheme, CompactingTable, Cuckoo, CuckooSet, Duplicates, Error, HashSet, HashTable, IdOrder,
    JoinIndex, JoinKind, MultiTable, group,
};

/// The number of rows: enough for builds to detect duplicates by a sample.
fn rows() -> u32 {
    size(300_000, 700)
}

/// Keys of this number of rows, by row number.
fn inputs(rows: u32, most: u32) -> Vec<(&'static str, Vec<u32>)> {
    let few = most.min(100);
    let distinct = most.min(rows / 2);
    let mixed = |i: u32| i.wrapping_mul(0x9e37_79b9);
    let column = |key: &dyn Fn(u32) -> u32| (0..rows).map(key).collect::<Vec<_>>();
    vec![
        ("one key", column(&|_| u32::MAX)),
        ("half of all rows one key", column(&|i| if i % 2 == 0 { 0 } else { mixed(i / 2 % distinct) })),
        ("one key after all others", column(&|i| if i < rows / 2 { mixed(i % distinct) } else { 7 })),
        ("a few keys in turn", column(&|i| mixed(i % few))),
        ("a few keys, sorted", column(&|i| mixed(i / rows.div_ceil(few)))),
    ]
}

/// A sample of the middle and of every n-th row would miss these duplicates: only two rows are equal.
#[test]
fn one_duplicate_among_many_rows_is_found() {
    let mut keys: Vec<u32> = (0..rows()).map(|i| i.wrapping_mul(0x9e37_79b9)).collect();
    let twice = keys[100];
    *keys.last_mut().expect("rows") = twice;
    for device in devices() {
        let build = |rule| HashTable::builder(Cuckoo::canonical(4)).duplicates(rule).build(&device, &keys, &keys);
        assert!(matches!(build(Duplicates::Error), Err(Error::DuplicateKey { key }) if key == u64::from(twice)));
        assert_eq!(build(Duplicates::KeepFirst).expect("a table").len(), rows() as usize - 1);
    }
}

/// A sample of the batch does not suffice: its smallest duplicate may be a key that the table already contains.
#[test]
fn a_batch_reports_its_least_duplicate_key() {
    let mut batch: Vec<u32> = (10..10 + rows()).collect();
    (batch[0], batch[1], batch[200]) = (9, 9, 5);
    for device in devices() {
        let mut table = HashTable::builder(Cuckoo::canonical(4)).build(&device, &[5, 7], &[1, 2]).expect("a table");
        let refused = table.insert(&batch, &batch);
        assert!(matches!(refused, Err(Error::DuplicateKey { key: 5 })), "{device:?}: {refused:?}");
        assert_eq!(table.get(&[5, 7, 9]).expect("answers"), [Some(1), Some(2), None]);
    }
}

/// Structures built from tables: a set, ids, values, groups and a join of a column with one key in all rows but one.
#[test]
fn a_million_duplicates_are_one_key() {
    let rows = size(1_000_000, 2000) as usize;
    for device in devices() {
        for key in [0, 7, u32::MAX] {
            let at = format!("{key} on {}", device.info());
            let mut keys = vec![key; rows];
            keys[rows / 2] = 5;
            let values: Vec<u32> = (0..rows as u32).collect();
            let set = HashSet::builder(CuckooSet::default()).build(&device, &keys).expect("a set");
            assert_eq!((set.len(), set.contains(&[5, key, 6]).expect("answers")), (2, vec![true, true, false]), "{at}");
            let table = CompactingTable::builder(Cuckoo::default()).build(&device, &keys).expect("ids");
            assert_eq!(table.unique().expect("keys"), [key, 5], "{at}");
            let inverse = table.inverse(&keys).expect("ids of rows");
            assert!(inverse.iter().enumerate().all(|(i, &id)| id == u32::from(i == rows / 2)), "{at}");
            let multi = MultiTable::builder(Cuckoo::default()).build(&device, &keys, &values).expect("a table");
            let all = multi.retrieve(&[5, key]).expect("values");
            assert_eq!((all.offsets, all.values[0]), (vec![0, 1, rows as u64], rows as u32 / 2), "{at}");
            let others = (0..rows as u32).filter(|&row| row != rows as u32 / 2);
            assert!(all.values[1..].iter().copied().eq(others), "{at}: in the order of the rows");
            let groups = group::group_by(&device, &keys, &values, &Aggregate::ALL, IdOrder::FirstSeen).expect("groups");
            let sum = (0..rows as u64).sum::<u64>() - rows as u64 / 2;
            assert_eq!((groups.counts, groups.sums), (vec![rows as u32 - 1, 1], vec![sum, rows as u64 / 2]), "{at}");
            let index = JoinIndex::builder(Cuckoo::default()).build(&device, &keys).expect("an index");
            let joined = index.join(&keys, JoinKind::Inner).expect("a join");
            assert_eq!(joined.len(), (rows as u64 - 1).pow(2) + 1, "{at}");
            assert_eq!(index.join(&[5, 6], JoinKind::Anti).expect("a join").collect().expect("rows").left, [1], "{at}");
        }
    }
}

struct Crowds;
impl Check for Crowds {
    fn run(&self, scheme: &AnyScheme) {
        let kind = scheme.kind();
        let limits = scheme.limits();
        // A sample depends only on the keys, so one scheme tests its consequences, and the others only skewed keys.
        let is_sampled = scheme.name() == "cuckoo" && kind == Kind::Canonical;
        let rows = if is_sampled { rows() } else { sizes(rows(), 5000, 700) };
        for (what, mut keys) in inputs(rows, max_pairs(scheme) / 2) {
            keys.iter_mut().for_each(|key| *key &= limits.greatest_key());
            let values: Vec<u32> = (0..).take(keys.len()).map(|i| fitting(scheme, i)).collect();
            let pairs = || keys.iter().copied().zip(values.iter().copied());
            let last: BTreeMap<u32, u32> = pairs().collect();
            let first: BTreeMap<u32, u32> = pairs().rev().collect();
            let mut counted = BTreeMap::new();
            keys.iter().for_each(|key| *counted.entry(*key).or_insert(0) += 1);
            let least = *counted.iter().find(|&(_, &count)| count > 1).expect("copies").0;
            let mut digests = Vec::new();
            for device in devices() {
                let at = format!("{}: {what}", label(scheme, &device));
                let builder = |rule| HashTable::builder(scheme.clone()).seed(3).duplicates(rule);
                let refused = builder(Duplicates::Error).build(&device, &keys, &values);
                assert!(
                    matches!(refused, Err(Error::DuplicateKey { key }) if key == u64::from(least)),
                    "{at}: {refused:?}"
                );
                for (rule, model) in [(Duplicates::KeepFirst, &first), (Duplicates::KeepLast, &last)] {
                    let table = builder(rule).build(&device, &keys, &values).unwrap_or_else(|e| panic!("{at}: {e}"));
                    holds_exactly(&table, model, &at);
                    if kind == Kind::Canonical {
                        digests.push((rule, table.digest().expect("a digest")));
                    }
                    // Adds the same rows as a batch.
                    let mut grown = builder(rule).build(&device, &[], &[]).expect("an empty table");
                    grown.insert(&keys, &values).unwrap_or_else(|e| panic!("{at}: {e}"));
                    holds_exactly(&grown, model, &at);
                }
            }
            let same = |rule| {
                digests
                    .iter()
                    .filter(|(r, _)| *r == rule)
                    .all(|pair| *pair == digests[(rule == Duplicates::KeepLast) as usize])
            };
            assert!(
                digests.is_empty() || same(Duplicates::KeepFirst) && same(Duplicates::KeepLast),
                "{what}: one digest"
            );
        }
    }
}

#[test]
fn tables_with_many_duplicates_are_correct() {
    for_every_kind(&Crowds);
}
