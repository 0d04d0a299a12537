//! The results of gathered probe batches, slice by slice.
//!
//! ```text
//! gathered   batches of the probe side, whose rows are numbered through; their keys are asked at once
//! piece      some of their results, by probe rows, then build rows
//! slice      results of one batch, at most batch_size; the last one of a batch says so, and may be empty
//! ```
//!
//! Since results come by probe rows, those of a batch stand side by side: batches need not be put together to be taken from.

use std::ops::Range;

use datafusion::arrow::array::RecordBatch;
use datafusion::error::Result;
use koel::JoinRows;
use koel_arrow::Probe;

use super::index::Index;

/// Probe batches and what they have found.
pub(super) struct Pairs {
    batches: Vec<RecordBatch>,
    /// The batch whose results come next, and its rows.
    at: usize,
    rows: Range<u32>,
    probe: Probe,
    /// The most results of a piece.
    at_once: usize,
    /// Results before the piece, and those of it that have been given.
    before: u64,
    piece: JoinRows,
    given: usize,
}

/// Some results of one batch.
pub(super) struct Slice {
    /// The batch.
    pub(super) batch: usize,
    /// Its row, and the build row or [`koel::NO_ROW`], of each result.
    pub(super) probe: Vec<u32>,
    pub(super) build: Vec<u32>,
    /// Whether no more come of this batch.
    pub(super) is_last: bool,
}

impl Pairs {
    /// Results of batches, none of which is empty.
    pub(super) fn new(batches: Vec<RecordBatch>, probe: Probe, at_once: usize) -> Self {
        let rows = 0..batches.first().map_or(0, |batch| batch.num_rows() as u32);
        let piece = JoinRows { left: Vec::new(), right: Vec::new() };
        Pairs { batches, at: 0, rows, probe, at_once, before: 0, piece, given: 0 }
    }

    /// A batch by its place.
    pub(super) fn batch(&self, at: usize) -> &RecordBatch {
        &self.batches[at]
    }

    /// Whether [`load`](Self::load) has to be called before the next slice.
    pub(super) fn is_short(&self) -> bool {
        self.at < self.batches.len() && self.given == self.piece.left.len() && self.ahead() > 0
    }

    /// Results behind the piece.
    fn ahead(&self) -> u64 {
        self.probe.len().saturating_sub(self.before + self.piece.left.len() as u64)
    }

    /// Fetches the next piece. It may wait for a device.
    pub(super) fn load(&mut self, index: &Index) -> Result<()> {
        self.before += self.piece.left.len() as u64;
        self.given = 0;
        self.piece = index.piece(&self.probe, self.before, self.at_once)?;
        Ok(())
    }

    /// The next slice of at most so many results. None when all batches are done.
    pub(super) fn next(&mut self, most: usize) -> Option<Slice> {
        let batch = self.at;
        if batch == self.batches.len() {
            return None;
        }
        let rest = &self.piece.left[self.given..];
        let own = rest.partition_point(|&row| row < self.rows.end);
        let len = own.min(most.max(1));
        let is_last = len == own && (own < rest.len() || self.ahead() == 0);
        let these = self.given..self.given + len;
        let start = self.rows.start;
        let slice = Slice {
            batch,
            probe: self.piece.left[these.clone()].iter().map(|row| row - start).collect(),
            build: self.piece.right[these].to_vec(),
            is_last,
        };
        self.given += len;
        if is_last {
            self.at += 1;
            let next = self.batches.get(self.at).map_or(0, |batch| batch.num_rows() as u32);
            self.rows = self.rows.end..self.rows.end + next;
        }
        Some(slice)
    }
}
