//! Numbers the keys of a short column in one pass, on the calling thread.
//!
//! ```text
//! each key     its slots, from its home on, until one has the key's number, or none
//! none         it is new: it has the next number, for keys come in the order of their rows
//! half full    four times as many slots, into which all numbers go anew
//! ```
//!
//! What needs several passes where threads share a table (how many keys there are, which row is the first, its rank) is
//! there by itself if one thread goes from row to row. Slots hold numbers alone, and grow with the keys that there are,
//! so that a column of few keys stays in the first cache.
//!
//! Keys can be chosen to share their homes. Steps are therefore counted, and with more than [`STEPS`] per row, the
//! column is left to the algorithms that bound them.

use super::Memory;
use super::hashed::mixed;
use crate::error::Result;
use crate::memory;
use crate::scheme::Key;

const SEED: u64 = 0x6b6f_656c_6272_6965;
/// Slots of the first table.
pub(super) const SLOTS: usize = 1 << 9;
/// Slots after its home that a key may probe, on average. If half of the slots are occupied, random keys probe half of
/// one.
const STEPS: usize = 8;

/// Where a key's search begins.
#[inline(always)]
pub(super) fn home<K: Key>(key: K) -> usize {
    mixed(key.into(), SEED) as usize
}

/// Slots of which each has a number and 1, or 0.
struct Slots(Vec<u32>);

impl Slots {
    fn new(count: usize) -> Result<Self> {
        Ok(Slots(memory::zeroed(count)?))
    }

    /// The slot of a key, and what is in it: a number and 1, or 0. `steps` gets those that were passed.
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

/// The distinct keys of a column by first appearance, and the number of each row's key among them, written over `ids`,
/// which are as many or none. None for keys that share their homes.
pub(super) fn numbered<K: Key>(keys: &[K], ids: &mut [u32]) -> Result<Option<Memory<K>>> {
    let (mut slots, mut unique, mut steps) = (Slots::new(SLOTS)?, memory::reserved(keys.len())?, 0);
    let mut ids = ids.iter_mut();
    for (row, &key) in keys.iter().enumerate() {
        let (at, mut number) = slots.of(&unique, key, &mut steps);
        if steps > STEPS * (row + SLOTS) {
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
