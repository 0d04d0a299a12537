//! `sharded`: the bytes are a file of a sharded table, set or multivalue table.
//!
//! An opened table, on one device or on two, must equal the pairs it decodes to: lookups, digest, save and open,
//! upsert, remove, compact, rebuild. A change is made in all shards or in none.

use std::collections::{BTreeMap, BTreeSet};

use koel::scheme::Value;
use koel::table::{Contents, FileInfo, read_info};
use koel::{AnyScheme, Cpu, DeviceBuffer, Error, Scheme as _, Sharded, ShardedMulti, ShardedSet};

use crate::file::{Scratch, absent_keys, cpu, may_refuse, reseal};
use crate::memory;

type Table = Sharded<Cpu, AnyScheme>;

/// Opens the bytes as a sharded table of any scheme.
pub fn sharded(data: &[u8]) {
    let mut bytes = data.to_vec();
    reseal(&mut bytes);
    let file = Scratch::holding(&bytes);
    memory::limited(|| {
        let info = read_info(file.path());
        match (Table::open(&[cpu(), cpu()], file.path()), info) {
            (Ok(table), Ok(info)) => {
                let shards = u32::try_from(table.shards().len()).ok();
                assert_eq!((info.shards, info.contents), (shards, Contents::Map));
                opened(table);
            }
            (Ok(_), Err(error)) => panic!("the table opens, but its header is refused: {error}"),
            // The file is damaged, or contains something else.
            (Err(error), info) => {
                assert!(matches!(error, Error::BadFile { .. }), "{error}");
                match info {
                    Ok(info) if info.shards.is_some() => of_other_contents(&info, &file),
                    Ok(_) => {}
                    Err(error) => assert!(matches!(error, Error::BadFile { .. }), "{error}"),
                }
            }
        }
    });
}

fn of_other_contents(info: &FileInfo, file: &Scratch) {
    fn sound<T>(result: koel::Result<T>) -> Option<T> {
        result.map_err(|error| assert!(matches!(error, Error::BadFile { .. }), "{error}")).ok()
    }
    let (devices, path) = ([cpu(), cpu()], file.path());
    match (info.contents, info.value_bits) {
        (Contents::Set, _) => {
            if let Some(set) = sound(ShardedSet::<Cpu, AnyScheme>::open(&devices, path)) {
                check_set(set);
            }
        }
        (Contents::Multi, 32) => {
            if let Some(table) = sound(ShardedMulti::<Cpu, AnyScheme>::open(&devices, path)) {
                check_lists(table);
            }
        }
        (Contents::Multi, _) => {
            if let Some(table) = sound(ShardedMulti::<Cpu, AnyScheme, u64>::open(&devices, path)) {
                check_lists(table);
            }
        }
        _ => {}
    }
}

fn check_set(mut set: ShardedSet<Cpu, AnyScheme>) {
    let keys = set.to_keys().expect("keys of an audited set");
    let mut model: BTreeSet<u32> = keys.iter().copied().collect();
    assert_eq!((model.len(), set.len()), (keys.len(), keys.len()), "a key occurs twice");
    let absent = absent_keys(|key| model.contains(&key), keys.iter().copied());
    assert!(!set.contains(&absent).expect("an answer").contains(&true), "misses");
    let some: Vec<u32> = absent.into_iter().take(9).chain(keys.iter().copied().step_by(2).take(20)).collect();
    match set.insert(&some) {
        Ok(_) => model.extend(some),
        Err(error) => assert!(may_refuse(&error), "insert: {error}"),
    }
    let gone: Vec<u32> = model.iter().copied().step_by(3).take(20).collect();
    match set.remove(&gone) {
        Ok(_) => model.retain(|key| !gone.contains(key)),
        Err(error) => assert!(may_refuse(&error), "remove: {error}"),
    }
    assert_eq!(set.to_keys().expect("keys").into_iter().collect::<BTreeSet<_>>(), model);
    let saved = Scratch::new();
    let digest = set.save(saved.path()).expect("space for a small file");
    let again = ShardedSet::<Cpu, AnyScheme>::open(&[cpu()], saved.path()).expect("a file that was just saved");
    assert_eq!(again.digest().expect("a digest"), digest);
}

fn check_lists<V: Value>(mut table: ShardedMulti<Cpu, AnyScheme, V>) {
    let mut pairs = table.to_pairs().expect("pairs of an audited table");
    let keys: BTreeSet<u32> = pairs.iter().map(|pair| pair.0).collect();
    assert_eq!((table.len(), table.keys_len()), (pairs.len(), keys.len()));
    let queried: Vec<u32> =
        keys.iter().copied().chain(absent_keys(|key| keys.contains(&key), keys.iter().copied())).collect();
    let agrees = |table: &ShardedMulti<Cpu, AnyScheme, V>, pairs: &[(u32, V)]| {
        let (counts, found) = (table.count(&queried).expect("counts"), table.retrieve(&queried).expect("values"));
        for (i, &key) in queried.iter().enumerate() {
            let of_key: Vec<V> = pairs.iter().filter(|pair| pair.0 == key).map(|pair| pair.1).collect();
            assert_eq!((counts[i] as usize, found.of(i)), (of_key.len(), &of_key[..]), "key {key}");
        }
    };
    agrees(&table, &pairs);
    let some: Vec<u32> = queried.iter().copied().step_by(3).take(20).collect();
    match table.insert(&some, &vec![V::default(); some.len()]) {
        Ok(()) => pairs.extend(some.iter().map(|&key| (key, V::default()))),
        Err(error) => assert!(may_refuse(&error), "insert: {error}"),
    }
    agrees(&table, &pairs);
    match table.remove(&some) {
        Ok(removed) => {
            pairs.retain(|pair| !some.contains(&pair.0));
            assert_eq!((removed > 0, table.len()), (!some.is_empty(), pairs.len()), "removed");
        }
        Err(error) => assert!(may_refuse(&error), "remove: {error}"),
    }
    agrees(&table, &pairs);
    let saved = Scratch::new();
    let digest = table.save(saved.path()).expect("space for a small file");
    let again = ShardedMulti::<Cpu, AnyScheme, V>::open(&[cpu()], saved.path()).expect("a file that was just saved");
    assert_eq!(again.digest().expect("a digest"), digest);
}

fn opened(mut table: Table) {
    let pairs = table.to_pairs().expect("pairs of an audited table");
    let mut model: BTreeMap<u32, u32> = pairs.iter().copied().collect();
    assert_eq!(model.len(), pairs.len(), "a key occurs twice");
    let absent = check(&table, &model, "opened");
    reopened(&table);
    let value = 7.min(table.scheme().limits().greatest_value());
    let batch: Vec<u32> = absent.into_iter().take(9).chain(model.keys().copied().step_by(2).take(20)).collect();
    match table.upsert(&batch, &vec![value; batch.len()]) {
        Ok(_) => model.extend(batch.into_iter().map(|key| (key, value))),
        Err(error) => assert!(may_refuse(&error), "upsert: {error}"),
    }
    check(&table, &model, "upsert");
    let gone: Vec<u32> = model.keys().copied().step_by(3).take(20).collect();
    match table.remove(&gone) {
        Ok(removed) => {
            assert_eq!(removed, gone.len(), "removed");
            model.retain(|key, _| !gone.contains(key));
        }
        Err(error) => assert!(may_refuse(&error), "remove: {error}"),
    }
    check(&table, &model, "remove");
    for (what, restore) in
        [("compact", Table::compact as fn(&mut Table) -> koel::Result<()>), ("rebuild", Table::rebuild)]
    {
        match restore(&mut table) {
            Ok(()) => assert!(!table.has_tombstones(), "{what}"),
            Err(error) => assert!(may_refuse(&error), "{what}: {error}"),
        }
        check(&table, &model, what);
    }
    reopened(&table);
}

/// Compares a table with the pairs that it must contain. Returns some absent keys.
fn check(table: &Table, model: &BTreeMap<u32, u32>, at: &str) -> Vec<u32> {
    memory::used(table.shards().iter().map(|shard| 8 * shard.image().len()).sum());
    assert_eq!(table.len(), model.len(), "{at}: pairs");
    let keys: Vec<u32> = model.keys().copied().collect();
    let values: Vec<Option<u32>> = model.values().map(|&value| Some(value)).collect();
    assert_eq!(table.get(&keys).expect("an answer"), values, "{at}: hits");
    let absent = absent_keys(|key| model.contains_key(&key), keys.into_iter());
    assert!(table.get(&absent).expect("an answer").iter().all(Option::is_none), "{at}: misses");
    assert!(!table.contains(&absent).expect("an answer").contains(&true), "{at}: contains");
    let pairs: BTreeMap<u32, u32> = table.iter().expect("pairs").collect();
    assert_eq!(&pairs, model, "{at}: pairs");
    table.audit().unwrap_or_else(|error| panic!("{at}: {error}"));
    table.stats().expect("statistics");
    absent
}

/// Saves a table, and opens the saved file on one device.
fn reopened(table: &Table) {
    let saved = Scratch::new();
    let digest = table.save(saved.path()).expect("space for a small file");
    let again = Table::open(&[cpu()], saved.path()).expect("a file that was just saved");
    assert_eq!((again.digest().expect("a digest"), table.digest().expect("a digest")), (digest, digest));
    assert_eq!(again.to_pairs().expect("pairs"), table.to_pairs().expect("pairs"));
}
