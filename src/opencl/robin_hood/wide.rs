//! The program of Robin Hood tables of 64-bit keys or values, cl/robin_hood_wide.clh followed by cl/slot_lists.cl, and
//! the arguments of its kernels.

use ocl::prm::Ulong4;

use super::table;
use crate::error::Result;
use crate::opencl::bucketized::wide::{DeviceKey, line_parameters};
use crate::opencl::runtime::launch::Launch;
use crate::opencl::runtime::program::ROBIN_HOOD_WIDE;
use crate::opencl::slot_lists::SlotPlan;
use crate::opencl::{Buffer, OpenCl};
use crate::scheme::bucketized::wide::Layout;
use crate::scheme::robin_hood::wide::{FIELDS, RobinHoodLinePlan, WalkFunctions};
use crate::scheme::robin_hood::{Functions, Sequence};

/// The parameters with which cl/robin_hood_wide.clh is compiled.
pub(in crate::opencl) fn parameters<L: Layout>(sequence: Sequence, group: usize) -> Vec<(&'static str, u32)> {
    // Mixers: of keys and of ages.
    let mut parameters = line_parameters::<L>(group, 2);
    parameters.extend([
        ("LINE_AGE_BITS", FIELDS.age_bits),
        ("LINE_MAX_AGE", FIELDS.max_age()),
        ("SEQUENCE", sequence as u32),
        ("RANDOM", Sequence::Random as u32),
        ("PAPER_RANDOM", Sequence::PaperRandom as u32),
    ]);
    parameters
}

/// The arguments that cl/robin_hood_wide.clh calls `SLOT_TABLE`.
pub(in crate::opencl) fn slot_table<'a, K: DeviceKey>(launch: Launch<'a>, functions: &WalkFunctions<K>) -> Launch<'a> {
    let (narrow, mixer) = K::constants(functions.mixer);
    let launch = table(launch, &Functions { keys: narrow, ..functions.walk.clone() });
    launch.value(Ulong4::from(mixer)).value(functions.by_slots.reciprocal)
}

impl<L: Layout> SlotPlan<L> for RobinHoodLinePlan<L>
where
    L::Key: DeviceKey,
{
    fn line_count(&self) -> usize {
        self.lines() as usize
    }
    fn slots_kernel<'a>(&self, device: &'a OpenCl, name: &'static str, image: &'a Buffer<u64>) -> Result<Launch<'a>> {
        let program = device.program(ROBIN_HOOD_WIDE, &parameters::<L>(self.sequence(), device.0.sizes.group))?;
        Ok(slot_table(device.kernel(&program, name)?.buffer(image), &self.functions()))
    }
}
