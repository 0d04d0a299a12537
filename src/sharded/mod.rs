//! One hash table over several devices: shards, each a table of its own; and joins and groups over several devices.
//!
//! ```text
//! deal.rs       rows by shard, and answers back in the order of rows
//! exchange.rs   rows by shard on the devices: each brings the rows of its shards from the others
//! asking.rs     queries by shard on the devices, and answers back
//! devices.rs    work on all devices at a time
//! builder.rs    parameters, builds
//! reading.rs    get, contains, pairs, digest, audit, stats
//! change.rs     insert, upsert, remove, compact, rebuild: of all shards or of none
//! file.rs       one file for all shards
//! resting.rs    lookups in a file whose shards do not fit in memory together
//! host.rs       lookups by devices whose memory they do not fit in
//! spilled.rs    builds of more rows than memory holds, into a file
//! replicated.rs the other way to use several devices: the same table on each
//!
//! set.rs        sets: tables in shards whose values say nothing
//! multi/        multivalue tables
//! join.rs       indices of right columns, which are multivalue tables of row numbers, and joins
//! join_by_left_rows.rs   joins where each device has an index of all right rows
//! group.rs      distinct keys, ids and aggregates of columns: by one device, or in pieces by key
//! ```
//!
//! ```text
//! digest = BLAKE3( "koelshrd" | version | P | seed | the digest of each shard )
//! ```
//!
//! P, the number of shards, is a parameter of the table. Where the shards lie is not: the same 16 shards are on one GPU, on
//! two, or half of them on the CPU, and have one digest, one file and the answers of one table. Each placement is a type, as
//! it has its own costs: [`Sharded`] (on devices in turn), [`Replicated`] (all on each), [`ShardedHost`] (in this machine's
//! memory), [`ShardedFile`] (in a file). As of any table, digests are so of canonical ones that are not worn.
//!
//! What it is not: a backend. A pass over a table's image means one device's memory; here each shard has its own.

mod asking;
mod builder;
mod change;
mod deal;
mod devices;
mod exchange;
mod file;
pub mod group;
mod host;
mod join;
mod join_by_left_rows;
mod multi;
mod reading;
mod replicated;
mod resting;
mod set;
mod spilled;
#[cfg(test)]
mod tests;

pub use builder::ShardedBuilder;
pub use host::ShardedHost;
pub use join::{NO_ROW, ShardedIndex, ShardedIndexBuilder, WideJoinRows, join};
pub use multi::{ShardedMulti, ShardedMultiBuilder};
pub use replicated::Replicated;
pub use resting::ShardedFile;
pub use set::{ShardedSet, ShardedSetBuilder};
pub use spilled::SpilledBuild;

use std::fmt;

use crate::backend::{HashBackend, Runs};
use crate::cpu::Cpu;
use crate::file::MOST_SHARDS;
use crate::scheme::shard::ShardOf;
use crate::scheme::{Cuckoo, Scheme};
use crate::table::{HashTable, KeyType, ValueType};

/// Rows of a piece of a column that is not to be a table: few enough for a device, and for numbers of 32 bits.
const ROWS_OF_A_PIECE: usize = if cfg!(test) { 1 << 12 } else { 1 << 27 };

/// How many pieces so many rows are dealt to that so many devices work on: as many of each.
fn pieces_of(devices: usize, rows: usize) -> usize {
    let devices = devices.clamp(1, MOST_SHARDS);
    let of_each = rows.div_ceil(devices.saturating_mul(ROWS_OF_A_PIECE)).max(1);
    devices * of_each.min(MOST_SHARDS / devices)
}

/// A hash table in shards, on one device or several; made by [`Sharded::builder`].
///
/// Devices are of one type. [`Any`](crate::Any) is any of them, so CPUs and GPUs can hold one table.
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
    /// How many devices there are: shard i is on device i mod that.
    devices: usize,
    tables: Vec<HashTable<B, S>>,
}

/// Written for one backend so that `Sharded::builder(..)` needs no type; it builds on any.
impl<S: Scheme> Sharded<Cpu, S> {
    /// Starts a table of so many shards, 1 to 4096; see [`ShardedBuilder`]. Twice as many as devices, or more, let another
    /// number of devices share them evenly.
    pub fn builder(scheme: S, shards: usize) -> ShardedBuilder<S> {
        ShardedBuilder::new(scheme, shards)
    }
}

impl<B: Runs<S>, S: Scheme> Sharded<B, S> {
    /// The number of pairs.
    pub fn len(&self) -> usize {
        self.tables.iter().map(HashTable::len).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The shards, as tables of their own. Shard i is on device i mod the number of devices.
    pub fn shards(&self) -> &[HashTable<B, S>] {
        &self.tables
    }

    /// The number of the shard that a key is in, or would be.
    pub fn shard_of(&self, key: S::Key) -> usize {
        self.which.of(key)
    }

    /// Builds of shards that were started again, all together; see [`HashTable::restarts`].
    pub fn restarts(&self) -> u32 {
        self.tables.iter().map(HashTable::restarts).sum()
    }

    /// The parameters.
    pub fn scheme(&self) -> &S {
        self.tables[0].scheme()
    }

    /// What the keys stand for.
    pub fn key_type(&self) -> KeyType {
        self.tables[0].key_type()
    }

    /// What the values stand for.
    pub fn value_type(&self) -> ValueType {
        self.tables[0].value_type()
    }

    /// Pairs per slot of all shards, from 0 to 1.
    pub fn load_factor(&self) -> f64 {
        (self.len() as f64 / self.slots() as f64).min(1.0)
    }

    /// Slots of all shards.
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
