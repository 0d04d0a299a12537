//! The group of each row: groups are numbered 0, 1, .. in order of first occurrence of their keys.
//!
//! ```text
//! Words    keys of 64 bits, or keys with few distinct values, encoded in 64 bits (words.rs)
//! Rows     other keys, and a single text column: DataFusion's GroupValues; koel has nothing faster on the CPU
//! Bulk     many rows at once, on a device (bulk.rs)
//! ```
//!
//! If a strategy reaches its limit, it passes the keys of its groups to the next one, which numbers them first. So the
//! groups keep their numbers, and sums and counts do not change.

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::error::Result;
use datafusion::logical_expr::EmitTo;
use datafusion::physical_plan::aggregates::group_values::{GroupValues, new_group_values};
use datafusion::physical_plan::aggregates::order::GroupOrdering;
use koel::Any;

use super::bulk::Bulk;
use super::words::Words;

/// The groups of a partition.
pub(super) struct Groups {
    schema: SchemaRef,
    strategy: Strategy,
}

enum Strategy {
    Words(Box<Words>),
    Rows(Box<dyn GroupValues>),
    Bulk(Bulk),
}

fn rows(schema: &SchemaRef) -> Result<Strategy> {
    Ok(Strategy::Rows(new_group_values(schema.clone(), &GroupOrdering::None)?))
}

impl Groups {
    /// An empty set of groups, for keys of this schema.
    pub(super) fn new(schema: SchemaRef) -> Result<Self> {
        let strategy = match Words::new(&schema) {
            Some(words) => Strategy::Words(Box::new(words)),
            None => rows(&schema)?,
        };
        Ok(Groups { schema, strategy })
    }

    /// An empty set of groups on a device.
    pub(super) fn bulk(schema: SchemaRef, device: Any) -> Self {
        Groups { strategy: Strategy::Bulk(Bulk::new(schema.clone(), device)), schema }
    }

    /// The number of groups.
    pub(super) fn len(&self) -> usize {
        match &self.strategy {
            Strategy::Words(words) => words.len(),
            Strategy::Rows(rows) => rows.len(),
            Strategy::Bulk(bulk) => bulk.len(),
        }
    }

    /// The memory in bytes.
    pub(super) fn size(&self) -> usize {
        match &self.strategy {
            Strategy::Words(words) => words.size(),
            Strategy::Rows(rows) => rows.size(),
            Strategy::Bulk(bulk) => bulk.size(),
        }
    }

    /// Whether rows are numbered on a device on a bus: then many at once, on a blocking thread.
    pub(super) fn is_remote(&self) -> bool {
        matches!(self.strategy, Strategy::Bulk(_))
    }

    /// Writes the group of each row of some batches to `numbers`, replacing its contents.
    pub(super) fn number(&mut self, batches: &[Vec<ArrayRef>], numbers: &mut Vec<Vec<usize>>) -> Result<()> {
        numbers.resize_with(batches.len(), Vec::new);
        if let Strategy::Bulk(bulk) = &mut self.strategy {
            if bulk.number(batches, numbers)? {
                return Ok(());
            }
            self.leave_device()?;
        }
        batches.iter().zip(numbers).try_for_each(|(keys, numbers)| self.number_one(keys, numbers))
    }

    /// Continues on the CPU.
    pub(super) fn leave_device(&mut self) -> Result<()> {
        if let Strategy::Bulk(bulk) = &self.strategy {
            let keys = bulk.keys()?;
            *self = Groups::new(self.schema.clone())?;
            self.number_one(&keys, &mut Vec::new())?;
        }
        Ok(())
    }

    fn number_one(&mut self, keys: &[ArrayRef], numbers: &mut Vec<usize>) -> Result<()> {
        if let Strategy::Words(words) = &mut self.strategy {
            if words.number(keys, numbers)? {
                return Ok(());
            }
            let known = words.keys()?;
            self.strategy = rows(&self.schema)?;
            self.number_one(&known, numbers)?;
        }
        match &mut self.strategy {
            Strategy::Rows(rows) => rows.intern(keys, numbers),
            _ => Ok(()),
        }
    }

    /// Takes the keys of all groups.
    pub(super) fn take(&mut self) -> Result<Vec<ArrayRef>> {
        match &mut self.strategy {
            Strategy::Words(words) => {
                let keys = words.keys()?;
                *self = Groups::new(self.schema.clone())?;
                Ok(keys)
            }
            Strategy::Rows(rows) => {
                let keys = rows.emit(EmitTo::All)?;
                rows.clear_shrink(0);
                Ok(keys)
            }
            Strategy::Bulk(bulk) => bulk.take(),
        }
    }
}
