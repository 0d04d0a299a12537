//! `koel build --columns` and `koel join --with`: the right side of joins in a file, for any number of left sides.
//!
//! ```text
//! build    the key columns and the other ones of a table, and an index of the keys: koel_arrow::PreparedJoin
//! join     left rows are read, looked up and written batch by batch; the right table is not read again
//! ```
//!
//! Results are those of `koel join` with the table itself, except that columns of CSV files have types, while `koel
//! join` keeps the text of columns that are not keys. Right and full joins are refused: right rows without a match are
//! known only after the last left row.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Instant;

use arrow_schema::DataType;
use koel::Cpu;
use koel::backend::HashBackend;
use koel::device::Any;
use koel_arrow::external::{Join, Limit, Output};
use koel_arrow::{Error, NullEquality, PreparedJoin, PreparedOptions, can_be_equal, check_types, plain_type};
use serde_json::json;

use super::columns::{Places, places, renamed, wanted_columns};
use super::inputs::{Opened, Stop, keeps_types};
use super::join::{From, Job, Out};
use super::results::Watched;
use super::types::{NEVER_EQUAL, are_never_equal, is_string, types_of};
use super::{On, check_distinct};
use crate::failure::{Failure, Result, Verdict};
use crate::out;
use crate::progress::Progress;
use crate::tables::read::{Source, wanted};
use crate::tables::{Table, TableReading, kind_of};
use crate::text;

/// A run of `koel build --columns`.
pub(crate) struct Build<'a> {
    pub(crate) inputs: &'a [PathBuf],
    pub(crate) reading: &'a TableReading,
    pub(crate) key: &'a [String],
    pub(crate) columns: &'a [String],
    pub(crate) nulls: NullEquality,
    pub(crate) seed: u64,
    pub(crate) output: &'a Path,
    pub(crate) json: bool,
    pub(crate) device: &'a Any,
}

impl Build<'_> {
    pub(crate) fn run(&self) -> Result<Verdict> {
        let progress = Progress::line();
        check_distinct("--key", self.key)?;
        check_distinct("--columns", self.columns)?;
        let start = Instant::now();
        let source = Source::open_all(self.inputs, self.reading)?;
        self.reading.check(&[&source])?;
        let Table { schema, batches, rows } = source.read(Some(&wanted_columns(self.columns, self.key)))?;
        let read_seconds = start.elapsed().as_secs_f64();
        progress.say(format!("indexing {}", text::counted(rows as u64, "row")));
        let start = Instant::now();
        let options = PreparedOptions { nulls: self.nulls, seed: self.seed };
        let prepared = PreparedJoin::build(self.device, &schema, batches, self.key, options)?;
        let build_seconds = start.elapsed().as_secs_f64();
        let start = Instant::now();
        let digest = prepared.save(self.output)?;
        let save_seconds = start.elapsed().as_secs_f64();
        drop(progress);
        if self.json {
            out::print_json(&json!({
                "output": self.output.display().to_string(), "rows": rows, "key": self.key,
                "columns": prepared.schema().fields().iter().map(|field| field.name()).collect::<Vec<_>>(),
                "digest": digest.to_string(), "device": self.device.info().id,
                "seconds": { "read": read_seconds, "build": build_seconds, "save": save_seconds },
            }))?;
        } else {
            let counted = [text::counted(rows as u64, "row"), text::counted(schema.fields().len() as u64, "column")];
            out::summary(&format!("{}: {}\ndigest    {digest}", text::path(self.output), counted.join(" of ")));
        }
        Ok(Verdict::Fine)
    }
}

/// Prints what is in the file of a prepared side, which is read and checked.
pub(crate) fn print_info(path: &Path, is_json: bool) -> Result<Verdict> {
    let prepared = PreparedJoin::open(&Any::Cpu(Cpu::new()), path)?;
    let (rows, digest) = (prepared.len() as u64, prepared.digest()?.to_string());
    let file_bytes = path.metadata().map_err(|error| Failure::io(path, &error))?.len();
    let columns: Vec<_> = prepared.schema().fields().iter().map(|field| (field.name(), field.data_type())).collect();
    let key: Vec<_> = prepared.on().iter().map(|&at| columns[at]).collect();
    let is_null_equal = prepared.nulls() == NullEquality::NullEquals;
    if is_json {
        let column = |(name, of): &(&String, &DataType)| json!({ "name": name, "type": of.to_string() });
        out::print_json(&json!({
            "table": "join", "rows": rows, "key": key.iter().map(column).collect::<Vec<_>>(),
            "columns": columns.iter().map(column).collect::<Vec<_>>(), "nulls_equal": is_null_equal,
            "digest": digest, "file_bytes": file_bytes,
        }))?;
        return Ok(Verdict::Fine);
    }
    let typed = |columns: &[(&String, &DataType)]| {
        columns.iter().map(|(name, of)| format!("{} {of}", text::name(name))).collect::<Vec<_>>().join(", ")
    };
    out::print(&format!(
        "{}: {}\n\
         table     the right side of joins, for `koel join --with`\n\
         key       {}; nulls are {}\n\
         columns   {}\n\
         file      {} bytes\n\
         digest    {digest}",
        text::path(path),
        text::counted(rows, "row"),
        typed(&key),
        if is_null_equal { "equal" } else { "not equal" },
        typed(&columns),
        text::grouped(file_bytes),
    ))?;
    Ok(Verdict::Fine)
}

/// Joins the left files of a job with the prepared side in a file.
pub(crate) fn join(job: &Job<'_>, reading: &TableReading, with: &Path, is_mapped: bool) -> Result<Verdict> {
    if job.how.keeps_right() {
        return Err(Failure::Input(format!(
            "--how {} needs the rows of both sides: give the right table in place of --with",
            job.how.name()
        )));
    }
    let mut devices = job.device.open()?;
    if devices.len() > 1 {
        return Err(Failure::Input("--with works on one device: name one by --device".into()));
    }
    let device = devices.swap_remove(0);
    let progress = Progress::line();
    if let Some(requested) = job.options.columns() {
        check_distinct("--columns", &requested)?;
    }
    let start = Instant::now();
    let prepared = if is_mapped { mapped(&device, with)? } else { PreparedJoin::open(&device, with)? };
    let on = left_keys(&prepared, job.on, with)?;
    if job.options.nulls.is_given() && prepared.nulls() == NullEquality::NothingEquals {
        let advice = "give --nulls-equal to `koel build` too, or omit it";
        return Err(Failure::Input(format!("--nulls-equal: nulls are not equal in {}: {advice}", text::path(with))));
    }
    let mut source = Source::open_all(job.left, reading)?;
    if job.output.place().is_text() {
        source.keep_text(&on);
    }
    reading.check(&[&source])?;
    check_distinct("--on", &on)?;
    let there = source.columns();
    if let Some(name) = on.iter().find(|name| !there.contains(&name.as_str())) {
        return Err(wanted::missing(source.name(), &there, name));
    }
    let outs = job.chosen(outputs(job, &source, &prepared))?;
    let shown: Vec<String> = outs
        .iter()
        .filter_map(|out| match &out.from {
            From::Left(name) => Some(name.clone()),
            _ => None,
        })
        .collect();
    let needed = wanted_columns(&shown, &on);
    // Left rows are a stream, unless their columns of dictionaries need one dictionary each.
    let is_stream = keeps_types(&source, &needed)?;
    let limit = if is_stream { Limit::new(u64::MAX) } else { Limit::none() };
    let mut left = Opened::of(&source, needed, is_stream)?.rows()?;
    let open_seconds = start.elapsed().as_secs_f64();

    let start = Instant::now();
    let on: Vec<(usize, usize)> = places(left.schema(), &on)?.into_iter().zip(prepared.on().iter().copied()).collect();
    for &(own, other) in &on {
        let to = prepared.schema().field(other).data_type();
        if !can_be_equal(left.schema().field(own).data_type(), to) && left.is_open(own) {
            left.put_nulls(own, to);
        }
    }
    let keys = types_of(left.schema(), on.iter().map(|on| on.0))?;
    check_types(&keys, prepared.keys()).map_err(|error| to_failure(error, with))?;
    let (of_left, of_right) = (Places::new(left.schema()), Places::new(prepared.schema()));
    let output = |out: &Out| match &out.from {
        From::Left(name) => Ok(Output::Left(of_left.of(name)?)),
        From::Right(name) => Ok(Output::Right(of_right.of(name)?)),
        From::Key(_) => Err(Failure::Input("only right and full joins have keys of both sides".into())),
    };
    let columns = outs.iter().map(output).collect::<Result<Vec<_>>>()?;
    let watched = Watched::new(progress, job.output, "joining");
    let watch = |stage| watched.show(stage);
    let (devices, nulls, how) = (std::slice::from_ref(&device), prepared.nulls(), job.how);
    let join = Join { devices, on: &on, how, nulls, columns: &columns, limit: &limit, watch: &watch };
    let schema = join.schema(left.schema(), prepared.schema())?;
    let schema = renamed(&schema, outs.iter().map(|out| &out.name));
    let mut results = watched.results(&schema, &limit)?;
    let found = join.run_prepared(left.into_batches(&limit), &prepared, |rows| Ok(results.write(&rows)?));
    let found = found.map_err(|stop: Stop| stop.into_failure(|error| to_failure(error, with)))?;
    let total = results.finish()?;
    let sides = [(found.left, "left row"), (found.right, "prepared row")];
    let sides = sides.map(|(rows, what)| text::counted(rows, what)).join(" and ");
    job.output.summarize(&format!("{} of {sides}", text::counted(total, "row")), || {
        json!({
            "how": job.how.name(), "left_rows": found.left, "right_rows": found.right, "rows": total,
            "device": device.info().id, "seconds": { "open": open_seconds, "join": start.elapsed().as_secs_f64() },
        })
    })?;
    Ok(Verdict::Fine)
}

/// Maps a prepared side.
#[expect(unsafe_code, reason = "only the user knows who else writes to the file")]
fn mapped(device: &Any, with: &Path) -> koel_arrow::Result<PreparedJoin> {
    // SAFETY: the user chose --mapped, whose help says that nothing may write to or truncate the file meanwhile. This
    // command does not: its output is another file.
    unsafe { PreparedJoin::open_mapped(device, with) }
}

/// The left key columns, in the order of the prepared ones; without --on, they have the same names.
fn left_keys(prepared: &PreparedJoin, on: &[On], with: &Path) -> Result<Vec<String>> {
    let keys: Vec<&str> = prepared.on().iter().map(|&at| prepared.schema().field(at).name().as_str()).collect();
    if on.is_empty() {
        return Ok(keys.into_iter().map(String::from).collect());
    }
    let left_of = |key: &&str| on.iter().find(|on| on.right == *key).map(|on| on.left.clone());
    match keys.iter().map(left_of).collect::<Option<Vec<_>>>() {
        Some(left) if on.len() == keys.len() => Ok(left),
        _ => {
            let named = keys.iter().map(|key| format!("LEFT={}", text::name(key))).collect::<Vec<_>>().join(",");
            let path = text::path(with);
            Err(Failure::Input(format!("the keys of {path} are {}: give --on {named}", wanted::listed(&keys))))
        }
    }
}

/// Whether `--types` can read all values of the first type as the second one.
fn is_read_as(from: &DataType, to: &DataType) -> bool {
    use DataType::*;
    match (plain_type(from), plain_type(to)) {
        (Binary | LargeBinary | BinaryView | FixedSizeBinary(_), _) => false,
        (from, Utf8 | LargeUtf8 | Utf8View) => !from.is_nested(),
        (Date32 | Date64, Timestamp(..)) | (Timestamp(..), Timestamp(..)) => true,
        (Boolean, to) => to.is_numeric() && !to.is_floating(),
        (from, to) => from.is_integer() && to.is_numeric() || from.is_numeric() && to.is_floating(),
    }
}

/// Converts the error, with advice on the command line's options: to read the left or the prepared column as another
/// type.
fn to_failure(error: Error, with: &Path) -> Failure {
    let Error::TypeMismatch { left, left_type, right, right_type, .. } = &error else { return error.into() };
    let types = |column: &str, from: &DataType, to: &DataType| {
        let kind = kind_of(to).filter(|_| is_read_as(from, to))?;
        Some(format!("--types {}={kind}", text::name(column)))
    };
    let path = text::path(with);
    let types_of_text = |column: &str, own: &DataType, to: &DataType| {
        kind_of(to).filter(|_| is_string(own)).map(|kind| format!("--types {}={kind}", text::name(column)))
    };
    let as_values = [types_of_text(left, left_type, right_type), types_of_text(right, right_type, left_type)];
    let advice = match (types(left, left_type, right_type), types(right, right_type, left_type)) {
        // As text, `0001` does not equal 1.
        (None, Some(there)) if let Some(here) = &as_values[0] => {
            format!("give {here}, or build {path} again with {there} to compare them as text")
        }
        (Some(here), None) if let Some(there) = &as_values[1] => {
            format!("build {path} again with {there}, or give {here} to compare them as text")
        }
        (Some(here), Some(there)) => format!("give {here}, or build {path} again with {there}"),
        (Some(here), None) => format!("give {here}"),
        (None, Some(there)) => format!("build {path} again with {there}"),
        (None, None) if are_never_equal(left_type, right_type) => NEVER_EQUAL.into(),
        (None, None) => format!("convert both to one type, and build {path} again"),
    };
    let (left, right) = (text::name(left), text::name(right));
    Failure::Input(format!("left key `{left}` is {left_type} and key `{right}` of {path} is {right_type}: {advice}"))
}

/// All columns of the result: the left ones, then the prepared ones without the keys.
fn outputs(job: &Job<'_>, left: &Source, prepared: &PreparedJoin) -> Vec<Out> {
    let names = left.columns();
    let of_left: HashSet<&str> = names.iter().copied().collect();
    let mut outs: Vec<Out> =
        names.iter().map(|&name| Out { name: name.into(), from: From::Left(name.into()) }).collect();
    if job.how.has_right() {
        let fields = prepared.schema().fields().iter().enumerate().filter(|(at, _)| !prepared.on().contains(at));
        outs.extend(fields.map(|(_, field)| Out {
            name: job.options.name_of_right(field.name(), of_left.contains(field.name().as_str())),
            from: From::Right(field.name().clone()),
        }));
    }
    outs
}
