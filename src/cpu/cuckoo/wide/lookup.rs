//! Where keys stand: a block of keys after the other, and the slots of a whole block are on their way before the first is
//! looked at.
//!
//! ```text
//! for each block of 128 keys:   function 1, 2, .., H:   hash the open keys, and ask for their slots
//!                                                       each slot: found, absent, or open for the next function
//! ```

use crate::backend::Word;
use crate::cpu::BLOCK;
use crate::cpu::lines::Finds;
use crate::cpu::memory::prefetch;
use crate::scheme::bucketized::wide::{Layout, Line};
use crate::scheme::cuckoo::wide::SlotFunctions;
use crate::scheme::cuckoo::wide::canonical::{Says, verdict};

impl<L: Layout> Finds<L> for SlotFunctions<L::Key> {
    #[inline(always)]
    fn each_found(&self, lines: &[Line], keys: &[L::Key], mut then: impl FnMut(usize, usize, usize)) {
        let ages = self.ages();
        let (mut slots, mut remainders) = ([0u32; BLOCK], [L::Key::low(0); BLOCK]);
        let mut open = [0u8; BLOCK];
        const { assert!(BLOCK <= 1 << u8::BITS) }
        for (start, block) in (0..).step_by(BLOCK).zip(keys.chunks(BLOCK)) {
            open.iter_mut().zip(0..block.len() as u8).for_each(|(open, i)| *open = i);
            let mut left = block.len();
            for (turn, &ages) in ages.iter().enumerate().take(self.count as usize) {
                for n in 0..left {
                    (slots[n], remainders[n]) = self.probe(turn, block[usize::from(open[n])]);
                    prefetch(lines, slots[n] as usize / L::SLOTS);
                }
                let mut still = 0;
                for n in 0..left {
                    let (line, i) = (slots[n] as usize / L::SLOTS, slots[n] as usize % L::SLOTS);
                    let Some(there) = lines.get(line) else { continue };
                    match verdict(turn, ages, remainders[n], L::word(there, i)) {
                        Says::Found => then(start + usize::from(open[n]), line, i),
                        Says::Absent => {}
                        Says::GoOn => {
                            open[still] = open[n];
                            still += 1;
                        }
                    }
                }
                left = still;
            }
        }
    }

    #[inline(always)]
    fn key_of(&self, line: usize, slot: usize, word: u64) -> L::Key {
        SlotFunctions::key_of(self, (line * L::SLOTS + slot) as u32, word)
    }
}
