//! Division by a number that is known only at run time, as a multiplication. Lookups divide by the width of a domain or
//! by the slots of a table, and a hardware division costs as much as the rest of the lookup. Products modulo such a
//! number are computed in the same way (Shoup).
//!
//! ```text
//! ratio      = floor(c 2^32 / n)             c = 1: the reciprocal, floor((2^32 - 1) / n), so that n = 1 has one
//! quotient   = high half of x ratio          floor(c x / n), or one less
//! remainder  = c x - quotient n              below 2 n, so one subtraction corrects both
//! ```
//!
//! The quotient is at most one too small: `c 2^32 = ratio n + e` with e from 0 to n; this also holds for the
//! reciprocal. So the exact quotient c x / n exceeds `x ratio / 2^32` by `x e / (n 2^32)`, which is at most x / 2^32
//! and so below 1. The same holds with 64 instead of 32 ([`LongDivisor`]).
//!
//! The functions for 32 bits work on several numbers at once ([`Lane`]). The OpenCL version is cl/divisor.clh.

use super::hash::{Lane, wrapped};

/// A divisor, at least 1, and the constants that replace the division.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Divisor {
    /// The divisor.
    pub n: u32,
    /// `floor((2^32 - 1) / n)`.
    pub reciprocal: u32,
}

impl Divisor {
    /// The greatest divisor for [`Divisor::divide`].
    pub const MOST: u32 = 1 << 31;

    /// Creates a divisor for `n`; 0 counts as 1.
    pub const fn new(n: u32) -> Self {
        let n = if n == 0 { 1 } else { n };
        Divisor { n, reciprocal: u32::MAX / n }
    }

    /// `x mod n`.
    #[inline(always)]
    pub fn remainder<L: Lane>(self, x: L) -> L {
        let n = L::splat(self.n);
        wrapped(x.minus(self.estimate(x).times(n)), n)
    }

    /// `(x / n, x mod n)`, for n up to [`Divisor::MOST`].
    #[inline(always)]
    pub fn divide<L: Lane>(self, x: L) -> (L, L) {
        let (n, quotient) = (L::splat(self.n), self.estimate(x));
        let rest = x.minus(quotient.times(n));
        // The rest is below 2 n <= 2^32, so the highest bit of rest - n is set exactly if the rest was below n.
        let less = rest.minus(n);
        (quotient.plus(L::splat(1)).minus(less.shifted::<31>()), rest.lesser(less))
    }

    #[inline(always)]
    fn estimate<L: Lane>(self, x: L) -> L {
        x.halves(L::splat(self.reciprocal)).0
    }
}

/// A 32-bit divisor for 64-bit numbers: the same with 64 instead of 32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongDivisor {
    /// The divisor, at least 1.
    pub n: u32,
    /// `floor((2^64 - 1) / n)`.
    pub reciprocal: u64,
}

impl LongDivisor {
    /// Creates a divisor for `n`; 0 counts as 1.
    pub const fn new(n: u32) -> Self {
        let n = if n == 0 { 1 } else { n };
        LongDivisor { n, reciprocal: u64::MAX / n as u64 }
    }

    /// `(x / n, x mod n)`.
    #[inline(always)]
    pub fn divide(self, x: u64) -> (u64, u32) {
        let n = u64::from(self.n);
        let quotient = ((u128::from(x) * u128::from(self.reciprocal)) >> 64) as u64;
        // Below 2 n, which fits 64 bits for every n.
        let rest = x - quotient * n;
        let one_less = u64::from(rest >= n);
        (quotient + one_less, (rest - one_less * n) as u32)
    }
}

/// A constant factor modulo n, and the constants that replace the division. Products take n as an argument, because
/// several factors share one n.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Factor {
    /// The factor, below n.
    pub times: u32,
    /// `floor(times 2^32 / n)`.
    pub ratio: u32,
}

impl Factor {
    /// For `times < n`, and n up to [`Divisor::MOST`].
    pub const fn new(times: u32, n: u32) -> Factor {
        Factor { times, ratio: (((times as u64) << 32) / n as u64) as u32 }
    }

    /// `x times mod n`.
    #[inline(always)]
    pub fn product<L: Lane>(self, x: L, n: u32) -> L {
        let (n, quotient) = (L::splat(n), x.halves(L::splat(self.ratio)).0);
        wrapped(x.times(L::splat(self.times)).minus(quotient.times(n)), n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quickcheck::quickcheck;
    use wide::u32x8;

    fn is_right(x: u32, n: u32) -> bool {
        let by = Divisor::new(n);
        let n = n.max(1);
        let lanes = by.remainder(u32x8::splat(x)) == u32x8::splat(x % n);
        let both = by.divide(u32x8::splat(x)) == (u32x8::splat(x / n), u32x8::splat(x % n));
        by.remainder(x) == x % n && lanes && (n > Divisor::MOST || both && by.divide(x) == (x / n, x % n))
    }

    #[test]
    fn edges_divide_exactly() {
        let edges = [0, 1, 2, 3, 5, 255, 256, 257, 65_535, 65_536, 65_537, (1 << 31) - 1, 1 << 31, (1 << 31) + 1];
        let edges: Vec<u32> = edges.into_iter().flat_map(|x| [x, !x]).collect();
        for &n in &edges {
            for &x in &edges {
                assert!(is_right(x, n), "{x} / {n}");
                let multiple = x / n.max(1) * n.max(1);
                assert!(is_right(multiple, n) && is_right(multiple.wrapping_sub(1), n), "{multiple} / {n}");
            }
        }
    }

    fn divides_long(x: u64, n: u32) -> bool {
        let (by, divisor) = (LongDivisor::new(n), u64::from(n.max(1)));
        by.divide(x) == (x / divisor, (x % divisor) as u32)
    }

    #[test]
    fn edges_of_64_bits_divide_exactly() {
        for n in [0, 1, 2, 3, 67, 65_536, (1 << 31) - 1, 1 << 31, u32::MAX - 4, u32::MAX] {
            let multiple = u64::MAX / u64::from(n.max(1)) * u64::from(n.max(1));
            for x in [0, 1, n.into(), 1 << 32, 1 << 63, multiple - 1, multiple, u64::MAX - 1, u64::MAX] {
                assert!(divides_long(x, n), "{x} / {n}");
            }
        }
    }

    fn multiplies(x: u32, times: u32, n: u32) -> bool {
        let n = n.clamp(1, Divisor::MOST);
        let factor = Factor::new(times % n, n);
        let product = (u64::from(x) * u64::from(times % n) % u64::from(n)) as u32;
        factor.product(x, n) == product && factor.product(u32x8::splat(x), n) == u32x8::splat(product)
    }

    #[test]
    fn edges_multiply_exactly() {
        for n in [1, 2, 3, 67, 65_536, 65_537, (1 << 31) - 1, 1 << 31] {
            for times in [0, 1, 2, n / 2, n - 1] {
                for x in [0, 1, n - 1, n, n + 1, u32::MAX / n * n, u32::MAX - 1, u32::MAX] {
                    assert!(multiplies(x, times, n), "{x} * {times} mod {n}");
                }
            }
        }
    }

    quickcheck! {
        fn any_product_is_exact(x: u32, times: u32, n: u32, shift: u8) -> bool {
            multiplies(x, times, n) && multiplies(x, times, n >> (shift % 32))
        }

        fn any_number_of_64_bits_divides_exactly(x: u64, n: u32, shift: u8) -> bool {
            divides_long(x, n) && divides_long(x, n >> (shift % 32)) && divides_long(x >> (shift % 64), n)
        }

        fn any_number_divides_exactly(x: u32, n: u32, shift: u8) -> bool {
            is_right(x, n) && is_right(x, n >> (shift % 32))
        }
    }
}
