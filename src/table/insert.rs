//! Inserting batches: `insert` with the table's rule for duplicates, `upsert` with the newer value.
//!
//! ```text
//! rule Error:        all keys of the batch must be new; `place` detects duplicates, which are an error
//! other rules:       keep one pair of each key of the batch (distinct.rs);  a lookup separates known keys from new ones;
//!                    known: KeepFirst ignores them, KeepLast and upsert overwrite their values in place;  new: place
//! enough slots:      work on a copy of the image, which replaces the table's after all steps succeeded
//! too few slots:     rebuild from all pairs
//! salted table:      rebuild, because its constants depend on its keys
//! ```
//!
//! Why the bytes equal those of one build: a slot ends with the greatest word ever offered to it, whenever it was
//! offered; and an attempt that fails for a set of keys fails for every larger set too. Schemes for which this does not
//! hold ([`Updates::Rebuild`]) are rebuilt for every batch.

use super::builder::{Duplicates, Size};
use super::change::Change;
use super::sample::Sample;
use super::{HashTable, Image, PairsOf, build, distinct};
use crate::backend::{DeviceBuffer, HashBackend, Kernels, Runs};
use crate::error::{Error, Result};
use crate::scheme::{FIRST_SALTED, Plan, Scheme, Updates};

/// The changes of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inserted {
    /// The number of new keys.
    pub added: usize,
    /// The number of existing keys whose values were overwritten.
    pub overwritten: usize,
    /// Whether the whole table was rebuilt.
    pub rebuilt: bool,
}

/// A batch of distinct keys, split into keys in the table and new ones.
struct Split<B: HashBackend, S: Scheme> {
    fresh: PairsOf<B, S>,
    /// The pairs to overwrite, if there are any.
    known: Option<Known<B, S>>,
}

/// Keys that the table contains, with their new values.
struct Known<B: HashBackend, S: Scheme> {
    pairs: PairsOf<B, S>,
    /// The new value of the pair outside of the image, if its key is one of them; kernels skip that key.
    outside: Option<S::Value>,
}

impl<B: Runs<S>, S: Scheme> HashTable<B, S> {
    /// Adds pairs; a key that occurs more than once, in the batch or in the table, follows the table's [`Duplicates`]
    /// rule.
    ///
    /// For equal capacity and seed, the bytes of a canonical table are then those of a single build of the final set
    /// (for a table with tombstones: once it is compacted).
    ///
    /// Cost: a copy of the image and about two random accesses per new pair (canonical bucketized tables of at least
    /// 2^21 slots on a GPU: the copy, and little more). The whole table is rebuilt if it has a load factor and the
    /// number of slots must change, if the batch needs new constants, if the table is salted and the batch has new keys
    /// ([`Plan::salt`]), or if its kind does not support insertion ([`Updates::Rebuild`] lists those). Under
    /// `KeepFirst` and `KeepLast` also a sort and a lookup of the batch. Memory: a second image during the operation
    /// (in the GPU case, if available, also 30 bytes per new pair and a thirtieth of the image); for a rebuild,
    /// [`MemoryEstimate::insert`](super::MemoryEstimate::insert).
    ///
    /// ```
    /// use koel::{Cpu, Cuckoo, HashTable};
    /// let mut table = HashTable::builder(Cuckoo::default()).slots(100).build(&Cpu::new(), &[1, 2], &[10, 20])?;
    /// let done = table.insert(&[3], &[30])?;
    /// assert_eq!((done.added, table.len()), (1, 3));
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// # Errors
    /// As a build. The table, its contents and its digest are then unchanged.
    pub fn insert(&mut self, keys: &[S::Key], values: &[S::Value]) -> Result<Inserted> {
        let change = self.inserting(keys, values)?;
        self.adopt_change(change)
    }

    /// Adds pairs, and overwrites the values of existing keys; of duplicates in the batch, the last one is kept.
    ///
    /// ```
    /// use koel::{Cpu, Cuckoo, HashTable};
    /// let mut table = HashTable::builder(Cuckoo::default()).build(&Cpu::new(), &[1, 2], &[10, 20])?;
    /// let done = table.upsert(&[2, 3], &[5, 30])?;
    /// assert_eq!((done.added, done.overwritten), (1, 1));
    /// assert_eq!(table.get(&[1, 2, 3])?, [Some(10), Some(5), Some(30)]);
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// Cost and errors: as [`insert`](Self::insert) under `KeepLast`.
    ///
    /// # Errors
    /// As a build. The table, its contents and its digest are then unchanged.
    pub fn upsert(&mut self, keys: &[S::Key], values: &[S::Value]) -> Result<Inserted> {
        let change = self.upserting(keys, values)?;
        self.adopt_change(change)
    }

    /// [`insert`](Self::insert) from buffers on the table's device; nothing is transferred.
    ///
    /// ```
    /// use koel::{Cpu, Cuckoo, HashBackend, HashTable};
    /// let cpu = Cpu::new();
    /// let mut table = HashTable::builder(Cuckoo::default()).slots(100).build(&cpu, &[1], &[10])?;
    /// table.insert_on(&cpu.upload(&[2, 3])?, &cpu.upload(&[20, 30])?)?;
    /// assert_eq!(table.len(), 3);
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub fn insert_on(&mut self, keys: &B::Buffer<S::Key>, values: &B::Buffer<S::Value>) -> Result<Inserted> {
        let change = self.merged(keys, values, self.settings.duplicates)?;
        self.adopt_change(change)
    }

    /// [`upsert`](Self::upsert) from buffers on the table's device; nothing is transferred.
    ///
    /// ```
    /// use koel::{Cpu, Cuckoo, HashBackend, HashTable};
    /// let cpu = Cpu::new();
    /// let mut table = HashTable::builder(Cuckoo::default()).build(&cpu, &[1], &[10])?;
    /// let done = table.upsert_on(&cpu.upload(&[1])?, &cpu.upload(&[11])?)?;
    /// assert_eq!((done.overwritten, table.get(&[1])?), (1, vec![Some(11)]));
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`upsert`](Self::upsert).
    pub fn upsert_on(&mut self, keys: &B::Buffer<S::Key>, values: &B::Buffer<S::Value>) -> Result<Inserted> {
        let change = self.merged(keys, values, Duplicates::KeepLast)?;
        self.adopt_change(change)
    }

    /// The result of [`insert`](Self::insert), without changing the table; `None` for an empty batch.
    pub(crate) fn inserting(&self, keys: &[S::Key], values: &[S::Value]) -> Result<Option<Change<B, S>>> {
        let batch = self.upload_pairs(keys, values)?;
        self.merged(&batch.keys, &batch.values, self.settings.duplicates)
    }

    /// The result of [`upsert`](Self::upsert), without changing the table; `None` for an empty batch.
    pub(crate) fn upserting(&self, keys: &[S::Key], values: &[S::Value]) -> Result<Option<Change<B, S>>> {
        let batch = self.upload_pairs(keys, values)?;
        self.merged(&batch.keys, &batch.values, Duplicates::KeepLast)
    }

    fn merged(
        &self,
        keys: &B::Buffer<S::Key>,
        values: &B::Buffer<S::Value>,
        rule: Duplicates,
    ) -> Result<Option<Change<B, S>>> {
        Error::check_length("values", values.len(), keys.len())?;
        if keys.is_empty() {
            return Ok(None);
        }
        build::check_limits(&self.backend, &self.scheme, self.settings.contents, keys, values)?;
        if rule == Duplicates::Error {
            if Sample::<S::Key>::with_duplicates(&self.backend, keys)?.is_some() {
                // The smallest duplicate key, in the batch or in the table.
                let all = self.backend.concat(&self.all_pairs()?.keys, keys)?;
                if let Some(key) = distinct::least_duplicate::<B, S::Key>(&self.backend, &all)? {
                    return Err(Error::DuplicateKey { key: key.into() });
                }
            }
            return self.changed(keys, values, None).map(Some);
        }
        let split = self.split(keys, values, rule)?;
        self.changed(&split.fresh.keys, &split.fresh.values, split.known.as_ref()).map(Some)
    }

    /// One pair of each key of the batch: the new keys, and the keys whose values are overwritten.
    fn split(&self, keys: &B::Buffer<S::Key>, values: &B::Buffer<S::Value>, rule: Duplicates) -> Result<Split<B, S>> {
        let pairs = distinct::one_of_each::<B, S::Key, S::Value>(&self.backend, keys, values, rule)?;
        let found = self.contains_on(&pairs.keys)?;
        let fresh = pairs.select(&self.backend, &found, false)?;
        let known = match rule {
            Duplicates::KeepLast => {
                let known = pairs.select(&self.backend, &found, true)?;
                let outside = match self.plan().outside() {
                    Some((key, _)) => distinct::value_of(&self.backend, &known, key)?,
                    None => None,
                };
                Some(Known { pairs: known, outside })
            }
            Duplicates::Error | Duplicates::KeepFirst => None,
        };
        Ok(Split { fresh, known })
    }

    /// Places new keys and overwrites known ones; returns the new state.
    fn changed(
        &self,
        keys: &B::Buffer<S::Key>,
        values: &B::Buffer<S::Value>,
        known: Option<&Known<B, S>>,
    ) -> Result<Change<B, S>> {
        let before = self.len();
        let slots = match self.settings.size {
            Size::Slots(_) => self.plan().requested_slots(),
            Size::Default | Size::Load(_) => {
                let slots = self.settings.slots(&self.scheme, (before as u64).saturating_add(keys.len() as u64));
                // A build refuses sizes that no table can have, but it looks for duplicates first.
                self.scheme.plan(self.request(slots, 0, 0)).map_or(slots, |plan| plan.requested_slots())
            }
        };
        let in_place = if keys.is_empty() {
            Some(self.copied()?)
        } else if slots != self.plan().requested_slots()
            || self.scheme.updates() == Updates::Rebuild
            || self.plan().salt().is_some()
        {
            None
        } else {
            self.place_in_copy(keys, values)?
        };
        let rebuilt = in_place.is_none();
        let mut image = match in_place {
            Some(image) => image,
            None => {
                let old = self.all_pairs()?;
                let all = old.followed_by(&self.backend, keys, values)?;
                drop(old);
                self.built_from(self.first_attempt(slots), slots, &all)?
            }
        };
        let mut overwritten = 0;
        if let Some(Known { pairs, outside }) = known {
            Kernels::<S>::assign(&self.backend, &image.plan, &mut image.buffer, &pairs.keys, &pairs.values)?;
            if outside.is_some() {
                image.plan = image.plan.with_outside(*outside);
            }
            overwritten = pairs.keys.len();
        }
        // Saturating, because the count in a mapped file may be wrong.
        let added = (image.len() as usize).saturating_sub(before);
        Ok(Change { image, inserted: Inserted { added, overwritten, rebuilt } })
    }

    /// The first attempt that is not known to fail for the table's keys and more. If the table is salted, attempts 0 to
    /// 7 failed for its keys. With the same number of slots they also fail for every larger set, in kinds that are
    /// changed in place. This is only true if no pairs were removed, because the removed pairs may have been the
    /// reason.
    fn first_attempt(&self, slots: u64) -> u32 {
        let larger = self.scheme.updates() == Updates::Tombstones && !self.has_tombstones();
        let known = larger && self.plan().salt().is_some() && slots == self.plan().requested_slots();
        if known && self.settings.attempts > FIRST_SALTED { FIRST_SALTED } else { 0 }
    }

    /// Places new keys in a copy of the image; `None` if they do not fit with the constants of this attempt.
    fn place_in_copy(&self, keys: &B::Buffer<S::Key>, values: &B::Buffer<S::Value>) -> Result<Option<Image<B, S>>> {
        let Image { plan: ref old, ref buffer, pairs, tombstones } = self.image;
        let pairs = pairs.saturating_add(keys.len() as u64);
        if pairs > build::capacity(old) {
            // A build would not allow this many pairs, even if the image has spare words.
            return Ok(None);
        }
        let plan = self.scheme.plan(self.request(old.requested_slots(), pairs, old.attempt()))?.with_rest_of(old);
        let (buffer, placed) = Kernels::<S>::extended(&self.backend, &plan, buffer, keys, values)?;
        if placed.unplaced > 0 {
            return Ok(None);
        }
        if let Some(key) = placed.least_duplicate {
            return Err(Error::DuplicateKey { key: key.into() });
        }
        let pairs = pairs - u64::from(placed.outside.is_some());
        let outside = placed.outside.or(old.outside().map(|(_, value)| value));
        Ok(Some(Image { plan: plan.with_outside(outside), buffer, pairs, tombstones }))
    }
}
