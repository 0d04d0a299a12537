//! Builds of canonical bucketized tables one partition at a time, and batches added to them: the host side of
//! cl/bucketized_parts.cl and cl/bucketized_insert.cl.
//!
//! ```text
//! a build     partition the pairs into the slices of the new image;   place each part;               the rest
//! a batch     partition the pairs into separate memory;               each part, from the old image  the rest
//!                                                                     to the new one
//! the rest    place escapes in the whole image; sort the buckets that received them; search for duplicates
//! ```

use ocl::core::Program;

use super::parameters;
use crate::backend::{BuildRoute, DeviceBuffer as _, HashBackend as _, Placed};
use crate::error::Result;
use crate::opencl::passes::parts::{Escapes, Partitioning};
use crate::opencl::passes::tally::Tally;
use crate::opencl::runtime::program::{BUCKETIZED_INSERT, BUCKETIZED_PARTS, Source};
use crate::opencl::{Buffer, OpenCl};
use crate::scheme::bucketized::PART_SLOTS;
use crate::scheme::{BucketizedPlan, Kind, Plan as _, slot};

/// Work-items of a group. On an H200 128 were faster than 64 and 256: the number of concurrent parts matters, and local
/// memory has space for eleven.
const GROUP: u32 = 128;

/// The maximum number of work-items that place escapes in turn.
const MOST_ITEMS: u64 = 1 << 19;

/// One pair in this many may leave its part during a build; at load 0.98 one in 135 does.
const ESCAPES_SHARE: u64 = 16;

/// Local memory of a group, rounded up (for S = 4, which has the most counts).
const LOCAL_BYTES: u64 = 21 << 10;

/// A new image, or `None` if another strategy must be used.
type Results = Option<(Buffer<u64>, Placed)>;

/// The counts and the escapes of both strategies.
struct Account {
    tally: Tally,
    escapes: Escapes,
}

impl Account {
    fn new(device: &OpenCl, capacity: u64) -> Result<Account> {
        let words = Buffer::allocate(device, capacity as usize)?;
        let escapes = Escapes { words, homes: Buffer::allocate(device, capacity as usize)? };
        Ok(Account { tally: Tally::new(device)?, escapes })
    }
}

impl OpenCl {
    /// An image with these pairs. With duplicates, it may store a key more than once. `None` if this strategy is not
    /// applicable: the plan, the device or its free memory has no space for it, or more pairs left their parts than fit
    /// the list.
    ///
    /// Six kernels, three small fills and one read of the status; each word of the image is written twice.
    pub(in crate::opencl) fn bucketized_by_parts(
        &self,
        plan: &BucketizedPlan,
        keys: &Buffer<u32>,
        values: &Buffer<u32>,
    ) -> Result<Results> {
        let pairs = keys.len();
        if plan.kind() == Kind::Classic || pairs == 0 || self.build_route(pairs)? == BuildRoute::Direct {
            return Ok(None);
        }
        let partitioning = Partitioning::new(pairs, plan.buckets(), plan.functions().part_bits);
        self.if_memory_allows(&partitioning, u64::from(GROUP), LOCAL_BYTES, || {
            self.placed_by_parts(plan, &partitioning, keys, values)
        })
    }

    /// A copy of the image with these pairs added. `None` if this strategy is not applicable: the plan, the device or
    /// its free memory has no space for it.
    ///
    /// Six kernels, two small fills and one read of the status; each word of the image is read once and written once.
    pub(in crate::opencl) fn bucketized_extended(
        &self,
        plan: &BucketizedPlan,
        image: &Buffer<u64>,
        keys: &Buffer<u32>,
        values: &Buffer<u32>,
    ) -> Result<Results> {
        let pairs = keys.len();
        if plan.kind() == Kind::Classic || pairs == 0 || self.insert_route(image.len())? == BuildRoute::Direct {
            return Ok(None);
        }
        let partitioning = Partitioning::new(pairs, plan.buckets(), plan.functions().part_bits);
        self.if_memory_allows(&partitioning, u64::from(GROUP), LOCAL_BYTES, || {
            self.extended_by_parts(plan, &partitioning, image, keys, values)
        })
    }

    /// The program of the two kernels in which a group has one part.
    fn bucketized_part(&self, source: Source, plan: &BucketizedPlan) -> Result<Program> {
        self.program(source, &parameters(plan, GROUP as usize))
    }

    /// All programs that are used only here.
    #[cfg(test)]
    pub(in crate::opencl) fn bucketized_parts_programs(&self, plan: &BucketizedPlan) -> Result<[Program; 3]> {
        let partitioning = Partitioning::new(1000, plan.buckets(), plan.functions().part_bits);
        let part = |source| self.bucketized_part(source, plan);
        let partition_program = partitioning.program(self, plan.functions().keys.len())?;
        Ok([partition_program, part(BUCKETIZED_PARTS)?, part(BUCKETIZED_INSERT)?])
    }

    fn placed_by_parts(
        &self,
        plan: &BucketizedPlan,
        partitioning: &Partitioning,
        keys: &Buffer<u32>,
        values: &Buffer<u32>,
    ) -> Result<Results> {
        // All words are written later, so they need not be filled first.
        let mut image: Buffer<u64> = Buffer::allocate(self, plan.word_count()?)?;
        let account = Account::new(self, partitioning.pairs as u64 / ESCAPES_SHARE + 4096)?;
        let touched: Buffer<u32> = self.filled(marks(plan), 0)?;
        let partitioned =
            self.partitioned(plan, partitioning, (keys, values), (&mut image, u64::from(PART_SLOTS)), &account)?;

        let program = self.bucketized_part(BUCKETIZED_PARTS, plan)?;
        let launch = self.bucketized_kernel(&program, plan, "bucketized_parts", &image)?.buffer(&partitioned);
        let launch = account.escapes.give(launch, account.tally.status());
        launch.over_groups_of(GROUP as usize, partitioning.parts as usize * GROUP as usize, partitioning.pairs)?;
        drop(partitioned);
        self.finished(plan, image, &account, &touched, 1)
    }

    fn extended_by_parts(
        &self,
        plan: &BucketizedPlan,
        partitioning: &Partitioning,
        old: &Buffer<u64>,
        keys: &Buffer<u32>,
        values: &Buffer<u32>,
    ) -> Result<Results> {
        let image: Buffer<u64> = Buffer::allocate(self, plan.word_count()?)?;
        // In a full table each pair may displace one that leaves its part, so the list has one place per pair. One is
        // enough, because the displaced pair continues in its place.
        let account = Account::new(self, partitioning.pairs as u64)?;
        let mut batch = partitioning.shares(self)?;
        let partitioned =
            self.partitioned(plan, partitioning, (keys, values), (&mut batch, partitioning.part), &account)?;

        // Each part clears its marks.
        let touched: Buffer<u32> = Buffer::allocate(self, marks(plan))?;
        let program = self.bucketized_part(BUCKETIZED_INSERT, plan)?;
        let launch = self.bucketized_kernel(&program, plan, "bucketized_insert", &image)?.buffer(old);
        let launch = launch
            .buffer(&batch)
            .value(partitioning.part)
            .value(batch.bytes() / 8)
            .buffer(&partitioned)
            .buffer(&touched);
        let launch = account.escapes.give(launch, account.tally.status());
        launch.over_groups_of(GROUP as usize, partitioning.parts as usize * GROUP as usize, partitioning.pairs)?;
        drop((batch, partitioned));
        self.finished(plan, image, &account, &touched, slot::MAX_AGE)
    }

    /// Partitions the pairs into shares of this many words each, and returns the number of pairs of each part.
    fn partitioned(
        &self,
        plan: &BucketizedPlan,
        partitioning: &Partitioning,
        pairs: (&Buffer<u32>, &Buffer<u32>),
        (shares, part_slots): (&mut Buffer<u64>, u64),
        Account { tally, escapes }: &Account,
    ) -> Result<Buffer<u32>> {
        let mixers = plan.functions().keys;
        partitioning.partitioning(self, &mixers, pairs, (shares, part_slots), (escapes, tally.status()))
    }

    /// The steps after all parts are placed. Escapes up to age `oldest` may be undetected duplicates.
    fn finished(
        &self,
        plan: &BucketizedPlan,
        image: Buffer<u64>,
        Account { tally, escapes }: &Account,
        touched: &Buffer<u32>,
        oldest: u32,
    ) -> Result<Results> {
        let (status, capacity) = (tally.status(), escapes.capacity());
        let program = self.bucketized_build(plan)?;
        let kernel = |name| self.bucketized_kernel(&program, plan, name, &image);
        let items = capacity.min(MOST_ITEMS) as usize;
        escapes.give(kernel("bucketized_escapes")?, status).buffer(touched).over(items)?;
        kernel("bucketized_restore_order")?.buffer(touched).over(touched.len())?;
        escapes.give(kernel("bucketized_recheck")?, status).value(oldest).over(items)?;
        let (placed, escaped) = tally.built(self, plan.outside())?;
        Ok((escaped <= capacity).then_some((image, placed)))
    }
}

/// The number of words with a mark for each bucket.
fn marks(plan: &BucketizedPlan) -> usize {
    (plan.buckets() as usize).div_ceil(32)
}
