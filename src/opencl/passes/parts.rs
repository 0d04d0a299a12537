//! Partitions a batch into the parts of a table: the host side of cl/parts.cl.

use ocl::core::{self, DeviceInfo as Info, DeviceInfoResult as InfoResult};

use crate::backend::HashBackend;
use crate::error::{Error, Result};
use crate::opencl::runtime::launch::Launch;
use crate::opencl::runtime::program::PARTS;
use crate::opencl::{Buffer, OpenCl};
use crate::scheme::hash::MixKeys;

/// Work-items of a group.
const GROUP: u32 = 256;
/// Words of a tile per work-item: 24 KiB per group, so that tile and counts stay below 32 KiB.
const EACH: u32 = 12;

/// How the pairs of a batch are partitioned in two passes, and the memory for it.
pub(in crate::opencl) struct Partitioning {
    pub(in crate::opencl) pairs: usize,
    buckets: u32,
    /// The base-2 logarithm of the buckets of a part.
    part_bits: u32,
    pub(in crate::opencl) parts: u32,
    /// The base-2 logarithm of the parts of a coarse region.
    pub(in crate::opencl) fine_bits: u32,
    pub(in crate::opencl) coarse: u32,
    /// Capacity of a coarse region, in words.
    pub(in crate::opencl) region: u64,
    /// Capacity of a part's share of the batch, in words.
    pub(in crate::opencl) part: u64,
}

/// The capacity for the words of 2 to the power of `bits` buckets: eight standard deviations above the mean. Distinct
/// keys do not reach it. Duplicates may, and escape.
fn capacity(pairs: usize, buckets: u32, bits: u32) -> u64 {
    let share = (pairs as u128) << bits;
    let mean = (share / u128::from(buckets.max(1))).min(pairs as u128) as u64;
    mean + 8 * mean.isqrt() + 64
}

/// The pairs that leave their part.
pub(in crate::opencl) struct Escapes {
    pub(in crate::opencl) words: Buffer<u64>,
    pub(in crate::opencl) homes: Buffer<u32>,
}

impl Escapes {
    /// Passes the arguments `ESCAPES` to a kernel.
    pub(in crate::opencl) fn give<'a>(&'a self, launch: Launch<'a>, status: &'a Buffer<u64>) -> Launch<'a> {
        launch.buffer(&self.words).buffer(&self.homes).value(self.capacity()).buffer(status)
    }

    pub(in crate::opencl) fn capacity(&self) -> u64 {
        self.words.bytes() / 8
    }
}

impl Partitioning {
    /// Work-items of a group.
    pub(in crate::opencl) const GROUP: u32 = GROUP;
    /// Pairs of a group.
    pub(in crate::opencl) const TILE: u64 = (GROUP * EACH) as u64;

    /// Partitions pairs for a table of this many buckets, in parts of 2 to the power of `part_bits`.
    pub(in crate::opencl) fn new(pairs: usize, buckets: u32, part_bits: u32) -> Partitioning {
        let parts = ((buckets.max(1) - 1) >> part_bits) + 1;
        // The two passes have about the same number of digit values.
        let fine_bits = (u32::BITS - (parts - 1).leading_zeros()) / 2;
        let coarse = ((parts - 1) >> fine_bits) + 1;
        let region = capacity(pairs, buckets, fine_bits + part_bits);
        let part = capacity(pairs, buckets, part_bits).next_multiple_of(16);
        Partitioning { pairs, buckets, part_bits, parts, fine_bits, coarse, region, part }
    }

    /// Memory for the shares of all parts, if they are not in an image: each has [`Partitioning::part`] words.
    pub(in crate::opencl) fn shares(&self, device: &OpenCl) -> Result<Buffer<u64>> {
        Buffer::allocate(device, self.part as usize * self.parts as usize)
    }

    /// The number of digits in local memory, sufficient for each pass: a power of two and a multiple of the group.
    fn digits(&self) -> u32 {
        self.coarse.max(1 << self.fine_bits).next_power_of_two().max(GROUP)
    }

    /// Whether the device supports groups of this size with their local memory.
    pub(in crate::opencl) fn fits(&self, device: &OpenCl) -> bool {
        let (items, bytes) = device.group_limits();
        let local = 8 * u64::from(GROUP * EACH) + 8 * u64::from(self.digits()) + 4 * u64::from(GROUP) + 64;
        u64::from(GROUP) <= items && local <= bytes
    }

    /// The program that partitions by the first of this many mixers.
    pub(in crate::opencl) fn program(&self, device: &OpenCl, mixers: usize) -> Result<core::Program> {
        let table = [("FUNCTIONS", mixers as u32), ("PART_BITS", self.part_bits), ("GROUP", GROUP)];
        device.program(PARTS, &[&table[..], &self.parameters()].concat())
    }

    /// The parameters with which `cl/partitioning.clh` is compiled, in addition to its group.
    pub(in crate::opencl) fn parameters(&self) -> [(&'static str, u32); 3] {
        [("EACH", EACH), ("DIGITS", self.digits()), ("WIDE", 0)]
    }

    /// Partitions by the first of the mixers: first into coarse regions, then each into its parts. Each part has
    /// `part_capacity` words of `to`; the last one may have fewer. The returned buffer begins with the number of pairs
    /// of each part.
    pub(in crate::opencl) fn partitioning(
        &self,
        device: &OpenCl,
        mixers: &[MixKeys],
        (keys, values): (&Buffer<u32>, &Buffer<u32>),
        (to, part_capacity): (&mut Buffer<u64>, u64),
        (escapes, status): (&Escapes, &Buffer<u64>),
    ) -> Result<Buffer<u32>> {
        let program = self.program(device, mixers.len())?;
        let cursors: Buffer<u32> = device.filled((self.parts + self.coarse) as usize, 0)?;
        let regions: Buffer<u64> = Buffer::allocate(device, self.region as usize * self.coarse as usize)?;
        let begin = |name| -> Result<Launch<'_>> {
            Ok(device.kernel(&program, name)?.value(self.buckets).mixers(mixers).value(self.fine_bits))
        };
        let tile = Partitioning::TILE;

        let launch = begin("partition_pairs")?.buffer(keys).buffer(values).value(self.pairs as u64).buffer(&cursors);
        let launch = launch.buffer(&regions).value(self.region).value(regions.bytes() / 8);
        let groups = (self.pairs as u64).div_ceil(tile);
        let items = (groups * u64::from(GROUP)) as usize;
        escapes.give(launch, status).over_groups_of(GROUP as usize, items, self.pairs)?;

        let tiles = self.region.div_ceil(tile);
        let launch = begin("partition_words")?.value(tiles as u32).buffer(&regions).value(self.region).buffer(&cursors);
        let launch = launch.buffer(to).value(part_capacity).value(to.bytes() / 8);
        let items = (tiles * u64::from(self.coarse) * u64::from(GROUP)) as usize;
        escapes.give(launch, status).over_groups_of(GROUP as usize, items, self.pairs)?;
        Ok(cursors)
    }
}

impl OpenCl {
    /// The result of `make`, which builds one partition at a time in groups of this many work-items with this much
    /// local memory. `None` if the device or its free memory has no space for it.
    pub(in crate::opencl) fn if_memory_allows<T>(
        &self,
        partitioning: &Partitioning,
        group: u64,
        local_bytes: u64,
        make: impl FnOnce() -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        let (items, bytes) = self.group_limits();
        if !partitioning.fits(self) || group > items || local_bytes > bytes {
            return Ok(None);
        }
        match make() {
            Err(Error::OutOfMemory { .. } | Error::TooLarge { .. }) => Ok(None),
            made => made,
        }
    }

    /// The maximum number of work-items of a group, and bytes of local memory; 0 if the driver does not report them.
    fn group_limits(&self) -> (u64, u64) {
        let bytes = match core::get_device_info(self.0.device, Info::LocalMemSize) {
            Ok(InfoResult::LocalMemSize(bytes)) => bytes,
            _ => 0,
        };
        (self.0.sizes.most as u64, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_hold_all_parts_and_all_pairs() {
        for (pairs, buckets, part_bits) in [
            (1, 16, 8),
            (1 << 26, 9_320_676, 8),
            (1000, 257, 8),
            (1 << 20, 1 << 18, 9),
            (u32::MAX as usize, 1 << 29, 8),
        ] {
            let partitioning = Partitioning::new(pairs, buckets, part_bits);
            assert!(u64::from(partitioning.parts) << part_bits >= u64::from(buckets));
            assert!(u64::from(partitioning.coarse) << partitioning.fine_bits >= u64::from(partitioning.parts));
            assert!(
                u64::from(partitioning.coarse - 1) << partitioning.fine_bits < u64::from(partitioning.parts),
                "no region without parts"
            );
            assert!(partitioning.region * u64::from(partitioning.coarse) >= pairs as u64);
            assert!(
                partitioning.part * u64::from(partitioning.parts) >= pairs as u64
                    && partitioning.part.is_multiple_of(16)
            );
            assert!(
                partitioning.digits() >= partitioning.coarse && partitioning.digits() >= 1 << partitioning.fine_bits
            );
            assert_eq!(partitioning.digits() % GROUP, 0);
        }
    }
}
