//! Small valid inputs of each target, from which mutations start.

use std::collections::BTreeSet;

use koel::scheme::{FIRST_SALTED, Kind, Request, Scheme as _};
use koel::{
    AnyScheme, Bucketized, CompactingTable, HashSet, HashTable, JoinIndex, MultiTable, Sharded, ShardedMulti,
    ShardedSet,
};

use crate::file::{Scratch, cpu};

/// The keys of a seed, including the key that marks empty slots. There are few, so that most mutations have an effect.
const KEYS: [u32; 13] = [0, 1, 2, 3, 7, 8, 64, 977, 1954, 70_000, 1 << 20, 3 << 21, u32::MAX];

type Named = (String, Vec<u8>);

/// Seeds of every scheme and kind.
fn of_every_scheme(make: impl Fn(&AnyScheme, &mut Vec<Named>)) -> Vec<Named> {
    let mut seeds = Vec::new();
    for name in AnyScheme::NAMES {
        for scheme in Kind::ALL.iter().filter_map(|&kind| AnyScheme::by_name(name, kind).ok()) {
            make(&scheme, &mut seeds);
        }
    }
    seeds
}

/// The keys that fit the scheme's limits.
fn keys_of(scheme: &AnyScheme) -> Vec<u32> {
    let greatest = scheme.limits().greatest_key();
    KEYS.into_iter().filter(|&key| key <= greatest).collect()
}

fn name(scheme: &AnyScheme, what: &str) -> String {
    format!("{}-{}-{what}", scheme.name(), scheme.kind())
}

fn file(save: impl FnOnce(&Scratch) -> koel::Result<koel::Digest>) -> Vec<u8> {
    let scratch = Scratch::new();
    save(&scratch).expect("space for a small file");
    std::fs::read(scratch.path()).expect("a file that was just saved")
}

fn of_tables(scheme: &AnyScheme, seeds: &mut Vec<Named>) {
    let keys = keys_of(scheme);
    let greatest = scheme.limits().greatest_value();
    let values: Vec<u32> = keys.iter().map(|key| (!key).min(greatest)).collect();
    let mut table = HashTable::builder(scheme.clone()).build(&cpu(), &keys, &values).expect("a table");
    seeds.push((name(scheme, "map"), file(|to| table.save(to.path()))));
    table.remove(&keys[..3]).expect("keys to remove");
    seeds.push((name(scheme, "worn"), file(|to| table.save(to.path()))));
    let empty = HashTable::builder(scheme.clone()).build(&cpu(), &[], &[]).expect("a table");
    seeds.push((name(scheme, "empty"), file(|to| empty.save(to.path()))));
    let slots = HashTable::builder(scheme.clone()).slots(64).build(&cpu(), &keys, &values).expect("a table");
    seeds.push((name(scheme, "capacity"), file(|to| slots.save(to.path()))));
}

fn of_structures(scheme: &AnyScheme, seeds: &mut Vec<Named>) {
    let keys = keys_of(scheme);
    let set = HashSet::builder(scheme.clone()).build(&cpu(), &keys).expect("a set");
    seeds.push((name(scheme, "set"), file(|to| set.save(to.path()))));
    if scheme.limits().value_bits < 16 {
        return;
    }
    let ids = CompactingTable::builder(scheme.clone()).build(&cpu(), &keys).expect("a table");
    seeds.push((name(scheme, "compact"), file(|to| ids.save(to.path()))));
    let duplicates: Vec<u32> = keys.iter().enumerate().flat_map(|(i, &key)| vec![key; 1 + i % 3]).collect();
    let values: Vec<u32> = (100..).take(duplicates.len()).collect();
    let multi = MultiTable::builder(scheme.clone()).build(&cpu(), &duplicates, &values).expect("a table");
    seeds.push((name(scheme, "multi"), file(|to| multi.save(to.path()))));
    let index = JoinIndex::builder(scheme.clone()).build(&cpu(), &duplicates).expect("an index");
    seeds.push((name(scheme, "index"), file(|to| index.save(to.path()))));
}

fn of_shards(scheme: &AnyScheme, seeds: &mut Vec<Named>) {
    let keys = keys_of(scheme);
    let greatest = scheme.limits().greatest_value();
    let values: Vec<u32> = keys.iter().map(|key| (!key).min(greatest)).collect();
    let mut table = Sharded::builder(scheme.clone(), 3).build(&[cpu()], &keys, &values).expect("a table");
    seeds.push((name(scheme, "shards"), file(|to| table.save(to.path()))));
    table.remove(&keys[..3]).expect("keys to remove");
    seeds.push((name(scheme, "worn"), file(|to| table.save(to.path()))));
    // The key that marks empty slots, and one or two empty shards.
    let few = Sharded::builder(scheme.clone(), 4).capacity(9).build(&[cpu()], &keys[10..], &values[10..]);
    seeds.push((name(scheme, "capacity"), file(|to| few.expect("a table").save(to.path()))));
}

fn of_structures_in_shards(scheme: &AnyScheme, seeds: &mut Vec<Named>) {
    let keys = keys_of(scheme);
    let again = [&keys[..], &keys[..5], &keys[2..4]].concat();
    let set = ShardedSet::builder(scheme.clone(), 3).build(&[cpu()], &again).expect("a set");
    seeds.push((name(scheme, "set"), file(|to| set.save(to.path()))));
    if scheme.limits().value_bits < 16 {
        return;
    }
    let rows: Vec<u32> = (0..again.len() as u32).collect();
    let multi = ShardedMulti::builder(scheme.clone(), 3).build(&[cpu()], &again, &rows).expect("a table");
    seeds.push((name(scheme, "multi"), file(|to| multi.save(to.path()))));
}

/// A table whose keys fail every attempt before the salted ones: for each of them nine keys whose buckets are all among
/// two of four slots.
fn salted() -> Named {
    let (scheme, slots, seed) = (Bucketized::canonical(4), 128, 14);
    let crowd = |attempt| {
        let plan = scheme.plan(Request { slots, pairs: slots / 2, seed, attempt }).expect("a plan");
        let functions = plan.functions();
        let in_two = move |&key: &u32| {
            let (home, remainder) = functions.home(key);
            (0..3).all(|turn| functions.bucket(turn, home, remainder) < 2)
        };
        (0..).filter(in_two).take(9)
    };
    let keys: BTreeSet<u32> = (0..FIRST_SALTED).flat_map(crowd).collect();
    let keys: Vec<u32> = keys.into_iter().collect();
    let builder = HashTable::builder(scheme.clone()).seed(seed).slots(slots as usize);
    let table = builder.build(&cpu(), &keys, &keys).expect("a table");
    assert!(table.restarts() >= FIRST_SALTED, "no salt");
    ("bucketized-canonical-salted".into(), file(|to| table.save(to.path())))
}

/// Table files: as built, with keys removed, of a fixed capacity, and one of a salted attempt.
pub fn tables() -> Vec<(String, Vec<u8>)> {
    let mut seeds = of_every_scheme(of_tables);
    seeds.push(salted());
    seeds
}

/// Files of sets, compacting tables, multivalue tables and join indices.
pub fn structures() -> Vec<(String, Vec<u8>)> {
    of_every_scheme(of_structures)
}

/// Files of sharded tables: as built, with keys removed, and with empty shards; and of sharded sets, multivalue tables
/// and join indices.
pub fn shards() -> Vec<(String, Vec<u8>)> {
    let mut seeds = of_every_scheme(of_shards);
    seeds.extend(of_every_scheme(of_structures_in_shards));
    seeds
}
