//! Batches in a temporary file, which are written one after the other, and read individually.
//!
//! ```text
//! file     block | block | ..       each block is a batch: a stream of Arrow IPC without its schema
//! Block    the position of a block, and its number of rows
//! ```
//!
//! All blocks have the same schema, which is kept in memory: for many columns it is as long as a block.
//!
//! On Unix and on Windows the file has no name, so it is removed however the process ends: by an error, a panic, a
//! signal or a loss of power. The file is only read through the handle that wrote it. Several threads may write and
//! read at the same time, each at other offsets.
//!
//! This is not a persistent file format: only the process that wrote blocks reads them.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow_buffer::Buffer;
use arrow_ipc::reader::StreamDecoder;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::DataType;

use super::{memory, row_bytes};
use crate::error::{Error, Result};
use crate::take::take_batch;

/// A temporary file of batches.
pub(super) struct Spill {
    file: File,
    folder: PathBuf,
    end: AtomicU64,
    /// The message with the schema, with which a stream of such batches begins.
    schema: OnceLock<Buffer>,
}

/// A batch in a [`Spill`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    start: u64,
    length: usize,
    pub(super) rows: usize,
}

impl Block {
    /// The number of bytes in the file, about as many as in memory.
    pub(super) fn bytes(&self) -> u64 {
        self.length as u64
    }
}

/// A batch in the format of the file.
pub(super) struct Encoded {
    bytes: Vec<u8>,
    /// The position of the batch, after the schema.
    start: usize,
    rows: usize,
}

impl Encoded {
    pub(super) fn of(batch: &RecordBatch) -> Result<Encoded> {
        let bytes = row_bytes(batch);
        memory::check(2 * bytes as u64)?;
        let batch = compact(batch)?;
        let mut writer = StreamWriter::try_new(memory::reserved(bytes + bytes / 8)?, &batch.schema())?;
        let start = writer.get_ref().len();
        writer.write(&batch)?;
        Ok(Encoded { bytes: writer.into_inner()?, start, rows: batch.num_rows() })
    }
}

impl Spill {
    /// Creates an empty file in this folder.
    pub(super) fn new(folder: &Path) -> Result<Spill> {
        let failed = |source| koel::Error::Spill { folder: folder.into(), source };
        Ok(Spill {
            file: tempfile::tempfile_in(folder).map_err(failed)?,
            folder: folder.into(),
            end: AtomicU64::new(0),
            schema: OnceLock::new(),
        })
    }

    /// The number of bytes written.
    pub(super) fn bytes(&self) -> u64 {
        self.end.load(Relaxed)
    }

    pub(super) fn write(&self, batch: &Encoded) -> Result<Block> {
        let (schema, bytes) = batch.bytes.split_at(batch.start);
        self.schema.get_or_init(|| Buffer::from(schema));
        let length = bytes.len();
        let start = self.end.fetch_add(length as u64, Relaxed);
        write_at(&self.file, bytes, start).map_err(|error| self.failed(error))?;
        Ok(Block { start, length, rows: batch.rows })
    }

    pub(super) fn read(&self, block: &Block) -> Result<RecordBatch> {
        // Aligned, so that columns need not be copied again.
        let words = block.length.div_ceil(size_of::<u128>());
        let mut bytes = memory::reserved::<u128>(words)?;
        bytes.resize(words, 0);
        let read = &mut bytemuck::cast_slice_mut(&mut bytes)[..block.length];
        read_at(&self.file, read, block.start).map_err(|error| self.failed(error))?;
        let mut bytes = Buffer::from_vec(bytes).slice_with_length(0, block.length);
        let mut decoder = StreamDecoder::new();
        if let Some(schema) = self.schema.get() {
            decoder.decode(&mut schema.clone())?;
        }
        let batch = decoder.decode(&mut bytes)?;
        batch.ok_or_else(|| self.failed(io::Error::new(io::ErrorKind::UnexpectedEof, "it has become shorter")))
    }

    fn failed(&self, source: io::Error) -> Error {
        koel::Error::Spill { folder: self.folder.clone(), source }.into()
    }
}

/// Reads from a position of a file. Other threads may read the file at the same time.
///
/// # Errors
/// The errors of the system; [`io::ErrorKind::UnexpectedEof`] if the file ends before `bytes` are full.
pub fn read_at(file: &File, mut bytes: &mut [u8], mut start: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        #[cfg(unix)]
        let read = std::os::unix::fs::FileExt::read_at(file, bytes, start);
        #[cfg(windows)]
        let read = std::os::windows::fs::FileExt::seek_read(file, bytes, start);
        #[cfg(not(any(unix, windows)))]
        let read = unsupported(file);
        match read {
            Ok(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it has become shorter")),
            Ok(read) => {
                bytes = &mut bytes[read..];
                start += read as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Writes at a position of a file.
pub(crate) fn write_at(file: &File, mut bytes: &[u8], mut start: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        #[cfg(unix)]
        let written = std::os::unix::fs::FileExt::write_at(file, bytes, start);
        #[cfg(windows)]
        let written = std::os::windows::fs::FileExt::seek_write(file, bytes, start);
        #[cfg(not(any(unix, windows)))]
        let written = unsupported(file);
        match written {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                bytes = &bytes[written..];
                start += written as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The error on systems that do not support reading and writing at a position.
#[cfg(not(any(unix, windows)))]
fn unsupported(_: &File) -> io::Result<usize> {
    Err(io::ErrorKind::Unsupported.into())
}

/// A copy of the rows that does not share buffers.
pub(super) fn copied(batch: &RecordBatch) -> Result<RecordBatch> {
    memory::check(row_bytes(batch) as u64)?;
    let rows: UInt32Array = (0..batch.num_rows() as u32).collect::<Vec<_>>().into();
    compact(&take_batch(batch, &rows)?)
}

/// The batch without unused data: views of text may share buffers, which would be written with each batch.
fn compact(batch: &RecordBatch) -> Result<RecordBatch> {
    let columns = batch.columns().iter().map(|column| -> ArrayRef {
        match column.data_type() {
            DataType::Utf8View => Arc::new(column.as_string_view().gc()),
            DataType::BinaryView => Arc::new(column.as_binary_view().gc()),
            _ => Arc::clone(column),
        }
    });
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(batch.schema(), columns.collect(), &options)?)
}
