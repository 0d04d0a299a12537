//! Checks whether the dictionaries of several pieces fit in one, and replaces dictionaries by their values.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, StructArray};
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType, Field};

use crate::take::take;

/// Returns an error if the dictionaries of pieces may together have more values than their keys can number. Arrow would
/// panic when it concatenates them.
///
/// # Errors
/// [`ArrowError::DictionaryKeyOverflowError`].
pub(crate) fn check_dictionaries(chunks: &[ArrayRef]) -> Result<(), ArrowError> {
    if chunks.len() < 2 || !has_dictionaries(chunks[0].data_type()) {
        return Ok(());
    }
    let pieces: Vec<ArrayData> = chunks.iter().map(|chunk| chunk.to_data()).collect();
    match fit(&pieces.iter().collect::<Vec<_>>()) {
        true => Ok(()),
        false => Err(ArrowError::DictionaryKeyOverflowError),
    }
}

/// Whether the dictionaries of these pieces fit in one, at every depth. A dictionary that several pieces share counts
/// once.
fn fit(pieces: &[&ArrayData]) -> bool {
    let Some(first) = pieces.first() else { return true };
    if let DataType::Dictionary(keys, _) = first.data_type() {
        let dictionaries = pieces.iter().map(|piece| &piece.child_data()[0]);
        let place = |values: &ArrayData| (values.buffers().first().map(|buffer| buffer.as_ptr()), values.offset());
        let distinct: HashMap<_, usize> = dictionaries.map(|values| (place(values), values.len())).collect();
        let bits = 8 * keys.primitive_width().unwrap_or(0) as u32 - u32::from(keys.is_signed_integer());
        if distinct.values().map(|&values| values as u128).sum::<u128>() > 1 << bits {
            return false;
        }
    }
    (0..first.child_data().len()).all(|i| fit(&pieces.iter().map(|piece| &piece.child_data()[i]).collect::<Vec<_>>()))
}

/// Whether arrays of a type may have dictionaries.
pub(crate) fn has_dictionaries(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(..) => true,
        other => other.is_nested(),
    }
}

/// The type of [`Column::plain`](crate::Column::plain): with values instead of dictionaries, also in structs.
pub fn plain_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Dictionary(_, values) => plain_type(values),
        DataType::Struct(fields) => {
            let plain = |field: &Arc<Field>| field.as_ref().clone().with_data_type(plain_type(field.data_type()));
            DataType::Struct(fields.iter().map(plain).collect())
        }
        other => other.clone(),
    }
}

/// An array with values instead of dictionaries, also in structs.
pub(crate) fn plain(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    Ok(match (array.data_type(), plain_type(array.data_type())) {
        (DataType::Dictionary(..), _) => {
            let dictionary = array.as_any_dictionary();
            plain(&take(dictionary.values(), dictionary.keys())?)?
        }
        (DataType::Struct(_), DataType::Struct(fields)) => {
            let array = array.as_struct();
            let columns = array.columns().iter().map(plain).collect::<Result<_, _>>()?;
            Arc::new(StructArray::try_new_with_length(fields, columns, array.nulls().cloned(), array.len())?)
        }
        _ => Arc::clone(array),
    })
}
