//! Small valid inputs of each target, from which mutations start.

use std::collections::BTreeSet;

use koel::backend::Runs;
use koel::scheme::{FIRST_SALTED, Kind, Request, Scheme};
use koel::{Bucketized, CompactingTable, Cpu, HashSet, HashTable, MultiTable};

use crate::file::{Scratch, cpu};

/// Keys of a seed: few, so that a mutation hits something that matters, and the key that marks empty slots.
const KEYS: [u32; 13] = [0, 1, 2, 3, 7, 8, 64, 977, 1954, 70_000, 1 << 20, 3 << 21, u32::MAX];

type Named = (String, Vec<u8>);

/// Seeds of one scheme and kind.
trait Make {
    fn make<S: Scheme>(&self, kind: Kind, seeds: &mut Vec<Named>)
    where
        Cpu: Runs<S>;
}

fn of_every_scheme(make: &impl Make) -> Vec<Named> {
    let mut seeds = Vec::new();
    macro_rules! each_scheme {
        ($($module:ident, $scheme:ident, $name:literal;)*) => {
            $(for &kind in <koel::scheme::$scheme as Scheme>::KINDS {
                make.make::<koel::scheme::$scheme>(kind, &mut seeds);
            })*
        };
    }
    koel::for_each_scheme!(each_scheme);
    seeds
}

/// The keys that fit the scheme's limits.
fn keys_of<S: Scheme>(kind: Kind) -> Vec<u32> {
    let greatest = S::of_kind(kind).limits().greatest_key();
    KEYS.into_iter().filter(|&key| key <= greatest).collect()
}

fn name<S: Scheme>(kind: Kind, what: &str) -> String {
    format!("{}-{kind}-{what}", S::NAME)
}

fn file(save: impl FnOnce(&Scratch) -> koel::Result<koel::Digest>) -> Vec<u8> {
    let scratch = Scratch::new();
    save(&scratch).expect("room for a small file");
    std::fs::read(scratch.path()).expect("a file that was just saved")
}

struct Tables;

impl Make for Tables {
    fn make<S: Scheme>(&self, kind: Kind, seeds: &mut Vec<Named>)
    where
        Cpu: Runs<S>,
    {
        let scheme = S::of_kind(kind);
        let keys = keys_of::<S>(kind);
        let greatest = scheme.limits().greatest_value();
        let values: Vec<u32> = keys.iter().map(|key| (!key).min(greatest)).collect();
        let mut table = HashTable::builder(scheme.clone()).build(&cpu(), &keys, &values).expect("a table");
        seeds.push((name::<S>(kind, "map"), file(|to| table.save(to.path()))));
        table.remove(&keys[..3]).expect("keys to remove");
        seeds.push((name::<S>(kind, "worn"), file(|to| table.save(to.path()))));
        let empty = HashTable::builder(scheme.clone()).build(&cpu(), &[], &[]).expect("a table");
        seeds.push((name::<S>(kind, "empty"), file(|to| empty.save(to.path()))));
        let slots = HashTable::builder(scheme).slots(64).build(&cpu(), &keys, &values).expect("a table");
        seeds.push((name::<S>(kind, "capacity"), file(|to| slots.save(to.path()))));
    }
}

struct Structures;

impl Make for Structures {
    fn make<S: Scheme>(&self, kind: Kind, seeds: &mut Vec<Named>)
    where
        Cpu: Runs<S>,
    {
        let scheme = S::of_kind(kind);
        let keys = keys_of::<S>(kind);
        let set = HashSet::builder(scheme.clone()).build(&cpu(), &keys).expect("a set");
        seeds.push((name::<S>(kind, "set"), file(|to| set.save(to.path()))));
        if scheme.limits().value_bits < 16 {
            return;
        }
        let ids = CompactingTable::builder(scheme.clone()).build(&cpu(), &keys).expect("a table");
        seeds.push((name::<S>(kind, "compact"), file(|to| ids.save(to.path()))));
        let copies: Vec<u32> = keys.iter().enumerate().flat_map(|(i, &key)| vec![key; 1 + i % 3]).collect();
        let values: Vec<u32> = (100..).take(copies.len()).collect();
        let multi = MultiTable::builder(scheme).build(&cpu(), &copies, &values).expect("a table");
        seeds.push((name::<S>(kind, "multi"), file(|to| multi.save(to.path()))));
    }
}

/// A table whose keys fail every attempt before the salted ones: for each of them nine whose buckets are all among two
/// of four slots.
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
    let mut seeds = of_every_scheme(&Tables);
    seeds.push(salted());
    seeds
}

/// Files of sets, compacting tables and multivalue tables.
pub fn structures() -> Vec<(String, Vec<u8>)> {
    of_every_scheme(&Structures)
}
