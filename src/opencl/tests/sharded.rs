//! Tables with shards on the CPU and on OpenCL devices.

use super::*;
use crate::backend::Piece;
use crate::scheme::{Bucketized, Signpost};
use crate::{Any, Cpu, Duplicates, Sharded, ShardedMulti, ShardedSet};

/// The CPU, the device, and the device again in a separate context.
fn devices() -> Result<Option<[Any; 3]>> {
    let Some(cl) = device() else { return Ok(None) };
    Ok(Some([Any::Cpu(Cpu::with_threads(2)?), Any::OpenCl(cl.clone()), Any::OpenCl(cl.apart()?)]))
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
        let queried: Vec<u32> = (0..len).map(|i| i * 5 + 1).collect();
        assert_eq!(table.get(&queried)?, whole.get(&queried)?);
        assert_eq!(table.contains(&queried)?, whole.contains(&queried)?);
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
fn sets_and_lists_over_cpu_and_devices_are_those_of_cpus() -> Result<()> {
    let Some([cpu, one, two]) = devices()? else { return Ok(()) };
    let len = if small() { 400 } else { 12_000 };
    let column = |seed: u64| noise(seed, len).into_iter().map(|word| u64::from(word % 3000) << 31).collect();
    let (keys, others): (Vec<u64>, Vec<u64>) = (column(1), column(2));
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
    }
    Ok(())
}

fn piece<'a, T: crate::backend::Word>(
    device: &'a OpenCl,
    buffer: &'a Buffer<T>,
    range: std::ops::Range<usize>,
) -> Piece<'a, OpenCl, T> {
    Piece { device, buffer, range }
}

/// The device twice, in separate contexts, as if a bus were between them: slots of 128 keys of 64 bits.
fn behind_buses() -> Result<Option<[OpenCl; 2]>> {
    let Some([_, Any::OpenCl(one), Any::OpenCl(two)]) = devices()? else { return Ok(None) };
    Ok(Some([one.with_slots(1 << 10), two.with_slots(1 << 10)]))
}

#[test]
fn parts_of_buffers_are_from_other_devices() -> Result<()> {
    let Some([one, two]) = behind_buses()? else { return Ok(()) };
    let (narrow, wide) = (noise(1, 1500), noise(2, 700).into_iter().map(|x| u64::from(x) << 9).collect::<Vec<_>>());
    let (here, there) = (two.upload(&narrow)?, one.upload(&narrow[..300])?);
    // More parts than slots, empty ones, and parts of several slots and of a few words.
    let mut pieces: Vec<_> = [0..1500, 7..7, 1..257, 1200..1500, 0..1].map(|range| piece(&two, &here, range)).into();
    pieces.push(piece(&one, &there, 10..290));
    pieces.extend((0..40).map(|i| piece(&two, &here, i..i + 3)));
    let expected: Vec<u32> = pieces.iter().flat_map(|piece| narrow[piece.range.clone()].to_vec()).collect();
    let mut to = one.filled(expected.len() + 5, 9)?;
    // The data of other devices must be complete.
    [&one, &two].into_iter().try_for_each(HashBackend::finish)?;
    one.fetch(&mut to, 3, &pieces)?;
    assert_eq!(one.download(&to)?, [&[9; 3][..], &expected, &[9; 2]].concat());
    let (plain, wide_there) = (one.with_group(64), two.upload(&wide)?);
    two.finish()?;
    for backend in [&one, &plain] {
        let mut to = backend.filled(wide.len(), 0)?;
        backend.fetch(&mut to, 0, &[piece(&two, &wide_there, 100..700)])?;
        assert_eq!(backend.download(&to)?[..600], wide[100..]);
    }
    let past = [piece(&two, &here, 1000..1501)];
    assert!(one.fetch(&mut to, 0, &past).is_err(), "past the end of the source");
    assert!(one.fetch(&mut to, expected.len(), &pieces[..1]).is_err(), "past the end");
    let of_another = [piece(&one, &here, 0..5)];
    assert!(matches!(one.fetch(&mut to, 0, &of_another), Err(Error::WrongDevice)));
    Ok(())
}

#[test]
fn columns_arrive_in_chunks_while_others_are_worked_on() -> Result<()> {
    let Some([one, _]) = behind_buses()? else { return Ok(()) };
    for len in [0, 1, 99, 100, 101, 1_000] {
        let (mut keys, mut values) = (one.pinned::<u32>(len)?, one.pinned::<u64>(len)?);
        keys.copy_from_slice(&noise(3, len));
        values.iter_mut().zip(&keys[..]).for_each(|(value, &key)| *value = u64::from(key) << 20);
        let (plain_keys, plain_values) = (keys.to_vec(), values.to_vec());
        for (keys, values) in [(&keys[..], &values[..]), (&plain_keys, &plain_values)] {
            let (mut first, mut second) = (Vec::new(), Vec::new());
            one.in_pairs(keys, values, 100, |keys, values| {
                first.extend(one.download(&keys)?);
                second.extend(one.download(&values)?);
                Ok(())
            })?;
            assert_eq!((&first[..], &second[..]), (keys, values), "{len}");
            let mut calls = 0;
            let failing = one.in_pairs(keys, values, 100, |_, _| {
                calls += 1;
                if calls == 3 { Err(Error::WrongDevice) } else { Ok(()) }
            });
            assert_eq!(failing.is_err(), len > 200);
        }
    }
    Ok(())
}

#[test]
fn devices_partition_columns_among_themselves() -> Result<()> {
    let Some([one, two]) = behind_buses()? else { return Ok(()) };
    let Some([cpu, ..]) = devices()? else { return Ok(()) };
    let len = if small() { 600 } else { 20_011 };
    let keys: Vec<u32> = noise(7, len).into_iter().map(|word| word % 9000).collect();
    let values: Vec<u32> = (0..len as u32).collect();
    let alone = std::slice::from_ref(&cpu);
    // Which pair of a key is kept depends on the order of the rows.
    for rule in [Duplicates::KeepFirst, Duplicates::KeepLast] {
        for shards in [1, 5, 16] {
            let builder = Sharded::builder(Bucketized::canonical(8), shards).duplicates(rule);
            let expected = builder.build(alone, &keys, &values)?;
            for devices in
                [vec![one.clone()], vec![one.clone(), two.clone()], vec![two.clone(), one.clone(), two.clone()]]
            {
                devices.iter().for_each(|device| drop(device.ledger().take()));
                let table = builder.build(&devices, &keys, &values)?;
                let partitioned = |device: &OpenCl| device.ledger().take().iter().any(|stage| stage.name == "shards");
                assert!(partitioned(&devices[0]), "the devices did not partition");
                assert_eq!(table.digest()?, expected.digest()?, "{shards} shards on {}", devices.len());
            }
        }
    }
    one.ledger().take();
    let many = Sharded::builder(Bucketized::canonical(8), 257).duplicates(Duplicates::KeepFirst);
    let table = many.build(&[one.clone(), two.clone()], &keys, &values)?;
    assert_eq!(table.digest()?, many.build(alone, &keys, &values)?.digest()?);
    assert!(one.ledger().take().iter().all(|stage| stage.name != "shards"), "more shards than devices partition");
    let builder = Sharded::builder(Bucketized::canonical(8).of::<u64, u32>(), 4);
    let wide: Vec<u64> = (0..len as u64).map(|i| i << 33 | 7).collect();
    let of_any = [Any::OpenCl(one.clone()), Any::OpenCl(two.clone())];
    let table = builder.build(&of_any, &wide, &values)?;
    assert_eq!(table.digest()?, builder.build(alone, &wide, &values)?.digest()?);
    let shard_of = builder.shard_of()?;
    let columns = |shard: usize| -> (Vec<u64>, Vec<u32>) {
        let rows = wide.iter().zip(&values).filter(|&(&key, _)| shard_of(key) == shard);
        rows.map(|(&key, &value)| (key, value)).unzip()
    };
    let partitioned = builder.build_partitioned(&of_any, |shard| Ok(columns(shard)))?;
    assert_eq!(partitioned.digest()?, table.digest()?);
    for other in [0, 3] {
        let strange = builder.build_partitioned(&of_any, |shard| {
            let (mut keys, values) = columns(shard);
            keys[7] = if shard == 2 { columns(other).0[7] } else { keys[7] };
            Ok((keys, values))
        });
        assert!(matches!(strange, Err(Error::InvalidParameter { what: "a key of another shard", .. })), "{strange:?}");
    }
    let twice = [&wide[..], &wide[5..6]].concat();
    let refused = builder.build(&[one, two], &twice, &[&values[..], &[1]].concat());
    assert!(matches!(refused, Err(Error::DuplicateKey { key }) if key == wide[5]));
    Ok(())
}

#[test]
fn devices_partition_queries_and_keys_among_themselves() -> Result<()> {
    let Some([one, two]) = behind_buses()? else { return Ok(()) };
    let len = if small() { 300 } else { 9_001 };
    let keys: Vec<u64> = (0..len as u64).map(|i| i << 33).collect();
    let values: Vec<u32> = noise(3, len);
    // Half of the queries are present, including key 0, which is also the padding after the queries of a shard. Several
    // rounds, the last one short.
    let queries: Vec<u64> = noise(4, 4 * len + 7).into_iter().map(|x| u64::from(x % (2 * len as u32)) << 33).collect();
    let map = Sharded::builder(Signpost::new().of::<u64, u32>(), 7);
    let set = ShardedSet::builder(Bucketized::canonical(8).of::<u64, ()>(), 7);
    let lists = ShardedMulti::builder(Bucketized::canonical(8).of::<u64, u32>(), 7).values::<u64>();
    let cpu = [Cpu::with_threads(2)?];
    let (of_map, of_set) = (map.build(&cpu, &keys, &values)?, set.build(&cpu, &queries)?);
    let of_lists = lists.build(&cpu, &queries, &queries)?;
    let did = |device: &OpenCl, stage: &str| device.ledger().take().iter().any(|done| done.name == stage);
    for devices in [vec![one.clone()], vec![one.clone(), two.clone()], vec![two.clone(), one.clone(), two.clone()]] {
        let table = map.build(&devices, &keys, &values)?;
        one.ledger().take();
        assert_eq!(table.get(&queries)?, of_map.get(&queries)?, "{} devices", devices.len());
        assert!(did(&one, "scatter"), "the devices did not partition");
        assert_eq!(table.contains(&queries)?, of_map.contains(&queries)?);
        assert!(did(&one, "shards"), "the devices did not partition");
        // All queries for one shard, none, parts for fewer than three devices, and a column of a wrong length.
        assert_eq!(table.get(&vec![keys[5]; 700])?, vec![Some(values[5]); 700]);
        assert_eq!((table.get(&[])?, table.get(&[keys[7], 1])?), (vec![], vec![Some(values[7]), None]));
        for some in [&queries[..21], &queries[..33]] {
            assert_eq!(table.get(some)?, of_map.get(some)?);
        }
        assert!(matches!(table.get_into(&queries, &mut [0; 3], &mut []), Err(Error::LengthMismatch { .. })));
        // Devices without shards.
        let narrow: Vec<u32> = (0..len as u32).collect();
        let builder = Sharded::builder(Bucketized::canonical(8).of::<u32, u64>(), 2);
        let table = builder.build(&devices, &narrow, &keys)?;
        let queried = noise(5, len).into_iter().map(|x| x % (2 * len as u32)).collect::<Vec<_>>();
        assert_eq!(table.get(&queried)?, builder.build(&cpu, &narrow, &keys)?.get(&queried)?);
        one.ledger().take();
        assert_eq!(set.build(&devices, &queries)?.digest()?, of_set.digest()?);
        assert!(did(&one, "shards"), "the devices did not partition");
        assert_eq!(lists.build(&devices, &queries, &queries)?.digest()?, of_lists.digest()?);
        assert!(did(&one, "shards"), "the devices did not partition");
    }
    Ok(())
}
