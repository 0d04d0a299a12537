//! [`offer`] under every interleaving of two threads.

use std::sync::atomic::Ordering::Relaxed;

use loom::sync::Arc;
use loom::thread;

use super::offer;
use crate::cpu::atomic::modelled::{Blind, Modelled, Sound, Split};

/// A word whose upper half identifies a key.
fn word(key: u64, value: u64) -> u64 {
    key << 32 | value
}

/// Each of two threads offers its words to one bucket that contains `there`. Calls `check` with the final content of
/// the bucket in descending order, and with each word and the result of its offer.
fn offered<A: Modelled>(there: [u64; 2], words: [Vec<u64>; 2], check: impl Fn(&[u64], &[(u64, u64)])) {
    let bucket: Arc<[A; 2]> = Arc::new(there.map(A::of));
    let offers = |words: Vec<u64>| {
        let bucket = Arc::clone(&bucket);
        move || words.into_iter().map(|mine| (mine, offer(&*bucket, mine))).collect::<Vec<_>>()
    };
    let [mine, others] = words;
    let other = thread::spawn(offers(others));
    let mut seen = offers(mine)();
    seen.extend(other.join().expect("no panic"));
    let mut held: Vec<u64> = bucket.iter().map(|slot| slot.load(Relaxed)).collect();
    held.sort_unstable_by(|a, b| b.cmp(a));
    check(&held, &seen);
}

/// Three keys for two slots: the least is unplaced, and reported once.
fn keeps_the_greatest<A: Modelled>() {
    loom::model(|| {
        let words = [vec![word(1, 7), word(3, 7)], vec![word(2, 7)]];
        offered::<A>([0, 0], words, |held, seen| {
            assert_eq!(held, [word(3, 7), word(2, 7)]);
            let out: Vec<u64> = seen.iter().map(|&(mine, there)| mine.min(there)).filter(|&word| word > 0).collect();
            assert_eq!(out, [word(1, 7)], "{seen:?}");
        });
    });
}

/// Duplicates of a key compete with another key: the greatest is kept, and each other one is counted as a duplicate.
fn keeps_one_duplicate<A: Modelled>() {
    loom::model(|| {
        let words = [vec![word(2, 7)], vec![word(3, 1), word(2, 9)]];
        offered::<A>([word(1, 1), 0], words, |held, seen| {
            assert_eq!(held, [word(3, 1), word(2, 9)]);
            let duplicates = seen.iter().filter(|(mine, there)| mine >> 32 == there >> 32).count();
            assert_eq!(duplicates, 1, "{seen:?}");
        });
    });
}

#[test]
fn loom_offers_keep_the_greatest() {
    keeps_the_greatest::<Sound>();
}

#[test]
fn loom_offers_keep_one_duplicate() {
    keeps_one_duplicate::<Sound>();
}

#[test]
#[should_panic(expected = "assertion")]
fn loom_offers_in_two_steps_are_detected() {
    keeps_the_greatest::<Split>();
}

#[test]
#[should_panic(expected = "assertion")]
fn loom_offers_without_comparing_are_detected() {
    keeps_the_greatest::<Blind>();
}

#[test]
#[should_panic(expected = "assertion")]
fn loom_duplicates_without_comparing_are_detected() {
    keeps_one_duplicate::<Blind>();
}
