//! The rows of each key, stored next to each other, for right columns with duplicate keys.
//!
//! ```text
//! bounds   run of the key whose first row is f:   rows[bounds[f]..bounds[f + 1]]     (empty if f is not a first row)
//! count    each thread has a range of first rows, reads the first row of every row, and counts those of its range
//! split    prefix sums of the counts are the starts of runs; each thread reads all rows again and writes its range
//! ```
//!
//! The runs of a thread are one range of `rows`, so threads never write to the same place, and the rows of a run
//! ascend. All threads read all first rows, which are small and read in order. At most [`RANGES`] threads take part.

use std::ops::Range;

use super::{BOUNDS_AHEAD, RUNS_AHEAD, prefetch};
use crate::backend::join_rows::NO_ROW;
use crate::cpu::first_occurrences::{alone, grain};
use crate::cpu::{Cpu, Memory};
use crate::error::Result;
use crate::memory;
use crate::parallel::{each, threads};

const RANGES: usize = 16;

pub(super) struct Runs {
    /// The start of the run of each first row, and the end of the last run.
    bounds: Memory<u32>,
    rows: Memory<u32>,
}

/// The work of one thread.
struct Share<'a> {
    /// The first of its first rows, and the upper bound of the run of each.
    begin: u32,
    ends: &'a mut [u32],
    /// The rows of its runs, and the number of rows before them.
    rows: &'a mut [u32],
    before: u32,
}

impl Runs {
    /// The runs of rows with these first rows.
    pub(super) fn of(cpu: &Cpu, first_occurrences: &Memory<u32>) -> Result<Runs> {
        let first_occurrences = first_occurrences.words();
        let len = first_occurrences.len();
        let (mut bounds, mut rows) = (Memory::zeroed(len + 1)?, Memory::zeroed(len)?);
        let (ends, all) = (&mut bounds.words_mut()?[1..], rows.words_mut()?);
        cpu.run(|| {
            let ranges = if alone(len) { 1 } else { threads().clamp(1, RANGES) };
            let mut shares = memory::reserved(ranges)?;
            let (mut ends, mut begin) = (ends, 0);
            for i in 1..=ranges {
                let end = len * i / ranges;
                let ends = ends.split_off_mut(..end - begin).unwrap_or_default();
                shares.push(Share { begin: begin as u32, ends, rows: &mut [], before: 0 });
                begin = end;
            }
            each(&mut shares[..], 1, |_, shares| shares.iter_mut().for_each(|share| share.count(first_occurrences)));
            let (mut all, mut before) = (all, 0);
            for share in &mut shares {
                let own: usize = share.ends.iter().map(|&count| count as usize).sum();
                share.rows = all.split_off_mut(..own).unwrap_or_default();
                share.begin(before);
                before += own as u32;
            }
            each(&mut shares[..], 1, |_, shares| {
                shares.iter_mut().for_each(|share| share.partition(first_occurrences))
            });
            Ok(())
        })
        .flatten()?;
        Ok(Runs { bounds, rows })
    }

    /// The total length of these runs.
    #[inline(always)]
    pub(super) fn total(&self, first_occurrences: &[u32]) -> u64 {
        let bounds = self.bounds.words();
        let mut total = 0;
        for (i, &first) in first_occurrences.iter().enumerate() {
            if let Some(&ahead) = first_occurrences.get(i + BOUNDS_AHEAD) {
                prefetch(bounds, ahead as usize);
            }
            let run = self.run(bounds, first);
            total += u64::from(run.1 - run.0);
        }
        total
    }

    #[inline(always)]
    fn run(&self, bounds: &[u32], first: u32) -> (u32, u32) {
        match bounds.get(first as usize..).and_then(|bounds| bounds.get(..2)) {
            Some(bounds) => (bounds[0], bounds[1].max(bounds[0])),
            None => (0, 0),
        }
    }

    /// As [`Right::write`](super::Right::write).
    #[inline(always)]
    pub(super) fn write(
        &self,
        keeps_left: bool,
        row: u32,
        first_occurrences: &[u32],
        mut skip: u64,
        left: &mut [u32],
        right: &mut [u32],
    ) -> usize {
        let (bounds, rows) = (self.bounds.words(), self.rows.words());
        let mut at = 0;
        for (i, (&first, row)) in first_occurrences.iter().zip(row..).enumerate() {
            if let Some(&ahead) = first_occurrences.get(i + BOUNDS_AHEAD) {
                prefetch(bounds, ahead as usize);
            }
            if let Some(&ahead) = first_occurrences.get(i + RUNS_AHEAD) {
                prefetch(rows, self.run(bounds, ahead).0 as usize);
            }
            let (begin, end) = self.run(bounds, first);
            let mut run = rows.get(begin as usize..end as usize).unwrap_or(&[]);
            if first == NO_ROW && keeps_left {
                run = &[NO_ROW];
            }
            if skip > 0 {
                let passed = skip.min(run.len() as u64);
                skip -= passed;
                run = &run[passed as usize..];
            }
            let len = run.len().min(left.len() - at);
            if let (Some(left), Some(right)) = (left.get_mut(at..at + len), right.get_mut(at..at + len)) {
                for ((to_left, to_right), &partner) in left.iter_mut().zip(right).zip(run) {
                    (*to_left, *to_right) = (row, partner);
                }
            }
            at += len;
            if at == left.len() {
                break;
            }
        }
        at
    }

    /// Calls `then` with the run of each first row whose bit is set.
    pub(super) fn each_of(&self, bits: &[u32], then: impl Fn(&[u32]) + Sync) {
        let (bounds, rows) = (self.bounds.words(), self.rows.words());
        each(0..bits.len(), grain(32 * bits.len()) / 32, |_, words: Range<usize>| {
            for word in words {
                let mut left = bits[word];
                while left != 0 {
                    let (begin, end) = self.run(bounds, 32 * word as u32 + left.trailing_zeros());
                    then(rows.get(begin as usize..end as usize).unwrap_or(&[]));
                    left &= left - 1;
                }
            }
        });
    }
}

impl Share<'_> {
    fn count(&mut self, first_occurrences: &[u32]) {
        for &first in first_occurrences {
            if let Some(count) = self.ends.get_mut(first.wrapping_sub(self.begin) as usize) {
                *count += 1;
            }
        }
    }

    /// Replaces counts by the positions where runs begin, the first of which is `before`.
    fn begin(&mut self, before: u32) {
        let mut sum = before;
        for count in &mut *self.ends {
            (*count, sum) = (sum, sum + *count);
        }
        self.before = before;
    }

    /// Writes the rows to the runs. Each position is then the end of its run.
    fn partition(&mut self, first_occurrences: &[u32]) {
        for (&first, row) in first_occurrences.iter().zip(0..) {
            if let Some(place) = self.ends.get_mut(first.wrapping_sub(self.begin) as usize) {
                if let Some(to) = self.rows.get_mut((*place - self.before) as usize) {
                    *to = row;
                }
                *place += 1;
            }
        }
    }
}
