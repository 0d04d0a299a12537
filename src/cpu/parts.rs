//! Partitions the pairs of a batch by the parts of a new table, so that each part can be placed in a core's cache.
//!
//! ```text
//! count    the pairs of each chunk of the input in each part; prefix sums over the chunks give the position in the
//!          slice of a part where the share of a chunk begins       (one thread has one chunk, and does not count)
//! split    writes each pair to the line of its part in a buffer; a full line is copied to the slice
//! ```
//!
//! A pair is moved as a *row*: its mixed key and its value, from which bucket, remainder and key can be recovered. The
//! type of the batch ([`Batch`]) defines the layout of rows in a line of 64 bytes, which holds as many rows as a line
//! of the image has slots.
//!
//! **Why whole lines are written.** There are more parts than a first-level cache can keep open for writing. The buffer
//! has one line per part and fits into the second-level cache, and the image receives whole lines.
//!
//! **Why the image has enough space.** The slice of a part holds as many rows as the part has slots, and distinct keys
//! are distributed evenly. Rows whose slice is full *escape*; few do, up to loads at which no table can be built. All
//! duplicates of a key are in one part: too many escapes end the partitioning, and the table is built with another
//! algorithm.
//!
//! **Why each slice is filled from a different offset.** Slices have a power-of-two length and fill at the same rate.
//! Filled from their fronts, all of them would be written in the same few cache sets.
//!
//! **Why stores are atomic.** As in `sort.rs`: each place is written once, which safe Rust cannot prove. Only lines
//! that are shared by several chunks are written by several threads; each sets its bits in words that were 0.
//!
//! This is not a sort. The position of a pair in its slice depends on chunks and threads, and no result may depend on
//! it.

use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Mutex, PoisonError};

use wide::u32x8;

use super::CHUNK;
use super::block::Pairs;
use super::lanes::at_best;
use super::memory::{atomic, prefetch};
use crate::parallel::{collect, threads};

/// Words of a line, and keys that are hashed together.
pub(super) const LINE: usize = 8;
/// The distance in lines between the offsets of adjacent parts: odd, so that the parts use all sets of a cache.
const APART: usize = 421;
/// Chunks per thread, if there are several threads: chunks may take different times.
const CHUNKS_EACH: usize = 4;

/// An empty vector with this capacity; `None` if there is too little memory.
pub(super) fn try_with_capacity<T>(len: usize) -> Option<Vec<T>> {
    let mut scratch = Vec::new();
    scratch.try_reserve_exact(len).ok()?;
    Some(scratch)
}

/// An array of scratch space; `None` if there is too little memory.
pub(super) fn array<T: Clone + Default, const N: usize>() -> Option<Box<[T; N]>> {
    let mut words = try_with_capacity(N)?;
    words.resize(N, T::default());
    words.into_boxed_slice().try_into().ok()
}

/// A batch to partition.
pub(super) trait Batch: Copy + Sync {
    /// The representation of a pair in a slice.
    type Row: Copy + Send;
    /// The number of rows per line.
    const EACH: usize;

    fn len(self) -> usize;
    /// A range of its pairs.
    fn some(self, range: Range<usize>) -> Self;
    /// Calls `each` for every pair, with the number of its part and its row.
    fn each_row(self, each: impl FnMut(usize, Self::Row));
    /// Writes a row of a line.
    fn put(line: &mut [u64; LINE], at: usize, row: Self::Row);
    /// A row of a line.
    fn row(line: &[u64; LINE], at: usize) -> Self::Row;
}

/// Pairs of 32 bits, partitioned as words `[mixed key][value]`, and a function that returns the upper halves of eight
/// words and the numbers of their parts.
#[derive(Clone, Copy)]
pub(super) struct Words<'a, A>(pub(super) Pairs<'a>, pub(super) A);

impl<A: Fn(u32x8) -> (u32x8, u32x8) + Copy + Sync> Batch for Words<'_, A> {
    type Row = u64;
    const EACH: usize = LINE;

    fn len(self) -> usize {
        self.0.keys.len()
    }
    fn some(self, range: Range<usize>) -> Self {
        let pairs = Pairs { keys: &self.0.keys[range.clone()], values: &self.0.values[range] };
        Words(pairs, self.1)
    }
    #[inline(always)]
    fn each_row(self, mut each: impl FnMut(usize, u64)) {
        let (keys, last_keys) = self.0.keys.as_chunks::<LINE>();
        let (values, last_values) = self.0.values.as_chunks::<LINE>();
        for (keys, values) in keys.iter().zip(values) {
            let (uppers, parts) = (self.1)(u32x8::new(*keys));
            let (uppers, parts) = (uppers.to_array(), parts.to_array());
            for i in 0..LINE {
                each(parts[i] as usize, u64::from(uppers[i]) << 32 | u64::from(values[i]));
            }
        }
        for (&key, &value) in last_keys.iter().zip(last_values) {
            let (upper, part) = (self.1)(u32x8::splat(key));
            each(part.to_array()[0] as usize, u64::from(upper.to_array()[0]) << 32 | u64::from(value));
        }
    }
    #[inline(always)]
    fn put(line: &mut [u64; LINE], at: usize, row: u64) {
        line[at] = row;
    }
    #[inline(always)]
    fn row(line: &[u64; LINE], at: usize) -> u64 {
        line[at]
    }
}

/// The division of an image into slices, one per part.
#[derive(Clone, Copy)]
pub(super) struct Slices {
    /// The number of words of the image.
    words: usize,
    /// The number of words of a slice, a power of two of at least [`LINE`]; the last may have fewer.
    each: usize,
    /// The number of rows per line.
    rows: usize,
}

impl Slices {
    /// An image of this many words in slices of 2 to the power of `bits` words, at least one line; with this many rows
    /// per line.
    pub(super) fn new(words: usize, bits: u32, rows: usize) -> Self {
        Slices { words, each: (1 << bits).max(LINE), rows }
    }

    fn count(self) -> usize {
        self.words.div_ceil(self.each)
    }

    /// The capacity of a part's slice in rows.
    #[inline(always)]
    fn len_of(self, part: usize) -> usize {
        self.rows_of(self.words.saturating_sub(part * self.each).min(self.each))
    }

    /// The capacity of this many words in rows.
    #[inline(always)]
    fn rows_of(self, words: usize) -> usize {
        words * self.rows / LINE
    }

    /// The offset from which the slice of a part is filled; for the last one, which may be short, its front.
    #[inline(always)]
    fn begin(self, part: usize) -> usize {
        if (part + 1) * self.each < self.words { (part * APART * LINE) & (self.each - 1) } else { 0 }
    }

    /// The position in the image of line `at` of a part; `at` must be within the slice.
    #[inline(always)]
    fn place(self, part: usize, at: usize) -> usize {
        part * self.each + ((self.begin(part) + at * LINE) & (self.each - 1))
    }

    /// The two ranges of words of a part's slice that contain its rows, and the number of rows in each.
    pub(super) fn partitioned(self, part: usize, slice: &[u64], count: usize) -> [(&[u64], usize); 2] {
        let (behind, first) = slice.split_at(self.begin(part).min(slice.len()));
        let in_first = count.min(self.rows_of(first.len()));
        [(first, in_first), (behind, (count - in_first).min(self.rows_of(behind.len())))]
    }

    /// Calls `of_slice` with the number of each part, its slice, and the number of its rows, on this many threads, each
    /// with the scratch space that `scratch` returns. Returns the scratch spaces; `None` if `scratch` or `of_slice`
    /// returned `None`.
    pub(super) fn each<R: Send>(
        self,
        image: &mut [u64],
        counts: &[usize],
        threads: usize,
        scratch: impl Fn() -> Option<R> + Sync,
        of_slice: impl Fn(&mut R, usize, &mut [u64], usize) -> Option<()> + Sync,
    ) -> Option<Vec<R>> {
        let parts = Mutex::new(image.chunks_mut(self.each).zip(counts).enumerate());
        let work = || {
            let mut scratch = scratch()?;
            loop {
                let next = parts.lock().unwrap_or_else(PoisonError::into_inner).next();
                let Some((number, (slice, &count))) = next else { return Some(scratch) };
                of_slice(&mut scratch, number, slice, count)?;
            }
        };
        collect(0..threads, 1, |_, _| work()).ok()?.into_iter().collect()
    }
}

/// The result of partitioning a batch.
pub(super) struct Partitioned<R> {
    /// The number of rows in the slice of each part.
    pub(super) counts: Vec<usize>,
    /// Rows whose slices were full.
    pub(super) escapes: Vec<R>,
}

/// Partitions pairs into the slices of an image of zeros. `None` if more than `most` pairs escape, or if memory is
/// short; the contents of the image are then unspecified.
pub(super) fn partition<B: Batch>(
    batch: B,
    image: &mut [u64],
    slices: Slices,
    most: usize,
) -> Option<Partitioned<B::Row>> {
    let len = batch.len();
    // Places are counted in 32 bits.
    u32::try_from(len).ok()?;
    let threads = threads();
    let share = if threads == 1 { len } else { len.div_ceil(CHUNKS_EACH * threads) };
    let share = share.max(CHUNK).next_multiple_of(LINE);
    let chunk = |number: usize| batch.some(number * share..len.min((number + 1) * share));
    let chunks = len.div_ceil(share);
    let mut first_occurrences = if chunks == 1 {
        vec![zeros(slices.count())?]
    } else {
        let counts = collect(0..chunks, 1, |number, _| count(chunk(number), slices.count())).ok()?;
        sums(counts.into_iter().collect::<Option<_>>()?)?
    };
    let (image, escaped) = (atomic(image), AtomicUsize::new(0));
    let of_chunk = |number, first: &mut [_]| {
        let first = std::mem::take(&mut first[0]);
        Partitioner::<B>::new(image, slices, first)?.partition(chunk(number), (&escaped, most))
    };
    let mut done = collect(&mut first_occurrences[..], 1, of_chunk).ok()?.into_iter().collect::<Option<Vec<_>>>()?;
    let mut escapes = try_with_capacity(done.iter().map(|(_, escapes)| escapes.len()).sum())?;
    done.iter_mut().for_each(|(_, mine)| escapes.append(mine));
    // The shares of the last chunk end after those of all other chunks.
    let (ends, _) = done.pop()?;
    let mut counts = try_with_capacity(ends.len())?;
    counts.extend(ends.iter().enumerate().map(|(part, &end)| slices.len_of(part).min(end as usize)));
    (escapes.len() <= most).then_some(Partitioned { counts, escapes })
}

fn zeros(len: usize) -> Option<Vec<u32>> {
    let mut zeros = try_with_capacity(len)?;
    zeros.resize(len, 0);
    Some(zeros)
}

/// The prefix sums of each part's counts over the chunks.
fn sums(mut counts: Vec<Vec<u32>>) -> Option<Vec<Vec<u32>>> {
    let mut totals = zeros(counts.first()?.len())?;
    for counts in &mut counts {
        for (count, total) in counts.iter_mut().zip(&mut totals) {
            (*count, *total) = (*total, *total + *count);
        }
    }
    Some(counts)
}

/// The number of these pairs in each part.
fn count(batch: impl Batch, parts: usize) -> Option<Vec<u32>> {
    let mut counts = zeros(parts)?;
    at_best(
        #[inline(always)]
        || {
            batch.each_row(
                #[inline(always)]
                |part, _| {
                    if let Some(count) = counts.get_mut(part) {
                        *count += 1;
                    }
                },
            );
        },
    );
    Some(counts)
}

#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line([u64; LINE]);

/// A chunk that is being partitioned.
struct Partitioner<'a, B: Batch> {
    image: &'a [AtomicU64],
    slices: Slices,
    /// For each part the rows that have not been copied to its slice yet: row i of the part is row i mod `B::EACH` of
    /// the line.
    lines: Vec<Line>,
    /// For each part the number of the first row of this chunk, and of the next row.
    first: Vec<u32>,
    next: Vec<u32>,
    escapes: Vec<B::Row>,
}

impl<'a, B: Batch> Partitioner<'a, B> {
    fn new(image: &'a [AtomicU64], slices: Slices, first: Vec<u32>) -> Option<Self> {
        let (mut lines, mut next) = (try_with_capacity(first.len())?, try_with_capacity(first.len())?);
        lines.resize(first.len(), Line([0; LINE]));
        next.extend_from_slice(&first);
        Some(Partitioner { image, slices, lines, first, next, escapes: Vec::new() })
    }

    /// Returns the end of each part's rows, and the escapes; `None` if there are too many.
    fn partition(mut self, batch: B, (escaped, most): (&AtomicUsize, usize)) -> Option<(Vec<u32>, Vec<B::Row>)> {
        for start in (0..batch.len()).step_by(CHUNK) {
            let some = batch.some(start..batch.len().min(start + CHUNK));
            let before = self.escapes.len();
            // Most inputs have no escapes, and the worst have about this many.
            self.escapes.try_reserve(some.len() + LINE).ok()?;
            at_best(
                #[inline(always)]
                || self.partition_some(some),
            );
            // Counted over all chunks, so that all of them stop if there are too many.
            let new = self.escapes.len() - before;
            if escaped.fetch_add(new, Relaxed) + new > most {
                return None;
            }
        }
        for part in (0..self.lines.len()).filter(|&part| !(self.next[part] as usize).is_multiple_of(B::EACH)) {
            self.escapes.try_reserve(LINE).ok()?;
            let numbers = self.first[part]..self.next[part];
            close::<B>(self.image, self.slices, part, numbers, &self.lines[part], &mut self.escapes);
        }
        Some((self.next, self.escapes))
    }

    #[inline(always)]
    fn partition_some(&mut self, batch: B) {
        // Separate slices, so that the compiler knows that they do not alias.
        let Partitioner { image, slices, lines, first, next, escapes } = self;
        let (image, slices, lines, first, next) = (*image, *slices, &mut lines[..], &first[..], &mut next[..]);
        // The capacity of a slice; the last one, which may be shorter, ends with the image.
        let scratch = slices.rows_of(slices.each);
        batch.each_row(
            #[inline(always)]
            |part, row| {
                let (Some(next), Some(line)) = (next.get_mut(part), lines.get_mut(part)) else { return };
                let number = *next as usize;
                let at = number % B::EACH;
                *next += 1;
                B::put(&mut line.0, at, row);
                if at != B::EACH - 1 {
                    return;
                }
                let (end, place) = (number + 1, slices.place(part, number / B::EACH));
                match image.get(place..).and_then(|rest| rest.first_chunk::<LINE>()) {
                    Some(slots) if end <= scratch && first[part] as usize + B::EACH <= end => {
                        slots.iter().zip(&line.0).for_each(|(slot, &word)| slot.store(word, Relaxed));
                        prefetch(image, place + LINE);
                    }
                    _ => close::<B>(image, slices, part, first[part]..*next, line, escapes),
                }
            },
        );
    }
}

/// Copies the line of the last of these rows to the slice; it may contain rows of another chunk, or exceed the slice.
#[cold]
fn close<B: Batch>(
    image: &[AtomicU64],
    slices: Slices,
    part: usize,
    numbers: Range<u32>,
    line: &Line,
    escapes: &mut Vec<B::Row>,
) {
    let (first, end) = (numbers.start as usize, numbers.end as usize);
    let line_begin = (end - 1) / B::EACH * B::EACH;
    let mut mine = [0; LINE];
    for at in first.max(line_begin)..end {
        let row = B::row(&line.0, at % B::EACH);
        if at < slices.len_of(part) {
            B::put(&mut mine, at % B::EACH, row);
        } else {
            escapes.push(row);
        }
    }
    // Other chunks have rows in the same words.
    let words = image.iter().skip(slices.place(part, line_begin / B::EACH));
    words.zip(mine).filter(|&(_, bits)| bits != 0).for_each(|(word, bits)| _ = word.fetch_or(bits, Relaxed));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::Cpu;
    use crate::scheme::hash::{MixKeys, SplitMix64, mix, reduce, unmix};

    const MIXER: MixKeys = MixKeys::new(3, 5, 7);

    /// Partitions into slices of 2 to the power of `bits` words, and checks that each pair is in its slice or has
    /// escaped.
    fn partition_and_check(cpu: &Cpu, keys: &[u32], words: usize, bits: u32, most: usize) -> Option<usize> {
        let values: Vec<u32> = (0..keys.len() as u32).collect();
        let slices = Slices::new(words, bits, LINE);
        let parts = slices.count() as u32;
        let mut image = vec![0; words];
        let pairs = Pairs { keys, values: &values };
        let partitioned = cpu.run(|| {
            let words = Words(pairs, |keys| {
                let mixed = mix(keys, MIXER);
                (mixed, reduce(mixed, parts))
            });
            partition(words, &mut image, slices, most)
        });
        let partitioned = partitioned.expect("threads")?;
        let mut found = vec![false; keys.len()];
        let mut meet = |word: u64| {
            let (mixed, value) = ((word >> 32) as u32, word as u32 as usize);
            assert_eq!(unmix(mixed, MIXER), keys[value]);
            assert!(!std::mem::replace(&mut found[value], true), "{value} twice");
            reduce(mixed, parts) as usize
        };
        assert_eq!(partitioned.counts.len(), parts as usize);
        for (part, (slice, &count)) in image.chunks(1 << bits).zip(&partitioned.counts).enumerate() {
            let lists = slices.partitioned(part, slice, count).map(|(words, rows)| &words[..rows]);
            assert_eq!(lists.map(<[u64]>::len).iter().sum::<usize>(), count);
            lists.into_iter().flatten().for_each(|&word| assert_eq!(meet(word), part));
        }
        for &word in &partitioned.escapes {
            let part = meet(word);
            assert_eq!(partitioned.counts[part], slices.len_of(part), "only from full slices");
        }
        let untouched = image.iter().filter(|&&word| word == 0).count();
        assert_eq!(untouched, words - partitioned.counts.iter().sum::<usize>(), "nothing else was written");
        assert!(found.iter().all(|&found| found));
        Some(partitioned.escapes.len())
    }

    #[test]
    fn every_pair_is_in_its_slice_or_has_escaped() {
        let mut stream = SplitMix64::new(1);
        let noise: Vec<u32> = (0..150_001).map(|_| stream.next_u32()).collect();
        for cpu in [1, 2, 5].map(|threads| Cpu::with_threads(threads).expect("threads")) {
            for len in [1, 7, 8, 9, 4096, 4097, 70_003, 150_001] {
                // Slices with spare capacity, with just enough on average, and too small; the last slice is whole,
                // short or tiny.
                for words in [len * 2, len + len / 20 + 3, len, len * 9 / 10 + 1, 8192, 8193, 16_384 + 16] {
                    for bits in [3, 6, 13] {
                        partition_and_check(&cpu, &noise[..len], words, bits, usize::MAX).expect("partitioned");
                    }
                }
            }
            assert_eq!(partition_and_check(&cpu, &noise[..1000], 1 << 16, 13, 0), Some(0));
        }
    }

    #[test]
    fn too_many_escapes_end_the_partitioning() {
        for cpu in [1, 3, 16].map(|threads| Cpu::with_threads(threads).expect("threads")) {
            let crowd = vec![77; 100_000];
            assert_eq!(partition_and_check(&cpu, &crowd, 1 << 17, 10, 100_000 - 1024), Some(100_000 - 1024));
            assert_eq!(partition_and_check(&cpu, &crowd, 1 << 17, 10, 100_000 - 1025), None);
            assert_eq!(partition_and_check(&cpu, &crowd, 1 << 17, 10, 0), None);
        }
    }
}
