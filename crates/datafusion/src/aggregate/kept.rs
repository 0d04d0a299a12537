//! The keys of groups: what key columns have in each group's first row, in the order of the groups.
//!
//! For ways that cannot read keys from anything else. Batches are free to go; few rows at a time are first joined up.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, new_empty_array};
use datafusion::arrow::compute::concat;
use datafusion::arrow::datatypes::{DataType, Field, SchemaRef};
use datafusion::error::Result;

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

    /// Adds the first rows of groups, copied out of their batches.
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
        let whole = |(i, field): (usize, &Arc<Field>)| {
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
