//! Distinct integers of one column in ascending order, on request with the number of rows of each. No group ids are
//! computed, so this takes less time and memory than the general grouping.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, Int64Array, PrimitiveArray};
use arrow_schema::DataType;
use koel::group::value_counts;
use koel::group::wide::unique_on;
use koel::scheme::Key;
use koel::{Any, HashBackend, IdOrder, Runs};
use rayon::prelude::*;

use crate::aggregate::Aggregation;
use crate::error::Result;
use crate::keys::{Column, Keys};
use crate::written::mapped;

/// The distinct keys, and the number of rows of each if it is requested; `None` if keys are not one column of integers
/// of 32 or 64 bits without nulls, or more is requested.
pub(crate) fn integers(
    device: &Any,
    keys: &Keys,
    aggregations: &[Aggregation],
    order: IdOrder,
) -> Result<Option<Found>> {
    let [column] = keys.columns() else { return Ok(None) };
    let is_for = order == IdOrder::Ascending
        && aggregations.iter().all(Aggregation::is_count_of_rows)
        && column.chunks().iter().all(|chunk| chunk.null_count() == 0);
    let is_counted = !aggregations.is_empty();
    let found = match column.data_type() {
        _ if !is_for => return Ok(None),
        DataType::Int32 => of::<Int32Type, u32>(device, column, 1 << 31, is_counted),
        DataType::Int64 => of::<Int64Type, u64>(device, column, 1 << 63, is_counted),
        DataType::UInt32 => of::<UInt32Type, u32>(device, column, 0, is_counted),
        DataType::UInt64 => of::<UInt64Type, u64>(device, column, 0, is_counted),
        _ => return Ok(None),
    };
    found.map(Some)
}

/// Keys, and the number of rows of each if it is requested.
type Found = (ArrayRef, Option<ArrayRef>);

/// Groups the keys as words. `sign` is the bit that is flipped to convert signed integers to unsigned words in the same
/// order; it is 0 for unsigned integers.
fn of<T: ArrowPrimitiveType<Native: bytemuck::Pod>, K: Key>(
    device: &Any,
    column: &Column,
    sign: u64,
    is_counted: bool,
) -> Result<Found>
where
    Any: Runs<K::Rows>,
{
    let mut numbers: Vec<T::Native> = Vec::with_capacity(column.len());
    column.chunks().iter().for_each(|chunk| numbers.extend_from_slice(chunk.as_primitive::<T>().values()));
    let mut keys: Vec<K> = bytemuck::cast_vec(numbers);
    let turn = |keys: &mut [K]| keys.par_iter_mut().for_each(|key| *key = K::low((*key).into() ^ sign));
    turn(&mut keys);
    let (mut keys, counts) = if is_counted {
        let (keys, counts) = value_counts(device, keys, 1, IdOrder::Ascending)?;
        (keys, Some(Arc::new(Int64Array::from(mapped(&counts, i64::from))) as ArrayRef))
    } else {
        // On a CPU, `upload` copies the keys within host memory. The original is dropped to free its memory.
        let on_device = device.upload(&keys)?;
        drop(keys);
        let keys = unique_on::<Any, K>(device, &on_device, IdOrder::Ascending)?;
        drop(on_device);
        (device.download(&keys)?, None)
    };
    turn(&mut keys);
    let keys: Vec<T::Native> = bytemuck::cast_vec(keys);
    Ok((Arc::new(PrimitiveArray::<T>::new(keys.into(), None)), counts))
}
