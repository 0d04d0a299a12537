//! `koel unique --on --memory`: the first value of each shown column, by key.
//!
//! ```text
//! groups    key, shown columns, count: written when they are complete
//! --inverse
//!   groups  stored in a temporary file, with their ids
//!   ids     the table is read once more and joined with the groups by the key, in the order of the table's rows
//! ```

use std::sync::Arc;
use std::time::Instant;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, BooleanArray, RecordBatch, UInt64Array};
use arrow_schema::{DataType, Field, SchemaRef};
use arrow_select::filter::filter_record_batch;
use koel::JoinKind;
use koel::device::Any;
use koel_arrow::external::{GroupBy, Join, Limit, Of, Output, Spooled, result_type};
use koel_arrow::{Function, NullEquality, NullKeys};

use super::super::Shape;
use super::super::columns::{batch, schema_of, wanted_columns};
use super::super::unique::Job;
use super::watched::Watched;
use super::{Stop, batches, place, places};
use crate::failure::{Failure, Result, Verdict};
use crate::options;
use crate::progress::Progress;
use crate::tables::read::Source;
use crate::tables::write::{Flushed, Place};

pub(in super::super) fn run(
    job: &Job<'_>,
    shown: &[String],
    devices: &[Any],
    source: &Source,
    limit: &Limit,
    progress: Progress,
) -> Result<Verdict> {
    let table = &job.table;
    let shape = Shape::of(source, table.output);
    let start = Instant::now();
    let stream = source.stream_of(Some(&wanted_columns(shown, table.by)), table.by)?;
    let rows = batches(stream, Vec::new(), limit, None);
    let (by, aggregates) = (places(rows.schema(), table.by)?, aggregates(job, shown, rows.schema())?);
    let field = |name: &String| {
        let field = rows.schema().field(place(rows.schema(), name)?);
        Ok::<_, Failure>(field.clone().with_data_type(result_type(field.data_type())).with_nullable(true))
    };
    let mut fields = shown.iter().map(field).collect::<Result<Vec<_>>>()?;
    fields.extend(job.counts.then(|| Field::new("count", DataType::Int64, false)));
    let schema = schema_of(fields);
    let watched = Watched::new(progress, table.output, "finding keys of");
    let watch = |stage| watched.show(stage);
    let nulls = job.options.nulls.keys();
    let group_by =
        GroupBy { devices, by: &by, aggregates: &aggregates, order: table.order, nulls, limit, watch: &watch };
    // Keys that are shown have the form of the first row.
    let shown_of = |groups: &RecordBatch| {
        let columns = groups.columns()[by.len()..][..schema.fields().len()].to_vec();
        batch(&schema, columns, groups.num_rows())
    };
    let least = i64::from(job.min_count);
    let (found, total) = match job.inverse {
        None => {
            let mut results = watched.results(&shape.schema(&schema), limit)?;
            let found = group_by.run(rows, |groups| {
                let counts = groups.columns().last().filter(|_| least > 1);
                let rows = match counts {
                    None => shown_of(&groups)?,
                    Some(counts) => {
                        let counts = counts.as_primitive::<Int64Type>();
                        let kept: BooleanArray = counts.values().iter().map(|&count| Some(count >= least)).collect();
                        filter_record_batch(&shown_of(&groups)?, &kept).map_err(koel_arrow::Error::from)?
                    }
                };
                Ok(results.write(&shape.batch(rows)?)?)
            });
            (found.map_err(to_failure)?, results.finish()?)
        }
        Some(path) => {
            let spooled_schema = with_ids(&group_by.schema(rows.schema())?);
            let mut spooled = Spooled::new(&spooled_schema, limit);
            let mut next = 0;
            let found = group_by.run(rows, |groups| {
                let ids = UInt64Array::from_iter_values(next..next + groups.num_rows() as u64);
                next += groups.num_rows() as u64;
                let columns = [groups.columns(), &[Arc::new(ids)]].concat();
                Ok::<_, Stop>(spooled.push(&batch(&spooled_schema, columns, groups.num_rows())?)?)
            });
            let found = found.map_err(to_failure)?;
            let inverse = Inverse { devices, source, by: table.by, nulls, limit, watched: &watched };
            let mut inverse = Some(inverse.write(path, &mut spooled, &spooled_schema, found.groups)?);
            // The reader of stdout may close it, so the ids are written first.
            if table.output.output.is_none() {
                inverse.take().map(Flushed::finish).transpose()?;
            }
            let mut results = watched.results(&shape.schema(&schema), limit)?;
            for groups in spooled.read() {
                results.write(&shape.batch(shown_of(&groups?)?)?)?;
            }
            // Both files are complete before either gets its name.
            let rows = results.flush()?;
            inverse.map(Flushed::finish).transpose()?;
            (found, rows.finish()?)
        }
    };
    job.summarize(options::ids(devices), found.rows, total, found.spilled, None, start)
}

/// The first value of each shown column, and the number of rows if it is needed.
fn aggregates(job: &Job<'_>, shown: &[String], schema: &SchemaRef) -> Result<Vec<Of>> {
    let first = |name: &String| {
        let column = Some(place(schema, name)?);
        Ok::<_, Failure>(Of { function: Function::First, column, name: name.clone() })
    };
    let mut aggregates = shown.iter().map(first).collect::<Result<Vec<_>>>()?;
    let is_counted = job.counts || job.min_count > 1;
    aggregates.extend(is_counted.then(|| Of { function: Function::Count, column: None, name: "count".into() }));
    Ok(aggregates)
}

/// Whether keys are collected while the table is read, even without a limit. For --inverse, it would be read twice.
pub(in super::super) fn pays(job: &Job<'_>, shown: &[String], devices: &[Any], source: &Source) -> Result<bool> {
    let (columns, nulls) = (wanted_columns(shown, job.table.by), job.options.nulls.keys());
    let pays = || super::pays(&job.table, nulls, &columns, devices, source, |schema| aggregates(job, shown, schema));
    Ok(job.inverse.is_none() && pays()?)
}

fn to_failure(stop: Stop) -> Failure {
    stop.into_failure(Failure::from)
}

/// Adds the id of each group as the last column.
fn with_ids(groups: &SchemaRef) -> SchemaRef {
    let ids = Field::new("", DataType::UInt64, false);
    schema_of(groups.fields().iter().map(|field| field.as_ref().clone()).chain([ids]).collect())
}

/// The ids of a table's rows.
struct Inverse<'a> {
    devices: &'a [Any],
    source: &'a Source,
    by: &'a [String],
    nulls: NullKeys,
    limit: &'a Limit,
    watched: &'a Watched<'a>,
}

impl Inverse<'_> {
    /// Writes the id of each row's key; null for rows that were dropped.
    fn write(&self, path: &std::path::Path, groups: &mut Spooled, schema: &SchemaRef, count: u64) -> Result<Flushed> {
        let table = batches(self.source.stream(Some(self.by))?, Vec::new(), self.limit, None);
        let on: Vec<(usize, usize)> = (0..self.by.len()).map(|key| (key, key)).collect();
        let drops = self.nulls == NullKeys::Drop;
        let nulls = if drops { NullEquality::NothingEquals } else { NullEquality::NullEquals };
        let (columns, watch) = ([Output::Right(schema.fields().len() - 1)], |stage| self.watched.show(stage));
        let join = Join {
            devices: self.devices,
            on: &on,
            how: JoinKind::Left,
            nulls,
            columns: &columns,
            limit: self.limit,
            watch: &watch,
        };
        // Ids that fit have 32 bits, as without a limit, where they always fit.
        let of_ids = if count <= u32::MAX.into() { DataType::UInt32 } else { DataType::UInt64 };
        let ids = schema_of(vec![Field::new("id", of_ids.clone(), drops)]);
        let mut results = self.watched.results_in(Place::File(path), &ids, self.limit)?;
        let written = join.run(table, groups.batches(), |rows| {
            let narrow = rows.column(0).as_primitive::<arrow_array::types::UInt64Type>();
            let column: Arc<dyn Array> = match of_ids {
                DataType::UInt32 => Arc::new(narrow.unary::<_, arrow_array::types::UInt32Type>(|id| id as u32)),
                _ => Arc::clone(rows.column(0)),
            };
            Ok::<_, Stop>(results.write(&batch(&ids, vec![column], rows.num_rows())?)?)
        });
        written.map_err(to_failure)?;
        results.flush()
    }
}
