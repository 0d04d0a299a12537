//! Reads NumPy's strings and bytes of fixed width, dtypes `U` and `S`. Zeros at the end of an item are padding.

use std::sync::Arc;

use arrow_array::{ArrayRef, LargeBinaryArray, LargeStringArray};
use arrow_buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

/// Reads strings of `width` code points each.
pub(crate) fn of_letters(name: &str, letters: &[u32], width: usize) -> PyResult<ArrayRef> {
    let (mut bytes, mut offsets) = (Vec::with_capacity(letters.len()), vec![0_i64]);
    for item in letters.chunks_exact(width.max(1)) {
        let len = item.iter().rposition(|&letter| letter != 0).map_or(0, |last| last + 1);
        for &letter in &item[..len] {
            let letter = char::from_u32(letter).ok_or_else(|| {
                PyTypeError::new_err(format!(
                    "{name} contains a lone surrogate, U+{letter:X}, which is not valid Unicode: replace it"
                ))
            })?;
            bytes.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
        }
        offsets.push(bytes.len() as i64);
    }
    let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
    let text = LargeStringArray::try_new(offsets, Buffer::from_vec(bytes), None);
    Ok(Arc::new(text.map_err(|error| crate::error::Failure::from(koel_arrow::Error::from(error)))?))
}

/// Reads bytes of width `width`.
pub(crate) fn of_bytes(bytes: &[u8], width: usize) -> ArrayRef {
    let item = |item: &[u8]| item.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    let items = bytes.chunks_exact(width.max(1)).map(|bytes| &bytes[..item(bytes)]);
    Arc::new(LargeBinaryArray::from_iter_values(items))
}
