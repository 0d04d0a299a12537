//! Rows of CSV and TSV, each of them bounded.
//!
//! `csv_core` tells where fields end; what is held of a file is one row. A row longer than [`ROW`], as an endless line or
//! a quote that nothing closes would be, is an error and not a large allocation. A byte order mark is no part of the first
//! field.

use std::io::BufRead;

use csv_core::{ReadRecordResult, ReaderBuilder, Terminator};

use super::Name;
use crate::failure::{Failure, Result};

/// The most bytes of a row, without its quotes and separators.
pub(super) const ROW: usize = 1 << 20;

/// The most columns.
const COLUMNS: usize = 1 << 16;

/// A reader of rows.
pub(super) struct Records<R> {
    reader: R,
    core: csv_core::Reader,
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

/// So many zeros, or an error.
fn zeros<T: Copy + Default>(len: usize) -> Result<Vec<T>> {
    let mut room = Vec::new();
    let bytes = (len * size_of::<T>()) as u64;
    room.try_reserve_exact(len).map_err(|_| koel::Error::OutOfMemory { device: "cpu".into(), bytes })?;
    room.resize(len, T::default());
    Ok(room)
}

impl<R: BufRead> Records<R> {
    pub(super) fn new(reader: R, delimiter: u8) -> Result<Records<R>> {
        // A carriage return is blank space like any other, and goes with the trimming.
        let core = ReaderBuilder::new().delimiter(delimiter).terminator(Terminator::Any(b'\n')).build();
        Ok(Records { reader, core, text: zeros(ROW)?, ends: zeros(COLUMNS)? })
    }

    /// The next row; lines without a byte are none.
    pub(super) fn next(&mut self, name: &Name) -> Result<Option<Record<'_>>> {
        let (mut length, mut fields) = (0, 0);
        loop {
            let input = self.reader.fill_buf().map_err(|error| name.io(&error))?;
            // A last row without a line break is ended by one. It would not end a quote.
            let at_end = input.is_empty();
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
                ReadRecordResult::InputEmpty if at_end && length == 0 && fields == 0 => return Ok(None),
                ReadRecordResult::InputEmpty if at_end => return Err(self.open_quote(name, length, fields)),
                ReadRecordResult::InputEmpty => {}
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
