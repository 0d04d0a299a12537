//! The slot lists of a Robin Hood table, for `acceptance.rs` and `search.rs`: one for each condition that ends a
//! lookup.
//!
//! ```text
//! Aged      the cells contain the ages:   a miss ends at a cell below the one that the key would have offered
//! Packed    codes have replaced them:     the first cell contains the age after which a miss ends
//! Arrayed   both: a probe before the first reads the array, and rejects some keys without reading a cell
//! ```
//!
//! The greatest age that a key must probe is computed once, and stored in its tag above the number of the query.
//!
//! Each layout is a type, so that its shifts are constants. Two cells of 32 bits share a word of the image. The highest
//! bit of the value to compare selects one of them; keys of 28 bits do not use that bit.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use wide::u32x8;

use crate::cpu::acceptance::Accepts;
use crate::cpu::block::{Lists, NUMBER_BITS};
use crate::cpu::place::Shared;
use crate::scheme::divisor::Divisor;
use crate::scheme::hash::Lane;
use crate::scheme::robin_hood::Functions;
use crate::scheme::robin_hood::cell::{self, CellLayout, EMPTY};
use crate::scheme::robin_hood::max_ages::Levels;

/// Cells of one layout, and where they are in an image.
pub(super) trait Cells: Sync {
    const LAYOUT: CellLayout;
    /// Whether a cell contains the key rather than its quotient.
    const NAMES_KEYS: bool;

    /// The words of some places, and the values to compare for keys of these names.
    #[inline(always)]
    fn aim(places: u32x8, names: u32x8) -> (u32x8, u32x8) {
        (places, names)
    }

    /// The name in the value to compare.
    #[inline(always)]
    fn name(upper: u32) -> u32 {
        upper
    }

    /// The number of the place.
    #[inline(always)]
    fn place(slot: u32, _upper: u32) -> u32 {
        slot
    }

    /// The cell in a word.
    #[inline(always)]
    fn cell(_upper: u32, word: u64) -> u64 {
        word
    }

    /// Raises a cell to at least `mine`, and returns its previous content.
    #[inline(always)]
    fn raise(word: &AtomicU64, _upper: u32, mine: u64) -> u64 {
        Shared::raise(word, mine)
    }
}

/// `[age 6][quotient 26][value 32]`.
pub(super) struct Canonical;
/// `[age 4][key 32][value 28]`.
pub(super) struct KeyedPairs;
/// `[age 4][key 28]`, two to a word.
pub(super) struct KeysAlone;

impl Cells for Canonical {
    const LAYOUT: CellLayout = cell::CANONICAL;
    const NAMES_KEYS: bool = false;
}

impl Cells for KeyedPairs {
    const LAYOUT: CellLayout = cell::PAIRS;
    const NAMES_KEYS: bool = true;
}

/// The first key that is too wide. All wider keys are treated like it, and do not equal any name in a cell.
const TOO_WIDE: u32 = 1 << cell::KEYS.name_bits;
/// The highest bit of the value to compare: the cell is the upper half of the word.
const UPPER_HALF: u32 = 1 << 31;

impl Cells for KeysAlone {
    const LAYOUT: CellLayout = cell::KEYS;
    const NAMES_KEYS: bool = true;

    #[inline(always)]
    fn aim(places: u32x8, names: u32x8) -> (u32x8, u32x8) {
        let halves: u32x8 = places.low_bits(1) << 31;
        (places.shifted::<1>(), names.lesser(u32x8::splat(TOO_WIDE)) | halves)
    }

    #[inline(always)]
    fn name(upper: u32) -> u32 {
        upper & !UPPER_HALF
    }

    #[inline(always)]
    fn place(slot: u32, upper: u32) -> u32 {
        2 * slot + upper / UPPER_HALF
    }

    #[inline(always)]
    fn cell(upper: u32, word: u64) -> u64 {
        u64::from((word >> (upper / UPPER_HALF * 32)) as u32)
    }

    /// The other half may change meanwhile; the exchange is then retried.
    #[inline(always)]
    fn raise(word: &AtomicU64, upper: u32, mine: u64) -> u64 {
        let mut there = word.load(Relaxed);
        loop {
            let cell = Self::cell(upper, there);
            if cell >= mine {
                return cell;
            }
            // An addition changes the bits of this cell, and not those of the other half.
            let raised = there + ((mine - cell) << (upper / UPPER_HALF * 32));
            match word.compare_exchange_weak(there, raised, Relaxed, Relaxed) {
                Ok(_) => return cell,
                Err(now) => there = now,
            }
        }
    }
}

/// Tables whose cells contain the ages.
pub(super) struct Aged<'a, C> {
    functions: &'a Functions,
    of: PhantomData<C>,
}

impl<'a, C: Cells> Aged<'a, C> {
    pub(super) fn new(functions: &'a Functions) -> Self {
        Aged { functions, of: PhantomData }
    }
}

impl<C: Cells> Lists for Aged<'_, C> {
    const STRIDE: usize = 1;
    const VALUE_BITS: u32 = C::LAYOUT.value_bits;

    #[inline(always)]
    fn aim(&self, age: u32, keys: u32x8) -> (u32x8, u32x8) {
        let (homes, quotients) = self.functions.split(keys);
        C::aim(self.functions.place(homes, age), if C::NAMES_KEYS { keys } else { quotients })
    }

    #[inline(always)]
    fn judge(&self, age: u32) -> impl Fn(u32, u64) -> (bool, bool) {
        move |upper, word| {
            let (cell, name) = (C::cell(upper, word), C::name(upper));
            let hit = (C::LAYOUT.name(cell) == name) & (C::LAYOUT.age(cell) == age);
            // A sum instead of a bit field: a name that is too wide only ends a search at another place.
            let mine = (u64::from(age) << C::LAYOUT.name_bits) + u64::from(name);
            (hit, !hit & (C::LAYOUT.upper(cell) < mine))
        }
    }

    fn last_age(&self) -> u32 {
        C::LAYOUT.max_age
    }
}

impl<C: Cells> Accepts for Aged<'_, C> {
    const MAX_AGE: u32 = C::LAYOUT.max_age;

    #[inline(always)]
    fn offer(&self, age: u32, upper: u32, value: u32) -> u64 {
        C::LAYOUT.cell(age, C::name(upper), value)
    }

    #[inline(always)]
    fn raise(&self, word: &AtomicU64, upper: u32, mine: u64) -> u64 {
        C::raise(word, upper, mine)
    }

    #[inline(always)]
    fn place_of(&self, slot: u32, upper: u32) -> u32 {
        C::place(slot, upper)
    }

    #[inline(always)]
    fn displaced(&self, place: u32, cell: u64) -> Option<(u32, u32, u32)> {
        if !C::LAYOUT.is_pair(cell) {
            return None;
        }
        let (age, name) = (C::LAYOUT.age(cell), C::LAYOUT.name(cell));
        let key = if C::NAMES_KEYS { name } else { self.functions.key(self.functions.home(place, age), name) };
        Some((age, key, C::LAYOUT.value(cell)))
    }
}

/// The tag of a query that may have to probe up to the age `bound`.
#[inline(always)]
fn with_bound(tag: u32, bound: u32) -> u32 {
    tag | bound << NUMBER_BITS
}

/// The greatest age that a query with this tag may have to probe.
#[inline(always)]
fn bound_of(tag: u32) -> u32 {
    tag >> NUMBER_BITS
}

/// Classic tables with maximum ages: each cell contains the code of its own place.
pub(super) struct Packed<'a, C> {
    aged: Aged<'a, C>,
    levels: Levels,
}

impl<'a, C: Cells> Packed<'a, C> {
    pub(super) fn new(functions: &'a Functions, levels: Levels) -> Self {
        Packed { aged: Aged::new(functions), levels }
    }
}

impl<C: Cells> Lists for Packed<'_, C> {
    const STRIDE: usize = 1;
    const VALUE_BITS: u32 = C::LAYOUT.value_bits;

    #[inline(always)]
    fn aim(&self, age: u32, keys: u32x8) -> (u32x8, u32x8) {
        self.aged.aim(age, keys)
    }

    #[inline(always)]
    fn judge(&self, _: u32) -> impl Fn(u32, u64) -> (bool, bool) {
        |upper, word| {
            let cell = C::cell(upper, word);
            ((C::LAYOUT.name(cell) == C::name(upper)) & (cell != EMPTY), false)
        }
    }

    #[inline(always)]
    fn answer(&self, age: u32) -> impl Fn(u32, u64, u32) -> (bool, bool, u32) {
        let (judge, levels) = (self.judge(age), &self.levels);
        move |upper, word, tag| {
            let (hit, _) = judge(upper, word);
            let tag = match age {
                1 => with_bound(tag, levels.bound(C::LAYOUT.age(C::cell(upper, word)))),
                _ => tag,
            };
            (hit, !hit & (bound_of(tag) <= age), tag)
        }
    }

    fn last_age(&self) -> u32 {
        C::LAYOUT.max_age
    }
}

/// Canonical tables with maximum ages, in an array after the slots.
pub(super) struct Arrayed<'a> {
    aged: Aged<'a, Canonical>,
    levels: Levels,
    /// Divides by the number of codes in a word.
    per_word: Divisor,
}

impl<'a> Arrayed<'a> {
    pub(super) fn new(functions: &'a Functions, levels: Levels) -> Self {
        Arrayed { aged: Aged::new(functions), levels, per_word: Divisor::new(levels.per_word()) }
    }
}

impl Lists for Arrayed<'_> {
    const STRIDE: usize = 1;
    const FIRST_AGE: u32 = 0;

    /// At age 0: the word of the array, and the shift of the code in it.
    #[inline(always)]
    fn aim(&self, age: u32, keys: u32x8) -> (u32x8, u32x8) {
        if age > 0 {
            return self.aged.aim(age, keys);
        }
        let (homes, _) = self.aged.functions.split(keys);
        let (words, rests) = self.per_word.divide(homes);
        (words.plus(u32x8::splat(self.aged.functions.slots)), rests.times(u32x8::splat(self.levels.bits)))
    }

    #[inline(always)]
    fn judge(&self, age: u32) -> impl Fn(u32, u64) -> (bool, bool) {
        self.aged.judge(age)
    }

    #[inline(always)]
    fn answer(&self, age: u32) -> impl Fn(u32, u64, u32) -> (bool, bool, u32) {
        let (judge, levels) = (self.judge(age), &self.levels);
        move |upper, word, tag| {
            if age == 0 {
                let bound = levels.bound(levels.code_in(word, upper));
                return (false, bound == 0, with_bound(tag, bound));
            }
            let (hit, end) = judge(upper, word);
            (hit, end | !hit & (bound_of(tag) <= age), tag)
        }
    }

    fn last_age(&self) -> u32 {
        Canonical::LAYOUT.max_age
    }
}
