//! k-mers of DNA and RNA, and how often each occurs.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use koel::layout::kmers::{Window, code, is_ambiguous};
use koel::{IdOrder, group};
use numpy::PyArray1;
use pyo3::exceptions::{PyOSError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::device::device;
use crate::error::Result;
use crate::run::{between_pieces, detached};

/// Windows between two looks for Ctrl-C.
const PIECE: usize = 1 << 24;

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
    k: u32,
    canonical: bool,
    device: &str,
) -> PyResult<Bound<'py, PyTuple>> {
    let py = sequence.py();
    let window = Window::new(k, canonical).map_err(|error| PyErr::from(crate::error::Failure::from(error)))?;
    let (unique, counts) = if let Ok(text) = sequence.extract::<&str>() {
        detached(py, || counted(of_letters(text.as_bytes(), window)?, device))?
    } else if let Ok(bytes) = sequence.extract::<&[u8]>() {
        detached(py, || counted(of_letters(bytes, window)?, device))?
    } else if let Ok(path) = sequence.extract::<PathBuf>() {
        detached(py, || counted(of_file(&path, window)?, device))?
    } else {
        return Err(PyTypeError::new_err("give the sequence as str or bytes, or a pathlib.Path of a FASTA file"));
    };
    PyTuple::new(py, [PyArray1::from_vec(py, unique).into_any(), PyArray1::from_vec(py, counts).into_any()])
}

/// Each key and how often it occurs.
fn counted(keys: Vec<u64>, device_name: &str) -> Result<(Vec<u64>, Vec<i64>)> {
    let device = device(device_name, keys.len())?;
    let (unique, counts) = group::value_counts(&device, keys, 1, IdOrder::Ascending)?;
    Ok((unique, counts.into_iter().map(i64::from).collect()))
}

fn of_letters(letters: &[u8], mut window: Window) -> Result<Vec<u64>> {
    let mut keys = Vec::new();
    for (at, &letter) in letters.iter().enumerate() {
        let refused = || {
            format!(
                "letter {at} is `{}`, which is no DNA or RNA: a file is given as pathlib.Path(..)",
                letter.escape_ascii()
            )
        };
        push(letter, &mut window, &mut keys).map_err(|()| PyValueError::new_err(refused()))?;
        if keys.len() % PIECE == PIECE - 1 {
            between_pieces()?;
        }
    }
    Ok(keys)
}

/// Lines `>name`, and lines of letters; `;` begins a comment.
fn of_file(path: &Path, mut window: Window) -> Result<Vec<u64>> {
    let failed = |error: std::io::Error| match error.raw_os_error() {
        Some(number) => PyOSError::new_err((number, error.to_string(), path.display().to_string())),
        None => PyOSError::new_err(format!("{}: {error}", path.display())),
    };
    let mut reader = BufReader::with_capacity(1 << 20, File::open(path).map_err(failed)?);
    let (mut keys, mut line, mut number, mut is_begun) = (Vec::new(), Vec::new(), 0_u64, false);
    loop {
        line.clear();
        if reader.read_until(b'\n', &mut line).map_err(failed)? == 0 {
            return Ok(keys);
        }
        number += 1;
        let refused = |what: String| PyValueError::new_err(format!("{}, line {number}: {what}", path.display()));
        match line.first() {
            Some(b'>') => {
                window.clear();
                is_begun = true;
            }
            Some(b';') => (),
            _ => {
                for &letter in line.iter().filter(|letter| !letter.is_ascii_whitespace()) {
                    if !is_begun {
                        return Err(refused("a FASTA file begins with a line `>name`; this one does not".into()).into());
                    }
                    let no_letter = || refused(format!("`{}` is no letter of DNA or RNA", letter.escape_ascii()));
                    push(letter, &mut window, &mut keys).map_err(|()| no_letter())?;
                }
            }
        }
        if number % (1 << 16) == 0 {
            between_pieces()?;
        }
    }
}

/// Goes on by a letter.
fn push(letter: u8, window: &mut Window, keys: &mut Vec<u64>) -> std::result::Result<(), ()> {
    match code(letter) {
        Some(code) => keys.extend(window.push(code)),
        None if is_ambiguous(letter) => window.clear(),
        None => return Err(()),
    }
    Ok(())
}
