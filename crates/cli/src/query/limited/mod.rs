//! Commands that read a table batch by batch: with --memory, where temporary files store what does not fit; on several
//! devices; and where that is faster.
//!
//! ```text
//! join.rs, groupby.rs, unique.rs, isin.rs     one command each: how it uses koel_arrow::external
//! watched.rs                                  its progress, and the output of results
//! ```
//!
//! Output has the same bytes as without a limit, except that columns of dictionaries are written as their values.

pub(super) mod groupby;
pub(super) mod isin;
pub(super) mod join;
pub(super) mod unique;
mod watched;

use std::sync::Arc;

use arrow_array::{RecordBatch, new_null_array};
use arrow_schema::{DataType, Field, SchemaRef};
use arrow_select::concat::concat_batches;
use koel::device::Any;
use koel_arrow::NullKeys;
use koel_arrow::external::{
    Batches, GroupBy, KeyRange, Limit, Morsel, Of, RangedMorsel, ReadMorsel, result_type, row_bytes,
};

use super::columns::{batch, schema_of};
use super::keyed::KeyedTable;
use crate::failure::{Failure, Result};
use crate::tables::read::Source;
use crate::tables::read::stream::{Stream, StreamPart};
use crate::{memory, options};

/// How much memory may be used.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Memory {
    /// Approximate memory limit, e.g. 4G; at least 64Mi
    ///
    /// As 300M, 4G or 16Gi. Data that does not fit is stored in temporary files in the folder TMPDIR. The result is the
    /// same. By default everything is in memory; on several devices, only what fits, and rows without column names are
    /// first written to such a file.
    #[arg(long, value_name = "BYTES", value_parser = options::memory)]
    memory: Option<u64>,
}

/// Bytes of a limit that are reserved for reading and writing, a fourth at most.
const WRITTEN: u64 = 32 << 20;

impl Memory {
    pub(crate) fn is_given(&self) -> bool {
        self.memory.is_some()
    }

    /// The limit of a run, if one is set or several devices are used: these process batches, and may use all memory if
    /// no limit is set.
    pub(crate) fn limit(&self, are_several: bool) -> Option<Limit> {
        if self.is_given() {
            memory::has_limit();
        }
        let left = self.memory.map(|bytes| bytes - (bytes / 4).min(WRITTEN));
        left.or(are_several.then_some(u64::MAX)).map(Limit::new)
    }

    /// The memory limit of the options.
    pub(crate) fn bytes(&self) -> Option<u64> {
        self.memory
    }
}

/// Why processing a stream stopped. Each command formats the errors of koel-arrow itself.
enum Stop {
    Failure(Failure),
    Arrow(koel_arrow::Error),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Stop {
        Stop::Failure(failure)
    }
}

impl From<koel_arrow::Error> for Stop {
    fn from(error: koel_arrow::Error) -> Stop {
        Stop::Arrow(error)
    }
}

impl Stop {
    fn into_failure(self, show: impl FnOnce(koel_arrow::Error) -> Failure) -> Failure {
        match self {
            Stop::Failure(failure) => failure,
            Stop::Arrow(error) => show(error),
        }
    }
}

/// A key column, and the range of its values in each part of a stream.
type Ranges = (usize, Vec<Option<KeyRange>>);

/// The batches of a file, with some columns replaced by nulls of other types.
fn batches<'a>(
    stream: Stream<'a>,
    nulls: Vec<(usize, DataType)>,
    limit: &Limit,
    ranges: Option<Ranges>,
) -> Batches<'a, Stop> {
    let mut fields: Vec<Field> = stream.schema().fields().iter().map(|field| field.as_ref().clone()).collect();
    nulls.iter().for_each(|(at, of)| fields[*at].set_data_type(of.clone()));
    let schema = if nulls.is_empty() { Arc::clone(stream.schema()) } else { schema_of(fields) };
    read_as(stream, Arc::clone(&schema), limit, ranges, move |of| {
        if nulls.is_empty() {
            return Ok(of);
        }
        let mut columns = of.columns().to_vec();
        nulls.iter().for_each(|(at, data_type)| columns[*at] = new_null_array(data_type, of.num_rows()));
        Ok(batch(&schema, columns, of.num_rows())?)
    })
}

/// The batches of a file, with an additional last column of nulls.
fn with_nulls<'a>(stream: Stream<'a>, limit: &Limit) -> Batches<'a, Stop> {
    let fields = stream.schema().fields().iter().map(|field| field.as_ref().clone());
    let schema = schema_of(fields.chain([Field::new("", DataType::Int64, true)]).collect());
    read_as(stream, Arc::clone(&schema), limit, None, move |of| {
        let nulls = new_null_array(&DataType::Int64, of.num_rows());
        Ok(batch(&schema, [of.columns(), &[nulls]].concat(), of.num_rows())?)
    })
}

/// The batches of a file after `put` has changed them. All threads read its parts if memory allows some of them per
/// thread.
fn read_as<'a>(
    stream: Stream<'a>,
    schema: SchemaRef,
    limit: &Limit,
    ranges: Option<Ranges>,
    put: impl Fn(RecordBatch) -> std::result::Result<RecordBatch, Stop> + Send + Sync + 'a,
) -> Batches<'a, Stop> {
    let in_flight = 2 * rayon::current_num_threads() as u64;
    let are_small = stream.largest_part().is_some_and(|bytes| bytes.saturating_mul(in_flight) <= limit.bytes() / 4);
    let parts = match if are_small { stream.into_parts() } else { Err(stream) } {
        Ok(parts) => parts,
        Err(stream) => return Batches::new(schema, stream.map(move |batch| put(batch?))),
    };
    let put = Arc::new(put);
    let read = |part: &StreamPart<'a>| -> ReadMorsel<'a, Stop> {
        let (open, put) = (Arc::clone(&part.open), Arc::clone(&put));
        Arc::new(move |take| open().try_for_each(|batch| take(put(batch?)?)))
    };
    match ranges.filter(|(_, ranges)| ranges.len() == parts.len()) {
        Some((key, ranges)) => {
            let ranged = parts.iter().zip(ranges).map(|(part, keys)| {
                let StreamPart { rows, bytes, .. } = *part;
                RangedMorsel { keys, rows, bytes, read: read(part) }
            });
            Batches::of_ranges(schema, key, ranged.collect::<Vec<_>>())
        }
        None => {
            let morsel = |read: ReadMorsel<'a, Stop>| -> Morsel<'a, Stop> { Box::new(move |take| read(take)) };
            let morsels = parts.iter().map(read).map(|read| Ok(morsel(read)));
            Batches::of_morsels(schema, morsels.collect::<Vec<_>>())
        }
    }
}

/// The most rows of a sample from which the number of groups is estimated, and the bytes after which the sample ends.
const SAMPLE: usize = 1 << 16;
const SAMPLE_BYTES: usize = 64 << 20;

/// Whether a table is grouped while it is read, even without a limit: if its first rows have few groups. With many
/// groups, rows in memory take less memory and time than groups of morsels.
fn pays(
    table: &KeyedTable<'_>,
    nulls: NullKeys,
    columns: &[String],
    devices: &[Any],
    source: &Source,
    aggregates: impl FnOnce(&SchemaRef) -> Result<Vec<Of>>,
) -> Result<bool> {
    if !is_streamed(devices, source, columns)? {
        return Ok(false);
    }
    let mut stream = source.stream(Some(columns))?;
    let (by, aggregates) = (places(stream.schema(), table.by)?, aggregates(stream.schema())?);
    let (limit, order) = (&Limit::new(u64::MAX), table.order);
    let group_by = GroupBy { devices, by: &by, aggregates: &aggregates, order, nulls, limit, watch: &|_| () };
    let (mut sample, mut rows, mut bytes) = (Vec::new(), 0, 0_usize);
    while rows < SAMPLE
        && bytes < SAMPLE_BYTES
        && let Some(batch) = stream.next().transpose()?
    {
        (rows, bytes) = (rows + batch.num_rows(), bytes + row_bytes(&batch));
        sample.push(batch);
    }
    let sample = concat_batches(stream.schema(), &sample).map_err(koel_arrow::Error::from)?;
    Ok(rows > 0 && group_by.reduces(&sample)?)
}

/// Whether rows are processed while they are read, even without a limit: on CPUs, if a stream of the table is as fast.
/// Columns of dictionaries would become their values.
fn is_streamed(devices: &[Any], source: &Source, columns: &[String]) -> Result<bool> {
    let are_cpus = devices.iter().all(|device| matches!(device, Any::Cpu(_)));
    Ok(are_cpus && source.is_fast_stream() && keeps_types(source, columns)?)
}

/// Whether operations under a limit return all columns with these names in their own types.
fn keeps_types(source: &Source, columns: &[String]) -> Result<bool> {
    let is_plain = |field: &Arc<Field>| result_type(field.data_type()) == *field.data_type();
    Ok(source.schema(Some(columns))?.is_some_and(|schema| schema.fields().iter().all(is_plain)))
}

/// The positions of the columns of these names.
fn places(schema: &SchemaRef, names: &[String]) -> Result<Vec<usize>> {
    names.iter().map(|name| place(schema, name)).collect()
}

/// The position of the column of this name.
pub(super) fn place(schema: &SchemaRef, name: &str) -> Result<usize> {
    schema.fields().iter().position(|field| field.name() == name).ok_or_else(|| {
        let there = schema.fields().iter().map(|field| field.name().clone()).collect();
        koel_arrow::Error::MissingColumn { column: name.into(), there }.into()
    })
}
