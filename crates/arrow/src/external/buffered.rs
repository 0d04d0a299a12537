//! Buffers a table, and partitions it into temporary files once it exceeds the limit.

use arrow_array::RecordBatch;

use super::hash::Hashing;
use super::parts::Parts;
use super::{Batches, Limit, Side, Stage, row_bytes, spill};
use crate::error::{Error, Result};

/// A table that was read.
pub(super) enum Collected {
    Buffered(Buffered),
    Partitioned(Parts),
}

/// Rows in memory, until they are too many.
#[derive(Default)]
pub(super) struct Buffered {
    pub(super) batches: Vec<RecordBatch>,
    pub(super) rows: u64,
    bytes: u64,
}

/// Bytes that a batch may hold besides its rows.
const SMALL: u64 = 64 << 10;

impl Buffered {
    fn push(&mut self, batch: RecordBatch) -> Result<()> {
        let bytes = row_bytes(&batch) as u64;
        // A slice of something much larger would keep all of that.
        let is_part = batch.get_array_memory_size() as u64 > 2 * bytes + SMALL;
        self.rows += batch.num_rows() as u64;
        self.bytes += bytes;
        self.batches.push(if is_part { spill::copied(&batch)? } else { batch });
        Ok(())
    }
}

/// Reads a whole table, and counts its rows.
pub(super) fn buffer_or_partition<E: From<Error> + Send>(
    side: &Side,
    table: Batches<'_, E>,
    rows: &mut u64,
    limit: &Limit,
    hashing: Hashing,
    watch: &dyn Fn(Stage),
) -> std::result::Result<Collected, E> {
    let mut collected = Collected::Buffered(Buffered::default());
    side.numbered(table, limit, rows, &mut |batch| {
        match &mut collected {
            Collected::Partitioned(parts) => parts.partition(side, &batch, hashing)?,
            Collected::Buffered(buffered) => {
                buffered.push(batch)?;
                if !limit.fits(buffered.rows, buffered.bytes) {
                    watch(Stage::Partitioning);
                    let mut parts = Parts::new(limit)?;
                    for batch in std::mem::take(buffered).batches {
                        parts.partition(side, &batch, hashing)?;
                    }
                    collected = Collected::Partitioned(parts);
                }
            }
        }
        Ok(())
    })?;
    Ok(collected)
}
