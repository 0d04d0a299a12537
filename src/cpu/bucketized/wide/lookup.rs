//! Lookups: a block of keys after the other; the lines of a whole block are on their way before the first is looked at.
//!
//! ```text
//! for each block of 128 keys:   hash all, ask for their first lines
//!   turn 1, 2, 3:               each key's line: found, absent, or open; ask for the next lines of the open ones
//! ```

use crate::cpu::BLOCK;
use crate::cpu::lines::Finds;
use crate::cpu::memory::prefetch;
use crate::scheme::bucketized::wide::{Layout, Line, LineFunctions, slot};
use crate::scheme::slot::MAX_AGE;

/// The functions that a table has.
const TURNS: usize = 3;

/// What a line says to a key.
enum Said {
    Found(usize),
    Absent,
    Open,
}

/// The ages that stand for a function, one bit an age.
fn ages(turn: usize) -> u32 {
    (1..=MAX_AGE).filter(|age| (*age as usize - 1) % TURNS == turn).fold(0, |ages, age| ages | 1 << age)
}

#[inline(always)]
fn ask<L: Layout>(line: &Line, turn: usize, ages: u32, remainder: L::Key) -> Said {
    let mut slots = 0u32;
    for i in 0..L::SLOTS {
        let word = L::word(line, i);
        let same = slot::remainder::<L::Key>(word) == remainder;
        slots |= u32::from(same & (ages >> slot::age::<L::Key>(word) & 1 == 1)) << i;
    }
    if slots != 0 {
        return Said::Found(slots.trailing_zeros() as usize);
    }
    // Words stand in order, but for tombstones, which are above all.
    let last = L::word(line, L::SLOTS - 1);
    if last < slot::word(turn as u32 + 1, remainder) { Said::Absent } else { Said::Open }
}

impl<L: Layout> Finds<L> for LineFunctions<L::Key> {
    #[inline(always)]
    fn each_found(&self, lines: &[Line], keys: &[L::Key], then: impl FnMut(usize, usize, usize)) {
        each_found::<L>(self, lines, keys, then);
    }
    #[inline(always)]
    fn key_of(&self, line: usize, _: usize, word: u64) -> L::Key {
        LineFunctions::key_of(self, line as u32, word)
    }
}

/// Number of the key, line and slot of each key that is found.
#[inline(always)]
fn each_found<L: Layout>(
    functions: &LineFunctions<L::Key>,
    lines: &[Line],
    keys: &[L::Key],
    mut then: impl FnMut(usize, usize, usize),
) {
    let ages = [0, 1, 2].map(ages);
    let (mut homes, mut remainders) = ([0u32; BLOCK], [crate::backend::Word::low(0); BLOCK]);
    let (mut at, mut open) = ([0u32; BLOCK], [0u16; BLOCK]);
    for (start, block) in (0..).step_by(BLOCK).zip(keys.chunks(BLOCK)) {
        for (i, &key) in block.iter().enumerate() {
            (homes[i], remainders[i]) = functions.home(key);
            prefetch(lines, homes[i] as usize);
            (at[i], open[i]) = (homes[i], i as u16);
        }
        let mut left = block.len();
        for (turn, &ages) in ages.iter().enumerate() {
            let mut still = 0;
            for n in 0..left {
                let i = open[n] as usize % BLOCK;
                let Some(line) = lines.get(at[i] as usize) else { continue };
                match ask::<L>(line, turn, ages, remainders[i]) {
                    Said::Found(slot) => then(start + i, at[i] as usize, slot),
                    Said::Absent => {}
                    Said::Open if turn + 1 < TURNS => {
                        at[i] = functions.bucket(turn + 1, homes[i], remainders[i]);
                        prefetch(lines, at[i] as usize);
                        open[still] = i as u16;
                        still += 1;
                    }
                    Said::Open => {}
                }
            }
            left = still;
        }
    }
}
