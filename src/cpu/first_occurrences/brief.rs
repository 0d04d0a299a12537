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

/// The hash of a key. Its upper bits select a partition.
#[inline(always)]
pub(super) fn hash<K: Key>(key: K) -> u64 {
    mixed(key.into(), SEED)
}

/// The slot where the search for a key begins, in the lower bits. The lowest bits of the hash are not used: for keys at
/// equal distances, they depend on the upper ones. Up to 2^21 slots, no bit that selects a partition is used.
#[inline(always)]
pub(super) fn home<K: Key>(key: K) -> usize {
    (hash(key) >> 32) as usize
}

/// Numbers of keys, in the order in which they are passed.
#[derive(Default)]
pub(super) struct Table<K> {
    /// 0 if empty, otherwise a number plus 1. Their count is a power of two.
    slots: Vec<u32>,
    unique: Vec<K>,
    /// Slots that keys probed after their homes.
    steps: usize,
    /// Keys that were passed.
    rows: usize,
}

impl<K: Key> Table<K> {
    /// Removes all keys, and reserves memory for about `expected`.
    pub(super) fn clear(&mut self, expected: usize) -> Result<()> {
        let slots = (2 * expected).next_power_of_two().max(SLOTS);
        self.slots.clear();
        memory::reserve(&mut self.slots, slots)?;
        self.slots.resize(slots, 0);
        self.unique.clear();
        memory::reserve(&mut self.unique, slots / 2 + 1)?;
        (self.steps, self.rows) = (0, 0);
        Ok(())
    }

    /// The distinct keys.
    pub(super) fn unique(&self) -> &[K] {
        &self.unique
    }

    /// The number of a key, and whether it is new. `None` if too many keys share their homes.
    #[inline(always)]
    pub(super) fn number(&mut self, key: K) -> Result<Option<(u32, bool)>> {
        let (at, number) = self.find(key);
        if self.steps > STEPS * (self.rows + SLOTS) {
            return Ok(None);
        }
        self.rows += 1;
        if number != 0 {
            return Ok(Some((number - 1, false)));
        }
        self.unique.push(key);
        let number = self.unique.len() as u32;
        self.slots[at] = number;
        if self.unique.len() * 2 > self.slots.len() {
            self.grow()?;
        }
        Ok(Some((number - 1, true)))
    }

    /// The slot of a key and its content.
    #[inline(always)]
    fn find(&mut self, key: K) -> (usize, u32) {
        let mask = self.slots.len() - 1;
        let mut at = home(key) & mask;
        loop {
            let number = self.slots[at];
            if number == 0 || self.unique.get(number as usize - 1) == Some(&key) {
                return (at, number);
            }
            self.steps += 1;
            at = (at + 1) & mask;
        }
    }

    #[cold]
    fn grow(&mut self) -> Result<()> {
        let mask = self.slots.len() * 4 - 1;
        self.slots = memory::zeroed(mask + 1)?;
        let more = mask / 2 + 2 - self.unique.len();
        memory::reserve(&mut self.unique, more)?;
        for (number, &key) in (1..).zip(&self.unique) {
            let mut at = home(key) & mask;
            while self.slots[at] != 0 {
                self.steps += 1;
                at = (at + 1) & mask;
            }
            self.slots[at] = number;
        }
        Ok(())
    }
}

/// The distinct keys of a column in order of first occurrence. Writes each row's number to `ids`, which has the length
/// of the column or is empty. `None` if there are more than `most` keys, or if too many of them share their homes.
pub(super) fn numbered<K: Key>(keys: &[K], ids: &mut [u32], most: usize) -> Result<Option<Memory<K>>> {
    let mut table = Table::default();
    table.clear(0)?;
    let mut ids = ids.iter_mut();
    for &key in keys {
        match table.number(key)? {
            Some((number, _)) if table.unique.len() <= most => ids.next().into_iter().for_each(|id| *id = number),
            _ => return Ok(None),
        }
    }
    Memory::of(&table.unique).map(Some)
}
