//! Places pairs that have left their parts in the whole image, with one thread, because they are few.
//!
//! ```text
//! loop  a block of those who are open; ask for their lines
//!       offer each in turn; who loses is open again
//! ```
//!
//! The lines of the image are in order and stay so, and values move with their words: nothing has to be done
//! afterwards. The lines of a block are on their way before the first is looked at, so a step costs a share of a miss.
//!
//! In contrast to `place.rs`, threads do not share the image here.

use super::line::{Offered, offer};
use super::place::count_copy;
use crate::backend::{Placed, Word};
use crate::cpu::BLOCK;
use crate::cpu::memory::prefetch;
use crate::scheme::bucketized::wide::{Layout, LineFunctions, lines_mut, slot};
use crate::scheme::slot::{EMPTY, MAX_AGE};

/// A pair on its way in the whole image.
#[derive(Clone, Copy)]
pub(super) struct Open<L: Layout> {
    pub(super) home: u32,
    pub(super) age: u32,
    pub(super) remainder: L::Key,
    pub(super) value: L::Value,
}

/// Brings them to an end; what became of them and of those before.
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
                // It cannot be, and if it were, no pair would be lost unseen.
                None => Offered::Out((word, mine.value)),
            };
            match out {
                Offered::Copy => count_copy(&mut placed, functions.key_of(at, word)),
                Offered::Out((EMPTY, _)) => {}
                Offered::Out(pair) if slot::age::<L::Key>(pair.0) >= MAX_AGE => placed.unplaced += 1,
                Offered::Out(pair) => open.push(next(functions, at, pair)),
            }
        }
    }
    placed
}

/// The next offer of a pair that has lost in a line.
#[inline(always)]
pub(super) fn next<L: Layout>(functions: &LineFunctions<L::Key>, line: u32, (word, value): (u64, L::Value)) -> Open<L> {
    let (age, remainder) = (slot::age::<L::Key>(word), slot::remainder(word));
    let home = functions.home_of(functions.turn(age), line, remainder);
    Open { home, age: age + 1, remainder, value }
}
