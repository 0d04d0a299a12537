//! The canonical table on all threads at once, without locks, rounds or barriers.
//!
//! ```text
//! each thread:   loop  next = a whole block of displaced pairs of one age, else fresh pairs, else any displaced ones
//!                      aim next        (hash, prefetch the buckets)
//!                      resolve flying  (its lines were prefetched one block earlier)
//!                      flying = next
//! resolve:       for each (key, value) of the block:  mine = [age][rem][value];  scan the S words of the bucket
//!                      one has my upper half:  a duplicate: count it; the greater of the two words is kept
//!                      the least > mine:       refused: queue mine under age + 1
//!                      else:                   compare-exchange the least for mine; on failure scan again
//!                                              it was a pair: decode it, queue it under its age + 1
//! then, in parallel:   sort the words of every bucket in descending order; the cheapest pass of most builds
//! ```
//!
//! **Why a scan need not be one atomic step.** A slot only grows, so the word that a scan read from a slot is a lower
//! bound from then on.
//! - *A refusal is final:* every word that the scan read was above mine, so every slot stays above mine. This also
//!   holds for outdated values, so relaxed loads suffice.
//! - *An acceptance takes the least:* the exchange succeeds only if the slot still has the word that the scan read, and
//!   the other slots have not become less. So the bucket loses its least word, and ends with the S greatest words that
//!   were offered and not dropped, in any order of events. Once they are sorted, the bytes are those of the sequential
//!   rule (`scheme/bucketized/canonical.rs`).
//!
//! **Why two threads with duplicates of one key cannot miss each other in a bucket.** Let A and B have the same upper
//! half. Let A be exchanged for a0 in slot p and B for b0 in slot q, and suppose that neither scan read a word with
//! that upper half. If p = q, the later thread exchanged a word that is at least the earlier thread's word and less
//! than its own. Such a word has the same upper half, and the later scan read it: impossible. So p and q differ.
//! - *Each scan read the other's slot before the other's exchange.* Then A's read at most b0 in q, and chose p, so
//!   (a0, p) < (b0, q) in the order by word and then by place; and B's chose q, so (b0, q) < (a0, p): impossible.
//!   **So the least word must be chosen by one order without ties:** of equal words, which are empty slots, the first
//!   in the bucket.
//! - *A's scan read q after B's exchange,* and found no duplicate there: B, or what B was raised to, had been
//!   displaced by some D, whose scan found that word to be the least, so the word in p was above it. If that scan read
//!   p before A's exchange, a0 is above that word and below A, so of their upper half, and A's scan read it. If it read
//!   p after A's exchange: A's exchange precedes D's scan of p, which precedes D's exchange in q, which precedes A's
//!   scan of q, which precedes A's exchange: a cycle.
//!
//! The same holds with A and B exchanged. The cycle consists of reads and writes that depend on them, so no processor
//! executes it; in the language's memory model, acquire loads and release exchanges rule it out, at no cost on x86.
//!
//! **So the count of duplicates is exact** if no pair is unplaced, by the argument in `cpu/acceptance.rs`: a pair is
//! dropped only if a duplicate remains, so at least one is left. Suppose that two are left, at ages a < b (at one age
//! they would have missed each other). The second was refused or displaced at age a by words that are above it and are
//! not duplicates of it, including the least of the bucket; the bucket has only grown since, yet it contains the first:
//! impossible. So no pass over the image is necessary to find duplicates.
//!
//! The counts are not exact if a pair is unplaced. The attempt has then failed, and only the failure is reported.

use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire};

use wide::u32x8;

use super::bucket::{Cell, buckets, sort};
use super::lookup::Buckets;
use crate::backend::Placed;
use crate::cpu::atomic::Atomic;
use crate::cpu::block::{Lists, Pairs, Workspace, Workspaces, fetch, sum};
use crate::cpu::chunk_queue::ChunkQueue;
use crate::cpu::lanes::{Lanes, Portable, at_best};
use crate::cpu::memory::atomic;
use crate::cpu::{BLOCK, CHUNK};
use crate::parallel::each;
use crate::scheme::bucketized::{Functions, canonical};
use crate::scheme::slot;

/// The number of functions of a canonical table.
const TURNS: usize = 3;

/// The lists of a canonical table with buckets of S words.
pub(super) struct Canonical<'a, const S: usize> {
    functions: &'a Functions,
    /// For each function the ages that belong to it, one bit per age.
    ages: [u32; TURNS],
}

impl<'a, const S: usize> Canonical<'a, S> {
    pub(super) fn new(functions: &'a Functions) -> Self {
        let mut ages = [0; TURNS];
        for age in 1..=slot::MAX_AGE {
            ages[functions.turn(age)] |= 1 << age;
        }
        Canonical { functions, ages }
    }
}

impl<const S: usize> Lists for Canonical<'_, S> {
    const STRIDE: usize = S;

    #[inline(always)]
    fn aim(&self, age: u32, keys: u32x8) -> (u32x8, u32x8) {
        let (homes, remainders) = self.functions.home(keys);
        let buckets = self.functions.bucket(self.functions.turn(age), homes, remainders);
        (buckets, remainders | u32x8::splat(slot::upper(age, 0)))
    }

    #[inline(always)]
    fn judge(&self, age: u32) -> impl Fn(u32, u64) -> (bool, bool) {
        let ages = self.ages[self.functions.turn(age)];
        move |upper, word| {
            let there = (word >> 32) as u32;
            let same_remainder = (upper ^ there) << slot::AGE_BITS == 0;
            (same_remainder & ((ages >> slot::age(word)) & 1 == 1), there < upper)
        }
    }

    fn last_age(&self) -> u32 {
        TURNS as u32
    }
}

impl<const S: usize> Buckets<S> for Canonical<'_, S> {
    const NEVER: Option<u32> = None;

    #[inline(always)]
    fn aim_one(&self, age: u32, key: u32) -> (u32, u32) {
        let (home, remainder) = self.functions.home(key);
        (self.functions.bucket(self.functions.turn(age), home, remainder), slot::upper(age, remainder))
    }

    #[cold]
    fn find_rest<C: Cell>(&self, _: impl Lanes, image: &[C], key: u32) -> Option<(usize, u64)> {
        for turn in 1..=TURNS as u32 {
            let (bucket, upper) = self.aim_one(turn, key);
            let cells: &[C; S] = &buckets(image)[bucket as usize];
            let mut same = C::same_upper(cells, Portable, upper, u32::MAX >> slot::AGE_BITS);
            while same != 0 {
                let place = same.trailing_zeros() as usize / 2 % S;
                if self.judge(turn)(upper, cells[place].get()).0 {
                    return Some((bucket as usize * S + place, cells[place].get()));
                }
                same &= same - 1;
            }
        }
        None
    }

    fn at_once(&self) -> bool {
        false
    }
}

/// Adds pairs to an image, and sorts all its buckets, including those that `lift` or a removal left unsorted.
pub(super) fn place<const S: usize>(
    functions: &Functions,
    image: &mut [u64],
    pairs: Pairs<'_>,
    workspaces: &Workspaces,
) -> Placed {
    let placed = offer_all::<S>(functions, image, pairs, 1, workspaces);
    if placed.unplaced == 0 {
        order::<S>(image);
    }
    placed
}

/// Adds pairs to an image, beginning at this age, without sorting the buckets.
pub(super) fn offer_all<const S: usize>(
    functions: &Functions,
    image: &mut [u64],
    pairs: Pairs<'_>,
    age: u32,
    workspaces: &Workspaces,
) -> Placed {
    let lists = Canonical::<S>::new(functions);
    let words = buckets(atomic(image));
    let work = |chunk_queue: &ChunkQueue| {
        let Some(mut loan) = workspaces.lend() else { return Placed::default() };
        let placer = Placer::new(&lists, words, age, loan.workspace());
        at_best(
            #[inline(always)]
            || placer.place(pairs, chunk_queue),
        )
    };
    ChunkQueue::new(pairs.keys.len()).run(work, sum).unwrap_or_default()
}

/// Sorts the words of every bucket.
pub(super) fn order<const S: usize>(image: &mut [u64]) {
    each(image, CHUNK, |_, words| {
        at_best(
            #[inline(always)]
            || words.as_chunks_mut::<S>().0.iter_mut().for_each(sort),
        );
    });
}

/// One thread of a build.
struct Placer<'a, const S: usize> {
    lists: &'a Canonical<'a, S>,
    buckets: &'a [[AtomicU64; S]],
    /// The age of fresh pairs.
    age: u32,
    /// The rest of the fresh pairs that this thread took.
    chunk: Range<usize>,
    workspace: &'a mut Workspace,
    placed: Placed,
}

impl<'a, const S: usize> Placer<'a, S> {
    fn new(lists: &'a Canonical<'a, S>, buckets: &'a [[AtomicU64; S]], age: u32, workspace: &'a mut Workspace) -> Self {
        Placer { lists, buckets, age, chunk: 0..0, workspace, placed: Placed::default() }
    }

    #[inline(always)]
    fn place(mut self, pairs: Pairs<'_>, chunk_queue: &ChunkQueue) -> Placed {
        loop {
            self.next_block(pairs, chunk_queue);
            self.workspace.next.hash(self.lists);
            self.resolve();
            let Workspace { flying, next, .. } = self.workspace;
            std::mem::swap(flying, next);
            // Without a block in flight, nothing was queued since the last check.
            if flying.len == 0 && next.len == 0 {
                return self.placed;
            }
        }
    }

    /// Whole blocks of displaced pairs are first, to keep the queues short; incomplete blocks are last, to keep blocks
    /// whole.
    fn next_block(&mut self, pairs: Pairs<'_>, chunk_queue: &ChunkQueue) {
        let Workspace { next: block, waiting, .. } = &mut *self.workspace;
        if waiting.take_whole(block) {
            return;
        }
        if self.chunk.is_empty() {
            self.chunk = chunk_queue.take().unwrap_or(0..0);
        }
        if self.chunk.is_empty() {
            waiting.take_any(block);
            return;
        }
        let fresh = self.chunk.start..self.chunk.end.min(self.chunk.start + BLOCK);
        self.chunk.start += block.fill(&pairs.keys[fresh.clone()], pairs.values[fresh].iter().copied());
        block.age = self.age;
    }

    /// Whether a pair is refused or displaces another is unpredictable. So both kinds of pairs are written to the end
    /// of a list in any case, and only the lengths of the lists depend on the result.
    #[inline(always)]
    fn resolve(&mut self) {
        let Workspace { flying: block, next, waiting } = &mut *self.workspace;
        let image = self.buckets.as_flattened();
        let mut duplicates = self.placed.duplicates;
        let mut least_duplicate = self.placed.least_duplicate;
        let mut displaced = [(0, 0); BLOCK];
        let (mut displacements, mut unplaced) = (0, 0);
        let is_last = block.age >= slot::MAX_AGE;
        waiting.extend(
            block.age + 1,
            #[inline(always)]
            |keys, values| {
                let mut refusals = 0;
                for i in 0..block.len.min(BLOCK) {
                    fetch(self.lists, image, &next.slots[i..i + 1]);
                    let (key, value, at) = (block.keys[i], block.tags[i], block.slots[i]);
                    let mine = u64::from(block.uppers[i]) << 32 | u64::from(value);
                    let there = offer(&self.buckets[at as usize], mine);
                    let copy = there >> 32 == mine >> 32;
                    if copy {
                        duplicates += 1;
                        least_duplicate = Some(least_duplicate.map_or(key, |least: u32| least.min(key)));
                    }
                    (keys[refusals % BLOCK], values[refusals % BLOCK]) = (key, value);
                    refusals += usize::from(there > mine && !copy);
                    displaced[displacements % BLOCK] = (at, there);
                    displacements += usize::from(there < mine && !copy && there != slot::EMPTY);
                }
                // After the last age nothing is queued.
                if is_last {
                    unplaced = refusals as u64;
                }
                if is_last { 0 } else { refusals }
            },
        );
        self.placed.unplaced += unplaced;
        fetch(self.lists, image, next.slots.get(block.len..next.len).unwrap_or_default());
        (self.placed.duplicates, self.placed.least_duplicate) = (duplicates, least_duplicate);
        for &(at, word) in &displaced[..displacements] {
            match canonical::pair(self.lists.functions, at, word) {
                Some((key, value)) if slot::age(word) < slot::MAX_AGE => {
                    waiting.push(slot::age(word) + 1, key, value);
                }
                _ => self.placed.unplaced += 1,
            }
        }
    }
}

/// Offers `mine` to a bucket and returns the word that decided: a duplicate of the key, whose slot then has the greater
/// of the two; otherwise the least word, which is above mine (refused) or below it (displaced by mine).
#[inline(always)]
fn offer<A: Atomic<Word = u64>, const S: usize>(bucket: &[A; S], mine: u64) -> u64 {
    loop {
        let (mut least, mut at) = (u64::MAX, 0);
        let (mut copy, mut duplicates) = (0, 0);
        for (i, slot) in bucket.iter().enumerate() {
            let word = slot.load(Acquire);
            if word < least {
                (least, at) = (word, i);
            }
            duplicates |= u32::from(word >> 32 == mine >> 32) << i;
        }
        if duplicates != 0 {
            at = duplicates.trailing_zeros() as usize;
            copy = bucket[at % S].load(Acquire);
            if copy >> 32 != mine >> 32 {
                continue;
            }
        }
        let there = if duplicates == 0 { least } else { copy };
        if there >= mine || bucket[at % S].compare_exchange(there, mine, AcqRel, Acquire).is_ok() {
            return there;
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests;
