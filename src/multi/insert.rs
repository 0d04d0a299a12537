//! Inserting pairs. New values of a key follow its existing values.
//!
//! ```text
//! keys    = the keys of all pairs, in the order of the values     (for each value, the number of runs that have begun)
//! grouped = sort_pairs(keys ++ new keys, values ++ new values)    stable, so existing values precede new values
//! ```
//!
//! The result has the same bytes as a single build of all pairs in the order in which they were inserted.

use super::MultiTable;
use super::builder::{Grouped, MultiBuilder};
use crate::backend::{DeviceBuffer, Runs};
use crate::error::{Error, Result};
use crate::scheme::{Scheme, Value};

impl<B: Runs<S>, S: Scheme<Value = u32>, V: Value> MultiTable<B, S, V> {
    /// Adds pairs. New values of an existing key follow its existing values.
    ///
    /// Cost: a build of all pairs ([`MultiBuilder::build`](super::MultiBuilder::build)), so small batches should be
    /// combined first. Memory on the device meanwhile: that of the build, and the existing table.
    ///
    /// ```
    /// use koel::{Cpu, Cuckoo, MultiTable};
    /// let (cpu, builder) = (Cpu::new(), MultiTable::builder(Cuckoo::default()));
    /// let mut table = builder.build(&cpu, &[5, 9], &[1, 2])?;
    /// table.insert(&[9, 5, 7], &[3, 4, 5])?;
    /// assert_eq!(table.to_pairs()?, [(5, 1), (5, 4), (7, 5), (9, 2), (9, 3)]);
    /// assert_eq!(table.digest()?, builder.build(&cpu, &[5, 9, 9, 5, 7], &[1, 2, 3, 4, 5])?.digest()?);
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`MultiBuilder::build`](super::MultiBuilder::build). After an error, the table, its contents and its digest
    /// are unchanged.
    pub fn insert(&mut self, keys: &[S::Key], values: &[V]) -> Result<()> {
        Error::check_length("values", values.len(), keys.len())?;
        let (keys, values) = (self.backend().upload(keys)?, self.backend().upload(values)?);
        self.insert_on(&keys, &values)
    }

    /// [`insert`](Self::insert) of pairs in buffers on the table's device; nothing is transferred.
    ///
    /// # Errors
    /// As [`insert`](Self::insert), and [`Error::WrongDevice`].
    pub fn insert_on(&mut self, keys: &B::Buffer<S::Key>, values: &B::Buffer<V>) -> Result<()> {
        Error::check_length("values", values.len(), keys.len())?;
        if let Some(all) = self.inserting_on(keys, values)? {
            self.backend().finish()?;
            *self = all;
        }
        Ok(())
    }

    /// Builds a new table that also contains these pairs; `None` if there are no pairs.
    pub(crate) fn inserting_on(&self, keys: &B::Buffer<S::Key>, values: &B::Buffer<V>) -> Result<Option<Self>> {
        if keys.is_empty() {
            return Ok(None);
        }
        Error::check_rows("pairs of a multivalue table", self.len().saturating_add(keys.len()))?;
        let backend = self.backend();
        let keys = backend.concat(&self.keys_of_values()?, keys)?;
        let values = backend.concat(&self.values, values)?;
        let grouped = Grouped::<B, S::Key, V>::of(backend, &keys, &values)?;
        drop((keys, values));
        MultiBuilder::of(self.table.builder_like()).build_grouped(backend, grouped).map(Some)
    }

    /// The key of each value, in the order of the values.
    fn keys_of_values(&self) -> Result<B::Buffer<S::Key>> {
        let backend = self.backend();
        // The last start is the end of all values: `mark` ignores it.
        let heads = backend.mark(&self.starts, self.pairs)?;
        backend.gather(&self.keys_on()?, &backend.ranks(&heads, self.pairs)?)
    }
}
