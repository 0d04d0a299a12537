//! Lookups on devices in a table whose shards are in host memory, for tables that exceed the devices' memory.
//!
//! A shard is moved to a device, its queries are looked up, and it is dropped, one shard at a time on each device. A
//! call moves every shard that has queries once per batch of queries, so pass as many queries at a time as fit.

use std::fmt;

use super::Sharded;
use super::builder::some;
use super::device_lookup::{Shard, Shards};
use super::devices::on_devices;
use super::host_partition::Partitioned;
use super::host_resident::{Part, answered};
use super::reading::{answer, flags, of_shard, options};
use crate::backend::{Runs, bitmap_words};
use crate::cpu::Cpu;
use crate::error::{Error, Result};
use crate::memory;
use crate::scheme::Scheme;

/// The most queries that a device partitions at a time: many, because shards are moved once per batch.
const QUERIES: usize = if cfg!(test) { 1 << 9 } else { 1 << 26 };

/// A host-resident table in shards whose lookups run on other devices; created by [`Sharded::host_resident`].
pub struct ShardedHost<'a, B: Runs<S>, S: Scheme>
where
    Cpu: Runs<S>,
{
    table: &'a Sharded<Cpu, S>,
    devices: Vec<B>,
}

impl<S: Scheme> Sharded<Cpu, S>
where
    Cpu: Runs<S>,
{
    /// Looks up queries on these devices, while the shards remain in host memory.
    ///
    /// ```
    /// use koel::{Bucketized, Cpu, Sharded, auto};
    /// let (keys, values): (Vec<u32>, Vec<u32>) = (0..1000).map(|i| (7 * i, i)).unzip();
    /// let table = Sharded::builder(Bucketized::canonical(8), 8).build(&[Cpu::new()], &keys, &values)?;
    /// let queried = table.host_resident(&[auto().backend])?;
    /// assert_eq!(queried.get(&[70, 71])?, [Some(10), None]);
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidParameter`] if there are no devices.
    pub fn host_resident<B: Runs<S>>(&self, devices: &[B]) -> Result<ShardedHost<'_, B, S>> {
        Ok(ShardedHost { table: self, devices: some(devices)?.to_vec() })
    }
}

impl<B: Runs<S>, S: Scheme> ShardedHost<'_, B, S>
where
    Cpu: Runs<S>,
{
    /// Returns the value of each query, in the order of the queries.
    ///
    /// Cost: each shard that has queries is copied to a device, at most one at a time to each, once per 2^26 queries of
    /// a device (fewer if that many would need an eighth of its memory). For few queries, these copies are the whole
    /// cost. If the host partitions the queries (see [`Sharded::get`]), each shard is copied once per 2^24 queries.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] or what a device reports.
    pub fn get(&self, queries: &[S::Key]) -> Result<Vec<Option<S::Value>>> {
        let (mut values, mut found) = (memory::zeroed(queries.len())?, memory::zeroed(bitmap_words(queries.len()))?);
        self.get_into(queries, &mut values, &mut found)?;
        options(&values, &found)
    }

    /// As [`get`](Self::get), but writes to slices; see [`Sharded::get_into`].
    ///
    /// # Errors
    /// As [`Sharded::get_into`].
    pub fn get_into(&self, queries: &[S::Key], values: &mut [S::Value], found: &mut [u32]) -> Result<()> {
        Error::check_length("values", values.len(), queries.len())?;
        Error::check_length("found", found.len(), bitmap_words(queries.len()))?;
        match self.answered_by_devices(queries, Some(&mut *values), found)? {
            true => Ok(()),
            false => self.answer(queries, values, found),
        }
    }

    /// Returns whether each query is in the table, in the order of the queries; cost and errors as [`get`](Self::get).
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn contains(&self, queries: &[S::Key]) -> Result<Vec<bool>> {
        let mut found = memory::zeroed(bitmap_words(queries.len()))?;
        if !self.answered_by_devices(queries, None, &mut found)? {
            self.answer(queries, &mut memory::zeroed(queries.len())?, &mut found)?;
        }
        flags(queries.len(), &found)
    }

    /// Answers on the devices if they should partition the queries. Returns whether they did.
    fn answered_by_devices(
        &self,
        queries: &[S::Key],
        values: Option<&mut [S::Value]>,
        found: &mut [u32],
    ) -> Result<bool> {
        let devices = &self.devices[..];
        let table =
            |shard: usize| Ok(Shard::Fetched(self.table.shards()[shard].to_backend(&devices[shard % devices.len()])?));
        Shards { which: &self.table.which, devices, at_once: QUERIES, table: &table }
            .answer_on_devices(queries, values, found)
    }

    /// Answers the queries; the host partitions them.
    fn answer(&self, queries: &[S::Key], values: &mut [S::Value], found: &mut [u32]) -> Result<()> {
        let look_up = |partitioned: &Partitioned, queries: &[S::Key], parts: Vec<Part<'_, S::Value>>| {
            on_devices(self.devices.len(), parts, &|at, (shard, (words, hits)): Part<'_, S::Value>| {
                let table = self.table.shards()[shard].to_backend(&self.devices[at % self.devices.len()])?;
                answer(&table, &of_shard(partitioned, shard, queries)?, words, hits)
            })?;
            Ok(())
        };
        answered(&self.table.which, &look_up, queries, values, found)
    }
}

impl<B: Runs<S>, S: Scheme> fmt::Debug for ShardedHost<'_, B, S>
where
    Cpu: Runs<S>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShardedHost").field("table", &self.table).field("devices", &self.devices.len()).finish()
    }
}
