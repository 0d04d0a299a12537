//! Groups of one column of integers in ascending order, with numbers of rows alone: no rows are numbered, so this takes
//! less time and memory than other groups.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, Int64Array, PrimitiveArray};
use arrow_schema::DataType;
use koel::group::value_counts;
use koel::scheme::Key;
use koel::{Any, IdOrder, Runs};
use rayon::prelude::*;

use crate::aggregate::Aggregation;
use crate::error::Result;
use crate::keys::{Column, Keys};
use crate::written::mapped;

/// The distinct keys, and the number of rows of each; `None` if keys are not one column of integers of 32 or 64 bits
/// without nulls, or more is requested.
pub(crate) fn integers(
    device: &Any,
    keys: &Keys,
    aggregations: &[Aggregation],
    order: IdOrder,
) -> Result<Option<[ArrayRef; 2]>> {
    let [column] = keys.columns() else { return Ok(None) };
    let is_for = order == IdOrder::Ascending
        && aggregations.iter().all(Aggregation::is_count_of_rows)
        && column.chunks().iter().all(|chunk| chunk.null_count() == 0);
    match column.data_type() {
        _ if !is_for => Ok(None),
        DataType::Int32 => of::<Int32Type, u32>(device, column, 1 << 31),
        DataType::Int64 => of::<Int64Type, u64>(device, column, 1 << 63),
        DataType::UInt32 => of::<UInt32Type, u32>(device, column, 0),
        DataType::UInt64 => of::<UInt64Type, u64>(device, column, 0),
        _ => Ok(None),
    }
}

/// `sign` is the bit to flip so that unsigned keys have the order of the numbers.
fn of<T: ArrowPrimitiveType<Native: bytemuck::Pod>, K: Key>(
    device: &Any,
    column: &Column,
    sign: u64,
) -> Result<Option<[ArrayRef; 2]>>
where
    Any: Runs<K::Rows>,
{
    let mut numbers: Vec<T::Native> = Vec::with_capacity(column.len());
    column.chunks().iter().for_each(|chunk| numbers.extend_from_slice(chunk.as_primitive::<T>().values()));
    let mut keys: Vec<K> = bytemuck::cast_vec(numbers);
    let turn = |keys: &mut [K]| keys.par_iter_mut().for_each(|key| *key = K::low((*key).into() ^ sign));
    turn(&mut keys);
    let (mut keys, counts) = value_counts(device, keys, 1, IdOrder::Ascending)?;
    turn(&mut keys);
    let keys: Vec<T::Native> = bytemuck::cast_vec(keys);
    let counts = Int64Array::from(mapped(&counts, i64::from));
    Ok(Some([Arc::new(PrimitiveArray::<T>::new(keys.into(), None)), Arc::new(counts)]))
}
