//! Tables made of their parts: for structures that are a table and more, and make its image in their own way.

use super::{HashTable, TableBuilder};
use crate::backend::Runs;
use crate::error::Result;
use crate::spec::Scheme;

impl<B: Runs<S>, S: Scheme> HashTable<B, S> {
    /// The table that a builder's user wants, made of an image that was built elsewhere. The image holds `in_image`
    /// pairs and no tombstones.
    pub(crate) fn of_parts(
        backend: &B,
        builder: &TableBuilder<S>,
        plan: S::Plan,
        image: B::Buffer<u64>,
        in_image: u64,
    ) -> Result<Self> {
        let (scheme, settings) = builder.parts()?;
        Ok(HashTable { backend: backend.clone(), scheme, settings, plan, image, in_image, tombstones: 0 })
    }

    /// A builder of tables with this one's parameters: scheme, load or capacity, seed, attempts, rule for copies.
    pub(crate) fn builder_like(&self) -> TableBuilder<S> {
        TableBuilder::of(self.scheme.clone(), &self.settings)
    }
}
