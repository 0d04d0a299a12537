//! Writing rows: text to stdout or a file, or an `.npy` array, by the file's extension.
//!
//! ```text
//! FILE.npy           of one column a plain array, of several a structured one
//! FILE.tsv, .tab     columns separated by tabs
//! FILE.csv, .txt     columns separated by commas; so are names without an extension, and stdout
//! ```
//!
//! Other extensions are refused, before anything is read: what is called .parquet should be that.
//!
//! Text has the columns' names in its first line. A column may be one that not every row has: in text it is
//! empty there; in an array it is 0, and a further field (`found`, `left_found`) tells it from a 0 that is one.

mod npy;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::Args;

use koel::file::WholeFile;

use super::failure::{Failure, Result};
use super::files::{self, Output};
use super::number::{Number, Type};
use super::{out, progress};

/// Where rows go, and what is said of them.
#[derive(Args, Clone)]
#[command(next_help_heading = "Output")]
pub(crate) struct RowOptions {
    /// Where the rows go: .npy an array, .tsv and .tab separated by tabs, .csv, .txt and names without an extension by
    /// commas [default: stdout]
    #[arg(short, long, value_name = "FILE", value_parser = super::options::rows_file())]
    pub(crate) output: Option<PathBuf>,
    /// A summary as JSON on stdout
    #[arg(long, requires = "output")]
    pub(crate) json: bool,
}

impl RowOptions {
    /// Refuses an output, this or one of `others`, that is an input, and a summary that would stand among rows.
    pub(crate) fn check(&self, inputs: &[&Path], others: &[Output<'_>]) -> Result<()> {
        let outputs = [&[("-o", self.output.as_deref())], others].concat();
        files::check(inputs, &outputs)?;
        files::check_summary(self.json, &outputs)
    }

    /// Says what became of the rows, where they did not go to stdout.
    pub(crate) fn summarize(&self, sentence: &str, json: impl FnOnce() -> serde_json::Value) -> Result<()> {
        match &self.output {
            None => {}
            Some(output) if self.json => {
                let mut summary = json();
                summary["output"] = output.display().to_string().into();
                out::print_json(&summary)?;
            }
            Some(output) => out::summary(&format!("{}: {sentence}", output.display())),
        }
        Ok(())
    }
}

/// What is written under a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileForm {
    /// An `.npy` array.
    Array,
    /// Text, separated by tabs.
    Tabs,
    /// Text, separated by commas.
    Commas,
}

/// The form that a name's extension stands for, if it stands for one that is written here.
pub(crate) fn form_of(path: &Path) -> Option<FileForm> {
    let Some(extension) = path.extension() else { return Some(FileForm::Commas) };
    match extension.to_str()?.to_ascii_lowercase().as_str() {
        "npy" => Some(FileForm::Array),
        "tsv" | "tab" => Some(FileForm::Tabs),
        "csv" | "txt" | "" => Some(FileForm::Commas),
        _ => None,
    }
}

/// What a column is called and holds.
#[derive(Clone, Copy)]
pub(crate) enum Column {
    /// Numbers of a type.
    Of(&'static str, Type),
    /// 1 or 0, for yes and no.
    Flag(&'static str),
    /// Numbers of a type, where a row has one, and what an array calls the flag that says so.
    Maybe(&'static str, &'static str, Type),
}

impl Column {
    fn name(self) -> &'static str {
        match self {
            Column::Of(name, _) | Column::Flag(name) | Column::Maybe(name, ..) => name,
        }
    }
}

/// Where rows go. A file appears under its name only when it is complete and on the disk.
pub(crate) struct Rows {
    columns: Vec<Column>,
    form: Form,
    /// None for stdout.
    file: Option<Target>,
    /// Rows that the line of progress does not know of.
    untold: u64,
}

/// The line of progress is told of so many rows at a time.
const TOLD_AT_ONCE: u64 = 1 << 16;

/// A file and its name in messages.
struct Target {
    path: PathBuf,
    file: WholeFile,
}

enum Form {
    Text { writer: BufWriter<Box<dyn Write>>, delimiter: char },
    Npy { writer: npy::Writer<File>, row: Row },
}

impl Rows {
    /// Rows of these columns to a file, or to stdout.
    pub(crate) fn open(path: Option<&Path>, columns: &[Column]) -> Result<Rows> {
        let Some(path) = path else {
            return Rows::text(Box::new(io::stdout().lock()), ',', None, columns);
        };
        let (whole, file) = WholeFile::create(path).map_err(|error| Failure::io(path, &error))?;
        let target = Target { path: path.into(), file: whole };
        match form_of(path) {
            Some(FileForm::Array) => {
                let writer = npy::Writer::new(file, columns).map_err(|error| Failure::io(path, &error))?;
                let form = Form::Npy { writer, row: Row::default() };
                Ok(Rows { columns: columns.to_vec(), form, file: Some(target), untold: 0 })
            }
            Some(FileForm::Tabs) => Rows::text(Box::new(file), '\t', Some(target), columns),
            // Names that stand for nothing else were refused as options.
            Some(FileForm::Commas) | None => Rows::text(Box::new(file), ',', Some(target), columns),
        }
    }

    fn text(writer: Box<dyn Write>, delimiter: char, file: Option<Target>, columns: &[Column]) -> Result<Rows> {
        let mut writer = BufWriter::with_capacity(1 << 16, writer);
        let names: Vec<_> = columns.iter().map(|column| column.name()).collect();
        let written = writeln!(writer, "{}", names.join(delimiter.encode_utf8(&mut [0; 4])));
        written.map_err(|error| failed(file.as_ref(), &error))?;
        Ok(Rows { columns: columns.to_vec(), form: Form::Text { writer, delimiter }, file, untold: 0 })
    }

    /// Writes a row: a number for each column that the row has; last ones that it has not may be left away.
    pub(crate) fn write<C: Copy + Into<Option<Number>>>(&mut self, cells: &[C]) -> Result<()> {
        self.untold += 1;
        if self.untold == TOLD_AT_ONCE {
            progress::advance(std::mem::take(&mut self.untold));
        }
        let written = match &mut self.form {
            Form::Text { writer, delimiter } => write_text(writer, *delimiter, self.columns.len(), cells),
            Form::Npy { writer, row } => {
                row.fill(&self.columns, cells);
                writer.push(&row.0)
            }
        };
        written.map_err(|error| failed(self.file.as_ref(), &error))
    }

    /// Writes what is left and gives the file its name.
    pub(crate) fn finish(self) -> Result<()> {
        let written = match self.form {
            Form::Text { mut writer, .. } => writer.flush(),
            Form::Npy { writer, .. } => writer.finish(),
        };
        written.map_err(|error| failed(self.file.as_ref(), &error))?;
        match self.file {
            Some(target) => target.file.finish().map_err(|error| Failure::io(&target.path, &error)),
            None => Ok(()),
        }
    }
}

fn failed(file: Option<&Target>, error: &io::Error) -> Failure {
    match file {
        None => out::stdout_failed(error),
        // A pipe that was named by `-o` may be closed early like any other.
        Some(_) if error.kind() == io::ErrorKind::BrokenPipe => Failure::ClosedPipe,
        Some(target) => Failure::io(&target.path, error),
    }
}

/// A line of so many columns, empty where there is no number.
fn write_text<C>(writer: &mut impl Write, delimiter: char, columns: usize, cells: &[C]) -> io::Result<()>
where
    C: Copy + Into<Option<Number>>,
{
    for column in 0..columns {
        if column > 0 {
            write!(writer, "{delimiter}")?;
        }
        if let Some(cell) = cells.get(column).copied().and_then(Into::into) {
            // Numbers of 128 bits are written slowly.
            match u64::try_from(cell) {
                Ok(cell) => write!(writer, "{cell}")?,
                Err(_) => write!(writer, "{cell}")?,
            }
        }
    }
    writeln!(writer)
}

/// The bytes of one element of the array.
#[derive(Default)]
struct Row(Vec<u8>);

impl Row {
    fn fill<C: Copy + Into<Option<Number>>>(&mut self, columns: &[Column], cells: &[C]) {
        self.0.clear();
        for (i, column) in columns.iter().enumerate() {
            let cell: Option<Number> = cells.get(i).copied().and_then(Into::into);
            let bytes = cell.unwrap_or(0).to_le_bytes();
            match *column {
                Column::Of(_, kind) => self.0.extend(&bytes[..kind.bits() as usize / 8]),
                Column::Flag(_) => self.0.push(bytes[0]),
                Column::Maybe(_, _, kind) => {
                    self.0.extend(&bytes[..kind.bits() as usize / 8]);
                    self.0.push(cell.is_some().into());
                }
            }
        }
    }
}
