//! The state of a table on its device: an image, the plan that defines its meaning, and its counts. Builds and batches
//! make a new state, which replaces the old one after they have succeeded.

use super::{PairsOf, distinct};
use crate::backend::{HashBackend, Runs};
use crate::error::Result;
use crate::scheme::{Plan, Scheme};

/// An image on a device. The counts of pairs and tombstones may be wrong if a mapped file is damaged.
pub(crate) struct Image<B: HashBackend, S: Scheme> {
    pub(super) plan: S::Plan,
    pub(super) buffer: B::Buffer<u64>,
    /// Pairs in the image; the plan may contain one more.
    pub(super) pairs: u64,
    /// Slots that are lost to removed pairs.
    pub(super) tombstones: u64,
}

impl<B: HashBackend, S: Scheme> Image<B, S> {
    /// An image without tombstones with this many pairs, including the one in `outside`, which is not in the image.
    pub(crate) fn of_pairs(plan: S::Plan, buffer: B::Buffer<u64>, pairs: u64, outside: Option<S::Value>) -> Self {
        let pairs = pairs.saturating_sub(outside.is_some().into());
        Image { plan: plan.with_outside(outside), buffer, pairs, tombstones: 0 }
    }

    /// The number of pairs, including the one outside of the image.
    pub(super) fn len(&self) -> u64 {
        self.pairs.saturating_add(self.plan.outside().is_some().into())
    }

    /// A copy of the image.
    pub(super) fn copied(&self, backend: &B) -> Result<Self> {
        Ok(Image { buffer: backend.clone_buffer(&self.buffer)?, ..*self })
    }

    /// A copy on another device.
    pub(super) fn moved<C: HashBackend>(&self, backend: &B, other: &C) -> Result<Image<C, S>> {
        let Image { plan, pairs, tombstones, .. } = *self;
        let buffer = match backend.words(&self.buffer) {
            Some(words) => other.upload(words)?,
            None => other.upload(&backend.download(&self.buffer)?)?,
        };
        Ok(Image { plan, buffer, pairs, tombstones })
    }
}

impl<B: Runs<S>, S: Scheme> Image<B, S> {
    /// The pairs in slot order, without the one outside of the image.
    pub(super) fn occupied(&self, backend: &B) -> Result<PairsOf<B, S>> {
        distinct::occupied::<B, S>(backend, &self.plan, &self.buffer)
    }

    /// All pairs: those of the image in slot order, then the one outside of it.
    pub(super) fn all_pairs(&self, backend: &B) -> Result<PairsOf<B, S>> {
        let pairs = self.occupied(backend)?;
        let Some((key, value)) = self.plan.outside() else { return Ok(pairs) };
        pairs.followed_by(backend, &backend.upload(&[key])?, &backend.upload(&[value])?)
    }
}
