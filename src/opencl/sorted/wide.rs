//! The host side of cl/sorted_wide.cl: a sort, and a kernel that writes the pairs to the columns of an image.

use ocl::core::Program;

use crate::backend::{BufferOf, DecodedOf, DeviceBuffer, HashBackend, Passes, PlacedOf, Word};
use crate::error::Result;
use crate::opencl::passes::tally::Tally;
use crate::opencl::runtime::launch::Launch;
use crate::opencl::runtime::program::SORTED_WIDE;
use crate::opencl::{Buffer, OpenCl};
use crate::scheme::bucketized::wide::{Column, Layout};
use crate::scheme::sorted::search;
use crate::scheme::sorted::wide::{ColumnsPlan, columns};
use crate::scheme::{Plan, SortedOf};

impl OpenCl {
    /// The program of such tables.
    pub(in crate::opencl) fn sorted_columns<L: Layout>(&self) -> Result<Program> {
        let parameters = [
            ("KEY_BITS", L::Key::BITS),
            ("KEY_STRIDE", 1),
            ("VALUE_BITS", if L::VALUES.is_some() { L::Value::BITS } else { 0 }),
            ("GROUP", self.0.sizes.group as u32),
        ];
        self.program(SORTED_WIDE, &parameters)
    }

    /// A kernel with the arguments that all of them begin with: the image, and `COLUMNS`.
    fn columns_kernel<'a, L: Layout>(
        &'a self,
        plan: &ColumnsPlan<L>,
        name: &'static str,
        image: &'a Buffer<u64>,
    ) -> Result<Launch<'a>> {
        let launch = self.kernel(&self.sorted_columns::<L>()?, name)?.buffer(image);
        Ok(launch.value(plan.pairs()).value(plan.slot_count()).value(columns::key_words::<L>(plan.slot_count())))
    }

    /// As [`columns_kernel`](Self::columns_kernel), followed by the number of steps of a search.
    fn columns_search<'a, L: Layout>(
        &'a self,
        plan: &ColumnsPlan<L>,
        name: &'static str,
        image: &'a Buffer<u64>,
    ) -> Result<Launch<'a>> {
        Ok(self.columns_kernel(plan, name, image)?.value(search::steps(plan.pairs() as usize)))
    }
}

impl<K: Column, V: Column> Passes<SortedOf<K, V>> for OpenCl
where
    (K, V): Layout,
{
    /// A sort, one kernel, one fill and one read of the status.
    fn place(
        &self,
        plan: &ColumnsPlan<(K, V)>,
        image: &mut Buffer<u64>,
        keys: &BufferOf<Self, <(K, V) as Layout>::Key>,
        values: &BufferOf<Self, <(K, V) as Layout>::Value>,
    ) -> Result<PlacedOf<SortedOf<K, V>>> {
        let launch = self.columns_kernel(plan, "sorted_place", image)?;
        let unplaced = plan.pairs_beyond(keys.len())?;
        if unplaced > 0 {
            return Ok(PlacedOf::<SortedOf<K, V>> { unplaced, ..Default::default() });
        }
        let (keys, values) = self.sort_pairs(keys, values)?;
        let tally = Tally::new(self)?;
        // One more work-item than slots, because a column of 32 bits ends with a whole word.
        launch.buffer(&keys).buffer(&values).buffer(tally.status()).over(plan.slot_count() as usize + 1)?;
        tally.placed_wide(self)
    }

    fn lookup(
        &self,
        plan: &ColumnsPlan<(K, V)>,
        image: &Buffer<u64>,
        queries: &BufferOf<Self, <(K, V) as Layout>::Key>,
        values: &mut BufferOf<Self, <(K, V) as Layout>::Value>,
        found: &mut Buffer<u32>,
    ) -> Result<()> {
        let launch = self.columns_search(plan, "sorted_lookup", image)?.buffer(queries).value(queries.len() as u64);
        launch.buffer(values).buffer(found).over(queries.len())
    }

    fn assign(
        &self,
        plan: &ColumnsPlan<(K, V)>,
        image: &mut Buffer<u64>,
        keys: &BufferOf<Self, <(K, V) as Layout>::Key>,
        values: &BufferOf<Self, <(K, V) as Layout>::Value>,
    ) -> Result<()> {
        if <(K, V)>::VALUES.is_none() {
            return Ok(());
        }
        let launch = self.columns_search(plan, "sorted_assign", image)?.buffer(keys).buffer(values);
        launch.value(keys.len() as u64).over(keys.len())
    }

    fn decode(&self, plan: &ColumnsPlan<(K, V)>, image: &Buffer<u64>) -> Result<DecodedOf<Self, SortedOf<K, V>>> {
        self.columns_kernel(plan, "sorted_decode", image)?.into_columns(plan.cells() as usize)
    }
}
