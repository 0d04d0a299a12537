//! `koel join`: the rows of two files whose keys are equal.

use std::path::{Path, PathBuf};

use koel::JoinKind;

use super::failure::{Result, Verdict};
use super::input::{self, ReadOptions};
use super::options::{self, AnyValuesOption, TableDevices};
use super::output::RowOptions;
use super::query::{self, Reading};
use super::tables::read::rows::Payload;
use super::tables::read::several::matching;

const EXAMPLES: &str = "\
With --on, LEFT and RIGHT are tables of named columns: Parquet, Arrow IPC, CSV,
TSV, NDJSON or .npy. The result has all columns of LEFT, then those of RIGHT
without its keys, which are equal to those of LEFT.

Without --on, LEFT and RIGHT are CSV, TSV, .npy, FASTA or FASTQ, also compressed
by gzip or zstd, or with --key tables, as for `koel build`. Text has one column
of keys, or two of keys and values; without values, the value is the row number,
from 0.
The output has a row `key,left,right` for each pair of rows with equal keys: the
key and both values, or with --rows both row numbers. --header, --kmer,
--canonical-kmers and --other-letters apply to both files; --letters is for two
files of sequences.

--how:
  inner      the pairs of rows with equal keys
  left       also left rows without a match, whose `right` is empty
  right      also right rows without a match, whose `left` is empty, after all
             others
  full       also both of these; `outer` is a synonym
  semi       rows `key,left`: left rows that have a match, each once
  anti       rows `key,left`: left rows without a match

Rows are in the order of left rows, then of right rows, on every device. The
result is written in batches, and is never in memory as a whole.

The extension of -o FILE selects the format: .parquet, .arrow, .csv, .csv.gz,
.tsv, .ndjson and others. Without --on, -o FILE.npy writes a structured array
(key u4, left u4, right u4; for --how left and full with found b1, of `right`;
for --how right and full with left_found b1), in which keys and values have the
types of the files. Keys of two types are compared as numbers; the output has
the narrowest type that holds both.

Examples:
  koel join orders.csv items.csv --on id
  koel join 'orders/*.parquet' customers.parquet --on customer=id -o j.parquet
  koel join left.csv right.csv --how left -o j.csv     rows `key,value`
  koel join left.npy right.npy --rows -o pairs.npy
  koel join orders.parquet lineitem.parquet --on o_orderkey=l_orderkey \\
    -o j.parquet
  koel join a.csv b.csv --on name,birth --how left --columns name,birth,city
  koel join lineitem.parquet --with orders.koel --on l_orderkey=o_orderkey \\
    -o j.parquet            orders.koel: see `koel build --help`";

/// Join two tables, or two files of keys and values
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// A table (--on), or rows `key,value`; `-` is stdin
    ///
    /// With --on also a pattern in quotes, such as 'orders/*.parquet', whose files are read as one.
    left: PathBuf,
    /// The right side; it is indexed, so give the smaller one
    #[arg(required_unless_present = "with")]
    right: Option<PathBuf>,
    /// Join with a file of `koel build --columns`
    ///
    /// In place of RIGHT. The file contains its rows and an index of their keys, so that only LEFT is read, in batches.
    /// Nulls are equal if the file was built with --nulls-equal. Without --on, the key columns of LEFT have the names
    /// of those in the file. Not for --how right and full.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["right", "memory"])]
    with: Option<PathBuf>,
    /// Map the file of --with: load only the rows that match
    ///
    /// Processes share what is loaded. The index is read and checked, as without this option; the rows are not checked
    /// for damage. Nothing may write to the file or truncate it meanwhile; replacing it with a new file is allowed.
    #[arg(long, requires = "with", conflicts_with = "right")]
    mapped: bool,
    /// inner, left, right, full, semi, anti
    ///
    /// Which rows the result has; see --how below.
    #[arg(long, value_name = "KIND", default_value = "inner", value_parser = options::join_kind())]
    #[arg(hide_possible_values = true)]
    how: JoinKind,
    /// Write row numbers in place of values
    #[arg(long, help_heading = "Output")]
    rows: bool,
    #[command(flatten)]
    columns: query::join::Options,
    #[command(flatten)]
    output: RowOptions,
    #[command(flatten)]
    reading: ReadOptions,
    #[command(flatten)]
    values: AnyValuesOption,
    #[command(flatten)]
    device: TableDevices,
}

pub(crate) fn run(args: &Args) -> Result<Verdict> {
    if let Some(with) = &args.with {
        return run_with(args, with);
    }
    let outputs = &[args.output.output.as_deref()];
    let (left, right) = (matching(&[&args.left], outputs)?, matching(args.right.as_slice(), outputs)?);
    let all = [&left[..], &right].concat();
    let paths = input::paths(&all);
    let is_spooled = args.columns.memory.is_given() || args.device.are_several();
    let named = args.reading.of_tables(is_spooled);
    let unnamed = args.reading.with_any_values(args.values.values).naming("--on");
    let (on, reading) = match args.columns.on() {
        Some(on) => {
            args.reading.check_value(false)?;
            args.output.check_tables(&paths, &[])?;
            (on, Reading::Named(&named))
        }
        None => {
            args.columns.check_unused()?;
            args.reading.check_value(!args.rows)?;
            args.reading.check_rows_kept("--rows", args.rows)?;
            query::refuse_tables(&paths, &args.reading, "--on")?;
            args.output.check_files(&paths, &[])?;
            let payload = if args.rows { Payload::RowNumbers } else { Payload::Values };
            (query::join::keys(), Reading::Rows { options: &unnamed, payload, is_spooled })
        }
    };
    let Args { how, columns, output, device, .. } = args;
    query::join::Job { left: &left, right: &right, how: *how, on: &on, options: columns, reading, output, device }.run()
}

/// Joins with a prepared right side.
fn run_with(args: &Args, with: &Path) -> Result<Verdict> {
    let left = matching(&[&args.left], &[args.output.output.as_deref()])?;
    let all = [&left[..], &[with.into()]].concat();
    args.output.check_tables(&input::paths(&all), &[])?;
    let reading = args.reading.of_tables(false);
    let Args { how, columns, output, device, .. } = args;
    // By default, the keys of the file.
    let on = columns.on().unwrap_or_default();
    let named = Reading::Named(&reading);
    let job = query::join::Job {
        left: &left,
        right: &[],
        how: *how,
        on: &on,
        options: columns,
        reading: named,
        output,
        device,
    };
    query::prepared::join(&job, &reading, with, args.mapped)
}
