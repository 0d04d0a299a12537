//! Parquet: every wanted column of every row group is decoded by itself, all of them by all threads.
//!
//! `stream.rs` decodes them in steps of few rows, as a row group may be all of a file.

mod stream;

use std::io::{self, BufReader};

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;
use bytes::Bytes;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::basic::Compression;
use parquet::errors::{ParquetError, Result as Decoded};
use parquet::file::reader::{ChunkReader, Length};
use rayon::prelude::*;

use crate::failure::{Failure, Result};
use crate::input::Name;

use super::super::{ROWS, Table};
use super::data::{Data, DataReader};
use super::guarded::guarded;

/// A file of which the footer is known.
pub(super) struct Parquet {
    data: Data,
    metadata: ArrowReaderMetadata,
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
        let load = || ArrowReaderMetadata::load(&data, ArrowReaderOptions::new()).map_err(|error| told(&error));
        let metadata = guarded(load).map_err(|reason| failed(name, &reason))?;
        Ok(Parquet { data, metadata })
    }

    pub(super) fn data(&self) -> &Data {
        &self.data
    }

    pub(super) fn schema(&self) -> &SchemaRef {
        self.metadata.schema()
    }

    pub(super) fn read(&self, name: &Name, places: &[usize]) -> Result<Table> {
        let schema = self.projected(name, places)?;
        let groups: Vec<usize> = self.metadata.metadata().row_groups().iter().map(rows_of).collect();
        let tasks: Vec<_> =
            (0..groups.len()).flat_map(|group| places.iter().map(move |&place| (group, place))).collect();
        let columns: Vec<Vec<ArrayRef>> = tasks
            .par_iter()
            .map(|&(group, place)| {
                guarded(|| self.column(group, place)).map_err(|reason| self.column_failed(name, group, place, &reason))
            })
            .collect::<Result<_>>()?;
        let mut batches = Vec::new();
        for (group, &rows) in groups.iter().enumerate() {
            let columns = &columns[group * places.len()..][..places.len()];
            for (i, start) in (0..rows).step_by(ROWS).enumerate() {
                let arrays = columns.iter().map(|column| column.get(i).cloned()).collect();
                batches.push(batch_of(name, group, &schema, arrays, ROWS.min(rows - start))?);
            }
        }
        Ok(Table::of(schema, batches))
    }

    fn projected(&self, name: &Name, places: &[usize]) -> Result<SchemaRef> {
        let projected = self.schema().project(places).map_err(|error| failed(name, &error.to_string()))?;
        Ok(projected.into())
    }

    fn column_failed(&self, name: &Name, group: usize, place: usize, reason: &str) -> Failure {
        let column = schema_name(self.schema(), place);
        failed(name, &format!("row group {group}, column {column}: {reason}"))
    }

    /// A column of a row group, as arrays of [`ROWS`] rows and one of those that are left.
    fn column(&self, group: usize, place: usize) -> std::result::Result<Vec<ArrayRef>, String> {
        let batches = self.reader(group, place, ROWS, 0)?;
        batches.map(|batch| Ok(batch.map_err(|error| error.to_string())?.column(0).clone())).collect()
    }

    /// Refuses a column of a row group that is compressed with a codec that this command is built without.
    fn check_codec(&self, group: usize, place: usize) -> std::result::Result<(), String> {
        let metadata = self.metadata.metadata();
        let roots = metadata.file_metadata().schema_descr();
        let chunks = metadata.row_groups().get(group).map_or(&[][..], |group| group.columns());
        for (leaf, chunk) in chunks.iter().enumerate() {
            let codec = match chunk.compression() {
                Compression::BROTLI(_) => "brotli",
                Compression::LZO => "LZO",
                _ => continue,
            };
            if roots.get_column_root_idx(leaf) == place {
                return Err(format!("it is compressed with {codec}: use zstd, snappy, gzip or lz4"));
            }
        }
        Ok(())
    }

    /// A reader of a column of a row group, from a row on, which gives so many rows at a time.
    fn reader(
        &self,
        group: usize,
        place: usize,
        rows: usize,
        start: usize,
    ) -> std::result::Result<ParquetRecordBatchReader, String> {
        self.check_codec(group, place)?;
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(self.data.clone(), self.metadata.clone());
        let mask = ProjectionMask::roots(builder.parquet_schema(), [place]);
        let builder = builder.with_row_groups(vec![group]).with_projection(mask).with_batch_size(rows);
        let builder = if start > 0 { builder.with_offset(start) } else { builder };
        builder.build().map_err(|error| told(&error))
    }
}

/// Rows of a row group; none of a column that ended before.
fn batch_of(
    name: &Name,
    group: usize,
    schema: &SchemaRef,
    arrays: Option<Vec<ArrayRef>>,
    rows: usize,
) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let batch = arrays.ok_or_else(|| "a column ends too early".to_owned()).and_then(|arrays| {
        RecordBatch::try_new_with_options(schema.clone(), arrays, &options).map_err(|error| error.to_string())
    });
    batch.map_err(|reason| failed(name, &format!("row group {group}: {reason}")))
}

fn rows_of(group: &parquet::file::metadata::RowGroupMetaData) -> usize {
    usize::try_from(group.num_rows()).unwrap_or(0)
}

fn schema_name(schema: &SchemaRef, place: usize) -> &str {
    schema.fields().get(place).map_or("", |field| field.name().as_str())
}

/// What an error says, without the name of its kind.
fn told(error: &ParquetError) -> String {
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
    name.fail(format!("this Parquet file is damaged, or has parts that koel does not read ({reason}): write it anew"))
}
