//! Changes of a table. A change is prepared separately, and replaces the table's state after it has succeeded.

use super::rows::Rows;
use super::{HashTable, Image, Inserted, Pairs, PairsOf, build};
use crate::backend::{HashBackend, Runs, Word};
use crate::error::Result;
use crate::scheme::{Key, Request, Scheme};

/// The new state of a table, built separately.
pub(crate) struct Change<B: HashBackend, S: Scheme> {
    pub(super) image: Image<B, S>,
    pub(super) inserted: Inserted,
}

impl<B: HashBackend, S: Scheme> Change<B, S> {
    /// A change that does not insert anything.
    pub(super) fn of(image: Image<B, S>) -> Self {
        Change { image, inserted: Inserted::default() }
    }

    /// The counts of what the change inserts.
    pub(crate) fn inserted(&self) -> Inserted {
        self.inserted
    }
}

impl<B: Runs<S>, S: Scheme> HashTable<B, S> {
    /// Applies a change, if there is one, after the device has finished it.
    pub(super) fn adopt_change(&mut self, change: Option<Change<B, S>>) -> Result<Inserted> {
        let Some(change) = change else { return Ok(Inserted::default()) };
        let inserted = change.inserted;
        self.backend.finish()?;
        self.take(change);
        Ok(inserted)
    }

    /// Applies a change. The caller has waited for the device.
    pub(crate) fn take(&mut self, change: Change<B, S>) {
        self.image = change.image;
    }

    /// A copy of the table's state to work on.
    pub(super) fn copied(&self) -> Result<Image<B, S>> {
        self.image.copied(&self.backend)
    }

    /// All pairs: those of the image in table order, then the one outside of it.
    pub(super) fn all_pairs(&self) -> Result<PairsOf<B, S>> {
        self.image.all_pairs(&self.backend)
    }

    /// A table of these pairs with this many slots, from the first attempt.
    pub(super) fn built_from_first_attempt(&self, slots: u64, pairs: &PairsOf<B, S>) -> Result<Image<B, S>> {
        self.built_from(0, slots, pairs)
    }

    /// A table of these pairs with this many slots, from this attempt on; all earlier ones are known to fail.
    pub(super) fn built_from(&self, attempt: u32, slots: u64, pairs: &PairsOf<B, S>) -> Result<Image<B, S>> {
        // They are distinct, unless a mapped file is inconsistent.
        let mut rows = Rows::of(&pairs.keys, &pairs.values);
        build::attempts(&self.backend, &self.scheme, &self.settings, slots, attempt, &mut rows)?.of_distinct()
    }

    pub(super) fn request(&self, slots: u64, pairs: u64, attempt: u32) -> Request {
        Request { slots, pairs, seed: self.settings.seed, attempt }
    }
}

impl<B: HashBackend, K: Key, V: Word> Pairs<B, K, V> {
    /// These pairs, followed by others.
    pub(super) fn followed_by(&self, backend: &B, keys: &B::Buffer<K>, values: &B::Buffer<V>) -> Result<Self> {
        Ok(Pairs { keys: backend.concat(&self.keys, keys)?, values: backend.concat(&self.values, values)? })
    }
}
