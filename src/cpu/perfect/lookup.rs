//! Lookups in blocks, three of which are in flight at a time:
//!
//! ```text
//! newest    its cells are computed, and the lines of its offsets are prefetched
//! middle    its offsets have arrived: its slots are computed, and their lines are prefetched
//! oldest    its slots have arrived: it is resolved
//! ```
//!
//! Each resolved key prefetches one line of the middle block and one of the newest, because prefetches of a whole block
//! would wait for each other. Blocks keep their order, so adjacent queries, whose slots are adjacent too, find their
//! line in the cache.

use wide::u32x8;

use super::TASK;
use crate::cpu::BLOCK;
use crate::cpu::lines::pack;
use crate::cpu::memory::prefetch;
use crate::scheme::cuckoo::classic::{EMPTY_KEY, key};
use crate::scheme::perfect::{Functions, half};

/// Up to [`BLOCK`] consecutive keys of the input. Elements from `len` on are leftovers.
struct Block {
    len: usize,
    keys: [u32; BLOCK],
    cells: [u32; BLOCK],
    bases: [u32; BLOCK],
    slots: [u32; BLOCK],
}

impl Block {
    fn empty() -> Self {
        Block { len: 0, keys: [0; BLOCK], cells: [0; BLOCK], bases: [0; BLOCK], slots: [0; BLOCK] }
    }

    /// Takes the keys at the front of `keys`, and computes their cells.
    #[inline(always)]
    fn take(&mut self, functions: &Functions, keys: &[u32]) {
        self.len = keys.len().min(BLOCK);
        self.keys[..self.len].copy_from_slice(&keys[..self.len]);
        let cells = self.cells.as_chunks_mut::<8>().0.iter_mut();
        let bases = self.bases.as_chunks_mut::<8>().0.iter_mut();
        let keys = self.keys.as_chunks::<8>().0.iter();
        for ((keys, cells), bases) in keys.zip(cells).zip(bases).take(self.len.div_ceil(8)) {
            let (cell, base) = functions.home(u32x8::new(*keys));
            (*cells, *bases) = (cell.to_array(), base.to_array());
        }
    }

    /// Reads the offsets, and computes the slots.
    #[inline(always)]
    fn aim(&mut self, functions: &Functions, word: &impl Fn(usize) -> u64) {
        // The offset replaces its cell, which is not needed any more.
        for cell in &mut self.cells[..self.len] {
            *cell = half(word(functions.offset_word(*cell)), *cell);
        }
        let offsets = self.cells.as_chunks::<8>().0.iter();
        let bases = self.bases.as_chunks::<8>().0.iter();
        let slots = self.slots.as_chunks_mut::<8>().0.iter_mut();
        for ((offsets, bases), slots) in offsets.zip(bases).zip(slots).take(self.len.div_ceil(8)) {
            *slots = functions.slot(u32x8::new(*bases), u32x8::new(*offsets)).to_array();
        }
    }
}

/// Looks `keys` up and calls `answer(number of the key, hit, slot, word)` for each, in their order. `word` reads a word
/// of `image`.
#[inline(always)]
pub(super) fn search<T>(
    functions: &Functions,
    image: &[T],
    word: impl Fn(usize) -> u64,
    keys: &[u32],
    mut answer: impl FnMut(usize, bool, u32, u64),
) {
    let (mut oldest, mut middle, mut newest) = (Block::empty(), Block::empty(), Block::empty());
    let mut first = 0;
    // The last two rounds have no new keys, and finish the blocks in flight.
    for taken in (0..keys.len() + 2 * BLOCK).step_by(BLOCK) {
        newest.take(functions, keys.get(taken..).unwrap_or_default());
        middle.aim(functions, &word);
        let ahead = middle.len.max(newest.len);
        for i in 0..oldest.len.max(ahead).min(BLOCK) {
            if i < middle.len {
                prefetch(image, middle.slots[i] as usize);
            }
            if i < newest.len {
                prefetch(image, functions.offset_word(newest.cells[i]));
            }
            if i < oldest.len {
                let (wanted, slot) = (oldest.keys[i], oldest.slots[i]);
                let found = word(slot as usize);
                // The key of an empty slot is the marker.
                answer(first + i, (key(found) == wanted) & (wanted != EMPTY_KEY), slot, found);
            }
        }
        first += oldest.len;
        // The newest becomes the middle one, the middle one the oldest.
        std::mem::swap(&mut oldest, &mut middle);
        std::mem::swap(&mut middle, &mut newest);
    }
}

/// Values and found bits of one task's queries; `outside` is the value of the empty marker's key.
pub(super) fn answer(
    functions: &Functions,
    image: &[u64],
    outside: Option<u32>,
    queries: &[u32],
    values: &mut [u32],
    found: &mut [u32],
) {
    // One byte per query first: setting bits in a word of the bitmap would make each key wait for the previous one.
    let mut hits = [0u8; TASK];
    search(
        functions,
        image,
        |at| image[at],
        queries,
        |i, hit, _, word| {
            values[i] = if hit { word as u32 } else { 0 };
            hits[i] = u8::from(hit);
        },
    );
    pack(&hits, found);
    let Some(value) = outside else { return };
    for i in (0..queries.len()).filter(|&i| queries[i] == EMPTY_KEY) {
        values[i] = value;
        found[i / 32] |= 1 << (i % 32);
    }
}
