//! Division by a number that is known only at run time, as a multiplication: every lookup in a domain of some width
//! divides, and a division costs as much as the rest of it.
//!
//! ```text
//! reciprocal = floor((2^32 - 1) / n)
//! quotient   = high half of x * reciprocal       right, or one too small
//! remainder  = x - quotient * n                  below 2 n, so one subtraction mends both
//! ```
//!
//! Why it is never more than one too small: with `2^32 - 1 = reciprocal * n + e`, e < n, the exact quotient x / n is
//! above the computed product by `x (e + 1) / (n 2^32)`, which is at most x / 2^32 and so below 1.

use super::hash::{Lane, wrapped};

/// A divisor, at least 1, and what replaces the division.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Divisor {
    /// The divisor.
    pub n: u32,
    /// `floor((2^32 - 1) / n)`.
    pub reciprocal: u32,
}

impl Divisor {
    /// The greatest divisor that [`Divisor::divide`] takes.
    pub const MOST: u32 = 1 << 31;

    /// Division by `n`; 0 is taken for 1.
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
        // The rest is below 2 n <= 2^32: minus n its highest bit tells whether it was below n.
        let less = rest.minus(n);
        (quotient.plus(L::splat(1)).minus(less.shifted::<31>()), rest.lesser(less))
    }

    #[inline(always)]
    fn estimate<L: Lane>(self, x: L) -> L {
        x.halves(L::splat(self.reciprocal)).0
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

    quickcheck! {
        fn any_number_divides_exactly(x: u32, n: u32, shift: u8) -> bool {
            is_right(x, n) && is_right(x, n >> (shift % 32))
        }
    }
}
