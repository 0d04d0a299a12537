//! Tests of the rule for every layout: independence of order, lookups, audits, hostile plans and images.

use super::*;
use crate::backend::Word;
use crate::scheme::hash::SplitMix64;
use crate::scheme::{Salt, slot as narrow};

type Pair<K, V> = (<(K, V) as Layout>::Key, <(K, V) as Layout>::Value);

/// Distinct keys with values, extremes among them.
fn pairs<K: Column, V: Column>(count: usize) -> Vec<Pair<K, V>>
where
    (K, V): Layout,
{
    let mut stream = SplitMix64::new(count as u64);
    let key = |at: u64| <(K, V) as Layout>::Key::low(at.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_right(31));
    let mut value = || match <(K, V)>::VALUES {
        Some(_) => Word::low(stream.next_u64() << 3),
        None => Word::low(0),
    };
    let extremes = [0, 1, u64::MAX].map(Word::low);
    let mut keys: Vec<<(K, V) as Layout>::Key> = (2..count as u64).map(key).chain(extremes).collect();
    keys.sort_unstable();
    keys.dedup();
    keys.truncate(count);
    keys.into_iter().map(|key| (key, value())).collect()
}

fn built<K: Column, V: Column>(pairs: &[Pair<K, V>], slots: u64) -> (LinePlan<(K, V)>, Vec<u64>)
where
    (K, V): Layout,
{
    let scheme = Bucketized::default().of::<K, V>();
    let plan = scheme.plan(Request { slots, pairs: pairs.len() as u64, seed: 9, attempt: 0 }).expect("a plan");
    let mut image = vec![narrow::EMPTY; plan.words() as usize];
    assert_ne!(BucketizedOf::place(&plan, &mut image, pairs), Placing::Unplaced);
    (plan, image)
}

fn holds<K: Column, V: Column>()
where
    (K, V): Layout,
{
    type Of<K, V> = BucketizedOf<K, V>;
    for (count, load) in [(1, 0.1), (60, 0.9), (3000, 0.93)] {
        let pairs = pairs::<K, V>(count);
        let (plan, image) = built::<K, V>(&pairs, (count as f64 / load) as u64);
        let mut backwards = pairs.clone();
        backwards.reverse();
        assert_eq!(built::<K, V>(&backwards, plan.slots()).1, image, "any order gives one image");
        let audit = Of::<K, V>::audit(&plan, &image, 0..plan.cells()).expect("a sound image");
        assert_eq!((audit.pairs, audit.tombstones), (pairs.len() as u64, 0));
        assert!(pairs.iter().all(|&(key, value)| Of::<K, V>::find(&plan, &image, key) == Some(value)));
        assert!(pairs.iter().all(|&(key, _)| (1..=3).contains(&Of::<K, V>::reads(&plan, &image, key))));
        let mut listed: Vec<_> = (0..plan.cells()).filter_map(|cell| Of::<K, V>::pair(&plan, &image, cell)).collect();
        listed.sort_unstable();
        assert_eq!(listed, pairs);
        let absent = (0..2000u64).map(|i| <(K, V) as Layout>::Key::low(i.wrapping_mul(0x1234_5677) + 2));
        let absent: Vec<_> = absent.filter(|key| pairs.binary_search_by_key(key, |&(key, _)| key).is_err()).collect();
        assert!(absent.len() > 1900 && absent.iter().all(|&key| Of::<K, V>::find(&plan, &image, key).is_none()));

        let mut with_tombstones = image.clone();
        let gone: Vec<_> = pairs.iter().map(|&(key, _)| key).step_by(3).collect();
        assert_eq!(Of::<K, V>::remove(&plan, &mut with_tombstones, &gone), gone.len() as u64);
        assert_eq!(Of::<K, V>::remove(&plan, &mut with_tombstones, &gone), 0);
        let audit = Of::<K, V>::audit(&plan, &with_tombstones, 0..plan.cells()).expect("a sound image");
        assert_eq!((audit.pairs, audit.tombstones), ((pairs.len() - gone.len()) as u64, gone.len() as u64));
        let there = |(i, &(key, value)): (usize, &Pair<K, V>)| {
            Of::<K, V>::find(&plan, &with_tombstones, key) == (i % 3 != 0).then_some(value)
        };
        assert!(pairs.iter().enumerate().all(there));

        let plan_again = LinePlan::<(K, V)>::of_stored(Of::<K, V>::ID, plan.stored());
        assert_eq!(plan_again, Ok(plan));
        assert_eq!(Of::<K, V>::from_plan(&plan), Bucketized::default().of::<K, V>());
    }
}

#[test]
fn tables_of_every_layout_contain_their_pairs_in_one_order() {
    holds::<u64, u64>();
    holds::<u64, u32>();
    holds::<u32, u64>();
    holds::<u64, ()>();
}

#[test]
fn the_greatest_duplicate_is_kept() {
    for order in [[(7, 1), (7, 9), (7, 5)], [(7, 9), (7, 5), (7, 1)]] {
        let (plan, image) = built::<u64, u64>(&order, 16);
        assert_eq!(BucketizedOf::<u64, u64>::find(&plan, &image, 7), Some(9));
        let again = &mut image.clone();
        assert_eq!(BucketizedOf::<u64, u64>::place(&plan, again, &[(7, 2)]), Placing::Duplicate(7));
    }
}

#[test]
fn keys_that_agree_in_one_half_are_distinguished() {
    let pairs: Vec<(u64, u64)> = (0..2000).map(|i| (if i % 2 == 0 { i << 32 } else { i }, !i)).collect();
    let (plan, image) = built::<u64, u64>(&pairs, 2200);
    assert!(pairs.iter().all(|&(key, value)| BucketizedOf::<u64, u64>::find(&plan, &image, key) == Some(value)));
    assert!(pairs.iter().all(|&(key, _)| BucketizedOf::<u64, u64>::find(&plan, &image, key ^ 1 << 63).is_none()));
}

fn damage_is_seen<K: Column, V: Column>()
where
    (K, V): Layout,
{
    let (plan, image) = built::<K, V>(&pairs::<K, V>(900), 1000);
    let audit = |image: &[u64]| BucketizedOf::<K, V>::audit(&plan, image, 0..plan.cells());
    assert!(audit(&image).is_ok());
    let mut seen = 0;
    for bit in (0..64 * image.len()).step_by(137) {
        let mut damaged = image.clone();
        damaged[bit / 64] ^= 1 << (bit % 64);
        let sound = audit(&damaged).is_ok();
        seen += usize::from(!sound);
        // An image passes the audit if the word is another key's, or only a value has changed: lookups agree with its
        // contents.
        let mut listed = (0..plan.cells()).filter_map(|cell| BucketizedOf::<K, V>::pair(&plan, &damaged, cell));
        let found = |(key, value)| BucketizedOf::<K, V>::find(&plan, &damaged, key) == Some(value);
        assert!(!sound || listed.all(found), "bit {bit}");
    }
    assert!(seen > image.len() / 16, "{seen}");
    // Lookups stay in bounds for any image.
    let mut stream = SplitMix64::new(3);
    let noise: Vec<u64> = image.iter().map(|_| stream.next_u64()).collect();
    for key in (0..3000u64).map(|i| <(K, V) as Layout>::Key::low(i << 29 | i)) {
        let _ = (BucketizedOf::<K, V>::find(&plan, &noise, key), BucketizedOf::<K, V>::reads(&plan, &noise, key));
    }
    let _ = audit(&noise).expect_err("noise");
}

#[test]
fn images_that_pass_the_audit_agree_with_lookups() {
    damage_is_seen::<u64, u64>();
    damage_is_seen::<u64, u32>();
    damage_is_seen::<u32, u64>();
    damage_is_seen::<u64, ()>();
}

#[test]
fn invalid_plans_are_refused() {
    let (plan, _) = built::<u64, u32>(&pairs::<u64, u32>(100), 120);
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
    let late = Bucketized::default().of::<u64, u32>().plan(Request { slots: 90, pairs: 1, seed: 1, attempt: 8 });
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
