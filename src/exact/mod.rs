//! The exact sum of doubles, rounded once.
//!
//! A double is an integer of 53 bits times a power of two, which is at least 2^-1074. So every finite double is a
//! multiple of 2^-1074, below 2^2098 of these units, and a sum of doubles is an integer in this unit. [`ExactSum`]
//! stores it as digits of 32 bits:
//!
//! ```text
//! digit            0            1            2      ..        67
//! weight      2^-1074      2^-1042      2^-1010     ..    2^1070        each in an i64: 31 bits for carries, and a sign
//!
//! add(value)      its 53 bits, shifted to the digits that they overlap: two additions, no carries
//! settle          every 2^9 additions: carries move up, after which digits are 0 .. 2^32, and the last one has the sign
//! sum             settle; round the leading 53 bits to the nearest double, ties to even
//! mean            settle; divide all digits by the count; round the same way, with the remainder as the last bit
//! ```
//!
//! The result is that of Python's `math.fsum`. It does not depend on the order of the values or on how they are split:
//! sums of parts are merged without rounding.
//!
//! The algorithm is the small superaccumulator of R. Neal, "Fast exact summation using small and large
//! superaccumulators", 2015 (arXiv:1505.05571).
//!
//! A superaccumulator is large, so aggregations add up most values in one integer of 128 bits per group: `window.rs`
//! and `leftovers.rs` for columns in memory, `states.rs` for groups whose rows arrive in pieces or on several machines.

mod leftovers;
mod states;
mod window;

pub use states::SumStates;

pub(crate) use leftovers::{Leftovers, Rest, sums_of_runs};
pub(crate) use window::Window;

/// The number of digits: 2098 bits of the largest double, and 64 bits for the number of values.
const DIGITS: usize = 68;
/// The number of additions after which carries are settled. Each adds less than 2^53 to a digit below 2^32.
const SETTLED_AFTER: u32 = 1 << 9;
/// Bits of a digit.
const BITS: u32 = 32;
/// The exponent of the unit.
const UNIT: i32 = -1074;

/// A sum of doubles without rounding.
///
/// ```
/// use koel::ExactSum;
///
/// let mut sum = ExactSum::default();
/// for value in [1e308, 1.0, 1e308, -1e308, -1e308] {
///     sum.add(value);
/// }
/// assert_eq!(sum.sum(), 1.0);
/// ```
#[derive(Clone, Debug)]
pub struct ExactSum {
    digits: [i64; DIGITS],
    /// The number of additions since carries were settled.
    added: u32,
    /// The sum of the values that are infinite or NaN, or 0.
    special: f64,
}

impl Default for ExactSum {
    fn default() -> Self {
        ExactSum { digits: [0; DIGITS], added: 0, special: 0.0 }
    }
}

impl ExactSum {
    /// Adds a value.
    #[inline]
    pub fn add(&mut self, value: f64) {
        let bits = value.to_bits();
        let exponent = (bits >> 52) as u32 & 0x7ff;
        if exponent == 0x7ff {
            self.special += value;
            return;
        }
        // Subnormal numbers have the exponent of the smallest others, and no leading bit.
        let mantissa = (bits & ((1 << 52) - 1)) | u64::from(exponent > 0) << 52;
        self.add_scaled(if value < 0.0 { -(mantissa as i64) } else { mantissa as i64 }, exponent.max(1) - 1);
    }

    /// Adds `integer` times 2^`place` units. The integer has 53 bits and a sign.
    #[inline]
    fn add_scaled(&mut self, integer: i64, place: u32) {
        if self.added >= SETTLED_AFTER {
            self.settle();
        }
        self.added += 1;
        let (digit, shift) = ((place / BITS) as usize, place % BITS);
        // Adds the bits of the lower digit; the next digit gets the rest, with its sign.
        self.digits[digit] += (integer << shift) & 0xffff_ffff;
        self.digits[digit + 1] += integer >> (BITS - shift);
    }

    /// Adds `integer` times 2^`exponent`, for exponents from -1074 to 970.
    pub fn add_integer(&mut self, integer: i128, exponent: i32) {
        if integer == 0 {
            return;
        }
        let place = (exponent - UNIT) as u32;
        for (number, piece) in (0..).zip([integer as i64 & 0xffff_ffff, (integer >> 32) as i64 & 0xffff_ffff]) {
            self.add_scaled(piece, place + 32 * number);
        }
        let upper = (integer >> 64) as i64;
        self.add_scaled(upper & 0xffff_ffff, place + 64);
        self.add_scaled(upper >> 32, place + 96);
    }

    /// Adds another sum.
    pub fn merge(&mut self, other: &ExactSum) {
        // Neither sum has more pending additions than the limit.
        if self.added + other.added >= SETTLED_AFTER {
            self.settle();
        }
        self.digits.iter_mut().zip(&other.digits).for_each(|(to, digit)| *to += digit);
        self.added += other.added + 1;
        self.special += other.special;
    }

    /// Moves carries up. All digits but the last are then below 2^32 and not negative.
    fn settle(&mut self) {
        let mut carry = 0;
        for digit in &mut self.digits[..DIGITS - 1] {
            let sum = *digit + carry;
            *digit = sum & 0xffff_ffff;
            carry = sum >> BITS;
        }
        self.digits[DIGITS - 1] += carry;
        self.added = 0;
    }

    /// Whether the sum is negative, and its digits.
    fn magnitude(&self) -> (bool, [u32; DIGITS]) {
        let (mut digits, mut carry) = ([0; DIGITS], 0);
        for (to, &digit) in digits.iter_mut().zip(&self.digits) {
            let sum = digit + carry;
            *to = sum as u32;
            carry = sum >> BITS;
        }
        // The carry out of the last digit is the sign.
        let is_negative = carry < 0;
        if is_negative {
            // Negates the number in two's complement: digits below the least nonzero one stay 0, that digit is negated,
            // and those above are inverted.
            let least = digits.iter().position(|&digit| digit != 0).unwrap_or(DIGITS);
            digits[least..].iter_mut().for_each(|digit| *digit = !*digit);
            digits[least..].iter_mut().take(1).for_each(|digit| *digit = digit.wrapping_add(1));
        }
        (is_negative, digits)
    }

    /// The sum, rounded to the nearest double, ties to even. NaN if a value is NaN or if both infinities occur; an
    /// infinity if one occurs, or if the sum is beyond the largest double. A sum of zeros is +0.0.
    pub fn sum(&self) -> f64 {
        if self.special != 0.0 {
            return if self.special.is_nan() { f64::NAN } else { self.special };
        }
        let (is_negative, digits) = self.magnitude();
        signed(is_negative, rounded(&digits, UNIT, false))
    }

    /// The sum divided by `count`, rounded once. NaN if the count is 0.
    pub fn mean(&self, count: u64) -> f64 {
        if self.special != 0.0 {
            return self.sum();
        }
        if count == 0 {
            return f64::NAN;
        }
        let (is_negative, dividend) = self.magnitude();
        // Two more digits below the unit suffice: the quotient then has all bits of a double and one more, from which
        // it is rounded, if the sum has any bits. The remainder shows whether there are further bits.
        let mut quotient = [0; DIGITS + 2];
        quotient[2..].copy_from_slice(&dividend);
        let has_remainder = divide(&mut quotient, count);
        signed(is_negative, rounded(&quotient, UNIT - 2 * BITS as i32, has_remainder))
    }

    /// Returns the state, for another process: the digits of a settled sum, and the sum of infinities and NaN.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut settled = self.clone();
        settled.settle();
        let digits = settled.digits.iter().flat_map(|digit| digit.to_le_bytes());
        digits.chain(settled.special.to_le_bytes()).collect()
    }

    /// The state that [`to_bytes`](Self::to_bytes) returned; `None` if the bytes are not a state.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (words, []) = bytes.as_chunks::<8>() else { return None };
        let (digits, [special]) = words.split_at_checked(DIGITS)? else { return None };
        let mut sum = ExactSum { special: f64::from_le_bytes(*special), ..ExactSum::default() };
        sum.digits.iter_mut().zip(digits).for_each(|(to, digit)| *to = i64::from_le_bytes(*digit));
        let (last, others) = sum.digits.split_last()?;
        let is_settled = others.iter().all(|digit| (0..1 << BITS).contains(digit)) && last.unsigned_abs() < 1 << BITS;
        (is_settled && (sum.special == 0.0 || !sum.special.is_finite())).then_some(sum)
    }
}

fn signed(is_negative: bool, magnitude: f64) -> f64 {
    if is_negative { -magnitude } else { magnitude }
}

/// The double nearest to the number with these digits of 32 bits, least first, times 2^`exponent`. Ties go to the even
/// double, unless `is_more` is set, which means that there are bits below the last digit.
fn rounded(digits: &[u32], exponent: i32, is_more: bool) -> f64 {
    let Some(top) = digits.iter().rposition(|&digit| digit != 0) else { return 0.0 };
    let below = |at: usize| if at <= top { u128::from(digits[top - at]) } else { 0 };
    // These are 96 bits, of which the number has at least 65.
    let leading = below(0) << 64 | below(1) << 32 | below(2);
    let is_more = is_more || digits[..top.saturating_sub(2)].iter().any(|&digit| digit != 0);
    nearest(leading, exponent + BITS as i32 * (top as i32 - 2), is_more)
}

/// The double nearest to `integer` times 2^`exponent`, ties to even. If `is_more` is set, which means that there are
/// bits below the integer, the integer must have at least 55 bits.
fn nearest(integer: u128, exponent: i32, is_more: bool) -> f64 {
    // Bits to drop: those after the leading 53, and those below the smallest subnormal number.
    let dropped = (128 - integer.leading_zeros() as i32 - 53).max(UNIT - exponent);
    if dropped <= 0 {
        return scaled(integer as u64, exponent);
    }
    if dropped >= 128 {
        return 0.0;
    }
    let (kept, rest, half) = (integer >> dropped, integer & ((1 << dropped) - 1), 1 << (dropped - 1));
    let is_up = rest > half || rest == half && (is_more || kept & 1 == 1);
    scaled(kept as u64 + u64::from(is_up), exponent + dropped)
}

/// `sum` times 2^`exponent`, divided by `count` and rounded once. NaN if the count is 0.
pub(crate) fn quotient(sum: i128, exponent: i32, count: u64) -> f64 {
    if count == 0 {
        return f64::NAN;
    }
    // After the largest possible shift, the quotient has at least 63 bits.
    let shift = sum.unsigned_abs().leading_zeros().min(127);
    let (dividend, count) = (sum.unsigned_abs() << shift, u128::from(count));
    let magnitude = nearest(dividend / count, exponent - shift as i32, dividend % count != 0);
    signed(sum < 0, magnitude)
}

/// `dividend` times all `factors`, divided by all `divisors`, rounded once. Their product is below 2^200, and no
/// divisor is 0.
///
/// ```
/// assert_eq!(koel::exact_ratio(1468179, &[], &[100, 293_587]), 0.05000831099469663);
/// ```
#[doc(hidden)]
pub fn exact_ratio(dividend: i128, factors: &[u64], divisors: &[u64]) -> f64 {
    // The number of bits below 1, so that the quotient has more bits than a double.
    const BELOW: usize = 8;
    let mut digits = [0; BELOW + 4 + 8];
    for (at, digit) in digits[BELOW..][..4].iter_mut().enumerate() {
        *digit = (dividend.unsigned_abs() >> (32 * at)) as u32;
    }
    for &factor in factors {
        let mut carry = 0;
        for digit in &mut digits {
            carry += u128::from(*digit) * u128::from(factor);
            *digit = carry as u32;
            carry >>= BITS;
        }
    }
    let mut is_more = false;
    for &divisor in divisors {
        is_more |= divide(&mut digits, divisor);
    }
    signed(dividend < 0, rounded(&digits, -(BITS as i32) * BELOW as i32, is_more))
}

/// Divides digits, least first. Returns whether there is a remainder.
fn divide(digits: &mut [u32], divisor: u64) -> bool {
    let (divisor, mut remainder) = (u128::from(divisor), 0);
    for digit in digits.iter_mut().rev() {
        let dividend = remainder << BITS | u128::from(*digit);
        (*digit, remainder) = ((dividend / divisor) as u32, dividend % divisor);
    }
    remainder != 0
}

/// `integer` times 2^`exponent`, which is a double unless it is too large. The integer is at most 2^53, and the
/// exponent is at least -1074 and below 1100.
fn scaled(integer: u64, exponent: i32) -> f64 {
    // Multiplies in two steps, because the power alone may be too large or too small even if the product is not.
    let half = exponent / 2;
    integer as f64 * power_of_two(half) * power_of_two(exponent - half)
}

/// 2^`exponent`, a normal number.
fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

#[cfg(test)]
mod tests;
