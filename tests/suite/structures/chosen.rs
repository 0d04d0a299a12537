//! Keys chosen to defeat the table that detects distinct keys, whose seed is fixed: the builder's seed has no effect on
//! it. The results must be as correct as for other keys.

use std::collections::BTreeMap;

use crate::chosen::{chosen, first, plan_of};
use crate::common::{devices, holds_exactly, reference};
use koel::group::FirstRows;
use koel::{
    Aggregate, Bucketized, ColumnIndex, CompactingTable, Cuckoo, Duplicates, Error, HashTable, IdOrder, JoinIndex,
    JoinKind, Load, MultiTable, Sorted, TableBuilder, group,
};

/// Constants of `src/table/distinct.rs`: the seed, the attempts, and the slots for this number of rows.
const SEED: u64 = 0x0064_6973_7469_6e63;
const ATTEMPTS: u32 = 4;
const ROWS: usize = 325;
const SLOTS: u64 = 407;

/// Seventeen keys for two buckets of eight slots under each of the attempts.
fn crowds() -> Vec<u32> {
    let scheme = Bucketized::canonical(8);
    let keys = chosen(&scheme, SLOTS, SEED, 0..ATTEMPTS, |plan| {
        let functions = plan.functions();
        first(17, |key| {
            let (home, remainder) = functions.home(key);
            (0..3).all(|turn| functions.bucket(turn, home, remainder) < 2)
        })
    });
    for attempt in 0..ATTEMPTS {
        let plan = plan_of(&scheme, SLOTS, SEED, attempt);
        assert!(reference::<Bucketized>(&plan, keys.iter().map(|&key| (key, 0))).is_none(), "attempt {attempt}");
    }
    keys
}

#[test]
fn chosen_keys_are_distinguished() {
    let keys = crowds();
    let others = ROWS - keys.len();
    let with_copies: Vec<u32> =
        keys.iter().copied().chain((0..others).map(|i| keys[(7 * i + 3) % keys.len()]).rev()).collect();
    let distinct: Vec<u32> = keys.iter().copied().chain((0..others as u32).map(|i| u32::MAX - i)).collect();
    assert_eq!(Load::new(0.8).unwrap().slots_for(ROWS as u64), SLOTS);
    for column in [&with_copies, &distinct] {
        let values: Vec<u32> = (0..ROWS as u32).collect();
        let mut first = Vec::new();
        let mut rows: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (&key, &value) in column.iter().zip(&values) {
            if !rows.contains_key(&key) {
                first.push(key);
            }
            rows.entry(key).or_default().push(value);
        }
        let ascending: Vec<u32> = rows.keys().copied().collect();
        let first_rows: Vec<u32> = column.iter().map(|key| rows[key][0]).collect();
        let left: Vec<u32> = column.iter().step_by(2).copied().chain(0..100).collect();
        let index = JoinIndex::builder(Cuckoo::canonical(4)).build(&koel::Cpu::new(), column).unwrap();
        for device in devices() {
            for (order, unique) in [(IdOrder::FirstSeen, &first), (IdOrder::Ascending, &ascending)] {
                assert_eq!(&group::unique(&device, column, order).unwrap(), unique);
                let (keys, ids) = group::factorize(&device, column, order).unwrap();
                assert_eq!(&keys, unique);
                assert!(column.iter().zip(&ids).all(|(key, &id)| unique[id as usize] == *key));
                let groups = group::group_by(&device, column, &values, &[Aggregate::Min], order).unwrap();
                assert_eq!(&groups.keys, unique);
                assert!(groups.keys.iter().zip(&groups.mins).all(|(key, &min)| rows[key][0] == min));
                let table = CompactingTable::builder(Cuckoo::canonical(4)).ids(order).build(&device, column).unwrap();
                assert_eq!((&table.unique().unwrap(), table.inverse(column).unwrap()), (unique, ids));
            }
            assert_eq!(FirstRows::build(&device, column).unwrap().rows().unwrap(), first_rows);
            let joined = ColumnIndex::build(&device, column).unwrap();
            for kind in JoinKind::ALL {
                let expected = index.join(&left, kind).unwrap().collect().unwrap();
                assert_eq!(joined.join(&left, kind).unwrap().collect().unwrap(), expected, "{kind}");
            }
            for (rule, at) in [(Duplicates::KeepFirst, 0), (Duplicates::KeepLast, usize::MAX)] {
                let model = rows.iter().map(|(&key, rows)| (key, rows[at.min(rows.len() - 1)])).collect();
                let builder: TableBuilder<Sorted> = HashTable::builder(Sorted).duplicates(rule);
                let mut table = builder.build(&device, column, &values).unwrap();
                holds_exactly(&table, &model, "a table of chosen keys");
                // Removals use such a table to look up the keys to remove.
                assert_eq!(table.remove(column).unwrap(), model.len());
            }
            let multi = MultiTable::builder(Cuckoo::canonical(4)).build(&device, column, &values).unwrap();
            assert_eq!(multi.len(), ROWS);
            let refused = HashTable::builder(Cuckoo::canonical(4)).build(&device, column, &values);
            let least = rows.iter().find(|(_, rows)| rows.len() > 1).map(|(&key, _)| key);
            match (refused, least) {
                (Ok(_), None) => {}
                (Err(Error::DuplicateKey { key }), Some(least)) => assert_eq!(key, u64::from(least)),
                (other, least) => panic!("{other:?}, and the smallest duplicate is {least:?}"),
            }
        }
    }
}
