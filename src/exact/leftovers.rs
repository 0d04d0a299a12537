//! Values outside of a column's window, stored as rows of groups. They are sorted by group and added up exactly.
//!
//! ```text
//! each thread                      appends rows to pieces, which are passed on without a copy
//! each chunk of the sorted rows    computes the results of runs that are within the chunk
//!                                  computes partial sums of the runs that continue in other chunks
//! in the end                       the partial sums of each run are merged
//!
//! a run of few values              an integer of 128 bits, in a window of 68 to 75 exponents up to the greatest one;
//!                                  values below the window change it by less than `below`:
//!                                  if integer - below and integer + below round to the same double, that is the sum
//! any other run                    a superaccumulator
//! ```
//!
//! A column with exponents of all sizes consists mostly of leftovers. If all of them are in one group, all threads add
//! them up together.

use std::ops::Range;

use super::window::{exponent, integer, unit};
use super::{ExactSum, nearest, quotient, signed};
use crate::error::Result;
use crate::memory;
use crate::parallel::{each, fold_with};

/// Rows that one thread adds up at a time, and rows per piece.
const CHUNK: usize = if cfg!(miri) { 32 } else { 1 << 14 };

/// The maximum number of values of a run that are added up in 128 bits.
const FEW: usize = 128;

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

    /// Replaces the group of each row.
    pub(crate) fn renumber(&mut self, group: impl Fn(u32) -> u32) {
        self.pieces.iter_mut().flat_map(|piece| &mut piece.ids).for_each(|id| *id = group(*id));
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

/// The leftovers of one group.
pub(crate) enum Rest<'a> {
    /// The bits of at most [`FEW`] values.
    Few(&'a [u64]),
    Sum(&'a mut ExactSum),
}

impl Rest<'_> {
    /// The sum of the leftovers and of `integer` times 2^`exponent`, rounded once; and that sum divided by `count`,
    /// rounded once, or NaN if the count is 0.
    pub(crate) fn results(self, integer: i128, exponent: i32, count: u64) -> [f64; 2] {
        let mut own;
        let sum = match self {
            Rest::Sum(sum) => sum,
            Rest::Few(values) => {
                if integer == 0
                    && let Some(found) = by_leading_bits(values, count)
                {
                    return found;
                }
                own = exact(values);
                &mut own
            }
        };
        sum.add_integer(integer, exponent);
        [sum.sum(), sum.mean(count)]
    }
}

fn exact(values: &[u64]) -> ExactSum {
    let mut sum = ExactSum::default();
    values.iter().for_each(|&bits| sum.add(f64::from_bits(bits)));
    sum
}

/// The sum of at most [`FEW`] values and its quotient by `count`, if the bits of the 68 greatest exponents determine
/// both. Rounding is monotonic: if both ends of an interval round to one double, so do all numbers between them.
pub(super) fn by_leading_bits(values: &[u64], count: u64) -> Option<[f64; 2]> {
    let greatest = values.iter().map(|&bits| exponent(bits)).max().filter(|&exponent| exponent < 2047)?;
    // The mantissas have 53 bits: the sum of all values is below 2^127.
    let width = 75 - values.len().next_power_of_two().ilog2();
    let low = (greatest + 1).saturating_sub(width).max(1);
    let (mut sum, mut below) = (0, 0);
    for &bits in values {
        match integer(bits, low, width) {
            Some(integer) => sum += integer,
            // The value has 53 bits, and is shifted down by at least one.
            None => below += 1 << 52,
        }
    }
    let both = |of: &dyn Fn(i128) -> f64| {
        let least = of(sum - below);
        (below == 0 || of(sum + below).to_bits() == least.to_bits()).then_some(least)
    };
    let unit = unit(low);
    let of_sum = |sum: i128| signed(sum < 0, nearest(sum.unsigned_abs(), unit, false));
    Some([both(&of_sum)?, both(&|sum| quotient(sum, unit, count))?])
}

/// Calls `of_group` once for each group, with its values, on all threads. Rows are sorted by group.
pub(crate) fn sums_of_runs(ids: &[u32], values: &[u64], of_group: impl Fn(u32, Rest<'_>) + Sync) -> Result<()> {
    let goes_on = |at: usize| at > 0 && at < ids.len() && ids[at - 1] == ids[at];
    // The parts of runs that begin before a chunk or end after it, in order.
    let of_chunk = |rows: Range<usize>| {
        let mut open = memory::reserved(2)?;
        let mut at = rows.start;
        for run in ids[rows.clone()].chunk_by(|a, b| a == b) {
            let (id, end) = (run[0], at + run.len());
            let values = &values[at..end];
            if (at == rows.start && goes_on(at)) || (end == rows.end && goes_on(end)) {
                open.push((id, exact(values)));
            } else if values.len() <= FEW {
                of_group(id, Rest::Few(values));
            } else {
                of_group(id, Rest::Sum(&mut exact(values)));
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
        of_group(*id, Rest::Sum(sum));
    }
    Ok(())
}
