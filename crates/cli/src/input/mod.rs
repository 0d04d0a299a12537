//! Reading keys and values: text, `.npy`, FASTA, told apart by their first bytes and, where those do not tell, by name.
//!
//! Everything is streamed: what is held of a file is a buffer of 64 KiB and the numbers that the caller keeps. Readers check
//! each number against its column's type, or against those that came before it, because they know where it stands.

mod columns;
mod fasta;
mod letters;
mod npy;
mod options;
mod records;

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};

use super::failure::{Failure, Result};
use super::number::{Admitted, Number, Numbers, Type};
use super::{out, progress};

pub use options::{Header, OtherLetters, ReadOptions};

/// Bytes that are looked at to tell formats apart.
const HEAD: usize = 64 << 10;

/// UTF-8's, which some editors write in front of text.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// What the caller wants of a file.
#[derive(Clone, Copy, PartialEq, Eq)]
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
}

impl Named {
    /// Of these options, and where they say nothing of the file.
    fn of(options: &ReadOptions, file: Named) -> Named {
        Named { keys: options.keys.or(file.keys), values: options.values.or(file.values) }
    }
}

/// Where the numbers go, 4,096 rows at a time, the last ones fewer: readers are compiled once, whatever the sink.
pub trait Sink {
    /// What is known of the columns; called once, before the first rows.
    fn begin(&mut self, _named: Named) -> Result<()> {
        Ok(())
    }
    fn append(&mut self, keys: &[Number], values: &[Number]) -> Result<()>;
}

/// Rows that a sink is handed at once.
const BATCH: usize = 1 << 12;

/// Rows on their way to a sink.
struct Batch<'a> {
    keys: Vec<Number>,
    values: Vec<Number>,
    /// What keys, and values, may be.
    admitted: [Admitted; 2],
    sink: &'a mut dyn Sink,
}

impl<'a> Batch<'a> {
    fn new(sink: &'a mut dyn Sink) -> Batch<'a> {
        let admitted = [Admitted::new(None); 2];
        Batch { keys: Vec::with_capacity(BATCH), values: Vec::with_capacity(BATCH), admitted, sink }
    }

    /// Before the first row, and once.
    fn begin(&mut self, named: Named) -> Result<()> {
        self.admitted = [named.keys, named.values].map(Admitted::new);
        self.sink.begin(named)
    }

    /// Whether a key may stand beside those that came; if not, why.
    fn admit_key(&mut self, key: Number) -> std::result::Result<Number, String> {
        self.admitted[0].admit(key).map(|()| key)
    }

    /// The same of a value.
    fn admit_value(&mut self, value: Number) -> std::result::Result<Number, String> {
        self.admitted[1].admit(value).map(|()| value)
    }

    /// Hands on a row whose numbers were admitted.
    fn push(&mut self, key: Number, value: Number) -> Result<()> {
        self.keys.push(key);
        self.values.push(value);
        if self.keys.len() == BATCH { self.flush() } else { Ok(()) }
    }

    /// Hands over what is there.
    fn flush(&mut self) -> Result<()> {
        self.sink.append(&self.keys, &self.values)?;
        self.keys.clear();
        self.values.clear();
        Ok(())
    }
}

/// Keys and values in memory.
#[derive(Default)]
pub struct Pairs {
    pub keys: Numbers,
    pub values: Numbers,
}

impl Sink for Pairs {
    fn begin(&mut self, named: Named) -> Result<()> {
        self.keys.begin(named.keys);
        self.values.begin(named.values);
        Ok(())
    }

    fn append(&mut self, keys: &[Number], values: &[Number]) -> Result<()> {
        self.keys.append(keys)?;
        self.values.append(values)
    }
}

/// Keys alone.
impl Sink for Numbers {
    fn begin(&mut self, named: Named) -> Result<()> {
        self.begin(named.keys);
        Ok(())
    }

    fn append(&mut self, keys: &[Number], _: &[Number]) -> Result<()> {
        self.append(keys)
    }
}

/// Reads a file (`-` is stdin) into columns, in the file's order.
pub fn read(path: &Path, options: &ReadOptions, want: Want) -> Result<Pairs> {
    let input = Input::open(path)?;
    options.check(&[&input])?;
    input.columns(options, want)
}

/// The keys and places of a FASTA text in memory.
pub fn kmers(text: &[u8], name: &str, k: u32) -> Result<Pairs> {
    let mut pairs = Pairs::default();
    let options = ReadOptions { kmer: Some(k), ..ReadOptions::default() };
    let mut batch = Batch::new(&mut pairs);
    fasta::read(text, &Name(name.into()), &options, Want::Pairs, &mut batch)?;
    batch.flush()?;
    Ok(pairs)
}

/// A file whose format is known, and nothing else of it.
pub struct Input<'a> {
    name: Name,
    format: Format,
    /// Bytes, where the system knows them.
    length: Option<u64>,
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
        let mut head = Vec::new();
        (&mut reader).take(HEAD as u64).read_to_end(&mut head).map_err(|error| name.io(&error))?;
        let format = Format::of(&head, &name)?;
        // The reader of columns steps over it.
        if format == Format::Fasta && head.starts_with(BYTE_ORDER_MARK) {
            head.drain(..BYTE_ORDER_MARK.len());
        }
        let reader = Box::new(BufReader::with_capacity(HEAD, Cursor::new(head).chain(reader)));
        Ok(Input { name, format, length: None, reader })
    }

    /// Whether it is FASTA, whose keys are k-mers.
    pub fn is_fasta(&self) -> bool {
        self.format == Format::Fasta
    }

    /// Whether it is CSV or TSV, whose numbers are of no type before all of them are read.
    pub fn is_text(&self) -> bool {
        matches!(self.format, Format::Text { .. })
    }

    /// Reads it into columns, and says on stderr of which types they are, where text asked for others than u32.
    pub fn columns(self, options: &ReadOptions, want: Want) -> Result<Pairs> {
        let name = self.name.shown();
        let mut pairs = Pairs::default();
        match want {
            Want::Keys => self.read(options, want, &mut pairs.keys)?,
            Want::Pairs => self.read(options, want, &mut pairs)?,
        }
        let wide = |column: &Numbers| !column.is_named() && column.kind() != Type::U32;
        let said = [("keys", &pairs.keys), ("values", &pairs.values)].into_iter().filter(|(_, column)| wide(column));
        let said: Vec<_> = said.map(|(what, column)| format!("{what} are {}", column.kind().name())).collect();
        if !said.is_empty() && !out::is_quiet() {
            progress::note(&format!("{name}: {}, the narrowest type that holds them", said.join(", ")));
        }
        Ok(pairs)
    }

    /// Reads it into a sink, in its order, and says on stderr what of it was skipped.
    pub fn read(self, options: &ReadOptions, want: Want, sink: &mut dyn Sink) -> Result<()> {
        let name = self.name.shown();
        let reader = progress::watched(self.reader, self.length);
        if let Some(skipped) = (Input { reader, ..self }).scan(options, want, sink)? {
            progress::note(&format!("{name}: {skipped}"));
        }
        progress::watched_to_the_end();
        Ok(())
    }

    /// Reads it into a sink, in its order. A sentence says what of it was skipped.
    pub fn scan(self, options: &ReadOptions, want: Want, sink: &mut dyn Sink) -> Result<Option<String>> {
        let mut batch = Batch::new(sink);
        let sink = &mut batch;
        let read = match self.format {
            Format::Npy => npy::read(self.reader, &self.name, options, want, sink).map(|()| None),
            Format::Fasta => fasta::read(self.reader, &self.name, options, want, sink),
            Format::Text { delimiter } => {
                columns::read(self.reader, &self.name, delimiter, options, want, sink).map(|()| None)
            }
        };
        // Rows in front of an error are handed over as well.
        batch.flush().and(read)
    }
}

/// What a file is called in messages.
pub struct Name(PathBuf);

impl Name {
    fn of(path: &Path) -> Name {
        Name(path.into())
    }

    fn shown(&self) -> String {
        if self.0.as_os_str() == "-" { "stdin".into() } else { self.0.display().to_string() }
    }

    /// An error on this file.
    fn fail(&self, message: impl std::fmt::Display) -> Failure {
        Failure::Input(format!("{}: {message}", self.shown()))
    }

    /// An error on a line of this file.
    fn at(&self, line: u64, message: impl std::fmt::Display) -> Failure {
        Failure::Input(format!("{}, line {line}: {message}", self.shown()))
    }

    fn io(&self, error: &io::Error) -> Failure {
        self.fail(error)
    }

    fn has_extension(&self, names: &[&str]) -> bool {
        let extension = self.0.extension().and_then(|e| e.to_str()).map(str::to_ascii_lowercase);
        extension.is_some_and(|extension| names.contains(&extension.as_str()))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Npy,
    Fasta,
    /// Columns.
    Text {
        delimiter: u8,
    },
}

impl Format {
    fn of(head: &[u8], name: &Name) -> Result<Format> {
        if head.starts_with(b"\x93NUMPY") {
            return Ok(Format::Npy);
        }
        if name.has_extension(&["npy"]) {
            return Err(name.fail("this is no .npy file: it does not begin with \\x93NUMPY"));
        }
        if head.starts_with(&[0x1f, 0x8b]) {
            return Err(name.fail("this is compressed: unpack it first, e.g. `gzip -dc FILE | koel build - ..`"));
        }
        if head.starts_with(&[0xff, 0xfe]) || head.starts_with(&[0xfe, 0xff]) {
            return Err(name.fail("this is UTF-16: save it as UTF-8, e.g. with `iconv -f UTF-16 -t UTF-8`"));
        }
        let text = head.strip_prefix(BYTE_ORDER_MARK).unwrap_or(head);
        let first = text.iter().find(|byte| !byte.is_ascii_whitespace());
        if first == Some(&b'>') || name.has_extension(&["fa", "fasta", "fna"]) {
            return Ok(Format::Fasta);
        }
        if head.contains(&0) {
            return Err(name.fail("this is binary: koel reads CSV, TSV, .npy and FASTA"));
        }
        let mut lines = text.split(|&byte| byte == b'\n');
        let line = lines.find(|line| !line.trim_ascii().is_empty()).unwrap_or(&[]);
        let tabs = name.has_extension(&["tsv", "tab"]) || line.contains(&b'\t');
        Ok(Format::Text { delimiter: if tabs { b'\t' } else { b',' } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pairs in some bytes that stand under a name.
    pub(super) fn pairs(
        name: &str,
        bytes: &[u8],
        kmer: Option<u32>,
    ) -> std::result::Result<Vec<(Number, Number)>, String> {
        let mut sink = Pairs::default();
        read_with(name, bytes, &ReadOptions { kmer, ..ReadOptions::default() }, &mut sink)?;
        Ok(zipped(&sink))
    }

    /// The rows of some columns.
    pub(super) fn zipped(pairs: &Pairs) -> Vec<(Number, Number)> {
        pairs.keys.iter().zip(pairs.values.iter()).collect()
    }

    /// Reads them under some options; what was skipped.
    pub(super) fn read_with(
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

    #[test]
    fn formats_are_told_apart() {
        assert_eq!(pairs("x", b">r\nACGT\n", Some(2)), Ok(vec![(1, 0), (6, 1), (11, 2)]));
        assert_eq!(pairs("x", b"1\t2\n", None), Ok(vec![(1, 2)]));
        assert_eq!(pairs("x", b"\n \r\n1\t2\n", None), Ok(vec![(1, 2)]));
        assert_eq!(pairs("x.tsv", b"1\t2\n", None), Ok(vec![(1, 2)]));
        assert_eq!(pairs("x", b"\xef\xbb\xbf1,2\n", None), Ok(vec![(1, 2)]));
        for name in ["x", "x.fa"] {
            assert_eq!(pairs(name, b"\xef\xbb\xbf>r\nACG\n", Some(2)), Ok(vec![(1, 0), (6, 1)]), "{name}");
        }
        assert_eq!(pairs("x", b"\xef\xbb\xbf\n >r\nAC\n", Some(2)), Ok(vec![(1, 0)]));
        for (name, bytes, part) in [
            ("x.npy", &b"1,2\n"[..], "no .npy"),
            ("x.gz", b"\x1f\x8b\x08", "compressed"),
            ("x", b"\xff\xfe1\0", "UTF-16"),
            ("x", b"\x7fELF\0\0", "binary"),
            ("x.fa", b"ACGT\n", "FASTA"),
        ] {
            let error = pairs(name, bytes, None).expect_err(name);
            assert!(error.contains(part), "{error}");
        }
        assert!(pairs("x", b"1,2\n", Some(3)).is_err(), "--kmer without FASTA");
    }
}
