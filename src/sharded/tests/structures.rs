//! Sets and multivalue tables in shards equal single ones, on different devices and in different batches.

use std::collections::{BTreeMap, BTreeSet};

use super::{cpus, keys};
use crate::cpu::Cpu;
use crate::error::{Error, Result};
use crate::multi::MultiTable;
use crate::scheme::hash::SplitMix64;
use crate::scheme::{Bucketized, Cuckoo, CuckooSet, Scheme, Signpost};
use crate::set::HashSet;
use crate::sharded::{Sharded, ShardedMulti, ShardedSet};
use crate::table::{Contents, read_info};

/// Keys with many duplicates.
fn rows(count: usize, distinct: u64, seed: u64) -> Vec<u32> {
    let mut stream = SplitMix64::new(seed);
    (0..count).map(|_| (stream.next_u64() % distinct) as u32 * 3).collect()
}

fn is_one_set<S: Scheme<Key = u32>>(scheme: &S, shards: usize) -> Result<()>
where
    Cpu: crate::backend::Runs<S>,
{
    let (all, folder) = (rows(20_000, 5000, 1), tempfile::tempdir().expect("a folder"));
    let path = folder.path().join("set.koel");
    let model: BTreeSet<u32> = all.iter().copied().collect();
    let builder = ShardedSet::builder(scheme.clone(), shards).capacity(9000).seed(5);
    let mut digests = Vec::new();
    for devices in cpus() {
        let set = builder.build(&devices, &all)?;
        let mut grown = builder.build(&devices, &all[..8000])?;
        let before = grown.len();
        assert_eq!(grown.insert(&all[8000..])?, model.len() - before);
        assert_eq!(grown.digest()?, set.digest()?);
        let mut found = set.to_keys()?;
        assert_eq!(found, grown.to_keys()?);
        found.sort_unstable();
        assert!(found.iter().eq(&model));
        let queried = keys(4000, 9).into_iter().chain(all[..4000].iter().copied()).collect::<Vec<_>>();
        assert!(set.contains(&queried)?.into_iter().eq(queried.iter().map(|key| model.contains(key))));
        set.audit()?;
        // The result is the set of the remaining keys, also if there was nothing to remove.
        let gone: Vec<u32> = model.iter().copied().step_by(3).collect();
        assert_eq!((grown.remove(&gone)?, grown.remove(&gone)?), (gone.len(), 0));
        grown.compact()?;
        let left: Vec<u32> =
            model.iter().copied().enumerate().filter(|(i, _)| i % 3 != 0).map(|(_, key)| key).collect();
        assert_eq!(grown.digest()?, builder.build(&devices[..1], &left)?.digest()?);
        let digest = set.save(&path)?;
        let opened = ShardedSet::<Cpu, S>::open(&[Cpu::new()], &path)?;
        assert_eq!((opened.digest()?, digest, opened.len()), (set.digest()?, set.digest()?, model.len()));
        digests.push(digest);
    }
    assert!(digests.iter().all(|digest| *digest == digests[0]));
    let info = read_info(&path)?;
    assert_eq!((info.contents, info.shards), (Contents::Set, Some(shards as u32)));
    Ok(())
}

#[test]
fn sets_in_shards_equal_one_set() -> Result<()> {
    is_one_set(&CuckooSet::canonical(4), 5)?;
    is_one_set(&Bucketized::canonical(8), 3)?;
    is_one_set(&Signpost::new(), 1)
}

#[test]
fn a_set_in_one_shard_equals_the_set() -> Result<()> {
    let all = rows(3000, 800, 2);
    let set = ShardedSet::builder(CuckooSet::canonical(4), 4).build(&cpus()[1], &all)?;
    for (shard, table) in set.table().shards().iter().enumerate() {
        let mine: Vec<u32> = all.iter().copied().filter(|&key| set.table().shard_of(key) == shard).collect();
        let one = HashSet::builder(CuckooSet::canonical(4)).build(&Cpu::new(), &mine)?;
        assert_eq!(table.digest()?, one.digest()?);
    }
    Ok(())
}

#[test]
fn files_of_other_structures_are_refused() -> Result<()> {
    let (folder, devices) = (tempfile::tempdir().expect("a folder"), [Cpu::new()]);
    let path = folder.path().join("file.koel");
    let is_refused = |result: Result<()>| assert!(matches!(result, Err(Error::BadFile { .. })), "{result:?}");
    let (keys, scheme) = (keys(500, 3), || Bucketized::canonical(8));
    ShardedSet::builder(scheme(), 3).build(&devices, &keys)?.save(&path)?;
    is_refused(Sharded::<Cpu, Bucketized>::open(&devices, &path).map(drop));
    is_refused(ShardedMulti::<Cpu, Bucketized>::open(&devices, &path).map(drop));
    ShardedMulti::builder(scheme(), 3).build(&devices, &keys, &keys)?.save(&path)?;
    is_refused(Sharded::<Cpu, Bucketized>::open(&devices, &path).map(drop));
    is_refused(ShardedSet::<Cpu, Bucketized>::open(&devices, &path).map(drop));
    is_refused(ShardedMulti::<Cpu, Bucketized, u64>::open(&devices, &path).map(drop));
    is_refused(ShardedMulti::<Cpu, Cuckoo>::open(&devices, &path).map(drop));
    is_refused(MultiTable::<Cpu, Bucketized>::open(&devices[0], &path).map(drop));
    let info = read_info(&path)?;
    assert_eq!((info.contents, info.shards, info.value_bits), (Contents::Multi, Some(3), 32));
    // A set whose keys have values is invalid.
    Sharded::builder(scheme(), 3).build(&devices, &keys, &keys)?.save(&path)?;
    is_refused(ShardedSet::<Cpu, Bucketized>::open(&devices, &path).map(drop));
    Ok(())
}

#[test]
fn multivalue_tables_in_shards_equal_one_table() -> Result<()> {
    let (all, folder) = (rows(30_000, 4000, 7), tempfile::tempdir().expect("a folder"));
    let path = folder.path().join("multi.koel");
    let values: Vec<u64> = (0..all.len() as u64).map(|row| row << 20 | 1).collect();
    let mut model: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    all.iter().zip(&values).for_each(|(&key, &value)| model.entry(key).or_default().push(value));
    let builder = ShardedMulti::builder(Cuckoo::canonical(4), 6).values::<u64>().seed(3);
    let one = MultiTable::builder(Cuckoo::canonical(4)).values::<u64>().build(&Cpu::new(), &all, &values)?;
    let queried: Vec<u32> = keys(3000, 8).into_iter().chain(rows(9000, 5000, 4)).collect();
    let mut digests = Vec::new();
    for devices in cpus() {
        let table = builder.build(&devices, &all, &values)?;
        assert_eq!((table.len(), table.keys_len(), table.shards().len()), (all.len(), model.len(), 6));
        assert_eq!(table.retrieve(&queried)?, one.retrieve(&queried)?);
        assert_eq!(table.count(&queried)?, one.count(&queried)?);
        assert_eq!(table.contains(&queried)?, queried.iter().map(|key| model.contains_key(key)).collect::<Vec<_>>());
        assert_eq!((table.retrieve(&[])?.offsets, table.count(&[])?), (vec![0], vec![]));
        let mut pairs = table.to_pairs()?;
        pairs.sort_by_key(|pair| pair.0);
        assert_eq!(pairs, one.to_pairs()?);
        table.audit()?;
        let mut grown = builder.build(&devices, &all[..10_000], &values[..10_000])?;
        grown.insert(&all[10_000..], &values[10_000..])?;
        assert_eq!(grown.digest()?, table.digest()?);
        assert!(matches!(grown.insert(&all[..2], &values[..1]), Err(Error::LengthMismatch { .. })));
        let gone: Vec<u32> = model.keys().copied().step_by(2).chain([1, 2]).collect();
        let there: usize = gone.iter().filter_map(|key| model.get(key)).map(Vec::len).sum();
        assert_eq!((grown.remove(&gone)?, grown.remove(&gone)?), (there, 0));
        let gone: BTreeSet<u32> = gone.into_iter().collect();
        let kept = |key: &u32| !gone.contains(key);
        let rest: (Vec<u32>, Vec<u64>) = all.iter().zip(&values).filter(|(key, _)| kept(key)).unzip();
        assert_eq!(grown.len() + there, all.len());
        assert_eq!(grown.digest()?, builder.build(&devices, &rest.0, &rest.1)?.digest()?);
        let digest = table.save(&path)?;
        let opened = ShardedMulti::<Cpu, Cuckoo, u64>::open(&[Cpu::new()], &path)?;
        assert_eq!((opened.digest()?, digest), (table.digest()?, table.digest()?));
        assert_eq!(opened.retrieve(&queried)?, table.retrieve(&queried)?);
        digests.push(digest);
    }
    assert!(digests.iter().all(|digest| *digest == digests[0]));
    let none = builder.build(&cpus()[2], &[], &[])?;
    assert!(none.is_empty() && none.to_pairs()?.is_empty() && none.count(&[3])? == [0]);
    Ok(())
}

#[test]
fn damaged_files_of_lists_are_refused() -> Result<()> {
    let (folder, devices) = (tempfile::tempdir().expect("a folder"), [Cpu::new()]);
    let path = folder.path().join("multi.koel");
    let (all, values) = (rows(300, 90, 7), (0..300).collect::<Vec<u32>>());
    ShardedMulti::builder(Bucketized::canonical(8), 2).build(&devices, &all, &values)?.save(&path)?;
    let bytes = std::fs::read(&path).expect("a file");
    let open = || ShardedMulti::<Cpu, Bucketized>::open(&devices, &path).map(drop);
    open()?;
    for at in (0..bytes.len()).step_by(7) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        std::fs::write(&path, &damaged).expect("a file");
        assert!(matches!(open(), Err(Error::BadFile { .. })), "byte {at}");
    }
    for len in (0..bytes.len()).step_by(61) {
        std::fs::write(&path, &bytes[..len]).expect("a file");
        assert!(matches!(open(), Err(Error::BadFile { .. })), "{len} bytes");
    }
    Ok(())
}
