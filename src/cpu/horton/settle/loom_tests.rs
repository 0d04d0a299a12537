//! Settling in every order that two threads can have: the whole pass over a table of a few buckets.
//!
//! Two crowded homes have tokens for the same buckets, which have room for fewer of them. What the buckets and the
//! entries of the homes hold in the end must be what one thread leaves there.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use loom::sync::Arc;
use loom::thread;

use super::*;
use crate::cpu::atomic::modelled::{Blind, Lost, Modelled, Sound, Split};
use crate::cpu::horton::build::Header;
use crate::scheme::horton::Functions;
use crate::scheme::{Horton, Request, Scheme};

const S: usize = 4;

/// What `group` leaves to settle: the functions, and a header for each bucket.
struct Start {
    functions: Functions,
    headers: [AtomicU64; 3],
}

impl Start {
    /// Three buckets. Homes 0 and 1 are crowded, with a token for each of these tags, and bucket 2 has `keys` of its
    /// own. Two functions send home 0 to buckets 1 and 2, and home 1 to buckets 2 and 0.
    fn new(tags: u32, keys: u32) -> Start {
        let request = Request { slots: 0, pairs: 0, seed: 1, attempt: 0 };
        let plan = Horton::canonical(S as u32).plan(request).expect("a plan");
        let mut functions = plan.functions();
        (functions.buckets, functions.count, functions.stratum) = (3, 2, 1);
        let crowded = Header { keys: S as u32 + 1, upper: tags };
        let headers = [crowded, crowded, Header { keys, upper: 0 }].map(|header| AtomicU64::new(header.word()));
        Start { functions, headers }
    }

    fn image<A>(&self, of: impl Fn(u64) -> A) -> Vec<A> {
        (0..self.headers.len() * S).map(|_| of(0)).collect()
    }

    /// Settles the tokens of these homes.
    fn settle<A: Atomic<Word = u64>>(&self, image: &[A], homes: Range<usize>) {
        let build = Build::<S, A> { functions: &self.functions, image, headers: &self.headers, crowd: &[] };
        Settler { fresh: homes, ..Settler::new(build) }.settle(&Crew::new(0));
    }

    /// The proposals that each bucket keeps, in order, and the entries of the crowded homes.
    fn end<A: Atomic<Word = u64>>(&self, image: &[A]) -> Vec<Vec<u64>> {
        let buckets = image.as_chunks::<S>().0.iter().zip(&self.headers);
        let kept = |(bucket, header): (&[A; S], &AtomicU64)| {
            let free = Header::of(header.load(Relaxed)).keys as usize;
            let mut words: Vec<u64> = bucket.iter().skip(free.min(S - 1)).map(|word| word.load(Relaxed)).collect();
            words.sort_unstable();
            words
        };
        buckets.map(kept).collect()
    }
}

/// Each thread settles one home.
fn ends_as_one_thread<A: Modelled>(tags: u32, keys: u32) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let start = Arc::new(Start::new(tags, keys));
        let alone = start.image(AtomicU64::new);
        start.settle(&alone, 0..2);
        let image = Arc::new(start.image(A::of));
        let other = {
            let (start, image) = (Arc::clone(&start), Arc::clone(&image));
            thread::spawn(move || start.settle(&image, 1..2))
        };
        start.settle(&image, 0..1);
        other.join().expect("no panic");
        assert_eq!(start.end(&image), start.end(&alone));
    });
}

/// A token for each home and one free slot: they displace each other until one is exhausted.
fn one_slot<A: Modelled>() {
    ends_as_one_thread::<A>(0b1, S as u32 - 1);
}

/// Two tokens for each home and one free slot. Whoever displaces a token carries it on, so both threads can bring
/// tokens of one home to the stash.
fn two_tokens<A: Modelled>() {
    ends_as_one_thread::<A>(0b11, S as u32 - 1);
}

#[test]
fn loom_settling_ends_as_one_thread() {
    one_slot::<Sound>();
    two_tokens::<Sound>();
}

#[test]
#[should_panic(expected = "assertion")]
fn loom_settling_by_exchanges_in_two_steps_is_caught() {
    one_slot::<Split>();
}

#[test]
#[should_panic(expected = "assertion")]
fn loom_settling_by_exchanges_without_comparing_is_caught() {
    one_slot::<Blind>();
}

#[test]
#[should_panic(expected = "assertion")]
fn loom_entries_set_in_two_steps_are_caught() {
    two_tokens::<Lost>();
}
