//! Whole columns: distinct keys, numbers of keys, groups, first rows, and the right sides of joins.
//!
//! ```text
//! mod.rs          Columns: one method per operation, which selects the algorithm; groups, joins and ids call these
//! by_passes.rs    the default: passes over columns, and one hash table
//! numbering.rs    .. distinct keys in an order that is the same on every device, and the id of each row
//! first_seen.rs   .. the order of first occurrence: by slots of keys, a table or a sort
//! by_table.rs     .. the right side of a join: a table of all rows
//! host.rs         what the CPU does instead: it reads columns in place, and needs no table of a scheme
//! first_rows.rs   the first row with each row's key, and lookups of other keys
//! ```
//!
//! Both ways return the same keys, ids and rows in the same order.

pub(crate) mod by_passes;
mod by_table;
mod first_rows;
pub(crate) mod first_seen;
pub(crate) mod host;
pub(crate) mod numbering;

pub use first_rows::FirstRows;

pub(crate) use by_table::ByTable;
pub use first_seen::Grouping;
pub use numbering::Numbered;

use crate::backend::{HashBackend, Kernels, Relational, Word};
use crate::error::{Error, Result};
use crate::group::{Aggregate, DeviceGroups, IdOrder, Number};
use crate::join::RightColumn;
use crate::scheme::Key;

/// A column in host memory, or in a buffer of a device.
#[derive(Debug)]
pub enum ColumnOf<'a, B: HashBackend, T: Word> {
    /// Words of the host.
    Host(&'a [T]),
    /// A buffer of the device.
    Device(&'a B::Buffer<T>),
}

impl<'a, B: HashBackend, T: Word> ColumnOf<'a, B, T> {
    /// Calls `then` with the column on the device, to which it is uploaded if it is not there.
    fn on<R>(self, backend: &B, then: impl FnOnce(&B::Buffer<T>) -> Result<R>) -> Result<R> {
        match self {
            ColumnOf::Host(words) => then(&backend.upload(words)?),
            ColumnOf::Device(buffer) => then(buffer),
        }
    }

    /// The words of the column, for a device whose memory is that of the host.
    pub(crate) fn words(self, backend: &'a B) -> Result<&'a [T]> {
        match self {
            ColumnOf::Host(words) => Ok(words),
            ColumnOf::Device(buffer) => backend.words(buffer).ok_or(Error::WrongDevice),
        }
    }
}

/// Operations on columns of keys, for which devices use different algorithms. Columns have at most `u32::MAX` rows.
pub trait Columns<K: Key>: Kernels<K::Rows> + Relational {
    /// The distinct keys.
    #[doc(hidden)]
    fn distinct(&self, keys: ColumnOf<'_, Self, K>, order: IdOrder) -> Result<Self::Buffer<K>> {
        by_passes::distinct(self, keys, order)
    }

    /// The distinct keys, and the number of each row's key.
    #[doc(hidden)]
    fn numbered(&self, keys: ColumnOf<'_, Self, K>, order: IdOrder) -> Result<Numbered<Self, K>> {
        by_passes::numbered(self, keys, order)
    }

    /// As [`numbered`](Self::numbered), from and to the host.
    #[doc(hidden)]
    fn factorized(&self, keys: &[K], order: IdOrder) -> Result<(Vec<K>, Vec<u32>)> {
        by_passes::factorized(self, keys, order)
    }

    /// The distinct keys, and groups of rows with arbitrary numbers.
    #[doc(hidden)]
    fn grouping(&self, keys: &Self::Buffer<K>, order: IdOrder) -> Result<Grouping<Self, K>> {
        by_passes::grouping(self, keys, order)
    }

    /// The groups of rows, aggregated.
    #[doc(hidden)]
    fn grouped<V: Number>(
        &self,
        keys: ColumnOf<'_, Self, K>,
        values: ColumnOf<'_, Self, V::Word>,
        aggregates: &[Aggregate],
        order: IdOrder,
    ) -> Result<DeviceGroups<Self, K, V>> {
        by_passes::grouped::<Self, K, V>(self, keys, values, aggregates, order)
    }

    /// The groups of rows with ids, aggregated. The key of a group is its number.
    #[doc(hidden)]
    fn grouped_by_id<V: Number>(
        &self,
        ids: ColumnOf<'_, Self, u32>,
        groups: usize,
        values: ColumnOf<'_, Self, V::Word>,
        aggregates: &[Aggregate],
    ) -> Result<DeviceGroups<Self, u32, V>> {
        by_passes::grouped_by_id::<Self, V>(self, ids, groups, values, aggregates)
    }

    /// The first row of each distinct key, in ascending order.
    #[doc(hidden)]
    fn distinct_rows(&self, keys: &[K]) -> Result<Vec<u32>> {
        by_passes::distinct_rows(self, keys)
    }

    /// The first row with each row's key.
    #[doc(hidden)]
    fn first_rows(&self, keys: ColumnOf<'_, Self, K>) -> Result<FirstRows<Self, K>> {
        by_passes::first_rows(self, keys)
    }

    /// The right side of joins.
    #[doc(hidden)]
    fn right(&self, keys: ColumnOf<'_, Self, K>) -> Result<RightColumn<Self, K>> {
        by_passes::right(self, keys)
    }
}

#[cfg(feature = "opencl")]
impl<K: Key> Columns<K> for crate::OpenCl where crate::OpenCl: Kernels<K::Rows> {}

#[cfg(feature = "fault-injection")]
impl<B, K: Key> Columns<K> for crate::fault::Faulty<B> where crate::fault::Faulty<B>: Kernels<K::Rows> + Relational {}
