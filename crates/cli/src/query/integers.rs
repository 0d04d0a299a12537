//! Distinct keys of a single column of integers: keys are returned in place of row numbers, which takes about half the
//! memory.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray};
use arrow_buffer::ArrowNativeType;
use arrow_schema::DataType;
use koel::IdOrder;
use koel::backend::{HashBackend, Runs};
use koel::device::Any;
use koel::group::value_counts;
use koel::group::wide::unique_on;
use koel::scheme::Key;

use super::Loaded;
use crate::failure::Result;

/// Whether [`distinct`] takes this column: integers in one chunk, without nulls.
pub(super) fn is_for(table: &Loaded, name: &str) -> Result<bool> {
    let column = table.column(name)?;
    let types = [DataType::UInt32, DataType::Int32, DataType::UInt64, DataType::Int64];
    Ok(types.contains(column.data_type()) && matches!(column.chunks(), [one] if one.null_count() == 0))
}

/// The distinct keys of a column, and the number of rows of each if `least` is given: keys with fewer rows are dropped.
pub(super) fn distinct(
    device: &Any,
    column: ArrayRef,
    least: Option<u32>,
    order: IdOrder,
) -> Result<(ArrayRef, Option<Vec<u32>>)> {
    match column.data_type() {
        DataType::Int32 => of::<Int32Type, u32>(device, column, 1 << 31, least, order),
        DataType::Int64 => of::<Int64Type, u64>(device, column, 1 << 63, least, order),
        DataType::UInt64 => of::<UInt64Type, u64>(device, column, 0, least, order),
        _ => of::<UInt32Type, u32>(device, column, 0, least, order),
    }
}

/// `sign` is the bit to flip so that unsigned keys are ordered as the numbers are.
fn of<T: ArrowPrimitiveType<Native: bytemuck::Pod>, K: Key>(
    device: &Any,
    column: ArrayRef,
    sign: u64,
    least: Option<u32>,
    order: IdOrder,
) -> Result<(ArrayRef, Option<Vec<u32>>)>
where
    Any: Runs<K::Rows>,
{
    let mut keys: Vec<K> = bytemuck::cast_vec(numbers::<T>(column));
    let turn = |keys: &mut [K]| match sign {
        0 => {}
        sign => keys.iter_mut().for_each(|key| *key = K::low((*key).into() ^ sign)),
    };
    turn(&mut keys);
    let (mut keys, counts) = match least {
        Some(least) => {
            let (keys, counts) = value_counts(device, keys, least, order)?;
            (keys, Some(counts))
        }
        None => {
            // On the CPU, a column on the device is a copy: the original is dropped before the work begins.
            let on_device = device.upload(&keys)?;
            drop(keys);
            let unique = unique_on::<Any, K>(device, &on_device, order)?;
            drop(on_device);
            (device.download(&unique)?, None)
        }
    };
    turn(&mut keys);
    let keys: Vec<T::Native> = bytemuck::cast_vec(keys);
    Ok((Arc::new(PrimitiveArray::<T>::new(keys.into(), None)), counts))
}

/// The numbers of a column; they are copied only if the array is shared or a slice.
fn numbers<T: ArrowPrimitiveType<Native: ArrowNativeType>>(column: ArrayRef) -> Vec<T::Native> {
    let own = column.as_primitive::<T>().clone();
    drop(column);
    let (_, values, _) = own.into_parts();
    let len = values.len();
    match values.into_inner().into_vec::<T::Native>() {
        Ok(values) if values.len() == len => values,
        Ok(values) => values[..len].to_vec(),
        Err(values) => values.typed_data::<T::Native>()[..len].to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{Int32Array, UInt64Array};

    use super::*;

    #[test]
    fn keys_keep_their_type_and_order() {
        let device = Any::Cpu(koel::Cpu::new());
        let signed: ArrayRef = Arc::new(Int32Array::from(vec![5, -7, 5, i32::MIN, -7, 5]));
        for (order, least, expected, of) in [
            (IdOrder::FirstSeen, None, vec![5, -7, i32::MIN], None),
            (IdOrder::Ascending, None, vec![i32::MIN, -7, 5], None),
            (IdOrder::Ascending, Some(1), vec![i32::MIN, -7, 5], Some(vec![1, 2, 3])),
            (IdOrder::FirstSeen, Some(2), vec![5, -7], Some(vec![3, 2])),
        ] {
            let (keys, counts) =
                distinct(&device, Arc::clone(&signed), least, order).unwrap_or_else(|failure| panic!("{failure}"));
            assert_eq!(keys.as_primitive::<Int32Type>().values(), &expected[..], "{order:?} {least:?}");
            assert_eq!(counts, of, "{order:?} {least:?}");
        }
        // A slice contains only its own rows.
        let sliced: ArrayRef = Arc::new(UInt64Array::from(vec![1 << 40, 2, 3, 2, 1 << 50]).slice(1, 3));
        let (keys, _) =
            distinct(&device, sliced, None, IdOrder::FirstSeen).unwrap_or_else(|failure| panic!("{failure}"));
        assert_eq!(keys.as_primitive::<UInt64Type>().values(), &[2, 3]);
    }
}
