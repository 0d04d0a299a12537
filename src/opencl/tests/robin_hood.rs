//! Compares Robin Hood tables of the device with the sequential functions of src/scheme/robin_hood.

use std::collections::HashSet;

use super::{device, noise, small};
use crate::backend::{Decoded, HashBackend, Kernels, Placed, Removed, bitmap_words};
use crate::error::{Error, Result};
use crate::opencl::{Buffer, LookupShape, OpenCl};
use crate::scheme::robin_hood::RobinHoodPlan;
use crate::scheme::robin_hood::Sequence::{self, Coherent, PaperRandom, Random};
use crate::scheme::{Kind, Placing, Plan as _, Request, RobinHood, Scheme as _};

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

fn empty(cl: &OpenCl, plan: &RobinHoodPlan) -> Result<Buffer<u64>> {
    cl.filled(plan.words() as usize, plan.empty_word())
}

fn place(cl: &OpenCl, plan: &RobinHoodPlan, image: &mut Buffer<u64>, keys: &[u32], values: &[u32]) -> Result<Placed> {
    Kernels::<RobinHood>::place(cl, plan, image, &cl.upload(keys)?, &cl.upload(values)?)
}

fn remove(cl: &OpenCl, plan: &RobinHoodPlan, image: &mut Buffer<u64>, keys: &[u32]) -> Result<Removed> {
    Kernels::<RobinHood>::remove(cl, plan, image, &cl.upload(keys)?)
}

fn zipped(keys: &[u32], values: &[u32]) -> Vec<(u32, u32)> {
    keys.iter().copied().zip(values.iter().copied()).collect()
}

/// The sequential image of these pairs, if they fit.
fn reference(plan: &RobinHoodPlan, keys: &[u32], values: &[u32]) -> Option<Vec<u64>> {
    let mut image = vec![plan.empty_word(); plan.words() as usize];
    (RobinHood::place(plan, &mut image, &zipped(keys, values)) != Placing::Unplaced).then_some(image)
}

type Built = (RobinHoodPlan, Buffer<u64>, Placed);

/// The first attempt that places all pairs.
fn build(cl: &OpenCl, scheme: &RobinHood, keys: &[u32], values: &[u32]) -> Result<Built> {
    for attempt in 0..40 {
        let plan = plan(scheme, slots_for(scheme, keys.len()), attempt);
        let mut image = empty(cl, &plan)?;
        let placed = place(cl, &plan, &mut image, keys, values)?;
        assert_eq!(placed.unplaced > 0, reference(&plan, keys, values).is_none(), "{plan:?}");
        if placed.unplaced == 0 {
            return Ok((plan, image, placed));
        }
    }
    panic!("{scheme:?} takes {} pairs in no attempt", keys.len());
}

/// Looks up queries on the device, one key at a time and by runs, and compares each result with the sequential lookup
/// in the same image.
fn compare_lookups(cl: &OpenCl, plan: &RobinHoodPlan, image: &Buffer<u64>, queries: &[u32]) -> Result<()> {
    let (words, on_device) = (cl.download(image)?, cl.upload(queries)?);
    let expected: Vec<_> = queries.iter().map(|&query| RobinHood::find(plan, &words, query)).collect();
    let mut bits = vec![0; bitmap_words(queries.len())];
    expected.iter().enumerate().for_each(|(i, found)| bits[i / 32] |= u32::from(found.is_some()) << (i % 32));
    for shape in [LookupShape::Alone, LookupShape::Runs] {
        let mut values = cl.filled(queries.len(), 0xdead_beefu32)?;
        let mut found = cl.filled(bitmap_words(queries.len()), 0xdead_beefu32)?;
        cl.robin_hood_lookup_as(shape, plan, image, &on_device, &mut values, &mut found)?;
        for ((query, value), expected) in queries.iter().zip(cl.download(&values)?).zip(&expected) {
            assert_eq!(value, expected.unwrap_or(0), "{plan:?}, {shape}: value of {query}");
        }
        assert_eq!(cl.download(&found)?, bits, "{plan:?}, {shape}");
    }
    Ok(())
}

/// Compares columns of pairs with the expected pair of each cell.
fn compare_columns(
    cl: &OpenCl,
    plan: &RobinHoodPlan,
    columns: &Decoded<Buffer<u32>>,
    expected: impl Fn(u64) -> Option<(u32, u32)>,
) -> Result<()> {
    let (keys, values, taken) =
        (cl.download(&columns.keys)?, cl.download(&columns.values)?, cl.download(&columns.taken)?);
    let cells = plan.cells() as usize;
    assert_eq!((keys.len(), values.len(), taken.len()), (cells, cells, bitmap_words(cells)));
    for at in 0..taken.len() * 32 {
        let pair = if at < cells { expected(at as u64) } else { None };
        assert_eq!(taken[at / 32] >> (at % 32) & 1 == 1, pair.is_some(), "{plan:?}, cell {at}");
        if at < cells {
            assert_eq!((keys[at], values[at]), pair.unwrap_or((0, 0)), "{plan:?}, cell {at}");
        }
    }
    Ok(())
}

fn compare_decoded(cl: &OpenCl, plan: &RobinHoodPlan, image: &Buffer<u64>) -> Result<()> {
    let words = cl.download(image)?;
    let columns = Kernels::<RobinHood>::decode(cl, plan, image)?;
    compare_columns(cl, plan, &columns, |at| RobinHood::pair(plan, &words, at))
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
            assert!(Some(cl.download(&image)?) == reference(&plan, &keys, &values), "{scheme:?}, {len} pairs");
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
        let absent_keys: Vec<u32> = (2_000_000_000..2_000_000_050).filter(|key| !keys.contains(key)).collect();
        let changed: Vec<u32> = keys[..200].iter().copied().chain(absent_keys).collect();
        let limits = scheme.limits();
        let new: Vec<u32> = noise(4, changed.len()).iter().map(|value| value & limits.greatest_value()).collect();
        Kernels::<RobinHood>::assign(cl, &plan, &mut image, &cl.upload(&changed)?, &cl.upload(&new)?)?;
        // Values do not affect the places of keys, so this equals the table built with the new ones.
        let mut expected = values.clone();
        expected[..200].copy_from_slice(&new[..200]);
        assert_eq!(Some(cl.download(&image)?), reference(&plan, &keys, &expected), "{scheme:?}");
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
        let (plan, image, placed) = build(cl, &scheme, &keys, &values)?;
        assert_eq!(placed, Placed { duplicates: 4, least_duplicate: Some(17), ..Placed::default() }, "{scheme:?}");
        // The greatest value is kept, as in a sequential build.
        assert_eq!(Some(cl.download(&image)?), reference(&plan, &keys, &values), "{scheme:?}");
    }
    // A batch of duplicates only: reporting them must not be the bottleneck, and nothing may be lost.
    let many = if small() { 1000 } else { 1 << 20 };
    let plan = plan(&RobinHood::canonical(), 16, 0);
    let mut image = empty(cl, &plan)?;
    let placed = place(cl, &plan, &mut image, &vec![3; many], &noise(1, many))?;
    assert_eq!(placed, Placed { duplicates: many as u64 - 1, least_duplicate: Some(3), ..Placed::default() });
    // And duplicates of pairs of an earlier batch.
    let placed = place(cl, &plan, &mut image, &[3, 4, 3], &[0, 0, 0])?;
    assert_eq!((placed.duplicates, placed.least_duplicate), (2, Some(3)));
    Ok(())
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
        compare_columns(cl, &plan, &lifted, above)?;
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
        let placed = place(cl, &plan, &mut empty(cl, &plan)?, &class, &class)?;
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
        let words = plan.words() as usize;
        let noise: Vec<u64> =
            noise(8, 2 * words).chunks(2).map(|two| u64::from(two[0]) << 32 | u64::from(two[1])).collect();
        let fills = [noise, vec![u64::MAX; words], vec![1 << 63; words], vec![1; words]];
        for fill in fills.into_iter().take(if small() { 1 } else { 4 }) {
            let mut image = cl.upload(&fill)?;
            let (keys, values) = pairs(&scheme, if small() { 20 } else { 200 });
            compare_lookups(cl, &plan, &image, &queries(&keys))?;
            compare_decoded(cl, &plan, &image)?;
            place(cl, &plan, &mut image, &keys, &values)?;
            let (there, new) = (cl.upload(&keys)?, cl.upload(&values)?);
            Kernels::<RobinHood>::assign(cl, &plan, &mut image, &there, &new)?;
            if scheme.kind() == Kind::Canonical {
                remove(cl, &plan, &mut image, &keys)?;
                Kernels::<RobinHood>::lift(cl, &plan, &mut image)?;
            }
            compare_decoded(cl, &plan, &image)?;
        }
    }
    Ok(())
}
