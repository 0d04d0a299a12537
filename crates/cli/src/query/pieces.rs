//! Results as they go out: piece after piece, so that the whole is never held.

use std::collections::HashSet;
use std::ops::Range;

use arrow_array::RecordBatch;

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

/// Refuses a result of which two columns would have one name.
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
    make: impl Fn(Range<usize>) -> koel_arrow::Result<RecordBatch>,
) -> Result<()> {
    (0..rows).step_by(BATCH).try_for_each(|first| write_range(sink, first..rows.min(first + BATCH), shape, &make))
}

fn write_range(
    sink: &mut Sink,
    rows: Range<usize>,
    shape: &Shape,
    make: &impl Fn(Range<usize>) -> koel_arrow::Result<RecordBatch>,
) -> Result<()> {
    match make(rows.clone()) {
        Ok(batch) => sink.write(&shape.batch(batch)?),
        // Text of a batch is limited to 2 GiB a column: half of the rows have less.
        Err(error) if rows.len() > 1 && error.is_too_long() => {
            let middle = rows.start + rows.len() / 2;
            write_range(sink, rows.start..middle, shape, make)?;
            write_range(sink, middle..rows.end, shape, make)
        }
        Err(error) => Err(error.into()),
    }
}
