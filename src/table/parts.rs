//! Access for structures that contain a table: they build its image themselves, and need its limits.

use super::{HashTable, Image, TableBuilder};
use crate::backend::Runs;
use crate::error::Result;
use crate::scheme::Scheme;

impl<B: Runs<S>, S: Scheme> HashTable<B, S> {
    /// A table with the settings of a builder, whose image was built elsewhere.
    pub(crate) fn of_image(backend: &B, builder: &TableBuilder<S>, image: Image<B, S>) -> Result<Self> {
        let (scheme, settings) = builder.parts()?;
        Ok(HashTable { backend: backend.clone(), scheme, settings, image })
    }

    /// Whether the slots store values other than 0.
    pub(crate) fn has_values(&self) -> bool {
        self.scheme.limits().value_bits > 0
    }

    /// A builder with this table's parameters: scheme, load or capacity, seed, attempts, rule for duplicates.
    pub(crate) fn builder_like(&self) -> TableBuilder<S> {
        TableBuilder::of(self.scheme.clone(), &self.settings)
    }
}
