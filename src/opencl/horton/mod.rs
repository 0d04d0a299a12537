//! The host side of cl/horton.cl, cl/horton_build.cl, cl/horton_lookup.cl and cl/horton_runs.cl: programs and
//! arguments.
//!
//! A direct canonical build is a chain of six kernels without a wait in between. In addition to the image it needs 4
//! bytes per pair and 12 bytes per bucket; see cl/horton_build.cl. Builds one partition at a time are in parts.rs.
//! Classic builds and removals are sequential by definition and run on the host (`backend/host.rs`).

mod parts;

use ocl::core::Program;

use super::passes::tally::Tally;
use super::runtime::launch::Launch;
use super::runtime::program::{HORTON, HORTON_BUILD, HORTON_LOOKUP, HORTON_RUNS, HORTON_STASH};
use super::{Buffer, LookupShape, OpenCl};
use crate::backend::{
    Decoded, DeviceBuffer, HashBackend, Passes, Placed, Removed, bitmap_words, filled_and_placed, host,
};
use crate::error::{Error, Result};
use crate::scheme::horton::{Functions, HortonFamily, tokens};
use crate::scheme::{Horton, HortonPlan, Kind, Plan, cuckoo};

// cl/ has one name for the empty slot of all tables whose words contain plain keys.
const _: () = assert!(tokens::EMPTY == cuckoo::classic::EMPTY && tokens::EMPTY_KEY == cuckoo::classic::EMPTY_KEY);

/// The maximum number of pairs of a build, because chains consist of 32-bit numbers of pairs.
const MOST_PAIRS: u64 = 1 << 32;

/// The parameters with which cl/horton.clh is compiled.
pub(super) fn parameters(plan: &HortonPlan, group: usize) -> Vec<(&'static str, u32)> {
    let functions = plan.functions();
    vec![
        ("CLASSIC", u32::from(plan.kind() == Kind::Classic)),
        ("JENKINS", u32::from(plan.family() == HortonFamily::Jenkins)),
        ("SLOTS", functions.slots),
        ("TAGS", functions.tags),
        ("BITS", functions.bits),
        ("REMAPS", functions.count),
        ("FUNCTIONS", functions.keys.len() as u32),
        ("GROUP", group as u32),
    ]
}

/// Passes the arguments that all kernels of a table take after their first buffer.
pub(super) fn table<'a>(launch: Launch<'a>, functions: &Functions) -> Launch<'a> {
    let launch = launch.value(functions.buckets).value(functions.stash_buckets).value(functions.stratum);
    launch.mixers(&functions.keys)
}

impl OpenCl {
    /// The program for the tables of this plan. No program depends on what varies between attempts.
    pub(super) fn horton(&self, plan: &HortonPlan) -> Result<Program> {
        self.program(HORTON, &parameters(plan, self.0.sizes.group))
    }

    /// The program for builds of this plan's canonical tables.
    pub(super) fn horton_build(&self, plan: &HortonPlan) -> Result<Program> {
        self.program(HORTON_BUILD, &parameters(plan, self.0.sizes.group))
    }

    /// The program for the last step of builds.
    pub(super) fn horton_stash(&self, plan: &HortonPlan) -> Result<Program> {
        self.program(HORTON_STASH, &parameters(plan, self.0.sizes.group))
    }

    /// The program for lookups in the tables of this plan, with values or only for bits. Runs always have values.
    pub(super) fn horton_lookup(&self, plan: &HortonPlan, shape: LookupShape, values: bool) -> Result<Program> {
        let mut parameters = parameters(plan, self.lookup_group(shape));
        let lanes = match shape {
            LookupShape::Alone => 1,
            LookupShape::Together => plan.bucket_slots() / 2,
            LookupShape::Runs => {
                parameters.extend(self.run_parameters(shape));
                return self.program(HORTON_RUNS, &parameters);
            }
        };
        parameters.extend([("LANES", lanes), ("BITS_ALONE", u32::from(!values))]);
        self.program(HORTON_LOOKUP, &parameters)
    }

    /// A kernel with the arguments that all of them begin with: the image, and `TABLE`.
    ///
    /// The kernels rely on an image that contains all slots of each bucket, and on enough buckets for all functions.
    fn horton_kernel<'a>(
        &'a self,
        program: &Program,
        plan: &HortonPlan,
        name: &'static str,
        image: &'a Buffer<u64>,
    ) -> Result<Launch<'a>> {
        let functions = plan.functions();
        Ok(table(self.kernel(program, name)?.buffer(image), &functions))
    }

    /// The parallel build of a canonical table from these pairs.
    fn horton_place(
        &self,
        plan: &HortonPlan,
        image: &Buffer<u64>,
        keys: &Buffer<u32>,
        values: &Buffer<u32>,
    ) -> Result<Placed> {
        let pairs = keys.len();
        if pairs as u64 > MOST_PAIRS {
            return Err(Error::TooLarge { what: "pairs of a Horton table", requested: pairs as u64, most: MOST_PAIRS });
        }
        let program = self.horton_build(plan)?;
        let kernel = |name| self.horton_kernel(&program, plan, name, image);
        let distribute = kernel("horton_distribute")?;
        let functions = plan.functions();
        let (buckets, stash) = (functions.buckets as usize, functions.stash_buckets as usize);
        let tally = Tally::new(self)?;
        let (counts, stashed): (Buffer<u32>, Buffer<u32>) = (self.filled(buckets, 0)?, self.filled(stash, 0)?);
        // All of this is written before it is read.
        let (heads, next) = (Buffer::<u32>::allocate(self, buckets)?, Buffer::<u32>::allocate(self, pairs)?);
        let masks = Buffer::<u32>::allocate(self, buckets)?;

        let distribute = distribute.buffer(keys).buffer(values).value(pairs as u64).buffer(&counts);
        distribute.buffer(&heads).buffer(&next).buffer(tally.status()).over(pairs)?;
        let with_chains = |name| -> Result<Launch<'_>> {
            Ok(kernel(name)?.buffer(keys).buffer(values).buffer(&heads).buffer(&next).buffer(&counts))
        };
        with_chains("horton_group")?.buffer(&masks).buffer(tally.status()).over(buckets)?;
        kernel("horton_propose")?.buffer(&counts).buffer(&masks).over(buckets)?;
        with_chains("horton_entries")?.buffer(&masks).over(plan.slots() as usize)?;
        with_chains("horton_close")?.buffer(&stashed).buffer(tally.status()).over(buckets)?;
        self.horton_sort_stash(plan, image, &stashed)?;
        tally.placed(self, plan.outside())
    }

    /// Sorts the stash of a canonical table; `stashed` counts the pairs of each of its buckets.
    pub(super) fn horton_sort_stash(
        &self,
        plan: &HortonPlan,
        image: &Buffer<u64>,
        stashed: &Buffer<u32>,
    ) -> Result<()> {
        let launch = self.horton_kernel(&self.horton_stash(plan)?, plan, "horton_stash_sort", image)?;
        launch.buffer(stashed).over(stashed.len())
    }

    /// A lookup in one of the shapes, with values or only for bits.
    pub(super) fn horton_answers(
        &self,
        shape: LookupShape,
        plan: &HortonPlan,
        image: &Buffer<u64>,
        queries: &Buffer<u32>,
        values: Option<&Buffer<u32>>,
        found: &Buffer<u32>,
    ) -> Result<()> {
        let scratch = self.scratch_values(shape, values, queries.len())?;
        let values = values.or(scratch.as_ref());
        let program = self.horton_lookup(plan, shape, values.is_some())?;
        let launch = self.horton_kernel(&program, plan, "horton_lookup", image)?;
        let launch = launch.answering(plan.outside(), queries, values, found);
        let items = self.lookup_items(shape, queries.len());
        launch.over_groups_of(self.lookup_group(shape), items, queries.len())
    }
}

impl Passes<Horton> for OpenCl {
    fn build(&self, plan: &HortonPlan, keys: &Buffer<u32>, values: &Buffer<u32>) -> Result<(Buffer<u64>, Placed)> {
        match self.horton_by_parts(plan, keys, values)? {
            Some(built) => Ok(built),
            None => filled_and_placed::<Horton, _>(self, plan, keys, values),
        }
    }

    /// Canonical: six kernels, three fills, and one read of 56 bytes. Classic: on the host, pair by pair.
    fn place(
        &self,
        plan: &HortonPlan,
        image: &mut Buffer<u64>,
        keys: &Buffer<u32>,
        values: &Buffer<u32>,
    ) -> Result<Placed> {
        match plan.kind() {
            Kind::Canonical => self.horton_place(plan, image, keys, values),
            Kind::Classic => host::place::<OpenCl, Horton>(self, plan, image, keys, values),
        }
    }

    /// One kernel. The first lookup of a device may run a few more, to measure which shape is faster.
    fn lookup(
        &self,
        plan: &HortonPlan,
        image: &Buffer<u64>,
        queries: &Buffer<u32>,
        values: &mut Buffer<u32>,
        found: &mut Buffer<u32>,
    ) -> Result<()> {
        self.horton_answers(self.lookup_shape()?, plan, image, queries, Some(values), found)
    }

    fn contains(&self, plan: &HortonPlan, image: &Buffer<u64>, queries: &Buffer<u32>) -> Result<Buffer<u32>> {
        let found = self.unwritten(bitmap_words(queries.len()))?;
        self.horton_answers(self.lookup_shape()?, plan, image, queries, None, &found)?;
        Ok(found)
    }

    fn assign(
        &self,
        plan: &HortonPlan,
        image: &mut Buffer<u64>,
        keys: &Buffer<u32>,
        values: &Buffer<u32>,
    ) -> Result<()> {
        let launch = self.horton_kernel(&self.horton(plan)?, plan, "horton_assign", image)?;
        launch.buffer(keys).buffer(values).value(keys.len() as u64).over(keys.len())
    }

    fn decode(&self, plan: &HortonPlan, image: &Buffer<u64>) -> Result<Decoded<Buffer<u32>>> {
        self.horton_kernel(&self.horton(plan)?, plan, "horton_decode", image)?.into_columns(image.len())
    }

    /// Classic: on the host, key by key.
    fn remove(&self, plan: &HortonPlan, image: &mut Buffer<u64>, keys: &Buffer<u32>) -> Result<Removed> {
        host::remove::<OpenCl, Horton>(self, plan, image, keys)
    }
}
