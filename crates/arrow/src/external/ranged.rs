//! Tables whose morsels have known ranges of keys.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use super::{Batches, Morsel};

/// A function that reads a morsel as [`Morsel`] does, but can be called any number of times, also concurrently.
pub type ReadMorsel<'a, E> = Arc<
    dyn Fn(&mut dyn FnMut(RecordBatch) -> std::result::Result<(), E>) -> std::result::Result<(), E> + Send + Sync + 'a,
>;

/// The least and the greatest key of some rows, as integers.
pub type KeyRange = (i128, i128);

/// A morsel with the range of its keys.
pub struct RangedMorsel<'a, E> {
    /// Bounds of the keys; `None` if there are no keys, because there are no rows or only nulls.
    pub keys: Option<KeyRange>,
    /// The number of rows.
    pub rows: u64,
    /// The approximate number of bytes of the rows in addition to their values of fixed width.
    pub bytes: u64,
    /// Reads the rows.
    pub read: ReadMorsel<'a, E>,
}

impl<'a, E: 'a> Batches<'a, E> {
    /// A table of morsels with known ranges of column `key`, as the metadata of a Parquet file states them. If both
    /// tables of a [`Join`](super::Join) or of [`IsIn`](super::IsIn) are sorted by their key, or at least partitioned
    /// into ascending ranges of it, only a few morsels of each are in memory.
    ///
    /// This applies to one key column of integers, dates, times or timestamps, whose ranges are those of the integers
    /// by which Arrow represents them; to unequal nulls; to inner, left, semi and anti joins; to one CPU; and to left
    /// tables with several morsels per thread. In all other cases the ranges are ignored. If they are used, a key
    /// outside its range is an error ([`Error::KeyRange`](crate::Error::KeyRange)).
    ///
    /// ```
    /// use std::sync::Arc;
    /// use arrow_array::{ArrayRef, Int64Array, RecordBatch};
    /// use koel_arrow::Error;
    /// use koel_arrow::external::{Batches, RangedMorsel};
    ///
    /// let column = |first: i64| Arc::new(Int64Array::from_iter_values(first..first + 1000)) as ArrayRef;
    /// let schema = RecordBatch::try_from_iter([("k", column(0))])?.schema();
    /// let morsels = (0..8).map(|part| RangedMorsel {
    ///     keys: Some((1000 * part, 1000 * part + 999)),
    ///     rows: 1000,
    ///     bytes: 0,
    ///     read: Arc::new(move |take| take(RecordBatch::try_from_iter([("k", column(1000 * part as i64))])?)),
    /// });
    /// let table: Batches<'_, Error> = Batches::of_ranges(schema, 0, morsels);
    /// assert_eq!(table.schema().fields().len(), 1);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn of_ranges(schema: SchemaRef, key: usize, morsels: impl IntoIterator<Item = RangedMorsel<'a, E>>) -> Self {
        let ranged: Vec<RangedMorsel<'a, E>> = morsels.into_iter().collect();
        let reads: Vec<_> = ranged.iter().map(|morsel| Arc::clone(&morsel.read)).collect();
        let morsels =
            reads.into_iter().map(|read| Ok(Box::new(move |take: &mut dyn FnMut(_) -> _| read(take)) as Morsel<'a, E>));
        Batches { ranged: Some((key, ranged)), ..Batches::of_morsels(schema, morsels) }
    }
}

impl<E> std::fmt::Debug for RangedMorsel<'_, E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("RangedMorsel");
        shown.field("keys", &self.keys).field("rows", &self.rows).field("bytes", &self.bytes).finish_non_exhaustive()
    }
}
