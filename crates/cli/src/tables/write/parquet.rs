//! Parquet: columns of a row group are encoded at once, of as many groups as keep all threads busy, and written in
//! their order.
//!
//! ```text
//! row group   blocks (blocks.rs) until it has 2^20 rows or 16 MiB, so that one is in memory under any limit
//! block       what the encoder gets at a time: it decides on pages and dictionaries as each has come
//! ```
//!
//! Packed by zstd at its level 1.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};
use koel_arrow::external::row_bytes;
use parquet::arrow::ArrowSchemaConverter;
use parquet::arrow::add_encoded_arrow_schema_to_metadata;
use parquet::arrow::arrow_writer::{ArrowColumnChunk, ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::{ParquetError, Result as Encoded};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::TypePtr;
use rayon::prelude::*;

use super::super::ROWS;
use super::super::read::guarded::guarded;
use super::blocks::{Blocks, Size};
use super::{Unwritten, unknown};

/// Rows that are encoded at a time.
const BLOCK: Size = Size { rows: 1 << 15, bytes: 1 << 20 };
/// Bytes of a row group, as rows are counted.
const GROUP: usize = 16 << 20;
/// Bytes that the encoder of a column takes at most for a usual type: a dictionary and a page, 1 MiB each.
const ENCODER: u64 = 2 << 20;

pub(super) struct Writer {
    blocks: Blocks,
    groups: Groups,
}

struct Groups {
    writer: SerializedFileWriter<BufWriter<File>>,
    /// One a column: an encoder takes some 100 KB, so those of a column are made when it is encoded.
    factories: Vec<ArrowRowGroupWriterFactory>,
    schema: SchemaRef,
    /// Row groups that are whole, and the one that is being filled.
    groups: Vec<Vec<RecordBatch>>,
    /// Rows and bytes of the last of them.
    rows: usize,
    bytes: usize,
    /// Groups that are encoded at once.
    at_once: usize,
    /// Columns of these that are encoded at once.
    encoders: usize,
    written: usize,
}

impl Writer {
    /// For batches of this schema. `memory` bytes may be used; the file is the same whatever they are.
    pub(super) fn new(file: File, schema: &SchemaRef, memory: u64) -> Result<Writer, Unwritten> {
        let level = ZstdLevel::try_new(1)?;
        let mut properties = WriterProperties::builder().set_compression(Compression::ZSTD(level)).build();
        // So that readers know types that Parquet has no name for.
        add_encoded_arrow_schema_to_metadata(schema, &mut properties);
        // By itself, so that the column is named which Parquet has no type for.
        for field in schema.fields() {
            if let Some(reason) = misfit(field.data_type()) {
                return Err(refused(field, reason));
            }
            let alone = Schema::new(vec![Arc::clone(field)]);
            let converted = guarded(|| ArrowSchemaConverter::new().convert(&alone).map(drop).map_err(text));
            converted.map_err(|reason| refused(field, &reason))?;
        }
        let properties = Arc::new(properties);
        let factory = |field: &FieldRef| {
            let schema = SchemaRef::new(Schema::new(vec![field.clone()]));
            let alone = SerializedFileWriter::new(std::io::sink(), root_of(&schema)?, properties.clone())?;
            Encoded::Ok(ArrowRowGroupWriterFactory::new(&alone, schema))
        };
        let factories = schema.fields().iter().map(factory).collect::<Encoded<Vec<_>>>()?;
        let writer = SerializedFileWriter::new(BufWriter::new(file), root_of(schema)?, properties.clone())?;
        let busy = rayon::current_num_threads().div_ceil(schema.fields().len().max(1));
        // A group takes its bytes once more when it is encoded.
        let fitting = usize::try_from(memory / 4 / (2 * GROUP as u64)).unwrap_or(usize::MAX);
        let groups = Groups {
            writer,
            factories,
            schema: schema.clone(),
            groups: Vec::new(),
            rows: 0,
            bytes: 0,
            at_once: busy.min(fitting).max(1),
            encoders: encoders(memory, rayon::current_num_threads()),
            written: 0,
        };
        Ok(Writer { blocks: Blocks::plain(schema, BLOCK), groups })
    }

    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<(), Unwritten> {
        self.blocks.push(batch, |block| self.groups.push(block))
    }

    pub(super) fn finish(mut self) -> Result<(), Unwritten> {
        self.blocks.finish(|block| self.groups.push(block))?;
        self.groups.flush()?;
        let mut file = self.groups.writer.into_inner()?;
        Ok(file.flush()?)
    }
}

fn root_of(schema: &Schema) -> Encoded<TypePtr> {
    Ok(ArrowSchemaConverter::new().convert(schema)?.root_schema_ptr())
}

/// How many columns are encoded at once: enough to keep all threads busy, and as many as a fourth of the memory holds.
fn encoders(memory: u64, threads: usize) -> usize {
    usize::try_from(memory / 4 / ENCODER).unwrap_or(usize::MAX).clamp(1, 4 * threads)
}

impl Groups {
    fn push(&mut self, block: RecordBatch) -> Result<(), Unwritten> {
        let (rows, bytes) = (block.num_rows(), row_bytes(&block));
        if self.groups.is_empty() || self.rows + rows > ROWS || self.bytes + bytes > GROUP {
            if self.groups.len() >= self.at_once {
                self.flush()?;
            }
            self.groups.push(Vec::new());
            (self.rows, self.bytes) = (0, 0);
        }
        (self.rows, self.bytes) = (self.rows + rows, self.bytes + bytes);
        if let Some(group) = self.groups.last_mut() {
            group.push(block);
        }
        Ok(())
    }

    /// Encodes and writes the groups that there are: as many columns at once as keep all threads busy.
    fn flush(&mut self) -> Result<(), Unwritten> {
        let groups = std::mem::take(&mut self.groups);
        let (schema, factories, first) = (&self.schema, &self.factories, self.written);
        let encode = |(number, place): (usize, usize)| {
            let mut writers = factories[place].create_column_writers(first + number)?;
            for block in &groups[number] {
                let leaves = compute_leaves(schema.field(place), block.column(place))?;
                for (writer, leaf) in writers.iter_mut().zip(&leaves) {
                    writer.write(leaf)?;
                }
            }
            writers.into_iter().map(ArrowColumnWriter::close).collect::<Encoded<Vec<ArrowColumnChunk>>>()
        };
        self.written += groups.len();
        let columns = schema.fields().len();
        let tasks: Vec<(usize, usize)> =
            (0..groups.len()).flat_map(|number| (0..columns).map(move |place| (number, place))).collect();
        let mut encoded = tasks.chunks(self.encoders).flat_map(|tasks| {
            // A panic is caught on the thread where it occurs, so that it is not printed.
            let guarded = |&task: &(usize, usize)| {
                guarded(|| encode(task).map_err(text)).map_err(|reason| refused(schema.field(task.1), &reason))
            };
            let chunks = tasks.par_iter().map(guarded).collect::<Vec<_>>();
            chunks.into_iter()
        });
        for _ in &groups {
            let mut group = self.writer.next_row_group()?;
            for chunks in encoded.by_ref().take(columns) {
                for chunk in chunks? {
                    chunk.append_to_row_group(&mut group)?;
                }
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
            ParquetError::General(reason) | ParquetError::NYI(reason) => Unwritten::Because(unknown(&reason)),
            error => Unwritten::Because(unknown(&error.to_string())),
        }
    }
}

fn text(error: ParquetError) -> String {
    error.to_string()
}

/// What a type has that Parquet does not, where its encoder would say so in words of its own, or not before it has rows.
fn misfit(of: &DataType) -> Option<&'static str> {
    use DataType::*;
    match of {
        FixedSizeBinary(0) => Some("its values have no bytes"),
        Decimal32(_, scale) | Decimal64(_, scale) | Decimal128(_, scale) | Decimal256(_, scale) if *scale < 0 => {
            Some("its scale is negative")
        }
        Struct(fields) if fields.is_empty() => Some("a structure without fields"),
        Struct(fields) => fields.iter().find_map(|field| misfit(field.data_type())),
        List(of) | LargeList(of) | ListView(of) | LargeListView(of) | FixedSizeList(of, _) | Map(of, _) => {
            misfit(of.data_type())
        }
        RunEndEncoded(_, of) => misfit(of.data_type()),
        // They would be written, but parquet's reader fails on them.
        Dictionary(_, of) if matches!(**of, Null | Boolean) => Some("a dictionary of nulls or booleans"),
        Dictionary(_, of) if of.is_nested() && !matches!(**of, Struct(_)) => Some("a dictionary of nested values"),
        Dictionary(_, of) => misfit(of),
        Union(..) => Some("a union"),
        _ => None,
    }
}

/// A column that Parquet does not take.
fn refused(field: &Field, reason: &str) -> Unwritten {
    let (name, of) = (field.name(), field.data_type());
    let advice = "write .arrow, or leave the column out";
    Unwritten::Because(format!("column `{name}` is of type {of}, which Parquet cannot hold ({reason}): {advice}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoders_are_bounded_by_memory_and_by_threads() {
        assert_eq!([1, 2, 64].map(|threads| encoders(u64::MAX, threads)), [4, 8, 256]);
        assert_eq!([1, 2, 64].map(|threads| encoders(64 << 20, threads)), [4, 8, 8]);
        assert_eq!(encoders(1 << 20, 64), 1);
    }
}
