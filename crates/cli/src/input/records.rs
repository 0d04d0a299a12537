//! Rows of CSV and TSV in memory, split by the parser of tables (`tables::read::csv::fields`).

use std::borrow::Cow;

use super::Name;
use crate::failure::{Failure, Result};
use crate::number::{Number, digits};
use crate::tables::read::csv::fields::{self, Dialect, Field};
use crate::tables::read::csv::{LONGEST, TOO_LONG};

/// Rows of a part of a file, one after the other.
pub(super) struct Records<'a> {
    text: &'a [u8],
    /// Where the next row begins.
    at: usize,
    /// The line on which the text begins.
    line: u64,
    dialect: Dialect<'static>,
}

/// One row.
pub(super) struct Record<'a> {
    fields: Vec<Field<'a>>,
    /// Where it begins.
    at: usize,
    rows: Records<'a>,
}

impl<'a> Records<'a> {
    /// Of a text of whole rows that begins with this line of a file.
    pub(super) fn new(text: &'a [u8], delimiter: u8, line: u64) -> Records<'a> {
        Records { text, at: 0, line, dialect: Dialect { delimiter, has_quotes: true, nulls: &[] } }
    }

    /// The line of a place in the text.
    fn line_at(&self, at: usize) -> u64 {
        self.line + memchr::memchr_iter(b'\n', &self.text[..at]).count() as u64
    }

    /// The line after the last row.
    pub(super) fn last_line(&self) -> u64 {
        self.line_at(self.text.len())
    }

    /// The number, or the two numbers, of the next row, if it is a line of nothing else. [`Records::pass`] steps over
    /// it; until then it is the next one.
    #[inline]
    pub(super) fn plain(&self, columns: usize) -> Option<Plain> {
        Plain::of(&self.text[self.at..], columns, self.dialect.delimiter)
    }

    /// Steps over a row.
    #[inline]
    pub(super) fn pass(&mut self, row: &Plain) {
        self.at += row.bytes;
    }

    /// The next row; empty lines are skipped.
    pub(super) fn next(&mut self, name: &Name) -> Result<Option<Record<'a>>> {
        loop {
            match &self.text[self.at..] {
                [] => return Ok(None),
                [b'\n', ..] => self.at += 1,
                [b'\r', b'\n', ..] => self.at += 2,
                _ => break,
            }
        }
        let at = self.at;
        let row = fields::row(self.text, at, self.dialect);
        let (fields, next) = row.map_err(|(at, reason)| name.at(self.line_at(at), reason))?;
        if next - at > LONGEST {
            return Err(too_long(name, self.line_at(at)));
        }
        self.at = next;
        Ok(Some(Record { fields, at, rows: Records { ..*self } }))
    }
}

/// The error on a row that is longer than rows may be, and begins on this line.
pub(super) fn too_long(name: &Name, line: u64) -> Failure {
    name.at(line, TOO_LONG)
}

impl<'a> Record<'a> {
    /// Columns.
    pub(super) fn len(&self) -> usize {
        self.fields.len()
    }

    /// A field, without blank space around it.
    pub(super) fn field(&self, i: usize) -> Cow<'a, [u8]> {
        match self.fields[i].text() {
            Cow::Borrowed(text) => Cow::Borrowed(text.trim_ascii()),
            Cow::Owned(text) => Cow::Owned(text.trim_ascii().to_vec()),
        }
    }

    /// All fields.
    pub(super) fn fields(&self) -> impl Iterator<Item = Cow<'a, [u8]>> {
        (0..self.len()).map(|i| self.field(i))
    }

    /// The line on which a field begins.
    pub(super) fn line(&self, i: usize) -> u64 {
        let Records { text, dialect, .. } = self.rows;
        // The row was split before.
        let next = |at, _| fields::field(text, at, dialect).map_or(at, |(.., next)| next);
        self.rows.line_at((0..i).fold(self.at, next))
    }
}

/// A line of one number or two, as most rows are.
pub(super) struct Plain {
    pub(super) first: Number,
    pub(super) second: Number,
    /// Its bytes, with the line end.
    bytes: usize,
}

impl Plain {
    /// The one at the start of a text, of one column or of two.
    #[inline]
    fn of(text: &[u8], columns: usize, delimiter: u8) -> Option<Plain> {
        let (first, mut at) = number(text)?;
        let mut second = 0;
        if columns == 2 {
            if text.get(at) != Some(&delimiter) {
                return None;
            }
            let (number, length) = number(&text[at + 1..])?;
            second = number;
            at += 1 + length;
        }
        let end = match text.get(at..)? {
            [b'\n', ..] => 1,
            [b'\r', b'\n', ..] => 2,
            _ => return None,
        };
        Some(Plain { first, second, bytes: at + end })
    }
}

/// The whole number at the start, of at most 19 digits, and its bytes.
#[inline]
fn number(text: &[u8]) -> Option<(Number, usize)> {
    let is_negative = text.first() == Some(&b'-');
    let sign = usize::from(is_negative);
    let (number, digits) = digits::leading(&text[sign..])?;
    // Some commands refuse leading zeros.
    if digits > 1 && text[sign] == b'0' {
        return None;
    }
    let number = if is_negative { -Number::from(number) } else { number.into() };
    (digits > 0 && number >= Number::from(i64::MIN)).then_some((number, sign + digits))
}
