//! The bytes of an input: memory, or a plain file, from which many threads read the ranges that they need.

use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use koel_arrow::external::read_at;
use rayon::prelude::*;

use crate::progress;

use super::lines::Lines;
use super::spool;

/// The bytes that a thread reads at a time.
const PIECE: usize = 4 << 20;

/// The bytes of an input. Clones share the file.
#[derive(Clone)]
pub(crate) struct Data(Storage);

#[derive(Clone)]
enum Storage {
    /// A file, with its length and time of change when it was opened.
    File {
        file: Arc<File>,
        length: u64,
        changed: Option<SystemTime>,
    },
    Memory(Bytes),
}

impl Data {
    /// A plain file in its current state.
    pub(crate) fn of_file(file: File) -> io::Result<Data> {
        let about = file.metadata()?;
        let changed = about.modified().ok();
        Ok(Data(Storage::File { file: file.into(), length: about.len(), changed }))
    }

    /// Copies all bytes of a reader into memory or into a temporary file.
    pub(crate) fn read_once(mut reader: impl Read, has_lines: bool, is_spooled: bool) -> io::Result<Data> {
        let mut lines;
        let reader: &mut dyn Read = match has_lines {
            true => {
                lines = Lines::of(reader);
                &mut lines
            }
            false => &mut reader,
        };
        if is_spooled {
            return spool::spooled(reader);
        }
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes)?;
        Ok(bytes.into())
    }

    pub(super) fn length(&self) -> u64 {
        match &self.0 {
            Storage::File { length, .. } => *length,
            Storage::Memory(bytes) => bytes.len() as u64,
        }
    }

    /// The first bytes, at most `most`.
    pub(super) fn head(&self, most: usize) -> io::Result<Bytes> {
        self.range(0, most.min(usize::try_from(self.length()).unwrap_or(usize::MAX)))
    }

    /// The bytes of a range, all of which must exist.
    pub(super) fn range(&self, start: u64, length: usize) -> io::Result<Bytes> {
        self.check(start, length)?;
        match &self.0 {
            Storage::File { file, .. } => {
                let mut bytes = vec![0; length];
                read_at(file, &mut bytes, start)?;
                Ok(bytes.into())
            }
            // `start` and `length` are at most the length of `bytes`.
            Storage::Memory(bytes) => Ok(bytes.slice(start as usize..start as usize + length)),
        }
    }

    /// As `range`, without an allocation: bytes of a file are read into `buffer`, which grows if necessary.
    pub(super) fn range_in<'a>(&'a self, start: u64, length: usize, buffer: &'a mut Vec<u8>) -> io::Result<&'a [u8]> {
        self.check(start, length)?;
        match &self.0 {
            Storage::File { file, .. } => {
                if buffer.len() < length {
                    buffer.resize(length, 0);
                }
                read_at(file, &mut buffer[..length], start)?;
                Ok(&buffer[..length])
            }
            Storage::Memory(bytes) => Ok(&bytes[start as usize..start as usize + length]),
        }
    }

    /// Checks that a file did not change since it was opened. Otherwise parts that are read twice would be
    /// inconsistent.
    pub(super) fn check_unchanged(&self) -> io::Result<()> {
        let Storage::File { file, length, changed: before } = &self.0 else { return Ok(()) };
        let about = file.metadata()?;
        if about.len() == *length && about.modified().ok() == *before {
            return Ok(());
        }
        Err(io::Error::other("the file changed while it was being read: try again when no program writes to it"))
    }

    fn check(&self, start: u64, length: usize) -> io::Result<()> {
        let of = self.length();
        match start.checked_add(length as u64).filter(|&end| end <= of) {
            Some(_) => Ok(()),
            None => Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                format!("{length} bytes at {start} are wanted, and there are {of}"),
            )),
        }
    }

    /// A reader of all bytes from `start`, with a position of its own.
    pub(super) fn reader(&self, start: u64) -> DataReader {
        DataReader { data: self.clone(), at: start }
    }

    /// All bytes, read by all threads. The progress line counts them.
    pub(super) fn whole(&self) -> io::Result<Bytes> {
        let Storage::File { file, length, .. } = &self.0 else { return self.range(0, self.length() as usize) };
        let length = usize::try_from(*length).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
        let mut bytes = vec![0; length];
        bytes.par_chunks_mut(PIECE).enumerate().try_for_each(|(i, piece)| {
            read_at(file, piece, (i * PIECE) as u64)?;
            progress::advance_bytes(piece.len() as u64);
            io::Result::Ok(())
        })?;
        Ok(bytes.into())
    }
}

impl From<Vec<u8>> for Data {
    fn from(bytes: Vec<u8>) -> Data {
        Data(Storage::Memory(bytes.into()))
    }
}

/// Reads sequentially from a position, for pages of Parquet.
pub(crate) struct DataReader {
    data: Data,
    at: u64,
}

impl Read for DataReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.data.length().saturating_sub(self.at)).unwrap_or(usize::MAX);
        let length = left.min(buffer.len());
        let buffer = &mut buffer[..length];
        match &self.data.0 {
            Storage::File { file, .. } => read_at(file, buffer, self.at)?,
            Storage::Memory(bytes) => buffer.copy_from_slice(&bytes[self.at as usize..][..buffer.len()]),
        }
        self.at += buffer.len() as u64;
        Ok(buffer.len())
    }
}
