//! Merges the sorted results of parts.
//!
//! ```text
//! run      the results of a part: blocks of a spill file, sorted by their keys, which are in the last column
//! round    each run has a block in memory, and the least of the last keys of these blocks is the bound: all rows up to the
//!          bound are in memory, and are sorted by key; equal keys are in the order of runs
//! ```
//!
//! One block of each run and the next rows of the result are in memory.

use std::sync::Arc;

use arrow_array::{Array, RecordBatch};
use arrow_row::{RowConverter, Rows};
use arrow_schema::SchemaRef;
use rayon::prelude::*;

use super::lengths::Lengths;
use super::parts::numbers;
use super::spill::{Block, Encoded, Spill};
use super::{Limit, memory, rows_within};
use crate::canonical::canonical;
use crate::error::{Error, Result};
use crate::take::interleave;

/// The greatest number of rows of a batch of the result.
pub(super) const ROWS: usize = 1 << 16;

/// The greatest number of runs that are merged at a time.
const MOST_RUNS: usize = 128;

/// The results of a part.
pub(super) type Run = Vec<Block>;

/// The order of the results.
pub(super) enum Order {
    /// By the row numbers in the last column.
    Numbers,
    /// By the keys in the first columns, compared as rows of bytes. The number of these columns is given.
    Bytes(RowConverter, usize),
}

/// The keys of a block.
enum Keys {
    Numbers,
    Bytes(Rows),
}

/// A block in memory.
struct Open {
    batch: RecordBatch,
    keys: Keys,
    lengths: Lengths,
}

impl Open {
    fn is_behind(&self, row: usize, other: &Open, of: usize) -> bool {
        match (&self.keys, &other.keys) {
            (Keys::Bytes(own), Keys::Bytes(others)) => own.row(row) > others.row(of),
            _ => numbers(&self.batch)[row] > numbers(&other.batch)[of],
        }
    }
}

/// A run that is being read: its batches in order.
type Coming<'a> = Box<dyn Iterator<Item = Result<RecordBatch>> + 'a>;

/// Merges the rows of all runs into batches, which include the key columns. Rows with equal keys are in the order of
/// the runs.
pub(super) fn merged<E: From<Error>>(
    mut spill: Spill,
    mut runs: Vec<Run>,
    schema: &SchemaRef,
    order: &Order,
    limit: &Limit,
    mut take: impl FnMut(RecordBatch) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    // Adjacent runs are merged as long as there are too many runs to have a block of each in memory.
    while runs.chunk_by(merged_together(limit)).nth(1).is_some() {
        let fewer = Spill::new(limit.folder())?;
        let mut merged = Vec::new();
        for runs in runs.chunk_by(merged_together(limit)) {
            let mut merge = Merge::new(coming(&spill, runs), schema, order, limit)?;
            let mut run = Run::new();
            while let Some(batch) = merge.next()? {
                write(&fewer, &mut run, &batch, limit)?;
            }
            merged.push(run);
        }
        (spill, runs) = (fewer, merged);
    }
    let mut merge = Merge::new(coming(&spill, &runs), schema, order, limit)?;
    while let Some(batch) = merge.next()? {
        take(batch)?;
    }
    Ok(())
}

/// As [`merged`], for results in memory, each of which is sorted.
pub(super) fn merged_in_memory<E: From<Error>>(
    results: Vec<RecordBatch>,
    schema: &SchemaRef,
    order: &Order,
    limit: &Limit,
    mut take: impl FnMut(RecordBatch) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    let pieces = |of: RecordBatch| {
        (0..of.num_rows()).step_by(ROWS).map(move |start| Ok(of.slice(start, ROWS.min(of.num_rows() - start))))
    };
    let runs = results.into_iter().map(|of| Box::new(pieces(of)) as Coming<'_>).collect();
    let mut merge = Merge::new(runs, schema, order, limit)?;
    while let Some(batch) = merge.next()? {
        take(batch)?;
    }
    Ok(())
}

fn coming<'a>(spill: &'a Spill, runs: &'a [Run]) -> Vec<Coming<'a>> {
    runs.iter().map(|run| Box::new(run.iter().map(|block| spill.read(block))) as Coming<'a>).collect()
}

/// Returns a predicate for `chunk_by`: whether two adjacent runs are merged in the same step. A step merges at least
/// two runs, and otherwise as many as have a block each in memory, up to [`MOST_RUNS`].
fn merged_together(limit: &Limit) -> impl FnMut(&Run, &Run) -> bool {
    let most = limit.merged_bytes();
    let (mut runs, mut bytes) = (1, 0);
    move |run, next| {
        let block = |run: &Run| run.iter().map(Block::bytes).max().unwrap_or(0);
        (runs, bytes) = (runs + 1, bytes.max(block(run)) + block(next));
        let together = runs <= 2 || (runs <= MOST_RUNS && bytes <= most);
        if !together {
            (runs, bytes) = (1, 0);
        }
        together
    }
}

/// Appends rows to a run, in blocks so small that one per run fits in memory.
pub(super) fn write(spill: &Spill, run: &mut Run, batch: &RecordBatch, limit: &Limit) -> Result<()> {
    let mut rest = batch.clone();
    while rest.num_rows() > 0 {
        let rows = rows_within(&rest.slice(0, ROWS.min(rest.num_rows())), limit.block_bytes() as usize).0.max(1);
        run.push(spill.write(&Encoded::of(&rest.slice(0, rows))?)?);
        rest = rest.slice(rows, rest.num_rows() - rows);
    }
    Ok(())
}

/// A merge in progress.
struct Merge<'a> {
    runs: Vec<Coming<'a>>,
    order: &'a Order,
    /// For each run, the block that is being read, and its next row.
    open: Vec<Option<(usize, usize)>>,
    blocks: Vec<Open>,
    /// The next rows of the result, each as a block and a row in it.
    next: Vec<(usize, usize)>,
    /// The keys of the rows of the current round.
    keys: Vec<u64>,
    schema: SchemaRef,
    /// The greatest number of bytes of a batch.
    bytes: u64,
}

impl<'a> Merge<'a> {
    /// Merges runs whose batches have this schema.
    fn new(runs: Vec<Coming<'a>>, schema: &SchemaRef, order: &'a Order, limit: &Limit) -> Result<Self> {
        let (open, schema) = (vec![None; runs.len()], Arc::clone(schema));
        let (blocks, next, bytes) = (Vec::new(), Vec::new(), 2 * limit.batch_bytes());
        let mut merge = Merge { runs, order, open, blocks, next, keys: Vec::new(), schema, bytes };
        for run in 0..merge.runs.len() {
            merge.advance(run)?;
        }
        Ok(merge)
    }

    /// The next batch; `None` after the last one.
    fn next(&mut self) -> Result<Option<RecordBatch>> {
        let (mut rows, mut bytes) = (0, 0);
        loop {
            for &(block, row) in &self.next[rows..] {
                bytes += self.blocks[block].lengths.of_row(row as u32);
                if rows == ROWS || (rows > 0 && bytes > self.bytes) {
                    return self.first(rows).map(Some);
                }
                rows += 1;
            }
            if self.open.iter().all(Option::is_none) {
                return if rows == 0 { Ok(None) } else { self.first(rows).map(Some) };
            }
            self.round()?;
        }
    }

    /// Removes the first `rows` of the next rows, and returns them as a batch.
    fn first(&mut self, rows: usize) -> Result<RecordBatch> {
        memory::check(2 * self.bytes)?;
        let batch = self.batch(&self.next[..rows])?;
        self.next.drain(..rows);
        self.forget();
        Ok(batch)
    }

    /// Reads the next block of a run.
    fn advance(&mut self, run: usize) -> Result<()> {
        self.open[run] = None;
        for batch in self.runs[run].by_ref() {
            let batch = batch?;
            if batch.num_rows() == 0 {
                continue;
            }
            let keys = match self.order {
                Order::Numbers => Keys::Numbers,
                Order::Bytes(converter, keys) => {
                    let keys = batch.columns()[..*keys].iter().map(canonical).collect::<Result<Vec<_>>>()?;
                    Keys::Bytes(converter.convert_columns(&keys)?)
                }
            };
            let lengths = Lengths::of(batch.columns().iter().map(std::slice::from_ref), batch.num_rows(), false);
            self.blocks.push(Open { batch, keys, lengths });
            self.open[run] = Some((self.blocks.len() - 1, 0));
            break;
        }
        Ok(())
    }

    /// Appends all rows up to the bound, which is the least of the last keys of the open blocks. In runs after the one
    /// whose block ends with the bound, rows with an equal key are not appended yet: the next block of that run may
    /// begin with the same key, and its rows precede them.
    fn round(&mut self) -> Result<()> {
        let last = |(run, open): (usize, &Option<(usize, usize)>)| {
            open.map(|(block, _)| (run, block, self.blocks[block].batch.num_rows() - 1))
        };
        let ends = self.open.iter().enumerate().filter_map(last);
        let first = ends.reduce(|a, b| match self.blocks[a.1].is_behind(a.2, &self.blocks[b.1], b.2) {
            true => b,
            false => a,
        });
        let Some((least, end_block, end)) = first else { return Ok(()) };
        let end_of = &self.blocks[end_block];
        let start = self.next.len();
        let mut ended = Vec::new();
        for (run, open) in self.open.iter_mut().enumerate() {
            let Some((block, at)) = open else { continue };
            let (of, rows) = (&self.blocks[*block], self.blocks[*block].batch.num_rows());
            let waits = |row| match run <= least {
                true => of.is_behind(row, end_of, end),
                false => !end_of.is_behind(end, of, row),
            };
            let first = *at;
            // Binary search, because the rows of a block ascend.
            let mut past = rows;
            while *at < past {
                let middle = *at + (past - *at) / 2;
                if waits(middle) { past = middle } else { *at = middle + 1 }
            }
            self.next.extend((first..*at).map(|row| (*block, row)));
            if let Order::Numbers = self.order {
                self.keys.extend_from_slice(&numbers(&of.batch)[first..*at]);
            }
            if *at == rows {
                ended.push(run);
            }
        }
        self.sort(start);
        ended.into_iter().try_for_each(|run| self.advance(run))
    }

    /// Sorts the rows from position `start` on. The sort is stable, so rows with equal keys remain in the order of
    /// runs.
    fn sort(&mut self, start: usize) {
        let (blocks, rows, keys) = (&self.blocks, &mut self.next[start..], std::mem::take(&mut self.keys));
        if let Order::Bytes(..) = self.order {
            rows.sort_by(|&(a, i), &(b, k)| match (&blocks[a].keys, &blocks[b].keys) {
                (Keys::Bytes(own), Keys::Bytes(others)) => own.row(i).cmp(&others.row(k)),
                _ => std::cmp::Ordering::Equal,
            });
            return;
        }
        let ends = keys.iter().fold((u64::MAX, 0), |(least, most), &key| (key.min(least), key.max(most)));
        let between = usize::try_from(ends.1.saturating_sub(ends.0)).unwrap_or(usize::MAX);
        let unsorted = rows.to_vec();
        if between > 8 * rows.len() {
            let mut order: Vec<usize> = (0..rows.len()).collect();
            order.sort_by_key(|&at| keys[at]);
            rows.iter_mut().zip(order).for_each(|(row, at)| *row = unsorted[at]);
            return;
        }
        // Row numbers are close together, so this is a counting sort.
        let mut starts = vec![0_usize; between + 2];
        keys.iter().for_each(|key| starts[(key - ends.0) as usize + 1] += 1);
        (0..=between).for_each(|i| starts[i + 1] += starts[i]);
        for (key, row) in keys.iter().zip(unsorted) {
            let at = &mut starts[(key - ends.0) as usize];
            rows[*at] = row;
            *at += 1;
        }
    }

    fn batch(&self, rows: &[(usize, usize)]) -> Result<RecordBatch> {
        // Only the blocks that contain some of the rows are used.
        let mut place = vec![usize::MAX; self.blocks.len()];
        let mut used = Vec::new();
        let mut places = Vec::with_capacity(rows.len());
        for &(block, row) in rows {
            if place[block] == usize::MAX {
                place[block] = used.len();
                used.push(&self.blocks[block].batch);
            }
            places.push((place[block], row));
        }
        let column = |at: usize| {
            let pieces: Vec<&dyn Array> = used.iter().map(|batch| batch.column(at).as_ref()).collect();
            Ok(interleave(&pieces, &places)?)
        };
        let columns = (0..self.schema.fields().len()).into_par_iter().map(column).collect::<Result<Vec<_>>>()?;
        super::batch_of(&self.schema, columns, rows.len())
    }

    /// Drops blocks without remaining rows.
    fn forget(&mut self) {
        let mut kept = vec![false; self.blocks.len()];
        self.open.iter().flatten().for_each(|&(block, _)| kept[block] = true);
        self.next.iter().for_each(|&(block, _)| kept[block] = true);
        let mut places = vec![0; self.blocks.len()];
        let mut next = 0;
        for (place, kept) in places.iter_mut().zip(&kept) {
            *place = next;
            next += usize::from(*kept);
        }
        let mut kept = kept.into_iter();
        self.blocks.retain(|_| kept.next().unwrap_or(false));
        self.open.iter_mut().flatten().for_each(|(block, _)| *block = places[*block]);
        self.next.iter_mut().for_each(|(block, _)| *block = places[*block]);
    }
}
