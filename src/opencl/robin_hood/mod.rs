//! The host side of cl/robin_hood.cl: programs and arguments. `wide.rs` has the tables of 64-bit keys or values.

pub(super) mod wide;

use ocl::core::Program;
use ocl::prm::Uint16;

use super::passes::tally::Tally;
use super::runtime::launch::Launch;
use super::runtime::program::ROBIN_HOOD;
use super::{Buffer, LookupShape, OpenCl};
use crate::backend::{Decoded, DeviceBuffer, HashBackend, Passes, Placed, Removed};
use crate::error::Result;
use crate::scheme::robin_hood::max_ages::MaxAges;
use crate::scheme::robin_hood::{Functions, RobinHoodPlan, Sequence};
use crate::scheme::{Kind, Plan, RobinHood};

/// The parameters with which cl/robin_hood.clh is compiled.
pub(super) fn parameters(plan: &RobinHoodPlan, group: usize) -> Vec<(&'static str, u32)> {
    let (layout, max_ages) = (plan.layout(), plan.max_ages());
    let mut parameters = vec![
        ("CLASSIC", u32::from(plan.kind() == Kind::Classic)),
        ("CELL_BITS", layout.cell_bits()),
        ("NAME_BITS", layout.name_bits),
        ("VALUE_BITS", layout.value_bits),
        ("LAST_AGE", layout.max_age),
        ("SEQUENCE", plan.sequence() as u32),
        ("RANDOM", Sequence::Random as u32),
        ("PAPER_RANDOM", Sequence::PaperRandom as u32),
        ("ARRAY", u32::from(matches!(max_ages, MaxAges::Array(_)))),
        ("PACKED", u32::from(matches!(max_ages, MaxAges::Packed(_)))),
        // Mixers: of keys and of ages.
        ("FUNCTIONS", 2),
        ("GROUP", group as u32),
    ];
    if let MaxAges::Array(levels) | MaxAges::Packed(levels) = max_ages {
        let mut all = [0; 16];
        all.iter_mut().zip(levels.of_code).for_each(|(to, level)| *to = *level);
        let four = |i: usize| u32::from_le_bytes([all[4 * i], all[4 * i + 1], all[4 * i + 2], all[4 * i + 3]]);
        parameters.extend([
            ("CODE_BITS", levels.bits),
            ("LAST_CODE", levels.last_code()),
            ("LEVELS_0", four(0)),
            ("LEVELS_1", four(1)),
            ("LEVELS_2", four(2)),
            ("LEVELS_3", four(3)),
        ]);
    }
    parameters
}

/// The arguments that cl/robin_hood.clh calls `TABLE`.
pub(super) fn table<'a>(launch: Launch<'a>, functions: &Functions) -> Launch<'a> {
    let Functions { by_slots, spread, gather, step, start, .. } = *functions;
    let mut numbers = [0; 16];
    numbers[..9].copy_from_slice(&[
        by_slots.n,
        by_slots.reciprocal,
        spread.times,
        spread.ratio,
        gather.times,
        gather.ratio,
        step.times,
        step.ratio,
        start,
    ]);
    launch.value(Uint16::from(numbers)).mixers(&[functions.keys, functions.walk])
}

impl OpenCl {
    /// The program for the tables of this plan, with lookups of this shape. It does not depend on what varies between
    /// attempts.
    pub(super) fn robin_hood(&self, plan: &RobinHoodPlan, shape: LookupShape) -> Result<Program> {
        let mut parameters = parameters(plan, self.0.sizes.group);
        parameters.extend(self.run_parameters(shape));
        self.program(ROBIN_HOOD, &parameters)
    }

    /// A kernel with the arguments that all of them begin with: the image (twice, if the kernel also reads it as
    /// another type), and `TABLE`.
    ///
    /// The kernels rely on an image that contains a cell for each slot, followed by the maximum ages.
    fn robin_hood_kernel<'a>(
        &'a self,
        plan: &RobinHoodPlan,
        name: &'static str,
        images: &[&'a Buffer<u64>],
    ) -> Result<Launch<'a>> {
        self.robin_hood_kernel_of(self.slot_lookup_shape()?, plan, name, images)
    }

    fn robin_hood_kernel_of<'a>(
        &'a self,
        shape: LookupShape,
        plan: &RobinHoodPlan,
        name: &'static str,
        images: &[&'a Buffer<u64>],
    ) -> Result<Launch<'a>> {
        let mut launch = self.kernel(&self.robin_hood(plan, shape)?, name)?;
        for image in images {
            launch = launch.buffer(image);
        }
        Ok(table(launch, &plan.rule().functions))
    }

    /// `Passes::lookup`, alone or by runs.
    pub(super) fn robin_hood_lookup_as(
        &self,
        shape: LookupShape,
        plan: &RobinHoodPlan,
        image: &Buffer<u64>,
        queries: &Buffer<u32>,
        values: &mut Buffer<u32>,
        found: &mut Buffer<u32>,
    ) -> Result<()> {
        let len = queries.len();
        let launch = self.robin_hood_kernel_of(shape, plan, "robin_hood_lookup", &[image])?;
        let launch = launch.answers(queries, Some(values), found);
        launch.over_groups_of(self.lookup_group(shape), self.lookup_items(shape, len), len)
    }
}

impl Passes<RobinHood> for OpenCl {
    /// One kernel, and two more and a fill if there are maximum ages; a fill of 48 bytes and one read of them.
    fn place(
        &self,
        plan: &RobinHoodPlan,
        image: &mut Buffer<u64>,
        keys: &Buffer<u32>,
        values: &Buffer<u32>,
    ) -> Result<Placed> {
        let pairs = keys.len();
        let tally = Tally::new(self)?;
        let place = self.robin_hood_kernel(plan, "robin_hood_place", &[image])?.buffer(keys).buffer(values);
        place.value(pairs as u64).buffer(tally.status()).over(pairs)?;
        let slots = plan.slot_count() as usize;
        let packed = match plan.max_ages() {
            MaxAges::None => return tally.placed(self, None),
            MaxAges::Packed(_) => slots,
            MaxAges::Array(levels) => slots.div_ceil(levels.per_word() as usize),
        };
        // This is allocated even without pairs, because the code after `lift` relies on it.
        let ages: Buffer<u32> = self.filled(slots, 0)?;
        self.robin_hood_kernel(plan, "robin_hood_max_ages", &[image])?.buffer(&ages).over(slots)?;
        self.robin_hood_kernel(plan, "robin_hood_pack", &[image])?.buffer(&ages).over(packed)?;
        tally.placed(self, None)
    }

    fn lookup(
        &self,
        plan: &RobinHoodPlan,
        image: &Buffer<u64>,
        queries: &Buffer<u32>,
        values: &mut Buffer<u32>,
        found: &mut Buffer<u32>,
    ) -> Result<()> {
        self.robin_hood_lookup_as(self.slot_lookup_shape()?, plan, image, queries, values, found)
    }

    fn assign(
        &self,
        plan: &RobinHoodPlan,
        image: &mut Buffer<u64>,
        keys: &Buffer<u32>,
        values: &Buffer<u32>,
    ) -> Result<()> {
        if plan.keys_alone() {
            // There is nothing to overwrite.
            return Ok(());
        }
        let launch = self.robin_hood_kernel(plan, "robin_hood_assign", &[image, image])?.buffer(keys).buffer(values);
        launch.value(keys.len() as u64).over(keys.len())
    }

    fn decode(&self, plan: &RobinHoodPlan, image: &Buffer<u64>) -> Result<Decoded<Buffer<u32>>> {
        let launch = self.robin_hood_kernel(plan, "robin_hood_decode", &[image])?;
        launch.into_columns(plan.slot_count() as usize)
    }

    /// One kernel, one fill and one read of the status.
    fn remove(&self, plan: &RobinHoodPlan, image: &mut Buffer<u64>, keys: &Buffer<u32>) -> Result<Removed> {
        let tally = Tally::new(self)?;
        let launch = self.robin_hood_kernel(plan, "robin_hood_remove", &[image, image])?;
        launch.buffer(keys).value(keys.len() as u64).buffer(tally.status()).over(keys.len())?;
        tally.removed(self)
    }

    /// The maximum ages stay unchanged; placing the pairs again rewrites them.
    fn lift(&self, plan: &RobinHoodPlan, image: &mut Buffer<u64>) -> Result<Decoded<Buffer<u32>>> {
        let launch = self.robin_hood_kernel(plan, "robin_hood_lift", &[image])?;
        launch.into_columns(plan.slot_count() as usize)
    }
}
