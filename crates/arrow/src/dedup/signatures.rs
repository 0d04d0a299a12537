//! The signatures of all documents: in memory, or in a temporary file once they exceed their share of the limit.
//!
//! Signatures have a fixed length, so that each can be read by its row. As in `external/spill.rs`, the file has no
//! name, and disappears however the process ends.

use std::fs::File;
use std::path::PathBuf;

use rayon::prelude::*;

use super::sketch::Word;
use crate::error::{Error, Result};
use crate::external::{Limit, read_at, write_at};

/// The number of words that a thread reads at a time.
const WORDS: usize = 1 << 19;

#[derive(Debug)]
pub(super) struct Signatures {
    /// The number of words of a signature.
    length: usize,
    /// Signatures that are not in the file: all, or those that follow it.
    buffered: Vec<Word>,
    file: Option<File>,
    /// The number of words in the file.
    written: u64,
    most: usize,
    folder: PathBuf,
}

impl Signatures {
    /// No signatures yet; each has this length.
    pub(super) fn new(length: usize, limit: &Limit) -> Signatures {
        let most = usize::try_from(limit.bytes() / 4).unwrap_or(usize::MAX) / size_of::<Word>();
        Signatures { length, buffered: Vec::new(), file: None, written: 0, most, folder: limit.folder().into() }
    }

    /// Adds the signatures of further rows.
    pub(super) fn push(&mut self, words: &[Word]) -> Result<()> {
        // A growing vector may have a capacity of twice its length.
        if self.buffered.len() + words.len() > self.most / 2 {
            self.flush()?;
        }
        self.buffered.try_reserve(words.len()).map_err(|_| koel::Error::OutOfMemory {
            device: "this machine".into(),
            bytes: size_of_val(words) as u64,
        })?;
        self.buffered.extend_from_slice(words);
        Ok(())
    }

    /// Completes the signatures: all are in memory, or all are in the file.
    pub(super) fn finish(&mut self) -> Result<()> {
        if self.file.is_some() { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        let failed = |source| Error::from(koel::Error::Spill { folder: self.folder.clone(), source });
        if self.file.is_none() {
            self.file = Some(tempfile::tempfile_in(&self.folder).map_err(failed)?);
        }
        if let Some(file) = &self.file {
            let start = self.written * size_of::<Word>() as u64;
            write_at(file, bytemuck::cast_slice(&self.buffered), start).map_err(failed)?;
        }
        self.written += self.buffered.len() as u64;
        self.buffered.clear();
        Ok(())
    }

    /// The number of rows.
    pub(super) fn rows(&self) -> usize {
        (self.written as usize + self.buffered.len()) / self.length
    }

    /// The number of bytes in the file.
    pub(super) fn bytes(&self) -> u64 {
        self.written * size_of::<Word>() as u64
    }

    /// Copies the words of consecutive rows, of which `row` is the first.
    fn read(&self, row: usize, words: &mut [Word]) -> Result<()> {
        let start = row * self.length;
        match &self.file {
            None => words.copy_from_slice(&self.buffered[start..start + words.len()]),
            Some(file) => {
                let start = start as u64 * size_of::<Word>() as u64;
                let failed = |source| koel::Error::Spill { folder: self.folder.clone(), source };
                read_at(file, bytemuck::cast_slice_mut(words), start).map_err(failed)?;
            }
        }
        Ok(())
    }

    /// Computes a value of each signature, on all threads.
    pub(super) fn map<T: Send + Copy + Default>(&self, of: impl Fn(&[Word]) -> T + Sync) -> Result<Vec<T>> {
        let mut values = vec![T::default(); self.rows()];
        let rows = (WORDS / self.length).max(1);
        values.par_chunks_mut(rows).enumerate().try_for_each(|(chunk, values)| {
            let mut words = vec![0; values.len() * self.length];
            self.read(chunk * rows, &mut words)?;
            for (value, words) in values.iter_mut().zip(words.chunks_exact(self.length)) {
                *value = of(words);
            }
            Ok::<_, Error>(())
        })?;
        Ok(values)
    }

    /// The number of equal words of two signatures.
    pub(super) fn equal(&self, a: u32, b: u32) -> Result<usize> {
        let (mut left, mut right) = (vec![0; self.length], vec![0; self.length]);
        self.read(a as usize, &mut left)?;
        self.read(b as usize, &mut right)?;
        Ok(left.iter().zip(&right).filter(|(a, b)| a == b).count())
    }
}
