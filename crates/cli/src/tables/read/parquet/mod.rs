//! Parquet: all threads decode the wanted columns of all row groups, each column with its own reader unless there are
//! many.
//!
//! ```text
//! stream.rs          small steps, because the whole file may be one row group
//! int96.rs           the unit of INT96 timestamps
//! dictionaries.rs    keys as the dictionaries that the file has
//! ranges.rs          the ranges of values in row groups
//! ```

mod dictionaries;
mod int96;
mod ranges;
mod stream;

use std::io::{self, BufReader};

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{Schema, SchemaRef};
use bytes::Bytes;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::basic::Compression;
use parquet::errors::{ParquetError, Result as Decoded};
use parquet::file::metadata::{FileMetaData, ParquetMetaData};
use parquet::file::reader::{ChunkReader, Length};
use rayon::prelude::*;

use crate::failure::{Failure, Result};
use crate::input::Name;
use crate::{tables, text};

use super::super::{ROWS, Table};
use super::data::{Data, DataReader};
use super::guarded::guarded;

/// The most readers of a row group. The time to create one is proportional to the number of columns in the file.
const READERS: usize = 256;

/// A file whose footer is known.
pub(super) struct Parquet {
    data: Data,
    metadata: ArrowReaderMetadata,
    int96: int96::Leaves,
}

/// The wanted columns, and how they are read.
struct Chosen {
    metadata: ArrowReaderMetadata,
    schema: SchemaRef,
    /// The columns of each reader, in the order of the file.
    parts: Vec<Vec<usize>>,
    /// The position of each wanted column among those of all readers.
    order: Vec<usize>,
}

impl Length for Data {
    fn len(&self) -> u64 {
        self.length()
    }
}

impl ChunkReader for Data {
    type T = BufReader<DataReader>;

    fn get_read(&self, start: u64) -> Decoded<BufReader<DataReader>> {
        Ok(BufReader::new(self.reader(start)))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Decoded<Bytes> {
        Ok(self.range(start, length)?)
    }
}

impl Parquet {
    pub(super) fn open(name: &Name, data: Data) -> Result<Parquet> {
        let load = || {
            let metadata = ArrowReaderMetadata::load(&data, ArrowReaderOptions::new())?;
            let metadata = counted(metadata.metadata()).map_or(Ok(metadata.clone()), |counted| {
                ArrowReaderMetadata::try_new(counted.into(), ArrowReaderOptions::new())
            })?;
            Decoded::Ok(metadata)
        };
        let metadata = guarded(|| load().map_err(|error| describe(&error))).map_err(|reason| failed(name, &reason))?;
        let int96 = int96::Leaves::of(metadata.metadata());
        Ok(Parquet { data, metadata, int96 })
    }

    /// The number of row groups.
    pub(super) fn groups(&self) -> usize {
        self.metadata.metadata().num_row_groups()
    }

    /// All columns, as the footer states them.
    pub(super) fn schema(&self) -> &SchemaRef {
        self.metadata.schema()
    }

    /// These columns, as they are read.
    pub(super) fn schema_of(&self, name: &Name, places: &[usize]) -> Result<SchemaRef> {
        Ok(self.chosen(name, places, &[])?.schema)
    }

    pub(super) fn read(&self, name: &Name, places: &[usize]) -> Result<Table> {
        let chosen = self.chosen(name, places, &[])?;
        let groups: Vec<usize> = self.metadata.metadata().row_groups().iter().map(rows_of).collect();
        let tasks: Vec<_> =
            (0..groups.len()).flat_map(|group| chosen.parts.iter().map(move |part| (group, part))).collect();
        let parts: Vec<Vec<RecordBatch>> = tasks
            .par_iter()
            .map(|&(group, part)| {
                let read = || {
                    let batches = self.reader(&chosen, group, part, ROWS, 0)?;
                    let batches = batches.map(|batch| batch.map_err(|error| error.to_string()));
                    let batches = batches.collect::<std::result::Result<Vec<_>, _>>()?;
                    check_rows(groups[group], batches.iter().map(RecordBatch::num_rows).sum())?;
                    Ok(batches)
                };
                guarded(read).map_err(|reason| self.part_failed(name, &chosen, group, part, &reason))
            })
            .collect::<Result<_>>()?;
        let mut batches = Vec::new();
        for (group, &rows) in groups.iter().enumerate() {
            let parts = &parts[group * chosen.parts.len()..][..chosen.parts.len()];
            for (i, start) in (0..rows).step_by(ROWS).enumerate() {
                let found = parts.iter().filter_map(|batches| batches.get(i));
                batches.push(chosen.batch(name, group, found, ROWS.min(rows - start))?);
            }
        }
        Ok(Table::of(chosen.schema, batches))
    }

    /// Chooses how to read these columns; those of `keys` may be read as dictionaries.
    fn chosen(&self, name: &Name, places: &[usize], keys: &[usize]) -> Result<Chosen> {
        let mut ascending = places.to_vec();
        ascending.sort_unstable();
        let metadata =
            self.metadata_for(&ascending).map_err(|(place, reason)| self.column_failed(name, None, place, &reason))?;
        let metadata = self.with_dictionaries(metadata, keys);
        let schema: Schema = metadata.schema().project(places).map_err(|error| failed(name, &error.to_string()))?;
        let fields = schema.fields().iter().zip(places);
        let fields = fields.map(|(field, &place)| dictionaries::returned_field(field, self.schema().field(place)));
        let schema = Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone());
        let order = places.iter().filter_map(|place| ascending.binary_search(place).ok()).collect();
        let parts = ascending.chunks(ascending.len().div_ceil(READERS).max(1)).map(<[usize]>::to_vec).collect();
        Ok(Chosen { metadata, schema: schema.into(), parts, order })
    }

    /// The error that some of these columns cannot be read; names the first of them.
    fn part_failed(&self, name: &Name, chosen: &Chosen, group: usize, part: &[usize], reason: &str) -> Failure {
        if let &[place] = part {
            return self.column_failed(name, Some(group), place, reason);
        }
        let reason_of = |&place: &usize| {
            let read = || {
                let mut batches = self.reader(chosen, group, &[place], ROWS, 0)?;
                let rows = batches.try_fold(0, |rows, batch| Ok(rows + batch?.num_rows()));
                let rows = rows.map_err(|error: arrow_schema::ArrowError| error.to_string())?;
                check_rows(rows_of(self.metadata.metadata().row_group(group)), rows)
            };
            guarded(read).err().map(|reason| (place, reason))
        };
        match part.iter().find_map(reason_of) {
            Some((place, reason)) => self.column_failed(name, Some(group), place, &reason),
            None => failed(name, &format!("row group {group}: {reason}")),
        }
    }

    fn column_failed(&self, name: &Name, group: Option<usize>, place: usize, reason: &str) -> Failure {
        let column = self.schema().fields().get(place).map_or("", |field| field.name().as_str());
        let column = text::name(column);
        let group = group.map_or(String::new(), |group| format!("row group {group}, "));
        failed(name, &format!("{group}column {column}: {reason}"))
    }

    /// Refuses columns of a row group that are compressed with a codec for which this command was built without
    /// support.
    fn check_codec(&self, group: usize, part: &[usize]) -> std::result::Result<(), String> {
        let metadata = self.metadata.metadata();
        let roots = metadata.file_metadata().schema_descr();
        let chunks = metadata.row_groups().get(group).map_or(&[][..], |group| group.columns());
        for (leaf, chunk) in chunks.iter().enumerate() {
            let codec = match chunk.compression() {
                Compression::BROTLI(_) => "brotli",
                Compression::LZO => "LZO",
                _ => continue,
            };
            if part.binary_search(&roots.get_column_root_idx(leaf)).is_ok() {
                return Err(format!("it is compressed with {codec}: use zstd, snappy, gzip or lz4"));
            }
        }
        Ok(())
    }

    /// A reader of columns of a row group. It begins at a given row, and returns a given number of rows at a time.
    fn reader(
        &self,
        chosen: &Chosen,
        group: usize,
        part: &[usize],
        rows: usize,
        start: usize,
    ) -> std::result::Result<ParquetRecordBatchReader, String> {
        self.check_codec(group, part)?;
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(self.data.clone(), chosen.metadata.clone());
        let mask = ProjectionMask::roots(builder.parquet_schema(), part.iter().copied());
        let builder = builder.with_row_groups(vec![group]).with_projection(mask).with_batch_size(rows);
        let builder = if start > 0 { builder.with_offset(start) } else { builder };
        builder.build().map_err(|error| describe(&error))
    }
}

impl Chosen {
    /// Combines the rows of all parts to a batch of a row group; a part that ended early is missing.
    fn batch<'a>(
        &self,
        name: &Name,
        group: usize,
        parts: impl Iterator<Item = &'a RecordBatch>,
        rows: usize,
    ) -> Result<RecordBatch> {
        let columns: Vec<&ArrayRef> = parts.flat_map(RecordBatch::columns).collect();
        let arrays = self.order.iter().zip(self.schema.fields());
        let arrays = arrays.map(|(&at, field)| Some(dictionaries::returned_array(columns.get(at)?, field)));
        let arrays: Option<Vec<ArrayRef>> = arrays.collect();
        let batch = arrays
            .ok_or_else(|| "a column ends too early".to_owned())
            .and_then(|arrays| tables::batch(&self.schema, arrays, rows).map_err(|error| error.to_string()));
        batch.map_err(|reason| failed(name, &format!("row group {group}: {reason}")))
    }
}

fn check_rows(of_group: usize, rows: usize) -> std::result::Result<(), String> {
    if rows == of_group { Ok(()) } else { Err(format!("it has {rows} rows, and the row group {of_group}")) }
}

/// The metadata with the total number of rows of the row groups, but at least 1; `None` if it has that number already.
/// The decoder never returns more rows at a time than the number in the metadata.
fn counted(metadata: &ParquetMetaData) -> Option<ParquetMetaData> {
    let (groups, file) = (metadata.row_groups(), metadata.file_metadata());
    let rows = groups.iter().try_fold(0i64, |rows, group| rows.checked_add(group.num_rows()))?.max(1);
    (rows != file.num_rows()).then(|| {
        let file = FileMetaData::new(
            file.version(),
            rows,
            file.created_by().map(str::to_owned),
            file.key_value_metadata().cloned(),
            file.schema_descr_ptr(),
            file.column_orders().cloned(),
        );
        ParquetMetaData::new(file, groups.to_vec())
    })
}

fn rows_of(group: &parquet::file::metadata::RowGroupMetaData) -> usize {
    usize::try_from(group.num_rows()).unwrap_or(0)
}

/// The message of an error, without the name of its kind.
fn describe(error: &ParquetError) -> String {
    match error {
        ParquetError::NYI(what) => format!("koel does not read this yet: {what}"),
        ParquetError::General(what) | ParquetError::EOF(what) | ParquetError::ArrowError(what) => what.clone(),
        ParquetError::External(what) => match what.downcast_ref::<io::Error>() {
            Some(error) => error.to_string(),
            None => what.to_string(),
        },
        other => other.to_string(),
    }
}

fn failed(name: &Name, reason: &str) -> Failure {
    let what = "this Parquet file is damaged, encrypted, or has parts that koel does not read";
    name.fail(format!("{what} ({reason}): write it again, or select other columns"))
}
