//! The rule of `cuckoo/canonical.rs` for words without values, with values that follow.
//!
//! ```text
//! place(key, value):   age = 1
//!   loop:  slot, rem = function (age - 1) mod H of key;  mine = [age][rem];  there = word of slot
//!          there == mine:  it is my key: the greater value stays, the other is dropped                            (a copy)
//!          there < mine:   mine and my value take its place; done if that was empty; else go on as the pair that was there
//!          age += 1;  past MAX_AGE: unplaced, the attempt has failed
//! ```
//!
//! **Equal words are copies.** In one slot an age names one function, and under one function slot and remainder name one
//! key (`bucketized/wide/slot.rs`). So two keys never tie, words alone decide who stands where, and the proof of
//! `cuckoo/canonical.rs` holds word for word: the image's words are a function of the set of keys. A value goes where its
//! key goes; of copies the greatest stays.

use std::ops::Range;

use super::functions::SlotFunctions;
use crate::scheme::bucketized::wide::slot::{self, SlotKey};
use crate::scheme::bucketized::wide::{Layout, lines, lines_mut, pair, put};
use crate::scheme::slot::{EMPTY, MAX_AGE};
use crate::scheme::{Audit, Placing, Violation};

/// The word and the value in a slot; empty past the end of an image.
pub fn cell<L: Layout>(image: &[u64], slot: usize) -> (u64, L::Value) {
    let line = lines(image).get(slot / L::SLOTS);
    line.map_or((EMPTY, L::Value::default()), |line| pair::<L>(line, slot % L::SLOTS))
}

/// Writes word and value of a slot; nothing past the end of an image.
fn put_cell<L: Layout>(image: &mut [u64], slot: u32, to: (u64, L::Value)) {
    if let Some(line) = lines_mut(image).get_mut(slot as usize / L::SLOTS) {
        put::<L>(line, slot as usize % L::SLOTS, to);
    }
}

/// What the word in a slot says to a key that asks there by function `i`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Says {
    /// It is the key's.
    Found,
    /// The key is nowhere: it would have displaced what stands there.
    Absent,
    /// The key may be in a later place.
    GoOn,
}

/// What `word` says to a key with this remainder under function `i`, for which these ages stand.
#[inline(always)]
pub fn verdict<K: SlotKey>(i: usize, ages: u32, remainder: K, word: u64) -> Says {
    let is_of_function = ages >> slot::age::<K>(word) & 1 == 1;
    if is_of_function && slot::remainder::<K>(word) == remainder {
        Says::Found
    } else if word < slot::word(i as u32 + 1, remainder) {
        Says::Absent
    } else {
        Says::GoOn
    }
}

/// Slots read, and where the key stands.
pub fn search<L: Layout>(functions: &SlotFunctions<L::Key>, image: &[u64], key: L::Key) -> (u32, Option<u32>) {
    for (i, ages) in functions.ages().into_iter().enumerate().take(functions.count as usize) {
        let (at, remainder) = functions.probe(i, key);
        match verdict(i, ages, remainder, cell::<L>(image, at as usize).0) {
            Says::Found => return (i as u32 + 1, Some(at)),
            Says::Absent => return (i as u32 + 1, None),
            Says::GoOn => {}
        }
    }
    (functions.count, None)
}

/// The pair in a slot.
pub fn pair_in<L: Layout>(functions: &SlotFunctions<L::Key>, image: &[u64], slot: u32) -> Option<(L::Key, L::Value)> {
    let (word, value) = cell::<L>(image, slot as usize);
    slot::is_pair::<L::Key>(word).then(|| (functions.key_of(slot, word), value))
}

/// Adds one pair, following it and all whom it displaces to the end.
pub fn place<L: Layout>(
    functions: &SlotFunctions<L::Key>,
    image: &mut [u64],
    mut key: L::Key,
    mut value: L::Value,
) -> Placing<L::Key> {
    let mut age = 1;
    while age <= MAX_AGE {
        let (at, remainder) = functions.probe(functions.turn(age), key);
        let mine = slot::word(age, remainder);
        let (word, there) = cell::<L>(image, at as usize);
        if word == mine {
            put_cell::<L>(image, at, (mine, value.max(there)));
            return Placing::Copy(key);
        }
        if word < mine {
            put_cell::<L>(image, at, (mine, value));
            if word == EMPTY {
                return Placing::Placed;
            }
            (key, value) = (functions.key_of(at, word), there);
            age = slot::age::<L::Key>(word);
        }
        age += 1;
    }
    Placing::Unplaced
}

/// Puts a tombstone where the key's pair stands. Slots still only grow.
pub fn remove<L: Layout>(functions: &SlotFunctions<L::Key>, image: &mut [u64], key: L::Key) -> bool {
    let Some(at) = search::<L>(functions, image, key).1 else { return false };
    put_cell::<L>(image, at, (slot::tombstone::<L::Key>(), L::Value::default()));
    true
}

/// Every pair on its list at its age, every earlier place held by a stronger word, no key twice, and nothing where there
/// is nothing to say.
pub fn audit<L: Layout>(
    functions: &SlotFunctions<L::Key>,
    image: &[u64],
    slots: Range<u64>,
) -> Result<Audit, Violation> {
    let mut audit = Audit::default();
    let tombstone = slot::tombstone::<L::Key>();
    let last = slots.end == u64::from(functions.slots);
    let end = if last { (lines(image).len() * L::SLOTS) as u64 } else { slots.end };
    for at in slots.start..end {
        let (word, value) = cell::<L>(image, at as usize);
        if at % L::SLOTS as u64 == 0 && L::spare(&lines(image)[at as usize / L::SLOTS]) != 0 {
            return Err(Violation::Bucket { bucket: at / L::SLOTS as u64, reason: "its spare bytes are not 0" });
        }
        if at < slots.end && slot::is_pair::<L::Key>(word) {
            check::<L>(functions, image, at as u32, word)?;
            audit.pairs += 1;
            audit.greatest_age = audit.greatest_age.max(slot::age::<L::Key>(word));
            continue;
        }
        // Behind the last slot a line is empty.
        if word != EMPTY && (word != tombstone || at >= slots.end) {
            return Err(Violation::Word { slot: at, word });
        }
        if value != L::Value::default() {
            return Err(Violation::Word { slot: at, word: value.into() });
        }
        audit.tombstones += u64::from(word == tombstone);
    }
    Ok(audit)
}

/// Checks the pair of a word that stands in a slot.
fn check<L: Layout>(functions: &SlotFunctions<L::Key>, image: &[u64], at: u32, word: u64) -> Result<(), Violation> {
    let (slot, age) = (u64::from(at), slot::age::<L::Key>(word));
    let key = functions.key_of(at, word);
    if functions.probe(functions.turn(age), key) != (at, slot::remainder::<L::Key>(word)) {
        return Err(Violation::Misplaced { slot, key: key.into() });
    }
    for earlier in 1..age {
        let (other, remainder) = functions.probe(functions.turn(earlier), key);
        if cell::<L>(image, other as usize).0 < slot::word(earlier, remainder) {
            return Err(Violation::Blocking { slot, key: key.into(), age, earlier });
        }
    }
    for i in 0..functions.count as usize {
        let (other, _) = functions.probe(i, key);
        if other != at && pair_in::<L>(functions, image, other).is_some_and(|(there, _)| there == key) {
            return Err(Violation::Twice { slot, other: other.into(), key: key.into() });
        }
    }
    Ok(())
}
