//! Compares lookups with an exchange between devices with those in one table.

use crate::backend::{Runs, bitmap_words};
use crate::cpu::Cpu;
use crate::error::Result;
use crate::scheme::hash::SplitMix64;
use crate::scheme::signpost::{Posted, SignpostOf};
use crate::scheme::{Key, Scheme, Signpost, Value};
use crate::sharded::device_lookup::Shards;
use crate::{HashTable, Sharded};

/// 64 and 512 queries per device at a time.
fn answers_are_those_of_one_table<K: Key, V: Value>(queries: usize, shards: usize, devices: usize) -> Result<()>
where
    (K, V): Posted,
    SignpostOf<K, V>: Scheme<Key = K, Value = V>,
    Cpu: Runs<SignpostOf<K, V>>,
{
    let mut stream = SplitMix64::new(queries as u64);
    // Key 0, which is also the padding, is in the table; half of the queries are hits.
    let keys: Vec<K> = (0..900_u64).map(|i| K::low(i * 77)).collect();
    let values: Vec<V> = (0..900_u64).map(|i| V::low(!i)).collect();
    let queried: Vec<K> = (0..queries).map(|_| K::low(stream.next_u64() % 1800 * 77)).collect();
    let scheme = Signpost::new().of::<K, V>();
    let one = HashTable::builder(scheme.clone()).build(&Cpu::with_threads(1)?, &keys, &values)?;
    let number = devices;
    let devices = (0..number).map(|_| Cpu::with_threads(1)).collect::<Result<Vec<_>>>()?;
    let table = Sharded::builder(scheme, shards).build(&devices, &keys, &values)?;
    let (mut expected, mut bits) = (vec![V::low(7); queries], vec![7; bitmap_words(queries)]);
    one.get_into(&queried, &mut expected, &mut bits)?;
    for at_once in [64, 1 << 9] {
        let device_lookup = Shards { which: &table.which, devices: &devices, at_once, tables: table.shards() };
        let (mut values, mut found) = (vec![V::low(9); queries], vec![9; bitmap_words(queries)]);
        device_lookup.answer(&queried, Some(&mut values), &mut found)?;
        assert_eq!((values, &found), (expected.clone(), &bits), "{queries} queries of {shards} on {number}");
        found.fill(9);
        device_lookup.answer(&queried, None, &mut found)?;
        assert_eq!(found, bits);
    }
    Ok(())
}

// No queries; fewer than a word; fewer parts than devices; rounds, the last one short; devices without shards.

#[test]
fn answers_are_in_the_order_of_queries() -> Result<()> {
    for (queries, shards, devices) in [(0, 3, 2), (1, 1, 1), (21, 7, 3), (1, 2, 3), (3001, 7, 2)] {
        answers_are_those_of_one_table::<u32, u32>(queries, shards, devices)?;
    }
    answers_are_those_of_one_table::<u64, u64>(33, 7, 3)
}

#[test]
#[ignore = "slow: more shards and devices, keys and values of all widths; CI runs it"]
fn answers_of_all_widths_are_in_the_order_of_queries() -> Result<()> {
    for (queries, shards, devices) in [(33, 7, 3), (700, 256, 2), (1000, 1, 4), (3001, 2, 3), (3001, 7, 2)] {
        answers_are_those_of_one_table::<u32, u32>(queries, shards, devices)?;
        answers_are_those_of_one_table::<u32, u64>(queries, shards, devices)?;
        answers_are_those_of_one_table::<u64, u32>(queries, shards, devices)?;
        answers_are_those_of_one_table::<u64, u64>(queries, shards, devices)?;
    }
    Ok(())
}
