//! The multivalue table: all values of a key are stored next to each other, and a table locates them (Alcantara 2011,
//! Section 4.4, Algorithm 1).
//!
//! ```text
//! values    all values, grouped by key; those of one key in the order of the input  (the paper's sortedValues)
//! starts    the beginning of each key's run of values, then the end of the last run (the paper's keyInfo)
//! table     key -> number of its run; runs are numbered in ascending order of their keys
//! ```
//!
//! The number of values of a key is the difference of two starts, so `starts` contains both numbers that the paper
//! stores per key.
//!
//! ```text
//! builder.rs   the sort, the runs, the table            reading.rs    get, count, keys, values
//! listing.rs   concatenated runs, in pieces             retrieve.rs   values of many keys, in one list or in pieces
//! insert.rs    more pairs                               remove.rs     all values of some keys
//! audit.rs     checks of tables and of files            digest.rs     the digest of the whole structure
//! file.rs      save, open
//! ```
//!
//! Skewed keys need no special handling: a skewed key is one long run and one entry of the table, and lists of runs are
//! split into pieces of equal length, also within runs.
//!
//! There are no linked lists.

mod audit;
mod builder;
mod digest;
mod file;
mod insert;
mod listing;
mod reading;
mod remove;
mod retrieve;

pub use builder::MultiBuilder;
pub use retrieve::{RetrieveChunks, Retrieved, RetrievedIter, RetrievedOn, RetrievedRows};

pub(crate) use builder::Grouped;
pub(crate) use listing::{Listing, Piece, Walk, len_at_once};
pub(crate) use reading::Numbers;

use crate::backend::{DeviceBuffer, HashBackend, Runs};
use crate::cpu::Cpu;
use crate::error::Result;
use crate::scheme::{Cuckoo, Scheme, Value};
use crate::table::{HashTable, KeyType, Stats, ValueType};

/// A table from keys to any number of values each, on backend `B`. Scheme `S` locates the keys and determines their
/// type. Values are `u32`, or `u64` with [`MultiBuilder::values`].
///
/// The values of a key keep the order of the input. Skewed keys need no special handling.
///
/// ```
/// use koel::{Cpu, Cuckoo, MultiTable};
///
/// let table = MultiTable::builder(Cuckoo::canonical(4)).build(&Cpu::new(), &[7, 5, 7, 7], &[1, 2, 3, 4])?;
/// let values = table.values()?;
/// let found = table.get(&[7, 5, 6])?;
/// assert_eq!(&values[found[0].clone()], [1, 3, 4]);
/// assert_eq!(&values[found[1].clone()], [2]);
/// assert!(found[2].is_empty());
/// # Ok::<(), koel::Error>(())
/// ```
pub struct MultiTable<B: HashBackend, S: Scheme = Cuckoo, V: Value = u32> {
    /// Maps each key to the number of its run. It also stores the capacity, the seed and the other parameters of the
    /// multivalue table.
    table: HashTable<B, S>,
    /// The start of each run, followed by the number of pairs; ascending from 0.
    starts: B::Buffer<u32>,
    /// The values of all pairs, followed by the value that [`with_spare`](MultiTable::with_spare) appended, if any.
    values: B::Buffer<V>,
    pairs: usize,
}

/// For one backend, so that `MultiTable::builder(..)` needs no type annotation; the builder works with any.
impl<S: Scheme<Value = u32>> MultiTable<Cpu, S> {
    /// Starts a table with these parameters and values of `u32`, for any backend; see [`MultiBuilder`].
    pub fn builder(scheme: S) -> MultiBuilder<S> {
        MultiBuilder::new(scheme)
    }
}

impl<B: Runs<S>, S: Scheme<Value = u32>, V: Value> MultiTable<B, S, V> {
    /// The number of pairs, fewer than 2^32.
    ///
    /// ```
    /// use koel::{Cpu, Cuckoo, MultiTable};
    /// let table = MultiTable::builder(Cuckoo::default()).build(&Cpu::new(), &[5, 5, 6], &[1, 2, 3])?;
    /// assert_eq!((table.len(), table.keys_len(), table.is_empty()), (3, 2, false));
    /// # Ok::<(), koel::Error>(())
    /// ```
    pub fn len(&self) -> usize {
        self.pairs
    }

    /// Whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of distinct keys.
    pub fn keys_len(&self) -> usize {
        self.table.len()
    }

    /// The number of slots for keys; see [`HashTable::slots`].
    pub fn slots(&self) -> usize {
        self.table.slots()
    }

    /// Statistics of the table of the keys; see [`HashTable::stats`].
    ///
    /// # Errors
    /// What the device reports.
    pub fn stats(&self) -> Result<Stats> {
        self.table.stats()
    }

    /// The type of the keys.
    pub fn key_type(&self) -> KeyType {
        self.table.key_type()
    }

    /// The type of the values.
    pub fn value_type(&self) -> ValueType {
        self.table.value_type()
    }

    /// The table that maps keys to the numbers of their runs, which ascend with the keys.
    pub fn table(&self) -> &HashTable<B, S> {
        &self.table
    }

    /// The device.
    pub fn backend(&self) -> &B {
        self.table.backend()
    }

    /// The same table on another device. The bytes are copied, and nothing is rebuilt.
    ///
    /// Cost: everything is transferred from the device to the host, and to the other device.
    ///
    /// ```
    /// use koel::{Cpu, Cuckoo, MultiTable, auto};
    /// let table = MultiTable::builder(Cuckoo::default()).build(&Cpu::new(), &[1, 1], &[3, 4])?;
    /// let there = table.to_backend(&auto().backend)?;
    /// assert_eq!(there.digest()?, table.digest()?);
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`crate::Error::OutOfMemory`] or [`crate::Error::Device`] of either device.
    pub fn to_backend<C: Runs<S>>(&self, other: &C) -> Result<MultiTable<C, S, V>> {
        let starts = other.upload(&self.backend().download(&self.starts)?)?;
        let values = other.upload(&self.backend().download(&self.values)?)?;
        Ok(MultiTable { table: self.table.to_backend(other)?, starts, values, pairs: self.pairs })
    }

    /// Appends a value that does not belong to any key.
    pub(crate) fn with_spare(mut self, value: V) -> Result<Self> {
        debug_assert_eq!(self.values.len(), self.pairs, "one is enough");
        let spare = self.backend().upload(&[value])?;
        self.values = self.backend().concat(&self.values, &spare)?;
        Ok(self)
    }
}

impl<B: HashBackend, S: Scheme, V: Value> std::fmt::Debug for MultiTable<B, S, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MultiTable").field("table", &self.table).field("pairs", &self.pairs).finish()
    }
}
