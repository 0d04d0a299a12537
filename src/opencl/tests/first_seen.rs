//! Keys by first occurrence, by each strategy.

use std::collections::HashMap;

use super::{device, duplicates, small};
use crate::columns::first_seen::tests::{check, check_few};
use crate::cpu::Cpu;
use crate::error::Result;
use crate::group::FirstRows;
use crate::join::{ColumnIndex, JoinKind};
use crate::opencl::BuildRoute;

#[test]
fn strategies_agree_with_a_plain_loop() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let wide = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    // The simulator takes a second for each pass over a few rows.
    if small() {
        check_few::<_, u32>(cl, 33, |number| number as u32)?;
        return check_few::<_, u64>(cl, 33, wide);
    }
    let sizes = [0, 1, 16, 33, 1000, 20_000];
    check::<_, u32>(cl, &sizes, |number| number as u32)?;
    check::<_, u64>(cl, &sizes, wide)?;
    // On GPUs, large tables are built one partition at a time.
    let by_parts = cl.with_group(64);
    by_parts.set_build_route(Some(BuildRoute::ByParts));
    check::<_, u32>(&by_parts, &[1000, 20_000], |number| number as u32)?;
    check::<_, u64>(&by_parts, &[20_000], wide)
}

#[test]
fn first_rows_of_builds_by_parts_are_those_of_a_map() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let by_parts = cl.with_group(64);
    by_parts.set_build_route(Some(BuildRoute::ByParts));
    let len = if small() { 300 } else { 30_000 };
    // The last column has distinct keys.
    let sorts = duplicates::sorts(len, 40).into_iter().chain([(0, 1, 1)]);
    for sort in sorts.skip(if small() { 4 } else { 0 }) {
        let mut keys: Vec<u32> = (1..=len as u32).map(|i| i.wrapping_mul(0x9e37_79b1)).collect();
        duplicates::plant(&mut keys, sort);
        let wide: Vec<u64> = keys.iter().map(|&key| u64::from(key) << 20).collect();
        let mut rows = HashMap::new();
        let expected: Vec<u32> = (0..).zip(&keys).map(|(row, &key)| *rows.entry(key).or_insert(row)).collect();
        assert!(FirstRows::build(&by_parts, &keys)?.rows()? == expected, "{sort:?}");
        assert!(FirstRows::build(&by_parts, &wide)?.rows()? == expected, "{sort:?}, 64 bits");
        let left: Vec<u32> = (0..).zip(&expected).filter(|(row, first)| row != *first).map(|(row, _)| row).collect();
        let left: Vec<u32> = left.iter().map(|&row| keys[row as usize]).chain([7, 8]).collect();
        let left_wide: Vec<u64> = left.iter().map(|&key| u64::from(key) << 20).collect();
        let here = ColumnIndex::build(&Cpu::new(), &keys)?.join(&left, JoinKind::Full)?.collect()?;
        assert!(ColumnIndex::build(&by_parts, &keys)?.join(&left, JoinKind::Full)?.collect()? == here, "{sort:?}");
        let there = ColumnIndex::build(&by_parts, &wide)?.join(&left_wide, JoinKind::Full)?.collect()?;
        assert!(there == here, "{sort:?}, 64 bits");
    }
    Ok(())
}
