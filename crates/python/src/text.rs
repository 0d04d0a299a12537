//! Text of NumPy, and its arrays of Python objects.
//!
//! ```text
//! U, S      items of fixed width, which end in zeros that are none of theirs: text, bytes
//! objects   of one type, as pyarrow reads it; pandas' moments and spans as pandas does, which have nanoseconds
//! ```
//!
//! Objects of several types are refused: pyarrow would make one of what differs, such as the text and the bytes of a word.

use std::sync::Arc;

use arrow_array::{ArrayRef, LargeBinaryArray, LargeStringArray};
use arrow_buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use numpy::PyUntypedArray;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyType};

/// Text of so many letters an item, each a code point.
pub(crate) fn of_letters(name: &str, letters: &[u32], width: usize) -> PyResult<ArrayRef> {
    let (mut bytes, mut offsets) = (Vec::with_capacity(letters.len()), vec![0_i64]);
    for item in letters.chunks_exact(width.max(1)) {
        let len = item.iter().rposition(|&letter| letter != 0).map_or(0, |last| last + 1);
        for &letter in &item[..len] {
            let letter = char::from_u32(letter).ok_or_else(|| {
                PyTypeError::new_err(format!("{name} has a lone surrogate, U+{letter:X}, which is no text: replace it"))
            })?;
            bytes.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
        }
        offsets.push(bytes.len() as i64);
    }
    let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
    let text = LargeStringArray::try_new(offsets, Buffer::from_vec(bytes), None);
    Ok(Arc::new(text.map_err(|error| crate::error::Failure::from(koel_arrow::Error::from(error)))?))
}

/// Bytes of so many an item.
pub(crate) fn of_bytes(bytes: &[u8], width: usize) -> ArrayRef {
    let item = |item: &[u8]| item.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    let items = bytes.chunks_exact(width.max(1)).map(|bytes| &bytes[..item(bytes)]);
    Arc::new(LargeBinaryArray::from_iter_values(items))
}

/// How an array of objects is read.
pub(crate) enum Kind<'py> {
    /// By pyarrow.
    Arrow,
    /// As a series of pandas.
    Pandas(Bound<'py, PyAny>),
}

/// What the objects of an array are.
///
/// # Errors
/// TypeError if they are of several types.
pub(crate) fn kind<'py>(name: &str, array: &Bound<'py, PyUntypedArray>) -> PyResult<Kind<'py>> {
    let mut found: Option<(Bound<'py, PyType>, bool)> = None;
    for object in array.try_iter()? {
        let object = object?;
        let of = object.get_type();
        // What stands for a value that is missing: None, NaN, pandas' NaT and NA.
        let is_missing = object.is_none()
            || object.cast::<PyFloat>().is_ok_and(|float| float.value().is_nan())
            || matches!(of.name()?.to_str()?, "NaTType" | "NAType");
        if is_missing {
            continue;
        }
        // Moments of a zone and those of none are no two values of one kind.
        let has_zone = of.name()? != "str" && object.getattr_opt("tzinfo")?.is_some_and(|zone| !zone.is_none());
        match &found {
            None => found = Some((of, has_zone)),
            Some((first, zone)) if of.is(first) && *zone == has_zone => (),
            Some((first, _)) => {
                let (first, other) = (first.name()?, of.name()?);
                let what = if first.to_str()? == other.to_str()? { "with and without a zone" } else { "together" };
                return Err(PyTypeError::new_err(format!(
                    "{name} holds objects of the types {first} and {other} {what}: give values of one type"
                )));
            }
        }
    }
    let Some((of, _)) = found else { return Ok(Kind::Arrow) };
    if matches!(of.name()?.to_str()?, "Timestamp" | "Timedelta") && of.module()?.to_str()?.starts_with("pandas") {
        let series = array.py().import("pandas")?.call_method1("Series", (array.call_method0("tolist")?,))?;
        // What pandas has no dtype for stays an object.
        if series.getattr("dtype")?.to_string() != "object" {
            return Ok(Kind::Pandas(series));
        }
    }
    Ok(Kind::Arrow)
}
