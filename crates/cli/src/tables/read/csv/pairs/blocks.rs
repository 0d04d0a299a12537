//! Reads text in blocks of whole rows, which all threads parse at once. Only one block of a file is in memory.
//!
//! The first blocks are small, so that the first rows of a pipe are available early.

use std::io::{self, BufRead, Read};

use super::super::super::HEAD;
use super::super::cut::whole_rows;
use super::super::{LONGEST, TOO_LONG};

/// Bytes of a piece, which one thread parses.
const PIECE: usize = 256 << 10;
/// The pieces of a block per thread, and the most threads that are counted.
const PIECES: usize = 4;
const THREADS: usize = 64;

/// Cuts text into blocks.
pub(super) struct Blocks<R> {
    reader: R,
    delimiter: u8,
    text: Vec<u8>,
    /// Bytes at the start that were already returned.
    used: usize,
    /// The number of bytes to read for the next block, and its maximum.
    size: usize,
    most: usize,
    piece: usize,
    is_at_end: bool,
    error: Option<io::Error>,
}

impl<R: BufRead> Blocks<R> {
    /// Creates a reader of blocks; tests set the size of a piece.
    pub(super) fn new(reader: R, delimiter: u8, piece: Option<usize>) -> Blocks<R> {
        let (piece, first) = piece.map_or((PIECE, HEAD), |piece| (piece.max(1), piece.max(1)));
        let most = first.max(piece * PIECES * rayon::current_num_threads().min(THREADS));
        let (text, used, error) = (Vec::new(), 0, None);
        Blocks { reader, delimiter, text, used, size: first, most, piece, is_at_end: false, error }
    }

    /// Returns the next block, in pieces of whole rows; `None` at the end.
    ///
    /// # Errors
    /// Errors of the reader, after all rows before them; [`io::ErrorKind::FileTooLarge`] if a row is too long.
    pub(super) fn next(&mut self) -> io::Result<Option<Vec<&[u8]>>> {
        self.text.drain(..self.used);
        self.used = 0;
        loop {
            if !self.is_at_end {
                self.read();
            }
            let rows = whole_rows(&self.text, self.delimiter, self.piece);
            self.used = rows.last().map_or(0, |last| last.end);
            if self.used > 0 {
                return Ok(Some(rows.into_iter().map(|range| &self.text[range]).collect()));
            }
            if let Some(error) = self.error.take() {
                return Err(error);
            }
            if self.is_at_end {
                self.used = self.text.len();
                return Ok((!self.text.is_empty()).then(|| vec![&self.text[..]]));
            }
            if self.text.len() > LONGEST {
                return Err(io::Error::new(io::ErrorKind::FileTooLarge, TOO_LONG));
            }
        }
    }

    /// Reads further bytes.
    fn read(&mut self) {
        let wanted = self.size as u64;
        // One additional byte, so that the end is detected without another allocation.
        let buffer = self.text.try_reserve(self.size + 1).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory));
        match buffer.and_then(|()| self.reader.by_ref().take(wanted).read_to_end(&mut self.text)) {
            Ok(read) => self.is_at_end = (read as u64) < wanted,
            // The bytes before the error are kept.
            Err(error) => (self.is_at_end, self.error) = (true, Some(error)),
        }
        self.size = self.most.min(2 * self.size);
    }
}
