//! The host side of cl/sorted.cl: a sort (`passes/sort.rs`), and a kernel that converts the pairs to words. `wide.rs`
//! is the same for 64-bit keys or values.

mod wide;

use super::passes::tally::Tally;
use super::runtime::launch::Launch;
use super::runtime::program::SORTED;
use super::{Buffer, OpenCl};
use crate::backend::{Decoded, DeviceBuffer, HashBackend, Passes, Placed};
use crate::error::Result;
use crate::scheme::sorted::search;
use crate::scheme::{Sorted, SortedPlan};

impl OpenCl {
    /// The program of all sorted tables.
    pub(super) fn sorted(&self) -> Result<ocl::core::Program> {
        let parameters = [("KEY_BITS", 32), ("KEY_STRIDE", 2), ("GROUP", self.0.sizes.group as u32)];
        self.program(SORTED, &parameters)
    }

    /// A kernel with its first argument, the image, which the kernels rely on to have all slots of the plan.
    fn sorted_kernel<'a>(&'a self, name: &'static str, image: &'a Buffer<u64>) -> Result<Launch<'a>> {
        Ok(self.kernel(&self.sorted()?, name)?.buffer(image))
    }

    /// As [`sorted_kernel`](Self::sorted_kernel), followed by the parameters of a search.
    fn sorted_search<'a>(
        &'a self,
        plan: &SortedPlan,
        name: &'static str,
        image: &'a Buffer<u64>,
    ) -> Result<Launch<'a>> {
        let steps = search::steps(plan.pairs() as usize);
        Ok(self.sorted_kernel(name, image)?.value(plan.pairs()).value(steps))
    }
}

impl Passes<Sorted> for OpenCl {
    /// A sort, one kernel, one fill and one read of 48 bytes.
    fn place(
        &self,
        plan: &SortedPlan,
        image: &mut Buffer<u64>,
        keys: &Buffer<u32>,
        values: &Buffer<u32>,
    ) -> Result<Placed> {
        let launch = self.sorted_kernel("sorted_place", image)?.value(plan.slot_count());
        let unplaced = plan.pairs_beyond(keys.len())?;
        if unplaced > 0 {
            return Ok(Placed { unplaced, ..Placed::default() });
        }
        let (keys, values) = self.sort_pairs(keys, values)?;
        let tally = Tally::new(self)?;
        launch.buffer(&keys).buffer(&values).value(plan.pairs()).buffer(tally.status()).over(image.len())?;
        tally.placed(self, None)
    }

    fn lookup(
        &self,
        plan: &SortedPlan,
        image: &Buffer<u64>,
        queries: &Buffer<u32>,
        values: &mut Buffer<u32>,
        found: &mut Buffer<u32>,
    ) -> Result<()> {
        let launch = self.sorted_search(plan, "sorted_lookup", image)?;
        launch.answers(queries, Some(values), found).over(queries.len())
    }

    fn assign(
        &self,
        plan: &SortedPlan,
        image: &mut Buffer<u64>,
        keys: &Buffer<u32>,
        values: &Buffer<u32>,
    ) -> Result<()> {
        let launch = self.sorted_search(plan, "sorted_assign", image)?.buffer(keys).buffer(values);
        launch.value(keys.len() as u64).over(keys.len())
    }

    fn decode(&self, plan: &SortedPlan, image: &Buffer<u64>) -> Result<Decoded<Buffer<u32>>> {
        let launch = self.sorted_kernel("sorted_decode", image)?;
        launch.value(plan.pairs()).value(plan.slot_count()).into_columns(image.len())
    }
}
