//! Parquet: row groups are encoded in parallel, and one thread writes them in order (pipeline.rs).
//!
//! ```text
//! groups      each encoded by one thread, if there is memory for one group per thread. A thread that waited for others
//!             to encode columns would begin other work meanwhile, and later groups would wait for this one
//! columns     otherwise encoded by all threads; also those of the first groups, because there may be few groups
//! row group   blocks (blocks.rs) up to 2^20 rows or 16 MiB, so that one fits in memory under any limit
//! block       the rows that an encoder gets at a time; after each block it decides on pages and dictionaries
//! ```
//!
//! Compressed by zstd at level 1; with dictionaries if they save space (dictionaries.rs).

use std::io::{BufWriter, Write};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};
use parquet::arrow::ArrowSchemaConverter;
use parquet::arrow::add_encoded_arrow_schema_to_metadata;
use parquet::arrow::arrow_writer::{ArrowColumnChunk, ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::TypePtr;
use rayon::prelude::*;

use super::super::ROWS;
use super::super::read::guarded::guarded;
use super::blocks::{Block, Blocks, Size};
use super::dictionaries::is_distinct;
use super::pipeline::Pipeline;
use super::write_back::WriteBack;
use super::{Unwritten, unknown};

/// The maximum size of the rows that are encoded at a time.
const BLOCK: Size = Size { rows: 1 << 15, bytes: 1 << 20 };
/// The maximum size of a row group, in bytes of its rows.
const GROUP: usize = 16 << 20;
/// The most memory of the encoder of a column with a usual type: a dictionary and a page, 1 MiB each.
const ENCODER: u64 = 2 << 20;

pub(super) struct Writer {
    blocks: Blocks,
    groups: Groups,
}

type Output = SerializedFileWriter<BufWriter<WriteBack>>;
/// The encoded columns of a row group; a nested column has one chunk per leaf.
type Encoded = Box<dyn Iterator<Item = Result<Vec<ArrowColumnChunk>, Unwritten>> + Send>;

struct Groups {
    columns: Arc<Columns>,
    pipeline: Pipeline<Encoded, Output>,
    /// Whether a row group may be filled while another is encoded.
    overlap: bool,
    /// The number of the first row group that is encoded by one thread.
    alone: usize,
    /// The row group that is being filled, with its rows and bytes.
    blocks: Vec<Arc<Prepared>>,
    rows: usize,
    bytes: usize,
    /// The number of earlier row groups.
    before: usize,
}

/// How columns are encoded.
struct Columns {
    schema: SchemaRef,
    /// For each column, a factory with dictionaries and one without. An encoder takes some 100 KB, so it is created
    /// when its column is encoded.
    factories: Vec<[ArrowRowGroupWriterFactory; 2]>,
    /// The number of columns of a row group that are encoded at a time.
    encoders: usize,
}

/// A block whose pieces are combined to one batch by the first thread that needs it. Until then, the pieces keep the
/// larger batches in memory of which they are slices.
struct Prepared(Mutex<(Option<Block>, Result<RecordBatch, String>)>);

impl Writer {
    /// Creates a writer for batches with this schema. `memory` is the limit in bytes; the file does not depend on it.
    pub(super) fn new(file: WriteBack, schema: &SchemaRef, memory: u64) -> Result<Writer, Unwritten> {
        let level = ZstdLevel::try_new(1)?;
        let mut properties = WriterProperties::builder().set_compression(Compression::ZSTD(level)).build();
        // So that readers can restore types for which Parquet has no equivalent.
        add_encoded_arrow_schema_to_metadata(schema, &mut properties);
        // Converts each field separately, so that the error names the column that Parquet does not support.
        for field in schema.fields() {
            if let Some(reason) = misfit(field.data_type()) {
                return Err(refused(field, reason));
            }
            let alone = Schema::new(vec![Arc::clone(field)]);
            let converted = guarded(|| ArrowSchemaConverter::new().convert(&alone).map(drop).map_err(text));
            converted.map_err(|reason| refused(field, &reason))?;
        }
        let plain = Arc::new(properties.clone().into_builder().set_dictionary_enabled(false).build());
        let properties = Arc::new(properties);
        let factory = |field: &FieldRef, properties: &Arc<WriterProperties>| {
            let schema = SchemaRef::new(Schema::new(vec![field.clone()]));
            let alone = SerializedFileWriter::new(std::io::sink(), root_of(&schema)?, properties.clone())?;
            Ok::<_, ParquetError>(ArrowRowGroupWriterFactory::new(&alone, schema))
        };
        let both = |field: &FieldRef| Ok::<_, ParquetError>([factory(field, &properties)?, factory(field, &plain)?]);
        let factories = schema.fields().iter().map(both).collect::<Result<Vec<_>, _>>()?;
        let writer = SerializedFileWriter::new(BufWriter::new(file), root_of(schema)?, properties.clone())?;
        let threads = rayon::current_num_threads();
        // While a group is encoded, it takes its bytes twice.
        let fitting = usize::try_from(memory / 4 / (2 * GROUP as u64)).unwrap_or(usize::MAX);
        let at_once = (threads + 2).min(fitting.saturating_sub(1)).max(1);
        let alone = if at_once > threads { threads } else { usize::MAX };
        // The first groups share the threads, and there may be only one.
        let encoders = (encoders(memory, threads) / at_once.min(threads.div_ceil(4) + 2)).max(1);
        let groups = Groups {
            columns: Arc::new(Columns { schema: schema.clone(), factories, encoders }),
            pipeline: Pipeline::new(at_once, writer, append)?,
            overlap: fitting >= 2,
            alone,
            blocks: Vec::new(),
            rows: 0,
            bytes: 0,
            before: 0,
        };
        Ok(Writer { blocks: Blocks::plain(schema, BLOCK), groups })
    }

    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<(), Unwritten> {
        self.blocks.push(batch, |block| self.groups.push(block))
    }

    pub(super) fn finish(mut self) -> Result<(), Unwritten> {
        self.blocks.finish(|block| self.groups.push(block))?;
        self.groups.end_group()?;
        let mut file = self.groups.pipeline.finish()?.into_inner()?;
        Ok(file.flush()?)
    }
}

fn root_of(schema: &Schema) -> Result<TypePtr, ParquetError> {
    Ok(ArrowSchemaConverter::new().convert(schema)?.root_schema_ptr())
}

/// The number of columns that are encoded at once: enough to keep all threads busy, but at most what fits in a fourth
/// of the memory.
fn encoders(memory: u64, threads: usize) -> usize {
    usize::try_from(memory / 4 / ENCODER).unwrap_or(usize::MAX).clamp(1, 4 * threads)
}

impl Groups {
    fn push(&mut self, block: Block) -> Result<(), Unwritten> {
        let (rows, bytes) = (block.rows(), block.bytes());
        if self.rows + rows > ROWS || self.bytes + bytes > GROUP {
            self.end_group()?;
        }
        (self.rows, self.bytes) = (self.rows + rows, self.bytes + bytes);
        let block = Arc::new(Prepared::new(block));
        self.blocks.push(Arc::clone(&block));
        rayon::spawn(move || drop(block.batch()));
        Ok(())
    }

    /// Starts encoding and writing the current row group, if it has rows.
    fn end_group(&mut self) -> Result<(), Unwritten> {
        let blocks = std::mem::take(&mut self.blocks);
        (self.rows, self.bytes) = (0, 0);
        if blocks.is_empty() {
            return Ok(());
        }
        let (columns, number) = (Arc::clone(&self.columns), self.before);
        self.before += 1;
        if number >= self.alone {
            return self.pipeline.push(move || Ok(Box::new(columns.encoded_alone(number, blocks)?.into_iter())));
        }
        if self.overlap {
            let all = move || Ok(Box::new(columns.encoded(number, blocks)?.collect::<Vec<_>>().into_iter()) as Encoded);
            return self.pipeline.push(all);
        }
        // A few columns are encoded at a time while the group is written, so that the encoded group is never in memory
        // as a whole.
        self.pipeline.push(move || Ok(Box::new(columns.encoded(number, blocks)?)))?;
        self.pipeline.wait(0)
    }
}

impl Columns {
    /// The columns of a row group, encoded when the iterator is advanced, `encoders` at a time.
    fn encoded(
        self: Arc<Self>,
        number: usize,
        blocks: Vec<Arc<Prepared>>,
    ) -> Result<impl Iterator<Item = Result<Vec<ArrowColumnChunk>, Unwritten>>, Unwritten> {
        let blocks = blocks.into_par_iter().map(|block| block.batch()).collect::<Result<Vec<_>, _>>()?;
        let starts = (0..self.factories.len()).step_by(self.encoders);
        Ok(starts.flat_map(move |start| {
            let places = start..self.factories.len().min(start + self.encoders);
            places.into_par_iter().map(|place| self.guarded_column(number, place, &blocks)).collect::<Vec<_>>()
        }))
    }

    /// As `encoded`, by the calling thread alone.
    fn encoded_alone(
        &self,
        number: usize,
        blocks: Vec<Arc<Prepared>>,
    ) -> Result<Vec<Result<Vec<ArrowColumnChunk>, Unwritten>>, Unwritten> {
        let blocks = blocks.into_iter().map(|block| block.batch()).collect::<Result<Vec<_>, _>>()?;
        Ok((0..self.factories.len()).map(|place| self.guarded_column(number, place, &blocks)).collect())
    }

    /// Encodes the column at `place` in a row group. A panic is caught on the thread where it occurs, so that it is not
    /// printed.
    fn guarded_column(
        &self,
        number: usize,
        place: usize,
        blocks: &[RecordBatch],
    ) -> Result<Vec<ArrowColumnChunk>, Unwritten> {
        let encoded = guarded(|| self.column(number, place, blocks).map_err(text));
        encoded.map_err(|reason| refused(self.schema.field(place), &reason))
    }

    /// Encodes the column at `place` in a row group.
    fn column(
        &self,
        number: usize,
        place: usize,
        blocks: &[RecordBatch],
    ) -> Result<Vec<ArrowColumnChunk>, ParquetError> {
        let pieces: Vec<&ArrayRef> = blocks.iter().map(|block| block.column(place)).collect();
        let [with_dictionary, plain] = &self.factories[place];
        let factory = if is_distinct(&pieces) { plain } else { with_dictionary };
        let mut writers = factory.create_column_writers(number)?;
        for block in blocks {
            let leaves = compute_leaves(self.schema.field(place), block.column(place))?;
            for (writer, leaf) in writers.iter_mut().zip(&leaves) {
                writer.write(leaf)?;
            }
        }
        writers.into_iter().map(ArrowColumnWriter::close).collect()
    }
}

impl Prepared {
    fn new(block: Block) -> Prepared {
        Prepared(Mutex::new((Some(block), Err("its rows cannot be put together".into()))))
    }

    /// The rows of the block as a batch, which the first call creates.
    fn batch(&self) -> Result<RecordBatch, Unwritten> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(block) = state.0.take() {
            state.1 = guarded(|| block.batch().map_err(|error| error.to_string()));
        }
        state.1.clone().map_err(|reason| Unwritten::Because(unknown(&reason)))
    }
}

fn append(writer: &mut Output, columns: Encoded) -> Result<(), Unwritten> {
    let mut group = writer.next_row_group()?;
    for column in columns {
        for chunk in column? {
            chunk.append_to_row_group(&mut group)?;
        }
    }
    group.close()?;
    Ok(())
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

/// The part of a type that Parquet does not support, if its encoder would report that unclearly, or only when there are
/// rows.
pub(super) fn misfit(of: &DataType) -> Option<&'static str> {
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
        // These could be written, but parquet's reader fails on them.
        Dictionary(_, of) if matches!(**of, Null | Boolean) => Some("a dictionary of nulls or booleans"),
        Dictionary(_, of) if of.is_nested() && !matches!(**of, Struct(_)) => Some("a dictionary of nested values"),
        Dictionary(_, of) => misfit(of),
        Union(..) => Some("a union"),
        _ => None,
    }
}

/// The error for a column that Parquet does not support.
fn refused(field: &Field, reason: &str) -> Unwritten {
    let (name, of) = (field.name(), field.data_type());
    let advice = "write .arrow, or remove the column";
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
