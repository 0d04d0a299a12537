//! Keys of any range: a table of lines of 64 bytes, in which a key is stored in its home line or in a later one.
//!
//! ```text
//! u32   8 slots per line, one word each:  [key][!row]           zero: free, since no row is u32::MAX
//! u64   4 slots per line, two words each: [key] [0][!row]       a key of zero: free; the key 0 has a separate cell
//!
//! put    the first slot of the line that is free or has the key: claimed by a compare-and-swap, or raised to !row
//! look   all slots of the line at once; the search continues if none has the key and the last one is occupied
//! both   list keys whose search continues, and prefetch their next lines; process the list after each chunk
//! ```
//!
//! A slot is claimed once and never changes its key, and a line is filled from its front. Threads therefore need no
//! locks, and each key has one slot.
//!
//! Size: up to [`FEW`] keys get [`LINES_A_KEY`] lines each. Most keys are then first in their line, which the branch
//! predictor learns. For more keys, the size is such that about [`FILLED`] percent of the slots are occupied.
//!
//! No key is stored farther than [`REACH`] lines from its home, so insertions and lookups read at most that many lines
//! for all keys. An attempt fails (`filling.rs`) if no line within reach has a free slot, or if the new keys of a chunk
//! are too far from their homes on average. This does not happen with random keys, but keys can be chosen that cause
//! it. The second attempt has another seed and space for twice the expected number of keys, and the third has space for
//! all rows. After that the keys are sorted, which works for all keys.

mod filling;
#[cfg(test)]
mod tests;

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use super::{Memory, grain, raise};
use crate::cpu::lanes::at_best;
use crate::cpu::memory::{atomic, prefetch};
use crate::cpu::{BLOCK, CHUNK};
use crate::error::Result;
use crate::parallel::{each, fold, threads};
use crate::scheme::Key;
use filling::Filling;

/// The number of tables that are tried.
pub(super) const ATTEMPTS: usize = 3;
/// The percentage of occupied slots.
const FILLED: usize = 60;
/// The lines in which a key may be stored: its home and those after it. The greatest number of lines that any key
/// needed in a simulation (one thread, 2026-11-25): 33 for 10^9 random keys of 64 bits, at 61 percent; 32 for 10^8 such
/// keys and 16 for 10^8 keys of 32 bits, at 63 percent, three standard errors of the estimate.
const REACH: usize = 48;
/// Up to this many keys get [`LINES_A_KEY`] lines each.
const FEW: usize = 1 << 12;
const LINES_A_KEY: usize = 4;
/// The prefetch distance of lines behind homes, in keys.
const AHEAD: usize = 16;
/// Words of a line.
const LINE: usize = 8;

/// Spreads all bits of a key over the result.
#[inline(always)]
pub(super) fn mixed(key: u64, seed: u64) -> u64 {
    let product = u128::from(key ^ seed) * 0x2d35_8dcc_aa6c_78a5;
    (product >> 64) as u64 ^ product as u64
}

/// The number of words of a slot.
const fn words<K: Key>() -> usize {
    if K::BITS == u64::BITS { 2 } else { 1 }
}

/// The number of slots of a line.
const fn slots<K: Key>() -> usize {
    LINE / words::<K>()
}

pub(super) struct Hashed<K: Key> {
    lines: Memory<u64>,
    homes: Homes,
    /// `!row` of a key of 64 bits that is zero.
    zero: u32,
    /// Whether most keys are first in their line.
    few: bool,
    of: PhantomData<K>,
}

/// The home lines of keys.
#[derive(Clone, Copy)]
struct Homes {
    count: u64,
    seed: u64,
}

impl Homes {
    #[inline(always)]
    fn of(self, key: u64) -> usize {
        (((mixed(key, self.seed) >> 32) * self.count) >> 32) as usize
    }

    /// Calls `at_home` for each of at most [`CHUNK`] keys with its number and line, long after the line was prefetched.
    /// If `at_home` returns that the search of a key continues, calls `behind` with the next line.
    ///
    /// With `BRANCHES`, that line is prefetched at once. Without, it is prefetched at most [`AHEAD`] keys earlier, and
    /// the loop does not branch on whether a search continues, which processors cannot predict. Lookups then take as
    /// little as half the time. Insertions branch in any case.
    #[inline(always)]
    fn each<K: Key, L, const BRANCHES: bool>(
        self,
        lines: &[L],
        keys: &[K],
        mut at_home: impl FnMut(usize, u64, &L) -> bool,
        mut behind: impl FnMut(usize, u64, usize),
    ) {
        let (mut homes, mut going_on, mut count) = ([0_u32; BLOCK], [0_u16; CHUNK], 0);
        for (home, &key) in homes.iter_mut().zip(keys) {
            *home = self.of(key.into()) as u32;
            prefetch(lines, *home as usize);
        }
        for (i, &key) in keys.iter().enumerate() {
            let home = &mut homes[i % BLOCK];
            let here = *home as usize;
            if let Some(&next) = keys.get(i + BLOCK) {
                *home = self.of(next.into()) as u32;
                prefetch(lines, *home as usize);
            }
            let Some(line) = lines.get(here) else { continue };
            going_on[count % CHUNK] = i as u16;
            let goes_on = at_home(i, key.into(), line);
            if !BRANCHES {
                count += usize::from(goes_on);
            } else if goes_on {
                prefetch(lines, here + 1);
                count += 1;
            }
        }
        let going_on = going_on.get(..count).unwrap_or_default();
        let key_of = |i: u16| keys[usize::from(i)].into();
        if !BRANCHES {
            going_on.iter().take(AHEAD).for_each(|&i| prefetch(lines, self.of(key_of(i)) + 1));
        }
        for (at, &i) in going_on.iter().enumerate() {
            if !BRANCHES && let Some(&later) = going_on.get(at + AHEAD) {
                prefetch(lines, self.of(key_of(later)) + 1);
            }
            behind(usize::from(i), key_of(i), self.of(key_of(i)) + 1);
        }
    }
}

impl<K: Key> Hashed<K> {
    /// The table of a column with about `expected` distinct keys, and their number. `None` if it became too full.
    pub(super) fn of(keys: &[K], expected: usize, attempt: usize) -> Result<Option<(Self, usize)>> {
        let expected = match attempt {
            0 => expected,
            1 => keys.len().min(2 * expected),
            _ => keys.len(),
        };
        let count =
            ((expected as u64 * 100 / FILLED as u64 / slots::<K>() as u64) + 8).min(u64::from(u32::MAX) - REACH as u64);
        let few = attempt == 0 && expected <= FEW;
        let count = if few { (LINES_A_KEY * expected + 8) as u64 } else { count };
        let homes = Homes { count, seed: mixed(attempt as u64 + 1, 0x6669_7273_7473) };
        let mut lines = Memory::zeroed((count as usize).saturating_add(REACH).saturating_mul(LINE))?;
        let (zero, full) = (AtomicU32::new(0), AtomicBool::new(false));
        let size = grain(keys.len());
        let alone = keys.len() <= size || threads() == 1;
        let filling = Filling { lines: atomic(lines.words_mut()?).as_chunks().0, homes, zero: &zero, alone };
        let of_chunk = |_, rows: Range<usize>| {
            let mut taken = 0;
            for start in rows.clone().step_by(CHUNK) {
                if full.load(Relaxed) {
                    break;
                }
                let keys = &keys[start..rows.end.min(start + CHUNK)];
                let new = at_best(
                    #[inline(always)]
                    || filling.fill(keys, start as u32),
                );
                match new {
                    Some(new) => taken += new,
                    None => full.store(true, Relaxed),
                }
            }
            taken
        };
        let taken = fold(0..keys.len(), size, of_chunk, |a, b| a + b);
        let zero = zero.into_inner();
        let hashed = Hashed { lines, homes, zero, few, of: PhantomData };
        Ok((!full.into_inner()).then_some((hashed, taken + usize::from(zero != 0))))
    }

    #[inline(always)]
    pub(super) fn look(&self, queries: &[K], to: &mut [u32]) {
        let lines: &[[u64; LINE]] = self.lines.words().as_chunks().0;
        if self.few {
            return to.iter_mut().zip(queries).for_each(|(to, &key)| *to = !self.look_at_front(lines, key.into()));
        }
        for (queries, to) in queries.chunks(CHUNK).zip(to.chunks_mut(CHUNK)) {
            // Both closures write, one after the other.
            let to = std::cell::Cell::from_mut(to).as_slice_of_cells();
            self.homes.each::<_, _, false>(
                lines,
                queries,
                #[inline(always)]
                |i, key, line| {
                    let (mut found, goes_on) = probe_line::<K>(key, line);
                    if K::BITS == u64::BITS && key == 0 {
                        found = self.zero;
                    }
                    if let Some(to) = to.get(i) {
                        to.set(!found);
                    }
                    goes_on & (found == 0)
                },
                #[inline(always)]
                |i, key, first| {
                    for line in lines.get(first..first + REACH - 1).unwrap_or(&[]) {
                        let (found, goes_on) = probe_line::<K>(key, line);
                        if found != 0
                            && let Some(to) = to.get(i)
                        {
                            to.set(!found);
                        }
                        if found != 0 || !goes_on {
                            break;
                        }
                    }
                },
            );
        }
    }

    /// Looks up a key in a table of few keys.
    #[inline(always)]
    fn look_at_front(&self, lines: &[[u64; LINE]], key: u64) -> u32 {
        if K::BITS == u64::BITS && key == 0 {
            return self.zero;
        }
        let home = self.homes.of(key);
        if let Some(line) = lines.get(home) {
            let there = if K::BITS == u64::BITS { line[0] } else { line[0] >> 32 };
            if there == key && line[0] != 0 {
                return line[words::<K>() - 1] as u32;
            }
        }
        for line in lines.get(home..home + REACH).unwrap_or(&[]) {
            let (found, goes_on) = probe_line::<K>(key, line);
            if found != 0 || !goes_on {
                return found;
            }
        }
        0
    }

    pub(super) fn each(&self, then: impl Fn(u32) + Sync) {
        each(self.lines.words(), CHUNK, |_, lines| {
            let numbers = lines.chunks_exact(words::<K>()).map(|slot| slot[words::<K>() - 1] as u32);
            numbers.filter(|&number| number != 0).for_each(|number| then(!number));
        });
        if self.zero != 0 {
            then(!self.zero);
        }
    }

    pub(super) fn renumber(&mut self, number: impl Fn(u32) -> u32 + Sync) -> Result<()> {
        each(self.lines.words_mut()?, CHUNK, |_, lines| {
            at_best(
                #[inline(always)]
                || {
                    for slot in lines.chunks_exact_mut(words::<K>()) {
                        let word = &mut slot[words::<K>() - 1];
                        if *word as u32 != 0 {
                            *word = *word >> 32 << 32 | u64::from(!number(!(*word as u32)));
                        }
                    }
                },
            );
        });
        if self.zero != 0 {
            self.zero = !number(!self.zero);
        }
        Ok(())
    }
}

/// Compares a key with a line: returns its number or 0, and whether the line is full. Does not branch on the result.
#[inline(always)]
fn probe_line<K: Key>(key: u64, line: &[u64; LINE]) -> (u32, bool) {
    let mut found = 0;
    if K::BITS == u64::BITS {
        for slot in line.as_chunks::<2>().0 {
            found |= u64::from(slot[0] == key).wrapping_neg() & slot[1];
        }
        return (found as u32, line[LINE - 2] != 0);
    }
    for &word in line {
        found |= u64::from(word >> 32 == key).wrapping_neg() & word;
    }
    (found as u32, line[LINE - 1] != 0)
}
