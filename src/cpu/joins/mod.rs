//! Joins on the CPU: the index of a right column, and its matches with left columns.
//!
//! ```text
//! right     first rows of the column (`first_occurrences/`);  if keys have duplicates, also the run of rows of each key (runs.rs)
//! probe     first[i] = the first right row of left row i;   results[c] = how many results each chunk of left rows has
//! piece     skip chunks, then left rows, by their counts; then write the run of each left row
//! ```
//!
//! 4 bytes per left row are stored, from which any piece of the result can be produced without the rest. Pieces are cut
//! by results, not by left rows, so the results of a skewed key may span several pieces.
//!
//! If the right keys are distinct there are no runs: a left row has at most one result, the first row of its key.

mod batches;
mod runs;
#[cfg(test)]
mod tests;

pub(crate) use batches::results_at_once;

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::first_occurrences::{FirstOccurrences, grain};
use super::lanes::at_best;
use super::memory::{atomic_u32, prefetch};
use super::relational::running_sums;
use super::{CHUNK, Cpu, Memory};
use crate::backend::join_rows::{JoinKind, NO_ROW};
use crate::backend::{HashBackend, bitmap_words};
use crate::error::Result;
use crate::memory;
use crate::parallel::{Per, each};
use crate::scheme::Key;
use runs::Runs;

/// Results that a thread writes at a time.
const PIECE: usize = 1 << 16;
/// The prefetch distances of the bounds of runs, and of the runs.
const BOUNDS_AHEAD: usize = 32;
const RUNS_AHEAD: usize = 16;

/// An index of a right column of keys.
pub struct Right<K: Key> {
    first_occurrences: FirstOccurrences<K>,
    /// `None` if no key occurs twice.
    runs: Option<Runs>,
}

impl<K: Key> Right<K> {
    pub(crate) fn of(cpu: &Cpu, keys: &[K]) -> Result<Self> {
        let first_occurrences = cpu.first_occurrences(keys)?;
        let runs = if first_occurrences.all_distinct() {
            None
        } else {
            Some(Runs::of(cpu, &cpu.found_first_occurrences(&first_occurrences, keys)?)?)
        };
        Ok(Right { first_occurrences, runs })
    }

    /// The number of rows of the column.
    pub(crate) fn len(&self) -> usize {
        self.first_occurrences.rows()
    }

    /// The number of distinct keys.
    pub(crate) fn keys_len(&self) -> usize {
        self.first_occurrences.distinct()
    }

    /// The first right row of each left row, and the number of results.
    #[inline(always)]
    fn probe(&self, left: &[K], kind: JoinKind, first_occurrences: &mut [u32]) -> u64 {
        self.first_occurrences.seek(left, first_occurrences);
        at_best(
            #[inline(always)]
            || self.results(kind, first_occurrences),
        )
    }

    /// The number of results of left rows with these first right rows.
    #[inline(always)]
    fn results(&self, kind: JoinKind, first_occurrences: &[u32]) -> u64 {
        let found = || first_occurrences.iter().filter(|&&first| first != NO_ROW).count() as u64;
        match (kind, &self.runs) {
            (JoinKind::Semi, _) | (JoinKind::Inner | JoinKind::Right, None) => found(),
            (JoinKind::Anti, _) => first_occurrences.len() as u64 - found(),
            (JoinKind::Left | JoinKind::Full, None) => first_occurrences.len() as u64,
            (_, Some(runs)) => {
                let alone = if kind.keeps_left() { first_occurrences.len() as u64 - found() } else { 0 };
                alone + runs.total(first_occurrences)
            }
        }
    }

    /// Writes results `skip..` of left rows, numbered from `row`, until `left` is full, and returns the number written.
    /// `right` is empty for semi and anti joins.
    fn write(
        &self,
        kind: JoinKind,
        row: u32,
        first_occurrences: &[u32],
        skip: u64,
        left: &mut [u32],
        right: &mut [u32],
    ) -> usize {
        at_best(
            #[inline(always)]
            || match (kind, &self.runs) {
                (JoinKind::Semi, _) => keep(row, first_occurrences, skip, left, |first| first != NO_ROW),
                (JoinKind::Anti, _) => keep(row, first_occurrences, skip, left, |first| first == NO_ROW),
                (JoinKind::Left | JoinKind::Full, None) => {
                    let first_occurrences = first_occurrences.get(skip as usize..).unwrap_or(&[]);
                    let len = first_occurrences.len().min(left.len()).min(right.len());
                    right[..len].copy_from_slice(&first_occurrences[..len]);
                    left[..len].iter_mut().zip(row + skip as u32..).for_each(|(to, row)| *to = row);
                    len
                }
                (_, None) => pairs(row, first_occurrences, skip, left, right),
                (_, Some(runs)) => runs.write(kind.keeps_left(), row, first_occurrences, skip, left, right),
            },
        )
    }

    /// The right rows whose first rows have no bit, ascending.
    pub(crate) fn unmatched(&self, cpu: &Cpu, bits: &[u32]) -> Result<Vec<u32>> {
        let rows = self.len();
        let mut all = Memory::zeroed(bitmap_words(rows))?;
        let words = all.words_mut()?;
        match &self.runs {
            None => words.iter_mut().zip(bits).for_each(|(to, &bits)| *to = bits),
            Some(runs) => {
                let words = atomic_u32(words);
                cpu.run(|| runs.each_of(bits, |run| mark(run, words)))?;
            }
        }
        let bits = all.words();
        let ones: usize = bits.iter().map(|word| word.count_ones() as usize).sum();
        let mut alone = memory::reserved(rows.saturating_sub(ones))?;
        for (word, first) in bits.iter().zip((0..rows).step_by(32)) {
            let mut left = !word & u32::MAX >> (32 - (rows - first).min(32));
            while left != 0 {
                alone.push(first as u32 + left.trailing_zeros());
                left &= left - 1;
            }
        }
        Ok(alone)
    }

    /// Joins a left column.
    pub(crate) fn join(&self, cpu: &Cpu, left: &[K], kind: JoinKind) -> Result<Probed> {
        cpu.ledger().kernel("probe", left.len());
        let (mut first_occurrences, mut matched) = (Memory::zeroed(left.len())?, Memory::zeroed(0)?);
        if kind.keeps_right() {
            matched = Memory::zeroed(bitmap_words(self.len()))?;
        }
        let (words, bits) = (first_occurrences.words_mut()?, atomic_u32(matched.words_mut()?));
        let before = cpu
            .run(|| {
                let size = grain(left.len()) / CHUNK;
                let chunks = left.len().div_ceil(CHUNK);
                let mut results = memory::zeroed::<u64>(chunks + 1)?;
                // One number per chunk, and as many chunks at a time as one thread should process.
                each(
                    (left, words, Per(CHUNK, &mut results[..chunks])),
                    size * CHUNK,
                    |_, (left, first_occurrences, Per(_, to))| {
                        for ((left, first_occurrences), to) in
                            left.chunks(CHUNK).zip(first_occurrences.chunks_mut(CHUNK)).zip(to)
                        {
                            *to = self.probe(left, kind, first_occurrences);
                            if kind.keeps_right() {
                                mark(first_occurrences, bits);
                            }
                        }
                    },
                );
                Ok(running_sums(results))
            })
            .flatten()?;
        let alone = if kind.keeps_right() { self.unmatched(cpu, matched.words())? } else { Vec::new() };
        Ok(Probed { kind, first_occurrences, before, alone })
    }
}

impl<K: Key> std::fmt::Debug for Right<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Right").field("firsts", &self.first_occurrences).field("runs", &self.runs.is_some()).finish()
    }
}

/// The join of a left column, before its rows are written.
pub(crate) struct Probed {
    kind: JoinKind,
    /// The first right row of each left row.
    first_occurrences: Memory<u32>,
    /// The number of results before each chunk of left rows, and of all.
    before: Vec<u64>,
    /// The right rows that follow all others.
    alone: Vec<u32>,
}

impl Probed {
    /// The number of results.
    pub(crate) fn len(&self) -> u64 {
        self.listed() + self.alone.len() as u64
    }

    /// The number of results that have a left row.
    fn listed(&self) -> u64 {
        self.before.last().copied().unwrap_or(0)
    }

    /// Fills `left` and `right` with results from `first` on; `right` is empty for semi and anti joins. There must be
    /// enough results.
    pub(crate) fn write<K: Key>(
        &self,
        cpu: &Cpu,
        with: &Right<K>,
        first: u64,
        left: &mut [u32],
        right: &mut [u32],
    ) -> Result<()> {
        cpu.ledger().kernel("join rows", left.len());
        if right.is_empty() {
            return cpu.run(|| {
                each(left, PIECE, |piece, left| self.piece(with, first + (piece * PIECE) as u64, left, &mut []));
            });
        }
        cpu.run(|| {
            each((left, right), PIECE, |piece, (left, right)| {
                self.piece(with, first + (piece * PIECE) as u64, left, right);
            });
        })
    }

    fn piece<K: Key>(&self, with: &Right<K>, first: u64, left: &mut [u32], right: &mut [u32]) {
        let mut written = 0;
        // The last chunk that begins at this result or before it; empty chunks before it begin at the same result.
        let mut chunk = self.before.partition_point(|&before| before <= first).saturating_sub(1);
        let mut skip = first - self.before.get(chunk).copied().unwrap_or(first);
        let first_occurrences = self.first_occurrences.words();
        while written < left.len() && chunk + 1 < self.before.len() {
            let rows: Range<usize> = chunk * CHUNK..first_occurrences.len().min((chunk + 1) * CHUNK);
            let (left, right) = (&mut left[written..], right.get_mut(written..).unwrap_or_default());
            written += with.write(self.kind, rows.start as u32, &first_occurrences[rows], skip, left, right);
            (chunk, skip) = (chunk + 1, 0);
        }
        let behind = (first + written as u64).saturating_sub(self.listed());
        let alone = self.alone.get(usize::try_from(behind).unwrap_or(usize::MAX)..).unwrap_or(&[]);
        let (left, right) = (&mut left[written..], right.get_mut(written..).unwrap_or_default());
        left.fill(NO_ROW);
        right.iter_mut().zip(alone).for_each(|(to, &row)| *to = row);
    }
}

/// Sets the bits of matched first right rows.
fn mark(first_occurrences: &[u32], bits: &[AtomicU32]) {
    for &first in first_occurrences {
        // The longest bitmap has a bit for `NO_ROW`, which is not a row.
        if first != NO_ROW
            && let Some(word) = bits.get(first as usize / 32)
        {
            let bit = 1 << (first % 32);
            if word.load(Relaxed) & bit == 0 {
                word.fetch_or(bit, Relaxed);
            }
        }
    }
}

/// Writes the kept left rows, from the one with number `skip` on, until `left` is full.
#[inline(always)]
fn keep(row: u32, first_occurrences: &[u32], skip: u64, left: &mut [u32], kept: impl Fn(u32) -> bool) -> usize {
    let (mut skip, mut at) = (skip, 0);
    for (&first, row) in first_occurrences.iter().zip(row..) {
        if skip > 0 {
            skip -= u64::from(kept(first));
            continue;
        }
        let Some(to) = left.get_mut(at) else { break };
        // The next kept row overwrites a row that is not kept.
        *to = row;
        at += usize::from(kept(first));
    }
    at
}

/// As [`keep`], for inner joins in which a left row has at most one result.
#[inline(always)]
fn pairs(row: u32, first_occurrences: &[u32], skip: u64, left: &mut [u32], right: &mut [u32]) -> usize {
    let (mut skip, mut at) = (skip, 0);
    for (&first, row) in first_occurrences.iter().zip(row..) {
        let found = first != NO_ROW;
        if skip > 0 {
            skip -= u64::from(found);
            continue;
        }
        let (Some(to_left), Some(to_right)) = (left.get_mut(at), right.get_mut(at)) else { break };
        (*to_left, *to_right) = (row, first);
        at += usize::from(found);
    }
    at
}
