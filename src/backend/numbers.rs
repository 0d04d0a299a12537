//! The types of 64-bit values, and codes that order values as unsigned integers.
//!
//! ```text
//! unsigned   the bits                                            0 <= .. <= 2^64 - 1
//! signed     the bits with the sign flipped                      -2^63, .., -1, 0, 1, ..
//! double     negative: all bits flipped; else only the sign    -inf, .., -0, +0, .., +inf
//!            NaN of any bits: 0 to find the least value, all ones to find the greatest
//! ```
//!
//! So the least and the greatest value of each type are those of unsigned integers, which atomics find in any order. No
//! number has the code of NaN, because all codes of doubles are between those of the infinities. The code at the
//! opposite end of the range is that of groups without rows. cl/accumulate.cl has the same functions.

use crate::exact::{Window, quotient};

/// The type of 64-bit values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Numbers {
    /// `u64`.
    Unsigned,
    /// `i64`.
    Signed,
    /// `f64`.
    Double,
}

const SIGN: u64 = 1 << 63;

/// The only NaN in results.
pub(crate) const NAN: u64 = 0x7ff8_0000_0000_0000;

impl Numbers {
    /// All types.
    pub const ALL: [Numbers; 3] = [Numbers::Unsigned, Numbers::Signed, Numbers::Double];

    /// The code of the type in cl/.
    #[cfg(feature = "opencl")]
    pub(crate) fn code(self) -> u32 {
        match self {
            Numbers::Unsigned => 0,
            Numbers::Signed => 1,
            Numbers::Double => 2,
        }
    }

    /// The code to find the least value.
    #[inline(always)]
    pub(crate) fn low_code(self, bits: u64) -> u64 {
        match self {
            Numbers::Double if is_nan(bits) => 0,
            _ => self.ordered(bits),
        }
    }

    /// The code to find the greatest value.
    #[inline(always)]
    pub(crate) fn high_code(self, bits: u64) -> u64 {
        match self {
            Numbers::Double if is_nan(bits) => u64::MAX,
            _ => self.ordered(bits),
        }
    }

    /// The inverse of [`low_code`](Self::low_code). Only the greatest integer has the code of all ones; for doubles,
    /// that code means infinity.
    #[inline(always)]
    pub(crate) fn of_low_code(self, code: u64) -> u64 {
        match (self, code) {
            (Numbers::Double, 0) => NAN,
            (Numbers::Double, u64::MAX) => f64::INFINITY.to_bits(),
            _ => self.unordered(code),
        }
    }

    /// The inverse of [`high_code`](Self::high_code). 0 means the least integer, or minus infinity.
    #[inline(always)]
    pub(crate) fn of_high_code(self, code: u64) -> u64 {
        match (self, code) {
            (Numbers::Double, u64::MAX) => NAN,
            (Numbers::Double, 0) => f64::NEG_INFINITY.to_bits(),
            _ => self.unordered(code),
        }
    }

    #[inline(always)]
    fn ordered(self, bits: u64) -> u64 {
        match self {
            Numbers::Unsigned => bits,
            Numbers::Signed => bits ^ SIGN,
            Numbers::Double => bits ^ if bits & SIGN == 0 { SIGN } else { u64::MAX },
        }
    }

    #[inline(always)]
    fn unordered(self, code: u64) -> u64 {
        match self {
            Numbers::Unsigned => code,
            Numbers::Signed => code ^ SIGN,
            Numbers::Double => code ^ if code & SIGN == 0 { u64::MAX } else { SIGN },
        }
    }

    /// A value as an integer; a double in units of the window, or `None` if it is outside of the window.
    #[inline(always)]
    pub(crate) fn integer(self, bits: u64, window: Window) -> Option<i128> {
        match self {
            Numbers::Unsigned => Some(i128::from(bits)),
            Numbers::Signed => Some(i128::from(bits as i64)),
            Numbers::Double => window.integer(bits),
        }
    }

    /// The bits of the sum of one value.
    #[inline(always)]
    pub(crate) fn sum_of_one(self, bits: u64) -> u64 {
        match self {
            // The sum of -0.0 is 0.0, as that of an empty group.
            Numbers::Double => bits_of(f64::from_bits(bits) + 0.0),
            _ => bits,
        }
    }

    /// The bits of the mean of one value.
    #[inline(always)]
    pub(crate) fn mean_of_one(self, bits: u64) -> u64 {
        match self {
            Numbers::Unsigned => (bits as f64).to_bits(),
            Numbers::Signed => (bits as i64 as f64).to_bits(),
            Numbers::Double => self.sum_of_one(bits),
        }
    }

    /// The bits of a sum; `None` if an integer does not fit in 64 bits.
    #[inline(always)]
    pub(crate) fn sum(self, sum: i128, window: Window) -> Option<u64> {
        match self {
            Numbers::Unsigned => u64::try_from(sum).ok(),
            Numbers::Signed => i64::try_from(sum).ok().map(|sum| sum as u64),
            Numbers::Double => Some(window.sum(sum).to_bits()),
        }
    }

    /// The bits of a mean, of `count` values.
    pub(crate) fn mean(self, sum: i128, window: Window, count: u32) -> u64 {
        let unit = if self == Numbers::Double { window.unit() } else { 0 };
        bits_of(quotient(sum, unit, count.into()))
    }
}

/// Whether the bits are those of a NaN.
#[inline(always)]
pub(crate) fn is_nan(bits: u64) -> bool {
    bits & !SIGN > f64::INFINITY.to_bits()
}

/// The bits of a double, with [`NAN`] for any NaN.
#[inline(always)]
pub(crate) fn bits_of(number: f64) -> u64 {
    if number.is_nan() { NAN } else { number.to_bits() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_preserve_order_and_are_invertible() {
        let doubles = [f64::NEG_INFINITY, f64::MIN, -1.0, -5e-324, -0.0, 0.0, 5e-324, 1.0, f64::MAX, f64::INFINITY];
        let signed = [i64::MIN, -1, 0, 1, i64::MAX];
        for (of, rising) in [
            (Numbers::Double, doubles.map(f64::to_bits).to_vec()),
            (Numbers::Signed, signed.map(|number| number as u64).to_vec()),
            (Numbers::Unsigned, vec![0, 1, SIGN - 1, SIGN, u64::MAX]),
        ] {
            let codes: Vec<u64> = rising.iter().map(|&bits| of.low_code(bits)).collect();
            assert!(codes.is_sorted_by(|a, b| a < b), "{of:?}");
            assert!(rising.iter().all(|&bits| of.low_code(bits) == of.high_code(bits)));
            assert!(rising.iter().all(|&bits| of.of_low_code(of.low_code(bits)) == bits));
            assert!(rising.iter().all(|&bits| of.of_high_code(of.high_code(bits)) == bits));
        }
        for nan in [f64::NAN, -f64::NAN, f64::from_bits(1 | f64::INFINITY.to_bits()), f64::from_bits(u64::MAX)] {
            let of = Numbers::Double;
            let (low, high) = (of.low_code(nan.to_bits()), of.high_code(nan.to_bits()));
            assert!(low < of.low_code(f64::NEG_INFINITY.to_bits()) && high > of.high_code(f64::INFINITY.to_bits()));
            assert_eq!((of.of_low_code(low), of.of_high_code(high), bits_of(nan)), (NAN, NAN, NAN));
        }
        let of = Numbers::Double;
        assert_eq!(of.of_low_code(u64::MAX), f64::INFINITY.to_bits());
        assert_eq!(of.of_high_code(0), f64::NEG_INFINITY.to_bits());
    }
    #[test]
    fn sums_of_integers_beyond_64_bits_are_refused() {
        let edges = [0, 1, -1, i128::from(i64::MAX), i128::from(i64::MIN), i128::from(u64::MAX)];
        let window = Window::of(&[]);
        for sum in edges.iter().flat_map(|&edge| [edge - 1, edge, edge + 1]) {
            let bits = |holds: bool| holds.then_some(sum as u64);
            assert_eq!(Numbers::Unsigned.sum(sum, window), bits(u64::try_from(sum).is_ok()), "{sum}");
            assert_eq!(Numbers::Signed.sum(sum, window), bits(i64::try_from(sum).is_ok()), "{sum}");
            assert_eq!(Numbers::Signed.mean(sum, window, 1), (sum as f64).to_bits(), "{sum}");
        }
    }
}
