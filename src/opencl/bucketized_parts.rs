//! Canonical bucketized tables built part by part: the host side of cl/bucketized_parts.cl.

use super::bucketized::parameters;
use super::parts::{Deal, Escapes};
use super::program::BUCKETIZED_PARTS;
use super::route::BuildRoute;
use super::tally::Tally;
use super::{Buffer, OpenCl};
use crate::backend::{DeviceBuffer as _, HashBackend as _, Placed};
use crate::error::{Error, Result};
use crate::spec::bucketized::PART_SLOTS;
use crate::spec::{BucketizedPlan, Kind, Plan as _};

/// Work-items of a group. On an H200 128 were faster than 64 and 256: what counts is how many parts are under way at
/// once, and local memory has room for eleven.
const GROUP: u32 = 128;

/// The most work-items that take escapes in turn.
const MOST_ITEMS: u64 = 1 << 19;

/// One pair in so many may leave its part; at load 0.98 one in 135 does.
const ESCAPES_SHARE: u64 = 16;

/// Local memory of a group, rounded up (S = 4, which has most counts).
const LOCAL_BYTES: u64 = 21 << 10;

impl OpenCl {
    /// An image with these pairs, or none where this is not the way: the plan, the device or its free memory has no
    /// room for it, or so many pairs left their parts that the list could not hold them.
    ///
    /// Six kernels, three fills of little and one read of the status; each word of the image is written twice.
    pub(super) fn bucketized_by_parts(
        &self,
        plan: &BucketizedPlan,
        keys: &Buffer<u32>,
        values: &Buffer<u32>,
    ) -> Result<Option<(Buffer<u64>, Placed)>> {
        let pairs = keys.len();
        if plan.kind() == Kind::Classic || pairs == 0 || self.build_route(pairs)? == BuildRoute::Direct {
            return Ok(None);
        }
        let deal = Deal::new(pairs, plan.buckets(), plan.functions().part_bits);
        let (items, bytes) = self.group_limits();
        if !deal.fits(self) || u64::from(GROUP) > items || LOCAL_BYTES > bytes {
            return Ok(None);
        }
        match self.placed_by_parts(plan, &deal, keys, values) {
            Err(Error::OutOfMemory { .. } | Error::TooLarge { .. }) => Ok(None),
            built => built,
        }
    }

    fn placed_by_parts(
        &self,
        plan: &BucketizedPlan,
        deal: &Deal,
        keys: &Buffer<u32>,
        values: &Buffer<u32>,
    ) -> Result<Option<(Buffer<u64>, Placed)>> {
        // All words are written, so they need not be filled first.
        let mut image: Buffer<u64> = Buffer::allocate(self, plan.word_count()?)?;
        let room = deal.pairs as u64 / ESCAPES_SHARE + 4096;
        let escapes =
            Escapes { words: Buffer::allocate(self, room as usize)?, homes: Buffer::allocate(self, room as usize)? };
        let tally = Tally::new(self)?;
        let (status, mixers) = (tally.status(), plan.functions().keys);
        let marks = (plan.buckets() as usize).div_ceil(32);
        let touched: Buffer<u32> = self.filled(marks, 0)?;
        let to = (&mut image, u64::from(PART_SLOTS));
        let dealt = deal.deal(self, &mixers, (keys, values), to, (&escapes, status))?;

        let program = self.program(BUCKETIZED_PARTS, &parameters(plan, GROUP as usize))?;
        let launch = self.kernel(&program, "bucketized_parts")?.buffer(&image).value(plan.buckets()).mixers(&mixers);
        let launch = escapes.give(launch.buffer(&dealt), status);
        launch.over_groups_of(GROUP as usize, deal.parts as usize * GROUP as usize, deal.pairs)?;
        drop(dealt);

        let program = self.bucketized_build(plan)?;
        let kernel = |name| self.bucketized_kernel(&program, plan, name, &image);
        let items = room.min(MOST_ITEMS) as usize;
        escapes.give(kernel("bucketized_escapes")?, status).buffer(&touched).over(items)?;
        kernel("bucketized_mend")?.buffer(&touched).over(marks)?;
        escapes.give(kernel("bucketized_recheck")?, status).over(items)?;
        let (placed, escaped) = tally.built(self, plan.outside())?;
        Ok((escaped <= room).then_some((image, placed)))
    }
}
