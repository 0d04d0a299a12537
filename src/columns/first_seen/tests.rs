//! Compares all strategies with a plain loop, on the CPU's passes; `opencl/tests` runs the same check on devices.

use std::collections::HashMap;
use std::hash::Hash;

use super::*;
use crate::cpu::Cpu;
use crate::error::Error;
use crate::group::Aggregate;
use crate::group::{aggregated_by, of_row_numbers};

/// Columns with few and many groups, which all have this number of rows.
fn columns(len: usize) -> Vec<Vec<u64>> {
    let mut random = SplitMix64::new(7);
    let groups = [1, 3, 200, len as u64 / 4, 4 * len as u64, u64::MAX];
    let mut columns: Vec<Vec<u64>> =
        (groups.iter()).map(|&groups| (0..len).map(|_| random.next_u64() % groups.max(1)).collect()).collect();
    // Some keys are new at the end; most rows have new keys; keys ascend.
    columns.push((0..len as u64).map(|row| if row + 2 >= len as u64 { row } else { row % 5 }).collect());
    columns.push((0..len as u64).map(|row| if row < len as u64 / 16 { row % 2 } else { row }).collect());
    columns.push((0..len as u64).map(|row| row / 3).collect());
    columns
}

/// All strategies. The last one has too few slots for many groups.
fn strategies(len: usize) -> [Strategy; 4] {
    let enough = (2 * len as u64).next_power_of_two().ilog2() + 1;
    [Strategy::Table, Strategy::Sort, Strategy::Slots(enough), Strategy::Slots(6)]
}

/// All columns of these numbers of rows, by all strategies.
pub(crate) fn check<B: Runs<K::Rows>, K: Key + Hash>(backend: &B, sizes: &[usize], key: fn(u64) -> K) -> Result<()> {
    for &len in sizes {
        for column in columns(len) {
            let column: Vec<K> = column.into_iter().map(key).collect();
            strategies(len).into_iter().try_for_each(|strategy| check_column(backend, &column, strategy))?;
        }
    }
    Ok(())
}

/// One column by each strategy, for simulators.
pub(crate) fn check_few<B: Runs<K::Rows>, K: Key + Hash>(backend: &B, len: usize, key: fn(u64) -> K) -> Result<()> {
    for (column, strategy) in columns(len).into_iter().rev().zip(strategies(len)) {
        let column: Vec<K> = column.into_iter().map(key).collect();
        check_column(backend, &column, strategy)?;
    }
    Ok(())
}

fn check_column<B: Runs<K::Rows>, K: Key + Hash>(backend: &B, column: &[K], strategy: Strategy) -> Result<()> {
    let (mut unique, mut ids_by_key) = (Vec::new(), HashMap::new());
    for &key in column {
        ids_by_key.entry(key).or_insert_with(|| {
            unique.push(key);
            unique.len() as u32 - 1
        });
    }
    let expected: Vec<u32> = column.iter().map(|key| ids_by_key[key]).collect();
    let (mut counts, mut last) = (vec![0; unique.len()], vec![0; unique.len()]);
    for (row, &id) in (0..).zip(&expected) {
        counts[id as usize] += 1;
        last[id as usize] = row;
    }
    let mut ascending: Vec<(K, u32)> = unique.iter().copied().zip(counts.iter().copied()).collect();
    ascending.sort_unstable();
    // Finds the first group that has two halves of 2^64, in either order of groups.
    let first: Option<u64> = counts.iter().position(|&count| count > 1).map(|id| unique[id].into());
    let least: Option<u64> = ascending.iter().find(|group| group.1 > 1).map(|group| group.0.into());
    let halves = backend.upload(&vec![1u64 << 63; column.len()])?;
    let (keys, rows) = (backend.upload(column)?, backend.iota(column.len())?);
    let about = format!("{} rows, {} groups, {strategy:?}", column.len(), unique.len());
    assert!(backend.download(&distinct_by(backend, &keys, strategy)?)? == unique, "{about}");
    let numbered = Grouping::by(backend, &keys, strategy)?.numbered(backend)?;
    assert!(backend.download(&numbered.unique)? == unique, "{about}");
    assert!(backend.download(&numbered.ids)? == expected, "{about}");
    let wanted = [Aggregate::Count, Aggregate::Max];
    let grouping = Grouping::by(backend, &keys, strategy)?;
    let found = aggregated_by::<B, K, u32>(backend, grouping, &rows, &wanted)?.download(backend)?;
    assert!(found.keys == unique && found.counts == counts && found.maxs == last, "{about}");
    let grouping = Grouping::by(backend, &keys, strategy)?.ascending(backend)?;
    let found = aggregated_by::<B, K, u32>(backend, grouping, &rows, &wanted)?.download(backend)?;
    assert!(found.keys.into_iter().zip(found.counts).eq(ascending.iter().copied()), "{about}, ascending");
    for (grouping, is_ascending) in [
        (Grouping::by(backend, &keys, strategy)?, false),
        (Grouping::by(backend, &keys, strategy)?.ascending(backend)?, true),
        (Grouping::ascending_by_sort(backend, &keys)?, true),
    ] {
        let (found, ids) = of_row_numbers(backend, grouping, &[Aggregate::Min, Aggregate::Count])?;
        let (found, ids) = (found.download(backend)?, backend.download(&ids)?);
        let keys: Vec<K> = if is_ascending { ascending.iter().map(|group| group.0).collect() } else { unique.clone() };
        assert!(found.keys == keys && ids.len() == column.len(), "{about}");
        assert!(ids.iter().zip(column).all(|(&id, key)| keys[id as usize] == *key), "{about}");
        // The first row of each key, by the rows in reverse order.
        let mut first_rows = vec![0; keys.len()];
        (0..).zip(&ids).collect::<Vec<_>>().into_iter().rev().for_each(|(row, &id)| first_rows[id as usize] = row);
        assert!(found.mins == first_rows, "{about}");
        assert!(
            found.counts.iter().zip(&keys).all(|(&count, key)| count == counts[ids_by_key[key] as usize]),
            "{about}"
        );
    }
    let grouping = Grouping::by(backend, &keys, strategy)?;
    for (grouping, too_large) in
        [(grouping, first), (Grouping::by(backend, &keys, strategy)?.ascending(backend)?, least)]
    {
        match aggregated_by::<B, K, u64>(backend, grouping, &halves, &[Aggregate::Sum]) {
            Err(Error::SumTooLarge { key }) => assert_eq!(Some(key), too_large, "{about}"),
            other => assert!(other.is_ok() && too_large.is_none(), "{about}"),
        }
    }
    Ok(())
}

#[test]
fn strategies_agree_with_a_plain_loop() -> Result<()> {
    let sizes: &[usize] = if cfg!(miri) { &[0, 33, 100] } else { &[0, 1, 2, 15, 16, 33, 1000, 20_000] };
    check::<_, u32>(&Cpu::new(), sizes, |number| number as u32)?;
    check::<_, u64>(&Cpu::new(), sizes, |number| number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// The strategy for random keys with this number of groups; `None`: no key occurs twice.
fn chosen(groups: Option<u64>) -> Result<Strategy> {
    let mut random = SplitMix64::new(3);
    let next = |row: u64| groups.map_or(row, |groups| random.next_u64() % groups);
    let column: Vec<u64> = (0..LEAST_ROWS as u64).map(next).collect();
    let cpu = Cpu::new();
    Strategy::of(&cpu, &cpu.upload(&column)?)
}

#[test]
#[cfg_attr(miri, ignore = "too many rows")]
fn the_sample_finds_how_many_rows_a_group_has() -> Result<()> {
    let rows = LEAST_ROWS as u64;
    assert_eq!(chosen(None)?, Strategy::Table);
    assert_eq!(chosen(Some(16 * rows))?, Strategy::Table);
    // At least twice as many slots as groups, and one for 32 rows.
    assert_eq!(chosen(Some(rows / 2))?, Strategy::Sort);
    // Nearly four slots per group would exceed one slot per two rows.
    assert_eq!(Strategy::by_sample(3 << 20, 4096, 4085), Strategy::Sort);
    assert_eq!(Strategy::by_sample(1 << 22, 4096, 4087), Strategy::Slots(21));
    for (groups, bits) in [(rows / 4, 20), (rows / 8, 19), (rows / 100, 16), (1, 16)] {
        let Strategy::Slots(chosen) = chosen(Some(groups))? else { panic!("{groups} groups need slots") };
        assert!((bits..=bits + 1).contains(&chosen), "{groups} groups: 2^{chosen} slots");
    }
    let cpu = Cpu::new();
    for (rows, expected) in [(SORT_ROWS - 1, Strategy::Table), (LEAST_ROWS - 1, Strategy::Sort)] {
        assert_eq!(Strategy::of(&cpu, &cpu.upload(&vec![7_u64; rows])?)?, expected);
    }
    Ok(())
}
