//! `koel unique`: the distinct keys of a file, the number of rows of each key, and the id of each row's key.

use std::path::PathBuf;

use super::failure::{Failure, Result, Verdict};
use super::input::{self, ReadOptions};
use super::options::{self, TableDevices};
use super::output::RowOptions;
use super::query::{self, KeyOptions, KeyedTable, Reading};
use super::tables::read::rows::{KEY, Payload};
use super::tables::read::several::matching;

const EXAMPLES: &str = "\
With --on, INPUT is a table of named columns: Parquet, Arrow IPC, CSV, TSV,
NDJSON or .npy, also compressed by gzip or zstd. The columns of --on are its
key. Several files must have the same columns.

Without --on, INPUT is CSV, TSV, .npy, FASTA or FASTQ, also compressed by gzip
or zstd, or with --key a table, as for `koel build`; of two columns the first is
used. Output is a row `key`, or `key,count`, per distinct key. -o FILE.tsv
separates by tabs; -o FILE.npy writes an array of the type of the input, such as
uint32 or int64, or with --counts a structured one (key, count u4).

The id of a key is its row number in the output, from 0. --inverse writes the id
of the key of each row, so that key[id] is the column that was read. Ascending
order is numerical, with negative numbers first.

Examples:
  koel unique ids.csv
  koel unique ids.npy -o unique.npy --inverse inverse.npy
                              ids == unique[inverse]
  koel unique genome.fa --kmer 12 --counts -o kmers.csv
  koel unique reads_1.fq.gz reads_2.fq.gz --kmer 31 --canonical-kmers \\
    --counts --min-count 2 --letters -o kmers.tsv
  koel unique people.parquet --on city,street --counts --ids ascending
  koel unique log.csv --on user --columns user,time,page
                              the first row of each user";

/// List the distinct keys of a table or a column
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES, mut_arg("value", |value| value.hide(true)))]
pub(crate) struct Args {
    /// A table (--on), or a column of keys; `-` is stdin
    ///
    /// Several files are read as one.
    #[arg(value_name = "INPUT", required = true)]
    inputs: Vec<PathBuf>,
    /// Also write the number of rows of each key
    #[arg(long)]
    counts: bool,
    #[command(flatten)]
    keys: KeyOptions,
    /// Also write the id of each row's key to FILE
    ///
    /// The format is that of the extension, as for -o.
    #[arg(long, value_name = "FILE", value_parser = options::named_rows_file(), help_heading = "Output")]
    inverse: Option<PathBuf>,
    #[command(flatten)]
    columns: query::unique::Options,
    #[command(flatten)]
    rows: RowOptions,
    #[command(flatten)]
    reading: ReadOptions,
    #[command(flatten)]
    device: TableDevices,
}

pub(crate) fn run(args: &Args) -> Result<Verdict> {
    let inverse = args.inverse.as_deref().map(|inverse| ("--inverse", Some(inverse)));
    if args.keys.min_count.is_some() && inverse.is_some() {
        let why = "rows whose key is dropped would have no id";
        return Err(Failure::Input(format!("--min-count and --inverse: {why}: omit one of them")));
    }
    let inputs = matching(&args.inputs, &[args.rows.output.as_deref(), args.inverse.as_deref()])?;
    let paths = input::paths(&inputs);
    let is_spooled = args.columns.memory.is_given() || args.device.are_several();
    let named = args.reading.of_tables(is_spooled);
    let unnamed = args.reading.clone().naming("--on");
    let on = args.columns.on();
    args.reading.check_value(false)?;
    let (by, reading) = match &on {
        Some(on) => {
            args.rows.check_tables(&paths, inverse.as_slice())?;
            (on.clone(), Reading::Named(&named))
        }
        None => {
            args.columns.check_unused()?;
            args.reading.check_rows_kept("--inverse", inverse.is_some())?;
            query::refuse_tables(&paths, &args.reading, "--on")?;
            args.rows.check_files(&paths, inverse.as_slice())?;
            (vec![KEY.to_owned()], Reading::Rows { options: &unnamed, payload: Payload::Nothing, is_spooled })
        }
    };
    let table = KeyedTable {
        inputs: &inputs,
        by: &by,
        order: args.keys.ids,
        reading,
        output: &args.rows,
        device: &args.device,
    };
    let job = query::unique::Job {
        table,
        counts: args.counts,
        min_count: args.keys.min_count.unwrap_or(1),
        inverse: args.inverse.as_deref(),
        options: &args.columns,
    };
    job.run()
}
