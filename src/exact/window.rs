//! The doubles of a column that are added up as integers of 128 bits.
//!
//! ```text
//! exponents      low .. low + 42        those around the greatest one of the column, and those below it
//! a double       its 53 bits, shifted by exponent - low:  below 2^95, so that the sum of 2^32 of them is below 2^127
//! ```
//!
//! Values outside of the window are leftovers, and so are infinities and NaN; zero is not. The window of a column
//! affects only the speed of its sums, so it is chosen from a sample.

use super::{UNIT, nearest, signed};

/// The number of exponents of a window.
const WIDTH: u32 = 43;
/// The number by which the greatest exponent of a column may exceed that of a sample.
const ABOVE: u32 = 3;
/// The maximum of `low`: no window contains the exponent of infinity and NaN.
const HIGHEST: u32 = 2046 - (WIDTH - 1);
/// The number of values of a sample.
const SAMPLE: usize = 1 << 12;

/// A range of exponents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    /// The lowest exponent, encoded as in a double; 1 for subnormal numbers.
    low: u32,
}

impl Window {
    /// The window for a column in whose sample the greatest exponent is `exponent`, encoded as in a double.
    pub(crate) fn around(exponent: u32) -> Self {
        Window { low: (exponent + ABOVE).saturating_sub(WIDTH - 1).clamp(1, HIGHEST) }
    }

    /// The window for a column, chosen from a sample.
    pub(crate) fn of(values: &[u64]) -> Self {
        let sample = values.iter().step_by(values.len().div_ceil(SAMPLE).max(1));
        Self::around(sample.map(|&bits| exponent(bits)).filter(|&exponent| exponent < 2047).max().unwrap_or(0))
    }

    /// A double in units of the window; `None` if it is a leftover.
    #[inline(always)]
    pub(crate) fn integer(self, bits: u64) -> Option<i128> {
        integer(bits, self.low, WIDTH)
    }

    /// The exponent of the window's unit.
    pub(crate) fn unit(self) -> i32 {
        unit(self.low)
    }

    /// A sum in units of the window, as the nearest double.
    pub(crate) fn sum(self, sum: i128) -> f64 {
        signed(sum < 0, nearest(sum.unsigned_abs(), self.unit(), false))
    }
}

/// The exponent of a double, in its encoded form.
#[inline(always)]
pub(super) fn exponent(bits: u64) -> u32 {
    (bits >> 52) as u32 & 0x7ff
}

/// A double in units of a window of `width` exponents from `low` on; `None` if it is a leftover.
#[inline(always)]
pub(super) fn integer(bits: u64, low: u32, width: u32) -> Option<i128> {
    let exponent = exponent(bits);
    // Subnormal numbers have the exponent of the smallest others, and no leading bit.
    let mantissa = (bits & ((1 << 52) - 1)) | u64::from(exponent > 0) << 52;
    let shift = exponent.max(1).wrapping_sub(low);
    if shift >= width {
        return (mantissa == 0).then_some(0);
    }
    let integer = i128::from(mantissa) << shift;
    Some(if bits >> 63 == 0 { integer } else { -integer })
}

/// The exponent of a window's unit.
pub(super) fn unit(low: u32) -> i32 {
    low as i32 - 1 + UNIT
}
