//! Shards on the CPU and on devices of OpenCL, in one table.

use super::*;
use crate::scheme::{Bucketized, Signpost};
use crate::{Any, Cpu, Sharded};

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
