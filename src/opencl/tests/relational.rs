//! Compares the passes of grouping and joining with plain loops and with the CPU.

use super::{device, noise, small};
use crate::backend::{
    HashBackend, Numbers, Relational, Wanted, aggregate_tests as wide, relational_tests as reference,
};
use crate::cpu::Cpu;
use crate::error::{Error, Result};
use crate::opencl::passes::aggregate::{ENTRIES, ROWS_EACH, WIDE_ENTRIES};

/// Lengths around the borders of words, groups and a tile.
fn round(tile: usize) -> Vec<usize> {
    let sizes = [0, 1, 31, 32, 33, 65, 255, 257, tile - 1, tile, tile + 1, 3 * tile + 5];
    // One tile and a few more are enough for races on a simulator.
    if small() { vec![0, 1, 33, tile.min(300) + 1] } else { sizes.to_vec() }
}

#[test]
fn bitmaps_agree_with_plain_loops() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    reference::bitmaps(cl, &round(cl.select_tile()))
}

#[test]
fn distinct_keys_have_distinct_slots() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    reference::key_slots(cl, &round(cl.pass_group()))
}

#[test]
fn shards_equal_the_rule() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    reference::shards(cl, &round(cl.select_tile()))
}

#[test]
fn runs_agree_with_plain_loops() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    reference::spans(cl, &round(cl.select_tile()))?;
    // Several tiles of one run.
    let heaviest = if small() { 2 * cl.expand_tile() as u32 + 11 } else { 20_011 };
    reference::lists(cl, &round(cl.expand_tile()), heaviest)
}

#[test]
fn lists_may_exceed_memory() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    reference::long_lists(cl)
}

#[test]
fn aggregates_agree_with_plain_loops() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    reference::aggregates(cl, &round(cl.pass_group() * ROWS_EACH))
}

#[test]
#[ignore = "slow: kernels for values of 64 bits, and all lengths; CI runs it"]
fn aggregates_of_wide_values_agree_with_plain_loops() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let tile = cl.pass_group() * ROWS_EACH;
    let sizes = if small() { vec![300] } else { vec![0, 1, 33, 1000, tile - 1, tile + 1, 3 * tile + 5] };
    wide::wide(cl, &sizes)
}

#[test]
fn values_are_scattered_to_their_places() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    reference::moves(cl, &round(cl.select_tile()))
}

#[test]
fn lengths_that_contradict_each_other_are_refused() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    reference::refusals(cl)?;
    wide::refusals(cl)
}

/// A run of millions, and millions of empty ones, adjacent and in one tile.
#[test]
fn heavy_runs_and_hosts_of_empty_ones_are_expanded() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let (empty, heavy) = if small() { (3000, 3000) } else { (2_000_000, 3_000_000) };
    let mut counts = vec![0; empty];
    counts.extend([5, heavy, 1]);
    counts.extend(vec![0; empty]);
    counts.extend([2, 0, 3]);
    let starts = noise(1, counts.len());
    let cpu = Cpu::new();
    let (there, here) = (cl.offsets(&cl.upload(&counts)?)?, cpu.offsets(&cpu.upload(&counts)?)?);
    assert_eq!(cl.download(&there)?, here.words());
    let len = heavy as usize + 20;
    let there = cl.expand(&there, &cl.upload(&starts)?, 0, len)?;
    let here = cpu.expand(&here, &cpu.upload(&starts)?, 0, len)?;
    assert!(cl.download(&there.runs)? == here.runs.words());
    assert!(cl.download(&there.places)? == here.places.words());
    Ok(())
}

/// Groups that share an entry, one of them heavy: the first one takes it, and the others must find their cells.
#[test]
fn groups_that_meet_in_an_entry_are_distinguished() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let rows = if small() { 600 } else { 300_000 };
    let groups = 7 * ENTRIES + 3;
    let noise = noise(2, rows);
    let ids: Vec<u32> = noise.iter().map(|x| if x % 2 == 0 { 2 } else { (x >> 8) % 8 * ENTRIES as u32 + 2 }).collect();
    let cpu = Cpu::new();
    let there = cl.accumulate(&cl.upload(&ids)?, &cl.upload(&noise)?, groups, Wanted::ALL)?;
    let here = cpu.accumulate(&cpu.upload(&ids)?, &cpu.upload(&noise)?, groups, Wanted::ALL)?;
    assert_eq!(cl.download(&there.counts)?, here.counts.words());
    assert_eq!(cl.download(&there.sums)?, here.sums.words());
    assert_eq!(cl.download(&there.least)?, here.least.words());
    assert_eq!(cl.download(&there.greatest)?, here.greatest.words());

    let values: Vec<u64> = noise.iter().map(|&x| u64::from(x) << 31 | u64::from(!x)).collect();
    let groups = 8 * WIDE_ENTRIES + 3;
    let ids: Vec<u32> = ids.iter().map(|&id| id % groups as u32).collect();
    for of in Numbers::ALL {
        let there = cl.accumulate_wide(&cl.upload(&ids)?, &cl.upload(&values)?, of, groups, Wanted::ALL)?;
        let here = cpu.accumulate_wide(&cpu.upload(&ids)?, &cpu.upload(&values)?, of, groups, Wanted::ALL)?;
        assert_eq!(cl.download(&there.counts)?, here.counts.words());
        assert_eq!(cl.download(&there.sums)?, here.sums.words());
        assert_eq!(cl.download(&there.means)?, here.means.words());
        assert_eq!(cl.download(&there.least)?, here.least.words());
        assert_eq!(cl.download(&there.greatest)?, here.greatest.words());
        assert_eq!(there.overflow, here.overflow);
    }
    Ok(())
}

#[test]
fn more_groups_than_numbers_are_refused() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let none = cl.filled(0, 0u32)?;
    let refused = cl.accumulate(&none, &none, 1 << 32, Wanted::ALL);
    assert!(matches!(refused, Err(Error::TooLarge { .. })), "{refused:?}");
    let refused = cl.accumulate_wide(&none, &cl.filled(0, 0u64)?, Numbers::Double, 1 << 32, Wanted::ALL);
    assert!(matches!(refused, Err(Error::TooLarge { .. })), "{refused:?}");
    Ok(())
}

/// Values outside of the window, whose sums the host uploads.
#[test]
fn sums_of_several_threads_do_not_mix() {
    let Some(cl) = device() else { return };
    let sum_of = |value: f64| -> Result<Vec<u64>> {
        let values = cl.upload(&[value.to_bits(), 1f64.to_bits()])?;
        let wanted = Wanted { sum: true, ..Wanted::default() };
        let found = cl.accumulate_wide(&cl.filled(2, 0)?, &values, Numbers::Double, 1, wanted)?;
        cl.download(&found.sums)
    };
    let sum_of = &sum_of;
    std::thread::scope(|scope| {
        // Oclgrind runs one kernel at a time.
        for thread in 1..=if small() { 1 } else { 4u8 } {
            let value = f64::from(thread) * 1e200;
            scope.spawn(move || {
                for round in 0..if small() { 1 } else { 100 } {
                    assert_eq!(sum_of(value).expect("a sum"), [value.to_bits()], "thread {thread}, round {round}");
                }
            });
        }
    });
}
