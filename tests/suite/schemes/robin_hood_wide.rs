//! Tests of Robin Hood tables of 64-bit keys or values with typical keys: cells of large boxes, crowds, files, changes
//! compared with a map.

use std::collections::BTreeMap;

use koel::backend::HashBackend as _;
use koel::layout::wide::{MORTON3_BITS, morton3, morton3_cell};
use koel::scheme::RobinHoodOf;
use koel::table::read_info;
use koel::{AnyScheme, CompactingTable, Cpu, Error, HashTable, JoinIndex, JoinKind, MultiTable, RobinHood, Sequence};

use crate::common::{devices, open_mapped, size};

type Wide = RobinHoodOf<u64, u64>;

/// The cells of a ball at a corner of a box of 2^21 cells per axis, and the eight corners.
fn ball(radius: u32) -> Vec<u64> {
    let last = (1 << MORTON3_BITS) - 1;
    let cell = |x, y, z| morton3(x, y, z).expect("inside");
    let inside = |&(x, y, z): &(u32, u32, u32)| x * x + y * y + z * z < radius * radius;
    let all = (0..radius).flat_map(|x| (0..radius).flat_map(move |y| (0..radius).map(move |z| (x, y, z))));
    let mut keys: Vec<u64> = all.filter(inside).map(|(x, y, z)| cell(last - x, y, last - z)).collect();
    keys.extend((0..8).map(|corner| cell((corner & 1) * last, (corner >> 1 & 1) * last, (corner >> 2) * last)));
    keys.sort_unstable();
    keys.dedup();
    keys
}

#[test]
#[ignore = "slow: parameters of the scheme, on every device; CI runs it"]
fn cells_of_a_large_box_build_nearly_full_tables_with_equal_bytes() {
    let keys = ball(size(24, 6));
    let values: Vec<u64> = keys.iter().map(|key| u64::MAX - key).collect();
    for sequence in [Sequence::Coherent, Sequence::Random] {
        let builder = HashTable::builder(RobinHood::canonical().sequence(sequence).of::<u64, u64>()).load_factor(0.99);
        let mut digests = Vec::new();
        for device in devices() {
            let table = builder.build(&device, &keys, &values).unwrap();
            table.audit().unwrap();
            assert!(table.load_factor() > 0.9, "{}", table.load_factor());
            assert!(table.get(&keys).unwrap().into_iter().eq(values.iter().copied().map(Some)));
            assert!(table.iter().unwrap().all(|(key, value)| morton3_cell(key).is_some() && value == u64::MAX - key));
            digests.push((table.digest().unwrap(), table.restarts()));
        }
        assert!(digests.windows(2).all(|two| two[0] == two[1]), "{sequence:?}: {digests:?}");
    }
}

/// Keys that are congruent modulo the primes of all attempts cannot be built, and the error names them. Those that are
/// congruent modulo the first prime only are built at the second attempt, on every device.
#[test]
#[ignore = "slow: parameters of the scheme, on every device; CI runs it"]
fn crowds_fail_with_the_same_error_on_every_device() {
    let scheme = RobinHood::canonical().of::<u64, u64>();
    let [first, second] = [1009u64, 1013];
    let class: Vec<u64> = (0..63).map(|i| (i + 1) * first + 7).collect();
    let values = vec![1; class.len()];
    for device in devices() {
        let builder = HashTable::builder(scheme.clone()).slots(1000);
        let table = builder.build(&device, &class, &values).unwrap();
        assert_eq!((table.restarts(), table.slots()), (1, second as usize));
        assert_eq!(table.get(&class).unwrap(), vec![Some(1); 63]);
        match builder.attempts(1).build(&device, &class, &values) {
            Err(error) => {
                let said = error.to_string();
                assert!(said.contains("63") && said.contains("congruent to 7 modulo 1009"), "{said}");
            }
            Ok(_) => panic!("63 congruent keys were placed"),
        }
    }
}

#[test]
fn files_are_opened_mapped_and_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.koel");
    let (keys, values) = ([0, 1 << 32, i64::MIN as u64, u64::MAX], [u64::MAX, 0, u64::MAX, 5]);
    let builder = HashTable::builder(RobinHood::canonical().of::<u64, u64>());
    let digest = builder.build(&Cpu::new(), &keys, &values).unwrap().save(&path).unwrap();
    let info = read_info(&path).unwrap();
    assert_eq!((info.key_bits, info.value_bits, info.scheme & 0xffff), (64, 64, 4));
    let mut tables = vec![open_mapped::<Wide>(&path).unwrap()];
    tables.push(HashTable::<Cpu, Wide>::open(&Cpu::new(), &path).unwrap());
    for table in &tables {
        assert_eq!(table.digest().unwrap(), digest);
        assert_eq!(table.get(&keys).unwrap(), values.map(Some));
        assert_eq!((table.slots(), 8 * table.backend().download(table.image()).unwrap().len()), (67, 64 * 17));
    }
    let mut grown = tables.remove(0);
    grown.insert(&[5, 6], &[7, 8]).unwrap();
    assert_eq!(grown.get(&[6, 7]).unwrap(), [Some(8), None]);
    let refused = |error: Error| error.to_string();
    let held = "it contains a robin_hood table of u64 keys and u64 values";
    for error in [
        HashTable::<Cpu, AnyScheme>::open(&Cpu::new(), &path).map(drop).map_err(refused),
        HashTable::<Cpu, RobinHood>::open(&Cpu::new(), &path).map(drop).map_err(refused),
        HashTable::<Cpu, RobinHoodOf<u64, u32>>::open(&Cpu::new(), &path).map(drop).map_err(refused),
    ] {
        let error = error.unwrap_err();
        assert!(error.contains(held), "{error}");
    }
}

/// Batches from a small universe whose keys agree in halves and in their upper 60 bits, compared with a map. In the end
/// the table equals that of one build of the remaining pairs.
#[test]
#[ignore = "slow: parameters of the scheme, on every device; CI runs it"]
fn changes_match_a_map_and_give_the_table_of_one_build() {
    let key = |draw: u64| match draw % 4 {
        0 => (draw / 4 % 40) << 32 | 7,
        1 => (7 << 32) | (draw / 4 % 40),
        2 => u64::MAX - draw / 4 % 40,
        _ => 0x0fed_cba9_8765_4320 | (draw / 4 % 16),
    };
    for device in devices() {
        for seed in 0..u64::from(size(6, 1)) {
            let mut state = seed;
            let mut next = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                state >> 33
            };
            let builder = HashTable::builder(RobinHood::canonical().of::<u64, u64>()).capacity(150);
            let mut table = builder.build(&device, &[], &[]).unwrap();
            let mut model = BTreeMap::new();
            for round in 0..size(30, 4) {
                let batch: BTreeMap<u64, u64> = (0..next() % 12).map(|_| (key(next()), next() << 31)).collect();
                let (keys, values): (Vec<u64>, Vec<u64>) = batch.iter().unzip();
                match round % 4 {
                    0 => {
                        let fresh = |(key, _): &(&u64, &u64)| !model.contains_key(*key);
                        let (keys, values): (Vec<u64>, Vec<u64>) = batch.iter().filter(fresh).unzip();
                        table.insert(&keys, &values).unwrap();
                        model.extend(keys.into_iter().zip(values));
                    }
                    1 => {
                        table.upsert(&keys, &values).unwrap();
                        model.extend(batch);
                    }
                    2 => {
                        let gone = keys.iter().filter(|key| model.remove(key).is_some()).count();
                        assert_eq!(table.remove(&keys).unwrap(), gone);
                    }
                    _ => table.compact().unwrap(),
                }
                table.audit().unwrap();
                assert_eq!(table.iter().unwrap().collect::<BTreeMap<_, _>>(), model, "round {round}");
                let queried: Vec<u64> = (0..160).map(key).collect();
                let expected: Vec<_> = queried.iter().map(|key| model.get(key).copied()).collect();
                assert_eq!(table.get(&queried).unwrap(), expected, "round {round}");
            }
            table.compact().unwrap();
            let (keys, values): (Vec<u64>, Vec<u64>) = model.into_iter().unzip();
            let again = builder.build(&Cpu::new(), &keys, &values).unwrap();
            assert_eq!(table.digest().unwrap(), again.digest().unwrap(), "seed {seed}");
        }
    }
}

#[test]
#[ignore = "slow: parameters of the scheme, on every device; CI runs it"]
fn structures_are_built_on_every_device() {
    let keys: Vec<u64> = (0..400u64).map(|i| (i % 130) << 40 | 3).collect();
    let rows: Vec<u32> = (0..400).collect();
    for device in devices() {
        let scheme = RobinHood::canonical().of::<u64, u32>();
        let compact = CompactingTable::builder(scheme.clone()).build(&device, &keys).unwrap();
        assert_eq!(compact.unique().unwrap(), keys[..130]);
        let multi = MultiTable::builder(scheme.clone()).build(&device, &keys, &rows).unwrap();
        assert_eq!(multi.retrieve(&keys[7..8]).unwrap().of(0), [7, 137, 267, 397]);
        let index = JoinIndex::builder(scheme).build(&device, &keys).unwrap();
        assert_eq!(index.join(&keys[9..10], JoinKind::Inner).unwrap().collect().unwrap().left.len(), 4);
    }
}

/// Builders report memory and reject parameters before a build.
#[test]
#[ignore = "slow: parameters of the scheme, on every device; CI runs it"]
fn memory_is_reported_and_parameters_are_refused() {
    let builder = |scheme: RobinHood| HashTable::builder(scheme.of::<u64, u64>());
    for refused in [RobinHood::classic(), RobinHood::canonical().max_ages(3)] {
        let built = builder(refused).build(&Cpu::new(), &[1], &[1]);
        assert!(matches!(built, Err(Error::InvalidParameter { .. })));
    }
    // Lines of four slots, and as much for the image from which a batch copies values.
    let estimate = builder(RobinHood::canonical()).memory_estimate(1_000_000).unwrap();
    let image = 16 * 1_111_112 / 64 * 64;
    assert!(estimate.image >= image && estimate.image < image + image / 1000, "{estimate:?}");
    for device in devices() {
        let table = builder(RobinHood::canonical()).build(&device, &[1, 2], &[3, 4]).unwrap();
        let stats = table.stats().unwrap();
        assert_eq!((stats.reads_per_hit, stats.bucket_bytes), (1.0, 16));
    }
}
