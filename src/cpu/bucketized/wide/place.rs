//! Words, on all threads at once: the rule and the proofs of `../canonical.rs`, without values.
//!
//! ```text
//! each thread:   loop  offers = a whole block of displaced ones, else fresh keys, else any displaced ones; end if none
//!                      compute their lines, and prefetch them
//!                      make each offer in turn; those that are refused, or displaced, are listed for the next age
//! ```
//!
//! An offer contains a home, a remainder and an age, on which all its further lines depend. The key is computed from
//! them for duplicates only.

use std::ops::Range;
use std::sync::atomic::Ordering::{AcqRel, Acquire};

use super::{Shared, per_line};
use crate::backend::Placed;
use crate::cpu::BLOCK;
use crate::cpu::atomic::Atomic;
use crate::cpu::block::sum;
use crate::cpu::chunk_queue::ChunkQueue;
use crate::cpu::memory::prefetch;
use crate::error::Result;
use crate::memory;
use crate::scheme::bucketized::wide::{Layout, LineFunctions, slot};
use crate::scheme::slot::{EMPTY, MAX_AGE};

/// A pair that is being placed.
#[derive(Clone, Copy)]
struct Offer<K> {
    home: u32,
    age: u32,
    remainder: K,
}

/// The result of an offer.
enum Became {
    /// It took an empty slot.
    Placed,
    /// The key is already there.
    Duplicate,
    /// All words of the line are greater.
    Refused,
    /// It displaced this word.
    Displaced(u64),
}

/// Adds the words of keys to an image, without regard to the order within lines.
pub(super) fn words<L: Layout>(
    functions: &LineFunctions<L::Key>,
    image: &mut [u64],
    keys: &[L::Key],
) -> Result<Placed<L::Key, L::Value>>
where
    L::Key: Shared,
{
    let cells = <L::Key as Shared>::cells(image);
    let work = |chunk_queue: &ChunkQueue| {
        Placer::<L> { functions, cells, open: memory::reserved(4 * BLOCK)?, counted: Placed::default() }
            .place(keys, chunk_queue)
    };
    let none = || Ok(Placed::default());
    ChunkQueue::new(keys.len()).run(work, |a, b| Ok(sum(a?, b?))).unwrap_or_else(none)
}

/// Counts a duplicate of a key.
pub(super) fn count_duplicate<K: Ord + Copy, V>(placed: &mut Placed<K, V>, key: K) {
    placed.duplicates += 1;
    placed.least_duplicate = Some(placed.least_duplicate.map_or(key, |least| least.min(key)));
}

/// One thread of a build.
struct Placer<'a, L: Layout>
where
    L::Key: Shared,
{
    functions: &'a LineFunctions<L::Key>,
    cells: &'a [<L::Key as Shared>::Cell],
    /// The displaced pairs, which must be offered again.
    open: Vec<Offer<L::Key>>,
    counted: Placed<L::Key, L::Value>,
}

impl<L: Layout> Placer<'_, L>
where
    L::Key: Shared,
{
    fn place(mut self, keys: &[L::Key], chunk_queue: &ChunkQueue) -> Result<Placed<L::Key, L::Value>> {
        let mut chunk = 0..0;
        let mut block = [Offer { home: 0, age: 1, remainder: L::Key::default() }; BLOCK];
        loop {
            let len = self.next_block(keys, chunk_queue, &mut chunk, &mut block)?;
            if len == 0 {
                return Ok(self.counted);
            }
            let mut lines = [0; BLOCK];
            for (line, offer) in lines.iter_mut().zip(&block[..len]) {
                *line = self.functions.bucket(self.functions.turn(offer.age), offer.home, offer.remainder);
                prefetch(self.cells, *line as usize * per_line::<L::Key>());
            }
            for (&line, &offer) in lines.iter().zip(&block[..len]) {
                self.settle(line, offer);
            }
        }
    }

    /// Whole blocks of displaced pairs are first, which keeps their list short; others are last.
    fn next_block(
        &mut self,
        keys: &[L::Key],
        chunk_queue: &ChunkQueue,
        chunk: &mut Range<usize>,
        block: &mut [Offer<L::Key>; BLOCK],
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
        for (offer, &key) in block.iter_mut().zip(&keys[fresh.clone()]) {
            let (home, remainder) = self.functions.home(key);
            *offer = Offer { home, age: 1, remainder };
        }
        // Each offer displaces at most one pair.
        self.open.try_reserve(BLOCK).map_err(|_| memory::out_of_memory::<Offer<L::Key>>(self.open.len() + BLOCK))?;
        Ok(fresh.len())
    }

    fn settle(&mut self, line: u32, offer: Offer<L::Key>) {
        let mine = slot::word(offer.age, offer.remainder);
        let loser = match self.offer(line, mine) {
            Became::Placed => return,
            Became::Duplicate => {
                let key = self.functions.key_of(line, mine);
                return count_duplicate(&mut self.counted, key);
            }
            Became::Refused => offer,
            Became::Displaced(word) => {
                let (age, remainder) = (slot::age::<L::Key>(word), slot::remainder::<L::Key>(word));
                Offer { home: self.functions.home_of(self.functions.turn(age), line, remainder), age, remainder }
            }
        };
        if loser.age >= MAX_AGE {
            self.counted.unplaced += 1;
        } else {
            self.open.push(Offer { age: loser.age + 1, ..loser });
        }
    }

    /// Offers a word to a line: it replaces the first of the least words, if that is less.
    #[inline(always)]
    fn offer(&self, line: u32, mine: u64) -> Became {
        let first = line as usize * per_line::<L::Key>();
        let Some(cells) = self.cells.get(first..first + per_line::<L::Key>()) else { return Became::Refused };
        loop {
            let (mut at, mut least) = (0, u64::MAX);
            for i in 0..L::SLOTS {
                let there: u64 = cells[i * L::WORD_STRIDE].load(Acquire).into();
                if there == mine {
                    return Became::Duplicate;
                }
                (at, least) = if there < least { (i, there) } else { (at, least) };
            }
            if least > mine {
                return Became::Refused;
            }
            let (new, old) = (crate::backend::Word::low(mine), crate::backend::Word::low(least));
            if cells[at * L::WORD_STRIDE].compare_exchange(old, new, AcqRel, Acquire).is_ok() {
                return if least == EMPTY { Became::Placed } else { Became::Displaced(least) };
            }
        }
    }
}
