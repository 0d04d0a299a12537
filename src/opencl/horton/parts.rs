//! Builds of canonical Horton tables one partition at a time: the host side of cl/horton_parts.cl and
//! cl/horton_rooms.cl.

use ocl::core::Program;

use super::{parameters, table};
use crate::backend::{BuildRoute, DeviceBuffer as _, HashBackend as _, Placed};
use crate::error::Result;
use crate::opencl::passes::parts::{Escapes, Partitioning};
use crate::opencl::passes::tally::Tally;
use crate::opencl::runtime::program::{HORTON_PARTS, HORTON_ROOMS};
use crate::opencl::{Buffer, OpenCl};
use crate::scheme::{HortonPlan, Kind, Plan as _};

/// The maximum number of slots and buckets of a part, so that local memory stays below 32 KiB.
const PART_SLOTS: u32 = 2048;
const PART_BUCKETS: u32 = 256;

/// The maximum number of words of a part. No table with enough slots for its pairs has a [`Partitioning::part`] above
/// it. The positions of words are 12-bit numbers.
const CAPACITY: u32 = PART_SLOTS / 4 * 5;

/// Work-items of a group that sorts a part, and of the other kernels.
const GROUP: u32 = 256;
const OTHER_GROUP: u32 = 128;

/// The maximum number of work-items that process tokens or free slots in turn. On an H200 a build of 2^26 pairs took
/// 4.53 ms with 2^19, 4.31 with this, 4.35 with more than there are tokens.
const TAKERS: usize = 1 << 22;

/// Local memory of a group that sorts a part: words and their positions, doubtful pairs, four numbers per bucket, sums.
const LOCAL_BYTES: u64 = (CAPACITY * 21 / 2 + 16 * PART_BUCKETS + 4 * GROUP + 128) as u64;
const _: () = assert!(LOCAL_BYTES <= 32 << 10 && CAPACITY < 1 << 12);

/// The parameters that both programs of a plan share.
fn shared(plan: &HortonPlan, group: u32) -> Vec<(&'static str, u32)> {
    let mut parameters = parameters(plan, group as usize);
    parameters.push(("PART_BITS", part_bits(plan)));
    parameters
}

/// The base-2 logarithm of the buckets of a part.
fn part_bits(plan: &HortonPlan) -> u32 {
    (PART_SLOTS / plan.bucket_slots()).min(PART_BUCKETS).ilog2()
}

impl OpenCl {
    /// The program that sorts parts.
    pub(in crate::opencl) fn horton_parts(&self, plan: &HortonPlan) -> Result<Program> {
        let mut parameters = shared(plan, GROUP);
        parameters.extend([("CAPACITY", CAPACITY), ("WIDE", 0)]);
        self.program(HORTON_PARTS, &parameters)
    }

    /// The program that finds places for the keys that leave their homes.
    pub(in crate::opencl) fn horton_rooms(&self, plan: &HortonPlan) -> Result<Program> {
        self.program(HORTON_ROOMS, &shared(plan, OTHER_GROUP))
    }

    /// An image with these pairs. `None` if this strategy is not applicable: the plan, the device or its free memory
    /// has no space for it, or a part receives more pairs than it can hold, as happens with many duplicates.
    ///
    /// Seven kernels, four small fills and one read of the status.
    pub(in crate::opencl) fn horton_by_parts(
        &self,
        plan: &HortonPlan,
        keys: &Buffer<u32>,
        values: &Buffer<u32>,
    ) -> Result<Option<(Buffer<u64>, Placed)>> {
        let pairs = keys.len();
        // Free slots and tokens have 32-bit numbers. There are at most as many of each as slots.
        let slots = plan.slots();
        let unfit = plan.kind() == Kind::Classic || pairs == 0 || pairs as u64 > slots || slots > u64::from(u32::MAX);
        if unfit || self.build_route(pairs)? == BuildRoute::Direct {
            return Ok(None);
        }
        let partitioning = Partitioning::new(pairs, plan.buckets(), part_bits(plan));
        self.if_memory_allows(&partitioning, u64::from(GROUP), LOCAL_BYTES, || {
            self.horton_placed_by_parts(plan, &partitioning, keys, values)
        })
    }

    fn horton_placed_by_parts(
        &self,
        plan: &HortonPlan,
        partitioning: &Partitioning,
        keys: &Buffer<u32>,
        values: &Buffer<u32>,
    ) -> Result<Option<(Buffer<u64>, Placed)>> {
        let functions = plan.functions();
        let (buckets, parts, stride) = (functions.buckets as usize, partitioning.parts as usize, partitioning.part);
        let mut regions = partitioning.shares(self)?;
        let tally = Tally::new(self)?;
        // The list of escapes is not needed, because another strategy is used if there are any.
        let escapes = Escapes { words: Buffer::allocate(self, 1)?, homes: Buffer::allocate(self, 1)? };
        let status = tally.status();
        let partitioned = partitioning.partitioning(
            self,
            &functions.keys,
            (keys, values),
            (&mut regions, stride),
            (&escapes, status),
        )?;

        // All of this is written before it is read. Tokens are stored where the image will be: there are at most as
        // many as slots, and the image is written after their last use.
        let image: Buffer<u64> = Buffer::allocate(self, plan.word_count()?)?;
        let homes = Buffer::<u64>::allocate(self, buckets)?;
        // Two of 16 bits per word.
        let spare = Buffer::<u32>::allocate(self, buckets.div_ceil(2))?;
        let arrays = Buffer::<u64>::allocate(self, buckets)?;
        let rooms = Buffer::<u64>::allocate(self, plan.slots() as usize)?;
        let room_bases: Buffer<u32> = self.filled(parts + 2, 0)?;
        let stashed: Buffer<u32> = self.filled(functions.stash_buckets as usize, 0)?;

        let program = self.horton_parts(plan)?;
        let launch = table(self.kernel(&program, "horton_parts")?.buffer(&regions).value(stride), &functions);
        let launch = launch.buffer(&partitioned).buffer(&homes).buffer(&spare).buffer(&arrays).buffer(&rooms);
        let launch = launch.buffer(&room_bases).buffer(&image).buffer(status);
        launch.over_groups_of(GROUP as usize, parts * GROUP as usize, partitioning.pairs)?;
        drop(partitioned);

        let program = self.horton_rooms(plan)?;
        let group = OTHER_GROUP as usize;
        let launch = table(self.kernel(&program, "horton_parts_propose")?, &functions).buffer(&homes);
        let launch = launch.buffer(&spare).buffer(&arrays).buffer(&rooms).buffer(&room_bases).buffer(&image);
        launch.over_groups_of(group, buckets.min(TAKERS), buckets)?;
        let launch = table(self.kernel(&program, "horton_parts_entries")?, &functions).buffer(&regions).value(stride);
        let launch = launch.buffer(&homes).buffer(&arrays).buffer(&rooms).buffer(&room_bases);
        launch.over_groups_of(group, buckets.min(TAKERS), buckets)?;
        let launch = table(self.kernel(&program, "horton_parts_close")?.buffer(&image), &functions);
        let launch = launch.buffer(&regions).value(stride).buffer(&homes).buffer(&arrays).buffer(&rooms);
        let launch = launch.buffer(&room_bases).buffer(&stashed).buffer(status);
        launch.over_groups_of(group, buckets, buckets)?;
        self.horton_sort_stash(plan, &image, &stashed)?;
        let (placed, escaped) = tally.built(self, plan.outside())?;
        Ok((escaped == 0).then_some((image, placed)))
    }
}
