//! A slot of a canonical table: one 64-bit word `[age][remainder][value]` that loses no bit of key or value.
//!
//! ```text
//! x      = mix_i(key)                        a bijection, so x determines the key
//! bucket = high half of x * n                the place implies part of x ..
//! rem    = low half of x * n, >> AGE_BITS    .. and the word stores the rest
//! word   = age << 60 | rem << 32 | value     age 1, 2, 3, ..; an empty slot is 0
//! inverse: x = ceil((bucket << 32 | rem << AGE_BITS) / n),  key = unmix_i(x)
//! ```
//!
//! The bits dropped from the low half are not needed: for one bucket the low halves of different x are at least n
//! apart, so with `n >= 2^AGE_BITS` they still differ after the shift. Tables are padded to [`MIN_BUCKETS`] for that
//! reason.
//!
//! A word alone does not identify its key: that also takes its bucket and its function, which follows from its age.
//! Comparing only remainders gives wrong answers.
//!
//! The order of words as integers is the whole rule of a canonical table: the greater age wins, then the greater
//! remainder, then the greater value.

use super::hash::Lane;

/// The number of bits of the age.
pub(crate) const AGE_BITS: u32 = 4;
/// The shift of the age.
pub(crate) const AGE_SHIFT: u32 = 64 - AGE_BITS;
/// The greatest age of a pair: 14. Age 15, all ones, marks a tombstone.
pub(crate) const MAX_AGE: u32 = (1 << AGE_BITS) - 2;
/// The word of a slot whose pair was removed. It is greater than any pair, so nothing displaces it, and lookups skip
/// it. Slots still only grow.
pub(crate) const TOMBSTONE: u64 = ((MAX_AGE + 1) as u64) << AGE_SHIFT;
/// The minimum number of buckets for which remainders are distinct.
pub(crate) const MIN_BUCKETS: u32 = 1 << AGE_BITS;
/// The word of an empty slot. No pair's word is 0, because ages start at 1.
pub(crate) const EMPTY: u64 = 0;

/// Bucket and remainder of a mixed key in a table of `buckets`.
#[inline(always)]
pub(crate) fn split<L: Lane>(x: L, buckets: u32) -> (L, L) {
    let (bucket, low) = x.halves(L::splat(buckets));
    (bucket, low.shifted::<AGE_BITS>())
}

/// The mixed key that [`split`] into `bucket` and `remainder`. Arbitrary for invalid arguments, but never panics.
#[inline(always)]
pub(crate) fn join(bucket: u32, remainder: u32, buckets: u32) -> u32 {
    let numerator = (u64::from(bucket) << 32) | u64::from(remainder << AGE_BITS);
    numerator.div_ceil(u64::from(buckets.max(1))) as u32
}

/// The upper half of a word: age and remainder.
#[inline(always)]
pub(crate) fn upper(age: u32, remainder: u32) -> u32 {
    (age << (32 - AGE_BITS)) | remainder
}

/// A whole word.
#[inline(always)]
pub(crate) fn word(age: u32, remainder: u32, value: u32) -> u64 {
    (u64::from(upper(age, remainder)) << 32) | u64::from(value)
}

/// The age in a word; 0 for an empty slot.
#[inline(always)]
pub(crate) fn age(word: u64) -> u32 {
    (word >> AGE_SHIFT) as u32
}

/// Whether a word is a pair: neither an empty slot nor a tombstone.
#[inline(always)]
pub(crate) fn is_pair(word: u64) -> bool {
    (1..=MAX_AGE).contains(&age(word))
}

/// The remainder in a word.
#[inline(always)]
pub(crate) fn remainder(word: u64) -> u32 {
    ((word >> 32) as u32) & (u32::MAX >> AGE_BITS)
}

/// The value in a word.
#[inline(always)]
pub(crate) fn value(word: u64) -> u32 {
    word as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use quickcheck::quickcheck;

    #[test]
    fn every_field_survives_at_its_extremes() {
        for age_in in [1, MAX_AGE] {
            for rem in [0, u32::MAX >> AGE_BITS] {
                for val in [0, 1, u32::MAX] {
                    let w = word(age_in, rem, val);
                    assert_ne!(w, EMPTY);
                    assert_eq!((age(w), remainder(w), value(w)), (age_in, rem, val));
                }
            }
        }
    }

    #[test]
    fn too_few_buckets_would_lose_bits() {
        let lossless = |n: u32| {
            (0..1u32 << 12).all(|x| {
                let (b, r) = split(x << 20 | x, n);
                join(b, r, n) == (x << 20 | x)
            })
        };
        assert!(lossless(MIN_BUCKETS));
        assert!(!lossless(3));
    }

    quickcheck! {
        fn join_undoes_split(x: u32, n: u32) -> bool {
            let n = n.max(MIN_BUCKETS);
            let (bucket, rem) = split(x, n);
            bucket < n && join(bucket, rem, n) == x
        }
        fn small_tables_too(x: u32, n: u8) -> bool {
            let n = u32::from(n).max(MIN_BUCKETS);
            let (bucket, rem) = split(x, n);
            bucket < n && join(bucket, rem, n) == x
        }
    }
}
