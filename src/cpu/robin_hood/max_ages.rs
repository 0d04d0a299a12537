//! The second pass of a build on all threads: computes the maximum ages from the ages in the cells.
//!
//! ```text
//! raise   each cell with a pair:  raise the code of its home in the array, by exchanging the word that contains it
//! pack    each cell that is not empty:  replace the age by the code of its place        (classic tables)
//! ```
//!
//! Codes ascend with the ages, so the code of the greatest age is the greatest code, in any order of events. Few codes
//! change more than once: most keys are at home, and so are the keys next to them.

use std::array;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::lists::Cells;
use crate::cpu::CHUNK;
use crate::parallel::each;
use crate::scheme::robin_hood::Functions;
use crate::scheme::robin_hood::cell::EMPTY;
use crate::scheme::robin_hood::max_ages::Levels;

/// Cells of a word.
const fn per_word<C: Cells>() -> u32 {
    64 / C::LAYOUT.cell_bits()
}

/// The cells of a word, with their shifts.
#[inline(always)]
fn cells<C: Cells>(word: u64) -> impl Iterator<Item = (u32, u64)> {
    (0..per_word::<C>()).map(move |i| {
        let shift = i * C::LAYOUT.cell_bits();
        (shift, word >> shift & u64::MAX >> (64 - C::LAYOUT.cell_bits()))
    })
}

/// Raises the codes in `array` to at least the codes that the pairs in the words of an image need.
pub(super) fn raise<C: Cells>(functions: &Functions, levels: &Levels, words: &[u64], array: &[AtomicU64]) {
    let codes: [u32; 64] = array::from_fn(|age| levels.code(age as u32));
    each(words, CHUNK, |chunk, words| {
        let mut place = (chunk * CHUNK) as u32 * per_word::<C>();
        for &word in words {
            for (_, cell) in cells::<C>(word) {
                // A valid image has no codes after the last cell.
                if C::LAYOUT.is_pair(cell) && place < functions.slots {
                    let age = C::LAYOUT.age(cell);
                    raise_code(levels, array, functions.home(place, age), codes[age as usize % codes.len()]);
                }
                place += 1;
            }
        }
    });
}

/// Raises the code of one place.
#[inline(always)]
fn raise_code(levels: &Levels, array: &[AtomicU64], place: u32, code: u32) {
    let (word, shift) = levels.position(place);
    let word = &array[word as usize];
    let mut there = word.load(Relaxed);
    loop {
        let old = levels.code_in(there, shift);
        if old >= code {
            return;
        }
        match word.compare_exchange_weak(there, there + (u64::from(code - old) << shift), Relaxed, Relaxed) {
            Ok(_) => return,
            Err(now) => there = now,
        }
    }
}

/// Replaces the ages in the words of an image by the codes of their places.
pub(super) fn pack<C: Cells>(levels: &Levels, words: &mut [u64], array: &[u64]) {
    each(words, CHUNK, |chunk, words| {
        let mut place = (chunk * CHUNK) as u32 * per_word::<C>();
        for word in words {
            let mut packed = 0;
            for (shift, cell) in cells::<C>(*word) {
                if cell != EMPTY {
                    let (at, of_code) = levels.position(place);
                    let code = array.get(at as usize).map_or(0, |&codes| levels.code_in(codes, of_code)).max(1);
                    packed |= C::LAYOUT.with_age(cell, code) << shift;
                }
                place += 1;
            }
            *word = packed;
        }
    });
}
