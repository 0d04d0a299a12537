//! CSV and TSV as columns (RFC 4180), parsed by all threads.
//!
//! ```text
//! cut.rs      cuts text into pieces of whole rows, respecting quotes
//! piece.rs    parses a piece into arrays, with types that fit it
//! column.rs   converts fields to an array             fields.rs   splits text into fields
//! pairs/      rows `key,value` without column names
//! stream.rs   finds the types first, then parses a few pieces at once, in order
//! typed.rs    converts columns of other formats to the types of --types
//! ```
//!
//! A column has a type that fits all of its fields in the whole file: pieces that were read with a narrower type are
//! read once more. An empty field is null, and a quoted empty field is an empty text. Rows end with LF or CR LF. Empty
//! lines are skipped, except in files with one column, where they are nulls.

mod column;
pub(super) mod cut;
mod fields;
pub(crate) mod pairs;
mod piece;
mod stream;
#[cfg(test)]
mod tests;
pub(super) mod typed;

pub(super) use stream::Survey;

use std::collections::{HashMap, HashSet};
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_array::{RecordBatch, new_null_array};
use arrow_schema::{Field, Schema, SchemaRef};
use bytes::Bytes;
use rayon::prelude::*;

use crate::failure::{Failure, Result};
use crate::input::{BYTE_ORDER_MARK, Header, Name};
use crate::text::name as shown;
use crate::{progress, tables};

use super::super::kinds::{Kind, Seen};
use super::super::options::Quote;
use super::super::{Table, TableReading};
use super::Data;
use super::text::{LEAST, LONGEST, MOST, Text};
use fields::Dialect;
use piece::{Fault, Piece, Want};

/// The most columns.
const COLUMNS: usize = 1 << 16;
pub(crate) const TOO_LONG: &str =
    "this row is longer than 16 MiB, the most that koel reads: is a quote never closed, or are there no line ends?";

/// A text file whose column names are known.
pub(super) struct Csv {
    data: Data,
    delimiter: u8,
    has_quotes: bool,
    /// Texts that are null, in addition to empty fields.
    nulls: Vec<String>,
    names: Vec<String>,
    /// The types that the user states.
    types: Vec<Option<Kind>>,
    /// The position of the first row.
    start: usize,
    /// The bytes of a piece, if a test sets them.
    size: Option<usize>,
}

impl Csv {
    pub(super) fn open(name: &Name, data: Data, head: &[u8], options: &TableReading) -> Result<Csv> {
        let mark = if head.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
        let line = head[mark..].split(|&byte| byte == b'\n').find(|line| !line.trim_ascii().is_empty());
        let Some(line) = line else {
            return Err(name.fail("the file is empty; it does not even have a header"));
        };
        let has_tabs = name.has_extension(&["tsv", "tab"]) || (line.contains(&b'\t') && !line.contains(&b','));
        let delimiter = options.text.delimiter.unwrap_or(if has_tabs { b'\t' } else { b',' });
        let has_quotes = options.text.quote != Some(Quote::None);
        // Texts that are nulls in a column may be names of columns.
        let dialect = Dialect { delimiter, has_quotes, nulls: &[] };
        let (first, next) = first_row(name, &data, head, mark, dialect)?;
        // A quoted name may contain CR LF.
        if first.iter().any(|field| field.replace("\r\n", "").contains('\r')) {
            return Err(name.fail("its lines end in CR alone: end them in LF, e.g. with `tr '\\r' '\\n'`"));
        }
        let has_header = match options.header.unwrap_or(Header::Yes) {
            Header::Yes => true,
            Header::No => false,
            Header::Auto => first.iter().all(|field| !field.is_empty() && Seen::of(field.as_bytes()) == Seen::TEXT),
        };
        let unnamed = |i: usize| format!("column_{}", i + 1);
        let names: Vec<String> = if has_header {
            let named = |(i, field): (usize, String)| if field.is_empty() { unnamed(i) } else { field };
            first.into_iter().enumerate().map(named).collect()
        } else {
            (0..first.len()).map(unnamed).collect()
        };
        // A named column may be missing in some of several files; commands check that at least one has it.
        let named: HashMap<&str, Kind> =
            options.text.types.iter().flat_map(|types| &types.0).map(|(name, kind)| (name.as_str(), *kind)).collect();
        let types = names.iter().map(|column| named.get(column.as_str()).copied()).collect();
        let (start, nulls) = (if has_header { next } else { mark }, options.text.null_values.clone());
        Ok(Csv { data, delimiter, has_quotes, nulls, names, types, start, size: options.text.piece })
    }

    fn dialect(&self) -> Dialect<'_> {
        Dialect { delimiter: self.delimiter, has_quotes: self.has_quotes, nulls: &self.nulls }
    }

    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    /// Reads columns as text, except these columns and those whose types the user stated.
    pub(super) fn keep_text(&mut self, except: &[String]) {
        let typed: HashSet<&String> = except.iter().collect();
        for (column, kind) in self.names.iter().zip(&mut self.types) {
            if !typed.contains(column) {
                kind.get_or_insert(Kind::Utf8);
            }
        }
    }

    pub(super) fn read(&self, name: &Name, places: &[usize]) -> Result<Table> {
        let wants = self.wants(places);
        let text = Text::of(&self.data).map_err(|error| name.io(&error))?;
        let (pieces, ranges) = self.pieces(&text, &wants).map_err(|stop| self.to_failure(name, &text, stop))?;
        // Finds the types that fit all pieces, and reads pieces with narrower types again.
        let mut seen = vec![Seen::default(); self.names.len()];
        pieces.iter().for_each(|piece| add(&mut seen, &piece.seen));
        let kinds = kinds(&wants, &seen);
        let pieces: Vec<_> = pieces
            .into_par_iter()
            .zip(&ranges)
            .map(|(piece, range)| {
                widened(piece, &kinds, |wants| {
                    let again = self.look(&text, range, |bytes| self.piece(range, bytes, wants))?;
                    // What was read before and what is read now must belong to the same version of the file.
                    self.data.check_unchanged()?;
                    Ok(again)
                })
            })
            .collect();
        let pieces = pieces.into_iter().collect::<std::result::Result<Vec<_>, _>>();
        let pieces = pieces.map_err(|stop| self.to_failure(name, &text, stop))?;
        let schema = self.schema(places, &kinds);
        let batches =
            pieces.into_iter().map(|piece| batch(name, &schema, places, piece)).collect::<Result<Vec<_>>>()?;
        Ok(Table::of(schema, batches))
    }

    /// How each column is to be read.
    fn wants(&self, places: &[usize]) -> Vec<Want> {
        let mut wants = vec![Want::Nothing; self.names.len()];
        places.iter().for_each(|&place| wants[place] = self.types[place].map_or(Want::Fitting, Want::Named));
        wants
    }

    fn schema(&self, places: &[usize], kinds: &[Kind]) -> SchemaRef {
        let fields = places.iter().map(|&place| Field::new(&self.names[place], kinds[place].data_type(), true));
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }

    /// All pieces, each with types that fit it, and their ranges. Most texts do not contain quotes, so each line is
    /// assumed to be a row, up to the piece with the first quote.
    fn pieces(&self, text: &Text<'_>, wants: &[Want]) -> std::result::Result<(Vec<Piece>, Vec<Range<usize>>), Stop> {
        let start = self.start.min(text.length());
        let size = (text.length() - start) / (4 * rayon::current_num_threads());
        let size = self.size.unwrap_or(size.clamp(LEAST, MOST));
        progress::bytes(text.length() as u64);
        let mut ranges = text.lines(start, size)?;
        // The first piece with a quote or an error: pieces after it are discarded.
        let last = AtomicUsize::new(usize::MAX);
        let found: Vec<_> = ranges
            .par_iter()
            .enumerate()
            .map(|(i, range)| {
                if last.load(Ordering::Relaxed) < i {
                    return Ok(None);
                }
                let found = self.look(text, range, |bytes| match self.dialect().first_quote(bytes) {
                    Some(_) => Ok(None),
                    None => self.counted(range, bytes, wants).map(Some),
                });
                if !matches!(found, Ok(Some(_))) {
                    last.fetch_min(i, Ordering::Relaxed);
                }
                found
            })
            .collect();
        let whole = found.into_iter().map_while(std::result::Result::transpose);
        let mut pieces = whole.collect::<std::result::Result<Vec<_>, _>>()?;
        let first = pieces.len();
        if first < ranges.len() {
            let rest = ranges[first].start;
            progress::bytes(text.length() as u64);
            progress::advance_bytes((rest - start) as u64);
            ranges.truncate(first);
            ranges.extend(cut::rows(text, rest, self.delimiter, size)?);
            let rest = ranges[first..].par_iter();
            let rest = rest.map(|range| self.look(text, range, |bytes| self.counted(range, bytes, wants)));
            let rest: Vec<_> = rest.collect();
            pieces.extend(rest.into_iter().collect::<std::result::Result<Vec<_>, _>>()?);
        }
        Ok((pieces, ranges))
    }

    /// Calls `find` with the bytes of a range of rows, and returns its result.
    ///
    /// # Errors
    /// If the last row is too long to be read into memory.
    fn look<T>(
        &self,
        text: &Text<'_>,
        range: &Range<usize>,
        find: impl FnOnce(&[u8]) -> std::result::Result<T, Stop>,
    ) -> std::result::Result<T, Stop> {
        // All rows begin in the first `MOST` bytes of the range (in tests, the first `size` bytes).
        let most = self.size.unwrap_or(MOST) + LONGEST;
        if range.len() <= most {
            return text.look(range.clone(), find)?;
        }
        let row = text.look(range.start..range.start + most, |bytes| fields::last_row(bytes, self.dialect()))?;
        Err(Stop::Fault(Fault { at: range.start + row, column: None, what: TOO_LONG.into() }))
    }

    /// Parses a piece, and counts its bytes on the progress line.
    fn counted(&self, range: &Range<usize>, bytes: &[u8], wants: &[Want]) -> std::result::Result<Piece, Stop> {
        progress::advance_bytes(bytes.len() as u64);
        self.piece(range, bytes, wants)
    }

    fn piece(&self, range: &Range<usize>, bytes: &[u8], wants: &[Want]) -> std::result::Result<Piece, Stop> {
        piece::read(bytes, self.dialect(), wants)
            .map_err(|fault| Stop::Fault(Fault { at: range.start + fault.at, ..fault }))
    }

    /// Converts the reason why reading stopped to an error with the line number.
    fn to_failure(&self, name: &Name, text: &Text<'_>, stop: Stop) -> Failure {
        let fault = match stop {
            Stop::Fault(fault) => fault,
            Stop::Io(error) => return name.io(&error),
        };
        let column = fault.column.map_or(String::new(), |column| format!("column {}: ", shown(&self.names[column])));
        match text.line(fault.at) {
            Ok(line) => name.at(line, format!("{column}{}", fault.what)),
            Err(error) => name.io(&error),
        }
    }
}

/// Merges further classes into those of each column.
fn add(all: &mut [Seen], more: &[Seen]) {
    all.iter_mut().zip(more).for_each(|(all, &more)| *all = all.and(more));
}

/// The types of columns whose fields have these classes.
fn kinds(wants: &[Want], seen: &[Seen]) -> Vec<Kind> {
    let kind = |(want, seen): (&Want, &Seen)| if let Want::Named(kind) = want { *kind } else { seen.kind() };
    wants.iter().zip(seen).map(kind).collect()
}

/// The wanted columns of a piece.
fn batch(name: &Name, schema: &SchemaRef, places: &[usize], piece: Piece) -> Result<RecordBatch> {
    let columns = places.iter().filter_map(|&place| piece.arrays[place].clone()).collect();
    tables::batch(schema, columns, piece.rows).map_err(|error| name.fail(error))
}

/// Why a piece could not be read.
enum Stop {
    Fault(Fault),
    Io(io::Error),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Stop {
        Stop::Io(error)
    }
}

/// Returns a piece whose columns have these types. Reads it again if some have other types.
fn widened(
    mut piece: Piece,
    kinds: &[Kind],
    read: impl FnOnce(&[Want]) -> std::result::Result<Piece, Stop>,
) -> std::result::Result<Piece, Stop> {
    let rows = piece.rows;
    let mut wants = vec![Want::Nothing; kinds.len()];
    for (i, array) in piece.arrays.iter_mut().enumerate() {
        let data_type = kinds[i].data_type();
        if let Some(narrow) = array.as_mut().filter(|array| *array.data_type() != data_type) {
            if narrow.null_count() == rows {
                *narrow = new_null_array(&data_type, rows);
            } else {
                wants[i] = Want::Known(kinds[i]);
                *array = None;
            }
        }
    }
    if wants.iter().any(|&want| want != Want::Nothing) {
        for (array, found) in piece.arrays.iter_mut().zip(read(&wants)?.arrays) {
            *array = array.take().or(found);
        }
    }
    Ok(piece)
}

/// Returns the fields of the first row, and the position after it. The row may be longer than `head`.
fn first_row(
    name: &Name,
    data: &Data,
    head: &[u8],
    start: usize,
    dialect: Dialect<'_>,
) -> Result<(Vec<String>, usize)> {
    let mut longer = Bytes::new();
    let mut length = head.len();
    loop {
        let head = if length == head.len() { head } else { &longer };
        let is_all = length as u64 == data.length();
        // Blank lines before the row are not part of it.
        let blank = head[start..].iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
        match fields::row(head, start + blank, dialect) {
            Ok((_, next)) if next - start - blank > LONGEST => return Err(name.at(1, TOO_LONG)),
            Ok((fields, next)) if is_all || (next < head.len() || head.ends_with(b"\n")) => {
                let texts = fields.iter().map(|field| String::from_utf8(field.text().into_owned()));
                let texts = texts.collect::<std::result::Result<Vec<_>, _>>();
                return texts.map(|texts| (texts, next)).map_err(|_| {
                    name.at(1, "this is not UTF-8: save the file as UTF-8, e.g. with `iconv -f LATIN1 -t UTF-8`")
                });
            }
            Err((_, reason)) if is_all || reason != fields::NEVER_CLOSED => {
                return Err(name.at(1, fields::with_quote_advice(reason)));
            }
            _ if length > start + blank + LONGEST => return Err(name.at(1, TOO_LONG)),
            _ => {
                length = usize::try_from(data.length()).map_or(4 * length, |all| all.min(4 * length));
                longer = data.range(0, length).map_err(|error| Failure::Input(error.to_string()))?;
            }
        }
    }
}
