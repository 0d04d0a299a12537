//! The host side of cl/relational.cl and, for borders and `scatter`, of cl/columns.cl. `ranks` uses the tiles of
//! selection in primitives.rs; aggregates are in aggregate.rs and `key_slots` in key_slots.rs.

use std::ops::RangeInclusive;

use ocl::prm::Ulong4;

use super::scan::Scan;
use crate::backend::{
    Accumulated, DeviceBuffer, DeviceKind, Expanded, HashBackend, KeySlots, Numbers, Relational, Spans, Wanted,
    WideAccumulated, Word, bitmap_words,
};
use crate::error::{Error, Result};
use crate::opencl::runtime::program::RELATIONAL;
use crate::opencl::{Buffer, OpenCl};
use crate::scheme::Key;
use crate::scheme::shard::ShardOf;

/// Elements of one work-item in the expansion of a list.
const EXPANDS_EACH: usize = 8;

/// The numbers of elements that are partitioned before they are scattered: positions of a partition have 32 bits.
const PARTITIONED: RangeInclusive<usize> = 1 << 23..=MOST as usize;

/// The maximum number of runs and groups: their numbers have 32 bits, of which one value means "none".
const MOST: u64 = u32::MAX as u64;

impl OpenCl {
    pub(in crate::opencl) fn relational(&self) -> Result<ocl::core::Program> {
        self.program(RELATIONAL, &[("GROUP", self.pass_group() as u32), ("EACH", EXPANDS_EACH as u32)])
    }

    /// Elements of one group in the expansion of a list.
    pub(in crate::opencl) fn expand_tile(&self) -> usize {
        self.pass_group() * EXPANDS_EACH
    }

    /// As [`scatter`](Relational::scatter). Random writes to more memory than the cache holds are slow; after a pass
    /// that partitions them, they are not. The pass is omitted if there is not enough memory for it.
    pub(in crate::opencl) fn run_scatter<T: Word>(
        &self,
        values: &Buffer<T>,
        places: &Buffer<u32>,
        len: usize,
        is_partitioned: bool,
    ) -> Result<Buffer<T>> {
        let count = values.len();
        Error::check_length("the places", places.len(), count)?;
        let to = self.filled(len, T::zeroed())?;
        let parts = match is_partitioned.then(|| self.in_parts(places, values, len)) {
            None | Some(Err(Error::OutOfMemory { .. })) => None,
            Some(parts) => Some(parts?),
        };
        let (places, values) = parts.as_ref().map_or((places, values), |(places, values)| (places, values));
        let launch = self.kernel(&self.columns::<T>()?, "scatter")?.buffer(values).buffer(places).value(count as u64);
        launch.buffer(&to).value(len as u64).over_groups_of(self.pass_group(), count, count)?;
        Ok(to)
    }

    /// Marks the ends of runs with the kernel of this name.
    fn borders<T: Word>(&self, column: &Buffer<T>, name: &'static str) -> Result<Buffer<u32>> {
        let len = column.len();
        let bits = Buffer::allocate(self, bitmap_words(len))?;
        let launch = self.kernel(&self.columns::<T>()?, name)?.buffer(column).value(len as u64);
        launch.buffer(&bits).over_groups_of(self.pass_group(), bitmap_words(len) * size_of::<u32>(), len)?;
        Ok(bits)
    }
}

impl Relational for OpenCl {
    fn mark(&self, places: &Buffer<u32>, len: usize) -> Result<Buffer<u32>> {
        let bits = self.filled(bitmap_words(len), 0)?;
        let launch = self.kernel(&self.relational()?, "mark")?.buffer(places).value(places.len() as u64);
        launch.buffer(&bits).value(len as u64).over_groups_of(self.pass_group(), places.len(), places.len())?;
        Ok(bits)
    }

    fn heads<T: Word>(&self, column: &Buffer<T>) -> Result<Buffer<u32>> {
        self.borders(column, "heads")
    }

    fn tails<T: Word>(&self, column: &Buffer<T>) -> Result<Buffer<u32>> {
        self.borders(column, "tails")
    }

    fn shards<K: Key>(&self, keys: &Buffer<K>, which: &ShardOf) -> Result<Buffer<u32>> {
        let (len, narrow, wide) = (keys.len(), which.narrow, which.wide);
        let mixer = match K::BITS {
            u32::BITS => [narrow.before, narrow.times, narrow.back, narrow.between].map(u64::from),
            _ => [wide.before, wide.times, wide.back, wide.between],
        };
        let shards = Buffer::allocate(self, len)?;
        let launch = self.kernel(&self.columns::<K>()?, "shards")?.buffer(keys).value(len as u64);
        let launch = launch.value(Ulong4::from(mixer)).value(which.shards as u32);
        launch.buffer(&shards).over_groups_of(self.pass_group(), len, len)?;
        Ok(shards)
    }

    fn ranks(&self, bits: &Buffer<u32>, len: usize) -> Result<Buffer<u32>> {
        self.run_ranks(bits, len)
    }

    fn scatter<T: Word>(&self, values: &Buffer<T>, places: &Buffer<u32>, len: usize) -> Result<Buffer<T>> {
        let is_partitioned = PARTITIONED.contains(&values.len()) && self.0.info.kind != DeviceKind::Cpu;
        self.run_scatter(values, places, len, is_partitioned)
    }

    fn key_slots<K: Key>(&self, keys: &Buffer<K>, bits: u32) -> Result<Option<KeySlots<Buffer<u32>>>> {
        self.run_key_slots(keys, bits)
    }

    fn spans(
        &self,
        starts: &Buffer<u32>,
        ids: &Buffer<u32>,
        found: &Buffer<u32>,
        missing: Option<u32>,
    ) -> Result<Spans<Buffer<u32>>> {
        let len = ids.len();
        Error::check_length("the bitmap", found.len(), bitmap_words(len))?;
        let spans = Spans { starts: Buffer::allocate(self, len)?, counts: Buffer::allocate(self, len)? };
        let launch = self.kernel(&self.relational()?, "spans")?.buffer(starts).value(starts.len() as u64);
        let launch = launch.buffer(ids).buffer(found).value(missing.unwrap_or(0)).value(u32::from(missing.is_some()));
        let launch = launch.value(len as u64).buffer(&spans.starts).buffer(&spans.counts);
        launch.over_groups_of(self.pass_group(), len, len)?;
        Ok(spans)
    }

    /// One pass of 12 bytes per count, then a scan.
    fn offsets(&self, counts: &Buffer<u32>) -> Result<Buffer<u64>> {
        let len = counts.len();
        let offsets = Buffer::allocate(self, len + 1)?;
        let launch = self.kernel(&self.relational()?, "widen")?.stage("offsets").buffer(counts).value(len as u64);
        launch.buffer(&offsets).over_groups_of(self.pass_group(), len + 1, len)?;
        Scan::of(self, len + 1)?.in_stage("offsets").run(&offsets)?;
        Ok(offsets)
    }

    fn expand(
        &self,
        offsets: &Buffer<u64>,
        starts: &Buffer<u32>,
        first: u64,
        len: usize,
    ) -> Result<Expanded<Buffer<u32>>> {
        let runs = starts.len();
        Error::check_length("the offsets", offsets.len(), runs + 1)?;
        check_most("runs", runs)?;
        if runs == 0 {
            return Ok(Expanded { runs: self.filled(len, 0)?, places: self.filled(len, 0)? });
        }
        let program = self.relational()?;
        let borders = Buffer::<u32>::allocate(self, len.div_ceil(self.expand_tile()) + 1)?;
        let launch = self.kernel(&program, "expand_borders")?.stage("expand").buffer(offsets).value(runs as u32);
        let launch = launch.value(first).value(len as u64).buffer(&borders).value(borders.len() as u64);
        launch.over_groups_of(self.pass_group(), borders.len(), 0)?;
        let expanded = Expanded { runs: Buffer::allocate(self, len)?, places: Buffer::allocate(self, len)? };
        let launch = self.kernel(&program, "expand")?.buffer(offsets).value(runs as u32).buffer(starts);
        let launch = launch.value(first).value(len as u64).buffer(&borders);
        let launch = launch.buffer(&expanded.runs).buffer(&expanded.places);
        launch.over_groups_of(self.pass_group(), len.div_ceil(EXPANDS_EACH), len)?;
        Ok(expanded)
    }

    fn accumulate(
        &self,
        ids: &Buffer<u32>,
        values: &Buffer<u32>,
        groups: usize,
        wanted: Wanted,
    ) -> Result<Accumulated<OpenCl>> {
        check_most("groups", groups)?;
        self.run_accumulate(ids, values, groups, wanted)
    }

    fn accumulate_wide(
        &self,
        ids: &Buffer<u32>,
        values: &Buffer<u64>,
        of: Numbers,
        groups: usize,
        wanted: Wanted,
    ) -> Result<WideAccumulated<OpenCl>> {
        check_most("groups", groups)?;
        self.run_accumulate_wide(ids, values, of, groups, wanted)
    }

    fn interleave(
        &self,
        cells: &Buffer<u64>,
        lower: &Buffer<u32>,
        bits: &Buffer<u32>,
        empty: u64,
    ) -> Result<Buffer<u64>> {
        let len = lower.len();
        Error::check_length("the cells", cells.len(), len.div_ceil(2))?;
        Error::check_length("the bitmap", bits.len(), bitmap_words(len))?;
        let words = Buffer::allocate(self, len)?;
        let launch = self.kernel(&self.relational()?, "interleave")?.buffer(cells).buffer(lower).value(len as u64);
        launch.buffer(bits).value(empty).buffer(&words).over_groups_of(self.pass_group(), len, len)?;
        Ok(words)
    }
}

/// Returns an error if there are more than [`MOST`].
fn check_most(what: &'static str, requested: usize) -> Result<()> {
    if requested as u64 > MOST {
        Err(Error::TooLarge { what, requested: requested as u64, most: MOST })
    } else {
        Ok(())
    }
}
