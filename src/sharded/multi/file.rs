//! Digest, audit, statistics, and one file for all shards, in which each shard is stored as the file of a
//! [`MultiTable`].

use std::path::Path;

use super::super::file::{Writing, all_shards, digest_of};
use super::super::reading::has_own_keys;
use super::ShardedMulti;
use crate::backend::Runs;
use crate::error::Result;
use crate::file::{Section, write_whole};
use crate::multi::MultiTable;
use crate::scheme::{Audit, Scheme, Value};
use crate::table::{Digest, Stats};

impl<B: Runs<S>, S: Scheme<Value = u32>, V: Value> ShardedMulti<B, S, V> {
    /// The digest: if the table is canonical, it depends only on the pairs, the parameters, the seed and the number of
    /// shards. It depends on the order of the values of each key, but not on the order of the keys.
    ///
    /// Cost: the whole table is copied to the host and hashed.
    ///
    /// # Errors
    /// What a device reports.
    pub fn digest(&self) -> Result<Digest> {
        Ok(digest_of(&self.which, &self.of_each(&|_, table| table.digest())?))
    }

    /// Checks every invariant of every shard, and that each key is in its shard.
    ///
    /// # Errors
    /// [`Error::Damaged`](crate::Error::Damaged) with the first violation in the order of shards, or what a device
    /// reports.
    pub fn audit(&self) -> Result<Audit> {
        let audits = self.of_each(&|shard, table| {
            let audit = table.audit()?;
            has_own_keys(&self.which, shard, table.table())?;
            Ok(audit)
        })?;
        Ok(audits.into_iter().fold(Audit::default(), Audit::join))
    }

    /// Statistics of the tables of the keys; see [`Sharded::stats`](super::super::Sharded::stats).
    ///
    /// # Errors
    /// What a device reports.
    pub fn stats(&self) -> Result<Stats> {
        Ok(Stats::of_shards(&self.of_each(&|_, table| table.stats())?))
    }

    /// Writes all shards to one file, which any number and kind of devices can open; returns the
    /// [`digest`](Self::digest). An existing file is replaced after everything is written.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io) or what a device reports.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<Digest> {
        let path = path.as_ref();
        write_whole(path, &mut |file| {
            let mut writing = Writing::begin(file, path, &self.which)?;
            self.tables.iter().try_for_each(|table| writing.shard(&|file, path| table.write_to(file, path)))?;
            writing.end()
        })
    }

    /// Opens a file, checks everything in it, and assigns the shards to these devices in turn.
    ///
    /// # Errors
    /// As [`Sharded::open`](super::super::Sharded::open) and [`MultiTable::open`].
    pub fn open(devices: &[B], path: impl AsRef<Path>) -> Result<Self> {
        let open = |device: &B, part: Section<'_>| MultiTable::open_with_digest(device, part);
        let (which, tables) = all_shards(devices, path.as_ref(), &open, MultiTable::table)?;
        Ok(ShardedMulti { which, devices: devices.len(), tables })
    }
}
