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
//! Text has the columns' names in its first line. A column may be one that not every row has: in text it is empty
//! there; in an array it is 0, and another field (`found`, `left_found`) distinguishes it from a value of 0.

pub(crate) mod npy;
mod text;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::Args;

use koel::file::WholeFile;

use super::failure::{Failure, Result};
use super::files::{self, Output};
use super::input::{Places, letters_of};
use super::number::{Number, Type};
use super::{out, progress};
use crate::text::path;

/// Where rows go, and what is said of them.
#[derive(Args, Clone)]
#[command(next_help_heading = "Output")]
pub(crate) struct RowOptions {
    /// Output file, format by extension [default: stdout]
    ///
    /// .npy is an array; .tsv and .tab are separated by tabs; .csv, .txt and names without an extension by commas. For
    /// named columns, and in `unique` and `groupby`, also .parquet, .arrow, .arrows, .ndjson and text with .gz or .zst.
    #[arg(short, long, value_name = "FILE", value_parser = super::options::rows_file())]
    pub(crate) output: Option<PathBuf>,
    /// Write k-mers as letters: A, C, G and T
    #[arg(long)]
    pub(crate) letters: bool,
    /// Print a summary as JSON to stdout
    ///
    /// Requires --output.
    #[arg(long, requires = "output")]
    pub(crate) json: bool,
}

impl RowOptions {
    /// Refuses an output, this or one of `others`, that is an input, and a summary that would stand among rows.
    pub(crate) fn check(&self, inputs: &[&Path], others: &[Output<'_>]) -> Result<()> {
        let outputs = [&[("-o", self.output.as_deref())], others].concat();
        for (option, output) in &outputs {
            if let Some(output) = output.filter(|output| form_of(output).is_none()) {
                let extension = output.extension().unwrap_or_default().display();
                return Err(Failure::Input(format!(
                    "{option} {}: .{extension} is not supported for keys and values: give .csv, .txt or none (commas), .tsv or .tab \
                     (tabs), or .npy (an array); named columns have more formats, as in `koel join --on`",
                    path(output)
                )));
            }
        }
        self.check_files(inputs, others)
    }

    /// The same for rows of named columns.
    pub(crate) fn check_tables(&self, inputs: &[&Path], others: &[Output<'_>]) -> Result<()> {
        self.check_letters(None)?;
        self.check_files(inputs, others)
    }

    /// Refuses an output, this or one of `others`, that is an input, and a summary among rows.
    pub(crate) fn check_files(&self, inputs: &[&Path], others: &[Output<'_>]) -> Result<()> {
        let outputs = [&[("-o", self.output.as_deref())], others].concat();
        files::check(inputs, &outputs)?;
        files::check_summary(self.json, &outputs)
    }

    /// Returns an error if letters are requested for keys that are not k-mers; `k` is the number of letters.
    pub(crate) fn check_letters(&self, k: Option<u32>) -> Result<()> {
        if self.letters && k.is_none() {
            let advice = "omit it";
            return Err(Failure::Input(format!(
                "--letters is for keys that are k-mers, and these are numbers: {advice}"
            )));
        }
        Ok(())
    }

    /// How keys are written that are of a type, and may be k-mers of `k` letters.
    pub(crate) fn shown(&self, kind: Type, k: Option<u32>) -> Shown {
        k.filter(|_| self.letters).map_or(Shown::Number(kind), Shown::Letters)
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
            Some(output) => out::summary(&format!("{}: {sentence}", path(output))),
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

/// The format of a name's extension, if it can be written here.
pub(crate) fn form_of(path: &Path) -> Option<FileForm> {
    let Some(extension) = path.extension() else { return Some(FileForm::Commas) };
    match extension.to_str()?.to_ascii_lowercase().as_str() {
        "npy" => Some(FileForm::Array),
        "tsv" | "tab" => Some(FileForm::Tabs),
        "csv" | "txt" | "" => Some(FileForm::Commas),
        _ => None,
    }
}

/// How the numbers of a column are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// As numbers of a type.
    Number(Type),
    /// As k-mers of this number of letters.
    Letters(u32),
}

impl From<Type> for Shown {
    fn from(kind: Type) -> Shown {
        Shown::Number(kind)
    }
}

/// What a column is called and holds.
#[derive(Clone, Copy)]
pub(crate) enum Column {
    /// Numbers.
    Of(&'static str, Shown),
    /// 1 or 0, for yes and no.
    Flag(&'static str),
    /// Numbers, where a row has one, and what an array calls the flag that says so.
    Maybe(&'static str, &'static str, Shown),
    /// Places, where a row has one: two columns of text, the name of a record and the offset there.
    Place,
}

impl Column {
    pub(crate) fn of(name: &'static str, shown: impl Into<Shown>) -> Column {
        Column::Of(name, shown.into())
    }

    pub(crate) fn maybe(name: &'static str, found: &'static str, shown: impl Into<Shown>) -> Column {
        Column::Maybe(name, found, shown.into())
    }

    fn name(self, delimiter: char) -> String {
        match self {
            Column::Of(name, _) | Column::Flag(name) | Column::Maybe(name, ..) => name.into(),
            Column::Place => format!("record{delimiter}offset"),
        }
    }
}

/// Where rows go. A file appears under its name only when it is complete and on the disk.
pub(crate) struct Rows {
    columns: Vec<Column>,
    form: Form,
    /// What places are, where a column has some.
    places: Option<Places>,
    /// None for stdout.
    file: Option<Target>,
    /// The row that is being written.
    row: Vec<u8>,
    /// Rows that the line of progress does not know of.
    unreported: u64,
}

/// The progress line is updated once per this number of rows.
const REPORT_EVERY: u64 = 1 << 16;

/// A file and its name in messages.
struct Target {
    path: PathBuf,
    file: WholeFile,
}

enum Form {
    Text { writer: BufWriter<Box<dyn Write>>, delimiter: char },
    Npy { writer: npy::Writer<File> },
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
                let form = Form::Npy { writer };
                Ok(Rows {
                    columns: columns.to_vec(),
                    form,
                    places: None,
                    file: Some(target),
                    row: Vec::new(),
                    unreported: 0,
                })
            }
            Some(FileForm::Tabs) => Rows::text(Box::new(file), '\t', Some(target), columns),
            // Names with other extensions were refused as options.
            Some(FileForm::Commas) | None => Rows::text(Box::new(file), ',', Some(target), columns),
        }
    }

    fn text(writer: Box<dyn Write>, delimiter: char, file: Option<Target>, columns: &[Column]) -> Result<Rows> {
        let mut writer = BufWriter::with_capacity(1 << 16, writer);
        let names: Vec<_> = columns.iter().map(|column| column.name(delimiter)).collect();
        let written = writeln!(writer, "{}", names.join(delimiter.encode_utf8(&mut [0; 4])));
        written.map_err(|error| failed(file.as_ref(), &error))?;
        let form = Form::Text { writer, delimiter };
        Ok(Rows { columns: columns.to_vec(), form, places: None, file, row: Vec::new(), unreported: 0 })
    }

    /// The same rows, of which a column has these places.
    pub(crate) fn with_places(self, places: Option<Places>) -> Rows {
        Rows { places, ..self }
    }

    /// Writes a row: a number for each column that the row has; last ones that it has not may be left away.
    pub(crate) fn write<C: Copy + Into<Option<Number>>>(&mut self, cells: &[C]) -> Result<()> {
        self.unreported += 1;
        if self.unreported == REPORT_EVERY {
            progress::advance(std::mem::take(&mut self.unreported));
        }
        self.row.clear();
        let written = match &mut self.form {
            Form::Text { writer, delimiter } => {
                text::fill(&mut self.row, &self.columns, *delimiter, cells, self.places.as_ref())?;
                writer.write_all(&self.row)
            }
            Form::Npy { writer } => {
                npy::fill(&mut self.row, &self.columns, cells)?;
                writer.push(&self.row)
            }
        };
        written.map_err(|error| failed(self.file.as_ref(), &error))
    }

    /// Writes what is left and gives the file its name.
    pub(crate) fn finish(self) -> Result<()> {
        let written = match self.form {
            Form::Text { mut writer, .. } => writer.flush(),
            Form::Npy { writer } => writer.finish(),
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

/// The letters of a k-mer of `k` letters.
///
/// # Errors
/// If the number is none.
fn letters(number: Number, k: u32) -> Result<impl Iterator<Item = u8>> {
    letters_of(number, k).ok_or_else(|| {
        let advice = "omit --letters";
        Failure::Input(format!("the key {number} is not a k-mer of {k} letters: {advice}"))
    })
}
