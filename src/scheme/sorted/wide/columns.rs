//! The layout of the keys and values of an image.
//!
//! ```text
//! image = [key] of all slots, up to a whole word;  [value] of all slots, up to a whole word
//! ```
//!
//! A search reads only keys, so they have a separate column: a cache line then contains eight keys of 64 bits instead
//! of four pairs. Columns of 32 bits are stored as in a little-endian array: the lower half of a word first.

use crate::backend::Word;
use crate::scheme::bucketized::wide::Layout;

/// The number of words of the image for a column of this many slots.
fn words_of<T: Word>(slots: u64) -> u64 {
    slots.div_ceil(u64::from(u64::BITS / T::BITS))
}

/// The number of words of the keys, which the values follow.
pub(crate) fn key_words<L: Layout>(slots: u32) -> u64 {
    words_of::<L::Key>(slots.into())
}

/// The number of words of the values.
pub(crate) fn value_words<L: Layout>(slots: u32) -> u64 {
    if L::VALUES.is_some() { words_of::<L::Value>(slots.into()) } else { 0 }
}

/// The keys and the values of all slots; after an odd number of 32-bit slots, also the unused half of the last word.
/// Sets have no values.
pub(crate) fn columns<L: Layout>(image: &[u64], slots: u32) -> (&[L::Key], &[L::Value]) {
    let (keys, values) = image.split_at(image.len().min(key_words::<L>(slots) as usize));
    (bytemuck::cast_slice(keys), bytemuck::cast_slice(values))
}

/// The words of the columns of keys and of values, mutable.
pub(crate) fn columns_mut<L: Layout>(image: &mut [u64], slots: u32) -> (&mut [u64], &mut [u64]) {
    image.split_at_mut(image.len().min(key_words::<L>(slots) as usize))
}

/// The value of a slot; 0 in sets.
pub(crate) fn value<L: Layout>(values: &[L::Value], at: usize) -> L::Value {
    values.get(at).copied().unwrap_or_default()
}
