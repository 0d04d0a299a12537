//! The layout of the pairs of a bucket in a line of 64 bytes, which is eight words of an image.
//!
//! ```text
//! keys, values   slots   the line, in bytes
//! u64, u64         4     4 x [word 8][value 8]
//! u64, u32         5     5 x [word 8], 5 x [value 4], 4 spare
//! u32, u64         5     5 x [word 4], 4 spare, 5 x [value 8]
//! u64, none        8     8 x [word 8]
//! ```
//!
//! A bucket is a single line, because a second access costs as much as the first, even to the next line. Spare bytes,
//! and the values of empty slots, are 0. Words and values of 32 bits are stored as in a little-endian array: the lower
//! half of an image's word first.

use std::fmt::Debug;

use super::slot::SlotKey;
use crate::backend::Word;
use crate::scheme::Value;

/// A bucket.
pub(crate) type Line = [u64; LINE_WORDS];

/// The number of words of a bucket.
pub(crate) const LINE_WORDS: usize = 8;

/// The bounds of type parameters for columns.
pub trait Column: Copy + Debug + PartialEq + Send + Sync + 'static {}
impl<T: Copy + Debug + PartialEq + Send + Sync + 'static> Column for T {}

/// The positions of words and values in a line, counted in words, or values, of their own width.
#[diagnostic::on_unimplemented(
    message = "no tables have keys and values of the types `{Self}`",
    note = "there are `(u64, u64)`, `(u64, u32)`, `(u32, u64)`, and `(u64, ())` for sets; cast other integers to these",
    note = "for `(u32, u32)` take the scheme itself, such as `Bucketized` in place of `BucketizedOf`"
)]
pub trait Layout: Column {
    /// The keys.
    type Key: SlotKey;
    /// The values; in sets an arbitrary type, always 0.
    type Value: Value;
    /// The number of pairs of a line.
    const SLOTS: usize;
    /// The distance from one slot's word to the next one's.
    const WORD_STRIDE: usize;
    /// The position of the first value, and the distance to the next one; `None` if there are no values.
    const VALUES: Option<(usize, usize)>;
    /// The index of the unused 32-bit integer among the sixteen of a line.
    const SPARE: Option<usize>;
    /// The base-2 logarithm of the lines of a part: 2,048 to 2,560 words, which fit any device's local memory.
    const PART_BITS: u32;
    /// The bits added to the scheme's number in files: bits 0 to 3 are the type of keys, bits 4 to 7 that of values.
    const CODE: u32;

    /// The word of a slot.
    #[inline(always)]
    fn word(line: &Line, slot: usize) -> u64 {
        read::<Self::Key>(line, Self::WORD_STRIDE * slot).into()
    }
    /// Writes the word of a slot.
    #[inline(always)]
    fn put_word(line: &mut Line, slot: usize, word: u64) {
        write::<Self::Key>(line, Self::WORD_STRIDE * slot, Self::Key::low(word));
    }
    /// The value of a slot.
    #[inline(always)]
    fn value(line: &Line, slot: usize) -> Self::Value {
        Self::VALUES.map_or(Self::Value::default(), |(first, stride)| read(line, first + stride * slot))
    }
    /// Writes the value of a slot.
    #[inline(always)]
    fn put_value(line: &mut Line, slot: usize, value: Self::Value) {
        if let Some((first, stride)) = Self::VALUES {
            write(line, first + stride * slot, value);
        }
    }
    /// The bits of a line that do not belong to a slot.
    #[inline(always)]
    fn spare(line: &Line) -> u32 {
        Self::SPARE.map_or(0, |half| read(line, half))
    }
    /// Writes these bits.
    #[inline(always)]
    fn put_spare(line: &mut Line, bits: u32) {
        if let Some(half) = Self::SPARE {
            write(line, half, bits);
        }
    }
}

/// The 32-bit integers of a line are in the order of a little-endian array.
const SWAPPED: usize = cfg!(target_endian = "big") as usize;

/// Integer `at` of this width in a line.
#[inline(always)]
fn read<T: Word>(line: &Line, at: usize) -> T {
    if T::BITS == u64::BITS {
        return T::low(line[at]);
    }
    let halves: &[u32; 2 * LINE_WORDS] = bytemuck::cast_ref(line);
    T::low(halves[at ^ SWAPPED].into())
}

#[inline(always)]
fn write<T: Word>(line: &mut Line, at: usize, value: T) {
    if T::BITS == u64::BITS {
        line[at] = value.into();
    } else {
        let halves: &mut [u32; 2 * LINE_WORDS] = bytemuck::cast_mut(line);
        halves[at ^ SWAPPED] = value.into() as u32;
    }
}

impl Layout for (u64, u64) {
    type Key = u64;
    type Value = u64;
    const SLOTS: usize = 4;
    const WORD_STRIDE: usize = 2;
    const VALUES: Option<(usize, usize)> = Some((1, 2));
    const SPARE: Option<usize> = None;
    const PART_BITS: u32 = 9;
    const CODE: u32 = 0x11;
}

impl Layout for (u64, u32) {
    type Key = u64;
    type Value = u32;
    const SLOTS: usize = 5;
    const WORD_STRIDE: usize = 1;
    const VALUES: Option<(usize, usize)> = Some((10, 1));
    const SPARE: Option<usize> = Some(15);
    const PART_BITS: u32 = 9;
    const CODE: u32 = 0x01;
}

impl Layout for (u32, u64) {
    type Key = u32;
    type Value = u64;
    const SLOTS: usize = 5;
    const WORD_STRIDE: usize = 1;
    const VALUES: Option<(usize, usize)> = Some((3, 1));
    const SPARE: Option<usize> = Some(5);
    const PART_BITS: u32 = 9;
    const CODE: u32 = 0x10;
}

impl Layout for (u64, ()) {
    type Key = u64;
    type Value = u32;
    const SLOTS: usize = 8;
    const WORD_STRIDE: usize = 1;
    const VALUES: Option<(usize, usize)> = None;
    const SPARE: Option<usize> = None;
    const PART_BITS: u32 = 8;
    const CODE: u32 = 0x21;
}

/// Word and value of a slot.
#[inline(always)]
pub(crate) fn pair<L: Layout>(line: &Line, slot: usize) -> (u64, L::Value) {
    (L::word(line, slot), L::value(line, slot))
}

/// Writes word and value of a slot.
#[inline(always)]
pub(crate) fn put<L: Layout>(line: &mut Line, slot: usize, (word, value): (u64, L::Value)) {
    L::put_word(line, slot, word);
    L::put_value(line, slot, value);
}

/// The lines of an image.
pub(crate) fn lines(image: &[u64]) -> &[Line] {
    image.as_chunks().0
}

/// The lines of an image, mutable.
pub(crate) fn lines_mut(image: &mut [u64]) -> &mut [Line] {
    image.as_chunks_mut().0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each slot's word and value are read back unchanged, and nothing else changes.
    fn slots_are_apart<L: Layout>() {
        let words = |i: usize| u64::MAX >> (64 - L::Key::BITS) ^ (1 << i);
        let values = |i: usize| if L::VALUES.is_some() { L::Value::low(u64::MAX << i) } else { L::Value::default() };
        let mut line = [0; 8];
        (0..L::SLOTS).for_each(|i| put::<L>(&mut line, i, (words(i), values(i))));
        assert!((0..L::SLOTS).all(|i| pair::<L>(&line, i) == (words(i), values(i))));
        assert_eq!(L::spare(&line), 0);
        (0..L::SLOTS).for_each(|i| put::<L>(&mut line, i, (0, L::Value::default())));
        assert_eq!(line, [0; 8]);
    }

    #[test]
    fn words_and_values_do_not_overlap() {
        slots_are_apart::<(u64, u64)>();
        slots_are_apart::<(u64, u32)>();
        slots_are_apart::<(u32, u64)>();
        slots_are_apart::<(u64, ())>();
        assert_ne!(<(u64, u32)>::spare(&[u64::MAX; 8]), 0);
        assert_ne!(<(u32, u64)>::spare(&[u64::MAX; 8]), 0);
    }
}
