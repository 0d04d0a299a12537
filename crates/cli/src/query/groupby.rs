//! `koel groupby`: aggregates of columns by the columns of a key.

use std::time::Instant;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, UInt32Type, UInt64Type};
use arrow_array::{Array, BooleanArray, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use arrow_select::filter::filter_record_batch;
use koel_arrow::external::{GroupBy, Of};
use koel_arrow::{Error, Function, plain_type};
use serde_json::json;

use super::aggregates::{AggregateSpec, check_names};
use super::columns::{Places, places, schema_of, wanted_columns};
use super::inputs::Stop;
use super::keyed::{KeyedTable, NullRows};
use super::results::Watched;
use super::{Memory, Reading, Shape, check_distinct};
use crate::failure::{Failure, Result, Verdict};
use crate::options::{self, names};
use crate::progress::Progress;
use crate::tables::read::Source;
use crate::tables::read::rows::KEY;
use crate::text;

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
        let shape = Shape::of(&source, output);
        let start = Instant::now();
        let resources = self.table.resources(&self.options.memory, &devices);
        let columns = wanted_columns(&of, by);
        let limit = &resources.limit(&[(&source, &columns)])?;
        let watched = Watched::new(progress, output, "grouping");
        let watch = |stage| watched.show(stage);
        let group_by = GroupBy {
            devices: &devices,
            by: &[],
            aggregates: &[],
            order,
            nulls: self.options.nulls.keys(),
            limit,
            watch: &watch,
        };
        let (opened, is_partial) =
            self.table.columns(&resources, &source, columns, group_by, |schema| self.of_columns(schema))?;
        let mut rows = opened.rows_by(if is_partial { by } else { &[] })?;
        let read_seconds = start.elapsed().as_secs_f64();

        let start = Instant::now();
        let (key, mut aggregates) = (places(rows.schema(), by)?, self.of_columns(rows.schema())?);
        // A column of text without values has no type. Its sums and means are null, so they are computed from a column
        // of nulls.
        let is_open = |of: &Of| {
            matches!(of.function, Function::Sum | Function::Mean)
                && of.column.is_some_and(|at| source.is_text() && rows.is_open(at))
        };
        let open: Vec<bool> = aggregates.iter().map(is_open).collect();
        if open.contains(&true) {
            let nulls = rows.add_nulls();
            aggregates.iter_mut().zip(open).filter(|(_, is_open)| *is_open).for_each(|(of, _)| of.column = Some(nulls));
        }
        let group_by = GroupBy { by: &key, aggregates: &aggregates, ..group_by };
        let to_failure = |error| match error {
            Error::Overflow { row, .. } if self.is_unnamed() => match key_at(&source, row) {
                Ok(key) => sum_too_large(&key),
                Err(failure) => failure,
            },
            error => to_failure(error, source.is_text()),
        };
        let groups = group_by.schema(rows.schema()).map_err(to_failure)?;
        // Key columns keep the metadata of the file's fields.
        let mut fields: Vec<Field> = groups.fields().iter().map(|field| field.as_ref().clone()).collect();
        for (field, &key) in fields.iter_mut().zip(&key) {
            *field = rows.schema().field(key).clone().with_data_type(field.data_type().clone()).with_nullable(true);
        }
        fields.truncate(by.len() + self.aggregates.len());
        let mut results = watched.results(&shape.schema(&schema_of(fields)), limit)?;
        let rows = rows.into_batches(limit);
        let take = |groups| Ok(results.write(&shape.batch(self.kept(groups)?)?)?);
        let found = if is_partial { group_by.run(rows, take) } else { group_by.run_rows(rows, take) };
        let found = found.map_err(|stop: Stop| stop.into_failure(to_failure))?;
        let total = results.finish()?;
        let sentence = format!("{} of {}", text::counted(total, "group"), text::counted(found.rows, "row"));
        output.summarize(&sentence, || {
            let names: Vec<String> = self.aggregates.iter().map(AggregateSpec::shown).collect();
            json!({
                "rows": found.rows, "groups": total, "ids": order.name(), "min_count": self.min_count,
                "device": options::ids(&devices), "aggregates": names, "memory": self.options.memory.bytes(),
                "spilled_bytes": found.spilled,
                "seconds": { "read": read_seconds, "group": start.elapsed().as_secs_f64() },
            })
        })?;
        Ok(Verdict::Fine)
    }

    /// Whether rows are `key,value`.
    fn is_unnamed(&self) -> bool {
        matches!(self.table.reading, Reading::Rows { .. })
    }

    /// The aggregates that are computed: those of the result, and the number of rows if only --min-count needs it.
    fn computed(&self) -> Vec<AggregateSpec> {
        let mut all = self.aggregates.to_vec();
        if self.min_count > 1 && !all.iter().any(AggregateSpec::is_rows) {
            all.push(AggregateSpec { function: Function::Count, column: None, name: None });
        }
        all
    }

    /// The aggregates that are computed, with the positions of their columns.
    fn of_columns(&self, schema: &Schema) -> Result<Vec<Of>> {
        let places = Places::new(schema);
        let aggregate = |requested: AggregateSpec| {
            let column = requested.column.as_deref().map(|column| places.of(column)).transpose()?;
            Ok(Of { function: requested.function, column, name: requested.shown() })
        };
        self.computed().into_iter().map(aggregate).collect()
    }

    /// The groups with enough rows, as the columns of the result.
    fn kept(&self, groups: RecordBatch) -> koel_arrow::Result<RecordBatch> {
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

/// The key of a row without column names.
fn key_at(source: &Source, row: usize) -> Result<String> {
    let mut start = 0;
    for batch in source.stream(Some(&[KEY.into()]))? {
        let batch = batch?;
        if row < start + batch.num_rows() {
            let (keys, row) = (batch.column(0), row - start);
            return Ok(match keys.data_type() {
                DataType::Int32 => keys.as_primitive::<Int32Type>().value(row).to_string(),
                DataType::Int64 => keys.as_primitive::<Int64Type>().value(row).to_string(),
                DataType::UInt64 => keys.as_primitive::<UInt64Type>().value(row).to_string(),
                _ => keys.as_primitive::<UInt32Type>().value(row).to_string(),
            });
        }
        start += batch.num_rows();
    }
    Ok(format!("in row {row}"))
}

/// The error for a sum that is too large; the sum's column has no name.
fn sum_too_large(key: &str) -> Failure {
    Failure::Input(format!(
        "the sum of the values of key {key} does not fit in 64 bits: group fewer rows at a time, or give --values f64, \
         whose sums round"
    ))
}

/// Converts the error, with advice on the command line's options: columns can be read as other types.
fn to_failure(error: Error, is_text: bool) -> Failure {
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
