//! Compares Robin Hood tables of the device with the sequential functions of src/scheme/robin_hood.

use std::collections::HashSet;

use super::{device, noise, small};
use crate::backend::scheme_tests::{
    Built, a_batch_of_duplicates_is_counted, arbitrary_images, arbitrary_images_are_read_and_changed,
    build_as_by_the_rule, compare_answers, compare_assigned, compare_columns, compare_decoded, empty, find_all, place,
    place_in_empty, reference, remove, zipped,
};
use crate::backend::{HashBackend, Kernels, Placed, Removed};
use crate::error::{Error, Result};
use crate::opencl::{Buffer, LookupShape, OpenCl};
use crate::scheme::robin_hood::RobinHoodPlan;
use crate::scheme::robin_hood::Sequence::{self, Coherent, PaperRandom, Random};
use crate::scheme::{Kind, Request, RobinHood, Scheme as _};

/// Every sequence with every kind, and with each kind every number of bits.
pub(in crate::opencl) fn schemes() -> Vec<RobinHood> {
    let with = |scheme: RobinHood, all: &[(Sequence, u32)]| -> Vec<RobinHood> {
        all.iter().map(|&(sequence, bits)| scheme.clone().sequence(sequence).max_ages(bits)).collect()
    };
    let canonical = [(Coherent, 0), (Coherent, 2), (Coherent, 3), (Coherent, 4), (Random, 0), (PaperRandom, 3)];
    let pairs = [(Coherent, 0), (Coherent, 2), (Coherent, 3), (Coherent, 4), (Random, 4), (PaperRandom, 2)];
    let keys = [(Coherent, 4), (Random, 0), (Random, 2), (PaperRandom, 3)];
    let mut schemes = with(RobinHood::canonical(), &canonical);
    schemes.extend(with(RobinHood::classic(), &pairs));
    schemes.extend(with(RobinHood::classic().keys_alone(), &keys));
    schemes
}

/// One plan for each program compiled from cl/robin_hood.cl.
pub(super) fn plans() -> Vec<RobinHoodPlan> {
    schemes().iter().map(|scheme| plan(scheme, 1000, 0)).collect()
}

fn plan(scheme: &RobinHood, slots: usize, attempt: u32) -> RobinHoodPlan {
    scheme.plan(Request { slots: slots as u64, pairs: 0, seed: 5, attempt }).expect("a plan")
}

/// Slots for this many pairs at a load that the kind supports.
fn slots_for(scheme: &RobinHood, pairs: usize) -> usize {
    let percent = match (scheme.kind(), plan(scheme, 0, 0).sequence()) {
        (Kind::Classic, PaperRandom) => 65,
        (Kind::Classic, _) => 80,
        (_, PaperRandom) => 85,
        _ => 97,
    };
    (pairs * 100).div_ceil(percent)
}

/// `len` distinct keys with values that fit the scheme, extremes first; a third of the keys are neighbours.
fn pairs(scheme: &RobinHood, len: usize) -> (Vec<u32>, Vec<u32>) {
    let limits = scheme.limits();
    let mixed = (0..).map(|i: u32| if i.is_multiple_of(3) { 5000 + i } else { i.wrapping_mul(0x9e37_79b9) ^ 0x5bd1 });
    let mut seen = HashSet::new();
    let keys = [0, u32::MAX, 1, 1 << 27].into_iter().chain(mixed).map(|key| key & limits.greatest_key());
    let keys = keys.filter(|&key| seen.insert(key)).take(len).collect();
    let mut values = noise(len as u64 + 9, len);
    values.iter_mut().zip([0, u32::MAX]).for_each(|(value, edge)| *value = edge);
    values.iter_mut().for_each(|value| *value &= limits.greatest_value());
    (keys, values)
}

/// The first attempt that places all pairs, which is that of the rule.
fn build(cl: &OpenCl, scheme: &RobinHood, keys: &[u32], values: &[u32]) -> Result<Built<OpenCl, RobinHoodPlan>> {
    let slots = slots_for(scheme, keys.len());
    build_as_by_the_rule(cl, &|attempt| plan(scheme, slots, attempt), keys, values)
}

/// Compares lookups, one key at a time and by runs, with those of the rule in the same image.
fn compare_lookups(cl: &OpenCl, plan: &RobinHoodPlan, image: &Buffer<u64>, queries: &[u32]) -> Result<()> {
    let expected = find_all(plan, &cl.download(image)?, queries);
    [LookupShape::Alone, LookupShape::Runs].into_iter().try_for_each(|shape| {
        compare_answers(cl, &format!("{plan:?}, {shape}"), queries, &expected, &|queries, values, found| {
            cl.robin_hood_lookup_as(shape, plan, image, queries, values, found)
        })
    })
}

/// Keys and absent keys, neighbours of both, extremes, and keys too wide for some cells.
fn queries(keys: &[u32]) -> Vec<u32> {
    let wide = keys.iter().map(|key| key | 1 << 28);
    let beside = keys.iter().map(|key| key.wrapping_add(1));
    keys.iter().copied().chain(wide).chain(beside).chain(noise(77, keys.len())).chain([0, u32::MAX, 1 << 31]).collect()
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn images_are_the_sequential_ones_word_for_word_and_answer() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    for scheme in schemes() {
        for &len in if small() { &[0, 65][..] } else { &[0, 1, 63, 64, 65, 1000, 20_000] } {
            let (keys, values) = pairs(&scheme, len);
            let (plan, image, placed) = build(cl, &scheme, &keys, &values)?;
            assert_eq!(placed, Placed::default());
            compare_lookups(cl, &plan, &image, &queries(&keys))?;
            compare_decoded(cl, &plan, &image)?;
        }
        compare_lookups(cl, &plan(&scheme, 10, 0), &empty(cl, &plan(&scheme, 10, 0))?, &[])?;
    }
    Ok(())
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn neither_groups_nor_batches_matter() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    for bits in [0, 3] {
        let scheme = RobinHood::canonical().max_ages(bits);
        let len = if small() { 150 } else { 5000 };
        let (keys, values) = pairs(&scheme, len);
        let (plan, image, _) = build(cl, &scheme, &keys, &values)?;
        let image = cl.download(&image)?;
        for group in [32, 256] {
            let cl = cl.with_group(group);
            let mut batches = empty(&cl, &plan)?;
            for part in [len / 2..len, 0..1, 1..len / 2, 0..0] {
                place(&cl, &plan, &mut batches, &keys[part.clone()], &values[part])?;
            }
            assert_eq!(cl.download(&batches)?, image, "groups of {group}");
            compare_lookups(&cl, &plan, &batches, &queries(&keys))?;
        }
    }
    Ok(())
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn assigning_overwrites_values_and_skips_absent_keys() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    for scheme in schemes() {
        let (keys, values) = pairs(&scheme, if small() { 230 } else { 300 });
        let (plan, mut image, _) = build(cl, &scheme, &keys, &values)?;
        compare_assigned(cl, &plan, &mut image, &keys)?;
    }
    Ok(())
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn duplicates_are_counted_and_the_least_is_named() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    for scheme in schemes() {
        let (mut keys, mut values) = pairs(&scheme, if small() { 90 } else { 300 });
        keys.retain(|key| ![17, 90_000_001, 5_000_000].contains(key));
        values.truncate(keys.len());
        // Two more pairs of one key, one more of two others: four duplicates, of which 17 is the least key.
        keys.splice(0..0, [17, 90_000_001, 5_000_000, 17, 90_000_001]);
        values.splice(0..0, [1, 2, 3, 9, 8].map(|value| value & scheme.limits().greatest_value()));
        keys.extend([17, 5_000_000]);
        values.extend([5, 7].map(|value| value & scheme.limits().greatest_value()));
        // The greatest value is kept, as in a sequential build.
        let (_, _, placed) = build(cl, &scheme, &keys, &values)?;
        assert_eq!(placed, Placed { duplicates: 4, least_duplicate: Some(17), ..Placed::default() }, "{scheme:?}");
    }
    let plan = plan(&RobinHood::canonical(), 16, 0);
    a_batch_of_duplicates_is_counted(cl, &plan, if small() { 1000 } else { 1 << 20 })
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn removed_pairs_leave_tombstones_and_compacting_takes_them_away() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    for scheme in schemes().into_iter().filter(|scheme| scheme.kind() == Kind::Canonical) {
        let (keys, values) = pairs(&scheme, if small() { 200 } else { 3000 });
        let (plan, mut image, _) = build(cl, &scheme, &keys, &values)?;
        let mut expected = cl.download(&image)?;
        // A third of the keys, some twice, and absent keys.
        let third: Vec<u32> = keys.iter().copied().step_by(3).collect();
        let gone: Vec<u32> = third.iter().chain(&third[..9]).copied().chain(noise(3, 50)).collect();
        let removed = remove(cl, &plan, &mut image, &gone)?;
        assert_eq!(removed, Removed { pairs: third.len() as u64, outside: false }, "{scheme:?}");
        RobinHood::remove(&plan, &mut expected, &gone);
        assert_eq!(cl.download(&image)?, expected, "{scheme:?}");
        compare_lookups(cl, &plan, &image, &queries(&keys))?;
        assert_eq!(remove(cl, &plan, &mut image, &gone)?.pairs, 0, "once is enough");

        let lifted = Kernels::<RobinHood>::lift(cl, &plan, &mut image)?;
        let above = |at| RobinHood::pair(&plan, &expected, at).filter(|_| RobinHood::age(&plan, &expected, at) > 1);
        compare_columns(cl, &plan, &lifted, &above)?;
        let columns = cl.select_pairs(&lifted.taken, true, &lifted.keys, &lifted.values)?;
        let placed = Kernels::<RobinHood>::place(cl, &plan, &mut image, &columns.0, &columns.1)?;
        assert_eq!(placed, Placed::default());
        let (keys_left, values_left): (Vec<u32>, Vec<u32>) =
            zipped(&keys, &values).into_iter().enumerate().filter(|(i, _)| i % 3 != 0).map(|(_, pair)| pair).unzip();
        assert_eq!(Some(cl.download(&image)?), reference(&plan, &keys_left, &values_left), "{scheme:?}");
    }
    let plan = plan(&RobinHood::classic(), 100, 0);
    let mut image = empty(cl, &plan)?;
    let refused = |result: Result<()>| assert!(matches!(result, Err(Error::InvalidParameter { .. })), "{result:?}");
    refused(remove(cl, &plan, &mut image, &[1]).map(drop));
    refused(Kernels::<RobinHood>::lift(cl, &plan, &mut image).map(drop));
    Ok(())
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn a_class_fills_its_list_and_then_fails() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    for scheme in [RobinHood::canonical(), RobinHood::canonical().sequence(PaperRandom), RobinHood::classic()] {
        let plan = plan(&scheme, 1000, 0);
        let seats = plan.rule().functions.seats(plan.layout().max_age) as u32;
        let class: Vec<u32> = (0..seats + 3).map(|i| 5 + i * plan.slot_count()).collect();
        let mut image = empty(cl, &plan)?;
        let fitting = &class[..seats as usize];
        assert_eq!(place(cl, &plan, &mut image, fitting, fitting)?, Placed::default());
        assert_eq!(Some(cl.download(&image)?), reference(&plan, fitting, fitting));
        compare_lookups(cl, &plan, &image, &class)?;
        let placed = place_in_empty(cl, &plan, &class, &class)?.1;
        assert_eq!((placed.unplaced, placed.duplicates), (3, 0), "{scheme:?}");
    }
    Ok(())
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn any_image_can_be_read_and_built_on() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    for scheme in schemes() {
        let plan = plan(&scheme, if small() { 40 } else { 300 }, 0);
        let (keys, values) = pairs(&scheme, if small() { 20 } else { 200 });
        let images = arbitrary_images(&plan, 8);
        let images = &images[..if small() { 1 } else { images.len() }];
        let queries = queries(&keys);
        for words in images {
            compare_lookups(cl, &plan, &cl.upload(words)?, &queries)?;
        }
        arbitrary_images_are_read_and_changed(cl, &plan, images, (&keys, &values), &queries)?;
    }
    Ok(())
}
