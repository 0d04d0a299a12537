//! A table in a temporary file: written once, read any number of times.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use super::spill::{Block, Encoded, Spill};
use super::{Batches, Limit, Morsel};
use crate::error::{Error, Result};

/// Batches in a temporary file, which is removed when this is dropped.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Int64Array, RecordBatch};
/// use koel_arrow::external::{Limit, Spooled};
///
/// let batch = RecordBatch::try_from_iter([("k", Arc::new(Int64Array::from(vec![3, 1, 2])) as ArrayRef)])?;
/// let mut spooled = Spooled::new(&batch.schema(), &Limit::new(100_000_000))?;
/// spooled.push(&batch)?;
/// assert_eq!(spooled.read().collect::<Result<Vec<_>, _>>()?, [batch]);
/// # Ok::<(), koel_arrow::Error>(())
/// ```
pub struct Spooled {
    schema: SchemaRef,
    spill: Spill,
    blocks: Vec<Block>,
}

impl Spooled {
    /// An empty file for batches of this schema, in the limit's folder.
    ///
    /// # Errors
    /// [`koel::Error::Spill`].
    pub fn new(schema: &SchemaRef, limit: &Limit) -> Result<Self> {
        Ok(Spooled { schema: SchemaRef::clone(schema), spill: Spill::new(limit.folder())?, blocks: Vec::new() })
    }

    /// Appends a batch.
    ///
    /// # Errors
    /// [`koel::Error::Spill`], or what Arrow reports.
    pub fn push(&mut self, batch: &RecordBatch) -> Result<()> {
        self.blocks.push(self.spill.write(&Encoded::of(batch)?)?);
        Ok(())
    }

    /// All batches, in order.
    pub fn read(&self) -> impl Iterator<Item = Result<RecordBatch>> + '_ {
        self.blocks.iter().map(|block| self.spill.read(block))
    }

    /// As [`read`](Self::read), as the table of a join or a grouping. Each batch is a morsel.
    pub fn batches<'a, E: From<Error> + 'a>(&'a self) -> Batches<'a, E> {
        let morsel = move |block: &'a Block| -> std::result::Result<Morsel<'a, E>, E> {
            Ok(Box::new(move |take| take(self.spill.read(block)?)))
        };
        Batches::of_morsels(SchemaRef::clone(&self.schema), self.blocks.iter().map(morsel))
    }
}

impl std::fmt::Debug for Spooled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Spooled")
            .field("schema", &self.schema)
            .field("blocks", &self.blocks.len())
            .finish_non_exhaustive()
    }
}
