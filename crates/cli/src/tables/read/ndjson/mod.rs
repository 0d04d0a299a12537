//! NDJSON: one JSON object a line, whose fields are columns.
//!
//! ```text
//! open    parses every line for the types of the columns, in the order in which their names first occur
//! read    decodes the wanted columns, in chunks of whole lines
//! ```
//!
//! A missing field is a null, also in the files of one table: they have the columns of all (shape.rs).

mod shape;

use std::io::{BufRead, BufReader, Read};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_json::ReaderBuilder;
use arrow_schema::{Schema, SchemaRef};

use crate::failure::Result;
use crate::input::Name;
use crate::progress;

use super::super::Table;
use super::Data;
use super::csv::LONGEST;
use super::guarded::guarded;
use super::stream::{BYTES, ROWS, Stream};
use shape::{Columns, fields, survey};

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A file whose columns and their types are known.
pub(super) struct Ndjson {
    data: Data,
    columns: Columns,
    schema: SchemaRef,
    start: u64,
}

impl Ndjson {
    pub(super) fn open(name: &Name, data: Data, head: &[u8]) -> Result<Ndjson> {
        let start = if head.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() as u64 } else { 0 };
        let (mut reader, mut line, mut number) = (BufReader::new(data.reader(start)), Vec::new(), 0);
        let mut columns = Columns::new();
        while read_line(name, &mut reader, &mut line, number)? {
            number += 1;
            if !line.trim_ascii().is_empty() {
                survey(&line, &mut columns).map_err(|reason| name.at(number, reason))?;
            }
        }
        let schema = Arc::new(Schema::new(fields(&columns)));
        Ok(Ndjson { data, columns, schema, start })
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

    pub(super) fn data(&self) -> &Data {
        &self.data
    }

    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    pub(super) fn read(&self, name: &Name, places: &[usize]) -> Result<Table> {
        let stream = self.stream(name, places)?;
        let schema = Arc::clone(stream.schema());
        let table = Table::of(schema, stream.collect::<Result<Vec<_>>>()?);
        // The lines were parsed when the file was opened.
        self.data.check_unchanged().map_err(|error| name.io(&error))?;
        Ok(table)
    }

    pub(super) fn stream<'a>(&'a self, name: &'a Name, places: &[usize]) -> Result<Stream<'a>> {
        progress::bytes(self.data.length());
        let schema: SchemaRef = Arc::new(self.schema.project(places).map_err(|error| name.fail(error))?);
        let projected = Arc::clone(&schema);
        let (mut reader, mut line, mut number) = (BufReader::new(self.data.reader(self.start)), Vec::new(), 0);
        let batches = std::iter::from_fn(move || {
            let (mut chunk, mut rows) = (Vec::new(), 0);
            while rows < ROWS && chunk.len() < BYTES {
                match read_line(name, &mut reader, &mut line, number) {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(failure) => return Some(Err(failure)),
                }
                number += 1;
                progress::advance_bytes(line.len() as u64);
                if !line.trim_ascii().is_empty() {
                    chunk.extend_from_slice(&line);
                    rows += 1;
                }
            }
            (rows > 0).then(|| decode(&projected, &chunk).map_err(|reason| name.fail(reason)))
        });
        Ok(Stream::of(schema, batches))
    }
}

/// Reads the next line, with its end; false if there is none.
fn read_line(name: &Name, reader: &mut impl BufRead, line: &mut Vec<u8>, before: u64) -> Result<bool> {
    const TOO_LONG: &str = "this line is longer than 16 MiB, the most that koel reads: write one object a line";
    line.clear();
    reader.take(LONGEST as u64 + 1).read_until(b'\n', line).map_err(|error| name.io(&error))?;
    if line.len() > LONGEST {
        return Err(name.at(before + 1, TOO_LONG));
    }
    Ok(!line.is_empty())
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
