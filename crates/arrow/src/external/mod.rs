//! Joins and groups under a memory limit: tables are read in batches, and rows that do not fit are spilled.
//!
//! ```text
//! join         indexes the right table if it fits, and looks up left batches in it       (join.rs, right.rs)
//!              otherwise partitions both by hash, and joins one partition at a time      (pair.rs)
//! group        groups the table if it fits                                               (group.rs, grouping.rs)
//!              otherwise partitions it, and groups one partition at a time
//!              aggregates a key with too many rows in pieces                             (fold.rs, sums.rs)
//!
//! buffered.rs  a table, buffered or partitioned    parts.rs    partitions, whose rows have their numbers
//! hash.rs      hashes of keys                      merge.rs    results of partitions in the order of row numbers
//! ordered.rs   morsels on all threads, in order    devices.rs  several devices at work
//! spill.rs     batches in a file                   spool.rs    tables that are read twice, in memory or in a file
//! limit.rs     what fits                           lengths.rs  bytes of rows that are concatenated
//! flat.rs      columns without dictionaries        memory.rs   whether memory is available
//! preaggregate.rs, states.rs  groups of morsels        sorted.rs   groups of morsels of a sorted table
//! windows.rs, merge_join.rs   joins of sorted tables   ranged.rs   morsels with known ranges of keys
//! is_in.rs     rows whose keys are among other keys    exact_sums.rs  sums of doubles that are merged
//! ```
//!
//! Batches are split by the bytes of their rows; the greatest number of rows only bounds a unit of work.
//!
//! Several devices share the left batches if the right table fits, and otherwise the partitions, each within its share
//! of the limit. The result is the same as with one device: the rows, their order and all bits.
//!
//! The result equals that of [`join`](fn@crate::join) and [`group_by`](crate::group_by), row for row and in the same
//! order: each left row and each key is in one partition, and results are sorted by row numbers. Row numbers have 64
//! bits, so there may be more than 2^32 rows.
//!
//! Columns of dictionaries are returned as columns of their values ([`result_type`]), unless nothing can be spilled
//! ([`Limit::none`]).
//!
//! The work needs at least the memory for a batch of each side: rows of one key that exceed the limit are processed in
//! pieces. The limit is an upper bound: it is not allocated at once.

mod buffered;
#[cfg(test)]
mod device_tests;
mod devices;
mod exact_sums;
pub(crate) mod flat;
mod fold;
mod group;
mod grouping;
pub(crate) mod hash;
mod is_in;
mod join;
mod lengths;
mod limit;
mod memory;
#[cfg(test)]
mod memory_tests;
mod merge;
mod merge_join;
#[cfg(test)]
mod number_tests;
mod ordered;
#[cfg(test)]
mod ordered_tests;
mod pair;
mod parts;
mod preaggregate;
#[cfg(test)]
mod preaggregate_tests;
mod ranged;
mod right;
mod sorted;
mod spill;
mod spool;
mod states;
mod sums;
#[cfg(test)]
mod tests;
mod windows;
#[cfg(test)]
mod windows_tests;

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{ArrowError, SchemaRef};
use arrow_select::concat::concat_batches;
use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::keys::{Column, Keys};

use devices::Emit;
use merge_join::BatchKeys;
use ordered::{Ahead, in_order};

pub(crate) use exact_sums::merged;
pub use flat::{flattened, result_type};
pub use group::{GroupBy, Grouped, Of};
pub use is_in::IsIn;
pub use join::{Join, JoinedRows, Output};
pub use limit::Limit;
pub use ranged::{KeyRange, RangedMorsel, ReadMorsel};
#[doc(hidden)]
pub use spill::read_at;
pub(crate) use spill::write_at;
pub use spool::Spooled;

pub use crate::sizes::{row_bytes, rows_within};

/// A part of a table that is not read yet: a function that calls its argument with batches, in the order of their rows,
/// and returns the argument's error, if any. Threads run morsels at the same time, so reading and decoding are
/// parallel.
pub type Morsel<'a, E> = MorselOf<'a, E, RecordBatch>;

/// A morsel of values of type `T`: batches, or batches together with other input of the work on them, such as the right
/// rows of a window.
type MorselOf<'a, E, T> =
    Box<dyn FnOnce(&mut dyn FnMut(T) -> std::result::Result<(), E>) -> std::result::Result<(), E> + Send + 'a>;

/// A table as morsels, in the order of its rows. `E` is the error type of its reader.
pub struct Batches<'a, E> {
    schema: SchemaRef,
    morsels: Box<dyn Iterator<Item = std::result::Result<Morsel<'a, E>, E>> + 'a>,
    /// The key column and the morsels, if the ranges of their keys are known.
    ranged: Option<(usize, Vec<RangedMorsel<'a, E>>)>,
}

impl<'a, E> Batches<'a, E> {
    /// A table of batches with this schema. The calling thread reads them; a large batch becomes several morsels.
    pub fn new(
        schema: SchemaRef,
        batches: impl IntoIterator<Item = std::result::Result<RecordBatch, E>, IntoIter: 'a>,
    ) -> Self
    where
        E: 'a,
    {
        let morsel = |slice: RecordBatch| -> Morsel<'a, E> { Box::new(|take| take(slice)) };
        let morsels = batches.into_iter().flat_map(move |batch| {
            let (batch, error) = batch.map_or_else(|error| (None, Some(Err(error))), |batch| (Some(batch), None));
            batch.into_iter().flat_map(slices).map(move |slice| Ok(morsel(slice))).chain(error)
        });
        Self::of_morsels(schema, morsels)
    }

    /// A table of morsels whose batches have this schema. The calling thread calls the iterator, and any thread runs
    /// morsels. A few of them per thread are in memory at a time, so a morsel should have 2^16 to 2^18 rows.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use arrow_array::{ArrayRef, Int64Array, RecordBatch};
    /// use koel_arrow::Error;
    /// use koel_arrow::external::{Batches, Morsel};
    ///
    /// let column = |first: i64| Arc::new(Int64Array::from_iter_values(first..first + 1000)) as ArrayRef;
    /// let schema = RecordBatch::try_from_iter([("k", column(0))])?.schema();
    /// let morsels = (0..8).map(move |part| -> Result<Morsel<'_, Error>, Error> {
    ///     Ok(Box::new(move |take| take(RecordBatch::try_from_iter([("k", column(1000 * part))])?)))
    /// });
    /// let table = Batches::of_morsels(schema, morsels);
    /// assert_eq!(table.schema().fields().len(), 1);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn of_morsels(
        schema: SchemaRef,
        morsels: impl IntoIterator<Item = std::result::Result<Morsel<'a, E>, E>, IntoIter: 'a>,
    ) -> Self {
        Batches { schema, morsels: Box::new(morsels.into_iter()), ranged: None }
    }

    /// The schema of the table.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }
}

/// Splits a batch into slices of at most [`MORSEL_ROWS`] rows and about [`MORSEL_BYTES`], but at least one row each.
fn slices(batch: RecordBatch) -> impl Iterator<Item = RecordBatch> {
    let mut start = 0;
    std::iter::from_fn(move || {
        let rows = MORSEL_ROWS.min(batch.num_rows() - start);
        if rows == 0 {
            return None;
        }
        let slice = batch.slice(start, rows);
        let rows = rows_within(&slice, MORSEL_BYTES).0.clamp(1, rows);
        start += rows;
        Some(slice.slice(0, rows))
    })
}

/// The greatest number of rows of a batch that becomes one morsel.
const MORSEL_ROWS: usize = 1 << 16;
/// The greatest number of bytes of a morsel, as counted by [`row_bytes`]. A longer row is a separate morsel.
const MORSEL_BYTES: usize = 4 << 20;

impl<E> std::fmt::Debug for Batches<'_, E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batches").field("schema", &self.schema).finish_non_exhaustive()
    }
}

/// A stage of the work, for progress reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stage {
    /// Rows do not fit in memory, and are partitioned into temporary files.
    Partitioning,
    /// The number of the part, from 1, and the number of parts.
    Part(usize, usize),
    /// Results are merged and returned.
    Merging,
}

/// The number of a table's first row.
fn first_number() -> u64 {
    #[cfg(test)]
    return FIRST_NUMBER.get();
    #[cfg(not(test))]
    0
}

#[cfg(test)]
thread_local! {
    /// The number of the first row. Tests set it to simulate many earlier rows.
    static FIRST_NUMBER: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// A table, and which of its columns are its keys.
struct Side {
    /// The columns as they are spilled: the row number is the last one.
    schema: SchemaRef,
    /// The same columns without the row number, as rows are in memory.
    unnumbered: SchemaRef,
    keys: Vec<usize>,
    /// The scales at which keys are hashed, if they differ from those of the other table.
    scales: Option<Vec<i8>>,
}

impl Side {
    fn new(schema: &SchemaRef, keys: Vec<usize>, limit: &Limit) -> Result<Self> {
        if let Some(&missing) = keys.iter().find(|&&key| key >= schema.fields().len()) {
            let what = format!("key column {missing} of {}", schema.fields().len());
            return Err(ArrowError::SchemaError(what).into());
        }
        let unnumbered = parts::schema_within(limit, schema);
        let side = Side { schema: parts::numbered_schema(&unnumbered), unnumbered, keys, scales: None };
        // Types that cannot be keys are rejected before any rows are read.
        side.keys.iter().try_for_each(|&key| {
            let field = side.schema.field(key);
            crate::probe::check_key(field.name(), field.data_type())
        })?;
        Ok(side)
    }

    /// Splits the batches of a table into pieces of about `bytes` bytes, but at least one row. The calling thread runs
    /// the morsels.
    fn pieces<E: From<Error>>(
        &self,
        table: Batches<'_, E>,
        bytes: u64,
    ) -> impl Iterator<Item = std::result::Result<RecordBatch, E>> {
        table.morsels.flat_map(move |morsel| {
            let mut batches = Vec::new();
            let read = morsel.and_then(|morsel| {
                morsel(&mut |batch| {
                    batches.push(batch);
                    Ok(())
                })
            });
            let pieces = batches.into_iter().flat_map(move |batch| self.cut(batch, bytes)).map(|piece| Ok(piece?));
            pieces.chain(read.err().map(Err))
        })
    }

    /// As [`pieces`](Self::pieces), with consecutive pieces of up to `at_once` bytes at a time: devices are faster with
    /// many rows, and morsels are small.
    fn several<E: From<Error>>(
        &self,
        table: Batches<'_, E>,
        bytes: u64,
        at_once: u64,
    ) -> impl Iterator<Item = std::result::Result<Vec<RecordBatch>, E>> {
        let mut pieces = self.pieces(table, bytes).peekable();
        std::iter::from_fn(move || {
            let mut several = vec![match pieces.next()? {
                Ok(piece) => piece,
                Err(error) => return Some(Err(error)),
            }];
            let mut size = row_bytes(&several[0]) as u64;
            let fits = |piece: &std::result::Result<RecordBatch, E>, size: u64| {
                piece.as_ref().is_ok_and(|piece| size + row_bytes(piece) as u64 <= at_once)
            };
            while let Some(Ok(piece)) = pieces.next_if(|piece| fits(piece, size)) {
                size += row_bytes(&piece) as u64;
                several.push(piece);
            }
            Some(Ok(several))
        })
    }

    /// As [`several`](Self::several), concatenated.
    fn gathered<E: From<Error>>(
        &self,
        table: Batches<'_, E>,
        bytes: u64,
        at_once: u64,
    ) -> impl Iterator<Item = std::result::Result<RecordBatch, E>> {
        let whole = |mut several: Vec<RecordBatch>| match &several[..] {
            [_] => Ok(several.swap_remove(0)),
            _ => {
                memory::check(several.iter().map(|piece| row_bytes(piece) as u64).sum())?;
                Ok(concat_batches(&self.unnumbered, &several)?)
            }
        };
        self.several(table, bytes, at_once).map(move |several| whole(several?).map_err(E::from))
    }

    /// Calls `take` with each piece, the number of its first row, and its bytes. `rows` counts the rows. All threads
    /// run morsels and split batches; the calling thread calls `take`.
    fn read<E: From<Error> + Send>(
        &self,
        mut table: Batches<'_, E>,
        limit: &Limit,
        rows: &mut u64,
        take: &mut dyn FnMut(RecordBatch, u64, u64) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let work = |batch: &RecordBatch, emit: Emit<'_, RecordBatch>| {
            self.cut(batch.clone(), limit.batch_bytes()).try_for_each(|piece| emit(piece?))
        };
        let mut take = |piece: RecordBatch, bytes: Option<u64>| {
            let first = first_number() + *rows;
            *rows += piece.num_rows() as u64;
            let bytes = bytes.unwrap_or_else(|| row_bytes(&piece) as u64);
            take(piece, first, bytes)
        };
        in_order(&mut table.morsels, Ahead::of(limit)?, &work, &mut take).map(drop)
    }

    fn cut(&self, batch: RecordBatch, bytes: u64) -> impl Iterator<Item = Result<RecordBatch>> + use<> {
        parts::pieces(Arc::clone(&self.unnumbered), batch, bytes as usize)
    }

    /// The single key of a batch of one side, which must be within the range.
    fn range_keys(&self, batch: &RecordBatch, range: Option<KeyRange>, is_left: bool) -> Result<BatchKeys> {
        let key = self.keys[0];
        BatchKeys::new(self.schema.field(key).name(), batch.column(key), range, is_left)
    }

    fn keys_of(&self, batch: &RecordBatch) -> Result<Keys> {
        let column = |&key: &usize| Column::new(self.schema.field(key).name(), Arc::clone(batch.column(key)));
        Keys::new(self.keys.iter().map(column).collect())
    }

    /// The keys of several batches.
    fn keys_of_all(&self, batches: &[RecordBatch]) -> Result<Keys> {
        let column = |&key: &usize| {
            let pieces = batches.iter().map(|batch| Arc::clone(batch.column(key))).collect();
            Column::of_chunks(self.schema.field(key).name(), self.schema.field(key).data_type(), pieces)
        };
        Keys::new(self.keys.iter().map(column).collect::<Result<_>>()?)
    }

    /// All columns of these batches, each in one piece if it fits in one.
    fn columns(&self, batches: Vec<RecordBatch>) -> Result<Vec<Column>> {
        self.columns_in_pieces(&self.schema, batches, &|_| false)
    }

    /// All columns of these batches, which have this schema, each in one piece unless `stays` says that it remains in
    /// pieces.
    fn columns_in_pieces(
        &self,
        schema: &SchemaRef,
        batches: Vec<RecordBatch>,
        stays: &(dyn Fn(usize) -> bool + Sync),
    ) -> Result<Vec<Column>> {
        memory::check(batches.iter().map(|batch| row_bytes(batch) as u64).sum())?;
        let mut columns: Vec<Vec<ArrayRef>> = vec![Vec::with_capacity(batches.len()); schema.fields().len()];
        for batch in batches {
            columns.iter_mut().zip(batch.columns()).for_each(|(pieces, column)| pieces.push(Arc::clone(column)));
        }
        let column = |(at, (pieces, field)): (usize, (Vec<ArrayRef>, &Arc<arrow_schema::Field>))| {
            let column = Column::of_chunks(field.name(), field.data_type(), pieces)?;
            Ok(if stays(at) { column } else { column.one_piece().unwrap_or(column) })
        };
        columns.into_par_iter().zip(&schema.fields()[..]).enumerate().map(column).collect()
    }
}

/// A batch with this number of rows, even without columns.
pub(crate) fn batch_of(schema: &SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}

/// The batch without its last column, the row numbers.
fn without_numbers(schema: &SchemaRef, batch: &RecordBatch) -> Result<RecordBatch> {
    let columns = &batch.columns()[..batch.num_columns().saturating_sub(1)];
    batch_of(schema, columns.to_vec(), batch.num_rows())
}
