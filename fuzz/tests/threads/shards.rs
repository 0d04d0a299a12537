//! Structures sharded over two devices on one pool, and their files.

use std::collections::{BTreeMap, BTreeSet};

use koel::backend::Runs;
use koel::scheme::{BucketizedOf, CuckooOf, Scheme, SignpostOf};
use koel::{
    Bucketized, Cpu, CuckooSet, Duplicates, HashTable, Replicated, Sharded, ShardedFile, ShardedMulti, ShardedSet,
};

use crate::{ROWS, Temporary, column, columns, inside, new_cpu, pairs};

const SHARDS: usize = if cfg!(miri) { 2 } else { 5 };

fn devices() -> [Cpu; 2] {
    [new_cpu(), new_cpu()]
}

/// Runs every operation on a sharded table, its replicas and its file, which is also built from spilled rows.
fn table<S: Scheme>(scheme: &S, test: &str)
where
    Cpu: Runs<S>,
{
    let (devices, mut model) = (devices(), pairs(scheme));
    let (keys, values) = columns(&model);
    let half = keys.len() / 2;
    let builder = Sharded::builder(scheme.clone(), SHARDS).duplicates(Duplicates::KeepLast).capacity(keys.len());
    let mut table = builder.build(&devices, &keys[..half], &values[..half]).expect("a table");
    table.insert(&keys[half..], &values[half..]).expect("inserted");
    assert_eq!(table.get(&keys).expect("values"), values.iter().copied().map(Some).collect::<Vec<_>>());

    let (path, spilled) = (Temporary::new(test), Temporary::new(&format!("{test}-spilled")));
    let digest = table.save(&path).expect("saved");
    let mut build = builder.spilled(std::env::temp_dir()).expect("a temporary file");
    for (keys, values) in keys.chunks(half).zip(values.chunks(half)) {
        build.push(keys, values).expect("spilled");
    }
    assert_eq!(build.save(&devices, &spilled).expect("saved"), digest);
    let file = ShardedFile::<Cpu, S>::open(&devices, &path).expect("a file");
    assert_eq!(file.get(&keys).expect("values"), table.get(&keys).expect("values"));
    let opened = Sharded::<Cpu, S>::open(&devices, &spilled).expect("opened");
    assert_eq!(opened.digest().expect("a digest"), digest);
    let one = HashTable::builder(scheme.clone()).build(&devices[0], &keys, &values).expect("a table");
    let replicated = Replicated::of(&one, &devices).expect("replicas");
    assert_eq!(replicated.get(&keys).expect("values"), table.get(&keys).expect("values"));

    let others: Vec<S::Value> = values[..half].iter().rev().copied().collect();
    table.upsert(&keys[..half], &others).expect("updated");
    model.extend(keys.iter().copied().zip(others));
    let gone: Vec<S::Key> = keys.iter().copied().step_by(3).collect();
    assert_eq!(table.remove(&gone).expect("removed"), gone.len());
    for key in &gone {
        model.remove(key);
    }
    table.compact().expect("compacted");
    table.rebuild().expect("rebuilt");
    let there: Vec<bool> = keys.iter().map(|key| model.contains_key(key)).collect();
    assert_eq!(table.contains(&keys).expect("flags"), there);
    let mut all = table.to_pairs().expect("pairs");
    all.sort_unstable();
    assert!(all.into_iter().eq(model));
    table.audit().expect("a sound table");
}

#[test]
fn table_bucketized_u32_u32() {
    inside(|| table(&Bucketized::canonical(8), "sharded-u32-u32"));
}

#[test]
fn table_bucketized_u64_u64() {
    inside(|| table(&BucketizedOf::<u64, u64>::default(), "sharded-u64-u64"));
}

#[test]
fn table_signpost_u64_u32() {
    inside(|| table(&SignpostOf::<u64, u32>::of_kind(koel::Kind::Canonical), "sharded-u64-u32"));
}

#[test]
fn set_cuckoo_u64() {
    inside(|| {
        let (devices, path) = (devices(), Temporary::new("sharded-set"));
        let (first, second) = (column::<u64>(ROWS, ROWS / 3, 1), column::<u64>(ROWS, ROWS / 2, 2));
        let [one, two] = [&first, &second].map(|keys| keys.iter().copied().collect::<BTreeSet<_>>());
        let builder = ShardedSet::builder(CuckooSet::default().of::<u64>(), SHARDS);
        let mut set = builder.build(&devices, &first).expect("a set");
        assert_eq!(set.len(), one.len());
        assert_eq!(set.insert(&second).expect("inserted"), two.difference(&one).count());
        assert_eq!(set.remove(&first).expect("removed"), one.len());
        set.compact().expect("compacted");
        set.rebuild().expect("rebuilt");
        let there: Vec<bool> = second.iter().map(|key| !one.contains(key)).collect();
        assert_eq!(set.contains(&second).expect("flags"), there);
        let mut keys = set.to_keys().expect("keys");
        keys.sort_unstable();
        assert!(keys.iter().eq(two.difference(&one)));
        set.audit().expect("a sound set");
        let digest = set.save(&path).expect("saved");
        let opened = ShardedSet::<Cpu, CuckooOf<u64, ()>>::open(&devices, &path).expect("opened");
        assert_eq!((opened.digest().expect("a digest"), set.digest().expect("a digest")), (digest, digest));
    });
}

#[test]
fn multi_bucketized_u64_u64() {
    inside(|| {
        let (devices, path, half) = (devices(), Temporary::new("sharded-multi"), ROWS / 2);
        let (keys, values) = (column::<u64>(ROWS, ROWS / 3, 1), (0..ROWS as u64).map(|row| row << 33));
        let values: Vec<u64> = values.collect();
        let mut model: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        keys.iter().zip(&values).for_each(|(&key, &value)| model.entry(key).or_default().push(value));
        let builder = ShardedMulti::builder(BucketizedOf::<u64, u32>::default(), SHARDS).values::<u64>();
        let mut table = builder.build(&devices, &keys[..half], &values[..half]).expect("a table");
        table.insert(&keys[half..], &values[half..]).expect("inserted");
        let queries: Vec<u64> = model.keys().copied().collect();
        let counts: Vec<u32> = model.values().map(|values| values.len() as u32).collect();
        assert_eq!(table.count(&queries).expect("counts"), counts);
        let found = table.retrieve(&queries).expect("values").values;
        assert!(found.iter().eq(model.values().flatten()));
        let gone = queries.len() / 2;
        table.remove(&queries[..gone]).expect("removed");
        assert_eq!(table.len(), model.values().skip(gone).map(Vec::len).sum::<usize>());
        assert_eq!(table.to_pairs().expect("pairs").len(), table.len());
        table.audit().expect("a sound table");
        let digest = table.save(&path).expect("saved");
        let opened = ShardedMulti::<Cpu, BucketizedOf<u64, u32>, u64>::open(&devices, &path).expect("opened");
        assert_eq!(opened.digest().expect("a digest"), digest);
    });
}
