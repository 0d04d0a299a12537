//! Aggregates of groups of 64-bit values, and sums of doubles by the tree of `backend/tree.rs`.
//!
//! ```text
//! accumulate_wide   as for values of 32 bits (relational.rs): each chunk adds up in a small table of its own, and
//!                   entries go to the groups' cells by atomics. A group's cells hold its sum modulo 2^64, and how often
//!                   it passed that: a number of 96 bits, whatever the order. Least and greatest values are found by
//!                   their codes (backend/numbers.rs); a last pass over the groups makes values of these, and finds the
//!                   first group whose sum does not fit
//! tree_sums         each chunk of the values adds up the runs that begin in it, unless they are long; each of those is
//!                   cut into blocks, which all threads add up, and whose sums are the leaves of the same tree
//! ```
//!
//! What it is not: a compensated sum. That would be nearer to the true one, and dearer, and as much a matter of order.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use bytemuck::cast_slice;

use super::groups::CACHED;
use super::memory::{atomic, atomic_u32, prefetch};
use super::{BLOCK, CHUNK, Cpu, Memory};
use crate::backend::numbers::bits_of;
use crate::backend::tree::{LEAVES, tree_sum};
use crate::backend::{HashBackend, Numbers, Wanted, WideAccumulated, Word};
use crate::error::Result;
use crate::parallel::{collect, each, fold};

/// Entries of a chunk's own table, a power of two.
const ENTRIES: usize = 256;
/// The longest run that one thread adds up.
const LONGEST: usize = 16 * CHUNK;

// Sums of chunks are leaves of the tree.
const _: () = assert!(CHUNK.is_power_of_two() && CHUNK >= LEAVES);

impl Cpu {
    /// Lengths have been checked.
    pub(crate) fn run_accumulate_wide<V: Word>(
        &self,
        ids: &[u32],
        values: &[V],
        of: Numbers,
        groups: usize,
        wanted: Wanted,
    ) -> Result<WideAccumulated<Cpu>> {
        // Words of 32 bits are widened by zeros.
        debug_assert!(size_of::<V>() == 8 || of == Numbers::Unsigned);
        self.ledger().kernel("accumulate", ids.len());
        let sums = wanted.sum && of != Numbers::Double;
        let cells = |wanted: bool| if wanted { groups } else { 0 };
        let mut all = WideAccumulated::<Cpu> {
            counts: Memory::zeroed(cells(wanted.count))?,
            sums: Memory::zeroed(cells(sums))?,
            least: self.filled(cells(wanted.least), u64::MAX)?,
            greatest: Memory::zeroed(cells(wanted.greatest))?,
            overflow: None,
        };
        let mut carries = Memory::zeroed(cells(sums))?;
        let cells = Cells {
            counts: atomic_u32(all.counts.words_mut()?),
            sums: atomic(all.sums.words_mut()?),
            carries: atomic_u32(carries.words_mut()?),
            least: atomic(all.least.words_mut()?),
            greatest: atomic(all.greatest.words_mut()?),
        };
        // A loop for each, in which the branches on what values are have gone.
        self.run(|| match of {
            Numbers::Unsigned => cells.take(ids, values, |bits| Value::of(Numbers::Unsigned, bits)),
            Numbers::Signed => cells.take(ids, values, |bits| Value::of(Numbers::Signed, bits)),
            Numbers::Double => cells.take(ids, values, |bits| Value::of(Numbers::Double, bits)),
        })?;
        self.settle(&mut all, carries.words(), of)?;
        Ok(all)
    }

    /// Makes values of codes, and finds the first sum that does not fit.
    fn settle(&self, all: &mut WideAccumulated<Cpu>, carries: &[u32], of: Numbers) -> Result<()> {
        let (least, greatest) = (all.least.words_mut()?, all.greatest.words_mut()?);
        let sums = all.sums.words();
        let first = |_, groups: Range<usize>| {
            let past = |&group: &usize| !of.fits(sums[group], carries[group]);
            groups.into_iter().find(past)
        };
        all.overflow = self.run(|| {
            if of != Numbers::Unsigned {
                each(least, CHUNK, |_, codes| codes.iter_mut().for_each(|code| *code = of.of_low_code(*code)));
                each(greatest, CHUNK, |_, codes| codes.iter_mut().for_each(|code| *code = of.of_high_code(*code)));
            }
            fold(0..sums.len(), CHUNK, first, |a, b| a.or(b)).map(|group| group as u32)
        })?;
        Ok(())
    }

    /// One more offset than runs, of any size: what is not there is no part of a run.
    pub(super) fn run_tree_sums(&self, values: &[u64], offsets: &[u64]) -> Result<Memory<u64>> {
        let values: &[f64] = cast_slice(values);
        let place = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX).min(values.len());
        let runs = offsets.len().saturating_sub(1);
        let run = |r: usize| {
            let begin = place(offsets[r]);
            begin..place(offsets[r + 1]).max(begin)
        };
        let mut sums = Memory::zeroed(runs)?;
        let to = atomic(sums.words_mut()?);
        self.run(|| {
            let of_chunk = |_, chunk: Range<usize>| {
                let mut long = Vec::new();
                // Empty runs may begin where a chunk does and not be visited: theirs is the zero that is there.
                let first = offsets[..runs].partition_point(|&offset| place(offset) < chunk.start);
                for r in (first..runs).take_while(|&r| place(offsets[r]) < chunk.end) {
                    let run = run(r);
                    if run.len() > LONGEST {
                        long.push(r);
                    } else if !run.is_empty() {
                        to[r].store(bits_of(tree_sum(&values[run])), Relaxed);
                    }
                }
                long
            };
            let join = |mut a: Vec<usize>, b: Vec<usize>| {
                a.extend(b);
                a
            };
            for r in fold(0..values.len(), CHUNK, of_chunk, join) {
                let blocks = collect(&values[run(r)], CHUNK, |_, block: &[f64]| tree_sum(block))?;
                to[r].store(bits_of(tree_sum(&blocks)), Relaxed);
            }
            Ok(())
        })
        .flatten()?;
        Ok(sums)
    }
}

/// What a row brings.
struct Value {
    integer: i128,
    low: u64,
    high: u64,
}

impl Value {
    #[inline(always)]
    fn of(numbers: Numbers, bits: u64) -> Value {
        Value { integer: numbers.integer(bits), low: numbers.low_code(bits), high: numbers.high_code(bits) }
    }
}

/// What a chunk has gathered of one group. Nothing while its count is 0.
#[derive(Clone, Copy, Default)]
struct Entry {
    id: u32,
    count: u32,
    sum: i128,
    least: u64,
    greatest: u64,
}

impl Entry {
    #[inline(always)]
    fn take(&mut self, id: u32, value: Value) {
        if self.count == 0 {
            *self = Entry { id, count: 0, sum: 0, least: u64::MAX, greatest: 0 };
        }
        self.count += 1;
        self.sum += value.integer;
        self.least = self.least.min(value.low);
        self.greatest = self.greatest.max(value.high);
    }
}

/// The groups' cells; a column that is not wanted is empty.
struct Cells<'a> {
    counts: &'a [AtomicU32],
    sums: &'a [AtomicU64],
    carries: &'a [AtomicU32],
    least: &'a [AtomicU64],
    greatest: &'a [AtomicU64],
}

impl Cells<'_> {
    /// All rows.
    #[inline(always)]
    fn take<V: Word>(&self, ids: &[u32], values: &[V], value: impl Fn(u64) -> Value + Sync) {
        let groups = self.counts.len().max(self.sums.len()).max(self.least.len()).max(self.greatest.len());
        let ahead = groups > CACHED;
        each(0..ids.len(), CHUNK, |_, rows| {
            let mut entries = [Entry::default(); ENTRIES];
            for i in rows {
                // Of so many groups most rows evict an entry, and the atomics then wait for their cells in turn.
                if ahead && let Some(&next) = ids.get(i + BLOCK / 4) {
                    self.prefetch(next as usize);
                }
                let entry = &mut entries[ids[i] as usize % ENTRIES];
                if entry.count > 0 && entry.id != ids[i] {
                    self.add(entry);
                    entry.count = 0;
                }
                entry.take(ids[i], value(values.get(i).map_or(0, |&value| value.into())));
            }
            entries.iter().filter(|entry| entry.count > 0).for_each(|entry| self.add(entry));
        });
    }

    #[inline(always)]
    fn prefetch(&self, at: usize) {
        if !self.counts.is_empty() {
            prefetch(self.counts, at);
        }
        if !self.sums.is_empty() {
            prefetch(self.sums, at);
        }
        if !self.least.is_empty() {
            prefetch(self.least, at);
        }
        if !self.greatest.is_empty() {
            prefetch(self.greatest, at);
        }
    }

    #[inline(always)]
    fn add(&self, entry: &Entry) {
        let at = entry.id as usize;
        if let Some(count) = self.counts.get(at) {
            count.fetch_add(entry.count, Relaxed);
        }
        if let (Some(sum), Some(carries)) = (self.sums.get(at), self.carries.get(at)) {
            let low = entry.sum as u64;
            let passed = sum.fetch_add(low, Relaxed).overflowing_add(low).1;
            let carry = ((entry.sum >> 64) as u32).wrapping_add(passed.into());
            if carry != 0 {
                carries.fetch_add(carry, Relaxed);
            }
        }
        if let Some(least) = self.least.get(at) {
            least.fetch_min(entry.least, Relaxed);
        }
        if let Some(greatest) = self.greatest.get(at) {
            greatest.fetch_max(entry.greatest, Relaxed);
        }
    }
}
