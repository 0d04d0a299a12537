//! Parquet: row groups of 2^20 rows. Columns of as many groups as keep all threads busy are encoded at once, and written
//! in their order.
//!
//! Packed by zstd at its level 1.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{Field, Schema, SchemaRef};
use parquet::arrow::ArrowSchemaConverter;
use parquet::arrow::add_encoded_arrow_schema_to_metadata;
use parquet::arrow::arrow_writer::{ArrowColumnChunk, ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::{ParquetError, Result as Encoded};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use rayon::prelude::*;

use super::super::ROWS;
use super::super::read::guarded::guarded;
use super::Unwritten;

pub(super) struct Writer {
    writer: SerializedFileWriter<BufWriter<File>>,
    factory: ArrowRowGroupWriterFactory,
    schema: SchemaRef,
    /// Row groups that are whole, and the one that is being filled.
    groups: Vec<Vec<RecordBatch>>,
    /// Rows of the last of them.
    rows: usize,
    /// Groups that are encoded at once.
    at_once: usize,
    written: usize,
}

impl Writer {
    pub(super) fn new(file: File, schema: &SchemaRef) -> Result<Writer, Unwritten> {
        let level = ZstdLevel::try_new(1)?;
        let mut properties = WriterProperties::builder().set_compression(Compression::ZSTD(level)).build();
        // So that readers know types that Parquet has no name for.
        add_encoded_arrow_schema_to_metadata(schema, &mut properties);
        // By itself, so that the column is named which Parquet has no type for.
        for field in schema.fields() {
            let alone = Schema::new(vec![Arc::clone(field)]);
            let converted = guarded(|| ArrowSchemaConverter::new().convert(&alone).map(drop).map_err(text));
            converted.map_err(|reason| refused(field, &reason))?;
        }
        let root = ArrowSchemaConverter::new().convert(schema)?.root_schema_ptr();
        let writer = SerializedFileWriter::new(BufWriter::new(file), root, Arc::new(properties))?;
        let factory = ArrowRowGroupWriterFactory::new(&writer, schema.clone());
        let at_once = rayon::current_num_threads().div_ceil(schema.fields().len().max(1));
        Ok(Writer { writer, factory, schema: schema.clone(), groups: Vec::new(), rows: 0, at_once, written: 0 })
    }

    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<(), Unwritten> {
        let mut start = 0;
        while start < batch.num_rows() {
            if self.rows == ROWS || self.groups.is_empty() {
                if self.groups.len() >= self.at_once {
                    self.flush()?;
                }
                self.groups.push(Vec::new());
                self.rows = 0;
            }
            let rows = (batch.num_rows() - start).min(ROWS - self.rows);
            if let Some(group) = self.groups.last_mut() {
                group.push(batch.slice(start, rows));
            }
            self.rows += rows;
            start += rows;
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<(), Unwritten> {
        self.flush()?;
        let mut file = self.writer.into_inner()?;
        Ok(file.flush()?)
    }

    /// Encodes and writes the groups that there are.
    fn flush(&mut self) -> Result<(), Unwritten> {
        let groups = std::mem::take(&mut self.groups);
        let mut tasks = Vec::new();
        for group in &groups {
            let mut writers = self.factory.create_column_writers(self.written)?.into_iter();
            self.written += 1;
            for (place, field) in self.schema.fields().iter().enumerate() {
                // A nested column has a writer of each of its leaves.
                let leaves = leaves(field.data_type());
                tasks.push((group, place, writers.by_ref().take(leaves).collect::<Vec<_>>()));
            }
        }
        let schema = &self.schema;
        let encode = |(group, place, mut writers): (&Vec<RecordBatch>, usize, Vec<ArrowColumnWriter>)| {
            for batch in group {
                let leaves = compute_leaves(schema.field(place), batch.column(place))?;
                for (writer, leaf) in writers.iter_mut().zip(&leaves) {
                    writer.write(leaf)?;
                }
            }
            writers.into_iter().map(ArrowColumnWriter::close).collect::<Encoded<Vec<ArrowColumnChunk>>>()
        };
        // Here, because panics of other threads are their own.
        let encode = |task: (_, usize, _)| {
            let place = task.1;
            guarded(|| encode(task).map_err(text)).map_err(|reason| refused(schema.field(place), &reason))
        };
        let chunks = tasks.into_par_iter().map(encode).collect::<Result<Vec<_>, _>>()?;
        let mut chunks = chunks.into_iter();
        for _ in &groups {
            let mut group = self.writer.next_row_group()?;
            for chunk in chunks.by_ref().take(schema.fields().len()).flatten() {
                chunk.append_to_row_group(&mut group)?;
            }
            group.close()?;
        }
        Ok(())
    }
}

impl From<ParquetError> for Unwritten {
    fn from(error: ParquetError) -> Unwritten {
        match error {
            ParquetError::External(error) => match error.downcast::<std::io::Error>() {
                Ok(error) => Unwritten::Io(*error),
                Err(error) => Unwritten::Because(error.to_string()),
            },
            error => Unwritten::Because(format!("{error}: write another format, or leave the column out")),
        }
    }
}

fn text(error: ParquetError) -> String {
    error.to_string()
}

/// A column that Parquet does not take.
fn refused(field: &Field, reason: &str) -> Unwritten {
    let (name, of) = (field.name(), field.data_type());
    let advice = "write .arrow, or leave the column out";
    Unwritten::Because(format!("column `{name}` is of type {of}, which Parquet cannot hold ({reason}): {advice}"))
}

/// The columns of Parquet that a type takes.
fn leaves(data_type: &arrow_schema::DataType) -> usize {
    use arrow_schema::DataType::*;
    match data_type {
        Struct(fields) => fields.iter().map(|field| leaves(field.data_type())).sum(),
        List(field)
        | LargeList(field)
        | ListView(field)
        | LargeListView(field)
        | FixedSizeList(field, _)
        | Map(field, _) => leaves(field.data_type()),
        _ => 1,
    }
}
