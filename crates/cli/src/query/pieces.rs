//! Writes results piece by piece, so that a whole result is never in memory.

use std::collections::HashSet;
use std::ops::Range;

use arrow_array::RecordBatch;
use rayon::prelude::*;

use super::Shape;
use crate::failure::{Failure, Result};
use crate::output::RowOptions;
use crate::progress::Progress;
use crate::tables::write::Sink;
use crate::text;

/// The number of rows of a join that are looked up at once: large, because a device is called for each chunk.
pub(super) const CHUNK: usize = 1 << 20;
/// Rows of a batch of the result: few, so that they are still in a cache when they are written.
pub(super) const BATCH: usize = 1 << 17;
/// Batches that are assembled at the same time: one thread would be slower than all others, which encode them.
const AT_ONCE: usize = 4;

/// Refuses a result in which two columns have the same name.
pub(super) fn check_names<'a>(mut names: impl Iterator<Item = &'a str>, advice: &str) -> Result<()> {
    let mut seen = HashSet::new();
    names.find(|name| !seen.insert(*name)).map_or(Ok(()), |name| {
        let name = text::name(name);
        Err(Failure::Input(format!("two columns of the result would be called `{name}`: {advice}")))
    })
}

/// The progress line while `rows` rows are written. There is none if rows are written to the terminal.
pub(super) fn progress_of(progress: Progress, output: &RowOptions, rows: u64) -> Option<Progress> {
    let progress = output.output.is_some().then_some(progress)?;
    progress.rows(rows);
    Some(progress)
}

/// Writes `rows` rows, which `make` assembles.
pub(super) fn write(
    sink: &mut Sink,
    rows: usize,
    shape: &Shape,
    make: impl Fn(Range<usize>) -> koel_arrow::Result<RecordBatch> + Sync,
) -> Result<()> {
    for start in (0..rows).step_by(AT_ONCE * BATCH) {
        let end = rows.min(start + AT_ONCE * BATCH);
        let starts = (start..end).into_par_iter().step_by(BATCH);
        let made: Vec<_> = starts.map(|first| batches(first..end.min(first + BATCH), shape, &make)).collect();
        for batches in made {
            batches?.iter().try_for_each(|batch| sink.write(batch))?;
        }
    }
    Ok(())
}

/// These rows in one batch, or in several if they are too long for one.
fn batches(
    rows: Range<usize>,
    shape: &Shape,
    make: &impl Fn(Range<usize>) -> koel_arrow::Result<RecordBatch>,
) -> Result<Vec<RecordBatch>> {
    match make(rows.clone()) {
        Ok(batch) => Ok(vec![shape.batch(batch)?]),
        // Text of a batch is limited to 2 GiB a column: half of the rows have less.
        Err(error) if rows.len() > 1 && error.is_too_long() => {
            let middle = rows.start + rows.len() / 2;
            let mut first = batches(rows.start..middle, shape, make)?;
            first.extend(batches(middle..rows.end, shape, make)?);
            Ok(first)
        }
        Err(error) => Err(error.into()),
    }
}
