//! The parameters of a build. `table/keeping.rs` performs the build.

use super::HashSet;
use crate::backend::{DeviceBuffer, Runs};
use crate::error::{Error, Result};
use crate::scheme::Scheme;
use crate::table::{Contents, Duplicates, HashTable, TableBuilder, table_estimate, table_settings};

/// Builds sets; created by [`HashSet::builder`].
///
/// ```
/// use koel::{Bucketized, Cpu, HashSet};
/// let builder = HashSet::builder(Bucketized::canonical(8)).load_factor(0.95).seed(7);
/// let set = builder.build(&Cpu::new(), &[5, 6, 5])?;
/// assert_eq!(set.len(), 2);
/// # Ok::<(), koel::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct SetBuilder<S: Scheme> {
    table: TableBuilder<S>,
}

table_settings!(SetBuilder, "Keys");
table_estimate!(SetBuilder);

impl<S: Scheme> SetBuilder<S> {
    pub(super) fn new(scheme: S) -> Self {
        SetBuilder::of(HashTable::builder(scheme))
    }

    /// A builder of sets with the parameters of tables.
    pub(super) fn of(table: TableBuilder<S>) -> Self {
        SetBuilder { table: table.contents(Contents::Set).duplicates(Duplicates::KeepFirst) }
    }

    /// Builds the set of these keys, which may contain duplicates.
    ///
    /// Cost: one to two random accesses per row. If there are duplicates, also a build of the distinct keys, unless a
    /// capacity was given; and a sort of the rows, unless the scheme keeps one row of each key ([`Scheme::keeps_one`]).
    ///
    /// # Errors
    /// [`crate::Error::TooLarge`] for more than `u32::MAX` rows; otherwise as [`TableBuilder::build`].
    pub fn build<B: Runs<S>>(&self, backend: &B, keys: &[S::Key]) -> Result<HashSet<B, S>> {
        Error::check_rows("rows", keys.len())?;
        self.table.check()?;
        self.build_on(backend, &backend.upload(keys)?)
    }

    /// [`build`](Self::build) from a buffer on the device; nothing is transferred.
    ///
    /// ```
    /// use koel::{Cpu, CuckooSet, HashBackend, HashSet};
    /// let cpu = Cpu::new();
    /// let set = HashSet::builder(CuckooSet::default()).build_on(&cpu, &cpu.upload(&[5, 6, 5])?)?;
    /// assert_eq!(set.len(), 2);
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`build`](Self::build).
    pub fn build_on<B: Runs<S>>(&self, backend: &B, keys: &B::Buffer<S::Key>) -> Result<HashSet<B, S>> {
        Error::check_rows("rows", keys.len())?;
        Ok(HashSet { table: self.table.build_of_keys(backend, keys)? })
    }
}
