//! Compares Horton tables built one partition at a time with those of src/scheme/horton.

use super::horton::{canonical, crowd, pairs, plan};
use super::{bucket_sizes, build_by_parts, device, duplicates, small};
use crate::backend::Placed;
use crate::backend::scheme_tests::{sequential, zipped};
use crate::error::Result;
use crate::opencl::OpenCl;
use crate::scheme::horton::tokens::{EMPTY_KEY, GROUP_MAX};
use crate::scheme::{Horton, HortonPlan, Placing};

/// Builds by parts, and returns whether that route completed the build.
fn build(cl: &OpenCl, plan: &HortonPlan, keys: &[u32], values: &[u32]) -> Result<(Vec<u64>, Placed, bool)> {
    build_by_parts(cl, plan, (keys, values), "horton_parts", "horton_distribute")
}

/// Builds by parts, and compares with the sequential build.
fn compare(cl: &OpenCl, plan: &HortonPlan, keys: &[u32], values: &[u32]) -> Result<Placing> {
    let (words, placing) = sequential(plan, &zipped(keys, values));
    let (image, placed, by_parts) = build(cl, plan, keys, values)?;
    assert!(by_parts, "{plan:?}");
    if placing == Placing::Unplaced {
        assert!(placed.unplaced > 0, "{plan:?}, {} pairs", keys.len());
    } else {
        assert_eq!(placed, Placed::default(), "{plan:?}, {} pairs", keys.len());
        assert!(image == words, "{plan:?}, {} pairs", keys.len());
    }
    Ok(placing)
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn images_equal_the_sequential_rule() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    // The last part: of a few buckets, of nearly all, and enough parts for two digits.
    let sizes: &[usize] = if small() { &[300, 2100] } else { &[1, 300, 2048, 2049, 7000, 90_000] };
    let mut unplaced = 0;
    for (scheme, loads) in canonical() {
        for &len in sizes {
            let (keys, values) = pairs(len);
            for &percent in if small() { &loads[loads.len() / 2..=loads.len() / 2] } else { loads } {
                let placing = compare(cl, &plan(&scheme, len, percent), &keys, &values)?;
                unplaced += u32::from(placing == Placing::Unplaced);
            }
        }
    }
    assert!(unplaced <= 2, "images are compared where there are some, and {unplaced} were none");
    Ok(())
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn crowded_homes_are_as_in_the_sequential_build() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    for (scheme, _) in canonical().into_iter().step_by(if small() { 3 } else { 1 }) {
        // Large enough for the stash to hold the surplus of a crowd.
        let plan = plan(&scheme, if small() { 3000 } else { 20_000 }, 50);
        let functions = plan.functions();
        let crowd = crowd(&functions, GROUP_MAX as usize + 1);
        let (others, values) = pairs(if small() { 2000 } else { 15_000 });
        let others: Vec<u32> = others.into_iter().filter(|&key| functions.home(key).0 != 3).collect();
        for count in if small() { vec![40] } else { vec![17, 40, 64] } {
            let keys = [&others[..], &crowd[..count]].concat();
            let placing = compare(cl, &plan, &keys, &values.repeat(2)[..keys.len()])?;
            assert!(small() || placing == Placing::Placed, "{plan:?}, a crowd of {count}");
        }
        assert_eq!(compare(cl, &plan, &crowd, &values[..crowd.len()])?, Placing::Unplaced);
    }
    Ok(())
}

/// More pairs with duplicate tags than the list can hold.
#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn a_part_of_crowded_homes_is_gone_through_again() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let len = if small() { 40_000 } else { 150_000 };
    let plan = plan(&Horton::canonical(8), len, 50);
    let functions = plan.functions();
    // 840 pairs in 14 homes of the first part, and no others there: it has space for those of about 1,000.
    let mut homes = vec![Vec::new(); 14];
    for key in 0..u32::MAX {
        if homes.iter().all(|home| home.len() == 60) {
            break;
        }
        if let Some(home) = homes.get_mut(functions.home(key).0 as usize).filter(|home| home.len() < 60) {
            home.push(key);
        }
    }
    let (others, values) = pairs(len);
    let others = others.into_iter().filter(|&key| functions.home(key).0 >= 256);
    let keys: Vec<u32> = others.take(len - 5000).chain(homes.concat()).collect();
    let placing = compare(cl, &plan, &keys, &values[..keys.len()])?;
    assert!(small() || placing == Placing::Placed);
    Ok(())
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn the_least_key_with_duplicates_is_reported() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let len = if small() { 700 } else { 30_000 };
    for &slots in bucket_sizes() {
        for sort in duplicates::sorts(len, 40) {
            let (mut keys, values) = pairs(len);
            duplicates::plant(&mut keys, sort);
            let (_, placed, by_parts) = build(cl, &plan(&Horton::canonical(slots), len, 85), &keys, &values)?;
            let what = format!("S = {slots}, {sort:?}: {placed:?}");
            assert!(by_parts && placed.duplicates > 0, "{what}");
            assert_eq!(placed.least_duplicate, duplicates::of(&keys).first().copied(), "{what}");
        }
    }
    Ok(())
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn the_empty_markers_key_is_stored_outside_of_the_image() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let (mut keys, values) = pairs(5000);
    let plan = plan(&Horton::canonical(8), keys.len(), 90);
    let all = zipped(&keys, &values);
    let (words, _) = sequential(&plan, &[&all[..100], &all[101..]].concat());
    keys[100] = EMPTY_KEY;
    let (image, placed, by_parts) = build(cl, &plan, &keys, &values)?;
    assert!(by_parts && image == words);
    assert_eq!(placed, Placed { outside: Some(values[100]), ..Placed::default() });
    keys[200] = EMPTY_KEY;
    let (_, placed, _) = build(cl, &plan, &keys, &values)?;
    assert_eq!((placed.duplicates, placed.least_duplicate), (1, Some(EMPTY_KEY)));
    assert_eq!(placed.outside, Some(values[100].max(values[200])));
    Ok(())
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn what_a_part_cannot_hold_is_placed_all_the_same() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    // Too many duplicates of one key for its part.
    let (len, one_in) = if small() { (8000, 4) } else { (60_000, 10) };
    let (distinct, values) = pairs(len);
    let keys: Vec<u32> = (0..len).map(|i| if i % one_in == 1 { distinct[5] } else { distinct[i] }).collect();
    let plan = plan(&Horton::canonical(8), keys.len(), 50);
    let (_, placed, by_parts) = build(cl, &plan, &keys, &values)?;
    assert!(!by_parts && placed.unplaced > 0);
    Ok(())
}
