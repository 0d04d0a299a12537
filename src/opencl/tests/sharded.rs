//! Shards on the CPU and on devices of OpenCL, in one table.

use super::*;
use crate::scheme::{Bucketized, Signpost};
use crate::{Any, Cpu, Sharded, ShardedMulti, ShardedSet, sharded};

/// The CPU, the device, and the device once more in a context of its own.
fn devices() -> Result<Option<[Any; 3]>> {
    let Some(cl) = device() else { return Ok(None) };
    let number = cl.info().id.split(':').nth(1).and_then(|number| number.parse().ok()).expect("opencl:N");
    Ok(Some([Any::Cpu(Cpu::with_threads(2)?), Any::OpenCl(cl.clone()), Any::OpenCl(OpenCl::nth(number)?)]))
}

#[test]
fn a_table_over_cpu_and_devices_is_that_of_cpus() -> Result<()> {
    let Some([cpu, one, two]) = devices()? else { return Ok(()) };
    let len = if small() { 600 } else { 30_000 };
    let keys: Vec<u32> = (0..len).map(|i| i * 7 + 1).collect();
    let values = noise(5, keys.len());
    let builder = Sharded::builder(Bucketized::canonical(8), 6).capacity(2 * keys.len());
    let whole = builder.build(std::slice::from_ref(&cpu), &keys, &values)?;
    for devices in
        [vec![one.clone()], vec![cpu.clone(), one.clone()], vec![one.clone(), two.clone()], vec![cpu, one, two]]
    {
        let mut table = builder.build(&devices, &keys[..keys.len() / 2], &values[..keys.len() / 2])?;
        assert!(
            table
                .shards()
                .iter()
                .zip((0..devices.len()).cycle())
                .all(|(shard, device)| { shard.backend().info().id == devices[device].info().id })
        );
        table.insert(&keys[keys.len() / 2..], &values[keys.len() / 2..])?;
        assert_eq!(table.digest()?, whole.digest()?);
        let asked: Vec<u32> = (0..len).map(|i| i * 5 + 1).collect();
        assert_eq!(table.get(&asked)?, whole.get(&asked)?);
        assert_eq!(table.contains(&asked)?, whole.contains(&asked)?);
        assert_eq!(table.remove(&keys[..100])?, 100);
        table.audit()?;
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("table.koel");
        table.save(&path)?;
        let opened = Sharded::<Any, Bucketized>::open(&devices[..1], &path)?;
        assert_eq!((opened.digest()?, opened.len()), (table.digest()?, keys.len() - 100));
    }
    Ok(())
}

#[test]
fn wide_signposts_in_shards_are_alike_on_every_device() -> Result<()> {
    let Some([cpu, one, two]) = devices()? else { return Ok(()) };
    let keys: Vec<u64> = (0..if small() { 300 } else { 9000 }).map(|i| i << 33 | i).collect();
    let builder = Sharded::builder(Signpost::new().of::<u64, u64>(), 3);
    let whole = builder.build(std::slice::from_ref(&cpu), &keys, &keys)?;
    let mixed = builder.build(&[one, cpu, two], &keys, &keys)?;
    assert_eq!(mixed.digest()?, whole.digest()?);
    assert_eq!(mixed.to_pairs()?, whole.to_pairs()?);
    assert_eq!(mixed.get(&[keys[7], 1])?, [Some(keys[7]), None]);
    Ok(())
}

#[test]
fn sets_lists_joins_and_groups_over_cpu_and_devices_are_those_of_cpus() -> Result<()> {
    let Some([cpu, one, two]) = devices()? else { return Ok(()) };
    let len = if small() { 400 } else { 12_000 };
    let column = |seed: u64| noise(seed, len).into_iter().map(|word| u64::from(word % 3000) << 31).collect();
    let (keys, others): (Vec<u64>, Vec<u64>) = (column(1), column(2));
    let values: Vec<f64> = noise(3, len).into_iter().map(|word| f64::from(word) * 1e-3).collect();
    let alone = std::slice::from_ref(&cpu);
    let (of_set, of_lists) = (
        ShardedSet::builder(Bucketized::canonical(8).of::<u64, ()>(), 3),
        ShardedMulti::builder(Bucketized::canonical(8).of::<u64, u32>(), 3).values::<u64>(),
    );
    let (set, lists) = (of_set.build(alone, &keys)?, of_lists.build(alone, &keys, &others)?);
    for devices in [vec![one.clone(), cpu.clone()], vec![cpu.clone(), one, two]] {
        let mut mixed = of_set.build(&devices, &keys[..len / 2])?;
        mixed.insert(&keys[len / 2..])?;
        assert_eq!((mixed.digest()?, mixed.to_keys()?), (set.digest()?, set.to_keys()?));
        assert_eq!(mixed.contains(&others)?, set.contains(&others)?);
        let mut mixed = of_lists.build(&devices, &keys[..len / 2], &others[..len / 2])?;
        mixed.insert(&keys[len / 2..], &others[len / 2..])?;
        assert_eq!((mixed.digest()?, mixed.retrieve(&others)?), (lists.digest()?, lists.retrieve(&others)?));
        for kind in crate::JoinKind::ALL {
            assert_eq!(sharded::join(&devices, &others, &keys, kind)?, sharded::join(alone, &others, &keys, kind)?);
        }
        for order in crate::IdOrder::ALL {
            assert_eq!(
                sharded::group::factorize(&devices, &keys, order)?,
                sharded::group::factorize(alone, &keys, order)?
            );
            let wanted = &crate::Aggregate::ALL;
            assert_eq!(
                sharded::group::group_by(&devices, &keys, &values, wanted, order)?,
                crate::group::wide::group_by(&cpu, &keys, &values, wanted, order)?
            );
        }
    }
    Ok(())
}
