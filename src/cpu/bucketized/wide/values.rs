//! Moves values to the slots of their words.
//!
//! ```text
//! fetch:   the old image's pairs:   in a line whose words are unchanged, values are kept; others are looked up
//!          the batch:               each key is looked up, and its value written
//! ```
//!
//! All values are 0 at first and are only raised, so of duplicates the greatest value is kept, in any order of events.
//! Each lookup in the finished image costs as much as any lookup; unchanged words, which are the majority, cost
//! nothing.

use std::marker::PhantomData;
use std::ops::Range;

use super::{Shared, per_line};
use crate::cpu::CHUNK;
use crate::cpu::lanes::Portable;
use crate::cpu::lines::{Finds, Hit};
use crate::cpu::memory::Memory;
use crate::error::Result;
use crate::memory;
use crate::parallel::{each, fold};
use crate::scheme::bucketized::wide::{LINE_WORDS, Layout, Line, lines, lines_mut, pair};

/// The cell of an absent key.
const NOWHERE: u64 = u64::MAX;

/// The positions of the words, or the values, of cells, in integers of their width.
pub(in crate::cpu) struct Places<L> {
    line: usize,
    first: usize,
    stride: usize,
    layout: PhantomData<L>,
}

impl<L: Layout> Places<L> {
    /// The positions of values; `None` if the table has no values.
    pub(in crate::cpu) fn new() -> Option<Self> {
        let (first, stride) = L::VALUES?;
        Some(Places { line: per_line::<L::Value>(), first, stride, layout: PhantomData })
    }

    /// The positions of words.
    pub(in crate::cpu) fn words() -> Self {
        Places { line: per_line::<L::Key>(), first: 0, stride: L::WORD_STRIDE, layout: PhantomData }
    }

    #[inline(always)]
    pub(in crate::cpu) fn at(&self, line: usize, slot: usize) -> usize {
        line * self.line + self.first + slot * self.stride
    }

    /// The position for a number that [`places_of`] returned.
    #[inline(always)]
    pub(in crate::cpu) fn of_cell(&self, cell: u64) -> Option<usize> {
        let slots = L::SLOTS as u64;
        (cell != NOWHERE).then(|| self.at((cell / slots) as usize, (cell % slots) as usize))
    }
}

/// The cell of a key.
fn cell<L: Layout>(hit: Hit) -> u64 {
    if hit.found { (hit.line * L::SLOTS + hit.slot) as u64 } else { NOWHERE }
}

/// The cell of each key.
pub(in crate::cpu) fn places_of<L: Layout>(
    table: &impl Finds<L>,
    lines: &[Line],
    keys: &[L::Key],
) -> Result<Memory<u64>> {
    let mut places = Memory::filled(keys.len(), NOWHERE)?;
    each((keys, places.words_mut()?), CHUNK, |_, (keys, places)| {
        table.each_hit(Portable, lines, keys, |hit| places[hit.number] = cell::<L>(hit));
    });
    Ok(places)
}

/// Sets all values to 0.
pub(in crate::cpu) fn clear<L: Layout>(image: &mut [u64]) {
    each(lines_mut(image), CHUNK / LINE_WORDS, |_, lines| {
        for line in lines {
            (0..L::SLOTS).for_each(|i| L::put_value(line, i, crate::backend::Word::low(0)));
        }
    });
}

/// Writes values to a finished image whose values are 0.
pub(in crate::cpu) fn fetch<L: Layout>(
    table: &impl Finds<L>,
    image: &mut [u64],
    old: Option<&[u64]>,
    keys: &[L::Key],
    values: &[L::Value],
) -> Result<()>
where
    L::Value: Shared,
{
    let Some(places) = Places::<L>::new() else { return Ok(()) };
    if let Some(old) = old {
        carry::<L>(table, image, lines(old), &places)?;
    }
    let cells = places_of::<L>(table, lines(image), keys)?;
    raise::<L>(image, &places, cells.words(), values);
    Ok(())
}

/// Raises the values of cells.
fn raise<L: Layout>(image: &mut [u64], places: &Places<L>, cells: &[u64], values: &[L::Value])
where
    L::Value: Shared,
{
    let image = L::Value::cells(image);
    each((cells, values), CHUNK, |_, (cells, values)| {
        for (&cell, &value) in cells.iter().zip(values) {
            if let Some(at) = places.of_cell(cell) {
                L::Value::raise(&image[at], value);
            }
        }
    });
}

/// Copies the values of the pairs of an old image to the new cells of their keys.
fn carry<L: Layout>(table: &impl Finds<L>, image: &mut [u64], old: &[Line], places: &Places<L>) -> Result<()>
where
    L::Value: Shared,
{
    each((lines_mut(image), old), CHUNK / LINE_WORDS, |_, (new, old)| {
        for (new, old) in new.iter_mut().zip(old).filter(|(new, old)| same_words::<L>(new, old)) {
            (0..L::SLOTS).for_each(|i| L::put_value(new, i, L::value(old, i)));
        }
    });
    let new = lines(image);
    let of_chunk = |_, range| Some(moved::<L, _>(table, new, old, range));
    let both = |first: Option<Result<Moved<_>>>, second: Option<Result<Moved<_>>>| match (first, second) {
        (Some(first), Some(second)) => Some(first.and_then(|first| first.followed_by(second?))),
        (first, second) => first.or(second),
    };
    let Some(moved) = fold(0..old.len(), CHUNK / LINE_WORDS, of_chunk, both).transpose()? else { return Ok(()) };
    raise::<L>(image, places, &moved.cells, &moved.values);
    Ok(())
}

/// Values of pairs whose cells changed.
struct Moved<V> {
    cells: Vec<u64>,
    values: Vec<V>,
}

impl<V> Moved<V> {
    fn followed_by(mut self, mut other: Moved<V>) -> Result<Self> {
        let len = self.cells.len() + other.cells.len();
        let check = |reserved: bool| if reserved { Ok(()) } else { Err(memory::out_of_memory::<u64>(len)) };
        check(self.cells.try_reserve(other.cells.len()).is_ok())?;
        check(self.values.try_reserve(other.values.len()).is_ok())?;
        self.cells.append(&mut other.cells);
        self.values.append(&mut other.values);
        Ok(self)
    }
}

fn same_words<L: Layout>(new: &Line, old: &Line) -> bool {
    (0..L::SLOTS).all(|i| L::word(new, i) == L::word(old, i))
}

/// The values of the pairs in some old lines whose words changed.
fn moved<L: Layout, F: Finds<L>>(
    table: &F,
    new: &[Line],
    old: &[Line],
    range: Range<usize>,
) -> Result<Moved<L::Value>> {
    let changed = || range.clone().filter(|&line| !same_words::<L>(&new[line], &old[line]));
    let most = changed().count() * L::SLOTS;
    let (mut keys, mut values) = (memory::reserved(most)?, memory::reserved(most)?);
    for line in changed() {
        for (i, (word, value)) in (0..L::SLOTS).map(|i| pair::<L>(&old[line], i)).enumerate() {
            if F::FIELDS.is_pair::<L::Key>(word) {
                keys.push(table.key_of(line, i, word));
                values.push(value);
            }
        }
    }
    let mut cells = memory::reserved(keys.len())?;
    cells.resize(keys.len(), NOWHERE);
    table.each_hit(Portable, new, &keys, |hit| cells[hit.number] = cell::<L>(hit));
    Ok(Moved { cells, values })
}
