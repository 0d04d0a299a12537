//! Tables as batches for `koel_arrow::external`.
//!
//! ```text
//! a stream   with --memory, on several devices, and on a CPU if reading a stream is as fast: the rows are processed while
//!            they are read, and parts of Parquet files are read by all threads
//! at once    otherwise: as a stream, CSV files would be read twice to find their types. Columns of dictionaries get
//!            one dictionary each, as some formats require, and remain dictionaries in the result
//! ```

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, UInt32Array, new_null_array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use arrow_select::concat::concat_batches;
use koel::backend::{DeviceKind, HashBackend};
use koel::device::Any;
use koel_arrow::external::{
    Batches, KeyRange, Limit, Morsel, RangedMorsel, ReadMorsel, flattened, result_type, row_bytes,
};
use koel_arrow::{Column, plain_type, take};
use rayon::prelude::*;

use super::Memory;
use super::columns::{Places, batch, places, schema_of};
use crate::failure::{Failure, Result};
use crate::tables::Table;
use crate::tables::read::Source;
use crate::tables::read::stream::{Stream, StreamPart};

/// Why processing a table stopped. Each command formats the errors of koel-arrow itself.
pub(super) enum Stop {
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
    pub(super) fn into_failure(self, show: impl FnOnce(koel_arrow::Error) -> Failure) -> Failure {
        match self {
            Stop::Failure(failure) => failure,
            Stop::Arrow(error) => show(error),
        }
    }
}

/// The memory and the devices of a command.
pub(super) struct Resources<'a> {
    pub(super) memory: &'a Memory,
    pub(super) devices: &'a [Any],
    /// Whether the user named several devices.
    pub(super) are_several: bool,
}

impl Resources<'_> {
    /// Whether tables are always streams.
    pub(super) fn are_streams(&self) -> bool {
        self.memory.is_given() || self.are_several
    }

    /// The memory limit for these tables. Unless tables are always streams, there is none if columns have dictionaries,
    /// because a limit would replace these by their values.
    pub(super) fn limit(&self, tables: &[(&Source, &[String])]) -> Result<Limit> {
        let mut keep_types = true;
        for (source, columns) in tables {
            keep_types &= keeps_types(source, columns)?;
        }
        Ok(if keep_types || self.are_streams() { self.memory.limit() } else { Limit::none() })
    }

    /// Opens these columns of a source. Those that are not streams are read here.
    pub(super) fn open<'a>(&self, source: &'a Source, columns: Vec<String>) -> Result<Opened<'a>> {
        let are_cpus = self.devices.iter().all(|device| device.info().kind == DeviceKind::Cpu);
        let pays = || Ok::<_, Failure>(are_cpus && source.is_fast_stream() && keeps_types(source, &columns)?);
        let is_stream = self.are_streams() || pays()?;
        Opened::of(source, columns, is_stream)
    }
}

/// Whether the columns with these names have the same types in results if rows may be spilled. Dictionaries do not.
pub(super) fn keeps_types(source: &Source, columns: &[String]) -> Result<bool> {
    let is_plain = |field: &Arc<Field>| result_type(field.data_type()) == *field.data_type();
    // The types of text are not known yet, but are never dictionaries.
    Ok(source.schema(Some(columns))?.is_none_or(|schema| schema.fields().iter().all(is_plain)))
}

/// Columns of a source.
pub(super) struct Opened<'a> {
    source: &'a Source,
    columns: Vec<String>,
    /// The rows; `None` for a stream.
    table: Option<Table>,
}

/// The most rows of a sample, and the bytes after which it ends.
const SAMPLE: usize = 1 << 16;
const SAMPLE_BYTES: usize = 64 << 20;

impl<'a> Opened<'a> {
    /// Opens these columns. Unless they are a stream, their rows are read.
    pub(super) fn of(source: &'a Source, columns: Vec<String>, is_stream: bool) -> Result<Self> {
        let opened = Opened { source, columns, table: None };
        if is_stream { Ok(opened) } else { opened.at_once() }
    }

    /// The first rows; `None` if they do not fit in one batch, such as lists with many dictionaries.
    pub(super) fn sample(&self) -> Result<Option<RecordBatch>> {
        let (schema, batches): (_, Box<dyn Iterator<Item = Result<RecordBatch>>>) = match &self.table {
            Some(table) => {
                let slice = |batch: &RecordBatch| Ok(batch.slice(0, batch.num_rows().min(SAMPLE)));
                (Arc::clone(&table.schema), Box::new(table.batches.iter().map(slice)))
            }
            None => {
                let stream = self.source.stream(Some(&self.columns))?;
                (Arc::clone(stream.schema()), Box::new(stream))
            }
        };
        let (mut sample, mut rows, mut bytes) = (Vec::new(), 0, 0);
        for batch in batches {
            let batch = batch?;
            (rows, bytes) = (rows + batch.num_rows(), bytes + row_bytes(&batch));
            sample.push(batch);
            if rows >= SAMPLE || bytes >= SAMPLE_BYTES {
                break;
            }
        }
        Ok(concat_batches(&schema, &sample).ok())
    }

    /// The columns with these names.
    pub(super) fn of_columns(&self, columns: &[String]) -> Result<Opened<'a>> {
        let project = |table: &Table| {
            let places = places(&table.schema, columns)?;
            let batch = |batch: &RecordBatch| batch.project(&places).map_err(koel_arrow::Error::from);
            let batches = table.batches.iter().map(batch).collect::<koel_arrow::Result<Vec<_>>>()?;
            let schema = table.schema.project(&places).map_err(koel_arrow::Error::from)?;
            Ok::<_, Failure>(Table { schema: schema.into(), batches, rows: table.rows })
        };
        let table = self.table.as_ref().map(project).transpose()?;
        Ok(Opened { source: self.source, columns: columns.to_vec(), table })
    }

    /// The same table, read at once instead of as a stream. This takes less memory if all rows remain in memory.
    pub(super) fn at_once(mut self) -> Result<Opened<'a>> {
        if self.table.is_none() {
            self.table = Some(with_one_dictionary(self.source.read(Some(&self.columns))?)?);
        }
        Ok(self)
    }

    /// All rows.
    pub(super) fn rows(self) -> Result<Rows<'a>> {
        self.rows_by(&[])
    }

    /// All rows; columns of `keys` may be dictionaries if the file has dictionaries.
    pub(super) fn rows_by(self, keys: &[String]) -> Result<Rows<'a>> {
        let Opened { source, columns, table } = self;
        let (schema, input) = match table {
            Some(Table { schema, batches, .. }) => (schema, Input::Table { batches, is_text: source.is_text() }),
            None => {
                let stream = source.stream_of(Some(&columns), keys)?;
                (Arc::clone(stream.schema()), Input::Stream(stream))
            }
        };
        Ok(Rows { schema, input, nulls: Vec::new() })
    }
}

/// The rows of a table.
pub(super) struct Rows<'a> {
    schema: SchemaRef,
    input: Input<'a>,
    /// The positions of columns of nulls, which replace columns of the source, or are added after them.
    nulls: Vec<usize>,
}

enum Input<'a> {
    Stream(Stream<'a>),
    Table { batches: Vec<RecordBatch>, is_text: bool },
}

/// A key column, and the range of its values in each part of a stream.
pub(super) type Ranges = (usize, Vec<Option<KeyRange>>);

impl<'a> Rows<'a> {
    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Whether a column has no type of its own: it has type Null, or is text without values.
    pub(super) fn is_open(&self, at: usize) -> bool {
        let field = self.schema.field(at);
        let is_null = |batch: &RecordBatch| batch.column(at).logical_null_count() == batch.num_rows();
        plain_type(field.data_type()) == DataType::Null
            || match &self.input {
                Input::Stream(stream) => stream.is_untyped(field.name()),
                Input::Table { batches, is_text } => *is_text && batches.iter().all(is_null),
            }
    }

    /// Replaces a column by nulls of this type.
    pub(super) fn put_nulls(&mut self, at: usize, of: &DataType) {
        let fields = self.schema.fields().iter().enumerate().map(|(place, field)| match place == at {
            true => field.as_ref().clone().with_data_type(of.clone()).with_nullable(true),
            false => field.as_ref().clone(),
        });
        self.schema = schema_of(fields.collect());
        self.nulls.push(at);
    }

    /// Adds a last column of nulls, and returns its position.
    pub(super) fn add_nulls(&mut self) -> usize {
        let fields = self.schema.fields().iter().map(|field| field.as_ref().clone());
        self.schema = schema_of(fields.chain([Field::new("", DataType::Int64, true)]).collect());
        self.nulls.push(self.schema.fields().len() - 1);
        self.schema.fields().len() - 1
    }

    /// The rows as batches. All threads read the parts of a stream if memory allows some of them per thread.
    pub(super) fn into_batches(self, limit: &Limit) -> Batches<'a, Stop> {
        self.into_ranges(limit, None)
    }

    /// As `into_batches`, with the ranges of a key column if they are known.
    pub(super) fn into_ranges(self, limit: &Limit, ranges: Option<Ranges>) -> Batches<'a, Stop> {
        let Rows { schema, input, nulls } = self;
        let to = Arc::clone(&schema);
        // The nulls of all batches are gathered from one array, so that they have one dictionary.
        let null = |at: usize| (at, new_null_array(to.field(at).data_type(), 1));
        let nulls: Vec<(usize, ArrayRef)> = nulls.into_iter().map(null).collect();
        let put = move |of: RecordBatch| -> std::result::Result<RecordBatch, Stop> {
            if nulls.is_empty() {
                return Ok(of);
            }
            let mut columns = of.columns().to_vec();
            for (at, null) in &nulls {
                let column = take(null, &UInt32Array::new_null(of.num_rows())).map_err(koel_arrow::Error::from)?;
                columns.splice(*at..columns.len().min(at + 1), [column]);
            }
            Ok(batch(&to, columns, of.num_rows())?)
        };
        let stream = match input {
            Input::Table { batches, .. } => return Batches::new(schema, batches.into_iter().map(put)),
            Input::Stream(stream) => stream,
        };
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
}

/// The ranges of a key column of a source, which is at this position in its rows, if they are known.
pub(super) fn ranges(source: &Source, schema: &Schema, column: &str) -> Result<Option<Ranges>> {
    let at = Places::new(schema).of(column)?;
    Ok(source.ranges(column).map(|ranges| (at, ranges)))
}

/// The table with one dictionary per column of dictionaries. If these have too many values together, the column has
/// values instead.
fn with_one_dictionary(table: Table) -> koel_arrow::Result<Table> {
    let Table { schema, mut batches, rows } = table;
    batches.retain(|batch| batch.num_rows() > 0);
    let columns = schema.fields().par_iter().enumerate().map(|(at, field)| {
        let chunks: Vec<ArrayRef> = batches.iter().map(|batch| Arc::clone(batch.column(at))).collect();
        if result_type(field.data_type()) == *field.data_type() {
            return Ok((field.data_type().clone(), chunks));
        }
        let column = Column::of_chunks(field.name(), field.data_type(), chunks)?;
        Ok(match column.one_piece() {
            Ok(whole) => {
                let whole = &whole.chunks()[0];
                let mut start = 0;
                let slice = |batch: &RecordBatch| {
                    start += batch.num_rows();
                    whole.slice(start - batch.num_rows(), batch.num_rows())
                };
                (whole.data_type().clone(), batches.iter().map(slice).collect())
            }
            Err(_) => {
                let values = column.chunks().iter().map(flattened).collect::<koel_arrow::Result<Vec<_>>>()?;
                (result_type(field.data_type()), values)
            }
        })
    });
    let columns = columns.collect::<koel_arrow::Result<Vec<_>>>()?;
    let field =
        |(field, (of, _)): (&Arc<Field>, &(DataType, Vec<ArrayRef>))| field.as_ref().clone().with_data_type(of.clone());
    let schema = schema_of(schema.fields().iter().zip(&columns).map(field).collect());
    let batch = |(at, old): (usize, &RecordBatch)| {
        batch(&schema, columns.iter().map(|(_, chunks)| Arc::clone(&chunks[at])).collect(), old.num_rows())
    };
    let batches = batches.iter().enumerate().map(batch).collect::<koel_arrow::Result<_>>()?;
    Ok(Table { schema, batches, rows })
}
