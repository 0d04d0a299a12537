//! Moves every pair to the range of its bucket: the first three passes of the poster.
//!
//! ```text
//! count     rank of a pair = fetch_add(the count of its bucket)          kept in 16 bits
//! scan      turns counts into the beginnings of the ranges; counts the pairs that exceed the capacity of a bucket
//! shuffle   pair to word  start of its bucket + rank
//! ```
//!
//! Keys are hashed twice, because that costs less than storing the hashes. Counting first detects an overfull bucket
//! before any pair is moved. A million duplicates of one key cost only a million additions to one count.
//!
//! The order of the pairs of a bucket depends on the schedule; the resulting bucket does not (`accept.rs`).

use std::array;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use wide::u32x8;

use crate::backend::Placed;
use crate::cpu::CHUNK;
use crate::cpu::ahead::each_place;
use crate::cpu::block::{Pairs, sum};
use crate::cpu::memory::prefetch;
use crate::error::Result;
use crate::parallel::{Per, collect, each, fold};
use crate::scheme::Plan;
use crate::scheme::fks::classic::{EMPTY_KEY, entry};
use crate::scheme::fks::{BUCKET_PAIRS, FksFamily, FksPlan, Functions};

/// The rank of a pair that has no place in the image.
const NO_RANK: u16 = u16::MAX;

/// The buckets of eight keys.
#[inline(always)]
pub(super) fn buckets(functions: &Functions, keys: u32x8) -> u32x8 {
    if functions.family == FksFamily::Mixer {
        return functions.mixed_bucket(keys);
    }
    let each = keys.to_array();
    u32x8::new(array::from_fn(|i| functions.bucket(each[i])))
}

/// Counts the keys of each bucket, and assigns each pair its rank there. The empty marker's key of a classic table has
/// no rank: the result contains its greatest value, and the number of its duplicates.
pub(super) fn count(
    functions: &Functions,
    plan: &FksPlan,
    counts: &[AtomicU64],
    pairs: Pairs<'_>,
    ranks: &mut [u16],
) -> Placed {
    let has_marker = plan.outside_key().is_some();
    let of_chunk = |_, (keys, values, ranks): (&[u32], &[u32], &mut [u16])| {
        let mut marked = Placed::default();
        let visit = |i: usize, bucket: u32| {
            if has_marker && keys[i] == EMPTY_KEY {
                marked.duplicates += 1;
                marked.outside = marked.outside.max(Some(values[i]));
                ranks[i] = NO_RANK;
                return;
            }
            let before = counts[bucket as usize].fetch_add(1, Relaxed);
            ranks[i] = before.min(BUCKET_PAIRS.into()) as u16;
        };
        let ahead = |_, bucket: u32| prefetch(counts, bucket as usize);
        each_place(keys, |keys| buckets(functions, keys), ahead, visit);
        marked
    };
    let mut marked = fold((pairs.keys, pairs.values, ranks), CHUNK, of_chunk, sum);
    let occurrences = marked.duplicates;
    marked.duplicates = (occurrences + u64::from(plan.outside().is_some())).saturating_sub(1).min(occurrences);
    marked.least_duplicate = (marked.duplicates > 0).then_some(EMPTY_KEY);
    marked
}

/// Turns counts into the beginnings of ranges, and returns how many pairs exceed the capacity of their buckets. If
/// there are any, the counts are unchanged.
pub(super) fn scan(counts: &mut [u64]) -> Result<u64> {
    let beyond = |count: &u64| count.saturating_sub(BUCKET_PAIRS.into());
    let of_chunk = |_, chunk: &[u64]| (chunk.iter().sum::<u64>(), chunk.iter().map(beyond).sum::<u64>());
    let mut chunks = collect(&*counts, CHUNK, of_chunk)?;
    let unplaced = chunks.iter().map(|(_, beyond)| beyond).sum();
    if unplaced > 0 {
        return Ok(unplaced);
    }
    let mut end = 0;
    for (pairs, _) in &mut chunks {
        (*pairs, end) = (end, end + *pairs);
    }
    each((counts, Per(CHUNK, &chunks[..])), CHUNK, |_, (chunk, Per(_, of_chunk))| {
        let mut start = of_chunk[0].0;
        for count in chunk {
            start += std::mem::replace(count, start);
        }
    });
    Ok(0)
}

/// Stores every pair in its bucket's range.
pub(super) fn shuffle(functions: &Functions, starts: &[u64], pairs: Pairs<'_>, ranks: &[u16], to: &[AtomicU64]) {
    each((pairs.keys, pairs.values, ranks), CHUNK, |_, (keys, values, ranks)| {
        let place = |i: usize, bucket: u32| starts[bucket as usize] as usize + usize::from(ranks[i]);
        let visit = |i: usize, bucket: u32| {
            if ranks[i] != NO_RANK {
                to[place(i, bucket)].store(entry(keys[i], values[i]), Relaxed);
            }
        };
        let ahead = |i: usize, bucket: u32| prefetch(to, place(i, bucket));
        each_place(keys, |keys| buckets(functions, keys), ahead, visit);
    });
}
