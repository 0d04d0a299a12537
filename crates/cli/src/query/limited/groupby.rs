//! `koel groupby --memory`.

use std::time::Instant;

use arrow_schema::{Field, SchemaRef};
use koel::device::Any;
use koel_arrow::external::{GroupBy, Limit, Of, result_type};
use koel_arrow::{Error, Function};

use super::super::Shape;
use super::super::columns::{schema_of, wanted_columns};
use super::super::groupby::{AggregateSpec, Job, sum_too_large, to_failure};
use super::watched::Watched;
use super::{Stop, place, places, with_nulls};
use crate::failure::{Result, Verdict};
use crate::options;
use crate::progress::Progress;
use crate::tables::read::Source;

pub(in super::super) fn run(
    job: &Job<'_>,
    of: &[String],
    devices: &[Any],
    source: &Source,
    limit: &Limit,
    progress: Progress,
) -> Result<Verdict> {
    let table = &job.table;
    let shape = Shape::of(source, table.output);
    let start = Instant::now();
    let stream = source.stream_of(Some(&wanted_columns(of, table.by)), table.by)?;
    let nulls = stream.schema().fields().len();
    let (by, mut aggregates) = (places(stream.schema(), table.by)?, aggregates(job, stream.schema())?);
    // Text without values does not determine a type, and a sum of no numbers is null.
    for (of, requested) in aggregates.iter_mut().zip(job.computed()) {
        let is_summed = matches!(requested.function, Function::Sum | Function::Mean);
        if is_summed && requested.column.is_some_and(|column| stream.is_untyped(&column)) {
            of.column = Some(nulls);
        }
    }
    let rows = with_nulls(stream, limit);
    let watched = Watched::new(progress, table.output, "grouping");
    let group_by = GroupBy {
        devices,
        by: &by,
        aggregates: &aggregates,
        order: table.order,
        nulls: job.options.nulls.keys(),
        limit,
        watch: &|stage| watched.show(stage),
    };
    let to_failure = |error| match error {
        Error::Overflow { .. } if job.is_unnamed() => sum_too_large("a sum of values of one key"),
        error => to_failure(error, source.is_text()),
    };
    let groups = group_by.schema(rows.schema()).map_err(to_failure)?;
    // Key columns keep the metadata of the file's fields.
    let mut fields: Vec<Field> = groups.fields().iter().map(|field| field.as_ref().clone()).collect();
    for (field, &key) in fields.iter_mut().zip(&by) {
        let key = rows.schema().field(key);
        *field = key.clone().with_data_type(result_type(key.data_type())).with_nullable(true);
    }
    fields.truncate(by.len() + job.aggregates.len());
    let schema = schema_of(fields);
    let mut results = watched.results(&shape.schema(&schema), limit)?;
    let found = group_by.run(rows, |groups| Ok(results.write(&shape.batch(job.kept(groups)?)?)?));
    let found = found.map_err(|stop: Stop| stop.into_failure(to_failure))?;
    let total = results.finish()?;
    job.summarize(options::ids(devices), found.rows, total, found.spilled, None, start)
}

/// The aggregates, with the positions of their columns.
fn aggregates(job: &Job<'_>, schema: &SchemaRef) -> Result<Vec<Of>> {
    let aggregate = |requested: AggregateSpec| {
        let column = requested.column.as_deref().map(|column| place(schema, column)).transpose()?;
        Ok(Of { function: requested.function, column, name: requested.shown() })
    };
    job.computed().into_iter().map(aggregate).collect()
}

/// Whether the table is grouped while it is read, even without a limit.
pub(in super::super) fn pays(job: &Job<'_>, of: &[String], devices: &[Any], source: &Source) -> Result<bool> {
    let columns = wanted_columns(of, job.table.by);
    super::pays(&job.table, job.options.nulls.keys(), &columns, devices, source, |schema| aggregates(job, schema))
}
