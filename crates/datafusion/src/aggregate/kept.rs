//! The keys of groups: the values of the key columns in each group's first row, in the order of the groups.
//!
//! For strategies that cannot decode keys from other data. Batches can be freed; short pieces are concatenated.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, new_empty_array};
use datafusion::arrow::compute::concat;
use datafusion::arrow::datatypes::{DataType, Field, SchemaRef};
use datafusion::error::Result;

/// The minimum number of rows of a long piece.
const LONG: usize = 1 << 12;

/// Keys, column by column.
pub(super) struct Kept {
    schema: SchemaRef,
    /// Long pieces of each column.
    long: Vec<Vec<ArrayRef>>,
    /// The pieces after them, which are short.
    short: Vec<Vec<ArrayRef>>,
    /// The number of rows of the short pieces.
    waiting: usize,
    rows: usize,
    /// The bytes of all pieces.
    bytes: usize,
}

impl Kept {
    pub(super) fn new(schema: SchemaRef) -> Self {
        let columns = schema.fields().len();
        let none = || vec![Vec::new(); columns];
        Kept { long: none(), short: none(), schema, waiting: 0, rows: 0, bytes: 0 }
    }

    /// The number of rows.
    pub(super) fn len(&self) -> usize {
        self.rows
    }

    /// The memory in bytes.
    pub(super) fn size(&self) -> usize {
        self.bytes
    }

    /// Adds the first rows of groups, copied from their batches.
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

    /// All rows, as one array per column.
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

/// Copies views, so that they do not keep other bytes in memory.
fn alone(column: ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Utf8View => Arc::new(column.as_string_view().gc()),
        DataType::BinaryView => Arc::new(column.as_binary_view().gc()),
        _ => column,
    }
}
