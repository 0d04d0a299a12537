//! Tests of columns of every layout: order, lookups, audits, hostile plans and images.

use super::*;
use crate::backend::Word;
use crate::scheme::hash::SplitMix64;

type Pair<K, V> = (<(K, V) as Layout>::Key, <(K, V) as Layout>::Value);

/// Distinct keys in no order, extremes among them, with values of 0 in sets.
fn pairs<K: Column, V: Column>(count: usize) -> Vec<Pair<K, V>>
where
    (K, V): Layout,
{
    let mut stream = SplitMix64::new(count as u64);
    let key = |at: u64| Word::low(at.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_right(31));
    let extremes = [0, u64::MAX, 1 << 32, 1 << 63].map(Word::low);
    let mut keys: Vec<<(K, V) as Layout>::Key> = extremes.into_iter().chain((1..=count as u64).map(key)).collect();
    keys.sort_unstable();
    keys.dedup();
    keys.truncate(count);
    let len = keys.len();
    let value = |stream: &mut SplitMix64| if <(K, V)>::VALUES.is_some() { stream.next_u64() | 1 } else { 0 };
    (0..len).map(|i| (keys[i * 7919 % len], Word::low(value(&mut stream)))).collect()
}

fn built<K: Column, V: Column>(slots: u64, pairs: &[Pair<K, V>]) -> (ColumnsPlan<(K, V)>, Vec<u64>)
where
    (K, V): Layout,
{
    let request = Request { slots, pairs: pairs.len() as u64, seed: 3, attempt: 2 };
    let plan = Sorted.of::<K, V>().plan(request).expect("a plan");
    let mut image = vec![u64::MAX; plan.words() as usize];
    assert_eq!(SortedOf::<K, V>::place(&plan, &mut image, pairs), Placing::Placed);
    (plan, image)
}

fn holds<K: Column, V: Column>()
where
    (K, V): Layout,
{
    type Of<K, V> = SortedOf<K, V>;
    for count in [0, 1, 2, 5, 700] {
        let pairs = pairs::<K, V>(count);
        for slots in [pairs.len(), pairs.len() + 1, pairs.len() + 30] {
            let (plan, image) = built::<K, V>(slots as u64, &pairs);
            let mut expected = pairs.clone();
            expected.sort_unstable();
            let listed: Vec<_> = (0..plan.cells()).filter_map(|cell| Of::<K, V>::pair(&plan, &image, cell)).collect();
            assert_eq!(listed, expected);
            assert!(pairs.iter().all(|&(key, value)| Of::<K, V>::find(&plan, &image, key) == Some(value)));
            let absent = (0..500u64).map(|i| <(K, V) as Layout>::Key::low(i.wrapping_mul(0x1234_5677_89ab) + 2));
            let is_absent = |key: &<(K, V) as Layout>::Key| !pairs.iter().any(|pair| pair.0 == *key);
            assert!(absent.filter(is_absent).all(|key| Of::<K, V>::find(&plan, &image, key).is_none()));
            let audit = Of::<K, V>::audit(&plan, &image, 0..plan.cells()).expect("a sound image");
            assert_eq!((audit.pairs, audit.tombstones), (pairs.len() as u64, 0));
            assert_eq!(Of::<K, V>::age(&plan, &image, pairs.len() as u64), 0);
            assert_eq!(ColumnsPlan::<(K, V)>::of_stored(Of::<K, V>::ID, plan.stored()), Ok(plan));
        }
    }
}

#[test]
fn tables_of_every_layout_have_ascending_pairs() {
    holds::<u64, u64>();
    holds::<u64, u32>();
    holds::<u32, u64>();
    holds::<u64, ()>();
}

#[test]
fn columns_are_padded_to_whole_words() {
    let words = |plan: &dyn Fn(u64) -> u64| [1, 2, 5, 6].map(plan);
    let request = |slots| Request { slots, pairs: 0, seed: 0, attempt: 0 };
    assert_eq!(words(&|n| Sorted.of::<u64, u64>().plan(request(n)).expect("a plan").words()), [2, 4, 10, 12]);
    assert_eq!(words(&|n| Sorted.of::<u64, u32>().plan(request(n)).expect("a plan").words()), [2, 3, 8, 9]);
    assert_eq!(words(&|n| Sorted.of::<u32, u64>().plan(request(n)).expect("a plan").words()), [2, 3, 8, 9]);
    assert_eq!(words(&|n| Sorted.of::<u64, ()>().plan(request(n)).expect("a plan").words()), [1, 2, 5, 6]);
    let vast = request(1 << 32);
    assert!(matches!(Sorted.of::<u64, u64>().plan(vast), Err(Error::TooLarge { .. })));
    assert_eq!(Sorted.of::<u64, u64>().plan(request(0)).map(|plan| plan.slots()).ok(), Some(1));
}

#[test]
fn the_least_duplicate_is_reported_and_other_numbers_of_pairs_are_refused() {
    let place = |planned: u64, pairs: &[(u64, u32)]| {
        let request = Request { slots: 9, pairs: planned, seed: 0, attempt: 0 };
        let plan = Sorted.of::<u64, u32>().plan(request).expect("a plan");
        SortedOf::place(&plan, &mut vec![0; plan.words() as usize], pairs)
    };
    let duplicates = [(5 << 40, 1), (3 << 40, 1), (5 << 40, 2), (3 << 40, 1), (9, 9)];
    assert_eq!(place(5, &duplicates), Placing::Duplicate(3 << 40));
    assert_eq!(place(4, &duplicates), Placing::Unplaced);
    assert_eq!(place(99, &duplicates), Placing::Unplaced);
}

fn damage_is_seen<K: Column, V: Column>()
where
    (K, V): Layout,
{
    let sorted = pairs::<K, V>(99);
    let (plan, image) = built::<K, V>(107, &sorted);
    let audit = |image: &[u64]| SortedOf::<K, V>::audit(&plan, image, 0..plan.cells());
    assert!(audit(&image).is_ok());
    for bit in 0..64 * image.len() {
        let mut damaged = image.clone();
        damaged[bit / 64] ^= 1 << (bit % 64);
        // An image that passes the audit is a table: lookups agree with its contents.
        let mut listed = (0..plan.cells()).filter_map(|cell| SortedOf::<K, V>::pair(&plan, &damaged, cell));
        let agrees = listed.all(|(key, value)| SortedOf::<K, V>::find(&plan, &damaged, key) == Some(value));
        assert!(audit(&damaged).is_err() || agrees, "bit {bit}");
        // Bits after the pairs, and after the last slots.
        let (keys, values) = columns::<(K, V)>(&damaged, plan.slot_count());
        let past = keys[99..].iter().any(|&key| key != Word::low(0))
            || values.get(99..).unwrap_or_default().iter().any(|&value| value != Word::low(0));
        assert!(!past || matches!(audit(&damaged), Err(Violation::Word { .. })), "bit {bit}");
    }
    let swap = |a: usize, b: usize| {
        let mut damaged = image.clone();
        let (keys, _) = columns_mut::<(K, V)>(&mut damaged, plan.slot_count());
        let keys: &mut [<(K, V) as Layout>::Key] = bytemuck::cast_slice_mut(keys);
        if a == b {
            keys[a] = keys[a - 1]
        } else {
            keys.swap(a, b)
        }
        audit(&damaged)
    };
    assert_eq!(swap(7, 8), Err(Violation::Unsorted { bucket: 8 }));
    assert!(matches!(swap(9, 9), Err(Violation::Twice { slot: 9, other: 8, .. })));
    // Audits of parts check the order across the border between them, and lookups stay in bounds for any image.
    let mut stream = SplitMix64::new(3);
    let noise: Vec<u64> = image.iter().map(|_| stream.next_u64()).collect();
    for key in (0..3000u64).map(|i| <(K, V) as Layout>::Key::low(i << 29 | i)) {
        let _ = (SortedOf::<K, V>::find(&plan, &noise, key), SortedOf::<K, V>::reads(&plan, &noise, key));
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
    let (plan, _) = built::<u64, u32>(9, &[(5, 6)]);
    let of = |id, bytes: &[u8]| ColumnsPlan::<(u64, u32)>::of_stored(id, bytes);
    let id = SortedOf::<u64, u32>::ID;
    assert_eq!(id, 6 | 1 << 16);
    assert!(of(Sorted::ID, plan.stored()).is_err(), "a table of 32 bits");
    assert!(of(SortedOf::<u64, u64>::ID, plan.stored()).is_err(), "other values");
    assert!(of(id, &plan.stored()[1..]).is_err() && of(id, &[plan.stored(), &[0]].concat()).is_err());
    for (slots, pairs) in [(0u32, 0u32), (9, 10), (0, 1), (1, u32::MAX)] {
        let mut stored = plan.stored().to_vec();
        stored[..4].copy_from_slice(&slots.to_le_bytes());
        stored[4..8].copy_from_slice(&pairs.to_le_bytes());
        assert!(of(id, &stored).is_err(), "{pairs} pairs in {slots} slots");
    }
}
