//! The stored form of a slot: a whole word, or its upper half in sets.
//!
//! ```text
//! u64   [upper half][value]     tables of pairs: one slot per word of the image
//! u32   [upper half]            sets: the same word with the value 0, without the lower half; two slots per word of
//!                               the image, the first in the lower half
//! ```
//!
//! The upper half determines the key, in both kinds of table, and marks empty slots and tombstones. So every rule is
//! written once, for words, and a set is the table of its keys with the value 0: the same functions, the same slots,
//! half the bytes.

/// The stored form of a slot: `u64` or `u32`.
pub trait Cell: bytemuck::Pod + PartialEq + Send + Sync {
    /// The number of bits of a slot.
    const BITS: u32 = u8::BITS * size_of::<Self>() as u32;
    /// Whether the value is not stored.
    const KEYS_ALONE: bool = Self::BITS < u64::BITS;

    /// The word of a slot.
    fn word(self) -> u64;

    /// The slot of a word.
    fn of(word: u64) -> Self;

    /// The number of words of an image with this many slots.
    fn words(slots: u64) -> u64 {
        slots.div_ceil(u64::from(u64::BITS / Self::BITS))
    }

    /// The slots of an image; fewer if the image is too short.
    fn slots(image: &[u64], slots: u32) -> &[Self] {
        let all = bytemuck::cast_slice(image);
        all.get(..slots as usize).unwrap_or(all)
    }

    /// The slots of an image, mutable.
    fn slots_mut(image: &mut [u64], slots: u32) -> &mut [Self] {
        let all: &mut [Self] = bytemuck::cast_slice_mut(image);
        let len = all.len().min(slots as usize);
        &mut all[..len]
    }
}

impl Cell for u64 {
    #[inline(always)]
    fn word(self) -> u64 {
        self
    }

    #[inline(always)]
    fn of(word: u64) -> u64 {
        word
    }
}

impl Cell for u32 {
    #[inline(always)]
    fn word(self) -> u64 {
        u64::from(self) << u32::BITS
    }

    #[inline(always)]
    fn of(word: u64) -> u32 {
        (word >> u32::BITS) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_keys_share_a_word_the_lower_half_first() {
        let mut image = [0; 2];
        for (at, cell) in u32::slots_mut(&mut image, 3).iter_mut().enumerate() {
            *cell = u32::of(0x7000_0000_0000_0000 + ((at as u64) << 32) + 9);
        }
        assert_eq!(image, [0x7000_0001_7000_0000, 0x7000_0002]);
        assert_eq!(u32::slots(&image, 3).iter().map(|cell| cell.word()).max(), Some(0x7000_0002_0000_0000));
        assert_eq!((u32::slots(&image, 9).len(), u64::slots(&image, 1).len()), (4, 1));
        assert_eq!([0, 1, 2, 3].map(u32::words), [0, 1, 1, 2]);
        assert_eq!((u64::words(3), u32::BITS, <u64 as Cell>::BITS), (3, 32, 64));
    }
}
