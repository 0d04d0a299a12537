//! Builds a canonical table one partition at a time: one thread places each part in its cache, with plain reads and
//! writes.
//!
//! ```text
//! split     partitions the pairs into the slices of the parts                               (`cpu/parts.rs`)
//! then, one thread per part:
//!   arrive  each word takes the next place of its bucket 1 in a copy of the part; those beyond the last are queued
//!   order   each bucket is sorted, and written to the slice; duplicates are adjacent in it
//!   settle  the queued words are offered to their bucket 1; displaced words are offered to their bucket 2, and so on
//! at last   pairs that left their part continue in the whole image
//! ```
//!
//! A part here consists of some of the parts of `scheme/bucketized/functions.rs`, so buckets 1 and 2 of a key are in
//! one part. A pair that needs its third bucket leaves; at load 0.9 that is one in 40,000 (2^24 pairs).
//!
//! **Why it is correct.** It is the sequential rule for each part, with one order of the same offers, and then the rule
//! for the whole image, so the bytes are the same. Storing an arrival in a free place is an offer; duplicates among the
//! arrivals are dropped before any word is displaced, as if they had met at once. So counts of duplicates are exact for
//! the same reason as in `canonical.rs`.
//!
//! **Why it is fast.** An offer to the whole image waits for a line of memory and for the locked exchange. Here each
//! line of the image is written when its words are partitioned, and read and written once when its part is placed. A
//! sorted bucket stays sorted by one pass of comparisons without branches (`bucket.rs`).
//!
//! This module cannot insert into an existing image. `canonical.rs` does, and it also builds small tables, tables with
//! crowded keys, and tables for which memory is short.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::bucket::{Offered, offer};
use super::canonical;
use crate::backend::Placed;
use crate::cpu::block::{Pairs, Workspaces, sum};
use crate::cpu::lanes::at_best;
use crate::cpu::network::sort_descending;
use crate::cpu::parts::{LINE, Partitioned, Slices, Words, array, partition, try_with_capacity};
use crate::error::Result;
use crate::memory;
use crate::parallel::threads;
use crate::scheme::bucketized::{Functions, PART_SLOTS, canonical as rule};
use crate::scheme::hash::{mix, unmix};
use crate::scheme::slot;

/// The base-2 logarithm of the words of a part. The slice and the copy take 512 KiB: half an L2 cache or more.
const PART_BITS: u32 = 15;
const PART_WORDS: usize = 1 << PART_BITS;
const _: () = assert!(PART_WORDS.is_multiple_of(PART_SLOTS as usize));
/// The most buckets of a part: those of 4 slots.
const MOST_BUCKETS: usize = PART_WORDS / 4;

/// One pair in this many may leave its part; if more do, the table is built directly.
const ESCAPES_SHARE: usize = 16;
/// Up to this many pairs are placed one by one, in an image whose buckets stay sorted. More pairs are placed by all
/// threads, after which all buckets must be sorted.
const FEW: usize = 4096;
const FEW_SHARE: usize = 4096;

/// A build in progress.
pub(super) struct Parts<'a> {
    functions: &'a Functions,
    slices: Slices,
    pairs: usize,
    partitioned: Partitioned<u64>,
}

/// Pairs that have left their parts.
pub(super) struct Left {
    placed: Placed,
    /// `[mixed key][value]` of those that have not been offered to their first bucket.
    first: Vec<u64>,
    /// `[key][value]` of those that need their third bucket.
    third: Vec<u64>,
}

impl Left {
    pub(super) fn len(&self) -> usize {
        self.first.len() + self.third.len()
    }
}

fn most_escapes(pairs: usize) -> usize {
    pairs / ESCAPES_SHARE + 4096
}

/// Partitions the pairs into the slices of a new image. `None` if one part has too many pairs or memory is short;
/// another strategy must then build the table.
pub(super) fn partitioned<'a, const S: usize>(
    functions: &'a Functions,
    image: &mut [u64],
    pairs: Pairs<'_>,
) -> Option<Parts<'a>> {
    let slices = Slices::new(image.len(), PART_BITS, LINE);
    let shift = PART_BITS - S.ilog2();
    let (mixer, buckets) = (functions.keys[0], functions.buckets);
    let words = Words(
        pairs,
        #[inline(always)]
        |keys| {
            let mixed = mix(keys, mixer);
            (mixed, slot::split(mixed, buckets).0 >> shift)
        },
    );
    let partitioned = partition(words, image, slices, most_escapes(pairs.keys.len()))?;
    Some(Parts { functions, slices, pairs: pairs.keys.len(), partitioned })
}

impl Parts<'_> {
    /// Places every part; `None` if memory is short or too many pairs leave their parts.
    pub(super) fn place<const S: usize>(self, image: &mut [u64]) -> Option<Left> {
        let Parts { functions, slices, pairs, partitioned } = self;
        let shift = PART_BITS - S.ilog2();
        // The scratch space of all threads must fit in eight bytes per pair, which memory estimates include.
        let threads = threads().min(pairs / SCRATCH_WORDS).max(1);
        let leaving = AtomicUsize::new(partitioned.escapes.len());
        let scratch = || Some((Scratch::new()?, Found::default()));
        let of_slice = |(scratch, found): &mut (Scratch, Found), number: usize, slice: &mut [u64], count| {
            let before = found.third.len();
            // Each word of the part leaves at most once.
            found.third.try_reserve(count + 1).ok()?;
            at_best(
                #[inline(always)]
                || {
                    let late =
                        arrive::<S>(functions, number << shift, scratch, slices.partitioned(number, slice, count));
                    let buckets = slice.as_chunks_mut::<S>().0;
                    let mut part = Part { functions, start: (number << shift) as u32, buckets, found };
                    part.order(scratch);
                    part.settle(scratch, late);
                },
            );
            let leave = found.third.len() - before;
            (leaving.fetch_add(leave, Relaxed) + leave <= most_escapes(pairs)).then_some(())
        };
        let found = slices.each(image, &partitioned.counts, threads, scratch, of_slice)?;
        let found: Vec<_> = found.into_iter().map(|(_, found)| found).collect();
        let placed = found.iter().map(|found| found.placed).fold(Placed::default(), sum);
        let mut third = try_with_capacity(found.iter().map(|found| found.third.len()).sum())?;
        found.into_iter().for_each(|mut found| third.append(&mut found.third));
        Some(Left { placed, first: partitioned.escapes, third })
    }
}

/// Places the pairs that left their parts, in the whole image.
pub(super) fn finish<const S: usize>(
    functions: &Functions,
    image: &mut [u64],
    left: Left,
    workspaces: &Workspaces,
) -> Result<Placed> {
    let Left { mut placed, mut first, third } = left;
    for word in &mut first {
        *word = u64::from(unmix((*word >> 32) as u32, functions.keys[0])) << 32 | u64::from(*word as u32);
    }
    if first.len() + third.len() <= FEW + image.len() / FEW_SHARE {
        let buckets = image.as_chunks_mut::<S>().0;
        for (age, pairs) in [(1, first), (3, third)] {
            pairs
                .into_iter()
                .for_each(|pair| follow(functions, buckets, (pair >> 32) as u32, pair as u32, age, &mut placed));
        }
        return Ok(placed);
    }
    for (age, pairs) in [(1, first), (3, third)] {
        let (mut keys, mut values) = (memory::reserved(pairs.len())?, memory::reserved(pairs.len())?);
        keys.extend(pairs.iter().map(|&pair| (pair >> 32) as u32));
        values.extend(pairs.iter().map(|&pair| pair as u32));
        drop(pairs);
        let pairs = Pairs { keys: &keys, values: &values };
        placed = sum(placed, canonical::offer_all::<S>(functions, image, pairs, age, workspaces));
    }
    if placed.unplaced == 0 {
        canonical::order::<S>(image);
    }
    Ok(placed)
}

/// Places one pair, and all pairs that are displaced, in an image whose buckets are sorted and stay so.
fn follow<const S: usize>(
    functions: &Functions,
    buckets: &mut [[u64; S]],
    mut key: u32,
    mut value: u32,
    mut age: u32,
    placed: &mut Placed,
) {
    while age <= slot::MAX_AGE {
        let (home, remainder) = functions.home(key);
        let at = functions.bucket(functions.turn(age), home, remainder);
        match offer(&mut buckets[at as usize], slot::word(age, remainder, value)) {
            Offered::Duplicate => return count_duplicate(placed, key),
            Offered::Out(word) => match rule::pair(functions, at, word) {
                Some(out) => ((key, value), age) = (out, slot::age(word) + 1),
                None => return,
            },
        }
    }
    placed.unplaced += 1;
}

fn count_duplicate(placed: &mut Placed, key: u32) {
    placed.duplicates += 1;
    placed.least_duplicate = Some(placed.least_duplicate.map_or(key, |least| least.min(key)));
}

/// The results of a thread's parts.
#[derive(Default)]
struct Found {
    placed: Placed,
    /// `[key][value]` of pairs that need their third bucket.
    third: Vec<u64>,
}

/// The scratch space of a thread.
struct Scratch {
    /// The part's words in order of arrival, and a place for those beyond the last. Between parts all other places are
    /// empty.
    table: Box<[u64; PART_WORDS + 1]>,
    /// The number of arrivals at each bucket.
    counts: Box<[u8; MOST_BUCKETS]>,
    /// Displaced words of age 1, and the number of their bucket in the part. A word is queued at most once, so the
    /// capacity suffices.
    words: Box<[u64; PART_WORDS]>,
    lost_in: Box<[u16; PART_WORDS]>,
}

/// The approximate size of a [`Scratch`].
const SCRATCH_WORDS: usize = 2 * PART_WORDS + PART_WORDS / 4 + MOST_BUCKETS / 8;

impl Scratch {
    fn new() -> Option<Self> {
        Some(Scratch { table: array()?, counts: array()?, words: array()?, lost_in: array()? })
    }
}

/// Stores every word in its bucket, or queues it if the bucket is full; returns the number of queued words. There is no
/// branch, because whether a bucket is full is unpredictable.
#[inline(always)]
fn arrive<const S: usize>(
    functions: &Functions,
    start: usize,
    scratch: &mut Scratch,
    partitioned: [(&[u64], usize); 2],
) -> usize {
    let Scratch { table, counts, words, lost_in } = scratch;
    counts.fill(0);
    let mut late = 0;
    for (partitioned, count) in partitioned {
        for &word in &partitioned[..count] {
            let (home, remainder) = slot::split((word >> 32) as u32, functions.buckets);
            let bucket = (home as usize).wrapping_sub(start) % (PART_WORDS / S);
            let word = slot::word(1, remainder, word as u32);
            let rank = usize::from(counts[bucket]);
            let full = rank >= S;
            table[if full { PART_WORDS } else { (bucket * S + rank) % PART_WORDS }] = word;
            counts[bucket] = (rank + usize::from(!full)) as u8;
            (words[late % PART_WORDS], lost_in[late % PART_WORDS]) = (word, bucket as u16);
            late += usize::from(full);
        }
    }
    late
}

/// A part whose words have arrived.
struct Part<'a, const S: usize> {
    functions: &'a Functions,
    /// The number of its first bucket.
    start: u32,
    buckets: &'a mut [[u64; S]],
    found: &'a mut Found,
}

impl<const S: usize> Part<'_, S> {
    /// Writes the buckets to the slice, sorted, and clears the copy.
    #[inline(always)]
    fn order(&mut self, scratch: &mut Scratch) {
        for at in 0..self.buckets.len().min(PART_WORDS / S) {
            let mut words = std::mem::replace(&mut scratch.table.as_chunks_mut::<S>().0[at], [slot::EMPTY; S]);
            sort_descending::<S, S>(&mut words);
            self.buckets[at] = words;
            // All pairs of neighbours are compared, without a branch between them.
            let same = |i: usize| (words[i - 1] >> 32 == words[i] >> 32) & (words[i] != slot::EMPTY);
            if (1..S).fold(false, |any, i| any | same(i)) {
                self.drop_duplicates(at);
            }
        }
    }

    /// Of words with one key, keeps the greatest.
    #[cold]
    fn drop_duplicates(&mut self, at: usize) {
        let all = self.buckets[at];
        let mut words = all;
        for (greater, word) in all.iter().zip(&mut words[1..]) {
            if greater >> 32 == *word >> 32 && *word != slot::EMPTY {
                self.count_duplicate(0, at, *word);
                *word = slot::EMPTY;
            }
        }
        sort_descending::<S, S>(&mut words);
        self.buckets[at] = words;
    }

    #[cold]
    fn count_duplicate(&mut self, turn: usize, at: usize, word: u64) {
        let key = self.functions.key_at(turn, self.start + at as u32, slot::remainder(word));
        count_duplicate(&mut self.found.placed, key);
    }

    /// Offers queued words to their bucket 1, and then those that are displaced there, or later in a bucket 2, to their
    /// bucket 2. All are in one queue: offers are independent of each other, so the processor works on several at once.
    #[inline(always)]
    fn settle(&mut self, scratch: &mut Scratch, late: usize) {
        let Scratch { words, lost_in, .. } = scratch;
        let mut end = 0;
        for i in 0..late.min(PART_WORDS) {
            let (mine, at) = (words[i], usize::from(lost_in[i]));
            let Some(bucket) = self.buckets.get_mut(at) else {
                // This cannot happen; if it did, the lost pair would be reported.
                self.found.placed.unplaced += 1;
                continue;
            };
            match offer(bucket, mine) {
                Offered::Duplicate => self.count_duplicate(0, at, mine),
                Offered::Out(word) => {
                    (words[end % PART_WORDS], lost_in[end % PART_WORDS]) = (word, at as u16);
                    // A duplicate may have left an empty place.
                    end += usize::from(word != slot::EMPTY);
                }
            }
        }
        let mut next = 0;
        while next < end {
            let (lost, home) = (words[next % PART_WORDS], u32::from(lost_in[next % PART_WORDS]));
            next += 1;
            let mine = slot::word(2, slot::remainder(lost), slot::value(lost));
            let at =
                self.functions.bucket(1, self.start + home, slot::remainder(lost)).wrapping_sub(self.start) as usize;
            let Some(bucket) = self.buckets.get_mut(at) else {
                self.found.placed.unplaced += 1;
                continue;
            };
            match offer(bucket, mine) {
                Offered::Duplicate => self.count_duplicate(1, at, mine),
                Offered::Out(word) => {
                    (words[end % PART_WORDS], lost_in[end % PART_WORDS]) = (word, at as u16);
                    end += usize::from(slot::age(word) == 1);
                    if slot::age(word) > 1 {
                        let key = self.functions.key_at(1, self.start + at as u32, slot::remainder(word));
                        self.found.third.push(u64::from(key) << 32 | u64::from(slot::value(word)));
                    }
                }
            }
        }
    }
}
