//! The rule on slots of every layout: order freedom, answers, audits, hostile plans and images.

use super::*;
use crate::backend::Word;
use crate::scheme::bucketized::wide::{lines_mut, put};
use crate::scheme::hash::SplitMix64;
use crate::scheme::{FIRST_SALTED, Salt};

type Pair<K, V> = (<(K, V) as Layout>::Key, <(K, V) as Layout>::Value);
type Built<K, V> = (CuckooLinePlan<(K, V)>, Vec<u64>);

/// Distinct keys with values, extremes among them.
fn pairs<K: Column, V: Column>(count: usize) -> Vec<Pair<K, V>>
where
    (K, V): Layout,
{
    let mut stream = SplitMix64::new(count as u64);
    let key = |at: u64| Word::low(at.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_right(31));
    let extremes = [0, 1, 1 << 32, 1 << 63, u64::MAX].map(Word::low);
    let mut keys: Vec<<(K, V) as Layout>::Key> = extremes.into_iter().chain((2..count as u64).map(key)).collect();
    keys.sort_unstable();
    keys.dedup();
    keys.truncate(count);
    let mut value = || if <(K, V)>::VALUES.is_some() { Word::low(stream.next_u64() << 3) } else { Word::low(0) };
    keys.into_iter().map(|key| (key, value())).collect()
}

fn built<K: Column, V: Column>(functions: u32, pairs: &[Pair<K, V>], slots: u64) -> Built<K, V>
where
    (K, V): Layout,
{
    let request = Request { slots, pairs: pairs.len() as u64, seed: 9, attempt: 0 };
    let plan = Cuckoo::canonical(functions).of::<K, V>().plan(request).expect("a plan");
    let mut image = vec![plan.empty_word(); plan.words() as usize];
    assert_ne!(CuckooOf::place(&plan, &mut image, pairs), Placing::Unplaced);
    (plan, image)
}

fn holds<K: Column, V: Column>()
where
    (K, V): Layout,
{
    type Of<K, V> = CuckooOf<K, V>;
    for (functions, count, load) in [(2, 5, 0.2), (2, 2000, 0.45), (3, 61, 0.7), (4, 3000, 0.93), (5, 3001, 0.97)] {
        let pairs = pairs::<K, V>(count);
        let (plan, image) = built::<K, V>(functions, &pairs, (count as f64 / load) as u64);
        let mut backwards = pairs.clone();
        backwards.reverse();
        assert_eq!(built::<K, V>(functions, &backwards, plan.slots()).1, image, "any order gives one image");
        let audit = Of::<K, V>::audit(&plan, &image, 0..plan.cells()).expect("a sound image");
        assert_eq!((audit.pairs, audit.tombstones), (pairs.len() as u64, 0));
        assert!(pairs.iter().all(|&(key, value)| Of::<K, V>::find(&plan, &image, key) == Some(value)));
        assert!(pairs.iter().all(|&(key, _)| (1..=functions).contains(&Of::<K, V>::reads(&plan, &image, key))));
        let mut listed: Vec<_> = (0..plan.cells()).filter_map(|cell| Of::<K, V>::pair(&plan, &image, cell)).collect();
        listed.sort_unstable();
        assert_eq!(listed, pairs);
        let absent = (0..2000u64).map(|i| <(K, V) as Layout>::Key::low(i.wrapping_mul(0x1234_5677) + 2));
        let absent: Vec<_> = absent.filter(|key| pairs.binary_search_by_key(key, |&(key, _)| key).is_err()).collect();
        assert!(absent.len() > 1900 && absent.iter().all(|&key| Of::<K, V>::find(&plan, &image, key).is_none()));

        let mut worn = image.clone();
        let gone: Vec<_> = pairs.iter().map(|&(key, _)| key).step_by(3).collect();
        assert_eq!(Of::<K, V>::remove(&plan, &mut worn, &gone), gone.len() as u64);
        assert_eq!(Of::<K, V>::remove(&plan, &mut worn, &gone), 0);
        let audit = Of::<K, V>::audit(&plan, &worn, 0..plan.cells()).expect("a sound image");
        assert_eq!((audit.pairs, audit.tombstones), ((pairs.len() - gone.len()) as u64, gone.len() as u64));
        let there = |(i, &(key, value)): (usize, &Pair<K, V>)| {
            Of::<K, V>::find(&plan, &worn, key) == (i % 3 != 0).then_some(value)
        };
        assert!(pairs.iter().enumerate().all(there));

        assert_eq!(CuckooLinePlan::<(K, V)>::of_stored(Of::<K, V>::ID, plan.stored()), Ok(plan));
        assert_eq!(Of::<K, V>::from_plan(&plan), Cuckoo::canonical(functions).of::<K, V>());
    }
}

#[test]
fn tables_of_every_layout_hold_their_pairs_in_one_order() {
    holds::<u64, u64>();
    holds::<u64, u32>();
    holds::<u32, u64>();
    holds::<u64, ()>();
}

#[test]
fn the_greatest_duplicate_stays() {
    for order in [[(7, 1), (7, 9), (7, 5)], [(7, 9), (7, 5), (7, 1)]] {
        let (plan, mut image) = built::<u64, u64>(4, &order, 16);
        assert_eq!(CuckooOf::<u64, u64>::find(&plan, &image, 7), Some(9));
        assert_eq!(CuckooOf::<u64, u64>::place(&plan, &mut image, &[(7, 2)]), Placing::Copy(7));
    }
}

/// A set's words are those of the table of its keys.
#[test]
fn a_set_is_the_table_without_its_values() {
    let pairs = pairs::<u64, u64>(900);
    let keys: Vec<(u64, u32)> = pairs.iter().map(|&(key, _)| (key, 0)).collect();
    let (plan, image) = built::<u64, u64>(4, &pairs, 1001);
    let (set_plan, set) = built::<u64, ()>(4, &keys, 1001);
    assert!(
        (0..1001)
            .all(|slot| canonical::cell::<(u64, ())>(&set, slot).0 == canonical::cell::<(u64, u64)>(&image, slot).0)
    );
    assert_eq!((set.len(), image.len()), (8 * 126, 8 * 251));
    assert_eq!(set_plan.functions().mixers, plan.functions().mixers);
    assert_eq!(CuckooSet::canonical(3).of::<u64>(), Cuckoo::canonical(3).of::<u64, ()>());
}

/// The least size at which nothing is lost, and one below it.
#[test]
fn every_key_comes_back_from_each_of_its_slots() {
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

fn damage_is_seen<K: Column, V: Column>()
where
    (K, V): Layout,
{
    let (plan, image) = built::<K, V>(4, &pairs::<K, V>(900), 1001);
    let audit = |image: &[u64]| CuckooOf::<K, V>::audit(&plan, image, 0..plan.cells());
    assert!(audit(&image).is_ok());
    let mut seen = 0;
    for bit in (0..64 * image.len()).step_by(137) {
        let mut damaged = image.clone();
        damaged[bit / 64] ^= 1 << (bit % 64);
        let sound = audit(&damaged).is_ok();
        seen += usize::from(!sound);
        // A word that passes is another key's, or only a value has changed: lookups agree with what stands there.
        let mut listed = (0..plan.cells()).filter_map(|cell| CuckooOf::<K, V>::pair(&plan, &damaged, cell));
        let found = |(key, value)| CuckooOf::<K, V>::find(&plan, &damaged, key) == Some(value);
        assert!(!sound || listed.all(found), "bit {bit}");
    }
    assert!(seen > image.len() / 16, "{seen}");
    // Behind the last slot, which is not its line's last.
    for (word, value) in [
        (slot::word::<<(K, V) as Layout>::Key>(1, Word::low(5)), 0),
        (slot::tombstone::<<(K, V) as Layout>::Key>(), 0),
        (0, 1),
    ] {
        let mut damaged = image.clone();
        let at = 1001;
        put::<(K, V)>(
            &mut lines_mut(&mut damaged)[at / <(K, V)>::SLOTS],
            at % <(K, V)>::SLOTS,
            (word, Word::low(value)),
        );
        let nothing = damaged == image;
        assert!(nothing || matches!(audit(&damaged), Err(Violation::Word { slot: 1001, .. })));
        assert!(CuckooOf::<K, V>::pair(&plan, &damaged, 1001).is_none());
    }
    // Lookups stay in bounds whatever an image holds.
    let mut stream = SplitMix64::new(3);
    let noise: Vec<u64> = image.iter().map(|_| stream.next_u64()).collect();
    for key in (0..3000u64).map(|i| <(K, V) as Layout>::Key::low(i << 29 | i)) {
        let _ = (CuckooOf::<K, V>::find(&plan, &noise, key), CuckooOf::<K, V>::reads(&plan, &noise, key));
    }
    let _ = audit(&noise).expect_err("noise");
}

#[test]
fn the_audit_passes_only_what_lookups_agree_with() {
    damage_is_seen::<u64, u64>();
    damage_is_seen::<u64, u32>();
    damage_is_seen::<u32, u64>();
    damage_is_seen::<u64, ()>();
}

#[test]
fn hostile_bytes_make_no_plan() {
    let (plan, _) = built::<u64, u32>(3, &pairs::<u64, u32>(100), 120);
    let of = |id, bytes: &[u8]| CuckooLinePlan::<(u64, u32)>::of_stored(id, bytes);
    let id = CuckooOf::<u64, u32>::ID;
    assert_eq!(id, 1 | 1 << 16);
    assert!(of(Cuckoo::ID, plan.stored()).is_err(), "a table of 32 bits");
    assert!(of(CuckooOf::<u64, u64>::ID, plan.stored()).is_err(), "other values");
    assert!(of(id, &plan.stored()[1..]).is_err() && of(id, &[plan.stored(), &[0]].concat()).is_err());
    // Functions, slots, and the number that is 0.
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
