//! The host side of cl/perfect.cl: programs and arguments. Tables are built on the host, for every backend
//! (`scheme/perfect/build.rs`).

use ocl::core::Program;
use ocl::prm::Uint16;

use super::runtime::launch::Launch;
use super::runtime::program::PERFECT;
use super::{Buffer, OpenCl};
use crate::backend::{Decoded, DeviceBuffer, HashBackend, Passes, Placed};
use crate::error::Result;
use crate::scheme::divisor::Divisor;
use crate::scheme::perfect::{Functions, build};
use crate::scheme::{Perfect, PerfectPlan, Plan};

/// The numbers that vary between plans, as `TABLE` in cl/perfect.clh expects them.
pub(super) fn sizes(functions: &Functions) -> Uint16 {
    let mut sizes = [0; 16];
    let divisors = [functions.width, functions.height, functions.side, functions.offset_side];
    for (to, Divisor { n, reciprocal }) in sizes.chunks_exact_mut(2).zip(divisors) {
        to.copy_from_slice(&[n, reciprocal]);
    }
    sizes[8] = functions.slots;
    Uint16::from(sizes)
}

impl OpenCl {
    /// The program for domains with the number of axes of this plan's domain.
    pub(super) fn perfect(&self, plan: &PerfectPlan) -> Result<Program> {
        self.program(PERFECT, &[("AXES", plan.axes()), ("GROUP", self.0.sizes.group as u32)])
    }

    /// A kernel with the arguments that all of cl/perfect.cl begin with: the image, and `TABLE`.
    ///
    /// The kernels rely on an image that contains all slots and offsets.
    fn perfect_kernel<'a>(
        &'a self,
        plan: &PerfectPlan,
        name: &'static str,
        image: &'a Buffer<u64>,
    ) -> Result<Launch<'a>> {
        Ok(self.kernel(&self.perfect(plan)?, name)?.buffer(image).value(sizes(&plan.functions())))
    }
}

impl Passes<Perfect> for OpenCl {
    /// Builds on the host, with one thread.
    fn place(
        &self,
        plan: &PerfectPlan,
        image: &mut Buffer<u64>,
        keys: &Buffer<u32>,
        values: &Buffer<u32>,
    ) -> Result<Placed> {
        let pairs = keys.len();
        let outside = plan.outside().is_some();
        let (mut keys_here, mut values_here) = (build::filled(pairs, 0)?, build::filled(pairs, 0)?);
        self.read(keys, 0, &mut keys_here)?;
        self.read(values, 0, &mut values_here)?;
        self.ledger().host("place", pairs);
        let mut words = build::filled(image.len(), 0)?;
        let placed = build::place(&plan.functions(), &mut words, outside, &keys_here, &values_here)?;
        if placed.unplaced == 0 {
            self.write(image, 0, &words)?;
        }
        Ok(placed)
    }

    fn lookup(
        &self,
        plan: &PerfectPlan,
        image: &Buffer<u64>,
        queries: &Buffer<u32>,
        values: &mut Buffer<u32>,
        found: &mut Buffer<u32>,
    ) -> Result<()> {
        let launch = self.perfect_kernel(plan, "perfect_lookup", image)?;
        launch.answering(plan.outside(), queries, Some(values), found).over(queries.len())
    }

    fn assign(
        &self,
        plan: &PerfectPlan,
        image: &mut Buffer<u64>,
        keys: &Buffer<u32>,
        values: &Buffer<u32>,
    ) -> Result<()> {
        let launch = self.perfect_kernel(plan, "perfect_assign", image)?.buffer(keys).buffer(values);
        launch.value(keys.len() as u64).over(keys.len())
    }

    fn decode(&self, plan: &PerfectPlan, image: &Buffer<u64>) -> Result<Decoded<Buffer<u32>>> {
        self.perfect_kernel(plan, "perfect_decode", image)?.into_columns(plan.slots() as usize)
    }
}
