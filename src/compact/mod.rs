//! Compacting hash tables, which number keys 0, 1, .. (Alcantara et al. 2011, Section 4.4).
//!
//! ```text
//! keys    30 10 30 20 10          table   30 -> 0, 10 -> 1, 20 -> 2        any scheme, sized by the distinct keys
//! ids      0  1  0  2  1          unique  [30, 10, 20]                     a buffer on the device
//! ```
//!
//! The id of a key is its position in the list of the distinct keys. A lookup in either direction is one access, and
//! columns of data per key can be arrays indexed by id.
//!
//! The paper derives ids from the table: it flags the slots that contain a key, and sums the flags. Such ids are in the
//! order of the slots, and depend on the seed; [`from_set`](CompactingTable::from_set) creates them. By default ids are
//! in the order of the input ([`IdOrder`](crate::IdOrder)), and are the same for every scheme, seed and device.

mod builder;
mod file;
mod from_set;
mod reading;

pub use builder::CompactingBuilder;

use crate::backend::{DeviceBuffer, HashBackend, Runs};
use crate::cpu::Cpu;
use crate::error::Result;
use crate::scheme::{Audit, Cuckoo, Scheme};
use crate::table::{Digest, HashTable, KeyType, Stats};

/// A map from the distinct keys of a column to the numbers 0, 1, .., and back, on backend `B`.
///
/// ```
/// use koel::{CompactingTable, Cpu, Cuckoo};
///
/// let column = [30, 10, 30, 20, 10];
/// let table = CompactingTable::builder(Cuckoo::canonical(4)).build(&Cpu::new(), &column)?;
/// assert_eq!(table.unique()?, [30, 10, 20]);
/// assert_eq!(table.ids(&[20, 99])?, [Some(2), None]);
/// assert_eq!(table.keys(&[1, 3])?, [Some(10), None]);
/// assert_eq!(table.inverse(&column)?, [0, 1, 0, 2, 1]);
/// # Ok::<(), koel::Error>(())
/// ```
pub struct CompactingTable<B: HashBackend, S: Scheme = Cuckoo> {
    /// Maps keys to ids.
    table: HashTable<B, S>,
    /// Maps ids to keys.
    unique: B::Buffer<S::Key>,
}

/// For one backend, so that `CompactingTable::builder(..)` needs no type annotation; the builder works with any.
impl<S: Scheme<Value = u32>> CompactingTable<Cpu, S> {
    /// Starts a table with these parameters, for any backend; see [`CompactingBuilder`].
    pub fn builder(scheme: S) -> CompactingBuilder<S> {
        CompactingBuilder::new(scheme)
    }
}

impl<B: Runs<S>, S: Scheme<Value = u32>> CompactingTable<B, S> {
    /// The number of distinct keys; all ids are less.
    pub fn len(&self) -> usize {
        self.unique.len()
    }

    /// Whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.unique.is_empty()
    }

    /// The type of the keys.
    pub fn key_type(&self) -> KeyType {
        self.table.key_type()
    }

    /// The table that maps keys to ids.
    pub fn table(&self) -> &HashTable<B, S> {
        &self.table
    }

    /// The device.
    pub fn backend(&self) -> &B {
        self.table.backend()
    }

    /// The same table on another device. The bytes are copied, and nothing is rebuilt.
    ///
    /// ```
    /// use koel::{CompactingTable, Cpu, Cuckoo, auto};
    /// let table = CompactingTable::builder(Cuckoo::default()).build(&Cpu::new(), &[5, 6, 5])?;
    /// let there = table.to_backend(&auto().backend)?;
    /// assert_eq!((there.digest()?, there.unique()?), (table.digest()?, table.unique()?));
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`crate::Error::OutOfMemory`] or [`crate::Error::Device`] of either device.
    pub fn to_backend<C: Runs<S>>(&self, other: &C) -> Result<CompactingTable<C, S>> {
        let table = self.table.to_backend(other)?;
        let unique = other.upload(&self.unique()?)?;
        Ok(CompactingTable { table, unique })
    }

    /// The digest of the table that maps keys to ids, which determines everything else.
    ///
    /// For canonical schemes it is a function of scheme, parameters, seed, and the distinct keys in the order of their
    /// ids. Cost: as [`HashTable::digest`].
    ///
    /// ```
    /// use koel::{CompactingTable, Cpu, Cuckoo};
    /// let build = |keys: &[u32]| CompactingTable::builder(Cuckoo::default()).build(&Cpu::new(), keys);
    /// assert_eq!(build(&[5, 6, 5])?.digest()?, build(&[5, 6])?.digest()?);
    /// assert_ne!(build(&[6, 5])?.digest()?, build(&[5, 6])?.digest()?, "other ids");
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// # Errors
    /// What the device reports.
    pub fn digest(&self) -> Result<Digest> {
        self.table.digest()
    }

    /// Statistics of the table that maps keys to ids; see [`HashTable::stats`].
    ///
    /// # Errors
    /// What the device reports.
    pub fn stats(&self) -> Result<Stats> {
        self.table.stats()
    }

    /// Checks every invariant of the table ([`HashTable::audit`]), and that its ids are consistent with the list: each
    /// id occurs once, for the key at that position.
    ///
    /// Cost: that of `HashTable::audit`, and a lookup of the list.
    ///
    /// # Errors
    /// [`crate::Error::Damaged`] with the first violation, or what the device reports.
    pub fn audit(&self) -> Result<Audit> {
        let audit = self.table.audit()?;
        reading::check_list(&self.table, &self.unique)?;
        Ok(audit)
    }
}

impl<B: HashBackend, S: Scheme> std::fmt::Debug for CompactingTable<B, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CompactingTable").field("table", &self.table).finish_non_exhaustive()
    }
}
