//! Measurements of a device's time and memory. Benchmarks use them; tables do not.

use std::time::Duration;

use super::{HashBackend, StageTime, Word};
use crate::error::Result;

/// The clocks of a device, and memory access patterns that bound builds and lookups. Sealed.
pub trait Probe: HashBackend {
    /// Runs `work` and measures how long the device was busy with it: kernels alone on OpenCL, wall time on the CPU.
    fn timed<R>(&self, work: impl FnOnce() -> Result<R>) -> Result<(R, Duration)>;

    /// Runs `work` and measures each of its stages, by name, in the order of first use. On OpenCL a stage is a kernel
    /// (fills and copies have those names); on the CPU it is a parallel pass, including the time since the previous
    /// one. The time before the first one is the stage `set-up`.
    fn stages<R>(&self, work: impl FnOnce() -> Result<R>) -> Result<(R, Vec<StageTime>)>;

    /// Reads `reads` words of `buffer` at pseudo-random places and XORs them: an upper bound of the speed of lookups.
    /// The places are `reduce(mix(i))` with a mixer without keys, so the result is the same on every device.
    fn random_reads(&self, buffer: &Self::Buffer<u64>, reads: usize) -> Result<u64>;

    /// Reads `reads` lines of `buffer`, of 8 words each, at places drawn in the same way, and XORs all their words: an
    /// upper bound of the speed of lookups that read a bucket. Words after the last whole line are never read.
    fn random_lines(&self, buffer: &Self::Buffer<u64>, reads: usize) -> Result<u64>;

    /// Raises `writes` words of `buffer` at the places of [`random_reads`](Self::random_reads) by an atomic maximum
    /// with `i + 1`: an upper bound of the speed of builds with random atomics.
    fn random_updates(&self, buffer: &mut Self::Buffer<u64>, writes: usize) -> Result<()>;

    /// Updates as many elements as the buffer has: update k reads element `k * stride` modulo the length and increments
    /// it, as in the benchmark of Alcantara 2011, Section 4.5.3. If the stride and the length have no common divisor,
    /// each element is updated once. Otherwise several updates hit one element, and some may be lost unless they are
    /// atomic.
    ///
    /// # Errors
    /// [`crate::Error::TooLarge`] for 2^32 or more elements.
    fn strided_updates<T: Word>(&self, buffer: &mut Self::Buffer<T>, stride: u32, atomic: bool) -> Result<()>;
}
