//! The results of gathered probe batches, in slices.
//!
//! ```text
//! gathered   batches of the probe side, with consecutive row numbers; their keys are looked up together
//! piece      some of their results, by probe rows, then build rows
//! slice      at most batch_size results of one batch; the last one of a batch is marked, and may be empty
//! ```
//!
//! Results are ordered by probe rows, so those of a batch are adjacent, and batches need not be concatenated.

use std::ops::Range;

use datafusion::arrow::array::RecordBatch;
use datafusion::error::Result;
use koel::JoinRows;
use koel_arrow::Probe;

use super::index::Index;

/// Probe batches and their results.
pub(super) struct Pairs {
    batches: Vec<RecordBatch>,
    /// The batch whose results are next, and its rows.
    at: usize,
    rows: Range<u32>,
    probe: Probe,
    /// The most results of a piece.
    at_once: usize,
    /// The number of results before the piece, and of those of the piece that were returned.
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
    /// Whether it is the last slice of the batch.
    pub(super) is_last: bool,
}

impl Pairs {
    /// The results of batches; no batch may be empty.
    pub(super) fn new(batches: Vec<RecordBatch>, probe: Probe, at_once: usize) -> Self {
        let rows = 0..batches.first().map_or(0, |batch| batch.num_rows() as u32);
        let piece = JoinRows { left: Vec::new(), right: Vec::new() };
        Pairs { batches, at: 0, rows, probe, at_once, before: 0, piece, given: 0 }
    }

    /// The batch at this position.
    pub(super) fn batch(&self, at: usize) -> &RecordBatch {
        &self.batches[at]
    }

    /// Whether [`load`](Self::load) must be called before the next slice.
    pub(super) fn is_short(&self) -> bool {
        self.at < self.batches.len() && self.given == self.piece.left.len() && self.ahead() > 0
    }

    /// The number of results that follow the piece.
    fn ahead(&self) -> u64 {
        self.probe.len().saturating_sub(self.before + self.piece.left.len() as u64)
    }

    /// Loads the next piece. It may block on a device.
    pub(super) fn load(&mut self, index: &Index) -> Result<()> {
        self.before += self.piece.left.len() as u64;
        self.given = 0;
        self.piece = index.piece(&self.probe, self.before, self.at_once)?;
        Ok(())
    }

    /// The next slice of at most `most` results; `None` after the last batch.
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
