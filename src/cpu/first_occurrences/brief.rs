//! Numbers the keys of a column in one pass, on the calling thread.
//!
//! ```text
//! each key     probe its slots, from its home on, until one has the key's number or is empty
//! empty        the key is new and gets the next number, because keys are read in row order
//! half full    move all numbers to a table of four times as many slots
//! ```
//!
//! If threads shared a table, the number of keys, their first rows and the ranks of these rows would need a pass each.
//! One thread that reads the rows in order gets all of them in one pass. Slots contain only numbers, and their count
//! grows with the number of distinct keys, so the table of a column with few keys stays in the first-level cache.
//!
//! Keys can be chosen to share their homes. Steps are therefore counted: above [`STEPS`] per row, the column is left to
//! the algorithms that bound them.

use super::Memory;
use super::hashed::mixed;
use crate::error::Result;
use crate::memory;
use crate::scheme::Key;

const SEED: u64 = 0x6b6f_656c_6272_6965;
/// Slots of the first table.
pub(super) const SLOTS: usize = 1 << 9;
/// The average number of slots after its home that a key may probe. With half of the slots occupied, random keys probe
/// half a slot.
const STEPS: usize = 8;

/// The slot where the search for a key begins.
#[inline(always)]
pub(super) fn home<K: Key>(key: K) -> usize {
    mixed(key.into(), SEED) as usize
}

/// Slots: 0 if empty, otherwise a number plus 1.
struct Slots(Vec<u32>);

impl Slots {
    fn new(count: usize) -> Result<Self> {
        Ok(Slots(memory::zeroed(count)?))
    }

    /// The slot of a key and its content: 0, or a number plus 1. Adds the number of slots passed to `steps`.
    #[inline(always)]
    fn of<K: Key>(&self, unique: &[K], key: K, steps: &mut usize) -> (usize, u32) {
        let mask = self.0.len() - 1;
        let mut at = home(key) & mask;
        loop {
            let number = self.0[at];
            if number == 0 || unique.get(number as usize - 1) == Some(&key) {
                return (at, number);
            }
            *steps += 1;
            at = (at + 1) & mask;
        }
    }
}

/// The distinct keys of a column in order of first occurrence. Writes each row's number to `ids`, which has the length
/// of the column or is empty. `None` if there are more than `most` keys, or if too many of them share their homes.
pub(super) fn numbered<K: Key>(keys: &[K], ids: &mut [u32], most: usize) -> Result<Option<Memory<K>>> {
    let (mut slots, mut unique, mut steps) = (Slots::new(SLOTS)?, memory::reserved(keys.len())?, 0);
    let mut ids = ids.iter_mut();
    for (row, &key) in keys.iter().enumerate() {
        let (at, mut number) = slots.of(&unique, key, &mut steps);
        if steps > STEPS * (row + SLOTS) || unique.len() > most {
            return Ok(None);
        }
        if number == 0 {
            unique.push(key);
            number = unique.len() as u32;
            slots.0[at] = number;
            if unique.len() * 2 > slots.0.len() {
                slots = Slots::new(slots.0.len() * 4)?;
                for (number, &key) in (1..).zip(&unique) {
                    let (at, _) = slots.of(&unique[..number as usize - 1], key, &mut steps);
                    slots.0[at] = number;
                }
            }
        }
        if let Some(id) = ids.next() {
            *id = number - 1;
        }
    }
    Memory::of(&unique).map(Some)
}
