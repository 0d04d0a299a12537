//! Compares the columns that devices exchange with those that the host partitions.

use crate::backend::{DeviceBuffer, HashBackend};
use crate::cpu::Cpu;
use crate::device::Any;
use crate::error::{Error, Result};
use crate::scheme::Key;
use crate::scheme::hash::SplitMix64;
use crate::scheme::shard::ShardOf;
use crate::sharded::builder::{Columns, columns_of};
use crate::sharded::exchange::{Exchange, uses_device_exchange};

fn columns_are_those_of_the_host<K: Key, V: Key>(keys: &[K], shards: usize, devices: usize) -> Result<()> {
    let which = ShardOf::new(shards, 7)?;
    let values: Vec<V> = (0..keys.len() as u64).map(V::low).collect();
    let devices = (0..devices).map(|_| Cpu::with_threads(1)).collect::<Result<Vec<_>>>()?;
    let partitioned = Exchange::of(&which, &devices, keys, &values)?;
    for (shard, Columns { keys, values }) in columns_of(&which, keys, &values)?.into_iter().enumerate() {
        for (number, device) in devices.iter().enumerate() {
            let (of_keys, of_values) = partitioned.columns(shard, number)?;
            assert_eq!(device.download(&of_keys)?, keys, "shard {shard} of {shards} on {number}");
            assert_eq!(device.download(&of_values)?, values, "shard {shard} of {shards} on {number}");
        }
    }
    Ok(())
}

#[test]
fn devices_partition_columns_as_the_host_does() -> Result<()> {
    for (rows, shards, devices) in [(0, 3, 2), (1, 1, 3), (2, 5, 3), (700, 256, 2), (3_001, 7, 1), (3_001, 7, 4)] {
        let mut stream = SplitMix64::new(rows as u64);
        let wide: Vec<u64> = (0..rows).map(|_| (stream.next_u64() % 500) << 40).collect();
        let narrow: Vec<u32> = wide.iter().map(|&key| (key >> 40) as u32).collect();
        columns_are_those_of_the_host::<u32, u32>(&narrow, shards, devices)?;
        columns_are_those_of_the_host::<u32, u64>(&narrow, shards, devices)?;
        columns_are_those_of_the_host::<u64, u32>(&wide, shards, devices)?;
        // All rows of one shard.
        columns_are_those_of_the_host::<u64, u64>(&vec![5; rows], shards, devices)?;
    }
    let devices = [Cpu::new()];
    let short = Exchange::of(&ShardOf::new(2, 0)?, &devices, &[1_u32, 2], &[3_u32]);
    assert!(matches!(short.map(drop), Err(Error::LengthMismatch { .. })));
    Ok(())
}

#[test]
fn devices_in_host_memory_do_not_partition() -> Result<()> {
    let which = ShardOf::new(4, 0)?;
    assert!(!uses_device_exchange(&which, &[Cpu::new()], 1 << 20, 8));
    assert!(!uses_device_exchange(&which, &[Any::Cpu(Cpu::new()), Any::Cpu(Cpu::new())], 1 << 20, 8));
    Ok(())
}

#[test]
fn threads_of_a_pool_can_build_partitioned_columns() -> Result<()> {
    let which = ShardOf::new(6, 7)?;
    let keys: Vec<u64> = (0..3_000).collect();
    let devices = [Cpu::with_threads(1)?, Cpu::with_threads(2)?];
    let partitioned = || Exchange::of(&which, &devices, &keys, &keys);
    // In a pool of one thread, that thread waits and must also work.
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("threads");
    let columns = pool.install(|| partitioned()?.built(&which, &|device, keys, _| device.download(&keys)))?;
    assert!(columns.into_iter().eq(columns_of(&which, &keys, &keys)?.into_iter().map(|of| of.keys)));
    let panics = || {
        pool.install(|| {
            partitioned()?.built(&which, &|_, keys, _| if keys.len() > 5 { panic!("planted") } else { Ok(()) })
        })
    };
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err());
    let failed = partitioned()?.built::<()>(&which, &|_, _, _| Err(Error::WrongDevice));
    assert!(matches!(failed, Err(Error::WrongDevice)));
    Ok(())
}
