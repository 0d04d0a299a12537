//! Blocks of keys that use the same hash function at the same time, and the queues in which keys wait for their next
//! block.
//!
//! ```text
//! fill     from fresh input, or from the queue of one age
//! aim      slots and upper halves of all keys, eight at a time; every slot is prefetched
//! (then the block before this one is resolved, while these lines travel)
//! resolve  a scheme places or compares; a key that must go on is queued under the next age
//! ```
//!
//! There is one queue per age, because SIMD lanes share the constants of one function. Builds and lookups count ages in
//! the same way: the first probe of a key has age 1 and uses function 0.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::{array, fmt};

use crossbeam::queue::SegQueue;
use wide::u32x8;

use super::memory::prefetch;
use super::{BLOCK, CHUNK};
use crate::backend::Placed;
use crate::memory;

/// Words of a cache line.
const LINE_WORDS: usize = 8;

/// The number of ages with a queue: one for each bit of a mask.
const AGES: usize = u64::BITS as usize;
/// The greatest last age: the next age must have a queue too, although its keys are reported instead of queued.
pub(super) const GREATEST_AGE: u32 = AGES as u32 - 2;

/// The bits of a tag for the number of the query; the bits above can store other data of the key.
pub(super) const NUMBER_BITS: u32 = 16;
const _: () = assert!(CHUNK <= 1 << NUMBER_BITS);

/// A batch: `keys[i]` belongs to `values[i]`.
#[derive(Clone, Copy)]
pub(super) struct Pairs<'a> {
    pub(super) keys: &'a [u32],
    pub(super) values: &'a [u32],
}

/// Adds the counts of two threads. Of the sentinel's values the greatest is kept.
pub(super) fn sum<K: Ord, V: Ord>(a: Placed<K, V>, b: Placed<K, V>) -> Placed<K, V> {
    Placed {
        unplaced: a.unplaced + b.unplaced,
        duplicates: a.duplicates + b.duplicates,
        least_duplicate: a.least_duplicate.into_iter().chain(b.least_duplicate).min(),
        outside: a.outside.max(b.outside),
        stash: a.stash + b.stash,
    }
}

/// The places of the keys of one kind of table.
pub(super) trait Lists: Sync {
    /// The number of words per place: 1 for tables of slots, S for buckets.
    const STRIDE: usize;

    /// The number of bits of the value, which is in the lowest bits of a word.
    const VALUE_BITS: u32 = 32;

    /// The age of a lookup's first probe: 1, or 0 if lookups read another word before the first place.
    const FIRST_AGE: u32 = 1;

    /// Returns the slots (or buckets) of keys at this age, and the upper halves that their words would have there.
    fn aim(&self, age: u32, keys: u32x8) -> (u32x8, u32x8);

    /// Compares a word with a key at this age whose upper half would be `upper`: returns `(hit, end)`, where `end`
    /// means that the key is absent. Never both.
    fn judge(&self, age: u32) -> impl Fn(u32, u64) -> (bool, bool);

    /// As [`judge`](Self::judge), for a key with a tag: maps `(upper, word, tag)` to `(hit, end, next tag)`.
    fn answer(&self, age: u32) -> impl Fn(u32, u64, u32) -> (bool, bool, u32) {
        let judge = self.judge(age);
        move |upper, word, tag| {
            let (hit, end) = judge(upper, word);
            (hit, end, tag)
        }
    }

    /// The age of the last probe of a lookup; at most [`GREATEST_AGE`].
    fn last_age(&self) -> u32;
}

/// Up to [`BLOCK`] keys of one age. Elements from `len` on are leftovers.
pub(super) struct Block {
    pub(super) age: u32,
    pub(super) len: usize,
    pub(super) keys: [u32; BLOCK],
    /// The data of each key: the value to place, or the number of the query.
    pub(super) tags: [u32; BLOCK],
    pub(super) slots: [u32; BLOCK],
    pub(super) uppers: [u32; BLOCK],
}

impl Block {
    pub(super) fn empty() -> Self {
        Block { age: 1, len: 0, keys: [0; BLOCK], tags: [0; BLOCK], slots: [0; BLOCK], uppers: [0; BLOCK] }
    }

    /// Takes at most [`BLOCK`] fresh keys, and returns the number taken.
    pub(super) fn fill(&mut self, keys: &[u32], tags: impl Iterator<Item = u32>) -> usize {
        self.age = 1;
        self.len = keys.len().min(BLOCK);
        self.keys[..self.len].copy_from_slice(&keys[..self.len]);
        self.tags[..self.len].iter_mut().zip(tags).for_each(|(to, tag)| *to = tag);
        self.len
    }

    /// Computes all slots and prefetches their lines.
    #[inline(always)]
    pub(super) fn aim<T, L: Lists>(&mut self, lists: &L, image: &[T]) {
        self.hash(lists);
        fetch(lists, image, &self.slots[..self.len]);
    }

    /// Computes all slots.
    #[inline(always)]
    pub(super) fn hash(&mut self, lists: &impl Lists) {
        let lanes = self.len.div_ceil(8);
        let keys = self.keys.as_chunks::<8>().0.iter();
        let slots = self.slots.as_chunks_mut::<8>().0.iter_mut();
        let uppers = self.uppers.as_chunks_mut::<8>().0.iter_mut();
        for ((keys, slots), uppers) in keys.zip(slots).zip(uppers).take(lanes) {
            let (slot, upper) = lists.aim(self.age, u32x8::new(*keys));
            (*slots, *uppers) = (slot.to_array(), upper.to_array());
        }
    }
}

/// Prefetches every line of these places.
#[inline(always)]
pub(super) fn fetch<T, L: Lists>(_: &L, image: &[T], places: &[u32]) {
    for &place in places {
        for line in (0..L::STRIDE).step_by(LINE_WORDS) {
            prefetch(image, place as usize * L::STRIDE + line);
        }
    }
}

/// Keys that wait for their probe at one age.
#[derive(Default)]
struct Queue {
    keys: Vec<u32>,
    tags: Vec<u32>,
    /// The first `len` elements of both vectors are waiting; the rest is capacity.
    len: usize,
}

/// A queue for every age.
pub(super) struct Waiting {
    queues: [Queue; AGES],
    /// Bitmasks of the queues that are not empty (`some`), and of those that have a whole block (`whole`).
    some: u64,
    whole: u64,
    /// Whether there was no memory for a queue: keys were lost, and the pass has failed.
    short: bool,
}

impl Queue {
    /// Adds capacity for a block and more; returns false if there is no memory.
    #[cold]
    fn grow(&mut self) -> bool {
        let len = self.len + 2 * BLOCK;
        [&mut self.keys, &mut self.tags].into_iter().all(|words| {
            let enough = words.try_reserve(len.saturating_sub(words.len())).is_ok();
            if enough {
                words.resize(len.max(words.len()), 0);
            }
            enough
        })
    }
}

impl Waiting {
    pub(super) fn new() -> Self {
        Waiting { queues: array::from_fn(|_| Queue::default()), some: 0, whole: 0, short: false }
    }

    /// Queues keys under `age`: `each` receives space for one block, writes keys and tags from the front, and returns
    /// their number. It may write past them, so that pushing does not need a branch.
    #[inline(always)]
    pub(super) fn extend(&mut self, age: u32, each: impl FnOnce(&mut [u32; BLOCK], &mut [u32; BLOCK]) -> usize) {
        let Some(queue) = self.queues.get_mut(age as usize) else { return };
        if queue.keys.len() < queue.len + BLOCK && !queue.grow() {
            self.short = true;
            return;
        }
        let keys = queue.keys[queue.len..].first_chunk_mut();
        let tags = queue.tags[queue.len..].first_chunk_mut();
        if let (Some(keys), Some(tags)) = (keys, tags) {
            queue.len += each(keys, tags).min(BLOCK);
        }
        self.some |= u64::from(queue.len > 0) << age;
        self.whole |= u64::from(queue.len >= BLOCK) << age;
    }

    /// Queues one key.
    #[inline(always)]
    pub(super) fn push(&mut self, age: u32, key: u32, tag: u32) {
        self.extend(age, |keys, tags| {
            (keys[0], tags[0]) = (key, tag);
            1
        });
    }

    /// Fills a block from a queue that has a whole block.
    pub(super) fn take_whole(&mut self, block: &mut Block) -> bool {
        self.take(self.whole, block)
    }

    /// Fills a block with the keys of the least age. Keys that are displaced meanwhile can then join those of later
    /// ages.
    pub(super) fn take_any(&mut self, block: &mut Block) -> bool {
        self.take(self.some, block)
    }

    /// Fills a block from the first of these queues.
    fn take(&mut self, queues: u64, block: &mut Block) -> bool {
        let age = queues.trailing_zeros();
        let Some(queue) = self.queues.get_mut(age as usize) else {
            block.len = 0;
            return false;
        };
        let rest = queue.len.saturating_sub(BLOCK);
        block.age = age;
        block.len = queue.len - rest;
        block.keys[..block.len].copy_from_slice(&queue.keys[rest..queue.len]);
        block.tags[..block.len].copy_from_slice(&queue.tags[rest..queue.len]);
        queue.len = rest;
        self.some &= !(u64::from(rest == 0) << age);
        self.whole &= !(u64::from(rest < BLOCK) << age);
        true
    }
}

/// The scratch space of a thread: a block in flight, the next block, and the queues. Empty between passes.
pub(super) struct Workspace {
    pub(super) flying: Block,
    pub(super) next: Block,
    pub(super) waiting: Waiting,
}

/// The workspaces that no thread is using, kept from pass to pass, because every chunk of queries would otherwise begin
/// with a dozen allocations.
#[derive(Default)]
pub(super) struct Workspaces {
    /// Each is a slice of one workspace.
    free: SegQueue<Box<[Workspace]>>,
    /// The number of times that there was no memory for a workspace, or for a queue in one.
    shortages: AtomicU64,
}

/// A borrowed workspace, which is returned on drop. A thread keeps it for all its chunks: the queue is first in, first
/// out, so a workspace borrowed for each chunk would usually be in another core's cache.
pub(super) struct Loan<'a> {
    /// Empty only while it is being given back.
    workspace: Box<[Workspace]>,
    to: &'a Workspaces,
}

impl Workspaces {
    /// Lends a workspace, which must be empty when it is returned. `None` if there is no memory for one; the shortage
    /// is counted, and the result of the pass is then discarded.
    pub(super) fn lend(&self) -> Option<Loan<'_>> {
        let workspace = self.free.pop().or_else(|| memory::boxed(Workspace::default()).ok());
        if workspace.is_none() {
            self.shortages.fetch_add(1, Relaxed);
        }
        Some(Loan { workspace: workspace?, to: self })
    }

    /// The number of shortages of memory so far. It includes those of concurrent passes on other threads, so a shortage
    /// may be reported more than once, but never missed.
    pub(super) fn shortages(&self) -> u64 {
        self.shortages.load(Relaxed)
    }
}

impl Default for Workspace {
    fn default() -> Self {
        Workspace { flying: Block::empty(), next: Block::empty(), waiting: Waiting::new() }
    }
}

impl Loan<'_> {
    #[inline(always)]
    pub(super) fn workspace(&mut self) -> &mut Workspace {
        &mut self.workspace[0]
    }
}

impl Drop for Loan<'_> {
    fn drop(&mut self) {
        let mut workspace = std::mem::take(&mut self.workspace);
        if workspace.iter_mut().any(|workspace| std::mem::take(&mut workspace.waiting.short)) {
            self.to.shortages.fetch_add(1, Relaxed);
        }
        // After a panic it may not be empty.
        if !std::thread::panicking() {
            self.to.free.push(workspace);
        }
    }
}

impl fmt::Debug for Workspaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} workspaces", self.free.len())
    }
}
