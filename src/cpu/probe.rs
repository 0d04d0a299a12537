//! [`Probe`] for [`Cpu`]: wall time, and accesses at random places. `strided.rs` implements strided accesses.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use wide::u32x8;

use super::lanes::at_best;
use super::memory::{Memory, atomic, prefetch};
use super::{BLOCK, CHUNK, Cpu, strided};
use crate::backend::{DeviceBuffer, HashBackend, Probe, StageTime, Word};
use crate::error::{Error, Result};
use crate::parallel::fold;
use crate::scheme::hash::{MixKeys, mix, reduce};

impl Probe for Cpu {
    fn timed<R>(&self, work: impl FnOnce() -> Result<R>) -> Result<(R, Duration)> {
        let start = Instant::now();
        let result = work()?;
        Ok((result, start.elapsed()))
    }

    fn stages<R>(&self, work: impl FnOnce() -> Result<R>) -> Result<(R, Vec<StageTime>)> {
        let (result, times) = self.ledger().timed_passes(work);
        Ok((result?, times))
    }

    fn random_reads(&self, buffer: &Memory<u64>, reads: usize) -> Result<u64> {
        self.ledger().kernel("random_reads", reads);
        self.run(|| random_reads(buffer.words(), reads))
    }

    fn random_lines(&self, buffer: &Memory<u64>, reads: usize) -> Result<u64> {
        self.ledger().kernel("random_lines", reads);
        self.run(|| random_lines(buffer.words(), reads))
    }

    fn random_updates(&self, buffer: &mut Memory<u64>, writes: usize) -> Result<()> {
        self.ledger().kernel("random_updates", writes);
        let words = atomic(buffer.words_mut()?);
        self.run(|| random_updates(words, writes))?;
        Ok(())
    }

    fn strided_updates<T: Word>(&self, buffer: &mut Memory<T>, stride: u32, atomic: bool) -> Result<()> {
        Error::check_rows("elements to be updated", buffer.len())?;
        self.ledger().kernel("strided_updates", buffer.len());
        let words = buffer.words_mut()?;
        self.run(|| strided::updates(words, stride, atomic))?;
        Ok(())
    }
}

/// XORs `reads` words at pseudo-random places.
fn random_reads(words: &[u64], reads: usize) -> u64 {
    at_random_places(words, reads, |found: &mut u64, _, &word| *found ^= word, |a, b| a ^ b)
}

/// XORs lines of eight words, at places chosen in the same way.
fn random_lines(words: &[u64], reads: usize) -> u64 {
    let lines = words.as_chunks::<8>().0;
    let visit = |found: &mut u64, _, line: &[u64; 8]| *found = line.iter().fold(*found, |all, word| all ^ word);
    at_random_places(lines, reads, visit, |a, b| a ^ b)
}

/// Raises the words at the same places to at least `i + 1`.
fn random_updates(words: &[AtomicU64], writes: usize) {
    let visit = |&mut (): &mut (), i: usize, word: &AtomicU64| {
        word.fetch_max(i as u64 + 1, Relaxed);
    };
    at_random_places(words, writes, visit, |(), ()| ());
}

/// The places of a block of numbers that begins with `first`.
#[inline(always)]
fn random_block(slots: u32, first: usize) -> [u32; BLOCK] {
    let mut places = [0u32; BLOCK];
    for (lane, places) in places.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let i = u32x8::splat((first + 8 * lane) as u32) + u32x8::new([0, 1, 2, 3, 4, 5, 6, 7]);
        *places = reduce(mix(i, MixKeys::default()), slots).to_array();
    }
    places
}

/// Visits `words[reduce(mix(i))]` for `i` in `0..count`; each visit prefetches a line of the next block. The results of
/// chunks are joined.
fn at_random_places<T: Sync, A: Default + Send>(
    words: &[T],
    count: usize,
    visit: impl Fn(&mut A, usize, &T) + Sync,
    join: impl Fn(A, A) -> A + Send + Sync,
) -> A {
    let slots = u32::try_from(words.len()).unwrap_or(u32::MAX);
    if slots == 0 {
        return A::default();
    }
    let of_chunk = |_, Range { start: mut first, end }: Range<usize>| {
        at_best(
            #[inline(always)]
            || {
                let mut all = A::default();
                let mut places = random_block(slots, first);
                places.iter().for_each(|&at| prefetch(words, at as usize));
                while first < end {
                    let next = random_block(slots, first + BLOCK);
                    for ((i, &at), &ahead) in (first..end).zip(&places).zip(&next) {
                        prefetch(words, ahead as usize);
                        visit(&mut all, i, &words[at as usize]);
                    }
                    (first, places) = (first + BLOCK, next);
                }
                all
            },
        )
    };
    fold(0..count, CHUNK, of_chunk, join)
}
