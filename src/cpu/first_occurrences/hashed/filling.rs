//! Fills a table: each key is stored in the first line within reach that contains it or has a free slot.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use super::{Homes, LINE, REACH, raise, slots, words};
use crate::scheme::Key;

/// The most lines between a key and its home, averaged over the new keys of a chunk.
const STEPS: usize = 8;

/// A table that is being filled.
pub(super) struct Filling<'a> {
    pub(super) lines: &'a [[AtomicU64; LINE]],
    pub(super) homes: Homes,
    pub(super) zero: &'a AtomicU32,
    /// Whether one thread fills it.
    pub(super) alone: bool,
}

/// The result of inserting a key into a line.
#[derive(PartialEq, Eq)]
enum Put {
    New,
    Known,
    Full,
}

impl Filling<'_> {
    /// Inserts at most [`CHUNK`](crate::cpu::CHUNK) keys, the first of which is in row `first`. Returns the number of
    /// new keys; `None` if a key finds no free slot within reach, or if keys are too far from their homes.
    ///
    /// Existing keys do not cause failures, however far they are from home and however often they occur: each costs at
    /// most [`REACH`] lines.
    #[inline(always)]
    pub(super) fn fill<K: Key>(&self, keys: &[K], first: u32) -> Option<usize> {
        let (new, mut new_behind, mut steps, mut fits) = (Cell::new(0), 0, 0, true);
        self.homes.each::<_, _, true>(
            self.lines,
            keys,
            #[inline(always)]
            |i, key, line| {
                let put = self.put::<K>(line, key, first.wrapping_add(i as u32));
                new.set(new.get() + usize::from(put == Put::New));
                put == Put::Full
            },
            #[inline(always)]
            |i, key, behind| {
                for (line, far) in self.lines.get(behind..behind + REACH - 1).unwrap_or(&[]).iter().zip(1..) {
                    match self.put::<K>(line, key, first.wrapping_add(i as u32)) {
                        Put::New => {
                            new_behind += 1;
                            steps += far;
                        }
                        Put::Known => {}
                        Put::Full => continue,
                    }
                    return;
                }
                fits = false;
            },
        );
        (fits && steps <= keys.len() * STEPS + REACH).then_some(new.get() + new_behind)
    }

    #[inline(always)]
    fn put<K: Key>(&self, line: &[AtomicU64; LINE], key: u64, row: u32) -> Put {
        if K::BITS == u64::BITS && key == 0 {
            raise(self.zero, row, self.alone);
            // The key 0 has a separate cell, and is counted at the end.
            return Put::Known;
        }
        // The first word of each slot. For keys of 32 bits, the upper half of the word is the key.
        let key_of = |word: u64| if K::BITS == u64::BITS { word } else { word >> 32 };
        let place = |slot: usize| slot * words::<K>();
        let mut fitting = 1 << slots::<K>();
        for slot in 0..slots::<K>() {
            let word = line[place(slot)].load(Relaxed);
            fitting |= u32::from((word == 0) | (key_of(word) == key)) << slot;
        }
        let number = u64::from(!row);
        let claim = if K::BITS == u64::BITS { key } else { key << 32 | number };
        // Usually one iteration: a slot that was free may have been claimed for another key.
        for slot in fitting.trailing_zeros() as usize..slots::<K>() {
            let first = &line[place(slot)];
            let mut there = first.load(Relaxed);
            let mut new = false;
            if there == 0 {
                (there, new) = self.claim(first, claim);
            }
            if key_of(there) == key {
                if K::BITS == u64::BITS {
                    self.raise(&line[(place(slot) + 1) % LINE], number);
                } else {
                    self.raise(first, claim);
                }
                return if new { Put::New } else { Put::Known };
            }
        }
        Put::Full
    }

    /// Claims a free slot. Returns the content of the slot afterwards, and whether this thread claimed it.
    #[inline(always)]
    fn claim(&self, slot: &AtomicU64, word: u64) -> (u64, bool) {
        if self.alone {
            slot.store(word, Relaxed);
            return (word, true);
        }
        match slot.compare_exchange(0, word, Relaxed, Relaxed) {
            Ok(_) => (word, true),
            Err(there) => (there, false),
        }
    }

    #[inline(always)]
    fn raise(&self, slot: &AtomicU64, word: u64) {
        if slot.load(Relaxed) < word {
            if self.alone {
                slot.store(word, Relaxed);
            } else {
                slot.fetch_max(word, Relaxed);
            }
        }
    }
}
