//! The rule and the audit, for every kind, sequence and number of bits.

use super::cell::EMPTY;
use super::max_ages::MaxAges;
use super::{RobinHoodPlan, Sequence};
use crate::scheme::hash::{MixKeys, mix};
use crate::scheme::{Kind, Placing, Plan, Request, RobinHood, Scheme, Violation};
use std::collections::HashMap;

type Pairs = Vec<(u32, u32)>;

fn every_table() -> impl Iterator<Item = RobinHood> {
    let kinds = [RobinHood::canonical(), RobinHood::classic(), RobinHood::classic().keys_alone()];
    kinds.into_iter().flat_map(|kind| {
        let sequences = Sequence::ALL.into_iter().map(move |sequence| kind.clone().sequence(sequence));
        sequences.flat_map(|scheme| [0, 2, 3, 4].map(|bits| scheme.clone().max_ages(bits)))
    })
}

fn plan_of(scheme: &RobinHood, slots: u64) -> RobinHoodPlan {
    scheme.plan(Request { slots, pairs: 0, seed: 9, attempt: 0 }).expect("a plan")
}

/// Distinct keys in no order, and values, that fit the layout.
fn some_pairs(scheme: &RobinHood, count: u32) -> Pairs {
    let limits = scheme.limits();
    let cut = |x: u32, bits: u32| (u64::from(x) & ((1 << bits) - 1)) as u32;
    let mut taken = std::collections::HashSet::new();
    let keys = (0..).map(|i: u32| cut(mix(i, MixKeys::default()), limits.key_bits)).filter(|&key| taken.insert(key));
    keys.take(count as usize).zip(0..).map(|(key, i): (u32, u32)| (key, cut(!i, limits.value_bits))).collect()
}

fn built(plan: &RobinHoodPlan, pairs: &[(u32, u32)]) -> Vec<u64> {
    let mut image = vec![EMPTY; plan.words() as usize];
    assert_eq!(RobinHood::place(plan, &mut image, pairs), Placing::Placed, "{plan:?}");
    image
}

#[test]
fn any_order_gives_the_same_image_that_answers_and_passes_the_audit() {
    for scheme in every_table() {
        let pairs = some_pairs(&scheme, 800);
        // At high loads, constant steps need more ages than the classic table has.
        let plan = plan_of(&scheme, 1100);
        let image = built(&plan, &pairs);
        let backwards: Pairs = pairs.iter().rev().copied().collect();
        assert_eq!(built(&plan, &backwards), image, "{scheme:?}");
        let audit = RobinHood::audit(&plan, &image, 0..plan.cells()).unwrap_or_else(|e| panic!("{scheme:?}: {e}"));
        assert_eq!(audit.pairs, 800);
        let map: HashMap<u32, u32> = pairs.iter().copied().collect();
        for key in pairs.iter().map(|pair| pair.0).chain(0..5000).chain([u32::MAX, 1 << 28, (1 << 28) | pairs[3].0]) {
            assert_eq!(RobinHood::find(&plan, &image, key), map.get(&key).copied(), "{scheme:?}, {key}");
        }
        let listed: HashMap<u32, u32> = (0..plan.cells()).filter_map(|at| RobinHood::pair(&plan, &image, at)).collect();
        assert_eq!(listed, map, "{scheme:?}");
    }
}

#[test]
fn maximum_ages_never_add_reads_and_mostly_save_some() {
    for sequence in [Sequence::Coherent, Sequence::Random] {
        for scheme in [RobinHood::canonical(), RobinHood::classic()].map(|kind| kind.sequence(sequence)) {
            let pairs = some_pairs(&scheme, 9000);
            let misses = |bits| {
                let plan = plan_of(&scheme.clone().max_ages(bits), 10_000);
                let image = built(&plan, &pairs);
                (1..20_000u32).map(|i| u64::from(RobinHood::reads(&plan, &image, i.wrapping_mul(77_777)))).sum::<u64>()
            };
            let (four, three, two) = (misses(4), misses(3), misses(2));
            assert!(four < three && three < two, "{scheme:?}: {four}, {three}, {two}");
            if scheme.kind() == Kind::Canonical {
                assert!(two <= misses(0), "{scheme:?}: a miss ends by the ages too");
            }
        }
    }
}

#[test]
fn the_greatest_duplicate_is_kept() {
    for scheme in every_table().filter(|scheme| scheme.limits().value_bits > 0) {
        for order in [[(7, 1), (7, 9), (7, 5)], [(7, 9), (7, 5), (7, 1)]] {
            let plan = plan_of(&scheme, 100);
            let mut image = vec![EMPTY; plan.words() as usize];
            assert_eq!(RobinHood::place(&plan, &mut image, &order), Placing::Duplicate(7));
            assert_eq!(RobinHood::find(&plan, &image, 7), Some(9));
            assert_eq!(RobinHood::audit(&plan, &image, 0..plan.cells()).map(|audit| audit.pairs), Ok(1));
        }
    }
}

/// Keys that are congruent modulo the number of slots share one list: the table can store as many as the list has
/// slots.
#[test]
fn a_class_fills_its_list_and_then_fails() {
    for sequence in [Sequence::Coherent, Sequence::PaperRandom] {
        for scheme in [RobinHood::canonical(), RobinHood::classic()] {
            let plan = plan_of(&scheme.sequence(sequence), 1000);
            let seats = plan.rule().functions.seats(plan.layout().max_age) as u32;
            let class = |count: u32| -> Pairs { (0..count).map(|i| (5 + i * plan.slot_count(), i)).collect() };
            let image = built(&plan, &class(seats));
            assert!(class(seats).iter().all(|&(key, value)| RobinHood::find(&plan, &image, key) == Some(value)));
            let mut image = vec![EMPTY; plan.words() as usize];
            assert_eq!(RobinHood::place(&plan, &mut image, &class(seats + 1)), Placing::Unplaced);
            let keys: Vec<u32> = class(seats + 1).iter().map(|pair| pair.0).chain(100..200).collect();
            let crowd = RobinHood::crowd(&plan, &keys).expect("a crowd");
            assert_eq!((crowd.keys, crowd.most), (u64::from(seats) + 1, u64::from(seats)));
            assert!(crowd.which.ends_with(&format!("congruent to 5 modulo {}", plan.slot_count())), "{}", crowd.which);
            assert_eq!(RobinHood::crowd(&plan, &keys[1..]), None);
        }
    }
}

#[test]
fn removed_keys_leave_tombstones_and_upper_bounds() {
    for bits in [0, 2, 3, 4] {
        let scheme = RobinHood::canonical().max_ages(bits);
        let (plan, pairs) = (plan_of(&scheme, 1000), some_pairs(&scheme, 900));
        let mut image = built(&plan, &pairs);
        let gone: Vec<u32> = pairs.iter().step_by(3).map(|pair| pair.0).chain([1, 2]).collect();
        assert_eq!(RobinHood::remove(&plan, &mut image, &gone), 300);
        let audit = RobinHood::audit(&plan, &image, 0..plan.cells()).expect("sound");
        assert_eq!((audit.pairs, audit.tombstones), (600, 300));
        for (i, &(key, value)) in pairs.iter().enumerate() {
            assert_eq!(RobinHood::find(&plan, &image, key), (i % 3 != 0).then_some(value));
        }
        assert_eq!(RobinHood::place(&plan, &mut image, &[(1, 1)]), Placing::Placed);
        assert!(RobinHood::audit(&plan, &image, 0..plan.cells()).is_ok());
    }
    let scheme = RobinHood::classic();
    let (plan, pairs) = (plan_of(&scheme, 100), some_pairs(&scheme, 10));
    assert_eq!(RobinHood::remove(&plan, &mut built(&plan, &pairs), &[pairs[0].0]), 0, "classic tables are built again");
}

#[test]
fn the_audit_detects_every_kind_of_damage() {
    for scheme in every_table().filter(|scheme| scheme.sequence == Sequence::Coherent) {
        let (plan, pairs) = (plan_of(&scheme, 1000), some_pairs(&scheme, 800));
        let (rule, image) = (plan.rule(), built(&plan, &pairs));
        let layout = rule.layout;
        let audit = |image: &[u64]| RobinHood::audit(&plan, image, 0..plan.cells());
        let damaged = |changes: &[(u32, u64)]| {
            let mut copy = image.clone();
            changes.iter().for_each(|&(at, cell)| layout.put(&mut copy, at, cell));
            audit(&copy)
        };
        assert!(damaged(&[]).is_ok(), "{scheme:?}");
        let packed = matches!(rule.max_ages, MaxAges::Packed(_));
        // A pair at its first place, whose second place is free.
        let (at, second, cell) = (0..plan.slot_count())
            .find_map(|at| {
                let cell = layout.get(&image, at);
                let (key, _) = rule.pair(at, cell)?;
                let second = rule.functions.place(rule.aim(key).0, 2);
                (rule.age(at, cell) == 1 && layout.get(&image, second) == EMPTY).then_some((at, second, cell))
            })
            .expect("such a pair among 800");
        let copy = if packed { cell } else { layout.with_age(cell, 2) };
        let age_0 = layout.with_age(cell, 0) | 1 << layout.value_bits;
        assert!(
            matches!(damaged(&[(at, age_0)]), Err(Violation::Word { .. } | Violation::Misplaced { .. })),
            "{scheme:?}"
        );
        let twice = damaged(&[(second, copy)]);
        let seen = matches!(
            twice,
            Err(Violation::Twice { .. }
                | Violation::Blocking { .. }
                | Violation::Bucket { .. }
                | Violation::Misplaced { .. })
        );
        assert!(seen, "{scheme:?}: {twice:?}");
        let moved = damaged(&[(second, copy), (at, EMPTY)]);
        let seen =
            matches!(moved, Err(Violation::Blocking { .. } | Violation::Misplaced { .. } | Violation::Bucket { .. }));
        assert!(seen, "{scheme:?}: {moved:?}");
        // A place that is not on the key's list. In canonical tables every place is on some key's list, but not with
        // every quotient.
        let no_key = layout.cell(1, u32::MAX, 0);
        let stray = (0..plan.slot_count()).filter(|&stray| layout.get(&image, stray) == EMPTY).find(|&stray| {
            let moved = if rule.names_keys { cell } else { no_key };
            matches!(damaged(&[(stray, moved)]), Err(Violation::Misplaced { .. }))
        });
        assert!(stray.is_some(), "{scheme:?}");
        if packed {
            let code = layout.age(cell);
            for wrong in (1..16).filter(|&wrong| wrong != code) {
                assert!(damaged(&[(at, layout.with_age(cell, wrong))]).is_err(), "{scheme:?}: {code} and not {wrong}");
            }
        }
        if let MaxAges::Array(levels) = rule.max_ages {
            for place in (0..plan.slot_count()).step_by(37) {
                let (word, shift) = levels.position(place);
                for flip in 1..1 << levels.bits {
                    let mut copy = image.clone();
                    copy[plan.slot_count() as usize + word as usize] ^= flip << shift;
                    assert!(matches!(audit(&copy), Err(Violation::Bucket { .. })), "{scheme:?}: place {place}, {flip}");
                }
            }
        }
        // Bits after the last cell, or after the last code.
        if layout.cell_bits() == 32 || matches!(rule.max_ages, MaxAges::Array(_)) {
            let mut copy = image.clone();
            *copy.last_mut().expect("words") |= 1 << 63;
            assert!(matches!(audit(&copy), Err(Violation::Word { .. })), "{scheme:?}");
        }
    }
}

#[test]
fn any_image_can_be_read_and_built_on() {
    let mut stream = crate::scheme::hash::SplitMix64::new(8);
    for scheme in every_table() {
        let plan = plan_of(&scheme, 300);
        let noise: Vec<u64> = (0..plan.words()).map(|_| stream.next_u64()).collect();
        for fill in [0, u64::MAX, 1, 1 << 63] {
            let mut image: Vec<u64> = noise.iter().map(|&noise| if fill == 1 { noise } else { fill }).collect();
            for key in (0..2000).map(|i: u32| i.wrapping_mul(0x9e37_79b9)) {
                let reads = RobinHood::reads(&plan, &image, key);
                assert!(reads <= 62);
                RobinHood::find(&plan, &image, key);
            }
            for at in 0..plan.cells() + 3 {
                RobinHood::pair(&plan, &image, at);
                assert!(RobinHood::age(&plan, &image, at) <= 62);
            }
            let _ = RobinHood::audit(&plan, &image, 0..plan.cells());
            let _ = RobinHood::audit(&plan, &image[..image.len() / 2], 0..plan.cells());
            RobinHood::place(&plan, &mut image, &some_pairs(&scheme, 200));
            RobinHood::remove(&plan, &mut image, &[0, 1, u32::MAX]);
        }
    }
}
