//! Commands on tables of named columns: joins, groups and distinct rows by columns of any types.
//!
//! ```text
//! join.rs, groupby.rs, unique.rs, isin.rs     one command each
//! prepared.rs                                 the right side of joins in a file
//! keyed.rs                                    common code of groupby and unique: one table, its keys
//! aggregates.rs, memory.rs                    options
//! inputs.rs                                   tables as batches: streamed, or read at once
//! columns.rs, types.rs                        columns by name; keys of two tables whose types differ
//! results.rs, shape.rs                        writing results
//! inverse.rs                                  the id of each row's key
//! ```
//!
//! `koel_arrow::external` does the work, in memory or with temporary files.
//!
//! Rows without column names are a source with the columns `key` and `value` (`tables/read/rows.rs`). `tables` reads
//! and writes files; the crate `koel-arrow` defines which keys are equal, and the order of rows.

mod aggregates;
mod columns;
pub(crate) mod groupby;
mod inputs;
mod inverse;
pub(crate) mod isin;
pub(crate) mod join;
mod keyed;
mod memory;
pub(crate) mod prepared;
mod results;
mod shape;
mod types;
pub(crate) mod unique;

use std::collections::HashSet;
use std::path::Path;

use koel_arrow::NullEquality;

use super::failure::{Failure, Result};
use super::input::ReadOptions;
use super::options::names;
use super::tables::TableReading;
use super::tables::read::{Source, wanted};
use super::text;

pub(crate) use aggregates::{AggregateSpec, requested};
pub(crate) use keyed::{KeyOptions, KeyedTable, Reading};
pub(crate) use memory::Memory;
use shape::Shape;

/// Whether nulls are equal in joins.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Columns")]
pub(crate) struct Nulls {
    /// Treat null keys as equal
    ///
    /// Without this option, a row with a null in its key does not match any row, as in SQL.
    #[arg(long)]
    nulls_equal: bool,
}

impl Nulls {
    fn is_given(&self) -> bool {
        self.nulls_equal
    }

    fn equality(&self) -> NullEquality {
        if self.nulls_equal { NullEquality::NullEquals } else { NullEquality::NothingEquals }
    }
}

/// A column of each side of a join: `left=right`, or one name for both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct On {
    left: String,
    right: String,
}

impl On {
    /// The key columns of both sides.
    fn sides(on: &[On]) -> [Vec<String>; 2] {
        let (left, right) = on.iter().map(|on| (on.left.clone(), on.right.clone())).unzip();
        [left, right]
    }
}

/// Parses `--on`.
pub(crate) fn on(text: &str) -> std::result::Result<names::List<On>, String> {
    names::items(text, &['='], |item| {
        let (left, right) = names::split_once(item, '=', &[])?.unwrap_or((item, item));
        if left.is_empty() || right.is_empty() {
            return Err("a column has no name: give NAME, or LEFT=RIGHT where the names differ".into());
        }
        Ok(On { left: names::name(left)?, right: names::name(right)? })
    })
}

impl From<koel_arrow::Error> for Failure {
    fn from(error: koel_arrow::Error) -> Self {
        match error {
            koel_arrow::Error::Koel(error) => error.into(),
            error => Failure::Input(error.to_string()),
        }
    }
}

/// Refuses files of named columns if neither `option` nor --key names any.
pub(crate) fn refuse_tables(paths: &[&Path], reading: &ReadOptions, option: &str) -> Result<()> {
    if reading.key.is_some() {
        return Ok(());
    }
    const TABLES: [&str; 8] = ["parquet", "pq", "arrow", "feather", "ipc", "arrows", "ndjson", "jsonl"];
    for path in paths {
        let extension = path.extension().and_then(|extension| extension.to_str()).map(str::to_ascii_lowercase);
        if extension.is_some_and(|extension| TABLES.contains(&extension.as_str())) {
            let source = Source::open(path, &TableReading::default())?;
            let there = wanted::listed(&source.columns());
            return Err(source.name().fail(format!("name the columns of the key by {option}: there are {there}")));
        }
    }
    Ok(())
}

/// Refuses key columns that are named twice, or do not exist.
fn check_on(on: &[On], [left, right]: [&Source; 2]) -> Result<()> {
    for (source, names) in [left, right].into_iter().zip(On::sides(on)) {
        check_distinct("--on", &names)?;
        let there = source.columns();
        let known: HashSet<&str> = there.iter().copied().collect();
        if let Some(name) = names.iter().find(|name| !known.contains(name.as_str())) {
            return Err(wanted::missing(source.name(), &there, name));
        }
    }
    Ok(())
}

/// Refuses an option that requires named columns if `option` names none: it would be ignored.
fn check_unused(option: &str, unused: &str, is_given: bool) -> Result<()> {
    match is_given {
        true => {
            Err(Failure::Input(format!("{unused} is for tables of named columns: name those of the key by {option}")))
        }
        false => Ok(()),
    }
}

/// Names separated by commas, none of them twice.
fn check_distinct(option: &str, names: &[String]) -> Result<()> {
    let mut seen = HashSet::with_capacity(names.len());
    let again = names.iter().find(|name| !seen.insert(*name));
    again.map_or(Ok(()), |name| {
        Err(Failure::Input(format!("{option} names column `{}` twice: omit one of them", text::name(name))))
    })
}

/// Refuses a result in which two columns have the same name.
fn check_names<'a>(mut names: impl Iterator<Item = &'a str>, advice: &str) -> Result<()> {
    let mut seen = HashSet::new();
    names.find(|name| !seen.insert(*name)).map_or(Ok(()), |name| {
        let name = text::name(name);
        Err(Failure::Input(format!("two columns of the result would be called `{name}`: {advice}")))
    })
}

#[cfg(test)]
mod tests {
    use super::columns::wanted_columns;
    use super::*;
    use crate::input::Input;

    /// Enough names that comparing each pair would take minutes.
    #[test]
    fn wide_tables_are_checked_in_linear_time() {
        let mut names: Vec<String> = (0..200_000).map(|i| format!("column_{i}")).collect();
        let csv = |name: &str| {
            let bytes = (names[..60_000].join(",") + "\n").into_bytes();
            Input::of(&bytes[..], name.as_ref())
                .and_then(|input| input.into_source(&TableReading::default()))
                .unwrap_or_else(|failure| panic!("{failure}"))
        };
        let sources = [&csv("left.csv"), &csv("right.csv")];
        let same = |name: &String| On { left: name.clone(), right: name.clone() };
        let mut on: Vec<On> = names[..60_000].iter().map(same).collect();
        assert!(check_on(&on, sources).is_ok());
        on.push(On { left: "column".into(), right: names[0].clone() });
        assert!(check_on(&on, sources).is_err_and(|error| error.to_string().contains("there is no column column")));
        let last = on.len() - 1;
        on[last] = same(&names[0]);
        assert!(check_on(&on, sources).is_err_and(|error| error.to_string().contains("names column `column_0` twice")));

        let keys: Vec<String> = names[100_000..].iter().rev().cloned().chain(["key".into()]).collect();
        let wanted = wanted_columns(&names, &keys);
        names.push("key".into());
        assert_eq!(wanted, names);
        assert!(check_distinct("--by", &names).is_ok());
        names.push("key".into());
        assert!(check_distinct("--by", &names).is_err());
    }
}
