//! Maximum ages (Equation 1 of Garcia 2011): for each place the greatest age among the keys whose home it is.
//!
//! ```text
//! MAT[p] = max { age of k :  k in the table, home of k = p },   0 if there is no such key
//! code   = the least level that is MAT[p] or more, numbered from 1; 0 for MAT[p] = 0
//! ```
//!
//! A lookup probes at most this many places. Rounding up costs reads, but does not change answers.
//!
//! ```text
//! canonical   an array after the slots, whole codes per word: one more image, which is read first
//! classic     the code of place p replaces the age of the pair in cell p ("packed over the age bits"): takes no memory, and
//!             is in the first cell that a lookup reads. A pair whose place is not a home has code 1, so that no pair is 0.
//!             An empty cell is 0: it is not a home, because a key with this home was first offered to it.
//! ```
//!
//! `remove` does not update the array. It remains an upper bound until pairs are placed again.

use super::Rule;
use super::cell::EMPTY;
use crate::scheme::Kind;

/// Levels of canonical tables, whose ages end at 62, for 2, 3 and 4 bits; the level of code 0 is 0. They minimize the
/// reads of misses, averaged over the loads 0.8, 0.9, 0.95 and 0.99 of random keys.
const CANONICAL_LEVELS: [&[u8]; 3] =
    [&[0, 2, 3, 62], &[0, 1, 2, 3, 4, 5, 6, 62], &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 62]];
/// Levels of classic tables, whose ages end at 15, chosen in the same way. With 4 bits every age is a level. Level 1
/// costs as much as 0, because the code is in the cell of the first read.
const CLASSIC_LEVELS: [&[u8]; 3] =
    [&[0, 1, 5, 15], &[0, 1, 2, 3, 4, 5, 7, 15], &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]];

/// The place and the encoding of a table's maximum ages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaxAges {
    /// Not stored: a lookup ends by the ages of the pairs that it reads.
    None,
    /// In an array after the slots.
    Array(Levels),
    /// In the cells, instead of the pairs' ages.
    Packed(Levels),
}

/// The meaning of codes of a number of bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Levels {
    /// Bits of a code.
    pub bits: u32,
    /// `of_code[c]`: the greatest age of a place with code c; ascending from 0.
    pub of_code: &'static [u8],
}

impl Levels {
    /// The greatest age that a place with this code may have; codes past the last count as the last.
    #[inline(always)]
    pub fn bound(&self, code: u32) -> u32 {
        u32::from(self.of_code[(code as usize).min(self.of_code.len() - 1)])
    }

    /// The code of a greatest age.
    pub fn code(&self, age: u32) -> u32 {
        self.of_code.iter().position(|&level| u32::from(level) >= age).unwrap_or(self.of_code.len() - 1) as u32
    }

    /// The greatest code.
    pub fn last_code(&self) -> u32 {
        self.of_code.len() as u32 - 1
    }

    /// Codes in a word of the array. With 3 bits the highest bit of a word is unused, so that no code spans two words.
    #[inline(always)]
    pub fn per_word(&self) -> u32 {
        64 / self.bits
    }

    /// The word of the array with the code of a place, and the shift of the code.
    #[inline(always)]
    pub fn position(&self, place: u32) -> (u32, u32) {
        (place / self.per_word(), place % self.per_word() * self.bits)
    }

    /// A code in a word of the array.
    #[inline(always)]
    pub fn code_in(&self, word: u64, shift: u32) -> u32 {
        (word >> shift) as u32 & ((1 << self.bits) - 1)
    }
}

impl MaxAges {
    /// For tables of this kind with this many bits.
    pub(super) fn of(kind: Kind, bits: u32) -> MaxAges {
        let levels = |of_bits: [&'static [u8]; 3]| Levels { bits, of_code: of_bits[(bits as usize - 2).min(2)] };
        match (kind, bits) {
            (_, 0 | 1) => MaxAges::None,
            (Kind::Canonical, _) => MaxAges::Array(levels(CANONICAL_LEVELS)),
            (Kind::Classic, _) => MaxAges::Packed(levels(CLASSIC_LEVELS)),
        }
    }

    /// The number of words after the slots.
    pub(super) fn words(&self, slots: u64) -> u64 {
        match self {
            MaxAges::Array(levels) => slots.div_ceil(u64::from(levels.per_word())),
            MaxAges::None | MaxAges::Packed(_) => 0,
        }
    }
}

impl Rule {
    /// The greatest age that a lookup of a key with this home must probe. With codes in the cells it is at least 1,
    /// because the cell is read in any case.
    pub fn bound(&self, image: &[u64], home: u32) -> u32 {
        match self.max_ages {
            MaxAges::None => self.layout.max_age,
            MaxAges::Array(levels) => levels.bound(self.code(&levels, image, home)),
            MaxAges::Packed(levels) => levels.bound(self.layout.age(self.layout.get(image, home))).max(1),
        }
    }

    /// The code of a place in the array.
    pub(super) fn code(&self, levels: &Levels, image: &[u64], place: u32) -> u32 {
        let (word, shift) = levels.position(place);
        let at = self.functions.slots as usize + word as usize;
        levels.code_in(image.get(at).copied().unwrap_or(0), shift)
    }

    /// The second pass of a build: writes all maximum ages, computed from the ages in the cells.
    pub fn write_max_ages(&self, image: &mut [u64]) {
        let slots = self.functions.slots;
        match self.max_ages {
            MaxAges::None => {}
            MaxAges::Array(levels) => {
                let codes = self.codes(&levels, image);
                let array = image.get_mut(slots as usize..).unwrap_or_default();
                array.fill(0);
                for (place, &code) in (0..).zip(&codes) {
                    let (word, shift) = levels.position(place);
                    if let Some(word) = array.get_mut(word as usize) {
                        *word |= u64::from(code) << shift;
                    }
                }
            }
            MaxAges::Packed(levels) => {
                let codes = self.codes(&levels, image);
                for (place, &code) in (0..).zip(&codes) {
                    let cell = self.layout.get(image, place);
                    if cell != EMPTY {
                        self.layout.put(image, place, self.layout.with_age(cell, u32::from(code).max(1)));
                    }
                }
            }
        }
    }

    /// The code of each place.
    fn codes(&self, levels: &Levels, image: &[u64]) -> Vec<u8> {
        let mut codes = vec![0; self.functions.slots as usize];
        for at in 0..self.functions.slots {
            let cell = self.layout.get(image, at);
            if self.layout.is_pair(cell) {
                let age = self.layout.age(cell);
                let code = &mut codes[self.functions.home(at, age) as usize];
                *code = levels.code(age).max(u32::from(*code)) as u8;
            }
        }
        codes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheme::robin_hood::cell;

    #[test]
    fn levels_ascend_to_the_greatest_age_and_codes_round_up() {
        for (kind, layout) in [(Kind::Canonical, cell::CANONICAL), (Kind::Classic, cell::PAIRS)] {
            for bits in 2..=4 {
                let (MaxAges::Array(levels) | MaxAges::Packed(levels)) = MaxAges::of(kind, bits) else { panic!() };
                assert_eq!((levels.bits, levels.of_code.len()), (bits, 1 << bits));
                assert!(levels.of_code.is_sorted_by(|a, b| a < b));
                assert_eq!((levels.bound(0), levels.bound(levels.last_code())), (0, layout.max_age));
                for age in 0..=layout.max_age {
                    let code = levels.code(age);
                    assert!(levels.bound(code) >= age && (code == 0 || levels.bound(code - 1) < age));
                }
                assert_eq!(levels.bound(u32::MAX), layout.max_age, "no code is out of bounds");
            }
            assert_eq!(MaxAges::of(kind, 0), MaxAges::None);
        }
    }

    #[test]
    fn codes_do_not_span_words() {
        for bits in 2..=4 {
            let MaxAges::Array(levels) = MaxAges::of(Kind::Canonical, bits) else { panic!() };
            let mut words = vec![0u64; MaxAges::Array(levels).words(1000) as usize];
            for place in 0..1000 {
                let (word, shift) = levels.position(place);
                words[word as usize] |= u64::from(place % (1 << bits)) << shift;
            }
            for place in 0..1000 {
                let (word, shift) = levels.position(place);
                assert_eq!(levels.code_in(words[word as usize], shift), place % (1 << bits));
            }
        }
    }
}
