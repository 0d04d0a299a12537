//! Words, on all threads at once: one atomic maximum per offer. `cpu/acceptance.rs` proves that the result does not
//! depend on the order of events, and that the count of duplicates is exact: a word here is an upper half there, and
//! duplicates are equal.
//!
//! ```text
//! each thread:   loop  offers = a whole block of displaced ones, else fresh keys, else any displaced ones; end if none
//!                      compute their slots, and prefetch them
//!                      raise each slot in turn; keys that are refused, or displaced, are listed for the next age
//! ```

use std::ops::Range;

use crate::backend::{Placed, Word};
use crate::cpu::BLOCK;
use crate::cpu::block::sum;
use crate::cpu::bucketized::wide::Shared;
use crate::cpu::bucketized::wide::values::Places;
use crate::cpu::chunk_queue::ChunkQueue;
use crate::cpu::memory::prefetch;
use crate::cpu::place::raise;
use crate::error::Result;
use crate::memory;
use crate::scheme::bucketized::wide::Layout;
use crate::scheme::slot::EMPTY;
use crate::scheme::slot_lists::SlotLists;

/// A key that is being placed, represented by its goal.
#[derive(Clone, Copy)]
struct Offer<G> {
    goal: G,
    age: u32,
}

/// Adds the words of keys to an image.
pub(super) fn words<L: Layout, F: SlotLists<Key = L::Key>>(
    lists: &F,
    image: &mut [u64],
    keys: &[L::Key],
) -> Result<Placed<L::Key, L::Value>>
where
    L::Key: Shared,
{
    let cells = <L::Key as Shared>::cells(image);
    let work = |chunk_queue: &ChunkQueue| {
        let open = memory::reserved(4 * BLOCK)?;
        Placer::<L, F> { lists, cells, places: Places::words(), open, counted: Placed::default() }
            .place(keys, chunk_queue)
    };
    ChunkQueue::new(keys.len()).run(work, |a, b| Ok(sum(a?, b?))).unwrap_or_else(|| Ok(Placed::default()))
}

/// One thread of a build.
struct Placer<'a, L: Layout, F: SlotLists>
where
    L::Key: Shared,
{
    lists: &'a F,
    cells: &'a [<L::Key as Shared>::Cell],
    places: Places<L>,
    /// The displaced keys, which must be offered again.
    open: Vec<Offer<F::Goal>>,
    counted: Placed<L::Key, L::Value>,
}

impl<L: Layout, F: SlotLists<Key = L::Key>> Placer<'_, L, F>
where
    L::Key: Shared,
{
    fn place(mut self, keys: &[L::Key], chunk_queue: &ChunkQueue) -> Result<Placed<L::Key, L::Value>> {
        let mut chunk = 0..0;
        let mut block = [Offer { goal: F::Goal::default(), age: 1 }; BLOCK];
        let mut aims = [(0, L::Key::low(0)); BLOCK];
        loop {
            let len = self.next_block(keys, chunk_queue, &mut chunk, &mut block)?;
            if len == 0 {
                return Ok(self.counted);
            }
            for (aim, offer) in aims.iter_mut().zip(&block[..len]) {
                *aim = self.lists.probe(offer.goal, offer.age);
                prefetch(self.cells, self.word_of(aim.0));
            }
            for (&(slot, remainder), &offer) in aims.iter().zip(&block[..len]) {
                self.settle(slot, remainder, offer);
            }
        }
    }

    /// The index of a slot's word in the image.
    #[inline(always)]
    fn word_of(&self, slot: u32) -> usize {
        self.places.at(slot as usize / L::SLOTS, slot as usize % L::SLOTS)
    }

    /// Whole blocks of displaced keys are first, which keeps their list short; others are last.
    fn next_block(
        &mut self,
        keys: &[L::Key],
        chunk_queue: &ChunkQueue,
        chunk: &mut Range<usize>,
        block: &mut [Offer<F::Goal>; BLOCK],
    ) -> Result<usize> {
        if chunk.start >= chunk.end && self.open.len() < BLOCK {
            *chunk = chunk_queue.take().unwrap_or(0..0);
        }
        if self.open.len() >= BLOCK || chunk.start >= chunk.end {
            let len = self.open.len().min(BLOCK);
            block[..len].copy_from_slice(&self.open[self.open.len() - len..]);
            self.open.truncate(self.open.len() - len);
            return Ok(len);
        }
        let fresh = chunk.start..chunk.end.min(chunk.start + BLOCK);
        chunk.start = fresh.end;
        block
            .iter_mut()
            .zip(&keys[fresh.clone()])
            .for_each(|(offer, &key)| *offer = Offer { goal: self.lists.goal(key), age: 1 });
        // Each offer displaces at most one key.
        self.open.try_reserve(BLOCK).map_err(|_| memory::out_of_memory::<Offer<F::Goal>>(self.open.len() + BLOCK))?;
        Ok(fresh.len())
    }

    fn settle(&mut self, slot: u32, remainder: L::Key, offer: Offer<F::Goal>) {
        let mine = F::FIELDS.word(offer.age, remainder);
        let Some(cell) = self.cells.get(self.word_of(slot)) else {
            self.counted.unplaced += 1;
            return;
        };
        let there: u64 = raise(cell, L::Key::low(mine)).into();
        if there == EMPTY {
            return;
        }
        if there == mine {
            self.counted.duplicates += 1;
            let key = self.lists.key(offer.goal);
            let least = self.counted.least_duplicate.map_or(key, |least| least.min(key));
            self.counted.least_duplicate = Some(least);
            return;
        }
        let loser = if there < mine {
            Offer { goal: self.lists.goal_in(slot, there), age: F::FIELDS.age::<L::Key>(there) }
        } else {
            offer
        };
        if loser.age >= F::FIELDS.max_age() {
            self.counted.unplaced += 1;
        } else {
            self.open.push(Offer { age: loser.age + 1, ..loser });
        }
    }
}
