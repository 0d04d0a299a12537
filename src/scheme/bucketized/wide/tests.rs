//! Tests of the rule for every layout: independence of order, lookups, audits, hostile plans and images.

use super::*;
use crate::scheme::Salt;
use crate::scheme::slot_lists::tests::{self, built, every_layout, pairs};

#[test]
fn tables_of_every_layout_contain_their_pairs_in_one_order() {
    every_layout!(Bucketized::default(), |scheme, _Layout| tests::holds(
        &scheme,
        &[(1, 0.1), (60, 0.9), (3000, 0.93)],
        3
    ));
}

#[test]
fn the_greatest_duplicate_is_kept() {
    tests::keeps_the_greatest(&Bucketized::default().of::<u64, u64>());
}

#[test]
fn keys_that_agree_in_one_half_are_distinguished() {
    let pairs: Vec<(u64, u64)> = (0..2000).map(|i| (if i % 2 == 0 { i << 32 } else { i }, !i)).collect();
    let (plan, image) = built(&Bucketized::default().of::<u64, u64>(), &pairs, 2200);
    assert!(pairs.iter().all(|&(key, value)| BucketizedOf::<u64, u64>::find(&plan, &image, key) == Some(value)));
    assert!(pairs.iter().all(|&(key, _)| BucketizedOf::<u64, u64>::find(&plan, &image, key ^ 1 << 63).is_none()));
}

#[test]
fn images_that_pass_the_audit_agree_with_lookups() {
    every_layout!(Bucketized::default(), |scheme, _Layout| tests::damage_is_seen(&scheme, 1000));
}

#[test]
fn invalid_plans_are_refused() {
    let scheme = Bucketized::default().of::<u64, u32>();
    let (plan, _) = built(&scheme, &pairs(&scheme, 100), 120);
    let of = |id, bytes: &[u8]| LinePlan::<(u64, u32)>::of_stored(id, bytes);
    let id = BucketizedOf::<u64, u32>::ID;
    assert!(of(Bucketized::ID, plan.stored()).is_err(), "a table of 32 bits");
    assert!(of(BucketizedOf::<u64, u64>::ID, plan.stored()).is_err(), "other values");
    assert!(of(id, &plan.stored()[1..]).is_err() && of(id, &[plan.stored(), &[0]].concat()).is_err());
    for buckets in [0, 15, 1 << 31, u32::MAX] {
        let mut stored = plan.stored().to_vec();
        stored[..4].copy_from_slice(&u32::to_le_bytes(buckets));
        assert!(of(id, &stored).is_err(), "{buckets} buckets");
    }
    let late = scheme.plan(Request { slots: 90, pairs: 1, seed: 1, attempt: 8 });
    let late = late.expect("a plan");
    let salt = Some(Salt::of(1, &[5u64]));
    assert_eq!((plan.with_salt(salt), late.with_salt(salt).salt()), (plan, salt));
    assert_ne!(late.with_salt(salt).functions(), late.functions());
    assert!(Bucketized::classic(2, 4).of::<u64, u64>().check().is_err());
}

#[test]
fn every_key_is_restored_from_each_of_its_buckets() {
    for buckets in [16u64, 257, 512, 3 * 512 + 77, 1 << 20, 1 << 30] {
        let request = Request { slots: 4 * buckets, pairs: 1, seed: 5, attempt: 0 };
        let plan = Bucketized::default().of::<u64, u64>().plan(request).expect("a plan");
        let f = plan.functions();
        for key in (0..2000u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)) {
            let (home, remainder) = f.home(key);
            for age in 1..=3 {
                let bucket = f.bucket(f.turn(age), home, remainder);
                assert!(u64::from(bucket) < buckets);
                assert_eq!(f.key_of(bucket, slot::word(age, remainder)), key, "age {age} of {buckets} buckets");
            }
            assert_eq!(f.bucket(1, home, remainder) >> 9, home >> 9, "bucket 2 stays in the part");
        }
    }
}
