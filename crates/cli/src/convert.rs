//! `koel convert`: converts a table to another format.

use std::path::{Path, PathBuf};

use super::failure::{Failure, Result, Verdict};
use super::options::{Threads, names};
use super::progress::Progress;
use super::tables::TableReading;
use super::tables::read::Source;
use super::tables::read::several::matching;
use super::tables::write::{Form, Place, Sink, output_file, stdout_form};
use super::{files, input, out, text};

const EXAMPLES: &str = "\
INPUT is Parquet, Arrow IPC (.arrow, .feather, .arrows), CSV, TSV, NDJSON or
.npy, detected from its content. It may be compressed by gzip or zstd. Several
files must have the same columns and types; text is read as one, so that the
type of a column is one that fits the rows of all files; of NDJSON, the columns
are those of all files.

OUTPUT has the format of its extension: .parquet, .arrow, .arrows (a stream),
.npy, .ndjson, .csv or .tsv, the last three also with .gz or .zst; `-` is
stdout: CSV, or what --format selects. A column of CSV has the type that fits
all its rows, and is written unchanged from CSV to CSV; an empty field is a
null.

Examples:
  koel convert orders.csv orders.parquet
  koel convert orders.parquet - --columns o_orderkey,o_totalprice
  koel convert export.txt orders.arrow --delimiter '|' \\
    --types 'zip=utf8,price=decimal(12,2)'
  koel convert 2024-*.csv 2024.parquet
  zcat log.csv.gz | koel convert - log.parquet --header no";

/// Convert a table to another format
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// A table; `-` is stdin
    ///
    /// Several files with the same columns are read as one.
    #[arg(value_name = "INPUT", required = true)]
    inputs: Vec<PathBuf>,
    /// Output file, format by extension; `-` is CSV on stdout
    #[arg(value_name = "OUTPUT", value_parser = output_file)]
    output: PathBuf,
    /// Columns to write, in this order [default: all]
    ///
    /// Separated by commas.
    #[arg(long, value_name = "NAME,..", value_parser = names::names)]
    columns: Option<Vec<names::List<String>>>,
    /// Format of `-`: csv, tsv, ndjson, arrows
    ///
    /// The default is csv; arrows is an Arrow IPC stream.
    #[arg(long, value_name = "FORMAT", hide_possible_values = true, value_parser = stdout_form())]
    format: Option<Form>,
    #[command(flatten)]
    reading: TableReading,
    #[command(flatten)]
    threads: Threads,
}

pub(crate) fn run(args: &Args) -> Result<Verdict> {
    let output = Some(args.output.as_path()).filter(|output| output.as_os_str() != "-");
    let place = Place::of(output, args.format);
    if let (Some(output), Some(_)) = (output, args.format) {
        return Err(Failure::Input(format!(
            "--format is for stdout, and the format of {} is that of its extension: omit --format, or write to `-`",
            text::path(output)
        )));
    }
    let inputs = matching(&args.inputs, &[output])?;
    files::check(&input::paths(&inputs), &[("OUTPUT", output)])?;
    if let (Some(output), [first, _, ..]) = (output, &inputs[..]) {
        check_named(output, first)?;
    }
    // Start the requested number of threads before they read the first file.
    args.threads.apply()?;
    let mut source = Source::open_all(&inputs, &args.reading)?;
    args.reading.check(&[&source])?;
    if place.is_text() {
        source.keep_text(&[]);
    }
    let columns = names::all(args.columns.as_ref());
    let columns = columns.as_deref();
    // Columns that the output format cannot store are refused before they are read. Output on stdout is not checked
    // this early.
    let early = match (output, source.schema(columns)?) {
        (Some(_), Some(schema)) => Some(Sink::create(place, &schema)?),
        _ => None,
    };
    let progress = Progress::line();
    let table = source.read(columns)?;
    let mut sink = early.map_or_else(|| Sink::create(place, &table.schema), Ok)?;
    progress.rows(Some(table.rows as u64));
    // If rows go to the terminal, a progress line is not needed.
    let progress = output.is_some().then_some(progress);
    for batch in &table.batches {
        sink.write(batch)?;
    }
    let rows = sink.finish()?;
    drop(progress);
    if let Some(output) = output {
        let columns = text::counted(table.schema.fields().len() as u64, "column");
        out::summary(&format!("{}: {} of {columns}", text::path(output), text::counted(rows, "row")));
    }
    Ok(Verdict::Fine)
}

/// Refuses to overwrite a file that looks like one more input: `koel convert *.csv` without an output would.
fn check_named(output: &Path, input: &Path) -> Result<()> {
    if output.is_file() && output.extension() == input.extension() {
        return Err(Failure::Input(format!(
            "{} exists already, and is the output of this command: name the output last, or remove this file first",
            output.display()
        )));
    }
    Ok(())
}
