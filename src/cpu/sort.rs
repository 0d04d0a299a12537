//! A stable radix sort of pairs by key, on all threads.
//!
//! A pair is N words of 64 bits: one word `[key][value]` if both have 32 bits, otherwise one word each.
//!
//! ```text
//! spread(from, to):  digit = the top bits in which keys differ, enough for buckets of about 2^14 words
//!                    count the digits of each chunk;  prefix sums over (digit, chunk) are the positions;  scatter
//!                    settle every bucket
//! settle(bucket):    fits in a core's cache:   one thread sorts it by the top bits in which keys differ, up to 22, least
//!                                              digit first, and then by insertion; if too many words would have to
//!                                              move, it is sorted again by all bits
//!                    otherwise:                it has crowded keys; it is copied, and the copy is spread over it
//! ```
//!
//! Only one pass goes through memory. A sort by the least digit throughout has three or four such passes, and was half
//! as fast (2^24 pairs, two threads). Digits are taken from the bits that differ, so keys below 2^24, or a million
//! equal keys, need no superfluous passes. Each pass is stable, so the sort is stable, and its result does not depend
//! on chunks or threads.
//!
//! Memory, in addition to the result: scratch space per thread, and a copy of each bucket with crowded keys until it
//! has been partitioned. The buckets within it are sorted after that, so all copies together never contain a word
//! twice: at most 8 bytes per pair.
//!
//! The scatter uses atomic stores because each place is written once, but in scattered order, which safe Rust cannot
//! express for a slice that threads share. A relaxed store compiles to a plain one. The alternative, splitting the
//! slice into the ranges of each chunk and digit, was a fifth slower.

use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

use bytemuck::cast_slice;

use super::CHUNK;
use super::block::Pairs;
use super::memory::{Memory, atomic};
use crate::backend::Word;
use crate::error::Result;
use crate::memory;
use crate::parallel::{any, each, fold, fold_with, threads};
use crate::scheme::sorted::search::word;

/// The base-2 logarithm of the approximate words of a bucket: with a thread's scratch space, a quarter of an L2 cache.
const BUCKET_BITS: u32 = 14;
/// The widest digit of a spread: more buckets than lines of an L1 cache cost more than they save.
const SPREAD_BITS: u32 = 10;
/// The most words that one thread sorts: with its scratch space, they fit in an L2 cache and its share of the L3 cache.
const SETTLED: usize = 1 << 17;
/// Values of a digit within a bucket: two passes for the remaining bits after a spread of 2^24 pairs.
const COUNTS: usize = 1 << 11;
/// Values of a digit within a small bucket, for which clearing and summing [`COUNTS`] counts would take too long.
const FEW_COUNTS: usize = 1 << 8;
const FEW: usize = 1 << 11;
/// Up to this many words are sorted by insertion.
const INSERTED: usize = 32;
/// The most passes for keys of 32 and of 64 bits.
const PASSES: usize = 4;
const WIDE_PASSES: usize = 8;

/// The key of a pair.
#[inline(always)]
fn key<const N: usize>(pair: [u64; N]) -> u64 {
    if N == 1 { pair[0] >> 32 } else { pair[0] }
}

/// A source of pairs: two columns, or pairs.
pub(super) trait Source<const N: usize>: Sync {
    fn len(&self) -> usize;
    fn key(&self, i: usize) -> u64;
    fn pair(&self, i: usize) -> [u64; N];
}

impl Source<1> for Pairs<'_> {
    #[inline(always)]
    fn len(&self) -> usize {
        self.keys.len()
    }
    #[inline(always)]
    fn key(&self, i: usize) -> u64 {
        self.keys[i].into()
    }
    #[inline(always)]
    fn pair(&self, i: usize) -> [u64; 1] {
        [word(self.keys[i], self.values[i])]
    }
}

/// Columns at least one of which has 64 bits.
struct Wide<'a, K, V> {
    keys: &'a [K],
    values: &'a [V],
}

impl<K: Word, V: Word> Source<2> for Wide<'_, K, V> {
    #[inline(always)]
    fn len(&self) -> usize {
        self.keys.len()
    }
    #[inline(always)]
    fn key(&self, i: usize) -> u64 {
        self.keys[i].into()
    }
    #[inline(always)]
    fn pair(&self, i: usize) -> [u64; 2] {
        [self.keys[i].into(), self.values[i].into()]
    }
}

impl<const N: usize> Source<N> for [[u64; N]] {
    #[inline(always)]
    fn len(&self) -> usize {
        self.len()
    }
    #[inline(always)]
    fn key(&self, i: usize) -> u64 {
        key(self[i])
    }
    #[inline(always)]
    fn pair(&self, i: usize) -> [u64; N] {
        self[i]
    }
}

/// Sorts pairs by key in ascending order, stably. `to` has the same length.
pub(super) fn sort_words<const N: usize, S: Source<N> + ?Sized>(from: &S, to: &mut [[u64; N]]) -> Result<()> {
    if is_ascending(from) {
        each((0..from.len(), to), CHUNK, |_, (places, to)| {
            places.zip(to).for_each(|(i, to)| *to = from.pair(i));
        });
        return Ok(());
    }
    if from.len() > 1 << BUCKET_BITS {
        return spread(from, to);
    }
    to.iter_mut().enumerate().for_each(|(i, to)| *to = from.pair(i));
    settle(to, &mut Vec::new())
}

/// [`sort_words`], as columns.
pub(super) fn sort_pairs<K: Word, V: Word>(keys: &[K], values: &[V]) -> Result<(Memory<K>, Memory<V>)> {
    let (mut to_keys, mut to_values) = (Memory::zeroed(keys.len())?, Memory::zeroed(keys.len())?);
    sort_into(keys, values, (to_keys.words_mut()?, to_values.words_mut()?))?;
    Ok((to_keys, to_values))
}

/// [`sort_words`], from columns to columns of the same length.
pub(super) fn sort_into<K: Word, V: Word>(keys: &[K], values: &[V], to: (&mut [K], &mut [V])) -> Result<()> {
    if K::BITS == u32::BITS && V::BITS == u32::BITS {
        let pairs = Pairs { keys: cast_slice(keys), values: cast_slice(values) };
        return sorted_columns(&pairs, to, |[word]| (K::low(word >> 32), V::low(word)));
    }
    sorted_columns(&Wide { keys, values }, to, |[key, value]| (K::low(key), V::low(value)))
}

fn sorted_columns<const N: usize, K: Word, V: Word>(
    pairs: &impl Source<N>,
    (keys, values): (&mut [K], &mut [V]),
    split: impl Fn([u64; N]) -> (K, V) + Sync,
) -> Result<()> {
    let mut words = Memory::zeroed(N * pairs.len())?;
    sort_words(pairs, words.words_mut()?.as_chunks_mut().0)?;
    each((words.words().as_chunks().0, keys, values), CHUNK, |_, (pairs, keys, values)| {
        for ((&pair, to_key), to_value) in pairs.iter().zip(keys).zip(values) {
            (*to_key, *to_value) = split(pair);
        }
    });
    Ok(())
}

/// Whether the keys are sorted already. Stops at the first that is not.
fn is_ascending<const N: usize, S: Source<N> + ?Sized>(from: &S) -> bool {
    !any(1..from.len().max(1), CHUNK, |_, mut pairs| pairs.any(|i| from.key(i - 1) > from.key(i)))
}

/// The bits in which keys differ.
fn differing<const N: usize, S: Source<N> + ?Sized>(from: &S) -> u64 {
    // The bits that are one in some key, and the bits that are zero in some key.
    let of_chunk =
        |_, range: Range<usize>| range.fold((0, 0), |(ones, zeros), i| (ones | from.key(i), zeros | !from.key(i)));
    let (ones, zeros) = fold(0..from.len(), CHUNK, of_chunk, |a, b| (a.0 | b.0, a.1 | b.1));
    ones & zeros
}

/// Partitions pairs into buckets by the top bits in which they differ, on all threads, and sorts each bucket.
fn spread<const N: usize, S: Source<N> + ?Sized>(from: &S, to: &mut [[u64; N]]) -> Result<()> {
    let sizes = partition(from, to, differing(from))?;
    settle_each(to, sizes)
}

/// Partitions pairs into buckets by the top bits in which they differ. Returns the size of each bucket.
fn partition<const N: usize, S: Source<N> + ?Sized>(
    from: &S,
    to: &mut [[u64; N]],
    differing: u64,
) -> Result<Vec<usize>> {
    let width = u64::BITS - differing.leading_zeros();
    let bits = from.len().max(1).ilog2().saturating_sub(BUCKET_BITS).clamp(1, SPREAD_BITS).min(width);
    scatter(from, to, width - bits, bits)
}

/// Sorts buckets of these sizes.
fn settle_each<const N: usize>(words: &mut [[u64; N]], sizes: Vec<usize>) -> Result<()> {
    let mut rest = words;
    let mut buckets = memory::reserved(sizes.len())?;
    buckets.extend(sizes.into_iter().map(|size| rest.split_off_mut(..size).unwrap_or_default()));
    let settle_one = |scratch: &mut Vec<[u64; N]>, _, bucket: &mut [&mut [[u64; N]]]| settle(bucket[0], scratch).err();
    fold_with(&mut buckets[..], 1, Vec::new, settle_one, Option::or).flatten().map_or(Ok(()), Err)
}

/// Moves every pair to the bucket of its digit, the `bits` bits from `shift` on. Returns the size of each bucket.
fn scatter<const N: usize, S: Source<N> + ?Sized>(
    from: &S,
    to: &mut [[u64; N]],
    shift: u32,
    bits: u32,
) -> Result<Vec<usize>> {
    let len = from.len();
    let mask = (1usize << bits) - 1;
    let digit = |i: usize| (from.key(i) >> shift) as usize & mask;
    let chunk = len.div_ceil(4 * threads()).max(CHUNK);
    let range = |number: usize| number * chunk..len.min((number + 1) * chunk);
    // One row per chunk.
    let mut places = memory::zeroed::<usize>(len.div_ceil(chunk) * (mask + 1))?;
    each(&mut places[..], mask + 1, |number, counts| {
        range(number).for_each(|i| counts[digit(i)] += 1);
    });
    let mut sizes = memory::zeroed(mask + 1)?;
    let mut before = 0;
    for (digit, size) in sizes.iter_mut().enumerate() {
        for counts in places.chunks_mut(mask + 1) {
            let count = std::mem::replace(&mut counts[digit], before);
            before += count;
            *size += count;
        }
    }
    let to = atomic(to.as_flattened_mut());
    each(&mut places[..], mask + 1, |number, places| {
        for i in range(number) {
            let place = &mut places[digit(i)];
            for (cell, word) in to[N * *place..][..N].iter().zip(from.pair(i)) {
                cell.store(word, Relaxed);
            }
            *place += 1;
        }
    });
    Ok(sizes)
}

/// Sorts the pairs of one bucket by key.
fn settle<const N: usize>(words: &mut [[u64; N]], scratch: &mut Vec<[u64; N]>) -> Result<()> {
    if words.len() > SETTLED {
        let differing = differing(words);
        if differing == 0 {
            return Ok(());
        }
        let copy = Memory::of(words.as_flattened())?;
        let sizes = partition(copy.words().as_chunks().0, words, differing)?;
        drop(copy);
        return settle_each(words, sizes);
    }
    if words.len() <= INSERTED {
        insert_each(words, usize::MAX);
        return Ok(());
    }
    if scratch.len() < words.len() {
        scratch.try_reserve(words.len() - scratch.len()).map_err(|_| memory::out_of_memory::<[u64; N]>(words.len()))?;
        scratch.resize(words.len(), [0; N]);
    }
    match (N, words.len() <= FEW) {
        (1, true) => sort_in_cache::<N, FEW_COUNTS, PASSES>(words, scratch),
        (1, false) => sort_in_cache::<N, COUNTS, PASSES>(words, scratch),
        (_, true) => sort_in_cache::<N, FEW_COUNTS, WIDE_PASSES>(words, scratch),
        (_, false) => sort_in_cache::<N, COUNTS, WIDE_PASSES>(words, scratch),
    }
    Ok(())
}

/// Insertion sort that stops after about `most` moves. Returns whether all words are sorted. If not, words with equal
/// keys are still in their order.
fn insert_each<const N: usize>(words: &mut [[u64; N]], most: usize) -> bool {
    let mut left = most;
    for sorted in 1..words.len() {
        let mine = words[sorted];
        let mut at = sorted;
        while at > 0 && key(words[at - 1]) > key(mine) {
            words[at] = words[at - 1];
            at -= 1;
        }
        words[at] = mine;
        left = match left.checked_sub(sorted - at) {
            Some(left) => left,
            None => return false,
        };
    }
    true
}

/// Sorts on one thread by the bits in which keys differ, with digits of at most `COUNTS` values. The scratch space is
/// at least as long as `words`.
fn sort_in_cache<const N: usize, const COUNTS: usize, const PASSES: usize>(
    words: &mut [[u64; N]],
    scratch: &mut [[u64; N]],
) {
    let (or, and) = words.iter().fold((0, u64::MAX), |(or, and), &pair| (or | key(pair), and & key(pair)));
    let differing = or & !and;
    if differing == 0 {
        return;
    }
    let first = differing.trailing_zeros();
    let width = u64::BITS - differing.leading_zeros() - first;
    let of_two = 2 * COUNTS.ilog2();
    if width > of_two {
        sort_by_bits::<N, COUNTS, 2>(words, scratch, first + width - of_two, of_two);
        if insert_each(words, words.len()) {
            return;
        }
    }
    sort_by_bits::<N, COUNTS, PASSES>(words, scratch, first, width);
}

/// Sorts by `width` bits of the keys from bit `first` on, least digit first. The digits have equal widths.
fn sort_by_bits<const N: usize, const COUNTS: usize, const PASSES: usize>(
    words: &mut [[u64; N]],
    scratch: &mut [[u64; N]],
    first: u32,
    width: u32,
) {
    let passes = width.div_ceil(COUNTS.ilog2());
    let bits = width.div_ceil(passes);
    let mask = ((1 << bits) - 1) & (COUNTS - 1);
    let digit = |pair: [u64; N], pass: usize| (key(pair) >> (first + pass as u32 * bits)) as usize & mask;
    // Counts all digits in one pass: the counts do not depend on the order of the words.
    let mut tables = [[0u32; COUNTS]; PASSES];
    let tables = &mut tables[..passes as usize];
    for &word in words.iter() {
        for (pass, counts) in tables.iter_mut().enumerate() {
            counts[digit(word, pass)] += 1;
        }
    }
    let len = words.len();
    let (mut from, mut to) = (words, &mut scratch[..len]);
    for (pass, places) in tables.iter_mut().enumerate() {
        let mut before = 0;
        for place in places.iter_mut() {
            before += std::mem::replace(place, before);
        }
        for &word in from.iter() {
            let place = &mut places[digit(word, pass)];
            to[*place as usize] = word;
            *place += 1;
        }
        (from, to) = (to, from);
    }
    if passes % 2 == 1 {
        to.copy_from_slice(from);
    }
}
