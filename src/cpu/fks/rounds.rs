//! The poster's rounds for one bucket (`scheme/fks/classic.rs`), visiting only the pairs without a slot.
//!
//! ```text
//! out = all pairs;   for sub-table 0, 1, 2, 0, ..:
//!     each of out takes its slot; the pair that was there is displaced        (the last of several stays)
//!     of the displaced: if its own key is in the slot, it is a duplicate, and is dropped; the others are out
//! ```
//!
//! A pair can only lose its slot if the slot was written in this step, so all other pairs need no check. Duplicates of
//! a key are placed and displaced together until they meet in a slot, where all but one are dropped; so their number is
//! exact.

use super::bucket::{Bucket, PAIRS, SLOTS, Seated, TABLES};

/// Places the pairs of a bucket, whose slots have been computed. Afterwards `uppers` is 1 for occupied slots.
pub(super) fn seat(bucket: &mut Bucket, iterations: u32) -> Seated {
    let Bucket { len, keys, values, slots, uppers, pairs, .. } = bucket;
    let mut seated = Seated::default();
    uppers.fill(0);
    let (mut out, mut displaced) = ([0u16; PAIRS], [0u16; PAIRS]);
    let mut left = *len;
    out.iter_mut().zip(0..).for_each(|(out, pair)| *out = pair);
    for _ in 0..iterations {
        for slots in slots.iter().take(TABLES) {
            let slot_of = |pair: u16| usize::from(slots[usize::from(pair) % PAIRS]) % SLOTS;
            let mut displacements = 0;
            for &pair in &out[..left] {
                let at = slot_of(pair);
                displaced[displacements % PAIRS] = std::mem::replace(&mut pairs[at], pair);
                displacements += std::mem::replace(&mut uppers[at], 1) as usize;
            }
            left = 0;
            for &pair in &displaced[..displacements.min(PAIRS)] {
                let at = slot_of(pair);
                let (mine, there) = (usize::from(pair) % PAIRS, usize::from(pairs[at]) % PAIRS);
                if keys[mine] == keys[there] {
                    seated.drop_duplicate(keys[mine]);
                    if values[mine] > values[there] {
                        pairs[at] = pair;
                    }
                } else {
                    out[left] = pair;
                    left += 1;
                }
            }
        }
        if left == 0 {
            return seated;
        }
    }
    Seated { unplaced: left as u64, ..seated }
}
