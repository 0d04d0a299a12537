//! Words of an index that can be saved: hashes of keys, which do not require a table of the right values.
//!
//! ```text
//! build    find a seed, starting with the given one, under which different right keys have different hashes; index the
//!          hashes
//! encode   hash the left keys; if the first right row with that hash has another key, the left row gets a word that no
//!          right row has
//! ```
//!
//! With 64 bits and fewer than 2^32 rows, a seed fails with a probability below 1/2, and for 10^8 rows below 1/3000, so
//! the loop ends, unless the keys were chosen to collide.
//!
//! If nulls are not equal, the hash of a row with a null depends on its row number, and no left row equals it.

use arrow_buffer::NullBuffer;
use koel::scheme::{Key, Kind, Scheme};
use koel::{Any, JoinIndex, NO_ROW};
use rayon::prelude::*;

use crate::encode::{CHUNK, NullEquality, Words, all_leaves, left_leaves};
use crate::error::{Error, Result};
use crate::external::hash::Hashing;
use crate::keys::Keys;
use crate::leaf::{Bytes, Fixed, Leaf, with_values};

type Rows = <u64 as Key>::Rows;

/// An index of hashes.
pub(crate) type SavedIndex = JoinIndex<Any, Rows>;

/// The number of seeds that are tried.
const SEEDS: u64 = 32;

/// The parameters that determine the hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parameters {
    pub(super) nulls: NullEquality,
    pub(super) seed: u64,
    pub(super) bits: u32,
}

/// The right keys, and the parameters with which both sides are hashed.
pub(crate) struct Hashed {
    pub(super) parameters: Parameters,
    right: Vec<Values>,
    /// A word that no right row has.
    spare: u64,
}

impl Hashed {
    /// Hashes and indexes right keys. `parameters` contains the first seed to try; the result contains the one that was
    /// used.
    pub(super) fn build(device: &Any, keys: &Keys, parameters: Parameters) -> Result<(Hashed, SavedIndex)> {
        let leaves = all_leaves(keys)?;
        let right: Vec<Values> = leaves.iter().map(Values::of).collect();
        for tried in 0..SEEDS {
            let parameters = Parameters { seed: parameters.seed.wrapping_add(tried), ..parameters };
            let words = parameters.hashing().hashes_of(&leaves, keys.len(), 0);
            let index = JoinIndex::builder(Rows::of_kind(Kind::Canonical)).build(device, &words)?;
            let first = index.first_rows(&words)?;
            let is_own = |row: usize| {
                first[row] == row as u32 || are_equal(&right, &right, row as u32, first[row], parameters.nulls)
            };
            if (0..keys.len()).into_par_iter().with_min_len(CHUNK).all(is_own) {
                let spare = spare(&index)?;
                return Ok((Hashed { parameters, right, spare }, index));
            }
        }
        let first = parameters.seed;
        Err(Error::HashCollisions { first, last: first.wrapping_add(SEEDS - 1) })
    }

    /// Creates the value for an index that was read from a file.
    pub(super) fn of(keys: &Keys, parameters: Parameters, index: &SavedIndex) -> Result<Hashed> {
        let right = all_leaves(keys)?.iter().map(Values::of).collect();
        Ok(Hashed { parameters, right, spare: spare(index)? })
    }

    /// The words of left keys.
    pub(crate) fn encode(&self, left: &Keys, right: &Keys, index: &SavedIndex) -> Result<Words> {
        let (mut words, first) = self.first_rows(left, right, index)?;
        words
            .par_iter_mut()
            .zip(&first)
            .filter(|(_, first)| **first == NO_ROW)
            .for_each(|(word, _)| *word = self.spare);
        Ok(Words::Wide(words.into()))
    }

    /// The hash of each left key, and the first right row with the same key, or [`NO_ROW`].
    pub(crate) fn first_rows(&self, left: &Keys, right: &Keys, index: &SavedIndex) -> Result<(Vec<u64>, Vec<u32>)> {
        let leaves = left_leaves(left, right)?;
        let words = self.parameters.hashing().hashes_of(&leaves, left.len(), 0);
        let mut first = index.first_rows(&words)?;
        let left: Vec<Values> = leaves.iter().map(Values::of).collect();
        first.par_chunks_mut(CHUNK).enumerate().for_each(|(chunk, first)| {
            for (row, first) in ((chunk * CHUNK) as u32..).zip(first) {
                if *first != NO_ROW && !are_equal(&left, &self.right, row, *first, self.parameters.nulls) {
                    *first = NO_ROW;
                }
            }
        });
        Ok((words, first))
    }
}

impl Parameters {
    fn hashing(&self) -> Hashing {
        Hashing::seeded(self.nulls, self.seed, self.bits)
    }
}

/// The least word that no right row has.
fn spare(index: &SavedIndex) -> Result<u64> {
    const AT_ONCE: u64 = 1 << 10;
    let mut start = 0;
    loop {
        let words: Vec<u64> = (start..start + AT_ONCE).collect();
        let found = index.first_rows(&words)?;
        // There are fewer than 2^32 rows, so one of 2^32 words is not used, and the loop ends.
        if let Some(at) = found.iter().position(|&row| row == NO_ROW) {
            return Ok(start + at as u64);
        }
        start += AT_ONCE;
    }
}

/// Whether two rows have equal keys.
fn are_equal(left: &[Values], right: &[Values], left_row: u32, right_row: u32, nulls: NullEquality) -> bool {
    left.iter().zip(right).all(|(left, right)| match (left.get(left_row), right.get(right_row)) {
        (Value::Null, Value::Null) => nulls == NullEquality::NullEquals,
        (left, right) => left == right,
    })
}

/// A column of plain values that is accessed by row.
struct Values {
    leaf: Leaf,
    /// The first row of each piece.
    starts: Vec<u32>,
}

/// A value of the left or the right side.
#[derive(PartialEq)]
enum Value<'a> {
    Null,
    Number(i128),
    Bytes(&'a [u8]),
}

impl Values {
    fn of(leaf: &Leaf) -> Self {
        let starts = leaf.pieces.iter().scan(0, |end, piece| {
            let start = *end;
            *end += piece.rows as u32;
            Some(start)
        });
        Values { starts: starts.collect(), leaf: leaf.clone() }
    }

    #[inline]
    fn get(&self, row: u32) -> Value<'_> {
        let at = match self.starts.len() {
            1 => 0,
            _ => self.starts.partition_point(|&start| start <= row) - 1,
        };
        let (piece, row) = (&self.leaf.pieces[at], (row - self.starts[at]) as usize);
        let is_null = |nulls: &NullBuffer| nulls.is_null(row);
        if piece.nulls.as_ref().is_some_and(is_null) {
            return Value::Null;
        }
        with_values!(&piece.values, |all| Value::Number(number(all[row])), |bytes| Value::Bytes(string(bytes, row)))
    }
}

fn number<T: Fixed>(value: T) -> i128 {
    T::widen(value.whole())
}

fn string(bytes: &Bytes, row: usize) -> &[u8] {
    bytes.strings.get(bytes.keys.as_ref().map_or(row, |keys| keys[row] as usize))
}
