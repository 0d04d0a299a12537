//! Values outside of a column's window: rows of groups, which are sorted by group and added up exactly.
//!
//! ```text
//! each thread                      appends rows to pieces, which change hands without a copy
//! each chunk of the sorted rows    runs that lie in it: their sums
//!                                  the runs at its ends, if they go on: their sums so far
//! in the end                       sums so far of one run are merged
//! ```
//!
//! A column with exponents of all sizes has little else than leftovers: one group of them all is added up by all
//! threads.

use std::ops::Range;

use super::ExactSum;
use crate::error::Result;
use crate::memory;
use crate::parallel::{each, fold_with};

/// Rows that one thread adds up at a time, and rows of a piece.
const CHUNK: usize = if cfg!(miri) { 32 } else { 1 << 14 };

/// Rows of groups: the group and the bits of the value of each.
#[derive(Debug, Default)]
pub(crate) struct Leftovers {
    pieces: Vec<Piece>,
}

#[derive(Debug, Default)]
struct Piece {
    ids: Vec<u32>,
    values: Vec<u64>,
}

impl Leftovers {
    #[inline]
    pub(crate) fn push(&mut self, id: u32, bits: u64) -> Result<()> {
        match self.pieces.last_mut() {
            Some(Piece { ids, values }) if ids.len() < ids.capacity() && values.len() < values.capacity() => {
                ids.push(id);
                values.push(bits);
                Ok(())
            }
            _ => self.push_slowly(id, bits),
        }
    }

    #[cold]
    fn push_slowly(&mut self, id: u32, bits: u64) -> Result<()> {
        if self.pieces.last().is_none_or(|piece| piece.ids.len() >= CHUNK) {
            memory::reserve(&mut self.pieces, 1)?;
            self.pieces.push(Piece::default());
        }
        let [.., Piece { ids, values }] = &mut self.pieces[..] else { return Ok(()) };
        memory::reserve(ids, 1)?;
        memory::reserve(values, 1)?;
        ids.push(id);
        values.push(bits);
        Ok(())
    }

    pub(crate) fn len(&self) -> usize {
        self.pieces.iter().map(|piece| piece.ids.len()).sum()
    }

    /// Joins the rows of both.
    pub(crate) fn and(mut self, mut others: Self) -> Result<Self> {
        memory::reserve(&mut self.pieces, others.pieces.len())?;
        self.pieces.append(&mut others.pieces);
        Ok(self)
    }

    /// Copies all rows to columns of their length.
    pub(crate) fn copy_to(&self, mut ids: &mut [u32], mut values: &mut [u64]) -> Result<()> {
        let mut duplicates = memory::reserved(self.pieces.len())?;
        for piece in &self.pieces {
            let (to_ids, to_values);
            (to_ids, ids) = ids.split_at_mut(piece.ids.len());
            (to_values, values) = values.split_at_mut(piece.ids.len());
            duplicates.push((piece, to_ids, to_values));
        }
        each(&mut duplicates[..], 1, |_, duplicates: &mut [(&Piece, &mut [u32], &mut [u64])]| {
            for (piece, ids, values) in duplicates {
                ids.copy_from_slice(&piece.ids);
                values.copy_from_slice(&piece.values);
            }
        });
        Ok(())
    }
}

/// Calls `of_group` once for each group, with the sum of its values, on all threads. Rows are sorted by group.
pub(crate) fn sums_of_runs(ids: &[u32], values: &[u64], of_group: impl Fn(u32, &mut ExactSum) + Sync) -> Result<()> {
    let goes_on = |at: usize| at > 0 && at < ids.len() && ids[at - 1] == ids[at];
    // Runs that begin before a chunk or end after it: the part in the chunk, in order.
    let of_chunk = |rows: Range<usize>| {
        let mut open = memory::reserved(2)?;
        let mut at = rows.start;
        for run in ids[rows.clone()].chunk_by(|a, b| a == b) {
            let (id, end) = (run[0], at + run.len());
            let mut sum = ExactSum::default();
            values[at..end].iter().for_each(|&bits| sum.add(f64::from_bits(bits)));
            if (at == rows.start && goes_on(at)) || (end == rows.end && goes_on(end)) {
                open.push((id, sum));
            } else {
                of_group(id, &mut sum);
            }
            at = end;
        }
        Ok(open)
    };
    let join = |a: Result<Vec<(u32, ExactSum)>>, b: Result<Vec<(u32, ExactSum)>>| {
        let (mut a, mut b) = (a?, b?);
        memory::reserve(&mut a, b.len())?;
        a.append(&mut b);
        Ok(a)
    };
    let Some(open) = fold_with(0..ids.len(), CHUNK, || (), |(), _, rows| of_chunk(rows), join) else { return Ok(()) };
    for run in open?.chunk_by_mut(|a, b| a.0 == b.0) {
        let [(id, sum), others @ ..] = run else { continue };
        others.iter().for_each(|(_, other)| sum.merge(other));
        of_group(*id, sum);
    }
    Ok(())
}
