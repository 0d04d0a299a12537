//! `koel unique --on`: the distinct keys of a table, and the number of each row's key.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, UInt32Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use koel::IdOrder;
use koel::backend::HashBackend;
use koel_arrow::{NullKeys, factorize};
use serde_json::json;

use super::{CHUNK, Loaded, check_distinct, wanted_columns};
use crate::failure::{Failure, Result, Verdict};
use crate::options::OneDevice;
use crate::output::RowOptions;
use crate::progress::Progress;
use crate::tables::TableReading;
use crate::tables::read::Source;
use crate::tables::write::Sink;
use crate::text;

/// What becomes of rows with a null in their key.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Columns")]
pub(crate) struct NullRows {
    /// Leave out rows whose key has a null; otherwise null is a key like any other
    #[arg(long)]
    drop_nulls: bool,
}

impl NullRows {
    pub(super) fn keys(&self) -> NullKeys {
        if self.drop_nulls { NullKeys::Drop } else { NullKeys::Group }
    }
}

/// Which columns make the key, and which come out.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Columns")]
pub(crate) struct Options {
    /// Keys of a table are these columns, separated by commas. The file is Parquet, Arrow IPC, CSV, TSV or .npy, and columns
    /// are of any types
    #[arg(long, value_name = "NAME,..", value_delimiter = ',')]
    #[arg(conflicts_with_all = ["kmer", "canonical_kmers", "other_letters", "keys"])]
    pub(crate) on: Option<Vec<String>>,
    /// Columns of the result, as the first row of each key has them [default: those of --on]
    #[arg(long, value_name = "NAME,..", value_delimiter = ',', requires = "on")]
    columns: Option<Vec<String>>,
    #[command(flatten)]
    nulls: NullRows,
}

/// What `koel unique` was asked for, with --on.
pub(crate) struct Job<'a> {
    pub(crate) inputs: &'a [PathBuf],
    pub(crate) on: &'a [String],
    pub(crate) counts: bool,
    pub(crate) min_count: u32,
    pub(crate) inverse: Option<&'a Path>,
    pub(crate) order: IdOrder,
    pub(crate) options: &'a Options,
    pub(crate) reading: &'a TableReading,
    pub(crate) output: &'a RowOptions,
    pub(crate) device: &'a OneDevice,
}

impl Job<'_> {
    pub(crate) fn run(&self) -> Result<Verdict> {
        check_distinct("--on", self.on)?;
        let shown = self.options.columns.as_deref().unwrap_or(self.on);
        check_distinct("--columns", shown)?;
        let [input] = self.inputs else {
            return Err(Failure::Input(
                "--on takes one file: give one, or put the tables behind each other first".into(),
            ));
        };
        if self.counts && shown.iter().any(|name| name == "count") {
            return Err(Failure::Input(
                "--counts adds a column `count`, and there is one already: leave it out by --columns".into(),
            ));
        }
        // Threads are started as they are asked for before the first file is read by them.
        let device = self.device.open(&[input])?;
        let source = Source::open(input, self.reading)?;
        self.reading.check(&[&source])?;
        let progress = Progress::line();
        let start = Instant::now();
        let table = Loaded::read(&source, &wanted_columns(&source, Some(shown), self.on), &progress)?;
        let read_seconds = start.elapsed().as_secs_f64();

        progress.say(format!("numbering the keys of {}", text::counted(table.rows() as u64, "row")));
        let start = Instant::now();
        let groups = factorize(&device, &table.keys(self.on)?, self.order, self.options.nulls.keys())?;
        let mut rows = groups.rows.clone();
        let mut counts = None;
        if self.counts || self.min_count > 1 {
            let mut all = vec![0_u32; groups.len()];
            groups.codes.iter().flatten().for_each(|code| all[code as usize] += 1);
            let kept = |count: &u32| *count >= self.min_count;
            rows = rows.values().iter().zip(&all).filter(|(_, count)| kept(count)).map(|(&row, _)| Some(row)).collect();
            all.retain(kept);
            counts = self.counts.then_some(all);
        }
        let picked = table.pick(shown.iter().map(|name| (name.as_str(), name.clone())))?;
        let mut schema = picked.schema();
        if counts.is_some() {
            schema = with_count(&schema);
        }
        let mut sink = Sink::create(self.output.output.as_deref(), &schema)?;
        let progress = self.output.output.is_some().then_some(progress);
        if let Some(progress) = &progress {
            progress.rows(rows.len() as u64);
        }
        for first in (0..rows.len()).step_by(CHUNK) {
            let piece = first..rows.len().min(first + CHUNK);
            let mut columns = picked.take(&UInt32Array::from(rows.values()[piece.clone()].to_vec()))?;
            if let Some(counts) = &counts {
                columns
                    .push(Arc::new(counts[piece].iter().map(|&count| Some(i64::from(count))).collect::<Int64Array>()));
            }
            let batch = RecordBatch::try_new(Arc::clone(&schema), columns);
            sink.write(&batch.map_err(koel_arrow::Error::from)?)?;
        }
        // Both files, or neither, are given their names.
        let inverse = self.inverse.map(|path| write_inverse(path, &groups.codes)).transpose()?;
        let total = sink.finish()?;
        inverse.map(Sink::finish).transpose()?;
        drop(progress);
        let all = text::counted(table.rows() as u64, "row");
        self.output.summarize(&format!("{} of {all}", text::counted(total, "distinct key")), || {
            json!({
                "rows": table.rows(), "keys": total, "order": self.order.name(), "device": device.info().id,
                "seconds": { "read": read_seconds, "unique": start.elapsed().as_secs_f64() },
            })
        })?;
        Ok(Verdict::Fine)
    }
}

fn with_count(schema: &Schema) -> SchemaRef {
    let mut fields = schema.fields().to_vec();
    fields.push(Arc::new(Field::new("count", DataType::Int64, false)));
    Arc::new(Schema::new(fields))
}

/// Writes the number of each row's key; null of rows that were left out.
fn write_inverse(path: &Path, codes: &UInt32Array) -> Result<Sink> {
    let has_nulls = arrow_array::Array::null_count(codes) > 0;
    let schema = Arc::new(Schema::new(vec![Field::new("id", DataType::UInt32, has_nulls)]));
    let mut sink = Sink::create(Some(path), &schema)?;
    for first in (0..codes.len()).step_by(CHUNK) {
        let piece: ArrayRef = Arc::new(codes.slice(first, CHUNK.min(codes.len() - first)));
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![piece]);
        sink.write(&batch.map_err(koel_arrow::Error::from)?)?;
    }
    Ok(sink)
}
