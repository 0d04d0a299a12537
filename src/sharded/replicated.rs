//! The same table on every device: each device looks up a part of the queries.
//!
//! A replicated table is read-only. To change it, change the table that it was copied from, and copy it again.

use super::builder::some;
use super::devices::{map_shards, on_devices};
use super::reading::options;
use crate::backend::{HashBackend, Runs, bitmap_words};
use crate::error::{Error, Result};
use crate::memory;
use crate::scheme::{Cuckoo, Scheme};
use crate::table::{Digest, HashTable};

/// A table that is stored on each of several devices, which look up equal parts of the queries. If transfers are the
/// bottleneck, two devices answer twice as many queries.
///
/// ```
/// use koel::{Bucketized, Cpu, HashTable, Replicated};
/// let table = HashTable::builder(Bucketized::canonical(8)).build(&Cpu::new(), &[5, 6], &[50, 60])?;
/// let both = Replicated::of(&table, &[Cpu::with_threads(1)?, Cpu::with_threads(1)?])?;
/// assert_eq!(both.get(&[6, 7, 5])?, [Some(60), None, Some(50)]);
/// # Ok::<(), koel::Error>(())
/// ```
pub struct Replicated<B: HashBackend, S: Scheme = Cuckoo> {
    tables: Vec<HashTable<B, S>>,
}

impl<B: Runs<S>, S: Scheme> Replicated<B, S> {
    /// Copies a table to each of these devices.
    ///
    /// Cost: its image on every device. The image of a table on the CPU is uploaded directly; other images are copied
    /// through host memory.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`] if there are no devices; [`Error::OutOfMemory`] or what a device reports.
    pub fn of<C: Runs<S>>(table: &HashTable<C, S>, devices: &[B]) -> Result<Self> {
        let devices = some(devices)?;
        let tables = map_shards(devices.len(), devices.len(), &|device| table.to_backend(&devices[device]))?;
        Ok(Replicated { tables })
    }

    /// The table on each device.
    pub fn replicas(&self) -> &[HashTable<B, S>] {
        &self.tables
    }

    /// The digest of the table.
    ///
    /// # Errors
    /// What the first device reports.
    pub fn digest(&self) -> Result<Digest> {
        self.tables[0].digest()
    }

    /// Returns the value of each query, in the order of the queries.
    ///
    /// Cost: as [`HashTable::get`], on all devices at the same time.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] or what a device reports.
    pub fn get(&self, queries: &[S::Key]) -> Result<Vec<Option<S::Value>>> {
        let (mut values, mut found) = (memory::zeroed(queries.len())?, memory::zeroed(bitmap_words(queries.len()))?);
        self.get_into(queries, &mut values, &mut found)?;
        options(&values, &found)
    }

    /// As [`get`](Self::get), but writes to slices; see [`HashTable::get_into`].
    ///
    /// # Errors
    /// [`Error::LengthMismatch`] unless `values` is as long as `queries` and `found` has one bit for each, rounded up
    /// to whole words; otherwise as [`get`](Self::get).
    pub fn get_into(&self, queries: &[S::Key], values: &mut [S::Value], found: &mut [u32]) -> Result<()> {
        Error::check_length("values", values.len(), queries.len())?;
        Error::check_length("found", found.len(), bitmap_words(queries.len()))?;
        let share = self.share(queries.len());
        let columns = values.chunks_mut(share).zip(found.chunks_mut(share / 32));
        let items: Vec<_> = queries.chunks(share).zip(columns).collect();
        on_devices(self.tables.len(), items, &|device, (queries, (values, found))| {
            self.tables[device].get_into(queries, values, found)
        })?;
        Ok(())
    }

    /// Returns whether each query is in the table, in the order of the queries; cost and errors as [`get`](Self::get).
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn contains(&self, queries: &[S::Key]) -> Result<Vec<bool>> {
        let items = queries.chunks(self.share(queries.len())).collect();
        let parts = on_devices(self.tables.len(), items, &|device, queries| self.tables[device].contains(queries))?;
        let mut all = memory::reserved(queries.len())?;
        parts.into_iter().for_each(|part| all.extend(part));
        Ok(all)
    }

    /// The number of queries of each device, a multiple of 32.
    fn share(&self, queries: usize) -> usize {
        queries.div_ceil(self.tables.len()).next_multiple_of(32).max(32)
    }
}
