//! What a user says before a build, and the build: number the distinct keys, then a table of them.

use super::CompactingTable;
use crate::backend::{DeviceBuffer, Runs};
use crate::error::{Error, Result};
use crate::group::{IdOrder, distinct_keys};
use crate::scheme::Scheme;
use crate::table::{Contents, HashTable, KeyType, TableBuilder, random_seed};

/// Builds compacting tables; made by [`CompactingTable::builder`].
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

impl<S: Scheme> CompactingBuilder<S> {
    pub(super) fn new(scheme: S) -> Self {
        CompactingBuilder { table: HashTable::builder(scheme).contents(Contents::Compact), order: IdOrder::default() }
    }

    /// In which order distinct keys get their ids; otherwise as they first appear.
    pub fn ids(self, order: IdOrder) -> Self {
        CompactingBuilder { order, ..self }
    }

    /// Distinct keys per slot, above 0 and up to 1; see [`TableBuilder::load_factor`].
    pub fn load_factor(self, load: f64) -> Self {
        CompactingBuilder { table: self.table.load_factor(load), ..self }
    }

    /// Slots; see [`TableBuilder::capacity`].
    pub fn capacity(self, slots: u64) -> Self {
        CompactingBuilder { table: self.table.capacity(slots), ..self }
    }

    /// The seed of all constants. It does not change the ids.
    pub fn seed(self, seed: u64) -> Self {
        CompactingBuilder { table: self.table.seed(seed), ..self }
    }

    /// A seed from the system's source of randomness instead, for keys that strangers choose
    /// (`docs/canonical-layout.md`, "Keys of strangers").
    ///
    /// # Errors
    /// [`Error::NoRandomness`] if the system has none to give.
    pub fn seed_at_random(self) -> Result<Self> {
        Ok(self.seed(random_seed()?))
    }

    /// The most attempts with new constants, 1 to 1024; otherwise 32.
    pub fn attempts(self, attempts: u32) -> Self {
        CompactingBuilder { table: self.table.attempts(attempts), ..self }
    }

    /// What the keys stand for; see [`TableBuilder::key_type`].
    pub fn key_type(self, key_type: KeyType) -> Self {
        CompactingBuilder { table: self.table.key_type(key_type), ..self }
    }

    /// Numbers the distinct keys of a column, however often they come.
    ///
    /// Cost: that of [`unique`](crate::group::unique), and a build of a table of the distinct keys. The bytes are a
    /// function of the distinct keys in their order; copies leave no trace in size or place.
    ///
    /// # Errors
    /// [`crate::Error::TooLarge`] for more than `u32::MAX` rows; otherwise as [`TableBuilder::build`]:
    /// [`crate::Error::TooWide`], for one, if there are more distinct keys than the scheme's values have numbers.
    pub fn build<B: Runs<S>>(&self, backend: &B, keys: &[u32]) -> Result<CompactingTable<B, S>> {
        Error::check_rows("rows", keys.len())?;
        self.table.check()?;
        self.build_on(backend, &backend.upload(keys)?)
    }

    /// [`build`](Self::build) from a buffer that is on the device already; nothing is transferred.
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
    pub fn build_on<B: Runs<S>>(&self, backend: &B, keys: &B::Buffer<u32>) -> Result<CompactingTable<B, S>> {
        Error::check_rows("rows", keys.len())?;
        self.table.check()?;
        let unique = distinct_keys(backend, keys, self.order)?;
        let table = self.table.build_on(backend, &unique, &backend.iota(unique.len())?)?;
        Ok(CompactingTable { table, unique })
    }
}
