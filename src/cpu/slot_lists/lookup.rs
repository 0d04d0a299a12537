//! Finds keys, one block after the other. The slots of a whole block are prefetched before the first one is read.
//!
//! ```text
//! for each block of 128 keys:   place 1, 2, .. of its list:   prefetch the open keys' slots
//!                                                             each slot: found, absent, or open for the next place
//! ```

use crate::backend::Word;
use crate::cpu::BLOCK;
use crate::cpu::lanes::Lanes;
use crate::cpu::lines::{Finds, Hit};
use crate::cpu::memory::prefetch;
use crate::scheme::bucketized::wide::slot::Fields;
use crate::scheme::bucketized::wide::{Layout, Line};
use crate::scheme::slot_lists::{Says, SlotLists, verdict};

impl<L: Layout, F: SlotLists<Key = L::Key>> Finds<L> for F {
    const FIELDS: Fields = <F as SlotLists>::FIELDS;

    #[inline(always)]
    fn each_hit(&self, _: impl Lanes, lines: &[Line], keys: &[L::Key], mut then: impl FnMut(Hit)) {
        let mut goals = [F::Goal::default(); BLOCK];
        let (mut slots, mut remainders) = ([0u32; BLOCK], [L::Key::low(0); BLOCK]);
        let mut open = [0u8; BLOCK];
        const { assert!(BLOCK <= 1 << u8::BITS) }
        for (start, block) in (0..).step_by(BLOCK).zip(keys.chunks(BLOCK)) {
            goals.iter_mut().zip(block).for_each(|(goal, &key)| *goal = self.goal(key));
            open.iter_mut().zip(0..block.len() as u8).for_each(|(open, i)| *open = i);
            let mut left = block.len();
            for turn in 0..self.turns() {
                if left == 0 {
                    break;
                }
                let ages = self.ages(turn);
                for n in 0..left {
                    (slots[n], remainders[n]) = self.probe(goals[usize::from(open[n])], turn + 1);
                    prefetch(lines, slots[n] as usize / L::SLOTS);
                }
                let mut still = 0;
                for n in 0..left {
                    let (line, i) = (slots[n] as usize / L::SLOTS, slots[n] as usize % L::SLOTS);
                    let Some(there) = lines.get(line) else { continue };
                    let says = verdict::<F>(turn, ages, remainders[n], L::word(there, i));
                    let number = start + usize::from(open[n]);
                    then(Hit { number, line, slot: i, found: says == Says::Found });
                    open[still] = open[n];
                    still += usize::from(says == Says::GoOn);
                }
                left = still;
            }
        }
    }

    #[inline(always)]
    fn key_of(&self, line: usize, slot: usize, word: u64) -> L::Key {
        self.key_in((line * L::SLOTS + slot) as u32, word)
    }
}
