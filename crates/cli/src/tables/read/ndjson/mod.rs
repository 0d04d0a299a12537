//! NDJSON: one JSON object per line, whose fields are columns.
//!
//! ```text
//! open    parses every line for the types of the columns, in the order in which their names first occur
//! read    decodes the wanted columns, in pieces of whole lines, a few at once
//! ```
//!
//! Both passes run on all threads. A missing field is null. If several files are one table, each has the columns of all
//! files (shape.rs).

mod shape;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_json::ReaderBuilder;
use arrow_schema::{Schema, SchemaRef};
use rayon::prelude::*;

use crate::failure::Result;
use crate::input::{BYTE_ORDER_MARK, Name};
use crate::progress;

use super::super::Table;
use super::Data;
use super::guarded::guarded;
use super::stream::{ROWS, Stream};
use super::text::{AT_ONCE, LEAST, LONGEST, Text, at_once};
use shape::{Columns, fields, survey};

const TOO_LONG: &str = "this line is longer than 16 MiB, the most that koel reads: write one object a line";
/// The pieces per thread between two points where all threads wait for each other.
const FOR_EACH: usize = 4;
/// Bytes of a value in an array; for text, the bytes in the file are counted.
const VALUE: usize = 8;
/// The most bytes of pieces that are decoded at once.
const DECODED: usize = 2 * AT_ONCE * LEAST;

/// A file whose columns and their types are known.
pub(super) struct Ndjson {
    data: Data,
    columns: Columns,
    schema: SchemaRef,
    pieces: Vec<Piece>,
}

/// Whole lines, of which at most [`ROWS`] are rows.
#[derive(Clone, Debug)]
struct Piece {
    bytes: Range<usize>,
    rows: usize,
}

/// A line that cannot be read: where it begins, and why.
struct Fault {
    at: usize,
    reason: String,
}

impl Ndjson {
    pub(super) fn open(name: &Name, data: Data, head: &[u8]) -> Result<Ndjson> {
        let start = if head.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
        let io = |error| name.io(&error);
        let text = Text::of(&data).map_err(io)?;
        let ranges = text.lines(start.min(text.length()), LEAST).map_err(io)?;
        let (mut columns, mut pieces) = (Columns::new(), Vec::new());
        for ranges in ranges.chunks(FOR_EACH * at_once()) {
            let found = ranges.par_iter().map(|range| surveyed(&text, range, Columns::new()));
            let found = found.collect::<Vec<_>>();
            for (range, found) in ranges.iter().zip(found) {
                let mut united = columns.clone();
                let outcome = found.map_err(io)?.and_then(|(of_range, pieces)| {
                    let fault = |reason| Fault { at: range.start, reason };
                    shape::unite(&mut united, of_range, None).map_err(fault).map(|()| pieces)
                });
                // Parsing this range again, after all lines before it, finds the first faulty line of the file.
                let of_range = match outcome {
                    Ok(of_range) => of_range,
                    Err(_) => match surveyed(&text, range, columns).map_err(io)? {
                        Ok((all, of_range)) => {
                            united = all;
                            of_range
                        }
                        Err(Fault { at, reason }) => return Err(name.at(text.line(at).map_err(io)?, reason)),
                    },
                };
                columns = united;
                pieces.extend(of_range);
            }
        }
        let schema = Arc::new(Schema::new(fields(&columns)));
        Ok(Ndjson { data, columns, schema, pieces })
    }

    /// Gives files the columns of all of them, in the order in which their names first occur.
    pub(super) fn unite<'a>(files: impl IntoIterator<Item = (&'a Name, &'a mut Ndjson)>) -> Result<()> {
        let mut files: Vec<_> = files.into_iter().collect();
        let mut all = Columns::new();
        for (name, file) in &mut files {
            shape::unite(&mut all, std::mem::take(&mut file.columns), None).map_err(|reason| name.fail(reason))?;
        }
        let schema = Arc::new(Schema::new(fields(&all)));
        files.into_iter().for_each(|(_, file)| file.schema = Arc::clone(&schema));
        Ok(())
    }

    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    pub(super) fn read(&self, name: &Name, places: &[usize]) -> Result<Table> {
        let stream = self.stream(name, places)?;
        let schema = Arc::clone(stream.schema());
        Ok(Table::of(schema, stream.collect::<Result<Vec<_>>>()?))
    }

    pub(super) fn stream<'a>(&'a self, name: &'a Name, places: &[usize]) -> Result<Stream<'a>> {
        progress::bytes(self.data.length());
        let schema: SchemaRef = Arc::new(self.schema.project(places).map_err(|error| name.fail(error))?);
        let text = Text::of(&self.data).map_err(|error| name.io(&error))?;
        let (projected, mut pieces, mut ready) = (Arc::clone(&schema), &self.pieces[..], VecDeque::new());
        let batches = std::iter::from_fn(move || {
            if ready.is_empty() && !pieces.is_empty() {
                let some;
                (some, pieces) = pieces.split_at(decoded_at_once(pieces, projected.fields().len()));
                match self.decoded(name, &text, &projected, some) {
                    Ok(batches) => ready = batches,
                    Err(failure) => return Some(Err(failure)),
                }
            }
            ready.pop_front().map(Ok)
        });
        Ok(Stream::of(schema, batches))
    }

    fn decoded(
        &self,
        name: &Name,
        text: &Text<'_>,
        schema: &SchemaRef,
        pieces: &[Piece],
    ) -> Result<VecDeque<RecordBatch>> {
        let decoded = |piece: &Piece| {
            progress::advance_bytes(piece.bytes.len() as u64);
            text.look(piece.bytes.clone(), |lines| decode(schema, lines))
        };
        let found: Vec<_> = pieces.par_iter().map(decoded).collect();
        // The lines were parsed when the file was opened, so that a fault now is one of a file that changed.
        self.data.check_unchanged().map_err(|error| name.io(&error))?;
        let batch = |found: std::io::Result<std::result::Result<_, String>>| {
            found.map_err(|error| name.io(&error))?.map_err(|reason| name.fail(reason))
        };
        found.into_iter().map(batch).collect()
    }
}

/// The number of pieces, at least one, that take [`DECODED`] bytes at most.
fn decoded_at_once(pieces: &[Piece], columns: usize) -> usize {
    let mut bytes = 0;
    let fits = |piece: &&Piece| {
        bytes += piece.bytes.len() + piece.rows * columns * VALUE;
        bytes <= DECODED
    };
    pieces.iter().take(at_once()).take_while(fits).count().max(1)
}

/// Adds the types of the lines in a range to `columns`, and cuts the lines into pieces.
///
/// # Errors
/// The outer error is one of reading.
fn surveyed(
    text: &Text<'_>,
    range: &Range<usize>,
    mut columns: Columns,
) -> std::io::Result<std::result::Result<(Columns, Vec<Piece>), Fault>> {
    // All lines begin within these bytes, so a line that is too long is recognised without reading all of it.
    let length = range.len().min(LEAST + LONGEST + 1);
    text.look(range.start..range.start + length, |bytes| {
        let (mut pieces, mut rows, mut start, mut at) = (Vec::new(), 0, range.start, range.start);
        for line in bytes.split_inclusive(|&byte| byte == b'\n') {
            if line.len() > LONGEST {
                return Err(Fault { at, reason: TOO_LONG.into() });
            }
            if !is_blank(line) {
                survey(line, &mut columns).map_err(|reason| Fault { at, reason })?;
                rows += 1;
            }
            at += line.len();
            if rows == ROWS {
                pieces.push(Piece { bytes: start..at, rows });
                (start, rows) = (at, 0);
            }
        }
        if rows > 0 {
            pieces.push(Piece { bytes: start..at, rows });
        }
        Ok((columns, pieces))
    })
}

/// Whether a line is empty or consists of JSON white space.
fn is_blank(line: &[u8]) -> bool {
    line.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n'))
}

/// The rows of some whole lines, at most [`ROWS`].
fn decode(schema: &SchemaRef, lines: &[u8]) -> std::result::Result<RecordBatch, String> {
    guarded(|| {
        let decoder = ReaderBuilder::new(Arc::clone(schema)).with_batch_size(ROWS).build_decoder();
        let mut decoder = decoder.map_err(|error| error.to_string())?;
        decoder.decode(lines).map_err(|error| error.to_string())?;
        let batch = decoder.flush().map_err(|error| error.to_string())?;
        batch.ok_or_else(|| "the file changed while it was being read".into())
    })
}
