//! The canonical build on all threads: the passes of `scheme/horton/canonical.rs`, with a join between.
//!
//! ```text
//! split    partitions the pairs into the slices of the parts, as `[key][value]`              (`cpu/parts.rs`)
//! parts    one thread per part, in its cache: moves every pair to its home; crowded homes get a record  (`part.rs`)
//! settle   tokens make offers in the whole image, until all are accepted or exhausted        (`settle.rs`)
//! close    accepted offers become pairs; all buckets, and the stash, get their final form    (`close.rs`)
//! ```
//!
//! A part here is a run of buckets that fits in a core's cache, and nothing else depends on where it ends: guests may
//! be anywhere in the table. Between `parts` and `close` the data of a home of n keys is stored as follows:
//!
//! ```text
//! header    [mask of its tags or 0 : 32][where its free slots, or its record, begin in the block of its part : 24][n : 8]
//! n <= S    [pair 0] .. [pair n-1]                                                in the image, in any order
//!           [offer or 0] for each slot to spare                                   its free slots
//! n >  S    [entries, by rank][the least pair of each tag, by tag][the others]    its record
//! block     [free slots][records]                                                     one a part
//! ```
//!
//! Free slots are a sixth of all slots, and offers go to a sixth of the table at a time, so most of them hit a cache.
//! The *rank* of a tag is its number among the tags of its home. An offer contains a rank (`offer.rs`), which gives the
//! position of the pair that leaves, so that no pass after `parts` needs to hash or sort again to find that pair.
//!
//! Memory in addition to the image: 8 bytes per bucket; 8 bytes per free slot; 8 bytes for each key of a crowded home,
//! and 8 for each such home; 8 bytes per stash bucket; four slices for each thread. At load 0.9 with 8 slots the blocks
//! have 7 bytes per pair.
//!
//! Relaxed atomics suffice everywhere: what one pass writes and another reads is ordered by the join between them.
//! Within a pass a word is either written by one thread alone, or it is a count, a set of bits or a slot for an offer.
//! The final value of these does not depend on the order, and no other memory is read because of their values (for
//! offers see `settle.rs`).
//!
//! If there are duplicate keys, the build ends with their number, and without an image.

use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use wide::u32x8;

use super::part::{Found, Scratch};
use super::{close, settle};
use crate::backend::{Ledger, Placed};
use crate::cpu::CHUNK;
use crate::cpu::atomic::Atomic;
use crate::cpu::block::{Pairs, sum};
use crate::cpu::lanes::at_best;
use crate::cpu::memory::{Memory, atomic, out_of_memory, prefetch};
use crate::cpu::parts::{LINE, Slices, Words, partition};
use crate::error::Result;
use crate::memory;
use crate::parallel::{each, fold, threads};
use crate::scheme::horton::Functions;
use crate::scheme::horton::tokens::{self, EMPTY, EMPTY_KEY};

/// The base-2 logarithm of the words of a part, at most: slice and copy take 512 KiB, half an L2 cache or more.
const MOST_PART_BITS: u32 = 15;
const FEWEST_PART_BITS: u32 = 9;
/// Words that are allocated at once, for the blocks of several parts.
const MOST_PAGE: usize = 1 << 20;
/// The least number of parts per thread, unless the table is too small.
const PARTS_EACH: usize = 4;

/// An image that is being built.
pub(super) struct Build<'a, const S: usize, A = AtomicU64> {
    pub(super) functions: &'a Functions,
    /// The table's words, then the stash's.
    pub(super) image: &'a [A],
    /// A header for each bucket of the table.
    pub(super) headers: &'a [AtomicU64],
    pub(super) blocks: &'a [Block<'a, A>],
    /// The base-2 logarithm of the buckets of a part.
    pub(super) shift: u32,
}

/// The data of a part.
pub(super) struct Block<'a, A> {
    pub(super) words: &'a [A],
    /// The end of the free slots.
    pub(super) free_end: usize,
}

impl<const S: usize, A> Clone for Build<'_, S, A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<const S: usize, A> Copy for Build<'_, S, A> {}

/// The fields of a header.
#[derive(Clone, Copy)]
pub(super) struct Header {
    /// The number of keys of this home.
    pub(super) keys: u32,
    /// The position in the block of its free slots, or of its record if it is crowded.
    pub(super) start: u32,
    /// The tags of a crowded home.
    pub(super) mask: u32,
}

impl Header {
    #[inline(always)]
    pub(super) fn of(word: u64) -> Self {
        Header { keys: word as u32 & 0xff, start: word as u32 >> 8, mask: (word >> 32) as u32 }
    }

    #[inline(always)]
    pub(super) fn word(self) -> u64 {
        u64::from(self.mask) << 32 | u64::from(self.start) << 8 | u64::from(self.keys)
    }

    /// Whether its bucket is Type B.
    #[inline(always)]
    pub(super) fn is_crowded<const S: usize>(self) -> bool {
        self.keys > S as u32
    }

    /// The tokens of a crowded home.
    #[inline(always)]
    pub(super) fn tokens<const S: usize>(self) -> u32 {
        tokens::token_count(self.keys, S as u32, self.mask)
    }
}

impl<'a, const S: usize, A: Atomic<Word = u64>> Build<'a, S, A> {
    /// The buckets of a part.
    #[inline(always)]
    pub(super) fn buckets_of(&self, part: usize) -> Range<u32> {
        let first = (part as u32) << self.shift;
        first..first + (self.functions.buckets - first).min(1 << self.shift)
    }

    #[inline(always)]
    pub(super) fn header(&self, bucket: u32) -> Header {
        Header::of(self.headers[bucket as usize].load(Relaxed))
    }

    /// Prefetches a header.
    #[inline(always)]
    pub(super) fn prefetch_header(&self, bucket: u32) {
        prefetch(self.headers, bucket as usize);
    }

    /// The record of a crowded home, or the free slots of another, and the words after it.
    #[inline(always)]
    pub(super) fn record(&self, home: u32, header: Header) -> &'a [A] {
        self.blocks[(home >> self.shift) as usize].words.get(header.start as usize..).unwrap_or(&[])
    }

    /// The words of a bucket.
    #[inline(always)]
    pub(super) fn bucket(&self, bucket: u32) -> &'a [A; S] {
        &self.image.as_chunks::<S>().0[bucket as usize]
    }
}

/// Builds the image of these pairs in an image of zeros. `outside` is whether the sentinel pair already exists.
pub(super) fn place<const S: usize>(
    functions: &Functions,
    outside: bool,
    image: &mut [u64],
    pairs: Pairs<'_>,
    ledger: &Ledger,
) -> Result<Placed> {
    if pairs.keys.is_empty() {
        each(image, CHUNK, |_, words| words.fill(EMPTY));
        return Ok(Placed::default());
    }
    let table = functions.buckets as usize * S;
    let bits = part_bits(table, threads());
    let (shift, len) = (bits - S.ilog2(), pairs.keys.len());
    let words = Words(
        pairs,
        #[inline(always)]
        |keys: u32x8| {
            // The sentinel key does not belong to a part.
            let part = functions.mixed_home(keys).0 >> shift as i32;
            (keys, part | keys.simd_eq(u32x8::splat(EMPTY_KEY)))
        },
    );
    let slices = Slices::new(table, bits, LINE);
    let short = || out_of_memory(len * size_of::<u64>());
    ledger.kernel("horton_deal", len);
    let words_of_table = &mut image[..table];
    let mut partitioned = partition(words, words_of_table, slices, len).ok_or_else(short)?;
    let part_of = |&word: &u64| functions.mixed_home(tokens::key(word)).0 >> shift;
    partitioned.escapes.sort_unstable_by_key(part_of);
    let escapes = &partitioned.escapes[..];
    let mut placed = Placed::default();
    if partitioned.counts.iter().sum::<usize>() + escapes.len() < len {
        placed = marked(pairs, outside);
    }

    ledger.kernel("horton_parts", len);
    let mut headers = Memory::zeroed(functions.buckets as usize)?;
    let headers = atomic(headers.words_mut()?);
    let of_slice = |scratch: &mut Scratch<S>, number: usize, slice: &mut [u64], count| {
        let begin = escapes.partition_point(|word| (part_of(word) as usize) < number);
        let end = escapes.partition_point(|word| part_of(word) as usize <= number);
        at_best(
            #[inline(always)]
            || {
                let start = (number as u32) << shift;
                scratch.take(functions, start, slices.partitioned(number, slice, count), &escapes[begin..end])?;
                scratch.fill(functions, number, &headers[start as usize..], slice.as_chunks_mut::<S>().0)
            },
        )
    };
    let workers = threads().min(partitioned.counts.len());
    let buckets = (functions.buckets as usize).min(1 << shift);
    let page = (table / (2 * workers)).min(MOST_PAGE);
    let scratches = slices.each(words_of_table, &partitioned.counts, workers, || Scratch::new(buckets, page), of_slice);
    let mut scratches = scratches.ok_or_else(short)?;
    let found = scratches.iter().map(|scratch| scratch.placed).fold(Placed::default(), sum);
    if found.unplaced > 0 {
        // The number of duplicates is unknown for overfull homes.
        placed.unplaced = found.unplaced;
        return Ok(placed);
    }
    placed = sum(placed, found);

    let mut blocks = memory::reserved(partitioned.counts.len())?;
    blocks.resize_with(partitioned.counts.len(), || Block { words: &[], free_end: 0 });
    for scratch in &mut scratches {
        let Scratch { pages, blocks: found, .. } = scratch;
        let mut words = Vec::new();
        for page in pages {
            words.push(atomic(page.words_mut()?));
        }
        for &Found { number, page, start, end, free_end } in &*found {
            blocks[number] = Block { words: &words[page][start..end], free_end };
        }
    }
    let build = Build::<S> { functions, image: atomic(image), headers, blocks: &blocks, shift };
    if placed.duplicates == 0 {
        ledger.kernel("horton_settle", functions.buckets as usize);
        settle::settle(build)?;
    }
    ledger.kernel("horton_close", build.image.len());
    close::leave(build);
    let mut stashed = Memory::zeroed(functions.stash_buckets as usize)?;
    let stashed = atomic(stashed.words_mut()?);
    placed = sum(placed, close::finish(build, stashed));
    if placed.duplicates > 0 {
        // No key left its home, so keys other than duplicates may be unplaced.
        placed.unplaced = 0;
    }
    close::stash(build, stashed);
    Ok(placed)
}

/// The base-2 logarithm of the words of a part of a table of this many words.
fn part_bits(words: usize, threads: usize) -> u32 {
    let share = if threads == 1 { words } else { words / (PARTS_EACH * threads) };
    share.max(1).next_power_of_two().ilog2().clamp(FEWEST_PART_BITS, MOST_PART_BITS)
}

/// The number of occurrences of the sentinel key, and its greatest value; one of them, including an existing one, is
/// not a duplicate.
#[cold]
fn marked(pairs: Pairs<'_>, outside: bool) -> Placed {
    let of_chunk = |_, (keys, values): (&[u32], &[u32])| {
        let mut placed = Placed::default();
        for (_, &value) in keys.iter().zip(values).filter(|(key, _)| **key == EMPTY_KEY) {
            placed.duplicates += 1;
            placed.outside = placed.outside.max(Some(value));
        }
        placed
    };
    let mut placed = fold((pairs.keys, pairs.values), CHUNK, of_chunk, sum);
    placed.duplicates = (placed.duplicates + u64::from(outside)).saturating_sub(1);
    placed.least_duplicate = (placed.duplicates > 0).then_some(EMPTY_KEY);
    placed
}
