//! The arithmetic of slots without a value: `[age 4][remainder]`, with the width of the key.
//!
//! ```text
//! x      = mix(key)                          a bijection, so x determines the key
//! bucket = high half of x * n                the place implies part of x ..
//! rem    = low half of x * n, >> AGE_BITS    .. and the word stores the rest
//! word   = [age][rem]                        age 1, 2, 3, ..; an empty slot is 0
//! ```
//!
//! This is the rule of `scheme/slot.rs` without the value, for 32 and 64 bits. It is lossless from
//! [`MIN_BUCKETS`](crate::scheme::slot::MIN_BUCKETS) on, for the same reason. In function arguments, words of 32 bits
//! are in the low half of a `u64`. Words of Robin Hood tables have other fields ([`Fields`]): six bits of age, and a
//! remainder from a division.

use std::fmt::Debug;

use crate::scheme::Key;
use crate::scheme::constants::Constants;
use crate::scheme::hash::{MixKeys, MixKeys64, mix, mix_64, unmix, unmix_64};
use crate::scheme::slot::{AGE_BITS, MAX_AGE, join, split};

/// A key stored in slots whose values are stored separately.
pub trait SlotKey: Key {
    /// The constants of its mixer.
    type Mixer: Copy + Debug + PartialEq + Send + Sync + 'static;

    /// The next mixer of a stream of constants.
    #[doc(hidden)]
    fn next_mixer(stream: &mut Constants) -> Self::Mixer;
    /// A bijection of the keys.
    fn mixed(self, mixer: Self::Mixer) -> Self;
    /// Its inverse.
    fn unmixed(self, mixer: Self::Mixer) -> Self;
    /// Bucket and remainder of a mixed key.
    fn split(self, buckets: u32) -> (u32, Self);
    /// The inverse of [`split`](Self::split): the mixed key with this bucket and remainder.
    fn join(bucket: u32, remainder: Self, buckets: u32) -> Self;
    /// 32 bits of a remainder, on which further buckets depend.
    fn folded(self) -> u32;
}

impl SlotKey for u32 {
    type Mixer = MixKeys;

    fn next_mixer(stream: &mut Constants) -> MixKeys {
        stream.next_mix_keys()
    }
    #[inline(always)]
    fn mixed(self, mixer: MixKeys) -> u32 {
        mix(self, mixer)
    }
    #[inline(always)]
    fn unmixed(self, mixer: MixKeys) -> u32 {
        unmix(self, mixer)
    }
    #[inline(always)]
    fn split(self, buckets: u32) -> (u32, u32) {
        split(self, buckets)
    }
    #[inline(always)]
    fn join(bucket: u32, remainder: u32, buckets: u32) -> u32 {
        join(bucket, remainder, buckets)
    }
    #[inline(always)]
    fn folded(self) -> u32 {
        self
    }
}

impl SlotKey for u64 {
    type Mixer = MixKeys64;

    fn next_mixer(stream: &mut Constants) -> MixKeys64 {
        stream.next_mix_keys_64()
    }
    #[inline(always)]
    fn mixed(self, mixer: MixKeys64) -> u64 {
        mix_64(self, mixer)
    }
    #[inline(always)]
    fn unmixed(self, mixer: MixKeys64) -> u64 {
        unmix_64(self, mixer)
    }
    #[inline(always)]
    fn split(self, buckets: u32) -> (u32, u64) {
        // The 96-bit product, by halves of the key, because lanes have no 128-bit product.
        let of_half = |half: u64| half * u64::from(buckets);
        let (high, low) = (of_half(self >> 32), of_half(self & u64::from(u32::MAX)));
        (((high + (low >> 32)) >> 32) as u32, (high << 32).wrapping_add(low) >> AGE_BITS)
    }
    #[inline(always)]
    fn join(bucket: u32, remainder: u64, buckets: u32) -> u64 {
        let numerator = u128::from(bucket) << 64 | u128::from(remainder << AGE_BITS);
        numerator.div_ceil(u128::from(buckets.max(1))) as u64
    }
    #[inline(always)]
    fn folded(self) -> u32 {
        (self ^ self >> 32) as u32
    }
}

/// The bit fields of the words of a scheme: `[age][remainder]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fields {
    /// Bits of the age.
    pub age_bits: u32,
}

/// The fields of bucketized and cuckoo tables.
pub(crate) const FIELDS: Fields = Fields { age_bits: AGE_BITS };
const _: () = assert!(FIELDS.max_age() == MAX_AGE);

impl Fields {
    /// The greatest age of a pair. The next one, all ones, marks a tombstone.
    pub(crate) const fn max_age(self) -> u32 {
        (1 << self.age_bits) - 2
    }

    /// The position of the age in a word.
    pub(crate) const fn age_shift<K: SlotKey>(self) -> u32 {
        K::BITS - self.age_bits
    }

    /// The word of a pair of this age.
    #[inline(always)]
    pub(crate) fn word<K: SlotKey>(self, age: u32, remainder: K) -> u64 {
        u64::from(age) << self.age_shift::<K>() | remainder.into()
    }

    /// The age in a word; 0 for an empty slot.
    #[inline(always)]
    pub(crate) fn age<K: SlotKey>(self, word: u64) -> u32 {
        (word >> self.age_shift::<K>()) as u32
    }

    /// The remainder in a word.
    #[inline(always)]
    pub(crate) fn remainder<K: SlotKey>(self, word: u64) -> K {
        K::low(word & !(u64::MAX << self.age_shift::<K>()))
    }

    /// Whether a word is a pair: neither an empty slot nor a tombstone.
    #[inline(always)]
    pub(crate) fn is_pair<K: SlotKey>(self, word: u64) -> bool {
        (1..=self.max_age()).contains(&self.age::<K>(word))
    }

    /// The word of a slot whose pair was removed; greater than any pair.
    pub(crate) const fn tombstone<K: SlotKey>(self) -> u64 {
        (self.max_age() as u64 + 1) << self.age_shift::<K>()
    }
}

/// [`Fields::age_shift`] of [`FIELDS`].
pub(crate) const fn age_shift<K: SlotKey>() -> u32 {
    FIELDS.age_shift::<K>()
}

/// [`Fields::word`] of [`FIELDS`].
#[inline(always)]
pub(crate) fn word<K: SlotKey>(age: u32, remainder: K) -> u64 {
    FIELDS.word(age, remainder)
}

/// [`Fields::age`] of [`FIELDS`].
#[inline(always)]
pub(crate) fn age<K: SlotKey>(word: u64) -> u32 {
    FIELDS.age::<K>(word)
}

/// [`Fields::remainder`] of [`FIELDS`].
#[inline(always)]
pub(crate) fn remainder<K: SlotKey>(word: u64) -> K {
    FIELDS.remainder(word)
}

/// [`Fields::is_pair`] of [`FIELDS`].
#[inline(always)]
pub(crate) fn is_pair<K: SlotKey>(word: u64) -> bool {
    FIELDS.is_pair::<K>(word)
}

/// [`Fields::tombstone`] of [`FIELDS`].
pub(crate) const fn tombstone<K: SlotKey>() -> u64 {
    FIELDS.tombstone::<K>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheme::slot::{EMPTY, MIN_BUCKETS};
    use quickcheck::quickcheck;

    fn survives<K: SlotKey>(fields: Fields) {
        for age_in in [1, fields.max_age()] {
            for rem in [0, 1, u64::MAX >> (64 - fields.age_shift::<K>())] {
                let word = fields.word(age_in, K::low(rem));
                assert!(fields.is_pair::<K>(word) && word < fields.tombstone::<K>());
                assert_eq!((fields.age::<K>(word), fields.remainder::<K>(word)), (age_in, K::low(rem)));
                assert!(K::BITS == u64::BITS || word >> K::BITS == 0);
            }
        }
        assert!(!fields.is_pair::<K>(EMPTY) && !fields.is_pair::<K>(fields.tombstone::<K>()));
    }

    #[test]
    fn every_field_survives_at_its_extremes() {
        for fields in [FIELDS, Fields { age_bits: 6 }] {
            survives::<u32>(fields);
            survives::<u64>(fields);
        }
    }

    #[test]
    fn too_few_buckets_would_lose_bits() {
        let lossless = |n: u32| {
            (0..1u64 << 12).all(|x| {
                let (bucket, rem) = (x << 52 | x).split(n);
                u64::join(bucket, rem, n) == (x << 52 | x)
            })
        };
        assert!(lossless(MIN_BUCKETS));
        assert!(!lossless(3));
    }

    quickcheck! {
        fn join_undoes_split(x: u64, n: u32, small: bool) -> bool {
            let n = (if small { n % 256 } else { n }).max(MIN_BUCKETS);
            let (bucket, rem) = x.split(n);
            bucket < n && rem >> (64 - AGE_BITS) == 0 && u64::join(bucket, rem, n) == x
        }
    }
}
