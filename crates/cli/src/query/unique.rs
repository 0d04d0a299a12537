//! `koel unique`: the distinct keys of a table, and the id of each row's key.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use arrow_array::{Array, ArrayRef, Int64Array, UInt32Array, new_empty_array};
use arrow_schema::{DataType, Field};
use koel::backend::HashBackend;
use koel_arrow::factorize;
use serde_json::json;

use super::columns::{batch, schema_of};
use super::keyed::{KeyedTable, NullRows, Opened};
use super::limited::{self, Memory};
use super::{Picked, Shape, check_distinct, integers, pieces};
use crate::failure::{Result, Verdict};
use crate::options::names::{self, List};
use crate::progress::Progress;
use crate::tables::write::{Flushed, Place, Sink};
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
        pieces::check_names(
            names,
            "--counts adds one; `koel groupby --by NAME,.. --agg rows=count` counts under another name",
        )?;
        let progress = Progress::line();
        let (devices, source) = self.table.source(&[])?;
        let is_streamed = self.options.memory.is_given()
            || self.table.device.are_several()
            || limited::unique::pays(self, shown, &devices, &source)?;
        if let Some(limit) = self.options.memory.limit(is_streamed) {
            return limited::unique::run(self, shown, &devices, &source, &limit, progress);
        }
        let Opened { device, table, shape, read_seconds, .. } = self.table.open(devices, &source, shown)?;

        progress.say(format!("numbering the keys of {}", text::counted(table.rows() as u64, "row")));
        let start = Instant::now();
        let (all_rows, is_counted) = (table.rows(), self.counts || self.min_count > 1);
        let mut fields = table.pick(shown.iter().map(|name| (name.as_str(), name.clone())))?.fields().to_vec();
        fields.extend(self.counts.then(|| Field::new("count", DataType::Int64, false)));
        let schema = schema_of(fields);
        let is_single = self.inverse.is_none() && shown == on && on.len() == 1;
        let (keys, counts, codes) = if is_single && integers::is_for(&table, &on[0])? {
            let least = is_counted.then_some(self.min_count);
            // Only one column was read, in one chunk.
            let column = table.into_only().unwrap_or_else(|| new_empty_array(&DataType::UInt32));
            let (keys, counts) = integers::distinct(&device, column, least, order)?;
            (Shown::Keys(keys), counts, None)
        } else {
            let groups = factorize(&device, &table.keys(on)?, order, self.options.nulls.keys())?;
            let (mut rows, mut counts) = (groups.rows, None);
            if is_counted {
                let mut all = vec![0_u32; rows.len()];
                groups.codes.iter().flatten().for_each(|code| all[code as usize] += 1);
                let kept = |count: &u32| *count >= self.min_count;
                rows = rows
                    .values()
                    .iter()
                    .zip(&all)
                    .filter(|(_, count)| kept(count))
                    .map(|(&row, _)| Some(row))
                    .collect();
                all.retain(kept);
                counts = Some(all);
            }
            let picked = table.pick(shown.iter().map(|name| (name.as_str(), name.clone())))?;
            (Shown::Rows(picked, rows), counts, Some(groups.codes))
        };
        let counts = counts.filter(|_| self.counts);
        // The reader of stdout may close it early, so the ids are written first.
        let inverse = self.inverse.zip(codes);
        let mut inverse = inverse.map(|(path, codes)| write_inverse(path, &codes)).transpose()?;
        if output.output.is_none() {
            inverse.take().map(Flushed::finish).transpose()?;
        }
        let mut sink = Sink::create(output.place(), &shape.schema(&schema))?;
        let progress = pieces::progress_of(progress, output, keys.len() as u64);
        pieces::write(&mut sink, keys.len(), &shape, |range| {
            let mut columns = keys.slice(range.clone())?;
            if let Some(counts) = &counts {
                let counts = Int64Array::from_iter_values(counts[range.clone()].iter().map(|&count| i64::from(count)));
                columns.push(Arc::new(counts));
            }
            batch(&schema, columns, range.len())
        })?;
        // Both files are complete before either gets its name.
        let rows = sink.flush()?;
        inverse.map(Flushed::finish).transpose()?;
        let total = rows.finish()?;
        drop(progress);
        self.summarize(device.info().id.clone(), all_rows as u64, total, 0, Some(read_seconds), start)
    }

    /// Reports the keys of `rows` rows. `read` is the number of seconds that reading the columns took, if it is known.
    pub(super) fn summarize(
        &self,
        device: String,
        rows: u64,
        keys: u64,
        spilled: u64,
        read: Option<f64>,
        start: Instant,
    ) -> Result<Verdict> {
        let sentence = format!("{} of {}", text::counted(keys, "distinct key"), text::counted(rows, "row"));
        self.table.output.summarize(&sentence, || {
            json!({
                "rows": rows, "keys": keys, "ids": self.table.order.name(), "min_count": self.min_count,
                "device": device, "inverse": self.inverse.map(|path| path.display().to_string()),
                "memory": self.options.memory.bytes(), "spilled_bytes": spilled,
                "seconds": { "read": read, "unique": start.elapsed().as_secs_f64() },
            })
        })?;
        Ok(Verdict::Fine)
    }
}

/// The rows of the result, without counts.
enum Shown {
    /// Rows of the table.
    Rows(Picked, UInt32Array),
    /// The keys themselves.
    Keys(ArrayRef),
}

impl Shown {
    fn len(&self) -> usize {
        match self {
            Shown::Rows(_, rows) => rows.len(),
            Shown::Keys(keys) => keys.len(),
        }
    }

    fn slice(&self, range: Range<usize>) -> koel_arrow::Result<Vec<ArrayRef>> {
        match self {
            Shown::Rows(picked, rows) => picked.take(&rows.slice(range.start, range.len())),
            Shown::Keys(keys) => Ok(vec![keys.slice(range.start, range.len())]),
        }
    }
}

/// Writes the id of each row's key; null for rows that were dropped.
fn write_inverse(path: &Path, codes: &UInt32Array) -> Result<Flushed> {
    let schema = schema_of(vec![Field::new("id", DataType::UInt32, codes.null_count() > 0)]);
    let mut sink = Sink::create(Place::File(path), &schema)?;
    pieces::write(&mut sink, codes.len(), &Shape::default(), |range| {
        batch(&schema, vec![Arc::new(codes.slice(range.start, range.len()))], range.len())
    })?;
    sink.flush()
}
