//! A set in shards: a table in shards whose values are 0, as a [`HashSet`](crate::HashSet) is a table.

use std::path::Path;

use super::builder::{built, keys_of, some};
use super::exchange::{self, Exchange};
use super::{Sharded, ShardedBuilder};
use crate::backend::{DeviceBuffer, HashBackend, Runs};
use crate::cpu::Cpu;
use crate::error::{Error, Result};
use crate::memory;
use crate::scheme::{Audit, CuckooSet, Scheme};
use crate::set::open_with_digest;
use crate::table::{Contents, Digest, Duplicates, HashTable, MemoryEstimate, table_settings};

/// A set of keys in shards, on one device or several; created by [`ShardedSet::builder`].
///
/// ```
/// use koel::{Cpu, CuckooSet, ShardedSet};
/// let builder = ShardedSet::builder(CuckooSet::canonical(4), 4);
/// let set = builder.build(&[Cpu::with_threads(1)?, Cpu::with_threads(1)?], &[3, 1, 3, 2, 1])?;
/// assert_eq!((set.len(), set.contains(&[3, 4])?), (3, vec![true, false]));
/// assert_eq!(set.digest()?, builder.build(&[Cpu::new()], &[1, 2, 3])?.digest()?);
/// # Ok::<(), koel::Error>(())
/// ```
pub struct ShardedSet<B: HashBackend, S: Scheme = CuckooSet> {
    table: Sharded<B, S>,
}

/// Implemented for one backend so that `ShardedSet::builder(..)` needs no type; it builds on any.
impl<S: Scheme> ShardedSet<Cpu, S> {
    /// Returns a builder of a set with this number of shards, 1 to 4096; see [`Sharded::builder`].
    pub fn builder(scheme: S, shards: usize) -> ShardedSetBuilder<S> {
        let table = HashTable::builder(scheme).contents(Contents::Set).duplicates(Duplicates::KeepFirst);
        ShardedSetBuilder { table: ShardedBuilder::of(table, shards) }
    }
}

/// Builds sets in shards; created by [`ShardedSet::builder`]. Numbers of keys and slots are those of all shards
/// together; see [`ShardedBuilder`].
#[derive(Clone, Debug)]
pub struct ShardedSetBuilder<S: Scheme> {
    table: ShardedBuilder<S>,
}

table_settings!(ShardedSetBuilder, "Keys");

impl<S: Scheme> ShardedSetBuilder<S> {
    /// Builds the set of these keys, which may contain duplicates; the shards are assigned to the devices in turn.
    ///
    /// Cost: the column is partitioned on the devices or on the host (see [`ShardedBuilder::build`]), then each shard
    /// is built; different devices build at the same time.
    ///
    /// # Errors
    /// As [`ShardedBuilder::build`] and [`SetBuilder::build`](crate::SetBuilder::build) of one shard.
    pub fn build<B: Runs<S>>(&self, devices: &[B], keys: &[S::Key]) -> Result<ShardedSet<B, S>> {
        let which = self.table.which()?;
        let (builder, devices) = (self.table.of_shard(), some(devices)?);
        let build = |device: &B, keys: &B::Buffer<S::Key>| {
            Error::check_rows("rows of a shard", keys.len())?;
            builder.build_of_keys(device, keys)
        };
        let exchanged = exchange::use_device_exchange(&which, devices, keys.len(), size_of::<S::Key>(), || {
            Exchange::of_keys(&which, devices, keys)?.built(&which, &|device, keys, _| build(device, &keys))
        })?;
        let tables = match exchanged {
            Some(tables) => tables,
            None => {
                let build = |device: &B, keys: Vec<S::Key>| build(device, &device.upload(&keys)?);
                built(devices, keys_of(&which, keys)?, &build)?
            }
        };
        Ok(ShardedSet { table: Sharded { which, devices: devices.len(), tables } })
    }

    /// Estimates the memory that a set of `keys` distinct keys takes on the device with the most shards, of `devices`
    /// devices; see [`ShardedBuilder::memory_estimate`].
    ///
    /// # Errors
    /// As [`build`](Self::build), if no such set can exist.
    pub fn memory_estimate(&self, keys: u64, devices: usize) -> Result<MemoryEstimate> {
        self.table.memory_estimate(keys, devices)
    }
}

impl<B: Runs<S>, S: Scheme> ShardedSet<B, S> {
    /// The number of keys.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// The table of the keys, whose values are 0, with its shards and statistics.
    pub fn table(&self) -> &Sharded<B, S> {
        &self.table
    }

    /// Returns whether each query is in the set, in the order of the queries; cost and errors as [`Sharded::contains`].
    ///
    /// # Errors
    /// As [`Sharded::contains`].
    pub fn contains(&self, queries: &[S::Key]) -> Result<Vec<bool>> {
        self.table.contains(queries)
    }

    /// All keys, one shard after the other, those of a shard in table order. The order does not depend on the devices.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] or what a device reports.
    pub fn to_keys(&self) -> Result<Vec<S::Key>> {
        let keys = self.table.of_each(&|_, table| table.backend().download(&table.pairs_on()?.0))?;
        let mut all = memory::reserved(keys.iter().map(Vec::len).sum())?;
        keys.into_iter().for_each(|keys| all.extend(keys));
        Ok(all)
    }

    /// Adds keys, which may be duplicates or already in the set, and returns the number of new keys; cost as
    /// [`Sharded::insert`]. On an error the set is unchanged.
    ///
    /// # Errors
    /// As [`Sharded::insert`].
    pub fn insert(&mut self, keys: &[S::Key]) -> Result<usize> {
        let keys = keys_of(&self.table.which, keys)?;
        let inserted = self.table.changed_by(keys, &|table, keys: Vec<S::Key>| {
            let zeros = memory::zeroed(keys.len())?;
            table.inserting(&keys, &zeros)
        })?;
        Ok(inserted.added)
    }

    /// Removes keys, and returns the number of keys that were in the set; see [`Sharded::remove`].
    ///
    /// # Errors
    /// As [`Sharded::remove`].
    pub fn remove(&mut self, keys: &[S::Key]) -> Result<usize> {
        self.table.remove(keys)
    }

    /// Removes the tombstones of all shards; see [`Sharded::compact`].
    ///
    /// # Errors
    /// As [`Sharded::compact`].
    pub fn compact(&mut self) -> Result<()> {
        self.table.compact()
    }

    /// Rebuilds every shard; see [`Sharded::rebuild`].
    ///
    /// # Errors
    /// As [`Sharded::rebuild`].
    pub fn rebuild(&mut self) -> Result<()> {
        self.table.rebuild()
    }

    /// The digest: if the set is canonical and has no tombstones, it depends only on the keys, the parameters, the seed
    /// and the number of shards.
    ///
    /// # Errors
    /// What a device reports.
    pub fn digest(&self) -> Result<Digest> {
        self.table.digest()
    }

    /// Checks every invariant; see [`Sharded::audit`].
    ///
    /// # Errors
    /// As [`Sharded::audit`].
    pub fn audit(&self) -> Result<Audit> {
        self.table.audit()
    }

    /// Writes all shards to one file; see [`Sharded::save`].
    ///
    /// # Errors
    /// As [`Sharded::save`].
    pub fn save(&self, path: impl AsRef<Path>) -> Result<Digest> {
        self.table.save(path)
    }

    /// Opens a file, checks everything in it, and assigns the shards to these devices in turn; see [`Sharded::open`].
    ///
    /// # Errors
    /// As [`Sharded::open`], and [`Error::BadFile`] for a file that does not contain a set.
    pub fn open(devices: &[B], path: impl AsRef<Path>) -> Result<Self> {
        Ok(ShardedSet {
            table: Sharded::open_by(devices, path.as_ref(), &|device, part| open_with_digest(device, part))?,
        })
    }
}

impl<B: Runs<S>, S: Scheme> std::fmt::Debug for ShardedSet<B, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ShardedSet").field("table", &self.table).finish()
    }
}
