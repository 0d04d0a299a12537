//! The canonical build on all threads: the passes of `scheme/horton/canonical.rs`, with a join between.
//!
//! ```text
//! deal     the pairs to the slices of the parts, as `[key][value]`                           (`cpu/parts.rs`)
//! parts    each part by one thread, in its cache: every pair to its home; crowded homes keep a record  (`part.rs`)
//! settle   tokens make offers in the whole image, until all are kept or exhausted            (`settle.rs`)
//! close    offers kept become pairs; all buckets, and the stash, take their final form       (`close.rs`)
//! ```
//!
//! A part here is a run of buckets that a core's cache has room for, and nothing else depends on where it ends: guests
//! may lie anywhere in the table. Between `parts` and `close` a home of n keys stands like this:
//!
//! ```text
//! header    [mask of its tags or 0 : 32][where in the block of its part its rooms, or its record, begin : 24][n : 8]
//! n <= S    [pair 0] .. [pair n-1]                                                in the image, in any order
//!           [offer or 0] for each slot to spare                                   its rooms
//! n >  S    [entries, by rank][the least pair of each tag, by tag][the others]    its record
//! block     [rooms][records]                                                      one a part
//! ```
//!
//! Rooms are a sixth of the slots, and offers go to a sixth of the table at a time, so most of them meet in a cache.
//! The *rank* of a tag is its number among the tags of its home. So an offer, which names a rank (`offer.rs`), tells
//! where the pair stands that leaves, and no pass after `parts` needs to hash or sort again to tell who that is.
//!
//! Memory beside the image: 8 bytes a bucket; 8 bytes a slot to spare; 8 bytes for each key of a crowded home, and 8
//! for each such home; 8 bytes a stash bucket; four slices for each thread. At load 0.9 with 8 slots the blocks have 7
//! bytes a pair.
//!
//! Why relaxed atomics do everywhere: what one pass writes and another reads is ordered by the join between them.
//! Within a pass a word is either written by one thread alone, or it is a count, a set of bits or a place for an offer,
//! whose end depends on no order, and on the strength of which no other memory is read (`settle.rs` says it of the
//! last).
//!
//! If keys are duplicate, the build ends with their number, and without an image.

use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use wide::u32x8;

use super::part::{Found, Room};
use super::{close, settle};
use crate::backend::{Ledger, Placed};
use crate::cpu::CHUNK;
use crate::cpu::atomic::Atomic;
use crate::cpu::block::{Pairs, sum};
use crate::cpu::lanes::at_best;
use crate::cpu::memory::{Memory, atomic, no_room, prefetch};
use crate::cpu::parts::{LINE, Slices, Words, deal};
use crate::error::Result;
use crate::memory;
use crate::parallel::{each, fold, threads};
use crate::scheme::horton::Functions;
use crate::scheme::horton::tokens::{self, EMPTY, EMPTY_KEY};

/// The base-2 logarithm of the words of a part, at most: slice and copy take 512 KiB, half an L2 cache or more.
const MOST_PART_BITS: u32 = 15;
const FEWEST_PART_BITS: u32 = 9;
/// Words that are asked for at once, for the blocks of several parts.
const MOST_PAGE: usize = 1 << 20;
/// Parts a thread, at least, if the table is not too small.
const PARTS_EACH: usize = 4;

/// An image under way.
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

/// What is kept of a part.
pub(super) struct Block<'a, A> {
    pub(super) words: &'a [A],
    /// Where the rooms end.
    pub(super) rooms_end: usize,
}

impl<const S: usize, A> Clone for Build<'_, S, A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<const S: usize, A> Copy for Build<'_, S, A> {}

/// A header, unpacked.
#[derive(Clone, Copy)]
pub(super) struct Header {
    /// Keys of this home.
    pub(super) keys: u32,
    /// Where in the block its rooms begin, or its record if it is crowded.
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

    /// Asks for a header.
    #[inline(always)]
    pub(super) fn prefetch_header(&self, bucket: u32) {
        prefetch(self.headers, bucket as usize);
    }

    /// The record of a crowded home, or the rooms of another, and whatever is behind it.
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

/// Builds the image of these pairs in one of zeros. `outside` says whether the empty marker's key stands beside the
/// image already.
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
            // The marker's key is of no part.
            let part = functions.mixed_home(keys).0 >> shift as i32;
            (keys, part | keys.simd_eq(u32x8::splat(EMPTY_KEY)))
        },
    );
    let slices = Slices::new(table, bits, LINE);
    let short = || no_room(len * size_of::<u64>());
    ledger.kernel("horton_deal", len);
    let words_of_table = &mut image[..table];
    let mut dealt = deal(words, words_of_table, slices, len).ok_or_else(short)?;
    let part_of = |&word: &u64| functions.mixed_home(tokens::key(word)).0 >> shift;
    dealt.escapes.sort_unstable_by_key(part_of);
    let escapes = &dealt.escapes[..];
    let mut placed = Placed::default();
    if dealt.counts.iter().sum::<usize>() + escapes.len() < len {
        placed = marked(pairs, outside);
    }

    ledger.kernel("horton_parts", len);
    let mut headers = Memory::zeroed(functions.buckets as usize)?;
    let headers = atomic(headers.words_mut()?);
    let of_slice = |room: &mut Room<S>, number: usize, slice: &mut [u64], count| {
        let begin = escapes.partition_point(|word| (part_of(word) as usize) < number);
        let end = escapes.partition_point(|word| part_of(word) as usize <= number);
        at_best(
            #[inline(always)]
            || {
                let start = (number as u32) << shift;
                room.take(functions, start, slices.dealt(number, slice, count), &escapes[begin..end])?;
                room.fill(functions, number, &headers[start as usize..], slice.as_chunks_mut::<S>().0)
            },
        )
    };
    let workers = threads().min(dealt.counts.len());
    let buckets = (functions.buckets as usize).min(1 << shift);
    let page = (table / (2 * workers)).min(MOST_PAGE);
    let rooms = slices.each(words_of_table, &dealt.counts, workers, || Room::new(buckets, page), of_slice);
    let mut rooms = rooms.ok_or_else(short)?;
    let found = rooms.iter().map(|room| room.placed).fold(Placed::default(), sum);
    if found.unplaced > 0 {
        // What is more than one of a key is not known of overfull homes.
        placed.unplaced = found.unplaced;
        return Ok(placed);
    }
    placed = sum(placed, found);

    let mut blocks = memory::reserved(dealt.counts.len())?;
    blocks.resize_with(dealt.counts.len(), || Block { words: &[], rooms_end: 0 });
    for room in &mut rooms {
        let Room { pages, blocks: found, .. } = room;
        let mut words = Vec::new();
        for page in pages {
            words.push(atomic(page.words_mut()?));
        }
        for &Found { number, page, start, end, rooms_end } in &*found {
            blocks[number] = Block { words: &words[page][start..end], rooms_end };
        }
    }
    let build = Build::<S> { functions, image: atomic(image), headers, blocks: &blocks, shift };
    if placed.copies == 0 {
        ledger.kernel("horton_settle", functions.buckets as usize);
        settle::settle(build)?;
    }
    ledger.kernel("horton_close", build.image.len());
    close::leave(build);
    let mut stashed = Memory::zeroed(functions.stash_buckets as usize)?;
    let stashed = atomic(stashed.words_mut()?);
    placed = sum(placed, close::finish(build, stashed));
    if placed.copies > 0 {
        // No one was led away, so others than copies may have found no place.
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

/// How often the empty marker's key came, and its greatest value; of those, and the one outside the image, one is no
/// copy.
#[cold]
fn marked(pairs: Pairs<'_>, outside: bool) -> Placed {
    let of_chunk = |_, (keys, values): (&[u32], &[u32])| {
        let mut placed = Placed::default();
        for (_, &value) in keys.iter().zip(values).filter(|(key, _)| **key == EMPTY_KEY) {
            placed.copies += 1;
            placed.outside = placed.outside.max(Some(value));
        }
        placed
    };
    let mut placed = fold((pairs.keys, pairs.values), CHUNK, of_chunk, sum);
    placed.copies = (placed.copies + u64::from(outside)).saturating_sub(1);
    placed.least_copy = (placed.copies > 0).then_some(EMPTY_KEY);
    placed
}
