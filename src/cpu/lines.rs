//! The passes over images of lines that all schemes share: lookups, values, removal, and pairs as columns. The scheme
//! provides the places of keys.

use std::ops::Add;

use super::bucketized::wide::Shared;
use super::bucketized::wide::values::{Places, places_of};
use super::lanes::{Lanes, with_lanes};
use super::memory::Memory;
use super::{CHUNK, Cpu};
use crate::backend::{Decoded, DeviceBuffer, Removed, Word, bitmap_words};
use crate::error::Result;
use crate::parallel::{Per, each, fold};
use crate::scheme::bucketized::wide::slot::{self, Fields};
use crate::scheme::bucketized::wide::{LINE_WORDS, Layout, Line, lines, lines_mut, pair, put};
use crate::scheme::slot::EMPTY;

/// Whether a key is in an image, and its place; an arbitrary place if it is absent.
#[derive(Clone, Copy)]
pub(super) struct Hit {
    /// The number of the key.
    pub(super) number: usize,
    pub(super) line: usize,
    pub(super) slot: usize,
    pub(super) found: bool,
}

/// Finds the keys of a table in lines.
pub(super) trait Finds<L: Layout>: Sync {
    /// The bit fields of words.
    const FIELDS: Fields = slot::FIELDS;
    /// Reports each key at least once. The last report is final; all earlier ones were "not found".
    fn each_hit(&self, lanes: impl Lanes, lines: &[Line], keys: &[L::Key], then: impl FnMut(Hit));
    /// The key of a pair's word in a slot of a line.
    fn key_of(&self, line: usize, slot: usize, word: u64) -> L::Key;
}

/// Packs bytes, each 0 or 1, into a bitmap. Multiplication moves byte i by 7 (8 - i) bits to bit 56 + i, without
/// overlaps.
pub(super) fn pack(hits: &[u8], bits: &mut [u32]) {
    let of_eight = |eight: &[u8; 8]| (u64::from_le_bytes(*eight).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u8;
    for (bits, hits) in bits.iter_mut().zip(hits.as_chunks::<32>().0) {
        let eights = hits.as_chunks::<8>().0;
        *bits = u32::from_le_bytes(std::array::from_fn(|i| of_eight(&eights[i])));
    }
}

/// Sets the values whose byte is 0 to 0. This is a separate loop, because in the search loop compilers would emit a
/// branch for it.
#[inline(always)]
pub(super) fn mask<V: Word>(values: &mut [V], hits: &[u8]) {
    let mask = |hit: u8| u64::from(hit).wrapping_neg();
    values.iter_mut().zip(hits).for_each(|(value, &hit)| *value = V::low((*value).into() & mask(hit)));
}

/// Calls `write` with an array for the answers of a chunk. Its length is a power of 2, so numbers modulo the length
/// need no bounds check. The array is the column itself, except at its end.
#[inline(always)]
pub(super) fn in_whole_chunks<V: Word, const N: usize>(values: &mut [V], write: impl FnOnce(&mut [V; N])) {
    if let Ok(values) = values.try_into() {
        return write(values);
    }
    let mut whole = [V::low(0); N];
    write(&mut whole);
    values.copy_from_slice(&whole[..values.len()]);
}

/// The pairs of an image as columns.
type Columns<L> = Decoded<Memory<<L as Layout>::Key>, Memory<<L as Layout>::Value>, Memory<u32>>;

impl Cpu {
    pub(super) fn lookup_in_lines<L: Layout>(
        &self,
        table: &impl Finds<L>,
        image: &Memory<u64>,
        queries: &Memory<L::Key>,
        values: &mut Memory<L::Value>,
        found: &mut Memory<u32>,
    ) -> Result<()> {
        let lines = lines(image.words());
        let columns = (queries.words(), values.words_mut()?, Per(32, found.words_mut()?));
        self.run(|| {
            each(columns, CHUNK, |_, (queries, values, Per(_, found))| {
                let mut hits = [0; CHUNK];
                in_whole_chunks(values, |values: &mut [L::Value; CHUNK]| {
                    with_lanes!(lanes => table.each_hit(
                        lanes,
                        lines,
                        queries,
                        #[inline(always)]
                        |Hit { number, line, slot, found }| {
                            let value = L::value(&lines[line], slot);
                            values[number % CHUNK] = value;
                            hits[number % CHUNK] = found.into();
                        },
                    ));
                    with_lanes!(_lanes => mask(values, &hits));
                });
                pack(&hits, found);
            });
        })?;
        Ok(())
    }

    pub(super) fn contains_in_lines<L: Layout>(
        &self,
        table: &impl Finds<L>,
        image: &Memory<u64>,
        queries: &Memory<L::Key>,
    ) -> Result<Memory<u32>> {
        let lines = lines(image.words());
        let mut found = Memory::zeroed(bitmap_words(queries.len()))?;
        let columns = (queries.words(), Per(32, found.words_mut()?));
        self.run(|| {
            each(columns, CHUNK, |_, (queries, Per(_, found))| {
                let mut hits = [0; CHUNK];
                with_lanes!(lanes => table.each_hit(
                    lanes,
                    lines,
                    queries,
                    #[inline(always)]
                    |report| hits[report.number % CHUNK] = report.found.into(),
                ));
                pack(&hits, found);
            });
        })?;
        Ok(found)
    }

    pub(super) fn assign_in_lines<L: Layout>(
        &self,
        table: &impl Finds<L>,
        image: &mut Memory<u64>,
        keys: &Memory<L::Key>,
        values: &Memory<L::Value>,
    ) -> Result<()>
    where
        L::Value: Shared,
    {
        let Some(values_at) = Places::<L>::new() else { return Ok(()) };
        // All places are found before any value is written, because lines must not change while they are read.
        let places = self.run(|| places_of::<L>(table, lines(image.words()), keys.words())).flatten()?;
        let cells = L::Value::cells(image.words_mut()?);
        self.run(|| {
            each((places.words(), values.words()), CHUNK, |_, (places, values)| {
                for (&place, &value) in places.iter().zip(values) {
                    if let Some(at) = values_at.of_cell(place) {
                        L::Value::set(&cells[at], value);
                    }
                }
            });
        })?;
        Ok(())
    }

    pub(super) fn remove_from_lines<L: Layout, F: Finds<L>>(
        &self,
        table: &F,
        image: &mut Memory<u64>,
        keys: &Memory<L::Key>,
    ) -> Result<Removed>
    where
        L::Key: Shared,
        L::Value: Shared,
    {
        let places = self.run(|| places_of::<L>(table, lines(image.words()), keys.words())).flatten()?;
        let tombstone = L::Key::low(F::FIELDS.tombstone::<L::Key>());
        let cells = L::Key::cells(image.words_mut()?);
        let words_at = Places::<L>::words();
        // Of several threads with one key, one finds the word in the slot and the others the mark.
        let pairs = self.run(|| {
            let vacated = |_, places: &[u64]| {
                let is_first = |at: usize| L::Key::swap(&cells[at], tombstone) != tombstone;
                places.iter().filter_map(|&place| words_at.of_cell(place)).filter(|&at| is_first(at)).count() as u64
            };
            fold(places.words(), CHUNK, vacated, u64::add)
        })?;
        if let Some(values_at) = Places::<L>::new() {
            let cells = L::Value::cells(image.words_mut()?);
            self.run(|| {
                each(places.words(), CHUNK, |_, places| {
                    for at in places.iter().filter_map(|&place| values_at.of_cell(place)) {
                        L::Value::set(&cells[at], Word::low(0));
                    }
                });
            })?;
        }
        Ok(Removed { pairs, outside: false })
    }

    /// The pairs of the first `cells` slots.
    pub(super) fn decode_lines<L: Layout, F: Finds<L>>(
        &self,
        table: &F,
        image: &Memory<u64>,
        cells: usize,
    ) -> Result<Columns<L>> {
        self.pairs_of_lines::<L>(table, image, cells, |word| F::FIELDS.is_pair::<L::Key>(word))
    }

    /// Empties the slots of tombstones and of pairs above age 1, and returns these pairs.
    pub(super) fn lift_from_lines<L: Layout, F: Finds<L>>(
        &self,
        table: &F,
        image: &mut Memory<u64>,
        cells: usize,
    ) -> Result<Columns<L>> {
        let is_lifted = |word: u64| F::FIELDS.age::<L::Key>(word) > 1;
        let is_pair = |word: u64| F::FIELDS.is_pair::<L::Key>(word);
        let lifted = self.pairs_of_lines::<L>(table, image, cells, |word| is_pair(word) && is_lifted(word))?;
        let words = lines_mut(image.words_mut()?);
        self.run(|| {
            each(words, CHUNK / LINE_WORDS, |_, lines| {
                for line in lines {
                    for i in 0..L::SLOTS {
                        if is_lifted(L::word(line, i)) {
                            put::<L>(line, i, (EMPTY, Word::low(0)));
                        }
                    }
                }
            });
        })?;
        Ok(lifted)
    }

    /// The pairs of the selected words.
    fn pairs_of_lines<L: Layout>(
        &self,
        table: &impl Finds<L>,
        image: &Memory<u64>,
        cells: usize,
        is_wanted: impl Fn(u64) -> bool + Sync,
    ) -> Result<Columns<L>> {
        let lines = lines(image.words());
        self.decode_cells(cells, |cell| {
            let (line, i) = (cell / L::SLOTS, cell % L::SLOTS);
            let (word, value) = pair::<L>(&lines[line], i);
            is_wanted(word).then(|| (table.key_of(line, i, word), value))
        })
    }
}
