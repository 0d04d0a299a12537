//! `koel isin`, with a table that is looked up while it is read.

use std::time::Instant;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_schema::SchemaRef;
use koel_arrow::can_be_equal;
use koel_arrow::external::{Batches, IsIn, Limit};

use super::super::On;
use super::super::columns::schema_of;
use super::super::isin::{Found, Job};
use super::watched::Watched;
use super::{Ranges, Stop, batches, is_streamed, places};
use crate::failure::Result;
use crate::progress::Progress;
use crate::tables::read::Source;

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
    let limit = Limit::new(u64::MAX);
    let keys = match keys_source.is_fast_stream() {
        true => batches(keys_source.stream(Some(&right))?, Vec::new(), &limit, ranges(keys_source, &right)),
        false => {
            let table = keys_source.read(Some(&right))?;
            Batches::new(table.schema, table.batches.into_iter().map(Ok))
        }
    };
    let stream = source.stream(Some(&needed))?;
    let on: Vec<(usize, usize)> = places(stream.schema(), &by)?.into_iter().zip(0..).collect();
    let type_of = |schema: &SchemaRef, at: usize| schema.field(at).data_type().clone();
    if !on.iter().all(|&(own, key)| can_be_equal(&type_of(stream.schema(), own), &type_of(keys.schema(), key))) {
        return Ok(Err(progress));
    }
    let ranges = ranges(source, &by).map(|(_, ranges)| (on[0].0, ranges));
    let rows = batches(stream, Vec::new(), &limit, ranges);
    let is_in = IsIn { device: job.device, on: &on, nulls: job.nulls, name: job.name, limit: &limit };
    let marked = is_in.schema(rows.schema());
    let mark = marked.fields().len() - 1;
    let mut order: Vec<usize> = (0..job.shown.len()).collect();
    order.insert(job.at, mark);
    let field = |&at: &usize| marked.field(at).clone().with_nullable(at != mark);
    let schema = schema_of(order.iter().map(field).collect());
    let watched = Watched::new(progress, job.output, "looking up");
    let mut results = watched.results(&schema, &limit)?;
    let mut there = 0;
    let found = is_in.run(rows, keys, |rows: RecordBatch| {
        there += rows.column(mark).as_boolean().true_count() as u64;
        Ok::<_, Stop>(results.write(&rows.project(&order).map_err(koel_arrow::Error::from)?)?)
    });
    let [rows, keys] = found.map_err(|stop| stop.into_failure(Into::into))?;
    results.finish()?;
    Ok(Ok(Found { rows, there, keys, read: None, isin: start.elapsed().as_secs_f64() }))
}

/// The ranges of the first of these columns in the parts of a file, if they are known.
fn ranges(source: &Source, columns: &[String]) -> Option<Ranges> {
    Some((0, source.ranges(columns.first()?)?))
}
