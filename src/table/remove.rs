//! Removing pairs (`remove`), and removing tombstones (`compact`, `rebuild`).
//!
//! ```text
//! Updates::Tombstones   remove: the word of each pair becomes a tombstone
//!                       compact: remove the tombstones, keep pairs of age 1, extract all others and place them again;
//!                       if the constants are salted, build from the remaining pairs, with a new salt
//! Updates::InPlace      remove: the pair is removed without a trace
//! Updates::Rebuild      remove: build from the remaining pairs
//! ```
//!
//! Why compacting gives the table of the remaining set: a pair of age 1 is stored where any build would offer it first.
//! Without the tombstones and the pairs above age 1, the image is an intermediate state of some build of the remaining
//! set, in which those pairs have not been offered yet. How a build continues does not depend on the order of offers.
//!
//! Pairs are not moved back into freed slots. Chains of such moves depend on where they begin, and so would the bytes
//! (simulated: wrong for 2,557 of 18,031 removals).

use super::change::Change;
use super::{HashTable, Image, Pairs, distinct};
use crate::backend::{Decoded, DeviceBuffer, Kernels, Runs};
use crate::error::Result;
use crate::scheme::{Plan, Scheme, Updates};

impl<B: Runs<S>, S: Scheme> HashTable<B, S> {
    /// Removes the pairs of these keys, and returns the number of pairs removed. Absent and duplicate keys are ignored.
    ///
    /// The effect on the table depends on its kind; [`Updates`] lists the kinds:
    ///
    /// - [`Updates::Tombstones`] (canonical cuckoo, bucketized and Robin Hood tables, and quadratic ones): the table
    ///   **has tombstones** afterwards. Their slots stay lost until [`compact`](Self::compact), and the bytes depend on
    ///   what was removed.
    /// - [`Updates::Rebuild`]: the table is rebuilt from the remaining pairs, with the same capacity. Canonical tables
    ///   have the bytes of one build of the remaining set.
    /// - [`Updates::InPlace`]: the table is changed in place, and no slot is lost.
    ///
    /// Cost: a copy of the image, and a lookup and a write for each key; for a rebuild, a build and a table of the
    /// keys; for classic Horton tables, a transfer of the image to the host and back, and one thread. Memory: a second
    /// image during the call; for a rebuild, that of an insert
    /// ([`MemoryEstimate::insert`](super::MemoryEstimate::insert)).
    ///
    /// ```
    /// use koel::{Cpu, Cuckoo, HashTable};
    /// let mut table = HashTable::builder(Cuckoo::default()).build(&Cpu::new(), &[1, 2, 3], &[10, 20, 30])?;
    /// assert_eq!(table.remove(&[2, 7, 2])?, 1);
    /// assert_eq!((table.len(), table.get(&[2])?, table.has_tombstones()), (2, vec![None], true));
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`crate::Error::OutOfMemory`] or what the device reports; for a rebuild, the errors of a build. The table, its
    /// contents and its digest are then unchanged.
    pub fn remove(&mut self, keys: &[S::Key]) -> Result<usize> {
        let keys = self.backend.upload(keys)?;
        self.remove_on(&keys)
    }

    /// [`remove`](Self::remove) of keys in a buffer on the table's device; nothing is transferred.
    ///
    /// ```
    /// use koel::{Cpu, Cuckoo, HashBackend, HashTable};
    /// let cpu = Cpu::new();
    /// let mut table = HashTable::builder(Cuckoo::default()).build(&cpu, &[1, 2], &[10, 20])?;
    /// assert_eq!(table.remove_on(&cpu.upload(&[1])?)?, 1);
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`remove`](Self::remove).
    pub fn remove_on(&mut self, keys: &B::Buffer<S::Key>) -> Result<usize> {
        let before = self.len();
        let change = self.removed(keys)?;
        self.adopt_change(change)?;
        Ok(before.saturating_sub(self.len()))
    }

    /// The result of [`remove`](Self::remove), without changing the table; `None` if nothing changes.
    pub(crate) fn removing(&self, keys: &[S::Key]) -> Result<Option<Change<B, S>>> {
        self.removed(&self.backend.upload(keys)?)
    }

    fn removed(&self, keys: &B::Buffer<S::Key>) -> Result<Option<Change<B, S>>> {
        if keys.is_empty() {
            return Ok(None);
        }
        let image = match self.scheme.updates() {
            Updates::Rebuild => self.without(keys)?,
            Updates::Tombstones | Updates::InPlace => Some(self.with_keys_removed(keys)?),
        };
        Ok(image.map(Change::of))
    }

    /// Removes the tombstones: for equal capacity, seed and number of restarts, the table then has the bytes of one
    /// build of its pairs. Tables without tombstones are not changed. A salted table ([`Plan::salt`]) is rebuilt from
    /// its first attempt.
    ///
    /// Cost: a pass over the image, and placing the pairs above age 1 (a fifth of them at load 0.8 with buckets of 8
    /// slots, half with single slots). Memory: a second image, and 8 bytes per slot.
    ///
    /// ```
    /// use koel::{Cpu, Cuckoo, HashTable};
    /// let build = |keys: &[u32]| HashTable::builder(Cuckoo::default()).slots(20).build(&Cpu::new(), keys, keys);
    /// let mut table = build(&[1, 2, 3])?;
    /// table.remove(&[2])?;
    /// table.compact()?;
    /// assert_eq!(table.digest()?, build(&[1, 3])?.digest()?);
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`crate::Error::OutOfMemory`] or what the device reports. The table is then unchanged.
    pub fn compact(&mut self) -> Result<()> {
        let change = self.compacting()?;
        self.adopt_change(change).map(drop)
    }

    /// The result of [`compact`](Self::compact), without changing the table; `None` if nothing changes.
    pub(crate) fn compacting(&self) -> Result<Option<Change<B, S>>> {
        if self.image.tombstones == 0 {
            return Ok(None);
        }
        if self.plan().salt().is_some() {
            return self
                .built_from_first_attempt(self.plan().requested_slots(), &self.all_pairs()?)
                .map(Change::of)
                .map(Some);
        }
        let mut image = self.copied()?;
        let Decoded { keys, values, taken } = Kernels::<S>::lift(&self.backend, &image.plan, &mut image.buffer)?;
        let lifted = Pairs { keys, values }.select(&self.backend, &taken, true)?;
        let placed = Kernels::<S>::place(&self.backend, &image.plan, &mut image.buffer, &lifted.keys, &lifted.values)?;
        image.tombstones = 0;
        if placed.unplaced > 0 || placed.duplicates > 0 {
            // A subset of a set that fits also fits, so this is only reached with the image of a damaged file.
            image = self.built_from_first_attempt(self.plan().requested_slots(), &self.all_pairs()?)?;
        }
        Ok(Some(Change::of(image)))
    }

    /// Rebuilds the table from its pairs, with the slots that its load requires, from the first attempt. The bytes are
    /// those of a new table of these pairs.
    ///
    /// Cost and memory: as a build, and the pairs are decoded on the device first.
    ///
    /// ```
    /// use koel::{Cpu, Cuckoo, HashTable};
    /// let keys: Vec<u32> = (0..1000).collect();
    /// let mut table = HashTable::builder(Cuckoo::default()).build(&Cpu::new(), &keys, &keys)?;
    /// table.remove(&keys[..900])?;
    /// table.rebuild()?;
    /// assert_eq!((table.len(), table.capacity(), table.has_tombstones()), (100, 125, false));
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// # Errors
    /// As a build. The table is then unchanged.
    pub fn rebuild(&mut self) -> Result<()> {
        let change = self.rebuilding()?;
        self.adopt_change(Some(change)).map(drop)
    }

    /// The result of [`rebuild`](Self::rebuild), without changing the table.
    pub(crate) fn rebuilding(&self) -> Result<Change<B, S>> {
        let pairs = self.all_pairs()?;
        let slots = self.settings.slots(&self.scheme, pairs.keys.len() as u64);
        self.built_from_first_attempt(slots, &pairs).map(Change::of)
    }

    /// The number of tombstones: slots of removed pairs, which are lost until the table is compacted.
    ///
    /// ```
    /// use koel::{Cpu, Cuckoo, HashTable};
    /// let mut table = HashTable::builder(Cuckoo::default()).build(&Cpu::new(), &[1, 2], &[3, 4])?;
    /// table.remove(&[1])?;
    /// assert_eq!(table.tombstones(), 1);
    /// # Ok::<(), koel::Error>(())
    /// ```
    pub fn tombstones(&self) -> usize {
        self.image.tombstones as usize
    }

    /// Whether there are tombstones. Answers are correct, but the bytes depend on the table's history, and lookups read
    /// slightly more.
    pub fn has_tombstones(&self) -> bool {
        self.image.tombstones > 0
    }

    /// Removes the pairs of these keys from a copy of the image.
    fn with_keys_removed(&self, keys: &B::Buffer<S::Key>) -> Result<Image<B, S>> {
        let mut image = self.copied()?;
        let removed = Kernels::<S>::remove(&self.backend, &image.plan, &mut image.buffer, keys)?;
        // Saturating, because the count in a mapped file may be wrong.
        image.pairs = image.pairs.saturating_sub(removed.pairs);
        if self.scheme.updates() == Updates::Tombstones {
            image.tombstones += removed.pairs;
        }
        if removed.outside {
            image.plan = image.plan.with_outside(None);
        }
        Ok(image)
    }

    /// Rebuilds the table from the pairs of all other keys; `None` if it contains none of these keys.
    fn without(&self, keys: &B::Buffer<S::Key>) -> Result<Option<Image<B, S>>> {
        let all = self.all_pairs()?;
        let gone = distinct::among::<B, S::Key>(&self.backend, &all.keys, keys)?;
        let rest = all.select(&self.backend, &gone, false)?;
        if rest.keys.len() == all.keys.len() {
            return Ok(None);
        }
        drop(all);
        self.built_from_first_attempt(self.plan().requested_slots(), &rest).map(Some)
    }
}
