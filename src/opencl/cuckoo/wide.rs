//! The program of cuckoo tables of 64-bit keys or values, cl/cuckoo_wide.clh followed by cl/slot_lists.cl, and the
//! arguments of its kernels.

use ocl::core::Program;
use ocl::prm::Ulong4;

use crate::error::Result;
use crate::opencl::bucketized::wide::{DeviceKey, line_parameters};
use crate::opencl::runtime::launch::Launch;
use crate::opencl::runtime::program::CUCKOO_WIDE;
use crate::opencl::slot_lists::SlotPlan;
use crate::opencl::{Buffer, OpenCl};
use crate::scheme::bucketized::wide::Layout;
use crate::scheme::cuckoo::wide::CuckooLinePlan;

impl OpenCl {
    /// The program of tables with this many functions.
    pub(in crate::opencl) fn cuckoo_lines<L: Layout>(&self, functions: u32) -> Result<Program> {
        self.program(CUCKOO_WIDE, &line_parameters::<L>(self.0.sizes.group, functions))
    }
}

impl<L: Layout> SlotPlan<L> for CuckooLinePlan<L>
where
    L::Key: DeviceKey,
{
    fn line_count(&self) -> usize {
        self.lines() as usize
    }
    fn slots_kernel<'a>(&self, device: &'a OpenCl, name: &'static str, image: &'a Buffer<u64>) -> Result<Launch<'a>> {
        let functions = self.functions();
        let program = device.cuckoo_lines::<L>(functions.count)?;
        let mixers = functions.mixers.map(L::Key::constants);
        let launch = device.kernel(&program, name)?.buffer(image).value(self.slot_count());
        let launch = launch.mixers(&mixers.map(|(narrow, _)| narrow));
        Ok(mixers.into_iter().fold(launch, |launch, (_, wide)| launch.value(Ulong4::from(wide))))
    }
}
