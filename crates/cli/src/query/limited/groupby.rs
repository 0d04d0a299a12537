//! `koel groupby --memory`.

use std::time::Instant;

use arrow_schema::Field;
use koel_arrow::external::{GroupBy, Limit, Of, result_type};
use koel_arrow::{Error, Function};
use serde_json::json;

use super::super::Shape;
use super::super::columns::{schema_of, wanted_columns};
use super::super::groupby::{Asked, Job, sum_too_large, told};
use super::watched::Watched;
use super::{Stop, place, with_nulls};
use crate::failure::{Failure, Result, Verdict};
use crate::options;
use crate::progress::Progress;
use crate::text;

pub(in super::super) fn run(job: &Job<'_>, of: &[String], limit: &Limit, progress: Progress) -> Result<Verdict> {
    let table = &job.table;
    let (devices, source) = table.source(of)?;
    let shape = Shape::of(&source, table.output);
    let start = Instant::now();
    let stream = source.stream(Some(&wanted_columns(of, table.by)))?;
    // Text without values determines no type, and a sum without numbers is null.
    let is_open = |asked: &Asked| {
        matches!(asked.function, Function::Sum | Function::Mean)
            && asked.column.as_ref().is_some_and(|column| stream.is_untyped(column))
    };
    let computed = job.computed();
    let open: Vec<bool> = computed.iter().map(is_open).collect();
    let nulls = stream.schema().fields().len();
    let rows = with_nulls(stream);
    let by = table.by.iter().map(|name| place(rows.schema(), name)).collect::<Result<Vec<_>>>()?;
    let aggregate = |(asked, &is_open): (&Asked, &bool)| {
        let of = asked.column.as_deref();
        let column = match is_open {
            true => Some(nulls),
            false => of.map(|column| place(rows.schema(), column)).transpose()?,
        };
        Ok::<_, Failure>(Of { function: asked.function, column, name: asked.shown() })
    };
    let aggregates = computed.iter().zip(&open).map(aggregate).collect::<Result<Vec<_>>>()?;
    let watched = Watched::new(progress, table.output, "grouping");
    let group_by = GroupBy {
        devices: &devices,
        by: &by,
        aggregates: &aggregates,
        order: table.order,
        nulls: job.options.nulls.keys(),
        limit,
        watch: &|stage| watched.tell(stage),
    };
    let told = |error| match error {
        Error::Overflow { .. } if job.is_unnamed() => sum_too_large("a sum of values of one key"),
        error => told(error, source.is_text()),
    };
    let groups = group_by.schema(rows.schema()).map_err(told)?;
    // Of key columns the file may say more than their type.
    let mut fields: Vec<Field> = groups.fields().iter().map(|field| field.as_ref().clone()).collect();
    for (field, &key) in fields.iter_mut().zip(&by) {
        let key = rows.schema().field(key);
        *field = key.clone().with_data_type(result_type(key.data_type())).with_nullable(true);
    }
    fields.truncate(by.len() + job.aggregates.len());
    let schema = schema_of(fields);
    let mut results = watched.results(&shape.schema(&schema), limit)?;
    let found = group_by.run(rows, |groups| Ok(results.write(&shape.batch(job.kept(groups)?)?)?));
    let found = found.map_err(|stop: Stop| stop.told(told))?;
    let total = results.finish()?;
    let all = text::counted(found.rows, "row");
    table.output.summarize(&format!("{} of {all}", text::counted(total, "group")), || {
        json!({
            "rows": found.rows, "groups": total, "ids": table.order.name(), "min_count": job.min_count,
            "device": options::ids(&devices), "aggregates": job.names(), "memory": job.options.memory.bytes(), "spilled_bytes": found.spilled,
            "seconds": { "group": start.elapsed().as_secs_f64() },
        })
    })?;
    Ok(Verdict::Fine)
}
