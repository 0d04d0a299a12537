//! Buffers a table, and partitions it into temporary files once it exceeds the limit.

use arrow_array::RecordBatch;
use arrow_select::concat::concat_batches;

use super::hash::Hashing;
use super::parts::{Parts, with_numbers};
use super::{Batches, Limit, Side, Stage, first_number, spill};
use crate::error::{Error, Result};

/// A table that was read: buffered, or partitioned.
pub(super) enum Collected {
    Buffered(Buffered),
    Partitioned(Parts),
}

/// Rows in memory, up to the limit.
#[derive(Default)]
pub(super) struct Buffered {
    /// The rows, without their numbers.
    pub(super) batches: Vec<RecordBatch>,
    pub(super) rows: u64,
    bytes: u64,
    /// The number of short batches at the end.
    short: usize,
}

/// The number of bytes that the buffers of a batch may have in addition to its rows.
const SMALL: u64 = 64 << 10;

/// Batches with fewer bytes, such as the groups of a morsel, are short. `MOST_SHORT` adjacent short batches are
/// concatenated, because each array takes about 100 bytes in addition to its rows.
const SHORT: u64 = 16 << 10;
const MOST_SHORT: usize = 256;

impl Buffered {
    /// Adds rows that have this number of bytes.
    fn push(&mut self, batch: RecordBatch, bytes: u64, limit: &Limit) -> Result<()> {
        // A slice of a much larger batch would keep the whole batch in memory.
        let is_part = limit.is_set() && batch.get_array_memory_size() as u64 > 2 * bytes + SMALL;
        self.rows += batch.num_rows() as u64;
        self.bytes += bytes;
        self.short = if bytes < SHORT { self.short + 1 } else { 0 };
        self.batches.push(if is_part { spill::copied(&batch)? } else { batch });
        if self.short == MOST_SHORT {
            let short = self.batches.split_off(self.batches.len() - MOST_SHORT);
            self.batches.push(concat_batches(&short[0].schema(), &short)?);
            self.short = 0;
        }
        Ok(())
    }

    /// The rows with their numbers.
    pub(super) fn numbered(self, side: &Side) -> impl Iterator<Item = Result<RecordBatch>> + use<'_> {
        let mut next = first_number();
        self.batches.into_iter().map(move |batch| {
            let first = next;
            next += batch.num_rows() as u64;
            with_numbers(&side.schema, &batch, first)
        })
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
    side.read(table, limit, rows, &mut |batch, first, bytes| {
        match &mut collected {
            Collected::Partitioned(parts) => {
                parts.partition(side, &with_numbers(&side.schema, &batch, first)?, hashing)?;
            }
            Collected::Buffered(buffered) => {
                buffered.push(batch, bytes, limit)?;
                if !limit.fits(buffered.rows, buffered.bytes) {
                    watch(Stage::Partitioning);
                    let mut parts = Parts::new(limit)?;
                    for batch in std::mem::take(buffered).numbered(side) {
                        parts.partition(side, &batch?, hashing)?;
                    }
                    collected = Collected::Partitioned(parts);
                }
            }
        }
        Ok(())
    })?;
    Ok(collected)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    use arrow_array::{ArrayRef, Int64Array};

    use super::*;

    #[test]
    fn short_batches_become_one() -> Result<()> {
        let mut buffered = Buffered::default();
        let mut first = 0;
        for rows in std::iter::repeat_n(3, 700).chain([5000]).chain(std::iter::repeat_n(1, 300)) {
            let column: ArrayRef = Arc::new(Int64Array::from_iter_values(first..first + rows));
            buffered.push(RecordBatch::try_from_iter([("a", column)])?, 8 * rows as u64, &Limit::new(1 << 30))?;
            first += rows;
        }
        assert!(buffered.batches.len() < 300, "{}", buffered.batches.len());
        let values = buffered.batches.iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values());
        assert!(values.copied().eq(0..first));
        assert_eq!((buffered.rows, buffered.bytes), (first as u64, 8 * first as u64));
        Ok(())
    }
}
