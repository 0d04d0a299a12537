//! The last passes: offers become pairs, and every bucket gets its final form.
//!
//! ```text
//! leave    for each accepted offer:  the entry of its rank = its function, by an atomic or
//!                                    the leaving pair is copied to the slot of the offer
//! finish   type A   its pairs and those of its free slots, sorted
//!          type B   pairs whose entry is STASH, and surplus:  to their stash buckets, by fetch_add
//!                   pairs whose entry is set otherwise:       dropped, because they were copied
//!                   the S - 1 others, sorted, the greatest first; the entries, by tag
//! stash    each bucket sorted
//! ```
//!
//! The offers of a span of free slots are listed, and the lines of their homes prefetched, while those of the previous
//! span are converted to pairs. The image is written once, from its first bucket to its last.

use std::hint::select_unpredictable;
use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::build::{Block, Build, Header};
use super::group::{count_duplicates, has_duplicates};
use super::offer::{NO_OFFER, Offer};
use crate::backend::Placed;
use crate::cpu::CHUNK;
use crate::cpu::block::sum;
use crate::cpu::lanes::at_best;
use crate::cpu::memory::prefetch;
use crate::cpu::network::sort;
use crate::parallel::{each, fold, threads};
use crate::scheme::horton::tokens::{self, EMPTY};

/// The free slots whose offers are in flight together.
const SPAN: usize = 128;

/// Writes the pairs that leave to the slots that accepted their offers.
pub(super) fn leave<const S: usize>(build: Build<'_, S>) {
    let alone = threads().min(build.blocks.len()) == 1;
    each(0..build.blocks.len(), 1, |_, parts| {
        for part in parts {
            let Block { words, free_end } = build.blocks[part];
            let free_slots = &words[S..free_end];
            at_best(
                #[inline(always)]
                || take_in(&build, free_slots, alone),
            );
        }
    });
}

/// Gives all buckets their final form, after all entries are known, and fills the stash. `stashed` counts the pairs of
/// each stash bucket; pairs whose stash bucket is full are unplaced. Counts the duplicates of homes that are not
/// crowded.
pub(super) fn finish<const S: usize>(build: Build<'_, S>, stashed: &[AtomicU64]) -> Placed {
    let of_part = |_, parts: Range<usize>| {
        let mut placed = Placed::default();
        at_best(
            #[inline(always)]
            || {
                for bucket in parts.flat_map(|part| build.buckets_of(part)) {
                    let header = build.header(bucket);
                    if header.is_crowded::<S>() {
                        type_b(&build, bucket, header, stashed, &mut placed);
                    } else {
                        type_a(&build, bucket, header, &mut placed);
                    }
                }
            },
        );
        placed
    };
    fold(0..build.blocks.len(), 1, of_part, sum)
}

/// Writes pairs to the slots of their offers, and sets the entries that lead there; other free slots become empty.
#[inline(always)]
fn take_in<const S: usize>(build: &Build<'_, S>, free_slots: &[AtomicU64], alone: bool) {
    let mut lists = [[0; SPAN + 1]; 2];
    let (mut flying, mut before): (usize, &[AtomicU64]) = (0, &[]);
    for span in free_slots.chunks(SPAN).chain([&[][..]]) {
        let mut len = 0;
        for (at, free_slot) in span.iter().enumerate() {
            let word = free_slot.load(Relaxed);
            lists[0][len] = at as u32;
            len += usize::from(word != NO_OFFER);
            free_slot.store(select_unpredictable(word == NO_OFFER, EMPTY, word), Relaxed);
        }
        for &at in &lists[0][..len] {
            let Offer { home, rank, .. } = Offer::of(span[at as usize].load(Relaxed));
            let record = build.record(home, build.header(home));
            prefetch(record, 0);
            prefetch(record, 1 + rank as usize);
        }
        for &at in &lists[1][..flying] {
            let free_slot = &before[at as usize];
            let offer = Offer::of(free_slot.load(Relaxed));
            let record = build.record(offer.home, build.header(offer.home));
            let code = tokens::with_entry(0, offer.rank, build.functions.bits, offer.function(build.functions.count));
            if alone {
                record[0].store(record[0].load(Relaxed) | code, Relaxed);
            } else {
                record[0].fetch_or(code, Relaxed);
            }
            free_slot.store(record[1 + offer.rank as usize].load(Relaxed), Relaxed);
        }
        lists.swap(0, 1);
        (flying, before) = (len, span);
    }
}

/// Joins the pairs of a Type A bucket with those that it has accepted.
#[inline(always)]
fn type_a<const S: usize>(build: &Build<'_, S>, at: u32, header: Header, placed: &mut Placed) {
    let words = build.bucket(at);
    let keys = header.keys as usize;
    // These are the words after its own pairs. What is read from the words before them is not used.
    let from = Header { start: header.start - header.keys, ..header };
    let Some(free_slots) = build.record(at, from).first_chunk::<S>() else { return };
    let mut pairs: [u64; S] =
        std::array::from_fn(|i| select_unpredictable(i < keys, words[i].load(Relaxed), free_slots[i].load(Relaxed)));
    sort(&mut pairs);
    words.iter().zip(pairs).for_each(|(word, pair)| word.store(pair, Relaxed));
    if has_duplicates(&pairs) {
        count_duplicates(&pairs, placed);
    }
}

/// Finishes a Type B bucket.
#[inline(always)]
fn type_b<const S: usize>(
    build: &Build<'_, S>,
    bucket: u32,
    header: Header,
    stashed: &[AtomicU64],
    placed: &mut Placed,
) {
    // If there are no duplicates, one more pair than remains in the bucket.
    const MOST: usize = 16;
    let (bits, stash_code) = (build.functions.bits, build.functions.stash_code());
    let record = build.record(bucket, header);
    let (by_rank, pairs) = (record[0].load(Relaxed), &record[1..=header.keys as usize]);
    let (leasts, others) = pairs.split_at(header.mask.count_ones() as usize);
    let surplus = (tokens::leavers(header.keys, S as u32) - header.tokens::<S>()) as usize;
    let (mut mask, mut entries, mut stay) = (header.mask, 0, 0);
    let mut kept_pairs = [EMPTY; MOST];
    for (rank, pair) in leasts.iter().enumerate() {
        let (pair, code) = (pair.load(Relaxed), tokens::entry(by_rank, rank as u32, bits));
        entries |= tokens::with_entry(0, mask.trailing_zeros() % u32::BITS, bits, code);
        mask &= mask.wrapping_sub(1);
        if code == stash_code {
            placed.unplaced += u64::from(!to_stash(build, pair, stashed));
        }
        kept_pairs[stay % MOST] = pair;
        stay += usize::from(code == 0);
    }
    let (leave, others) = others.split_at(surplus);
    leave.iter().for_each(|pair| placed.unplaced += u64::from(!to_stash(build, pair.load(Relaxed), stashed)));
    for pair in others {
        kept_pairs[stay % MOST] = pair.load(Relaxed);
        stay += 1;
    }
    // S - 1 remain; the last place is for the entries.
    kept_pairs[S - 1] = EMPTY;
    let Some(kept) = kept_pairs.first_chunk_mut::<S>() else { return };
    sort(kept);
    let words = build.bucket(bucket);
    words.iter().zip(kept[..S - 1].iter().rev()).for_each(|(word, &pair)| word.store(pair, Relaxed));
    words[S - 1].store(entries, Relaxed);
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
            let mut sorted: [u64; S] = std::array::from_fn(|i| words[i].load(Relaxed));
            sort(&mut sorted);
            words.iter().zip(sorted).for_each(|(word, sorted)| word.store(sorted, Relaxed));
        }
    });
}
