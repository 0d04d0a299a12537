//! Rows of CSV and TSV, each of them bounded.
//!
//! `csv_core` tells where fields end; what is held of a file is one row. A row longer than [`ROW`], as an endless line
//! or a quote that nothing closes would be, is an error and not a large allocation. A byte order mark is no part of the
//! first field.

use std::io::{self, BufRead};

use csv_core::{ReadRecordResult, ReaderBuilder, Terminator};

use super::Name;
use crate::failure::{Failure, Result};
use crate::number::{Number, digits};

/// The most bytes of a row, without its quotes and separators.
pub(super) const ROW: usize = 1 << 20;

/// The most columns.
const COLUMNS: usize = 1 << 16;

/// Bytes and columns of a row for which there is room at first.
const ROOM: usize = 4 << 10;

/// A reader of rows.
pub(super) struct Records<R> {
    reader: R,
    core: csv_core::Reader,
    delimiter: u8,
    /// The fields of a row, one after the other.
    text: Vec<u8>,
    /// Where each ends.
    ends: Vec<usize>,
}

/// One row.
pub(super) struct Record<'a> {
    text: &'a [u8],
    ends: &'a [usize],
    /// The line on which it begins.
    first_line: u64,
}

/// Makes room for four times as many, or for `most`; or says that memory is not enough.
fn grow<T: Copy + Default>(buffer: &mut Vec<T>, most: usize) -> Result<()> {
    let len = most.min(4 * buffer.len().max(ROOM / 4));
    let bytes = (len * size_of::<T>()) as u64;
    buffer
        .try_reserve_exact(len - buffer.len())
        .map_err(|_| koel::Error::OutOfMemory { device: "cpu".into(), bytes })?;
    buffer.resize(len, T::default());
    Ok(())
}

impl<R: BufRead> Records<R> {
    pub(super) fn new(reader: R, delimiter: u8) -> Result<Records<R>> {
        // A carriage return is blank space like any other, and goes with the trimming.
        let core = ReaderBuilder::new().delimiter(delimiter).terminator(Terminator::Any(b'\n')).build();
        let (mut text, mut ends) = (Vec::new(), Vec::new());
        grow(&mut text, ROW)?;
        grow(&mut ends, COLUMNS)?;
        Ok(Records { reader, core, delimiter, text, ends })
    }

    /// Of a text that is a part of a file and begins with this line of it, and with no byte order mark.
    pub(super) fn of_part(reader: R, delimiter: u8, line: u64) -> Result<Records<R>> {
        let mut rows = Records::new(reader, delimiter)?;
        // A reader looks for a mark once.
        let _ = rows.core.read_record(b"\n", &mut rows.text, &mut rows.ends);
        rows.core.set_line(line);
        Ok(rows)
    }

    /// The line on which the next row begins, if none is blank.
    pub(super) fn line(&self) -> u64 {
        self.core.line()
    }

    /// The number, or the two numbers, of the next row, where it is a line of nothing else and is at hand.
    /// [`Records::pass`] steps over it; until then it is the next one.
    #[inline]
    pub(super) fn plain(&mut self, columns: usize) -> io::Result<Option<Plain>> {
        let text = self.reader.fill_buf()?;
        Ok(Plain::of(text, columns, self.delimiter))
    }

    /// Steps over a row.
    #[inline]
    pub(super) fn pass(&mut self, row: &Plain) {
        self.reader.consume(row.bytes);
        self.core.set_line(self.core.line() + 1);
    }

    /// The next row; lines without a byte are none.
    pub(super) fn next(&mut self, name: &Name) -> Result<Option<Record<'_>>> {
        let (mut length, mut fields) = (0, 0);
        loop {
            let input = self.reader.fill_buf().map_err(|error| name.io(&error))?;
            // A last row without a line break is ended by one. It would not end a quote.
            let at_end = input.is_empty();
            let line = self.core.line();
            let input = if at_end { &b"\n"[..] } else { input };
            let (result, read, written, ended) =
                self.core.read_record(input, &mut self.text[length..], &mut self.ends[fields..]);
            if !at_end {
                self.reader.consume(read);
            }
            length += written;
            fields += ended;
            match result {
                ReadRecordResult::Record => break,
                ReadRecordResult::End => return Ok(None),
                ReadRecordResult::InputEmpty if at_end && length == 0 && fields == 0 => {
                    self.core.set_line(line);
                    return Ok(None);
                }
                ReadRecordResult::InputEmpty if at_end => return Err(self.open_quote(name, length, fields)),
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::OutputFull if self.text.len() < ROW => grow(&mut self.text, ROW)?,
                ReadRecordResult::OutputEndsFull if self.ends.len() < COLUMNS => grow(&mut self.ends, COLUMNS)?,
                ReadRecordResult::OutputFull | ReadRecordResult::OutputEndsFull => {
                    return Err(self.too_long(name, length, fields));
                }
            }
        }
        let (text, ends) = (&self.text[..length], &self.ends[..fields]);
        // The reader stands behind this row's line break; the others are inside its quotes.
        Ok(Some(Record { text, ends, first_line: self.core.line() - 1 - line_breaks(text) }))
    }

    /// The line on which the last field of a row begins that has not ended.
    fn line_of_last_field(&self, length: usize, fields: usize) -> u64 {
        let start = fields.checked_sub(1).map_or(0, |last| self.ends[last]);
        self.core.line() - line_breaks(&self.text[start..length])
    }

    fn open_quote(&self, name: &Name, length: usize, fields: usize) -> Failure {
        name.at(
            self.line_of_last_field(length, fields),
            "the quote that opens here is never closed: close or remove it",
        )
    }

    fn too_long(&self, name: &Name, length: usize, fields: usize) -> Failure {
        let line = self.line_of_last_field(length, fields);
        if self.core.line() > line {
            return name
                .at(line, format!("the quote that opens here is not closed within {ROW} bytes: close or remove it"));
        }
        let advice = "is this text in lines, a row each?";
        name.at(line, format!("this row is longer than {ROW} bytes, or has more than {COLUMNS} columns: {advice}"))
    }
}

impl Record<'_> {
    /// Columns.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// A field, without blank space around it.
    pub(super) fn field(&self, i: usize) -> &[u8] {
        self.text[self.start(i)..self.ends[i]].trim_ascii()
    }

    /// All fields.
    pub(super) fn fields(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).map(|i| self.field(i))
    }

    /// The line on which a field begins.
    pub(super) fn line(&self, i: usize) -> u64 {
        self.first_line + line_breaks(&self.text[..self.start(i)])
    }

    fn start(&self, i: usize) -> usize {
        if i == 0 { 0 } else { self.ends[i - 1] }
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

/// The whole number in front, of at most 19 digits, and its bytes.
#[inline]
fn number(text: &[u8]) -> Option<(Number, usize)> {
    let is_negative = text.first() == Some(&b'-');
    let sign = usize::from(is_negative);
    let (number, digits) = digits::leading(&text[sign..])?;
    // Some commands refuse zeros in front.
    if digits > 1 && text[sign] == b'0' {
        return None;
    }
    let number = if is_negative { -Number::from(number) } else { number.into() };
    (digits > 0 && number >= Number::from(i64::MIN)).then_some((number, sign + digits))
}

fn line_breaks(text: &[u8]) -> u64 {
    text.iter().filter(|&&byte| byte == b'\n').count() as u64
}

#[cfg(test)]
mod tests {
    use std::io::{self, BufReader, Read};

    use super::*;

    fn error(reader: impl Read) -> String {
        let mut records = Records::new(BufReader::new(reader), b',').unwrap_or_else(|failure| panic!("{failure}"));
        let name = Name("x.csv".into());
        loop {
            match records.next(&name) {
                Ok(Some(_)) => {}
                Ok(None) => return "no error".into(),
                Err(failure) => return failure.to_string(),
            }
        }
    }

    #[test]
    fn fields_know_their_lines() {
        let text = &b"\n1,\"a\nb\",3\n\n 4 ,5"[..];
        let mut records = Records::new(text, b',').unwrap_or_else(|failure| panic!("{failure}"));
        let name = Name("x.csv".into());
        let row = records.next(&name).ok().flatten().expect("a row");
        assert_eq!(row.fields().collect::<Vec<_>>(), [&b"1"[..], b"a\nb", b"3"]);
        assert_eq!([row.line(0), row.line(1), row.line(2)], [2, 2, 3]);
        let row = records.next(&name).ok().flatten().expect("a row");
        assert_eq!(row.fields().collect::<Vec<_>>(), [b"4", b"5"]);
        assert_eq!(row.line(0), 5);
        assert!(records.next(&name).is_ok_and(|row| row.is_none()));
        assert!(records.next(&name).is_ok_and(|row| row.is_none()), "the end stays the end");
    }

    #[test]
    fn open_quotes_are_reported_where_they_open() {
        for (text, line) in
            [("\"", 1), ("1,2\n3,\"4\n5,6\n7,8\n", 2), ("1,2\n\"3\n4\",\"5", 3), ("1,2\n\n\"3,4", 3), ("1,\"", 1)]
        {
            let error = error(text.as_bytes());
            assert!(error.starts_with(&format!("x.csv, line {line}: the quote")), "{text:?}: {error}");
        }
        assert_eq!(error(&b"1,\"2\"\n\"3\",\"\"\"\""[..]), "no error");
    }

    #[test]
    fn endless_rows_are_refused() {
        // Readers that never end: if a row were held whole, these would not either.
        let endless = |start: &'static str, byte| start.as_bytes().chain(io::repeat(byte));
        for (reader, part) in [
            (endless("1,2\n", b'7'), "line 2: this row is longer"),
            (endless("1,2\n", b','), "line 2: this row is longer"),
            (endless("1,2\n3,\"4\n", b'5'), "line 2: the quote"),
            (endless("1,2\n3,\"4", b'\n'), "line 2: the quote"),
            (endless("1,2\n", b' '), "line 2: this row is longer"),
        ] {
            let error = error(reader);
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn rows_up_to_the_bound_are_read() {
        let reader = BufReader::new(io::repeat(b'1').take(ROW as u64 - 1));
        let mut records = Records::new(reader, b',').unwrap_or_else(|failure| panic!("{failure}"));
        let row = records.next(&Name("x.csv".into())).ok().flatten().expect("a row");
        assert_eq!(row.field(0).len(), ROW - 1);
    }
}
