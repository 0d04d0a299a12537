//! Builds: columns of the host are dealt, and each device builds the tables of its shards.

use std::ops::Deref;

use super::Sharded;
use super::deal::{Dealt, MOST_ROWS};
use super::devices::{map_shards, on_devices};
use super::exchange::{self, Exchange};
use super::file::digest_of;
use crate::backend::{Runs, Word};
use crate::error::{Error, Result};
use crate::memory;
use crate::parallel::fold;
use crate::scheme::shard::ShardOf;
use crate::scheme::{Key, Scheme};
use crate::table::{Digest, Duplicates, HashTable, KeyType, MemoryEstimate, TableBuilder, ValueType, random_seed};
use crate::threads;

/// Builds tables in shards; made by [`Sharded::builder`].
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

/// A size of all shards that batches do not change.
#[derive(Clone, Copy, Debug)]
enum Fixed {
    Pairs(usize),
    Slots(usize),
}

/// Keys that a thread looks at at a time.
const KEYS_AT_ONCE: usize = 1 << 14;

/// A shard's columns.
pub(super) struct Columns<K, V> {
    pub(super) keys: Vec<K>,
    pub(super) values: Vec<V>,
}

/// The columns of each shard, pairs in their order.
pub(super) fn columns_of<K: Key, V: Word>(which: &ShardOf, keys: &[K], values: &[V]) -> Result<Vec<Columns<K, V>>> {
    Error::check_length("values", values.len(), keys.len())?;
    let room = room_of(which, keys.len());
    let empty = |_| Ok(Columns { keys: memory::reserved(room)?, values: memory::reserved(room)? });
    let mut shards = (0..which.shards).map(empty).collect::<Result<Vec<Columns<K, V>>>>()?;
    for (keys, values) in keys.chunks(MOST_ROWS).zip(values.chunks(MOST_ROWS)) {
        let dealt = Dealt::of(which, keys)?;
        for (shard, columns) in shards.iter_mut().enumerate() {
            dealt.append(shard, keys, &mut columns.keys)?;
            dealt.append(shard, values, &mut columns.values)?;
        }
    }
    Ok(shards)
}

/// The room for a shard's part of so many rows: about as many as will come, so that columns need not move when they grow.
pub(super) fn room_of(which: &ShardOf, rows: usize) -> usize {
    if rows > MOST_ROWS { share(rows as u64, which.shards) as usize } else { 0 }
}

/// The keys of each shard, in their order.
pub(super) fn keys_of<K: Key>(which: &ShardOf, keys: &[K]) -> Result<Vec<Vec<K>>> {
    let room = room_of(which, keys.len());
    let mut shards = (0..which.shards).map(|_| memory::reserved(room)).collect::<Result<Vec<Vec<K>>>>()?;
    for keys in keys.chunks(MOST_ROWS) {
        let dealt = Dealt::of(which, keys)?;
        shards.iter_mut().enumerate().try_for_each(|(shard, mine)| dealt.append(shard, keys, mine))?;
    }
    Ok(shards)
}

impl<S: Scheme> ShardedBuilder<S> {
    pub(super) fn new(scheme: S, shards: usize) -> Self {
        ShardedBuilder::of(HashTable::builder(scheme), shards)
    }

    /// A builder of tables in shards with the parameters of tables.
    pub(super) fn of(table: TableBuilder<S>, shards: usize) -> Self {
        ShardedBuilder { table, shards, fixed: None }
    }

    /// Pairs per slot of each shard, above 0 and up to 1; see [`TableBuilder::load_factor`].
    pub fn load_factor(mut self, load: f64) -> Self {
        self.table = self.table.load_factor(load);
        self
    }

    /// So many pairs fit, for good. Pairs come to shards by chance, so each has room for six standard deviations more than
    /// its share; keys that somebody has chosen for one shard, knowing the seed, need [`seed_at_random`](Self::seed_at_random).
    pub fn capacity(mut self, pairs: usize) -> Self {
        self.fixed = Some(Fixed::Pairs(pairs));
        self
    }

    /// So many slots, for good, shared out evenly and rounded up; see [`TableBuilder::slots`].
    pub fn slots(mut self, slots: usize) -> Self {
        self.fixed = Some(Fixed::Slots(slots));
        self
    }

    /// The seed of all constants, those of shards too; see [`TableBuilder::seed`].
    pub fn seed(mut self, seed: u64) -> Self {
        self.table = self.table.seed(seed);
        self
    }

    /// A seed from the system's source of randomness, for keys that strangers choose. Builds of any keys end without it, as
    /// those of [`TableBuilder`] do; but who knows the seed can choose keys that all come to one shard, and so to one device.
    ///
    /// # Errors
    /// [`Error::NoRandomness`] if the system has none to give.
    pub fn seed_at_random(self) -> Result<Self> {
        Ok(self.seed(random_seed()?))
    }

    /// What is done with keys that come more than once; see [`TableBuilder::duplicates`].
    pub fn duplicates(mut self, rule: Duplicates) -> Self {
        self.table = self.table.duplicates(rule);
        self
    }

    /// The most attempts of a shard's build, 1 to 1024; see [`TableBuilder::attempts`].
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.table = self.table.attempts(attempts);
        self
    }

    /// What the keys stand for; see [`TableBuilder::key_type`].
    pub fn key_type(mut self, key_type: KeyType) -> Self {
        self.table = self.table.key_type(key_type);
        self
    }

    /// What the values stand for; see [`TableBuilder::value_type`].
    pub fn value_type(mut self, value_type: ValueType) -> Self {
        self.table = self.table.value_type(value_type);
        self
    }

    /// Builds a table of `keys[i]` with `values[i]`, its shards on these devices in turn.
    ///
    /// Cost: the columns are dealt, then as many builds as shards are made, those of different devices at the same time.
    /// Devices with memory of their own deal columns among themselves, by way of pinned memory. The threads of this machine do
    /// it, which takes the columns' size in its memory once more, where a device works in that memory, where rows are few or do
    /// not fit on a device three times, and where there are more than 256 shards.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`] for no device, or a number of shards that cannot be; otherwise as
    /// [`TableBuilder::build`], and the numbers in them are those of one shard. If all that is wrong is that keys come more
    /// than once, the least of them is told, whatever the shards.
    pub fn build<B: Runs<S>>(&self, devices: &[B], keys: &[S::Key], values: &[S::Value]) -> Result<Sharded<B, S>> {
        let which = self.which()?;
        let (builder, devices) = (self.of_shard(), some(devices)?);
        let bytes = size_of::<S::Key>() + size_of::<S::Value>();
        let exchanged = exchange::if_the_way(&which, devices, keys.len(), bytes, || {
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

    /// Builds a table of columns that are dealt already: `columns` gives those of each shard, when it is that shard's turn.
    /// For rows that come by shard, as files of theirs, or that are made on the way; so no more need be in memory than the
    /// columns of as many shards as there are devices. [`shard_of`](Self::shard_of) tells where a key belongs. A column is a
    /// `Vec`, a slice or a `PinnedVec`; pinned memory goes to a device at the rate of its bus.
    ///
    /// ```
    /// use koel::{Bucketized, Cpu, Sharded};
    /// let builder = Sharded::builder(Bucketized::canonical(8), 4);
    /// let shard_of = builder.shard_of()?;
    /// let table = builder.build_dealt(&[Cpu::new()], |shard| {
    ///     let pairs = (0..1000).filter(|&key| shard_of(key) == shard).map(|key| (key, 2 * key));
    ///     Ok(pairs.unzip::<_, _, Vec<_>, Vec<_>>())
    /// })?;
    /// assert_eq!((table.len(), table.get(&[7])?), (1000, vec![Some(14)]));
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`build`](Self::build), and those of `columns`; [`Error::InvalidParameter`] for a key of another shard.
    pub fn build_dealt<B, Keys, Values>(
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
            let first_strange = |_, keys: &[S::Key]| keys.iter().copied().find(|&key| which.of(key) != shard);
            let strange = fold(&keys[..], KEYS_AT_ONCE, first_strange, Option::or);
            if let Some(key) = strange {
                let advice = "`shard_of` tells where a key belongs";
                return Err(Error::parameter("a key of another shard", key, advice));
            }
            builder.build(device, &keys, &values)
        })?;
        Ok(Sharded { which, devices: devices.len(), tables })
    }

    /// The function that tells the number of the shard that a key is in.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`] for a number of shards that cannot be.
    pub fn shard_of(&self) -> Result<impl Fn(S::Key) -> usize + Copy + Send + Sync + use<S>> {
        let which = ShardOf::new(self.shards, self.table.seed)?;
        Ok(move |key| which.of(key))
    }

    /// The digest of a table whose shards have these, in their order.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`] for another number of digests than of shards; as [`shard_of`](Self::shard_of).
    pub fn digest_of(&self, shards: &[Digest]) -> Result<Digest> {
        let which = ShardOf::new(self.shards, self.table.seed)?;
        Error::check_length("digests", shards.len(), self.shards)?;
        Ok(digest_of(&which, shards))
    }

    /// Where keys go, of parameters that a table can have.
    pub(super) fn which(&self) -> Result<ShardOf> {
        let which = ShardOf::new(self.shards, self.table.seed)?;
        self.of_shard().check()?;
        Ok(which)
    }

    /// What builds a shard, of a number of them that can be.
    pub(super) fn of_shard(&self) -> TableBuilder<S> {
        match self.fixed {
            Some(Fixed::Pairs(pairs)) => self.table.clone().capacity(share(pairs as u64, self.shards) as usize),
            Some(Fixed::Slots(slots)) => self.table.clone().slots(slots.div_ceil(self.shards)),
            None => self.table.clone(),
        }
    }

    /// The memory that a table of `pairs` takes on that of so many devices which holds most of it, before it is built; see
    /// [`TableBuilder::memory_estimate`]. Each shard is taken to hold six standard deviations more than its share, so the
    /// figures are upper bounds; what devices take to deal columns among themselves is not counted, for without room for it this
    /// machine does it. Of a batch, what was made for the shards before stays until all are done.
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
    /// As [`build`](Self::build), where no such table can exist.
    pub fn memory_estimate(&self, pairs: u64, devices: usize) -> Result<MemoryEstimate> {
        ShardOf::new(self.shards, self.table.seed)?;
        if devices == 0 {
            return Err(no_device());
        }
        let (builder, pairs) = (self.of_shard(), share(pairs, self.shards));
        let shard = builder.memory_estimate(pairs)?;
        // Where no shard of twice the pairs can exist, such a batch is refused before it takes memory.
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
            build_with_copies: beside(shard.build_with_copies, shard.image),
            insert: beside(shard.insert, shard.image.saturating_add(changed)),
        })
    }
}

/// Calls `build` with the columns of each shard and its device; shard i is built on device i mod their number.
pub(super) fn built<B: Sync, C: Send, T: Send>(
    devices: &[B],
    columns: Vec<C>,
    build: &(dyn Fn(&B, C) -> Result<T> + Sync),
) -> Result<Vec<T>> {
    on_devices(devices.len(), columns, &|shard, columns| build(&devices[shard % devices.len()], columns))
}

/// Refuses no device.
pub(super) fn some<B>(devices: &[B]) -> Result<&[B]> {
    match devices {
        [] => Err(no_device()),
        devices => Ok(devices),
    }
}

fn no_device() -> Error {
    Error::parameter("the number of devices", 0, "give one or more")
}

/// The pairs that a shard has room for, of a table for so many.
fn share(pairs: u64, shards: usize) -> u64 {
    let mean = pairs.div_ceil(shards as u64);
    mean.saturating_add(6 * (mean.isqrt() + 1)).min(pairs)
}
