//! Reading keys and values: text, `.npy`, FASTA, told apart by their first bytes and, where those do not tell, by name.
//!
//! Everything is streamed: what is held of a file is a buffer of 64 KiB and the numbers that the caller keeps.

mod columns;
mod fasta;
mod npy;

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};

use super::failure::{Failure, Result};

/// Bytes that are looked at to tell formats apart.
const HEAD: usize = 64 << 10;

/// How FASTA is read.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Input")]
pub struct FastaOptions {
    /// Letters of a FASTA file that make a key, 1 to 16 [default: 16]
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..=16))]
    pub kmer: Option<u32>,
}

/// Letters of a key where nobody says how many: as many as fit.
const MOST_LETTERS: u32 = 16;

/// What the caller wants of a file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Want {
    /// Keys with values.
    Pairs,
    /// The first column; values are 0.
    Keys,
}

/// Where the numbers go.
pub trait Sink {
    fn push(&mut self, key: u32, value: u32) -> Result<()>;
}

/// Keys and values in memory.
#[derive(Default)]
pub struct Pairs {
    pub keys: Vec<u32>,
    pub values: Vec<u32>,
}

impl Sink for Pairs {
    fn push(&mut self, key: u32, value: u32) -> Result<()> {
        self.keys.push(key);
        self.values.push(value);
        Ok(())
    }
}

/// Keys alone.
impl Sink for Vec<u32> {
    fn push(&mut self, key: u32, _: u32) -> Result<()> {
        Vec::push(self, key);
        Ok(())
    }
}

/// Reads a file (`-` is stdin) into a sink, in the file's order.
pub fn read(path: &Path, fasta: &FastaOptions, want: Want, sink: &mut impl Sink) -> Result<()> {
    let input = Input::open(path)?;
    fasta.check(&[&input])?;
    input.read(fasta, want, sink)
}

/// The keys and places of a FASTA text in memory.
pub fn kmers(text: &[u8], name: &str, k: u32) -> Result<(Vec<u32>, Vec<u32>)> {
    let mut pairs = Pairs::default();
    fasta::read(text, &Name(name.into()), k, &mut pairs)?;
    Ok((pairs.keys, pairs.values))
}

/// A file whose format is known, and nothing else of it.
pub struct Input<'a> {
    name: Name,
    format: Format,
    reader: Box<dyn BufRead + 'a>,
}

impl<'a> Input<'a> {
    /// Opens a file; `-` is stdin.
    pub fn open(path: &Path) -> Result<Input<'a>> {
        let name = Name::of(path);
        match path.to_str() {
            Some("-") => Input::of(io::stdin().lock(), name),
            _ => Input::of(File::open(path).map_err(|error| name.io(&error))?, name),
        }
    }

    /// Anything that can be read.
    fn of(mut reader: impl Read + 'a, name: Name) -> Result<Input<'a>> {
        let mut head = Vec::new();
        (&mut reader).take(HEAD as u64).read_to_end(&mut head).map_err(|error| name.io(&error))?;
        let format = Format::of(&head, &name)?;
        let reader = Box::new(BufReader::with_capacity(HEAD, Cursor::new(head).chain(reader)));
        Ok(Input { name, format, reader })
    }

    /// Whether it is FASTA, whose keys are k-mers.
    pub fn is_fasta(&self) -> bool {
        self.format == Format::Fasta
    }

    /// Reads it into a sink, in its order.
    pub fn read(mut self, fasta: &FastaOptions, want: Want, sink: &mut impl Sink) -> Result<()> {
        match self.format {
            Format::Npy => npy::read(self.reader, &self.name, want, sink),
            Format::Fasta => fasta::read(self.reader, &self.name, fasta.k(), sink),
            Format::Text { delimiter, skip } => {
                self.reader.consume(skip);
                columns::read(self.reader, &self.name, delimiter, want, sink)
            }
        }
    }
}

impl FastaOptions {
    /// Letters that make a key.
    pub fn k(&self) -> u32 {
        self.kmer.unwrap_or(MOST_LETTERS)
    }

    /// Refuses options that mean nothing to any of these files.
    pub fn check(&self, inputs: &[&Input<'_>]) -> Result<()> {
        let means_nothing = self.kmer.is_some() && inputs.iter().all(|input| input.format != Format::Fasta);
        match inputs.first().filter(|_| means_nothing) {
            Some(input) => Err(input.name.fail("--kmer is for FASTA files, and this is none: leave it out")),
            None => Ok(()),
        }
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
    /// Columns; `skip` bytes of a byte order mark stand in front.
    Text {
        delimiter: u8,
        skip: usize,
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
        let first = head.iter().find(|byte| !byte.is_ascii_whitespace());
        if first == Some(&b'>') || name.has_extension(&["fa", "fasta", "fna"]) {
            return Ok(Format::Fasta);
        }
        if head.contains(&0) {
            return Err(name.fail("this is binary: koel reads CSV, TSV, .npy and FASTA"));
        }
        let skip = if head.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
        let mut lines = head[skip..].split(|&byte| byte == b'\n');
        let line = lines.find(|line| !line.trim_ascii().is_empty()).unwrap_or(&[]);
        let tabs = name.has_extension(&["tsv", "tab"]) || line.contains(&b'\t');
        Ok(Format::Text { delimiter: if tabs { b'\t' } else { b',' }, skip })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pairs in some bytes that stand under a name.
    pub(super) fn pairs(name: &str, bytes: &[u8], kmer: Option<u32>) -> std::result::Result<Vec<(u32, u32)>, String> {
        let mut sink = Pairs::default();
        let fasta = FastaOptions { kmer };
        let read = Input::of(bytes, Name(name.into())).and_then(|input| {
            fasta.check(&[&input])?;
            input.read(&fasta, Want::Pairs, &mut sink)
        });
        read.map_err(|failure| failure.to_string())?;
        Ok(sink.keys.into_iter().zip(sink.values).collect())
    }

    #[test]
    fn formats_are_told_apart() {
        assert_eq!(pairs("x", b">r\nACGT\n", Some(2)), Ok(vec![(1, 0), (6, 1), (11, 2)]));
        assert_eq!(pairs("x", b"1\t2\n", None), Ok(vec![(1, 2)]));
        assert_eq!(pairs("x", b"\n \r\n1\t2\n", None), Ok(vec![(1, 2)]));
        assert_eq!(pairs("x.tsv", b"1\t2\n", None), Ok(vec![(1, 2)]));
        assert_eq!(pairs("x", b"\xef\xbb\xbf1,2\n", None), Ok(vec![(1, 2)]));
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
