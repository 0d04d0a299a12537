//! The host side of cl/cuckoo_wide.cl.
//!
//! ```text
//! place      words offered
//! values     an old image's, carried to where their keys stand now; the batch's, brought
//! ```

use ocl::core::Program;
use ocl::prm::Ulong4;

use crate::backend::{BufferOf, DecodedOf, DeviceBuffer, HashBackend, Passes, Placed, PlacedOf, Removed, bitmap_words};
use crate::error::Result;
use crate::opencl::bucketized::wide::{DeviceKey, parameters};
use crate::opencl::passes::tally::Tally;
use crate::opencl::runtime::launch::Launch;
use crate::opencl::runtime::program::CUCKOO_WIDE;
use crate::opencl::{Buffer, OpenCl};
use crate::scheme::bucketized::wide::{Column, Layout};
use crate::scheme::cuckoo::wide::CuckooLinePlan;
use crate::scheme::{CuckooOf, Plan};

impl OpenCl {
    /// The program of tables with so many functions.
    pub(in crate::opencl) fn cuckoo_lines<L: Layout>(&self, functions: u32) -> Result<Program> {
        let mut parameters = parameters::<L>(self.0.sizes.group);
        parameters.retain(|(name, _)| *name != "FUNCTIONS");
        parameters.push(("FUNCTIONS", functions));
        self.program(CUCKOO_WIDE, &parameters)
    }

    /// A kernel with the arguments that all of them begin with: the image, and `SLOT_TABLE`.
    fn slots_kernel<'a, L: Layout>(
        &'a self,
        plan: &CuckooLinePlan<L>,
        name: &'static str,
        image: &Buffer<u64>,
    ) -> Result<Launch<'a>>
    where
        L::Key: DeviceKey,
    {
        let functions = plan.functions();
        let program = self.cuckoo_lines::<L>(functions.count)?;
        let mixers = functions.mixers.map(L::Key::constants);
        let launch = self.kernel(&program, name)?.buffer(image).value(plan.slot_count());
        let launch = launch.mixers(&mixers.map(|(narrow, _)| narrow));
        Ok(mixers.into_iter().fold(launch, |launch, (_, wide)| launch.value(Ulong4::from(wide))))
    }

    /// Adds pairs to an image, whose pairs so far are those of `old`.
    fn add_to_slots<L: Layout>(
        &self,
        plan: &CuckooLinePlan<L>,
        image: &Buffer<u64>,
        old: Option<&Buffer<u64>>,
        keys: &Buffer<L::Key>,
        values: &Buffer<L::Value>,
    ) -> Result<Placed<L::Key, L::Value>>
    where
        L::Key: DeviceKey,
    {
        let (tally, pairs) = (Tally::new(self)?, keys.len());
        let kernel = |name| self.slots_kernel(plan, name, image);
        if old.is_some() && L::VALUES.is_some() {
            kernel("cuckoo_clear")?.over(plan.lines() as usize)?;
        }
        kernel("cuckoo_place")?.buffer(keys).value(pairs as u64).buffer(tally.status()).over(pairs)?;
        if L::VALUES.is_some() {
            if let Some(old) = old {
                kernel("cuckoo_carry")?.buffer(old).over(plan.cells() as usize)?;
            }
            kernel("cuckoo_bring")?.buffer(keys).buffer(values).value(pairs as u64).over(pairs)?;
        }
        tally.placed_wide(self)
    }
}

impl<K: Column, V: Column> Passes<CuckooOf<K, V>> for OpenCl
where
    (K, V): Layout,
    <(K, V) as Layout>::Key: DeviceKey,
{
    fn build(
        &self,
        plan: &CuckooLinePlan<(K, V)>,
        keys: &BufferOf<Self, <(K, V) as Layout>::Key>,
        values: &BufferOf<Self, <(K, V) as Layout>::Value>,
    ) -> Result<(Buffer<u64>, PlacedOf<CuckooOf<K, V>>)> {
        let image = self.filled(plan.word_count()?, 0)?;
        let placed = self.add_to_slots(plan, &image, None, keys, values)?;
        Ok((image, placed))
    }

    fn extended(
        &self,
        plan: &CuckooLinePlan<(K, V)>,
        image: &Buffer<u64>,
        keys: &BufferOf<Self, <(K, V) as Layout>::Key>,
        values: &BufferOf<Self, <(K, V) as Layout>::Value>,
    ) -> Result<(Buffer<u64>, PlacedOf<CuckooOf<K, V>>)> {
        let new = self.clone_buffer(image)?;
        let placed = self.add_to_slots(plan, &new, Some(image), keys, values)?;
        Ok((new, placed))
    }

    fn place(
        &self,
        plan: &CuckooLinePlan<(K, V)>,
        image: &mut Buffer<u64>,
        keys: &BufferOf<Self, <(K, V) as Layout>::Key>,
        values: &BufferOf<Self, <(K, V) as Layout>::Value>,
    ) -> Result<PlacedOf<CuckooOf<K, V>>> {
        let old = self.clone_buffer(image)?;
        self.add_to_slots(plan, image, Some(&old), keys, values)
    }

    fn lookup(
        &self,
        plan: &CuckooLinePlan<(K, V)>,
        image: &Buffer<u64>,
        queries: &BufferOf<Self, <(K, V) as Layout>::Key>,
        values: &mut BufferOf<Self, <(K, V) as Layout>::Value>,
        found: &mut Buffer<u32>,
    ) -> Result<()> {
        let launch = self.slots_kernel(plan, "cuckoo_lookup", image)?.buffer(queries).value(queries.len() as u64);
        launch.buffer(values).buffer(found).over(queries.len())
    }

    fn contains(
        &self,
        plan: &CuckooLinePlan<(K, V)>,
        image: &Buffer<u64>,
        queries: &BufferOf<Self, <(K, V) as Layout>::Key>,
    ) -> Result<Buffer<u32>> {
        let found = self.unwritten(bitmap_words(queries.len()))?;
        let launch = self.slots_kernel(plan, "cuckoo_contains", image)?.stage("cuckoo_lookup").buffer(queries);
        launch.value(queries.len() as u64).buffer(&found).over(queries.len())?;
        Ok(found)
    }

    fn assign(
        &self,
        plan: &CuckooLinePlan<(K, V)>,
        image: &mut Buffer<u64>,
        keys: &BufferOf<Self, <(K, V) as Layout>::Key>,
        values: &BufferOf<Self, <(K, V) as Layout>::Value>,
    ) -> Result<()> {
        if <(K, V)>::VALUES.is_none() {
            return Ok(());
        }
        let launch = self.slots_kernel(plan, "cuckoo_assign", image)?.buffer(keys).buffer(values);
        launch.value(keys.len() as u64).over(keys.len())
    }

    fn decode(&self, plan: &CuckooLinePlan<(K, V)>, image: &Buffer<u64>) -> Result<DecodedOf<Self, CuckooOf<K, V>>> {
        self.slots_kernel(plan, "cuckoo_decode", image)?.into_columns(plan.cells() as usize)
    }

    /// One kernel, one fill and one read of the status.
    fn remove(
        &self,
        plan: &CuckooLinePlan<(K, V)>,
        image: &mut Buffer<u64>,
        keys: &BufferOf<Self, <(K, V) as Layout>::Key>,
    ) -> Result<Removed> {
        let tally = Tally::new(self)?;
        let launch = self.slots_kernel(plan, "cuckoo_remove", image)?.buffer(keys).value(keys.len() as u64);
        launch.buffer(tally.status()).over(keys.len())?;
        tally.removed(self)
    }

    fn lift(&self, plan: &CuckooLinePlan<(K, V)>, image: &mut Buffer<u64>) -> Result<DecodedOf<Self, CuckooOf<K, V>>> {
        self.slots_kernel(plan, "cuckoo_lift", image)?.into_columns(plan.cells() as usize)
    }
}
