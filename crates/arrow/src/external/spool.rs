//! A table that is written once and read any number of times: in memory up to a size, and beyond it in a temporary
//! file.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use super::spill::{Block, Encoded, Spill};
use super::{Batches, Limit, Morsel, row_bytes};
use crate::error::{Error, Result};

/// Batches in memory, or in a temporary file, which is removed when the value is dropped.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Int64Array, RecordBatch};
/// use koel_arrow::external::{Limit, Spooled};
///
/// let batch = RecordBatch::try_from_iter([("k", Arc::new(Int64Array::from(vec![3, 1, 2])) as ArrayRef)])?;
/// let mut spooled = Spooled::new(&batch.schema(), &Limit::new(100_000_000));
/// spooled.push(&batch)?;
/// assert_eq!(spooled.read().collect::<Result<Vec<_>, _>>()?, [batch]);
/// # Ok::<(), koel_arrow::Error>(())
/// ```
pub struct Spooled {
    schema: SchemaRef,
    limit: Limit,
    /// The greatest number of bytes in memory.
    most: u64,
    stored: Stored,
}

enum Stored {
    Memory { batches: Vec<RecordBatch>, bytes: u64 },
    File { spill: Spill, blocks: Vec<Block> },
}

impl Spooled {
    /// No batches yet. Batches have this schema, and are written to a file in the limit's folder.
    pub fn new(schema: &SchemaRef, limit: &Limit) -> Self {
        let stored = Stored::Memory { batches: Vec::new(), bytes: 0 };
        Spooled { schema: SchemaRef::clone(schema), limit: limit.clone(), most: 0, stored }
    }

    /// As [`new`](Self::new), but batches are in memory until they exceed the limit. Then all of them are written to
    /// the file.
    pub fn buffered(schema: &SchemaRef, limit: &Limit) -> Self {
        Spooled { most: limit.bytes(), ..Spooled::new(schema, limit) }
    }

    /// Appends a batch.
    ///
    /// # Errors
    /// [`koel::Error::Spill`], or what Arrow reports.
    pub fn push(&mut self, batch: &RecordBatch) -> Result<()> {
        match &mut self.stored {
            Stored::File { spill, blocks } => blocks.push(spill.write(&Encoded::of(batch)?)?),
            Stored::Memory { batches, bytes } => {
                batches.push(batch.clone());
                *bytes += row_bytes(batch) as u64;
                if *bytes > self.most {
                    let spill = Spill::new(self.limit.folder())?;
                    let write = |batch: RecordBatch| spill.write(&Encoded::of(&batch)?);
                    let blocks = batches.drain(..).map(write).collect::<Result<_>>()?;
                    self.stored = Stored::File { spill, blocks };
                }
            }
        }
        Ok(())
    }

    /// The number of bytes written to the file.
    pub fn spilled(&self) -> u64 {
        match &self.stored {
            Stored::Memory { .. } => 0,
            Stored::File { spill, .. } => spill.bytes(),
        }
    }

    /// All batches, in order.
    pub fn read(&self) -> impl Iterator<Item = Result<RecordBatch>> + '_ {
        (0..self.len()).map(|number| self.get(number))
    }

    /// As [`read`](Self::read), but as the input of a join or a grouping. Each batch is a morsel.
    pub fn batches<'a, E: From<Error> + 'a>(&'a self) -> Batches<'a, E> {
        let morsel = move |number| -> std::result::Result<Morsel<'a, E>, E> {
            Ok(Box::new(move |take| take(self.get(number)?)))
        };
        Batches::of_morsels(SchemaRef::clone(&self.schema), (0..self.len()).map(morsel))
    }

    fn len(&self) -> usize {
        match &self.stored {
            Stored::Memory { batches, .. } => batches.len(),
            Stored::File { blocks, .. } => blocks.len(),
        }
    }

    fn get(&self, number: usize) -> Result<RecordBatch> {
        match &self.stored {
            Stored::Memory { batches, .. } => Ok(batches[number].clone()),
            Stored::File { spill, blocks } => spill.read(&blocks[number]),
        }
    }
}

impl std::fmt::Debug for Spooled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Spooled")
            .field("schema", &self.schema)
            .field("batches", &self.len())
            .field("spilled", &self.spilled())
            .finish_non_exhaustive()
    }
}
