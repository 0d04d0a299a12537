//! Compares aggregates of numbered groups with a plain map, for every type of values, on one thread and on two.

use std::collections::BTreeMap;

use super::*;
use crate::ExactSum;
use crate::backend::join_rows::NO_ROW;
use crate::cpu::Cpu;
use crate::scheme::hash::SplitMix64;

/// How a plain loop aggregates the values of one group.
struct Plain<V: Number> {
    sum: fn(&[V]) -> V::Sum,
    mean: fn(&[V]) -> f64,
    least: fn(&[V]) -> V,
    greatest: fn(&[V]) -> V,
}

impl<V: Number> Plain<V> {
    fn groups(&self, ids: &[u32], groups: usize, values: &[V]) -> Groups<u32, V> {
        let mut rows: BTreeMap<u32, Vec<V>> = (0..groups as u32).map(|id| (id, Vec::new())).collect();
        for (id, &value) in ids.iter().zip(values) {
            if let Some(rows) = rows.get_mut(id) {
                rows.push(value);
            }
        }
        Groups {
            keys: rows.keys().copied().collect(),
            counts: rows.values().map(|rows| rows.len() as u32).collect(),
            sums: rows.values().map(|rows| (self.sum)(rows)).collect(),
            means: rows.values().map(|rows| (self.mean)(rows)).collect(),
            mins: rows.values().map(|rows| (self.least)(rows)).collect(),
            maxs: rows.values().map(|rows| (self.greatest)(rows)).collect(),
        }
    }

    /// All requested aggregates have the expected bits on one thread and on two.
    fn check(&self, ids: &[u32], groups: usize, values: &[V]) -> Result<()> {
        let expected = self.groups(ids, groups, values);
        let every: &[Aggregate] = &Aggregate::ALL;
        for aggregates in [every, &every[..1], &every[1..2], &every[2..3], &every[3..4], &every[4..], &every[1..4], &[]]
        {
            for threads in [1, 2] {
                let found = aggregate(&Cpu::with_threads(threads)?, ids, groups, values, aggregates)?;
                let about = format!("{} rows, {groups} groups, {threads} threads, {aggregates:?}", ids.len());
                let has = |aggregate| aggregates.contains(&aggregate);
                assert_eq!((found.len(), &found.keys), (groups, &expected.keys), "{about}");
                same(&found.counts, &expected.counts, has(Aggregate::Count), &about);
                same(&found.sums, &expected.sums, has(Aggregate::Sum), &about);
                same(&found.means, &expected.means, has(Aggregate::Mean), &about);
                same(&found.mins, &expected.mins, has(Aggregate::Min), &about);
                same(&found.maxs, &expected.maxs, has(Aggregate::Max), &about);
            }
        }
        Ok(())
    }

    /// Columns of many shapes, with values computed from 64 random bits.
    fn check_all(&self, value: fn(u64) -> V) -> Result<()> {
        let mut stream = SplitMix64::new(4);
        // Rows, groups, and the range of ids: some groups have no rows, and some ids no group.
        for (rows, groups, among) in [
            (0, 0, 1),
            (0, 3, 1),
            (1, 1, 1),
            (7, 0, 4),
            (9000, 37, 42),
            (9000, 37, 20),
            (9000, 1024, 1100),
            (9000, 1025, 1100),
            (9000, 5000, 9000),
            (9000, 70_000, 60_000),
        ] {
            let (rows, groups, among) = (size(rows), size(groups), size(among).max(1) as u64);
            let values: Vec<V> = (0..rows).map(|_| value(stream.next_u64())).collect();
            let mut ids: Vec<u32> = (0..rows).map(|_| (stream.next_u64() % among) as u32).collect();
            self.check(&ids, groups, &values)?;
            // Rows without a group: the number for no group, the first after the last group, and others.
            for (i, id) in ids.iter_mut().enumerate() {
                match i % 8 {
                    0 => *id = NO_ROW,
                    3 => *id = groups as u32,
                    6 => *id = NO_ROW - 1,
                    _ => {}
                }
            }
            self.check(&ids, groups, &values)?;
            ids.fill(NO_ROW);
            self.check(&ids, groups, &values)?;
        }
        // One heavy group, with rows of others between.
        let rows = size(150_000);
        let values: Vec<V> = (0..rows).map(|_| value(stream.next_u64())).collect();
        let ids: Vec<u32> = (0..rows as u32).map(|i| if i % 3 == 1 { i % 64 } else { 2 }).collect();
        self.check(&ids, 60, &values)
    }
}

fn size(of: usize) -> usize {
    if cfg!(miri) { of.div_ceil(100) } else { of }
}

/// Compares bytes. A column that was not requested must be empty.
fn same<T: bytemuck::Pod>(found: &[T], expected: &[T], wanted: bool, about: &str) {
    let expected = if wanted { expected } else { &[] };
    assert!(bytemuck::cast_slice::<T, u8>(found) == bytemuck::cast_slice::<T, u8>(expected), "{about}");
}

macro_rules! integers {
    ($type:ty) => {
        Plain::<$type> {
            sum: |values| values.iter().map(|&value| <<$type as Number>::Sum>::from(value)).sum(),
            mean: |values| match values.len() {
                0 => f64::NAN,
                count => crate::exact_ratio(values.iter().map(|&value| i128::from(value)).sum(), &[], &[count as u64]),
            },
            least: |values| values.iter().copied().min().unwrap_or(<$type>::MAX),
            greatest: |values| values.iter().copied().max().unwrap_or(<$type>::MIN),
        }
    };
}

#[test]
fn integers_are_aggregated_as_by_a_map() -> Result<()> {
    integers!(u32).check_all(|bits| bits as u32)?;
    integers!(u64).check_all(|bits| bits >> 18)?;
    integers!(i64).check_all(|bits| bits as i64 >> 18)
}

fn doubles() -> Plain<f64> {
    fn exact(values: &[f64]) -> ExactSum {
        let mut sum = ExactSum::default();
        values.iter().for_each(|&value| sum.add(value));
        sum
    }
    fn by(values: &[f64], none: f64, better: fn(f64, f64) -> bool) -> f64 {
        let has_nan = values.iter().any(|value| value.is_nan());
        let best = values.iter().copied().reduce(|a, b| if better(b, a) { b } else { a });
        if has_nan { f64::from_bits(0x7ff8 << 48) } else { best.unwrap_or(none) }
    }
    Plain {
        sum: |values| exact(values).sum(),
        mean: |values| exact(values).mean(values.len() as u64),
        least: |values| by(values, f64::INFINITY, |a, b| a.total_cmp(&b).is_lt()),
        greatest: |values| by(values, f64::NEG_INFINITY, |a, b| a.total_cmp(&b).is_gt()),
    }
}

#[test]
fn doubles_are_aggregated_as_by_a_map() -> Result<()> {
    // Sums are rounded, so that another order would give other bits.
    doubles().check_all(|bits| (bits as i64 as f64) * 0.1f64.powi((bits % 40) as i32))?;
    doubles().check_all(|bits| match bits % 50 {
        0 => f64::from_bits(bits | (0x7ff8 << 48)),
        1..5 => f64::INFINITY.copysign(bits as i64 as f64),
        5..25 => -0.0,
        _ => 0.0,
    })
}

/// Permuted rows on 1 to 64 threads: the sums and means of all groups have the bits of superaccumulators.
#[test]
fn the_order_of_rows_and_threads_change_no_sum() -> Result<()> {
    let (mut random, rows) = (SplitMix64::new(8), size(20_000));
    let mut values: Vec<f64> = (0..rows)
        .map(|row| match row % 4 {
            0 => f64::from_bits(random.next_u64() & !(1 << 62)),
            1 => f64::from_bits(random.next_u64() >> 12),
            2 => 1e308,
            _ => -1e308,
        })
        .collect();
    for groups in [1, 7, 2000, 4500, 15_000] {
        let mut ids: Vec<u32> = (0..rows as u32).map(|row| row % size(groups) as u32).collect();
        let expected = doubles().groups(&ids, size(groups), &values);
        for threads in [1, 2, 3, 8, 64] {
            for row in (1..rows).rev() {
                let other = (random.next_u64() % (row as u64 + 1)) as usize;
                ids.swap(row, other);
                values.swap(row, other);
            }
            let about = format!("{groups} groups, {threads} threads");
            let wanted = [Aggregate::Sum, Aggregate::Mean];
            let found = aggregate(&Cpu::with_threads(threads)?, &ids, size(groups), &values, &wanted)?;
            same(&found.sums, &expected.sums, true, &about);
            same(&found.means, &expected.means, true, &about);
        }
    }
    Ok(())
}

#[test]
fn counts_need_no_values_and_other_lengths_are_refused() -> Result<()> {
    for threads in [1, 2] {
        let cpu = Cpu::with_threads(threads)?;
        let found = aggregate::<_, u64>(&cpu, &[1, NO_ROW, 1, 2], 2, &[], &[Aggregate::Count])?;
        assert_eq!((found.keys, found.counts, found.sums.len()), (vec![0, 1], vec![0, 2], 0));
        let sum = aggregate(&cpu, &[1, 0], 2, &[1_i64], &[Aggregate::Sum]);
        assert!(matches!(sum, Err(Error::LengthMismatch { found: 1, expected: 2, .. })));
    }
    Ok(())
}

/// Skipped rows do not make a sum too large.
#[test]
fn the_first_sum_that_does_not_fit_is_reported() -> Result<()> {
    for threads in [1, 2] {
        let cpu = Cpu::with_threads(threads)?;
        let sum = |ids: &[u32], values: &[u64]| aggregate(&cpu, ids, 3, values, &[Aggregate::Sum]);
        let found = sum(&[3, 0, NO_ROW, 3, NO_ROW, 2], &[u64::MAX; 6])?;
        assert_eq!(found.sums, [u64::MAX, 0, u64::MAX]);
        let found = sum(&[2, 1, 1, 2, 0], &[u64::MAX, 1, u64::MAX, 1, 5]);
        assert!(matches!(found, Err(Error::SumTooLarge { key: 1 })));
    }
    Ok(())
}

#[test]
fn distinct_rows_and_ids_are_those_of_a_map() -> Result<()> {
    let lens: &[usize] = if cfg!(miri) { &[0, 1, 50] } else { &[0, 1, 1000, 70_000, 300_000] };
    for &len in lens {
        // One key; few keys; enough that one thread numbers them if there are two; almost only distinct keys.
        for keys in [1, 300, 20_000, u64::MAX] {
            let mut stream = SplitMix64::new(len as u64);
            let random: Vec<u64> = (0..len).map(|_| u64::from(stream.next_u32()) % keys).collect();
            let spread = |row: usize| random[row].wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mut column: Vec<u64> = (0..len).map(spread).collect();
            // The front of the column does not know the last key.
            if keys == 20_000 || keys == 1 {
                column.last_mut().into_iter().for_each(|last| *last = 77);
            }
            let (mut ids, mut rows) = (BTreeMap::new(), Vec::new());
            let mut expected = Vec::with_capacity(len);
            for (row, key) in (0..).zip(&column) {
                let next = ids.len() as u32;
                let id = *ids.entry(key).or_insert(next);
                rows.extend((id == next).then_some(row));
                expected.push(id);
            }
            for threads in [1, 2, 3] {
                let cpu = Cpu::with_threads(threads)?;
                assert_eq!(distinct_rows(&cpu, &column)?, rows, "{len} rows, {keys} keys, {threads} threads");
                let (unique, found) = factorize(&cpu, &column, IdOrder::FirstSeen)?;
                assert!(found == expected && unique.iter().zip(&rows).all(|(&key, &row)| column[row as usize] == key));
            }
        }
    }
    Ok(())
}
