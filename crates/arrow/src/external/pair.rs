//! Joins two parts: right rows in pieces that fit in memory, and all left rows of the part with each piece.
//!
//! ```text
//! too large   a right part that does not fit is partitioned again, and so is the left part
//! pieces      rows of one key cannot be partitioned: they are processed in pieces
//!   piece     build its index; look up each batch of left rows: pairs, in the order of left rows
//!   last one  left rows without a match in any piece
//!             right rows without a match
//! ```
//!
//! Results are runs. Each run is sorted by the row numbers in its last column: those of left rows, and for unmatched
//! right rows, which follow, those of right rows. Pieces are in the order of right rows, and so are their runs.

use std::sync::{Arc, OnceLock};

use arrow_array::{RecordBatch, UInt32Array};
use arrow_buffer::{BooleanBufferBuilder, NullBuffer};
use arrow_schema::{Field, SchemaRef};
use arrow_select::concat::concat_batches;
use koel::{Any, JoinKind, NO_ROW};
use rayon::prelude::*;

use super::devices::{Emit, Stop};
use super::hash::Hashing;
use super::join::{Join, Output};
use super::lengths::Lengths;
use super::merge::{ROWS, Run, write};
use super::ordered::{Ahead, in_order};
use super::parts::{Part, Parts, batched};
use super::right::{Indexed, RightRows, bits};
use super::spill::{Block, Spill};
use super::windows::LeftBatch;
use super::{Batches, Limit, Side, batch_of, memory};
use crate::encode::NullEquality;
use crate::error::{Error, Result};
use crate::plain::plain;
use crate::take::{nulls_like, take};

/// The greatest number of results that a lookup of a batch stores. If there are more, the batch is looked up again for
/// each piece of them. The limit is higher for GPUs, whose batches are larger.
const AT_ONCE: usize = 1 << 18;
const AT_ONCE_ON_GPU: usize = 1 << 23;

/// The parameters for joining parts.
pub(super) struct Pairing<'a> {
    on: &'a [(usize, usize)],
    pub(super) how: JoinKind,
    pub(super) nulls: NullEquality,
    columns: &'a [Output],
    /// The limit of one device.
    pub(super) limit: Limit,
    hashing: Hashing,
    /// The columns of the result; for parts, the row numbers follow.
    pub(super) schema: SchemaRef,
    /// The greatest number of results that are stored, and how many are passed on at a time.
    at_once: usize,
    piece: usize,
    /// One left row, if there is any: null columns of the left side get its dictionaries.
    left_like: OnceLock<RecordBatch>,
    /// Whether one thread gathers all columns of a batch, because there are enough morsels for all threads.
    pub(super) alone: bool,
}

/// The temporary files of results: those with left rows, and those with right rows only.
pub(super) type Files = [Spill; 2];

/// The runs of results in each of these files.
pub(super) type Runs = [Vec<Run>; 2];

/// The results of one device.
pub(super) struct Results<'a> {
    device: &'a Any,
    files: &'a Files,
    pub(super) runs: Runs,
}

impl<'a> Results<'a> {
    pub(super) fn new(device: &'a Any, files: &'a Files) -> Self {
        Results { device, files, runs: Runs::default() }
    }
}

/// Rows of the result, as row numbers of both sides. `left` or `right` is `None` if no row of the result has a row of
/// that side.
struct Found<'a> {
    left: Option<(&'a Left, UInt32Array)>,
    right: Option<(&'a RightRows, UInt32Array)>,
    rows: usize,
}

/// A batch of left rows.
struct Left {
    batch: RecordBatch,
    /// The lengths of the columns that the result has.
    lengths: Lengths,
}

impl Found<'_> {
    /// A range of the rows.
    fn some(&self, start: usize, rows: usize) -> Found<'_> {
        Found {
            left: self.left.as_ref().map(|(batch, of)| (*batch, of.slice(start, rows))),
            right: self.right.as_ref().map(|(columns, of)| (*columns, of.slice(start, rows))),
            rows,
        }
    }

    /// The number of rows from `start` on, at least one, that together take at most `most` bytes.
    fn within(&self, start: usize, most: u64) -> usize {
        let sides = [
            self.left.as_ref().map(|(left, rows)| (&left.lengths, rows)),
            self.right.as_ref().map(|(right, rows)| (&right.lengths, rows)),
        ];
        let rows = self.rows - start;
        let sides = || sides.iter().flatten();
        if sides().map(|(lengths, _)| lengths.longest()).sum::<u64>().saturating_mul(rows as u64) <= most {
            return rows;
        }
        // A missing row has an arbitrary number, and takes a slot.
        let of_row = |row: usize| -> u64 { sides().map(|(lengths, rows)| lengths.of_row(rows.value(row))).sum() };
        let sums = (start..self.rows).scan(0, |sum: &mut u64, row| {
            *sum += of_row(row);
            Some(*sum)
        });
        sums.take_while(|&sum| sum <= most).count().max(1)
    }
}

impl<'a> Pairing<'a> {
    pub(super) fn new(join: &Join<'a>, schema: SchemaRef, limit: Limit, hashing: Hashing) -> Self {
        let Join { on, how, nulls, columns, .. } = *join;
        Pairing {
            on,
            how,
            nulls,
            columns,
            limit,
            hashing,
            schema,
            at_once: AT_ONCE,
            piece: ROWS,
            left_like: OnceLock::new(),
            alone: false,
        }
    }

    /// Adapts the numbers of results to the batches of a GPU ([`Limit::device_bytes`]), which are large if there is no
    /// memory limit.
    pub(super) fn on_gpu(&mut self) {
        if !self.limit.is_set() {
            (self.at_once, self.piece) = (AT_ONCE_ON_GPU, AT_ONCE_ON_GPU);
        }
    }

    pub(super) fn files(&self) -> Result<Files> {
        Ok([Spill::new(self.limit.folder())?, Spill::new(self.limit.folder())?])
    }

    /// Joins the parts with this number, or partitions them again and joins the resulting parts.
    pub(super) fn join(
        &self,
        (left_side, left): (&Side, &Parts),
        (right_side, right): (&Side, &Parts),
        part: usize,
        results: &mut Results<'_>,
    ) -> Result<()> {
        if left.parts[part].rows == 0 && !self.how.keeps_right() {
            return Ok(());
        }
        let of = &right.parts[part];
        let is_little = self.limit.fits(of.rows, of.bytes) || left.parts[part].rows == 0;
        if !is_little && right.can_be_partitioned(part) {
            let own = right.heavy(part, right_side, self.hashing)?;
            let left = left.partition_again(part, left_side, self.hashing, &self.limit, &own)?;
            let right = right.partition_again(part, right_side, self.hashing, &self.limit, &own)?;
            return (0..right.parts.len())
                .try_for_each(|part| self.join((left_side, &left), (right_side, &right), part, results));
        }
        let pieces = self.pieces(&right.parts[part]);
        let how = self.how;
        let is_tracked = how.keeps_left() || matches!(how, JoinKind::Semi | JoinKind::Anti);
        let mut matched = Matched(is_tracked.then(|| bits(left.parts[part].rows as usize)));
        for (number, piece) in pieces.iter().enumerate() {
            let batches = piece.iter().map(|block| right.spill.read(block)).collect::<Result<_>>()?;
            let rows = RightRows::new(right_side, batches, &self.shown(false))?;
            let indexed = Indexed::new(results.device, &rows, how, self.nulls)?;
            let is_last = number + 1 == pieces.len();
            self.join_piece((left_side, left), part, &indexed, &mut matched, is_last, results)?;
            let (Results { files: [_, spill], runs: [_, runs], .. }, mut run) = (&mut *results, Run::new());
            self.rest(&[indexed], |batch| write(spill, &mut run, &batch, &self.limit))?;
            runs.extend((!run.is_empty()).then_some(run));
        }
        Ok(())
    }

    /// The blocks of a part, in pieces that fit in memory. A part without rows is one empty piece.
    fn pieces(&self, part: &Part) -> Vec<Vec<Block>> {
        let mut pieces = vec![Vec::new()];
        let (mut rows, mut bytes) = (0, 0);
        for &block in &part.blocks {
            (rows, bytes) = (rows + block.rows as u64, bytes + block.bytes());
            match pieces.last_mut() {
                Some(piece) if piece.is_empty() || self.limit.fits(rows, bytes) => piece.push(block),
                _ => {
                    pieces.push(vec![block]);
                    (rows, bytes) = (block.rows as u64, block.bytes());
                }
            }
        }
        pieces
    }

    /// Joins all left rows of a part with a piece of its right rows.
    fn join_piece(
        &self,
        (side, left): (&Side, &Parts),
        part: usize,
        right: &Indexed<'_>,
        matched: &mut Matched,
        is_last: bool,
        results: &mut Results<'_>,
    ) -> Result<()> {
        let how = self.how;
        let found_by = if how.has_right() { JoinKind::Inner } else { JoinKind::Semi };
        let keeps_unmatched = how.keeps_left() || how == JoinKind::Anti;
        let (mut run, mut rest) = (Run::new(), Run::new());
        let Results { files: [spill, _], runs: [runs, _], .. } = results;
        let mut start = 0;
        for blocks in left.parts[part].blocks.chunk_by(batched(self.limit.batch_bytes())) {
            let batches = blocks.iter().map(|block| left.spill.read(block)).collect::<Result<Vec<_>>>()?;
            let left = self.left(concat_batches(&side.schema, &batches)?);
            drop(batches);
            let all = left.batch.num_rows();
            self.found(side, &left, right, found_by, |mut found| {
                let Some((_, rows)) = &mut found.left else { return Ok::<_, Error>(()) };
                if how == JoinKind::Semi {
                    *rows = matched.new_ones(start, rows);
                    found.rows = rows.len();
                }
                matched.set(start, rows);
                match how {
                    JoinKind::Anti => Ok(()),
                    _ => self.put(&found, &mut |rows| write(spill, &mut run, &rows, &self.limit)),
                }
            })?;
            if is_last && keeps_unmatched {
                let rows = matched.missing(start, all);
                let found = Found { rows: rows.len(), left: Some((&left, rows)), right: None };
                self.put::<Error>(&found, &mut |rows| write(spill, &mut rest, &rows, &self.limit))?;
            }
            start += all;
        }
        runs.extend([run, rest].into_iter().filter(|run| !run.is_empty()));
        Ok(())
    }

    /// Joins a batch of left rows with all right rows.
    pub(super) fn whole<E: From<Error>>(
        &self,
        side: &Side,
        left: RecordBatch,
        right: &Indexed<'_>,
        mut take: impl FnMut(RecordBatch) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        self.left_like.get_or_init(|| left.slice(0, 1));
        self.found(side, &self.left(left), right, self.how, |found| self.put(&found, &mut take))
    }

    /// Joins all left rows with all right rows; all threads look up morsels. Returns the number of left rows.
    pub(super) fn streamed<E: From<Error> + Send>(
        &self,
        side: &Side,
        mut left: Batches<'_, E>,
        right: &Indexed<'_>,
        take: &mut dyn FnMut(RecordBatch) -> std::result::Result<(), E>,
    ) -> std::result::Result<u64, E> {
        let work = |batch: &RecordBatch, emit: Emit<'_, RecordBatch>| {
            side.cut(batch.clone(), self.limit.batch_bytes())
                .try_for_each(|piece| self.whole(side, piece?, right, &mut *emit))
        };
        in_order(&mut left.morsels, Ahead::of(&self.limit)?, &work, &mut |rows, _| take(rows))
    }

    /// Joins a batch of left rows with the right rows of its window.
    pub(super) fn merged(
        &self,
        side: &Side,
        left: &LeftBatch,
        emit: Emit<'_, RecordBatch>,
    ) -> std::result::Result<(), Stop> {
        let LeftBatch { batch, range, right } = left;
        side.cut(batch.clone(), self.limit.batch_bytes()).try_for_each(|batch| {
            let left = self.left(batch?);
            let keys = side.range_keys(&left.batch, *range, true)?;
            right.keys.join(&keys, self.how, |lefts, rights| {
                let rows = lefts.len();
                let right = self.how.has_right().then(|| (&right.rows, maybe_rows(rights)));
                self.put(&Found { left: Some((&left, lefts.into())), right, rows }, &mut *emit)
            })
        })
    }

    fn left(&self, batch: RecordBatch) -> Left {
        let shown = self.shown(true);
        let columns = shown.iter().map(|&at| std::slice::from_ref(batch.column(at)));
        Left { lengths: Lengths::of(columns, batch.num_rows(), self.alone), batch }
    }

    /// The columns of one side from which results are gathered. A key of the result is gathered from the key columns of
    /// both sides.
    pub(super) fn shown(&self, is_left: bool) -> Vec<usize> {
        let column = |output: &Output| match *output {
            Output::Left(at) => is_left.then_some(at),
            Output::Right(at) => (!is_left).then_some(at),
            Output::Key(number) => self.on.get(number).map(|&(own, other)| if is_left { own } else { other }),
        };
        self.columns.iter().filter_map(column).collect()
    }

    /// Passes on rows of the result, as many at a time as the memory limit allows.
    fn put<E: From<Error>>(
        &self,
        found: &Found<'_>,
        take: &mut dyn FnMut(RecordBatch) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let mut start = 0;
        while start < found.rows {
            let most = 2 * self.limit.batch_bytes();
            let mut rows = found.within(start, most);
            memory::check(most)?;
            let batch = loop {
                match self.assembled(&found.some(start, rows)) {
                    // The lengths of prepared rows are estimates, so the rows may be too long for one array.
                    Err(error) if error.is_too_long() && rows > 1 => rows /= 2,
                    batch => break batch?,
                }
            };
            take(batch)?;
            start += rows;
        }
        Ok(())
    }

    /// The matches of left rows, in pieces.
    fn found<E: From<Error>>(
        &self,
        side: &Side,
        left: &Left,
        right: &Indexed<'_>,
        how: JoinKind,
        mut take: impl FnMut(Found<'_>) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let probe = right.index().probe(&side.keys_of(&left.batch)?, how, self.at_once)?;
        let mut first = 0;
        while first < probe.len() {
            let rows = right.index().piece(&probe, first, self.piece)?;
            first += rows.left.len() as u64;
            right.see(&rows.right);
            let len = rows.left.len();
            let right = how.has_right().then(|| (right.rows, maybe_rows(rows.right)));
            take(Found { left: Some((left, rows.left.into())), right, rows: len })?;
        }
        Ok(())
    }

    /// The columns of rows of the result; for parts, also the row numbers by which results are sorted.
    fn assembled(&self, found: &Found<'_>) -> Result<RecordBatch> {
        let left = |at: usize| found.left.as_ref().map(|(left, rows)| Ok(take(left.batch.column(at), rows)?));
        let right = |at: usize| found.right.as_ref().map(|(right, rows)| right.columns[at].take(rows));
        let key = |number: usize| {
            let (own, other) = self.on[number];
            // Dictionaries are replaced by values, because one dictionary may not have enough keys for the values of
            // both sides.
            left(own).or_else(|| right(other)).map(|key| Ok(plain(&key?)?))
        };
        let column = |(at, field): (usize, &Arc<Field>)| {
            let column = match self.columns.get(at) {
                Some(&Output::Left(at)) => left(at),
                Some(&Output::Right(at)) => right(at),
                Some(&Output::Key(number)) => key(number),
                None => match (&found.left, &found.right) {
                    (Some((of, _)), _) => left(of.batch.num_columns() - 1),
                    (None, Some((of, _))) => right(of.columns.len() - 1),
                    (None, None) => None,
                },
            };
            column.unwrap_or_else(|| {
                let like = match (self.columns.get(at), self.left_like.get()) {
                    (Some(&Output::Left(at)), Some(left)) => Some(left.column(at)),
                    _ => None,
                };
                Ok(nulls_like(field.data_type(), like, found.rows)?)
            })
        };
        let fields = self.schema.fields();
        let columns = match self.alone {
            true => fields.iter().enumerate().map(column).collect::<Result<_>>()?,
            false => fields.par_iter().enumerate().map(column).collect::<Result<_>>()?,
        };
        batch_of(&self.schema, columns, found.rows)
    }

    /// Passes on the right rows without a match on any device, if they are in the result.
    pub(super) fn rest<E: From<Error>>(
        &self,
        of_devices: &[Indexed<'_>],
        mut take: impl FnMut(RecordBatch) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let Some(right) = of_devices.first().map(|of| of.rows) else { return Ok(()) };
        for rows in Indexed::unseen(of_devices).chunks(ROWS) {
            let found = Found { left: None, right: Some((right, rows.to_vec().into())), rows: rows.len() };
            self.put(&found, &mut take)?;
        }
        Ok(())
    }
}

/// Which left rows of a part have a match; `None` if that is not needed.
struct Matched(Option<BooleanBufferBuilder>);

impl Matched {
    fn set(&mut self, start: usize, rows: &UInt32Array) {
        if let Some(bits) = &mut self.0 {
            rows.values().iter().for_each(|&row| bits.set_bit(start + row as usize, true));
        }
    }

    fn is_set(&self, row: usize) -> bool {
        self.0.as_ref().is_some_and(|bits| bits.get_bit(row))
    }

    /// Those of the rows that had no match before.
    fn new_ones(&self, start: usize, rows: &UInt32Array) -> UInt32Array {
        rows.values().iter().copied().filter(|&row| !self.is_set(start + row as usize)).collect::<Vec<_>>().into()
    }

    /// The rows of a batch without a match.
    fn missing(&self, start: usize, rows: usize) -> UInt32Array {
        (0..rows as u32).filter(|&row| !self.is_set(start + row as usize)).collect::<Vec<_>>().into()
    }
}

/// Row numbers as a column, with null for a missing row.
fn maybe_rows(rows: Vec<u32>) -> UInt32Array {
    let nulls = rows.contains(&NO_ROW).then(|| NullBuffer::from_iter(rows.iter().map(|&row| row != NO_ROW)));
    UInt32Array::new(rows.into(), nulls)
}
