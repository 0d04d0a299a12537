//! `koel isin`, with a table that is looked up while it is read.

use std::time::Instant;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use koel_arrow::external::Limit;
use koel_arrow::{RightKeys, can_be_equal};

use super::super::On;
use super::super::columns::{Loaded, Pieces, schema_of};
use super::super::isin::{Found, Job};
use super::watched::Watched;
use super::{Stop, batches, is_streamed, places};
use crate::failure::Result;
use crate::progress::Progress;

/// Writes the rows with their marks. Returns the progress line if the caller should process the tables in memory
/// instead: the table cannot be streamed, or types of keys differ. A key column without values takes the type of the
/// other side.
pub(in super::super) fn run(job: &Job<'_>, progress: Progress) -> Result<std::result::Result<Found, Progress>> {
    let [source, keys_source] = job.sources;
    let (needed, [by, right]) = (job.needed(), On::sides(job.on));
    if !is_streamed(std::slice::from_ref(job.device), source, &needed)? {
        return Ok(Err(progress));
    }
    let start = Instant::now();
    let keys = Loaded::read(keys_source, &right, Pieces::Many)?;
    let stream = source.stream(Some(&needed))?;
    let by = places(stream.schema(), &by)?;
    for (&at, name) in by.iter().zip(&right) {
        if !can_be_equal(stream.schema().field(at).data_type(), keys.column(name)?.data_type()) {
            return Ok(Err(progress));
        }
    }
    let index = RightKeys::new(job.device, &keys.keys(&right)?, job.nulls)?;
    let limit = Limit::new(u64::MAX);
    let rows = batches(stream, Vec::new(), &limit);
    let marked = RightKeys::marked_schema(rows.schema(), job.name);
    let mark = marked.fields().len() - 1;
    let mut order: Vec<usize> = (0..job.shown.len()).collect();
    order.insert(job.at, mark);
    let field = |&at: &usize| marked.field(at).clone().with_nullable(at != mark);
    let schema = schema_of(order.iter().map(field).collect());
    let watched = Watched::new(progress, job.output, "looking up");
    let mut results = watched.results(&schema, &limit)?;
    let mut there = 0;
    let rows = index.mark_batches(rows, &by, job.name, &limit, |rows: RecordBatch| {
        there += rows.column(mark).as_boolean().true_count() as u64;
        Ok::<_, Stop>(results.write(&rows.project(&order).map_err(koel_arrow::Error::from)?)?)
    });
    let rows = rows.map_err(|stop| stop.into_failure(Into::into))?;
    results.finish()?;
    Ok(Ok(Found { rows, there, keys: keys.rows(), read: None, isin: start.elapsed().as_secs_f64() }))
}
