//! Places pairs that have left their parts in the whole image, with one thread, because they are few.
//!
//! ```text
//! loop  a block of open pairs; prefetch their lines
//!       offer each in turn; displaced pairs are open again
//! ```
//!
//! The lines of the image are sorted and stay so, and values move with their words, so no further pass is necessary.
//! The lines of a block are in flight before the first is read, so a step costs a fraction of a cache miss.
//!
//! In contrast to `place.rs`, threads do not share the image here.

use super::line::{Offered, offer};
use super::place::count_duplicate;
use crate::backend::{Placed, Word};
use crate::cpu::BLOCK;
use crate::cpu::memory::prefetch;
use crate::scheme::bucketized::wide::{Layout, LineFunctions, lines_mut, slot};
use crate::scheme::slot::{EMPTY, MAX_AGE};

/// A pair that is being placed in the whole image.
#[derive(Clone, Copy)]
pub(super) struct Open<L: Layout> {
    pub(super) home: u32,
    pub(super) age: u32,
    pub(super) remainder: L::Key,
    pub(super) value: L::Value,
}

/// Places these pairs, and returns `placed` with their counts added.
pub(super) fn finish<L: Layout>(
    functions: &LineFunctions<L::Key>,
    image: &mut [u64],
    mut open: Vec<Open<L>>,
    mut placed: Placed<L::Key, L::Value>,
) -> Placed<L::Key, L::Value> {
    let image = lines_mut(image);
    let mut block = [Open::<L> { home: 0, age: 0, remainder: Word::low(0), value: Word::low(0) }; BLOCK];
    let mut at = [0; BLOCK];
    while !open.is_empty() {
        let len = open.len().min(BLOCK);
        block[..len].copy_from_slice(&open[open.len() - len..]);
        open.truncate(open.len() - len);
        for (at, open) in at.iter_mut().zip(&block[..len]) {
            *at = functions.bucket(functions.turn(open.age), open.home, open.remainder);
            prefetch(image, *at as usize);
        }
        for (&at, mine) in at.iter().zip(&block[..len]) {
            let word = slot::word(mine.age, mine.remainder);
            let out = match image.get_mut(at as usize) {
                Some(line) => offer::<L>(line, (word, mine.value)),
                // This cannot happen; if it did, the lost pair would be reported.
                None => Offered::Out((word, mine.value)),
            };
            match out {
                Offered::Duplicate => count_duplicate(&mut placed, functions.key_of(at, word)),
                Offered::Out((EMPTY, _)) => {}
                Offered::Out(pair) if slot::age::<L::Key>(pair.0) >= MAX_AGE => placed.unplaced += 1,
                Offered::Out(pair) => open.push(next(functions, at, pair)),
            }
        }
    }
    placed
}

/// The next offer of a pair that was displaced from a line.
#[inline(always)]
pub(super) fn next<L: Layout>(functions: &LineFunctions<L::Key>, line: u32, (word, value): (u64, L::Value)) -> Open<L> {
    let (age, remainder) = (slot::age::<L::Key>(word), slot::remainder(word));
    let home = functions.home_of(functions.turn(age), line, remainder);
    Open { home, age: age + 1, remainder, value }
}
