//! Aggregates of groups of 64-bit values.
//!
//! As for values of 32 bits (`relational.rs`), each chunk aggregates in a small separate table, whose entries are
//! added to the cells of the groups with atomics. The cells of a group hold a 128-bit sum in two words: an overflow of
//! the lower one increments the upper one. Minimum and maximum compare codes of the values (`backend/numbers.rs`).
//! Doubles are summed as integers too; those outside of the column's window are collected separately
//! (`exact/window.rs`).

use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use super::groups::CACHED;
use super::memory::{atomic, atomic_u32, prefetch};
use super::sums::Totals;
use super::{BLOCK, CHUNK, Cpu, Memory};
use crate::backend::{HashBackend, Numbers, Wanted, WideAccumulated, Word};
use crate::error::Result;
use crate::exact::{Leftovers, Window};
use crate::parallel::{each, fold_with};

/// Entries of a chunk's own table, a power of two.
const ENTRIES: usize = 256;

impl Cpu {
    /// The caller has checked the lengths.
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
        let cells = |wanted: bool| if wanted { groups } else { 0 };
        let mut all = WideAccumulated::<Cpu> {
            counts: Memory::zeroed(cells(wanted.count || wanted.mean))?,
            sums: Memory::zeroed(cells(wanted.sum))?,
            means: Memory::zeroed(cells(wanted.mean))?,
            least: self.filled(cells(wanted.least), u64::MAX)?,
            greatest: Memory::zeroed(cells(wanted.greatest))?,
            overflow: None,
        };
        let (mut lows, mut highs) =
            (Memory::zeroed(cells(wanted.is_summed()))?, Memory::zeroed(cells(wanted.is_summed()))?);
        let window = match of {
            Numbers::Double if wanted.is_summed() => Window::of(bytemuck::cast_slice(values)),
            _ => Window::of(&[]),
        };
        let cells = Cells {
            counts: atomic_u32(all.counts.words_mut()?),
            lows: atomic(lows.words_mut()?),
            highs: atomic(highs.words_mut()?),
            least: atomic(all.least.words_mut()?),
            greatest: atomic(all.greatest.words_mut()?),
        };
        // Each type of number has its own loop, from which the compiler eliminates the branches on the type.
        let leftovers = self.run(|| match of {
            Numbers::Unsigned => cells.take(ids, values, |bits| Value::of(Numbers::Unsigned, bits, window)),
            Numbers::Signed => cells.take(ids, values, |bits| Value::of(Numbers::Signed, bits, window)),
            Numbers::Double => cells.take(ids, values, |bits| Value::of(Numbers::Double, bits, window)),
        })??;
        if of != Numbers::Unsigned {
            let (least, greatest) = (all.least.words_mut()?, all.greatest.words_mut()?);
            self.run(|| {
                each(least, CHUNK, |_, codes| codes.iter_mut().for_each(|code| *code = of.of_low_code(*code)));
                each(greatest, CHUNK, |_, codes| codes.iter_mut().for_each(|code| *code = of.of_high_code(*code)));
            })?;
        }
        let (lows, highs) = (lows.words(), highs.words());
        let counts = std::mem::replace(&mut all.counts, Memory::zeroed(0)?);
        let totals = Totals {
            sum: |group: usize| i128::from(highs[group] as i64) << 64 | i128::from(lows[group]),
            count: |group: usize| counts.words()[group],
            window,
            leftovers,
            exact: Vec::new(),
        };
        self.finish_sums(&mut all, of, totals)?;
        if wanted.count {
            all.counts = counts;
        }
        Ok(all)
    }
}

/// The value of a row.
struct Value {
    /// `None` if it is a leftover.
    integer: Option<i128>,
    low: u64,
    high: u64,
}

impl Value {
    #[inline(always)]
    fn of(numbers: Numbers, bits: u64, window: Window) -> Value {
        Value { integer: numbers.integer(bits, window), low: numbers.low_code(bits), high: numbers.high_code(bits) }
    }
}

/// The aggregates of one group in a chunk. Empty while the count is 0.
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
        self.sum += value.integer.unwrap_or(0);
        self.least = self.least.min(value.low);
        self.greatest = self.greatest.max(value.high);
    }
}

/// The groups' cells; a column that was not requested is empty.
struct Cells<'a> {
    counts: &'a [AtomicU32],
    lows: &'a [AtomicU64],
    highs: &'a [AtomicU64],
    least: &'a [AtomicU64],
    greatest: &'a [AtomicU64],
}

impl Cells<'_> {
    /// Aggregates all rows. Returns the leftovers if sums are requested.
    #[inline(always)]
    fn take<V: Word>(&self, ids: &[u32], values: &[V], value: impl Fn(u64) -> Value + Sync) -> Result<Leftovers> {
        let groups = self.counts.len().max(self.lows.len()).max(self.least.len()).max(self.greatest.len());
        let (ahead, is_summed) = (groups > CACHED, !self.lows.is_empty());
        let of_chunk = |rows: Range<usize>| {
            let mut leftovers = Leftovers::default();
            let mut entries = [Entry::default(); ENTRIES];
            for i in rows {
                // With this many groups, most rows evict an entry. Without prefetching, the atomics would wait for one
                // cell at a time.
                if ahead && let Some(&next) = ids.get(i + BLOCK / 4) {
                    self.prefetch(next as usize);
                }
                let entry = &mut entries[ids[i] as usize % ENTRIES];
                if entry.count > 0 && entry.id != ids[i] {
                    self.add(entry);
                    entry.count = 0;
                }
                let bits = values.get(i).map_or(0, |&value| value.into());
                let value = value(bits);
                if value.integer.is_none() && is_summed && (ids[i] as usize) < groups {
                    leftovers.push(ids[i], bits)?;
                }
                entry.take(ids[i], value);
            }
            entries.iter().filter(|entry| entry.count > 0).for_each(|entry| self.add(entry));
            Ok(leftovers)
        };
        let join = |a: Result<Leftovers>, b: Result<Leftovers>| a?.and(b?);
        fold_with(0..ids.len(), CHUNK, || (), |(), _, rows| of_chunk(rows), join)
            .unwrap_or_else(|| Ok(Leftovers::default()))
    }

    #[inline(always)]
    fn prefetch(&self, at: usize) {
        if !self.counts.is_empty() {
            prefetch(self.counts, at);
        }
        if !self.lows.is_empty() {
            prefetch(self.lows, at);
            prefetch(self.highs, at);
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
        if let (Some(low), Some(high)) = (self.lows.get(at), self.highs.get(at)) {
            let lower = entry.sum as u64;
            let passed = low.fetch_add(lower, Relaxed).overflowing_add(lower).1;
            let upper = ((entry.sum >> 64) as u64).wrapping_add(passed.into());
            if upper != 0 {
                high.fetch_add(upper, Relaxed);
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
