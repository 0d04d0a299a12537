//! Settling under every interleaving of two threads: the whole pass over a table of a few buckets.
//!
//! Two crowded homes have tokens for the same buckets, which have capacity for fewer of them. The final contents of the
//! buckets and the entries of the homes must equal the result of one thread.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use loom::sync::Arc;
use loom::thread;

use super::*;
use crate::cpu::atomic::modelled::{Blind, Lost, Modelled, Sound, Split};
use crate::cpu::horton::build::{Block, Header};
use crate::scheme::horton::Functions;
use crate::scheme::{Horton, Request, Scheme};

const S: usize = 4;

/// The input of settling: the functions, and a header for each bucket. The one block begins with the free slots of
/// bucket 2, followed by the entries of home 0 and of home 1.
struct Start {
    functions: Functions,
    headers: [AtomicU64; 3],
}

impl Start {
    /// Three buckets. Homes 0 and 1 are crowded, with a token for each of these tags, and bucket 2 has `keys` of its
    /// own. Two functions lead home 0 to buckets 1 and 2, and home 1 to buckets 2 and 0.
    fn new(tags: u32, keys: u32) -> Start {
        let request = Request { slots: 0, pairs: 0, seed: 1, attempt: 0 };
        let plan = Horton::canonical(S as u32).plan(request).expect("a plan");
        let mut functions = plan.functions();
        (functions.buckets, functions.count, functions.stratum) = (3, 2, 1);
        let crowded = |start: usize| Header { keys: S as u32 + 1, start: start as u32, mask: tags };
        let headers = [crowded(S), crowded(S + 1), Header { keys, start: 0, mask: 0 }];
        Start { functions, headers: headers.map(|header| AtomicU64::new(header.word())) }
    }

    fn words<A>(&self, of: impl Fn(u64) -> A) -> Vec<A> {
        (0..2 * S + 1).map(|_| of(0)).collect()
    }

    /// Settles the tokens of these homes.
    fn settle<A: Atomic<Word = u64>>(&self, words: &[A], homes: Range<usize>) {
        let blocks = [Block { words, free_end: S }];
        let (functions, headers) = (&self.functions, &self.headers);
        let build = Build::<S, A> { functions, image: &[], headers, blocks: &blocks, shift: 2 };
        let settled = Settler { fresh: homes, ..Settler::new(build, false) }.settle(&ChunkQueue::new(0));
        assert!(settled.is_ok());
    }

    /// The offers that bucket 2 keeps, in order, and the entries of the crowded homes.
    fn end<A: Atomic<Word = u64>>(&self, words: &[A]) -> Vec<u64> {
        let mut end: Vec<u64> = words.iter().map(|word| word.load(Relaxed)).collect();
        end[..S].sort_unstable();
        end
    }
}

/// Each thread settles one home.
fn ends_as_one_thread<A: Modelled>(tags: u32, keys: u32) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let start = Arc::new(Start::new(tags, keys));
        let alone = start.words(AtomicU64::new);
        start.settle(&alone, 0..2);
        let words = Arc::new(start.words(A::of));
        let other = {
            let (start, words) = (Arc::clone(&start), Arc::clone(&words));
            thread::spawn(move || start.settle(&words, 1..2))
        };
        start.settle(&words, 0..1);
        other.join().expect("no panic");
        assert_eq!(start.end(&words), start.end(&alone));
    });
}

/// A token for each home and one free slot: they displace each other until one is exhausted.
fn one_slot<A: Modelled>() {
    ends_as_one_thread::<A>(0b1, S as u32 - 1);
}

/// Two tokens for each home and one free slot. A thread that displaces a token makes its next offer, so both threads
/// can move tokens of one home to the stash.
fn two_tokens<A: Modelled>() {
    ends_as_one_thread::<A>(0b11, S as u32 - 1);
}

#[test]
fn loom_settling_equals_the_result_of_one_thread() {
    one_slot::<Sound>();
    two_tokens::<Sound>();
}

#[test]
#[should_panic(expected = "assertion")]
fn loom_settling_by_exchanges_in_two_steps_is_detected() {
    one_slot::<Split>();
}

#[test]
#[should_panic(expected = "assertion")]
fn loom_settling_by_exchanges_without_comparing_is_detected() {
    one_slot::<Blind>();
}

#[test]
#[should_panic(expected = "assertion")]
fn loom_entries_set_in_two_steps_are_detected() {
    two_tokens::<Lost>();
}
