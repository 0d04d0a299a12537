//! Builds without 64-bit atomics: the host side of cl/bucketized_wide_tokens.cl.

use ocl::core::Program;

use super::{DeviceKey, parameters};
use crate::backend::{DeviceBuffer as _, HashBackend as _, Placed};
use crate::error::Result;
use crate::opencl::passes::tally::Tally;
use crate::opencl::runtime::program::BUCKETIZED_WIDE_TOKENS;
use crate::opencl::{Buffer, OpenCl};
use crate::scheme::bucketized::wide::{Layout, LineFunctions};
use crate::scheme::slot::AGE_BITS;

/// The maximum number of rows: a token has their number and an age in 32 bits.
pub(in crate::opencl) const MOST_TOKENS: usize = 1 << (u32::BITS - AGE_BITS);

impl OpenCl {
    /// The program of such builds.
    pub(in crate::opencl) fn lines_tokens_program<L: Layout>(&self) -> Result<Program> {
        self.program(BUCKETIZED_WIDE_TOKENS, &parameters::<L>(self.0.sizes.group))
    }

    /// Places at most [`MOST_TOKENS`] pairs in an image of zeros. If there are duplicates, the image must not be used,
    /// and neither their number nor the least of them is exact.
    ///
    /// Three kernels, and memory for a token per slot.
    pub(super) fn lines_by_tokens<L: Layout>(
        &self,
        functions: LineFunctions<L::Key>,
        image: &Buffer<u64>,
        keys: &Buffer<L::Key>,
        values: &Buffer<L::Value>,
    ) -> Result<Placed<L::Key, L::Value>>
    where
        L::Key: DeviceKey,
    {
        let (tally, program, pairs) = (Tally::new(self)?, self.lines_tokens_program::<L>()?, keys.len());
        let cells = functions.steps.buckets as usize * L::SLOTS;
        let tokens: Buffer<u64> = self.filled(cells.div_ceil(2), 0)?;
        let place = self.lines_kernel(&program, functions, "lines_place_tokens", &tokens)?.buffer(keys);
        place.value(pairs as u64).buffer(tally.status()).over(pairs)?;
        let write = self.lines_kernel(&program, functions, "lines_of_tokens", image)?.buffer(keys);
        write.buffer(values).buffer(&tokens).over(cells)?;
        let copies = self.lines_kernel(&self.lines_program::<L>()?, functions, "lines_copies", image)?;
        copies.buffer(tally.status()).over(cells)?;
        tally.placed_wide(self)
    }
}
