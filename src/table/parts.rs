//! What structures that are a table and more need of it: to make its image in their own way, and what it can hold.

use super::{HashTable, TableBuilder};
use crate::backend::Runs;
use crate::error::Result;
use crate::scheme::Scheme;

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

    /// Whether the slots have room for values other than 0.
    pub(crate) fn has_values(&self) -> bool {
        self.scheme.limits().value_bits > 0
    }

    /// A builder of tables with this one's parameters: scheme, load or capacity, seed, attempts, rule for copies.
    pub(crate) fn builder_like(&self) -> TableBuilder<S> {
        TableBuilder::of(self.scheme.clone(), &self.settings)
    }
}
