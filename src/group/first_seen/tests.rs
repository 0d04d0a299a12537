//! Compares all strategies with a plain loop, on the CPU's passes; `opencl/tests` runs the same check on devices.

use std::collections::HashMap;
use std::hash::Hash;

use super::*;
use crate::cpu::Cpu;

/// Columns of these numbers of rows, with few and many groups, by all strategies.
pub(crate) fn check<B: Runs<K::Rows>, K: Key + Hash>(backend: &B, sizes: &[usize], key: fn(u64) -> K) -> Result<()> {
    for &len in sizes {
        let mut random = SplitMix64::new(7);
        let groups = [1, 3, 200, len as u64 / 4, 4 * len as u64, u64::MAX];
        let mut columns: Vec<Vec<u64>> =
            (groups.iter()).map(|&groups| (0..len).map(|_| random.next_u64() % groups.max(1)).collect()).collect();
        // The prefix lacks a key or two; it lacks most; keys ascend.
        columns.push((0..len as u64).map(|row| if row + 2 >= len as u64 { row } else { row % 5 }).collect());
        columns.push((0..len as u64).map(|row| if row < len as u64 / 16 { row % 2 } else { row }).collect());
        columns.push((0..len as u64).map(|row| row / 3).collect());
        for column in columns {
            let column: Vec<K> = column.into_iter().map(key).collect();
            check_column(backend, &column)?;
        }
    }
    Ok(())
}

fn check_column<B: Runs<K::Rows>, K: Key + Hash>(backend: &B, column: &[K]) -> Result<()> {
    let (mut unique, mut ids) = (Vec::new(), HashMap::new());
    for &key in column {
        ids.entry(key).or_insert_with(|| {
            unique.push(key);
            unique.len() as u32 - 1
        });
    }
    let expected: Vec<u32> = column.iter().map(|key| ids[key]).collect();
    let (keys, rows) = (backend.upload(column)?, backend.iota(column.len())?);
    for strategy in [Strategy::Table, Strategy::Sort, Strategy::Prefix] {
        let about = format!("{} rows, {} groups, {strategy:?}", column.len(), unique.len());
        assert!(backend.download(&distinct_by(backend, &keys, strategy)?)? == unique, "{about}");
        let numbered = numbered_by(backend, &keys, strategy)?;
        assert!(backend.download(&numbered.unique)? == unique, "{about}");
        assert!(backend.download(&numbered.ids)? == expected, "{about}");
        let (numbered, moved) = grouped_by(backend, &keys, &rows, strategy)?;
        assert!(backend.download(&numbered.unique)? == unique, "{about}");
        let ids = backend.download(&numbered.ids)?;
        let mut rows = backend.download(moved.as_ref().unwrap_or(&rows))?;
        assert!(ids.iter().zip(&rows).all(|(&id, &row)| id == expected[row as usize]), "{about}");
        rows.sort_unstable();
        assert!(rows.iter().copied().eq(0..column.len() as u32), "{about}");
    }
    Ok(())
}

#[test]
fn strategies_agree_with_a_plain_loop() -> Result<()> {
    let sizes: &[usize] = if cfg!(miri) { &[0, 33, 100] } else { &[0, 1, 2, 15, 16, 33, 1000, 20_000] };
    check::<_, u32>(&Cpu::new(), sizes, |number| number as u32)?;
    check::<_, u64>(&Cpu::new(), sizes, |number| number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// Of random keys with this number of groups; `None`: no key occurs twice.
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
    assert_eq!(chosen(Some(rows / 2))?, Strategy::Sort);
    assert_eq!(chosen(Some(rows / 4))?, Strategy::Sort);
    assert_eq!(chosen(Some(rows / 100))?, Strategy::Prefix);
    assert_eq!(chosen(Some(1))?, Strategy::Prefix);
    let few: Vec<u64> = vec![7; LEAST_ROWS - 1];
    let cpu = Cpu::new();
    assert_eq!(Strategy::of(&cpu, &cpu.upload(&few)?)?, Strategy::Table);
    Ok(())
}
