//! `koel groupby --by`: aggregates of columns by the columns of a key.

use std::path::PathBuf;
use std::time::Instant;

use koel::IdOrder;
use koel::backend::HashBackend;
use koel_arrow::{Aggregation, Function, group_by};
use serde_json::json;

use super::unique::NullRows;
use super::{CHUNK, Loaded, check_distinct, wanted_columns};
use crate::failure::{Failure, Result, Verdict};
use crate::options::OneDevice;
use crate::output::RowOptions;
use crate::progress::Progress;
use crate::tables::TableReading;
use crate::tables::read::Source;
use crate::tables::write::Sink;
use crate::text;

/// An aggregate as it is asked for: `count`, `sum`, `sum:price`, `total=sum:price`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) function: Function,
    pub(crate) column: Option<String>,
    pub(crate) name: Option<String>,
}

/// Takes an aggregate apart.
pub(crate) fn asked(text: &str) -> std::result::Result<Asked, String> {
    let (name, rest) = match text.split_once('=') {
        Some((name, rest)) => (Some(name), rest),
        None => (None, text),
    };
    let (function, column) = match rest.split_once(':') {
        Some((function, column)) => (function, Some(column)),
        None => (rest, None),
    };
    if name == Some("") || column == Some("") {
        return Err("a column has no name: write FUNCTION:COLUMN, or NAME=FUNCTION:COLUMN".into());
    }
    let Some(&function) = Function::ALL.iter().find(|known| known.name() == function) else {
        let all = Function::ALL.map(Function::name).join(", ");
        return Err(format!("`{function}` is no aggregate: there are {all}"));
    };
    Ok(Asked { function, column: column.map(String::from), name: name.map(String::from) })
}

/// Which columns make the key.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Columns")]
pub(crate) struct Options {
    /// Group a table by these columns, separated by commas. The file is Parquet, Arrow IPC, CSV, TSV or .npy, columns are
    /// of any types, and --agg says of which: FUNCTION:COLUMN,..
    #[arg(long, value_name = "NAME,..", value_delimiter = ',')]
    #[arg(conflicts_with_all = ["min_count", "kmer", "canonical_kmers", "other_letters", "keys", "values"])]
    pub(crate) by: Option<Vec<String>>,
    #[command(flatten)]
    nulls: NullRows,
}

/// What `koel groupby` was asked for, with --by.
pub(crate) struct Job<'a> {
    pub(crate) inputs: &'a [PathBuf],
    pub(crate) by: &'a [String],
    pub(crate) aggregates: &'a [Asked],
    pub(crate) order: IdOrder,
    pub(crate) options: &'a Options,
    pub(crate) reading: &'a TableReading,
    pub(crate) output: &'a RowOptions,
    pub(crate) device: &'a OneDevice,
}

impl Job<'_> {
    pub(crate) fn run(&self) -> Result<Verdict> {
        check_distinct("--by", self.by)?;
        let [input] = self.inputs else {
            return Err(Failure::Input(
                "--by takes one file: give one, or put the tables behind each other first".into(),
            ));
        };
        let mut of: Vec<String> = Vec::new();
        for asked in self.aggregates {
            match &asked.column {
                Some(column) if !of.contains(column) => of.push(column.clone()),
                None if asked.function != Function::Count => {
                    let name = asked.function.name();
                    return Err(Failure::Input(format!("--agg {name} of which column? Write {name}:COLUMN")));
                }
                _ => (),
            }
        }
        // Threads are started as they are asked for before the first file is read by them.
        let device = self.device.open(&[input])?;
        let source = Source::open(input, self.reading)?;
        self.reading.check(&[&source])?;
        let progress = Progress::line();
        let start = Instant::now();
        let table = Loaded::read(&source, &wanted_columns(&source, Some(&of), self.by), &progress)?;
        let read_seconds = start.elapsed().as_secs_f64();

        progress.say(format!("grouping {}", text::counted(table.rows() as u64, "row")));
        let start = Instant::now();
        let aggregation = |asked: &Asked| {
            let whole = match &asked.column {
                Some(column) => Aggregation::new(asked.function, table.column(column)?),
                None => Aggregation::rows(),
            };
            Ok(match &asked.name {
                Some(name) => whole.named(name),
                None => whole,
            })
        };
        let aggregations = self.aggregates.iter().map(aggregation).collect::<Result<Vec<_>>>()?;
        let names: Vec<String> =
            self.by.iter().cloned().chain(aggregations.iter().map(|one| one.name().into())).collect();
        if let Some((_, name)) = names.iter().enumerate().find(|&(i, name)| names[..i].contains(name)) {
            return Err(Failure::Input(format!(
                "two columns of the result would be called `{name}`: name one of them, as in --agg NAME=FUNCTION:COLUMN"
            )));
        }
        let groups = group_by(&device, &table.keys(self.by)?, &aggregations, self.order, self.options.nulls.keys())?;
        let rows = groups.num_rows();
        let mut sink = Sink::create(self.output.output.as_deref(), &groups.schema())?;
        let progress = self.output.output.is_some().then_some(progress);
        if let Some(progress) = &progress {
            progress.rows(rows as u64);
        }
        for first in (0..rows).step_by(CHUNK) {
            sink.write(&groups.slice(first, CHUNK.min(rows - first)))?;
        }
        sink.finish()?;
        drop(progress);
        let all = text::counted(table.rows() as u64, "row");
        self.output.summarize(&format!("{} of {all}", text::counted(rows as u64, "group")), || {
            json!({
                "rows": table.rows(), "groups": rows, "order": self.order.name(), "device": device.info().id,
                "seconds": { "read": read_seconds, "group": start.elapsed().as_secs_f64() },
            })
        })?;
        Ok(Verdict::Fine)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aggregates_are_taken_apart() {
        let of = |name: Option<&str>, function, column: Option<&str>| {
            Ok(Asked { function, column: column.map(String::from), name: name.map(String::from) })
        };
        assert_eq!(asked("count"), of(None, Function::Count, None));
        assert_eq!(asked("sum:a b"), of(None, Function::Sum, Some("a b")));
        assert_eq!(asked("total=nunique:x"), of(Some("total"), Function::DistinctCount, Some("x")));
        for (text, part) in [("median:x", "no aggregate"), ("sum:", "no name"), ("=sum:x", "no name")] {
            assert!(asked(text).is_err_and(|error| error.contains(part)), "{text}");
        }
    }
}
