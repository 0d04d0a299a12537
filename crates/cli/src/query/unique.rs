//! `koel unique`: the distinct keys of a table, and the id of each row's key.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{BooleanArray, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use arrow_select::filter::filter_record_batch;
use koel_arrow::Function;
use koel_arrow::external::{GroupBy, Of};
use serde_json::json;

use super::columns::{Places, batch, places, schema_of, wanted_columns};
use super::inputs::Stop;
use super::inverse::{Inverse, NumberedGroups};
use super::keyed::{KeyedTable, NullRows};
use super::results::Watched;
use super::{Memory, Shape, check_distinct, check_names};
use crate::failure::{Failure, Result, Verdict};
use crate::options;
use crate::options::names::{self, List};
use crate::progress::Progress;
use crate::tables::write::Flushed;
use crate::text;

/// Which columns make the key, and which are returned.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Columns")]
pub(crate) struct Options {
    /// Key columns, separated by commas
    ///
    /// For tables of named columns: Parquet, Arrow IPC, CSV, TSV, NDJSON or .npy. Keys may be of any type.
    #[arg(long, alias = "by", value_name = "NAME,..", value_parser = names::names)]
    #[arg(conflicts_with_all = ["kmer", "canonical_kmers", "other_letters", "keys", "key", "skip_nulls"])]
    on: Option<Vec<List<String>>>,
    /// Columns of the result [default: those of --on]
    ///
    /// Separated by commas. Values are those of the first row of each key.
    #[arg(long, value_name = "NAME,..", value_parser = names::names, requires = "on")]
    columns: Option<Vec<List<String>>>,
    #[command(flatten)]
    pub(super) nulls: NullRows,
    #[command(flatten)]
    pub(crate) memory: Memory,
}

impl Options {
    /// The columns of the key.
    pub(crate) fn on(&self) -> Option<Vec<String>> {
        names::all(self.on.as_ref())
    }

    /// Refuses options that require --on.
    pub(crate) fn check_unused(&self) -> Result<()> {
        super::check_unused("--on", "--drop-nulls", self.nulls.is_given())
    }
}

/// A run of `koel unique`.
pub(crate) struct Job<'a> {
    pub(crate) table: KeyedTable<'a>,
    pub(crate) counts: bool,
    pub(crate) min_count: u32,
    pub(crate) inverse: Option<&'a Path>,
    pub(crate) options: &'a Options,
}

impl Job<'_> {
    pub(crate) fn run(&self) -> Result<Verdict> {
        let KeyedTable { by: on, output, order, .. } = self.table;
        let columns = names::all(self.options.columns.as_ref());
        let shown = columns.as_deref().unwrap_or(on);
        check_distinct("--on", on)?;
        check_distinct("--columns", shown)?;
        let names = shown.iter().map(String::as_str).chain(self.counts.then_some("count"));
        check_names(
            names,
            "--counts adds one; `koel groupby --by NAME,.. --agg rows=count` counts under another name",
        )?;
        let progress = Progress::line();
        let (devices, source) = self.table.source(&[])?;
        let shape = Shape::of(&source, output);
        let start = Instant::now();
        let resources = self.table.resources(&self.options.memory, &devices);
        let columns = wanted_columns(shown, on);
        let limit = &resources.limit(&[(&source, &columns)])?;
        let watched = Watched::new(progress, output, "finding keys");
        let watch = |stage| watched.show(stage);
        let nulls = self.options.nulls.keys();
        let group_by = GroupBy { devices: &devices, by: &[], aggregates: &[], order, nulls, limit, watch: &watch };
        let of_columns = |schema: &Schema| Ok(self.aggregates(shown, schema)?.0);
        let (opened, is_partial) = self.table.columns(&resources, &source, columns, group_by, of_columns)?;
        let again = self.inverse.map(|path| Ok::<_, Failure>((path, opened.of_columns(on)?))).transpose()?;
        let rows = opened.rows_by(if is_partial { on } else { &[] })?;
        let read_seconds = start.elapsed().as_secs_f64();

        let start = Instant::now();
        let (by, (aggregates, order)) = (places(rows.schema(), on)?, self.aggregates(shown, rows.schema())?);
        let group_by = GroupBy { by: &by, aggregates: &aggregates, ..group_by };
        let of_groups = group_by.schema(rows.schema())?;
        let shown = Shown::new(self, shown, order, &of_groups, rows.schema())?;
        let rows = rows.into_batches(limit);
        let run = |take: &mut dyn FnMut(RecordBatch) -> std::result::Result<(), Stop>| {
            let found = if is_partial { group_by.run(rows, take) } else { group_by.run_rows(rows, take) };
            found.map_err(|stop: Stop| stop.into_failure(Failure::from))
        };
        let results = |schema: &SchemaRef| watched.results(&shape.schema(schema), limit);
        let (found, total) = match again {
            None => {
                let mut results = results(&shown.schema)?;
                let found = run(&mut |groups| Ok(results.write(&shape.batch(shown.of(&groups)?)?)?))?;
                (found, results.finish()?)
            }
            Some((path, again)) => {
                let mut groups = NumberedGroups::new(&of_groups, limit, self.options.memory.is_given());
                let mut found = run(&mut |batch| Ok(groups.push(batch)?))?;
                found.spilled += groups.spilled();
                watched.set("numbering rows");
                let inverse = Inverse { devices: &devices, by: on, nulls, limit, watched: &watched };
                let mut inverse = Some(inverse.write(path, again.rows()?, &mut groups)?);
                // The reader of stdout may close it early, so the ids are written first.
                if output.output.is_none() {
                    inverse.take().map(Flushed::finish).transpose()?;
                }
                let mut results = results(&shown.schema)?;
                for groups in groups.read() {
                    results.write(&shape.batch(shown.of(&groups?)?)?)?;
                }
                // Both files are complete before either gets its name.
                let rows = results.flush()?;
                inverse.map(Flushed::finish).transpose()?;
                (found, rows.finish()?)
            }
        };
        let sentence = format!("{} of {}", text::counted(total, "distinct key"), text::counted(found.rows, "row"));
        output.summarize(&sentence, || {
            json!({
                "rows": found.rows, "keys": total, "ids": self.table.order.name(), "min_count": self.min_count,
                "device": options::ids(&devices), "inverse": self.inverse.map(|path| path.display().to_string()),
                "memory": self.options.memory.bytes(), "spilled_bytes": found.spilled,
                "seconds": { "read": read_seconds, "unique": start.elapsed().as_secs_f64() },
            })
        })?;
        Ok(Verdict::Fine)
    }

    /// The aggregates: the first value of each shown column that is not a key, and the number of rows if it is needed,
    /// which is the last one. Also returns the position of each column of the result in the columns of groups.
    fn aggregates(&self, shown: &[String], schema: &Schema) -> Result<(Vec<Of>, Vec<usize>)> {
        let (by, mut all, mut order) = (self.table.by, Vec::new(), Vec::new());
        let keys: HashMap<&String, usize> = by.iter().zip(0..).collect();
        let places = Places::new(schema);
        for name in shown {
            let key = keys.get(name).copied();
            order.push(key.unwrap_or(by.len() + all.len()));
            if key.is_none() {
                let column = Some(places.of(name)?);
                all.push(Of { function: Function::First, column, name: name.clone() });
            }
        }
        if self.counts || self.min_count > 1 {
            order.extend(self.counts.then_some(by.len() + all.len()));
            all.push(Of { function: Function::Count, column: None, name: "count".into() });
        }
        Ok((all, order))
    }
}

/// The columns of the result.
struct Shown {
    schema: SchemaRef,
    /// The position of each column in the columns of groups.
    order: Vec<usize>,
    /// The position of the counts, and the least count of a group that is kept; `None` if all groups are kept.
    least: Option<(usize, i64)>,
}

impl Shown {
    /// The columns `names`, and counts, given the schemas of the groups and of the table.
    fn new(job: &Job<'_>, names: &[String], order: Vec<usize>, groups: &Schema, table: &Schema) -> Result<Self> {
        // Columns keep the metadata of the file's fields.
        let places = Places::new(table);
        let field = |(name, &at): (&String, &usize)| {
            let of = groups.field(at).data_type().clone();
            Ok::<_, Failure>(table.field(places.of(name)?).clone().with_data_type(of).with_nullable(true))
        };
        let mut fields = names.iter().zip(&order).map(field).collect::<Result<Vec<_>>>()?;
        fields.extend(job.counts.then(|| Field::new("count", DataType::Int64, false)));
        let counts = groups.fields().len() - 1;
        Ok(Shown {
            schema: schema_of(fields),
            order,
            least: (job.min_count > 1).then_some((counts, job.min_count.into())),
        })
    }

    /// The rows of the result for these groups.
    fn of(&self, groups: &RecordBatch) -> koel_arrow::Result<RecordBatch> {
        let columns = self.order.iter().map(|&at| Arc::clone(groups.column(at))).collect();
        let rows = batch(&self.schema, columns, groups.num_rows())?;
        let Some((counts, least)) = self.least else { return Ok(rows) };
        let counts = groups.column(counts).as_primitive::<Int64Type>().values();
        let kept: BooleanArray = counts.iter().map(|&count| Some(count >= least)).collect();
        Ok(filter_record_batch(&rows, &kept)?)
    }
}
