//! Files in memory, for the fuzz targets: reads any bytes as the command does, and writes seed files.

use std::path::Path;

use super::TableReading;
use super::read::Source;
use super::write::{Place, Sink, csv_of_table};
use crate::failure::Result;
use crate::input::Input;

/// Returns all columns of a file with this name, as CSV. Text is read in pieces of `piece` bytes, or of the usual size.
///
/// # Errors
/// The error that the command reports for the file.
pub fn csv_of(name: &str, bytes: &[u8], piece: Option<usize>) -> Result<Vec<u8>> {
    csv_of_table(&source(name, bytes, piece)?.read(None)?)
}

/// Writes the columns of a CSV text to a file, in the format of its extension.
///
/// # Errors
/// The error that the command reports.
pub fn write(csv: &[u8], path: &Path) -> Result<()> {
    let table = source("x.csv", csv, None)?.read(None)?;
    let mut sink = Sink::create(Place::File(path), &table.schema)?;
    table.batches.iter().try_for_each(|batch| sink.write(batch))?;
    sink.finish().map(drop)
}

fn source(name: &str, bytes: &[u8], piece: Option<usize>) -> Result<Source> {
    let mut options = TableReading::default();
    options.text.piece = piece;
    Input::of(bytes, name.as_ref())?.into_source(&options)?.with_columns()
}
