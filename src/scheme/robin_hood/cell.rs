//! A cell of a Robin Hood table: `[age][name][value]`, where the name is the part of the key that the cell stores.
//!
//! ```text
//! CANONICAL   [age 6][quotient 26][value 32]   place and age imply the key modulo m; the name is k / m
//! PAIRS       [age 4][key 32][value 28]        the paper's 64-bit word
//! KEYS        [age 4][key 28]                  the paper's 32-bit word: two per word of the image, the low half first
//! ```
//!
//! Cells compare as integers: the greater age wins, then the greater name, then the greater value. Every rule of the
//! table is written once for all three. With at least 64 slots a quotient fits 26 bits, so canonical tables store every
//! key and value. Only an empty cell is 0, because ages start at 1.
//!
//! The cells of `scheme/slot.rs` are different: their four bits of age are too few here. At load 0.99 ages reach 15 and
//! more.

/// An empty cell.
pub const EMPTY: u64 = 0;

/// The fields of a cell, in bits. Together they fill the cell: 64 bits or 32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellLayout {
    /// Bits of the age, at the top.
    pub age_bits: u32,
    /// Bits of the name: the quotient of the key, or the key.
    pub name_bits: u32,
    /// Bits of the value.
    pub value_bits: u32,
    /// The greatest age of a pair. An attempt that exceeds it has failed.
    pub max_age: u32,
}

/// The canonical word. Age 63 marks a tombstone.
pub const CANONICAL: CellLayout = CellLayout { age_bits: 6, name_bits: 26, value_bits: 32, max_age: 62 };
/// The paper's word for a key and a value.
pub const PAIRS: CellLayout = CellLayout { age_bits: 4, name_bits: 32, value_bits: 28, max_age: 15 };
/// The paper's word for a key without a value.
pub const KEYS: CellLayout = CellLayout { age_bits: 4, name_bits: 28, value_bits: 0, max_age: 15 };

/// A canonical cell whose pair was removed. It is greater than any pair, so nothing displaces it, and lookups skip it.
pub const TOMBSTONE: u64 = ((CANONICAL.max_age + 1) as u64) << (64 - CANONICAL.age_bits);
/// The minimum number of slots: the first prime for which a quotient fits 26 bits.
pub const LEAST_SLOTS: u32 = 67;
const _: () = assert!(u32::MAX / LEAST_SLOTS < 1 << CANONICAL.name_bits);

/// The lowest `bits` bits.
const fn mask(bits: u32) -> u64 {
    (1 << bits) - 1
}

impl CellLayout {
    /// The number of bits of a cell: 64 or 32.
    #[inline(always)]
    pub const fn cell_bits(self) -> u32 {
        self.age_bits + self.name_bits + self.value_bits
    }

    /// The number of words of an image with this many cells.
    pub const fn words(self, cells: u64) -> u64 {
        cells.div_ceil(64 / self.cell_bits() as u64)
    }

    /// A cell with these fields. Excess bits are cut off.
    #[inline(always)]
    pub const fn cell(self, age: u32, name: u32, value: u32) -> u64 {
        let upper = ((age as u64) << self.name_bits) | (name as u64 & mask(self.name_bits));
        (upper << self.value_bits) | (value as u64 & mask(self.value_bits))
    }

    /// Age and name, which decide where a pair is stored.
    #[inline(always)]
    pub const fn upper(self, cell: u64) -> u64 {
        cell >> self.value_bits
    }

    /// The age in a cell; in classic tables with maximum ages, the code of one.
    #[inline(always)]
    pub const fn age(self, cell: u64) -> u32 {
        (cell >> (self.name_bits + self.value_bits)) as u32
    }

    /// The name in a cell.
    #[inline(always)]
    pub const fn name(self, cell: u64) -> u32 {
        (self.upper(cell) & mask(self.name_bits)) as u32
    }

    /// The value in a cell.
    #[inline(always)]
    pub const fn value(self, cell: u64) -> u32 {
        (cell & mask(self.value_bits)) as u32
    }

    /// The same cell with another age.
    #[inline(always)]
    pub const fn with_age(self, cell: u64, age: u32) -> u64 {
        let below = self.name_bits + self.value_bits;
        (cell & mask(below)) | ((age as u64) << below)
    }

    /// Whether a cell contains a pair: it is neither empty nor a tombstone.
    #[inline(always)]
    pub const fn is_pair(self, cell: u64) -> bool {
        let age = self.age(cell);
        age >= 1 && age <= self.max_age
    }

    /// Cell `at` of an image; empty past the end.
    #[inline(always)]
    pub fn get(self, image: &[u64], at: u32) -> u64 {
        if self.cell_bits() == 64 {
            return image.get(at as usize).copied().unwrap_or(EMPTY);
        }
        let word = image.get(at as usize / 2).copied().unwrap_or(EMPTY);
        u64::from((word >> (at % 2 * 32)) as u32)
    }

    /// Writes cell `at` of an image; does nothing past the end.
    #[inline(always)]
    pub fn put(self, image: &mut [u64], at: u32, cell: u64) {
        if self.cell_bits() == 64 {
            if let Some(word) = image.get_mut(at as usize) {
                *word = cell;
            }
        } else if let Some(word) = image.get_mut(at as usize / 2) {
            let shift = at % 2 * 32;
            *word = (*word & !(u64::from(u32::MAX) << shift)) | ((cell & u64::from(u32::MAX)) << shift);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quickcheck::quickcheck;

    const ALL: [CellLayout; 3] = [CANONICAL, PAIRS, KEYS];

    #[test]
    fn every_field_survives_at_its_extremes_and_none_spills() {
        for layout in ALL {
            let most = |bits| mask(bits) as u32;
            for age in [1, layout.max_age] {
                for name in [0, most(layout.name_bits)] {
                    for value in [0, most(layout.value_bits)] {
                        let cell = layout.cell(age, name, value);
                        assert_eq!((layout.age(cell), layout.name(cell), layout.value(cell)), (age, name, value));
                        assert!(layout.is_pair(cell) && cell != EMPTY);
                        assert_eq!(layout.with_age(cell, 3), layout.cell(3, name, value));
                    }
                }
            }
            let cut = layout.cell(1, u32::MAX, u32::MAX);
            assert_eq!(layout.age(cut), 1, "wide fields are cut");
            assert!(!layout.is_pair(EMPTY));
            assert!([32, 64].contains(&layout.cell_bits()));
        }
        assert!(!CANONICAL.is_pair(TOMBSTONE) && TOMBSTONE > CANONICAL.cell(62, u32::MAX, u32::MAX));
    }

    #[test]
    fn two_keys_share_a_word_the_low_half_first() {
        let mut image = [0; 2];
        for at in 0..3 {
            KEYS.put(&mut image, at, KEYS.cell(1, 7 + at, 0));
        }
        KEYS.put(&mut image, 4, KEYS.cell(1, 1, 0));
        assert_eq!(image, [0x1000_0008_1000_0007, 0x1000_0009]);
        assert_eq!([0, 1, 2, 3, 4].map(|at| KEYS.get(&image, at)), [0x1000_0007, 0x1000_0008, 0x1000_0009, 0, 0]);
        assert_eq!((KEYS.words(67), PAIRS.words(67)), (34, 67));
    }

    quickcheck! {
        fn cells_order_by_age_then_name_then_value(a: (u32, u32, u32), b: (u32, u32, u32)) -> bool {
            ALL.into_iter().all(|layout| {
                let cut = |(age, name, value): (u32, u32, u32)| (
                    age % layout.max_age + 1,
                    (u64::from(name) & mask(layout.name_bits)) as u32,
                    (u64::from(value) & mask(layout.value_bits)) as u32,
                );
                let (a, b) = (cut(a), cut(b));
                let cell = |(age, name, value)| layout.cell(age, name, value);
                cell(a).cmp(&cell(b)) == a.cmp(&b)
            })
        }
    }
}
