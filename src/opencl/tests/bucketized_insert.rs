//! Compares batches added to bucketized tables one partition at a time with src/scheme/bucketized and with the direct
//! route.

use std::collections::BTreeMap;

use super::bucketized::{pairs, plan};
use super::{bucket_sizes, device, duplicates, noise, small};
use crate::backend::scheme_tests::{arbitrary_images, reference, remove};
use crate::backend::{HashBackend, Kernels, Placed};
use crate::error::{Error, Result};
use crate::opencl::{BuildRoute, OpenCl};
use crate::scheme::bucketized::PART_SLOTS;
use crate::scheme::{Bucketized, BucketizedPlan, Scheme as _, slot};
use crate::table::HashTable;

/// Adds pairs by this route, and checks that it was used and that the old image is unchanged.
fn extended(
    cl: &OpenCl,
    route: BuildRoute,
    plan: &BucketizedPlan,
    old: &[u64],
    (keys, values): (&[u32], &[u32]),
) -> Result<(Vec<u64>, Placed)> {
    let cl = cl.with_group(64);
    cl.set_build_route(Some(route));
    let (image, keys, values) = (cl.upload(old)?, cl.upload(keys)?, cl.upload(values)?);
    cl.ledger().take();
    let (new, placed) = Kernels::<Bucketized>::extended(&cl, plan, &image, &keys, &values)?;
    let stages: Vec<_> = cl.ledger().take().into_iter().map(|stage| stage.name).collect();
    assert_eq!(stages.contains(&"bucketized_insert"), route == BuildRoute::ByParts, "{stages:?}");
    assert_eq!(stages.contains(&"bucketized_place"), route == BuildRoute::Direct, "{stages:?}");
    assert!(cl.download(&image)? == old, "the image that was added to has changed");
    Ok((cl.download(&new)?, placed))
}

fn by_parts(cl: &OpenCl, plan: &BucketizedPlan, old: &[u64], batch: (&[u32], &[u32])) -> Result<(Vec<u64>, Placed)> {
    extended(cl, BuildRoute::ByParts, plan, old, batch)
}

/// The sequential image of the first pairs, in the first attempt that places all pairs.
fn begun(
    bucket_slots: u32,
    slots: usize,
    first: usize,
    (keys, values): (&[u32], &[u32]),
) -> (BucketizedPlan, Vec<u64>) {
    for attempt in 0..40 {
        let plan = plan(&Bucketized::canonical(bucket_slots), slots, attempt);
        if reference(&plan, keys, values).is_some() {
            let image = reference(&plan, &keys[..first], &values[..first]);
            return (plan, image.expect("a part of a set that fits does fit"));
        }
    }
    panic!("S = {bucket_slots}: {} pairs in {slots} slots in no attempt", keys.len());
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn images_are_those_of_one_build_word_for_word() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let part = PART_SLOTS as usize;
    for bucket_slots in [4, 8, 16] {
        // The last part: of a few buckets, of one, whole, and between; and enough parts for two digits.
        let sizes = if small() { vec![300, part + 1] } else { vec![300, part, part + 1, 3 * part + 777, 9 * part + 5] };
        for slots in sizes {
            // Thousandths of the slots before and after; a batch of 0 is one pair. From 700 to 960 more pairs leave a
            // part than are listed together.
            let loads = [(0, 500), (500, 750), (700, 960), (800, 880), (900, 909), (960, 975), (970, 0)];
            for (before, after) in if small() { &loads[4..] } else { &loads[..] } {
                let first = slots * before / 1000;
                let (keys, values) = pairs((slots * after / 1000).max(first + 1));
                let (plan, old) = begun(bucket_slots, slots, first, (&keys, &values));
                let (image, placed) = by_parts(cl, &plan, &old, (&keys[first..], &values[first..]))?;
                let what = format!("S = {bucket_slots}, from {before} to {after} of 1000 of {slots} slots");
                assert_eq!(placed, Placed::default(), "{what}");
                assert!(Some(image) == reference(&plan, &keys, &values), "{what}");
            }
        }
    }
    Ok(())
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn a_copy_of_a_key_is_reported_whatever_its_age_in_the_table() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let slots = if small() { 1200 } else { 30_000 };
    for (bucket_slots, percent) in [(4, 97), (8, 98), (16, 99)] {
        let (first, fresh) = (slots * percent / 100, slots / 200);
        let (keys, values) = pairs(first + fresh);
        let (plan, old) = begun(bucket_slots, slots, first, (&keys, &values));
        // A few keys of each age that occurs.
        let mut of_age: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (at, &word) in old.iter().enumerate() {
            if let Some((key, _)) = Bucketized::pair(&plan, &old, at as u64) {
                of_age.entry(slot::age(word)).or_default().push(key);
            }
        }
        assert!(of_age.len() > 1 + usize::from(!small()), "S = {bucket_slots}: ages {:?}", of_age.keys());
        let some = if small() { 1 } else { 5 };
        for (age, known) in of_age {
            for &key in known.iter().step_by(known.len().div_ceil(some)) {
                let (mut batch, mut with) = (keys[first..].to_vec(), values[first..].to_vec());
                batch.insert(fresh / 2, key);
                with.insert(fresh / 2, 77);
                let (_, placed) = by_parts(cl, &plan, &old, (&batch, &with))?;
                assert_eq!(
                    placed,
                    Placed { duplicates: 1, least_duplicate: Some(key), ..Placed::default() },
                    "age {age}"
                );
            }
        }
    }
    Ok(())
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn the_least_key_with_duplicates_is_reported() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let (slots, first, len) = if small() { (1200, 500, 300) } else { (50_000, 30_000, 10_000) };
    for &bucket_slots in bucket_sizes() {
        // Also enough duplicates of one key to fill its part.
        for sort in duplicates::sorts(len, len / 4) {
            let (mut keys, values) = pairs(first + len);
            let plan = plan(&Bucketized::canonical(bucket_slots), slots, 0);
            let old = reference(&plan, &keys[..first], &values[..first]).expect("it fits");
            duplicates::plant(&mut keys[first..], sort);
            // And some that the table contains.
            if sort.0 > 1 {
                keys[first + len - 1] = keys[3];
                keys[first + len - 2] = keys[first - 1];
            }
            let (_, placed) = by_parts(cl, &plan, &old, (&keys[first..], &values[first..]))?;
            let what = format!("S = {bucket_slots}, {sort:?}: {placed:?}");
            let duplicates = duplicates::of(&keys);
            assert_eq!((placed.unplaced, placed.least_duplicate), (0, duplicates.first().copied()), "{what}");
            assert!(placed.duplicates >= duplicates.len() as u64, "{what}");
        }
    }
    Ok(())
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn tombstones_stay_as_by_the_direct_route() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let slots = if small() { 700 } else { 30_000 };
    for &bucket_slots in bucket_sizes() {
        for removed_of in if small() { vec![2] } else { vec![2, 9] } {
            let first = slots * 85 / 100;
            let (keys, values) = pairs(first + slots / 10);
            let (plan, old) = begun(bucket_slots, slots, first, (&keys, &values));
            let gone: Vec<u32> = keys[..first].iter().copied().step_by(removed_of).collect();
            let mut image = cl.upload(&old)?;
            remove(cl, &plan, &mut image, &gone)?;
            let with_tombstones = cl.download(&image)?;
            // New keys, and some of those that were removed.
            let back = &gone[..gone.len() / 5];
            let batch: Vec<u32> = keys[first..].iter().chain(back).copied().collect();
            let with = noise(11, batch.len());
            let (image, placed) = by_parts(cl, &plan, &with_tombstones, (&batch, &with))?;
            let (direct, by_atomics) = extended(cl, BuildRoute::Direct, &plan, &with_tombstones, (&batch, &with))?;
            assert_eq!(placed.unplaced, by_atomics.unplaced, "S = {bucket_slots}");
            assert_eq!((placed.duplicates, by_atomics.duplicates), (0, 0), "S = {bucket_slots}");
            if placed.unplaced == 0 {
                assert!(image == direct, "S = {bucket_slots}, one of {removed_of} removed");
            }
            // An existing key together with the tombstones, at any age.
            let known = keys[1];
            let (_, placed) = by_parts(cl, &plan, &with_tombstones, (&[known], &[1]))?;
            assert_eq!((placed.duplicates, placed.least_duplicate), (1, Some(known)));
        }
    }
    Ok(())
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn more_pairs_than_slots_are_left_over_as_by_the_direct_route() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let (slots, first) = if small() { (400, 300) } else { (5000, 4000) };
    let (keys, values) = pairs(slots + slots / 20);
    let (plan, old) = begun(8, slots, first, (&keys[..first], &values[..first]));
    let batch = (&keys[first..], &values[first..]);
    let (_, placed) = by_parts(cl, &plan, &old, batch)?;
    let (_, by_atomics) = extended(cl, BuildRoute::Direct, &plan, &old, batch)?;
    assert_eq!(placed.unplaced, by_atomics.unplaced);
    assert!(placed.unplaced > 0 && placed.duplicates == 0, "{placed:?}");
    Ok(())
}

/// Words of a damaged file. Only termination and memory safety are tested.
#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn words_that_no_table_has_do_no_harm() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    for &bucket_slots in bucket_sizes() {
        let plan = plan(&Bucketized::canonical(bucket_slots), if small() { 700 } else { 9000 }, 0);
        let [noise, ..] = arbitrary_images(&plan, 5);
        let (keys, values) = pairs(noise.len() / 4);
        by_parts(cl, &plan, &noise, (&keys, &values))?;
    }
    Ok(())
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn a_table_takes_batches_and_refuses_copies_part_by_part() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let len = if small() { 900 } else { 20_000 };
    let (keys, values) = pairs(len);
    let cl = cl.with_group(64);
    cl.set_build_route(Some(BuildRoute::ByParts));
    let builder = HashTable::builder(Bucketized::canonical(8)).slots(len * 10 / 9);
    let first = len * 8 / 10;
    let mut table = builder.build(&cl, &keys[..first], &values[..first])?;
    let before = table.digest()?;
    let known = [keys[first], keys[first + 1], keys[7]];
    let refused = table.insert(&known, &[1, 2, 3]);
    assert!(matches!(refused, Err(Error::DuplicateKey { key }) if key == u64::from(keys[7])), "{refused:?}");
    assert_eq!((table.len(), table.digest()?), (first, before));
    cl.ledger().take();
    let done = table.insert(&keys[first..], &values[first..])?;
    assert!(cl.ledger().take().iter().any(|stage| stage.name == "bucketized_insert"));
    assert_eq!((done.added, done.rebuilt), (len - first, false));
    assert_eq!(table.digest()?, builder.build(&cl, &keys, &values)?.digest()?);
    Ok(())
}
