//! Builds from rows that the device has sorted: the host side of cl/signpost_build.cl.
//!
//! ```text
//! rows        keys are mixed, and sorted with their values: by home, and within a home by remainder
//! duplicates  if there are any, rows are sorted by value first; then the last row of each key has the greatest value,
//!             and is kept
//! homes       the start of each, the keys that leave, the buckets that accept them, lines
//! stash       a bucketized table of the keys without a place, stored after the lines
//! ```

use super::{Built, parameters};
use crate::backend::{DeviceBuffer, HashBackend, Placed, Relational};
use crate::error::Result;
use crate::opencl::bucketized::wide::DeviceKey;
use crate::opencl::passes::tally::Tally;
use crate::opencl::runtime::program::SIGNPOST_BUILD;
use crate::opencl::{Buffer, OpenCl};
use crate::scheme::Plan;
use crate::scheme::bucketized::wide::{LINE_WORDS, Layout};
use crate::scheme::signpost::post::{Posts, tag_bits};
use crate::scheme::signpost::{SignpostFunctions, SignpostPlan};

/// Keys, or mixed keys, and values.
pub(super) type Columns<L> = (Buffer<<L as Layout>::Key>, Buffer<<L as Layout>::Value>);

/// The entries of this many buckets during a build, as 64-bit words: in a small table those after its lines, and the
/// same number in a large one.
pub(super) fn entry_words<L: Layout>(buckets: u32) -> usize {
    let bits = (4 * u64::from(buckets)) << tag_bits::<L>();
    (bits.div_ceil(64) as usize).next_multiple_of(LINE_WORDS)
}

impl OpenCl {
    /// The program of builds from sorted rows.
    pub(in crate::opencl) fn signposts_build_program<L: Layout>(&self, posts: Posts) -> Result<ocl::core::Program> {
        self.program(SIGNPOST_BUILD, &parameters::<L>(posts, self.0.sizes.group))
    }

    pub(super) fn build_signposts<L: Layout>(
        &self,
        plan: &SignpostPlan<L>,
        keys: &Buffer<L::Key>,
        values: &Buffer<L::Value>,
    ) -> Result<Built<L>>
    where
        L::Key: DeviceKey,
    {
        let plan = plan.with_stash(0);
        if keys.is_empty() {
            return Ok((self.filled(plan.word_count()?, 0)?, Placed::default()));
        }
        if let Some(built) = self.signposts_by_parts(&plan, keys, values)? {
            return Ok(built);
        }
        let functions = plan.functions();
        let program = self.signposts_build_program::<L>(functions.posts)?;
        let tally = Tally::new(self)?;
        let (rows, values) = self.rows_by_home::<L>(&program, &functions, keys, values, &tally)?;
        let (buckets, count) = (functions.buckets as usize, rows.len());

        // All of this is written before it is read.
        let (starts, tags) = (Buffer::<u32>::allocate(self, buckets + 1)?, Buffer::<u32>::allocate(self, buckets)?);
        let entries: Buffer<u64> = self.filled(entry_words::<L>(functions.buckets), 0)?;
        let kept: Buffer<u32> = self.filled(buckets * L::SLOTS, 0)?;
        let launch = self.signpost_kernel(&program, &functions, "signpost_starts", &starts)?;
        launch.buffer(&rows).value(count as u64).over(count + 1)?;
        let launch = self.signpost_kernel(&program, &functions, "signpost_leavers", &tags)?;
        launch.buffer(&rows).buffer(&starts).buffer(&entries).buffer(tally.status()).over(buckets)?;
        let launch = self.signpost_kernel(&program, &functions, "signpost_offers", &kept)?;
        let launch = launch.buffer(&rows).buffer(&starts).buffer(&tags).buffer(&entries);
        launch.buffer(tally.status()).over(buckets)?;
        let launch = self.signpost_kernel(&program, &functions, "signpost_entries", &kept)?;
        launch.buffer(&rows).buffer(&starts).buffer(&tags).buffer(&entries).over(buckets)?;

        let (mut placed, _) = tally.placed_with_stash(self, u64::MAX)?;
        let plan = plan.with_stash(placed.stash);
        let mut image: Buffer<u64> = Buffer::allocate(self, plan.word_count()?)?;
        let capacity = placed.stash as usize;
        let stashed: Columns<L> = (Buffer::allocate(self, capacity)?, Buffer::allocate(self, capacity)?);
        let launch = self.signpost_kernel(&program, &functions, "signpost_lines", &image)?;
        let launch = launch.buffer(&rows).buffer(&starts).buffer(&values).buffer(&tags).buffer(&entries).buffer(&kept);
        launch.buffer(&stashed.0).buffer(&stashed.1).buffer(tally.status()).over(buckets)?;
        placed.unplaced += self.finish_signposts(&plan, &mut image, &stashed, &entries)?;
        Ok((image, placed))
    }

    /// Mixed keys in ascending order, each once, with their values.
    fn rows_by_home<L: Layout>(
        &self,
        program: &ocl::core::Program,
        functions: &SignpostFunctions<L::Key>,
        keys: &Buffer<L::Key>,
        values: &Buffer<L::Value>,
        tally: &Tally,
    ) -> Result<Columns<L>>
    where
        L::Key: DeviceKey,
    {
        let count = keys.len();
        let mixed: Buffer<L::Key> = Buffer::allocate(self, count)?;
        self.signpost_kernel(program, functions, "signpost_mix", &mixed)?
            .buffer(keys)
            .value(count as u64)
            .over(count)?;
        let (rows, sorted) = self.sort_pairs(&mixed, values)?;
        let launch = self.signpost_kernel(program, functions, "signpost_copies", &rows)?;
        launch.value(count as u64).buffer(tally.status()).over(count)?;
        if tally.placed_wide::<L::Key, L::Value>(self)?.duplicates == 0 {
            return Ok((rows, sorted));
        }
        let (values, mixed) = self.sort_pairs(values, &mixed)?;
        let (rows, values) = self.sort_pairs(&mixed, &values)?;
        self.select_pairs(&self.tails(&rows)?, true, &rows, &values)
    }

    /// Writes the stash and, if they are stored there, the signposts after the lines. Returns the number of keys in the
    /// stash.
    pub(super) fn finish_signposts<L: Layout>(
        &self,
        plan: &SignpostPlan<L>,
        image: &mut Buffer<u64>,
        stashed: &Columns<L>,
        entries: &Buffer<u64>,
    ) -> Result<u64>
    where
        L::Key: DeviceKey,
    {
        let functions = plan.functions();
        let (stash, behind) = plan.sections();
        let mut unplaced = 0;
        if stash < behind {
            let table = self.filled(behind - stash, 0)?;
            unplaced = self.add_to_lines::<L>(functions.stash, &table, None, &stashed.0, &stashed.1)?.unplaced;
            self.copy(&table, 0, image, stash, table.len())?;
        }
        if functions.posts == Posts::Behind {
            let len = image.len() - behind;
            self.copy(entries, 0, image, behind, len)?;
        }
        Ok(unplaced)
    }
}
