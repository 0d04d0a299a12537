//! Distinct keys, factorize and group-by, on every device, compared with ordered maps and plain loops.

use std::collections::{BTreeMap, HashMap};

use crate::common::{devices, size};
use koel::backend::HashBackend;
use koel::device::Any;
use koel::{Aggregate, Error, Groups, IdOrder, group};
use quickcheck::{Arbitrary, Gen, QuickCheck};

/// The distinct keys in order, and each row's number, by plain loops.
fn factorized(keys: &[u32], order: IdOrder) -> (Vec<u32>, Vec<u32>) {
    let mut unique = Vec::new();
    let mut ids = HashMap::new();
    for &key in keys {
        ids.entry(key).or_insert_with(|| unique.push(key));
    }
    if order == IdOrder::Ascending {
        unique.sort_unstable();
    }
    let ids: HashMap<u32, u32> = unique.iter().copied().zip(0..).collect();
    let inverse = keys.iter().map(|key| ids[key]).collect();
    (unique, inverse)
}

/// The groups with all aggregates, computed with a map.
fn grouped(keys: &[u32], values: &[u32], order: IdOrder) -> Groups {
    let mut groups: BTreeMap<u32, (u32, u64, u32, u32)> = BTreeMap::new();
    for (&key, &value) in keys.iter().zip(values) {
        let (count, sum, min, max) = groups.entry(key).or_insert((0, 0, u32::MAX, 0));
        (*count, *sum, *min, *max) = (*count + 1, *sum + u64::from(value), value.min(*min), value.max(*max));
    }
    let mut of = Groups::default();
    for key in factorized(keys, order).0 {
        let (count, sum, min, max) = groups[&key];
        of.keys.push(key);
        of.counts.push(count);
        of.sums.push(sum);
        // Sums of these tests are below 2^53.
        of.means.push(sum as f64 / f64::from(count));
        of.mins.push(min);
        of.maxs.push(max);
    }
    of
}

/// Distinct pseudo-random keys; a different `salt` gives different keys.
fn scattered(n: u32, salt: u32) -> impl Iterator<Item = u32> {
    (0..n).map(move |i| i.wrapping_mul(0x9e37_79b1) ^ salt.wrapping_mul(0x85eb_ca6b))
}

/// Shuffles rows, in the same way each time.
fn shuffled(mut keys: Vec<u32>) -> Vec<u32> {
    for i in (1..keys.len()).rev() {
        let other = (i as u64).wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        keys.swap(i, other as usize % (i + 1));
    }
    keys
}

/// Every key of a list this many times, shuffled.
fn groups_of(keys: u32, duplicates: u32) -> Vec<u32> {
    shuffled(scattered(keys, duplicates).flat_map(|key| (0..duplicates).map(move |_| key)).collect())
}

/// Columns that test the edge cases of grouping.
fn columns() -> Vec<(String, Vec<u32>)> {
    let n = size(100_000, 300);
    let mut columns = vec![
        ("none".into(), vec![]),
        ("one row".into(), vec![u32::MAX]),
        ("the extremes".into(), vec![u32::MAX, 0, u32::MAX, 0, 0, 1]),
        ("one key".into(), vec![7; n as usize]),
        ("the greatest key alone".into(), vec![u32::MAX; size(1000, 100) as usize]),
        ("half one key".into(), shuffled(scattered(n / 2, 1).chain((0..n / 2).map(|_| 0)).collect())),
        ("all distinct".into(), scattered(n, 2).collect()),
        ("one copy".into(), scattered(n / 10, 3).chain(scattered(1, 3)).collect()),
        ("a quarter distinct".into(), groups_of(n / 40, 4)),
        ("less than a quarter".into(), groups_of(n / 50, 5)),
        ("ascending runs".into(), (0..n).map(|i| i / 37).collect()),
        ("descending".into(), (0..n / 10).rev().collect()),
    ];
    let every = [2, 31, 32, 33, 127, 128, 129, 255, 256, 257, 511, 1023, 1024, 1025];
    for &duplicates in &every[..size(14, 4) as usize] {
        columns.push((format!("groups of {duplicates}"), groups_of((size(6000, 100) / duplicates).max(2), duplicates)));
    }
    columns
}

/// Values for rows: all ones in a third of them, so that sums exceed 2^32, and all zeros in another.
fn values_of(keys: &[u32]) -> Vec<u32> {
    (0u32..).zip(keys).map(|(i, key)| [u32::MAX, 0, i ^ key][(i % 3) as usize]).collect()
}

fn agrees(device: &Any, what: &str, keys: &[u32], values: &[u32]) {
    for order in IdOrder::ALL {
        let at = format!("{what}, {order:?}, on {}", device.info());
        let (unique, inverse) = factorized(keys, order);
        assert!(group::unique(device, keys, order).unwrap() == unique, "unique: {at}");
        assert!(group::factorize(device, keys, order).unwrap() == (unique, inverse), "factorize: {at}");
        let groups = group::group_by(device, keys, values, &Aggregate::ALL, order).unwrap();
        assert!(groups == grouped(keys, values, order), "group_by: {at}");
    }
}

#[test]
fn groups_of_every_column_match_a_map() {
    let columns = columns();
    for device in devices() {
        for (what, keys) in &columns {
            agrees(&device, what, keys, &values_of(keys));
        }
    }
}

#[test]
fn sums_beyond_32_bits_are_exact() {
    let n = size(100_000, 500) as usize;
    for device in devices() {
        for order in IdOrder::ALL {
            let groups = group::group_by(&device, &vec![9; n], &vec![u32::MAX; n], &Aggregate::ALL, order).unwrap();
            assert_eq!(groups.sums, [n as u64 * u64::from(u32::MAX)]);
            assert_eq!((groups.counts, groups.mins), (vec![n as u32], vec![u32::MAX]));
        }
    }
}

/// Each set of aggregates fills its columns, and no others.
#[test]
fn only_requested_aggregates_are_computed() {
    let keys = groups_of(20, 5);
    let values = values_of(&keys);
    for device in devices() {
        for order in IdOrder::ALL {
            let all = grouped(&keys, &values, order);
            for bits in 0..1 << Aggregate::ALL.len() {
                let wanted: Vec<_> =
                    (0..Aggregate::ALL.len()).filter(|i| bits >> i & 1 == 1).map(|i| Aggregate::ALL[i]).collect();
                let has = |aggregate| wanted.contains(&aggregate);
                let mut expected = all.clone();
                expected.counts.truncate(if has(Aggregate::Count) { usize::MAX } else { 0 });
                expected.sums.truncate(if has(Aggregate::Sum) { usize::MAX } else { 0 });
                expected.means.truncate(if has(Aggregate::Mean) { usize::MAX } else { 0 });
                expected.mins.truncate(if has(Aggregate::Min) { usize::MAX } else { 0 });
                expected.maxs.truncate(if has(Aggregate::Max) { usize::MAX } else { 0 });
                let twice: Vec<_> = wanted.iter().chain(&wanted).copied().collect();
                let groups = group::group_by(&device, &keys, &values, &twice, order).unwrap();
                assert_eq!(groups, expected, "{wanted:?}, {order:?}, {}", device.info());
            }
            let counts = group::group_by(&device, &keys, &[], &[Aggregate::Count], order).unwrap();
            assert_eq!(counts.counts, all.counts, "counts need no values");
        }
    }
}

#[test]
fn mismatched_columns_are_refused() {
    for device in devices() {
        for order in IdOrder::ALL {
            for (values, aggregates) in
                [(&[1, 2][..], [Aggregate::Count]), (&[], [Aggregate::Sum]), (&[1], [Aggregate::Max])]
            {
                let refused = group::group_by(&device, &[1, 2, 3], values, &aggregates, order);
                assert!(matches!(refused, Err(Error::LengthMismatch { expected: 3, .. })), "{refused:?}");
                let (keys, values) = (device.upload(&[1, 2, 3]).unwrap(), device.upload(values).unwrap());
                let refused = group::group_by_on(&device, &keys, &values, &aggregates, order);
                assert!(matches!(refused, Err(Error::LengthMismatch { expected: 3, .. })), "{refused:?}");
            }
        }
    }
}

#[test]
fn buffers_of_another_device_are_refused() {
    let Some(gpu) = crate::common::opencl_devices().pop() else { return };
    let there = gpu.upload(&[1u32, 2, 1]).unwrap();
    let cpu = crate::common::one_thread();
    for order in IdOrder::ALL {
        assert!(matches!(group::unique_on(&cpu, &there, order), Err(Error::WrongDevice)));
        assert!(matches!(group::factorize_on(&cpu, &there, order), Err(Error::WrongDevice)));
        let grouped = group::group_by_on(&cpu, &there, &there, &Aggregate::ALL, order);
        assert!(matches!(grouped, Err(Error::WrongDevice)));
    }
}

/// Rows whose keys are few and near the extremes, so that they are often equal.
#[derive(Clone, Debug)]
struct Rows(Vec<(u32, u32)>);

impl Arbitrary for Rows {
    fn arbitrary(g: &mut Gen) -> Self {
        let len = usize::arbitrary(g) % 300;
        let mask = *g.choose(&[0, 1, 7, 255, u32::MAX]).unwrap();
        let base = *g.choose(&[0, u32::MAX, 1 << 31]).unwrap();
        Rows((0..len).map(|_| (base ^ u32::arbitrary(g) & mask, u32::arbitrary(g))).collect())
    }

    fn shrink(&self) -> Box<dyn Iterator<Item = Self>> {
        Box::new(self.0.shrink().map(Rows))
    }
}

fn any_rows_agree(Rows(rows): Rows) -> bool {
    thread_local!(static DEVICES: Vec<Any> = devices());
    let (keys, values): (Vec<u32>, Vec<u32>) = rows.into_iter().unzip();
    DEVICES.with(|devices| devices.iter().for_each(|device| agrees(device, &format!("{keys:?}"), &keys, &values)));
    true
}

#[test]
fn groups_of_any_rows_match_a_map() {
    QuickCheck::new().tests(size(200, 5).into()).quickcheck(any_rows_agree as fn(Rows) -> bool);
}
