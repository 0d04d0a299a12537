//! Hashes of keys, by which rows are partitioned: equal keys have equal hashes, even if their types differ.
//!
//! ```text
//! hash = mix( mix( mix(seed + value of the first column) + value of the second ) + .. )
//! ```
//!
//! Values are those of leaf.rs, so 7 as Int8 and 7 as UInt64 are the same value, and -0 is 0. Decimals, times,
//! timestamps and durations are taken at the finer scale of the two tables. The value of a text is a hash of its bytes.
//! All nulls have one hash. If nulls are not equal, rows with a null are partitioned by their row numbers,
//! because they match nothing and would all be in one partition.
//!
//! Equal hashes do not prove that keys are equal: different keys with equal hashes are in the same partition.

use rayon::prelude::*;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::encode::{CHUNK, NullEquality, all_leaves, hash_bits};
use crate::error::Result;
use crate::keys::Keys;
use crate::leaf::{Bytes, Fixed, Leaf, with_values};

/// The hash of a null.
const NULL: u64 = 0x6e75_6c6c;

/// The parameters of the hashes of one run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hashing {
    pub(crate) nulls: NullEquality,
    seed: u64,
    /// The number of bits of a hash: fewer than 64 only in tests of collisions.
    bits: u32,
}

impl Hashing {
    /// Uses a random seed, so that untrusted input cannot choose keys that all are in the same partition. The seed does
    /// not affect any result.
    pub(super) fn new(nulls: NullEquality) -> Self {
        // If there is no source of randomness, results are the same, but keys can be chosen to collide.
        Hashing::seeded(nulls, koel::random_seed().unwrap_or(0), hash_bits())
    }

    /// Uses this seed, so that hashes are the same in every run.
    pub(crate) fn seeded(nulls: NullEquality, seed: u64, bits: u32) -> Self {
        Hashing { nulls, seed, bits }
    }

    /// The hash of each row's key. `first` is the number of the first row. `scales` are the
    /// [`common_scales`](crate::kind::common_scales) of a table that is joined with a table of other scales.
    pub(super) fn hashes(&self, keys: &Keys, scales: Option<&[i8]>, first: u64) -> Result<Vec<u64>> {
        let mut leaves = all_leaves(keys)?;
        for (leaf, &scale) in leaves.iter_mut().zip(scales.unwrap_or_default()) {
            *leaf = leaf.at_scale(scale);
        }
        Ok(self.hashes_of(&leaves, keys.len(), first))
    }

    /// The hash of each row's key in these columns of plain values.
    pub(crate) fn hashes_of(&self, leaves: &[Leaf], rows: usize, first: u64) -> Vec<u64> {
        let mut hashes = vec![self.seed; rows];
        for leaf in leaves {
            self.add(leaf, &mut hashes);
        }
        if self.nulls == NullEquality::NothingEquals {
            for leaf in leaves {
                partition_nulls(leaf, first, &mut hashes);
            }
        }
        let mask = u64::MAX >> (64 - self.bits);
        hashes.iter_mut().for_each(|hash| *hash &= mask);
        hashes
    }

    /// Mixes in a column, row by row.
    fn add(&self, leaf: &Leaf, hashes: &mut [u64]) {
        let mut rest = hashes;
        for piece in &leaf.pieces {
            let (own, behind) = rest.split_at_mut(piece.rows);
            own.par_chunks_mut(CHUNK).enumerate().for_each(|(number, own)| {
                let rows = number * CHUNK..number * CHUNK + own.len();
                // The value under a null is unspecified.
                let before = piece.nulls.as_ref().map(|nulls| (nulls, own.to_vec()));
                with_values!(
                    &piece.values,
                    |all| own
                        .iter_mut()
                        .zip(&all[rows.clone()])
                        .for_each(|(hash, &value)| *hash = mix_wide(*hash, value)),
                    |bytes| own
                        .iter_mut()
                        .zip(rows.clone())
                        .for_each(|(hash, row)| *hash = mix(*hash, text(bytes, row, self.seed)))
                );
                if let Some((nulls, before)) = before {
                    let of_nulls = own.iter_mut().zip(before).zip(rows).filter(|&(_, row)| nulls.is_null(row));
                    of_nulls.for_each(|((hash, before), _)| *hash = mix(before, NULL));
                }
            });
            rest = behind;
        }
    }
}

/// Replaces the hashes of rows that have a null by hashes of their row numbers.
fn partition_nulls(leaf: &Leaf, first: u64, hashes: &mut [u64]) {
    let mut start = 0;
    for piece in &leaf.pieces {
        if let Some(nulls) = &piece.nulls {
            for row in (0..piece.rows).filter(|&row| nulls.is_null(row)) {
                hashes[start + row] = mix(NULL, first + (start + row) as u64);
            }
        }
        start += piece.rows;
    }
}

/// Mixes in a value of any width. Equal values of two types have equal hashes, so the number of mixing steps depends on
/// the value and not on its type. The two halves are mixed in one after the other: combining them first, for example by
/// XOR, would make many keys collide, whatever the seed.
#[inline]
fn mix_wide<T: Fixed>(hash: u64, value: T) -> u64 {
    let wide = T::widen(value.whole());
    let hash = mix(hash, wide as u64);
    match (wide >> 64) as u64 {
        0 => hash,
        upper => mix(hash, upper),
    }
}

fn text(bytes: &Bytes, row: usize, seed: u64) -> u64 {
    let strings = &bytes.strings;
    let at = bytes.keys.as_ref().map_or(row, |keys| keys[row] as usize);
    // The dictionary key under a null is unspecified.
    if at < strings.len() { xxh3_64_with_seed(strings.get(at), seed) } else { NULL }
}

/// The finaliser of SplitMix64.
fn mix(hash: u64, value: u64) -> u64 {
    let mut z = hash.rotate_left(25).wrapping_add(value).wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Decimal128Array, FixedSizeBinaryArray, Int64Array, UInt64Array};

    use super::*;

    fn hashes(hashing: Hashing, arrays: &[ArrayRef]) -> Vec<u64> {
        let keys = Keys::of_arrays(arrays).expect("keys");
        hashing.hashes(&keys, None, 0).expect("columns of plain values")
    }

    #[test]
    fn keys_whose_halves_cancel_out_have_hashes_of_their_own() {
        const KEYS: u64 = 10_000;
        let uppers = || (1..=KEYS).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 8);
        let wide = |lower: u64, upper: u64| i128::from(upper as i64) << 64 | i128::from(lower);
        // Lower halves such that both halves combine to the same word, by sums and by XORs with rotations.
        let lowers: [fn(u64) -> u64; 5] = [|x| x.rotate_left(32), |x| x, |x| !x, |x| x.wrapping_neg(), |x| x << 1];
        for lower in lowers {
            let values: Vec<i128> = uppers().map(|upper| wide(lower(upper), upper)).collect();
            let bytes = FixedSizeBinaryArray::try_from_iter(values.iter().map(|value| value.to_be_bytes()));
            let decimals: ArrayRef = Arc::new(Decimal128Array::from(values.clone()));
            let two: [ArrayRef; 2] = [
                Arc::new(UInt64Array::from_iter_values(uppers().map(lower))),
                Arc::new(UInt64Array::from_iter_values(uppers())),
            ];
            for columns in [&[decimals][..], &[Arc::new(bytes.expect("16 bytes each"))], &two] {
                let hashes = hashes(Hashing::new(NullEquality::NullEquals), columns);
                let distinct: HashSet<u64> = hashes.into_iter().collect();
                assert_eq!(distinct.len() as u64, KEYS, "{}", columns[0].data_type());
            }
        }
    }

    #[test]
    fn equal_values_of_two_types_have_equal_hashes() {
        let hashing = Hashing::new(NullEquality::NothingEquals);
        let values = [0, 1, -1, i64::MIN, i64::MAX];
        let narrow: ArrayRef = Arc::new(Int64Array::from(values.to_vec()));
        let wide: ArrayRef = Arc::new(Decimal128Array::from_iter_values(values.map(i128::from)));
        assert_eq!(hashes(hashing, &[narrow]), hashes(hashing, &[wide]));
        let unsigned: ArrayRef = Arc::new(UInt64Array::from(vec![7, u64::MAX]));
        let wide: ArrayRef = Arc::new(Decimal128Array::from_iter_values([7, i128::from(u64::MAX)]));
        assert_eq!(hashes(hashing, &[unsigned]), hashes(hashing, &[wide]));
    }
}
