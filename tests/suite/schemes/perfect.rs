//! Tests of the perfect spatial hash: loads of pictures and voxels, two reads per lookup, coherence of neighbours, tiny
//! tables, keys that no offset can separate.

use std::collections::HashSet;

use crate::common::{on_one_thread, one_thread, opencl_devices, size, sizes, tiny_tables};
use koel::device::Any;
use koel::scheme::{Plan, Scheme};
use koel::workload::Workload;
use koel::{Cpu, Duplicates, Error, HashTable, Perfect};

fn devices() -> Vec<Any> {
    std::iter::once(Any::Cpu(Cpu::new())).chain(opencl_devices()).collect()
}

/// The keys of the set cells of a plane, row by row.
fn cells(width: u32, [columns, rows]: [u32; 2], is_set: impl Fn(u32, u32) -> bool) -> Vec<u32> {
    let all = (0..rows).flat_map(|y| (0..columns).map(move |x| (x, y)));
    all.filter(|&(x, y)| is_set(x, y)).map(|(x, y)| x + width * y).collect()
}

/// The cells of a disc in a picture.
fn disc(width: u32, radius: u32) -> Vec<u32> {
    let square = |a: u32| u64::from(a.abs_diff(width / 2)).pow(2);
    cells(width, [width, width], |x, y| square(x) + square(y) < u64::from(radius).pow(2))
}

/// The voxels of a sphere's surface in a cube.
fn sphere(side: u32) -> Vec<u32> {
    let square = |a: u32| u64::from(a.abs_diff(side / 2)).pow(2);
    let from_centre = |key: u32| square(key % side) + square(key / side % side) + square(key / side / side);
    let (outer, inner) = (u64::from(side / 2 - 4), u64::from(side / 2 - 5));
    (0..side.pow(3)).filter(|&key| (inner * inner..outer * outer).contains(&from_centre(key))).collect()
}

/// Builds on every device, queries each key and each neighbour of one, and compares the devices' digests.
fn holds(scheme: Perfect, load: f64, keys: &[u32]) -> HashTable<Any, Perfect> {
    let values: Vec<u32> = keys.iter().map(|key| key.rotate_left(7)).collect();
    let set: HashSet<u32> = keys.iter().copied().collect();
    let queries: Vec<u32> = keys.iter().flat_map(|&key| [key, key.wrapping_add(1)]).collect();
    let expected: Vec<_> = queries.iter().map(|query| set.contains(query).then(|| query.rotate_left(7))).collect();
    let mut tables: Vec<HashTable<Any, Perfect>> = Vec::new();
    for device in devices() {
        let table = HashTable::builder(scheme).load_factor(load).build(&device, keys, &values).unwrap();
        assert!(table.get(&queries).unwrap() == expected, "{scheme:?} at {load}");
        table.audit().unwrap();
        tables.push(table);
    }
    let digests: HashSet<String> = tables.iter().map(|table| table.digest().unwrap().to_string()).collect();
    assert_eq!(digests.len(), 1);
    tables.swap_remove(0)
}

#[test]
fn pictures_and_voxels_build_up_to_full_tables() {
    let width = sizes(2048, 512, 64);
    let side = sizes(256, 64, 24);
    for load in [0.8, 0.9, 0.99] {
        holds(Perfect::plane(width), load, &disc(width, width / 3));
        holds(Perfect::volume(side, side), load, &sphere(side));
    }
    let random = Workload::new(size(200_000, 300), 1).keys();
    let full = holds(Perfect::default(), 1.0, &random);
    assert!(full.load_factor() > 0.94, "{}", full.load_factor());
}

/// Hits and misses both read an offset and a slot, and the statistics count both reads.
#[test]
fn a_lookup_is_two_reads() {
    let table = holds(Perfect::default(), 0.9, &Workload::new(size(50_000, 300), 2).keys());
    let stats = table.stats().unwrap();
    assert_eq!((stats.reads_per_hit, stats.reads_per_miss), (2.0, 2.0));
    assert_eq!(stats.keys_by_reads, [0, 0, stats.pairs]);
    assert_eq!(stats.ages, [0, stats.pairs]);
    assert_eq!((stats.buckets.len(), stats.buckets[0].count(), stats.bucket_bytes), (1, stats.slots, 8));
    assert_eq!(stats.bytes, 8 * (stats.slots + table.plan().offset_count().div_ceil(2)));
}

/// A build tries the offsets of neighbours first, because neighbouring cells with equal offsets are stored in
/// neighbouring slots. With random offsets there are no such cells (0.000 for this disc).
#[test]
fn neighbouring_pixels_are_in_neighbouring_slots() {
    let width = size(1024, 128);
    let keys = disc(width, width / 3);
    let table = holds(Perfect::plane(width), 0.9, &keys);
    let image = crate::common::image(&table);
    let functions = table.plan().functions();
    let set: HashSet<u32> = keys.iter().copied().collect();
    let pairs: Vec<_> = keys.iter().filter(|&key| set.contains(&(key + 1))).collect();
    let slot = |key: u32| functions.location(&image, key);
    let near = pairs.iter().filter(|&&&key| slot(key).abs_diff(slot(key + 1)) == 1).count();
    assert!(near * 10 > pairs.len() * size(9, 5) as usize, "{near} of {}", pairs.len());
}

/// Sets that use few offsets, because they are long and thin, or regular.
#[test]
fn strips_lines_and_boards_build_at_the_default_load() {
    let n = size(8192, 256);
    let (plane, square) = (Perfect::default(), size(64, 4));
    let sets = [
        (plane, cells(65_536, [8, n], |_, _| true)),
        (plane, cells(65_536, [n, 8], |_, _| true)),
        (plane, cells(65_536, [1, n], |_, _| true)),
        (plane, (0..8 * n).collect()),
        (plane, (0..37).collect()),
        (Perfect::plane(1 << 20), (0..12 * n).collect()),
        (Perfect::plane(n), cells(n, [n / 8, n / 8], |x, y| (x + y) % 2 == 0)),
        (Perfect::plane(n), cells(n, [n / 8, n / 8], |x, y| (x / square + y / square) % 2 == 0)),
        (Perfect::volume(8, 8), (0..8 * n).collect()),
        (Perfect::volume(64, 64), (0..8 * n).collect()),
    ];
    for (scheme, keys) in sets {
        holds(scheme, Perfect::default().default_load().get(), &keys);
    }
}

#[test]
#[ignore = "slow: parameters of the scheme, on every device; CI runs it"]
fn tiny_tables_always_build() {
    for scheme in [Perfect::default(), Perfect::plane(1000), Perfect::volume(2048, 1024)] {
        on_one_thread(|cpu| tiny_tables(cpu, &scheme, u64::from(sizes(300, 60, 2))));
        opencl_devices().iter().for_each(|gpu| tiny_tables(gpu, &scheme, 1));
    }
}

/// At every attempt the keys are congruent modulo both sides. A typed error names them, and the table is unchanged.
#[test]
#[ignore = "slow: parameters of the scheme, on every device; CI runs it"]
fn keys_that_no_offset_distinguishes_are_named() {
    // In a volume all keys are in one row, far more than M R cells long.
    let line: Vec<u32> = (0..5000).map(|i| 800 * i).collect();
    let scheme = Perfect::volume(1 << 31, 1);
    for device in devices() {
        let refused = HashTable::builder(scheme).build(&device, &line, &line);
        let Err(Error::Crowded { attempts: 32, crowd }) = refused else { panic!("{refused:?}") };
        assert!(crowd.keys > 1 && crowd.most == 1, "{crowd:?}");
        assert!(crowd.which.contains("modulo") && crowd.which.contains("every axis"), "{crowd:?}");
        let builder = HashTable::builder(scheme).slots(6000);
        let mut table = builder.build(&device, &[1, 2], &[3, 4]).unwrap();
        let before = table.digest().unwrap();
        assert!(matches!(table.insert(&line, &line), Err(Error::Crowded { .. })));
        assert_eq!(table.digest().unwrap(), before, "a refused batch changes nothing");
        // Duplicates are reported even then.
        let copied = [&line[..], &[1600]].concat();
        let refused = HashTable::builder(scheme).build(&device, &copied, &copied);
        assert!(matches!(refused, Err(Error::DuplicateKey { key: 1600 })), "{refused:?}");
        // The same keys in a plane of another width.
        let plane = HashTable::builder(Perfect::plane(1600)).build(&device, &line, &line).unwrap();
        assert_eq!(plane.get(&[800, 801]).unwrap(), [Some(800), None]);
    }
}

/// If 100 and 101 slots result in one size, the digest is the same.
#[test]
fn bytes_depend_on_the_rounded_number_of_slots() {
    let load = Workload::new(60, 3);
    let build = |slots| {
        let builder = HashTable::builder(Perfect::default()).slots(slots).duplicates(Duplicates::KeepLast);
        builder.build(&one_thread(), &load.keys(), &load.values()).unwrap()
    };
    assert_eq!((build(101).slots(), build(121).slots()), (121, 121));
    assert_eq!(build(101).digest().unwrap(), build(121).digest().unwrap());
    assert_ne!(build(100).digest().unwrap(), build(121).digest().unwrap());
    assert_eq!(build(110).plan().requested_slots(), 121);
}

#[test]
fn extents_and_sizes_out_of_range_are_refused() {
    let build = |scheme: Perfect| HashTable::builder(scheme).build(&one_thread(), &[1], &[2]);
    for scheme in [Perfect::plane(0), Perfect::plane(u32::MAX), Perfect::volume(1, 0), Perfect::volume(0, 1)] {
        assert!(matches!(build(scheme), Err(Error::InvalidParameter { .. })), "{scheme:?}");
    }
    for slots in [(1 << 30) + 1, u64::MAX] {
        let refused = HashTable::builder(Perfect::default()).slots(slots as usize).build(&one_thread(), &[1], &[2]);
        assert!(matches!(refused, Err(Error::TooLarge { .. })), "{refused:?}");
    }
}
