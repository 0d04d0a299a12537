//! Builds by deferred acceptance on all threads at once, without locks, rounds or barriers: for every table of single
//! slots in which the greatest word offered to a slot is kept.
//!
//! ```text
//! each thread:   loop  next = a whole block of displaced pairs of one age, else fresh pairs, else any displaced ones
//!                      aim next        (hash, prefetch)
//!                      resolve flying  (its lines were prefetched one block earlier)
//!                      flying = next
//! resolve:       for each (key, value) of the block:  mine = [age][remainder or key][value]
//!                      there = raise(slot, mine): an atomic maximum that returns the word before
//!                      there has my upper half:  a duplicate: count it; the greater of the two words is kept
//!                      there > mine:             refused: queue mine under age + 1
//!                      there is a pair:          it was displaced: decode it, queue it under its age + 1
//! ```
//!
//! Moving a displaced pair at once instead would wait for one line at a time; queueing it was 3.8 times faster in the
//! prototype (bucketized, 2^24 slots).
//!
//! **Why relaxed atomics and a plain read are enough.** A slot only grows. If a word read from it is above mine,
//! even an old one, the slot refuses me forever. If it is below mine, the exchange decides on the current word. A slot
//! ends with the maximum, whatever the order, and no other memory is read because of a slot's word. The bytes are those
//! of the sequential rule (`scheme/cuckoo/canonical.rs` proves that they do not depend on order).
//!
//! **Why the count of duplicates is exact** if no pair is unplaced. Take a key that occurs m times, including the pair
//! that is already in the image. Each drop removes one of these pairs and counts one, so it must be shown that exactly
//! one is left. All pairs of a key have the same slot and upper half at the same age, and X is dropped at an age only
//! because of a Y >= X that was in that slot.
//! - *At least one.* Suppose that all were dropped. Of the greatest ones, take the X that was dropped at the greatest
//!   age. It was dropped on arrival, because no greater duplicate exists that could displace it, and the Y that it met
//!   is equal to it and had arrived at that age. A greatest one is only dropped on arrival, so Y was dropped at a later
//!   age than X: impossible.
//! - *At most one.* Let A and B be left, at ages a < b (at one age they would share one slot). B was refused or
//!   displaced at age a without being dropped, so by a word W whose upper half is above B's there, which is also A's.
//!   The slot has only grown since, yet it contains A: impossible.
//!
//! So a key is counted m - 1 times, on any number of threads, and the least key that is counted does not vary either.
//!
//! The counts are not exact if a pair is unplaced. The attempt has then failed, and only the failure is reported.

use std::ops::Range;
use std::sync::atomic::AtomicU64;

use super::BLOCK;
use super::block::{GREATEST_AGE, Lists, Pairs, Workspace, Workspaces, sum};
use super::chunk_queue::ChunkQueue;
use super::lanes::at_best;
use super::place::Shared;
use crate::backend::Placed;

/// Lists of places that keep the greatest word, in an image of `P`s. An empty place is 0.
pub(super) trait Accepts<P: Shared = AtomicU64>: Lists {
    /// The greatest age of a pair; at most [`GREATEST_AGE`].
    const MAX_AGE: u32;

    /// The word that a pair offers at this age, if its key has `upper` there.
    fn offer(&self, age: u32, upper: u32, value: u32) -> u64;

    /// Raises the place in a word of the image to at least `mine`, and returns its previous content.
    #[inline(always)]
    fn raise(&self, word: &P, _upper: u32, mine: u64) -> u64 {
        word.raise(mine)
    }

    /// Returns the number of a key's place: that of its word, unless a word holds several places.
    #[inline(always)]
    fn place_of(&self, slot: u32, _upper: u32) -> u32 {
        slot
    }

    /// Age, key and value of the pair that was displaced from a place; `None` if there was no pair.
    fn displaced(&self, place: u32, word: u64) -> Option<(u32, u32, u32)>;
}

/// Adds pairs to an image.
pub(super) fn place<P: Shared>(
    lists: &impl Accepts<P>,
    image: &[P],
    pairs: Pairs<'_>,
    workspaces: &Workspaces,
) -> Placed {
    let work = |chunk_queue: &ChunkQueue| {
        let Some(mut loan) = workspaces.lend() else { return Placed::default() };
        let placer = Placer::new(lists, image, loan.workspace());
        at_best(
            #[inline(always)]
            || placer.place(pairs, chunk_queue),
        )
    };
    ChunkQueue::new(pairs.keys.len()).run(work, sum).unwrap_or_default()
}

/// One thread of a build.
struct Placer<'a, P, L> {
    lists: &'a L,
    image: &'a [P],
    /// The rest of the fresh pairs that this thread took.
    chunk: Range<usize>,
    workspace: &'a mut Workspace,
    placed: Placed,
}

impl<'a, P: Shared, L: Accepts<P>> Placer<'a, P, L> {
    fn new(lists: &'a L, image: &'a [P], workspace: &'a mut Workspace) -> Self {
        Placer { lists, image, chunk: 0..0, workspace, placed: Placed::default() }
    }

    #[inline(always)]
    fn place(mut self, pairs: Pairs<'_>, chunk_queue: &ChunkQueue) -> Placed {
        loop {
            self.next_block(pairs, chunk_queue);
            self.workspace.next.aim(self.lists, self.image);
            self.resolve();
            let Workspace { flying, next, .. } = self.workspace;
            std::mem::swap(flying, next);
            if flying.len == 0 && next.len == 0 {
                return self.placed;
            }
        }
    }

    /// Prefers whole blocks of displaced pairs, to keep the queues short; takes incomplete blocks last, to keep blocks
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
    }

    /// Whether a pair is refused or displaces another is unpredictable. So both kinds of pairs are written to the end
    /// of a list in any case, and only the lengths of the lists depend on the result.
    #[inline(always)]
    fn resolve(&mut self) {
        const { assert!(L::MAX_AGE <= GREATEST_AGE, "losers of the last age would be lost") };
        let Workspace { flying: block, waiting, .. } = &mut *self.workspace;
        let mut duplicates = self.placed.duplicates;
        let mut least_duplicate = self.placed.least_duplicate;
        let mut displaced = [(0, 0); BLOCK];
        let (mut displacements, mut unplaced) = (0, 0);
        let is_last = block.age >= L::MAX_AGE;
        waiting.extend(
            block.age + 1,
            #[inline(always)]
            |keys, values| {
                let mut refusals = 0;
                for i in 0..block.len.min(BLOCK) {
                    let (key, value, slot, upper) = (block.keys[i], block.tags[i], block.slots[i], block.uppers[i]);
                    let mine = self.lists.offer(block.age, upper, value);
                    let there = self.lists.raise(&self.image[slot as usize], upper, mine);
                    let copy = there >> L::VALUE_BITS == mine >> L::VALUE_BITS;
                    if copy {
                        duplicates += 1;
                        least_duplicate = Some(least_duplicate.map_or(key, |least: u32| least.min(key)));
                    }
                    (keys[refusals % BLOCK], values[refusals % BLOCK]) = (key, value);
                    refusals += usize::from(there > mine && !copy);
                    displaced[displacements % BLOCK] = (self.lists.place_of(slot, upper), there);
                    displacements += usize::from(there < mine && !copy && there != 0);
                }
                // After the last age nothing is queued.
                if is_last {
                    unplaced = refusals as u64;
                }
                if is_last { 0 } else { refusals }
            },
        );
        self.placed.unplaced += unplaced;
        (self.placed.duplicates, self.placed.least_duplicate) = (duplicates, least_duplicate);
        for &(place, word) in &displaced[..displacements] {
            match self.lists.displaced(place, word) {
                Some((age, key, value)) if age < L::MAX_AGE => waiting.push(age + 1, key, value),
                _ => self.placed.unplaced += 1,
            }
        }
    }
}
