//! `koel groupby --by`: aggregates of columns by the columns of a key.

use std::time::Instant;

use arrow_array::new_null_array;
use arrow_schema::{DataType, Field};
use koel::backend::HashBackend;
use koel_arrow::{Aggregation, Column, Error, Function, group_by};
use serde_json::json;

use super::columns::{batch, schema_of};
use super::keyed::{KeyedTable, NullRows, Opened};
use super::limited::{self, Memory};
use super::{check_distinct, pieces};
use crate::failure::{Failure, Result, Verdict};
use crate::progress::Progress;
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
    #[arg(conflicts_with_all = ["min_count", "kmer", "canonical_kmers", "other_letters", "keys", "values", "key", "skip_nulls"])]
    pub(crate) by: Option<Vec<String>>,
    #[command(flatten)]
    pub(super) nulls: NullRows,
    #[command(flatten)]
    pub(crate) memory: Memory,
}

impl Options {
    /// Refuses what means nothing without --by.
    pub(crate) fn check_unused(&self) -> Result<()> {
        super::check_unused("--by", "--drop-nulls", self.nulls.is_given())
    }
}

/// What `koel groupby` was asked for, with --by.
pub(crate) struct Job<'a> {
    pub(crate) table: KeyedTable<'a>,
    pub(crate) aggregates: &'a [Asked],
    pub(crate) options: &'a Options,
}

impl Job<'_> {
    pub(crate) fn run(&self) -> Result<Verdict> {
        let KeyedTable { by, output, order, .. } = self.table;
        check_distinct("--by", by)?;
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
        let progress = Progress::line();
        if let Some(limit) = self.options.memory.limit(self.table.device.are_several()) {
            return limited::groupby::run(self, &of, &limit, progress);
        }
        let Opened { device, table, is_text, read_seconds } = self.table.open(&of)?;

        progress.say(format!("grouping {}", text::counted(table.rows() as u64, "row")));
        let start = Instant::now();
        let aggregation = |asked: &Asked| {
            let whole = match &asked.column {
                Some(name) => {
                    let column = table.column(name)?;
                    // Text without values tells no type, and the sum of no numbers is none.
                    let is_open =
                        is_text && !column.has_values() && matches!(asked.function, Function::Sum | Function::Mean);
                    let nulls = || Column::new(name, new_null_array(&DataType::Int64, column.len()));
                    Aggregation::new(asked.function, if is_open { nulls() } else { column })
                }
                None => Aggregation::rows(),
            };
            Ok(match &asked.name {
                Some(name) => whole.named(name),
                None => whole,
            })
        };
        let aggregations = self.aggregates.iter().map(aggregation).collect::<Result<Vec<_>>>()?;
        let names = by.iter().map(String::as_str).chain(aggregations.iter().map(Aggregation::name));
        pieces::check_names(names, "name one of them, as in --agg NAME=FUNCTION:COLUMN")?;
        let groups = group_by(&device, &table.keys(by)?, &aggregations, order, self.options.nulls.keys())
            .map_err(|error| told(error, is_text))?;
        let rows = groups.num_rows();
        // Of key columns the file may say more than their type, which is wider for much text.
        let mut fields: Vec<Field> = groups.schema().fields().iter().map(|field| field.as_ref().clone()).collect();
        for (field, name) in fields.iter_mut().zip(by) {
            *field = table.field(name)?.clone().with_data_type(field.data_type().clone());
        }
        let schema = schema_of(fields);
        let mut sink = Sink::create(output.output.as_deref(), &schema)?;
        let progress = pieces::progress_of(progress, output, rows as u64);
        pieces::write(&mut sink, rows, |range| {
            let columns = groups.columns().iter().map(|column| column.slice(range.start, range.len())).collect();
            batch(&schema, columns, range.len())
        })?;
        sink.finish()?;
        drop(progress);
        let all = text::counted(table.rows() as u64, "row");
        output.summarize(&format!("{} of {all}", text::counted(rows as u64, "group")), || {
            json!({
                "rows": table.rows(), "groups": rows, "order": order.name(), "device": device.info().id,
                "seconds": { "read": read_seconds, "group": start.elapsed().as_secs_f64() },
            })
        })?;
        Ok(Verdict::Fine)
    }
}

/// The error, with what helps on the command line: text can be read as other types.
pub(super) fn told(error: Error, is_text: bool) -> Failure {
    match &error {
        Error::UnsupportedValue { column, .. } if is_text => Failure::Input(format!(
            "{error} (here by --types {column}=int64, {column}=decimal(p,s) or {column}=float64)"
        )),
        Error::Overflow { column, .. } if is_text => {
            Failure::Input(format!("{error} (here by --types {column}=decimal(38,s), or {column}=float64)"))
        }
        _ => error.into(),
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
