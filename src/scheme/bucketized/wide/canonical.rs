//! The canonical rule of lines: that of `bucketized/canonical.rs`, with values that follow their words.
//!
//! ```text
//! place(key, value):   age = 1
//!   loop:  mine = [age][rem];   line = the one that function (age - 1) mod 3 names
//!          a word there is mine: the same key: the greater value is kept, the other is dropped           (a duplicate)
//!          the least word there < mine: replace it by mine and my value; done if it was empty; else continue with it
//!          age += 1;  past MAX_AGE: unplaced, the attempt has failed
//! ```
//!
//! **Values do not affect the places of keys.** Only words are compared, and two words of a line are equal only if they
//! belong to duplicates or to empty slots. The places are therefore a function of the set of keys. The value of a key
//! is the greatest value of its duplicates.

use std::ops::Range;

use super::functions::LineFunctions;
use super::line::{Layout, Line, lines, lines_mut, pair, put};
use super::slot;
use crate::scheme::slot::{EMPTY, MAX_AGE};
use crate::scheme::{Audit, Placing, Violation};

/// The number of buckets read, and the line and slot of the key.
pub(crate) fn search<L: Layout>(
    functions: &LineFunctions<L::Key>,
    image: &[u64],
    key: L::Key,
) -> (u32, Option<(usize, usize)>) {
    let (home, rem) = functions.home(key);
    for turn in 0..3 {
        let bucket = functions.bucket(turn, home, rem) as usize;
        let Some(line) = lines(image).get(bucket) else { return (turn as u32, None) };
        let is_mine = |&i: &usize| {
            let word = L::word(line, i);
            slot::is_pair::<L::Key>(word)
                && slot::remainder::<L::Key>(word) == rem
                && functions.turn(slot::age::<L::Key>(word)) == turn
        };
        let reads = turn as u32 + 1;
        if let Some(i) = (0..L::SLOTS).find(is_mine) {
            return (reads, Some((bucket, i)));
        }
        if least::<L>(line).1 < slot::word(reads, rem) {
            return (reads, None);
        }
    }
    (3, None)
}

/// The first slot with the least word of a line, and that word.
fn least<L: Layout>(line: &Line) -> (usize, u64) {
    let mut least = (0, L::word(line, 0));
    for i in 1..L::SLOTS {
        if L::word(line, i) < least.1 {
            least = (i, L::word(line, i));
        }
    }
    least
}

/// The pair in a slot of a line.
pub(crate) fn pair_in<L: Layout>(
    functions: &LineFunctions<L::Key>,
    image: &[u64],
    bucket: usize,
    i: usize,
) -> Option<(L::Key, L::Value)> {
    let (word, value) = pair::<L>(lines(image).get(bucket)?, i);
    slot::is_pair::<L::Key>(word).then(|| (functions.key_of(bucket as u32, word), value))
}

/// Sorts the pairs of a line by descending words.
pub(crate) fn sort_line<L: Layout>(line: &mut Line) {
    // Insertion sort, because most lines are nearly sorted.
    for sorted in 1..L::SLOTS {
        let mine = pair::<L>(line, sorted);
        let mut at = sorted;
        while at > 0 && L::word(line, at - 1) < mine.0 {
            let before = pair::<L>(line, at - 1);
            put::<L>(line, at, before);
            at -= 1;
        }
        put::<L>(line, at, mine);
    }
}

/// Sorts all lines, which ends a build.
pub(crate) fn sort<L: Layout>(image: &mut [u64]) {
    lines_mut(image).iter_mut().for_each(sort_line::<L>);
}

/// Adds one pair, and moves displaced pairs to their next places until none is left. Does not keep lines sorted.
pub(crate) fn place<L: Layout>(
    functions: &LineFunctions<L::Key>,
    image: &mut [u64],
    mut key: L::Key,
    mut value: L::Value,
) -> Placing<L::Key> {
    let mut age = 1;
    while age <= MAX_AGE {
        let (home, rem) = functions.home(key);
        let bucket = functions.bucket(functions.turn(age), home, rem);
        let Some(line) = lines_mut(image).get_mut(bucket as usize) else { return Placing::Unplaced };
        let mine = slot::word(age, rem);
        if let Some(i) = (0..L::SLOTS).find(|&i| L::word(line, i) == mine) {
            L::put_value(line, i, value.max(L::value(line, i)));
            return Placing::Duplicate(key);
        }
        let (at, word) = least::<L>(line);
        if word < mine {
            let displaced = pair::<L>(line, at);
            put::<L>(line, at, (mine, value));
            if word == EMPTY {
                return Placing::Placed;
            }
            (key, value) = (functions.key_of(bucket, word), displaced.1);
            age = slot::age::<L::Key>(word);
        }
        age += 1;
    }
    Placing::Unplaced
}

/// Replaces the key's pair by a tombstone.
pub(crate) fn remove<L: Layout>(functions: &LineFunctions<L::Key>, image: &mut [u64], key: L::Key) -> bool {
    let Some((bucket, i)) = search::<L>(functions, image, key).1 else { return false };
    put::<L>(&mut lines_mut(image)[bucket], i, (slot::tombstone::<L::Key>(), L::Value::default()));
    true
}

/// Checks that every pair is on its list at its age, that every earlier line on the list is full of stronger words,
/// that keys are unique, that every line is sorted, and that unused bits are 0.
pub(crate) fn audit<L: Layout>(
    functions: &LineFunctions<L::Key>,
    image: &[u64],
    cells: Range<u64>,
) -> Result<Audit, Violation> {
    let mut audit = Audit::default();
    let slots = L::SLOTS as u64;
    let tombstone = slot::tombstone::<L::Key>();
    for bucket in cells.start / slots..cells.end.div_ceil(slots) {
        let line = &lines(image)[bucket as usize];
        for i in 0..L::SLOTS {
            let (word, value) = pair::<L>(line, i);
            let cell = bucket * slots + i as u64;
            if slot::is_pair::<L::Key>(word) {
                check::<L>(functions, image, cell, word)?;
                audit.pairs += 1;
                audit.greatest_age = audit.greatest_age.max(slot::age::<L::Key>(word));
                continue;
            }
            if ![EMPTY, tombstone].contains(&word) {
                return Err(Violation::Word { slot: cell, word });
            }
            if value != L::Value::default() {
                return Err(Violation::Word { slot: cell, word: value.into() });
            }
            audit.tombstones += u64::from(word == tombstone);
        }
        if L::spare(line) != 0 {
            return Err(Violation::Bucket { bucket, reason: "its spare bytes are not 0" });
        }
        // A tombstone stays where its pair was.
        let words = (0..L::SLOTS).map(|i| L::word(line, i)).filter(|&word| word != tombstone);
        if !words.is_sorted_by(|a, b| a >= b) {
            return Err(Violation::Unsorted { bucket });
        }
    }
    Ok(audit)
}

/// Checks the pair of the word in a cell.
fn check<L: Layout>(functions: &LineFunctions<L::Key>, image: &[u64], cell: u64, word: u64) -> Result<(), Violation> {
    let (slots, age) = (L::SLOTS as u64, slot::age::<L::Key>(word));
    let key = functions.key_of((cell / slots) as u32, word);
    let (home, rem) = functions.home(key);
    let bucket_at = |age: u32| functions.bucket(functions.turn(age), home, rem);
    if u64::from(bucket_at(age)) != cell / slots || slot::word(age, rem) != word {
        return Err(Violation::Misplaced { slot: cell, key: key.into() });
    }
    for earlier in 1..age {
        if least::<L>(&lines(image)[bucket_at(earlier) as usize]).1 < slot::word(earlier, rem) {
            return Err(Violation::Blocking { slot: cell, key: key.into(), age, earlier });
        }
    }
    for turn in 0..3 {
        let bucket = functions.bucket(turn, home, rem) as usize;
        for i in 0..L::SLOTS {
            let other = bucket as u64 * slots + i as u64;
            if other != cell && pair_in::<L>(functions, image, bucket, i).is_some_and(|(there, _)| there == key) {
                return Err(Violation::Twice { slot: cell, other, key: key.into() });
            }
        }
    }
    Ok(())
}
