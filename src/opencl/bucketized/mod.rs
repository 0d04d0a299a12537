//! The host side of cl/bucketized.cl and its companions: programs and arguments. Builds one partition at a time are in
//! parts.rs.

mod parts;
pub(super) mod wide;

use super::passes::tally::Tally;
use super::runtime::launch::Launch;
use super::runtime::program::{
    BUCKETIZED, BUCKETIZED_CANONICAL, BUCKETIZED_CLASSIC, BUCKETIZED_LOOKUP, BUCKETIZED_RUNS,
};
use super::{Buffer, LookupShape, OpenCl};
use crate::backend::{
    Decoded, DeviceBuffer, HashBackend as _, Passes, Placed, Removed, bitmap_words, copied_and_placed,
    filled_and_placed,
};
use crate::error::Result;
use crate::scheme::{Bucketized, BucketizedPlan, Insertion, Kind, LookupMode, Plan};

/// The parameters with which cl/bucketized.clh is compiled.
pub(super) fn parameters(plan: &BucketizedPlan, group: usize) -> Vec<(&'static str, u32)> {
    vec![
        ("CLASSIC", u32::from(plan.kind() == Kind::Classic)),
        ("SLOTS", plan.bucket_slots()),
        ("FUNCTIONS", plan.function_count()),
        ("PART_BITS", plan.functions().part_bits),
        ("GROUP", group as u32),
    ]
}

impl OpenCl {
    /// The program for the tables of this plan. It does not depend on what varies between attempts.
    pub(super) fn bucketized(&self, plan: &BucketizedPlan) -> Result<ocl::core::Program> {
        self.program(BUCKETIZED, &parameters(plan, self.0.sizes.group))
    }

    /// The program that places their pairs.
    pub(super) fn bucketized_build(&self, plan: &BucketizedPlan) -> Result<ocl::core::Program> {
        let mut parameters = parameters(plan, self.0.sizes.group);
        match plan.kind() {
            Kind::Canonical => self.program(BUCKETIZED_CANONICAL, &parameters),
            Kind::Classic => {
                parameters.push(("LOAD_BALANCING", u32::from(plan.insertion() == Insertion::LoadBalancing)));
                self.program(BUCKETIZED_CLASSIC, &parameters)
            }
        }
    }

    /// The program for lookups in the tables of this plan, with values or only for bits. Runs always have values.
    pub(super) fn bucketized_lookup(
        &self,
        plan: &BucketizedPlan,
        shape: LookupShape,
        values: bool,
    ) -> Result<ocl::core::Program> {
        let at_once = match (plan.kind(), plan.lookup_mode()) {
            (Kind::Classic, LookupMode::LatencyOptimized) => plan.function_count(),
            _ => 1,
        };
        let mut parameters = parameters(plan, self.lookup_group(shape));
        parameters.push(("AT_ONCE", at_once));
        let lanes = match shape {
            LookupShape::Alone => 1,
            LookupShape::Together => plan.bucket_slots() / 2,
            LookupShape::Runs => {
                parameters.extend(self.run_parameters(shape));
                return self.program(BUCKETIZED_RUNS, &parameters);
            }
        };
        parameters.extend([("LANES", lanes), ("BITS_ALONE", u32::from(!values))]);
        self.program(BUCKETIZED_LOOKUP, &parameters)
    }

    /// A kernel with the arguments that all of them begin with: the image, and `TABLE`.
    ///
    /// The kernels rely on an image that contains all slots of each bucket of a key.
    pub(super) fn bucketized_kernel<'a>(
        &'a self,
        program: &ocl::core::Program,
        plan: &BucketizedPlan,
        name: &'static str,
        image: &'a Buffer<u64>,
    ) -> Result<Launch<'a>> {
        let launch = self.kernel(program, name)?.buffer(image);
        Ok(launch.value(plan.buckets()).mixers(&plan.functions().keys))
    }

    fn bucketized_answers(
        &self,
        plan: &BucketizedPlan,
        image: &Buffer<u64>,
        queries: &Buffer<u32>,
        values: Option<&Buffer<u32>>,
        found: &Buffer<u32>,
    ) -> Result<()> {
        let shape = self.lookup_shape()?;
        let scratch = self.scratch_values(shape, values, queries.len())?;
        let values = values.or(scratch.as_ref());
        let program = self.bucketized_lookup(plan, shape, values.is_some())?;
        let launch = self.bucketized_kernel(&program, plan, "bucketized_lookup", image)?;
        let launch = launch.answering(plan.outside(), queries, values, found);
        let items = self.lookup_items(shape, queries.len());
        launch.over_groups_of(self.lookup_group(shape), items, queries.len())
    }

    /// The pairs that the kernel `name` finds in the image, slot by slot.
    fn bucketized_pairs(
        &self,
        plan: &BucketizedPlan,
        program: &ocl::core::Program,
        name: &'static str,
        image: &Buffer<u64>,
    ) -> Result<Decoded<Buffer<u32>>> {
        self.bucketized_kernel(program, plan, name, image)?.into_columns(image.len())
    }
}

impl Passes<Bucketized> for OpenCl {
    fn build(&self, plan: &BucketizedPlan, keys: &Buffer<u32>, values: &Buffer<u32>) -> Result<(Buffer<u64>, Placed)> {
        // Parts may store a key with duplicates more than once: their image is dropped before another is built.
        match self.bucketized_by_parts(plan, keys, values)?.filter(|(_, placed)| placed.duplicates == 0) {
            Some(built) => Ok(built),
            None => filled_and_placed::<Bucketized, _>(self, plan, keys, values),
        }
    }

    /// Canonical tables: only upper halves are placed, because they decide the places; then the values are
    /// assigned. Takes two kernels in addition to those of [`place`](Passes::place), and half of the image's memory.
    fn partial_build(
        &self,
        plan: &BucketizedPlan,
        keys: &Buffer<u32>,
        values: &Buffer<u32>,
    ) -> Result<Option<(Buffer<u64>, Placed)>> {
        if plan.kind() == Kind::Classic {
            return Ok(None);
        }
        let (tally, program, words) = (Tally::new(self)?, self.bucketized_build(plan)?, plan.word_count()?);
        let uppers: Buffer<u64> = self.filled(words.div_ceil(2), 0)?;
        let place = self.bucketized_kernel(&program, plan, "bucketized_place", &uppers)?.buffer(keys).buffer(values);
        place.value(keys.len() as u64).buffer(tally.status()).over(keys.len())?;
        let mut image = self.widened(&uppers, words)?;
        drop(uppers);
        self.bucketized_kernel(&program, plan, "bucketized_sort", &image)?.over(words)?;
        let duplicates = self.bucketized_kernel(&program, plan, "bucketized_copies", &image)?;
        duplicates.buffer(tally.status()).over(words)?;
        let placed = tally.placed(self, plan.outside())?;
        if placed.duplicates > 0 {
            return Ok(None);
        }
        if placed.unplaced == 0 {
            Passes::<Bucketized>::assign(self, plan, &mut image, keys, values)?;
        }
        Ok(Some((image, placed)))
    }

    fn extended(
        &self,
        plan: &BucketizedPlan,
        image: &Buffer<u64>,
        keys: &Buffer<u32>,
        values: &Buffer<u32>,
    ) -> Result<(Buffer<u64>, Placed)> {
        match self.bucketized_extended(plan, image, keys, values)? {
            Some(extended) => Ok(extended),
            None => copied_and_placed::<Bucketized, _>(self, plan, image, keys, values),
        }
    }

    /// Three kernels (classic: two), one fill of 48 bytes and one read of them. All but the first process the whole
    /// image, however small the batch.
    fn place(
        &self,
        plan: &BucketizedPlan,
        image: &mut Buffer<u64>,
        keys: &Buffer<u32>,
        values: &Buffer<u32>,
    ) -> Result<Placed> {
        let pairs = keys.len();
        let (tally, program) = (Tally::new(self)?, self.bucketized_build(plan)?);
        let mut place = self.bucketized_kernel(&program, plan, "bucketized_place", image)?;
        if plan.kind() == Kind::Classic {
            place = place.value(plan.reach());
        }
        place.buffer(keys).buffer(values).value(pairs as u64).buffer(tally.status()).over(pairs)?;
        if pairs > 0 {
            if plan.kind() == Kind::Canonical {
                self.bucketized_kernel(&program, plan, "bucketized_sort", image)?.over(image.len())?;
            }
            let duplicates = self.bucketized_kernel(&program, plan, "bucketized_copies", image)?;
            duplicates.buffer(tally.status()).over(image.len())?;
        }
        tally.placed(self, plan.outside())
    }

    fn lookup(
        &self,
        plan: &BucketizedPlan,
        image: &Buffer<u64>,
        queries: &Buffer<u32>,
        values: &mut Buffer<u32>,
        found: &mut Buffer<u32>,
    ) -> Result<()> {
        self.bucketized_answers(plan, image, queries, Some(values), found)
    }

    fn contains(&self, plan: &BucketizedPlan, image: &Buffer<u64>, queries: &Buffer<u32>) -> Result<Buffer<u32>> {
        let found = self.unwritten(bitmap_words(queries.len()))?;
        self.bucketized_answers(plan, image, queries, None, &found)?;
        Ok(found)
    }

    fn assign(
        &self,
        plan: &BucketizedPlan,
        image: &mut Buffer<u64>,
        keys: &Buffer<u32>,
        values: &Buffer<u32>,
    ) -> Result<()> {
        let launch = self.bucketized_kernel(&self.bucketized(plan)?, plan, "bucketized_assign", image)?;
        launch.buffer(keys).buffer(values).value(keys.len() as u64).over(keys.len())
    }

    fn decode(&self, plan: &BucketizedPlan, image: &Buffer<u64>) -> Result<Decoded<Buffer<u32>>> {
        self.bucketized_pairs(plan, &self.bucketized(plan)?, "bucketized_decode", image)
    }

    /// One kernel, one fill and one read of the status.
    fn remove(&self, plan: &BucketizedPlan, image: &mut Buffer<u64>, keys: &Buffer<u32>) -> Result<Removed> {
        let tally = Tally::new(self)?;
        let launch = self.bucketized_kernel(&self.bucketized(plan)?, plan, "bucketized_remove", image)?;
        launch.buffer(keys).value(keys.len() as u64).buffer(tally.status()).over(keys.len())?;
        tally.removed(self)
    }

    /// Two kernels: the second closes the gaps in the buckets.
    fn lift(&self, plan: &BucketizedPlan, image: &mut Buffer<u64>) -> Result<Decoded<Buffer<u32>>> {
        let program = self.bucketized_build(plan)?;
        let lifted = self.bucketized_pairs(plan, &program, "bucketized_lift", image)?;
        self.bucketized_kernel(&program, plan, "bucketized_sort", image)?.over(image.len())?;
        Ok(lifted)
    }
}
