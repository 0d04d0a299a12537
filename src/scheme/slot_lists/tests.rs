//! Tests of the rule for every layout, for each scheme that uses it: independence of order, lookups, audits, hostile
//! images.

use super::cell;
use crate::backend::Word;
use crate::scheme::bucketized::wide::slot::Fields;
use crate::scheme::bucketized::wide::{Layout, lines_mut, put};
use crate::scheme::hash::SplitMix64;
use crate::scheme::{Placing, Plan, Request, Scheme, Violation};

type Pair<S> = (<S as Scheme>::Key, <S as Scheme>::Value);
type Built<S> = (<S as Scheme>::Plan, Vec<u64>);

/// Distinct keys with values, extremes among them.
pub(in crate::scheme) fn pairs<S: Scheme>(scheme: &S, count: usize) -> Vec<Pair<S>> {
    let mut stream = SplitMix64::new(count as u64);
    let key = |at: u64| Word::low(at.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_right(31));
    let extremes = [0, 1, 1 << 32, 1 << 63, u64::MAX].map(Word::low);
    let mut keys: Vec<S::Key> = extremes.into_iter().chain((2..count as u64).map(key)).collect();
    keys.sort_unstable();
    keys.dedup();
    keys.truncate(count);
    let has_values = scheme.limits().value_bits > 0;
    let mut value = || if has_values { Word::low(stream.next_u64() << 3) } else { Word::low(0) };
    keys.into_iter().map(|key| (key, value())).collect()
}

pub(in crate::scheme) fn built<S: Scheme>(scheme: &S, pairs: &[Pair<S>], slots: u64) -> Built<S> {
    let request = Request { slots, pairs: pairs.len() as u64, seed: 9, attempt: 0 };
    let plan = scheme.plan(request).expect("a plan");
    let mut image = vec![plan.empty_word(); plan.words() as usize];
    assert_ne!(S::place(&plan, &mut image, pairs), Placing::Unplaced);
    (plan, image)
}

/// Checks tables of these sizes and loads, in which a lookup reads at most this many slots.
pub(in crate::scheme) fn holds<S: Scheme>(scheme: &S, sizes: &[(usize, f64)], most_reads: u32) {
    for &(count, load) in sizes {
        let pairs = pairs(scheme, count);
        let (plan, image) = built(scheme, &pairs, (count as f64 / load) as u64);
        let mut backwards = pairs.clone();
        backwards.reverse();
        assert_eq!(built(scheme, &backwards, plan.requested_slots()).1, image, "any order gives one image");
        let audit = S::audit(&plan, &image, 0..plan.cells()).expect("a sound image");
        assert_eq!((audit.pairs, audit.tombstones), (pairs.len() as u64, 0));
        assert!(pairs.iter().all(|&(key, value)| S::find(&plan, &image, key) == Some(value)));
        assert!(pairs.iter().all(|&(key, _)| (1..=most_reads).contains(&S::reads(&plan, &image, key))));
        let mut listed: Vec<_> = (0..plan.cells()).filter_map(|cell| S::pair(&plan, &image, cell)).collect();
        listed.sort_unstable();
        assert_eq!(listed, pairs);
        let absent = (0..2000u64).map(|i| S::Key::low(i.wrapping_mul(0x1234_5677) + 2));
        let absent: Vec<_> = absent.filter(|key| pairs.binary_search_by_key(key, |&(key, _)| key).is_err()).collect();
        assert!(absent.len() > 1900 && absent.iter().all(|&key| S::find(&plan, &image, key).is_none()));

        let mut with_tombstones = image.clone();
        let gone: Vec<_> = pairs.iter().map(|&(key, _)| key).step_by(3).collect();
        assert_eq!(S::remove(&plan, &mut with_tombstones, &gone), gone.len() as u64);
        assert_eq!(S::remove(&plan, &mut with_tombstones, &gone), 0);
        let audit = S::audit(&plan, &with_tombstones, 0..plan.cells()).expect("a sound image");
        assert_eq!((audit.pairs, audit.tombstones), ((pairs.len() - gone.len()) as u64, gone.len() as u64));
        let there = |(i, &(key, value)): (usize, &Pair<S>)| {
            S::find(&plan, &with_tombstones, key) == (i % 3 != 0).then_some(value)
        };
        assert!(pairs.iter().enumerate().all(there));

        assert_eq!(S::Plan::of_stored(S::ID, plan.stored()), Ok(plan));
        assert_eq!(S::from_plan(&plan), *scheme);
    }
}

/// The greatest value of a key is kept, in any order.
pub(in crate::scheme) fn keeps_the_greatest<S: Scheme<Key = u64, Value = u64>>(scheme: &S) {
    for order in [[(7, 1), (7, 9), (7, 5)], [(7, 9), (7, 5), (7, 1)]] {
        let (plan, mut image) = built(scheme, &order, 16);
        assert_eq!(S::find(&plan, &image, 7), Some(9));
        assert_eq!(S::place(&plan, &mut image, &[(7, 2)]), Placing::Duplicate(7));
    }
}

/// The words of a set are those of the table of its keys.
pub(in crate::scheme) fn a_set_is_the_table_without_its_values<T, S>(table: &T, set: &S)
where
    T: Scheme<Key = u64, Value = u64>,
    S: Scheme<Key = u64, Value = u32>,
{
    let pairs = pairs(table, 900);
    let keys: Vec<(u64, u32)> = pairs.iter().map(|&(key, _)| (key, 0)).collect();
    let (plan, image) = built(table, &pairs, 1001);
    let (set_plan, set) = built(set, &keys, 1001);
    let slots = plan.slots() as usize;
    assert!((0..slots).all(|slot| cell::<(u64, ())>(&set, slot).0 == cell::<(u64, u64)>(&image, slot).0));
    assert_eq!((set.len(), image.len()), (8 * slots.div_ceil(8), 8 * slots.div_ceil(4)));
    assert_eq!(set_plan.slots(), plan.slots());
}

/// Flipped bits, and noise.
pub(in crate::scheme) fn damage_is_seen<S: Scheme>(scheme: &S, slots: u64) {
    let (plan, image) = built(scheme, &pairs(scheme, 900), slots);
    let audit = |image: &[u64]| S::audit(&plan, image, 0..plan.cells());
    assert!(audit(&image).is_ok());
    let mut seen = 0;
    for bit in (0..64 * image.len()).step_by(137) {
        let mut damaged = image.clone();
        damaged[bit / 64] ^= 1 << (bit % 64);
        let sound = audit(&damaged).is_ok();
        seen += usize::from(!sound);
        // An image passes the audit if the word is another key's, or only a value has changed: lookups agree with its
        // contents.
        let mut listed = (0..plan.cells()).filter_map(|cell| S::pair(&plan, &damaged, cell));
        let found = |(key, value)| S::find(&plan, &damaged, key) == Some(value);
        assert!(!sound || listed.all(found), "bit {bit}");
    }
    assert!(seen > image.len() / 16, "{seen}");
    // Lookups stay in bounds for any image.
    let mut stream = SplitMix64::new(3);
    let noise: Vec<u64> = image.iter().map(|_| stream.next_u64()).collect();
    for key in (0..3000u64).map(|i| S::Key::low(i << 29 | i)) {
        let _ = (S::find(&plan, &noise, key), S::reads(&plan, &noise, key));
    }
    let _ = audit(&noise).expect_err("noise");
}

/// Pairs after the last slot, which is not the last of its line.
pub(in crate::scheme) fn pairs_after_the_last_slot_are_seen<L, S>(scheme: &S, fields: Fields)
where
    L: Layout,
    S: Scheme<Key = L::Key, Value = L::Value>,
{
    let (plan, image) = built(scheme, &pairs(scheme, 900), 1001);
    let at = plan.cells();
    assert_ne!(at as usize % L::SLOTS, 0);
    for (word, value) in [(fields.word::<L::Key>(1, Word::low(5)), 0), (fields.tombstone::<L::Key>(), 0), (0, 1)] {
        let mut damaged = image.clone();
        let (line, slot) = (at as usize / L::SLOTS, at as usize % L::SLOTS);
        put::<L>(&mut lines_mut(&mut damaged)[line], slot, (word, Word::low(value)));
        let found = S::audit(&plan, &damaged, 0..plan.cells());
        assert!(damaged == image || matches!(found, Err(Violation::Word { slot, .. }) if slot == at));
        assert!(S::pair(&plan, &damaged, at).is_none());
    }
}

/// Runs a check of a scheme's tables for every layout.
macro_rules! every_layout {
    ($scheme:expr, |$table:ident, $layout:ident| $check:expr) => {{
        $crate::scheme::slot_lists::tests::every_layout!(@ $scheme, $table, $layout, $check, [u64, u64]);
        $crate::scheme::slot_lists::tests::every_layout!(@ $scheme, $table, $layout, $check, [u64, u32]);
        $crate::scheme::slot_lists::tests::every_layout!(@ $scheme, $table, $layout, $check, [u32, u64]);
        $crate::scheme::slot_lists::tests::every_layout!(@ $scheme, $table, $layout, $check, [u64, ()]);
    }};
    (@ $scheme:expr, $table:ident, $layout:ident, $check:expr, [$key:ty, $value:ty]) => {{
        #[allow(dead_code)]
        type $layout = ($key, $value);
        let $table = $scheme.of::<$key, $value>();
        $check
    }};
}
pub(in crate::scheme) use every_layout;
