//! `Probe` on OpenCL: the device's clock, and the last part of cl/primitives.cl.

use std::time::Duration;

use super::primitives::READS_EACH;
use crate::backend::{DeviceBuffer, HashBackend, Probe, StageTime, Word};
use crate::error::{Error, Result};
use crate::opencl::{Buffer, OpenCl};

/// Words of a line.
const LINE: usize = 8;

/// The maximum number of work-items that read in turn, each at a stride of their number: from 2^31 on,
/// `get_global_size` of NVIDIA's OpenCL (580.159, 2026-11-22) is wrong, although all work-items run and have the right
/// number.
const MOST_READERS: usize = 1 << 30;

impl Probe for OpenCl {
    fn timed<R>(&self, work: impl FnOnce() -> Result<R>) -> Result<(R, Duration)> {
        self.busy_time(work)
    }

    fn stages<R>(&self, work: impl FnOnce() -> Result<R>) -> Result<(R, Vec<StageTime>)> {
        self.stage_times(work)
    }

    fn random_reads(&self, words: &Buffer<u64>, reads: usize) -> Result<u64> {
        self.xor_of_places("random_reads", (words, places(words.len())), reads, reads.div_ceil(READS_EACH))
    }

    fn random_lines(&self, words: &Buffer<u64>, reads: usize) -> Result<u64> {
        // As many work-items read a line as each of them reads words of lines.
        self.xor_of_places("random_lines", (words, places(words.len() / LINE)), reads, reads * LINE / READS_EACH)
    }

    fn random_updates(&self, words: &mut Buffer<u64>, writes: usize) -> Result<()> {
        self.check_atomics()?;
        let Some(places) = places(words.len()) else { return Ok(()) };
        let launch = self.kernel(&self.primitives()?, "random_updates")?.buffer(words).value(places);
        launch.value(writes as u64).over_groups_of(self.pass_group(), writes, writes)
    }

    fn strided_updates<T: Word>(&self, words: &mut Buffer<T>, stride: u32, atomic: bool) -> Result<()> {
        let len = words.len();
        Error::check_rows("elements to be updated", len)?;
        let name = match (size_of::<T>(), atomic) {
            (4, false) => "strided_32",
            (4, true) => "strided_32_atomic",
            (_, false) => "strided_64",
            (_, true) => {
                self.check_atomics()?;
                "strided_64_atomic"
            }
        };
        let launch = self.kernel(&self.primitives()?, name)?.buffer(words).value(len as u64).value(stride);
        launch.over_groups_of(self.pass_group(), len, len)
    }
}

impl OpenCl {
    /// Returns an error if the device has no 64-bit atomics to be measured.
    fn check_atomics(&self) -> Result<()> {
        match self.0.info.tier.reason() {
            None => Ok(()),
            Some(reason) => Err(Error::Unsupported { device: self.0.info.to_string(), missing: reason.into() }),
        }
    }

    /// Runs a kernel that XORs what it reads at random places; `None` if there are no places.
    fn xor_of_places(
        &self,
        kernel: &'static str,
        (words, places): (&Buffer<u64>, Option<u32>),
        reads: usize,
        items: usize,
    ) -> Result<u64> {
        let Some(places) = places else { return Ok(0) };
        let (result, items): (Buffer<u64>, usize) = (self.filled(1, 0)?, items.min(MOST_READERS));
        let launch = self.kernel(&self.primitives()?, kernel)?.buffer(words).value(places);
        launch.value(reads as u64).buffer(&result).over_groups_of(self.pass_group(), items, reads)?;
        let mut xor = [0];
        self.read(&result, 0, &mut xor)?;
        Ok(xor[0])
    }
}

/// The number of places for random access; `None` for an empty buffer.
fn places(len: usize) -> Option<u32> {
    (len > 0).then(|| u32::try_from(len).unwrap_or(u32::MAX))
}
