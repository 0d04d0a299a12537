//! Collects rows in blocks that are encoded one by one. The end of a block depends only on the rows, not on the batches
//! in which they arrive: so a file has the same bytes for any memory limit, devices and threads.
//!
//! ```text
//! a block ends   before the row that would make it exceed its maximum of bytes, as koel_arrow counts them
//!                when it has its maximum of rows
//! ```
//!
//! The arrays of a block do not depend on the batches either: see regular.rs.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use arrow_select::concat::concat_batches;
use koel_arrow::external::{row_bytes, rows_within};
use koel_arrow::take;

use super::regular::regular;
use crate::tables;

/// The maximum size of a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub(super) rows: usize,
    pub(super) bytes: usize,
}

/// The rows of a block that is not full yet.
pub(super) struct Blocks {
    schema: SchemaRef,
    size: Size,
    /// Whether dictionaries are replaced by their values.
    is_plain: bool,
    waiting: Vec<RecordBatch>,
    rows: usize,
    bytes: usize,
}

impl Blocks {
    pub(super) fn new(schema: &SchemaRef, size: Size) -> Blocks {
        Blocks { schema: schema.clone(), size, is_plain: false, waiting: Vec::new(), rows: 0, bytes: 0 }
    }

    /// As `new`, for a format without dictionaries: blocks contain their values instead.
    pub(super) fn plain(schema: &SchemaRef, size: Size) -> Blocks {
        let plain = |field: &Arc<Field>| match field.data_type() {
            DataType::Dictionary(_, values) => field.as_ref().clone().with_data_type(values.as_ref().clone()),
            _ => field.as_ref().clone(),
        };
        let schema = Schema::new(schema.fields().iter().map(plain).collect::<Vec<_>>());
        Blocks { is_plain: true, ..Blocks::new(&schema.into(), size) }
    }

    /// Adds rows, and calls `full` with each block that becomes full.
    pub(super) fn push<E>(
        &mut self,
        batch: &RecordBatch,
        mut full: impl FnMut(Block) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut rest = batch.clone();
        while rest.num_rows() > 0 {
            if !self.is_plain && self.waiting.last().is_some_and(|last| !go_together(last, &rest)) {
                full(self.take())?;
            }
            let next = rest.slice(0, rest.num_rows().min(self.size.rows - self.rows));
            let (mut rows, mut bytes) = rows_within(&next, self.size.bytes.saturating_sub(self.bytes));
            let ends = rows < next.num_rows() || self.rows + rows == self.size.rows;
            if rows == 0 && self.rows == 0 {
                (rows, bytes) = (1, row_bytes(&next.slice(0, 1)));
            }
            if rows > 0 {
                (self.rows, self.bytes) = (self.rows + rows, self.bytes + bytes);
                self.waiting.push(next.slice(0, rows));
            }
            if ends {
                full(self.take())?;
            }
            rest = rest.slice(rows, rest.num_rows() - rows);
        }
        Ok(())
    }

    /// Calls `full` with the last block, if rows are left.
    pub(super) fn finish<E>(mut self, mut full: impl FnMut(Block) -> Result<(), E>) -> Result<(), E> {
        if self.waiting.is_empty() { Ok(()) } else { full(self.take()) }
    }

    fn take(&mut self) -> Block {
        Block {
            schema: Arc::clone(&self.schema),
            is_plain: self.is_plain,
            pieces: std::mem::take(&mut self.waiting),
            rows: std::mem::take(&mut self.rows),
            bytes: std::mem::take(&mut self.bytes),
        }
    }
}

/// Rows that are encoded together, in the pieces in which they arrived. Any thread can combine them to one batch.
pub(super) struct Block {
    schema: SchemaRef,
    is_plain: bool,
    pieces: Vec<RecordBatch>,
    rows: usize,
    #[cfg_attr(not(feature = "parquet"), expect(dead_code, reason = "only row groups of Parquet are cut by bytes"))]
    bytes: usize,
}

impl Block {
    #[cfg(feature = "parquet")]
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// The bytes of the rows, as koel_arrow counts them.
    #[cfg(feature = "parquet")]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The rows in one batch.
    pub(super) fn batch(self) -> Result<RecordBatch, ArrowError> {
        let Block { schema, is_plain, mut pieces, rows, .. } = self;
        if is_plain {
            pieces = pieces.iter().map(|piece| plain(&schema, piece)).collect::<Result<_, _>>()?;
        }
        let block = match &pieces[..] {
            [one] => one.clone(),
            several => concat_batches(&schema, several)?,
        };
        drop(pieces);
        let columns = block.columns().iter().map(|column| regular(column, None)).collect::<Result<_, _>>()?;
        tables::batch(&schema, columns, rows)
    }
}

fn plain(schema: &SchemaRef, batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let plain = |column: &ArrayRef| match column.as_any_dictionary_opt() {
        Some(dictionary) => take(dictionary.values(), dictionary.keys()),
        None => Ok(Arc::clone(column)),
    };
    tables::batch(schema, batch.columns().iter().map(plain).collect::<Result<_, _>>()?, batch.num_rows())
}

/// Whether two batches can be part of the same block: Arrow would concatenate different dictionaries.
fn go_together(batch: &RecordBatch, next: &RecordBatch) -> bool {
    batch.columns().iter().zip(next.columns()).all(|(column, next)| share_dictionaries(column, next))
}

fn share_dictionaries(column: &ArrayRef, next: &ArrayRef) -> bool {
    match (column.as_any_dictionary_opt(), next.as_any_dictionary_opt()) {
        (Some(column), Some(next)) => {
            let (values, others) = (column.values().to_data(), next.values().to_data());
            values.ptr_eq(&others)
        }
        _ => !has_dictionaries(column.data_type()),
    }
}

fn has_dictionaries(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(..) => true,
        DataType::Struct(fields) => fields.iter().any(|field| has_dictionaries(field.data_type())),
        DataType::List(of) | DataType::LargeList(of) | DataType::FixedSizeList(of, _) | DataType::Map(of, _) => {
            has_dictionaries(of.data_type())
        }
        _ => false,
    }
}
