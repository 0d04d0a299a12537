//! k-mers of DNA and RNA, and how often each occurs.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use koel::layout::kmers::{Base, Strands, Window, is_ambiguous};
use koel::{IdOrder, group};
use numpy::PyArray1;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::error::{Result, of_io};
use crate::run::{Stop, detached, detached_on};

/// Letters that are read between two looks whether to stop.
const LETTERS: usize = 1 << 22;

/// The k-mers of a sequence or of a FASTA file, and how often each occurs.
///
/// A k-mer is a number of 2 k bits: A C G T = 0 1 2 3, the first letter most significant; U is T, and upper and lower case are one. No
/// k-mer spans the border of two records, or a letter that stands for several bases (N, R, Y, ..).
///
/// Args:
///     sequence: letters, as str or bytes; or a pathlib.Path of a FASTA file.
///     k: letters of a k-mer, 1 to 32.
///     canonical: whether a k-mer and its reverse complement are one, the lesser number of the two.
///     device: "auto", "cpu", "opencl:0", "opencl:NAME".
///
/// Returns:
///     The k-mers ascending, as uint64, and how often each occurs, as int64.
///
/// Raises:
///     ValueError: for letters that are of no DNA or RNA.
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
        return Err(PyTypeError::new_err("give the sequence as str or bytes, or a pathlib.Path of a FASTA file"));
    };
    let windows = keys.len();
    let open = || crate::device::device(device, windows);
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
            push(letter, &mut window, &mut keys).map_err(|()| {
                let shown = letter.escape_ascii();
                PyValueError::new_err(format!(
                    "letter {at} is `{shown}`, which is no DNA or RNA: a file is given as pathlib.Path(..)"
                ))
            })?;
        }
        stop.check()?;
    }
    Ok(keys)
}

/// Lines `>name`, and lines of letters; `;` begins a comment. A line ends in `\n`, `\r\n` or, as it once did on one system, `\r`.
fn of_file(path: &Path, mut window: Window, stop: &Stop) -> Result<Vec<u64>> {
    let failed = |error: std::io::Error| of_io(path, &error);
    let mut reader = BufReader::with_capacity(LETTERS, File::open(path).map_err(failed)?);
    let (mut keys, mut number, mut is_begun, mut place) = (Vec::new(), 1_u64, false, Place::Start);
    loop {
        let letters = reader.fill_buf().map_err(failed)?;
        if letters.is_empty() {
            return Ok(keys);
        }
        for &letter in letters {
            let refused = |what: String| PyValueError::new_err(format!("{}, line {number}: {what}", path.display()));
            match (letter, place) {
                (b'\n' | b'\r', _) => {
                    number += u64::from(letter == b'\n');
                    place = Place::Start;
                }
                (_, Place::Passed) => (),
                (b'>', Place::Start) => {
                    window.clear();
                    (place, is_begun) = (Place::Passed, true);
                }
                (b';', Place::Start) => place = Place::Passed,
                (letter, _) if letter.is_ascii_whitespace() => (),
                _ if !is_begun => {
                    return Err(refused("a FASTA file begins with a line `>name`; this one does not".into()).into());
                }
                (letter, _) => {
                    place = Place::Letters;
                    let no_letter = || refused(format!("`{}` is no letter of DNA or RNA", letter.escape_ascii()));
                    push(letter, &mut window, &mut keys).map_err(|()| no_letter())?;
                }
            }
        }
        let read = letters.len();
        reader.consume(read);
        stop.check()?;
    }
}

/// Where in a line of FASTA.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Start,
    /// In a name or a comment.
    Passed,
    Letters,
}

/// Goes on by a letter.
fn push(letter: u8, window: &mut Window, keys: &mut Vec<u64>) -> std::result::Result<(), ()> {
    match Base::of(letter) {
        Some(base) => keys.extend(window.push(base)),
        None if is_ambiguous(letter) => window.clear(),
        None => return Err(()),
    }
    Ok(())
}
