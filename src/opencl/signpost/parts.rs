//! Builds one partition at a time: the host side of cl/signpost_parts.cl.
//!
//! ```text
//! partition  rows to a share of each part, as in bucketized tables
//! parts      each in local memory, and written to the image
//! stash      as in build.rs
//! ```

use ocl::core::Program;

use super::build::{Columns, entry_words};
use super::{Built, parameters};
use crate::backend::{BuildRoute, DeviceBuffer as _, HashBackend as _, Word as _};
use crate::error::Result;
use crate::opencl::bucketized::wide::DeviceKey;
use crate::opencl::bucketized::wide::parts::{Escapes, Shares};
use crate::opencl::passes::parts::Partitioning;
use crate::opencl::passes::tally::Tally;
use crate::opencl::runtime::program::SIGNPOST_PARTS;
use crate::opencl::{Buffer, OpenCl};
use crate::scheme::Plan as _;
use crate::scheme::bucketized::wide::{LINE_WORDS, Layout};
use crate::scheme::signpost::SignpostPlan;
use crate::scheme::signpost::post::{Posts, tag_bits};

/// Work-items of a group that builds a part.
const GROUP: u32 = 256;

/// Registers of a work-item, for compilers with such an option. Without it, NVIDIA's compiler used 64 on an H100, and a
/// part took 1.2 times as long.
const REGISTERS_EACH: u32 = 40;

/// One pair in this many may go to the stash. At load 0.95 it is one in 320, at 1 one in 97.
const STASH_SHARE: usize = 64;

/// Local memory of a group: the tile; the data of lines and chains, whose bytes are later the positions of rows;
/// signposts.
fn local_bytes<L: Layout>() -> u64 {
    let (lines, word) = (1 << L::PART_BITS, u64::from(L::Key::BITS) / 8);
    let value = if L::VALUES.is_some() { u64::from(L::Value::BITS) / 8 } else { 0 };
    let chained = lines
        * if L::SLOTS < 8 {
            2
        } else if L::SLOTS < 16 {
            3
        } else {
            4
        }
        / 2;
    let known = chained * (word + 6) + lines * if L::SLOTS < 16 { 12 } else { 20 };
    let places = if value > 0 { lines * L::SLOTS as u64 / 4 * 5 * 2 } else { 0 };
    let entries = lines * (4 << (tag_bits::<L>() - 3));
    L::SLOTS as u64 * (lines + 2) * word.max(value) + known.max(places) + entries + 256
}

impl OpenCl {
    /// The program of such builds.
    pub(in crate::opencl) fn signposts_parts_program<L: Layout>(&self, posts: Posts) -> Result<Program> {
        let mut parameters = parameters::<L>(posts, GROUP as usize);
        parameters.extend(self.registers(REGISTERS_EACH));
        self.program(SIGNPOST_PARTS, &parameters)
    }

    /// An image with these pairs. `None` if this strategy is not applicable: the device or its free memory has no space
    /// for it, or a part does not fit, as happens with duplicates.
    ///
    /// Three kernels and those of the stash, two small fills and one read of the status. In addition to the image,
    /// memory is needed for the pairs once more, and before that twice.
    pub(super) fn signposts_by_parts<L: Layout>(
        &self,
        plan: &SignpostPlan<L>,
        keys: &Buffer<L::Key>,
        values: &Buffer<L::Value>,
    ) -> Result<Option<Built<L>>>
    where
        L::Key: DeviceKey,
    {
        let pairs = keys.len();
        if pairs == 0 || self.build_route(pairs)? == BuildRoute::Direct {
            return Ok(None);
        }
        let partitioning = Partitioning::new(pairs, plan.buckets(), L::PART_BITS);
        self.if_memory_allows(&partitioning, u64::from(GROUP), local_bytes::<L>(), || {
            self.placed_signposts(plan, &partitioning, keys, values)
        })
    }

    fn placed_signposts<L: Layout>(
        &self,
        plan: &SignpostPlan<L>,
        partitioning: &Partitioning,
        keys: &Buffer<L::Key>,
        values: &Buffer<L::Value>,
    ) -> Result<Option<Built<L>>>
    where
        L::Key: DeviceKey,
    {
        let functions = plan.functions();
        let lines_each = partitioning.part.div_ceil(L::SLOTS as u64) as u32;
        let lines = lines_each * partitioning.parts;
        let rows: Buffer<u64> = Buffer::allocate(self, lines as usize * LINE_WORDS)?;
        let shares = Shares { of: &rows, lines_each, lines };
        // The list of rows that do not fit a share is not needed, because another strategy is used if there are any.
        let partitioned = self.partition_lines(
            functions.homes(),
            partitioning,
            (keys, values),
            &shares,
            &Escapes::<L>::new(self, 1)?,
        )?;

        let capacity = partitioning.pairs / STASH_SHARE + 4096;
        let stashed: Columns<L> = (Buffer::allocate(self, capacity)?, Buffer::allocate(self, capacity)?);
        let behind = if functions.posts == Posts::Behind { entry_words::<L>(functions.buckets) } else { 1 };
        let behind: Buffer<u64> = self.filled(behind, 0)?;
        let image: Buffer<u64> = Buffer::allocate(self, plan.with_stash(capacity as u64).word_count()?)?;
        let tally = Tally::new(self)?;
        let program = self.signposts_parts_program::<L>(functions.posts)?;
        let launch = self.signpost_kernel(&program, &functions, "signpost_parts", &image)?;
        let launch = launch.buffer(&rows).value(lines_each).buffer(&partitioned).buffer(&behind);
        let launch = launch.buffer(&stashed.0).buffer(&stashed.1).value(capacity as u64).buffer(tally.status());
        launch.over_groups_of(GROUP as usize, (partitioning.parts * GROUP) as usize, partitioning.pairs)?;
        drop((rows, partitioned));

        let (mut placed, all_fit) = tally.placed_with_stash(self, capacity as u64)?;
        if !all_fit {
            return Ok(None);
        }
        let plan = plan.with_stash(placed.stash);
        let mut image = image.shortened(plan.word_count()?);
        let count = placed.stash as usize;
        let stashed = (stashed.0.shortened(count), stashed.1.shortened(count));
        placed.unplaced += self.finish_signposts(&plan, &mut image, &stashed, &behind)?;
        Ok(Some((image, placed)))
    }
}
