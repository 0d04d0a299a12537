//! Readers of sequences, letter by letter: [`fasta`] and [`fastq`]. No record is buffered, so records of any length can
//! be read.
//!
//! A line ends with `\n`, `\r\n` or `\r`. The caller decides which letters are allowed, and may combine them to windows
//! with [`kmers`](super::kmers).
//!
//! ```
//! use koel::layout::sequences::{Sequences, fasta};
//! #[derive(Default)]
//! struct Letters(Vec<Vec<u8>>);
//! impl Sequences for Letters {
//!     type Error = std::convert::Infallible;
//!     fn record(&mut self) -> Result<(), Self::Error> {
//!         Ok(self.0.push(Vec::new()))
//!     }
//!     fn letter(&mut self, letter: u8, _line: u64) -> Result<(), Self::Error> {
//!         Ok(self.0.last_mut().into_iter().for_each(|record| record.push(letter)))
//!     }
//! }
//! let mut letters = Letters::default();
//! fasta(&b">a first\nAC\nG\n>b\nTT\n"[..], &mut letters).expect("FASTA");
//! assert_eq!(letters.0, [&b"ACG"[..], b"TT"]);
//! ```

mod fasta;
mod fastq;

use std::io;

pub use fasta::read as fasta;
pub use fastq::read as fastq;

/// Receives the records of a file, in order.
pub trait Sequences {
    /// The error that stops the reading.
    type Error;

    /// Called at the beginning of a record.
    ///
    /// # Errors
    /// An error stops the reading.
    fn record(&mut self) -> Result<(), Self::Error>;

    /// Receives a byte of the record's name, which ends at the first blank.
    ///
    /// # Errors
    /// As [`record`](Self::record).
    fn name(&mut self, _byte: u8, _line: u64) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Receives a letter of the record's sequence, and its line.
    ///
    /// # Errors
    /// As [`record`](Self::record).
    fn letter(&mut self, letter: u8, line: u64) -> Result<(), Self::Error>;

    /// Called about once per 64 KiB of the file.
    ///
    /// # Errors
    /// As [`record`](Self::record).
    fn progress(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }
}

/// The reason why a file was not read to its end.
#[derive(Debug)]
pub enum Unread<E> {
    /// The bytes of the file could not be read.
    Io(io::Error),
    /// The file is damaged, or has another format.
    Format {
        /// The line, counted from 1.
        line: u64,
        /// What is wrong on this line.
        reason: String,
    },
    /// The receiver stopped the reading.
    Stopped(E),
}

impl<E> Unread<E> {
    fn at(line: u64, reason: impl Into<String>) -> Self {
        Unread::Format { line, reason: reason.into() }
    }
}

impl<E> From<io::Error> for Unread<E> {
    fn from(error: io::Error) -> Self {
        Unread::Io(error)
    }
}

#[cfg(test)]
mod tests {
    use super::{Sequences, Unread};

    /// Names and letters, or the error.
    pub(super) type Texts = Result<Vec<(String, String)>, String>;

    /// Stores all records, and stops at `!`.
    #[derive(Default)]
    pub(super) struct Kept(Vec<(String, String)>);

    impl Sequences for Kept {
        type Error = u64;

        fn record(&mut self) -> Result<(), u64> {
            self.0.push(Default::default());
            Ok(())
        }

        fn name(&mut self, byte: u8, _: u64) -> Result<(), u64> {
            self.0.last_mut().expect("a record").0.push(byte.into());
            Ok(())
        }

        fn letter(&mut self, letter: u8, line: u64) -> Result<(), u64> {
            self.0.last_mut().expect("a record").1.push(letter.into());
            if letter == b'!' { Err(line) } else { Ok(()) }
        }
    }

    /// The output of a reader.
    pub(super) fn texts(read: impl FnOnce(&mut Kept) -> Result<(), Unread<u64>>) -> Texts {
        let mut kept = Kept::default();
        match read(&mut kept) {
            Ok(()) => Ok(kept.0),
            Err(Unread::Io(error)) => Err(error.to_string()),
            Err(Unread::Format { line, reason }) => Err(format!("line {line}: {reason}")),
            Err(Unread::Stopped(line)) => Err(format!("stopped at line {line}")),
        }
    }
}
