//! The canonical rule of `scheme/fks/canonical.rs` for one bucket, with numbers of pairs instead of words in the slots.
//!
//! The slots and remainders of all keys are computed first, so a displaced pair is identified by its number, and its
//! key need not be recovered. Among duplicates, the greatest value keeps the slot; values matter nowhere else.

use super::bucket::{Bucket, PAIRS, SLOTS, Seated, TABLES};
use crate::scheme::fks::turn;
use crate::scheme::slot::{AGE_BITS, MAX_AGE, upper};

/// The sub-table of each age, from a table, so that no division is needed.
const TURNS: [u8; 1 << AGE_BITS] = {
    let mut turns = [0; 1 << AGE_BITS];
    let mut age = 1;
    while age < turns.len() {
        turns[age] = ((age - 1) % TABLES) as u8;
        age += 1;
    }
    turns
};

/// Places the pairs of a bucket, whose slots have been computed. Stops at the first unplaced pair, unless all are to be
/// counted.
pub(super) fn seat(bucket: &mut Bucket, count_all: bool) -> Seated {
    debug_assert!((1..=MAX_AGE).all(|age| u32::from(TURNS[age as usize]) == turn(age)));
    let Bucket { len, keys, values, slots, remainders, uppers, pairs } = bucket;
    let mut seated = Seated::default();
    uppers.fill(0);
    for first in 0..*len {
        let (mut pair, mut age) = (first, 1);
        loop {
            let table = usize::from(TURNS[age as usize]);
            let at = usize::from(slots[table][pair]) % SLOTS;
            let mine = upper(age, remainders[table][pair]);
            let there = uppers[at];
            let who = usize::from(pairs[at]) % PAIRS;
            if mine == there {
                seated.drop_duplicate(keys[pair]);
                if values[pair] > values[who] {
                    pairs[at] = pair as u16;
                }
                break;
            }
            if mine > there {
                (uppers[at], pairs[at]) = (mine, pair as u16);
                if there == 0 {
                    break;
                }
                (pair, age) = (who, there >> (u32::BITS - AGE_BITS));
            }
            age += 1;
            if age > MAX_AGE {
                seated.unplaced += 1;
                if !count_all {
                    return seated;
                }
                break;
            }
        }
    }
    seated
}
