//! The keys of groups: what key columns have in each group's first row, in the order of the groups.
//!
//! Rows are copied out of batches, which are then free to go. Few rows at a time are first joined up.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, UInt32Array, new_empty_array};
use datafusion::arrow::compute::{concat, take};
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::error::Result;

use super::codes::canonical;

/// Rows of a piece that is long enough.
const LONG: usize = 1 << 12;

/// Keys, column by column.
pub(super) struct Kept {
    schema: SchemaRef,
    /// Long pieces of each column.
    long: Vec<Vec<ArrayRef>>,
    /// Those behind them, which are short.
    short: Vec<Vec<ArrayRef>>,
    /// Rows of the short ones.
    waiting: usize,
    rows: usize,
    /// Bytes of all pieces.
    bytes: usize,
}

impl Kept {
    pub(super) fn new(schema: SchemaRef) -> Self {
        let columns = schema.fields().len();
        let none = || vec![Vec::new(); columns];
        Kept { long: none(), short: none(), schema, waiting: 0, rows: 0, bytes: 0 }
    }

    /// Rows.
    pub(super) fn len(&self) -> usize {
        self.rows
    }

    /// Bytes.
    pub(super) fn size(&self) -> usize {
        self.bytes
    }

    /// Adds rows of a batch's key columns.
    pub(super) fn add(&mut self, keys: &[ArrayRef], rows: Vec<u32>) -> Result<()> {
        let rows = UInt32Array::from(rows);
        let taken = keys.iter().map(|column| Ok(canonical(take(column, &rows, None)?)));
        self.push(taken.collect::<Result<_>>()?)
    }

    /// Adds rows that are of no batch any more.
    pub(super) fn push(&mut self, columns: Vec<ArrayRef>) -> Result<()> {
        let rows = columns.first().map_or(0, |column| column.len());
        if rows == 0 {
            return Ok(());
        }
        self.rows += rows;
        self.waiting += rows;
        for (short, column) in self.short.iter_mut().zip(columns.into_iter().map(alone)) {
            self.bytes += column.get_array_memory_size();
            short.push(column);
        }
        if self.waiting >= LONG {
            for (long, short) in self.long.iter_mut().zip(&mut self.short) {
                long.push(joined(std::mem::take(short))?);
            }
            self.waiting = 0;
        }
        Ok(())
    }

    /// The pieces of a column, in order.
    pub(super) fn pieces(&self, column: usize) -> impl Iterator<Item = &ArrayRef> {
        self.long.get(column).into_iter().chain(self.short.get(column)).flatten()
    }

    /// All rows, a column each.
    pub(super) fn columns(&self) -> Result<Vec<ArrayRef>> {
        let whole = |(i, field): (usize, &Arc<datafusion::arrow::datatypes::Field>)| {
            let pieces: Vec<ArrayRef> = self.pieces(i).cloned().collect();
            if pieces.is_empty() { Ok(new_empty_array(field.data_type())) } else { joined(pieces) }
        };
        self.schema.fields().iter().enumerate().map(whole).collect()
    }
}

fn joined(mut pieces: Vec<ArrayRef>) -> Result<ArrayRef> {
    if pieces.len() == 1
        && let Some(one) = pieces.pop()
    {
        return Ok(one);
    }
    Ok(concat(&pieces.iter().map(AsRef::as_ref).collect::<Vec<_>>())?)
}

/// Views that hold no more than their own bytes.
fn alone(column: ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Utf8View => Arc::new(column.as_string_view().gc()),
        DataType::BinaryView => Arc::new(column.as_binary_view().gc()),
        _ => column,
    }
}
