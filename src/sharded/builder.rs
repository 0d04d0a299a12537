//! Builds: the columns are partitioned by shard, and each device builds the tables of its shards.

use std::ops::Deref;

use super::Sharded;
use super::devices::{map_shards, on_devices};
use super::exchange::{self, Exchange};
use super::file::digest_of;
use super::host_partition::{MOST_ROWS, Partitioned};
use crate::backend::{Runs, Word};
use crate::error::{Error, Result};
use crate::memory;
use crate::parallel::fold;
use crate::scheme::shard::ShardOf;
use crate::scheme::{Key, Scheme};
use crate::table::{Digest, Duplicates, HashTable, KeyType, MemoryEstimate, TableBuilder, ValueType, random_seed};
use crate::threads;

/// Builds tables in shards; created by [`Sharded::builder`].
///
/// ```
/// use koel::{Cpu, Duplicates, Sharded, Signpost};
/// let builder = Sharded::builder(Signpost::new(), 2).load_factor(0.95).duplicates(Duplicates::KeepLast);
/// let table = builder.build(&[Cpu::new()], &[5, 6, 5], &[1, 2, 3])?;
/// assert_eq!((table.len(), table.get(&[5])?), (2, vec![Some(3)]));
/// # Ok::<(), koel::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ShardedBuilder<S: Scheme> {
    pub(super) table: TableBuilder<S>,
    pub(super) shards: usize,
    fixed: Option<Fixed>,
}

/// A size that inserts do not change.
#[derive(Clone, Copy, Debug)]
enum Fixed {
    Pairs(usize),
    Slots(usize),
}

/// Keys that a thread checks at a time.
const KEYS_AT_ONCE: usize = 1 << 14;

/// A shard's columns.
pub(super) struct Columns<K, V> {
    pub(super) keys: Vec<K>,
    pub(super) values: Vec<V>,
}

/// The columns of each shard; the pairs of a shard keep their order.
pub(super) fn columns_of<K: Key, V: Word>(which: &ShardOf, keys: &[K], values: &[V]) -> Result<Vec<Columns<K, V>>> {
    Error::check_length("values", values.len(), keys.len())?;
    let expected_rows = expected_rows_per_shard(which, keys.len());
    let empty = |_| Ok(Columns { keys: memory::reserved(expected_rows)?, values: memory::reserved(expected_rows)? });
    let mut shards = (0..which.shards).map(empty).collect::<Result<Vec<Columns<K, V>>>>()?;
    for (keys, values) in keys.chunks(MOST_ROWS).zip(values.chunks(MOST_ROWS)) {
        let partitioned = Partitioned::of(which, keys)?;
        for (shard, columns) in shards.iter_mut().enumerate() {
            partitioned.append(shard, keys, &mut columns.keys)?;
            partitioned.append(shard, values, &mut columns.values)?;
        }
    }
    Ok(shards)
}

/// The capacity to reserve for a shard's part of `rows` rows: about its final size, so that columns need not be moved
/// when they grow.
pub(super) fn expected_rows_per_shard(which: &ShardOf, rows: usize) -> usize {
    if rows > MOST_ROWS { share(rows as u64, which.shards) as usize } else { 0 }
}

/// The keys of each shard, in their order.
pub(super) fn keys_of<K: Key>(which: &ShardOf, keys: &[K]) -> Result<Vec<Vec<K>>> {
    let expected_rows = expected_rows_per_shard(which, keys.len());
    let mut shards = (0..which.shards).map(|_| memory::reserved(expected_rows)).collect::<Result<Vec<Vec<K>>>>()?;
    for keys in keys.chunks(MOST_ROWS) {
        let partitioned = Partitioned::of(which, keys)?;
        shards.iter_mut().enumerate().try_for_each(|(shard, mine)| partitioned.append(shard, keys, mine))?;
    }
    Ok(shards)
}

impl<S: Scheme> ShardedBuilder<S> {
    pub(super) fn new(scheme: S, shards: usize) -> Self {
        ShardedBuilder::of(HashTable::builder(scheme), shards)
    }

    /// A builder of tables in shards with the parameters of `table`.
    pub(super) fn of(table: TableBuilder<S>, shards: usize) -> Self {
        ShardedBuilder { table, shards, fixed: None }
    }

    /// Pairs per slot of each shard, above 0 and up to 1; see [`TableBuilder::load_factor`].
    pub fn load_factor(mut self, load: f64) -> Self {
        self.table = self.table.load_factor(load);
        self
    }

    /// Fixes the capacity at this number of pairs. Keys are distributed over the shards by a hash, so each shard has
    /// capacity for six standard deviations more than its share. If an attacker who knows the seed may choose the keys,
    /// use [`seed_at_random`](Self::seed_at_random).
    pub fn capacity(mut self, pairs: usize) -> Self {
        self.fixed = Some(Fixed::Pairs(pairs));
        self
    }

    /// Fixes the number of slots, distributed evenly over the shards and rounded up; see [`TableBuilder::slots`].
    pub fn slots(mut self, slots: usize) -> Self {
        self.fixed = Some(Fixed::Slots(slots));
        self
    }

    /// The seed of all hash constants, including those that assign keys to shards; see [`TableBuilder::seed`].
    pub fn seed(mut self, seed: u64) -> Self {
        self.table = self.table.seed(seed);
        self
    }

    /// Takes the seed from the system's source of randomness, for keys from untrusted sources. Builds of any keys
    /// terminate without it, as those of [`TableBuilder`] do; but an attacker who knows the seed can choose keys that
    /// all belong to one shard, and so to one device.
    ///
    /// # Errors
    /// [`Error::NoRandomness`] if the system cannot provide any.
    pub fn seed_at_random(self) -> Result<Self> {
        Ok(self.seed(random_seed()?))
    }

    /// How duplicate keys are handled; see [`TableBuilder::duplicates`].
    pub fn duplicates(mut self, rule: Duplicates) -> Self {
        self.table = self.table.duplicates(rule);
        self
    }

    /// The most attempts of a shard's build, 1 to 1024; see [`TableBuilder::attempts`].
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.table = self.table.attempts(attempts);
        self
    }

    /// The type of the keys; see [`TableBuilder::key_type`].
    pub fn key_type(mut self, key_type: KeyType) -> Self {
        self.table = self.table.key_type(key_type);
        self
    }

    /// The type of the values; see [`TableBuilder::value_type`].
    pub fn value_type(mut self, value_type: ValueType) -> Self {
        self.table = self.table.value_type(value_type);
        self
    }

    /// Builds a table of `keys[i]` with `values[i]`; the shards are assigned to the devices in turn.
    ///
    /// Cost: the columns are partitioned, then each shard is built; different devices build at the same time. Devices
    /// with separate memory partition the columns themselves and exchange the partitions through pinned memory.
    /// Instead, the host partitions them, which needs the size of the columns in its memory once more, if a device uses
    /// host memory, if there are few rows, if the rows do not fit three times into a device's memory, or if there are
    /// more than 256 shards.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`] if there are no devices or the number of shards is invalid; otherwise as
    /// [`TableBuilder::build`], with the numbers of one shard. If duplicate keys are the only error, the smallest
    /// duplicate key is reported, whatever the number of shards.
    pub fn build<B: Runs<S>>(&self, devices: &[B], keys: &[S::Key], values: &[S::Value]) -> Result<Sharded<B, S>> {
        let which = self.which()?;
        let (builder, devices) = (self.of_shard(), some(devices)?);
        let bytes = size_of::<S::Key>() + size_of::<S::Value>();
        let exchanged = exchange::use_device_exchange(&which, devices, keys.len(), bytes, || {
            Exchange::of(&which, devices, keys, values)?
                .built(&which, &|device, keys, values| builder.build_on(device, &keys, &values))
        })?;
        let tables = match exchanged {
            Some(tables) => tables,
            None => built(devices, columns_of(&which, keys, values)?, &|device, Columns { keys, values }| {
                builder.build(device, &keys, &values)
            })?,
        };
        Ok(Sharded { which, devices: devices.len(), tables })
    }

    /// Builds a table of columns that are already partitioned: `columns` returns the columns of a shard when that shard
    /// is built. Use it for rows that are stored by shard, for example in one file each, or that are generated: memory
    /// holds the columns of at most one shard per device. [`shard_of`](Self::shard_of) returns the shard of a key. A
    /// column is a `Vec`, a slice or a `PinnedVec`; pinned memory is transferred to a device at the rate of its bus.
    ///
    /// ```
    /// use koel::{Bucketized, Cpu, Sharded};
    /// let builder = Sharded::builder(Bucketized::canonical(8), 4);
    /// let shard_of = builder.shard_of()?;
    /// let table = builder.build_partitioned(&[Cpu::new()], |shard| {
    ///     let pairs = (0..1000).filter(|&key| shard_of(key) == shard).map(|key| (key, 2 * key));
    ///     Ok(pairs.unzip::<_, _, Vec<_>, Vec<_>>())
    /// })?;
    /// assert_eq!((table.len(), table.get(&[7])?), (1000, vec![Some(14)]));
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`build`](Self::build), and those of `columns`; [`Error::InvalidParameter`] for a key that belongs to another
    /// shard.
    pub fn build_partitioned<B, Keys, Values>(
        &self,
        devices: &[B],
        columns: impl Fn(usize) -> Result<(Keys, Values)> + Sync,
    ) -> Result<Sharded<B, S>>
    where
        B: Runs<S>,
        Keys: Deref<Target = [S::Key]>,
        Values: Deref<Target = [S::Value]>,
    {
        let which = self.which()?;
        let (builder, devices) = (self.of_shard(), some(devices)?);
        let tables = map_shards(devices.len(), which.shards, &|shard| {
            let (device, (keys, values)) = (&devices[shard % devices.len()], columns(shard)?);
            Error::check_length("values", values.len(), keys.len())?;
            if !device.shares_memory() {
                let there = device.upload(&keys)?;
                if exchange::are_all_of(device, &which, &there, shard)? {
                    return builder.build_on(device, &there, &device.upload(&values)?);
                }
            }
            threads::ready()?;
            let first_mismatch = |_, keys: &[S::Key]| keys.iter().copied().find(|&key| which.of(key) != shard);
            let mismatched = fold(&keys[..], KEYS_AT_ONCE, first_mismatch, Option::or);
            if let Some(key) = mismatched {
                let advice = "`shard_of` returns the shard of a key";
                return Err(Error::parameter("a key of another shard", key, advice));
            }
            builder.build(device, &keys, &values)
        })?;
        Ok(Sharded { which, devices: devices.len(), tables })
    }

    /// Returns the function that maps a key to the number of its shard.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`] if the number of shards is invalid.
    pub fn shard_of(&self) -> Result<impl Fn(S::Key) -> usize + Copy + Send + Sync + use<S>> {
        let which = ShardOf::new(self.shards, self.table.seed)?;
        Ok(move |key| which.of(key))
    }

    /// The digest of a table whose shards have these digests, in the order of the shards.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`] if the number of digests is not the number of shards; otherwise as
    /// [`shard_of`](Self::shard_of).
    pub fn digest_of(&self, shards: &[Digest]) -> Result<Digest> {
        let which = ShardOf::new(self.shards, self.table.seed)?;
        Error::check_length("digests", shards.len(), self.shards)?;
        Ok(digest_of(&which, shards))
    }

    /// Returns the assignment of keys to shards, after checking the parameters of the tables.
    pub(super) fn which(&self) -> Result<ShardOf> {
        let which = ShardOf::new(self.shards, self.table.seed)?;
        self.of_shard().check()?;
        Ok(which)
    }

    /// The builder of one shard; the number of shards must have been checked.
    pub(super) fn of_shard(&self) -> TableBuilder<S> {
        match self.fixed {
            Some(Fixed::Pairs(pairs)) => self.table.clone().capacity(share(pairs as u64, self.shards) as usize),
            Some(Fixed::Slots(slots)) => self.table.clone().slots(slots.div_ceil(self.shards)),
            None => self.table.clone(),
        }
    }

    /// Estimates the memory that a table of `pairs` takes on the device with the most shards, of `devices` devices; see
    /// [`TableBuilder::memory_estimate`]. Each shard is assumed to hold six standard deviations more than its share, so
    /// the figures are upper bounds. Memory for the exchange between devices is not counted, because the host
    /// partitions the columns if a device lacks it. During an insert, the new image of every changed shard is kept
    /// until all shards are done.
    ///
    /// ```
    /// use koel::{Bucketized, Sharded};
    /// let builder = Sharded::builder(Bucketized::canonical(8), 16);
    /// let (one, four) = (builder.memory_estimate(16_000_000, 1)?, builder.memory_estimate(16_000_000, 4)?);
    /// assert_eq!(one.image, 4 * four.image);
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`build`](Self::build), if no such table can exist.
    pub fn memory_estimate(&self, pairs: u64, devices: usize) -> Result<MemoryEstimate> {
        ShardOf::new(self.shards, self.table.seed)?;
        if devices == 0 {
            return Err(no_device());
        }
        let (builder, pairs) = (self.of_shard(), share(pairs, self.shards));
        let shard = builder.memory_estimate(pairs)?;
        // If no shard with twice the pairs can exist, such a batch is refused before it uses memory.
        let changed = match builder.memory_estimate(pairs.saturating_mul(2)) {
            Ok(twice) => twice.image,
            Err(Error::TooLarge { .. }) => shard.image,
            Err(error) => return Err(error),
        };
        let others = (self.shards.div_ceil(devices) - 1) as u64;
        let beside = |bytes: u64, each: u64| each.saturating_mul(others).saturating_add(bytes);
        Ok(MemoryEstimate {
            image: beside(shard.image, shard.image),
            build: beside(shard.build, shard.image),
            build_with_duplicates: beside(shard.build_with_duplicates, shard.image),
            insert: beside(shard.insert, shard.image.saturating_add(changed)),
        })
    }
}

/// Calls `build` with the columns of each shard and its device; shard i is built on device i mod the number of devices.
pub(super) fn built<B: Sync, C: Send, T: Send>(
    devices: &[B],
    columns: Vec<C>,
    build: &(dyn Fn(&B, C) -> Result<T> + Sync),
) -> Result<Vec<T>> {
    on_devices(devices.len(), columns, &|shard, columns| build(&devices[shard % devices.len()], columns))
}

/// Returns an error if there are no devices.
pub(super) fn some<B>(devices: &[B]) -> Result<&[B]> {
    match devices {
        [] => Err(no_device()),
        devices => Ok(devices),
    }
}

fn no_device() -> Error {
    Error::parameter("the number of devices", 0, "use one or more")
}

/// The capacity of each shard of a table for `pairs` pairs.
fn share(pairs: u64, shards: usize) -> u64 {
    let mean = pairs.div_ceil(shards as u64);
    mean.saturating_add(6 * (mean.isqrt() + 1)).min(pairs)
}
