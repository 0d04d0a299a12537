//! `koel unique --on --memory`: the first of each shown column, by key.

use std::time::Instant;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{BooleanArray, RecordBatch};
use arrow_schema::{DataType, Field};
use arrow_select::filter::filter_record_batch;
use koel::backend::HashBackend;
use koel_arrow::external::{GroupBy, Limit, Of};
use koel_arrow::{Function, plain_type};
use serde_json::json;

use super::super::columns::{batch, schema_of, wanted_columns};
use super::super::unique::Job;
use super::watched::Watched;
use super::{Stop, batches, place};
use crate::failure::{Failure, Result, Verdict};
use crate::progress::Progress;
use crate::text;

pub(in super::super) fn run(job: &Job<'_>, shown: &[String], limit: &Limit, progress: Progress) -> Result<Verdict> {
    let table = &job.table;
    if job.inverse.is_some() {
        let why = "the id of each row's key is known when all keys are in memory";
        return Err(Failure::Input(format!("--memory and --inverse: {why}: leave one of them out")));
    }
    let (device, source) = table.source()?;
    let start = Instant::now();
    let rows = batches(source.stream(Some(&wanted_columns(shown, table.by)))?, Vec::new());
    let by = table.by.iter().map(|name| place(rows.schema(), name)).collect::<Result<Vec<_>>>()?;
    let first = |name: &String| {
        let column = Some(place(rows.schema(), name)?);
        Ok::<_, Failure>(Of { function: Function::First, column, name: name.clone() })
    };
    let mut aggregates = shown.iter().map(first).collect::<Result<Vec<_>>>()?;
    let is_counted = job.counts || job.min_count > 1;
    aggregates.extend(is_counted.then(|| Of { function: Function::Count, column: None, name: "count".into() }));
    let field = |name: &String| {
        let field = rows.schema().field(place(rows.schema(), name)?);
        Ok::<_, Failure>(field.clone().with_data_type(plain_type(field.data_type())).with_nullable(true))
    };
    let mut fields = shown.iter().map(field).collect::<Result<Vec<_>>>()?;
    fields.extend(job.counts.then(|| Field::new("count", DataType::Int64, false)));
    let schema = schema_of(fields);
    let watched = Watched::new(progress, table.output, "finding keys of");
    let group_by = GroupBy {
        device: &device,
        by: &by,
        aggregates: &aggregates,
        order: table.order,
        nulls: job.options.nulls.keys(),
        limit,
        watch: &|stage| watched.tell(stage),
    };
    let mut results = watched.results(&schema, limit)?;
    let least = i64::from(job.min_count);
    let found = group_by.run(rows, |groups| {
        // Keys come out as the first row has them, if they are shown.
        let mut columns = groups.columns()[by.len()..].to_vec();
        let counts = is_counted.then(|| columns[shown.len()].as_primitive::<Int64Type>().clone());
        columns.truncate(schema.fields().len());
        let rows: RecordBatch = batch(&schema, columns, groups.num_rows())?;
        let rows = match counts.filter(|_| least > 1) {
            None => rows,
            Some(counts) => {
                let kept: BooleanArray = counts.values().iter().map(|&count| Some(count >= least)).collect();
                filter_record_batch(&rows, &kept).map_err(koel_arrow::Error::from)?
            }
        };
        Ok(results.write(&rows)?)
    });
    let found = found.map_err(|stop: Stop| stop.told(Failure::from))?;
    let total = results.finish()?;
    let all = text::counted(found.rows, "row");
    table.output.summarize(&format!("{} of {all}", text::counted(total, "distinct key")), || {
        json!({
            "rows": found.rows, "keys": total, "order": table.order.name(), "device": device.info().id,
            "memory": limit.bytes(), "spilled_bytes": found.spilled,
            "seconds": { "unique": start.elapsed().as_secs_f64() },
        })
    })?;
    Ok(Verdict::Fine)
}
