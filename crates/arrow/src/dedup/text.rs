//! Columns of text of any layout.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, LargeStringArray, StringArray, StringViewArray, new_null_array};
use arrow_schema::DataType;

use crate::error::Result;
use crate::plain::plain;

/// A column of text without dictionaries.
pub(super) struct Texts {
    array: ArrayRef,
}

impl Texts {
    /// The texts of a column, whose type was checked.
    pub(super) fn of(column: &ArrayRef) -> Result<Texts> {
        Ok(Texts { array: plain(column)? })
    }

    pub(super) fn array(&self) -> &ArrayRef {
        &self.array
    }

    /// The text of each row.
    pub(super) fn rows(&self) -> Vec<Option<&str>> {
        match self.array.data_type() {
            DataType::Utf8 => self.array.as_string::<i32>().iter().collect(),
            DataType::LargeUtf8 => self.array.as_string::<i64>().iter().collect(),
            DataType::Utf8View => self.array.as_string_view().iter().collect(),
            _ => vec![None; self.array.len()],
        }
    }

    /// A column of the same type with other texts, none of which is longer than the text that it replaces.
    pub(super) fn like(&self, texts: &[Option<String>]) -> ArrayRef {
        let texts = texts.iter().map(Option::as_deref);
        match self.array.data_type() {
            DataType::Utf8 => Arc::new(texts.collect::<StringArray>()),
            DataType::LargeUtf8 => Arc::new(texts.collect::<LargeStringArray>()),
            DataType::Utf8View => Arc::new(texts.collect::<StringViewArray>()),
            of => new_null_array(of, texts.len()),
        }
    }
}
