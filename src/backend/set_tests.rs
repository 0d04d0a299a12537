//! Checks of a backend's sets against the sequential rule of `scheme/cuckoo_set.rs`; each backend's tests run them.

use std::collections::BTreeMap;

use super::scheme_tests::{self, compare_columns, compare_decoded, compare_lookups};
use super::{Kernels, Placed};
use crate::error::Error;
use crate::scheme::cuckoo::classic::EMPTY_KEY;
use crate::scheme::cuckoo_set::{CuckooSetPlan, clean_up};
use crate::scheme::hash::SplitMix64;
use crate::scheme::{CuckooSet, HashFamily, Kind, Placing, Plan as _, Reinsertion, Request, Scheme as _};

/// Distinct keys, the extremes first.
fn distinct(len: usize) -> Vec<u32> {
    let edges = [0, EMPTY_KEY, 1, EMPTY_KEY - 1];
    let mixed = (0..).map(|i: u32| i.wrapping_mul(0x9e37_79b9) ^ 0x5bd1).filter(|key| !edges.contains(key));
    edges.into_iter().chain(mixed).take(len).collect()
}

/// Each key once, every third one twice, every seventh three more times, in mixed order.
fn repeated(keys: &[u32]) -> Vec<u32> {
    let thirds = keys.iter().step_by(3);
    let sevenths = keys.iter().step_by(7);
    thirds.chain(sevenths.clone()).chain(keys).chain(sevenths.clone().rev()).chain(sevenths).copied().collect()
}

/// The expected result of adding keys to an image with others.
fn expected(before: &[u32], added: &[u32], kind: Kind) -> Placed {
    let mut times: BTreeMap<u32, u64> = BTreeMap::new();
    before.iter().chain(added).for_each(|&key| *times.entry(key).or_default() += 1);
    Placed {
        unplaced: 0,
        duplicates: times.values().map(|times| times - 1).sum(),
        least_duplicate: times.iter().find(|&(_, &times)| times > 1).map(|(&key, _)| key),
        outside: (kind == Kind::Classic && added.contains(&EMPTY_KEY)).then_some(0),
        stash: 0,
    }
}

fn place<B: Kernels<CuckooSet>>(backend: &B, plan: &CuckooSetPlan, image: &mut B::Buffer<u64>, keys: &[u32]) -> Placed {
    let (keys, values) = (backend.upload(keys).expect("memory"), backend.filled(keys.len(), 0).expect("memory"));
    backend.place(plan, image, &keys, &values).expect("placed")
}

fn empty<B: Kernels<CuckooSet>>(backend: &B, plan: &CuckooSetPlan) -> B::Buffer<u64> {
    scheme_tests::empty(backend, plan).expect("memory")
}

/// The first attempt that succeeds for these keys, with this number of slots.
fn plans(
    scheme: &CuckooSet,
    slots: usize,
    keys: &[u32],
    mut fits: impl FnMut(&CuckooSetPlan) -> bool,
) -> CuckooSetPlan {
    let request = |attempt| Request { slots: slots as u64, pairs: keys.len() as u64, seed: 5, attempt };
    let mut plans = (0..40).map(|attempt| scheme.plan(request(attempt)).expect("a plan"));
    plans.find(|plan| fits(plan)).unwrap_or_else(|| panic!("{scheme:?}: no attempt for {} keys", keys.len()))
}

/// A valid image of these keys by the sequential rule.
fn reference(scheme: &CuckooSet, slots: usize, keys: &[u32]) -> (CuckooSetPlan, Vec<u64>) {
    let mut image = Vec::new();
    let pairs: Vec<_> = keys.iter().map(|&key| (key, 0)).collect();
    let plan = plans(scheme, slots, keys, |plan| {
        image = vec![plan.empty_word(); plan.words() as usize];
        CuckooSet::place(plan, &mut image, &pairs) == Placing::Placed
    });
    (plan, image)
}

fn load_percent(scheme: &CuckooSet, below: usize) -> usize {
    (scheme.default_load().get() * 100.0) as usize - below
}

fn slots_for(len: usize, percent: usize) -> usize {
    (len * 100).div_ceil(percent)
}

/// The image equals that of the rule, for keys with and without duplicates, at once or in batches, and for odd and even
/// numbers of slots; counts are exact.
pub(crate) fn canonical_images_equal_the_sequential_rule<B: Kernels<CuckooSet>>(backend: &B, sizes: &[usize]) {
    for functions in 2..=5 {
        let scheme = CuckooSet::canonical(functions);
        for (&len, odd) in sizes.iter().flat_map(|len| [(len, 0), (len, 1)]) {
            let keys = distinct(len);
            let slots = slots_for(len, load_percent(&scheme, 0)).next_multiple_of(2) + odd;
            let (plan, image) = reference(&scheme, slots, &keys);
            let often = repeated(&keys);
            let (first, second) = often.split_at(often.len() / 3);
            for batches in [&[&keys[..]][..], &[&often[..]], &[first, second]] {
                let mut there = empty(backend, &plan);
                let mut before = Vec::new();
                for &batch in batches {
                    let placed = place(backend, &plan, &mut there, batch);
                    assert_eq!(placed, expected(&before, batch, Kind::Canonical), "H = {functions}, {len} keys");
                    before.extend_from_slice(batch);
                    before.sort_unstable();
                    before.dedup();
                }
                assert!(backend.download(&there).expect("readable") == image, "H = {functions}, {len} keys, {slots}");
            }
        }
    }
}

/// The paper's race leaves each key once, in every family and under every rule, with and without existing keys.
pub(crate) fn classic_sets_hold_each_key_once<B: Kernels<CuckooSet>>(backend: &B, sizes: &[usize]) {
    for functions in 2..=5 {
        for (family, rule) in HashFamily::ALL.into_iter().flat_map(|f| Reinsertion::ALL.map(|rule| (f, rule))) {
            let scheme = CuckooSet::classic(functions).family(family).reinsertion(rule);
            for &len in sizes {
                let keys = distinct(len);
                let often = repeated(&keys);
                let slots = slots_for(len, load_percent(&scheme, 10)) | 1;
                let (first, second) = often.split_at(often.len() / 2);
                let mut found = None;
                plans(&scheme, slots, &keys, |plan| {
                    let mut there = empty(backend, plan);
                    let placed = place(backend, plan, &mut there, first);
                    if placed.unplaced > 0 {
                        return false;
                    }
                    assert_eq!(placed, expected(&[], first, Kind::Classic), "{scheme:?}, {len} keys");
                    let plan = plan.with_outside(placed.outside);
                    let mut before = first.to_vec();
                    before.sort_unstable();
                    before.dedup();
                    let placed = place(backend, &plan, &mut there, second);
                    if placed.unplaced > 0 {
                        return false;
                    }
                    assert_eq!(placed, expected(&before, second, Kind::Classic), "{scheme:?}, {len} keys, again");
                    let outside = placed.outside.or(plan.outside().map(|(_, value)| value));
                    found = Some((plan.with_outside(outside), backend.download(&there).expect("readable")));
                    true
                });
                let (plan, image) = found.expect("an attempt");
                let audit = CuckooSet::audit(&plan, &image, 0..plan.cells()).expect("sound");
                assert_eq!(audit.pairs + u64::from(plan.outside().is_some()), len as u64);
                assert!(keys.iter().all(|&key| CuckooSet::find(&plan, &image, key) == Some(0)), "{scheme:?}");
            }
        }
    }
}

/// In images with duplicates, exactly those slots are emptied and counted that a lookup does not find.
pub(crate) fn the_clean_up_empties_later_duplicates<B: Kernels<CuckooSet>>(backend: &B, len: usize) {
    for functions in 2..=5 {
        let scheme = CuckooSet::classic(functions);
        let plan = plans(&scheme, 4 * len + 1, &[], |_| true);
        let lists = plan.cuckoo().functions();
        let mut image = vec![plan.empty_word(); plan.words() as usize];
        let slots: &mut [u32] = bytemuck::cast_slice_mut(&mut image);
        // Later keys displace earlier ones, so that many are stored at only some of their places.
        let keys = distinct(len + 2).into_iter().filter(|&key| key != EMPTY_KEY);
        keys.for_each(|key| lists.locations(key).for_each(|at| slots[at as usize] = key));
        let mut there = backend.upload(&image).expect("memory");
        let mut times: BTreeMap<u32, u64> = BTreeMap::new();
        let in_slots = bytemuck::cast_slice::<u64, u32>(&image)[..plan.cells() as usize].iter();
        in_slots.filter(|&&key| key != EMPTY_KEY).for_each(|&key| *times.entry(key).or_default() += 1);
        let duplicates = clean_up(&plan, &mut image);
        assert_eq!(duplicates, times.values().map(|times| times - 1).sum::<u64>());
        assert!(duplicates > len as u64 / 2);
        let least_duplicate = times.iter().find(|&(_, &times)| times > 1).map(|(&key, _)| key);
        // Without new keys, existing ones are still deduplicated.
        let placed = place(backend, &plan, &mut there, &[]);
        assert_eq!(placed, Placed { duplicates, least_duplicate, ..Placed::default() });
        assert!(backend.download(&there).expect("readable") == image, "H = {functions}");
    }
}

/// Lookups, decoded columns, removals and lifts, in valid images and in arbitrary ones.
pub(crate) fn passes_agree_with_the_rule<B: Kernels<CuckooSet>>(backend: &B, len: usize) {
    let mut stream = SplitMix64::new(8);
    for functions in [2, 3, 4, 5] {
        for scheme in [CuckooSet::canonical(functions), CuckooSet::classic(functions)] {
            let mut keys = distinct(len);
            keys.retain(|&key| scheme.kind() == Kind::Canonical || key != EMPTY_KEY);
            let (plan, image) = reference(&scheme, slots_for(len, load_percent(&scheme, 5)) | 1, &keys);
            let noise: Vec<u64> = image.iter().map(|_| stream.next_u64()).collect();
            keys.extend((0..len + 37).map(|_| stream.next_u32()));
            keys.extend([0, EMPTY_KEY]);
            let same = |word: u64| vec![word; image.len()];
            for image in [image.clone(), noise, same(0), same(u64::MAX), same(1 << 63), same(0xf000_0000_0000_0000)] {
                let there = backend.upload(&image).expect("memory");
                for outside in [None, Some(0)] {
                    if outside.is_none() || plan.kind() == Kind::Classic {
                        compare_lookups(backend, &plan.with_outside(outside), &there, &keys).expect("looked up");
                    }
                }
                compare_decoded(backend, &plan, &there).expect("decoded");
            }
            removed(backend, &plan, &image, &keys[..len / 2]);
        }
    }
}

/// Removes keys, some of them twice; and lifts the pairs above age 1, in canonical sets.
fn removed<B: Kernels<CuckooSet>>(backend: &B, plan: &CuckooSetPlan, image: &[u64], gone: &[u32]) {
    let twice = [gone, &gone[..gone.len() / 2]].concat();
    let mut there = backend.upload(image).expect("memory");
    let removed = scheme_tests::remove(backend, plan, &mut there, &twice).expect("removed");
    let mut rest = image.to_vec();
    assert_eq!((removed.pairs, removed.outside), (CuckooSet::remove(plan, &mut rest, gone), false));
    assert_eq!(removed.pairs, gone.len() as u64);
    assert!(backend.download(&there).expect("readable") == rest);
    if plan.kind() == Kind::Classic {
        assert!(matches!(backend.lift(plan, &mut there), Err(Error::InvalidParameter { .. })));
        let removed = scheme_tests::remove(backend, plan, &mut there, &[EMPTY_KEY]).expect("removed");
        assert_eq!((removed.pairs, removed.outside), (0, true));
        return;
    }
    let lifted = backend.lift(plan, &mut there).expect("lifted");
    let is_old = |&at: &u64| CuckooSet::age(plan, &rest, at) > 1;
    let pair = |at| Some(at).filter(is_old).and_then(|at| CuckooSet::pair(plan, &rest, at));
    compare_columns(backend, plan, &lifted, &pair).expect("readable");
    let after = backend.download(&there).expect("readable");
    let ages: Vec<u32> = (0..plan.cells()).map(|at| CuckooSet::age(plan, &after, at)).collect();
    assert!(ages.iter().all(|&age| age <= 1));
    let audit = CuckooSet::audit(plan, &after, 0..plan.cells()).expect("sound");
    assert_eq!((audit.pairs, audit.tombstones), (ages.iter().map(|&age| u64::from(age)).sum(), 0));
}

/// One key many times, and one key in half of the rows: it is stored once, and duplicates are counted.
pub(crate) fn duplicates_of_heavy_keys_are_stored_once<B: Kernels<CuckooSet>>(backend: &B, len: usize) {
    for scheme in [CuckooSet::canonical(4), CuckooSet::classic(4), CuckooSet::classic(2)] {
        for key in [7, EMPTY_KEY] {
            let plan = plans(&scheme, 17, &[], |_| true);
            let mut image = empty(backend, &plan);
            let alone = vec![key; len];
            assert_eq!(place(backend, &plan, &mut image, &alone), expected(&[], &alone, scheme.kind()));
            let image = backend.download(&image).expect("readable");
            let inside = u64::from(scheme.kind() == Kind::Canonical || key != EMPTY_KEY);
            assert_eq!(CuckooSet::audit(&plan, &image, 0..17).map(|audit| audit.pairs), Ok(inside));
        }
        let mut keys = distinct(len / 4);
        keys.retain(|&key| key != EMPTY_KEY);
        let slots = slots_for(keys.len(), load_percent(&scheme, 10));
        let often: Vec<u32> = keys.iter().flat_map(|&key| [key, 77, 0]).collect();
        let mut reported = Placed::default();
        plans(&scheme, slots, &keys, |plan| {
            reported = place(backend, plan, &mut empty(backend, plan), &often);
            reported.unplaced == 0
        });
        assert_eq!(reported, expected(&[], &often, scheme.kind()));
    }
}

/// Impossible builds are reported.
pub(crate) fn more_keys_than_slots_are_reported<B: Kernels<CuckooSet>>(backend: &B) {
    let keys = distinct(400);
    for scheme in [CuckooSet::canonical(3), CuckooSet::classic(3), CuckooSet::classic(3).chain(1)] {
        let plan = plans(&scheme, 301, &[], |_| true);
        let mut image = empty(backend, &plan);
        assert!(place(backend, &plan, &mut image, &keys).unplaced > 0);
    }
}
