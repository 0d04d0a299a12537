//! Groups by key columns that fit in one word of 64 bits together.
//!
//! ```text
//! each column is a code  0: null
//!   numbers              1 + the distance from a base (codes.rs)
//!   texts                1, 2, .. in order of first occurrence (texts.rs)
//! the word               the columns' codes next to each other, each in as many bits as it has needed so far
//! longer codes           the words of all groups are rewritten; the range at least doubles each time, so this is rare
//! the group              the number of the word (table.rs); its key is decoded from the word
//! ```
//!
//! If each column has few values, words are small, whatever the types; and the number of a small word is stored at the
//! index that equals the word. `GROUP BY l_returnflag, l_linestatus` has words of four bits.
//!
//! Keys of more than 64 bits, or of more than 4,096 texts, are grouped by rows instead (groups.rs).

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, UInt32Array};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::{Field, SchemaRef};
use datafusion::error::Result;

use super::codes;
use super::table::Table;
use super::texts::Texts;

/// Groups by words.
pub(super) struct Words {
    parts: Vec<Part>,
    table: Table,
    schema: SchemaRef,
    /// The number of rows so far.
    rows: u64,
    /// Codes and words of the current batch.
    codes: Vec<Vec<u64>>,
    words: Vec<u64>,
}

/// A column's part of words.
struct Part {
    of: Of,
    at: Bits,
}

enum Of {
    /// The least and the greatest number so far.
    Numbers(Option<(u64, u64)>),
    Texts(Texts),
}

/// A position in words, and the value of code 1.
#[derive(Clone, Copy, Default, PartialEq)]
struct Bits {
    shift: u32,
    bits: u32,
    base: u64,
}

impl Bits {
    fn mask(self) -> u64 {
        low(self.bits)
    }

    /// A code as part of a word. A part of 0 bits may begin past the end of the word.
    #[inline]
    fn put(self, code: u64) -> u64 {
        code << self.shift.min(63)
    }

    #[inline]
    fn get(self, word: u64) -> u64 {
        word >> self.shift.min(63) & self.mask()
    }
}

/// A mask of the lowest bits.
fn low(bits: u32) -> u64 {
    u64::MAX.checked_shr(64 - bits.min(64)).unwrap_or(0)
}

/// The number of bits of a number.
fn bits_of(number: u64) -> u32 {
    64 - number.leading_zeros()
}

impl Words {
    /// Groups for keys of this schema, if all types are supported. A single text column is not: DataFusion groups it in
    /// one step.
    pub(super) fn new(schema: &SchemaRef) -> Option<Self> {
        if let [one] = &schema.fields()[..]
            && Texts::takes(one.data_type())
        {
            return None;
        }
        let part = |of| Part { of, at: Bits::default() };
        let parts = schema.fields().iter().map(|field| match field.data_type() {
            of if Texts::takes(of) => Some(part(Of::Texts(Texts::new()))),
            of if codes::takes(of) => Some(part(Of::Numbers(None))),
            _ => None,
        });
        let parts: Vec<Part> = parts.collect::<Option<_>>()?;
        let codes = vec![Vec::new(); parts.len()];
        Some(Words { parts, table: Table::new(), schema: schema.clone(), rows: 0, codes, words: Vec::new() })
    }

    /// The number of groups.
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    /// The memory in bytes.
    pub(super) fn size(&self) -> usize {
        let texts = self.parts.iter().map(|part| match &part.of {
            Of::Texts(texts) => texts.size(),
            Of::Numbers(_) => 0,
        });
        let batch: usize =
            self.codes.iter().chain([&self.words]).map(|words| words.capacity() * size_of::<u64>()).sum();
        self.table.size() + texts.sum::<usize>() + batch
    }

    /// The keys of the groups, decoded from their words.
    pub(super) fn keys(&self) -> Result<Vec<ArrayRef>> {
        let key = |(part, field): (&Part, &Arc<Field>)| {
            let codes = || self.table.words().iter().map(|&word| part.at.get(word));
            let nulls = codes().any(|code| code == 0).then(|| NullBuffer::from_iter(codes().map(|code| code != 0)));
            match &part.of {
                Of::Numbers(_) => {
                    let value = |code: u64| if code == 0 { 0 } else { code.wrapping_sub(1).wrapping_add(part.at.base) };
                    codes::restored(field.data_type(), &codes().map(value).collect::<Vec<_>>(), nulls)
                }
                Of::Texts(texts) => {
                    let rows: Vec<u32> = codes().map(|code| code.saturating_sub(1) as u32).collect();
                    Ok(take(&texts.values(field.data_type())?, &UInt32Array::new(rows.into(), nulls), None)?)
                }
            }
        };
        self.parts.iter().zip(self.schema.fields()).map(key).collect()
    }

    /// The group of each row; returns false, without changes, if the keys do not fit.
    pub(super) fn number(&mut self, keys: &[ArrayRef], numbers: &mut Vec<usize>) -> Result<bool> {
        let rows = keys.first().map_or(0, |column| column.len());
        let Some(layout) = self.layout(keys) else { return Ok(false) };
        self.rows += rows as u64;
        let bits = layout.iter().map(|at| at.bits).sum();
        if self.parts.iter().zip(&layout).any(|(part, at)| part.at != *at) {
            let moves: Vec<_> = self.parts.iter().zip(&layout).map(|(part, at)| (part.at, *at)).collect();
            self.table
                .reword(bits, self.rows, |word| moves.iter().fold(0, |new, &(from, to)| new | moved(word, from, to)));
            self.parts.iter_mut().zip(layout).for_each(|(part, at)| part.at = at);
        } else {
            self.table.suit(bits, self.rows);
        }
        self.combine(keys, rows);
        self.table.number(&self.words, numbers)?;
        Ok(true)
    }

    /// The position of each column's code, including the values of the batch.
    fn layout(&mut self, keys: &[ArrayRef]) -> Option<Vec<Bits>> {
        let (mut layout, mut shift) = (Vec::with_capacity(keys.len()), 0);
        for ((part, column), codes) in self.parts.iter_mut().zip(keys).zip(&mut self.codes) {
            let at = match &mut part.of {
                Of::Numbers(known) => {
                    if !codes::number(column, codes) {
                        return None;
                    }
                    let came = codes::ends(column, codes);
                    let at = came.map_or(Some(part.at), |came| widened(part.at, *known, came))?;
                    *known = came.map(|came| known.map_or(came, |k| (k.0.min(came.0), k.1.max(came.1)))).or(*known);
                    at
                }
                Of::Texts(texts) => {
                    if !texts.code(column, codes) {
                        return None;
                    }
                    Bits { bits: bits_of(texts.len() as u64), ..part.at }
                }
            };
            layout.push(Bits { shift, ..at });
            shift += at.bits;
        }
        (shift <= 64).then_some(layout)
    }

    fn combine(&mut self, keys: &[ArrayRef], rows: usize) {
        self.words.clear();
        self.words.resize(rows, 0);
        for ((part, column), codes) in self.parts.iter().zip(keys).zip(&self.codes) {
            let words = self.words.iter_mut().zip(codes);
            let Bits { base, .. } = part.at;
            match (&part.of, column.nulls().filter(|nulls| nulls.null_count() > 0)) {
                (Of::Texts(_), _) => words.for_each(|(word, &code)| *word |= part.at.put(code)),
                (Of::Numbers(_), None) => {
                    words.for_each(|(word, &number)| *word |= part.at.put(number.wrapping_sub(base).wrapping_add(1)));
                }
                (Of::Numbers(_), Some(nulls)) => words.zip(nulls).for_each(|((word, &number), there)| {
                    let code = number.wrapping_sub(base).wrapping_add(1);
                    *word |= if there { part.at.put(code) } else { 0 };
                }),
            }
        }
    }
}

/// A group's code, moved to another position.
fn moved(word: u64, from: Bits, to: Bits) -> u64 {
    match from.get(word) {
        0 => 0,
        code => to.put(code.wrapping_add(from.base).wrapping_sub(to.base)),
    }
}

/// The position for the known and the new numbers; `None` if 64 bits do not suffice for them and a null.
fn widened(at: Bits, known: Option<(u64, u64)>, came: (u64, u64)) -> Option<Bits> {
    // The maximum distance from the base; the code is the distance plus 1, so that it is not 0.
    let most = |bits: u32| low(bits).saturating_sub(1);
    if at.bits > 0 && came.0 >= at.base && came.1 - at.base <= most(at.bits) {
        return Some(at);
    }
    let (least, greatest) = known.map_or(came, |known| (known.0.min(came.0), known.1.max(came.1)));
    let needed = bits_of((greatest - least).checked_add(1)?);
    // At least one bit more than before; otherwise a column that grows slowly would be rewritten each time.
    let bits = needed.max((at.bits + 1).min(64));
    let grows_down = known.is_some_and(|known| came.0 < known.0);
    let base = if grows_down { greatest.saturating_sub(most(bits)) } else { least };
    Some(Bits { bits, base, ..at })
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{AsArray, Int64Array, StringViewArray};
    use datafusion::arrow::datatypes::{DataType, Int64Type, Schema};

    use super::*;

    fn words(types: &[DataType]) -> Words {
        let field = |(i, of): (usize, &DataType)| Field::new(i.to_string(), of.clone(), true);
        let schema = Schema::new(types.iter().enumerate().map(field).collect::<Vec<_>>());
        Words::new(&Arc::new(schema)).expect("types of words")
    }

    #[test]
    fn keys_are_numbered_while_words_change() {
        let mut words = words(&[DataType::Int64, DataType::Utf8View]);
        let mut numbers = vec![];
        let mut known: Vec<(Option<i64>, Option<String>)> = vec![];
        for step in 0..40_i64 {
            // Numbers grow in both directions, and there are more texts.
            let value = |i: i64| if i % 5 == 0 { None } else { Some((i % 3 - 1) * (1 << step)) };
            let text = |i: i64| if i % 7 == 0 { None } else { Some(format!("text {}", i % (step + 2))) };
            let rows: Vec<_> = (0..50).map(|i| (value(i), text(i))).collect();
            let keys: [ArrayRef; 2] = [
                Arc::new(rows.iter().map(|row| row.0).collect::<Int64Array>()),
                Arc::new(rows.iter().map(|row| row.1.as_deref()).collect::<StringViewArray>()),
            ];
            assert!(words.number(&keys, &mut numbers).expect("keys"));
            for (row, number) in rows.into_iter().zip(&numbers) {
                if *number == known.len() {
                    known.push(row);
                } else {
                    assert_eq!(known[*number], row, "step {step}");
                }
            }
        }
        let keys = words.keys().expect("keys");
        assert_eq!(
            keys[0].as_primitive::<Int64Type>().iter().collect::<Vec<_>>(),
            known.iter().map(|k| k.0).collect::<Vec<_>>()
        );
        let texts: Vec<_> = known.iter().map(|key| key.1.as_deref()).collect();
        assert_eq!(keys[1].as_string_view().iter().collect::<Vec<_>>(), texts);
        assert_eq!(words.len(), known.len());
    }

    #[test]
    fn keys_that_are_too_wide_are_reported() {
        let mut words = words(&[DataType::Int64]);
        let mut numbers = vec![];
        let mut fits =
            |values: &[i64]| words.number(&[Arc::new(Int64Array::from(values.to_vec()))], &mut numbers).expect("keys");
        assert!(fits(&[5]) && fits(&[i64::MAX]) && fits(&[i64::MIN + 2]));
        assert!(!fits(&[i64::MIN]));
        assert_eq!(words.len(), 3);
    }
}
