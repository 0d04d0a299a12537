//! Tests of the rule for every layout, of the hash functions and their inverses, and of hostile plans.

use super::*;
use crate::scheme::bucketized::wide::slot;
use crate::scheme::slot_lists::tests::{
    a_set_is_the_table_without_its_values, built, damage_is_seen, every_layout, holds, keeps_the_greatest, pairs,
    pairs_after_the_last_slot_are_seen,
};
use crate::scheme::{FIRST_SALTED, Salt};

#[test]
fn tables_of_every_layout_contain_their_pairs_in_one_order() {
    for (functions, count, load) in [(2, 5, 0.2), (2, 2000, 0.45), (3, 61, 0.7), (4, 3000, 0.93), (5, 3001, 0.97)] {
        every_layout!(Cuckoo::canonical(functions), |table, L| holds(&table, &[(count, load)], functions));
    }
}

#[test]
fn the_greatest_duplicate_is_kept() {
    keeps_the_greatest(&Cuckoo::canonical(4).of::<u64, u64>());
}

#[test]
fn sets_have_the_words_of_tables_with_the_same_keys() {
    let scheme = Cuckoo::canonical(4);
    a_set_is_the_table_without_its_values(&scheme.of::<u64, u64>(), &scheme.of::<u64, ()>());
    assert_eq!(CuckooSet::canonical(3).of::<u64>(), Cuckoo::canonical(3).of::<u64, ()>());
}

/// The smallest size without loss, and one below it.
#[test]
fn every_key_is_restored_from_each_of_its_slots() {
    for slots in [16u64, 17, 257, 1 << 20, (1 << 32) - 1] {
        let request = Request { slots, pairs: 1, seed: 5, attempt: 0 };
        let plan = Cuckoo::canonical(5).of::<u64, u64>().plan(request).expect("a plan");
        let functions = plan.functions();
        for key in (0..2000u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).chain([0, 1, 1 << 63, u64::MAX]) {
            for age in 1..=14 {
                let (slot, remainder) = functions.probe(functions.turn(age), key);
                assert!(u64::from(slot) < slots);
                assert_eq!(functions.key_of(slot, slot::word(age, remainder)), key, "age {age} of {slots} slots");
            }
        }
    }
}

#[test]
fn images_that_pass_the_audit_agree_with_lookups() {
    every_layout!(Cuckoo::canonical(4), |table, L| {
        damage_is_seen(&table, 1001);
        pairs_after_the_last_slot_are_seen::<L, _>(&table, slot::FIELDS);
    });
}

#[test]
fn invalid_plans_are_refused() {
    let scheme = Cuckoo::canonical(3).of::<u64, u32>();
    let (plan, _) = built(&scheme, &pairs(&scheme, 100), 120);
    let of = |id, bytes: &[u8]| CuckooLinePlan::<(u64, u32)>::of_stored(id, bytes);
    let id = CuckooOf::<u64, u32>::ID;
    assert_eq!(id, 1 | 1 << 16);
    assert!(of(Cuckoo::ID, plan.stored()).is_err(), "a table of 32 bits");
    assert!(of(CuckooOf::<u64, u64>::ID, plan.stored()).is_err(), "other values");
    assert!(of(id, &plan.stored()[1..]).is_err() && of(id, &[plan.stored(), &[0]].concat()).is_err());
    // Functions, slots, and the field that must be 0.
    for (at, number) in [(0, 0u32), (0, 1), (0, 6), (0, u32::MAX), (4, 0), (4, 15), (12, 1)] {
        let mut stored = plan.stored().to_vec();
        stored[at..at + 4].copy_from_slice(&number.to_le_bytes());
        assert!(of(id, &stored).is_err(), "{number} at {at}");
    }
    let request = Request { slots: 90, pairs: 1, seed: 1, attempt: FIRST_SALTED };
    let late = Cuckoo::canonical(3).of::<u64, u32>().plan(request).expect("a plan");
    let salt = Some(Salt::of(1, &[5u64]));
    assert_eq!((plan.with_salt(salt), late.with_salt(salt).salt()), (plan, salt));
    assert_ne!(late.with_salt(salt).functions(), late.functions());
    assert_eq!(late.with_salt(salt).stored(), late.stored());
    assert!(Cuckoo::classic(4).of::<u64, u64>().check().is_err());
    assert!(Cuckoo::canonical(6).of::<u64, u64>().check().is_err());
    let vast = Request { slots: 1 << 32, pairs: 1, seed: 0, attempt: 0 };
    assert!(matches!(Cuckoo::canonical(3).of::<u64, u64>().plan(vast), Err(Error::TooLarge { .. })));
}
