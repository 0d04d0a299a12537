//! Reads keys and values: text, `.npy`, FASTA, FASTQ, and named columns of tables. The format is detected by the first
//! bytes and, if these are ambiguous, by name. Any of them may be compressed by gzip or zstd.
//!
//! Files of all commands are opened here ([`Input`]), and their formats are detected (`format.rs`). Sequences are read
//! here, and everything else by `tables::read`: named columns and `.npy` as columns of a table (`table.rs`), and text
//! without named columns by `csv::pairs`. Text and sequences are streamed, so that they may be pipes of any length.
//!
//! ```text
//! feed.rs     checks rows on their way to a sink: a number must fit the type of its column, and readers know its row
//! pairs.rs    the sink of most commands: all rows, in memory or in a temporary file
//! window.rs   k-mers of sequences                places.rs   the sequences that contain them
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
use std::io::{self, BufRead, BufReader, Cursor, Read, Seek};
use std::path::{Path, PathBuf};

use koel::KeyType;
use koel::layout::sequences::{Sequences, Unread, fasta, fastq};

use super::failure::{Failure, Result};
use super::number::Type;
use super::tables::TableReading;
use super::tables::read::packed::Packing;
use super::tables::read::{Data, HEAD, Source, csv};
use super::{memory, progress, text};
use crate::progress::Counting;
use window::Windows;

pub(crate) use feed::Feed;
pub use feed::Sink;
pub(crate) use format::Format;
pub use inputs::{Inputs, paths};
pub use options::{Header, OtherLetters, ReadOptions};
pub use pairs::Pairs;
pub use places::Places;

/// The byte order mark of UTF-8, which some editors write at the start of text.
pub(crate) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// What the caller wants to read from a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// Keys with values.
    Pairs,
    /// Only the first column; values are 0.
    Keys,
}

/// The types of keys and values, as far as the user or the file states them.
#[derive(Clone, Copy, Default)]
pub struct Named {
    pub keys: Option<Type>,
    pub values: Option<Type>,
    /// The key type of k-mers, if the numbers must be k-mers.
    pub(crate) kmers: Option<KeyType>,
}

impl Named {
    /// The types that the options state, otherwise those that the file states.
    pub(crate) fn of(options: &ReadOptions, file: Named) -> Named {
        Named {
            keys: options.keys.or(file.keys),
            values: options.values.or(file.values),
            kmers: options.are_kmers.then(|| options.key_type_of_kmers()),
        }
    }
}

/// The keys and places of a FASTA text that is in memory.
pub fn kmers(text: &[u8], name: &str, k: u32) -> Result<Pairs> {
    let mut pairs = Pairs::default();
    let options = ReadOptions { kmer: Some(k), ..ReadOptions::default() };
    Input::of(text, name.as_ref())?.scan(&options, Want::Pairs, &mut pairs)?;
    Ok(pairs)
}

/// A file whose format is known, and of which only the first bytes were read.
pub struct Input<'a> {
    name: Name,
    format: Format,
    /// The length in bytes, if the system knows it.
    length: Option<u64>,
    content: Content<'a>,
}

/// The bytes of a file.
enum Content<'a> {
    /// A plain file: any thread can read any part of it.
    File(File),
    /// Bytes that can be read only once: a pipe, or a decompressed file.
    Once(Box<dyn BufRead + 'a>),
}

impl<'a> Input<'a> {
    /// Opens a file; `-` is stdin.
    pub fn open(path: &Path) -> Result<Input<'a>> {
        if path.as_os_str() == "-" {
            return Input::of(io::stdin().lock(), path);
        }
        let name = Name::of(path);
        let opened = File::open(path).and_then(|file| Ok((file.metadata()?, file)));
        let (about, mut file) = opened.map_err(|error| name.io(&error))?;
        if !about.is_file() {
            return Input::of(file, path);
        }
        let length = Some(about.len());
        let head = name.head(&mut file)?;
        file.rewind().map_err(|error| name.io(&error))?;
        if Packing::of(&head).is_some() {
            return Ok(Input { length, ..Input::of(file, path)? });
        }
        Ok(Input { format: Format::of(&head, &name)?, name, length, content: Content::File(file) })
    }

    /// Opens any reader, as a file with this name would be opened.
    pub fn of(reader: impl Read + 'a, name: &Path) -> Result<Input<'a>> {
        let mut reader = Counting::new(reader);
        let name = Name::of(name);
        let mut head = name.head(&mut reader)?;
        let mut reader: Box<dyn Read + 'a> = Box::new(Cursor::new(head.clone()).chain(reader));
        if let Some(packing) = Packing::of(&head) {
            let unpacked = packing.reader(BufReader::with_capacity(HEAD, reader));
            let mut unpacked = unpacked.map_err(|error| name.io(&error))?;
            head = name.head(&mut unpacked)?;
            if Packing::of(&head).is_some() {
                return Err(name.fail("this is packed twice: unpack it once"));
            }
            reader = Box::new(Cursor::new(head.clone()).chain(unpacked));
        }
        let format = Format::of(&head, &name)?;
        let content = Content::Once(Box::new(BufReader::with_capacity(HEAD, reader)));
        Ok(Input { name, format, length: None, content })
    }

    /// Whether the file is FASTA or FASTQ, whose keys are k-mers.
    pub fn has_sequences(&self) -> bool {
        self.format.has_sequences()
    }

    /// Whether the format is CSV or TSV.
    pub fn is_text(&self) -> bool {
        matches!(self.format, Format::Text { .. })
    }

    /// Reads the file into a sink, in order. Returns a sentence on what was skipped, if anything was.
    pub fn scan(self, options: &ReadOptions, want: Want, sink: &mut dyn Sink) -> Result<Option<String>> {
        let mut feed = Feed::new(sink);
        let name = self.name.clone();
        let read = self.rows(options, want, &mut feed)?;
        feed.no_key(options.k()).map_or(Ok(read), |reason| Err(name.fail(reason)))
    }

    /// Passes on the rows. Returns a sentence on what was skipped, if anything was.
    fn rows(self, options: &ReadOptions, want: Want, feed: &mut Feed<'_>) -> Result<Option<String>> {
        // Rows are stored in arrays, whose allocations are not checked.
        memory::end_when_short();
        match self.format {
            Format::Text { delimiter } if options.key.is_none() => {
                let name = self.name.clone();
                let mut reader = self.into_reader()?;
                if reader.fill_buf().map_err(|error| name.io(&error))?.contains(&0) {
                    return Err(name.fail(format::IS_BINARY));
                }
                csv::pairs::read(reader, &name, delimiter, options, want, feed).map(|()| None)
            }
            Format::Fasta | Format::Fastq if options.key.is_none() => {
                let name = self.name.clone();
                let mut windows = Windows::new(&name, options, want, feed)?;
                let read = self.records(&mut windows);
                // Rows before an error are passed on too.
                windows.flush().and(read)?;
                Ok(windows.report())
            }
            _ => {
                let reading = options.of_tables(options.spool);
                table::read(&self.into_source(&reading)?.with_columns()?, options, want, feed).map(|()| None)
            }
        }
    }

    /// Passes on the records of sequences.
    fn records(self, to: &mut impl Sequences<Error = Failure>) -> Result<()> {
        let (name, format) = (self.name.clone(), self.format);
        let reader = self.into_reader()?;
        let read = if format == Format::Fastq { fastq(reader, to) } else { fasta(reader, to) };
        read.map_err(|error| match error {
            Unread::Io(error) => name.io(&error),
            Unread::Format { line, reason } => name.at(line, reason),
            Unread::Stopped(failure) => failure,
        })
    }

    /// All bytes in order, without a byte order mark. The progress line counts them.
    fn into_reader(self) -> Result<Box<dyn BufRead + 'a>> {
        progress::bytes(self.length);
        let mut reader = match self.content {
            Content::File(file) => Box::new(BufReader::with_capacity(HEAD, Counting::new(file))),
            Content::Once(reader) => reader,
        };
        if reader.fill_buf().map_err(|error| self.name.io(&error))?.starts_with(BYTE_ORDER_MARK) {
            reader.consume(BYTE_ORDER_MARK.len());
        }
        Ok(reader)
    }

    /// Returns the file as a table, which may be NDJSON without any columns. Content that can be read only once is
    /// stored in memory or in a temporary file.
    pub(crate) fn into_source(self, options: &TableReading) -> Result<Source> {
        memory::end_when_short();
        let (name, format) = (self.name.clone(), self.format);
        let data = match self.content {
            Content::File(file) => Data::of_file(file),
            Content::Once(_) => {
                progress::say(format!("reading {}", name.shown()));
                let data = Data::read_once(self.into_reader()?, format.has_lines(), options.spool);
                progress::end_of_bytes();
                data
            }
        };
        Source::of(format, data.map_err(|error| name.io(&error))?, name, options)
    }
}

/// The name of a file in messages.
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

    /// Whether the name ends with one of these extensions. Extensions of compressed files are ignored.
    pub(crate) fn has_extension(&self, names: &[&str]) -> bool {
        let extension = |path: &Path| path.extension().and_then(|e| e.to_str()).map(str::to_ascii_lowercase);
        let extension = match extension(&self.0).as_deref() {
            Some("gz" | "zst") => extension(&self.0.with_extension("")),
            other => other.map(str::to_owned),
        };
        extension.is_some_and(|extension| names.contains(&extension.as_str()))
    }

    /// Reads the first bytes of this file.
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

    /// The pairs in some bytes, read as a file of this name.
    pub(crate) fn pairs(
        name: &str,
        bytes: &[u8],
        kmer: Option<u32>,
    ) -> std::result::Result<Vec<(Number, Number)>, String> {
        let mut sink = Pairs::default();
        read_with(name, bytes, &ReadOptions { kmer, ..ReadOptions::default() }, &mut sink)?;
        Ok(zipped(&sink))
    }

    /// The pairs as tuples of key and value.
    pub(crate) fn zipped(pairs: &Pairs) -> Vec<(Number, Number)> {
        pairs.iter().collect()
    }

    /// Reads some bytes with these options. Returns what was skipped.
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
