//! Converts koel's errors to Python exceptions. The class is the kind of the error; the message says what to do.
//!
//! ```text
//! TypeError, ValueError, OverflowError, MemoryError, OSError     as NumPy and Python raise them for the same mistakes
//! koel.KoelError                                                 other errors; the base class of the next two
//! koel.DeviceError                                               a device is missing or failed
//! koel.FileError                                                 a file does not contain a usable table
//! ```

use std::path::Path;

use koel::Error;
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyKeyError, PyMemoryError, PyOSError, PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;

create_exception!(
    koel,
    KoelError,
    PyException,
    "The base class of koel's exceptions; raised for errors without a more specific class."
);
create_exception!(
    koel,
    DeviceError,
    KoelError,
    "A device is missing or failed. Calls with device=\"cpu\" do not use one."
);
create_exception!(koel, FileError, KoelError, "A file does not contain a usable table.");

/// An error of a call, before it is converted to a Python exception.
#[derive(Debug)]
pub(crate) enum Failure {
    Koel(Error),
    Arrow(koel_arrow::Error),
    Python(PyErr),
}

pub(crate) type Result<T> = std::result::Result<T, Failure>;

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Koel(error)
    }
}

impl From<koel_arrow::Error> for Failure {
    fn from(error: koel_arrow::Error) -> Self {
        Failure::Arrow(error)
    }
}

impl From<PyErr> for Failure {
    fn from(error: PyErr) -> Self {
        Failure::Python(error)
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> PyErr {
        match failure {
            Failure::Koel(error) => of_koel(error),
            Failure::Arrow(error) => of_arrow(error),
            Failure::Python(error) => error,
        }
    }
}

fn of_koel(error: Error) -> PyErr {
    let text = error.to_string();
    match error {
        Error::InvalidParameter { .. }
        | Error::LengthMismatch { .. }
        | Error::TooShort { .. }
        | Error::DuplicateKey { .. }
        | Error::TooWide { .. }
        | Error::TooLarge { .. } => PyValueError::new_err(text),
        Error::UnknownKey { .. } => PyKeyError::new_err(text),
        Error::SumTooLarge { .. } => PyOverflowError::new_err(text),
        Error::OutOfMemory { .. } => PyMemoryError::new_err(text),
        Error::Io { path, source } => of_io(&path, &source),
        Error::Spill { folder, source } => of_io(&folder, &source),
        Error::NoDevice { .. } | Error::Unsupported { .. } | Error::Device { .. } | Error::Compile { .. } => {
            DeviceError::new_err(text)
        }
        Error::BadFile { .. } | Error::Damaged(_) => FileError::new_err(text),
        _ => KoelError::new_err(text),
    }
}

/// Converts an I/O error. From the error number, Python selects a subclass such as FileNotFoundError.
pub(crate) fn of_io(path: &Path, error: &std::io::Error) -> PyErr {
    let (path, text) = (path.display().to_string(), error.to_string());
    match error.raw_os_error() {
        // Python adds the number to the message itself.
        Some(number) => {
            PyOSError::new_err((number, text.trim_end_matches(&format!(" (os error {number})")).to_string(), path))
        }
        None => PyOSError::new_err(format!("{path}: {text}")),
    }
}

fn of_arrow(error: koel_arrow::Error) -> PyErr {
    let text = error.to_string();
    match error {
        koel_arrow::Error::Koel(error) => of_koel(error),
        koel_arrow::Error::UnsupportedKey { .. }
        | koel_arrow::Error::TypeMismatch { .. }
        | koel_arrow::Error::UnsupportedValue { .. } => PyTypeError::new_err(text),
        koel_arrow::Error::Overflow { .. } => PyOverflowError::new_err(text),
        koel_arrow::Error::KeyCount { .. }
        | koel_arrow::Error::Uneven { .. }
        | koel_arrow::Error::AmbiguousColumn { .. } => PyValueError::new_err(text),
        koel_arrow::Error::MissingColumn { .. } => PyKeyError::new_err(text),
        _ => KoelError::new_err(text),
    }
}
