//! The paper's own build (Alcantara et al. 2011, Listing 4.1) on all threads at once.
//!
//! ```text
//! each thread keeps up to 128 chains in flight:   loop  start chains from fresh pairs; their slots are prefetched
//!     for each chain:   entry = swap(image[at], entry);  ends if the slot was empty
//!                       at = the next place on the evicted key's list, prefetched for the next iteration
//!                       after `chain` swaps: cut; all threads stop, because the build must start again
//! ```
//!
//! A chain depends on the pairs that it evicts, so one chain alone waits for one line at a time; 128 of them wait
//! together. A swap carries its entry by value and publishes no other memory, so relaxed order suffices.
//!
//! Duplicates of a key are not detected meanwhile. A pass over the finished image looks up the key of every slot, and
//! counts the slots that a lookup does not reach. In a set (Section 4.4) a chain ends if it swaps a key for the same
//! key, and that pass empties the slots that it counts (`scheme/cuckoo_set.rs` explains why the first slot of each key
//! is kept). So of each key, all pairs but one are counted as duplicates. The key of the empty marker is not stored in
//! the image: its value is stored in [`Placed::outside`].

use std::array;
use std::ops::Range;

use wide::u32x8;

use crate::backend::Placed;
use crate::cpu::block::{Lists, Loan, Pairs, Workspaces, sum};
use crate::cpu::chunk_queue::ChunkQueue;
use crate::cpu::memory::prefetch;
use crate::cpu::place::{Place, Share, Shared};
use crate::cpu::search::search;
use crate::cpu::{BLOCK, CHUNK};
use crate::parallel::fold_with;
use crate::scheme::Plan;
use crate::scheme::cuckoo::classic::{EMPTY, EMPTY_KEY, entry, key, next_location};
use crate::scheme::cuckoo::{CuckooPlan, Functions, HashFamily, Reinsertion};

/// The lists of a classic table.
pub(super) struct Classic<'a> {
    functions: &'a Functions,
    mixes: bool,
}

impl<'a> Classic<'a> {
    pub(super) fn new(plan: &CuckooPlan, functions: &'a Functions) -> Self {
        Classic { functions, mixes: plan.family() == HashFamily::Mixer }
    }
}

impl Lists for Classic<'_> {
    const STRIDE: usize = 1;

    #[inline(always)]
    fn aim(&self, age: u32, keys: u32x8) -> (u32x8, u32x8) {
        let function = self.functions.turn(age);
        if self.mixes {
            return (self.functions.probe(function, keys).0, keys);
        }
        let each = keys.to_array();
        (u32x8::new(array::from_fn(|i| self.functions.location(function, each[i]))), keys)
    }

    /// An empty slot is not a hit, not even for the marker itself.
    #[inline(always)]
    fn judge(&self, _: u32) -> impl Fn(u32, u64) -> (bool, bool) {
        |wanted, word| ((key(word) == wanted) & (wanted != EMPTY_KEY), false)
    }

    fn last_age(&self) -> u32 {
        self.functions.count
    }
}

/// Adds pairs to an image. [`duplicates`] counts duplicates later; [`clean_up`] removes those that remain in a set.
pub(super) fn place<C: Share>(
    plan: &CuckooPlan,
    functions: &Functions,
    image: &[C::Shared],
    pairs: Pairs<'_>,
) -> Placed {
    let work = |chunk_queue: &ChunkQueue| {
        let (rule, most) = (plan.reinsertion(), plan.chain());
        let mut chains = Chains::<C> { functions, rule, most, image, flying: Vec::with_capacity(BLOCK), marked: 0 };
        chains.place(pairs, chunk_queue)
    };
    let both = |a: (Placed, u64), b: (Placed, u64)| (sum(a.0, b.0), a.1 + b.1);
    let (mut placed, marked) = ChunkQueue::new(pairs.keys.len()).run(work, both).unwrap_or_default();
    let beyond_first = (marked + u64::from(plan.outside().is_some())).saturating_sub(1);
    if marked > 0 && beyond_first > 0 {
        placed.duplicates += beyond_first;
        placed.least_duplicate = Some(placed.least_duplicate.unwrap_or(EMPTY_KEY));
    }
    placed
}

/// Counts the slots whose key a lookup finds in an earlier slot, and returns the least such key.
pub(super) fn duplicates(lists: &Classic<'_>, image: &[impl Place], workspaces: &Workspaces) -> Placed {
    later_slots(lists, image, workspaces, |_| ())
}

/// As [`duplicates`], and empties the slots.
pub(super) fn clean_up(lists: &Classic<'_>, image: &[impl Shared], workspaces: &Workspaces) -> Placed {
    later_slots(lists, image, workspaces, |slot| image[slot].put(EMPTY))
}

fn later_slots(
    lists: &Classic<'_>,
    image: &[impl Place],
    workspaces: &Workspaces,
    each: impl Fn(usize) + Sync,
) -> Placed {
    let of_chunk = |loan: &mut Option<Loan<'_>>, _, range: Range<usize>| {
        let Some(loan) = loan else { return Placed::default() };
        let (mut slots, mut keys, mut taken) = ([0; CHUNK], [0; CHUNK], 0);
        for (slot, place) in range.clone().zip(&image[range]) {
            (slots[taken], keys[taken]) = (slot, key(place.word()));
            taken += usize::from(keys[taken] != EMPTY_KEY);
        }
        let mut placed = Placed::default();
        let mut count = |i: usize, hit, slot: u32, _| {
            if hit && slot as usize != slots[i] {
                count_duplicate(&mut placed, keys[i]);
                each(slots[i]);
            }
        };
        search(lists, image, &keys[..taken], loan.workspace(), &mut count);
        placed
    };
    fold_with(0..image.len(), CHUNK, || workspaces.lend(), of_chunk, sum).unwrap_or_default()
}

fn count_duplicate(placed: &mut Placed, key: u32) {
    placed.duplicates += 1;
    placed.least_duplicate = Some(placed.least_duplicate.map_or(key, |least| least.min(key)));
}

/// A pair that is being placed, and its next place.
#[derive(Clone, Copy)]
struct Chain {
    entry: u64,
    at: u32,
    swaps: u32,
}

/// One thread of a build.
struct Chains<'a, C: Share> {
    functions: &'a Functions,
    rule: Reinsertion,
    most: u32,
    image: &'a [C::Shared],
    flying: Vec<Chain>,
    /// The number of occurrences of the empty marker's key.
    marked: u64,
}

impl<C: Share> Chains<'_, C> {
    fn place(&mut self, pairs: Pairs<'_>, chunk_queue: &ChunkQueue) -> (Placed, u64) {
        let mut placed = Placed::default();
        let mut chunk = 0..0;
        loop {
            while self.flying.len() < BLOCK {
                if chunk.is_empty() {
                    chunk = chunk_queue.take().unwrap_or(0..0);
                }
                let Some(i) = chunk.next() else { break };
                self.start(pairs.keys[i], pairs.values[i], &mut placed);
            }
            if self.flying.is_empty() || chunk_queue.stopped() {
                return (placed, self.marked);
            }
            let cut = self.swap_each(&mut placed);
            if cut > 0 {
                placed.unplaced += cut;
                chunk_queue.stop();
            }
        }
    }

    fn start(&mut self, key: u32, value: u32, placed: &mut Placed) {
        if key == EMPTY_KEY {
            // The greatest value is kept, so that the result is the same in every run.
            self.marked += 1;
            placed.outside = placed.outside.max(Some(value));
            return;
        }
        let at = self.functions.location(0, key);
        prefetch(self.image, at as usize);
        self.flying.push(Chain { entry: entry(key, value), at, swaps: 0 });
    }

    /// Swaps the entry of every chain in flight. Returns the number of chains that were cut.
    fn swap_each(&mut self, placed: &mut Placed) -> u64 {
        let mut cut = 0;
        self.flying.retain_mut(|chain| {
            let mine = key(chain.entry);
            chain.entry = self.image[chain.at as usize].swap(chain.entry);
            let out = key(chain.entry);
            if out == EMPTY_KEY {
                return false;
            }
            if C::KEYS_ALONE && out == mine {
                count_duplicate(placed, out);
                return false;
            }
            if chain.swaps + 1 >= self.most {
                cut += 1;
                return false;
            }
            chain.at = next_location(self.functions, self.rule, out, chain.at, chain.swaps);
            chain.swaps += 1;
            prefetch(self.image, chain.at as usize);
            true
        });
        cut
    }
}
