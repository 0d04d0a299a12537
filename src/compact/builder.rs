//! Builds compacting tables: numbers the distinct keys, and builds a table of them.

use super::CompactingTable;
use crate::backend::{DeviceBuffer, Runs};
use crate::columns::ColumnOf;
use crate::error::{Error, Result};
use crate::group::IdOrder;
use crate::scheme::Scheme;
use crate::table::{Contents, HashTable, TableBuilder, table_estimate, table_settings};

/// Builds compacting tables; created by [`CompactingTable::builder`].
///
/// ```
/// use koel::{Bucketized, CompactingTable, Cpu, IdOrder};
/// let table = CompactingTable::builder(Bucketized::canonical(8))
///     .ids(IdOrder::Ascending)
///     .load_factor(0.9)
///     .seed(7)
///     .build(&Cpu::new(), &[30, 10, 30])?;
/// assert_eq!(table.unique()?, [10, 30]);
/// # Ok::<(), koel::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct CompactingBuilder<S: Scheme> {
    table: TableBuilder<S>,
    order: IdOrder,
}

table_settings!(CompactingBuilder, "Distinct keys");
table_estimate!(CompactingBuilder);

impl<S: Scheme<Value = u32>> CompactingBuilder<S> {
    pub(super) fn new(scheme: S) -> Self {
        CompactingBuilder { table: HashTable::builder(scheme).contents(Contents::Compact), order: IdOrder::default() }
    }

    /// The order in which distinct keys get their ids. The default is the order of first occurrence.
    pub fn ids(self, order: IdOrder) -> Self {
        CompactingBuilder { order, ..self }
    }

    /// Numbers the distinct keys of a column, which may contain duplicates.
    ///
    /// Cost: that of [`unique`](crate::group::unique), and a build of a table of the distinct keys. The size and the
    /// bytes depend only on the distinct keys and their order, not on duplicates.
    ///
    /// # Errors
    /// [`crate::Error::TooLarge`] for more than `u32::MAX` rows; otherwise as [`TableBuilder::build`]: for example,
    /// [`crate::Error::TooWide`] if there are more distinct keys than the scheme's values can number.
    pub fn build<B: Runs<S>>(&self, backend: &B, keys: &[S::Key]) -> Result<CompactingTable<B, S>> {
        Error::check_rows("rows", keys.len())?;
        self.table.check()?;
        self.build_on(backend, &backend.upload(keys)?)
    }

    /// [`build`](Self::build) from a buffer on the device; nothing is transferred.
    ///
    /// ```
    /// use koel::{CompactingTable, Cpu, Cuckoo, HashBackend};
    /// let cpu = Cpu::new();
    /// let table = CompactingTable::builder(Cuckoo::default()).build_on(&cpu, &cpu.upload(&[5, 6, 5])?)?;
    /// assert_eq!(table.len(), 2);
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`build`](Self::build).
    pub fn build_on<B: Runs<S>>(&self, backend: &B, keys: &B::Buffer<S::Key>) -> Result<CompactingTable<B, S>> {
        Error::check_rows("rows", keys.len())?;
        self.table.check()?;
        let unique = backend.distinct(ColumnOf::<B, S::Key>::Device(keys), self.order)?;
        let table = self.table.build_on(backend, &unique, &backend.iota(unique.len())?)?;
        Ok(CompactingTable { table, unique })
    }
}
