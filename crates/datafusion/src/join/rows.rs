//! Rows of the result, from rows of both sides.
//!
//! ```text
//! slice      results of one probe batch (pairs.rs)
//! filter     the residual condition over the pairs of a slice selects the results
//! marks      matched build rows are marked for the end
//! lonely     with a filter, unmatched probe rows are inserted between the others, in order
//! ```
//!
//! A slice may end between two pairs of one probe row. Whether that row has a match is known later: [`Open`] keeps the
//! state between slices.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions, UInt32Array, new_null_array,
};
use datafusion::arrow::buffer::{BooleanBuffer, NullBuffer};
use datafusion::arrow::compute::{filter_record_batch, take};
use datafusion::common::{JoinSide, JoinType};
use datafusion::error::{DataFusionError, Result};
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter};
use koel::NO_ROW;

use super::build::Build;
use super::pairs::Slice;
use super::spec::Spec;

/// Pairs of rows of both sides; [`NO_ROW`] for a missing build row.
struct Rows {
    probe: Vec<u32>,
    build: Vec<u32>,
}

/// The state of a batch before its last slice, if there is a filter.
#[derive(Default)]
pub(super) struct Open {
    /// The rows before this one are decided.
    next: u32,
    /// Whether row `next` has a match already.
    has_partner: bool,
    /// For joins that return probe rows only: whether each has a match.
    found: Vec<bool>,
}

impl Open {
    /// Inserts the unmatched rows up to `end`.
    fn with_lonely(&mut self, rows: Rows, end: u32) -> Rows {
        let mut all = Rows { probe: Vec::with_capacity(rows.probe.len()), build: Vec::with_capacity(rows.build.len()) };
        for (row, partner) in rows.probe.into_iter().zip(rows.build) {
            self.close(row, &mut all);
            self.has_partner = true;
            all.probe.push(row);
            all.build.push(partner);
        }
        self.close(end, &mut all);
        all
    }

    /// Decides all rows before `end`, and adds the unmatched ones.
    fn close(&mut self, end: u32, all: &mut Rows) {
        if end > self.next {
            all.probe.extend(self.next + u32::from(self.has_partner)..end);
            all.build.resize(all.probe.len(), NO_ROW);
            (self.next, self.has_partner) = (end, false);
        }
    }
}

impl Spec {
    /// The rows that a slice adds to the result, if any.
    pub(super) fn of_slice(
        &self,
        build: &Build,
        batch: &RecordBatch,
        slice: Slice,
        open: &mut Open,
    ) -> Result<Option<RecordBatch>> {
        let Slice { probe, build: partners, is_last, .. } = slice;
        let mut rows = Rows { probe, build: partners };
        if let Some(filter) = &self.filter {
            // The last row may have more pairs in the next slice.
            let end = if is_last { batch.num_rows() as u32 } else { rows.probe.last().copied().unwrap_or(0) };
            self.keep_passing(filter, build, batch, &mut rows)?;
            if self.is_of_probe_rows() {
                open.found.resize(batch.num_rows(), false);
                rows.probe.iter().for_each(|&row| open.found[row as usize] = true);
                if !is_last {
                    return Ok(None);
                }
                return self.of_probe_rows(batch, std::mem::take(open).found.into());
            }
            if self.keeps_probe() {
                rows = open.with_lonely(rows, end);
            }
        }
        if is_last {
            *open = Open::default();
        }
        if self.ends_with_build_rows() {
            rows.build.iter().filter(|&&row| row != NO_ROW).for_each(|&row| build.mark(row));
        }
        if self.is_of_build_rows() { Ok(None) } else { self.of_pairs(build, batch, rows) }
    }

    /// Removes the pairs for which the filter is not true.
    fn keep_passing(&self, filter: &JoinFilter, build: &Build, batch: &RecordBatch, rows: &mut Rows) -> Result<()> {
        if rows.probe.is_empty() {
            return Ok(());
        }
        let (probe, partners) = (numbers(rows.probe.clone()), numbers(rows.build.clone()));
        let columns = filter.column_indices().iter().map(|of| match of.side {
            JoinSide::Left => build.take(of.index, &partners),
            JoinSide::Right => Ok(take(batch.column(of.index), &probe, None)?),
            JoinSide::None => Err(no_side(of)),
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows.probe.len()));
        let pairs = RecordBatch::try_new_with_options(Arc::clone(filter.schema()), columns, &options)?;
        let passes = filter.expression().evaluate(&pairs)?.into_array(rows.probe.len())?;
        let Some(passes) = passes.as_boolean_opt() else {
            let what = format!("koel: a join filter is {}, and not a truth value", passes.data_type());
            return Err(DataFusionError::Internal(what));
        };
        let keep = |all: &mut Vec<u32>| {
            let mut pass = passes.iter();
            all.retain(|_| pass.next().flatten() == Some(true));
        };
        keep(&mut rows.probe);
        keep(&mut rows.build);
        Ok(())
    }

    fn of_pairs(&self, build: &Build, batch: &RecordBatch, rows: Rows) -> Result<Option<RecordBatch>> {
        let len = rows.probe.len();
        if len == 0 {
            return Ok(None);
        }
        // Each probe row has one match, as for a foreign key: its columns are unchanged.
        let is_whole = len == batch.num_rows() && rows.probe.iter().zip(0..).all(|(&row, i)| row == i);
        let (probe, partners) = (numbers(rows.probe), numbers(rows.build));
        let column = |of: &ColumnIndex| match of.side {
            JoinSide::Left => build.take(of.index, &partners),
            JoinSide::Right if is_whole => Ok(Arc::clone(batch.column(of.index))),
            JoinSide::Right => Ok(take(batch.column(of.index), &probe, None)?),
            JoinSide::None => Err(no_side(of)),
        };
        self.batch(len, column).map(Some)
    }

    /// The rows of a probe batch in a semi, anti or mark join of probe rows; `found` has a bit for each row with a
    /// match.
    pub(super) fn of_probe_rows(&self, batch: &RecordBatch, found: BooleanBuffer) -> Result<Option<RecordBatch>> {
        let found = BooleanArray::new(found, None);
        let all = self.batch(batch.num_rows(), |of: &ColumnIndex| match of.side {
            JoinSide::Right => Ok(Arc::clone(batch.column(of.index))),
            JoinSide::None => Ok(Arc::new(found.clone())),
            JoinSide::Left => Err(no_side(of)),
        })?;
        let kept = match self.how {
            JoinType::RightSemi => filter_record_batch(&all, &found)?,
            JoinType::RightAnti => filter_record_batch(&all, &BooleanArray::new(!found.values(), None))?,
            _ => all,
        };
        Ok(Some(kept).filter(|kept| kept.num_rows() > 0))
    }

    /// The build rows among `from..to` that belong to the end of the result.
    pub(super) fn of_build_rows(&self, build: &Build, from: u32, to: u32) -> Result<Option<RecordBatch>> {
        let wanted = |row: &u32| match self.how {
            JoinType::LeftSemi => build.is_found(*row),
            JoinType::LeftMark => true,
            _ => !build.is_found(*row),
        };
        let rows: Vec<u32> = (from..to).filter(wanted).collect();
        if rows.is_empty() {
            return Ok(None);
        }
        let len = rows.len();
        let mark: ArrayRef = match self.how {
            JoinType::LeftMark => Arc::new(rows.iter().map(|&row| Some(build.is_found(row))).collect::<BooleanArray>()),
            _ => Arc::new(BooleanArray::new_null(0)),
        };
        let rows = numbers(rows);
        let column = |of: &ColumnIndex| match of.side {
            JoinSide::Left => build.take(of.index, &rows),
            JoinSide::Right => Ok(new_null_array(self.probe_schema.field(of.index).data_type(), len)),
            JoinSide::None => Ok(Arc::clone(&mark)),
        };
        self.batch(len, column).map(Some)
    }

    fn batch(&self, rows: usize, column: impl Fn(&ColumnIndex) -> Result<ArrayRef>) -> Result<RecordBatch> {
        let columns = self.columns.iter().map(column).collect::<Result<_>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }
}

/// Row numbers for `take`: null for a missing row.
fn numbers(rows: Vec<u32>) -> UInt32Array {
    let nulls = rows.contains(&NO_ROW).then(|| NullBuffer::from_iter(rows.iter().map(|&row| row != NO_ROW)));
    UInt32Array::new(rows.into(), nulls)
}

fn no_side(of: &ColumnIndex) -> DataFusionError {
    DataFusionError::Internal(format!("koel: column {} of {:?} is not a column of this join", of.index, of.side))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lonely_rows_are_in_order_wherever_slices_end() {
        // Of 6 rows, row 1 matches 7 and 8, and row 4 matches 9.
        let pairs = [(1, 7), (1, 8), (4, 9)];
        let whole = [(0, NO_ROW), (1, 7), (1, 8), (2, NO_ROW), (3, NO_ROW), (4, 9), (5, NO_ROW)];
        for cut in 0..=3 {
            let (mut open, mut all) = (Open::default(), Vec::new());
            for (slice, is_last) in [(&pairs[..cut], false), (&pairs[cut..], true)] {
                let end = if is_last { 6 } else { slice.last().map_or(0, |&(row, _)| row) };
                let (probe, build) = slice.iter().copied().unzip();
                let rows = open.with_lonely(Rows { probe, build }, end);
                all.extend(rows.probe.into_iter().zip(rows.build));
            }
            assert_eq!(all, whole, "cut at {cut}");
        }
        // A row whose pairs in the first slice were removed by the filter may still have a match.
        let mut open = Open::default();
        let first = open.with_lonely(Rows { probe: vec![], build: vec![] }, 2);
        assert_eq!((first.probe, first.build), (vec![0, 1], vec![NO_ROW; 2]));
        let second = open.with_lonely(Rows { probe: vec![2], build: vec![5] }, 3);
        assert_eq!((second.probe, second.build), (vec![2], vec![5]));
    }
}
