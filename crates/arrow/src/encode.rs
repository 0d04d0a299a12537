//! Encodes key columns as one column of words: rows have equal words if, and only if, their keys are equal.
//!
//! ```text
//! one column of integers of 32 or 64 bits without nulls    its buffer is used (own.rs)
//! otherwise, for each column of plain values (leaf.rs)
//!   codes       value - least value;   for strings, the number of the string (strings.rs)
//!   null        one more code if nulls are equal; otherwise no other key equals that of the row
//!   the word    word * codes + code: a dense numbering of all combinations of codes
//!   overflow    before words exceed 64 bits, each is replaced by the number of the first row that has it (finder.rs), which is
//!               less than 2^32; a column whose range of values is too wide is split into two halves
//! ```
//!
//! The keys of one side, the right side of a join, define the words. A key of the other side gets the word of the equal
//! right key. A value that does not occur on the right gets a word that no right key has, so the left type may be
//! wider. Decimals and timestamps of another scale are first converted to the scale of the right side; values that are
//! not whole numbers at that scale have no match.
//!
//! Words are not hashes: different keys have different words, so keys need not be compared again.

use std::sync::OnceLock;

use arrow_buffer::{ArrowNativeType, ScalarBuffer};
use koel::{Any, NO_ROW};
use rayon::prelude::*;

use crate::error::Result;
use crate::finder::Finder;
use crate::keys::Keys;
use crate::kind::can_be_equal;
use crate::leaf::{Fixed, Leaf, Piece, leaves, nulls_like, scales, with_values};
use crate::own::Own;
use crate::strings::{StringColumn, StringNumbers};
use crate::written::mapped;

/// While words are computed, the word of a row whose key equals no other key.
const NONE: u64 = u64::MAX;
/// The greatest number of words. After them there are, for each side, one word for rows whose keys equal no other key,
/// and [`NONE`].
const MOST: u64 = u64::MAX - 2;
/// The number of rows that a task processes.
pub(crate) const CHUNK: usize = 1 << 16;

/// Whether nulls are equal to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum NullEquality {
    /// A row with a null in its key does not match, as in SQL.
    #[default]
    NothingEquals,
    /// Null equals null, as in `IS NOT DISTINCT FROM` and in pandas.
    NullEquals,
}

/// Words of one width.
#[derive(Debug)]
pub(crate) enum Words {
    Narrow(ScalarBuffer<u32>),
    Wide(ScalarBuffer<u64>),
}

/// A width of words.
pub(crate) trait Width: ArrowNativeType {
    /// Returns words of this width.
    fn of(words: Words) -> Option<ScalarBuffer<Self>>;
}

impl Width for u32 {
    fn of(words: Words) -> Option<ScalarBuffer<u32>> {
        match words {
            Words::Narrow(words) => Some(words),
            Words::Wide(_) => None,
        }
    }
}

impl Width for u64 {
    fn of(words: Words) -> Option<ScalarBuffer<u64>> {
        match words {
            Words::Wide(words) => Some(words),
            Words::Narrow(_) => None,
        }
    }
}

/// The words of keys.
pub(crate) enum Encoder {
    /// The buffer of the column.
    Own(Own),
    /// A code for each column of plain values.
    Packed(Packed),
}

impl Encoder {
    /// Encodes the right keys of a join, or keys to be grouped. If nulls are not equal, all rows that have one share a
    /// word that no key of either side has. Hashes of strings have `bits` bits.
    pub(crate) fn fit(device: &Any, keys: &Keys, nulls: NullEquality, bits: u32) -> Result<(Self, Words)> {
        let columns = all_leaves(keys)?;
        if let [column] = &columns[..]
            && let Some((own, words)) = Own::of(column)
        {
            return Ok((Encoder::Own(own), words));
        }
        let (packed, words) = Packed::fit(device, &columns, keys.len(), nulls, bits)?;
        Ok((Encoder::Packed(packed), words))
    }

    /// The words of left keys, for the right keys of [`fit`](Self::fit). Rows whose keys equal no right key share a
    /// word that no right row has.
    pub(crate) fn encode(&self, left: &Keys, right: &Keys) -> Result<Words> {
        let columns = left_leaves(left, right)?;
        match self {
            Encoder::Own(own) => Ok(own.encode(&columns[0])),
            Encoder::Packed(packed) => packed.encode(&columns),
        }
    }

    /// The word of rows that have a null, if nulls are not equal.
    pub(crate) fn null_word(&self) -> Option<u64> {
        match self {
            Encoder::Own(_) => None,
            Encoder::Packed(packed) => Some(packed.count + 1),
        }
    }
}

/// The number of bits of the hashes of strings: fewer than 64 only in tests of collisions.
pub(crate) fn hash_bits() -> u32 {
    static BITS: OnceLock<u32> = OnceLock::new();
    *BITS.get_or_init(|| {
        let named = std::env::var("KOEL_HASH_BITS").ok().and_then(|bits| bits.parse().ok());
        named.filter(|bits| (1..=64).contains(bits)).unwrap_or(64)
    })
}

pub(crate) fn all_leaves(keys: &Keys) -> Result<Vec<Leaf>> {
    let mut all = Vec::new();
    for column in keys.columns() {
        all.extend(leaves(column.name(), column.data_type(), column.chunks())?);
    }
    Ok(all)
}

/// The columns of plain values of left keys, at the scales of the right ones.
pub(crate) fn left_leaves(left: &Keys, right: &Keys) -> Result<Vec<Leaf>> {
    let mut columns = Vec::new();
    for (left, right) in left.columns().iter().zip(right.columns()) {
        if !can_be_equal(left.data_type(), right.data_type()) {
            columns.extend(nulls_like(left, right.data_type())?);
            continue;
        }
        let scales = scales(right.name(), right.data_type())?;
        let leaves = leaves(left.name(), left.data_type(), left.chunks())?;
        columns.extend(leaves.iter().zip(scales).map(|(leaf, scale)| leaf.at_scale(scale)));
    }
    Ok(columns)
}

/// Words combined from several columns.
pub(crate) struct Packed {
    parts: Vec<Part>,
    /// The number of words.
    count: u64,
}

/// The part of the words that encodes a column.
enum Part {
    Whole(Box<Step>),
    /// Codes for the upper bits of each value and for this number of lower bits.
    Halves(u32, Box<[Part; 2]>),
}

struct Step {
    coder: Coder,
    /// The code of null, if nulls are equal.
    null: Option<u64>,
    /// The number of codes.
    codes: u64,
    /// Renumbers the words so far, if the product would exceed 64 bits.
    before: Option<Finder>,
    /// Renumbers the column's own codes, if the product would still exceed 64 bits.
    own: Option<Finder>,
}

enum Coder {
    /// Codes of values are their distances from the least value.
    Range {
        least: i128,
        values: u64,
    },
    Strings(Box<StringNumbers>),
}

/// The words of the columns encoded so far.
struct Making {
    words: Option<Vec<u64>>,
    /// Words of 32 bits, if the key is a single column whose codes fit.
    narrow: Option<Vec<u32>>,
    count: u64,
}

/// The parameters for encoding the right side.
#[derive(Clone, Copy)]
struct Fit<'a> {
    device: &'a Any,
    rows: u64,
    nulls: NullEquality,
    bits: u32,
    /// Whether this is the only column.
    is_alone: bool,
}

impl Packed {
    fn fit(device: &Any, columns: &[Leaf], rows: usize, nulls: NullEquality, bits: u32) -> Result<(Self, Words)> {
        // The number is 1 if there are no rows, so that products are not 0.
        let fit = Fit { device, rows: rows.max(1) as u64, nulls, bits, is_alone: columns.len() == 1 };
        let mut making = Making { words: None, narrow: None, count: 1 };
        let parts = columns.iter().map(|column| fit.part(column, &mut making)).collect::<Result<_>>()?;
        let Making { words, narrow, count } = making;
        let words = match narrow {
            Some(words) => Words::Narrow(words.into()),
            None => finished(words.unwrap_or_default(), count, count + 1),
        };
        Ok((Packed { parts, count }, words))
    }

    fn encode(&self, columns: &[Leaf]) -> Result<Words> {
        if let ([Part::Whole(step)], [column]) = (&self.parts[..], columns)
            && let Some(words) = step.narrow(column, self.count, self.count)
        {
            return Ok(Words::Narrow(words.into()));
        }
        let mut words = None;
        for (part, column) in self.parts.iter().zip(columns) {
            part.add_to(column, &mut words)?;
        }
        Ok(finished(words.unwrap_or_default(), self.count, self.count))
    }
}

impl Fit<'_> {
    fn part(&self, column: &Leaf, making: &mut Making) -> Result<Part> {
        if column.is_bytes() {
            let (numbers, of) = StringNumbers::build(self.device, StringColumn::of(column)?, self.bits)?;
            let values = of.len() as u64;
            return self.step(column, Coder::Strings(numbers.into()), values, Some(of), making);
        }
        let (least, values) = range(column);
        match u64::try_from(values) {
            Ok(values) if values < MOST => self.step(column, Coder::Range { least, values }, values, None, making),
            _ => {
                let bits = column.half_bits();
                let [upper, lower] = column.halves(bits);
                let half = Fit { is_alone: false, ..*self };
                Ok(Part::Halves(bits, Box::new([half.part(&upper, making)?, half.part(&lower, making)?])))
            }
        }
    }

    fn step(
        &self,
        column: &Leaf,
        coder: Coder,
        values: u64,
        // The number of each string.
        known: Option<Vec<u32>>,
        making: &mut Making,
    ) -> Result<Part> {
        let null = (self.nulls == NullEquality::NullEquals && column.has_nulls()).then_some(values);
        let codes = (values + u64::from(null.is_some())).max(1);
        let mut step = Step { coder, null, codes, before: None, own: None };
        if self.is_alone
            && let Some(words) = step.narrow(column, codes, codes + 1)
        {
            *making = Making { words: None, narrow: Some(words), count: codes };
            return Ok(Part::Whole(Box::new(step)));
        }
        let mut own = match (&step.coder, known) {
            (Coder::Strings(numbers), Some(of)) => step.codes_of_strings(column, numbers.strings(), &of),
            _ => step.codes_of(column)?,
        };
        let Some(mut words) = making.words.take() else {
            *making = Making { words: Some(own), narrow: None, count: step.codes };
            return Ok(Part::Whole(Box::new(step)));
        };
        if making.count.checked_mul(step.codes).is_none_or(|count| count > MOST) && making.count > self.rows {
            step.before = Some(self.numbered(&mut words)?);
            making.count = self.rows;
        }
        if making.count.checked_mul(step.codes).is_none_or(|count| count > MOST) {
            step.own = Some(self.numbered(&mut own)?);
            step.codes = self.rows;
        }
        combine(&mut words, &own, step.codes);
        *making = Making { words: Some(words), narrow: None, count: making.count * step.codes };
        Ok(Part::Whole(Box::new(step)))
    }

    /// Replaces each word by the number of the first row that has it.
    fn numbered(&self, words: &mut [u64]) -> Result<Finder> {
        let (finder, first_occurrences) = Finder::build(self.device, words)?;
        put_numbers(words, &first_occurrences);
        Ok(finder)
    }
}

impl Part {
    fn add_to(&self, column: &Leaf, words: &mut Option<Vec<u64>>) -> Result<()> {
        let step = match self {
            Part::Whole(step) => step,
            Part::Halves(bits, halves) => {
                let columns = column.halves(*bits);
                return halves.iter().zip(&columns).try_for_each(|(half, column)| half.add_to(column, words));
            }
        };
        let mut codes = step.codes_of(column)?;
        if let Some(own) = &step.own {
            let found = own.find(&codes)?;
            put_numbers(&mut codes, &found);
        }
        match words {
            None => *words = Some(codes),
            Some(words) => {
                if let Some(before) = &step.before {
                    let found = before.find(words)?;
                    put_numbers(words, &found);
                }
                combine(words, &codes, step.codes);
            }
        }
        Ok(())
    }
}

impl Step {
    /// The code of each row, or [`NONE`].
    fn codes_of(&self, column: &Leaf) -> Result<Vec<u64>> {
        match &self.coder {
            Coder::Range { least, values } => Ok(self.distances(column, *least, *values, |code| code)),
            Coder::Strings(numbers) => {
                let strings = StringColumn::of(column)?;
                let of = numbers.find(&strings)?;
                Ok(self.codes_of_strings(column, &strings, &of))
            }
        }
    }

    /// The codes as words of 32 bits, if `count` of them fit and they need no renumbering: this avoids a copy of 64
    /// bits. `none` replaces [`NONE`].
    fn narrow(&self, column: &Leaf, count: u64, none: u64) -> Option<Vec<u32>> {
        match (&self.coder, &self.own) {
            (Coder::Range { least, values }, None) if is_narrow(count) => {
                let word = |code| if code == NONE { none as u32 } else { code as u32 };
                Some(self.distances(column, *least, *values, word))
            }
            _ => None,
        }
    }

    /// The word of each row, from its code: its distance from the least value, or [`NONE`].
    fn distances<W: Copy + Default + Send + Sync>(
        &self,
        column: &Leaf,
        least: i128,
        values: u64,
        word: impl Fn(u64) -> W + Sync,
    ) -> Vec<W> {
        let null = word(self.null.unwrap_or(NONE));
        column.written(|piece, row, to| {
            let piece = &column.pieces[piece];
            with_values!(&piece.values, |all| put_distances(&all[row..], least, values, &word, to), |_bytes| ());
            piece.replace_nulls(row, to, null);
        })
    }

    /// The code of each row, from the number of its string.
    fn codes_of_strings(&self, column: &Leaf, strings: &StringColumn, of: &[u32]) -> Vec<u64> {
        let null = self.null.unwrap_or(NONE);
        strings.by_row(column, of, null, |number| if number == NO_ROW { NONE } else { number.into() })
    }
}

#[inline]
fn put_distances<T: Fixed, W>(all: &[T], least: i128, values: u64, word: impl Fn(u64) -> W, to: &mut [W]) {
    for (to, value) in to.iter_mut().zip(all) {
        let distance = T::widen(value.whole()).wrapping_sub(least) as u128;
        *to = word(if distance < values.into() { distance as u64 } else { NONE });
    }
}

/// Replaces each word by its number, or by [`NONE`] if it has none.
fn put_numbers(words: &mut [u64], numbers: &[u32]) {
    words.par_chunks_mut(CHUNK).zip(numbers.par_chunks(CHUNK)).for_each(|(words, numbers)| {
        for (word, &number) in words.iter_mut().zip(numbers) {
            *word = if *word == NONE || number == NO_ROW { NONE } else { number.into() };
        }
    });
}

/// Combines each word with a further code, one of `count`.
fn combine(words: &mut [u64], codes: &[u64], count: u64) {
    words.par_chunks_mut(CHUNK).zip(codes.par_chunks(CHUNK)).for_each(|(words, codes)| {
        for (word, &code) in words.iter_mut().zip(codes) {
            *word = if *word == NONE || code == NONE { NONE } else { *word * count + code };
        }
    });
}

/// The words in 32 bits if they fit; `none` replaces [`NONE`].
fn finished(mut words: Vec<u64>, count: u64, none: u64) -> Words {
    if is_narrow(count) {
        let narrow = |word| if word == NONE { none as u32 } else { word as u32 };
        return Words::Narrow(mapped(&words, narrow).into());
    }
    words.par_chunks_mut(CHUNK).for_each(|words| {
        words.iter_mut().filter(|word| **word == NONE).for_each(|word| *word = none);
    });
    Words::Wide(words.into())
}

/// Whether `count` words, and one more for rows whose keys equal no other key, fit in 32 bits.
fn is_narrow(count: u64) -> bool {
    count < u64::from(u32::MAX)
}

/// The least value of a column, and the number of values from it to the greatest one.
pub(crate) fn range(column: &Leaf) -> (i128, u128) {
    let of_pieces =
        column.pieces.iter().filter_map(|piece| with_values!(&piece.values, |all| ends(all, piece), |_b| None));
    let ends = of_pieces.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
    ends.map_or((0, 0), |(least, greatest)| {
        let between = greatest.wrapping_sub(least) as u128;
        (least, between.saturating_add(1))
    })
}

/// The least and the greatest value that is not null.
fn ends<T: Fixed>(all: &[T], piece: &Piece) -> Option<(i128, i128)> {
    let widest =
        |ends: Option<(T::Whole, T::Whole)>| ends.map(|(least, greatest)| (T::widen(least), T::widen(greatest)));
    let both = |a: (T::Whole, T::Whole), b: (T::Whole, T::Whole)| (a.0.min(b.0), a.1.max(b.1));
    match piece.nulls.as_ref().filter(|nulls| nulls.null_count() > 0) {
        None => widest(
            all.par_chunks(CHUNK)
                .filter_map(|all| all.iter().map(|value| (value.whole(), value.whole())).reduce(both))
                .reduce_with(both),
        ),
        Some(nulls) => widest(nulls.valid_indices().map(|i| (all[i].whole(), all[i].whole())).reduce(both)),
    }
}
