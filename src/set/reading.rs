//! Lookups from host slices and device buffers, and the keys in table order.

use super::HashSet;
use crate::backend::{Answers, Queries, Runs};
use crate::error::Result;
use crate::scheme::Scheme;

impl<B: Runs<S>, S: Scheme> HashSet<B, S> {
    /// Whether each query is in the set, in the order of the queries. Cost: as
    /// [`HashTable::get`](crate::HashTable::get).
    ///
    /// # Errors
    /// [`crate::Error::OutOfMemory`] or what the device reports.
    pub fn contains(&self, queries: &[S::Key]) -> Result<Vec<bool>> {
        self.table.contains(queries)
    }

    /// [`contains`](Self::contains), for queries that may be computed where a device reads them.
    ///
    /// # Errors
    /// As [`HashTable::answer`](crate::HashTable::answer).
    pub fn answer(&self, queries: Queries<'_, S::Key>, found: &mut [bool]) -> Result<()> {
        self.table.answer(queries, Answers::flags(found))
    }

    /// A bitmap of the queries that are in the set, for queries on the device: bit `i % 32` of word `i / 32` belongs to
    /// query `i`. Nothing is transferred.
    ///
    /// Cost and memory: as [`HashTable::contains_on`](crate::HashTable::contains_on).
    ///
    /// ```
    /// use koel::{Cpu, CuckooSet, HashBackend, HashSet};
    /// let cpu = Cpu::new();
    /// let set = HashSet::builder(CuckooSet::default()).build(&cpu, &[5, 6])?;
    /// let found = set.contains_on(&cpu.upload(&[4, 5, 6])?)?;
    /// assert_eq!(cpu.download(&found)?, [0b110]);
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`crate::Error::WrongDevice`], [`crate::Error::OutOfMemory`], or what the device reports.
    pub fn contains_on(&self, queries: &B::Buffer<S::Key>) -> Result<B::Buffer<u32>> {
        self.table.contains_on(queries)
    }

    /// All keys in table order; for a canonical set this order is the same on every device.
    ///
    /// Cost: as [`HashTable::to_pairs`](crate::HashTable::to_pairs).
    ///
    /// ```
    /// use koel::{Cpu, CuckooSet, HashSet};
    /// let mut keys = HashSet::builder(CuckooSet::default()).build(&Cpu::new(), &[5, 6, 5])?.to_keys()?;
    /// keys.sort();
    /// assert_eq!(keys, [5, 6]);
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`crate::Error::OutOfMemory`] or what the device reports.
    pub fn to_keys(&self) -> Result<Vec<S::Key>> {
        self.backend().download(&self.keys_on()?)
    }

    /// [`to_keys`](Self::to_keys) as a buffer on the device.
    ///
    /// # Errors
    /// As [`to_keys`](Self::to_keys).
    pub fn keys_on(&self) -> Result<B::Buffer<S::Key>> {
        self.table.pairs_on().map(|(keys, _)| keys)
    }
}
