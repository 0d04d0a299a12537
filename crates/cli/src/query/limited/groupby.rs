//! `koel groupby --by --memory`.

use std::time::Instant;

use arrow_schema::Field;
use koel_arrow::Function;
use koel_arrow::external::{GroupBy, Limit, Of, result_type};
use serde_json::json;

use super::super::columns::{schema_of, wanted_columns};
use super::super::groupby::{Asked, Job, told};
use super::watched::Watched;
use super::{Stop, place, with_nulls};
use crate::failure::{Failure, Result, Verdict};
use crate::options;
use crate::progress::Progress;
use crate::text;

pub(in super::super) fn run(job: &Job<'_>, of: &[String], limit: &Limit, progress: Progress) -> Result<Verdict> {
    let table = &job.table;
    let (devices, source) = table.source(of)?;
    let start = Instant::now();
    let stream = source.stream(Some(&wanted_columns(of, table.by)))?;
    // Text without values tells no type, and the sum of no numbers is none.
    let is_open = |asked: &Asked| {
        matches!(asked.function, Function::Sum | Function::Mean)
            && asked.column.as_ref().is_some_and(|column| stream.is_untyped(column))
    };
    let open: Vec<bool> = job.aggregates.iter().map(is_open).collect();
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
    let aggregates = job.aggregates.iter().zip(&open).map(aggregate).collect::<Result<Vec<_>>>()?;
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
    let told = |error| told(error, source.is_text());
    let groups = group_by.schema(rows.schema()).map_err(told)?;
    // Of key columns the file may say more than their type.
    let mut fields: Vec<Field> = groups.fields().iter().map(|field| field.as_ref().clone()).collect();
    for (field, &key) in fields.iter_mut().zip(&by) {
        let key = rows.schema().field(key);
        *field = key.clone().with_data_type(result_type(key.data_type())).with_nullable(true);
    }
    let schema = schema_of(fields);
    let mut results = watched.results(&schema, limit)?;
    let found = group_by.run(rows, |groups| Ok(results.write(&groups)?));
    let found = found.map_err(|stop: Stop| stop.told(told))?;
    results.finish()?;
    let all = text::counted(found.rows, "row");
    table.output.summarize(&format!("{} of {all}", text::counted(found.groups, "group")), || {
        json!({
            "rows": found.rows, "groups": found.groups, "order": table.order.name(), "device": options::ids(&devices),
            "memory": job.options.memory.bytes(), "spilled_bytes": found.spilled,
            "seconds": { "group": start.elapsed().as_secs_f64() },
        })
    })?;
    Ok(Verdict::Fine)
}
