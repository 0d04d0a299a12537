//! Removes keys with all their values.
//!
//! ```text
//! gone    = mark(lookup(keys))              numbers of runs
//! kept    = the other numbers, ascending
//! listing = the kept runs, concatenated: the run of each element, and its old position
//! values  = gather(values, old positions)
//! starts  = where the run changes in the listing, then the number of pairs
//! table   = the kept keys, with new numbers
//! ```
//!
//! The remaining runs get new numbers, so the table is rebuilt. Its size (and, in canonical tables, its bytes) are
//! those of a build of the remaining pairs. The pairs are not sorted again, because a part of a sorted column is
//! sorted.

use super::MultiTable;
use super::builder::{Grouped, MultiBuilder};
use crate::backend::{DeviceBuffer, Runs, Spans, bitmap_words};
use crate::error::Result;
use crate::scheme::{Scheme, Value};

impl<B: Runs<S>, S: Scheme<Value = u32>, V: Value> MultiTable<B, S, V> {
    /// Removes all values of these keys, and returns the number of removed values. Absent and duplicate keys are
    /// ignored. The remaining values keep their order, and the table equals one built from the remaining pairs.
    ///
    /// Cost: a lookup per key, a pass over the remaining values, and a build of the remaining keys. Memory on the
    /// device meanwhile: a second table, and 12 bytes per remaining pair.
    ///
    /// ```
    /// use koel::{Cpu, Cuckoo, MultiTable};
    /// let cpu = Cpu::new();
    /// let mut table = MultiTable::builder(Cuckoo::default()).build(&cpu, &[5, 9, 5], &[1, 2, 3])?;
    /// assert_eq!(table.remove(&[5, 7, 5])?, 2);
    /// let rest = MultiTable::builder(Cuckoo::default()).build(&cpu, &[9], &[2])?;
    /// assert_eq!(table.digest()?, rest.digest()?);
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// # Errors
    /// As a build. After an error, the table, its contents and its digest are unchanged.
    pub fn remove(&mut self, keys: &[S::Key]) -> Result<usize> {
        let keys = self.backend().upload(keys)?;
        self.remove_on(&keys)
    }

    /// [`remove`](Self::remove) of keys in a buffer on the table's device; nothing is transferred.
    ///
    /// # Errors
    /// As [`remove`](Self::remove), and [`crate::Error::WrongDevice`].
    pub fn remove_on(&mut self, keys: &B::Buffer<S::Key>) -> Result<usize> {
        let Some(rest) = self.removing_on(keys)? else { return Ok(0) };
        self.backend().finish()?;
        let before = self.len();
        *self = rest;
        Ok(before.saturating_sub(self.len()))
    }

    /// Builds a new table without these keys; `None` if the table contains none of them.
    pub(crate) fn removing_on(&self, keys: &B::Buffer<S::Key>) -> Result<Option<Self>> {
        let backend = self.backend();
        let gone = self.runs_of(keys)?;
        let unique = self.keys_on()?;
        let numbers = backend.iota(unique.len())?;
        let (keys, kept) = backend.select_pairs(&gone, false, &unique, &numbers)?;
        if kept.len() == unique.len() {
            return Ok(None);
        }
        drop((gone, unique, numbers));
        let grouped = self.runs_kept(keys, &kept)?;
        MultiBuilder::of(self.table.builder_like()).build_grouped(backend, grouped).map(Some)
    }

    /// A bitmap of the runs of these keys.
    fn runs_of(&self, keys: &B::Buffer<S::Key>) -> Result<B::Buffer<u32>> {
        let (backend, (runs, found)) = (self.backend(), self.numbers(keys)?);
        backend.mark(&backend.select(&found, true, &runs)?, self.starts.len().saturating_sub(1))
    }

    /// Concatenates the runs `kept`. `keys` are their keys.
    fn runs_kept(&self, keys: B::Buffer<S::Key>, kept: &B::Buffer<u32>) -> Result<Grouped<B, S::Key, V>> {
        let backend = self.backend();
        let all = backend.filled(bitmap_words(kept.len()), u32::MAX)?;
        let Spans { starts, counts } = backend.spans(&self.starts, kept, &all, None)?;
        let offsets = backend.offsets(&counts)?;
        drop(counts);
        let mut len = [0];
        backend.read(&offsets, kept.len(), &mut len)?;
        // This is at most the number of values.
        let len = usize::try_from(len[0]).unwrap_or(usize::MAX).min(self.pairs);
        let expanded = backend.expand(&offsets, &starts, 0, len)?;
        let values = backend.gather(&self.values, &expanded.places)?;
        drop(expanded.places);
        let heads = backend.heads(&expanded.runs)?;
        drop(expanded.runs);
        let places = backend.iota(len)?;
        let starts = backend.select(&heads, true, &places)?;
        let starts = backend.concat(&starts, &backend.upload(&[len as u32])?)?;
        Ok(Grouped { keys, starts, values })
    }
}
