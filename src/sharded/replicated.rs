//! The same table on every device: each answers a part of the queries.
//!
//! What it is not: a table that changes. Change the one that it was made of, and make it again.

use super::builder::some;
use super::devices::{map_shards, on_devices};
use super::reading::options;
use crate::backend::{HashBackend, Runs, bitmap_words};
use crate::error::{Error, Result};
use crate::memory;
use crate::scheme::{Cuckoo, Scheme};
use crate::table::{Digest, HashTable};

/// A table that stands on several devices, which share out queries by rows: where buses decide, two devices answer
/// twice as many.
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
    /// Puts a table on each of these devices.
    ///
    /// Cost: its image on every device; from a table on the CPU it goes there as it lies, from elsewhere by way of this
    /// machine's memory.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`] for no device; [`Error::OutOfMemory`] or what a device reports.
    pub fn of<C: Runs<S>>(table: &HashTable<C, S>, devices: &[B]) -> Result<Self> {
        let devices = some(devices)?;
        let tables = map_shards(devices.len(), devices.len(), &|device| table.to_backend(&devices[device]))?;
        Ok(Replicated { tables })
    }

    /// The table as it stands on each device.
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

    /// The value of each query, in their order.
    ///
    /// Cost: as [`HashTable::get`], of all devices at the same time.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] or what a device reports.
    pub fn get(&self, queries: &[S::Key]) -> Result<Vec<Option<S::Value>>> {
        let (mut values, mut found) = (memory::zeroed(queries.len())?, memory::zeroed(bitmap_words(queries.len()))?);
        self.get_into(queries, &mut values, &mut found)?;
        options(&values, &found)
    }

    /// [`get`](Self::get) into slices of the caller; see [`HashTable::get_into`].
    ///
    /// # Errors
    /// [`Error::LengthMismatch`] unless `values` is as long as `queries` and `found` has one bit for each, rounded up to
    /// whole words; otherwise as [`get`](Self::get).
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

    /// Whether each query is there, in their order; cost and errors as [`get`](Self::get).
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

    /// Queries of a device, of so many: whole words of a bitmap.
    fn share(&self, queries: usize) -> usize {
        queries.div_ceil(self.tables.len()).next_multiple_of(32).max(32)
    }
}
