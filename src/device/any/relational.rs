//! [`Relational`] on a device chosen at run time.

#[cfg(feature = "opencl")]
use super::opencl_side;
use super::{Any, AnyBuffer, cpu_side};
use crate::backend::{Accumulated, Expanded, KeySlots, Numbers, Relational, Spans, Wanted, WideAccumulated, Word};
use crate::error::Result;
use crate::scheme::Key;
use crate::scheme::shard::ShardOf;

impl Relational for Any {
    fn mark(&self, places: &AnyBuffer<u32>, len: usize) -> Result<AnyBuffer<u32>> {
        on_device!(self, |device, side| device.mark(side::of(places)?, len).map(side::wrap))
    }
    fn heads<T: Word>(&self, column: &AnyBuffer<T>) -> Result<AnyBuffer<u32>> {
        on_device!(self, |device, side| device.heads(side::of(column)?).map(side::wrap))
    }

    fn tails<T: Word>(&self, column: &AnyBuffer<T>) -> Result<AnyBuffer<u32>> {
        on_device!(self, |device, side| device.tails(side::of(column)?).map(side::wrap))
    }
    fn shards<K: Key>(&self, keys: &AnyBuffer<K>, which: &ShardOf) -> Result<AnyBuffer<u32>> {
        on_device!(self, |device, side| device.shards(side::of(keys)?, which).map(side::wrap))
    }
    fn ranks(&self, bits: &AnyBuffer<u32>, len: usize) -> Result<AnyBuffer<u32>> {
        on_device!(self, |device, side| device.ranks(side::of(bits)?, len).map(side::wrap))
    }
    fn scatter<T: Word>(&self, values: &AnyBuffer<T>, places: &AnyBuffer<u32>, len: usize) -> Result<AnyBuffer<T>> {
        on_device!(self, |device, side| device.scatter(side::of(values)?, side::of(places)?, len).map(side::wrap))
    }
    fn key_slots<K: Key>(&self, keys: &AnyBuffer<K>, bits: u32) -> Result<Option<KeySlots<AnyBuffer<u32>>>> {
        on_device!(self, |device, side| {
            let found = device.key_slots(side::of(keys)?, bits)?;
            Ok(found.map(|KeySlots { first_rows, of_rows }| KeySlots {
                first_rows: side::wrap(first_rows),
                of_rows: side::wrap(of_rows),
            }))
        })
    }
    fn spans(
        &self,
        starts: &AnyBuffer<u32>,
        ids: &AnyBuffer<u32>,
        found: &AnyBuffer<u32>,
        missing: Option<u32>,
    ) -> Result<Spans<AnyBuffer<u32>>> {
        on_device!(self, |device, side| {
            let Spans { starts, counts } =
                device.spans(side::of(starts)?, side::of(ids)?, side::of(found)?, missing)?;
            Ok(Spans { starts: side::wrap(starts), counts: side::wrap(counts) })
        })
    }
    fn offsets(&self, counts: &AnyBuffer<u32>) -> Result<AnyBuffer<u64>> {
        on_device!(self, |device, side| device.offsets(side::of(counts)?).map(side::wrap))
    }
    fn expand(
        &self,
        offsets: &AnyBuffer<u64>,
        starts: &AnyBuffer<u32>,
        first: u64,
        len: usize,
    ) -> Result<Expanded<AnyBuffer<u32>>> {
        on_device!(self, |device, side| {
            let Expanded { runs, places } = device.expand(side::of(offsets)?, side::of(starts)?, first, len)?;
            Ok(Expanded { runs: side::wrap(runs), places: side::wrap(places) })
        })
    }
    fn accumulate(
        &self,
        ids: &AnyBuffer<u32>,
        values: &AnyBuffer<u32>,
        groups: usize,
        wanted: Wanted,
    ) -> Result<Accumulated<Any>> {
        on_device!(self, |device, side| {
            let Accumulated { counts, sums, least, greatest } =
                device.accumulate(side::of(ids)?, side::of(values)?, groups, wanted)?;
            Ok(Accumulated {
                counts: side::wrap(counts),
                sums: side::wrap(sums),
                least: side::wrap(least),
                greatest: side::wrap(greatest),
            })
        })
    }
    fn accumulate_wide(
        &self,
        ids: &AnyBuffer<u32>,
        values: &AnyBuffer<u64>,
        of: Numbers,
        groups: usize,
        wanted: Wanted,
    ) -> Result<WideAccumulated<Any>> {
        on_device!(self, |device, side| {
            let WideAccumulated { counts, sums, means, least, greatest, overflow } =
                device.accumulate_wide(side::of(ids)?, side::of(values)?, of, groups, wanted)?;
            let (counts, sums, means) = (side::wrap(counts), side::wrap(sums), side::wrap(means));
            let (least, greatest) = (side::wrap(least), side::wrap(greatest));
            Ok(WideAccumulated { counts, sums, means, least, greatest, overflow })
        })
    }
    fn interleave(
        &self,
        cells: &AnyBuffer<u64>,
        lower: &AnyBuffer<u32>,
        bits: &AnyBuffer<u32>,
        empty: u64,
    ) -> Result<AnyBuffer<u64>> {
        on_device!(self, |device, side| {
            device.interleave(side::of(cells)?, side::of(lower)?, side::of(bits)?, empty).map(side::wrap)
        })
    }
}
