//! Measuring: how long a device was busy, and what its memory can do. Benches use it; no table does.

use std::time::Duration;

use super::{HashBackend, StageTime, Word};
use crate::error::Result;

/// The clocks of a device, and accesses to its memory that are the limits of builds and lookups. Sealed.
pub trait Probe: HashBackend {
    /// Runs `work` and tells how long the device was busy with it: kernels alone on OpenCL, wall time on the CPU.
    fn timed<R>(&self, work: impl FnOnce() -> Result<R>) -> Result<(R, Duration)>;

    /// Runs `work` and tells how long each of its stages took, by name, in the order of their first use: a kernel each
    /// on OpenCL (fills and copies by those names), a parallel pass each on the CPU, with what led up to the next one;
    /// what led up to the first is `set-up`.
    fn stages<R>(&self, work: impl FnOnce() -> Result<R>) -> Result<(R, Vec<StageTime>)>;

    /// Reads `reads` words of `buffer` at pseudo-random places and XORs them: the limit any lookup has. The places are
    /// `reduce(mix(i))` with a mixer without keys, so the answer is the same on every device.
    fn random_reads(&self, buffer: &Self::Buffer<u64>, reads: usize) -> Result<u64>;

    /// Reads `reads` lines of `buffer`, of 8 words each, at places drawn in the same way, and XORs all their words: the
    /// limit of lookups that read a bucket. Words behind the last whole line are never read.
    fn random_lines(&self, buffer: &Self::Buffer<u64>, reads: usize) -> Result<u64>;

    /// Raises `writes` words of `buffer` at the places of [`random_reads`](Self::random_reads) by an atomic maximum with
    /// `i + 1`: the limit any build by random atomics has.
    fn random_updates(&self, buffer: &mut Self::Buffer<u64>, writes: usize) -> Result<()>;

    /// As many updates as the buffer has elements, of which number k reads element `k * stride` modulo their number and
    /// overwrites it with one more: the benchmark of Alcantara 2011, Section 4.5.3. Where the stride and the length
    /// have no common divisor, each element is updated once. Otherwise several updates meet, of which some may be lost
    /// unless they are atomic.
    ///
    /// # Errors
    /// [`crate::Error::TooLarge`] for 2^32 elements and more.
    fn strided_updates<T: Word>(&self, buffer: &mut Self::Buffer<T>, stride: u32, atomic: bool) -> Result<()>;
}
