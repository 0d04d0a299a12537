//! Lookups: a chunk of keys probes the first lines, then its unresolved keys probe the second, and the third.
//!
//! ```text
//! for each turn:   unresolved = the chunk's keys (turn 1), or the numbers that the previous turn left
//!   for each block of 128 of them:   hash all
//!                                    resolve the previous block, whose lines were prefetched one block earlier; with each
//!                                    key prefetch the line of one key of this block
//! resolve:   compare all words of the line at once; report the first that matches, or any
//!            write the number to the end of the list of unresolved keys, which grows if the search continues
//! ```
//!
//! As in `../lookup.rs`, nothing branches on the result of a probe, and lines are prefetched one by one, so that they
//! do not queue up. Keys are hashed again for their second and third line, which costs less than storing 12 bytes per
//! key.

use std::mem::swap;

use wide::u32x8;

use crate::backend::Word;
use crate::cpu::lanes::Lanes;
use crate::cpu::lines::{Finds, Hit};
use crate::cpu::memory::prefetch;
use crate::cpu::{BLOCK, CHUNK};
use crate::scheme::bucketized::wide::slot::{self, SlotKey};
use crate::scheme::bucketized::wide::{Layout, Line, LineFunctions};
use crate::scheme::slot::MAX_AGE;

/// The number of functions of a table.
const TURNS: usize = 3;

/// The ages that belong to a function, one bit per age.
fn ages(turn: usize) -> u32 {
    (1..=MAX_AGE).filter(|age| (*age as usize - 1) % TURNS == turn).fold(0, |ages, age| ages | 1 << age)
}

impl<L: Layout> Finds<L> for LineFunctions<L::Key> {
    #[inline(always)]
    fn each_hit(&self, lanes: impl Lanes, lines: &[Line], keys: &[L::Key], mut then: impl FnMut(Hit)) {
        let mut unresolved = [0; CHUNK];
        for (start, keys) in (0..).step_by(CHUNK).zip(keys.chunks(CHUNK)) {
            let left = turn::<L, 0>(lanes, self, lines, (start, keys), &mut unresolved, keys.len(), &mut then);
            let left = turn::<L, 1>(lanes, self, lines, (start, keys), &mut unresolved, left, &mut then);
            turn::<L, 2>(lanes, self, lines, (start, keys), &mut unresolved, left, &mut then);
        }
    }
    #[inline(always)]
    fn key_of(&self, line: usize, _: usize, word: u64) -> L::Key {
        LineFunctions::key_of(self, line as u32, word)
    }
}

/// The places of the keys of a block.
struct Aimed<K> {
    lines: [u32; BLOCK],
    remainders: [K; BLOCK],
}

impl<K: SlotKey> Aimed<K> {
    fn new() -> Self {
        Aimed { lines: [0; BLOCK], remainders: [K::low(0); BLOCK] }
    }

    /// Computes the lines of these keys for a turn. One step per loop, so that compilers vectorize it.
    #[inline(always)]
    fn aim(&mut self, functions: &LineFunctions<K>, turn: usize, keys: impl Iterator<Item = K>) {
        for ((line, remainder), key) in self.lines.iter_mut().zip(&mut self.remainders).zip(keys) {
            (*line, *remainder) = functions.home(key);
        }
        if turn > 0 {
            let eights = self.lines.as_chunks_mut::<8>().0.iter_mut().zip(self.remainders.as_chunks::<8>().0);
            for (lines, remainders) in eights {
                let folded = u32x8::new(remainders.map(K::folded));
                *lines = functions.steps.bucket(turn, u32x8::new(*lines), folded).to_array();
            }
        }
    }
}

/// The distance from one slot's word to the next one's, in the sixteen 32-bit lanes of a line.
const fn stride<L: Layout>() -> u32 {
    L::WORD_STRIDE as u32 * L::Key::BITS / u32::BITS
}

/// The lanes in which the words of slots begin, one bit each.
fn beginnings<L: Layout>() -> u32 {
    (0..L::SLOTS as u32).fold(0, |bits, i| bits | 1 << (i * stride::<L>()))
}

/// The slots whose words have this remainder, one bit each, in the lane where the word begins.
#[inline(always)]
fn same_remainder<L: Layout>(lanes: impl Lanes, line: &Line, remainder: L::Key) -> u32 {
    let everywhere = |word: u64| if L::Key::BITS == u64::BITS { word } else { word << 32 | word };
    let care = u64::MAX >> (u64::BITS - slot::age_shift::<L::Key>());
    let same = lanes.same(line, everywhere(remainder.into()), everywhere(care));
    let same = if L::Key::BITS == u64::BITS { same & same >> 1 } else { same };
    same & beginnings::<L>()
}

/// Compares a key with a line. Returns the slot of the first word that may be the key's, or the last slot; whether the
/// key is in that slot; and whether the search continues.
#[inline(always)]
fn compare<L: Layout>(
    lanes: impl Lanes,
    line: &Line,
    turn: usize,
    ages: u32,
    remainder: L::Key,
) -> (usize, bool, bool) {
    let of_turn = |i| ages >> slot::age::<L::Key>(L::word(line, i)) & 1 == 1;
    let same = same_remainder::<L>(lanes, line, remainder);
    let mut at = ((same.trailing_zeros() / stride::<L>()) as usize).min(L::SLOTS - 1);
    // The first match may be another key with the same remainder, stored by another function.
    if same & same.wrapping_sub(1) != 0 {
        at = (at..L::SLOTS).find(|&i| same >> (i as u32 * stride::<L>()) & 1 == 1 && of_turn(i)).unwrap_or(at);
    }
    let found = (same != 0) & of_turn(at);
    // Words are sorted, except for tombstones, which are above all.
    let open = !found & (L::word(line, L::SLOTS - 1) >= slot::word(turn as u32 + 1, remainder));
    (at, found, open)
}

/// Probes `len` keys in one turn: all in the first turn, and later those on the list. Returns the new length of the
/// list. `first` is the number of the first key.
#[inline(always)]
fn turn<L: Layout, const TURN: usize>(
    lanes: impl Lanes,
    functions: &LineFunctions<L::Key>,
    lines: &[Line],
    (first, keys): (usize, &[L::Key]),
    unresolved: &mut [u16; CHUNK],
    len: usize,
    then: &mut impl FnMut(Hit),
) -> usize {
    const { assert!(CHUNK <= 1 << u16::BITS && TURN < TURNS) }
    let ages = ages(TURN);
    let (mut flying, mut next) = (&mut Aimed::<L::Key>::new(), &mut Aimed::new());
    let mut queried = [L::Key::low(0); BLOCK];
    let mut left = 0;
    // One extra iteration resolves the last block.
    for start in (0..len + BLOCK).step_by(BLOCK) {
        let coming = len.saturating_sub(start).min(BLOCK);
        let (before, here) = start.checked_sub(BLOCK).map_or((0, 0), |before| (before, (len - before).min(BLOCK)));
        if TURN == 0 {
            next.aim(functions, TURN, keys[start.min(len)..][..coming].iter().copied());
        } else {
            let numbers = unresolved[start % CHUNK..].iter().take(coming);
            queried.iter_mut().zip(numbers).for_each(|(key, &number)| *key = keys[usize::from(number)]);
            next.aim(functions, TURN, queried[..coming].iter().copied());
        }
        if here == 0 {
            next.lines[..coming].iter().for_each(|&line| prefetch(lines, line as usize));
        }
        for i in 0..here {
            prefetch(lines, next.lines[i] as usize);
            let at = flying.lines[i] as usize;
            let (slot, found, open) = compare::<L>(lanes, &lines[at], TURN, ages, flying.remainders[i]);
            let number = if TURN == 0 { before + i } else { unresolved[(before + i) % CHUNK].into() };
            then(Hit { number: first + number, line: at, slot, found });
            unresolved[left % CHUNK] = number as u16;
            left += usize::from(open);
        }
        swap(&mut flying, &mut next);
    }
    left
}
