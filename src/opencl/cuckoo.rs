//! `cl/cuckoo.cl`, launched: what each kernel is given, and what its counts mean.

use ocl::Program;
use ocl::prm::Uint16;

use super::launch::Arg::{self, Buffer as Memory, U32, U32x16, U64};
use super::program::Source;
use super::{Buffer, OpenCl};
use crate::backend::{Decoded, DeviceBuffer, HashBackend, Kernels, Placed, bitmap_words};
use crate::error::{Error, Result};
use crate::fault::{Fault, planted};
use crate::spec::cuckoo::classic;
use crate::spec::{Cuckoo, CuckooPlan, Kind, Plan, Scheme};

/// Where `cuckoo_place` and `cuckoo_copies` leave their counts; printed in front of the program.
const UNPLACED: usize = 0;
const COPIES: usize = 1;
/// The complement of the least key with copies, or 0.
const LEAST: usize = 2;
const OUTSIDE_COUNT: usize = 3;
const OUTSIDE_VALUE: usize = 4;
const COUNTS: usize = 5;

impl OpenCl {
    fn cuckoo(&self, plan: &CuckooPlan) -> Result<Program> {
        let defines = [
            ("KOEL_CLASSIC", plan.kind().code()),
            ("KOEL_FUNCTIONS", plan.function_count()),
            ("KOEL_FAMILY", plan.family_code()),
            ("KOEL_REINSERTION", plan.reinsertion_code()),
            ("KOEL_UNPLACED", UNPLACED as u32),
            ("KOEL_COPIES", COPIES as u32),
            ("KOEL_LEAST", LEAST as u32),
            ("KOEL_OUTSIDE_COUNT", OUTSIDE_COUNT as u32),
            ("KOEL_OUTSIDE_VALUE", OUTSIDE_VALUE as u32),
        ];
        self.program(Source::Scheme(Cuckoo::NAME), &defines)
    }

    /// Refuses an image that is not as long as its plan says, which the kernels rely on.
    fn check_image(&self, plan: &CuckooPlan, image: &Buffer<u64>) -> Result<()> {
        self.check(image)?;
        Error::check_length("the image", image.len(), plan.slot_count() as usize)
    }
}

/// The constants of all functions as two arguments: `before`, `times` and `between` of each, and `back` of each. (Eight
/// numbers would do for the second, but the eight-element vector of `ocl` 0.19 holds bytes.)
struct Constants {
    forth: Uint16,
    back: Uint16,
}

impl Constants {
    fn new(plan: &CuckooPlan) -> Self {
        let mut constants = Constants { forth: Uint16::default(), back: Uint16::default() };
        for (i, keys) in plan.functions().keys.iter().enumerate() {
            constants.forth[3 * i] = keys.before;
            constants.forth[3 * i + 1] = keys.times;
            constants.forth[3 * i + 2] = keys.between;
            constants.back[i] = keys.back;
        }
        constants
    }

    fn forth(&self) -> Arg<'_> {
        U32x16(&self.forth)
    }

    fn back(&self) -> Arg<'_> {
        U32x16(&self.back)
    }
}

/// The counts of a batch, in the words of the contract.
fn placed(plan: &CuckooPlan, counts: &[u64; COUNTS]) -> Placed {
    let came = counts[OUTSIDE_COUNT];
    let outside_copies = (came + u64::from(plan.outside().is_some())).saturating_sub(1).min(came);
    let least = (counts[LEAST] != 0).then_some(!(counts[LEAST] as u32));
    let least_outside = (outside_copies > 0).then_some(classic::EMPTY_KEY);
    // A least key of 0xFFFFFFFF has the complement 0; canonical tables count it without naming it.
    let nameless = (counts[COPIES] > 0 && least.is_none()).then_some(u32::MAX);
    Placed {
        unplaced: counts[UNPLACED],
        copies: counts[COPIES] + outside_copies,
        least_copy: least.into_iter().chain(least_outside).chain(nameless).min(),
        outside: (came > 0).then_some(counts[OUTSIDE_VALUE] as u32),
    }
}

impl Kernels<Cuckoo> for OpenCl {
    fn place(
        &self,
        plan: &CuckooPlan,
        image: &mut Buffer<u64>,
        keys: &Buffer<u32>,
        values: &Buffer<u32>,
    ) -> Result<Placed> {
        self.check_image(plan, image)?;
        self.check(keys)?;
        self.check(values)?;
        Error::check_length("values", values.len(), keys.len())?;
        let program = self.cuckoo(plan)?;
        let constants = Constants::new(plan);
        // A planted fault works on what nobody will look at, or leaves the last pair out.
        let stale = if planted("opencl", Fault::Stale) { Some(self.duplicate(image)?) } else { None };
        let image = stale.as_ref().unwrap_or(image);
        let pairs = keys.len().saturating_sub(planted("opencl", Fault::Drop).into());
        let status = self.upload(&[0u64; COUNTS])?;
        let args = [
            Memory(image.core()),
            Memory(keys.core()),
            Memory(values.core()),
            U64(pairs as u64),
            U32(plan.slot_count()),
            constants.forth(),
            constants.back(),
            U32(plan.chain()),
            Memory(status.core()),
        ];
        self.launch(&program, "cuckoo_place", pairs, &args)?;
        if plan.kind() == Kind::Classic {
            let args = [
                Memory(image.core()),
                U32(plan.slot_count()),
                constants.forth(),
                constants.back(),
                Memory(status.core()),
            ];
            self.launch(&program, "cuckoo_copies", image.len(), &args)?;
        }
        let mut counts = [0; COUNTS];
        self.read(&status, 0, &mut counts)?;
        Ok(placed(plan, &counts))
    }

    fn lookup(
        &self,
        plan: &CuckooPlan,
        image: &Buffer<u64>,
        queries: &Buffer<u32>,
        values: &mut Buffer<u32>,
        found: &mut Buffer<u32>,
    ) -> Result<()> {
        self.check_image(plan, image)?;
        self.check(queries)?;
        self.check(values)?;
        self.check(found)?;
        Error::check_length("values", values.len(), queries.len())?;
        Error::check_length("found", found.len(), bitmap_words(queries.len()))?;
        let constants = Constants::new(plan);
        let (outside, outside_value) = outside(plan);
        let args = [
            Memory(image.core()),
            U32(plan.slot_count()),
            constants.forth(),
            constants.back(),
            outside,
            outside_value,
            Memory(queries.core()),
            U64(queries.len() as u64),
            Memory(values.core()),
            Memory(found.core()),
        ];
        self.launch(&self.cuckoo(plan)?, "cuckoo_lookup", queries.len(), &args)
    }

    fn assign(
        &self,
        plan: &CuckooPlan,
        image: &mut Buffer<u64>,
        keys: &Buffer<u32>,
        values: &Buffer<u32>,
    ) -> Result<()> {
        self.check_image(plan, image)?;
        self.check(keys)?;
        self.check(values)?;
        Error::check_length("values", values.len(), keys.len())?;
        let constants = Constants::new(plan);
        let args = [
            Memory(image.core()),
            U32(plan.slot_count()),
            constants.forth(),
            constants.back(),
            Memory(keys.core()),
            Memory(values.core()),
            U64(keys.len() as u64),
        ];
        self.launch(&self.cuckoo(plan)?, "cuckoo_assign", keys.len(), &args)
    }

    fn decode(&self, plan: &CuckooPlan, image: &Buffer<u64>) -> Result<Decoded<Buffer<u32>>> {
        self.check_image(plan, image)?;
        let (keys, values) = (self.allocate(image.len())?, self.allocate(image.len())?);
        let taken = self.allocate(bitmap_words(image.len()))?;
        let constants = Constants::new(plan);
        let args = [
            Memory(image.core()),
            U32(plan.slot_count()),
            constants.forth(),
            constants.back(),
            Memory(keys.core()),
            Memory(values.core()),
            Memory(taken.core()),
        ];
        self.launch(&self.cuckoo(plan)?, "cuckoo_decode", image.len(), &args)?;
        Ok(Decoded { keys, values, taken })
    }
}

/// The pair beside the image as two arguments: whether there is one, and its value.
fn outside(plan: &CuckooPlan) -> (Arg<'static>, Arg<'static>) {
    let value = plan.outside().map(|(_, value)| value);
    (U32(value.is_some().into()), U32(value.unwrap_or(0)))
}
