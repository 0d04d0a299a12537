//! Floats in canonical form, so that equal ones have the same bits: -0 becomes 0, and there is one NaN.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float16Type, Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, StructArray};
use arrow_schema::DataType;

use crate::error::Result;

/// The array with canonical floats, also in structs and dictionaries.
pub(crate) fn canonical(array: &ArrayRef) -> Result<ArrayRef> {
    type Half = <Float16Type as ArrowPrimitiveType>::Native;
    Ok(match array.data_type() {
        DataType::Float16 => {
            // Adding 0 turns -0 into 0.
            let one = |value: Half| if value.is_nan() { Half::NAN } else { value + Half::ZERO };
            Arc::new(array.as_primitive::<Float16Type>().unary::<_, Float16Type>(one))
        }
        DataType::Float32 => {
            let one = |value: f32| if value.is_nan() { f32::NAN } else { value + 0.0 };
            Arc::new(array.as_primitive::<Float32Type>().unary::<_, Float32Type>(one))
        }
        DataType::Float64 => {
            let one = |value: f64| if value.is_nan() { f64::NAN } else { value + 0.0 };
            Arc::new(array.as_primitive::<Float64Type>().unary::<_, Float64Type>(one))
        }
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            dictionary.with_values(canonical(dictionary.values())?)
        }
        DataType::Struct(fields) => {
            let array = array.as_struct();
            let columns = array.columns().iter().map(canonical).collect::<Result<_>>()?;
            Arc::new(StructArray::try_new_with_length(fields.clone(), columns, array.nulls().cloned(), array.len())?)
        }
        _ => Arc::clone(array),
    })
}
