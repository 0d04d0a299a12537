//! Converts Arrow arrays of results to NumPy arrays.

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType};
use arrow_schema::{DataType, TimeUnit};
use koel_arrow::mapped;
use numpy::{Element, PyArray1};
use pyo3::prelude::*;

use crate::output::{self, ArrowColumn};
use crate::run::detached;

/// Buffers below this size are copied by the calling thread.
const SERIAL_BYTES: usize = 1 << 20;

/// Converts a column to a NumPy array, without a copy if the column is not used elsewhere. Nulls become NaN or NaT, and
/// 0 in sums.
pub(crate) fn to_numpy<'py>(py: Python<'py>, name: &str, array: ArrayRef, is_sum: bool) -> PyResult<Bound<'py, PyAny>> {
    macro_rules! of_type {
        ($type:ty, $missing:expr) => {
            of_primitive::<$type>(py, name, array, $missing)
        };
        ($type:ty, $missing:expr, $dtype:expr) => {
            of_primitive::<$type>(py, name, array, $missing)?.call_method1("view", ($dtype,))
        };
    }
    let nat = Some(i64::MIN);
    match array.data_type() {
        DataType::Int8 => of_type!(Int8Type, None),
        DataType::Int16 => of_type!(Int16Type, None),
        DataType::Int32 => of_type!(Int32Type, None),
        DataType::Int64 => of_type!(Int64Type, is_sum.then_some(0)),
        DataType::UInt8 => of_type!(UInt8Type, None),
        DataType::UInt16 => of_type!(UInt16Type, None),
        DataType::UInt32 => of_type!(UInt32Type, None),
        DataType::UInt64 => of_type!(UInt64Type, is_sum.then_some(0)),
        DataType::Float16 => of_type!(Float16Type, Some(<Float16Type as ArrowPrimitiveType>::Native::NAN)),
        DataType::Float32 => of_type!(Float32Type, Some(f32::NAN)),
        DataType::Float64 => of_type!(Float64Type, Some(if is_sum { 0.0 } else { f64::NAN })),
        DataType::Timestamp(TimeUnit::Second, _) => of_type!(TimestampSecondType, nat, "datetime64[s]"),
        DataType::Timestamp(TimeUnit::Millisecond, _) => of_type!(TimestampMillisecondType, nat, "datetime64[ms]"),
        DataType::Timestamp(TimeUnit::Microsecond, _) => of_type!(TimestampMicrosecondType, nat, "datetime64[us]"),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => of_type!(TimestampNanosecondType, nat, "datetime64[ns]"),
        DataType::Duration(TimeUnit::Second) => of_type!(DurationSecondType, nat, "timedelta64[s]"),
        DataType::Duration(TimeUnit::Millisecond) => of_type!(DurationMillisecondType, nat, "timedelta64[ms]"),
        DataType::Duration(TimeUnit::Microsecond) => of_type!(DurationMicrosecondType, nat, "timedelta64[us]"),
        DataType::Duration(TimeUnit::Nanosecond) => of_type!(DurationNanosecondType, nat, "timedelta64[ns]"),
        DataType::Boolean if array.null_count() == 0 => {
            Ok(PyArray1::from_vec(py, array.as_boolean().values().iter().collect()).into_any())
        }
        _ => other(py, name, array),
    }
}

/// Converts a column of this type. `missing` is the value of nulls.
fn of_primitive<'py, T: ArrowPrimitiveType<Native: Element>>(
    py: Python<'py>,
    name: &str,
    array: ArrayRef,
    missing: Option<T::Native>,
) -> PyResult<Bound<'py, PyAny>> {
    let values = array.as_primitive::<T>();
    let values = match missing {
        _ if values.null_count() == 0 => {
            let buffer = values.values().inner().clone();
            // The buffer becomes the vector if this was the other owner.
            drop(array);
            match buffer.into_vec() {
                Ok(values) => values,
                Err(buffer) if buffer.len() < SERIAL_BYTES => buffer.typed_data().to_vec(),
                Err(buffer) => detached(py, |_| Ok(mapped(buffer.typed_data(), |value: T::Native| value)))?,
            }
        }
        Some(missing) => values.iter().map(|value| value.unwrap_or(missing)).collect(),
        None => return other(py, name, array),
    };
    Ok(output::array(py, values))
}

fn other<'py>(py: Python<'py>, name: &str, array: ArrayRef) -> PyResult<Bound<'py, PyAny>> {
    Bound::new(py, ArrowColumn::named(name, array))?.call_method0("to_numpy")
}
