//! The canonical build on all threads: the passes of `scheme/horton/canonical.rs`, each one parallel, with a join
//! between.
//!
//! ```text
//! deal     count the keys of every home; give crowded homes room beside the image; every pair to its home
//! group    sort every home's keys; count copies; a crowded one: its tags, its tokens, who leaves for the stash
//! settle   tokens propose until all are kept or exhausted
//! close    the proposals kept become pairs; Type A buckets, then Type B buckets and the stash take their final form
//! ```
//!
//! While it is built, a bucket of n keys stands like this:
//!
//! ```text
//! header    [mask of its tags, or where its crowd begins : 32][n : 32]                  a word beside the image
//! n <= S    [pair 0] .. [pair n-1] [proposal or 0] ..                                   in the image
//! n >  S    [where its crowd begins] [item 0] .. [item S-3] [remap entries]             in the image
//!           [item S-2] .. [item n-1]                                                    in `crowd`
//! items     the least of each tag, by tag; then all others, by tag and key
//! ```
//!
//! In that order of items token j's tag number p has its leaver at j + p T, surplus keys begin where the leasts end,
//! and no pass after `group` needs to hash or sort again to tell who leaves.
//!
//! Memory beside the image: a byte a pair, freed after dealing; 8 bytes a bucket; 8 bytes for each key of a crowded
//! home beyond S - 2; 8 bytes a stash bucket. At load 0.9 with 8 slots that is 1 + 1.1 + 1.5 bytes a pair. It is all
//! asked for before the image is touched.
//!
//! Why relaxed atomics do everywhere: what one pass writes and another reads is ordered by the join between them.
//! Within a pass a word is either written by one thread alone, or it is a count, a set of bits or a proposal slot,
//! whose end depends on no order, and on the strength of which no other memory is read (`settle.rs` says it of the
//! slots).
//!
//! What it is not: of any use when keys come more than once. Then it ends after `group`, with their count.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::{close, deal, group, settle};
use crate::backend::Placed;
use crate::cpu::block::{Pairs, sum};
use crate::cpu::memory::{Memory, atomic};
use crate::error::Result;
use crate::scheme::horton::Functions;
use crate::scheme::horton::tokens::{self, EMPTY_KEY};

/// An image under way.
pub(super) struct Build<'a, const S: usize, A = AtomicU64> {
    pub(super) functions: &'a Functions,
    /// The table's words, then the stash's.
    pub(super) image: &'a [A],
    /// A word for each bucket of the table.
    pub(super) headers: &'a [AtomicU64],
    /// Room for the keys of crowded homes.
    pub(super) crowd: &'a [AtomicU64],
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
    /// The tags of a crowded home, after `group`; before it, where its crowd begins.
    pub(super) upper: u32,
}

impl Header {
    #[inline(always)]
    pub(super) fn of(word: u64) -> Self {
        Header { keys: word as u32, upper: (word >> 32) as u32 }
    }

    #[inline(always)]
    pub(super) fn word(self) -> u64 {
        u64::from(self.upper) << 32 | u64::from(self.keys)
    }

    /// Whether its bucket is Type B.
    #[inline(always)]
    pub(super) fn is_crowded<const S: usize>(self) -> bool {
        self.keys > S as u32
    }

    /// The tokens of a crowded home.
    #[inline(always)]
    pub(super) fn tokens<const S: usize>(self) -> u32 {
        tokens::token_count(self.keys, S as u32, self.upper)
    }
}

/// Words in `crowd` that a home of so many keys needs.
#[inline(always)]
pub(super) fn crowd_of<const S: usize>(keys: u32) -> usize {
    if keys > S as u32 { keys as usize - (S - 2) } else { 0 }
}

impl<'a, const S: usize, A> Build<'a, S, A> {
    #[inline(always)]
    pub(super) fn header(&self, bucket: u32) -> Header {
        Header::of(self.headers[bucket as usize].load(Relaxed))
    }

    /// The words of a bucket.
    #[inline(always)]
    pub(super) fn bucket(&self, bucket: u32) -> &'a [A; S] {
        &self.image.as_chunks::<S>().0[bucket as usize]
    }

    /// The remap entries of a crowded home.
    #[inline(always)]
    pub(super) fn entries(&self, home: u32) -> &'a A {
        &self.bucket(home)[S - 1]
    }
}

impl<'a, const S: usize> Build<'a, S> {
    /// Where item `at` of a crowded home stands.
    #[inline(always)]
    pub(super) fn item(&self, bucket: &'a [AtomicU64; S], at: usize) -> &'a AtomicU64 {
        if at < S - 2 { &bucket[1 + at] } else { &self.crowd[bucket[0].load(Relaxed) as usize + at - (S - 2)] }
    }
}

/// Builds the image of these pairs, whatever it held before. `outside` says whether the empty marker's key stands
/// beside the image already.
pub(super) fn place<const S: usize>(
    functions: &Functions,
    outside: bool,
    image: &mut [u64],
    pairs: Pairs<'_>,
) -> Result<Placed> {
    let mut headers = Memory::zeroed(functions.buckets as usize)?;
    let headers = atomic(headers.words_mut()?);
    // Four ranks a word.
    let mut ranks = Memory::<u32>::zeroed(pairs.keys.len().div_ceil(4))?;
    let ranks_of = bytemuck::cast_slice_mut(ranks.words_mut()?);
    let mut placed = deal::count(functions, headers, pairs, ranks_of);
    count_marked(&mut placed, outside);
    let (room, overfull) = deal::give_room::<S>(headers)?;
    placed.unplaced += overfull;
    if placed.unplaced > 0 {
        return Ok(placed);
    }
    let mut crowd = Memory::zeroed(room)?;
    let mut stashed = Memory::zeroed(functions.stash_buckets as usize)?;
    let (crowd, stashed) = (atomic(crowd.words_mut()?), atomic(stashed.words_mut()?));
    let build = Build::<S> { functions, image: atomic(image), headers, crowd };
    deal::deal(build, pairs, bytemuck::cast_slice(ranks.words()));
    drop(ranks);
    placed = sum(placed, group::group(build));
    if placed.copies > 0 {
        return Ok(placed);
    }
    settle::settle(build)?;
    close::type_a(build)?;
    placed.unplaced += close::type_b(build, stashed);
    close::stash(build, stashed);
    Ok(placed)
}

/// `copies` holds how often the empty marker's key came; of these, and the one beside the image, one is no copy.
fn count_marked(placed: &mut Placed, outside: bool) {
    placed.copies = (placed.copies + u64::from(outside)).saturating_sub(1);
    if placed.outside.is_none() {
        placed.copies = 0;
    }
    placed.least_copy = (placed.copies > 0).then_some(EMPTY_KEY);
}
