//! The host side of cl/cuckoo.cl: which program, which arguments, and what the counts mean.

use ocl::prm::Uint16;

use super::launch::Launch;
use super::program::CUCKOO;
use super::{Buffer, OpenCl};
use crate::backend::{Decoded, DeviceBuffer, HashBackend, Kernels, Placed, Removed, bitmap_words};
use crate::error::{Error, Result};
use crate::fault::{Fault, planted};
use crate::spec::cuckoo::{MAX_FUNCTIONS, classic};
use crate::spec::{Cuckoo, CuckooPlan, HashFamily, Kind, Plan, Reinsertion};

/// The counts of a batch and where each stands in the kernels' status buffer. All start at 0, and 0 means none. The first
/// [`TALLY_WORDS`] are what a group counts in local memory.
#[derive(Clone, Copy)]
enum Status {
    Unplaced,
    Copies,
    /// The complement of the least key with copies.
    Least,
    /// Pairs taken out.
    Removed,
    /// How many pairs came with the key that cannot stand in the image.
    OutsideCount,
    /// The greatest of their values.
    OutsideValue,
}
const TALLY_WORDS: u32 = Status::Removed as u32 + 1;
const STATUS_WORDS: usize = Status::OutsideValue as usize + 1;

impl OpenCl {
    /// The program for the tables of this plan. What varies from attempt to attempt is not in it.
    pub(super) fn cuckoo(&self, plan: &CuckooPlan) -> Result<ocl::core::Program> {
        let family = plan.family();
        self.program(
            CUCKOO,
            &[
                ("CLASSIC", u32::from(plan.kind() == Kind::Classic)),
                ("FUNCTIONS", plan.functions().count),
                ("FAMILY", family as u32),
                ("FAMILY_MIXER", HashFamily::Mixer as u32),
                ("FAMILY_LINEAR", HashFamily::Linear as u32),
                ("REINSERTION", plan.reinsertion() as u32),
                ("AS_PUBLISHED", Reinsertion::AsPublished as u32),
                ("RANDOM_FUNCTION", Reinsertion::RandomFunction as u32),
                ("UNPLACED", Status::Unplaced as u32),
                ("COPIES", Status::Copies as u32),
                ("LEAST", Status::Least as u32),
                ("REMOVED", Status::Removed as u32),
                ("OUTSIDE_COUNT", Status::OutsideCount as u32),
                ("OUTSIDE_VALUE", Status::OutsideValue as u32),
                ("TALLY", TALLY_WORDS),
                ("GROUP", self.0.group as u32),
            ],
        )
    }

    /// A kernel with the arguments that all of cl/cuckoo.cl begin with: the image, and `TABLE`.
    ///
    /// The kernels trust the image to have a slot for each place of a key.
    fn cuckoo_kernel(&self, plan: &CuckooPlan, name: &'static str, image: &Buffer<u64>) -> Result<Launch<'_>> {
        if plan.slot_count() == 0 {
            return Err(Error::parameter("slots", 0, "a cuckoo table has at least one"));
        }
        Error::check_length("the image", image.len(), plan.slot_count() as usize)?;
        // Sixteen numbers for `back` too, because the crate's `Uint8` holds eight bytes.
        let (mut forth, mut back) = ([0; 16], [0; 16]);
        for (i, keys) in plan.functions().keys.iter().enumerate().take(MAX_FUNCTIONS) {
            forth[3 * i..3 * i + 3].copy_from_slice(&[keys.before, keys.times, keys.between]);
            back[i] = keys.back;
        }
        let launch = self.kernel(&self.cuckoo(plan)?, name)?.buffer(image);
        Ok(launch.value(plan.slot_count()).value(Uint16::from(forth)).value(Uint16::from(back)))
    }
}

impl Kernels<Cuckoo> for OpenCl {
    /// One kernel (classic: two), one fill of 40 bytes and one read of them.
    fn place(
        &self,
        plan: &CuckooPlan,
        image: &mut Buffer<u64>,
        keys: &Buffer<u32>,
        values: &Buffer<u32>,
    ) -> Result<Placed> {
        Error::check_length("the values", values.len(), keys.len())?;
        if planted("opencl", Fault::Stale) {
            return Ok(Placed::default());
        }
        let pairs = keys.len().saturating_sub(usize::from(planted("opencl", Fault::Drop)));
        let status: Buffer<u64> = self.filled(STATUS_WORDS, 0)?;
        let place = self.cuckoo_kernel(plan, "cuckoo_place", image)?.value(plan.chain()).buffer(keys).buffer(values);
        place.value(pairs as u64).buffer(&status).over(pairs)?;
        if plan.kind() == Kind::Classic {
            // Copies are not noticed on the way, as each may have come to rest at another of its places.
            self.cuckoo_kernel(plan, "cuckoo_copies", image)?.buffer(&status).over(image.len())?;
        }
        let mut counts = [0; STATUS_WORDS];
        self.read(&status, 0, &mut counts)?;
        Ok(placed(plan, counts))
    }

    fn lookup(
        &self,
        plan: &CuckooPlan,
        image: &Buffer<u64>,
        queries: &Buffer<u32>,
        values: &mut Buffer<u32>,
        found: &mut Buffer<u32>,
    ) -> Result<()> {
        let len = queries.len();
        Error::check_length("the values", values.len(), len)?;
        Error::check_length("the bitmap", found.len(), bitmap_words(len))?;
        let outside = plan.outside();
        let launch = self.cuckoo_kernel(plan, "cuckoo_lookup", image)?.value(u32::from(outside.is_some()));
        let launch = launch.value(outside.map_or(0, |(_, value)| value)).buffer(queries).value(len as u64);
        launch.buffer(values).buffer(found).over(len)
    }

    fn assign(
        &self,
        plan: &CuckooPlan,
        image: &mut Buffer<u64>,
        keys: &Buffer<u32>,
        values: &Buffer<u32>,
    ) -> Result<()> {
        Error::check_length("the values", values.len(), keys.len())?;
        let launch = self.cuckoo_kernel(plan, "cuckoo_assign", image)?.buffer(keys).buffer(values);
        launch.value(keys.len() as u64).over(keys.len())
    }

    fn decode(&self, plan: &CuckooPlan, image: &Buffer<u64>) -> Result<Decoded<Buffer<u32>>> {
        let slots = image.len();
        let (keys, values) = (Buffer::allocate(self, slots)?, Buffer::allocate(self, slots)?);
        let taken = Buffer::allocate(self, bitmap_words(slots))?;
        let launch = self.cuckoo_kernel(plan, "cuckoo_decode", image)?.buffer(&keys).buffer(&values);
        launch.buffer(&taken).over(slots)?;
        Ok(Decoded { keys, values, taken })
    }

    /// One kernel, one fill and one read of the status.
    fn remove(&self, plan: &CuckooPlan, image: &mut Buffer<u64>, keys: &Buffer<u32>) -> Result<Removed> {
        let status: Buffer<u64> = self.filled(STATUS_WORDS, 0)?;
        let launch = self.cuckoo_kernel(plan, "cuckoo_remove", image)?.buffer(keys).value(keys.len() as u64);
        launch.buffer(&status).over(keys.len())?;
        let mut counts = [0; STATUS_WORDS];
        self.read(&status, 0, &mut counts)?;
        let count = |status: Status| counts[status as usize];
        Ok(Removed { pairs: count(Status::Removed), outside: count(Status::OutsideCount) > 0 })
    }

    fn lift(&self, plan: &CuckooPlan, image: &mut Buffer<u64>) -> Result<Decoded<Buffer<u32>>> {
        Error::check_tombstones::<Cuckoo>(plan)?;
        let slots = image.len();
        let (keys, values) = (Buffer::allocate(self, slots)?, Buffer::allocate(self, slots)?);
        let taken = Buffer::allocate(self, bitmap_words(slots))?;
        let launch = self.cuckoo_kernel(plan, "cuckoo_lift", image)?.buffer(&keys).buffer(&values);
        launch.buffer(&taken).over(slots)?;
        Ok(Decoded { keys, values, taken })
    }
}

/// What the counts say.
fn placed(plan: &CuckooPlan, counts: [u64; STATUS_WORDS]) -> Placed {
    let count = |status: Status| counts[status as usize];
    let came_outside = count(Status::OutsideCount);
    // Of the pairs with the key that stands beside the image one is no copy: the one there already, or one that came.
    let copies_outside = (came_outside + u64::from(plan.outside().is_some())).saturating_sub(1);
    let least = (count(Status::Copies) > 0).then(|| !(count(Status::Least) as u32));
    let least_outside = (copies_outside > 0).then_some(classic::EMPTY_KEY);
    Placed {
        unplaced: count(Status::Unplaced),
        copies: count(Status::Copies) + copies_outside,
        least_copy: least.into_iter().chain(least_outside).min(),
        outside: (came_outside > 0).then(|| count(Status::OutsideValue) as u32),
    }
}
