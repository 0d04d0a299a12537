//! Changes of all shards or of none: each new image is built next to the old one, and replaces it after all succeeded.

use super::Sharded;
use super::builder::{Columns, columns_of, keys_of};
use super::devices::on_devices;
use crate::backend::Runs;
use crate::error::Result;
use crate::scheme::Scheme;
use crate::table::{Change, HashTable, Inserted};

impl<B: Runs<S>, S: Scheme> Sharded<B, S> {
    /// Inserts pairs under the table's rule for duplicates; see [`HashTable::insert`]. On an error the table is
    /// unchanged.
    ///
    /// Cost: that of each shard; different devices work at the same time. Memory: a second image of each shard that
    /// changes, until all shards are done.
    ///
    /// # Errors
    /// As [`HashTable::insert`], with the numbers of one shard. If duplicate keys are the only error, the smallest
    /// duplicate key is reported, whatever the number of shards.
    pub fn insert(&mut self, keys: &[S::Key], values: &[S::Value]) -> Result<Inserted> {
        let columns = columns_of(&self.which, keys, values)?;
        self.changed_by(columns, &|table, Columns { keys, values }| table.inserting(&keys, &values))
    }

    /// Inserts pairs, and overwrites the values of existing keys; see [`HashTable::upsert`]. Cost and errors as
    /// [`insert`](Self::insert).
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub fn upsert(&mut self, keys: &[S::Key], values: &[S::Value]) -> Result<Inserted> {
        let columns = columns_of(&self.which, keys, values)?;
        self.changed_by(columns, &|table, Columns { keys, values }| table.upserting(&keys, &values))
    }

    /// Changes each shard's table by its columns.
    pub(super) fn changed_by<C: Send>(
        &mut self,
        columns: Vec<C>,
        change: &(dyn Fn(&HashTable<B, S>, C) -> Result<Option<Change<B, S>>> + Sync),
    ) -> Result<Inserted> {
        let changes = on_devices(self.devices, columns, &|shard, columns| change(&self.tables[shard], columns))?;
        let mut inserted = Inserted::default();
        for of_shard in changes.iter().flatten().map(Change::inserted) {
            inserted.added += of_shard.added;
            inserted.overwritten += of_shard.overwritten;
            inserted.rebuilt |= of_shard.rebuilt;
        }
        self.take(changes)?;
        Ok(inserted)
    }

    /// Removes keys, and returns the number of keys that were in the table; see [`HashTable::remove`]. On an error the
    /// table is unchanged.
    ///
    /// # Errors
    /// As [`HashTable::remove`].
    pub fn remove(&mut self, keys: &[S::Key]) -> Result<usize> {
        let shards = keys_of(&self.which, keys)?;
        let before = self.len();
        let changes = on_devices(self.devices, shards, &|shard, keys| self.tables[shard].removing(&keys))?;
        self.take(changes)?;
        Ok(before - self.len())
    }

    /// Removes the tombstones of all shards; see [`HashTable::compact`]. On an error the table is unchanged.
    ///
    /// # Errors
    /// As [`HashTable::compact`].
    pub fn compact(&mut self) -> Result<()> {
        let changes = self.of_each(&|_, table| table.compacting())?;
        self.take(changes)
    }

    /// Rebuilds every shard from its pairs; see [`HashTable::rebuild`]. On an error the table is unchanged.
    ///
    /// # Errors
    /// As [`HashTable::rebuild`].
    pub fn rebuild(&mut self) -> Result<()> {
        let changes = self.of_each(&|_, table| table.rebuilding().map(Some))?;
        self.take(changes)
    }

    /// The number of tombstones in all shards; see [`HashTable::tombstones`].
    pub fn tombstones(&self) -> usize {
        self.tables.iter().map(HashTable::tombstones).sum()
    }

    /// Whether a shard has tombstones.
    pub fn has_tombstones(&self) -> bool {
        self.tables.iter().any(HashTable::has_tombstones)
    }

    /// Applies the changes of all shards, after all devices have finished them.
    fn take(&mut self, changes: Vec<Option<Change<B, S>>>) -> Result<()> {
        let changed: Vec<usize> = (0..changes.len()).filter(|&shard| changes[shard].is_some()).collect();
        changed.iter().try_for_each(|&shard| self.tables[shard].backend().finish())?;
        for (table, change) in self.tables.iter_mut().zip(changes) {
            if let Some(change) = change {
                table.take(change);
            }
        }
        Ok(())
    }
}
