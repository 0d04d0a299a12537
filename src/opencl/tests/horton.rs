//! Compares Horton tables of the device with the sequential functions of src/scheme/horton.

use super::{device, noise, small};
use crate::backend::scheme_tests::{
    bitmap, compare_answers, compare_assigned, compare_decoded, empty, find_all, place_in_empty, sequential,
    the_sentinel_pair_is_stored_outside, zipped,
};
use crate::backend::{HashBackend, Kernels, Placed, bitmap_words};
use crate::error::Result;
use crate::opencl::{Buffer, LookupShape, OpenCl};
use crate::scheme::horton::tokens::{self, EMPTY, EMPTY_KEY};
use crate::scheme::horton::{Functions, bucket};
use crate::scheme::{Horton, HortonFamily, HortonPlan, Placing, Plan as _, Request, Scheme as _};

/// Canonical tables of every width, with various tags and bits, and their loads in percent.
pub(super) fn canonical() -> Vec<(Horton, &'static [usize])> {
    vec![
        (Horton::canonical(4), &[50, 85, 90]),
        (Horton::canonical(8), &[50, 90, 95]),
        (Horton::canonical(16), &[50, 93, 96]),
        (Horton::canonical(4).tags(16).bits(4), &[85]),
        (Horton::canonical(8).tags(5).bits(4), &[85]),
        (Horton::canonical(16).tags(32).bits(2), &[90]),
        // Few enough tags that most leavers are surplus.
        (Horton::canonical(8).tags(2), &[40]),
    ]
}

fn classic() -> Vec<Horton> {
    let jenkins = |scheme: Horton| scheme.family(HortonFamily::Jenkins);
    let (four, eight, sixteen) = (Horton::classic(4), Horton::classic(8), Horton::classic(16));
    let narrow = jenkins(Horton::classic(8).tags(32).bits(2));
    vec![four.clone(), eight.clone(), sixteen.clone(), jenkins(four), jenkins(eight), jenkins(sixteen), narrow]
}

pub(super) fn plan(scheme: &Horton, pairs: usize, load_percent: usize) -> HortonPlan {
    let slots = (pairs * 100).div_ceil(load_percent) as u64;
    scheme.plan(Request { slots, pairs: pairs as u64, seed: 5, attempt: 0 }).expect("a plan")
}

/// Every kind of program compiled from the sources.
pub(super) fn plans(pairs: usize) -> Vec<HortonPlan> {
    let canonical = canonical().into_iter().map(|(scheme, _)| scheme);
    canonical.chain(classic()).map(|scheme| plan(&scheme, pairs, 50)).collect()
}

/// `len` distinct keys with values, extremes first.
pub(super) fn pairs(len: usize) -> (Vec<u32>, Vec<u32>) {
    let edges = [0, u32::MAX - 1, 1, 1 << 31];
    let mixed = (0..).map(|i: u32| i.wrapping_mul(0x9e37_79b9) ^ 0x5bd1);
    let mixed = mixed.filter(|key| !edges.contains(key) && *key != EMPTY_KEY);
    let keys = edges.into_iter().chain(mixed).take(len).collect();
    let mut values = noise(len as u64 + 9, len);
    // The least possible word, and the greatest value.
    values.iter_mut().zip([0, u32::MAX]).for_each(|(value, edge)| *value = edge);
    (keys, values)
}

/// Builds on the device, compares with the sequential build word by word, and returns the image.
fn compare_builds(cl: &OpenCl, plan: &HortonPlan, keys: &[u32], values: &[u32]) -> Result<(Placing, Buffer<u64>)> {
    let (words, placing) = sequential(plan, &zipped(keys, values));
    let (image, placed) = place_in_empty(cl, plan, keys, values)?;
    if placing == Placing::Unplaced {
        assert!(placed.unplaced > 0, "{plan:?}, {} pairs", keys.len());
    } else {
        assert_eq!(placed, Placed::default(), "{plan:?}, {} pairs", keys.len());
        assert!(cl.download(&image)? == words, "{plan:?}, {} pairs", keys.len());
    }
    Ok((placing, image))
}

/// Compares lookups in all shapes with those of the rule in the same image.
fn compare_lookups(cl: &OpenCl, plan: &HortonPlan, image: &Buffer<u64>, queries: &[u32]) -> Result<()> {
    let expected = find_all(plan, &cl.download(image)?, queries);
    for shape in LookupShape::ALL {
        let what = format!("{plan:?}, {shape}");
        compare_answers(cl, &what, queries, &expected, &|queries, values, found| {
            cl.horton_answers(shape, plan, image, queries, Some(values), found)
        })?;
        let alone = cl.filled(bitmap_words(queries.len()), 0xdead_beefu32)?;
        cl.horton_answers(shape, plan, image, &cl.upload(queries)?, None, &alone)?;
        assert_eq!(cl.download(&alone)?, bitmap(&expected), "{what}, bits alone");
    }
    Ok(())
}

/// Keys, absent keys, and the sentinel key.
fn queries(keys: &[u32], len: usize) -> Vec<u32> {
    let absent_keys = noise(77, len);
    let mixed = keys.iter().rev().zip(absent_keys).flat_map(|(&key, absent_key)| [key, absent_key]);
    [0, EMPTY_KEY].into_iter().chain(mixed).chain(std::iter::repeat(EMPTY_KEY)).take(len).collect()
}

/// The pairs in a shuffled order.
fn shuffled(keys: &[u32], values: &[u32]) -> (Vec<u32>, Vec<u32>) {
    let mut both = zipped(keys, values);
    both.sort_unstable_by_key(|&(key, value)| key.wrapping_mul(0x85eb_ca6b) ^ value);
    both.into_iter().unzip()
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn canonical_images_are_the_sequential_ones_word_for_word() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let sizes: &[usize] = if small() { &[200] } else { &[300, 3000, 20_000] };
    for (turn, group) in [32, 64, 256].into_iter().enumerate() {
        let cl = cl.with_group(group);
        // A simulator tests each scheme with one of the groups.
        let step = if small() { 3 } else { 1 };
        for (scheme, loads) in canonical().into_iter().skip(turn % step).step_by(step) {
            for &len in sizes {
                for &load in if small() { &loads[loads.len() / 2..=loads.len() / 2] } else { loads } {
                    let (keys, values) = pairs(len);
                    let plan = plan(&scheme, len, load);
                    let (placing, image) = compare_builds(&cl, &plan, &keys, &values)?;
                    let (keys, values) = shuffled(&keys, &values);
                    let (_, again) = compare_builds(&cl, &plan, &keys, &values)?;
                    if placing == Placing::Placed {
                        assert_eq!(cl.download(&image)?, cl.download(&again)?);
                        compare_lookups(&cl, &plan, &image, &queries(&keys, len))?;
                        compare_decoded(&cl, &plan, &image)?;
                    }
                }
            }
        }
    }
    Ok(())
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn tables_of_every_small_number_of_pairs() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    for (scheme, loads) in canonical() {
        let step = if small() { 63 } else { 1 };
        for len in (0..=64).step_by(step) {
            let (keys, values) = pairs(len);
            let plan = plan(&scheme, len, loads[0]);
            let (placing, image) = compare_builds(cl, &plan, &keys, &values)?;
            assert_eq!(placing, Placing::Placed);
            compare_lookups(cl, &plan, &image, &queries(&keys, 2 * len + 1))?;
            compare_decoded(cl, &plan, &image)?;
        }
    }
    Ok(())
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn loads_beyond_the_greatest_fail_on_both_sides() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let (keys, values) = pairs(400);
    for slots in [4, 8, 16] {
        // More pairs than words; and as many as slots, which may or may not fit with the stash.
        let few = plan(&Horton::canonical(slots), 300, 100);
        assert_eq!(compare_builds(cl, &few, &keys[..], &values)?.0, Placing::Unplaced);
        for seed in 0..if small() { 2 } else { 10 } {
            let request = Request { slots: 400, pairs: 400, seed, attempt: 0 };
            compare_builds(cl, &Horton::canonical(slots).plan(request)?, &keys, &values)?;
        }
    }
    Ok(())
}

/// `count` keys of one home bucket.
pub(super) fn crowd(functions: &Functions, count: usize) -> Vec<u32> {
    (0..u32::MAX).filter(|&key| functions.home(key).0 == 3).take(count).collect()
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn a_crowd_of_one_home_goes_to_the_stash_until_it_is_too_great() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    for (scheme, _) in canonical().into_iter().step_by(if small() { 3 } else { 1 }) {
        let plan = plan(&scheme, 1000, 50);
        let functions = plan.functions();
        let keys = crowd(&functions, 65);
        let values = noise(3, 65);
        for count in if small() { vec![40] } else { vec![17, 40, 64] } {
            let (placing, image) = compare_builds(cl, &plan, &keys[..count], &values[..count])?;
            if placing == Placing::Placed {
                let words = cl.download(&image)?;
                assert!(count < 40 || !bucket::stashed(&functions, &words).is_empty());
                compare_lookups(cl, &plan, &image, &keys)?;
                compare_decoded(cl, &plan, &image)?;
            }
        }
        assert_eq!(compare_builds(cl, &plan, &keys, &values)?.0, Placing::Unplaced);
    }
    let plan = plan(&Horton::canonical(8), 1000, 50);
    let keys = crowd(&plan.functions(), 40);
    assert_eq!(compare_builds(cl, &plan, &keys, &noise(3, 40))?.0, Placing::Placed);
    Ok(())
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn duplicates_are_counted_and_the_least_is_named() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    for (slots, load) in [(4, 50), (8, 80), (16, 90)] {
        let (mut keys, mut values) = pairs(300);
        // Two more pairs of one key, one more of two others, and a different value with one of them.
        keys.splice(0..0, [17, 900_000_001, 5_000_000, 17, 900_000_001]);
        keys.extend([17, 5_000_000]);
        values.splice(0..0, [1, 2, 3, 9, 8]);
        values.extend([9, 7]);
        let plan = plan(&Horton::canonical(slots), keys.len(), load);
        let placed = place_in_empty(cl, &plan, &keys, &values)?.1;
        assert_eq!(placed, Placed { duplicates: 4, least_duplicate: Some(17), ..Placed::default() });
        // Duplicates that crowd a home.
        let duplicates = (keys.len() + 40) as u64;
        let (mut many, mut with) = (keys.clone(), values.clone());
        many.extend([6; 41]);
        with.extend(noise(2, 41));
        let placed = place_in_empty(cl, &plan, &many, &with)?.1;
        assert_eq!((placed.duplicates, placed.least_duplicate), (4 + duplicates - keys.len() as u64, Some(6)));
    }
    // Enough that only the failure of the attempt can be reported, but soon.
    let many = if small() { 1000 } else { 1 << 20 };
    let plan = plan(&Horton::canonical(8), 16, 50);
    let start = std::time::Instant::now();
    let placed = place_in_empty(cl, &plan, &vec![3; many], &noise(1, many))?.1;
    assert_eq!((placed.unplaced, placed.duplicates), (1, 0));
    assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
    Ok(())
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn the_empty_markers_key_is_stored_outside() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let plan = plan(&Horton::canonical(8), 100, 50);
    the_sentinel_pair_is_stored_outside(cl, &plan, &|plan, image, queries| compare_lookups(cl, plan, image, queries))
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn batches_of_queries_of_every_length() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let count = if small() { 300 } else { 700 };
    let (keys, values) = pairs(count);
    for (turn, group) in [32, 64, 256].into_iter().enumerate() {
        let cl = cl.with_group(group);
        // A simulator tests each width with one of the groups.
        let step = if small() { 3 } else { 1 };
        for (slots, load) in [(4, 85), (8, 90), (16, 93)].into_iter().skip(turn % step).step_by(step) {
            let plan = plan(&Horton::canonical(slots), keys.len(), load);
            let (placing, image) = compare_builds(&cl, &plan, &keys, &values)?;
            assert_eq!(placing, Placing::Placed);
            let lens: &[usize] =
                if small() { &[0, 33, 257] } else { &[0, 1, 31, 32, 33, 63, 64, 65, 255, 256, 257, 512, 1000] };
            for &len in lens {
                compare_lookups(&cl, &plan, &image, &queries(&keys, len))?;
            }
            // All hits, and through the trait.
            let mut found = cl.filled(bitmap_words(count), 0)?;
            let mut got = cl.filled(count, 0)?;
            Kernels::<Horton>::lookup(&cl, &plan, &image, &cl.upload(&keys)?, &mut got, &mut found)?;
            assert_eq!(cl.download(&got)?, values);
        }
    }
    // A table without pairs.
    let plan = plan(&Horton::canonical(8), 0, 50);
    let image = empty(cl, &plan)?;
    compare_lookups(cl, &plan, &image, &[0, 1, EMPTY_KEY])?;
    compare_decoded(cl, &plan, &image)
}

/// A classic image: crowded homes move whole tags to the first of their functions that leads to a bucket with free
/// slots. This is not the paper's rule, but valid for lookups. Returns the keys that found a place.
fn classic_image(plan: &HortonPlan, keys: &[u32], values: &[u32]) -> (Vec<u32>, Vec<u64>) {
    let functions = plan.functions();
    let slots = functions.slots as usize;
    let mut homes = vec![Vec::new(); functions.buckets as usize];
    for (&key, &value) in keys.iter().zip(values) {
        homes[functions.home(key).0 as usize].push((functions.home(key).1, tokens::word(key, value)));
    }
    let crowded: Vec<bool> = homes.iter().map(|home| home.len() > slots).collect();
    let mut image = vec![EMPTY; plan.words() as usize];
    for home in 0..homes.len() {
        if !crowded[home] {
            continue;
        }
        let mut array = 0;
        for tag in 0..functions.tags {
            let (mine, others): (Vec<_>, Vec<_>) = homes[home].iter().partition(|item| item.0 == tag);
            let go = mine.len().min(homes[home].len() - (slots - 1));
            let lead = |i: &u32| functions.remap(home as u32, tag, *i) as usize;
            let capacity = |i: &u32| !crowded[lead(i)] && homes[lead(i)].len() + go <= slots;
            let (1.., Some(i)) = (go, (1..=functions.count).find(capacity)) else { continue };
            array = tokens::with_entry(array, tag, functions.bits, i);
            homes[lead(&i)].extend(&mine[..go]);
            homes[home] = others.into_iter().chain(mine[go..].iter().copied()).collect();
        }
        homes[home].truncate(slots - 1);
        let words: Vec<_> = homes[home].iter().map(|item| item.1).collect();
        bucket::write_b(&mut image[bucket::range(&functions, home as u32)], &words, array);
    }
    for home in (0..homes.len()).filter(|&home| !crowded[home]) {
        let words: Vec<_> = homes[home].iter().map(|item| item.1).collect();
        bucket::write_a(&mut image[bucket::range(&functions, home as u32)], &words);
    }
    let placed = keys.iter().copied().filter(|&key| Horton::find(plan, &image, key).is_some()).collect();
    (placed, image)
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn classic_tables_of_both_families_answer_alike() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let len = if small() { 300 } else { 5000 };
    for scheme in classic() {
        let (keys, values) = pairs(len);
        // Wide buckets overflow later.
        let load = if plan(&scheme, len, 75).bucket_slots() == 16 { 85 } else { 75 };
        let plan = plan(&scheme, len, load);
        let (placed, words) = classic_image(&plan, &keys, &values);
        assert!(placed.len() > len * 9 / 10, "{plan:?}: {}", placed.len());
        let away = placed.iter().filter(|&&key| Horton::reads(&plan, &words, key) == 2).count();
        assert!(away > 0, "{plan:?}: {away}");
        let mut image = cl.upload(&words)?;
        compare_lookups(cl, &plan, &image, &queries(&keys, 2 * len))?;
        compare_decoded(cl, &plan, &image)?;
        compare_assigned(cl, &plan, &mut image, &placed)?;
    }
    Ok(())
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn assigning_overwrites_values_and_skips_absent_keys() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    for (scheme, loads) in canonical() {
        let (keys, values) = pairs(600);
        let plan = plan(&scheme, 600, loads[0]);
        let (placing, mut image) = compare_builds(cl, &plan, &keys, &values)?;
        assert_eq!(placing, Placing::Placed);
        compare_assigned(cl, &plan, &mut image, &keys)?;
    }
    Ok(())
}
