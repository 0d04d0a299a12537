//! Hash tables in shards over several devices, where each shard is a separate table.
//!
//! ```text
//! host_partition.rs   partitions rows by shard on the host, and returns answers in the order of the rows
//! exchange.rs         partitions rows by shard on the devices, and gathers the rows of each shard
//! device_lookup.rs    partitions queries by shard on the devices, and returns the answers
//! devices.rs          runs work on all devices at a time
//! builder.rs          parameters, builds
//! reading.rs          get, contains, pairs, digest, audit, stats
//! change.rs           insert, upsert, remove, compact, rebuild: of all shards or of none
//! file.rs             one file for all shards
//! in_file.rs          lookups in a file whose shards do not fit in memory together
//! spilled.rs          builds of more rows than fit in memory, into a file
//! replicated.rs       the same table on each device
//!
//! set.rs              sets: tables in shards whose values are 0
//! multi/              multivalue tables
//! ```
//!
//! ```text
//! digest = BLAKE3( "koelshrd" | version | P | seed | the digest of each shard )
//! ```
//!
//! P, the number of shards, is a parameter of the table. The placement of the shards is not: 16 shards on one GPU, on
//! two, or half of them on the CPU have the same digest, the same file and the same answers. Each placement is a type,
//! because its costs differ: [`Sharded`] (on devices in turn), [`Replicated`] (all on each device) and [`ShardedFile`]
//! (in a file). Digests are equal for canonical tables without tombstones, as for any table.
//!
//! A sharded table is not a backend: a pass over an image requires the image in one device's memory, and each shard has
//! its own image.

mod builder;
mod change;
mod device_lookup;
mod devices;
mod exchange;
mod file;
mod host_partition;
mod in_file;
mod multi;
mod reading;
mod replicated;
mod set;
mod spilled;
#[cfg(test)]
mod tests;

pub use builder::ShardedBuilder;
pub use in_file::ShardedFile;
pub use multi::{ShardedMulti, ShardedMultiBuilder};
pub use replicated::Replicated;
pub use set::{ShardedSet, ShardedSetBuilder};
pub use spilled::SpilledBuild;

use std::fmt;

use crate::backend::{HashBackend, Runs};
use crate::cpu::Cpu;
use crate::scheme::shard::ShardOf;
use crate::scheme::{Cuckoo, Scheme};
use crate::table::{HashTable, KeyType, ValueType};

/// A hash table in shards, on one device or several; created by [`Sharded::builder`].
///
/// All devices have one type. [`Any`](crate::Any) is a type for all devices, so CPUs and GPUs can share one table.
///
/// ```
/// use koel::{Bucketized, Cpu, Sharded};
/// let (keys, values): (Vec<u32>, Vec<u32>) = (0..1000).map(|i| (7 * i, i)).unzip();
/// let builder = Sharded::builder(Bucketized::canonical(8), 4);
/// let one = builder.build(&[Cpu::new()], &keys, &values)?;
/// let two = builder.build(&[Cpu::with_threads(1)?, Cpu::with_threads(2)?], &keys, &values)?;
/// assert_eq!(two.get(&[70, 71])?, [Some(10), None]);
/// assert_eq!(one.digest()?, two.digest()?);
/// # Ok::<(), koel::Error>(())
/// ```
pub struct Sharded<B: HashBackend, S: Scheme = Cuckoo> {
    which: ShardOf,
    /// The number of devices: shard i is on device i mod this number.
    devices: usize,
    tables: Vec<HashTable<B, S>>,
}

/// Implemented for one backend so that `Sharded::builder(..)` needs no type; it builds on any.
impl<S: Scheme> Sharded<Cpu, S> {
    /// Returns a builder of a table with this number of shards, 1 to 4096; see [`ShardedBuilder`]. With at least twice
    /// as many shards as devices, another number of devices can share them evenly.
    pub fn builder(scheme: S, shards: usize) -> ShardedBuilder<S> {
        ShardedBuilder::new(scheme, shards)
    }
}

impl<B: Runs<S>, S: Scheme> Sharded<B, S> {
    /// The number of pairs.
    pub fn len(&self) -> usize {
        self.tables.iter().map(HashTable::len).sum()
    }

    /// Whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The table of each shard. Shard i is on device i mod the number of devices.
    pub fn shards(&self) -> &[HashTable<B, S>] {
        &self.tables
    }

    /// The number of the shard that stores a key, or would store it.
    pub fn shard_of(&self, key: S::Key) -> usize {
        self.which.of(key)
    }

    /// The number of builds of shards that were restarted, of all shards together; see [`HashTable::restarts`].
    pub fn restarts(&self) -> u32 {
        self.tables.iter().map(HashTable::restarts).sum()
    }

    /// The scheme and its parameters.
    pub fn scheme(&self) -> &S {
        self.tables[0].scheme()
    }

    /// The type of the keys.
    pub fn key_type(&self) -> KeyType {
        self.tables[0].key_type()
    }

    /// The type of the values.
    pub fn value_type(&self) -> ValueType {
        self.tables[0].value_type()
    }

    /// Pairs per slot over all shards, from 0 to 1.
    pub fn load_factor(&self) -> f64 {
        (self.len() as f64 / self.slots() as f64).min(1.0)
    }

    /// The slots of all shards together.
    pub fn slots(&self) -> usize {
        self.tables.iter().map(HashTable::slots).sum()
    }
}

impl<B: Runs<S>, S: Scheme> fmt::Debug for Sharded<B, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Sharded");
        shown.field("scheme", self.scheme()).field("len", &self.len()).field("shards", &self.tables.len());
        shown.field("devices", &self.devices).finish()
    }
}
