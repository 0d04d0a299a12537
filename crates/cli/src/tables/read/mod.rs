//! Reads tables. The format is detected by the first bytes and, if these are ambiguous, by name. The columns are known
//! before any rows are read, and only the wanted ones are decoded: all rows at once, or as a stream of batches that
//! takes little memory.
//!
//! ```text
//! data.rs      the bytes, in a file or in memory      packed.rs   gzip and zstd around any format
//! parquet/     row groups and columns at once         ipc/        Arrow files, batches at once, and streams
//! csv/         text, in pieces at once                npy/        arrays, records as columns
//! ndjson/      one object per line                    stream.rs   batches in order, cut to a small size
//! spool.rs     temporary files for input from pipes   text.rs     reads ranges of text files
//! several.rs   several files as one table             guarded.rs  panics of decoders become errors
//! lines.rs     limits the length of lines             foreign.rs  names formats that are not read
//! rows.rs      rows of numbers without names          wanted.rs   columns by name, and similar names
//! ```

pub(crate) mod csv;
mod data;
pub(crate) mod foreign;
pub(super) mod guarded;
#[cfg(all(test, feature = "parquet"))]
mod int96_tests;
mod ipc;
mod lines;
mod ndjson;
mod npy;
pub(crate) mod packed;
#[cfg(feature = "parquet")]
mod parquet;
pub(crate) mod rows;
pub(crate) mod several;
mod spool;
pub(crate) mod stream;
#[cfg(test)]
mod tests;
mod text;
pub(crate) mod wanted;

use std::path::{Path, PathBuf};

use arrow_schema::SchemaRef;
use koel_arrow::external::KeyRange;

use crate::failure::Result;
use crate::input::{Format, Input, Name};
use crate::progress;

use super::{Table, TableReading};
use csv::typed::Typed;
pub(crate) use data::Data;
use stream::Stream;

/// The number of bytes that are examined to detect the format.
pub(crate) const HEAD: usize = 64 << 10;

/// A file whose columns are known, and of which nothing else was read.
pub(crate) struct Source {
    name: Name,
    form: Form,
    /// The bytes, which must not change while a stream reads them; the reader of text checks that itself.
    data: Option<Data>,
    /// The types to convert columns to, unless the reader of the format does so itself.
    types: Typed,
}

enum Form {
    #[cfg(feature = "parquet")]
    Parquet(parquet::Parquet),
    Ipc(ipc::Ipc),
    Npy(npy::Npy),
    Csv(csv::Csv),
    Ndjson(ndjson::Ndjson),
    Several(several::Several),
    Rows(rows::Rows),
}

impl Source {
    /// Opens a file; `-` is stdin.
    pub(crate) fn open(path: &Path, options: &TableReading) -> Result<Source> {
        Input::open(path)?.into_source(options)?.with_columns()
    }

    /// Returns an error if there are no columns.
    pub(crate) fn with_columns(self) -> Result<Source> {
        match &self.form {
            Form::Ndjson(ndjson) if ndjson.schema().fields().is_empty() => Err(self.name.fail(
                "this file has no columns, because there is no object with a field: NDJSON has one object per line",
            )),
            _ => Ok(self),
        }
    }

    /// Opens several files as one table.
    pub(crate) fn open_all(paths: &[PathBuf], options: &TableReading) -> Result<Source> {
        if let [path] = paths {
            return Source::open(path, options);
        }
        let several = several::Several::open(paths, options)?;
        Ok(Source {
            name: several.first().name.clone(),
            form: Form::Several(several),
            data: None,
            types: Typed::default(),
        })
    }

    /// Opens the bytes of a file in this format.
    pub(crate) fn of(format: Format, data: Data, name: Name, options: &TableReading) -> Result<Source> {
        let head = data.head(HEAD).map_err(|error| name.io(&error))?;
        let bytes = data.clone();
        let form = match format {
            Format::Parquet => Source::parquet(&name, data)?,
            Format::IpcFile => Form::Ipc(ipc::Ipc::of_file(&name, data)?),
            Format::IpcStream => Form::Ipc(ipc::Ipc::of_stream(&name, data)?),
            Format::Npy => Form::Npy(npy::Npy::open(&name, data)?),
            Format::Ndjson => Form::Ndjson(ndjson::Ndjson::open(&name, data, &head)?),
            // The name of a column may begin like a sequence.
            Format::Text { .. } | Format::Fasta | Format::Fastq => {
                Form::Csv(csv::Csv::open(&name, data, &head, options)?)
            }
        };
        let is_text = matches!(form, Form::Csv(_));
        let types = if is_text { Typed::default() } else { Typed::new(options) };
        Ok(Source { name, form, data: Some(bytes).filter(|_| !is_text), types })
    }

    #[cfg(feature = "parquet")]
    fn parquet(name: &Name, data: Data) -> Result<Form> {
        Ok(Form::Parquet(parquet::Parquet::open(name, data)?))
    }

    #[cfg(not(feature = "parquet"))]
    fn parquet(name: &Name, _: Data) -> Result<Form> {
        Err(name.fail("this is Parquet, and this koel was built without it: build it with `--features parquet`"))
    }

    pub(crate) fn name(&self) -> &Name {
        &self.name
    }

    /// The number of rows, if they are numbers without column names.
    pub(crate) fn unnamed_rows(&self) -> Option<u64> {
        if let Form::Rows(rows) = &self.form { Some(rows.count()) } else { None }
    }

    /// The number of letters of a key, if keys are k-mers of sequences.
    pub(crate) fn letters(&self) -> Option<u32> {
        if let Form::Rows(rows) = &self.form { rows.letters() } else { None }
    }

    /// The name of the format.
    pub(crate) fn format(&self) -> &'static str {
        match &self.form {
            #[cfg(feature = "parquet")]
            Form::Parquet(_) => "Parquet",
            Form::Ipc(_) => "Arrow IPC",
            Form::Npy(_) => ".npy",
            Form::Csv(_) => "CSV",
            Form::Ndjson(_) => "NDJSON",
            Form::Several(several) => several.first().format(),
            Form::Rows(_) => "rows of numbers",
        }
    }

    /// Whether the format is `.npy`, whose columns have names only if it has fields.
    pub(crate) fn is_npy(&self) -> bool {
        matches!(self.form, Form::Npy(_))
    }

    /// Whether a stream is as fast as reading the whole file: NDJSON, and Parquet with several row groups, which
    /// threads read independently. CSV is not, because a stream reads it twice: types depend on the last row too.
    pub(crate) fn is_fast_stream(&self) -> bool {
        matches!(self.form, Form::Ndjson(_)) || self.row_groups().is_some_and(|groups| groups > 1)
    }

    /// The number of row groups, if the format is Parquet, in one file or several.
    fn row_groups(&self) -> Option<usize> {
        match &self.form {
            #[cfg(feature = "parquet")]
            Form::Parquet(parquet) => Some(parquet.groups()),
            Form::Several(several) => several.row_groups(),
            _ => None,
        }
    }

    /// The range of a column in each part of [`Source::stream`], if the metadata of Parquet files states all of them;
    /// `None` for a part that has only nulls.
    pub(crate) fn ranges(&self, column: &str) -> Option<Vec<Option<KeyRange>>> {
        match &self.form {
            #[cfg(feature = "parquet")]
            Form::Parquet(parquet) => {
                let place = parquet.schema().index_of(column).ok()?;
                let is_converted = self.types.other(parquet.schema().field(place)).is_some();
                if is_converted { None } else { parquet.ranges(place) }
            }
            Form::Several(several) => several.ranges(column),
            _ => None,
        }
    }

    /// Whether the format is CSV or TSV, whose columns have types only after all of them are read.
    pub(crate) fn is_text(&self) -> bool {
        match &self.form {
            Form::Csv(_) => true,
            Form::Several(several) => several.first().is_text(),
            _ => false,
        }
    }

    /// Reads the columns of CSV as text, so that they can be written unchanged, except these columns and those whose
    /// types the user stated.
    pub(crate) fn keep_text(&mut self, except: &[String]) {
        match &mut self.form {
            Form::Csv(csv) => csv.keep_text(except),
            Form::Several(several) => several.keep_text(except),
            _ => (),
        }
    }

    /// The names of the columns.
    pub(crate) fn columns(&self) -> Vec<&str> {
        match &self.form {
            Form::Csv(csv) => csv.names().iter().map(String::as_str).collect(),
            Form::Several(several) => several.first().columns(),
            Form::Rows(rows) => names(rows.schema()),
            #[cfg(feature = "parquet")]
            Form::Parquet(parquet) => names(parquet.schema()),
            Form::Ipc(ipc) => names(ipc.schema()),
            Form::Npy(npy) => names(npy.schema()),
            Form::Ndjson(ndjson) => names(ndjson.schema()),
        }
    }

    /// The schema of the rows that [`Source::read`] returns; `None` for text, whose types are known only after reading.
    pub(crate) fn schema(&self, columns: Option<&[String]>) -> Result<Option<SchemaRef>> {
        let schema = match &self.form {
            #[cfg(feature = "parquet")]
            Form::Parquet(parquet) => {
                return Ok(Some(self.types.schema(parquet.schema_of(&self.name, &self.places(columns)?)?)));
            }
            Form::Ipc(ipc) => ipc.schema(),
            Form::Npy(npy) => npy.schema(),
            Form::Ndjson(ndjson) => ndjson.schema(),
            Form::Rows(rows) => rows.schema(),
            Form::Csv(_) => return Ok(None),
            Form::Several(several) => return several.schema(columns),
        };
        let projected = schema.project(&self.places(columns)?).map_err(|error| self.name.fail(error))?;
        Ok(Some(self.types.schema(projected.into())))
    }

    /// The positions of the columns with these names, or of all.
    fn places(&self, columns: Option<&[String]>) -> Result<Vec<usize>> {
        wanted::places(&self.name, &self.columns(), columns)
    }

    /// Whether a column is stored as INT96, so that its unit depends on the values in this file.
    fn is_int96(&self, column: &str) -> bool {
        match (&self.form, self.columns().iter().position(|&own| own == column)) {
            #[cfg(feature = "parquet")]
            (Form::Parquet(parquet), Some(place)) => parquet.is_int96(place),
            _ => false,
        }
    }

    /// Reads the columns with these names, in this order, or all columns.
    pub(crate) fn read(&self, columns: Option<&[String]>) -> Result<Table> {
        let places = self.places(columns)?;
        progress::say(format!("reading {}", self.name.shown()));
        let table = match &self.form {
            #[cfg(feature = "parquet")]
            Form::Parquet(parquet) => parquet.read(&self.name, &places),
            Form::Ipc(ipc) => ipc.read(&self.name, &places),
            Form::Npy(npy) => npy.read(&self.name, &places),
            Form::Ndjson(ndjson) => ndjson.read(&self.name, &places),
            Form::Csv(csv) => csv.read(&self.name, &places),
            Form::Several(several) => several.read(columns),
            Form::Rows(rows) => rows.read(&self.name, &places),
        };
        self.types.table(&self.name, table?)
    }

    /// Returns a stream of the columns with these names, or of all columns, in batches in the order of the rows. The
    /// rows are those of [`Source::read`], but batches may end elsewhere. Text is scanned here for its types.
    pub(crate) fn stream(&self, columns: Option<&[String]>) -> Result<Stream<'_>> {
        self.stream_of(columns, &[])
    }

    /// As [`Source::stream`], but columns of `keys` may be dictionaries if the file has dictionaries.
    #[cfg_attr(not(feature = "parquet"), expect(unused_variables, reason = "only Parquet files have such columns"))]
    pub(crate) fn stream_of(&self, columns: Option<&[String]>, keys: &[String]) -> Result<Stream<'_>> {
        let places = self.places(columns)?;
        progress::say(format!("reading {}", self.name.shown()));
        let stream = match &self.form {
            #[cfg(feature = "parquet")]
            Form::Parquet(parquet) => parquet.stream(&self.name, &places, &self.places(Some(keys))?)?,
            Form::Ipc(ipc) => ipc.stream(&self.name, &places)?,
            Form::Npy(npy) => npy.stream(&self.name, &places)?,
            Form::Ndjson(ndjson) => ndjson.stream(&self.name, &places)?,
            Form::Csv(csv) => return csv.stream(&self.name, &places),
            Form::Several(several) => return several.stream(columns),
            Form::Rows(rows) => return rows.stream(&self.name, &places),
        };
        // A file that is read twice must not change in between.
        let check = || self.data.as_ref().map_or(Ok(()), Data::check_unchanged);
        Ok(self.types.stream(&self.name, stream.checked(move || check().map_err(|error| self.name.io(&error)))))
    }
}

fn names(schema: &SchemaRef) -> Vec<&str> {
    schema.fields().iter().map(|field| field.name().as_str()).collect()
}
