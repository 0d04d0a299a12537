//! Deferred acceptance on all threads at once, without locks or rounds.
//!
//! ```text
//! each thread:   loop  refill the queue with the tokens of fresh buckets, if it does not have a block
//!                      aim next         (the last 128 offers in the queue, and their targets; prefetch the headers)
//!                      locate the last  (prefetch the free slots that those headers refer to)
//!                      resolve the one before it
//! aim:           a token that has tried all places: the entry of its first tag = STASH, by an atomic or
//! resolve:       the least word of the target's free slots is below my offer: exchange them
//!                the rejected offer, mine or the displaced one, is queued
//! ```
//!
//! An offer in the queue contains everything to continue (`offer.rs`), together with the header of its home, which is
//! prefetched when the offer is queued.
//!
//! **Why relaxed atomics and plain reads suffice.** A slot's word only grows. If all of them were above mine when they
//! were read, they stay above it, and my offer would still be rejected now. If the exchange succeeds, the word was
//! unchanged, and the others are at least what was read: it was the least of them, and mine is above it. No other
//! memory is read because of such a word: the headers were written before a join. So every step is a step of sequential
//! deferred acceptance, whose result does not depend on the order.
//!
//! **Why a single thread uses another function.** Whether an offer wins is unpredictable, and so is the number of free
//! slots. A thread that runs alone can write without branching on either (`put_alone`).
//!
//! **Why it ends.** Every step makes one offer one age older, and ages are bounded.

use std::hint::select_unpredictable;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

use wide::u32x8;

use super::build::Build;
use super::offer::{self, NO_OFFER, Offer};
use crate::cpu;
use crate::cpu::atomic::Atomic;
use crate::cpu::chunk_queue::ChunkQueue;
use crate::cpu::lanes::at_best;
use crate::cpu::memory::prefetch;
use crate::error::Result;
use crate::memory;
use crate::scheme::horton::tokens;

/// Offers in flight together; fewer in the model checker, whose threads have small stacks.
const BLOCK: usize = if cfg!(loom) { 8 } else { cpu::BLOCK };

/// Makes all offers, until each token is accepted or exhausted.
pub(super) fn settle<const S: usize>(build: Build<'_, S>) -> Result<()> {
    let chunk_queue = ChunkQueue::new(build.functions.buckets as usize);
    let alone = chunk_queue.threads() == 1;
    chunk_queue.run(|chunk_queue| Settler::new(build, alone).settle(chunk_queue), Result::and).unwrap_or(Ok(()))
}

/// Offers and their targets.
struct Block<'a, const S: usize, A> {
    len: usize,
    offers: [u64; BLOCK],
    homes: [u32; BLOCK],
    masks: [u32; BLOCK],
    tags: [u32; BLOCK],
    functions: [u32; BLOCK],
    targets: [u32; BLOCK],
    free_slots: [(&'a [A; S], usize); BLOCK],
}

/// One thread.
struct Settler<'a, const S: usize, A> {
    build: Build<'a, S, A>,
    /// The first `waiting` offers are made next, beginning with the last of them; the rest is capacity.
    queue: Vec<u64>,
    waiting: usize,
    /// Buckets whose tokens have not been queued.
    fresh: Range<usize>,
    /// Whether no other thread makes offers.
    alone: bool,
}

impl<'a, const S: usize, A: Atomic<Word = u64>> Settler<'a, S, A> {
    fn new(build: Build<'a, S, A>, alone: bool) -> Self {
        Settler { build, queue: Vec::new(), waiting: 0, fresh: 0..0, alone }
    }

    fn settle(mut self, chunk_queue: &ChunkQueue) -> Result<()> {
        let block = || Block {
            len: 0,
            offers: [0; BLOCK],
            homes: [0; BLOCK],
            masks: [0; BLOCK],
            tags: [0; BLOCK],
            functions: [0; BLOCK],
            targets: [0; BLOCK],
            free_slots: [(&self.build.blocks[0].words.as_chunks::<S>().0[0], 0); BLOCK],
        };
        let [mut one, mut two, mut three] = [block(), block(), block()];
        let (mut next, mut aimed, mut flying) = (&mut one, &mut two, &mut three);
        loop {
            let any_left = self.refill(chunk_queue)?;
            at_best(
                #[inline(always)]
                || {
                    self.aim(next);
                    self.locate(aimed);
                    self.resolve(flying)
                },
            )?;
            (next, aimed, flying) = (flying, next, aimed);
            if aimed.len + flying.len + self.waiting == 0 && !any_left {
                return Ok(());
            }
        }
    }

    /// Queues tokens until there is a block of them; returns false if no bucket is left.
    fn refill(&mut self, chunk_queue: &ChunkQueue) -> Result<bool> {
        while self.waiting < BLOCK {
            if self.fresh.is_empty() {
                self.fresh = chunk_queue.take().unwrap_or(0..0);
            }
            let Some(home) = self.fresh.next() else { return Ok(false) };
            let (home, header) = (home as u32, self.build.header(home as u32));
            if !header.is_crowded::<S>() {
                continue;
            }
            let count = header.tokens::<S>();
            self.grow(count as usize)?;
            // With surplus keys, each tag is a token, and the tags of surplus keys already have their entries.
            let has_surplus = tokens::leavers(header.keys, S as u32) > count;
            let entries = if has_surplus { self.build.record(home, header)[0].load(Relaxed) } else { 0 };
            for token in 0..count {
                self.queue[self.waiting] = offer::before_first(home, token, count);
                self.waiting += usize::from(tokens::entry(entries, token, self.build.functions.bits) == 0);
            }
        }
        Ok(true)
    }

    fn grow(&mut self, more: usize) -> Result<()> {
        if self.queue.len() < self.waiting + more {
            let len = self.waiting + more + 2 * BLOCK;
            self.queue.try_reserve(len - self.queue.len()).map_err(|_| memory::out_of_memory::<u64>(len))?;
            self.queue.resize(len, 0);
        }
        Ok(())
    }

    /// Takes a block from the queue, and computes and prefetches its targets.
    #[inline(always)]
    fn aim(&mut self, block: &mut Block<'a, S, A>) {
        let Build { functions, .. } = self.build;
        let from = self.waiting.saturating_sub(BLOCK);
        let mut len = 0;
        for &before in &self.queue[from..self.waiting] {
            let home = Offer::of(before).home;
            let header = self.build.header(home);
            let (offer, word) = offer::next(before, header, header.tokens::<S>());
            if offer.round >= tokens::CYCLES * functions.count {
                // The stash's code is all ones, and the entry was 0.
                let code = tokens::with_entry(0, offer.token, functions.bits, functions.stash_code());
                self.build.record(home, header)[0].fetch_or(code, Relaxed);
                continue;
            }
            block.offers[len % BLOCK] = word;
            (block.homes[len % BLOCK], block.masks[len % BLOCK]) = (home, header.mask);
            block.tags[len % BLOCK] = offer.rank;
            block.functions[len % BLOCK] = offer.function(functions.count);
            len += 1;
        }
        (self.waiting, block.len) = (from, len);
        // Several at a time.
        for (tag, &mask) in block.tags.iter_mut().zip(&block.masks) {
            *tag = tokens::nth_bit(mask, *tag);
        }
        let homes = block.homes.as_chunks::<8>().0.iter().zip(block.tags.as_chunks::<8>().0);
        let all = homes.zip(block.functions.as_chunks::<8>().0).zip(block.targets.as_chunks_mut::<8>().0);
        for (((homes, tags), numbers), targets) in all.take(len.div_ceil(8)) {
            let remapped = functions.mixed_remap(u32x8::new(*homes), u32x8::new(*tags), u32x8::new(*numbers));
            *targets = remapped.to_array();
        }
        for &target in &block.targets[..len] {
            self.build.prefetch_header(target);
        }
    }

    /// Prefetches the free slots of a block's targets.
    #[inline(always)]
    fn locate(&mut self, block: &mut Block<'a, S, A>) {
        for (&target, free_slots) in block.targets[..block.len.min(BLOCK)].iter().zip(&mut block.free_slots) {
            let header = self.build.header(target);
            let behind = self.build.record(target, header);
            prefetch(behind, 0);
            // The free slots may extend into the next line.
            prefetch(behind, S / 2 - 1);
            let Some(words) = behind.first_chunk::<S>() else { continue };
            *free_slots = (words, S - (header.keys as usize).min(S));
        }
    }

    /// Makes the offers of a block, and queues the rejected ones.
    #[inline(always)]
    fn resolve(&mut self, block: &Block<'a, S, A>) -> Result<()> {
        self.grow(BLOCK)?;
        let (build, alone) = (self.build, self.alone);
        let Settler { queue, waiting, .. } = self;
        let (queue, mut end) = (&mut queue[..], *waiting);
        for i in 0..block.len.min(BLOCK) {
            let (mine, home, (free_slots, count)) = (block.offers[i], block.homes[i], block.free_slots[i]);
            let loser = if alone { put_alone(free_slots, count, mine) } else { put(free_slots, count, mine) };
            build.prefetch_header(select_unpredictable(loser == NO_OFFER, home, Offer::of(loser).home));
            queue[end] = loser;
            end += usize::from(loser != NO_OFFER);
        }
        *waiting = end;
        Ok(())
    }
}

/// Makes an offer to the first `count` of these words, and returns the rejected offer: this one or the displaced one;
/// or [`NO_OFFER`] if a slot was empty.
#[inline(always)]
fn put<A: Atomic<Word = u64>, const S: usize>(free_slots: &[A; S], count: usize, mine: u64) -> u64 {
    loop {
        let words: [u64; S] = std::array::from_fn(|i| free_slots[i].load(Relaxed));
        let mut least = u64::MAX;
        for (i, &word) in words.iter().enumerate() {
            least = select_unpredictable((i < count) & (word < least), word, least);
        }
        if least > mine {
            return mine;
        }
        let places = (0..S).fold(0, |places, i| places | u32::from((words[i] == least) & (i < count)) << i);
        let at = places.trailing_zeros() as usize % S;
        if free_slots[at].compare_exchange(least, mine, Relaxed, Relaxed).is_ok() {
            return least;
        }
    }
}

/// As [`put`], for a single thread: the words stay sorted, the greatest first.
#[inline(always)]
fn put_alone<A: Atomic<Word = u64>, const S: usize>(free_slots: &[A; S], count: usize, mine: u64) -> u64 {
    // All words are read before one is written. There is no branch on their number, which is unpredictable, except if
    // there are more than four, which is rare.
    let few: [u64; 4] = std::array::from_fn(|i| free_slots[i].load(Relaxed));
    let mut carry = mine;
    let mut pass = |free_slot: &A, there: u64, is_free: bool| {
        let is_less = there < carry;
        let (greater, less) =
            (select_unpredictable(is_less, carry, there), select_unpredictable(is_less, there, carry));
        free_slot.store(select_unpredictable(is_free, greater, there));
        carry = select_unpredictable(is_free, less, carry);
    };
    (0..4).for_each(|i| pass(&free_slots[i], few[i], i < count));
    free_slots[4..]
        .iter()
        .take(count.saturating_sub(4))
        .for_each(|free_slot| pass(free_slot, free_slot.load(Relaxed), true));
    carry
}

#[cfg(all(test, loom))]
mod loom_tests;
