//! Builds of tables of lines one partition at a time: the host side of cl/bucketized_wide_partition.cl and
//! cl/bucketized_wide_parts.cl.
//!
//! ```text
//! partition  rows to coarse regions, and from there to the lines of their parts
//! place      each part in local memory
//! the rest   place escapes in the whole image; sort the lines that received them; search for duplicates; write the
//!            values of escapes, and of pairs that they displaced; if there were duplicates, write all values again
//! ```

use ocl::core::Program;

use super::{DeviceKey, parameters};
use crate::backend::{BuildRoute, DeviceBuffer as _, HashBackend as _, Placed};
use crate::error::Result;
use crate::opencl::passes::parts::Partitioning;
use crate::opencl::passes::tally::Tally;
use crate::opencl::runtime::launch::Launch;
use crate::opencl::runtime::program::{BUCKETIZED_WIDE_PARTITION, BUCKETIZED_WIDE_PARTS};
use crate::opencl::{Buffer, OpenCl};
use crate::scheme::Plan as _;
use crate::scheme::bucketized::wide::{LINE_WORDS, Layout, LineFunctions, LinePlan};

/// Work-items of a group that places a part. On an H100, groups of 128 built sets in 7/8 of the time of 256, and groups
/// of 256 built pairs in 3/4 of the time of 128.
const fn group<L: Layout>() -> u32 {
    if L::VALUES.is_some() { 256 } else { 128 }
}

/// The maximum number of work-items that place escapes in turn.
const MOST_ITEMS: u64 = 1 << 19;

/// The maximum number of sections of the list of pairs that escapes displace (cl/bucketized_wide_parts.clh).
pub(super) const SECTIONS: u32 = 1024;

/// The distance from one section's count to the next one's.
pub(super) const SECTION_STRIDE: u32 = 32;

/// One pair in this many may leave its part, or be displaced by one that did, at loads up to 0.92. At 0.90 this happens
/// to one in 40, in lines of four, and at 0.96 to one in six.
const ESCAPES_SHARE: usize = 16;

/// Local memory of a group, rounded up.
const LOCAL_BYTES: u64 = 27 << 10;

/// A new image, or `None` if another strategy must be used.
type Results<L> = Option<(Buffer<u64>, Placed<<L as Layout>::Key, <L as Layout>::Value>)>;

/// Shares for partitioned rows: lines of a buffer, equally many for each share except the last
/// (cl/bucketized_wide_parts.clh).
pub(in crate::opencl) struct Shares<'a> {
    pub(in crate::opencl) of: &'a Buffer<u64>,
    pub(in crate::opencl) lines_each: u32,
    pub(in crate::opencl) lines: u32,
}

/// The pairs that leave their part, and those that they displace (cl/bucketized_wide_parts.clh).
pub(in crate::opencl) struct Escapes<L: Layout> {
    words: Buffer<L::Key>,
    homes: Buffer<u32>,
    values: Buffer<L::Value>,
    tally: Tally,
}

impl<L: Layout> Escapes<L> {
    pub(in crate::opencl) fn new(device: &OpenCl, capacity: usize) -> Result<Escapes<L>> {
        let (words, homes) = (Buffer::allocate(device, capacity)?, Buffer::allocate(device, capacity)?);
        let values = Buffer::allocate(device, if L::VALUES.is_some() { capacity } else { 1 })?;
        Ok(Escapes { words, homes, values, tally: Tally::new(device)? })
    }

    fn capacity(&self) -> u64 {
        self.words.len() as u64
    }

    /// Passes the arguments `LINE_ESCAPES` to a kernel.
    fn give<'a>(&'a self, launch: Launch<'a>) -> Launch<'a> {
        launch
            .buffer(&self.words)
            .buffer(&self.homes)
            .buffer(&self.values)
            .value(self.capacity())
            .buffer(self.tally.status())
    }
}

impl OpenCl {
    /// An image with these pairs. `None` if this strategy is not applicable: the device or its free memory has no space
    /// for it, or more pairs left their parts than fit the list.
    ///
    /// Seven kernels (ten with duplicates), three small fills and one read of the status. In addition to the image,
    /// memory is needed for the pairs once more, and at loads above 0.92 about twice.
    pub(super) fn lines_by_parts<L: Layout>(
        &self,
        plan: &LinePlan<L>,
        keys: &Buffer<L::Key>,
        values: &Buffer<L::Value>,
    ) -> Result<Results<L>>
    where
        L::Key: DeviceKey,
    {
        let pairs = keys.len();
        if pairs == 0 || self.build_route(pairs)? == BuildRoute::Direct {
            return Ok(None);
        }
        let partitioning = Partitioning::new(pairs, plan.buckets(), L::PART_BITS);
        self.if_memory_allows(&partitioning, u64::from(group::<L>()), LOCAL_BYTES, || {
            self.placed_lines(plan, &partitioning, keys, values)
        })
    }

    fn placed_lines<L: Layout>(
        &self,
        plan: &LinePlan<L>,
        partitioning: &Partitioning,
        keys: &Buffer<L::Key>,
        values: &Buffer<L::Value>,
    ) -> Result<Results<L>>
    where
        L::Key: DeviceKey,
    {
        // All of it is written later, so it need not be filled first.
        let image: Buffer<u64> = Buffer::allocate(self, plan.word_count()?)?;
        let is_full = partitioning.pairs as u64 > plan.cells() / 25 * 23;
        let capacity = if is_full { partitioning.pairs } else { partitioning.pairs / ESCAPES_SHARE };
        let escapes: Escapes<L> = Escapes::new(self, capacity + 4096)?;
        let shares = Shares { of: &image, lines_each: 1 << L::PART_BITS, lines: plan.buckets() };
        let partitioned = self.partition_lines(plan.functions(), partitioning, (keys, values), &shares, &escapes)?;

        let group = group::<L>() as usize;
        let program = self.program(BUCKETIZED_WIDE_PARTS, &parameters::<L>(group))?;
        let launch = self.lines_kernel(&program, plan.functions(), "lines_parts", &image)?.buffer(&partitioned);
        let items = partitioning.parts as usize * group;
        escapes.give(launch).over_groups_of(group, items, partitioning.pairs)?;
        drop(partitioned);

        let program = self.lines_program::<L>()?;
        let kernel = |name| self.lines_kernel(&program, plan.functions(), name, &image);
        let (lines, items) = (plan.buckets() as usize, escapes.capacity().min(MOST_ITEMS) as usize);
        let touched = lines / 32 + 1;
        let claimed = if L::VALUES.is_some() { plan.cells().div_ceil(32) as usize } else { 0 };
        let account: Buffer<u32> = self.filled((SECTIONS * SECTION_STRIDE) as usize + touched + claimed, 0)?;
        escapes.give(kernel("lines_escapes")?.buffer(&account)).over(items)?;
        kernel("lines_restore_order")?.buffer(&account).over(touched)?;
        escapes.give(kernel("lines_recheck")?).over(items)?;
        if L::VALUES.is_some() {
            escapes.give(kernel("lines_settle")?.buffer(&account)).over(items)?;
        }
        let (placed, all_fit) = escapes.tally.built_wide(self, escapes.capacity())?;
        if !all_fit {
            return Ok(None);
        }
        if placed.duplicates > 0 && L::VALUES.is_some() {
            // In parts each row has a separate place for its value. Duplicates share one, which keeps the greatest.
            kernel("lines_copies")?.buffer(escapes.tally.status()).over(plan.cells() as usize)?;
            kernel("lines_clear")?.over(lines)?;
            kernel("lines_fetch")?
                .buffer(keys)
                .buffer(values)
                .value(partitioning.pairs as u64)
                .over(partitioning.pairs)?;
        }
        Ok(Some((image, placed)))
    }

    /// Partitions the pairs into the shares of their parts. The returned buffer begins with the number of pairs of each
    /// part.
    pub(in crate::opencl) fn partition_lines<L: Layout>(
        &self,
        functions: LineFunctions<L::Key>,
        partitioning: &Partitioning,
        (keys, values): (&Buffer<L::Key>, &Buffer<L::Value>),
        shares: &Shares<'_>,
        escapes: &Escapes<L>,
    ) -> Result<Buffer<u32>>
    where
        L::Key: DeviceKey,
    {
        let program = self.partition_lines_program::<L>(partitioning)?;
        let region_lines = partitioning.region.div_ceil(L::SLOTS as u64);
        let all_lines = region_lines * u64::from(partitioning.coarse);
        let cursors: Buffer<u32> = self.filled((partitioning.parts + partitioning.coarse) as usize, 0)?;
        let regions: Buffer<u64> = Buffer::allocate(self, all_lines as usize * LINE_WORDS)?;

        let launch =
            self.lines_kernel(&program, functions, "lines_partition_columns", &regions)?.value(partitioning.fine_bits);
        let launch = launch.value(region_lines as u32).value(all_lines as u32).buffer(keys).buffer(values);
        let launch = launch.value(partitioning.pairs as u64).buffer(&cursors);
        let (group, tile) = (Partitioning::GROUP as usize, Partitioning::TILE);
        let groups = (partitioning.pairs as u64).div_ceil(tile) as usize;
        escapes.give(launch).over_groups_of(group, groups * group, partitioning.pairs)?;

        let tiles = (region_lines * L::SLOTS as u64).div_ceil(tile);
        let launch =
            self.lines_kernel(&program, functions, "lines_partition_regions", shares.of)?.value(partitioning.fine_bits);
        let launch = launch.value(shares.lines_each).value(shares.lines).value(tiles as u32);
        let launch = launch.buffer(&regions).value(region_lines as u32).value(all_lines as u32).buffer(&cursors);
        let groups = (tiles * u64::from(partitioning.coarse)) as usize;
        escapes.give(launch).over_groups_of(group, groups * group, partitioning.pairs)?;
        Ok(cursors)
    }

    fn partition_lines_program<L: Layout>(&self, partitioning: &Partitioning) -> Result<Program> {
        let mut parameters = parameters::<L>(Partitioning::GROUP as usize);
        parameters.extend(partitioning.parameters());
        self.program(BUCKETIZED_WIDE_PARTITION, &parameters)
    }

    /// All programs that are used only here.
    #[cfg(test)]
    pub(in crate::opencl) fn lines_parts_programs<L: Layout>(&self) -> Result<[Program; 2]> {
        let partitioning = Partitioning::new(1000, 1000, L::PART_BITS);
        let parts = self.program(BUCKETIZED_WIDE_PARTS, &parameters::<L>(group::<L>() as usize))?;
        Ok([self.partition_lines_program::<L>(&partitioning)?, parts])
    }
}
