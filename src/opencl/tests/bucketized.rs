//! Compares bucketized tables of the device with the sequential functions of src/scheme/bucketized.

use super::{device, noise, small};
use crate::backend::scheme_tests::{
    self, Built, audited, compare_assigned, compare_decoded, compare_lookups_with, empty, find_all, place,
    place_in_empty, reference, remove,
};
use crate::backend::{HashBackend, Kernels, Placed, Removed};
use crate::error::{Error, Result};
use crate::opencl::{Buffer, LookupShape, OpenCl};
use crate::scheme::bucketized::{Insertion, LookupMode, PART_SLOTS};
use crate::scheme::cuckoo::classic::EMPTY_KEY;
use crate::scheme::{Bucketized, BucketizedPlan, Kind, Placing, Plan as _, Request, Scheme as _, slot};

pub(super) fn plan(scheme: &Bucketized, slots: usize, attempt: u32) -> BucketizedPlan {
    scheme.plan(Request { slots: slots as u64, pairs: 0, seed: 5, attempt }).expect("a plan")
}

/// Every size of bucket, number of functions, policy and lookup mode.
fn schemes() -> Vec<Bucketized> {
    let mut schemes: Vec<_> = [4, 8, 16].map(Bucketized::canonical).into();
    let ([balanced, first], [bandwidth, latency]) = (Insertion::ALL, LookupMode::ALL);
    schemes.extend(
        [
            (2, 8, balanced, bandwidth),
            (2, 4, first, latency),
            (3, 16, balanced, latency),
            (3, 8, first, bandwidth),
            (4, 4, balanced, bandwidth),
            (4, 16, first, latency),
        ]
        .map(|(f, slots, insertion, mode)| Bucketized::classic(f, slots).insertion(insertion).lookup_mode(mode)),
    );
    schemes
}

/// One plan for each program compiled from the two files in cl/.
pub(super) fn plans() -> Vec<BucketizedPlan> {
    schemes().iter().map(|scheme| plan(scheme, 1000, 0)).collect()
}

/// `len` distinct keys with values, extremes first.
pub(super) fn pairs(len: usize) -> (Vec<u32>, Vec<u32>) {
    let edges = [0, u32::MAX - 1, 1, 1 << 31];
    let mixed = (0..).map(|i: u32| i.wrapping_mul(0x9e37_79b9) ^ 0x5bd1).filter(|key| !edges.contains(key));
    let keys: Vec<u32> = edges.into_iter().chain(mixed.filter(|&key| key != EMPTY_KEY)).take(len).collect();
    let mut values = noise(len as u64 + 9, len);
    values.iter_mut().zip([0, u32::MAX]).for_each(|(value, edge)| *value = edge);
    (keys, values)
}

/// The first attempt that places all pairs.
fn build(
    cl: &OpenCl,
    scheme: &Bucketized,
    slots: usize,
    keys: &[u32],
    values: &[u32],
) -> Result<Built<OpenCl, BucketizedPlan>> {
    scheme_tests::build(cl, &|attempt| plan(scheme, slots, attempt), keys, values)
}

/// A handle of the device for each shape of lookups, separate from the one that tests share.
fn shapes(cl: &OpenCl) -> [OpenCl; 3] {
    LookupShape::ALL.map(|shape| {
        let cl = cl.with_group(64);
        cl.set_lookup_shape(Some(shape));
        cl
    })
}

/// Compares lookups in the device's shape with those of the rule in the same image.
fn compare_lookups(cl: &OpenCl, plan: &BucketizedPlan, image: &Buffer<u64>, queries: &[u32]) -> Result<()> {
    let expected = find_all(plan, &cl.download(image)?, queries);
    compare_lookups_with(cl, &cl.lookup_shape()?.to_string(), plan, image, queries, &expected)
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn canonical_images_are_the_sequential_ones_word_for_word() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let devices = [32, 64, 256].map(|group| cl.with_group(group));
    for bucket_slots in [4, 8, 16] {
        let part = PART_SLOTS as usize;
        // The last part: whole, of one bucket, and between.
        let mut sizes = vec![0, 1, 300];
        sizes.extend(if small() { vec![] } else { vec![part, part + 1, 3 * part + 777, 20_000] });
        for slots in sizes {
            let slots = plan(&Bucketized::canonical(bucket_slots), slots, 0).words() as usize;
            for percent in [50, 90, if bucket_slots == 4 { 97 } else { 99 }] {
                let (keys, values) = pairs(slots * percent / 100);
                let (mut built, mut attempt) = (false, 0);
                while !built {
                    let plan = plan(&Bucketized::canonical(bucket_slots), slots, attempt);
                    let expected = reference(&plan, &keys, &values);
                    // A different group for each attempt.
                    let cl = &devices[(attempt as usize + percent) % 3];
                    let (image, placed) = place_in_empty(cl, &plan, &keys, &values)?;
                    assert_eq!(placed.unplaced == 0, expected.is_some(), "{plan:?}: {placed:?}");
                    built = expected.is_some();
                    if let Some(expected) = expected {
                        assert_eq!(placed, Placed::default());
                        assert!(cl.download(&image)? == expected, "S = {bucket_slots}, {percent}% of {slots} slots");
                    }
                    attempt += 1;
                    assert!(attempt < 40, "S = {bucket_slots}, {percent}% of {slots} slots in no attempt");
                }
            }
        }
    }
    Ok(())
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn any_split_into_batches_gives_the_same_canonical_image() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let (keys, values) = pairs(500);
    for bucket_slots in [4, 8, 16] {
        let (plan, image, _) = build(cl, &Bucketized::canonical(bucket_slots), 530, &keys, &values)?;
        let mut batches = empty(cl, &plan)?;
        for part in [300..500, 0..0, 0..1, 1..300] {
            place(cl, &plan, &mut batches, &keys[part.clone()], &values[part])?;
        }
        assert_eq!(cl.download(&batches)?, cl.download(&image)?);
    }
    Ok(())
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn every_scheme_builds_sound_tables_with_the_right_answers_in_all_shapes() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let shapes = shapes(cl);
    for scheme in schemes() {
        for &len in if small() { &[200][..] } else { &[0, 1, 65, 5000][..] } {
            let (keys, values) = pairs(len);
            let (plan, mut image, placed) = build(cl, &scheme, len * 100 / 92, &keys, &values)?;
            assert_eq!(placed, Placed::default());
            let audit = |image: &Buffer<u64>| -> Result<u64> { Ok(audited(&plan, &cl.download(image)?).pairs) };
            assert_eq!(audit(&image)?, len as u64);
            let words = cl.download(&image)?;
            assert!(keys.iter().zip(&values).all(|(&key, &value)| Bucketized::find(&plan, &words, key) == Some(value)));
            compare_decoded(cl, &plan, &image)?;
            let misses = noise(77, len).into_iter().chain([0, EMPTY_KEY]);
            let queries: Vec<u32> = keys.iter().copied().chain(misses).collect();
            shapes.iter().try_for_each(|cl| compare_lookups(cl, &plan, &image, &queries))?;
            // The same after every third pair was removed, some of them twice, with absent keys among the queries.
            let gone: Vec<u32> = keys.iter().copied().step_by(3).collect();
            let mut queried = gone.repeat(2);
            queried.extend((2_000_000_000..2_000_000_040).filter(|key| !keys.contains(key)));
            let removed = remove(cl, &plan, &mut image, &queried)?;
            assert_eq!(removed, Removed { pairs: gone.len() as u64, outside: false });
            let mut expected = words;
            assert_eq!(Bucketized::remove(&plan, &mut expected, &gone), gone.len() as u64);
            assert_eq!(cl.download(&image)?, expected);
            assert_eq!(audit(&image)?, (len - gone.len()) as u64);
            shapes.iter().try_for_each(|cl| compare_lookups(cl, &plan, &image, &queries))?;
            compare_decoded(cl, &plan, &image)?;
        }
    }
    Ok(())
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn lookups_of_every_length_in_all_shapes() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let (keys, values) = pairs(200);
    for cl in shapes(cl) {
        for scheme in [Bucketized::canonical(8), Bucketized::classic(2, 8)] {
            let (plan, image, _) = build(&cl, &scheme, 222, &keys, &values)?;
            let queries = [&keys[..], &noise(3, 200), &[EMPTY_KEY]].concat().repeat(3);
            for len in [0, 1, 31, 32, 33, 63, 64, 65, 255, 256, 257, 512, 1000] {
                compare_lookups(&cl, &plan, &image, &queries[..len])?;
            }
            compare_lookups(&cl, &plan, &empty(&cl, &plan)?, &[0, 1, EMPTY_KEY])?;
        }
    }
    Ok(())
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn assigning_overwrites_values_and_skips_absent_keys() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let (keys, values) = pairs(300);
    for scheme in [Bucketized::canonical(8), Bucketized::canonical(4), Bucketized::classic(3, 8)] {
        let (plan, mut image, _) = build(cl, &scheme, 320, &keys, &values)?;
        compare_assigned(cl, &plan, &mut image, &keys)?;
    }
    Ok(())
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn compacting_gives_the_image_of_what_is_left() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let (keys, values) = pairs(500);
    for bucket_slots in [4, 8, 16] {
        let (plan, mut image, _) = build(cl, &Bucketized::canonical(bucket_slots), 510, &keys, &values)?;
        let gone: Vec<u32> = keys.iter().copied().step_by(4).collect();
        assert_eq!(remove(cl, &plan, &mut image, &gone)?.pairs, gone.len() as u64);
        // Pairs added while there are tombstones: as by the rule, and every bucket is sorted afterwards.
        let (new_keys, new_values) = ([2_000_000_001, 2_000_000_002], [1, 2]);
        let mut expected = cl.download(&image)?;
        assert_eq!(Bucketized::place(&plan, &mut expected, &[(new_keys[0], 1), (new_keys[1], 2)]), Placing::Placed);
        expected.chunks_exact_mut(bucket_slots as usize).for_each(|bucket| bucket.sort_unstable_by(|a, b| b.cmp(a)));
        assert_eq!(place(cl, &plan, &mut image, &new_keys, &new_values)?, Placed::default());
        assert_eq!(cl.download(&image)?, expected);
        assert_eq!(remove(cl, &plan, &mut image, &new_keys)?.pairs, 2);

        let lifted = Kernels::<Bucketized>::lift(cl, &plan, &mut image)?;
        let chosen = cl.select_pairs(&lifted.taken, true, &lifted.keys, &lifted.values)?;
        assert!(cl.download(&image)?.iter().all(|&word| slot::age(word) <= 1), "tombstones and late pairs are out");
        Kernels::<Bucketized>::place(cl, &plan, &mut image, &chosen.0, &chosen.1)?;
        let stay = (0..500).filter(|i| i % 4 > 0);
        let (keys, values): (Vec<u32>, Vec<u32>) = stay.map(|i| (keys[i], values[i])).unzip();
        assert_eq!(Some(cl.download(&image)?), reference(&plan, &keys, &values), "S = {bucket_slots}");
    }
    let classic = plan(&Bucketized::classic(2, 8), 100, 0);
    let refused = Kernels::<Bucketized>::lift(cl, &classic, &mut empty(cl, &classic)?);
    assert!(matches!(refused, Err(Error::InvalidParameter { .. })));
    Ok(())
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn duplicates_are_counted_and_the_least_is_named() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let (mut keys, mut values) = pairs(300);
    // Two more pairs of one key, one more of two others: four duplicates, of which 17 is the least key.
    keys.splice(0..0, [17, 900_000_001, 5_000_000, 17, 900_000_001]);
    keys.extend([17, 5_000_000]);
    values.extend([5, 7, 1, 2, 3, 9, 8]);
    for scheme in schemes() {
        let (_, _, placed) = build(cl, &scheme, 360, &keys, &values)?;
        assert_eq!(placed, Placed { duplicates: 4, least_duplicate: Some(17), ..Placed::default() }, "{scheme:?}");
    }
    // A batch of duplicates only: reporting them must not be the bottleneck, and nothing may be lost.
    let many = if small() { 1000 } else { 1 << 20 };
    for scheme in schemes() {
        let plan = plan(&scheme, 64, 0);
        let placed = place_in_empty(cl, &plan, &vec![3; many], &noise(1, many))?.1;
        let counted = Placed { duplicates: many as u64 - 1, least_duplicate: Some(3), ..Placed::default() };
        assert!(placed == counted || plan.kind() == Kind::Classic && placed.unplaced > 0, "{scheme:?}: {placed:?}");
    }
    Ok(())
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn duplicates_of_what_an_earlier_batch_brought_raise_its_values() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let (keys, values) = pairs(300);
    let (again, news) = (&keys[100..], &noise(8, 200));
    for scheme in schemes() {
        let (plan, mut image, _) = build(cl, &scheme, 330, &keys, &values)?;
        let placed = place(cl, &plan, &mut image, again, news)?;
        if plan.kind() == Kind::Canonical {
            let all = reference(&plan, &[&keys, again].concat(), &[&values[..], news].concat());
            assert_eq!(Some(cl.download(&image)?), all);
        }
        // A classic table may be too full for duplicates that did not meet at once.
        let counted = Placed { duplicates: 200, least_duplicate: again.iter().min().copied(), ..Placed::default() };
        assert!(placed == counted || plan.kind() == Kind::Classic && placed.unplaced > 0, "{scheme:?}: {placed:?}");
    }
    Ok(())
}

/// Which duplicates meet during a build depends on the schedule; these are already in the image, wherever they can be.
#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn copies_that_never_met_are_found_in_the_finished_image() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    for bucket_slots in [4, 8, 16] {
        let plan = plan(&Bucketized::canonical(bucket_slots), 4096, 0);
        let functions = plan.functions();
        let mut image = vec![slot::EMPTY; plan.words() as usize];
        let mut put = |key: u32, age: u32, value: u32| {
            let (home, remainder) = functions.home(key);
            let bucket = functions.bucket(functions.turn(age), home, remainder) as usize;
            let words = &mut image[bucket * bucket_slots as usize..][..bucket_slots as usize];
            *words.iter_mut().find(|word| **word == slot::EMPTY).expect("memory") = slot::word(age, remainder, value);
        };
        // Ages of which all but the first are duplicates.
        [1, 1, 4].into_iter().for_each(|age| put(77, age, age));
        [2, 3, 6, 14].into_iter().for_each(|age| put(1000, age, age));
        [(1, 5), (1, 6), (2, 5), (3, 5)].into_iter().for_each(|(age, value)| put(50_000, age, value));
        put(60_000, 3, 1);
        let mut image = cl.upload(&image)?;
        let placed = place(cl, &plan, &mut image, &[9], &[9])?;
        assert_eq!(placed, Placed { duplicates: 2 + 3 + 3, least_duplicate: Some(77), ..Placed::default() });
    }
    Ok(())
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn the_empty_markers_key_is_stored_outside() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let classic = plan(&Bucketized::classic(3, 8), 100, 0);
    scheme_tests::the_sentinel_pair_is_stored_outside(cl, &classic, &|plan, image, queries| {
        shapes(cl).iter().try_for_each(|cl| compare_lookups(cl, plan, image, queries))
    })?;
    for plan in [classic, classic.with_outside(Some(1))] {
        let (mut image, _) = place_in_empty(cl, &plan, &[EMPTY_KEY, 5], &[3, 1])?;
        assert_eq!(remove(cl, &plan, &mut image, &[EMPTY_KEY, 5])?, Removed { pairs: 1, outside: true });
    }
    // In a canonical table it is an ordinary key.
    let plan = plan(&Bucketized::canonical(8), 100, 0);
    let (image, placed) = place_in_empty(cl, &plan, &[EMPTY_KEY], &[6])?;
    assert_eq!(placed, Placed::default());
    compare_lookups(cl, &plan, &image, &[EMPTY_KEY])
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn what_cannot_be_built_says_so() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let (keys, values) = pairs(400);
    for scheme in [Bucketized::canonical(8), Bucketized::classic(2, 4), Bucketized::classic(3, 8).reach(1)] {
        let plan = plan(&scheme, 300, 0);
        let unplaced = place_in_empty(cl, &plan, &keys, &values)?.1.unplaced;
        assert!(unplaced >= 400 - plan.words(), "{scheme:?}: {unplaced}");
    }
    Ok(())
}
