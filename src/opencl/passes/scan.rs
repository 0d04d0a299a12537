//! The host side of cl/scan.cl: exclusive prefix sums of any number of counts.
//!
//! ```text
//! let scan = Scan::of(device, len)?;      its memory: a sum for every tile, a sum for every tile of those, ..
//! let scan = Scan::of(device, len)?;      allocates a sum for every tile, a sum for every tile of those, ..
//! ```
//!
//! With a 0 after the last count, the total is stored there.

use crate::backend::{DeviceBuffer, Word};
use crate::error::{Error, Result};
use crate::opencl::runtime::launch::Launch;
use crate::opencl::runtime::program::SCAN;
use crate::opencl::{Buffer, OpenCl};

/// Counts of one work-item.
const EACH: usize = 8;

/// Prefix sums of `len` counts. Sums that do not fit a `T` wrap.
pub(in crate::opencl) struct Scan<'a, T: Word> {
    device: &'a OpenCl,
    len: usize,
    /// The name under which its kernels are recorded in ledger and clocks, if it is not their own.
    stage: Option<&'static str>,
    /// The sums of tiles, of tiles of sums, .., down to one tile.
    sums: Vec<Buffer<T>>,
}

impl<'a, T: Word> Scan<'a, T> {
    /// Allocates sums for this many counts: 1/2048 of their memory (1/512 with the smallest groups).
    pub(in crate::opencl) fn of(device: &'a OpenCl, len: usize) -> Result<Scan<'a, T>> {
        let (mut sums, tile) = (Vec::new(), device.pass_group() * EACH);
        let mut tiles = len.div_ceil(tile);
        while tiles > 1 {
            sums.push(Buffer::allocate(device, tiles)?);
            tiles = tiles.div_ceil(tile);
        }
        Ok(Scan { device, len, stage: None, sums })
    }

    /// Records the kernels as one stage of a larger operation.
    pub(in crate::opencl) fn in_stage(self, name: &'static str) -> Self {
        Scan { stage: Some(name), ..self }
    }

    /// Replaces each count by the sum of those before it: one kernel for 2048 counts, three for 2^22, five for 2^33.
    pub(in crate::opencl) fn run(&self, counts: &Buffer<T>) -> Result<()> {
        Error::check_length("the counts", counts.len(), self.len)?;
        let group = self.device.pass_group();
        let mut levels: Vec<&Buffer<T>> = vec![counts];
        for sums in &self.sums {
            let counts = levels[levels.len() - 1];
            self.kernel("scan_sums", counts)?.buffer(sums).over_groups_of(group, items(counts), counts.len())?;
            levels.push(sums);
        }
        // Begins with the last level, which is one tile.
        for (level, counts) in levels.iter().enumerate().rev() {
            let before = levels.get(level + 1).unwrap_or(counts);
            self.kernel("scan_tiles", counts)?.buffer(before).over_groups_of(group, items(counts), counts.len())?;
        }
        Ok(())
    }

    fn kernel<'b>(&'b self, name: &'static str, counts: &'b Buffer<T>) -> Result<Launch<'b>> {
        let program = self.device.scan_program(size_of::<T>() == size_of::<u64>())?;
        let launch = self.device.kernel(&program, name)?;
        let launch = match self.stage {
            Some(stage) => launch.stage(stage),
            None => launch,
        };
        Ok(launch.buffer(counts).value(counts.len() as u64))
    }
}

/// Work-items for this many counts.
fn items<T: Word>(counts: &Buffer<T>) -> usize {
    counts.len().div_ceil(EACH)
}

impl OpenCl {
    /// The program for counts of 32 or 64 bits.
    pub(in crate::opencl) fn scan_program(&self, wide: bool) -> Result<ocl::core::Program> {
        self.program(SCAN, &[("GROUP", self.pass_group() as u32), ("EACH", EACH as u32), ("WIDE", wide.into())])
    }
}
