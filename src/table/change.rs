//! What every change of a table has in common: it is made beside the table, and becomes it when all went well.

use super::{HashTable, Pairs, build, distinct};
use crate::backend::{HashBackend, Runs};
use crate::error::{Error, Result};
use crate::scheme::{Plan, Request, Scheme};

/// A finished change that has not been made the table yet.
pub(super) struct Change<B: Runs<S>, S: Scheme> {
    pub(super) plan: S::Plan,
    pub(super) image: B::Buffer<u64>,
    pub(super) in_image: u64,
    pub(super) tombstones: u64,
    pub(super) rebuilt: bool,
}

impl<B: Runs<S>, S: Scheme> HashTable<B, S> {
    /// Lets the table be the result of a change, if the device has really finished it.
    pub(super) fn adopt(&mut self, change: Change<B, S>) -> Result<()> {
        self.backend.finish()?;
        let Change { plan, image, in_image, tombstones, rebuilt: _ } = change;
        (self.plan, self.image, self.in_image, self.tombstones) = (plan, image, in_image, tombstones);
        Ok(())
    }

    /// A copy of the table to work on.
    pub(super) fn unchanged(&self) -> Result<Change<B, S>> {
        let image = self.backend.clone_buffer(&self.image)?;
        let HashTable { plan, in_image, tombstones, .. } = *self;
        Ok(Change { plan, image, in_image, tombstones, rebuilt: false })
    }

    /// All pairs, those of the image in table order, then the one beside it.
    pub(super) fn all_pairs(&self) -> Result<Pairs<B>> {
        let pairs = distinct::occupied::<B, S>(&self.backend, &self.plan, &self.image)?;
        let Some((key, value)) = self.plan.outside() else { return Ok(pairs) };
        pairs.followed_by(&self.backend, &self.backend.upload(&[key])?, &self.backend.upload(&[value])?)
    }

    /// A table of these pairs with so many slots, from the first attempt.
    pub(super) fn built_afresh(&self, slots: u64, pairs: &Pairs<B>) -> Result<Change<B, S>> {
        self.built_from(0, slots, pairs)
    }

    /// The same, where all attempts before this one are known to fail.
    pub(super) fn built_from(&self, attempt: u32, slots: u64, pairs: &Pairs<B>) -> Result<Change<B, S>> {
        let Pairs { keys, values } = pairs;
        match build::attempts(&self.backend, &self.scheme, &self.settings, slots, attempt, keys, values)? {
            build::Outcome::Built(build::Built { plan, image, in_image }) => {
                Ok(Change { plan, image, in_image, tombstones: 0, rebuilt: true })
            }
            build::Outcome::Copies(key) => Err(Error::DuplicateKey { key }),
            build::Outcome::TooFull(error) => Err(error),
        }
    }

    pub(super) fn request(&self, slots: u64, pairs: u64, attempt: u32) -> Request {
        Request { slots, pairs, seed: self.settings.seed, attempt }
    }
}

impl<B: HashBackend> Pairs<B> {
    /// These pairs, then others.
    pub(super) fn followed_by(&self, backend: &B, keys: &B::Buffer<u32>, values: &B::Buffer<u32>) -> Result<Pairs<B>> {
        Ok(Pairs { keys: backend.concat(&self.keys, keys)?, values: backend.concat(&self.values, values)? })
    }
}
