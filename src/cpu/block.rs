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
//! There is one queue per age, because SIMD lanes share the constants of one function. Placing and looking up count
//! alike: the first probe of a key has age 1 and uses function 0.

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

/// Ages for which there is a queue: one for each bit of a mask.
const AGES: usize = u64::BITS as usize;
/// The greatest last age: where its losers would be queued there must still be a queue, though they are told instead.
pub(super) const GREATEST_AGE: u32 = AGES as u32 - 2;

/// Bits of a tag that number the query; what a key learns on its way can stand above them.
pub(super) const NUMBER_BITS: u32 = 16;
const _: () = assert!(CHUNK <= 1 << NUMBER_BITS);

/// A batch: `keys[i]` goes with `values[i]`.
#[derive(Clone, Copy)]
pub(super) struct Pairs<'a> {
    pub(super) keys: &'a [u32],
    pub(super) values: &'a [u32],
}

/// What two threads counted. Of the marker's values the greatest stays.
pub(super) fn sum<K: Ord, V: Ord>(a: Placed<K, V>, b: Placed<K, V>) -> Placed<K, V> {
    Placed {
        unplaced: a.unplaced + b.unplaced,
        copies: a.copies + b.copies,
        least_copy: a.least_copy.into_iter().chain(b.least_copy).min(),
        outside: a.outside.max(b.outside),
        stash: a.stash + b.stash,
    }
}

/// Where the keys of one kind of table stand.
pub(super) trait Lists: Sync {
    /// Words of the image that belong to one place: 1 where keys go to slots, S where they go to buckets.
    const STRIDE: usize;

    /// The lowest bits of a word: those of the value.
    const VALUE_BITS: u32 = 32;

    /// The age of a lookup's first question: 1, or 0 where one comes before those for places.
    const FIRST_AGE: u32 = 1;

    /// Slots (or buckets) at this age, and what the upper half of a word of these keys would be there.
    fn aim(&self, age: u32, keys: u32x8) -> (u32x8, u32x8);

    /// What a word says to a key that asks at this age and would be `upper` there: `(hit, end)`, where `end` means that
    /// the key stands nowhere. Never both.
    fn judge(&self, age: u32) -> impl Fn(u32, u64) -> (bool, bool);

    /// The same for a key with a tag, and the tag with which it goes on: `(upper, word, tag)` to `(hit, end, tag)`.
    fn answer(&self, age: u32) -> impl Fn(u32, u64, u32) -> (bool, bool, u32) {
        let judge = self.judge(age);
        move |upper, word, tag| {
            let (hit, end) = judge(upper, word);
            (hit, end, tag)
        }
    }

    /// The age of the last question that a lookup asks; at most [`GREATEST_AGE`].
    fn last_age(&self) -> u32;
}

/// Up to [`BLOCK`] keys of one age. Arrays beyond `len` hold leftovers.
pub(super) struct Block {
    pub(super) age: u32,
    pub(super) len: usize,
    pub(super) keys: [u32; BLOCK],
    /// What belongs to each key: the value to place, or the number of the query.
    pub(super) tags: [u32; BLOCK],
    pub(super) slots: [u32; BLOCK],
    pub(super) uppers: [u32; BLOCK],
}

impl Block {
    pub(super) fn empty() -> Self {
        Block { age: 1, len: 0, keys: [0; BLOCK], tags: [0; BLOCK], slots: [0; BLOCK], uppers: [0; BLOCK] }
    }

    /// Takes at most [`BLOCK`] fresh keys, and returns how many.
    pub(super) fn fill(&mut self, keys: &[u32], tags: impl Iterator<Item = u32>) -> usize {
        self.age = 1;
        self.len = keys.len().min(BLOCK);
        self.keys[..self.len].copy_from_slice(&keys[..self.len]);
        self.tags[..self.len].iter_mut().zip(tags).for_each(|(to, tag)| *to = tag);
        self.len
    }

    /// Computes all slots and asks for their lines.
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

/// Asks for every line of these places.
#[inline(always)]
pub(super) fn fetch<T, L: Lists>(_: &L, image: &[T], places: &[u32]) {
    for &place in places {
        for line in (0..L::STRIDE).step_by(LINE_WORDS) {
            prefetch(image, place as usize * L::STRIDE + line);
        }
    }
}

/// Keys that wait to ask at one age.
#[derive(Default)]
struct Queue {
    keys: Vec<u32>,
    tags: Vec<u32>,
    /// The first `len` of both vectors are waiting; the rest is room.
    len: usize,
}

/// A queue for every age.
pub(super) struct Waiting {
    queues: [Queue; AGES],
    /// One bit for each queue in which a key waits, and for each in which a whole block does.
    some: u64,
    whole: u64,
    /// Whether there was no memory for a queue: keys were lost, and the pass is of no use.
    short: bool,
}

impl Queue {
    /// Makes room for a block and more, if there is the memory.
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

    /// Queues keys under `age`: `each` is given room for one block, writes keys and tags from the front, and tells how
    /// many. It may write behind them, which is how pushing needs no branch.
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

    /// Fills a block from a queue that has a whole one.
    pub(super) fn take_whole(&mut self, block: &mut Block) -> bool {
        self.take(self.whole, block)
    }

    /// Fills a block with what there is at the least age, so that those who lose there can join the ones who wait.
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

/// What one thread works in: a block on its way, the block after it, and the queues. Between passes all of it is empty.
pub(super) struct Workspace {
    pub(super) flying: Block,
    pub(super) next: Block,
    pub(super) waiting: Waiting,
}

/// The workspaces that no thread is using, kept from pass to pass, because every chunk of queries would otherwise begin
/// with a dozen allocations.
#[derive(Default)]
pub(super) struct Workspaces {
    /// Slices of one.
    free: SegQueue<Box<[Workspace]>>,
    /// How often there was no memory for a workspace, or for a queue in one.
    shortages: AtomicU64,
}

/// A workspace on loan; it goes back when this is dropped. A thread keeps it for all its chunks: the queue is first in,
/// first out, so one taken for each chunk would come from another core's cache every time.
pub(super) struct Loan<'a> {
    /// Empty only while it is being given back.
    workspace: Box<[Workspace]>,
    to: &'a Workspaces,
}

impl Workspaces {
    /// Lends a workspace, which must be empty again in the end. None if there is no memory for one; that is counted,
    /// and what the pass returns is then not looked at.
    pub(super) fn lend(&self) -> Option<Loan<'_>> {
        let workspace = self.free.pop().or_else(|| memory::boxed(Workspace::default()).ok());
        if workspace.is_none() {
            self.shortages.fetch_add(1, Relaxed);
        }
        Some(Loan { workspace: workspace?, to: self })
    }

    /// How often memory was short so far. Passes of other threads count too: then theirs are reported more than once,
    /// and none is missed.
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
