//! Adding and removing keys.

use super::HashSet;
use crate::backend::{DeviceBuffer, Runs};
use crate::error::Result;
use crate::scheme::Scheme;

impl<B: Runs<S>, S: Scheme> HashSet<B, S> {
    /// Adds keys, and returns how many were new. Duplicate and existing keys are ignored.
    ///
    /// Afterwards, a canonical set has the bytes of one build of all keys (with tombstones: after it is compacted).
    /// Cost and memory: as [`HashTable::insert`](crate::HashTable::insert) under `KeepFirst`.
    ///
    /// ```
    /// use koel::{Cpu, CuckooSet, HashSet};
    /// let mut set = HashSet::builder(CuckooSet::default()).build(&Cpu::new(), &[1, 2])?;
    /// assert_eq!(set.insert(&[2, 3, 3])?, 1);
    /// assert_eq!(set.len(), 3);
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// # Errors
    /// As a build. After an error, the set is unchanged.
    pub fn insert(&mut self, keys: &[S::Key]) -> Result<usize> {
        let keys = self.backend().upload(keys)?;
        self.insert_on(&keys)
    }

    /// [`insert`](Self::insert) of keys in a buffer on the device; nothing is transferred.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub fn insert_on(&mut self, keys: &B::Buffer<S::Key>) -> Result<usize> {
        let zeros = self.backend().filled(keys.len(), S::Value::default())?;
        Ok(self.table.insert_on(keys, &zeros)?.added)
    }

    /// Removes keys, and returns how many were in the set. Absent and duplicate keys are ignored.
    ///
    /// [`HashTable::remove`](crate::HashTable::remove) describes the effect on the set: if the scheme has tombstones, a
    /// canonical set has them until it is compacted.
    ///
    /// ```
    /// use koel::{Cpu, CuckooSet, HashSet};
    /// let build = |keys: &[u32]| HashSet::builder(CuckooSet::default()).slots(20).build(&Cpu::new(), keys);
    /// let mut set = build(&[1, 2, 3])?;
    /// assert_eq!(set.remove(&[2, 7, 2])?, 1);
    /// set.compact()?;
    /// assert_eq!(set.digest()?, build(&[1, 3])?.digest()?);
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`HashTable::remove`](crate::HashTable::remove). After an error, the set is unchanged.
    pub fn remove(&mut self, keys: &[S::Key]) -> Result<usize> {
        self.table.remove(keys)
    }

    /// [`remove`](Self::remove) of keys in a buffer on the device; nothing is transferred.
    ///
    /// # Errors
    /// As [`remove`](Self::remove).
    pub fn remove_on(&mut self, keys: &B::Buffer<S::Key>) -> Result<usize> {
        self.table.remove_on(keys)
    }

    /// Removes the tombstones; as [`HashTable::compact`](crate::HashTable::compact).
    ///
    /// # Errors
    /// [`crate::Error::OutOfMemory`] or what the device reports. After an error, the set is unchanged.
    pub fn compact(&mut self) -> Result<()> {
        self.table.compact()
    }

    /// Rebuilds the set from its keys, with the size that the keys need; as
    /// [`HashTable::rebuild`](crate::HashTable::rebuild).
    ///
    /// # Errors
    /// As a build. After an error, the set is unchanged.
    pub fn rebuild(&mut self) -> Result<()> {
        self.table.rebuild()
    }
}
