//! Several files with the same columns, read as one table: the rows of the first file, then those of the second, and so
//! on.
//!
//! Columns are matched by name, in the order of the first file. Their types must be equal, with three exceptions: a
//! column of type null takes the type of the other files, INT96 timestamps have a unit that holds those of all files,
//! and dictionaries are read as their values. In text, a column has a type that fits the fields of all files. NDJSON
//! files have the columns and types of all of them, as if they were one file.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampNanosecondType;
use arrow_array::{ArrayRef, RecordBatch, TimestampMicrosecondArray, new_null_array};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use koel_arrow::external::KeyRange;
use koel_arrow::{Column, plain_type};
use rayon::prelude::*;

use crate::failure::{Failure, Result};
use crate::input::Input;
use crate::{tables, text};

use super::super::{Table, TableReading};
use super::csv::{Csv, Survey};
use super::ndjson::Ndjson;
use super::stream::Stream;
use super::{Form, Source};

pub(super) struct Several(Vec<Source>);

/// The files that arguments name: an argument that is not a file may be a pattern, such as `orders/*.parquet`, and a
/// folder means the tables in it.
///
/// # Errors
/// If a pattern matches no file, if a folder has no tables, or if an output would be one of its tables.
pub(crate) fn matching(arguments: &[impl AsRef<Path>], outputs: &[Option<&Path>]) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for argument in arguments {
        let argument = argument.as_ref();
        if argument.is_dir() {
            paths.extend(tables_in(argument)?);
            if let Some(output) = outputs.iter().flatten().find(|output| is_inside(output, argument)) {
                let (output, folder) = (text::path(output), text::path(argument));
                return Err(Failure::Input(format!(
                    "{output} is in the folder {folder}, whose tables are the input: write to another folder"
                )));
            }
            continue;
        }
        let pattern = argument.to_str().filter(|text| text.contains(['*', '?', '[']) && !argument.exists());
        let Some(pattern) = pattern else {
            paths.push(argument.to_owned());
            continue;
        };
        let wrong = |why: &dyn std::fmt::Display| Failure::Input(format!("{pattern}: {why}"));
        let before = paths.len();
        for path in glob::glob(pattern).map_err(|error| wrong(&error))? {
            let path = path.map_err(|error| wrong(&error))?;
            if path.is_dir() {
                let folder = text::path(&path);
                return Err(wrong(&format!(
                    "it matches the folder {folder}, which is not read: give a pattern that matches only files, such as \
                     '*.csv', or name the folder"
                )));
            }
            paths.push(path);
        }
        if paths.len() == before {
            return Err(wrong(&"there is no such file, and as a pattern it matches none"));
        }
    }
    Ok(paths)
}

/// Whether a file is, or would be created, in a folder.
fn is_inside(file: &Path, folder: &Path) -> bool {
    let lands_at = koel::file::lands_at(file);
    lands_at.is_some_and(|file| folder.canonicalize().is_ok_and(|folder| file.parent() == Some(folder.as_path())))
}

/// The files of a folder that have an extension of tables, sorted by name, without hidden files.
fn tables_in(folder: &Path) -> Result<Vec<PathBuf>> {
    const TABLES: [&str; 7] = ["parquet", "pq", "arrow", "feather", "ipc", "arrows", "npy"];
    const TEXTS: [&str; 5] = ["csv", "tsv", "tab", "ndjson", "jsonl"];
    let is_table = |path: &PathBuf| {
        let extension = |path: &Path| path.extension().and_then(OsStr::to_str).unwrap_or_default().to_ascii_lowercase();
        let (last, inner) = (extension(path), extension(&path.with_extension("")));
        let is_packed = matches!(last.as_str(), "gz" | "zst");
        let is_text = TEXTS.contains(&if is_packed { inner } else { last.clone() }.as_str());
        let is_hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        !is_hidden && (is_text || TABLES.contains(&last.as_str())) && path.is_file()
    };
    let entries = folder.read_dir().and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect());
    let mut paths: Vec<PathBuf> = entries.map_err(|error| Failure::io(folder, &error))?;
    paths.retain(is_table);
    paths.sort();
    if paths.is_empty() {
        let shown = text::path(folder);
        return Err(Failure::Input(format!(
            "{shown}: the folder has no tables: name one with files such as .parquet, .arrow, .csv or .ndjson"
        )));
    }
    Ok(paths)
}

impl Several {
    pub(super) fn open(paths: &[PathBuf], options: &TableReading) -> Result<Several> {
        let mut sources =
            paths.iter().map(|path| Input::open(path)?.into_source(options)).collect::<Result<Vec<_>>>()?;
        Ndjson::unite(sources.iter_mut().filter_map(|source| match &mut source.form {
            Form::Ndjson(ndjson) => Some((&source.name, ndjson)),
            _ => None,
        }))?;
        let sources = sources.into_iter().map(Source::with_columns).collect::<Result<Vec<_>>>()?;
        let Some((first, others)) = sources.split_first() else {
            return Err(Failure::Input("there are no files to read: name one".into()));
        };
        let there = first.columns();
        for other in others {
            if other.is_text() != first.is_text() {
                return Err(other.name.fail(format!(
                    "this is {}, and {} is {}: text and typed files cannot be combined, so convert them to one \
                     format with `koel convert`",
                    other.format(),
                    first.name.shown(),
                    first.format()
                )));
            }
            let own = other.columns();
            let lacks = |whose: &Source, column: &str, has: &Source| {
                let (whose, has) = (whose.name.shown(), has.name.shown());
                Failure::Input(format!(
                    "{whose} has no column `{column}`, and {has} has one: files that are read as one table need the \
                     same columns"
                ))
            };
            if let Some(missing) = there.iter().find(|column| !own.contains(column)) {
                return Err(lacks(other, missing, first));
            }
            if let Some(extra) = own.iter().find(|column| !there.contains(column)) {
                return Err(lacks(first, extra, other));
            }
        }
        Ok(Several(sources))
    }

    /// The first file, which determines the order of columns.
    pub(super) fn first(&self) -> &Source {
        &self.0[0]
    }

    pub(super) fn keep_text(&mut self, except: &[String]) {
        self.0.iter_mut().for_each(|source| source.keep_text(except));
    }

    /// The wanted columns, in their order.
    fn wanted(&self, columns: Option<&[String]>) -> Vec<String> {
        let all = || self.first().columns().into_iter().map(String::from).collect();
        columns.map_or_else(all, <[String]>::to_vec)
    }

    /// The schema of all files; `None` for text.
    pub(super) fn schema(&self, columns: Option<&[String]>) -> Result<Option<SchemaRef>> {
        let wanted = self.wanted(columns);
        let mut united: Option<Vec<Field>> = None;
        for source in &self.0 {
            let Some(schema) = source.schema(Some(&wanted))? else { return Ok(None) };
            let Some(fields) = &mut united else {
                united = Some(schema.fields().iter().map(|field| plain(field)).collect());
                continue;
            };
            for (field, other) in fields.iter_mut().zip(schema.fields()) {
                let other = plain(other);
                let is_nullable = field.is_nullable() || other.is_nullable();
                if *field.data_type() == DataType::Null {
                    *field = other;
                } else if self.are_old_timestamps(field, &other) {
                    field.set_data_type(coarser(field.data_type(), other.data_type()));
                } else if *other.data_type() != DataType::Null && field.data_type() != other.data_type() {
                    return Err(source.name.fail(format!(
                        "column `{}` is of type {}, and in {} of type {}: files that are read as one table need the same \
                         types: give one to both by --types, or convert one of them",
                        field.name(),
                        other.data_type(),
                        self.first().name.shown(),
                        field.data_type()
                    )));
                }
                field.set_nullable(is_nullable);
            }
        }
        Ok(united.map(|fields| Arc::new(Schema::new(fields))))
    }

    /// Whether a column has INT96 timestamps in all files. The unit of each holds the values of its file.
    fn are_old_timestamps(&self, one: &Field, other: &Field) -> bool {
        let of_unit = |field: &Field| match field.data_type() {
            DataType::Timestamp(TimeUnit::Microsecond | TimeUnit::Nanosecond, zone) => Some(zone.clone()),
            _ => None,
        };
        of_unit(one).is_some_and(|zone| of_unit(other) == Some(zone))
            && one.data_type() != other.data_type()
            && self.0.iter().all(|source| source.is_int96(one.name()))
    }

    pub(super) fn read(&self, columns: Option<&[String]>) -> Result<Table> {
        let stream = self.stream(columns)?;
        let schema = Arc::clone(stream.schema());
        let batches: Vec<Result<Vec<RecordBatch>>> = match stream.into_parts() {
            Ok(parts) => parts.into_par_iter().map(|part| (part.open)().collect()).collect(),
            Err(stream) => vec![stream.collect()],
        };
        let batches = batches.into_iter().collect::<Result<Vec<_>>>()?;
        Ok(Table::of(schema, batches.into_iter().flatten().collect::<Vec<_>>()))
    }

    /// The number of row groups, if all files are Parquet.
    pub(super) fn row_groups(&self) -> Option<usize> {
        self.0.iter().map(Source::row_groups).sum()
    }

    /// As [`Source::ranges`].
    pub(super) fn ranges(&self, column: &str) -> Option<Vec<Option<KeyRange>>> {
        let type_of =
            |source: &Source| Some(source.schema(Some(&[column.to_owned()])).ok()??.field(0).data_type().clone());
        let of = type_of(self.first())?;
        let ranges = |source: &Source| if type_of(source)? == of { source.ranges(column) } else { None };
        Some(self.0.iter().map(ranges).collect::<Option<Vec<_>>>()?.concat())
    }

    pub(super) fn stream(&self, columns: Option<&[String]>) -> Result<Stream<'_>> {
        let wanted = self.wanted(columns);
        let Some(schema) = self.schema(Some(&wanted))? else { return self.stream_of_text(&wanted) };
        let of_all = Arc::clone(&schema);
        if self.row_groups().is_some() {
            let of_schema = |source| -> Result<Stream<'_>> {
                let (schema, to) = (Arc::clone(&schema), Arc::clone(&schema));
                Ok(Source::stream(source, Some(&wanted))?.converted(schema, move |batch| cast(source, &to, &batch)))
            };
            let streams = self.0.iter().map(of_schema).collect::<Result<Vec<_>>>()?;
            return Ok(Stream::joined(schema, streams));
        }
        let batches = self.0.iter().flat_map(move |source| {
            let (schema, stream) = (Arc::clone(&of_all), source.stream(Some(&wanted)));
            let (stream, error) = match stream {
                Ok(stream) => (Some(stream), None),
                Err(error) => (None, Some(Err(error))),
            };
            let of_schema = move |batch: Result<RecordBatch>| cast(source, &schema, &batch?);
            stream.into_iter().flatten().map(of_schema).chain(error)
        });
        Ok(Stream::of(schema, batches))
    }

    /// Scans all text files for the types of columns, and then reads them one after the other.
    fn stream_of_text(&self, wanted: &[String]) -> Result<Stream<'_>> {
        let texts = self.0.iter().filter_map(|source| match &source.form {
            Form::Csv(csv) => Some((csv, source)),
            _ => None,
        });
        let survey = |(csv, source): (&'_ Csv, &'_ Source)| -> Result<(Survey, Vec<usize>)> {
            let places = source.places(Some(wanted))?;
            Ok((csv.survey(&source.name, &places)?, places))
        };
        let texts: Vec<_> = texts.collect();
        let mut surveys = texts.iter().copied().map(survey).collect::<Result<Vec<_>>>()?;
        Survey::unite(&mut surveys);
        let parts = texts.into_iter().zip(surveys);
        let streams = parts
            .map(|((csv, source), (survey, places))| csv.stream_of(&source.name, &places, survey))
            .collect::<Result<Vec<_>>>()?;
        let (schema, untyped) = streams.first().map_or_else(
            || (Arc::new(Schema::empty()), Vec::new()),
            |first| (Arc::clone(first.schema()), first.untyped().to_vec()),
        );
        Ok(Stream::of(schema, streams.into_iter().flatten()).with_untyped(untyped))
    }
}

/// The field of a column without its dictionary.
fn plain(field: &Field) -> Field {
    field.clone().with_data_type(plain_type(field.data_type()))
}

/// The one of two timestamp types that has microseconds.
fn coarser(one: &DataType, other: &DataType) -> DataType {
    let is_micros = matches!(one, DataType::Timestamp(TimeUnit::Microsecond, _));
    if is_micros { one.clone() } else { other.clone() }
}

/// Converts rows to the common types of all files.
fn cast(source: &Source, schema: &SchemaRef, batch: &RecordBatch) -> Result<RecordBatch> {
    let column = |(field, column): (&Arc<Field>, &ArrayRef)| -> Result<ArrayRef> {
        Ok(match (field.data_type(), column.data_type()) {
            (to, from) if to == from => Arc::clone(column),
            (to, DataType::Null) => new_null_array(to, column.len()),
            (DataType::Timestamp(TimeUnit::Microsecond, zone), DataType::Timestamp(TimeUnit::Nanosecond, _)) => {
                let micros = micros(column).ok_or_else(|| {
                    source.name.fail(format!(
                        "column `{}` has INT96 timestamps with parts of a microsecond, and another of the files has \
                         timestamps outside the years 1677 to 2262: no type holds both, so read the files separately",
                        text::name(field.name())
                    ))
                })?;
                Arc::new(micros.with_timezone_opt(zone.clone()))
            }
            _ => Arc::clone(&Column::new(field.name(), Arc::clone(column)).plain()?.chunks()[0]),
        })
    };
    let columns = schema.fields().iter().zip(batch.columns()).map(column).collect::<Result<Vec<_>>>()?;
    tables::batch(schema, columns, batch.num_rows()).map_err(|error| Failure::Input(error.to_string()))
}

/// Converts nanoseconds to microseconds; `None` if a timestamp has a fraction of a microsecond.
fn micros(nanos: &ArrayRef) -> Option<TimestampMicrosecondArray> {
    let nanos = nanos.as_primitive::<TimestampNanosecondType>();
    let is_exact = nanos.iter().flatten().all(|value| value % 1000 == 0);
    is_exact.then(|| nanos.unary(|value| value / 1000))
}
