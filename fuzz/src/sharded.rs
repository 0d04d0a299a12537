//! `sharded`: the bytes are a file of a table in shards.
//!
//! What is opened, on one device or on two, must be a map of the pairs that it decodes to: lookups, digest, save and open,
//! upsert, remove, compact, rebuild. A change is made in all shards or in none.

use std::collections::BTreeMap;

use koel::table::{Contents, read_info};
use koel::{AnyScheme, Cpu, DeviceBuffer, Error, Scheme as _, Sharded};

use crate::file::{Scratch, absent_keys, cpu, may_refuse, reseal};
use crate::memory;

type Table = Sharded<Cpu, AnyScheme>;

/// Opens the bytes as a table in shards of whatever scheme.
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
            (Ok(_), Err(error)) => panic!("opened, and yet: {error}"),
            // Of a file of another kind, or of another width, it is told as well.
            (Err(error), info) => {
                assert!(matches!(error, Error::BadFile { .. }), "{error}");
                info.map_or_else(|error| assert!(matches!(error, Error::BadFile { .. }), "{error}"), drop);
            }
        }
    });
}

fn opened(mut table: Table) {
    let pairs = table.to_pairs().expect("pairs of an audited table");
    let mut model: BTreeMap<u32, u32> = pairs.iter().copied().collect();
    assert_eq!(model.len(), pairs.len(), "a key twice");
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
            Ok(()) => assert!(!table.is_worn(), "{what}"),
            Err(error) => assert!(may_refuse(&error), "{what}: {error}"),
        }
        check(&table, &model, what);
    }
    reopened(&table);
}

/// Compares a table with the pairs that it must hold; some keys that are not there.
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

/// Saves a table, and opens what was saved on one device.
fn reopened(table: &Table) {
    let saved = Scratch::new();
    let digest = table.save(saved.path()).expect("room for a small file");
    let again = Table::open(&[cpu()], saved.path()).expect("a file that was just saved");
    assert_eq!((again.digest().expect("a digest"), table.digest().expect("a digest")), (digest, digest));
    assert_eq!(again.to_pairs().expect("pairs"), table.to_pairs().expect("pairs"));
}
