//! Compares bucketized tables built one partition at a time with those of src/scheme/bucketized, and with the direct
//! route.

use super::bucketized::{pairs, plan};
use super::{bucket_sizes, build_by_parts, device, duplicates, small};
use crate::backend::scheme_tests::reference;
use crate::backend::{HashBackend, Kernels, Placed};
use crate::error::Result;
use crate::opencl::{BuildRoute, OpenCl};
use crate::scheme::bucketized::PART_SLOTS;
use crate::scheme::{Bucketized, BucketizedPlan};

/// Builds by parts, and returns whether that route completed the build.
fn build(cl: &OpenCl, plan: &BucketizedPlan, keys: &[u32], values: &[u32]) -> Result<(Vec<u64>, Placed, bool)> {
    build_by_parts(cl, plan, (keys, values), "bucketized_parts", "bucketized_place")
}

/// The counts of a build by parts, whose image may store a key with duplicates more than once; `None` if it gives up.
fn by_parts_alone(cl: &OpenCl, plan: &BucketizedPlan, keys: &[u32], values: &[u32]) -> Result<Option<Placed>> {
    let cl = cl.with_group(64);
    cl.set_build_route(Some(BuildRoute::ByParts));
    Ok(cl.bucketized_by_parts(plan, &cl.upload(keys)?, &cl.upload(values)?)?.map(|(_, placed)| placed))
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn images_equal_the_sequential_rule() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let part = PART_SLOTS as usize;
    for bucket_slots in [4, 8, 16] {
        // The last part: of a few buckets, of one, whole, and between; and enough parts for two digits.
        let sizes =
            if small() { vec![300, part + 1] } else { vec![300, part, part + 1, 3 * part + 777, 40 * part + 5] };
        for slots in sizes {
            for percent in if small() { vec![97] } else { vec![50, 90, 97, 99] } {
                let (keys, values) = pairs(slots * percent / 100);
                for attempt in 0..40 {
                    let plan = plan(&Bucketized::canonical(bucket_slots), slots, attempt);
                    let expected = reference(&plan, &keys, &values);
                    let (image, placed, by_parts) = build(cl, &plan, &keys, &values)?;
                    assert!(by_parts);
                    assert_eq!(placed.unplaced == 0, expected.is_some(), "{plan:?}: {placed:?}");
                    if let Some(expected) = expected {
                        assert_eq!(placed, Placed::default(), "{plan:?}");
                        assert!(image == expected, "S = {bucket_slots}, {percent}% of {slots} slots");
                        break;
                    }
                    assert!(attempt < 39, "S = {bucket_slots}, {percent}% of {slots} slots in no attempt");
                }
            }
        }
    }
    Ok(())
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn columns_with_duplicates_are_placed_as_by_the_direct_route() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let direct = cl.with_group(64);
    direct.set_build_route(Some(BuildRoute::Direct));
    let len = if small() { 700 } else { 30_000 };
    for &bucket_slots in bucket_sizes() {
        for sort in duplicates::sorts(len, 40) {
            let (mut keys, values) = pairs(len);
            duplicates::plant(&mut keys, sort);
            let plan = plan(&Bucketized::canonical(bucket_slots), len * 10 / 9, 0);
            let placed = by_parts_alone(cl, &plan, &keys, &values)?.expect("a build by parts");
            let what = format!("S = {bucket_slots}, {sort:?}: {placed:?}");
            assert!(placed.unplaced == 0 && placed.duplicates > 0, "{what}");
            assert_eq!(placed.least_duplicate, duplicates::of(&keys).first().copied(), "{what}");
            let (image, ..) = build(cl, &plan, &keys, &values)?;
            let (keys, values) = (direct.upload(&keys)?, direct.upload(&values)?);
            let (expected, _) = Kernels::<Bucketized>::build(&direct, &plan, &keys, &values)?;
            assert!(image == direct.download(&expected)?, "{what}");
        }
    }
    Ok(())
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn what_a_part_cannot_hold_is_placed_all_the_same() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let len = if small() { 3000 } else { 60_000 };
    let (distinct, values) = pairs(len);
    let scheme = Bucketized::canonical(8);
    // A third of all pairs have one key: its part is too small for them, and so is the list of escapes above some
    // thousands.
    let keys: Vec<u32> = (0..len).map(|i| if i % 3 == 1 { distinct[5] } else { distinct[i] }).collect();
    let plan = plan(&scheme, len * 2, 0);
    let by_parts = by_parts_alone(cl, &plan, &keys, &values)?;
    assert_eq!(by_parts.is_some(), small(), "many escapes are too many for the list");
    let (_, placed, _) = build(cl, &plan, &keys, &values)?;
    assert_eq!((placed.unplaced, placed.least_duplicate), (0, Some(distinct[5])));
    Ok(())
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn more_pairs_than_slots_are_left_over_as_by_the_direct_route() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let len = if small() { 500 } else { 5000 };
    let (keys, values) = pairs(len);
    let plan = plan(&Bucketized::canonical(8), len * 9 / 10, 0);
    let (_, placed, _) = build(cl, &plan, &keys, &values)?;
    let direct = cl.with_group(64);
    direct.set_build_route(Some(BuildRoute::Direct));
    let (_, by_atomics) =
        Kernels::<Bucketized>::build(&direct, &plan, &direct.upload(&keys)?, &direct.upload(&values)?)?;
    assert_eq!(placed.unplaced, by_atomics.unplaced);
    assert!(placed.unplaced > 0 && placed.duplicates == 0);
    Ok(())
}
