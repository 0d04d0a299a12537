//! Groups compared with plain loops.

use std::collections::HashMap;

use super::*;
use crate::backend::numbers::bits_of;
use crate::{Aggregate, Error, IdOrder, group};

/// Few groups, with and without all keys in the front of the column; more groups than a chunk has rows; more than
/// [`CACHED`]; and enough groups for aggregation by ids, on any number of threads or only on many.
#[test]
fn groups_are_those_of_a_plain_loop() -> Result<()> {
    let rows: u64 = if cfg!(miri) { 300 } else { 300_000 };
    for (groups, apart, late, by_id) in [
        (50, 1, 0, &[][..]),
        (50, 1, 1, &[]),
        (50, 1 << 45, 0, &[]),
        (50, 1 << 45, 1, &[]),
        (7000, 1 << 40, 3, &[]),
        // By partition on many threads.
        (20_000, 1 << 40, 3, &[2]),
        (100_000, 1 << 40, 3, &[1, 2]),
        // Too few rows per key for that, and a key with too many rows.
        (200_000, 1 << 40, 3, &[1, 2, 8]),
        (20_000, 1 << 40, 40_000, &[2, 8]),
        (200_000, 1, 0, &[1, 2, 8]),
        (300_000, 1 << 40, 0, &[1, 2, 8]),
    ] {
        // Every remainder occurs, not in order.
        let mut keys: Vec<u64> = (0..rows).map(|i| i * 7919 % groups * apart + 5).collect();
        let front = keys.len() - late;
        keys[front..].fill(u64::MAX);
        let values: Vec<i64> = (0..rows as i64).map(|i| (i - 1000).wrapping_mul(0x12_3456)).collect();
        // Some are outside of the window.
        let double = |i: u64| if i.is_multiple_of(99) { 2_f64.powi(-30) } else { (i % 1000) as f64 * 0.5 - 99.0 };
        let doubles: Vec<f64> = (0..rows).map(double).collect();
        let one = Cpu::with_threads(1)?;
        let of_doubles = group::wide::group_by(&one, &keys, &doubles, &Aggregate::ALL, IdOrder::FirstSeen)?;
        let (mut unique, mut expected) = (Vec::new(), HashMap::new());
        for (&key, &value) in keys.iter().zip(&values) {
            let group = expected.entry(key).or_insert_with(|| {
                unique.push(key);
                (0, 0, i64::MAX, i64::MIN)
            });
            *group = (group.0 + 1, group.1 + value, value.min(group.2), value.max(group.3));
        }
        assert!(cfg!(miri) || unique.len() as u64 == groups + u64::from(late > 0));
        for threads in [1, 2, 8] {
            let cpu = Cpu::with_threads(threads)?;
            let count = Wanted { count: true, ..Wanted::default() };
            let found = cpu.grouped::<_, u64>(&keys, &[], Numbers::Signed, count)?;
            let is_expected = matches!(found, Grouped::ById(..)) == by_id.contains(&threads);
            assert!(cfg!(miri) || is_expected, "{groups}, {threads} threads");
            let found = group::wide::group_by(&cpu, &keys, &values, &Aggregate::ALL, IdOrder::FirstSeen)?;
            assert!(found.keys == unique, "{groups}, {apart}, {late}, {threads} threads");
            let of = |i: usize| (found.counts[i], found.sums[i], found.mins[i], found.maxs[i]);
            assert!(unique.iter().enumerate().all(|(i, key)| of(i) == expected[key]), "{groups}, {apart}, {late}");
            let found = group::wide::group_by(&cpu, &keys, &doubles, &Aggregate::ALL, IdOrder::FirstSeen)?;
            assert!(found == of_doubles, "{groups}, {apart}, {late}, {threads} threads");
            let short: Vec<u32> = values.iter().map(|&value| value as u32).collect();
            let found = group::wide::group_by(&cpu, &keys, &short, &[Aggregate::Max], IdOrder::FirstSeen)?;
            let most = |key| keys.iter().zip(&short).filter(|pair| *pair.0 == key).map(|pair| *pair.1).max();
            assert_eq!((found.keys.len(), Some(found.maxs[1])), (unique.len(), most(unique[1])));
            assert!(found.sums.is_empty() && found.counts.is_empty());
        }
    }
    Ok(())
}

#[test]
fn groups_of_one_row_have_its_value() -> Result<()> {
    let doubles = [1.5, -0.0, f64::NAN, f64::NEG_INFINITY, 5e-324, -2e300];
    let keys: Vec<u64> = (0..doubles.len() as u64).collect();
    let all = group::wide::group_by(&Cpu::new(), &keys, &doubles, &Aggregate::ALL, IdOrder::FirstSeen)?;
    let bits = |column: &[f64]| column.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    let expected: Vec<u64> = doubles.iter().map(|value| bits_of(value + 0.0)).collect();
    assert_eq!((all.keys, all.counts), (keys.clone(), vec![1; keys.len()]));
    assert_eq!([bits(&all.sums), bits(&all.means)], [expected.clone(), expected]);
    let extremes: Vec<u64> = doubles.iter().map(|&value| bits_of(value)).collect();
    assert_eq!([bits(&all.mins), bits(&all.maxs)], [extremes.clone(), extremes]);
    let signed = [i64::MIN, -1, 0, 1, i64::MAX, 3];
    let all = group::wide::group_by(&Cpu::new(), &keys, &signed, &Aggregate::ALL, IdOrder::FirstSeen)?;
    assert_eq!(all.means, signed.map(|value| value as f64));
    assert_eq!([&all.sums[..], &all.mins, &all.maxs], [&signed; 3]);
    Ok(())
}

#[test]
fn the_first_group_whose_sum_does_not_fit_is_reported() {
    let cpu = Cpu::new();
    let keys = [7_u64, 3, 9, 3, 9, 7];
    let group = |values: &[i64; 6]| group::wide::group_by(&cpu, &keys, values, &[Aggregate::Sum], IdOrder::FirstSeen);
    let error = group(&[1, i64::MAX, i64::MIN, 1, -1, 1]).expect_err("two do not fit");
    assert!(matches!(error, Error::SumTooLarge { key: 3 }), "{error}");
    assert_eq!(group(&[i64::MAX, i64::MIN, 0, 1, 0, -5]).expect("all fit").sums, [i64::MAX - 5, i64::MIN + 1, 0]);
}
