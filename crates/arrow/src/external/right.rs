//! Right rows in memory, the index of them on each device, and which of them have a match on that device.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use arrow_array::RecordBatch;
use arrow_buffer::BooleanBufferBuilder;
use arrow_schema::{DataType, Field};
use koel::{Any, JoinKind, NO_ROW};

use super::Side;
use super::lengths::Lengths;
use crate::encode::NullEquality;
use crate::error::Result;
use crate::join::RightKeys;
use crate::keys::{Column, Keys};
use crate::prepared::PreparedJoin;

/// The right rows of a join.
pub(super) struct RightRows {
    pub(super) columns: Vec<Column>,
    keys: Keys,
    /// The lengths of the columns that the result has.
    pub(super) lengths: Lengths,
}

impl RightRows {
    /// Creates the value from batches. The result has the columns with the indices `shown`.
    pub(super) fn new(side: &Side, batches: Vec<RecordBatch>, shown: &[usize]) -> Result<Self> {
        // Concatenating large pieces would double their memory for a while.
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        let are_large = rows / batches.len().max(1) >= LARGE;
        let stays = |at| are_large && !side.keys.contains(&at) && may_stay(side.schema.field(at).data_type());
        let columns = side.columns_in_pieces(&side.schema, batches, &stays)?;
        Self::of(side, columns, shown, false)
    }

    /// As [`new`](Self::new), on one thread. Columns remain in pieces if [`may_stay`] allows it.
    pub(super) fn alone(side: &Side, batches: &[RecordBatch], shown: &[usize]) -> Result<Self> {
        let column = |(at, field): (usize, &Arc<Field>)| {
            let pieces = batches.iter().map(|batch| Arc::clone(batch.column(at))).collect();
            let column = Column::of_chunks(field.name(), field.data_type(), pieces)?;
            if may_stay(field.data_type()) { Ok(column) } else { column.one_piece().or(Ok(column)) }
        };
        let columns = side.unnumbered.fields().iter().enumerate().map(column).collect::<Result<_>>()?;
        Self::of(side, columns, shown, true)
    }

    /// The rows of a prepared right side. They may be in a mapped file, so the length of each is not read.
    pub(super) fn prepared(of: &PreparedJoin, shown: &[usize]) -> Self {
        let columns = of.columns().to_vec();
        let lengths = Lengths::mean(shown.iter().flat_map(|&at| columns[at].chunks()), of.len());
        RightRows { columns, keys: of.keys().clone(), lengths }
    }

    fn of(side: &Side, columns: Vec<Column>, shown: &[usize], alone: bool) -> Result<Self> {
        let keys = Keys::new(side.keys.iter().map(|&key| columns[key].clone()).collect())?;
        let lengths = Lengths::of(shown.iter().map(|&at| columns[at].chunks()), keys.len(), alone);
        Ok(RightRows { columns, keys, lengths })
    }
}

/// Whether columns of this type may remain in pieces. Dictionaries and nested types may not, because their pieces may
/// have different dictionaries.
pub(super) fn may_stay(of: &DataType) -> bool {
    !of.is_nested() && !matches!(of, DataType::Dictionary(..))
}

/// The least number of rows of a large piece of a column.
pub(super) const LARGE: usize = 1 << 14;

/// Right rows, and their index on one device.
pub(super) struct Indexed<'a> {
    pub(super) rows: &'a RightRows,
    index: Index<'a>,
    /// A bit per row that has a match on this device; `None` if that is not needed. Threads set bits concurrently.
    seen: Option<Vec<AtomicU64>>,
}

enum Index<'a> {
    Own(Box<RightKeys>),
    Of(&'a RightKeys),
}

impl<'a> Indexed<'a> {
    pub(super) fn new(device: &Any, rows: &'a RightRows, how: JoinKind, nulls: NullEquality) -> Result<Self> {
        let index = Index::Own(RightKeys::new(device, &rows.keys, nulls)?.into());
        let words = rows.keys.len().div_ceil(WORD);
        let seen = how.keeps_right().then(|| (0..words).map(|_| AtomicU64::new(0)).collect());
        Ok(Indexed { rows, index, seen })
    }

    /// Uses an existing index of the rows, for joins that do not return unmatched right rows.
    pub(super) fn with(rows: &'a RightRows, index: &'a RightKeys) -> Self {
        Indexed { rows, index: Index::Of(index), seen: None }
    }

    pub(super) fn index(&self) -> &RightKeys {
        match &self.index {
            Index::Own(index) => index,
            Index::Of(index) => index,
        }
    }

    /// Marks these rows as matched.
    pub(super) fn see(&self, rows: &[u32]) {
        let Some(seen) = &self.seen else { return };
        for row in rows.iter().filter(|&&row| row != NO_ROW).map(|&row| row as usize) {
            let (word, bit) = (&seen[row / WORD], 1 << (row % WORD));
            // A load first: most rows of frequent keys are marked already, and a write would invalidate the cache line
            // of other threads.
            if word.load(Relaxed) & bit == 0 {
                word.fetch_or(bit, Relaxed);
            }
        }
    }

    /// The rows without a match on any of these devices; none if the join does not return them.
    pub(super) fn unseen(of_devices: &[Indexed<'_>]) -> Vec<u32> {
        let seen: Vec<&[AtomicU64]> = of_devices.iter().filter_map(|of| of.seen.as_deref()).collect();
        let rows = if seen.is_empty() { 0 } else { of_devices[0].rows.keys.len() };
        let is_seen = |row: usize| seen.iter().any(|seen| seen[row / WORD].load(Relaxed) >> (row % WORD) & 1 == 1);
        (0..rows).filter(|&row| !is_seen(row)).map(|row| row as u32).collect()
    }
}

/// The number of bits of a word.
const WORD: usize = u64::BITS as usize;

/// `len` bits, all 0.
pub(super) fn bits(len: usize) -> BooleanBufferBuilder {
    let mut bits = BooleanBufferBuilder::new(len);
    bits.append_n(len, false);
    bits
}
