//! [`Columns`] on a device chosen at run time.

use super::Any;
use crate::backend::Kernels;
#[cfg(feature = "opencl")]
use crate::columns::by_passes;
use crate::columns::{ColumnOf, Columns, FirstRows, Grouping, Numbered, host};
use crate::error::Result;
use crate::group::{Aggregate, DeviceGroups, IdOrder, Number};
use crate::join::RightColumn;
use crate::scheme::Key;

/// Calls a function of `host` or `by_passes`.
macro_rules! on_device {
    ($any:ident, $function:ident $(::<$($types:ty),*>)? ($($argument:expr),*)) => {
        match $any {
            Any::Cpu(cpu) => host::$function $(::<$($types),*>)? ($any, cpu, $($argument),*),
            #[cfg(feature = "opencl")]
            Any::OpenCl(_) => by_passes::$function $(::<$($types),*>)? ($any, $($argument),*),
        }
    };
}

impl<K: Key> Columns<K> for Any
where
    Any: Kernels<K::Rows>,
{
    fn distinct(&self, keys: ColumnOf<'_, Any, K>, order: IdOrder) -> Result<Self::Buffer<K>> {
        on_device!(self, distinct(keys, order))
    }
    fn numbered(&self, keys: ColumnOf<'_, Any, K>, order: IdOrder) -> Result<Numbered<Any, K>> {
        on_device!(self, numbered(keys, order))
    }
    fn factorized(&self, keys: &[K], order: IdOrder) -> Result<(Vec<K>, Vec<u32>)> {
        on_device!(self, factorized(keys, order))
    }
    fn grouping(&self, keys: &Self::Buffer<K>, order: IdOrder) -> Result<Grouping<Any, K>> {
        on_device!(self, grouping(keys, order))
    }
    fn grouped<V: Number>(
        &self,
        keys: ColumnOf<'_, Any, K>,
        values: ColumnOf<'_, Any, V::Word>,
        aggregates: &[Aggregate],
        order: IdOrder,
    ) -> Result<DeviceGroups<Any, K, V>> {
        on_device!(self, grouped::<Any, K, V>(keys, values, aggregates, order))
    }
    fn grouped_by_id<V: Number>(
        &self,
        ids: ColumnOf<'_, Any, u32>,
        groups: usize,
        values: ColumnOf<'_, Any, V::Word>,
        aggregates: &[Aggregate],
    ) -> Result<DeviceGroups<Any, u32, V>> {
        on_device!(self, grouped_by_id::<Any, V>(ids, groups, values, aggregates))
    }
    fn distinct_rows(&self, keys: &[K]) -> Result<Vec<u32>> {
        on_device!(self, distinct_rows(keys))
    }
    fn first_rows(&self, keys: ColumnOf<'_, Any, K>) -> Result<FirstRows<Any, K>> {
        on_device!(self, first_rows(keys))
    }
    fn right(&self, keys: ColumnOf<'_, Any, K>) -> Result<RightColumn<Any, K>> {
        on_device!(self, right(keys))
    }
}
