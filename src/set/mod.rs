//! Sets of keys: built from columns that may contain duplicates, queried, changed, and combined in bulk.
//!
//! ```text
//! builder.rs   parameters; `table/keeping.rs` builds, in one pass if the scheme keeps one row of each key
//! reading.rs   contains, to_keys
//! change.rs    insert, remove, compact, rebuild
//! algebra.rs   union, intersection, difference, symmetric_difference, is_subset, is_disjoint
//! file.rs      digest, audit, save, open
//! ```
//!
//! A set is a table whose values are 0. Its size depends on the number of distinct keys, so the bytes of a canonical
//! set are a function of the parameters, the seed and the keys, however often a key occurred in the input.

mod algebra;
mod builder;
mod change;
mod file;
mod reading;

pub use builder::SetBuilder;

pub(crate) use file::open_with_digest;

use crate::backend::{HashBackend, Runs};
use crate::cpu::Cpu;
use crate::error::Result;
use crate::scheme::{CuckooSet, Scheme};
use crate::table::{HashTable, KeyType};

/// A set of keys on backend `B`, laid out by scheme `S`. [`CuckooSet`] has slots of 32 bits; other schemes of `u32`
/// keys use 64 bits for a key and an unused value.
///
/// ```
/// use koel::{Cpu, CuckooSet, HashSet};
///
/// let set = HashSet::builder(CuckooSet::canonical(4)).build(&Cpu::new(), &[3, 1, 3, 2, 1])?;
/// assert_eq!(set.len(), 3);
/// assert_eq!(set.contains(&[3, 4])?, [true, false]);
/// # Ok::<(), koel::Error>(())
/// ```
pub struct HashSet<B: HashBackend, S: Scheme = CuckooSet> {
    table: HashTable<B, S>,
}

/// For one backend, so that `HashSet::builder(..)` needs no type annotation; the builder works with any.
impl<S: Scheme> HashSet<Cpu, S> {
    /// Starts a set with these parameters, for any backend; see [`SetBuilder`].
    pub fn builder(scheme: S) -> SetBuilder<S> {
        SetBuilder::new(scheme)
    }
}

impl<B: Runs<S>, S: Scheme> HashSet<B, S> {
    /// The number of keys, in constant time.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// The maximum number of keys; see [`HashTable::capacity`].
    pub fn capacity(&self) -> usize {
        self.table.capacity()
    }

    /// The number of slots.
    pub fn slots(&self) -> usize {
        self.table.slots()
    }

    /// The type of the keys.
    pub fn key_type(&self) -> KeyType {
        self.table.key_type()
    }

    /// The number of keys divided by the number of places for keys, from 0 to 1.
    pub fn load_factor(&self) -> f64 {
        self.table.load_factor()
    }

    /// The table that maps all keys to 0, with its plan, image and statistics.
    pub fn table(&self) -> &HashTable<B, S> {
        &self.table
    }

    /// The device.
    pub fn backend(&self) -> &B {
        self.table.backend()
    }

    /// The same set on another device. The bytes are copied, and nothing is rebuilt.
    ///
    /// ```
    /// use koel::{Cpu, CuckooSet, HashSet, auto};
    /// let set = HashSet::builder(CuckooSet::default()).build(&Cpu::new(), &[1, 2, 1])?;
    /// assert_eq!(set.to_backend(&auto().backend)?.digest()?, set.digest()?);
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`crate::Error::OutOfMemory`] or [`crate::Error::Device`] of either device.
    pub fn to_backend<C: Runs<S>>(&self, other: &C) -> Result<HashSet<C, S>> {
        Ok(HashSet { table: self.table.to_backend(other)? })
    }
}

impl<B: HashBackend, S: Scheme> std::fmt::Debug for HashSet<B, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HashSet").field("table", &self.table).finish_non_exhaustive()
    }
}
