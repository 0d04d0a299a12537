//! Writes tables, one batch at a time. The extension of a file determines its format; `--format` selects the format of
//! stdout.
//!
//! ```text
//! .parquet, .pq                 parquet.rs   columns of row groups encoded at once
//! .arrow, .feather, .ipc        ipc.rs       a file;  .arrows a stream
//! .npy                          npy.rs       an array, or records
//! .ndjson, .jsonl               ndjson.rs    one object per line
//! .csv, .txt, .tsv, .tab        csv.rs       text
//!
//! pipeline.rs    tasks on all threads, whose results are written in order
//! lines.rs       text and NDJSON: all threads format blocks
//! packed.rs      compresses text and NDJSON, for outputs with a further .gz or .zst
//! blocks.rs      rows that are encoded at a time; the blocks depend only on the rows
//! regular.rs     normalizes arrays, so that they depend only on their rows
//! write_back.rs  starts writing to the disk while the command runs
//! ```
//!
//! A file gets its name only when it is complete. Until then, and if an error occurs, an existing file of that name is
//! kept.

mod blocks;
pub(super) mod cells;
mod csv;
#[cfg(feature = "parquet")]
mod dictionaries;
mod ipc;
mod lines;
mod ndjson;
mod npy;
mod packed;
#[cfg(feature = "parquet")]
mod parquet;
mod pipeline;
mod regular;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod type_tests;
mod write_back;

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use koel::file::WholeFile;

use super::Table;
use super::read::guarded::caught;
use crate::failure::{Failure, Result};
use crate::memory::end_when_short;
use crate::{out, progress, text};
pub(crate) use npy::FLAG;
use packed::Packing;
use write_back::WriteBack;

/// The formats of output files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Parquet,
    IpcFile,
    IpcStream,
    Npy,
    Ndjson { packing: Packing },
    Text { delimiter: u8, packing: Packing },
}

/// The format for the extension of a name, if this build can write it.
pub(crate) fn form_of(path: &Path) -> Option<Form> {
    let extension =
        |path: &Path| path.extension().map_or(Some(String::new()), |e| Some(e.to_str()?.to_ascii_lowercase()));
    let (packing, inner) = match extension(path)?.as_str() {
        "gz" => (Packing::Gzip, extension(&path.with_extension(""))?),
        "zst" => (Packing::Zstd, extension(&path.with_extension(""))?),
        other => (Packing::Not, other.to_owned()),
    };
    let text = |delimiter| Some(Form::Text { delimiter, packing });
    match (inner.as_str(), packing) {
        ("csv" | "txt" | "", _) => text(b','),
        ("tsv" | "tab", _) => text(b'\t'),
        ("parquet" | "pq", Packing::Not) => Some(Form::Parquet),
        ("arrow" | "feather" | "ipc", Packing::Not) => Some(Form::IpcFile),
        ("arrows", Packing::Not) => Some(Form::IpcStream),
        ("npy", Packing::Not) => Some(Form::Npy),
        ("ndjson" | "jsonl", _) => Some(Form::Ndjson { packing }),
        _ => None,
    }
}

/// Where rows are written.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place<'a> {
    Stdout(Form),
    /// A file, whose extension determines the format.
    File(&'a Path),
}

impl<'a> Place<'a> {
    /// `file`, if there is one; or stdout in the format `stdout`, by default CSV.
    pub(crate) fn of(file: Option<&'a Path>, stdout: Option<Form>) -> Self {
        file.map_or(Place::Stdout(stdout.unwrap_or(CSV)), Place::File)
    }

    pub(crate) fn form(self) -> Form {
        match self {
            Place::Stdout(form) => form,
            // Other extensions were refused when options were parsed.
            Place::File(path) => form_of(path).unwrap_or(CSV),
        }
    }

    /// Whether rows are written as text, without types.
    pub(crate) fn is_text(self) -> bool {
        matches!(self.form(), Form::Text { .. })
    }
}

/// The format of stdout, unless another one is requested.
const CSV: Form = Form::Text { delimiter: b',', packing: Packing::Not };

/// The formats of stdout.
const STDOUT_FORMS: [(&str, Form); 4] = [
    ("csv", CSV),
    ("tsv", Form::Text { delimiter: b'\t', packing: Packing::Not }),
    ("ndjson", Form::Ndjson { packing: Packing::Not }),
    ("arrows", Form::IpcStream),
];

/// Parses a format of stdout.
pub(crate) fn stdout_form() -> impl TypedValueParser<Value = Form> {
    let named = |name: String| STDOUT_FORMS.into_iter().find(|(known, _)| *known == name).map_or(CSV, |(_, form)| form);
    PossibleValuesParser::new(STDOUT_FORMS.map(|(name, _)| name)).map(named)
}

/// Parses the name of an output.
pub(crate) fn output_file(name: &str) -> std::result::Result<PathBuf, String> {
    let path = PathBuf::from(name);
    match form_of(&path) {
        Some(_) if !name.is_empty() => Ok(path),
        _ => Err(
            "tables are written as .parquet, .arrow, .arrows, .npy, .ndjson, .csv or .tsv, the last three also with .gz or \
             .zst: choose one of these extensions"
                .into(),
        ),
    }
}

/// The output of batches.
pub(crate) struct Sink {
    writer: Writer,
    /// `None` for stdout.
    target: Option<Target>,
    rows: u64,
}

struct Target {
    path: PathBuf,
    file: WholeFile,
}

enum Writer {
    #[cfg(feature = "parquet")]
    Parquet(Box<parquet::Writer>),
    Ipc(Box<ipc::Writer>),
    Npy(npy::Writer),
    Lines(lines::Writer),
}

/// Why something was not written.
enum Unwritten {
    Io(io::Error),
    /// The reason, which messages append to the name of the output.
    Because(String),
}

impl From<io::Error> for Unwritten {
    fn from(error: io::Error) -> Unwritten {
        Unwritten::Io(error)
    }
}

impl Sink {
    /// Creates a file, or uses stdout, for batches with this schema.
    pub(crate) fn create(place: Place<'_>, schema: &SchemaRef) -> Result<Sink> {
        Sink::within(u64::MAX, place, schema)
    }

    /// As `create`, with a memory limit in bytes, on which the output does not depend.
    pub(crate) fn within(memory: u64, place: Place<'_>, schema: &SchemaRef) -> Result<Sink> {
        // Encoders do not check allocations.
        end_when_short();
        let (target, file) = match place {
            Place::Stdout(Form::IpcStream) if io::stdout().is_terminal() => {
                return Err(Failure::Input("--format arrows is binary: redirect stdout to a file or a pipe".into()));
            }
            Place::Stdout(_) => (None, None),
            Place::File(path) => {
                let (whole, file) = WholeFile::create(path).map_err(|error| Failure::io(path, &error))?;
                (Some(Target { path: path.into(), file: whole }), Some(file))
            }
        };
        let writer = guarded(|| match file {
            None => Writer::rows(place.form(), Box::new(io::stdout()), schema, memory),
            Some(file) => Writer::new(place.form(), file, schema, memory),
        });
        let writer = writer.map_err(|why| failed(target.as_ref(), why))?;
        Ok(Sink { writer, target, rows: 0 })
    }

    /// Writes the rows of a batch.
    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let written = guarded(|| match &mut self.writer {
            #[cfg(feature = "parquet")]
            Writer::Parquet(writer) => writer.write(batch),
            Writer::Ipc(writer) => writer.write(batch),
            Writer::Npy(writer) => writer.write(batch),
            Writer::Lines(writer) => writer.write(batch),
        });
        written.map_err(|why| failed(self.target.as_ref(), why))?;
        progress::advance(batch.num_rows() as u64);
        self.rows += batch.num_rows() as u64;
        Ok(())
    }

    /// Writes the remaining rows and gives the file its name. Returns the number of rows.
    pub(crate) fn finish(self) -> Result<u64> {
        self.flush()?.finish()
    }

    /// Writes the remaining rows.
    pub(crate) fn flush(self) -> Result<Flushed> {
        let written = guarded(|| match self.writer {
            #[cfg(feature = "parquet")]
            Writer::Parquet(writer) => writer.finish(),
            Writer::Ipc(writer) => writer.finish(),
            Writer::Npy(writer) => writer.finish(),
            Writer::Lines(writer) => writer.finish(),
        });
        written.map_err(|why| failed(self.target.as_ref(), why))?;
        Ok(Flushed { target: self.target, rows: self.rows })
    }
}

/// An output that is complete, but does not have its name yet.
pub(crate) struct Flushed {
    target: Option<Target>,
    rows: u64,
}

impl Flushed {
    /// Gives the file its name. Returns the number of rows.
    pub(crate) fn finish(self) -> Result<u64> {
        if let Some(target) = self.target {
            target.file.finish().map_err(|error| Failure::io(&target.path, &error))?;
        }
        Ok(self.rows)
    }
}

impl Writer {
    fn new(form: Form, file: File, schema: &SchemaRef, memory: u64) -> std::result::Result<Writer, Unwritten> {
        Ok(match form {
            #[cfg(feature = "parquet")]
            Form::Parquet => Writer::Parquet(Box::new(parquet::Writer::new(WriteBack::new(file), schema, memory)?)),
            #[cfg(not(feature = "parquet"))]
            Form::Parquet => {
                let advice = "build it with `--features parquet`";
                return Err(Unwritten::Because(format!("this koel was built without Parquet: {advice}")));
            }
            Form::IpcFile => Writer::Ipc(Box::new(ipc::Writer::file(Box::new(WriteBack::new(file)), schema)?)),
            Form::Npy => Writer::Npy(npy::Writer::new(file, schema)?),
            _ => return Writer::rows(form, Box::new(WriteBack::new(file)), schema, memory),
        })
    }

    /// A writer in a format that is written from its beginning to its end, and so needs no file.
    fn rows(
        form: Form,
        output: packed::Output,
        schema: &SchemaRef,
        memory: u64,
    ) -> std::result::Result<Writer, Unwritten> {
        Ok(match form {
            Form::IpcStream => Writer::Ipc(Box::new(ipc::Writer::stream(output, schema)?)),
            Form::Ndjson { packing } => Writer::Lines(ndjson::writer(output, schema, packing, memory)?),
            Form::Text { delimiter, packing } => {
                Writer::Lines(csv::writer(output, schema, delimiter, packing, memory)?)
            }
            Form::Parquet | Form::IpcFile | Form::Npy => {
                return Err(Unwritten::Because("this format needs a file: give -o".into()));
            }
        })
    }
}

/// A table as CSV, in memory.
pub(crate) fn csv_of_table(table: &Table) -> Result<Vec<u8>> {
    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);
    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let text = Shared::default();
    let write = || {
        let mut writer = csv::writer(Box::new(text.clone()), &table.schema, b',', Packing::Not, u64::MAX)?;
        table.batches.iter().try_for_each(|batch| writer.write(batch))?;
        writer.finish()
    };
    write().map_err(|why| failed(None, why))?;
    Ok(std::mem::take(&mut text.0.lock().unwrap_or_else(PoisonError::into_inner)))
}

/// Returns the result of `write`; a panic of an encoder on types that it does not support becomes an error.
fn guarded<T>(write: impl FnOnce() -> std::result::Result<T, Unwritten>) -> std::result::Result<T, Unwritten> {
    caught(write).unwrap_or_else(|reason| Err(Unwritten::Because(unknown(&reason))))
}

/// The message for an error of an encoder.
fn unknown(reason: &str) -> String {
    format!("this format does not hold all of the columns ({reason}): write another format, or remove columns")
}

fn failed(target: Option<&Target>, why: Unwritten) -> Failure {
    match (target, why) {
        (None, Unwritten::Io(error)) => out::stdout_failed(&error),
        // A pipe that `-o` names may be closed early, like stdout.
        (Some(_), Unwritten::Io(error)) if error.kind() == io::ErrorKind::BrokenPipe => Failure::ClosedPipe,
        (Some(target), Unwritten::Io(error)) => Failure::io(&target.path, &error),
        (None, Unwritten::Because(why)) => Failure::Input(format!("stdout: {why}")),
        (Some(target), Unwritten::Because(why)) => Failure::Input(format!("{}: {why}", text::path(&target.path))),
    }
}
