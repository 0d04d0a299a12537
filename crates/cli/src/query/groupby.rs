//! `koel groupby`: aggregates of columns by the columns of a key.

use std::time::Instant;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, UInt32Type, UInt64Type};
use arrow_array::{Array, BooleanArray, RecordBatch, UInt32Array, new_null_array};
use arrow_schema::{DataType, Field};
use arrow_select::filter::filter_record_batch;
use koel::backend::HashBackend;
use koel_arrow::{Aggregation, Column, Error, Function, group_by, plain_type};
use serde_json::json;

use super::columns::{batch, schema_of};
use super::keyed::{KeyedTable, NullRows, Opened};
use super::limited::{self, Memory};
use super::{Reading, check_distinct, pieces};
use crate::failure::{Failure, Result, Verdict};
use crate::number::Number;
use crate::options::names;
use crate::progress::Progress;
use crate::tables::read::rows::KEY;
use crate::tables::write::Sink;
use crate::text;

/// An aggregate as the user writes it: `count`, `sum`, `sum:price`, `total=sum:price`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AggregateSpec {
    pub(crate) function: Function,
    pub(crate) column: Option<String>,
    pub(crate) name: Option<String>,
}

impl AggregateSpec {
    /// Whether it is the number of rows.
    fn is_rows(&self) -> bool {
        self.function == Function::Count && self.column.is_none()
    }

    /// The name of its column in the result.
    pub(super) fn shown(&self) -> String {
        let usual = || match &self.column {
            Some(column) => format!("{column}_{}", self.function.name()),
            None => self.function.name().into(),
        };
        self.name.clone().unwrap_or_else(usual)
    }
}

/// Parses `--agg`.
pub(crate) fn requested(text: &str) -> std::result::Result<names::List<AggregateSpec>, String> {
    names::items(text, &['=', ':'], aggregate)
}

fn aggregate(text: &str) -> std::result::Result<AggregateSpec, String> {
    // It may be the part of a column's name after a comma.
    let follows_comma = text.starts_with(' ');
    let text = text.trim();
    let (name, rest) = match names::split_once(text, '=', &[':'])? {
        Some((name, rest)) => (Some(name), rest),
        None => (None, text),
    };
    let (function, column) = match names::split_once(rest, ':', &[])? {
        Some((function, column)) => (function, Some(column)),
        None => (rest, None),
    };
    if name == Some("") || column == Some("") {
        return Err("a column has no name: write FUNCTION:COLUMN, or NAME=FUNCTION:COLUMN".into());
    }
    // What SQL and other tools call them.
    let known = |name: &str| {
        let usual = match name {
            "avg" => "mean",
            "count_distinct" => "nunique",
            other => other,
        };
        Function::ALL.into_iter().find(|known| known.name() == usual)
    };
    let Some(function) = known(function) else {
        let call = rest.strip_suffix(')').and_then(|call| call.split_once('('));
        let turned = column.map(|last| (last, function)).or(call).filter(|(function, _)| known(function).is_some());
        match turned {
            Some(("count", "*" | "")) => return Err(format!("`{rest}` is not an aggregate: write count")),
            Some((function, column)) if !column.is_empty() => {
                return Err(format!("`{rest}` is not an aggregate: write {function}:{column}"));
            }
            _ => {}
        }
        let all = Function::ALL.map(Function::name).join(", ");
        let comma = if follows_comma { "; a name with a comma is in quotes, as in sum:\"a, b\"" } else { "" };
        return Err(format!("`{function}` is not an aggregate: give one of {all}{comma}"));
    };
    let unquoted = |name: Option<&str>| name.map(names::name).transpose();
    Ok(AggregateSpec { function, column: unquoted(column)?, name: unquoted(name)? })
}

/// Which columns make the key.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Columns")]
pub(crate) struct Options {
    /// Key columns, separated by commas
    ///
    /// For tables of named columns: Parquet, Arrow IPC, CSV, TSV, NDJSON or .npy. Keys may be of any type, and --agg
    /// takes FUNCTION:COLUMN,..
    #[arg(long, alias = "on", value_name = "NAME,..", value_parser = names::names)]
    #[arg(conflicts_with_all = ["kmer", "canonical_kmers", "other_letters", "keys", "values", "key", "skip_nulls"])]
    by: Option<Vec<names::List<String>>>,
    #[command(flatten)]
    pub(super) nulls: NullRows,
    #[command(flatten)]
    pub(crate) memory: Memory,
}

impl Options {
    /// The columns of the key.
    pub(crate) fn by(&self) -> Option<Vec<String>> {
        names::all(self.by.as_ref())
    }

    /// Refuses options that require --by.
    pub(crate) fn check_unused(&self) -> Result<()> {
        super::check_unused("--by", "--drop-nulls", self.nulls.is_given())
    }
}

/// A run of `koel groupby`.
pub(crate) struct Job<'a> {
    pub(crate) table: KeyedTable<'a>,
    pub(crate) aggregates: &'a [AggregateSpec],
    pub(crate) min_count: u32,
    pub(crate) options: &'a Options,
}

impl Job<'_> {
    pub(crate) fn run(&self) -> Result<Verdict> {
        let KeyedTable { by, output, order, .. } = self.table;
        check_distinct("--by", by)?;
        check_names(by, self.aggregates)?;
        let mut of: Vec<String> = Vec::new();
        for requested in self.aggregates {
            match &requested.column {
                Some(column) if !of.contains(column) => of.push(column.clone()),
                None if requested.function != Function::Count => {
                    let name = requested.function.name();
                    return Err(Failure::Input(format!(
                        "--agg {name} of which column? Write {name}:COLUMN, and a name with a comma in quotes, as in \
                         sum:\"a, b\""
                    )));
                }
                _ => (),
            }
        }
        let progress = Progress::line();
        let (devices, source) = self.table.source(&of)?;
        let is_streamed = self.options.memory.is_given()
            || self.table.device.are_several()
            || limited::groupby::pays(self, &of, &devices, &source)?;
        if let Some(limit) = self.options.memory.limit(is_streamed) {
            return limited::groupby::run(self, &of, &devices, &source, &limit, progress);
        }
        let Opened { device, table, shape, is_text, read_seconds } = self.table.open(devices, &source, &of)?;

        progress.say(format!("grouping {}", text::counted(table.rows() as u64, "row")));
        let start = Instant::now();
        let aggregation = |requested: &AggregateSpec| {
            let whole = match &requested.column {
                Some(name) => {
                    let column = table.column(name)?;
                    // Text without values does not determine a type, and a sum of no numbers is null.
                    let is_open =
                        is_text && !column.has_values() && matches!(requested.function, Function::Sum | Function::Mean);
                    let nulls = || Column::new(name, new_null_array(&DataType::Int64, column.len()));
                    Aggregation::new(requested.function, if is_open { nulls() } else { column })
                }
                None => Aggregation::rows(),
            };
            Ok(whole.named(requested.shown()))
        };
        let aggregations = self.computed().iter().map(aggregation).collect::<Result<Vec<_>>>()?;
        let groups = group_by(&device, &table.keys(by)?, &aggregations, order, self.options.nulls.keys());
        let groups = groups.map_err(|error| match error {
            Error::Overflow { row, .. } if self.is_unnamed() => {
                match table.column(KEY).and_then(|keys| key_at(&keys, row)) {
                    Ok(key) => sum_too_large(&format!("the sum of the values of key {key}")),
                    Err(failure) => failure,
                }
            }
            error => to_failure(error, is_text),
        })?;
        let groups = self.kept(groups)?;
        let rows = groups.num_rows();
        // Key columns keep the metadata of the file's fields; their types may be wider, for long texts.
        let mut fields: Vec<Field> = groups.schema().fields().iter().map(|field| field.as_ref().clone()).collect();
        for (field, name) in fields.iter_mut().zip(by) {
            *field = table.field(name)?.clone().with_data_type(field.data_type().clone());
        }
        let schema = schema_of(fields);
        let mut sink = Sink::create(output.place(), &shape.schema(&schema))?;
        let progress = pieces::progress_of(progress, output, rows as u64);
        pieces::write(&mut sink, rows, &shape, |range| {
            let columns = groups.columns().iter().map(|column| column.slice(range.start, range.len())).collect();
            batch(&schema, columns, range.len())
        })?;
        sink.finish()?;
        drop(progress);
        self.summarize(device.info().id.clone(), table.rows() as u64, rows as u64, 0, Some(read_seconds), start)
    }

    /// Reports the groups of `rows` rows. `read` is the number of seconds that reading the columns took, if it is
    /// known.
    pub(super) fn summarize(
        &self,
        device: String,
        rows: u64,
        groups: u64,
        spilled: u64,
        read: Option<f64>,
        start: Instant,
    ) -> Result<Verdict> {
        let sentence = format!("{} of {}", text::counted(groups, "group"), text::counted(rows, "row"));
        self.table.output.summarize(&sentence, || {
            json!({
                "rows": rows, "groups": groups, "ids": self.table.order.name(), "min_count": self.min_count,
                "device": device, "aggregates": self.names(), "memory": self.options.memory.bytes(),
                "spilled_bytes": spilled, "seconds": { "read": read, "group": start.elapsed().as_secs_f64() },
            })
        })?;
        Ok(Verdict::Fine)
    }

    /// Whether rows are `key,value`.
    pub(super) fn is_unnamed(&self) -> bool {
        matches!(self.table.reading, Reading::Rows { .. })
    }

    /// The names of the aggregates in the result.
    fn names(&self) -> Vec<String> {
        self.aggregates.iter().map(AggregateSpec::shown).collect()
    }

    /// The aggregates that are computed: those of the result, and the number of rows if only --min-count needs it.
    pub(super) fn computed(&self) -> Vec<AggregateSpec> {
        let mut all = self.aggregates.to_vec();
        if self.min_count > 1 && !all.iter().any(AggregateSpec::is_rows) {
            all.push(AggregateSpec { function: Function::Count, column: None, name: None });
        }
        all
    }

    /// The groups with enough rows, as the columns of the result.
    pub(super) fn kept(&self, groups: RecordBatch) -> koel_arrow::Result<RecordBatch> {
        let by = self.table.by.len();
        let Some(counts) = self.computed().iter().position(AggregateSpec::is_rows).filter(|_| self.min_count > 1)
        else {
            return Ok(groups);
        };
        let counts = groups.column(by + counts).as_primitive::<Int64Type>();
        let kept = counts.values().iter().map(|&count| Some(count >= i64::from(self.min_count)));
        let groups = filter_record_batch(&groups, &kept.collect::<BooleanArray>())?;
        Ok(groups.project(&(0..by + self.aggregates.len()).collect::<Vec<_>>())?)
    }
}

/// The key of a row.
fn key_at(keys: &Column, row: usize) -> Result<Number> {
    let key = keys.take(&UInt32Array::from(vec![row as u32]))?;
    Ok(match key.data_type() {
        DataType::Int32 => key.as_primitive::<Int32Type>().value(0).into(),
        DataType::Int64 => key.as_primitive::<Int64Type>().value(0).into(),
        DataType::UInt64 => key.as_primitive::<UInt64Type>().value(0).into(),
        _ => key.as_primitive::<UInt32Type>().value(0).into(),
    })
}

/// The error for a sum that is too large; the sum's column has no name.
pub(super) fn sum_too_large(what: &str) -> Failure {
    Failure::Input(format!(
        "{what} does not fit in 64 bits: group fewer rows at a time, or give --values f64, whose sums round"
    ))
}

/// Refuses a result in which two columns have the same name.
fn check_names(by: &[String], aggregates: &[AggregateSpec]) -> Result<()> {
    let mut taken = by.to_vec();
    for requested in aggregates {
        let name = requested.shown();
        if taken.contains(&name) {
            let free = (2..).map(|i| format!("{name}_{i}")).find(|free| !taken.contains(free)).unwrap_or_default();
            let (free, of) = (names::quoted(&free), requested.column.as_deref().map(names::quoted));
            let of = of.map_or(String::new(), |column| format!(":{column}"));
            return Err(Failure::Input(format!(
                "two columns of the result would be called `{name}`: give the aggregate another name, as in --agg \
                 {free}={}{of}",
                requested.function.name()
            )));
        }
        taken.push(name);
    }
    Ok(())
}

/// Converts the error, with advice on the command line's options: columns can be read as other types.
pub(super) fn to_failure(error: Error, is_text: bool) -> Failure {
    match &error {
        Error::UnsupportedValue { column, found, .. } if is_text_or_wide(found) => {
            let column = text::name(column);
            let nulls = if is_text { ", with --null-value TEXT for a text that stands for a null" } else { "" };
            Failure::Input(format!(
                "{error} (here by --types {column}=int64, {column}=decimal(p,s) or {column}=float64{nulls})"
            ))
        }
        Error::Overflow { column, .. } => {
            let column = text::name(column);
            Failure::Input(format!("{error} (here by --types {column}=decimal(38,s), or {column}=float64)"))
        }
        _ => error.into(),
    }
}

/// Whether a column has no sum, but would have one if `--types` converted it: text, and decimals of 256 bits.
fn is_text_or_wide(of: &DataType) -> bool {
    use DataType::{Decimal256, LargeUtf8, Utf8, Utf8View};
    matches!(plain_type(of), Utf8 | LargeUtf8 | Utf8View | Decimal256(..))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aggregates_are_taken_apart() {
        let of = |name: Option<&str>, function, column: Option<&str>| {
            Ok(vec![AggregateSpec { function, column: column.map(String::from), name: name.map(String::from) }])
        };
        assert_eq!(requested("count"), of(None, Function::Count, None));
        assert_eq!(requested("sum:a b"), of(None, Function::Sum, Some("a b")));
        assert_eq!(requested("total=nunique:x"), of(Some("total"), Function::DistinctCount, Some("x")));
        assert_eq!(requested("avg:x"), of(None, Function::Mean, Some("x")));
        assert_eq!(requested("count_distinct:x"), of(None, Function::DistinctCount, Some("x")));
        assert_eq!(requested("sum:\"a, b=c\""), of(None, Function::Sum, Some("a, b=c")));
        assert_eq!(requested("\"a:b, c\"=max:d:e"), of(Some("a:b, c"), Function::Max, Some("d:e")));
        assert_eq!(requested("count,sum:x").map(|all| all.len()), Ok(2));
        for (text, part) in
            [("median:x", "not an aggregate: give one of count, sum"), ("sum:", "no name"), ("=sum:x", "no name")]
        {
            assert!(requested(text).is_err_and(|error| error.contains(part)), "{text}");
        }
    }
}
