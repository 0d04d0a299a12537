//! Shards, devices and batches: one digest, the answers of a map, and no lost pairs.

use std::collections::BTreeMap;

use crate::backend::Runs;
use crate::cpu::Cpu;
use crate::error::{Error, Result};
use crate::scheme::hash::SplitMix64;
use crate::scheme::signpost::SignpostOf;
use crate::scheme::{Bucketized, Cuckoo, Horton, Kind, Plan, Scheme, Signpost};
use crate::sharded::{Replicated, Sharded, ShardedFile};
use crate::table::{Buckets, Contents, Duplicates, HashTable, KeyType, Stats, read_info};

mod device_lookup;
mod exchange;
mod structures;

fn cpus() -> Vec<Vec<Cpu>> {
    let cpu = |threads| Cpu::with_threads(threads).expect("threads");
    vec![vec![cpu(2)], vec![cpu(1), cpu(2)], vec![cpu(2), cpu(1), cpu(1)]]
}

fn keys(count: usize, seed: u64) -> Vec<u32> {
    let mut stream = SplitMix64::new(seed);
    let mut keys: Vec<u32> = (0..count).map(|_| stream.next_u32()).collect();
    keys.extend([0, u32::MAX]);
    keys.sort_unstable();
    keys.dedup();
    keys.sort_by_key(|key| key.wrapping_mul(0x9e37_79b1));
    keys
}

/// Builds one table on different devices and in different batches, and compares the results.
fn is_one_table<S: Scheme<Key = u32, Value = u32>>(scheme: &S, shards: usize) -> Result<()>
where
    Cpu: Runs<S>,
{
    let keys = keys(20_000, 3);
    let values: Vec<u32> = keys.iter().map(|key| key ^ 5).collect();
    let builder = Sharded::builder(scheme.clone(), shards).capacity(25_000).seed(11);
    let mut digests = Vec::new();
    for devices in cpus() {
        let table = builder.build(&devices, &keys, &values)?;
        assert_eq!((table.len(), table.shards().len()), (keys.len(), shards));
        // A sentinel pair is stored outside of a shard's image.
        let outside = table.shards().iter().filter(|shard| shard.plan().outside().is_some()).count();
        assert_eq!(table.audit()?.pairs as usize, keys.len() - outside);
        let mut grown = builder.build(&devices, &keys[..7000], &values[..7000])?;
        assert_eq!(grown.insert(&keys[7000..], &values[7000..])?.added, keys.len() - 7000);
        assert_eq!(grown.digest()?, table.digest()?);
        let mut pairs = table.to_pairs()?;
        assert_eq!(pairs, grown.iter()?.collect::<Vec<_>>());
        pairs.sort_unstable();
        let mut expected: Vec<_> = keys.iter().copied().zip(values.iter().copied()).collect();
        expected.sort_unstable();
        assert_eq!(pairs, expected);
        // Queries in another order, with misses between.
        let queried: Vec<u32> =
            (0..50_000).map(|i| if i % 3 == 0 { i } else { keys[(i * 7919) as usize % keys.len()] }).collect();
        let one = HashTable::builder(scheme.clone()).build(&devices[0], &keys, &values)?;
        assert_eq!(table.get(&queried)?, one.get(&queried)?);
        assert_eq!(table.contains(&queried)?, one.contains(&queried)?);
        assert_eq!(table.get(&[])?, []);
        digests.push(table.digest()?);
    }
    assert!(digests.windows(2).all(|two| two[0] == two[1]));
    let other = Sharded::builder(scheme.clone(), shards + 1).capacity(25_000).seed(11);
    assert_ne!(other.build(&cpus()[0], &keys, &values)?.digest()?, digests[0]);
    Ok(())
}

#[test]
fn shards_are_one_table_on_any_devices() -> Result<()> {
    for shards in [1, 5, 16] {
        is_one_table(&Bucketized::canonical(8), shards)?;
        is_one_table(&Signpost::new(), shards)?;
    }
    is_one_table(&Cuckoo::canonical(4), 3)?;
    is_one_table(&Horton::canonical(8), 3)
}

#[test]
fn batches_change_all_shards_or_none() -> Result<()> {
    let (keys, devices) = (keys(5000, 4), &cpus()[1]);
    let values: Vec<u32> = keys.iter().map(|key| key / 2).collect();
    let mut table = Sharded::builder(Bucketized::canonical(8), 8).build(devices, &keys, &values)?;
    let mut model: BTreeMap<u32, u32> = keys.iter().copied().zip(values).collect();
    let before = table.digest()?;
    // New keys of every shard, and one existing key.
    let mut batch: Vec<u32> = (1000..3000).filter(|key| !model.contains_key(key)).collect();
    batch.push(keys[17]);
    let shards: std::collections::BTreeSet<usize> = batch.iter().map(|&key| table.shard_of(key)).collect();
    assert_eq!(shards.len(), 8);
    let refused = table.insert(&batch, &batch);
    assert!(matches!(refused, Err(Error::DuplicateKey { key }) if key == u64::from(keys[17])), "{refused:?}");
    assert!(table.digest()? == before && table.len() == model.len());
    let done = table.upsert(&batch, &batch)?;
    assert_eq!((done.added, done.overwritten), (batch.len() - 1, 1));
    model.extend(batch.iter().map(|&key| (key, key)));
    let gone: Vec<u32> = keys.iter().copied().step_by(3).chain([4_000_000_000, 1001]).collect();
    let there = gone.iter().filter(|key| model.remove(key).is_some()).count();
    assert_eq!(table.remove(&gone)?, there);
    assert!(table.has_tombstones());
    table.compact()?;
    assert!(!table.has_tombstones() && table.len() == model.len());
    table.audit()?;
    let (left, values): (Vec<u32>, Vec<u32>) = model.iter().map(|(&key, &value)| (key, value)).unzip();
    assert_eq!(table.get(&left)?, values.iter().copied().map(Some).collect::<Vec<_>>());
    assert!(table.contains(&gone)?.iter().all(|there| !there));
    assert_eq!((table.insert(&[], &[])?.added, table.remove(&[])?), (0, 0));
    Ok(())
}

#[test]
fn duplicates_are_handled_by_every_rule() -> Result<()> {
    let rows: Vec<u32> = (0..4000).collect();
    let keys: Vec<u32> = rows.iter().map(|row| row % 1000 + 7).collect();
    for devices in cpus() {
        let builder = Sharded::builder(Bucketized::canonical(8), 6);
        assert!(matches!(builder.build(&devices, &keys, &rows), Err(Error::DuplicateKey { key: 7 })));
        for (rule, first) in [(Duplicates::KeepFirst, 0), (Duplicates::KeepLast, 3000)] {
            let table = builder.clone().duplicates(rule).build(&devices, &keys, &rows)?;
            assert_eq!((table.len(), table.get(&[7, 1006])?), (1000, vec![Some(first), Some(first + 999)]));
        }
    }
    Ok(())
}

#[test]
fn keys_of_64_bits_and_few_keys() -> Result<()> {
    let keys: Vec<u64> = (0..3000u64).map(|i| i << 40 | i).collect();
    let values: Vec<u64> = keys.iter().map(|key| !key).collect();
    let builder = Sharded::builder(Signpost::new().of::<u64, u64>(), 4);
    let table = builder.build(&cpus()[1], &keys, &values)?;
    assert_eq!(table.get(&[keys[5], 3, keys[2999]])?, [Some(values[5]), None, Some(values[2999])]);
    // More shards than keys.
    let few = Sharded::builder(Bucketized::canonical(8), 64).build(&cpus()[2], &[9, 8], &[1, 2])?;
    assert_eq!((few.len(), few.get(&[8, 10, 9])?), (2, vec![Some(2), None, Some(1)]));
    let none = Sharded::builder(Bucketized::canonical(8), 2).build(&cpus()[0], &[], &[])?;
    assert!(none.is_empty() && none.get(&[1])? == [None] && none.to_pairs()?.is_empty());
    Ok(())
}

#[test]
fn invalid_arguments_are_refused() {
    let builder = Sharded::builder(Bucketized::canonical(8), 2);
    let none: [Cpu; 0] = [];
    assert!(matches!(builder.build(&none, &[1], &[2]), Err(Error::InvalidParameter { .. })));
    assert!(matches!(builder.build(&cpus()[0], &[1], &[]), Err(Error::LengthMismatch { .. })));
    for shards in [0, 4097] {
        let builder = Sharded::builder(Bucketized::canonical(8), shards);
        assert!(matches!(builder.build(&cpus()[0], &[1], &[2]), Err(Error::InvalidParameter { .. })));
    }
    let full = Sharded::builder(Bucketized::canonical(8), 4).capacity(100);
    let many: Vec<u32> = (0..1000).collect();
    assert!(matches!(full.build(&cpus()[1], &many, &many), Err(Error::TooFull { .. })));
}

#[test]
fn files_are_opened_on_other_devices() -> Result<()> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("table.koel");
    let keys = keys(3000, 8);
    let table = Sharded::builder(Bucketized::canonical(8), 5).seed(3).build(&cpus()[1], &keys, &keys)?;
    assert_eq!(table.save(&path)?, table.digest()?);
    let mut opened = Sharded::<Cpu, Bucketized>::open(&cpus()[2], &path)?;
    assert_eq!((opened.digest()?, opened.len()), (table.digest()?, table.len()));
    assert_eq!(opened.get(&[keys[1], 12])?, table.get(&[keys[1], 12])?);
    opened.insert(&[12], &[13])?;
    assert_eq!(opened.get(&[12])?, [Some(13)]);
    // Files of single tables and of sharded tables cannot be opened as each other.
    let single = folder.path().join("single.koel");
    HashTable::builder(Bucketized::canonical(8)).build(&cpus()[0][0], &keys, &keys)?.save(&single)?;
    let said = |result: Result<()>| result.expect_err("refused").to_string();
    assert!(said(Sharded::<Cpu, Bucketized>::open(&cpus()[0], &single).map(drop)).contains("not sharded"));
    assert!(said(HashTable::<Cpu, Bucketized>::open(&cpus()[0][0], &path).map(drop)).contains("Sharded"));
    let (info, of_single) = (read_info(&path)?, read_info(&single)?);
    assert_eq!((info.shards, info.contents, of_single.shards), (Some(5), Contents::Map, None));
    assert_eq!(
        (info.scheme, info.kind, info.key_bits, info.key_type),
        (of_single.scheme, Kind::Canonical, 32, KeyType::Numbers)
    );
    assert!(said(Sharded::<Cpu, Signpost>::open(&cpus()[0], &path).map(drop)).contains("bucketized"));
    Ok(())
}

#[test]
fn damaged_files_are_refused() -> Result<()> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("table.koel");
    let keys = keys(300, 9);
    let table = Sharded::builder(Bucketized::canonical(8), 3).build(&cpus()[0], &keys, &keys)?;
    table.save(&path)?;
    let whole = std::fs::read(&path).expect("bytes");
    let open = |bytes: &[u8]| {
        std::fs::write(&path, bytes).expect("written");
        Sharded::<Cpu, Bucketized>::open(&cpus()[0], &path)
    };
    open(&whole)?;
    // Every byte of the header and of the end, and some of those between.
    let some = (0..200).chain((200..whole.len() - 100).step_by(37)).chain(whole.len() - 100..whole.len());
    for at in some {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x41;
        let refused = open(&damaged).map(drop);
        assert!(matches!(refused, Err(Error::BadFile { .. })), "byte {at}: {refused:?}");
    }
    for len in [0, 63, 64, 200, whole.len() - 1] {
        assert!(matches!(open(&whole[..len]), Err(Error::BadFile { .. })), "{len} bytes");
    }
    // Two swapped shards, with valid lengths and a valid checksum.
    let swapped = Sharded { which: table.which, devices: 1, tables: table.tables.into_iter().rev().collect() };
    assert!(matches!(swapped.audit(), Err(Error::Damaged(_))));
    swapped.save(&path)?;
    let refused = Sharded::<Cpu, Bucketized>::open(&cpus()[0], &path).map(drop).expect_err("refused").to_string();
    assert!(refused.contains("which belongs to another shard"), "{refused}");
    Ok(())
}

#[test]
fn replicas_divide_the_queries() -> Result<()> {
    let keys = keys(3000, 12);
    let values: Vec<u32> = keys.iter().map(|key| key / 3).collect();
    let table = HashTable::builder(Signpost::new()).build(&cpus()[0][0], &keys, &values)?;
    for devices in cpus() {
        let both = Replicated::of(&table, &devices)?;
        assert_eq!((both.replicas().len(), both.digest()?), (devices.len(), table.digest()?));
        for count in [0, 1, 31, 32, 33, 95, 96, 97, 3000] {
            let queried: Vec<u32> =
                (0..count).map(|i| if i % 3 == 0 { i } else { keys[i as usize * 7 % keys.len()] }).collect();
            assert_eq!(both.get(&queried)?, table.get(&queried)?, "{count}");
            assert_eq!(both.contains(&queried)?, table.contains(&queried)?, "{count}");
        }
    }
    let none: [Cpu; 0] = [];
    assert!(matches!(Replicated::of(&table, &none), Err(Error::InvalidParameter { .. })));
    assert!(matches!(
        Replicated::of(&table, &cpus()[0])?.get_into(&[1], &mut [], &mut [0]),
        Err(Error::LengthMismatch { .. })
    ));
    Ok(())
}

/// The only thread of a pool makes the call. The threads for which it waits need it too.
#[test]
fn threads_of_a_pool_may_call() -> Result<()> {
    let pool = std::sync::Arc::new(rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a pool"));
    let devices = [Cpu::from_pool(pool.clone()), Cpu::new(), Cpu::from_pool(pool.clone())];
    let keys = keys(40_000, 13);
    let builder = Sharded::builder(Bucketized::canonical(8), 6);
    let (table, all) = pool.install(|| -> Result<_> {
        let table = builder.build(&devices, &keys, &keys)?;
        let all = table.get(&keys)?;
        Ok((table, all))
    })?;
    assert!(all.iter().zip(&keys).all(|(value, key)| *value == Some(*key)));
    assert_eq!(pool.install(|| table.digest())?, builder.build(&devices[..1], &keys, &keys)?.digest()?);
    Ok(())
}

#[test]
fn a_full_shard_refuses_the_batch() -> Result<()> {
    let keys: Vec<u32> = (0..1000).collect();
    let mut table = Sharded::builder(Bucketized::canonical(8), 4).capacity(1000).build(&cpus()[1], &keys, &keys)?;
    let before = table.digest()?;
    let more: Vec<u32> = (1000..3000).collect();
    assert!(matches!(table.insert(&more, &more), Err(Error::TooFull { .. })));
    assert_eq!((table.digest()?, table.len()), (before, 1000));
    // Errors in the keys are reported before errors in the sizes.
    let twice: Vec<u32> = (0..2000).chain([7]).collect();
    let refused = Sharded::builder(Bucketized::canonical(8), 4).capacity(100).build(&cpus()[2], &twice, &twice);
    assert!(matches!(refused, Err(Error::DuplicateKey { key: 7 })), "{refused:?}");
    Ok(())
}

#[test]
fn shards_of_another_table_are_refused() -> Result<()> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("table.koel");
    let (keys, cpu) = (keys(500, 14), &cpus()[0]);
    let of = |rule: Duplicates, load: f64| {
        Sharded::builder(Bucketized::canonical(8), 2).duplicates(rule).load_factor(load).build(cpu, &keys, &keys)
    };
    for (other, what) in [(of(Duplicates::KeepLast, 0.9)?, "settings"), (of(Duplicates::Error, 0.5)?, "settings")] {
        let one = of(Duplicates::Error, 0.9)?;
        let (which, mut tables) = (one.which, one.tables);
        tables[1] = other.tables.into_iter().nth(1).expect("two shards");
        Sharded { which, devices: 1, tables }.save(&path)?;
        let refused = Sharded::<Cpu, Bucketized>::open(cpu, &path).expect_err("refused").to_string();
        assert!(refused.contains("shard 1") && refused.contains(what), "{refused}");
    }
    Ok(())
}

#[test]
fn statistics_include_all_shards() -> Result<()> {
    let keys = keys(20_000, 15);
    for devices in cpus() {
        let table = Sharded::builder(Horton::canonical(8), 6).build(&devices, &keys, &keys)?;
        let (stats, shards) = (table.stats()?, table.shards());
        let of_shards: Vec<_> = shards.iter().map(HashTable::stats).collect::<Result<_>>()?;
        assert_eq!((stats.pairs as usize, stats.slots as usize), (table.len(), table.slots()));
        assert_eq!((stats.restarts, stats.tombstones), (table.restarts(), 0));
        assert_eq!(stats.bytes, of_shards.iter().map(|shard| shard.bytes).sum());
        assert_eq!(stats.ages.iter().sum::<u64>(), stats.keys_by_reads.iter().sum());
        let buckets = |of: &[Buckets]| of.iter().map(Buckets::count).sum::<u64>();
        assert_eq!(buckets(&stats.buckets), of_shards.iter().map(|shard| buckets(&shard.buckets)).sum());
        assert_eq!(stats.buckets.len(), of_shards[0].buckets.len());
        let mut model = of_shards.iter().filter_map(|shard| shard.model);
        assert!(stats.model.is_some() && model.all(|model| (model.reads_per_hit - stats.reads_per_hit).abs() < 0.1));
        let near = |of: fn(&Stats) -> f64| of_shards.iter().all(|shard| (of(shard) - of(&stats)).abs() < 0.1);
        assert!(near(|stats| stats.reads_per_hit) && near(|stats| stats.reads_per_miss));
    }
    // One shard equals a single table.
    let table = Sharded::builder(Signpost::new(), 1).build(&cpus()[0], &keys, &keys)?;
    assert_eq!(table.stats()?, table.shards()[0].stats()?);
    Ok(())
}

#[test]
fn memory_estimates_are_upper_bounds() -> Result<()> {
    let keys = keys(50_000, 16);
    let pairs = keys.len() as u64;
    for builder in [Sharded::builder(Signpost::new(), 8), Sharded::builder(Signpost::new(), 8).capacity(60_000)] {
        let table = builder.build(&cpus()[1], &keys, &keys)?;
        let taken = |device: usize| {
            table.shards().iter().skip(device).step_by(2).map(|shard| 8 * shard.plan().words()).sum::<u64>()
        };
        let estimate = builder.memory_estimate(pairs, 2)?;
        assert!([0, 1].map(taken).iter().all(|&taken| taken <= estimate.image && estimate.image < taken * 6 / 5));
        let all = builder.memory_estimate(pairs, 1)?;
        assert_eq!((all.image, builder.memory_estimate(pairs, 8)?.image), (2 * estimate.image, estimate.image / 4));
        assert!(estimate.image < estimate.build && estimate.build <= estimate.build_with_duplicates);
        assert!(estimate.build < estimate.insert && estimate.insert < all.insert);
        // Devices without a shard change nothing.
        assert_eq!(builder.memory_estimate(pairs, 9)?, builder.memory_estimate(pairs, 8)?);
    }
    let one = Sharded::builder(Cuckoo::canonical(4), 1).memory_estimate(pairs, 1)?;
    assert_eq!(one, HashTable::builder(Cuckoo::canonical(4)).memory_estimate(pairs)?);
    assert!(Sharded::builder(Cuckoo::canonical(4), 1).memory_estimate(pairs, 0).is_err());
    assert!(Sharded::builder(Cuckoo::canonical(4), 0).memory_estimate(pairs, 1).is_err());
    Ok(())
}

#[test]
fn slots_are_divided_among_shards() -> Result<()> {
    let keys = keys(1000, 17);
    let builder = Sharded::builder(Cuckoo::canonical(4), 3).slots(4000);
    let table = builder.build(&cpus()[1], &keys, &keys)?;
    assert!(table.shards().iter().all(|shard| shard.slots() == 1334));
    assert!(builder.load_factor(0.5).build(&cpus()[0], &keys, &keys).is_err());
    Ok(())
}

#[test]
fn spilled_builds_equal_builds_in_memory() -> Result<()> {
    let folder = tempfile::tempdir().expect("a folder");
    let (whole, spilled) = (folder.path().join("whole"), folder.path().join("spilled"));
    let keys: Vec<u64> = (0..40_000_u64).map(|i| ((i * i) % 30_011) << 30).collect();
    let values: Vec<u32> = (0..40_000).collect();
    for (shards, rule) in [(1, Duplicates::KeepFirst), (7, Duplicates::KeepLast), (64, Duplicates::KeepFirst)] {
        let builder = Sharded::builder(Bucketized::canonical(8).of::<u64, u32>(), shards).duplicates(rule);
        let digest = builder.build(&[Cpu::new()], &keys, &values)?.save(&whole)?;
        for devices in [vec![Cpu::new()], vec![Cpu::with_threads(1)?, Cpu::with_threads(2)?, Cpu::new()]] {
            for piece in [9, 1000, 50_000] {
                let mut build = builder.spilled(folder.path())?;
                assert!(build.is_empty());
                for (keys, values) in keys.chunks(piece).zip(values.chunks(piece)).take(50_000) {
                    build.push(keys, values)?;
                }
                assert_eq!((build.len(), build.spilled_bytes()), (40_000, 12 * 40_000));
                assert_eq!(build.save(&devices, &spilled)?, digest);
                assert!(std::fs::read(&whole).ok() == std::fs::read(&spilled).ok());
            }
        }
    }
    Ok(())
}

#[test]
fn a_spilled_build_that_fails_leaves_the_old_file() -> Result<()> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("table");
    std::fs::write(&path, "old").expect("a file");
    let builder = Sharded::builder(Bucketized::canonical(8), 5);
    let mut build = builder.spilled(folder.path())?;
    build.push(&[9, 8, 7, 6, 5, 4], &[0; 6])?;
    assert!(matches!(build.push(&[1], &[]), Err(Error::LengthMismatch { .. })));
    build.push(&[7, 5, 8], &[1; 3])?;
    assert!(matches!(build.save(&[Cpu::new()], &path), Err(Error::DuplicateKey { key: 5 })));
    assert!(matches!(builder.spilled(folder.path())?.save::<Cpu>(&[], &path), Err(Error::InvalidParameter { .. })));
    assert_eq!(std::fs::read(&path).ok().as_deref(), Some(&b"old"[..]));
    assert_eq!(std::fs::read_dir(folder.path()).map(Iterator::count).ok(), Some(1), "temporary files have no names");
    let missing_folder = builder.spilled(folder.path().join("missing"));
    assert!(matches!(missing_folder, Err(Error::Spill { folder, .. }) if folder.ends_with("missing")));
    Ok(())
}

#[test]
fn builds_accept_partitioned_columns() -> Result<()> {
    let keys = keys(5000, 2);
    let builder = Sharded::builder(Bucketized::canonical(8), 6);
    let shard_of = builder.shard_of()?;
    let of = |shard: usize| -> (Vec<u32>, Vec<u32>) {
        keys.iter().filter(|&&key| shard_of(key) == shard).map(|&key| (key, !key)).unzip()
    };
    let values: Vec<u32> = keys.iter().map(|key| !key).collect();
    for devices in cpus() {
        let table = builder.build_partitioned(&devices, |shard| Ok(of(shard)))?;
        assert_eq!(table.digest()?, builder.build(&devices[..1], &keys, &values)?.digest()?);
        let of_shards = table.shards().iter().map(HashTable::digest).collect::<Result<Vec<_>>>()?;
        assert_eq!(builder.digest_of(&of_shards)?, table.digest()?);
        assert!(matches!(builder.digest_of(&of_shards[1..]), Err(Error::LengthMismatch { .. })));
        let mismatched = builder.build_partitioned(&devices, |shard| Ok(of(if shard == 4 { 5 } else { shard })));
        assert!(
            matches!(mismatched, Err(Error::InvalidParameter { what: "a key of another shard", .. })),
            "{mismatched:?}"
        );
        let failed = builder.build_partitioned(&devices, |_| Err::<(Vec<u32>, Vec<u32>), _>(Error::WrongDevice));
        assert!(matches!(failed, Err(Error::WrongDevice)));
    }
    Ok(())
}

#[test]
fn lookups_in_files_equal_lookups_in_memory() -> Result<()> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("table");
    let keys: Vec<u64> = (0..20_000_u64).map(|i| i << 31).collect();
    let queries: Vec<u64> = (0..30_000_u64).map(|i| (i * 3) << 30).collect();
    let table = Sharded::builder(Signpost::new().of::<u64, u64>(), 6).build(&[Cpu::new()], &keys, &keys)?;
    let digest = table.save(&path)?;
    for devices in [vec![Cpu::new()], vec![Cpu::with_threads(1)?, Cpu::with_threads(2)?, Cpu::new(), Cpu::new()]] {
        let file = ShardedFile::<Cpu, SignpostOf<u64, u64>>::open(&devices, &path)?;
        assert_eq!((file.len(), file.shards(), file.digest(), file.is_empty()), (20_000, 6, digest, false));
        assert_eq!(file.get(&queries)?, table.get(&queries)?);
        assert_eq!(file.contains(&queries)?, table.contains(&queries)?);
        assert_eq!((file.get(&[])?, file.get(&[keys[5]])?), (vec![], vec![Some(keys[5])]));
        let short = file.get_into(&queries, &mut [0; 3], &mut []);
        assert!(matches!(short, Err(Error::LengthMismatch { .. })));
    }
    // A file that is replaced is not reread; changed bytes in it are an error.
    let file = ShardedFile::<Cpu, SignpostOf<u64, u64>>::open(&[Cpu::new()], &path)?;
    let bytes = std::fs::read(&path).expect("a file");
    std::fs::rename(&path, folder.path().join("old")).expect("a folder");
    std::fs::write(&path, "new").expect("a file");
    assert_eq!(file.contains(&queries)?, table.contains(&queries)?);
    let mut damaged = bytes;
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    std::fs::write(folder.path().join("old"), &damaged).expect("a file");
    assert!(matches!(file.get(&queries), Err(Error::BadFile { .. })));
    std::fs::write(&path, &damaged).expect("a file");
    let opened = ShardedFile::<Cpu, SignpostOf<u64, u64>>::open(&[Cpu::new()], &path);
    assert!(matches!(opened, Err(Error::BadFile { .. })));
    Ok(())
}
