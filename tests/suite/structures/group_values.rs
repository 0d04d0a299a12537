//! Group-by of values of every type, on every device, compared with plain loops: integers exactly, doubles bit by bit.

use std::collections::BTreeMap;
use std::fmt::Debug;

use crate::common::{devices, one_thread, size};
use koel::backend::{HashBackend, Runs};
use koel::device::Any;
use koel::group::{Number, wide};
use koel::scheme::Key;
use koel::{Aggregate, Error, ExactSum, IdOrder};

/// The bits of the only NaN that results may contain.
const NAN: u64 = 0x7ff8_0000_0000_0000;

/// A value type with aggregates as plain loops.
trait Plain: Number {
    fn of(noise: u64) -> Self;
    fn sum(values: &[Self]) -> u64;
    fn least(values: &[Self]) -> u64;
    fn greatest(values: &[Self]) -> u64;
    fn bits(self) -> u64;
    fn bits_of_sum(sum: Self::Sum) -> u64;
}

macro_rules! integers {
    ($($integer:ty: $of:expr;)*) => {$(
        impl Plain for $integer {
            fn of(noise: u64) -> Self {
                $of(noise)
            }
            fn sum(values: &[Self]) -> u64 {
                values.iter().map(|&value| i128::from(value)).sum::<i128>() as u64
            }
            fn least(values: &[Self]) -> u64 {
                *values.iter().min().unwrap() as u64
            }
            fn greatest(values: &[Self]) -> u64 {
                *values.iter().max().unwrap() as u64
            }
            fn bits(self) -> u64 {
                self as u64
            }
            fn bits_of_sum(sum: Self::Sum) -> u64 {
                sum as u64
            }
        }
    )*};
}
// The largest values whose sums do not overflow in these tests.
integers! {
    u32: |noise| noise as u32;
    u64: |noise| noise >> 20;
    i64: |noise| noise as i64 >> 20;
}

impl Plain for f64 {
    fn of(noise: u64) -> f64 {
        match noise % 32 {
            0 => -0.0,
            1 => 0.0,
            2 => 5e-324,
            _ => (noise as i64 >> 20) as f64 * 2f64.powi((noise >> 8 & 63) as i32 - 32),
        }
    }

    fn sum(values: &[f64]) -> u64 {
        let mut sum = ExactSum::default();
        values.iter().for_each(|&value| sum.add(value));
        sum.sum().to_bits()
    }

    fn least(values: &[f64]) -> u64 {
        if values.iter().any(|value| value.is_nan()) {
            NAN
        } else {
            values.iter().min_by(|a, b| a.total_cmp(b)).unwrap().to_bits()
        }
    }

    fn greatest(values: &[f64]) -> u64 {
        if values.iter().any(|value| value.is_nan()) {
            NAN
        } else {
            values.iter().max_by(|a, b| a.total_cmp(b)).unwrap().to_bits()
        }
    }

    fn bits(self) -> u64 {
        self.to_bits()
    }

    fn bits_of_sum(sum: f64) -> u64 {
        sum.to_bits()
    }
}

/// Pseudo-random integers, the same each time.
fn noise(seed: u64, len: usize) -> Vec<u64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb)
    };
    (0..len).map(|_| next() ^ next() >> 31).collect()
}

/// Every `i` this many times, in a pseudo-random order.
fn shuffled(sizes: &[usize]) -> Vec<u64> {
    let mut rows: Vec<u64> = (0..).zip(sizes).flat_map(|(i, &size)| (0..size).map(move |_| i)).collect();
    let places = noise(1, rows.len());
    for i in (1..rows.len()).rev() {
        rows.swap(i, (places[i] % (i as u64 + 1)) as usize);
    }
    rows
}

/// The group of each row: sizes around the borders of blocks, all rows in one group, and each row in its own.
fn columns() -> Vec<(&'static str, Vec<u64>)> {
    let n = size(60_000, 200) as usize;
    let powers = (0..17).map(|power| 1 << power).take_while(|&power: &usize| power < n);
    let sizes: Vec<usize> = powers.flat_map(|power| [power - 1, power, power + 1]).collect();
    vec![
        ("none", vec![]),
        ("one row", vec![3]),
        ("every size", shuffled(&sizes)),
        ("one group", vec![5; n + 7]),
        ("all distinct", shuffled(&vec![1; n])),
        ("half in one", shuffled(&[&vec![1; n / 2][..], &[n / 2]].concat())),
        ("in order", (0..n as u64).map(|row| row / 19).collect()),
    ]
}

fn key<K: Key>(group: u64) -> K {
    // Keys of 64 bits differ in both halves.
    K::low(group.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ group >> 3)
}

/// The groups in order, with the values of each in row order.
fn grouped<K: Key, V: Copy>(keys: &[K], values: &[V], order: IdOrder) -> Vec<(K, Vec<V>)> {
    let mut groups: BTreeMap<K, (usize, Vec<V>)> = BTreeMap::new();
    for (row, (&key, &value)) in keys.iter().zip(values).enumerate() {
        groups.entry(key).or_insert((row, vec![])).1.push(value);
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    if order == IdOrder::FirstSeen {
        groups.sort_by_key(|(_, (first, _))| *first);
    }
    groups.into_iter().map(|(key, (_, values))| (key, values)).collect()
}

fn agrees<K: Key, V: Plain>(device: &Any, what: &str, keys: &[K], values: &[V])
where
    Any: Runs<K::Rows>,
{
    for order in IdOrder::ALL {
        let at = format!("{what}, {}, {order:?}, on {}", std::any::type_name::<(K, V)>(), device.info());
        let expected = grouped(keys, values, order);
        let groups = wide::group_by(device, keys, values, &Aggregate::ALL, order).unwrap();
        assert!(expected.iter().map(|(key, _)| *key).eq(groups.keys.iter().copied()), "keys: {at}");
        assert!(expected.iter().map(|(_, of)| of.len() as u32).eq(groups.counts.iter().copied()), "counts: {at}");
        let column = |of: fn(&[V]) -> u64| expected.iter().map(|(_, values)| of(values)).collect::<Vec<_>>();
        assert!(column(V::sum) == bits(&groups.sums, V::bits_of_sum), "sums: {at}");
        assert!(column(V::least) == bits(&groups.mins, V::bits), "least: {at}");
        assert!(column(V::greatest) == bits(&groups.maxs, V::bits), "greatest: {at}");
    }
}

fn bits<T: Copy>(column: &[T], bits: fn(T) -> u64) -> Vec<u64> {
    column.iter().copied().map(bits).collect()
}

fn every_type<V: Plain>() {
    for device in devices() {
        for (what, rows) in columns() {
            let values: Vec<V> = noise(7, rows.len()).into_iter().map(V::of).collect();
            agrees(&device, what, &rows.iter().copied().map(key::<u32>).collect::<Vec<_>>(), &values);
            agrees(&device, what, &rows.iter().copied().map(key::<u64>).collect::<Vec<_>>(), &values);
        }
    }
}

#[test]
fn groups_of_u32_match_a_map() {
    every_type::<u32>();
}

#[test]
fn groups_of_u64_match_a_map() {
    every_type::<u64>();
}

#[test]
fn groups_of_i64_match_a_map() {
    every_type::<i64>();
}

#[test]
fn groups_of_f64_match_a_map() {
    every_type::<f64>();
}

/// Numbers whose sum depends on the order of addition, with and without values that dominate every sum.
#[test]
fn sums_that_depend_on_order_have_the_same_bits_everywhere() {
    let odd_nan = f64::from_bits(0xfff0_0000_dead_beef);
    let kinds: [&[f64]; 5] = [
        &[1e16, 1.0, -1e16],
        &[1e16, 1.0, -1e16, f64::NAN],
        &[1.0, f64::INFINITY, 1e308],
        &[f64::INFINITY, f64::NEG_INFINITY, 0.0],
        &[1e308, -1e308, odd_nan, 1e-310],
    ];
    let groups = size(300, 20) as usize;
    for (number, kind) in (0..).zip(kinds) {
        let rows = shuffled(&(0..groups).map(|group| group % 70 + 1).collect::<Vec<_>>());
        let values: Vec<f64> =
            noise(number, rows.len()).iter().map(|noise| kind[(noise % kind.len() as u64) as usize]).collect();
        let keys: Vec<u64> = rows.iter().copied().map(key).collect();
        for device in devices() {
            agrees(&device, &format!("{kind:?}"), &keys, &values);
        }
    }
}

/// The sum of a group depends only on its own rows, not on rows of other groups between them.
#[test]
fn sums_do_not_depend_on_rows_of_other_groups() {
    let own: Vec<f64> = noise(3, size(5000, 100) as usize).into_iter().map(Plain::of).collect();
    for device in devices() {
        let alone = wide::group_by(&device, &vec![1u64; own.len()], &own, &[Aggregate::Sum], IdOrder::FirstSeen);
        let alone = alone.unwrap().sums[0].to_bits();
        for apart in [2, 3, 50] {
            let (keys, values): (Vec<u64>, Vec<f64>) = (own.iter().enumerate())
                .flat_map(|(i, &value)| (0..i % apart).map(move |j| (2 + j as u64, f64::MAX)).chain([(1, value)]))
                .unzip();
            let groups = wide::group_by(&device, &keys, &values, &[Aggregate::Sum], IdOrder::Ascending).unwrap();
            assert_eq!((groups.keys[0], groups.sums[0].to_bits()), (1, alone), "{apart} on {}", device.info());
        }
    }
}

/// Computes sums only.
fn sums<V: Number>(device: &Any, keys: &[u64], values: &[V], order: IdOrder) -> koel::Result<Vec<V::Sum>> {
    wide::group_by(device, keys, values, &[Aggregate::Sum], order).map(|groups| groups.sums)
}

fn too_large<T: Debug>(sums: koel::Result<T>, key: u64) {
    assert!(matches!(sums, Err(Error::SumTooLarge { key: reported }) if reported == key), "{sums:?}");
}

#[test]
fn integer_sums_are_exact_or_refused_with_the_first_such_key() {
    let n = size(3000, 50) as usize;
    for device in devices() {
        // 2^64 - 1 in many rows, and one more; its key is first, or last.
        let keys: Vec<u64> = (0..n as u64).map(|row| row % 3 + 7).collect();
        let mut values = vec![0_u64; n];
        (values[1], values[4]) = (u64::MAX - 5, 5);
        assert_eq!(sums(&device, &keys, &values, IdOrder::FirstSeen).unwrap(), [0, u64::MAX, 0]);
        values[n - 2 - (n - 2 - 1) % 3] = 1;
        too_large(sums(&device, &keys, &values, IdOrder::FirstSeen), 8);
        values.fill(u64::MAX);
        let falling: Vec<u64> = keys.iter().map(|key| 100 - key).collect();
        too_large(sums(&device, &falling, &values, IdOrder::FirstSeen), 93);
        too_large(sums(&device, &falling, &values, IdOrder::Ascending), 91);
        let rest = [Aggregate::Count, Aggregate::Min, Aggregate::Max];
        let groups = wide::group_by(&device, &falling, &values, &rest, IdOrder::Ascending).unwrap();
        assert_eq!((groups.mins, groups.maxs), (vec![u64::MAX; 3], vec![u64::MAX; 3]));

        // Intermediate sums exceed 64 bits, but the result does not.
        let swing = |i: usize| [i64::MAX, i64::MIN, 1, i64::MIN + 1, i64::MAX, -2][(i / 3) % 6];
        let mut values: Vec<i64> = (0..18 * n).map(swing).collect();
        let keys: Vec<u64> = (0..18 * n).map(|row| row as u64 % 3).collect();
        values.sort_unstable();
        for order in IdOrder::ALL {
            let exact =
                |key: u64| keys.iter().zip(&values).filter(|&(&of, _)| of == key).map(|(_, &v)| i128::from(v)).sum();
            let exact: Vec<i128> = (0..3).map(exact).collect();
            match exact.iter().position(|&sum| i64::try_from(sum).is_err()) {
                Some(key) => too_large(sums(&device, &keys, &values, order), key as u64),
                None => assert!(sums(&device, &keys, &values, order).unwrap().into_iter().map(i128::from).eq(exact)),
            }
        }
        for (two, sum) in [
            ([i64::MAX, 1], None),
            ([i64::MIN, -1], None),
            ([i64::MIN, i64::MIN], None),
            ([i64::MIN, i64::MAX], Some(-1)),
            ([i64::MAX - 1, 1], Some(i64::MAX)),
            ([i64::MIN + 1, -1], Some(i64::MIN)),
        ] {
            match sum {
                Some(sum) => assert_eq!(sums(&device, &[9, 9], &two, IdOrder::FirstSeen).unwrap(), [sum]),
                None => too_large(sums(&device, &[9, 9], &two, IdOrder::FirstSeen), 9),
            }
        }
    }
}

#[test]
fn only_requested_aggregates_are_computed() {
    let (keys, values) = (shuffled(&[3, 1, 20, 40]), noise(5, 64));
    let doubles: Vec<f64> = values.iter().copied().map(Plain::of).collect();
    for device in devices() {
        for order in IdOrder::ALL {
            let all = wide::group_by(&device, &keys, &doubles, &Aggregate::ALL, order).unwrap();
            for bits in 0..16 {
                let wanted: Vec<_> = (0..4).filter(|i| bits >> i & 1 == 1).map(|i| Aggregate::ALL[i]).collect();
                let of = |aggregate, column: &[f64]| if wanted.contains(&aggregate) { column.to_vec() } else { vec![] };
                let groups = wide::group_by(&device, &keys, &doubles, &wanted, order).unwrap();
                assert_eq!(groups.keys, all.keys);
                assert_eq!(groups.counts.len(), if wanted.contains(&Aggregate::Count) { all.keys.len() } else { 0 });
                assert_eq!(groups.sums, of(Aggregate::Sum, &all.sums), "{wanted:?}");
                assert_eq!(groups.mins, of(Aggregate::Min, &all.mins), "{wanted:?}");
                assert_eq!(groups.maxs, of(Aggregate::Max, &all.maxs), "{wanted:?}");
            }
            let counts = wide::group_by::<_, _, i64>(&device, &keys, &[], &[Aggregate::Count], order).unwrap();
            assert_eq!(counts.counts, all.counts, "counts need no values");
            for wrong in [&values[..63], &[]] {
                let refused = wide::group_by(&device, &keys, wrong, &[Aggregate::Min], order);
                assert!(matches!(refused, Err(Error::LengthMismatch { expected: 64, .. })), "{refused:?}");
            }
        }
    }
}

#[test]
fn buffers_of_another_device_are_refused() {
    let Some(gpu) = crate::common::opencl_devices().pop() else { return };
    let (keys, values) = (gpu.upload(&[1u64, 2, 1]).unwrap(), gpu.upload(&[1u64, 2, 3]).unwrap());
    for order in IdOrder::ALL {
        let grouped = wide::group_by_on::<_, u64, f64>(&one_thread(), &keys, &values, &Aggregate::ALL, order);
        assert!(matches!(grouped, Err(Error::WrongDevice)));
        let groups = wide::group_by_on::<_, u64, i64>(&gpu, &keys, &values, &[Aggregate::Sum], order).unwrap();
        assert_eq!(groups.download(&gpu).unwrap().sums, [4, 2]);
    }
}
