//! One table: builds, batches, lookups, removals and files of every scheme, key type and value type.

use std::collections::BTreeMap;

use koel::backend::{BuildRoute, Runs};
use koel::scheme::{self, Kind, Scheme};
use koel::{Cpu, Duplicates, HashTable};

use crate::{Map, Temporary, columns, cpu, inside, new_cpu, pairs};

/// Runs every operation on a table of this scheme, and compares it with a map after each. `test` names its file.
fn operations<S: Scheme>(cpu: &Cpu, scheme: &S, test: &str)
where
    Cpu: Runs<S>,
{
    let mut model = pairs(scheme);
    let (keys, values) = columns(&model);
    let half = keys.len() / 2;
    let builder = HashTable::builder(scheme.clone()).duplicates(Duplicates::KeepLast);
    let mut table = builder.build(cpu, &keys[..half], &values[..half]).expect("a table");
    table.insert(&keys[half..], &values[half..]).expect("inserted");
    assert_eq!(table.get(&keys).expect("values"), values.iter().copied().map(Some).collect::<Vec<_>>(), "{test}");

    let others: Vec<S::Value> = values[..half].iter().rev().copied().collect();
    table.upsert(&keys[..half], &others).expect("updated");
    model.extend(keys.iter().copied().zip(others));
    assert_eq!(table.get(&keys).expect("values"), answers(&model, &keys), "{test}");

    let gone: Vec<S::Key> = keys.iter().copied().step_by(3).collect();
    assert_eq!(table.remove(&gone).expect("removed"), gone.len(), "{test}");
    for key in &gone {
        model.remove(key);
    }
    let there: Vec<bool> = keys.iter().map(|key| model.contains_key(key)).collect();
    assert_eq!(table.contains(&keys).expect("flags"), there, "{test}");
    table.compact().expect("compacted");
    table.rebuild().expect("rebuilt");
    assert_eq!(table.get(&keys).expect("values"), answers(&model, &keys), "{test}");
    let mut all = table.to_pairs().expect("pairs");
    all.sort_unstable();
    assert!(all.into_iter().eq(model), "{test}");
    table.audit().expect("a sound table");

    let (path, digest) = (Temporary::new(test), table.digest().expect("a digest"));
    assert_eq!(table.save(&path).expect("saved"), digest, "{test}");
    let opened = HashTable::<Cpu, S>::open(cpu, &path).expect("opened");
    assert_eq!(opened.digest().expect("a digest"), digest, "{test}");
}

fn answers<K: Ord, V: Copy>(model: &BTreeMap<K, V>, keys: &[K]) -> Vec<Option<V>> {
    keys.iter().map(|key| model.get(key).copied()).collect()
}

/// Builds a table and adds a batch to it, both one partition at a time, and compares it with one that is built
/// directly.
fn by_parts<S: Scheme>(scheme: &S)
where
    Cpu: Runs<S>,
{
    let model: Map<S> = pairs(scheme);
    let (keys, values) = columns(&model);
    let half = keys.len() / 2;
    let tables = BuildRoute::ALL.map(|route| {
        let cpu = new_cpu();
        cpu.set_build_route(Some(route));
        let builder = HashTable::builder(scheme.clone()).capacity(keys.len());
        let mut table = builder.build(&cpu, &keys[..half], &values[..half]).expect("a table");
        table.insert(&keys[half..], &values[half..]).expect("inserted");
        assert_eq!(table.get(&keys).expect("values"), answers(&model, &keys), "{route}");
        table.digest().expect("a digest")
    });
    assert_eq!(tables[0], tables[1]);
}

macro_rules! each_scheme {
    ($($module:ident, $scheme:ident, $name:literal;)*) => {
        /// Keys and values of 32 bits.
        mod u32_u32 {
            use super::*;

            $(#[test]
            fn $module() {
                type S = scheme::$scheme;
                inside(|| {
                    for &kind in S::KINDS {
                        operations(cpu(), &S::of_kind(kind), concat!("u32-u32-", $name));
                    }
                });
            })*
        }
    };
}
koel::for_each_scheme!(each_scheme);

macro_rules! of_types {
    ($($test:ident: $scheme:ident<$key:ty, $value:ty>;)*) => {
        $(#[test]
        fn $test() {
            let scheme = scheme::$scheme::<$key, $value>::of_kind(Kind::Canonical);
            inside(|| operations(cpu(), &scheme, stringify!($test)));
        })*
    };
}
of_types! {
    bucketized_u64_u64: BucketizedOf<u64, u64>;
    bucketized_u64_u32: BucketizedOf<u64, u32>;
    bucketized_u32_u64: BucketizedOf<u32, u64>;
    bucketized_u64_set: BucketizedOf<u64, ()>;
    robin_hood_u64_u64: RobinHoodOf<u64, u64>;
    robin_hood_u64_u32: RobinHoodOf<u64, u32>;
    robin_hood_u32_u64: RobinHoodOf<u32, u64>;
    robin_hood_u64_set: RobinHoodOf<u64, ()>;
    signpost_u64_u64: SignpostOf<u64, u64>;
    signpost_u64_u32: SignpostOf<u64, u32>;
    signpost_u32_u64: SignpostOf<u32, u64>;
    signpost_u64_set: SignpostOf<u64, ()>;
    signpost_u32_set: SignpostOf<u32, ()>;
    cuckoo_u64_u64: CuckooOf<u64, u64>;
    cuckoo_u64_u32: CuckooOf<u64, u32>;
    cuckoo_u32_u64: CuckooOf<u32, u64>;
    cuckoo_u64_set: CuckooOf<u64, ()>;
    sorted_u64_u64: SortedOf<u64, u64>;
    sorted_u64_u32: SortedOf<u64, u32>;
    sorted_u32_u64: SortedOf<u32, u64>;
    sorted_u64_set: SortedOf<u64, ()>;
}

macro_rules! built_by_parts {
    ($($test:ident: $scheme:expr;)*) => {
        $(#[test]
        fn $test() {
            inside(|| by_parts(&$scheme));
        })*
    };
}
built_by_parts! {
    bucketized_u32_u32_by_parts: koel::Bucketized::canonical(8);
    bucketized_u64_u64_by_parts: koel::Bucketized::canonical(8).of::<u64, u64>();
    bucketized_u64_u32_by_parts: koel::Bucketized::canonical(8).of::<u64, u32>();
    bucketized_u32_u64_by_parts: koel::Bucketized::canonical(8).of::<u32, u64>();
    bucketized_u64_set_by_parts: koel::Bucketized::canonical(8).of::<u64, ()>();
}
