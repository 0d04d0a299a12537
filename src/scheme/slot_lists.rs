//! Tables of 64-bit keys or values in which each key has a list of single slots: cuckoo and Robin Hood. The rule is
//! that of `cuckoo/canonical.rs` for words without values; a value moves with its word.
//!
//! ```text
//! place(key, value):   age = 1
//!   loop:  slot, rem = place of key at age;  mine = [age][rem];  there = word of slot
//!          there == mine:  the same key: the greater value is kept, the other is dropped               (a duplicate)
//!          there < mine:   exchange it for mine and my value; done if it was empty; else continue with the displaced pair
//!          age += 1;  past the greatest age: unplaced, the attempt has failed
//! find(key):   for turn in 0..turns:  slot, rem = place of key at age turn + 1
//!          found if rem is equal and the age there belongs to this turn
//!          absent if the word there is below [turn + 1][rem]: the key would have displaced it
//! ```
//!
//! **Equal words are duplicates.** In one slot an age determines one place of the list, and slot and remainder then
//! determine one key (`bucketized/wide/slot.rs`, `robin_hood/wide/mod.rs`). So two keys never tie, words alone decide
//! the slots, and the proof of `cuckoo/canonical.rs` applies unchanged: the image's words are a function of the set of
//! keys. A value moves with its key; of duplicates the greatest value is kept.
//!
//! Slots are stored in lines of 64 bytes, four, five or eight per line (`bucketized/wide/line.rs`), so one memory
//! access reads the word and the value of a slot. The rule does not depend on lines.
//!
//! This is not a scheme. Schemes with such tables provide the hash functions ([`SlotLists`]) and the plan.

use std::ops::Range;

use super::bucketized::wide::slot::{Fields, SlotKey};
use super::bucketized::wide::{Layout, lines, lines_mut, pair, put};
use super::slot::EMPTY;
use super::{Audit, Placing, Violation};

/// The lists of slots of the keys of one plan.
pub(crate) trait SlotLists: Sync {
    /// The keys.
    type Key: SlotKey;
    /// The data of a key that determines its places.
    type Goal: Copy + Default + Send + Sync;
    /// The bit fields of words.
    const FIELDS: Fields;

    /// The number of slots of the table.
    fn slots(&self) -> u32;
    /// The number of places of a key, which is the most slots that a lookup reads. They have ages 1 and up.
    fn turns(&self) -> u32;
    /// The ages that belong to place number `turn`, counted from 0: one bit per age.
    fn ages(&self, turn: u32) -> u64;
    /// The goal of a key.
    fn goal(&self, key: Self::Key) -> Self::Goal;
    /// The key of a goal.
    fn key(&self, goal: Self::Goal) -> Self::Key;
    /// Slot and remainder at an age.
    fn probe(&self, goal: Self::Goal, age: u32) -> (u32, Self::Key);
    /// The goal of the pair with this word in `slot`.
    fn goal_in(&self, slot: u32, word: u64) -> Self::Goal;

    /// The key of the pair with this word in `slot`.
    #[inline(always)]
    fn key_in(&self, slot: u32, word: u64) -> Self::Key {
        self.key(self.goal_in(slot, word))
    }
}

/// The word and the value in a slot; empty past the end of an image.
pub(crate) fn cell<L: Layout>(image: &[u64], slot: usize) -> (u64, L::Value) {
    let line = lines(image).get(slot / L::SLOTS);
    line.map_or((EMPTY, L::Value::default()), |line| pair::<L>(line, slot % L::SLOTS))
}

/// Writes word and value of a slot; does nothing past the end of an image.
fn put_cell<L: Layout>(image: &mut [u64], slot: u32, to: (u64, L::Value)) {
    if let Some(line) = lines_mut(image).get_mut(slot as usize / L::SLOTS) {
        put::<L>(line, slot as usize % L::SLOTS, to);
    }
}

/// The result of comparing a key with the word in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Says {
    /// The word is that of the key.
    Found,
    /// The key is absent: it would have displaced the word.
    Absent,
    /// The key may be in a later place.
    GoOn,
}

/// Compares a key with this remainder with `word` at place number `turn`, to which these ages belong.
#[inline(always)]
pub(crate) fn verdict<F: SlotLists>(turn: u32, ages: u64, remainder: F::Key, word: u64) -> Says {
    let is_of_turn = ages >> F::FIELDS.age::<F::Key>(word) & 1 == 1;
    if is_of_turn && F::FIELDS.remainder::<F::Key>(word) == remainder {
        Says::Found
    } else if word < F::FIELDS.word(turn + 1, remainder) {
        Says::Absent
    } else {
        Says::GoOn
    }
}

/// The number of slots that were read, and the slot of the key.
pub(crate) fn search<L: Layout, F: SlotLists<Key = L::Key>>(
    lists: &F,
    image: &[u64],
    key: L::Key,
) -> (u32, Option<u32>) {
    let goal = lists.goal(key);
    for turn in 0..lists.turns() {
        let (at, remainder) = lists.probe(goal, turn + 1);
        match verdict::<F>(turn, lists.ages(turn), remainder, cell::<L>(image, at as usize).0) {
            Says::Found => return (turn + 1, Some(at)),
            Says::Absent => return (turn + 1, None),
            Says::GoOn => {}
        }
    }
    (lists.turns(), None)
}

/// The pair in a slot.
pub(crate) fn pair_in<L: Layout, F: SlotLists<Key = L::Key>>(
    lists: &F,
    image: &[u64],
    slot: u32,
) -> Option<(L::Key, L::Value)> {
    let (word, value) = cell::<L>(image, slot as usize);
    F::FIELDS.is_pair::<L::Key>(word).then(|| (lists.key_in(slot, word), value))
}

/// The age of the pair in a slot; 0 if there is none.
pub(crate) fn age_in<L: Layout, F: SlotLists<Key = L::Key>>(image: &[u64], slot: u32) -> u32 {
    let word = cell::<L>(image, slot as usize).0;
    if F::FIELDS.is_pair::<L::Key>(word) { F::FIELDS.age::<L::Key>(word) } else { 0 }
}

/// Adds one pair, and moves displaced pairs to their next places until none is left.
pub(crate) fn place<L: Layout, F: SlotLists<Key = L::Key>>(
    lists: &F,
    image: &mut [u64],
    key: L::Key,
    mut value: L::Value,
) -> Placing<L::Key> {
    let (mut goal, mut age) = (lists.goal(key), 1);
    while age <= F::FIELDS.max_age() {
        let (at, remainder) = lists.probe(goal, age);
        let mine = F::FIELDS.word(age, remainder);
        let (word, there) = cell::<L>(image, at as usize);
        if word == mine {
            put_cell::<L>(image, at, (mine, value.max(there)));
            return Placing::Duplicate(lists.key(goal));
        }
        if word < mine {
            put_cell::<L>(image, at, (mine, value));
            if word == EMPTY {
                return Placing::Placed;
            }
            (goal, value) = (lists.goal_in(at, word), there);
            age = F::FIELDS.age::<L::Key>(word);
        }
        age += 1;
    }
    Placing::Unplaced
}

/// Replaces the key's pair by a tombstone. Slots still only grow.
pub(crate) fn remove<L: Layout, F: SlotLists<Key = L::Key>>(lists: &F, image: &mut [u64], key: L::Key) -> bool {
    let Some(at) = search::<L, F>(lists, image, key).1 else { return false };
    put_cell::<L>(image, at, (F::FIELDS.tombstone::<L::Key>(), L::Value::default()));
    true
}

/// Checks that every pair is on its list at its age, that every earlier place has a stronger word, that keys are
/// unique, and that unused words are empty.
pub(crate) fn audit<L: Layout, F: SlotLists<Key = L::Key>>(
    lists: &F,
    image: &[u64],
    slots: Range<u64>,
) -> Result<Audit, Violation> {
    let mut audit = Audit::default();
    let tombstone = F::FIELDS.tombstone::<L::Key>();
    let last = slots.end == u64::from(lists.slots());
    let end = if last { (lines(image).len() * L::SLOTS) as u64 } else { slots.end };
    for at in slots.start..end {
        let (word, value) = cell::<L>(image, at as usize);
        if at % L::SLOTS as u64 == 0 && L::spare(&lines(image)[at as usize / L::SLOTS]) != 0 {
            return Err(Violation::Bucket { bucket: at / L::SLOTS as u64, reason: "its spare bytes are not 0" });
        }
        if at < slots.end && F::FIELDS.is_pair::<L::Key>(word) {
            check::<L, F>(lists, image, at as u32, word)?;
            audit.pairs += 1;
            audit.greatest_age = audit.greatest_age.max(F::FIELDS.age::<L::Key>(word));
            continue;
        }
        // The rest of a line after the last slot is empty.
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

/// Checks the pair of a word in a slot. If two pairs have one key, the other pair is at an earlier place of the older
/// one, so duplicates are detected.
fn check<L: Layout, F: SlotLists<Key = L::Key>>(lists: &F, image: &[u64], at: u32, word: u64) -> Result<(), Violation> {
    let (slot, age) = (u64::from(at), F::FIELDS.age::<L::Key>(word));
    let goal = lists.goal_in(at, word);
    let key = lists.key(goal);
    // Compares keys rather than words: not every word in a slot belongs to a key.
    let goal = lists.goal(key);
    if lists.probe(goal, age) != (at, F::FIELDS.remainder::<L::Key>(word)) {
        return Err(Violation::Misplaced { slot, key: key.into() });
    }
    for earlier in 1..age {
        let (other, remainder) = lists.probe(goal, earlier);
        if cell::<L>(image, other as usize).0 < F::FIELDS.word(earlier, remainder) {
            return Err(Violation::Blocking { slot, key: key.into(), age, earlier });
        }
    }
    for earlier in 1..age.min(lists.turns() + 1) {
        let (other, _) = lists.probe(goal, earlier);
        if other != at && pair_in::<L, F>(lists, image, other).is_some_and(|(there, _)| there == key) {
            return Err(Violation::Twice { slot, other: other.into(), key: key.into() });
        }
    }
    Ok(())
}

/// The items that all such schemes share, for their `impl Scheme`: `(K, V)` is the layout, and `functions` of a plan
/// returns its lists, of this type.
macro_rules! rule_of_slot_lists {
    ($lists:ty) => {
        fn find(plan: &Self::Plan, image: &[u64], key: Self::Key) -> Option<Self::Value> {
            let at = $crate::scheme::slot_lists::search::<(K, V), _>(&plan.functions(), image, key).1?;
            Some($crate::scheme::slot_lists::cell::<(K, V)>(image, at as usize).1)
        }
        fn reads(plan: &Self::Plan, image: &[u64], key: Self::Key) -> u32 {
            $crate::scheme::slot_lists::search::<(K, V), _>(&plan.functions(), image, key).0
        }
        fn pair(plan: &Self::Plan, image: &[u64], at: u64) -> Option<(Self::Key, Self::Value)> {
            let at = u32::try_from(at).ok().filter(|&at| at < plan.slot_count())?;
            $crate::scheme::slot_lists::pair_in::<(K, V), _>(&plan.functions(), image, at)
        }
        fn age(plan: &Self::Plan, image: &[u64], at: u64) -> u32 {
            let Some(at) = u32::try_from(at).ok().filter(|&at| at < plan.slot_count()) else { return 0 };
            $crate::scheme::slot_lists::age_in::<(K, V), $lists>(image, at)
        }
        fn place(plan: &Self::Plan, image: &mut [u64], pairs: &[(Self::Key, Self::Value)]) -> Placing<Self::Key> {
            let lists = plan.functions();
            let place = $crate::scheme::slot_lists::place::<(K, V), _>;
            Placing::of_each(pairs, |key, value| place(&lists, image, key, value))
        }
        fn remove(plan: &Self::Plan, image: &mut [u64], keys: &[Self::Key]) -> u64 {
            let lists = plan.functions();
            let remove = $crate::scheme::slot_lists::remove::<(K, V), _>;
            keys.iter().filter(|&&key| remove(&lists, image, key)).count() as u64
        }
        fn audit(plan: &Self::Plan, image: &[u64], cells: Range<u64>) -> std::result::Result<Audit, Violation> {
            $crate::scheme::slot_lists::audit::<(K, V), _>(&plan.functions(), image, cells)
        }
        fn updates(&self) -> Updates {
            Updates::Tombstones
        }
        fn keeps_one(&self) -> bool {
            true
        }
        fn limits(&self) -> Limits {
            let limits = Limits::of::<Self::Key, Self::Value>();
            if <(K, V)>::VALUES.is_some() { limits } else { Limits { value_bits: 0, ..limits } }
        }
        /// The old image, from which values are copied to the new one.
        fn scratch_bytes(plan: &Self::Plan, _: u64) -> u64 {
            8 * plan.words()
        }
    };
}
pub(super) use rule_of_slot_lists;

/// The items that all such plans share, for the `impl Plan` of a struct with a method `lines` and a field `numbers`
/// that has `slots`, `seed` and `attempt`.
macro_rules! plan_of_slot_lists {
    () => {
        fn slots(&self) -> u64 {
            self.numbers.slots.into()
        }
        fn words(&self) -> u64 {
            u64::from(self.lines()) * $crate::scheme::bucketized::wide::LINE_WORDS as u64
        }
        fn cells(&self) -> u64 {
            self.slots()
        }
        fn empty_word(&self) -> u64 {
            $crate::scheme::slot::EMPTY
        }
        fn seed(&self) -> u64 {
            self.numbers.seed
        }
        fn attempt(&self) -> u32 {
            self.numbers.attempt
        }
    };
}
pub(super) use plan_of_slot_lists;

#[cfg(test)]
pub(super) mod tests;
