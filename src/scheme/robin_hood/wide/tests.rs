//! Tests of the rule for every layout, of the hash functions and their inverses, of crowds, Morton codes and hostile
//! plans.

use super::functions::Goal;
use super::*;
use crate::backend::Word;
use crate::layout::wide::{MORTON3_BITS, morton3};
use crate::scheme::hash::SplitMix64;
use crate::scheme::robin_hood::{MOST_SLOTS, Sequence};
use crate::scheme::slot_lists::tests::{
    a_set_is_the_table_without_its_values, built, damage_is_seen, every_layout, holds, keeps_the_greatest, pairs,
    pairs_after_the_last_slot_are_seen,
};

fn scheme(sequence: Sequence) -> RobinHood {
    RobinHood::canonical().sequence(sequence)
}

#[test]
fn tables_of_every_layout_contain_their_pairs_in_one_order() {
    for sequence in Sequence::ALL {
        let most = if sequence == Sequence::PaperRandom { 0.8 } else { 0.99 };
        // The smallest table nearly full, and full except for one slot.
        let sizes = [(0, 1.0), (5, 0.2), (61, 0.92), (3001, most)];
        every_layout!(scheme(sequence), |table, L| holds(&table, &sizes, 62));
    }
    every_layout!(scheme(Sequence::Coherent), |table, L| holds(&table, &[(66, 1.0)], 62));
}

#[test]
fn the_greatest_duplicate_is_kept() {
    Sequence::ALL.into_iter().for_each(|sequence| keeps_the_greatest(&scheme(sequence).of::<u64, u64>()));
}

#[test]
fn sets_have_the_words_of_tables_with_the_same_keys() {
    let scheme = scheme(Sequence::Random);
    a_set_is_the_table_without_its_values(&scheme.of::<u64, u64>(), &scheme.of::<u64, ()>());
}

#[test]
fn images_that_pass_the_audit_agree_with_lookups() {
    every_layout!(scheme(Sequence::Coherent), |table, L| {
        damage_is_seen(&table, 1001);
        pairs_after_the_last_slot_are_seen::<L, _>(&table, FIELDS);
    });
    damage_is_seen(&scheme(Sequence::PaperRandom).of::<u64, u64>(), 1001);
    damage_is_seen(&scheme(Sequence::Random).of::<u32, u64>(), 1001);
}

/// 64 slots are the fewest for which a quotient fits 58 bits; 67 is the next prime.
#[test]
fn quotients_fit_from_64_slots_on() {
    assert_eq!([64, 63].map(|slots| (u64::MAX / slots).ilog2() + 1), [58, 59]);
    assert_eq!([64, 63].map(|slots| (u32::MAX / slots).ilog2() + 1), [26, 27]);
    let request = Request { slots: 0, pairs: 0, seed: 1, attempt: 0 };
    assert_eq!(RobinHood::canonical().of::<u64, u64>().plan(request).expect("a plan").slots(), 67);
}

fn round_trips<K: Column, V: Column>()
where
    (K, V): Layout,
{
    type Key<K, V> = <(K, V) as Layout>::Key;
    for sequence in Sequence::ALL {
        for (slots, attempt) in [(0u64, 0), (0, 1), (257, 2), (1 << 20, 0), (MOST_SLOTS, 1023)] {
            let request = Request { slots, pairs: 1, seed: 5, attempt };
            let plan = scheme(sequence).of::<K, V>().plan(request).expect("a plan");
            let (functions, m) = (plan.functions(), plan.slots());
            let edges = [0, 1, 1 << 32, 1 << 63, u64::MAX, m - 1, m, m + 1, u64::MAX / m * m, u64::MAX / m * m - 1];
            for key in (0..500u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).chain(edges) {
                let key = Key::<K, V>::low(key);
                let goal = functions.goal(key);
                for age in 1..=62 {
                    let (slot, quotient) = functions.probe(goal, age);
                    assert!(slot < plan.slot_count() && quotient.into() >> FIELDS.age_shift::<Key<K, V>>() == 0);
                    let word = FIELDS.word(age, quotient);
                    assert_eq!(functions.key_in(slot, word), key, "age {age} of {m} slots");
                    assert_eq!(functions.goal_in(slot, word), goal);
                }
            }
        }
    }
}

/// Every age, for the smallest size, the greatest and one in between.
#[test]
fn every_key_is_restored_from_each_of_its_places() {
    round_trips::<u64, u64>();
    round_trips::<u32, u64>();
}

/// `u32` keys have the places of 32-bit tables.
#[test]
fn keys_of_32_bits_keep_their_places() {
    for sequence in Sequence::ALL {
        let request = Request { slots: 1000, pairs: 1, seed: 5, attempt: 2 };
        let wide = scheme(sequence).of::<u32, u64>().plan(request).expect("a plan").functions();
        let narrow = scheme(sequence).plan(request).expect("a plan").rule().functions;
        assert_eq!((wide.walk.offsets, wide.walk.slots), (narrow.offsets, narrow.slots));
        let mut stream = SplitMix64::new(1);
        for key in (0..2000).map(|_| stream.next_u32()).chain([0, u32::MAX]) {
            let Goal { home, quotient } = wide.goal(key);
            assert_eq!((home, quotient), narrow.split(key));
        }
    }
}

/// The table holds as many keys that are congruent modulo the prime as their list has slots, and the error names them.
/// The next attempt, modulo another prime, scatters them.
#[test]
fn a_class_fills_its_list_and_then_fails() {
    for sequence in [Sequence::Coherent, Sequence::PaperRandom] {
        let scheme = scheme(sequence).of::<u64, u64>();
        let request = |attempt| Request { slots: 1000, pairs: 0, seed: 9, attempt };
        let plan = scheme.plan(request(0)).expect("a plan");
        let seats = plan.functions().walk.seats(62);
        let class = |count: u64| -> Vec<(u64, u64)> {
            (0..count).map(|i| ((i << 50) / plan.slots() * plan.slots() + 5, i)).collect()
        };
        let image = built(&scheme, &class(seats), 1000).1;
        assert!(
            class(seats).iter().all(|&(key, value)| RobinHoodOf::<u64, u64>::find(&plan, &image, key) == Some(value))
        );
        RobinHoodOf::<u64, u64>::audit(&plan, &image, 0..plan.cells()).expect("sound");
        let place = |plan: &RobinHoodLinePlan<(u64, u64)>| {
            RobinHoodOf::<u64, u64>::place(plan, &mut vec![0; plan.words() as usize], &class(seats + 1))
        };
        assert_eq!(place(&plan), Placing::Unplaced);
        assert_eq!(place(&scheme.plan(request(1)).expect("a plan")), Placing::Placed);
        let keys: Vec<u64> = class(seats + 1).iter().map(|pair| pair.0).chain(100..200).collect();
        let crowd = RobinHoodOf::<u64, u64>::crowd(&plan, &keys).expect("a crowd");
        assert_eq!((crowd.keys, crowd.most), (seats + 1, seats));
        assert!(crowd.which.ends_with(&format!("congruent to 5 modulo {}", plan.slots())), "{}", crowd.which);
        assert_eq!(RobinHoodOf::<u64, u64>::crowd(&plan, &keys[1..]), None);
    }
}

/// Coherence: cells that are adjacent along the x axis of a box are stored next to each other, with equal ages.
#[test]
fn neighbouring_cells_have_neighbouring_places() {
    let request = Request { slots: 100_000, pairs: 0, seed: 5, attempt: 0 };
    let functions = RobinHood::canonical().of::<u64, u64>().plan(request).expect("a plan").functions();
    let last = (1 << MORTON3_BITS) - 1;
    for (x, y, z) in [(0, 0, 0), (1000, 2000, 3000), (last - 1, last, last)] {
        let [even, odd] = [x & !1, x | 1].map(|x| functions.goal(morton3(x, y, z).expect("inside")));
        for age in 1..=62 {
            let [first, second] = [even, odd].map(|goal| functions.probe(goal, age).0);
            assert!(second == first + 1 || second == 0, "age {age}");
        }
    }
}

#[test]
fn invalid_plans_are_refused() {
    let scheme = scheme(Sequence::Random).of::<u64, u32>();
    let (plan, _) = built(&scheme, &pairs(&scheme, 100), 120);
    let of = |id, bytes: &[u8]| RobinHoodLinePlan::<(u64, u32)>::of_stored(id, bytes);
    let id = RobinHoodOf::<u64, u32>::ID;
    assert_eq!((id, plan.stored().len()), (4 | 1 << 16, 24));
    assert!(of(RobinHood::ID, plan.stored()).is_err(), "a table of 32 bits");
    assert!(of(RobinHoodOf::<u64, u64>::ID, plan.stored()).is_err(), "other values");
    assert!(of(id, &plan.stored()[1..]).is_err() && of(id, &[plan.stored(), &[0]].concat()).is_err());
    // Sequence, slots of attempt 0, slots, attempt.
    let wrong = [(0, 3), (4, 0), (4, 128), (4, 61), (4, 131), (4, u32::MAX), (8, 0), (8, 128), (8, 131), (12, 1)];
    for (at, number) in wrong.into_iter().chain([(12, 1024), (12, u32::MAX)]) {
        let mut stored = plan.stored().to_vec();
        stored[at..at + 4].copy_from_slice(&u32::to_le_bytes(number));
        assert!(of(id, &stored).is_err(), "{number} at {at}");
    }
    for refused in [RobinHood::classic(), RobinHood::canonical().max_ages(4), RobinHood::canonical().keys_alone()] {
        assert!(refused.of::<u64, u64>().check().is_err());
    }
    let vast = |slots, attempt| Request { slots, pairs: 1, seed: 0, attempt };
    assert!(matches!(scheme.plan(vast(MOST_SLOTS + 1, 0)), Err(Error::TooLarge { .. })));
    assert!(scheme.plan(vast(100, 1024)).is_err());
    assert!(!plan.takes_salt() && plan.with_salt(None) == plan);
}
