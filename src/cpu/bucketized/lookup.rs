//! Lookups: a chunk of keys probes the first buckets, then its unresolved keys probe the second, ..
//!
//! ```text
//! for each turn:   unresolved = the chunk's keys (turn 1), or the numbers that the previous turn left
//!   for each block of 128 of them:   hash all
//!                                    resolve the previous block, whose lines were prefetched one block earlier; with each
//!                                    key prefetch the line of one key of this block
//! resolve:         compare all words of the bucket at once; report the first that matches, or any
//!                  write the number to the end of the list of unresolved keys, which grows if the search continues
//! ```
//!
//! Nothing branches on the result of a probe: the branch predictor cannot foresee it, and a misprediction costs more
//! than a whole probe.
//!
//! **Turn t accepts words of age t only, not other ages of the same function:** so a word is compared as a whole. One
//! key in a hundred has a greater age (canonical, load 0.9); those, and absent keys that no smaller word has excluded,
//! are left after the last turn, and are looked up one by one.
//!
//! **Data is read in the pieces in which it was written.** A load of eight values that were stored one by one waits
//! until the last of them has left the store buffer, after every line that is in flight; on Intel's processors this
//! cost more than a third of the speed. So the result of each key is written directly to its destination.
//!
//! **Nothing is checked twice.** A block costs as much time in instructions as in cache misses, so even a branch that
//! is never taken costs time. Numbers of keys are masked to be below [`CHUNK`], and index arrays of that length, which
//! needs no bounds check; slices would need one.
//!
//! Each key that is resolved prefetches the line of one key of the next block. Prefetching all 128 at once is slow for
//! large tables: a core has at most a few dozen lines in flight, and would stall.
//!
//! The list of unresolved keys is written over elements that were read already, so a chunk needs one list of 8 KiB, and
//! no queues. Each turn ends with a wait for its last block, three times in 4096 keys: 1% of the time.
//!
//! In contrast, `search.rs` compares word by word, with blocks and queues that builds use too.

use std::array;
use std::hint::select_unpredictable;
use std::mem::swap;
use std::ops::Range;

use super::bucket::{Cell, buckets};
use crate::cpu::block::{Lists, fetch};
use crate::cpu::lanes::Lanes;
use crate::cpu::lines::{in_whole_chunks, mask, pack};
use crate::cpu::{BLOCK, CHUNK};
use crate::scheme::bucketized::MAX_FUNCTIONS;

/// Tables whose places are buckets.
pub(super) trait Buckets<const S: usize>: Lists {
    /// The upper half of an empty slot, which no pair has; `None` if no query has it either.
    const NEVER: Option<u32>;

    /// [`Lists::aim`] of one key.
    fn aim_one(&self, age: u32, key: u32) -> (u32, u32);

    /// Returns index and word of a key that does not have its upper halves of ages 1 to [`Lists::last_age`]. Only
    /// called for keys whose searches did not end.
    fn find_rest<C: Cell>(&self, lanes: impl Lanes, image: &[C], key: u32) -> Option<(usize, u64)>;

    /// Whether the buckets of all ages are prefetched at once.
    fn at_once(&self) -> bool;
}

/// Whether a key was found, and the place of its word. If it was not found, the place is that of an arbitrary word of a
/// bucket.
pub(super) struct Hit {
    /// The number of the key.
    pub(super) number: usize,
    /// The index of the word.
    pub(super) at: usize,
    pub(super) word: u64,
    pub(super) found: bool,
}

/// The places of the keys of a block. It is copied, since swapping two pointers costs registers.
#[derive(Clone, Copy)]
struct Aimed {
    buckets: [u32; BLOCK],
    uppers: [u32; BLOCK],
}

impl Aimed {
    fn new() -> Self {
        Aimed { buckets: [0; BLOCK], uppers: [0; BLOCK] }
    }

    /// Computes the buckets of some keys. One step per loop, so that compilers vectorize it to the width of the
    /// processor.
    #[inline(always)]
    fn aim<const S: usize>(&mut self, lists: &impl Buckets<S>, age: u32, keys: &[u32; BLOCK], range: Range<usize>) {
        let to = self.buckets[range.clone()].iter_mut().zip(&mut self.uppers[range.clone()]);
        for (&key, (bucket, upper)) in keys[range].iter().zip(to) {
            (*bucket, *upper) = lists.aim_one(age, key);
        }
    }
}

/// Returns the index in the bucket and the word with this upper half, and true; if there is none, an arbitrary word and
/// false.
#[inline(always)]
fn compare<const S: usize, C: Cell, L: Buckets<S>>(
    lanes: impl Lanes,
    _: &L,
    cells: &[C; S],
    upper: u32,
) -> (usize, u64, bool) {
    let same = C::same_upper(cells, lanes, upper, u32::MAX);
    let at = same.trailing_zeros() as usize / 2 % S;
    (at, cells[at].get(), (same != 0) & L::NEVER.is_none_or(|never| upper != never))
}

/// Looks up at most [`CHUNK`] keys. Each key is reported at least once; the last report is final, and earlier reports
/// are "not found".
#[inline(always)]
pub(super) fn search<const S: usize, C: Cell, L: Buckets<S>>(
    lanes: impl Lanes,
    lists: &L,
    image: &[C],
    keys: &[u32],
    mut then: impl FnMut(Hit),
) {
    debug_assert!(keys.len() <= CHUNK);
    if lists.at_once() {
        return search_at_once(lanes, lists, image, keys, then);
    }
    let mut unresolved = [0; CHUNK];
    let mut left = turn::<S, true, C, L>(lanes, lists, image, 1, keys, &mut unresolved, keys.len(), &mut then);
    for age in 2..=lists.last_age() {
        left = turn::<S, false, C, L>(lanes, lists, image, age, keys, &mut unresolved, left, &mut then);
    }
    for number in unresolved.iter().take(left).map(|&number| usize::from(number)) {
        if let Some((at, word)) = lists.find_rest(lanes, image, keys[number]) {
            then(Hit { number, at, word, found: true });
        }
    }
}

/// Probes `len` keys in one turn, either all or those on the list. Returns the new length of the list.
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "a struct of them would be made and taken apart once a turn")]
fn turn<const S: usize, const ALL: bool, C: Cell, L: Buckets<S>>(
    lanes: impl Lanes,
    lists: &L,
    image: &[C],
    age: u32,
    keys: &[u32],
    unresolved: &mut [u16; CHUNK],
    len: usize,
    then: &mut impl FnMut(Hit),
) -> usize {
    let judge = lists.judge(age);
    let buckets = buckets::<S, C>(image);
    let (mut flying, mut next) = (Aimed::new(), Aimed::new());
    let mut left = 0;
    // One extra iteration resolves the last block.
    for start in (0..len + BLOCK).step_by(BLOCK) {
        let coming = len.saturating_sub(start).min(BLOCK);
        if ALL && let Some(block) = keys.get(start..).and_then(|keys| keys.first_chunk()) {
            next.aim(lists, age, block, 0..BLOCK);
        } else {
            let mut block = [0; BLOCK];
            for i in 0..coming {
                block[i] = keys[if ALL { start + i } else { usize::from(unresolved[start + i]) }];
            }
            next.aim(lists, age, &block, 0..BLOCK);
        }
        let Some(start) = start.checked_sub(BLOCK) else {
            fetch(lists, image, &next.buckets[..coming]);
            flying = next;
            continue;
        };
        for i in 0..(len - start).min(BLOCK) {
            fetch(lists, image, &next.buckets[i..i + 1]);
            let (bucket, upper) = (flying.buckets[i] as usize, flying.uppers[i]);
            let cells = &buckets[bucket];
            let (place, word, found) = compare(lanes, lists, cells, upper);
            let number = if ALL { start + i } else { unresolved[(start + i) % CHUNK].into() };
            then(Hit { number, at: bucket * S + place, word, found });
            unresolved[left % CHUNK] = number as u16;
            left += usize::from(!found & !judge(upper, cells[S - 1].get()).1);
        }
        flying = next;
    }
    left
}

/// As [`search`], with the buckets of all ages in flight together: one wait instead of up to four, but more lines.
#[inline(always)]
fn search_at_once<const S: usize, C: Cell, L: Buckets<S>>(
    lanes: impl Lanes,
    lists: &L,
    image: &[C],
    keys: &[u32],
    mut then: impl FnMut(Hit),
) {
    let buckets = buckets::<S, C>(image);
    let ages = lists.last_age().min(MAX_FUNCTIONS as u32);
    let aimed = || -> [Aimed; MAX_FUNCTIONS] { array::from_fn(|_| Aimed::new()) };
    let (mut flying, mut next) = (&mut aimed(), &mut aimed());
    for start in (0..keys.len() + BLOCK).step_by(BLOCK) {
        let coming = keys.len().saturating_sub(start).min(BLOCK);
        let mut block = [0; BLOCK];
        block[..coming].copy_from_slice(keys.get(start..start + coming).unwrap_or_default());
        for age in 1..=ages {
            next[age as usize - 1].aim(lists, age, &block, 0..BLOCK);
        }
        let (before, here) = start.checked_sub(BLOCK).map_or((0, 0), |at| (at, (keys.len() - at).min(BLOCK)));
        for i in 0..BLOCK {
            for next in &next[..ages as usize] {
                fetch(lists, image, &next.buckets[i..i + 1]);
            }
            if i >= here {
                continue;
            }
            let mut hit = Hit { number: before + i, at: 0, word: 0, found: false };
            for age in 1..=ages {
                let flying = &flying[age as usize - 1];
                let (bucket, upper) = (flying.buckets[i] as usize, flying.uppers[i]);
                let (place, word, found) = compare(lanes, lists, &buckets[bucket], upper);
                let new = found & !hit.found;
                hit.found |= new;
                hit.word = select_unpredictable(new, word, hit.word);
                hit.at = select_unpredictable(new, bucket * S + place, hit.at);
            }
            then(hit);
        }
        swap(&mut flying, &mut next);
    }
}

/// Values and found bits of one chunk of queries.
#[inline(always)]
pub(super) fn answer<const S: usize, L: Buckets<S>>(
    lanes: impl Lanes,
    lists: &L,
    image: &[u64],
    queries: &[u32],
    values: &mut [u32],
    found: &mut [u32],
) {
    let mut hits = [0; CHUNK];
    in_whole_chunks(
        values,
        #[inline(always)]
        |values: &mut [u32; CHUNK]| {
            search(
                lanes,
                lists,
                image,
                queries,
                #[inline(always)]
                |hit| {
                    values[hit.number % CHUNK] = hit.word as u32;
                    hits[hit.number % CHUNK] = hit.found.into();
                },
            );
            mask(values, &hits);
        },
    );
    pack(&hits, found);
}
