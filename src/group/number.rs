//! The types of values, and how each is aggregated.
//!
//! ```text
//! u32              one pass, whose sums are exact; means as those of u64
//! u64, i64, f64    one pass, whose sums have 128 bits; the first group whose integer sum does not fit 64 is reported
//! ```

use std::fmt;

use crate::backend::{
    Accumulated, DeviceBuffer, HashBackend, Numbers, Relational, Wanted, WideAccumulated, Word, bitmap_words,
};
use crate::cpu::Cpu;
use crate::error::Result;
use crate::sealed::Sealed;

/// The values that can be aggregated: `u32`, `u64`, `i64` and `f64`.
///
/// Convert narrower types with `as`: `i32` to `i64` and `f32` to `f64`, which preserves all values.
pub trait Number: bytemuck::Pod + Default + PartialOrd + fmt::Debug + fmt::Display + Send + Sync + Passed {
    /// The integer that stores a value's bits on a device.
    type Word: Word;
    /// The type of sums: `u64` for both unsigned integers, `i64` for `i64`, `f64` for `f64`.
    type Sum: Number<Word = u64>;
}

/// The requested aggregates of the values of each group.
pub struct AggregateColumns<B: HashBackend, W: Word> {
    pub(super) counts: B::Buffer<u32>,
    pub(super) sums: B::Buffer<u64>,
    pub(super) means: B::Buffer<u64>,
    pub(super) least: B::Buffer<W>,
    pub(super) greatest: B::Buffer<W>,
    /// The first group whose sum does not fit.
    pub(super) overflow: Option<u32>,
}

impl<B: HashBackend, W: Word> AggregateColumns<B, W> {
    /// The aggregates of these groups, in this order.
    pub(super) fn gathered(self, backend: &B, groups: &B::Buffer<u32>) -> Result<Self> {
        fn of<B: HashBackend, T: Word>(
            backend: &B,
            column: B::Buffer<T>,
            groups: &B::Buffer<u32>,
        ) -> Result<B::Buffer<T>> {
            // A column that was not requested stays empty.
            if column.is_empty() { Ok(column) } else { backend.gather(&column, groups) }
        }
        Ok(AggregateColumns {
            counts: of(backend, self.counts, groups)?,
            sums: of(backend, self.sums, groups)?,
            means: of(backend, self.means, groups)?,
            least: of(backend, self.least, groups)?,
            greatest: of(backend, self.greatest, groups)?,
            overflow: self.overflow,
        })
    }
}

impl<W: Word> AggregateColumns<Cpu, W> {
    /// Converts aggregates whose least and greatest values have 64 bits.
    pub(crate) fn of_wide(cpu: &Cpu, all: WideAccumulated<Cpu>) -> Result<Self> {
        let WideAccumulated { counts, sums, means, least, greatest, overflow } = all;
        Ok(AggregateColumns { counts, sums, means, least: cpu.low(&least)?, greatest: cpu.low(&greatest)?, overflow })
    }

    /// Converts columns of the CPU to columns of the backend that it belongs to.
    pub(crate) fn on<B: HashBackend>(self, backend: &B) -> Result<AggregateColumns<B, W>> {
        Ok(AggregateColumns {
            counts: backend.of_host(self.counts)?,
            sums: backend.of_host(self.sums)?,
            means: backend.of_host(self.means)?,
            least: backend.of_host(self.least)?,
            greatest: backend.of_host(self.greatest)?,
            overflow: self.overflow,
        })
    }
}

/// The passes that aggregate a type. Not callable from outside.
pub trait Passed: Sealed + Sized {
    /// The type of the bits.
    #[doc(hidden)]
    const NUMBERS: Numbers;

    /// Row `i` belongs to group `ids[i]` and has the value `values[i]`.
    #[doc(hidden)]
    fn columns<B: Relational>(
        backend: &B,
        ids: &B::Buffer<u32>,
        values: &B::Buffer<<Self as Number>::Word>,
        groups: usize,
        wanted: Wanted,
    ) -> Result<AggregateColumns<B, <Self as Number>::Word>>
    where
        Self: Number;
}

impl Number for u32 {
    type Word = u32;
    type Sum = u64;
}

impl Passed for u32 {
    const NUMBERS: Numbers = Numbers::Unsigned;

    fn columns<B: Relational>(
        backend: &B,
        ids: &B::Buffer<u32>,
        values: &B::Buffer<u32>,
        groups: usize,
        wanted: Wanted,
    ) -> Result<AggregateColumns<B, u32>> {
        let (none, passed) = (backend.filled(0, 0)?, Wanted { mean: false, ..wanted });
        let of_passed = if passed.values() { values } else { &none };
        let Accumulated { counts, sums, least, greatest } = backend.accumulate(ids, of_passed, groups, passed)?;
        let mut means = backend.filled(0, 0)?;
        if wanted.mean {
            let widened = widened(backend, values)?;
            let mean = Wanted { mean: true, ..Wanted::default() };
            means = backend.accumulate_wide(ids, &widened, Numbers::Unsigned, groups, mean)?.means;
        }
        Ok(AggregateColumns { counts, sums, means, least, greatest, overflow: None })
    }
}

/// Converts words to 64 bits.
fn widened<B: Relational>(backend: &B, values: &B::Buffer<u32>) -> Result<B::Buffer<u64>> {
    let (zeros, ones) =
        (backend.filled(values.len().div_ceil(2), 0)?, backend.filled(bitmap_words(values.len()), u32::MAX)?);
    backend.interleave(&zeros, values, &ones, 0)
}

macro_rules! wide {
    ($($number:ty, $sum:ty, $numbers:expr;)*) => {$(
        impl Number for $number {
            type Word = u64;
            type Sum = $sum;
        }

        impl Passed for $number {
            const NUMBERS: Numbers = $numbers;

            fn columns<B: Relational>(
                backend: &B,
                ids: &B::Buffer<u32>,
                values: &B::Buffer<u64>,
                groups: usize,
                wanted: Wanted,
            ) -> Result<AggregateColumns<B, u64>> {
                if !wanted.values() {
                    return counted(backend, ids, groups, wanted);
                }
                let WideAccumulated { counts, sums, means, least, greatest, overflow } =
                    backend.accumulate_wide(ids, values, $numbers, groups, wanted)?;
                Ok(AggregateColumns { counts, sums, means, least, greatest, overflow })
            }
        }
    )*};
}
wide! {
    u64, u64, Numbers::Unsigned;
    i64, i64, Numbers::Signed;
    f64, f64, Numbers::Double;
}

/// Counts rows; no values are required.
fn counted<B: Relational>(
    backend: &B,
    ids: &B::Buffer<u32>,
    groups: usize,
    wanted: Wanted,
) -> Result<AggregateColumns<B, u64>> {
    let counts = backend.accumulate(ids, &backend.filled(0, 0)?, groups, wanted)?.counts;
    let none = || backend.filled(0, 0u64);
    Ok(AggregateColumns { counts, sums: none()?, means: none()?, least: none()?, greatest: none()?, overflow: None })
}
