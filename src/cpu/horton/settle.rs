//! Deferred acceptance on all threads at once, without locks or rounds.
//!
//! ```text
//! each thread:   loop  refill the queue with the tokens of fresh buckets, if it has no block
//!                      aim next        (tag, function, target of the last 128 in the queue; prefetch the targets)
//!                      resolve flying  (its lines have had a block's time to arrive)
//! aim:           a token past its last age: the entry of its first tag = STASH, by an atomic or
//! resolve:       the least of the target's free words is below my proposal: exchange them
//!                who has lost, I or the one that stood there, goes to the queue one age older
//! ```
//!
//! A proposal is its own place in the queue: age, home and token are all it takes to go on, with the mask of the home's
//! tags, whose line is asked for when the proposal is queued.
//!
//! **Why relaxed atomics and plain reads do.** A free word only grows. So if all of them were above mine when I looked,
//! they are above it for good, and I am refused as I would be now. If the exchange succeeds, the word still was what I
//! saw, and the others are no less than what I saw of them: it was the least of them all, and I am above it. No other
//! memory is read on the strength of such a word: the headers were written before a join. So every step is a step of
//! sequential deferred acceptance, whose end does not depend on the order.
//!
//! **Why it ends.** Every step makes one proposal one age older, and ages are bounded.

use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

use wide::u32x8;

use super::build::Build;
use crate::cpu::BLOCK;
use crate::cpu::atomic::Atomic;
use crate::cpu::crew::Crew;
use crate::cpu::memory::prefetch;
use crate::error::Result;
use crate::memory;
use crate::scheme::horton::tokens::{self, NO_PROPOSAL};

/// Ages stand in a proposal's topmost 16 bits.
const OLDER: u64 = 1 << 48;

/// Lets all tokens propose until each is kept or exhausted.
pub(super) fn settle<const S: usize>(build: Build<'_, S>) -> Result<()> {
    Crew::new(build.headers.len()).run(|crew| Settler::new(build).settle(crew), Result::and).unwrap_or(Ok(()))
}

/// Proposals on their way to their targets.
struct Block {
    len: usize,
    proposals: [u64; BLOCK],
    homes: [u32; BLOCK],
    tags: [u32; BLOCK],
    functions: [u32; BLOCK],
    targets: [u32; BLOCK],
}

/// One thread.
struct Settler<'a, const S: usize, A> {
    build: Build<'a, S, A>,
    /// The first `waiting` are to be made next, the last of them first; the rest is room.
    queue: Vec<u64>,
    waiting: usize,
    /// Buckets whose tokens have not been queued.
    fresh: Range<usize>,
}

impl<'a, const S: usize, A: Atomic<Word = u64>> Settler<'a, S, A> {
    fn new(build: Build<'a, S, A>) -> Self {
        Settler { build, queue: Vec::new(), waiting: 0, fresh: 0..0 }
    }

    fn settle(mut self, crew: &Crew) -> Result<()> {
        let block = || Block {
            len: 0,
            proposals: [0; BLOCK],
            homes: [0; BLOCK],
            tags: [0; BLOCK],
            functions: [0; BLOCK],
            targets: [0; BLOCK],
        };
        let (mut one, mut other) = (block(), block());
        let (mut flying, mut next) = (&mut one, &mut other);
        loop {
            let any_left = self.refill(crew)?;
            self.aim(next);
            self.resolve(flying)?;
            std::mem::swap(&mut flying, &mut next);
            if flying.len == 0 && self.waiting == 0 && !any_left {
                return Ok(());
            }
        }
    }

    /// Queues tokens until there is a block of them, or no bucket is left: then false.
    fn refill(&mut self, crew: &Crew) -> Result<bool> {
        while self.waiting < BLOCK {
            if self.fresh.is_empty() {
                self.fresh = crew.take().unwrap_or(0..0);
            }
            let Some(home) = self.fresh.next() else { return Ok(false) };
            let (home, header) = (home as u32, self.build.header(home as u32));
            if !header.is_crowded::<S>() {
                continue;
            }
            let count = header.tokens::<S>();
            self.make_room(count as usize)?;
            // With surplus keys each tag is a token, and those of the surplus keys' tags have their entries.
            let has_surplus = tokens::leavers(header.keys, S as u32) > count;
            let entries = if has_surplus { self.build.entries(home).load(Relaxed) } else { 0 };
            let is_settled = |token: u32| {
                let tag = tokens::nth_bit(header.upper, token);
                tokens::entry(entries, tag, self.build.functions.bits) != 0
            };
            for token in (0..count).filter(|&token| !has_surplus || !is_settled(token)) {
                self.queue[self.waiting] = tokens::proposal(1, home, token);
                self.waiting += 1;
            }
        }
        Ok(true)
    }

    fn make_room(&mut self, more: usize) -> Result<()> {
        if self.queue.len() < self.waiting + more {
            let len = self.waiting + more + 2 * BLOCK;
            self.queue.try_reserve(len - self.queue.len()).map_err(|_| memory::no_room::<u64>(len))?;
            self.queue.resize(len, 0);
        }
        Ok(())
    }

    /// Takes a block from the queue, and asks for its targets.
    #[inline(always)]
    fn aim(&mut self, block: &mut Block) {
        let Build { functions, image, headers, .. } = self.build;
        let from = self.waiting.saturating_sub(BLOCK);
        let mut len = 0;
        for &proposal in &self.queue[from..self.waiting] {
            let (age, home, token) = tokens::unpacked(proposal);
            let header = self.build.header(home);
            let (mask, count) = (header.upper, header.tokens::<S>());
            let Some((tag, function)) = tokens::step(mask, count, token, age, functions.count) else {
                // The stash's code is all ones, and the entry was 0.
                let code = tokens::with_entry(0, tokens::nth_bit(mask, token), functions.bits, functions.stash_code());
                self.build.entries(home).fetch_or(code, Relaxed);
                continue;
            };
            block.proposals[len % BLOCK] = proposal;
            (block.homes[len % BLOCK], block.tags[len % BLOCK]) = (home, tag);
            block.functions[len % BLOCK] = function;
            len += 1;
        }
        (self.waiting, block.len) = (from, len);
        let homes = block.homes.as_chunks::<8>().0.iter().zip(block.tags.as_chunks::<8>().0);
        let all = homes.zip(block.functions.as_chunks::<8>().0).zip(block.targets.as_chunks_mut::<8>().0);
        for (((homes, tags), numbers), targets) in all.take(len.div_ceil(8)) {
            let remapped = functions.mixed_remap(u32x8::new(*homes), u32x8::new(*tags), u32x8::new(*numbers));
            *targets = remapped.to_array();
        }
        for &target in &block.targets[..len] {
            prefetch(headers, target as usize);
            for line in (0..S).step_by(8) {
                prefetch(image, target as usize * S + line);
            }
        }
    }

    /// Makes the proposals of a block, and queues all who lose.
    #[inline(always)]
    fn resolve(&mut self, block: &Block) -> Result<()> {
        self.make_room(BLOCK)?;
        for i in 0..block.len.min(BLOCK) {
            let (mine, target) = (block.proposals[i], block.targets[i]);
            let keys = self.build.header(target).keys as usize;
            let loser = offer(self.build.bucket(target), keys, mine);
            let home = tokens::unpacked(loser).1;
            prefetch(self.build.headers, home as usize);
            self.queue[self.waiting] = loser.wrapping_add(OLDER);
            self.waiting += usize::from(loser != NO_PROPOSAL);
        }
        Ok(())
    }
}

/// Offers a proposal to the free words of a bucket, which begin behind its own keys, and returns who has lost: the
/// offer, the one it displaced, or nobody.
#[inline(always)]
fn offer<A: Atomic<Word = u64>, const S: usize>(bucket: &[A; S], keys: usize, mine: u64) -> u64 {
    loop {
        // Without a branch: how many of the words are free is as good as random.
        let (mut least, mut at) = (u64::MAX, 0);
        for (i, word) in bucket.iter().enumerate() {
            let word = if i >= keys { word.load(Relaxed) } else { u64::MAX };
            at = if word < least { i } else { at };
            least = least.min(word);
        }
        if least > mine {
            return mine;
        }
        if bucket[at].compare_exchange(least, mine, Relaxed, Relaxed).is_ok() {
            return least;
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests;
