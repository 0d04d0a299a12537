//! Changes of all shards or of none: each new table is built next to the old one, and replaces it after all succeeded.

use super::super::builder::{Columns, columns_of, keys_of};
use super::super::devices::on_devices;
use super::ShardedMulti;
use crate::backend::Runs;
use crate::error::Result;
use crate::multi::MultiTable;
use crate::scheme::{Scheme, Value};

impl<B: Runs<S>, S: Scheme<Value = u32>, V: Value> ShardedMulti<B, S, V> {
    /// Adds pairs. New values of an existing key are appended to its values; see [`MultiTable::insert`]. On an error
    /// the table is unchanged.
    ///
    /// Cost: a build of each shard that gets pairs; different devices build at the same time. Memory: a second table of
    /// each such shard, until all shards are done.
    ///
    /// # Errors
    /// As [`MultiTable::insert`] of one shard.
    pub fn insert(&mut self, keys: &[S::Key], values: &[V]) -> Result<()> {
        let columns = columns_of(&self.which, keys, values)?;
        self.changed_by(columns, &|table, Columns { keys, values }| {
            let backend = table.backend();
            table.inserting_on(&backend.upload(&keys)?, &backend.upload(&values)?)
        })
    }

    /// Removes all values of these keys, and returns the number of removed values; see [`MultiTable::remove`]. On an
    /// error the table is unchanged. Cost as [`insert`](Self::insert).
    ///
    /// # Errors
    /// As [`MultiTable::remove`] of one shard.
    pub fn remove(&mut self, keys: &[S::Key]) -> Result<usize> {
        let (keys, before) = (keys_of(&self.which, keys)?, self.len());
        self.changed_by(keys, &|table, keys: Vec<S::Key>| table.removing_on(&table.backend().upload(&keys)?))?;
        Ok(before - self.len())
    }

    fn changed_by<C: Send>(
        &mut self,
        columns: Vec<C>,
        change: &(dyn Fn(&MultiTable<B, S, V>, C) -> Result<Option<MultiTable<B, S, V>>> + Sync),
    ) -> Result<()> {
        let changed = on_devices(self.devices, columns, &|shard, columns| change(&self.tables[shard], columns))?;
        changed.iter().flatten().try_for_each(|table| table.backend().finish())?;
        for (table, changed) in self.tables.iter_mut().zip(changed) {
            if let Some(changed) = changed {
                *table = changed;
            }
        }
        Ok(())
    }
}
