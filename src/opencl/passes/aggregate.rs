//! The host side of cl/accumulate.cl and cl/tree.cl.

use super::primitives::GROUP;
use crate::backend::numbers::bits_of;
use crate::backend::tree::{LEAVES, tree_sum};
use crate::backend::{
    Accumulated, DeviceBuffer, Expanded, HashBackend, Numbers, Relational, Wanted, WideAccumulated, bitmap_words,
};
use crate::error::{Error, Result};
use crate::opencl::runtime::program::{ACCUMULATE, TREE};
use crate::opencl::{Buffer, OpenCl};

/// Rows of one work-item where aggregates are taken.
pub(in crate::opencl) const ROWS_EACH: usize = 32;
/// Entries of a group's own table.
pub(in crate::opencl) const ENTRIES: usize = 1024;
/// The same where values have 64 bits.
pub(in crate::opencl) const WIDE_ENTRIES: usize = 512;

// An owner, a count, a sum in two halves, a least and a greatest value: what every device has.
const _: () = assert!(ENTRIES.is_power_of_two() && ENTRIES * 6 * size_of::<u32>() <= 32 << 10);
// The last two of 64 bits, and how often a sum passed these.
const _: () = assert!(WIDE_ENTRIES.is_power_of_two() && WIDE_ENTRIES * 9 * size_of::<u32>() <= 32 << 10);

/// The extension of devices that have doubles.
const DOUBLES: &str = "cl_khr_fp64";

/// Where doubles are added up. The sums are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::opencl) enum Adder {
    Device,
    Host,
}

impl OpenCl {
    pub(in crate::opencl) fn accumulate_program(
        &self,
        wide: Option<Numbers>,
        wanted: Wanted,
    ) -> Result<ocl::core::Program> {
        let Wanted { count, sum, least, greatest } = wanted;
        self.program(
            ACCUMULATE,
            &[
                ("WANT_COUNT", count.into()),
                ("WANT_SUM", sum.into()),
                ("WANT_LEAST", least.into()),
                ("WANT_GREATEST", greatest.into()),
                ("VALUE_BITS", if wide.is_some() { u64::BITS } else { u32::BITS }),
                ("NUMBERS", wide.map_or(0, Numbers::code)),
                ("ENTRIES", if wide.is_some() { WIDE_ENTRIES } else { ENTRIES } as u32),
                ("GROUP", GROUP as u32),
                ("EACH", ROWS_EACH as u32),
            ],
        )
    }

    pub(in crate::opencl) fn tree_program(&self) -> Result<ocl::core::Program> {
        self.program(TREE, &[("GROUP", GROUP as u32), ("LEAVES", LEAVES as u32)])
    }

    /// Whether the device adds doubles up.
    pub(super) fn has_doubles(&self) -> bool {
        self.0.info.extensions.iter().any(|extension| extension == DOUBLES)
    }

    pub(super) fn run_accumulate(
        &self,
        ids: &Buffer<u32>,
        values: &Buffer<u32>,
        groups: usize,
        wanted: Wanted,
    ) -> Result<Accumulated<OpenCl>> {
        let len = ids.len();
        Error::check_length("the values", values.len(), if wanted.values() { len } else { 0 })?;
        let cells = |wanted: bool| if wanted { groups } else { 0 };
        let all = Accumulated::<OpenCl> {
            counts: self.filled(cells(wanted.count), 0)?,
            sums: self.filled(cells(wanted.sum), 0)?,
            least: self.filled(cells(wanted.least), u32::MAX)?,
            greatest: self.filled(cells(wanted.greatest), 0)?,
        };
        if wanted == Wanted::default() {
            return Ok(all);
        }
        let launch = self.kernel(&self.accumulate_program(None, wanted)?, "accumulate")?.buffer(ids).buffer(values);
        let launch = launch.value(len as u64).value(groups as u32).buffer(&all.counts).buffer(&all.sums);
        let launch = launch.buffer(&all.least).buffer(&all.greatest);
        launch.over_groups_of(GROUP, len.div_ceil(ROWS_EACH), len)?;
        Ok(all)
    }

    /// The pass of 32-bit values over longer ones, and one over the groups.
    pub(super) fn run_accumulate_wide(
        &self,
        ids: &Buffer<u32>,
        values: &Buffer<u64>,
        of: Numbers,
        groups: usize,
        wanted: Wanted,
    ) -> Result<WideAccumulated<OpenCl>> {
        let len = ids.len();
        Error::check_length("the values", values.len(), if wanted.values() { len } else { 0 })?;
        let wanted = Wanted { sum: wanted.sum && of != Numbers::Double, ..wanted };
        let cells = |wanted: bool| if wanted { groups } else { 0 };
        let mut all = WideAccumulated::<OpenCl> {
            counts: self.filled(cells(wanted.count), 0)?,
            sums: self.filled(cells(wanted.sum), 0)?,
            least: self.filled(cells(wanted.least), u64::MAX)?,
            greatest: self.filled(cells(wanted.greatest), 0)?,
            overflow: None,
        };
        if wanted == Wanted::default() {
            return Ok(all);
        }
        let carries: Buffer<u32> = self.filled(cells(wanted.sum), 0)?;
        let program = self.accumulate_program(Some(of), wanted)?;
        let launch = self.kernel(&program, "accumulate")?.buffer(ids).buffer(values).value(len as u64);
        let launch = launch.value(groups as u32).buffer(&all.counts).buffer(&all.sums);
        let launch = launch.buffer(&all.least).buffer(&all.greatest).buffer(&carries);
        launch.over_groups_of(GROUP, len.div_ceil(ROWS_EACH), len)?;
        if !wanted.values() {
            return Ok(all);
        }
        // Nobody's number, until a group has passed.
        let overflow = self.filled(1, u32::MAX)?;
        let launch = self.kernel(&program, "settle")?.stage("accumulate").value(groups as u64).buffer(&all.sums);
        let launch = launch.buffer(&carries).buffer(&all.least).buffer(&all.greatest).buffer(&overflow);
        launch.over_groups_of(GROUP, groups, 0)?;
        if wanted.sum {
            let mut first = [0];
            self.read(&overflow, 0, &mut first)?;
            all.overflow = (first[0] != u32::MAX).then_some(first[0]);
        }
        Ok(all)
    }

    /// The sums of runs, added up there.
    pub(in crate::opencl) fn tree_sums_by(
        &self,
        adder: Adder,
        values: &Buffer<u64>,
        offsets: &Buffer<u64>,
    ) -> Result<Buffer<u64>> {
        match adder {
            Adder::Device => self.tree_sums_here(values, offsets),
            Adder::Host => self.tree_sums_on_host(values, offsets),
        }
    }

    /// One kernel over the runs; for those of more than 16 values, five and a scan for each power of 16 that is in them.
    fn tree_sums_here(&self, values: &Buffer<u64>, offsets: &Buffer<u64>) -> Result<Buffer<u64>> {
        const STAGE: &str = "tree_sums";
        let (len, runs) = (values.len(), offsets.len().saturating_sub(1));
        let program = self.tree_program()?;
        let sums = Buffer::allocate(self, runs)?;
        let is_long: Buffer<u32> = self.filled(bitmap_words(runs), 0)?;
        let launch = self.kernel(&program, "tree_short")?.stage(STAGE).buffer(values).value(len as u64);
        let launch = launch.buffer(offsets).value(runs as u64).buffer(&sums).buffer(&is_long);
        launch.over_groups_of(GROUP, runs, len)?;

        let long = self.select(&is_long, true, &self.iota(runs)?)?;
        let count = long.len();
        if count == 0 {
            return Ok(sums);
        }
        let mut begins = Buffer::allocate(self, count)?;
        let mut leaves_of = Buffer::<u32>::allocate(self, count)?;
        let launch = self.kernel(&program, "tree_long")?.stage(STAGE).buffer(offsets).value(len as u64).buffer(&long);
        let launch = launch.value(count as u64).buffer(&begins).buffer(&leaves_of);
        launch.over_groups_of(GROUP, count, 0)?;

        let zeros = self.filled(count, 0u32)?;
        let mut leaves = None;
        loop {
            let blocks_of = Buffer::allocate(self, count)?;
            let launch = self.kernel(&program, "tree_blocks")?.stage(STAGE).buffer(&leaves_of).value(count as u64);
            launch.buffer(&blocks_of).over_groups_of(GROUP, count, 0)?;
            let ends = self.offsets(&blocks_of)?;
            let mut blocks = [0];
            self.read(&ends, count, &mut blocks)?;
            let blocks = blocks[0] as usize;
            let Expanded { runs, places } = self.expand(&ends, &zeros, 0, blocks)?;
            let found = Buffer::allocate(self, blocks)?;
            let launch = self.kernel(&program, "tree_level")?.stage(STAGE).buffer(leaves.as_ref().unwrap_or(values));
            let launch = launch.buffer(&begins).buffer(&leaves_of).buffer(&runs).buffer(&places);
            launch.value(blocks as u64).buffer(&found).over_groups_of(GROUP, blocks, 0)?;
            // No run has no block, so each has one.
            if blocks == count {
                let launch = self.kernel(&program, "tree_put")?.stage(STAGE).buffer(&found).buffer(&long);
                launch.value(count as u64).buffer(&sums).over_groups_of(GROUP, count, 0)?;
                return Ok(sums);
            }
            (begins, leaves_of, leaves) = (ends, blocks_of, Some(found));
        }
    }

    /// For devices without doubles: one thread of this machine.
    fn tree_sums_on_host(&self, values: &Buffer<u64>, offsets: &Buffer<u64>) -> Result<Buffer<u64>> {
        let (values, offsets) = (self.download(values)?, self.download(offsets)?);
        let values: &[f64] = bytemuck::cast_slice(&values);
        self.0.ledger.host("tree_sums", values.len());
        let place = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX).min(values.len());
        let mut sums = crate::memory::zeroed(offsets.len().saturating_sub(1))?;
        for (sum, run) in sums.iter_mut().zip(offsets.windows(2)) {
            let begin = place(run[0]);
            *sum = bits_of(tree_sum(&values[begin..place(run[1]).max(begin)]));
        }
        self.upload(&sums)
    }
}
