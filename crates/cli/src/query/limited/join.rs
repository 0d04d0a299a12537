//! `koel join --memory`.

use std::collections::HashMap;
use std::time::Instant;

use arrow_schema::{DataType, Field, Schema};
use koel::backend::{DeviceKind, HashBackend};
use koel::device::Any;
use koel_arrow::external::{Join, Limit, Output};
use koel_arrow::{can_be_equal, plain_type};

use super::super::Shape;
use super::super::columns::schema_of;
use super::super::join::{From, Job};
use super::super::types::to_failure;
use super::watched::Watched;
use super::{Stop, batches, keeps_types, place};
use crate::failure::{Result, Verdict};
use crate::options;
use crate::progress::Progress;
use crate::tables::read::Source;
use crate::tables::read::stream::Stream;

pub(in super::super) fn run(
    job: &Job<'_>,
    devices: &[Any],
    sources: [&Source; 2],
    shape: &Shape,
    limit: &Limit,
    progress: Progress,
) -> Result<Verdict> {
    let start = Instant::now();
    let [left_needed, right_needed] = job.needed(sources);
    let streams = [sources[0].stream(Some(&left_needed))?, sources[1].stream(Some(&right_needed))?];
    let on =
        job.on.iter().map(|on| Ok((place(streams[0].schema(), &on.left)?, place(streams[1].schema(), &on.right)?)));
    let on: Vec<(usize, usize)> = on.collect::<Result<_>>()?;
    let nulls = open_types(&streams, &on);
    let [left, right] = streams;
    let [left_nulls, right_nulls] = nulls;
    // The footer may not state the length of texts, so it does not show whether rows fit within a limit.
    let is_known = |stream: &Stream<'_>| {
        let mut types = stream.schema().fields().iter().map(|field| field.data_type());
        !job.options.memory.is_given() || types.all(|of| of.primitive_width().is_some())
    };
    let (mut of_left, mut of_right) = (None, None);
    if let ([names], [places]) = (job.on, &on[..])
        && is_known(&left)
        && is_known(&right)
    {
        of_left = sources[0].ranges(&names.left).map(|ranges| (places.0, ranges));
        of_right = sources[1].ranges(&names.right).map(|ranges| (places.1, ranges));
    }
    let left = batches(left, left_nulls, limit, of_left);
    let right = batches(right, right_nulls, limit, of_right);
    let type_of = |schema: &arrow_schema::Schema, at: usize| plain_type(schema.field(at).data_type());
    let differ = |key: usize| type_of(left.schema(), on[key].0) != type_of(right.schema(), on[key].1);
    let outs = job.chosen(job.columns(sources, differ))?;
    let (of_left, of_right) = (places(left.schema()), places(right.schema()));
    let output = |from: &From| match from {
        From::Left(name) => of_left.get(name.as_str()).copied().map(Output::Left),
        From::Right(name) => of_right.get(name.as_str()).copied().map(Output::Right),
        From::Key(at) => Some(Output::Key(*at)),
    };
    // All of them are among the columns that are needed.
    let columns: Vec<Output> = outs.iter().filter_map(|out| output(&out.from)).collect();
    let watched = Watched::new(progress, job.output, "joining");
    let watch = |stage| watched.show(stage);
    let nulls = job.options.nulls.equality();
    let join = Join { devices, on: &on, how: job.how, nulls, columns: &columns, limit, watch: &watch };
    let schema = join.schema(left.schema(), right.schema())?;
    let named = |(field, name): (&std::sync::Arc<Field>, &String)| field.as_ref().clone().with_name(name);
    let schema = schema_of(schema.fields().iter().zip(outs.iter().map(|out| &out.name)).map(named).collect());
    let mut results = watched.results(&shape.schema(&schema), limit)?;
    let rows = join.run(left, right, |rows| Ok(results.write(&shape.batch(rows)?)?));
    let rows = rows.map_err(|stop: Stop| stop.into_failure(|error| to_failure(error, sources)))?;
    let total = results.finish()?;
    job.summarize(options::ids(devices), [rows.left, rows.right], total, rows.spilled, None, start)
}

/// Whether left rows are looked up while they are read, even without a limit: on CPUs, if a stream of the left table is
/// as fast. Columns of dictionaries would become their values.
pub(in super::super) fn pays(job: &Job<'_>, devices: &[Any], sources: [&Source; 2]) -> Result<bool> {
    let [left, right] = job.needed(sources);
    let are_cpus = devices.iter().all(|device| device.info().kind == DeviceKind::Cpu);
    Ok(are_cpus && sources[0].is_fast_stream() && keeps_types(sources[0], &left)? && keeps_types(sources[1], &right)?)
}

/// The position of each column.
fn places(schema: &Schema) -> HashMap<&str, usize> {
    schema.fields().iter().enumerate().map(|(place, field)| (field.name().as_str(), place)).collect()
}

/// Keys without a known type: text without values, and nulls. They become nulls of the other side's type.
fn open_types([left, right]: &[Stream<'_>; 2], on: &[(usize, usize)]) -> [Vec<(usize, DataType)>; 2] {
    let mut nulls = [Vec::new(), Vec::new()];
    for &(own, other) in on {
        let (own_field, other_field) = (left.schema().field(own), right.schema().field(other));
        let (own_type, other_type) = (own_field.data_type(), other_field.data_type());
        let is_open = |stream: &Stream<'_>, field: &Field| {
            stream.is_untyped(field.name()) || plain_type(field.data_type()) == DataType::Null
        };
        if can_be_equal(own_type, other_type) {
        } else if is_open(left, own_field) {
            nulls[0].push((own, other_type.clone()));
        } else if is_open(right, other_field) {
            nulls[1].push((other, own_type.clone()));
        }
    }
    nulls
}
