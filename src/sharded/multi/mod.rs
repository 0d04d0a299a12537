//! A multivalue table in shards: a key and all its values, in the order of the input, are in one shard.
//!
//! ```text
//! builder.rs   parameters, builds
//! reading.rs   retrieve, count, contains, pairs
//! change.rs    insert, remove: of all shards or of none
//! file.rs      digest, audit, save, open
//! ```
//!
//! A shard is a [`MultiTable`], which has fewer than 2^32 pairs; with more shards, the whole table can have more.

mod builder;
mod change;
mod file;
mod reading;

pub use builder::ShardedMultiBuilder;

use crate::backend::{HashBackend, Runs};
use crate::cpu::Cpu;
use crate::multi::MultiTable;
use crate::scheme::shard::ShardOf;
use crate::scheme::{Cuckoo, Scheme, Value};
use crate::table::{KeyType, ValueType};

/// A table from keys to any number of values each, in shards on one device or several; created by
/// [`ShardedMulti::builder`].
///
/// ```
/// use koel::{Cpu, Cuckoo, ShardedMulti};
/// let devices = [Cpu::with_threads(1)?, Cpu::with_threads(1)?];
/// let table = ShardedMulti::builder(Cuckoo::default(), 4).build(&devices, &[7, 5, 7, 7], &[1, 2, 3, 4])?;
/// let retrieved = table.retrieve(&[7, 6, 5])?;
/// assert_eq!((retrieved.of(0), retrieved.of(1), retrieved.of(2)), (&[1, 3, 4][..], &[][..], &[2][..]));
/// # Ok::<(), koel::Error>(())
/// ```
pub struct ShardedMulti<B: HashBackend, S: Scheme = Cuckoo, V: Value = u32> {
    pub(super) which: ShardOf,
    /// The number of devices: shard i is on device i mod this number.
    devices: usize,
    tables: Vec<MultiTable<B, S, V>>,
}

/// Implemented for one backend so that `ShardedMulti::builder(..)` needs no type; it builds on any.
impl<S: Scheme<Value = u32>> ShardedMulti<Cpu, S> {
    /// Returns a builder of a table with this number of shards, 1 to 4096, and with values of type `u32`; see
    /// [`Sharded::builder`](super::Sharded::builder).
    pub fn builder(scheme: S, shards: usize) -> ShardedMultiBuilder<S> {
        ShardedMultiBuilder::new(scheme, shards)
    }
}

impl<B: Runs<S>, S: Scheme<Value = u32>, V: Value> ShardedMulti<B, S, V> {
    /// The number of pairs, which is the number of all values.
    pub fn len(&self) -> usize {
        self.tables.iter().map(MultiTable::len).sum()
    }

    /// Whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of distinct keys.
    pub fn keys_len(&self) -> usize {
        self.tables.iter().map(MultiTable::keys_len).sum()
    }

    /// The table of each shard. Shard i is on device i mod the number of devices.
    pub fn shards(&self) -> &[MultiTable<B, S, V>] {
        &self.tables
    }

    /// The number of the shard that stores a key, or would store it.
    pub fn shard_of(&self, key: S::Key) -> usize {
        self.which.of(key)
    }

    /// The type of the keys.
    pub fn key_type(&self) -> KeyType {
        self.tables[0].key_type()
    }

    /// The type of the values.
    pub fn value_type(&self) -> ValueType {
        self.tables[0].value_type()
    }
}

impl<B: Runs<S>, S: Scheme<Value = u32>, V: Value> std::fmt::Debug for ShardedMulti<B, S, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("ShardedMulti");
        shown.field("len", &self.len()).field("shards", &self.tables.len()).field("devices", &self.devices).finish()
    }
}
