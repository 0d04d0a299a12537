//! Compares two-level tables of the device with the sequential functions of src/scheme/fks.

use super::{device, noise, small};
use crate::backend::scheme_tests::{
    POISON, arbitrary_images, audited, compare_assigned, compare_decoded, compare_lookups, place_over, sequential,
    zipped,
};
use crate::backend::{HashBackend, Placed, Probe};
use crate::error::Result;
use crate::opencl::{Buffer, OpenCl};
use crate::scheme::cuckoo::classic::EMPTY_KEY;
use crate::scheme::fks::tests::defeating;
use crate::scheme::fks::{BUCKET_PAIRS, BUCKET_SLOTS, FksFamily};
use crate::scheme::{Fks, FksPlan, Kind, Placing, Plan as _, Request, Scheme as _};

/// A plan for this many pairs at the default load.
fn plan(scheme: &Fks, pairs: usize, attempt: u32) -> FksPlan {
    let slots = scheme.default_load().slots_for(pairs as u64);
    scheme.plan(Request { slots, pairs: pairs as u64, seed: 5, attempt }).expect("a plan")
}

/// Every program compiled from cl/fks.cl and cl/fks_build.cl.
pub(super) fn plans() -> Vec<FksPlan> {
    schemes().iter().map(|scheme| plan(scheme, 8, 0)).collect()
}

fn schemes() -> [Fks; 3] {
    [Fks::canonical(), Fks::classic(), Fks::classic().family(FksFamily::Sahu)]
}

fn sizes() -> &'static [usize] {
    if small() { &[0, 1, 65, 300, 900] } else { &[0, 1, 2, 63, 64, 65, 409, 512, 1000, 20_000] }
}

/// `len` distinct keys with values, extremes first, including the sentinel key.
fn pairs(len: usize) -> (Vec<u32>, Vec<u32>) {
    let edges = [0, u32::MAX, 1, 1 << 31];
    let mixed = (0..).map(|i: u32| i.wrapping_mul(0x9e37_79b9) ^ 0x5bd1).filter(|key| !edges.contains(key));
    (edges.into_iter().chain(mixed).take(len).collect(), noise(len as u64 + 9, len))
}

/// Places pairs in a poisoned image, so that words that are not written are detected.
fn place(cl: &OpenCl, plan: &FksPlan, keys: &[u32], values: &[u32]) -> Result<(Buffer<u64>, Placed)> {
    place_over(cl, POISON, plan, keys, values)
}

/// The first attempt that places all pairs, with the plan of its table.
fn build(cl: &OpenCl, scheme: &Fks, keys: &[u32], values: &[u32]) -> Result<(FksPlan, Buffer<u64>, Placed)> {
    for attempt in 0..32 {
        let plan = plan(scheme, keys.len(), attempt);
        let (image, placed) = place(cl, &plan, keys, values)?;
        if placed.unplaced == 0 {
            return Ok((plan.with_outside(placed.outside), image, placed));
        }
    }
    panic!("{scheme:?} takes {} pairs in no attempt", keys.len());
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn canonical_images_are_the_sequential_ones_word_for_word() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    for group in [32, 64, 256] {
        let cl = cl.with_group(group);
        for &len in sizes() {
            let (keys, values) = pairs(len);
            let (plan, image, placed) = build(&cl, &Fks::canonical(), &keys, &values)?;
            assert_eq!(placed, Placed::default());
            let (expected, placing) = sequential(&plan, &zipped(&keys, &values));
            assert_eq!(placing, Placing::Placed);
            assert!(cl.download(&image)? == expected, "{len} pairs in groups of {group}");
        }
    }
    Ok(())
}

/// A full bucket often needs more than one seed number: the device must choose the one of the rule.
#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn full_buckets_take_the_seed_numbers_of_the_rule() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let (keys, values) = pairs(BUCKET_PAIRS as usize);
    let mut beyond_first = 0;
    for attempt in 0..if small() { 4 } else { 60 } {
        let plan = plan(&Fks::canonical(), 1, attempt);
        let (image, placed) = place(cl, &plan, &keys, &values)?;
        assert_eq!(placed, Placed::default());
        let (expected, placing) = sequential(&plan, &zipped(&keys, &values));
        assert_eq!(placing, Placing::Placed);
        assert!(cl.download(&image)? == expected, "attempt {attempt}");
        beyond_first += u32::from(expected[BUCKET_SLOTS as usize] > 0);
    }
    assert!(beyond_first > 0 || small());
    Ok(())
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn classic_tables_of_both_families_are_sound_and_answer_right() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    for group in [32, 64, 256] {
        let cl = cl.with_group(group);
        for scheme in schemes().iter().filter(|scheme| scheme.kind() == Kind::Classic) {
            for &len in sizes() {
                let (keys, values) = pairs(len);
                let (plan, image, placed) = build(&cl, scheme, &keys, &values)?;
                let outside = (len > 1).then(|| values[1]);
                assert_eq!(placed, Placed { outside, ..Placed::default() });
                let words = cl.download(&image)?;
                assert_eq!(audited(&plan, &words).pairs + u64::from(outside.is_some()), len as u64);
                assert!(keys.iter().zip(&values).all(|(&key, &value)| Fks::find(&plan, &words, key) == Some(value)));
            }
        }
    }
    Ok(())
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn lookups_and_columns_are_those_of_the_sequential_functions() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    for scheme in schemes() {
        for len in if small() { [0, 300] } else { [0, 5000] } {
            let (keys, values) = pairs(len);
            let (plan, image, _) = build(cl, &scheme, &keys, &values)?;
            let queries: Vec<u32> = keys.iter().copied().chain(noise(77, len)).chain([0, EMPTY_KEY]).collect();
            compare_lookups(cl, &plan, &image, &queries)?;
            compare_lookups(cl, &plan, &image, &[])?;
            compare_decoded(cl, &plan, &image)?;
            // Any image may be read, including one that no build created.
            let [noise, ..] = arbitrary_images(&plan, 1);
            for image in [cl.upload(&noise)?, cl.filled(noise.len(), plan.empty_word())?] {
                compare_lookups(cl, &plan, &image, &queries)?;
                compare_decoded(cl, &plan, &image)?;
            }
        }
    }
    Ok(())
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn assigning_overwrites_values_and_skips_absent_keys() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    for scheme in schemes() {
        let (keys, values) = pairs(600);
        let (plan, mut image, _) = build(cl, &scheme, &keys, &values)?;
        compare_assigned(cl, &plan, &mut image, &keys)?;
    }
    Ok(())
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn duplicates_are_counted_and_the_least_is_named() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let (mut keys, mut values) = pairs(900);
    // Two more pairs of one key, one more of two others, three of the sentinel key: seven duplicates, of which 17 is
    // the least key.
    keys.extend([17, 900_000_001, 5_000_000, 17, 900_000_001, EMPTY_KEY, EMPTY_KEY, EMPTY_KEY, 17, 5_000_000]);
    values.extend([1, 2, 3, 9, 8, 1, 2, 3, 5, 7]);
    for scheme in schemes() {
        let (plan, image, placed) = build(cl, &scheme, &keys, &values)?;
        let outside = (plan.kind() == Kind::Classic).then(|| values[1].max(3));
        assert_eq!(
            placed,
            Placed { duplicates: 7, least_duplicate: Some(17), outside, unplaced: 0, stash: 0 },
            "{scheme:?}"
        );
        // The greatest value is kept.
        let words = cl.download(&image)?;
        assert_eq!(Fks::find(&plan, &words, 17), Some(9));
        if plan.kind() == Kind::Canonical {
            assert_eq!(sequential(&plan, &zipped(&keys, &values)), (words, Placing::Duplicate(17)));
        }
    }
    Ok(())
}

/// Tests more pairs than a bucket can hold, of which exactly the surplus is counted, and keys that share all their
/// slots.
#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn what_cannot_be_built_says_so() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let (keys, values) = pairs(600);
    let in_image = |plan: &FksPlan| keys.iter().filter(|&&key| Some(key) != plan.outside_key()).count() as u64;
    for scheme in schemes() {
        let plan = plan(&scheme, 1, 0);
        let (_, placed) = place(cl, &plan, &keys, &values)?;
        assert_eq!(placed.unplaced, in_image(&plan) - u64::from(BUCKET_PAIRS), "{scheme:?}");
        // As many duplicates of one key as fit, and more: duplicates take no slot, but count until they are detected.
        let (_, placed) = place(cl, &plan, &[3; 513], &[0; 513])?;
        assert_eq!(placed.unplaced, 1, "{scheme:?}");
        let (image, placed) = place(cl, &plan, &[3; 512], &noise(1, 512))?;
        assert_eq!(placed, Placed { duplicates: 511, least_duplicate: Some(3), ..Placed::default() }, "{scheme:?}");
        assert_eq!(Fks::find(&plan, &cl.download(&image)?, 3), noise(1, 512).into_iter().max());
    }
    // For each of Sahu's seeds, four keys that share all their slots.
    let plan = plan(&Fks::classic().family(FksFamily::Sahu).iterations(3), 1, 0);
    let keys = if small() { return Ok(()) } else { defeating(&plan) };
    let (_, placed) = place(cl, &plan, &keys, &keys)?;
    assert!((1..keys.len() as u64).contains(&placed.unplaced), "{placed:?}");
    Ok(())
}

/// The poster's stages, by name and in order.
#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn a_build_is_seen_in_its_stages() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let (keys, values) = pairs(2000);
    let (_, stages) = cl.stages(|| build(cl, &Fks::canonical(), &keys, &values))?;
    let names: Vec<_> = stages.iter().map(|stage| stage.name).filter(|name| name.starts_with("fks")).collect();
    assert_eq!(names, ["fks_count", "fks_scan", "fks_shuffle", "fks_cuckoo"]);
    Ok(())
}
