//! Counts k-mers of DNA and RNA.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;
use koel::layout::kmers::{Base, Strands, Window, is_ambiguous};
use koel::layout::sequences::{Sequences, Unread, fasta, fastq};
use koel::{IdOrder, group};
use numpy::PyArray1;
use pyo3::exceptions::{PyMemoryError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::error::{Failure, Result, of_io};
use crate::memory;
use crate::run::{Stop, detached, detached_on};

/// Letters between two checks for cancellation.
const LETTERS: usize = 1 << 22;
/// The size of the read buffer of a file, in bytes.
const PIECE: usize = 64 << 10;

/// Counts the k-mers of a sequence, or of a FASTA or FASTQ file.
///
/// A k-mer is encoded in 2 k bits: A C G T = 0 1 2 3, with the first letter in the most
/// significant bits. U is read as T, and case is ignored. K-mers that would span two records or
/// contain an ambiguous base (N, R, Y, ..) are skipped.
///
/// Args:
///     sequence: letters, as str or bytes; or the pathlib.Path of a FASTA or FASTQ file, which
///         may be compressed with gzip.
///     k: the number of letters of a k-mer, 1 to 32.
///     canonical: whether to count a k-mer and its reverse complement as one, under the smaller
///         of the two numbers. The command does so only with `--canonical-kmers`.
///     device: "auto", "cpu", "opencl:0", "opencl:NAME".
///
/// Returns:
///     The distinct k-mers in ascending order as uint64, and their counts as int64.
///
/// Raises:
///     ValueError: for letters that are not DNA or RNA.
///
/// >>> import koel
/// >>> koel.kmers("ACGTACG", 3, canonical=False)
/// (array([ 6, 27, 44, 49], dtype=uint64), array([2, 1, 1, 1]))
#[pyfunction]
#[pyo3(signature = (sequence, k, canonical=true, *, device="auto"))]
pub(crate) fn kmers<'py>(
    sequence: &Bound<'py, PyAny>,
    k: i64,
    canonical: bool,
    device: &str,
) -> PyResult<Bound<'py, PyTuple>> {
    let py = sequence.py();
    let k = u32::try_from(k).unwrap_or(0);
    let window = Window::new(k, if canonical { Strands::Both } else { Strands::Given })
        .map_err(|error| PyErr::from(crate::error::Failure::from(error)))?;
    let keys = if let Ok(text) = sequence.extract::<&str>() {
        detached(py, |stop| of_letters(text.as_bytes(), window, stop))?
    } else if let Ok(bytes) = sequence.extract::<&[u8]>() {
        detached(py, |stop| of_letters(bytes, window, stop))?
    } else if let Ok(path) = sequence.extract::<PathBuf>() {
        detached(py, |stop| of_file(&path, window, stop))?
    } else {
        return Err(PyTypeError::new_err(
            "pass the sequence as str or bytes, or a FASTA or FASTQ file as pathlib.Path(..)",
        ));
    };
    let windows = keys.len();
    let open = || {
        memory::check_rows(windows, 0)?;
        crate::device::device(device, windows)
    };
    let (unique, counts) = detached_on(py, open, |device, _| {
        let (unique, counts) = group::value_counts(&device, keys, 1, IdOrder::Ascending)?;
        Ok((unique, counts.into_iter().map(i64::from).collect::<Vec<i64>>()))
    })?;
    PyTuple::new(py, [PyArray1::from_vec(py, unique).into_any(), PyArray1::from_vec(py, counts).into_any()])
}

fn of_letters(letters: &[u8], mut window: Window, stop: &Stop) -> Result<Vec<u64>> {
    let mut keys = Vec::new();
    for (piece, start) in letters.chunks(LETTERS).zip((0..).step_by(LETTERS)) {
        for (&letter, at) in piece.iter().zip(start..) {
            push(letter, &mut window, &mut keys).map_err(|wrong| {
                let shown = letter.escape_ascii();
                let advice = "correct it or replace it with N; pass the name of a file as pathlib.Path(..)";
                wrong.error(|| format!("letter {at} is `{shown}`, which is not a letter of DNA or RNA: {advice}"))
            })?;
        }
        stop.check()?;
    }
    Ok(keys)
}

/// Reads a FASTA or FASTQ file. The format and gzip compression are detected from the first bytes.
fn of_file(path: &Path, window: Window, stop: &Stop) -> Result<Vec<u64>> {
    let failed = |error: std::io::Error| of_io(path, &error);
    let mut reader = BufReader::with_capacity(PIECE, File::open(path).map_err(failed)?);
    let is_packed = reader.fill_buf().map_err(failed)?.starts_with(&[0x1f, 0x8b]);
    let mut reader: Box<dyn BufRead> = if is_packed {
        Box::new(BufReader::with_capacity(PIECE, MultiGzDecoder::new(reader)))
    } else {
        Box::new(reader)
    };
    let head = reader.fill_buf().map_err(failed)?;
    let mark = if head.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
    let is_fastq = head[mark..].iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'@');
    reader.consume(mark);
    let mut kmers = Kmers { path, window, keys: Vec::new(), stop };
    let read = if is_fastq { fastq(reader, &mut kmers) } else { fasta(reader, &mut kmers) };
    match read {
        Ok(()) => Ok(kmers.keys),
        Err(Unread::Io(error)) => Err(failed(error).into()),
        Err(Unread::Format { line, reason }) => Err(PyValueError::new_err(at(path, line, &reason)).into()),
        Err(Unread::Stopped(failure)) => Err(failure),
    }
}

fn at(path: &Path, line: u64, reason: &str) -> String {
    format!("{}, line {line}: {reason}", path.display())
}

/// Collects the k-mers of a file.
struct Kmers<'a> {
    path: &'a Path,
    window: Window,
    keys: Vec<u64>,
    stop: &'a Stop,
}

impl Sequences for Kmers<'_> {
    type Error = Failure;

    fn record(&mut self) -> Result<()> {
        self.window.clear();
        Ok(())
    }

    fn letter(&mut self, letter: u8, line: u64) -> Result<()> {
        Ok(push(letter, &mut self.window, &mut self.keys).map_err(|wrong| {
            wrong.error(|| at(self.path, line, &format!("`{}` is not a letter of DNA or RNA", letter.escape_ascii())))
        })?)
    }

    fn progress(&mut self) -> Result<()> {
        self.stop.check()
    }
}

/// Why a letter cannot be added.
enum Wrong {
    Letter,
    Memory,
}

impl Wrong {
    /// Returns the exception. `text` is the message for an invalid letter.
    fn error(self, text: impl FnOnce() -> String) -> PyErr {
        match self {
            Wrong::Letter => PyValueError::new_err(text()),
            Wrong::Memory => {
                PyMemoryError::new_err("there is not enough memory for these k-mers: pass fewer letters at a time")
            }
        }
    }
}

/// Adds a letter to the window, and the k-mer that it completes to `keys`.
fn push(letter: u8, window: &mut Window, keys: &mut Vec<u64>) -> std::result::Result<(), Wrong> {
    match Base::of(letter) {
        Some(base) => {
            if let Some(key) = window.push(base) {
                keys.try_reserve(1).map_err(|_| Wrong::Memory)?;
                keys.push(key);
            }
        }
        None if is_ambiguous(letter) => window.clear(),
        None => return Err(Wrong::Letter),
    }
    Ok(())
}
