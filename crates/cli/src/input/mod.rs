//! Reads keys and values: text, `.npy`, FASTA, FASTQ, and named columns of tables. The format is detected by the first
//! bytes and, if these are ambiguous, by name. Any of them may be compressed by gzip or zstd.
//!
//! Sequences are read here, and everything else by `tables::read`: named columns and `.npy` as columns of a table
//! (`table.rs`), and text without named columns by `csv::pairs`. Text and sequences are streamed, so that they may be pipes
//! of any length.
//!
//! ```text
//! feed.rs     checks rows on their way to a sink: a number must fit the type of its column, and readers know its row
//! pairs.rs    the sink of most commands: all rows, in memory or in a temporary file
//! window.rs   k-mers of sequences                places.rs   the sequences in which they are
//! inputs.rs   several files as one               letters.rs  k-mers as text
//! ```

mod feed;
mod format;
mod inputs;
pub(crate) mod letters;
#[cfg(test)]
mod npy_tests;
mod options;
#[cfg(test)]
mod packed_tests;
mod pairs;
mod places;
mod table;
mod window;

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};

use koel::KeyType;
use koel::layout::sequences::{Sequences, Unread, fasta, fastq};

use super::failure::{Failure, Result};
use super::number::Type;
use super::tables::TableReading;
use super::tables::read::Source;
use super::tables::read::csv;
use super::tables::read::packed::Packing;
use super::{memory, progress, text};
use crate::progress::Position;
use format::Format;
use window::Windows;

pub(crate) use feed::Feed;
pub use feed::Sink;
pub use inputs::{Inputs, paths};
pub use options::{Header, OtherLetters, ReadOptions};
pub use pairs::Pairs;
pub use places::Places;

/// The number of bytes that are examined to detect the format.
const HEAD: usize = 64 << 10;

/// UTF-8's, which some editors write in front of text.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// What the caller wants of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// Keys with values.
    Pairs,
    /// The first column; values are 0.
    Keys,
}

/// The types of keys and values, where the user or the file says them.
#[derive(Clone, Copy, Default)]
pub struct Named {
    pub keys: Option<Type>,
    pub values: Option<Type>,
    /// What numbers must be that are k-mers.
    pub(crate) kmers: Option<KeyType>,
}

impl Named {
    /// Of these options, and where they say nothing of the file.
    pub(crate) fn of(options: &ReadOptions, file: Named) -> Named {
        Named {
            keys: options.keys.or(file.keys),
            values: options.values.or(file.values),
            kmers: options.are_kmers.then(|| options.key_type_of_kmers()),
        }
    }
}

/// The keys and places of a FASTA text in memory.
pub fn kmers(text: &[u8], name: &str, k: u32) -> Result<Pairs> {
    let mut pairs = Pairs::default();
    let options = ReadOptions { kmer: Some(k), ..ReadOptions::default() };
    Input::of(text, name.as_ref())?.scan(&options, Want::Pairs, &mut pairs)?;
    Ok(pairs)
}

/// A file whose format is known, and nothing else of it.
pub struct Input<'a> {
    name: Name,
    format: Format,
    /// Bytes, where the system knows them.
    length: Option<u64>,
    /// How many of them were read, of a packed file, where others come out.
    position: Option<Position>,
    reader: Box<dyn BufRead + 'a>,
}

impl<'a> Input<'a> {
    /// Opens a file; `-` is stdin.
    pub fn open(path: &Path) -> Result<Input<'a>> {
        let name = Name::of(path);
        match path.to_str() {
            Some("-") => Input::named(io::stdin().lock(), name),
            _ => {
                let file = File::open(path).map_err(|error| name.io(&error))?;
                let length = file.metadata().ok().filter(|about| about.is_file()).map(|about| about.len());
                Ok(Input { length, ..Input::named(file, name)? })
            }
        }
    }

    /// Anything that can be read, as a file of that name would be.
    pub fn of(reader: impl Read + 'a, name: &Path) -> Result<Input<'a>> {
        Input::named(reader, Name::of(name))
    }

    fn named(mut reader: impl Read + 'a, name: Name) -> Result<Input<'a>> {
        let head = name.head(&mut reader)?;
        let reader = Cursor::new(head.clone()).chain(reader);
        let Some(packing) = Packing::of(&head) else { return Input::unpacked(head, reader, name) };
        let (reader, position) = progress::counted(reader);
        let unpacked = packing.reader(BufReader::with_capacity(HEAD, reader));
        let mut reader = unpacked.map_err(|error| name.io(&error))?;
        let head = name.head(&mut reader)?;
        if Packing::of(&head).is_some() {
            return Err(name.fail("this is packed twice: unpack it once"));
        }
        let reader = Cursor::new(head.clone()).chain(reader);
        Ok(Input { position: Some(position), ..Input::unpacked(head, reader, name)? })
    }

    /// A file that begins with this head, which the reader gives too.
    fn unpacked(head: Vec<u8>, mut reader: impl Read + 'a, name: Name) -> Result<Input<'a>> {
        let format = Format::of(&head, &name)?;
        // The reader of columns steps over it.
        if format.has_sequences() && head.starts_with(BYTE_ORDER_MARK) {
            reader.read_exact(&mut [0; BYTE_ORDER_MARK.len()]).map_err(|error| name.io(&error))?;
        }
        Ok(Input {
            name,
            format,
            length: None,
            position: None,
            reader: Box::new(BufReader::with_capacity(HEAD, reader)),
        })
    }

    /// Whether it is FASTA or FASTQ, whose keys are k-mers.
    pub fn has_sequences(&self) -> bool {
        self.format.has_sequences()
    }

    /// Reads it into a sink, in its order. A sentence says what of it was skipped.
    pub fn scan(self, options: &ReadOptions, want: Want, sink: &mut dyn Sink) -> Result<Option<String>> {
        let mut feed = Feed::new(sink);
        let name = self.name.clone();
        let read = self.rows(options, want, &mut feed)?;
        feed.no_key(options.k()).map_or(Ok(read), |reason| Err(name.fail(reason)))
    }

    /// The same file, of which the line of progress counts the bytes.
    fn watched(mut self) -> Input<'a> {
        self.reader = progress::watched(self.reader, self.length, self.position.clone());
        self
    }

    /// Hands on its rows; a sentence says what was skipped.
    fn rows(self, options: &ReadOptions, want: Want, feed: &mut Feed<'_>) -> Result<Option<String>> {
        // Rows are in arrays, whose allocations are not checked.
        memory::end_when_short();
        if options.key.is_some() || matches!(self.format, Format::Table | Format::Npy) {
            return table::read(&self.into_source(options)?, options, want, feed).map(|()| None);
        }
        match self.format {
            // They are read above.
            Format::Table | Format::Npy => Ok(None),
            Format::Text { delimiter } => {
                csv::pairs::read(self.reader, &self.name, delimiter, options, want, feed).map(|()| None)
            }
            Format::Fasta | Format::Fastq => {
                let Input { name, format, reader, .. } = self;
                let mut windows = Windows::new(&name, options, want, feed)?;
                let read = records_of(format, reader, &name, &mut windows);
                // Rows before an error are passed on too.
                windows.flush().and(read)?;
                Ok(windows.report())
            }
        }
    }
}

impl Input<'_> {
    /// The file as a table: a file is read from the disk, and others into memory, or into a temporary file.
    fn into_source(self, options: &ReadOptions) -> Result<Source> {
        let reading = TableReading { header: options.header, text: options.text.clone(), spool: options.spool };
        match self.length {
            Some(_) => Source::open(&self.name.0, &reading),
            None => Source::of_reader(&self.name, self.reader, &reading),
        }
    }
}

/// Hands on the records of sequences.
fn records_of(
    format: Format,
    reader: impl BufRead,
    name: &Name,
    to: &mut impl Sequences<Error = Failure>,
) -> Result<()> {
    let read = if format == Format::Fastq { fastq(reader, to) } else { fasta(reader, to) };
    read.map_err(|error| match error {
        Unread::Io(error) => name.io(&error),
        Unread::Format { line, reason } => name.at(line, reason),
        Unread::Stopped(failure) => failure,
    })
}

/// What a file is called in messages.
#[derive(Clone)]
pub struct Name(PathBuf);

impl Name {
    pub(crate) fn of(path: &Path) -> Name {
        Name(path.into())
    }

    pub(crate) fn shown(&self) -> String {
        if self.0.as_os_str() == "-" { "stdin".into() } else { text::path(&self.0) }
    }

    /// An error on this file.
    pub(crate) fn fail(&self, message: impl std::fmt::Display) -> Failure {
        Failure::Input(format!("{}: {message}", self.shown()))
    }

    /// An error on a line of this file.
    pub(crate) fn at(&self, line: u64, message: impl std::fmt::Display) -> Failure {
        Failure::Input(format!("{}, line {line}: {message}", self.shown()))
    }

    pub(crate) fn io(&self, error: &io::Error) -> Failure {
        self.fail(error)
    }

    /// Whether it ends so; that a file is packed says nothing of what is in it.
    pub(crate) fn has_extension(&self, names: &[&str]) -> bool {
        let extension = |path: &Path| path.extension().and_then(|e| e.to_str()).map(str::to_ascii_lowercase);
        let extension = match extension(&self.0).as_deref() {
            Some("gz" | "zst") => extension(&self.0.with_extension("")),
            other => other.map(str::to_owned),
        };
        extension.is_some_and(|extension| names.contains(&extension.as_str()))
    }

    /// The first bytes of this file.
    fn head(&self, reader: &mut impl Read) -> Result<Vec<u8>> {
        let mut head = Vec::new();
        reader.take(HEAD as u64).read_to_end(&mut head).map_err(|error| self.io(&error))?;
        Ok(head)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::number::Number;

    /// The pairs in some bytes that stand under a name.
    pub(crate) fn pairs(
        name: &str,
        bytes: &[u8],
        kmer: Option<u32>,
    ) -> std::result::Result<Vec<(Number, Number)>, String> {
        let mut sink = Pairs::default();
        read_with(name, bytes, &ReadOptions { kmer, ..ReadOptions::default() }, &mut sink)?;
        Ok(zipped(&sink))
    }

    /// The rows of some columns.
    pub(crate) fn zipped(pairs: &Pairs) -> Vec<(Number, Number)> {
        pairs.iter().collect()
    }

    /// Reads them under some options; what was skipped.
    pub(crate) fn read_with(
        name: &str,
        bytes: &[u8],
        options: &ReadOptions,
        sink: &mut Pairs,
    ) -> std::result::Result<Option<String>, String> {
        let read = Input::of(bytes, name.as_ref()).and_then(|input| {
            options.check(&[&input])?;
            input.scan(options, Want::Pairs, sink)
        });
        read.map_err(|failure| failure.to_string())
    }
}
