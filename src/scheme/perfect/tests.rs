//! Tests of the build against the simple rule, of keys that no offset can separate, and of invalid plans and images.

use std::collections::BTreeMap;

use super::scheme::MOST_SLOTS;
use super::*;
use crate::backend::Placed;
use crate::scheme::cuckoo::classic::{EMPTY, EMPTY_KEY, entry};
use crate::scheme::hash::SplitMix64;
use crate::scheme::{Audit, Placing, Plan, Request, Scheme, Violation};
use crate::workload::Workload;
use wide::u32x8;

fn plan(scheme: Perfect, slots: u64, attempt: u32) -> PerfectPlan {
    scheme.plan(Request { slots, pairs: 0, seed: 9, attempt }).expect("a plan")
}

/// The build on an image with arbitrary contents.
fn built(plan: &PerfectPlan, pairs: &[(u32, u32)]) -> (Vec<u64>, Placed) {
    let mut image = vec![0x1234_5678_9abc_def0; plan.words() as usize];
    let (keys, values): (Vec<u32>, Vec<u32>) = pairs.iter().copied().unzip();
    let placed = build::place(&plan.functions(), &mut image, false, &keys, &values).expect("few enough");
    (image, placed)
}

/// The image of the simple rule, and the result of placing.
fn reference(plan: &PerfectPlan, pairs: &[(u32, u32)]) -> (Vec<u64>, Placing) {
    let mut image = vec![u64::MAX; plan.words() as usize];
    let placing = Perfect::place(plan, &mut image, pairs);
    (image, placing)
}

fn shuffled(pairs: &[(u32, u32)], seed: u64) -> Vec<(u32, u32)> {
    let mut stream = SplitMix64::new(seed);
    let mut pairs = pairs.to_vec();
    for i in (1..pairs.len()).rev() {
        pairs.swap(i, (stream.next_u64() % (i as u64 + 1)) as usize);
    }
    pairs
}

/// Pictures, voxels and random keys, each with its domain.
fn sets() -> Vec<(Perfect, Vec<u32>)> {
    let cells = |width: u32, height: u32, is_set: fn(u32, u32) -> bool| -> Vec<u32> {
        let all = (0..height).flat_map(|y| (0..width).map(move |x| (x, y)));
        all.filter(|&(x, y)| is_set(x, y)).map(|(x, y)| x + width * y).collect()
    };
    let sphere = (0..32u32 * 32 * 32).filter(|key| {
        let square = |x: u32| (x % 32).abs_diff(15).pow(2);
        (150..=200).contains(&(square(*key) + square(key / 32) + square(key / 1024)))
    });
    let random = Workload::new(3000, 5).keys();
    vec![
        (Perfect::plane(100), cells(100, 100, |x, y| x.abs_diff(50).pow(2) + y.abs_diff(40).pow(2) < 900)),
        (Perfect::plane(64), cells(64, 64, |x, y| (x + y) % 2 == 0)),
        (Perfect::plane(2), cells(2, 500, |_, _| true)),
        (Perfect::volume(32, 32), sphere.collect()),
        (Perfect::volume(1000, 77), random.clone()),
        (Perfect::default(), random),
    ]
}

#[test]
fn the_build_finds_the_offsets_of_the_rule() {
    for (scheme, keys) in sets() {
        for len in [0, 1, 2, 7, 63, 64, 65, 500, keys.len()] {
            let pairs: Vec<_> = keys.iter().take(len).map(|&key| (key, !key)).collect();
            // Loads from a half to 1, and attempts that fail.
            for (slots, attempt) in [(2 * len, 0), (len * 10 / 9, 0), (len * 10 / 9, 5), (len, 3), (len, 11)] {
                let plan = plan(scheme, slots as u64, attempt);
                let (image, placed) = built(&plan, &pairs);
                let (expected, placing) = reference(&plan, &pairs);
                assert_eq!(placed.unplaced > 0, placing == Placing::Unplaced, "{plan:?}");
                if placed.unplaced > 0 {
                    continue;
                }
                assert!(image == expected, "{plan:?}, {} pairs", pairs.len());
                assert_eq!(placed, Placed::default(), "{plan:?}");
                let audit = Perfect::audit(&plan, &image, 0..plan.cells());
                let greatest_age = u32::from(!pairs.is_empty());
                assert_eq!(audit, Ok(Audit { pairs: pairs.len() as u64, tombstones: 0, greatest_age }));
                assert!(pairs.iter().all(|&(key, value)| Perfect::find(&plan, &image, key) == Some(value)));
                for seed in 0..2 {
                    assert!(built(&plan, &shuffled(&pairs, seed)).0 == image, "{plan:?}: another order");
                }
            }
        }
    }
}

/// The limit of tries is tested exactly at the last try that finds an offset, and one before it.
#[test]
fn the_build_has_the_limit_of_tries_of_the_rule() {
    for (scheme, keys) in sets() {
        let pairs: Vec<_> = keys.iter().take(900).map(|&key| (key, !key)).collect();
        let (keys, values): (Vec<u32>, Vec<u32>) = pairs.iter().copied().unzip();
        let plan = plan(scheme, pairs.len() as u64 * 10 / 9, 3);
        let outcome = |tries| {
            let mut functions = plan.functions();
            functions.tries = tries;
            let mut images = [(); 2].map(|()| vec![0; plan.words() as usize]);
            let placed = build::place(&functions, &mut images[0], false, &keys, &values).expect("few enough");
            let placing = canonical::place(&functions, &mut images[1], &pairs);
            assert_eq!(placed.unplaced > 0, placing == Placing::Unplaced, "{plan:?}, {tries} tries");
            assert!(placed.unplaced > 0 || images[0] == images[1], "{plan:?}, {tries} tries");
            placed.unplaced == 0
        };
        assert!(!outcome(0), "no tries");
        let ends: Vec<bool> = (1..40).chain([100, 1000]).map(outcome).collect();
        assert!(ends.is_sorted(), "more tries do no harm");
    }
}

/// 64 columns, all set: some attempts find no offset, and must end.
#[test]
fn regular_sets_with_many_points_per_cell_end_in_time() {
    let keys: Vec<u32> = (0..1 << 16).collect();
    let slots = keys.len() as u64 * 10 / 9;
    let attempt = (0..32).find(|&attempt| {
        let plan = plan(Perfect::plane(64), slots, attempt);
        let mut image = vec![0; plan.words() as usize];
        build::place(&plan.functions(), &mut image, false, &keys, &keys).expect("few enough").unplaced == 0
    });
    assert!(attempt.is_some_and(|attempt| attempt <= 8), "{attempt:?}");
}

/// The guarantee of `largest_offset_side` and `working_bytes`: no attempt needs more than the first one's estimate.
#[test]
fn scratch_covers_every_attempt() {
    for scheme in [Perfect::default(), Perfect::volume(100, 100)] {
        for slots in [0, 1000, 1 << 20, MOST_SLOTS] {
            let first = plan(scheme, slots, 0);
            let most = 8 * first.words() + Perfect::scratch_bytes(&first, slots);
            for attempt in 0..64 {
                let plan = plan(scheme, slots, attempt);
                let taken = 16 * plan.words() + 8 * slots + build::working_bytes(&plan.functions(), slots);
                assert!(taken <= most, "{plan:?}: {taken} of {most}");
            }
        }
    }
}

#[test]
fn attempts_of_every_set_end_in_a_table() {
    for (scheme, keys) in sets() {
        let pairs: Vec<_> = keys.iter().map(|&key| (key, 1)).collect();
        for percent in [50, 80, 90, 99] {
            let slots = (keys.len() * 100).div_ceil(percent) as u64;
            let is_built = |attempt| built(&plan(scheme, slots, attempt), &pairs).1.unplaced == 0;
            assert!((0..32).any(is_built), "{scheme:?} at {percent}%");
        }
    }
}

#[test]
fn duplicates_are_counted_exactly_and_the_greatest_value_is_kept() {
    let keys = Workload::new(400, 8).keys();
    let plan = plan(Perfect::default(), 900, 7);
    let mut pairs: Vec<_> = keys.iter().map(|&key| (key, 5)).collect();
    let clean = built(&plan, &pairs);
    assert_eq!(clean.1, Placed::default(), "this attempt fits");
    let least = *keys[100..140].iter().min().expect("some");
    for &key in &keys[100..140] {
        pairs.extend([(key, 3), (key, 9), (key, 9)]);
    }
    let (image, placed) = built(&plan, &shuffled(&pairs, 1));
    assert_eq!(placed, Placed { duplicates: 120, least_duplicate: Some(least), ..Placed::default() });
    assert_eq!(reference(&plan, &pairs), (image.clone(), Placing::Duplicate(least)));
    assert_eq!(Perfect::find(&plan, &image, keys[100]), Some(9));
    assert_eq!(Perfect::find(&plan, &image, keys[99]), Some(5));
    // The sentinel key does not take a slot, and counts as a duplicate from the second on.
    pairs.truncate(400);
    pairs.push((EMPTY_KEY, 7));
    let (again, placed) = built(&plan, &pairs);
    assert!(again == clean.0);
    assert_eq!(placed, Placed { outside: Some(7), ..Placed::default() });
    pairs.push((EMPTY_KEY, 4));
    let placed = built(&plan, &pairs).1;
    assert_eq!(
        placed,
        Placed { duplicates: 1, least_duplicate: Some(EMPTY_KEY), outside: Some(7), ..Placed::default() }
    );
}

#[test]
fn keys_congruent_modulo_both_sides_form_a_crowd() {
    let plan = plan(Perfect::plane(60_000), 100, 2);
    let step = plan.side() * plan.offset_side();
    // Five keys of one class, in both axes; two of another; and a single one.
    let keys = [0, step, step * 60_000, 2 * step, step + step * 60_000, 7, 7 + step, 11];
    let pairs = keys.map(|key| (key, 1));
    let (_, placed) = built(&plan, &pairs);
    assert_eq!(placed.unplaced, 5, "all but one of each class");
    assert_eq!(reference(&plan, &pairs).1, Placing::Unplaced);
    let crowd = Perfect::crowd(&plan, &keys).expect("a crowd");
    assert_eq!((crowd.keys, crowd.most), (5, 1));
    let (side, offset_side) = (plan.side(), plan.offset_side());
    assert_eq!(crowd.which, format!("congruent modulo {side} and modulo {offset_side} in every axis of the domain"));
    assert_eq!(Perfect::crowd(&plan, &[0, 1, 2, EMPTY_KEY, EMPTY_KEY]), None);
}

#[test]
fn lanes_agree_with_scalars() {
    for scheme in [Perfect::plane(1000), Perfect::plane(1 << 31), Perfect::volume(3, 70_000)] {
        for slots in [1, 90, 5000, 1 << 30] {
            let functions = plan(scheme, slots, 3).functions();
            let mut stream = SplitMix64::new(slots);
            for _ in 0..200 {
                let keys = [(); 8].map(|()| stream.next_u32());
                let offsets = [(); 8].map(|()| stream.next_u32());
                let (cells, bases) = functions.home(u32x8::new(keys));
                let slots = functions.slot(bases, u32x8::new(offsets)).to_array();
                for i in 0..8 {
                    let (cell, base) = functions.home(keys[i]);
                    assert_eq!((cells.to_array()[i], bases.to_array()[i]), (cell, base));
                    assert_eq!(functions.slot(base, offsets[i]), slots[i]);
                    assert!(cell < functions.cells && slots[i] < functions.slots, "in bounds whatever the offset");
                }
            }
        }
    }
}

/// The formula at the top of `functions.rs`, in plain arithmetic.
#[test]
fn slots_are_the_sum_of_cell_and_offset_modulo_the_side() {
    for (scheme, width, height) in [(Perfect::plane(123), 123, 0), (Perfect::volume(40, 50), 40, 50)] {
        let plan = plan(scheme, 700, 1);
        let (m, r) = (plan.side(), plan.offset_side());
        let functions = plan.functions();
        for key in (0..5000).chain([u32::MAX, u32::MAX - 1, 1 << 31]) {
            let (x, y) = (key % width, key / width);
            let axes: Vec<u32> = if height == 0 { vec![x, y] } else { vec![x, y % height, y / height] };
            let number = |side: u32, axes: &[u32]| axes.iter().rev().fold(0, |number, at| number * side + at);
            let offsets = [5 % m, 3 % m, m - 1];
            let bits = if height == 0 { 16 } else { 10 };
            let offset = offsets.iter().take(axes.len()).rev().fold(0, |packed, at| packed << bits | at);
            let (cell, base) = functions.home(key);
            assert_eq!(cell, number(r, &axes.iter().map(|at| at % r).collect::<Vec<_>>()));
            let moved: Vec<u32> = axes.iter().zip(offsets).map(|(at, offset)| (at + offset) % m).collect();
            assert_eq!(functions.slot(base, offset), number(m, &moved));
        }
    }
}

#[test]
fn neighbours_wrap_around_the_edge() {
    let functions = plan(Perfect::volume(100, 100), 1000, 0).functions();
    let r = functions.offset_side.n;
    let near: Vec<u32> = functions.neighbours(r * r * r - 1).collect();
    let last = r * r * r - 1;
    assert_eq!(near, [last - 1, last - r + 1, last - r, last - r * r + r, last - r * r, r * r - 1]);
    let rows: std::collections::BTreeSet<u32> =
        std::iter::successors(Some(0), |&row| Some(functions.next_row(row))).take(functions.rows() as usize).collect();
    assert_eq!(rows.len(), functions.rows() as usize, "every row occurs once");
}

#[test]
fn the_audit_detects_images_that_no_build_creates() {
    let keys = Workload::new(300, 2).keys();
    let pairs: Vec<_> = keys.iter().map(|&key| (key, key)).collect();
    let plan =
        (0..32).map(|attempt| plan(Perfect::default(), 400, attempt)).find(|plan| built(plan, &pairs).1.unplaced == 0);
    let plan = plan.expect("an attempt");
    let (image, _) = built(&plan, &pairs);
    let audit = |change: &dyn Fn(&mut Vec<u64>)| {
        let mut image = image.clone();
        change(&mut image);
        let whole = Perfect::audit(&plan, &image, 0..plan.cells());
        // Audits of parts together report the same as an audit of the whole.
        let (first, second) = (0..plan.cells() / 3, plan.cells() / 3..plan.cells());
        let parts = Perfect::audit(&plan, &image, first).and_then(|_| Perfect::audit(&plan, &image, second));
        assert_eq!(parts.is_err(), whole.is_err());
        whole
    };
    // Every word of offsets is checked: an offset that no build sets is damage, even if no pair needs it.
    for word in plan.slots()..plan.words() {
        let damaged = audit(&|image| image[word as usize] |= u64::from(u32::MAX));
        assert!(damaged.is_err(), "offsets in word {word}");
    }
    assert!(audit(&|_| {}).is_ok());
    let functions = plan.functions();
    let taken = functions.location(&image, keys[0]) as usize;
    let free = image[..functions.slots as usize].iter().position(|&word| word == EMPTY).expect("a free slot");
    let moved = audit(&|image| image.swap(taken, free));
    assert_eq!(moved, Err(Violation::Misplaced { slot: free as u64, key: keys[0].into() }));
    let marked = audit(&|image| image[free] = entry(EMPTY_KEY, 1));
    assert!(matches!(marked, Err(Violation::Word { .. })), "{marked:?}");
    // An offset of M in some axis; another offset for a cell with points; bits after the last offset.
    let word = functions.offset_word(functions.home(keys[0]).0);
    let wide = audit(&|image| image[word] = u64::from(plan.side()) << 16 | u64::from(plan.side()) << 48);
    assert!(matches!(wide, Err(Violation::Word { .. } | Violation::Misplaced { .. })), "{wide:?}");
    let other = audit(&|image| image[word] ^= 1 << 32 | 1);
    assert!(other.is_err(), "{other:?}");
    if functions.cells % 2 == 1 {
        assert!(audit(&|image| *image.last_mut().expect("words") |= 1 << 40).is_err());
    }
}

#[test]
fn any_image_is_searched_within_its_bounds() {
    for scheme in [Perfect::plane(77), Perfect::volume(5, 6)] {
        let plan = plan(scheme, 500, 4);
        let mut stream = SplitMix64::new(1);
        let image: Vec<u64> = (0..plan.words()).map(|_| stream.next_u64()).collect();
        for key in (0..2000).map(|_| stream.next_u32()).chain([0, EMPTY_KEY]) {
            let _ = (Perfect::find(&plan, &image, key), Perfect::reads(&plan, &image, key));
        }
        let pairs: BTreeMap<_, _> = (0..2 * plan.words()).filter_map(|at| Perfect::pair(&plan, &image, at)).collect();
        assert!(!pairs.is_empty());
        assert!(Perfect::audit(&plan, &image, 0..plan.cells()).is_err());
    }
}

#[test]
fn a_stored_plan_gives_its_parameters_back_and_others_are_refused() {
    for scheme in [Perfect::plane(1), Perfect::plane(2048), Perfect::volume(1 << 31, 3)] {
        for (slots, attempt) in [(0, 0), (1000, 3), (1 << 30, 31), (7, u32::MAX)] {
            let plan = plan(scheme, slots, attempt);
            assert_eq!(Perfect::from_plan(&plan), scheme);
            assert!(plan.checked().is_ok() && plan.with_outside(Some(7)).checked().is_ok());
            let again = Request { slots: plan.requested_slots(), pairs: 5, seed: 9, attempt };
            assert_eq!(scheme.plan(again).expect("a plan"), plan, "the requested slots give the same plan");
        }
    }
    let good = plan(Perfect::volume(256, 256), 1000, 0);
    for bad in [
        PerfectPlan { kind: 1, ..good },
        PerfectPlan { axes: 1, ..good },
        PerfectPlan { axes: u32::MAX, ..good },
        PerfectPlan { width: 0, ..good },
        PerfectPlan { height: 0, ..good },
        PerfectPlan { height: (1 << 31) + 1, ..good },
        PerfectPlan { axes: 2, ..good },
        PerfectPlan { side: 0, ..good },
        PerfectPlan { side: 1025, ..good },
        PerfectPlan { side: u32::MAX, ..good },
        PerfectPlan { offset_side: 0, ..good },
        PerfectPlan { offset_side: good.offset_side + 1, ..good },
        PerfectPlan { attempt: 6, ..good },
        PerfectPlan { outside: 2, ..good },
        PerfectPlan { outside_value: 1, ..good },
        PerfectPlan { reserved: 1, ..good },
    ] {
        assert!(bad.checked().is_err(), "{bad:?}");
        // Calls on an unchecked plan return numbers and do not panic.
        let _ = (bad.slots(), bad.words(), bad.cells(), bad.offset_count(), bad.functions());
    }
    assert!(Perfect::plane(0).check().is_err() && Perfect::volume(5, 0).check().is_err());
    assert!(Perfect::plane((1 << 31) + 1).check().is_err());
    let vast = Request { slots: MOST_SLOTS + 1, pairs: 1, seed: 0, attempt: 0 };
    assert!(Perfect::default().plan(vast).is_err());
}
