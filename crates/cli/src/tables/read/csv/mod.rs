//! CSV and TSV as columns: RFC 4180, by all threads.
//!
//! ```text
//! cut.rs      pieces of whole rows, whatever stands in quotes
//! piece.rs    a piece: arrays of its columns, of types that fit it
//! column.rs   fields on their way to an array       fields.rs   where fields end
//! ```
//!
//! The type of a column is what all of its fields fit, of the whole file: pieces that fitted a narrower one are read once
//! more. An empty field is a null, and one in quotes an empty text. Rows end by LF or CR LF; lines without anything are
//! skipped, but where there is one column, in which they are nulls.

mod column;
mod cut;
mod fields;
mod piece;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions, new_null_array};
use arrow_schema::{Field, Schema};
use bytes::Bytes;
use rayon::prelude::*;

use crate::failure::{Failure, Result};
use crate::input::{Header, Name};
use crate::progress;

use super::super::kinds::{Kind, Seen};
use super::super::{Table, TableReading};
use super::{Data, wanted};
use piece::{Fault, Piece, Want};

/// Bytes of a piece.
const LEAST: usize = 1 << 20;
const MOST: usize = 8 << 20;

/// The most columns.
const COLUMNS: usize = 1 << 16;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A file of text of which the names of the columns are known.
pub(super) struct Csv {
    data: Data,
    delimiter: u8,
    names: Vec<String>,
    /// The types that the user names.
    types: Vec<Option<Kind>>,
    /// Where the rows begin.
    start: usize,
    /// Bytes of a piece, where a test says so.
    size: Option<usize>,
}

impl Csv {
    pub(super) fn open(name: &Name, data: Data, head: &[u8], options: &TableReading) -> Result<Csv> {
        let mark = if head.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
        let line = head[mark..].split(|&byte| byte == b'\n').find(|line| !line.trim_ascii().is_empty());
        let Some(line) = line else {
            return Err(name.fail("the file is empty: it has not even the names of columns"));
        };
        let has_tabs = name.has_extension(&["tsv", "tab"]) || (line.contains(&b'\t') && !line.contains(&b','));
        let delimiter = options.text.delimiter.unwrap_or(if has_tabs { b'\t' } else { b',' });
        let (first, next) = first_row(name, &data, head, mark, delimiter)?;
        if first.len() > COLUMNS {
            return Err(name.at(1, format!("{} columns, and at most {COLUMNS} are read", first.len())));
        }
        if first.iter().any(|field| field.contains('\r')) {
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
        let there: Vec<&str> = names.iter().map(String::as_str).collect();
        wanted::check_distinct(name, &there)?;
        let mut types = vec![None; names.len()];
        for (column, kind) in options.text.types.iter().flat_map(|types| &types.0) {
            // Of several files a column may be in one alone; commands see to it that it is in one.
            if let Some(place) = names.iter().position(|there| there == column) {
                types[place] = Some(*kind);
            }
        }
        Ok(Csv { data, delimiter, names, types, start: if has_header { next } else { mark }, size: None })
    }

    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    pub(super) fn read(&self, name: &Name, places: &[usize]) -> Result<Table> {
        progress::bytes(self.data.length());
        let bytes = self.data.whole().map_err(|error| name.io(&error))?;
        let text = bytes.get(self.start..).unwrap_or(&[]);
        let wants: Vec<Want> = (0..self.names.len())
            .map(|i| match self.types[i] {
                _ if !places.contains(&i) => Want::Nothing,
                Some(kind) => Want::Named(kind),
                None => Want::Fitting,
            })
            .collect();
        let threads = rayon::current_num_threads();
        let size = self.size.unwrap_or((text.len() / (4 * threads)).clamp(LEAST, MOST));
        let ranges = cut::pieces(text, self.delimiter, size);
        let read = |range: &std::ops::Range<usize>, wants: &[Want]| {
            piece::read(&text[range.clone()], self.delimiter, wants)
                .map_err(|fault| Fault { at: self.start + range.start + fault.at, ..fault })
        };
        let pieces: Vec<_> = ranges.par_iter().map(|range| read(range, &wants)).collect();
        let pieces = self.first_fault(name, &bytes, pieces)?;
        // What all pieces fit, and those that fitted something narrower once more.
        let kinds: Vec<Kind> = (0..self.names.len())
            .map(|i| match wants[i] {
                Want::Named(kind) => kind,
                _ => pieces.iter().fold(Seen::default(), |all, piece| all.and(piece.seen[i])).kind(),
            })
            .collect();
        let pieces: Vec<_> = pieces
            .into_par_iter()
            .zip(&ranges)
            .map(|(piece, range)| widened(piece, &kinds, |wants| read(range, wants)))
            .collect();
        let pieces = self.first_fault(name, &bytes, pieces)?;
        let fields = places.iter().map(|&place| Field::new(&self.names[place], kinds[place].data_type(), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let batches = pieces.into_iter().map(|piece| {
            let options = RecordBatchOptions::new().with_row_count(Some(piece.rows));
            let columns = places.iter().filter_map(|&place| piece.arrays[place].clone()).collect();
            RecordBatch::try_new_with_options(schema.clone(), columns, &options).map_err(|error| name.fail(error))
        });
        let batches = batches.collect::<Result<Vec<_>>>()?;
        Ok(Table::of(schema, batches))
    }

    /// The pieces, or what is wrong with the first of which something is.
    fn first_fault(
        &self,
        name: &Name,
        bytes: &Bytes,
        pieces: Vec<std::result::Result<Piece, Fault>>,
    ) -> Result<Vec<Piece>> {
        pieces.into_iter().collect::<std::result::Result<_, _>>().map_err(|fault| {
            let line = memchr::memchr_iter(b'\n', &bytes[..fault.at.min(bytes.len())]).count() + 1;
            let column = fault.column.map_or(String::new(), |column| format!("column {}: ", self.names[column]));
            name.at(line as u64, format!("{column}{}", fault.what))
        })
    }
}

/// A piece with columns of these types, read once more where it has another.
fn widened(
    mut piece: Piece,
    kinds: &[Kind],
    read: impl FnOnce(&[Want]) -> std::result::Result<Piece, Fault>,
) -> std::result::Result<Piece, Fault> {
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

/// The fields of the first row, and what follows it. It may be longer than what was looked at.
fn first_row(name: &Name, data: &Data, head: &[u8], start: usize, delimiter: u8) -> Result<(Vec<String>, usize)> {
    let mut longer = Bytes::new();
    let mut length = head.len();
    loop {
        let head = if length == head.len() { head } else { &longer };
        let is_all = length as u64 == data.length();
        // Blank lines in front of it are none of its.
        let blank = head[start..].iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
        match fields::row(head, start + blank, delimiter) {
            Ok((fields, next)) if is_all || (next < head.len() || head.ends_with(b"\n")) => {
                let texts = fields.iter().map(|field| String::from_utf8(field.text().into_owned()));
                let texts = texts.collect::<std::result::Result<Vec<_>, _>>();
                return texts.map(|texts| (texts, next)).map_err(|_| {
                    name.at(1, "this is no UTF-8: save the file as UTF-8, e.g. with `iconv -f LATIN1 -t UTF-8`")
                });
            }
            Err((_, reason)) if is_all || !reason.contains("never closed") => return Err(name.at(1, reason)),
            _ => {
                length = usize::try_from(data.length()).map_or(4 * length, |all| all.min(4 * length));
                longer = data.range(0, length).map_err(|error| Failure::Input(error.to_string()))?;
            }
        }
    }
}
