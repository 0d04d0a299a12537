//! Every home's keys in order: what `scheme/horton/group.rs` says of one group, for all groups.
//!
//! ```text
//! n <= S:   sort the pairs; count copies; the words behind them are free: no proposal yet
//! n >  S:   tags of all keys, eight at a time; sort by (tag, key); count copies
//!           items = the least of each tag, then the others;  header: the tags instead of where the crowd begins
//!           surplus = the first of the others:  the entries of their tags begin as STASH, all others as 0
//! ```
//!
//! Copies of a key have the same home and the same tag, so they end up side by side.

use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

use wide::u32x8;

use super::build::{Build, Header};
use crate::backend::Placed;
use crate::cpu::CHUNK;
use crate::cpu::block::sum;
use crate::cpu::network::sort;
use crate::parallel::fold;
use crate::scheme::horton::tokens::{self, EMPTY, EMPTY_KEY, GROUP_MAX, NO_PROPOSAL};

/// The most keys of a home that is not overfull.
const MOST: usize = GROUP_MAX as usize;

/// Brings all buckets into the form that `build.rs` shows, and counts copies.
pub(super) fn group<const S: usize>(build: Build<'_, S>) -> Placed {
    let of_chunk = |_, buckets: Range<usize>| {
        let mut placed = Placed::default();
        for bucket in buckets.start as u32..buckets.end as u32 {
            let header = build.header(bucket);
            if header.is_crowded::<S>() {
                crowded(&build, bucket, header, &mut placed);
            } else {
                at_ease(&build, bucket, header, &mut placed);
            }
        }
        placed
    };
    fold(0..build.headers.len(), CHUNK, of_chunk, sum)
}

/// Counts equal keys that stand side by side.
#[inline(always)]
fn count_copies(words: &[u64], placed: &mut Placed) {
    for two in words.windows(2).filter(|two| tokens::key(two[0]) == tokens::key(two[1])) {
        let key = tokens::key(two[0]);
        placed.copies += 1;
        placed.least_copy = Some(placed.least_copy.map_or(key, |least| least.min(key)));
    }
}

/// A home whose keys all stay.
#[inline(always)]
fn at_ease<const S: usize>(build: &Build<'_, S>, bucket: u32, header: Header, placed: &mut Placed) {
    let words = build.bucket(bucket);
    let keys = (header.keys as usize).min(S);
    let mut pairs: [u64; S] = std::array::from_fn(|i| if i < keys { words[i].load(Relaxed) } else { EMPTY });
    sort(&mut pairs);
    // Nearly always none are equal, so that is asked first, of all words alike.
    let equal = |i: usize| tokens::key(pairs[i - 1]) == tokens::key(pairs[i]) && tokens::key(pairs[i]) != EMPTY_KEY;
    if (1..S).fold(false, |any, i| any | equal(i)) {
        count_copies(&pairs[..keys], placed);
    }
    for (i, (word, pair)) in words.iter().zip(pairs).enumerate() {
        word.store(if i < keys { pair } else { NO_PROPOSAL }, Relaxed);
    }
}

/// A home that some keys must leave.
fn crowded<const S: usize>(build: &Build<'_, S>, bucket: u32, header: Header, placed: &mut Placed) {
    let functions = build.functions;
    let words = build.bucket(bucket);
    let (keys, crowd) = (header.keys as usize, header.upper as usize);
    let mut pairs = [EMPTY; MOST];
    pairs.iter_mut().zip(words).for_each(|(pair, word)| *pair = word.load(Relaxed));
    let beyond = build.crowd[crowd..].iter().take(keys - S);
    pairs[S..].iter_mut().zip(beyond).for_each(|(pair, word)| *pair = word.load(Relaxed));

    // [tag][key][number]: what is sorted says where the pair stands.
    let mut order = [u64::MAX; MOST];
    let lanes = order.as_chunks_mut::<8>().0.iter_mut().zip(pairs.as_chunks::<8>().0);
    for (lane, (order, pairs)) in lanes.enumerate().take(keys.div_ceil(8)) {
        let tags = functions.mixed_home(u32x8::new(pairs.map(tokens::key))).1.to_array();
        for (i, order) in order.iter_mut().enumerate() {
            let number = 8 * lane + i;
            let mine = u64::from(tags[i]) << 38 | u64::from(tokens::key(pairs[i])) << 6 | number as u64;
            *order = if number < keys { mine } else { u64::MAX };
        }
    }
    match order.first_chunk_mut::<16>() {
        Some(few) if keys <= 16 => sort(few),
        _ => order[..keys].sort_unstable(),
    }

    let (mut leasts, mut others) = ([EMPTY; MOST], [EMPTY; MOST]);
    let (mut tags, mut rest, mut mask, mut copies) = (0, 0, 0u32, false);
    let mut other_tags = [0; MOST];
    let mut before = u64::MAX;
    for &mine in &order[..keys.min(MOST)] {
        let (tag, pair) = ((mine >> 38) as u32, pairs[mine as usize % MOST]);
        let is_least = mine >> 38 != before >> 38;
        copies |= mine >> 6 == before >> 6;
        before = mine;
        mask |= 1 << tag;
        leasts[tags % MOST] = pair;
        (others[rest % MOST], other_tags[rest % MOST]) = (pair, tag);
        tags += usize::from(is_least);
        rest += usize::from(!is_least);
    }
    if copies {
        let sorted: Vec<u64> = order[..keys].iter().map(|&mine| pairs[mine as usize % MOST]).collect();
        count_copies(&sorted, placed);
    }

    let header = Header { upper: mask, ..header };
    let surplus = tokens::leavers(header.keys, S as u32) - header.tokens::<S>();
    let code = functions.stash_code();
    let of_surplus = other_tags.iter().take(surplus as usize);
    let entries = of_surplus.fold(0, |array, &tag| tokens::with_entry(array, tag, functions.bits, code));

    build.headers[bucket as usize].store(header.word(), Relaxed);
    words[0].store(crowd as u64, Relaxed);
    words[S - 1].store(entries, Relaxed);
    for at in 0..keys.min(MOST) {
        let item = if at < tags { leasts[at] } else { others[(at - tags) % MOST] };
        let word = if at < S - 2 { &words[1 + at] } else { &build.crowd[crowd + at - (S - 2)] };
        word.store(item, Relaxed);
    }
}
