//! Compares cuckoo tables of the device with the sequential functions of src/scheme/cuckoo.

use super::{device, noise, small};
use crate::backend::scheme_tests::{
    self, Built, a_batch_of_duplicates_is_counted, audited, compare_answers, compare_assigned, compare_decoded, empty,
    find_all, place, place_in_empty, reference, sequential, zipped,
};
use crate::backend::{HashBackend, Placed};
use crate::error::Result;
use crate::opencl::{Buffer, LookupShape, OpenCl};
use crate::scheme::cuckoo::classic::EMPTY_KEY;
use crate::scheme::{Cuckoo, CuckooPlan, HashFamily, Kind, Placing, Plan as _, Reinsertion, Request, Scheme as _};

fn canonical(functions: u32, pairs: usize) -> CuckooPlan {
    let load = [45, 80, 80, 90][functions as usize - 2];
    plan(&Cuckoo::canonical(functions), pairs, load)
}

fn plan(scheme: &Cuckoo, pairs: usize, load_percent: usize) -> CuckooPlan {
    let slots = (pairs * 100).div_ceil(load_percent) as u64;
    scheme.plan(Request { slots, pairs: pairs as u64, seed: 5, attempt: 0 }).expect("a plan")
}

/// Every program compiled from cl/cuckoo.cl, for `pairs` pairs.
pub(super) fn plans(pairs: usize) -> Vec<CuckooPlan> {
    let mut plans = Vec::new();
    for functions in 2..=5 {
        plans.push(canonical(functions, pairs));
        for family in HashFamily::ALL {
            for rule in Reinsertion::ALL {
                let scheme = Cuckoo::classic(functions).family(family).reinsertion(rule);
                plans.push(plan(&scheme, pairs, [35, 65, 80, 80][functions as usize - 2]));
            }
        }
    }
    plans
}

/// The plan of an attempt, as tables use it until one succeeds.
fn attempt(plan: &CuckooPlan, number: u32) -> CuckooPlan {
    let scheme = Cuckoo::from_plan(plan);
    let scheme = if plan.kind() == Kind::Classic { scheme.chain(plan.chain()) } else { scheme };
    scheme.plan(Request { slots: plan.slots(), pairs: 0, seed: plan.seed(), attempt: number }).expect("a plan")
}

fn sizes() -> &'static [usize] {
    if small() { &[0, 1, 2, 63, 64, 65, 300] } else { &[0, 1, 2, 63, 64, 65, 1000, 20_000] }
}

/// `len` distinct keys with values, extremes first.
fn pairs(len: usize) -> (Vec<u32>, Vec<u32>) {
    let edges = [0, u32::MAX - 1, 1, 1 << 31];
    let mixed = (0..).map(|i: u32| i.wrapping_mul(0x9e37_79b9) ^ 0x5bd1).filter(|key| !edges.contains(key));
    let keys = edges.into_iter().chain(mixed.filter(|&key| key != EMPTY_KEY)).take(len).collect();
    (keys, noise(len as u64 + 9, len))
}

/// The first attempt that places all pairs.
fn build(cl: &OpenCl, plan: &CuckooPlan, keys: &[u32], values: &[u32]) -> Result<Built<OpenCl, CuckooPlan>> {
    scheme_tests::build(cl, &|number| attempt(plan, number), keys, values)
}

/// Compares lookups, one key at a time and by runs, with those of the rule in the same image.
fn compare_lookups(cl: &OpenCl, plan: &CuckooPlan, image: &Buffer<u64>, queries: &[u32]) -> Result<()> {
    let expected = find_all(plan, &cl.download(image)?, queries);
    [LookupShape::Alone, LookupShape::Runs].into_iter().try_for_each(|shape| {
        compare_answers(cl, &format!("{plan:?}, {shape}"), queries, &expected, &|queries, values, found| {
            cl.cuckoo_lookup_as::<Cuckoo>(shape, plan, image, queries, values, found)
        })
    })
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn canonical_images_are_the_sequential_ones_word_for_word() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    for group in [32, 64, 256] {
        let cl = cl.with_group(group);
        for functions in 2..=5 {
            for &len in sizes() {
                let (keys, values) = pairs(len);
                let (plan, image, placed) = build(&cl, &canonical(functions, len), &keys, &values)?;
                assert_eq!(placed, Placed::default());
                let (expected, placing) = sequential(&plan, &zipped(&keys, &values));
                assert_eq!(placing, Placing::Placed);
                assert!(cl.download(&image)? == expected, "H = {functions}, {len} pairs in groups of {group}");
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
    let (plan, image, _) = build(cl, &canonical(3, 500), &keys, &values)?;
    let mut batches = empty(cl, &plan)?;
    for part in [300..500, 0..1, 1..300] {
        place(cl, &plan, &mut batches, &keys[part.clone()], &values[part])?;
    }
    assert_eq!(cl.download(&batches)?, cl.download(&image)?);
    Ok(())
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn every_kind_family_and_rule_builds_sound_tables_with_the_right_answers() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    for &len in if small() { &[130][..] } else { &[0, 1, 65, 5000][..] } {
        let (keys, values) = pairs(len);
        for plan in plans(len) {
            let (plan, image, placed) = build(cl, &plan, &keys, &values)?;
            assert_eq!(placed, Placed::default());
            let words = cl.download(&image)?;
            assert_eq!(audited(&plan, &words).pairs, len as u64);
            assert!(keys.iter().zip(&values).all(|(&key, &value)| Cuckoo::find(&plan, &words, key) == Some(value)));
            let queries: Vec<u32> = keys.iter().copied().chain(noise(77, len)).chain([0, EMPTY_KEY]).collect();
            compare_lookups(cl, &plan, &image, &queries)?;
            compare_decoded(cl, &plan, &image)?;
        }
    }
    Ok(())
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn lookups_of_no_keys_and_in_no_pairs() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    for plan in [canonical(4, 0), plan(&Cuckoo::classic(4), 0, 80)] {
        let image = empty(cl, &plan)?;
        compare_lookups(cl, &plan, &image, &[])?;
        compare_lookups(cl, &plan, &image, &[0, 1, EMPTY_KEY])?;
        compare_decoded(cl, &plan, &image)?;
    }
    Ok(())
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn assigning_overwrites_values_and_skips_absent_keys() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    for plan in [canonical(4, 300), plan(&Cuckoo::classic(4), 300, 80)] {
        let (keys, values) = pairs(300);
        let (plan, mut image, _) = build(cl, &plan, &keys, &values)?;
        compare_assigned(cl, &plan, &mut image, &keys)?;
    }
    Ok(())
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn duplicates_are_counted_and_the_least_is_named() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let (mut keys, mut values) = pairs(300);
    // Two more pairs of one key, one more of two others: four duplicates, of which 17 is the least key.
    keys.splice(0..0, [17, 900_000_001, 5_000_000, 17, 900_000_001]);
    values.splice(0..0, [1, 2, 3, 9, 8]);
    keys.extend([17, 5_000_000]);
    values.extend([5, 7]);
    let in_canonical = canonical(4, keys.len());
    for plan in [in_canonical, plan(&Cuckoo::classic(4), keys.len(), 60)] {
        let (plan, image, placed) = build(cl, &plan, &keys, &values)?;
        assert_eq!(placed, Placed { duplicates: 4, least_duplicate: Some(17), ..Placed::default() });
        if plan.kind() == Kind::Canonical {
            // The greatest value is kept, as in a sequential build.
            assert_eq!(Some(cl.download(&image)?), reference(&plan, &keys, &values));
        }
    }
    a_batch_of_duplicates_is_counted(cl, &canonical(4, 16), if small() { 1000 } else { 1 << 20 })
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn the_empty_markers_key_is_stored_outside() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let classic = plan(&Cuckoo::classic(3), 100, 50);
    scheme_tests::the_sentinel_pair_is_stored_outside(cl, &classic, &|plan, image, queries| {
        compare_lookups(cl, plan, image, queries)
    })?;
    // In a canonical table it is an ordinary key.
    let plan = canonical(4, 100);
    let (image, placed) = place_in_empty(cl, &plan, &[EMPTY_KEY], &[6])?;
    assert_eq!(placed, Placed::default());
    compare_lookups(cl, &plan, &image, &[EMPTY_KEY])
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn what_cannot_be_built_says_so() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let (keys, values) = pairs(400);
    for scheme in [Cuckoo::canonical(3), Cuckoo::classic(3), Cuckoo::classic(3).chain(1)] {
        let plan = plan(&scheme, 300, 100);
        let mut image = empty(cl, &plan)?;
        assert!(place(cl, &plan, &mut image, &keys, &values)?.unplaced >= 100);
    }
    Ok(())
}

/// With one pair at a time there is no race, so the device must follow exactly the chains of the sequential rule. This
/// tests `next_location` and its three rules, which lookups alone would not.
#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn classic_chains_of_one_work_item_are_the_sequential_ones() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let (keys, values) = pairs(if small() { 6 } else { 40 });
    for plan in plans(keys.len()).into_iter().filter(|plan| plan.kind() == Kind::Classic) {
        let mut expected = vec![plan.empty_word(); plan.words() as usize];
        let mut image = empty(cl, &plan)?;
        for (&key, &value) in keys.iter().zip(&values) {
            let rule = Cuckoo::place(&plan, &mut expected, &[(key, value)]);
            let placed = place(cl, &plan, &mut image, &[key], &[value])?;
            assert_eq!(placed.unplaced > 0, rule == Placing::Unplaced, "{plan:?}");
            assert_eq!(cl.download(&image)?, expected, "{plan:?}, key {key}");
            if placed.unplaced > 0 {
                break;
            }
        }
    }
    Ok(())
}
