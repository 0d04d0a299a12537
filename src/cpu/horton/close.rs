//! The last passes: proposals become pairs, and every bucket takes its final form.
//!
//! ```text
//! type A   for each proposal kept:  the entry of its home and tag = its function, by an atomic or
//!                                   the leaver's pair is copied to where the proposal stood
//!          then the bucket is sorted
//! type B   items whose entry is STASH, and surplus:  to their stash buckets, by fetch_add
//!          items whose entry is set otherwise:       gone, they have been copied
//!          the S - 1 others, sorted, the greatest first; the entries
//! stash    each bucket sorted
//! ```
//!
//! The proposals of a span of buckets are listed, and the lines of their homes asked for, while those of the span
//! before are turned into pairs.

use std::ops::{Add, Range};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::build::Build;
use crate::cpu::CHUNK;
use crate::cpu::memory::prefetch;
use crate::cpu::network::sort;
use crate::error::Result;
use crate::memory;
use crate::parallel::{each, fold};
use crate::scheme::horton::tokens::{self, EMPTY, GROUP_MAX, NO_PROPOSAL};

/// Buckets whose proposals are on their way together: about a block of them.
const SPAN: usize = 64;

/// A proposal that was kept, and the word of the image where it stands.
struct Kept {
    at: usize,
    proposal: u64,
}

/// Finishes the Type A buckets, and writes their entries to the homes of those they took in.
pub(super) fn type_a<const S: usize>(build: Build<'_, S>) -> Result<()> {
    let of_chunk = |buckets: Range<usize>| {
        // A bucket has no more proposals than words.
        let (mut listed, mut before) = (memory::reserved(SPAN * S)?, memory::reserved(SPAN * S)?);
        let mut finished = buckets.start;
        for start in buckets.clone().step_by(SPAN).chain([buckets.end]) {
            let span = start..buckets.end.min(start + SPAN);
            span.clone().for_each(|bucket| list(&build, bucket as u32, &mut listed));
            before.drain(..).for_each(|kept| take_in(&build, kept));
            (finished..start).for_each(|bucket| finish(&build, bucket as u32));
            finished = start;
            std::mem::swap(&mut listed, &mut before);
        }
        Ok(())
    };
    fold(0..build.headers.len(), CHUNK, |_, buckets| of_chunk(buckets).err(), Option::or).map_or(Ok(()), Err)
}

/// Lists the proposals in a bucket, and asks for their homes.
#[inline(always)]
fn list<const S: usize>(build: &Build<'_, S>, bucket: u32, listed: &mut Vec<Kept>) {
    let words = build.bucket(bucket);
    for (at, word) in words.iter().enumerate().skip(build.header(bucket).keys as usize) {
        let proposal = word.load(Relaxed);
        if proposal == NO_PROPOSAL {
            word.store(EMPTY, Relaxed);
            continue;
        }
        let home = tokens::unpacked(proposal).1;
        prefetch(build.headers, home as usize);
        for line in (0..S).step_by(8) {
            prefetch(build.image, home as usize * S + line);
        }
        listed.push(Kept { at: bucket as usize * S + at, proposal });
    }
}

/// Puts a pair in the place of its proposal, and sets the entry that leads there.
#[inline(always)]
fn take_in<const S: usize>(build: &Build<'_, S>, kept: Kept) {
    let (age, home, token) = tokens::unpacked(kept.proposal);
    let (bits, header) = (build.functions.bits, build.header(home));
    let count = header.tokens::<S>();
    let Some((tag, function)) = tokens::step(header.upper, count, token, age, build.functions.count) else { return };
    build.entries(home).fetch_or(tokens::with_entry(0, tag, bits, function), Relaxed);
    let least = (header.upper & ((1 << tag) - 1)).count_ones() as usize;
    let pair = build.item(build.bucket(home), least).load(Relaxed);
    build.image[kept.at].store(pair, Relaxed);
}

/// Sorts a Type A bucket.
#[inline(always)]
fn finish<const S: usize>(build: &Build<'_, S>, bucket: u32) {
    if !build.header(bucket).is_crowded::<S>() {
        sort_words(build.bucket(bucket));
    }
}

#[inline(always)]
fn sort_words<const S: usize>(words: &[AtomicU64; S]) {
    let mut sorted: [u64; S] = std::array::from_fn(|i| words[i].load(Relaxed));
    sort(&mut sorted);
    words.iter().zip(sorted).for_each(|(word, sorted)| word.store(sorted, Relaxed));
}

/// Finishes the Type B buckets, now that all entries are known, and fills the stash. `stashed` counts the pairs of each
/// stash bucket. Returns how many of them found theirs full.
pub(super) fn type_b<const S: usize>(build: Build<'_, S>, stashed: &[AtomicU64]) -> u64 {
    let of_chunk = |_, buckets: Range<usize>| {
        let bucket_of = |bucket: usize| separate(&build, bucket as u32, stashed);
        buckets.map(bucket_of).sum::<u64>()
    };
    fold(0..build.headers.len(), CHUNK, of_chunk, u64::add)
}

/// Finishes one bucket, if it is Type B.
#[inline(always)]
fn separate<const S: usize>(build: &Build<'_, S>, bucket: u32, stashed: &[AtomicU64]) -> u64 {
    const MOST: usize = GROUP_MAX as usize;
    let header = build.header(bucket);
    if !header.is_crowded::<S>() {
        return 0;
    }
    let (bits, stash_code) = (build.functions.bits, build.functions.stash_code());
    let words = build.bucket(bucket);
    let entries = words[S - 1].load(Relaxed);
    let leasts = header.upper.count_ones();
    let surplus = tokens::leavers(header.keys, S as u32) - header.tokens::<S>();
    let (mut mask, mut stay, mut unplaced) = (header.upper, 0, 0);
    let mut staying = [EMPTY; MOST];
    for at in 0..header.keys {
        let pair = build.item(words, at as usize).load(Relaxed);
        let code = tokens::entry(entries, mask.trailing_zeros() % u32::BITS, bits);
        mask &= mask.wrapping_sub(1);
        let is_surplus = (leasts..leasts + surplus).contains(&at);
        if (at < leasts && code == stash_code) || is_surplus {
            unplaced += u64::from(!to_stash(build, pair, stashed));
        }
        staying[stay % MOST] = pair;
        stay += usize::from(if at < leasts { code == 0 } else { !is_surplus });
    }
    staying[stay.min(MOST)..].fill(EMPTY);
    let Some(kept) = staying.first_chunk_mut::<S>() else { return unplaced };
    sort(kept);
    // The last of them is a leftover's place: S - 1 stay.
    words.iter().zip(kept[..S - 1].iter().rev()).for_each(|(word, &pair)| word.store(pair, Relaxed));
    unplaced
}

/// Puts a pair into its stash bucket; false if that is full.
fn to_stash<const S: usize>(build: &Build<'_, S>, pair: u64, stashed: &[AtomicU64]) -> bool {
    let at = build.functions.stash(tokens::key(pair));
    let rank = stashed[at as usize].fetch_add(1, Relaxed);
    let slot = build.bucket(build.functions.buckets + at).get(rank as usize);
    if let Some(slot) = slot {
        slot.store(pair, Relaxed);
    }
    slot.is_some()
}

/// Finishes the stash.
pub(super) fn stash<const S: usize>(build: Build<'_, S>, stashed: &[AtomicU64]) {
    each((0..stashed.len(), stashed), CHUNK, |_, (places, counts)| {
        for (at, count) in places.zip(counts) {
            let words = build.bucket(build.functions.buckets + at as u32);
            words.iter().skip(count.load(Relaxed) as usize).for_each(|word| word.store(EMPTY, Relaxed));
            sort_words(words);
        }
    });
}
