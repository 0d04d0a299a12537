//! `koel dedup`: removes duplicate texts: whole documents, or lines and paragraphs of documents.
//!
//! The input is read twice: first only the column of text, to find duplicates, and then all columns, to write the
//! remaining rows (koel_arrow::dedup).

use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use clap::ValueEnum;
use koel_arrow::Error;
use koel_arrow::dedup::{Dedup, Near, Normalize, Unit};
use koel_arrow::external::Stage;
use serde_json::json;

use super::failure::{Failure, Result, Verdict};
use super::input::Header;
use super::options::{self, TableDevices, names};
use super::output::RowOptions;
use super::progress::Progress;
use super::query::Memory;
use super::tables::read::Source;
use super::tables::read::several::matching;
use super::tables::write::{Form, Sink, stdout_form};
use super::tables::{TableReading, TextReading};
use super::{input, text};

const EXAMPLES: &str = "\
INPUT is a table of documents: Parquet, Arrow IPC, CSV, TSV or NDJSON, also
compressed by gzip or zstd. Of duplicates the first one is kept, in the order of
rows. The output is the same on every device, with any number of threads, with
and without --memory, and however the rows are divided into files.

By default, texts are duplicates if they are equal, after --normalize. Rows
without a text (null) are kept. With --by line or --by paragraph, a line or
paragraph that occurred before, in any document, is removed with the line ends
after it, and the rest of the document is kept; a document of which nothing is
left is dropped, and blank lines are no duplicates.

With --near, documents are duplicates if the Jaccard similarity of their sets of
shingles is at least --threshold, estimated by the number of equal words of
their signatures. Documents are compared if all words of one of --bands bands
are equal; duplicates of duplicates are duplicates. --bands are the best ones
for the threshold, as in datasketch: 9 bands of 13 words for 0.8. More bands
find more pairs near the threshold, and take more time.

Examples:
  koel dedup 'part-*.jsonl.zst' --on text -o unique.jsonl
  koel dedup web.parquet --on text --by line -o lines.parquet --memory 8G
  koel dedup web.parquet --on text --near --normalize case,punctuation \\
    --threshold 0.7 -o near.parquet
  koel dedup web.parquet --on text --near --clusters first -o all.parquet
                              the row that is kept in place of each row";

/// Remove duplicate documents, or duplicate lines and paragraphs
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// A table of documents; `-` is stdin
    ///
    /// Several files are read as one.
    #[arg(value_name = "INPUT", required = true)]
    inputs: Vec<PathBuf>,
    /// The column of text
    #[arg(long, value_name = "NAME", value_parser = names::name)]
    on: String,
    /// Unit: document, paragraph, line
    ///
    /// What is compared and removed. Paragraphs are separated by blank lines.
    #[arg(long, value_name = "UNIT", default_value = "document", hide_possible_values = true)]
    by: By,
    /// Ignore: case, whitespace, punctuation, nfc
    ///
    /// What is ignored in comparisons, comma-separated: case; the kind and length of white space; punctuation and
    /// symbols; how characters are composed (Unicode's form C). The text that is kept is not changed.
    #[arg(long, value_name = "NAME,..", value_parser = normalize, default_value = "", hide_default_value = true)]
    normalize: Normalize,
    /// Keep all rows, and add a column of cluster ids
    ///
    /// The column has this name. A cluster is named by the row that would be kept of it, counted from 0.
    #[arg(long, value_name = "NAME", value_parser = names::name)]
    clusters: Option<String>,
    #[command(flatten)]
    memory: Memory,
    #[command(flatten)]
    near: NearOptions,
    #[command(flatten)]
    output: OutputOptions,
    /// First row of text is a header: auto, yes, no
    ///
    /// As for `koel convert`.
    #[arg(long, value_name = "WHEN", hide_possible_values = true, help_heading = "Input")]
    header: Option<Header>,
    #[command(flatten)]
    text: TextReading,
    #[command(flatten)]
    device: TableDevices,
}

/// How similar documents are found.
#[derive(clap::Args)]
#[command(next_help_heading = "Near-duplicates")]
struct NearOptions {
    /// Find similar documents too
    ///
    /// By fast similarity sketching: words of two signatures are equal with a probability that is the similarity of the
    /// documents, as in MinHash, but a signature takes less time.
    #[arg(long)]
    near: bool,
    /// Words of a shingle
    #[arg(long, value_name = "N", default_value_t = Near::default().ngram, requires = "near")]
    ngram: usize,
    /// Words of a signature
    ///
    /// They take the place of the permutations of MinHash. More words estimate similarity more accurately.
    #[arg(long, value_name = "N", default_value_t = Near::default().num_perm, requires = "near")]
    num_perm: usize,
    /// Least similarity of duplicates
    #[arg(long, value_name = "S", default_value_t = Near::default().threshold, requires = "near")]
    threshold: f64,
    /// Bands of a signature [default: by threshold]
    #[arg(long, value_name = "N", requires = "near")]
    bands: Option<usize>,
    /// Seed of the hashes
    #[arg(long, value_name = "SEED", default_value_t = Near::default().seed, requires = "near")]
    seed: u64,
}

/// Where rows go. Keys are not k-mers here, so this has no --letters.
#[derive(Clone, clap::Args)]
#[command(next_help_heading = "Output")]
struct OutputOptions {
    /// Output file, format by extension [default: stdout]
    ///
    /// .parquet, .arrow, .arrows; .ndjson, .jsonl; .tsv and .tab are separated by tabs; .csv, .txt and names without an
    /// extension by commas. All but the first three also with .gz or .zst.
    #[arg(short, long, value_name = "FILE", value_parser = options::rows_file())]
    output: Option<PathBuf>,
    /// Format of stdout: csv, tsv, ndjson, arrows
    ///
    /// The default is csv; arrows is an Arrow IPC stream. The format of a file is that of its extension.
    #[arg(long, value_name = "FORMAT", conflicts_with = "output", hide_possible_values = true)]
    #[arg(value_parser = stdout_form())]
    format: Option<Form>,
    /// Print a summary as JSON to stdout
    ///
    /// Requires --output.
    #[arg(long, requires = "output")]
    json: bool,
}

/// What is compared.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum By {
    Document,
    Paragraph,
    Line,
}

impl By {
    fn unit(self) -> Unit {
        match self {
            By::Document => Unit::Document,
            By::Paragraph => Unit::Paragraph,
            By::Line => Unit::Line,
        }
    }
}

/// Parses steps of normalization, separated by commas.
fn normalize(text: &str) -> std::result::Result<Normalize, String> {
    text.split(',').filter(|name| !name.is_empty()).try_fold(Normalize::default(), |all, name| {
        all.with(name).ok_or_else(|| format!("`{name}` is not a step: give some of {}", Normalize::NAMES.join(", ")))
    })
}

impl Args {
    fn near(&self) -> Option<Near> {
        let NearOptions { near, ngram, num_perm, threshold, bands, seed } = self.near;
        near.then_some(Near { ngram, num_perm, threshold, bands, seed })
    }

    /// Refuses options that cannot be combined.
    fn check(&self) -> Result<()> {
        let wrong = |option: &str, advice: &str| {
            Err(Failure::Input(format!("{option} is for documents: {advice}, or give --by document")))
        };
        match self.by {
            By::Document => {}
            _ if self.near.near => return wrong("--near", "omit it"),
            _ if self.clusters.is_some() => return wrong("--clusters", "omit it"),
            _ => {}
        }
        Ok(self.near().map_or(Ok(()), |near| near.check())?)
    }
}

pub(crate) fn run(args: &Args) -> Result<Verdict> {
    args.check()?;
    let OutputOptions { output, format, json } = args.output.clone();
    let output = RowOptions { output, format, letters: false, json };
    let inputs = matching(&args.inputs, &[args.output.output.as_deref()])?;
    output.check_tables(&input::paths(&inputs), &[])?;
    let devices = args.device.open()?;
    let reading = TableReading { header: args.header, text: args.text.clone(), spool: args.memory.is_given() };
    let mut source = Source::open_all(&inputs, &reading)?;
    reading.check(&[&source])?;
    // Text of CSV files is compared as it is in the file, even if it looks like numbers.
    let typed = if output.place().is_text() { Vec::new() } else { others(&source, &args.on) };
    source.keep_text(&typed);
    let limit = args.memory.limit();
    let (progress, start) = (RefCell::new(Some(Progress::line())), Instant::now());
    let say = |what: String| progress.borrow().iter().for_each(|progress| progress.say(what.clone()));
    let watch = |stage| match stage {
        Stage::Part(part, parts) => say(format!("finding duplicates in part {part} of {parts}")),
        Stage::Partitioning => say("writing temporary files".into()),
        _ => {}
    };
    let dedup = Dedup {
        devices: &devices,
        column: &args.on,
        unit: args.by.unit(),
        near: args.near(),
        normalize: args.normalize,
        limit: &limit,
        watch: &watch,
    };
    let texts = source.stream(Some(std::slice::from_ref(&args.on)))?;
    let schema = SchemaRef::clone(texts.schema());
    dedup.schema(&schema).map_err(|error| refused(error, &args.on))?;
    say(format!("finding duplicates in {}", source.name().shown()));
    let found = dedup.find(&schema, texts, args.clusters.is_some())?;
    let found_seconds = start.elapsed().as_secs_f64();

    let rows = source.stream(None)?;
    let mut filter = dedup.filter(&found);
    let schema = match &args.clusters {
        None => dedup.schema(rows.schema())?,
        Some(name) => with_clusters(rows.schema(), name)?,
    };
    if output.output.is_none() {
        // If rows go to the terminal, a progress line is not needed.
        progress.take();
    }
    let mut sink = Sink::within(limit.bytes(), output.place(), &schema)?;
    progress.borrow().iter().for_each(|progress| progress.rows(Some(found.rows)));
    for batch in rows {
        let batch = batch?;
        let batch = match args.clusters {
            None => filter.batch(&batch)?,
            Some(_) => {
                let kept_rows = filter.kept_rows(batch.num_rows());
                let columns = [batch.columns(), &[Arc::new(kept_rows)]].concat();
                RecordBatch::try_new(SchemaRef::clone(&schema), columns).map_err(koel_arrow::Error::from)?
            }
        };
        sink.write(&batch)?;
    }
    let total = sink.finish()?;
    progress.take();
    let duplicates = text::counted(found.duplicates, &format!("duplicate {}", dedup.unit.name()));
    let all = text::counted(found.rows, "row");
    // Only the first device groups bands.
    let used = if dedup.near.is_some() { &devices[..1] } else { &devices[..] };
    output.summarize(&format!("{} of {all}, {duplicates}", text::grouped(total)), || {
        let near = dedup.near.map(|near| {
            let (bands, rows) = near.banding();
            json!({
                "ngram": near.ngram, "num_perm": near.num_perm, "threshold": near.threshold, "bands": bands,
                "words_of_a_band": rows, "seed": near.seed,
            })
        });
        json!({
            "rows": found.rows, "kept": total, "by": dedup.unit.name(), "units": found.units,
            "duplicates": found.duplicates, "near": near, "device": options::ids(used),
            "memory": args.memory.bytes(), "spilled_bytes": found.spilled,
            "seconds": { "find": found_seconds, "all": start.elapsed().as_secs_f64() },
        })
    })?;
    Ok(Verdict::Fine)
}

/// Adds advice on the command line's options to the error.
fn refused(error: Error, column: &str) -> Failure {
    match error {
        Error::UnsupportedValue { .. } => {
            Failure::Input(format!("{error} (here by --types {}=utf8, or by `koel unique --on`)", text::name(column)))
        }
        other => other.into(),
    }
}

/// The columns of a table, except this one.
fn others(source: &Source, column: &str) -> Vec<String> {
    source.columns().into_iter().filter(|&name| name != column).map(String::from).collect()
}

/// The schema of the table, with the column of cluster ids added.
fn with_clusters(schema: &SchemaRef, name: &str) -> Result<SchemaRef> {
    if schema.fields().iter().any(|field| field.name() == name) {
        let name = text::name(name);
        return Err(Failure::Input(format!("--clusters: the table has a column `{name}`: give another name")));
    }
    let clusters = Arc::new(Field::new(name, DataType::UInt32, false));
    let fields: Vec<_> = schema.fields().iter().cloned().chain([clusters]).collect();
    Ok(Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone())))
}
