//! Sorts by the most significant digits, then of runs, compared with a stable sort.

use super::{device, small};
use crate::backend::HashBackend;
use crate::error::Result;
use crate::opencl::OpenCl;
use crate::opencl::passes::sort::Strategy;
use crate::scheme::hash::SplitMix64;

/// Sorts keys with their positions, and checks the result. Returns the number of passes over digits and over runs.
fn sorted(cl: &OpenCl, keys: &[u64], what: &str) -> Result<(u64, u64)> {
    let mut expected: Vec<(u64, u32)> = keys.iter().copied().zip(0..).collect();
    expected.sort_by_key(|&(key, _)| key);
    let (on_device, places) = (cl.upload(keys)?, cl.iota(keys.len())?);
    cl.ledger().take();
    let (sorted, values) = cl.sort_pairs_by(Strategy::Runs, 1000, &on_device, &places)?;
    let stages = cl.ledger().take();
    let passes = |name| {
        let items: u64 = stages.iter().filter(|stage| stage.name == name).map(|stage| stage.kernel).sum();
        items / keys.len() as u64
    };
    let found: Vec<_> = cl.download(&sorted)?.into_iter().zip(cl.download(&values)?).collect();
    assert!(found == expected, "{what}");
    Ok((passes("sort_scatter"), passes("sort_runs")))
}

#[test]
fn keys_of_every_distribution_are_sorted() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let cl = &cl.with_group(64);
    let len = if small() { 4500 } else { 70_000 };
    let mut stream = SplitMix64::new(1);
    let random: Vec<u64> = (0..len).map(|_| stream.next_u64()).collect();
    let of = |key: &dyn Fn(u64) -> u64| random.iter().map(|&random| key(random)).collect::<Vec<_>>();
    // Each with the number of its passes over digits and over runs.
    let columns = [
        ("two fields", of(&|key| (key >> 52) << 35 | key & 0xf_ffff), (1, 1)),
        ("random", random.clone(), (1, 1)),
        ("several rows per key", of(&|key| random[key as usize % (len / 10)]), (1, 1)),
        (
            "equal middle bits",
            of(&|key| if key >> 40 & 1 == 0 { key & !0xff_ffff_0000 } else { key | 0xff_ffff_0000 }),
            (1, 1),
        ),
        ("two values of low bits", of(&|key| key & !0x3fff_ffff_ffff | (key % 3)), (1, 1)),
        // The run of a key with 1 row in 128 fits in a tile; one of half of the rows does not.
        ("a short run of one key", of(&|key| if key % 128 == 0 { 7 << 60 } else { key }), (1, 1)),
        // Few rows of the sample are in one block.
        ("blocks of one key", (0..len).map(|row| random[row / 5000]).collect(), (8, 0)),
        ("one key in a half", of(&|key| if key % 2 == 0 { 7 << 60 } else { key }), (8, 0)),
        ("five keys", of(&|key| random[key as usize % 5]), (8, 0)),
        ("few bits", of(&|key| key & 0xf0f0), (2, 0)),
    ];
    let count = if small() { 1 } else { columns.len() };
    for (name, keys, passes) in columns.into_iter().take(count) {
        assert_eq!(sorted(cl, &keys, name)?, passes, "{name}");
    }
    Ok(())
}

#[test]
fn all_digits_are_sorted_if_a_run_is_longer_than_a_tile() -> Result<()> {
    let Some(cl) = device().filter(|_| !small()) else { return Ok(()) };
    // The sample has about 14 of the 4,150 equal keys, and a tile 4,096 of them.
    let mut stream = SplitMix64::new(2);
    let keys: Vec<u64> = (0..600_000).map(|row| if row < 4150 { 7 << 60 } else { stream.next_u64() }).collect();
    assert_eq!(sorted(&cl.with_group(64), &keys, "a long run")?, (2 + 8, 1));
    Ok(())
}

#[test]
fn two_keys_out_of_order_are_found_at_every_position() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let cl = &cl.with_group(64);
    let len = if small() { 1100 } else { 6000 };
    // Each key twice, in descending order of the lowest bits, which are not among those that are sorted first.
    let positions: &[usize] =
        if small() { &[256] } else { &[0, 1, 15, 16, 255, 256, 512, 1023, 1024, 4095, 4096, 5998] };
    for &position in positions {
        let keys: Vec<u64> = (0..len as u64)
            .map(|row| {
                let key = if row == position as u64 + 1 { row - 1 } else { row };
                (key.wrapping_mul((1 << 51) / len as u64) << 13) | (len as u64 - row)
            })
            .collect();
        assert_eq!(sorted(cl, &keys, &format!("position {position}"))?, (1, 1));
    }
    Ok(())
}

#[test]
fn pairs_are_partitioned_by_their_upper_bits() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    for end in if small() { vec![700] } else { vec![1_u32, 255, 257, 9000, 70_000] } {
        // A permutation, with 11 coprime to all lengths.
        let keys: Vec<u32> = (0..end).map(|row| (u64::from(row) * 11 % u64::from(end)) as u32).collect();
        let (on_device, rows) = (cl.upload(&keys)?, cl.iota(keys.len())?);
        let (parts, rows) = cl.in_parts(&on_device, &rows, end as usize)?;
        let shift = end.next_power_of_two().ilog2().saturating_sub(8);
        let mut expected: Vec<(u32, u32)> = keys.iter().copied().zip(0..).collect();
        expected.sort_by_key(|&(key, _)| key >> shift & 0xff);
        let found: Vec<_> = cl.download(&parts)?.into_iter().zip(cl.download(&rows)?).collect();
        assert!(found == expected, "{end}");
    }
    Ok(())
}

#[test]
fn values_of_64_bits_follow_their_keys() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let mut stream = SplitMix64::new(3);
    let keys: Vec<u64> = (0..if small() { 4500 } else { 70_000 }).map(|_| stream.next_u64()).collect();
    let values: Vec<u64> = keys.iter().map(|key| key.rotate_left(7)).collect();
    let (sorted, moved) = cl.sort_pairs_by(Strategy::Runs, 1000, &cl.upload(&keys)?, &cl.upload(&values)?)?;
    let (sorted, moved) = (cl.download(&sorted)?, cl.download(&moved)?);
    assert!(sorted.is_sorted() && sorted.iter().zip(&moved).all(|(key, value)| key.rotate_left(7) == *value));
    Ok(())
}

#[test]
fn partitioned_scatters_equal_others() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    for (count, len) in
        if small() { vec![(700, 500)] } else { vec![(1, 1), (5000, 4000), (70_001, 70_001), (9000, 99_000)] }
    {
        // Distinct places, some of which are past the end.
        let places = (0..count).map(|row| if row % 9 == 8 { u32::MAX } else { (row * 11 % count) as u32 });
        let places = cl.upload(&places.collect::<Vec<_>>())?;
        let values = cl.upload(&(0..count as u64).map(|row| row << 33 | 5).collect::<Vec<_>>())?;
        let [parts, others] = [true, false].map(|is_partitioned| cl.run_scatter(&values, &places, len, is_partitioned));
        assert!(cl.download(&parts?)? == cl.download(&others?)?, "{count} in {len}");
    }
    Ok(())
}
