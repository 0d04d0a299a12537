//! Writing answers: text to stdout or a file, or a structured `.npy` array.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use npyz::{DType, DTypeError, Field, NpyWriter, Serialize, TypeWrite, WriterBuilder};

use crate::cli::failure::{Failure, Result};
use crate::cli::out;

/// Where answers go. A file appears under its name only when it is complete.
pub(super) struct Rows {
    form: Form,
    /// None for stdout.
    file: Option<Target>,
}

enum Form {
    Text { writer: BufWriter<Box<dyn Write>>, delimiter: char },
    Npy(NpyWriter<Row, BufWriter<File>>),
}

/// The file that is written, and the one it becomes.
struct Target {
    part: PathBuf,
    path: PathBuf,
    finished: bool,
}

impl Rows {
    /// Answers to a file by its extension, or to stdout.
    pub(super) fn open(path: Option<&Path>) -> Result<Rows> {
        let Some(path) = path else {
            return Rows::text(Box::new(io::stdout().lock()), ',', None);
        };
        // A link, a pipe or a device is written through; only a plain file can be replaced in one step.
        let in_place = path.symlink_metadata().is_ok_and(|there| !there.is_file());
        let mut part = path.as_os_str().to_owned();
        if !in_place {
            part.push(format!(".{}.part", std::process::id()));
        }
        let target = Target { part: part.into(), path: path.into(), finished: in_place };
        let file = File::create(&target.part).map_err(|error| Failure::io(path, &error))?;
        match path.extension().and_then(|e| e.to_str()).map(str::to_ascii_lowercase).as_deref() {
            Some("npy") => {
                let options = npyz::WriteOptions::new().dtype(row_type()?).writer(BufWriter::new(file));
                let writer = options.begin_1d().map_err(|error| Failure::io(path, &error))?;
                Ok(Rows { form: Form::Npy(writer), file: Some(target) })
            }
            Some("tsv" | "tab") => Rows::text(Box::new(file), '\t', Some(target)),
            _ => Rows::text(Box::new(file), ',', Some(target)),
        }
    }

    fn text(writer: Box<dyn Write>, delimiter: char, file: Option<Target>) -> Result<Rows> {
        let writer = BufWriter::with_capacity(1 << 16, writer);
        let mut rows = Rows { form: Form::Text { writer, delimiter }, file };
        if let Form::Text { writer, .. } = &mut rows.form {
            let written = writeln!(writer, "key{delimiter}value");
            written.map_err(|error| failed(rows.file.as_ref(), &error))?;
        }
        Ok(rows)
    }

    /// Writes one answer.
    pub(super) fn write(&mut self, key: u32, value: Option<u32>) -> Result<()> {
        let written = match (&mut self.form, value) {
            (Form::Text { writer, delimiter }, Some(value)) => writeln!(writer, "{key}{delimiter}{value}"),
            (Form::Text { writer, delimiter }, None) => writeln!(writer, "{key}{delimiter}"),
            (Form::Npy(writer), value) => writer.push(&Row { key, value }),
        };
        written.map_err(|error| failed(self.file.as_ref(), &error))
    }

    /// Writes what is left and gives the file its name.
    pub(super) fn finish(mut self) -> Result<()> {
        let written = match self.form {
            Form::Text { mut writer, .. } => writer.flush(),
            Form::Npy(writer) => writer.finish(),
        };
        written.map_err(|error| failed(self.file.as_ref(), &error))?;
        let Some(target) = self.file.as_mut().filter(|target| !target.finished) else { return Ok(()) };
        fs::rename(&target.part, &target.path).map_err(|error| Failure::io(&target.path, &error))?;
        target.finished = true;
        Ok(())
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if !self.finished {
            // The error that led here says more than a failure to clean up would.
            let _ = fs::remove_file(&self.part);
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

/// One element of the array: `key` u4, `value` u4, `found` b1. The value of a miss is 0.
struct Row {
    key: u32,
    value: Option<u32>,
}

fn row_type() -> Result<DType> {
    let field = |name: &str, code: &str| {
        let dtype = code.parse().map(DType::new_scalar);
        dtype.map(|dtype| Field { name: name.into(), dtype }).map_err(|error| Failure::Input(error.to_string()))
    };
    Ok(DType::Record(vec![field("key", "<u4")?, field("value", "<u4")?, field("found", "|b1")?]))
}

struct RowWriter;

impl TypeWrite for RowWriter {
    type Value = Row;

    fn write_one<W: Write>(&self, mut writer: W, row: &Row) -> io::Result<()> {
        let mut bytes = [0; 9];
        bytes[..4].copy_from_slice(&row.key.to_le_bytes());
        bytes[4..8].copy_from_slice(&row.value.unwrap_or(0).to_le_bytes());
        bytes[8] = u8::from(row.value.is_some());
        writer.write_all(&bytes)
    }
}

impl Serialize for Row {
    type TypeWriter = RowWriter;

    /// The one type that is asked for is [`row_type`].
    fn writer(_: &DType) -> std::result::Result<RowWriter, DTypeError> {
        Ok(RowWriter)
    }
}
