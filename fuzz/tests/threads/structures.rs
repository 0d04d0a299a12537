//! Structures built from tables, and groups and joins of columns, on one device.
//!
//! They use schemes only through tables, so one scheme per key type is enough.

use std::collections::{BTreeMap, BTreeSet};

use koel::backend::{Runs, Word};
use koel::scheme::{BucketizedOf, Key, Scheme, Value};
use koel::{
    Aggregate, ColumnIndex, CompactingTable, Cpu, Cuckoo, CuckooSet, HashSet, IdOrder, JoinIndex, JoinKind, MultiTable,
    NO_ROW, group, join,
};

use crate::{ROWS, Temporary, column, cpu, inside};

/// A column in which most keys have several rows.
fn rows<K: Word>(seed: u64) -> Vec<K> {
    column(ROWS, ROWS / 3, seed)
}

fn set<S: Scheme>(scheme: S, test: &str)
where
    Cpu: Runs<S>,
{
    let (first, second) = (rows::<S::Key>(1), column(ROWS, ROWS / 2, 2));
    let [one, two] = [&first, &second].map(|keys| keys.iter().copied().collect::<BTreeSet<_>>());
    let builder = HashSet::builder(scheme);
    let mut set = builder.build(cpu(), &first).expect("a set");
    let other = builder.build(cpu(), &second).expect("a set");
    assert_eq!(set.len(), one.len());
    assert_eq!(set.intersection(&other).expect("a set").len(), one.intersection(&two).count());
    assert_eq!(set.difference(&other).expect("a set").len(), one.difference(&two).count());
    assert_eq!(set.insert(&second).expect("inserted"), two.difference(&one).count());
    let union = one.union(&two).copied();
    assert_eq!(set.remove(&first).expect("removed"), one.len());
    set.compact().expect("compacted");
    let there: Vec<bool> = union.clone().map(|key| !one.contains(&key)).collect();
    assert_eq!(set.contains(&union.collect::<Vec<_>>()).expect("flags"), there);
    let mut keys = set.to_keys().expect("keys");
    keys.sort_unstable();
    assert!(keys.iter().eq(two.difference(&one)));
    set.audit().expect("a sound set");
    let path = Temporary::new(test);
    let digest = set.save(&path).expect("saved");
    assert_eq!(HashSet::<Cpu, S>::open(cpu(), &path).expect("opened").digest().expect("a digest"), digest);
}

fn ids<S: Scheme<Value = u32>>(scheme: S, test: &str)
where
    Cpu: Runs<S>,
{
    let column = rows::<S::Key>(1);
    let table = CompactingTable::builder(scheme).ids(IdOrder::FirstSeen).build(cpu(), &column).expect("ids");
    let (unique, inverse) = factorized(&column);
    assert_eq!(table.unique().expect("keys"), unique);
    assert_eq!(table.inverse(&column).expect("ids"), inverse);
    table.audit().expect("a sound table");
    let path = Temporary::new(test);
    let digest = table.save(&path).expect("saved");
    assert_eq!(CompactingTable::<Cpu, S>::open(cpu(), &path).expect("opened").digest().expect("a digest"), digest);
}

/// The distinct keys of a column by first occurrence, and the number of each row's key among them.
fn factorized<K: Word>(column: &[K]) -> (Vec<K>, Vec<u32>) {
    let (mut unique, mut numbers) = (Vec::new(), BTreeMap::new());
    let mut number = |&key: &K| {
        *numbers.entry(key).or_insert_with(|| {
            unique.push(key);
            unique.len() as u32 - 1
        })
    };
    let inverse = column.iter().map(&mut number).collect();
    (unique, inverse)
}

fn multi<S: Scheme<Value = u32>, V: Value>(scheme: S, test: &str)
where
    Cpu: Runs<S>,
{
    let (keys, half) = (rows::<S::Key>(1), ROWS / 2);
    let values: Vec<V> = (0..ROWS as u64).map(|row| V::low(row.wrapping_mul(0x1_0000_0001))).collect();
    let mut model: BTreeMap<S::Key, Vec<V>> = BTreeMap::new();
    keys.iter().zip(&values).for_each(|(&key, &value)| model.entry(key).or_default().push(value));
    let builder = MultiTable::builder(scheme).values::<V>();
    let mut table = builder.build(cpu(), &keys[..half], &values[..half]).expect("a table");
    table.insert(&keys[half..], &values[half..]).expect("inserted");
    let queries: Vec<S::Key> = model.keys().copied().collect();
    let counts: Vec<u32> = model.values().map(|values| values.len() as u32).collect();
    assert_eq!(table.count(&queries).expect("counts"), counts);
    assert_eq!(table.retrieve(&queries).expect("values").values, model.values().flatten().copied().collect::<Vec<_>>());
    table.remove(&queries[..1]).expect("removed");
    let rest: usize = model.values().skip(1).map(Vec::len).sum();
    assert_eq!((table.len(), table.keys_len()), (rest, model.len() - 1));
    assert_eq!(table.to_pairs().expect("pairs").len(), rest);
    table.audit().expect("a sound table");
    let path = Temporary::new(test);
    let digest = table.save(&path).expect("saved");
    assert_eq!(MultiTable::<Cpu, S, V>::open(cpu(), &path).expect("opened").digest().expect("a digest"), digest);
}

fn groups<K: Key>()
where
    Cpu: Runs<K::Rows>,
{
    let keys = rows::<K>(1);
    let (unique, inverse) = factorized(&keys);
    let sorted: Vec<K> = keys.iter().copied().collect::<BTreeSet<K>>().into_iter().collect();
    assert_eq!(group::wide::unique(cpu(), &keys, IdOrder::FirstSeen).expect("keys"), unique);
    assert_eq!(group::wide::unique(cpu(), &keys, IdOrder::Ascending).expect("keys"), sorted);
    assert_eq!(
        group::wide::factorize(cpu(), &keys, IdOrder::FirstSeen).expect("ids"),
        (unique.clone(), inverse.clone())
    );
    let (integers, doubles): (Vec<i64>, Vec<f64>) = (0..ROWS as i64).map(|row| (row - 9, row as f64 * 0.5)).unzip();
    let (mut sums, mut counts) = (vec![0; unique.len()], vec![0; unique.len()]);
    inverse.iter().zip(&integers).for_each(|(&id, value)| sums[id as usize] += value);
    inverse.iter().for_each(|&id| counts[id as usize] += 1);
    let found = group::wide::group_by(cpu(), &keys, &integers, &Aggregate::ALL, IdOrder::FirstSeen).expect("groups");
    assert_eq!((found.keys, found.sums, found.counts), (unique, sums, counts));
    let found = group::wide::group_by(cpu(), &keys, &doubles, &Aggregate::ALL, IdOrder::Ascending).expect("groups");
    // The values are halves of small integers, so every sum is exact.
    assert_eq!((found.keys, found.sums.iter().sum::<f64>()), (sorted, doubles.iter().sum()));
}

/// The rows of a join by a map.
fn joined<K: Word>(left: &[K], right: &[K], kind: JoinKind) -> (Vec<u32>, Vec<u32>) {
    let mut rows: BTreeMap<K, Vec<u32>> = BTreeMap::new();
    right.iter().zip(0..).for_each(|(&key, row)| rows.entry(key).or_default().push(row));
    let mut pairs = Vec::new();
    for (key, row) in left.iter().zip(0..) {
        match rows.get(key) {
            Some(partners) => pairs.extend(partners.iter().map(|&partner| (row, partner))),
            None if kind.keeps_left() => pairs.push((row, NO_ROW)),
            None => {}
        }
    }
    if kind.keeps_right() {
        let left: BTreeSet<K> = left.iter().copied().collect();
        pairs.extend((0..).zip(right).filter(|(_, key)| !left.contains(key)).map(|(row, _)| (NO_ROW, row)));
    }
    pairs.into_iter().unzip()
}

fn joins<S: Scheme<Key = K, Value = u32>, K: Key>(scheme: S)
where
    Cpu: Runs<S> + Runs<K::Rows>,
{
    let (left, right) = (rows::<K>(1), column::<K>(ROWS, ROWS / 2, 2));
    let index = JoinIndex::builder(scheme).build(cpu(), &right).expect("an index");
    let column = ColumnIndex::build(cpu(), &right).expect("an index");
    for kind in [JoinKind::Inner, JoinKind::Full] {
        let expected = joined(&left, &right, kind);
        let rows = index.join(&left, kind).expect("a join").collect().expect("rows");
        assert_eq!((rows.left, rows.right), expected, "{kind}");
        let rows = column.join(&left, kind).expect("a join").collect().expect("rows");
        assert_eq!((rows.left, rows.right), expected, "{kind}");
    }
    let semi = join::wide::join(cpu(), &left, &right, JoinKind::Semi).expect("rows").left;
    let anti = join::wide::join(cpu(), &left, &right, JoinKind::Anti).expect("rows").left;
    let mut all = [semi, anti].concat();
    all.sort_unstable();
    assert!(all.into_iter().eq(0..left.len() as u32));
}

#[test]
fn set_cuckoo_u32() {
    inside(|| set(CuckooSet::default(), "set-u32"));
}

#[test]
fn set_cuckoo_u64() {
    inside(|| set(CuckooSet::default().of::<u64>(), "set-u64"));
}

#[test]
fn ids_cuckoo_u32() {
    inside(|| ids(Cuckoo::default(), "ids-u32"));
}

#[test]
fn ids_bucketized_u64() {
    inside(|| ids(BucketizedOf::<u64, u32>::default(), "ids-u64"));
}

#[test]
fn multi_cuckoo_u32_u32() {
    inside(|| multi::<_, u32>(Cuckoo::default(), "multi-u32-u32"));
}

#[test]
fn multi_bucketized_u64_u64() {
    inside(|| multi::<_, u64>(BucketizedOf::<u64, u32>::default(), "multi-u64-u64"));
}

#[test]
fn groups_u32() {
    inside(groups::<u32>);
}

#[test]
fn groups_u64() {
    inside(groups::<u64>);
}

#[test]
fn joins_cuckoo_u32() {
    inside(|| joins(Cuckoo::default()));
}

#[test]
fn joins_bucketized_u64() {
    inside(|| joins(BucketizedOf::<u64, u32>::default()));
}
