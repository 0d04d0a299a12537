//! CSV and TSV without named columns: rows `key,value`, or only keys, whose values are then their row numbers, from 0.
//!
//! ```text
//! blocks.rs   reads text, which may be a pipe, in blocks of whole rows
//! rules.rs    interprets fields: numbers, k-mers, doubles; detects headers
//! ```
//!
//! All threads parse the pieces of a block. A piece with an error, or with numbers that do not fit the type of those
//! before, is parsed once more with a check of each row. So the first invalid row is reported and the rows before it
//! are read, wherever the text is cut.

mod blocks;
mod rules;
#[cfg(test)]
mod tests;

use std::io::{self, BufRead};
use std::sync::Arc;

use memchr::memchr_iter;
use rayon::prelude::*;

use super::super::wanted;
use super::fields::{self, Dialect};
use super::piece::{self, Fault, Want};
use super::{LONGEST, TOO_LONG};
use crate::failure::{Failure, Result};
use crate::input::{Feed, Header, Name, Named, ReadOptions, Want as Wanted};
use crate::number::{Number, Words};
use blocks::Blocks;

/// Reads rows into a sink.
pub(crate) fn read(
    reader: impl BufRead,
    name: &Name,
    delimiter: u8,
    options: &ReadOptions,
    want: Wanted,
    feed: &mut Feed<'_>,
) -> Result<()> {
    feed.begin(name, Named::of(options, Named::default()))?;
    let has_doubles = feed.has_doubles();
    let mut text = Text { name, delimiter, options, want, has_doubles, wants: Vec::new(), supposed: None, names: None };
    let mut blocks = Blocks::new(reader, delimiter, options.text.piece);
    let mut line = 1;
    let failed = |error: io::Error, line| match error.kind() {
        io::ErrorKind::FileTooLarge => name.at(line, error),
        _ => name.io(&error),
    };
    while let Some(pieces) = blocks.next().map_err(|error| failed(error, line))? {
        line = text.pieces(&pieces, line, feed)?;
    }
    let Some(line) = text.supposed else { return Ok(()) };
    let advice = "give --header yes if it is a header of no rows, and numbers if it is a row";
    Err(name.at(line, format!("the only row has no number: {advice}{}", text.other_types())))
}

/// A text, and what its first row implies for the other rows.
struct Text<'a> {
    name: &'a Name,
    delimiter: u8,
    options: &'a ReadOptions,
    want: Wanted,
    has_doubles: bool,
    /// How each column is to be read; empty before the first row.
    wants: Vec<Want>,
    /// The line of the first row if it was detected as a header, until a row of numbers follows it.
    supposed: Option<u64>,
    /// The names of the columns, if the first row is a header, for messages.
    names: Option<Arc<str>>,
}

/// A piece of whole rows, the position of its first row, and whether that is the first row of the file.
#[derive(Clone, Copy)]
struct Part<'a> {
    piece: &'a [u8],
    start: usize,
    is_first: bool,
}

impl Text<'_> {
    fn dialect(&self) -> Dialect<'static> {
        Dialect { delimiter: self.delimiter, has_quotes: true, nulls: &[] }
    }

    /// Reads the pieces of a block whose first line has this number. Returns the number of the line after them.
    fn pieces(&mut self, pieces: &[&[u8]], mut line: u64, feed: &mut Feed<'_>) -> Result<u64> {
        let mut parts = Vec::with_capacity(pieces.len());
        let mut from = line;
        for &piece in pieces {
            let mut part = Part { piece, start: 0, is_first: false };
            if self.wants.is_empty() {
                (part.start, part.is_first) = self.first_row(piece, from)?;
                from += lines(piece);
            }
            parts.push(part);
        }
        let ahead: Vec<_> = parts.par_iter().map(|part| (self.ahead(part), lines(part.piece))).collect();
        for (part, (words, lines)) in parts.into_iter().zip(ahead) {
            let rows = words.map(|words| self.rows(words, feed)).transpose()?;
            match rows {
                Some((keys, values)) if feed.admit_all(&keys, &values) => self.push(keys, values, feed)?,
                _ => self.checked(part, line, feed)?,
            }
            line += lines;
        }
        Ok(line)
    }

    /// The numbers of a piece; `None` if one of its rows is invalid, whatever the other pieces contain.
    fn ahead(&self, part: &Part<'_>) -> Option<Vec<Words>> {
        let text = &part.piece[part.start..];
        let parse = &mut |column, field: &[u8]| self.number(column, field, None);
        let (words, fault) = piece::numbers(text, self.dialect(), &self.wants, parse);
        fault.is_none().then_some(words)
    }

    /// Reads a piece with a check of each row, up to the first invalid row.
    fn checked(&mut self, part: Part<'_>, line: u64, feed: &mut Feed<'_>) -> Result<()> {
        let text = &part.piece[part.start..];
        let slow = |&want: &Want| if want == Want::Nothing { want } else { Want::Number { is_plain: false } };
        let wants: Vec<_> = self.wants.iter().map(slow).collect();
        let parse = &mut |column, field: &[u8]| self.number(column, field, Some(feed));
        let (words, fault) = piece::numbers(text, self.dialect(), &wants, parse);
        let (keys, values) = self.rows(words, feed)?;
        let of_number = values.iter().find_map(|value| feed.admit_value(value).err());
        self.push(keys, values, feed)?;
        match (fault, of_number) {
            (Some(fault), _) => Err(self.to_failure(fault, part, line)),
            (None, Some(reason)) => Err(self.name.fail(format!("the row number {reason}"))),
            (None, None) => Ok(()),
        }
    }

    /// The keys, and the values or their substitutes.
    fn rows(&self, words: Vec<Words>, feed: &Feed<'_>) -> Result<(Words, Words)> {
        let mut words = words.into_iter();
        let keys = words.next().unwrap_or_default();
        let values = words.next().map_or_else(|| feed.missing_values(0..keys.len(), self.want), Ok);
        Ok((keys, values.map_err(|reason| self.name.fail(reason))?))
    }

    fn push(&mut self, keys: Words, values: Words, feed: &mut Feed<'_>) -> Result<()> {
        if keys.len() > 0 {
            self.supposed = None;
        }
        feed.push(keys, values)
    }

    /// Reads the first row, which determines the number of columns. Returns the position at which rows of numbers
    /// begin, and whether the first row is one of them instead of a header.
    fn first_row(&mut self, piece: &[u8], line: u64) -> Result<(usize, bool)> {
        let fail = |at: usize, what: &str| self.name.at(line + lines(&piece[..at]), what);
        let mut start = 0;
        let (fields, end) = loop {
            if start == piece.len() {
                return Ok((start, false));
            }
            let (fields, end) = fields::row(piece, start, self.dialect()).map_err(|(at, what)| fail(at, what))?;
            if end - start > LONGEST {
                return Err(fail(start, TOO_LONG));
            }
            let fields: Vec<_> = fields.iter().map(|field| field.text().trim_ascii().to_vec()).collect();
            // A line of white space is not a row; a line of delimiters is a row with missing fields.
            if fields.len() > 1 || !fields[0].is_empty() {
                break (fields, end);
            }
            start = end;
        };
        let header = self.options.header.unwrap_or_default();
        let is_header = match header {
            Header::Yes => true,
            Header::Auto => rules::names_columns(&fields, self.options.k_of_text()),
            Header::No => false,
        };
        if is_header {
            let names: Vec<_> = fields.iter().map(|field| String::from_utf8_lossy(field)).collect();
            self.names = Some(wanted::listed(&names.iter().map(AsRef::as_ref).collect::<Vec<_>>()).into());
        }
        let count = fields.len();
        if count > 2 && self.options.names_key.is_some() {
            let option = self.option();
            let (example, listed) = match &self.names {
                Some(names) => (String::new(), format!(". Columns: {names}")),
                None => (format!(", as in {option} column_1 --header no"), String::new()),
            };
            return Err(fail(
                start,
                &format!(
                    "this file has {count} columns: choose the key columns with {option}{example}. Without {option}, a \
                     file must have one column (keys) or two (keys and values){listed}"
                ),
            ));
        }
        if count > 2 && self.want == Wanted::Pairs {
            let cut = if self.delimiter == b',' { "," } else { "$'\\t'" };
            let advice =
                format!("name two of them by --key and --value, or give key and value, e.g. `cut -d{cut} -f1,2`");
            return Err(fail(start, &format!("there are {count} columns: {advice}")));
        }
        self.supposed = (is_header && header == Header::Auto).then(|| line + lines(&piece[..start]));
        self.wants = vec![Want::Nothing; count];
        self.wants[0] = Want::Number { is_plain: true };
        if count == 2 && self.want == Wanted::Pairs {
            self.wants[1] = Want::Number { is_plain: !self.has_doubles };
        }
        Ok(if is_header { (end, false) } else { (start, true) })
    }

    /// Converts a field to a key or a value.
    fn number(&self, column: usize, field: &[u8], feed: Option<&mut Feed<'_>>) -> std::result::Result<Number, String> {
        match column {
            0 => {
                let key = rules::key(field, self.options)?;
                feed.map_or(Ok(()), |feed| feed.admit_key(key)).map(|()| key)
            }
            _ if self.has_doubles => rules::double(field),
            _ => {
                let value = rules::number(field)
                    .and_then(|value| feed.map_or(Ok(()), |feed| feed.admit_value(value)).map(|()| value));
                value.map_err(|reason| if self.options.doubles { rules::of_doubles(field, reason) } else { reason })
            }
        }
    }

    fn to_failure(&self, fault: Fault, part: Part<'_>, line: u64) -> Failure {
        let at = part.start + fault.at;
        let line = line + lines(&part.piece[..at]);
        let Some(column) = fault.column else { return self.name.at(line, fault.what) };
        let mut what = format!("the {} {}", if column == 0 { "key" } else { "value" }, fault.what);
        let may_be_header = part.is_first && fault.at == 0 && self.options.header.unwrap_or_default() == Header::Auto;
        let field = fields::field(part.piece, at, self.dialect());
        let is_name = field.is_ok_and(|(field, ..)| !rules::looks_numeric(field.text().trim_ascii()));
        if may_be_header && is_name {
            what += "; if this row is a header, give --header yes";
        }
        self.name.at(line, what + &self.other_types())
    }

    fn option(&self) -> &'static str {
        self.options.names_key.unwrap_or("--key")
    }

    /// Advice for columns that need names.
    fn by_name(&self) -> String {
        let option = self.option();
        match &self.names {
            Some(names) => format!("name the columns of the key by {option}; there are {names}"),
            None => format!("name the columns of the key by {option}, as in {option} column_1 --header no"),
        }
    }

    /// The same advice to append to a message, for commands that take named columns.
    fn other_types(&self) -> String {
        match self.options.names_key {
            Some(_) => format!("; for columns of other types {}", self.by_name()),
            None => String::new(),
        }
    }
}

/// The number of line ends.
fn lines(text: &[u8]) -> u64 {
    memchr_iter(b'\n', text).count() as u64
}
