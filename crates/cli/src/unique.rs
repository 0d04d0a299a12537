//! `koel unique`: the distinct keys of a file, how often each occurs, and the id of each row's key.

use std::path::PathBuf;
use std::time::Instant;

use serde_json::json;

use koel::IdOrder;
use koel::backend::{HashBackend, Relational, Runs, Wanted};
use koel::device::Any;
use koel::group::value_counts;
use koel::group::wide::{factorize_on, unique_on};

use super::failure::{Failure, Result, Verdict};
use super::input::{self, Inputs, ReadOptions, Want};
use super::number::{Number, Numbers, Type, Word};
use super::options::{self, TableDevices};
use super::output::{Column, RowOptions, Rows, Shown};
use super::progress::Progress;
use super::query::{self, KeyedTable, limited};
use super::tables::TableReading;
use super::tables::read::several::matching;
use super::text;

const EXAMPLES: &str = "\
With --on, INPUT is a table of named columns: Parquet, Arrow IPC, CSV, TSV or
.npy, also compressed by gzip or zstd. The columns of --on are its key. Several
files must have the same columns.

Without --on, INPUT is CSV, TSV, .npy, FASTA or FASTQ, also compressed by gzip,
or with --key a table, as for `koel build`; of two columns the first is used.
Output is a row `key`, or `key,count`, per distinct key. -o FILE.tsv separates
by tabs; -o FILE.npy writes an array of the type of the input, such as uint32 or
int64, or with --counts a structured one (key, count u4).

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
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// A table (--on), or a column of keys; `-` is stdin
    ///
    /// Several files are read as one.
    #[arg(value_name = "INPUT", required = true)]
    inputs: Vec<PathBuf>,
    /// Also write the number of rows of each key
    #[arg(long)]
    counts: bool,
    /// Drop keys with fewer than N rows
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    min_count: Option<u32>,
    /// Order of keys: first, ascending
    ///
    /// In the order in which they first appear, or ascending.
    #[arg(long, value_name = "ORDER", default_value = "first", value_parser = options::id_order())]
    #[arg(hide_possible_values = true)]
    ids: IdOrder,
    /// Also write the id of each row's key to FILE
    ///
    /// As text or .npy, by the extension, as for -o.
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

/// What was asked for of a column.
struct Found<K> {
    unique: Vec<K>,
    counts: Option<Vec<u32>>,
    inverse: Option<Vec<u32>>,
}

pub(crate) fn run(args: &Args) -> Result<Verdict> {
    let inverse = args.inverse.as_deref().map(|inverse| ("--inverse", Some(inverse)));
    if args.min_count.is_some() && inverse.is_some() {
        let why = "rows whose key is dropped would have no id";
        return Err(Failure::Input(format!("--min-count and --inverse: {why}: omit one of them")));
    }
    let paths = input::paths(&args.inputs);
    if let Some(on) = &args.columns.on() {
        let inputs = matching(&args.inputs)?;
        args.rows.check_tables(&input::paths(&inputs), inverse.as_slice())?;
        let reading = TableReading {
            header: args.reading.header,
            text: args.reading.text.clone(),
            spool: args.columns.memory.is_given() || args.device.are_several(),
        };
        let table = KeyedTable {
            inputs: &inputs,
            by: on,
            order: args.ids,
            reading: &reading,
            output: &args.rows,
            device: &args.device,
        };
        let job = query::unique::Job {
            table,
            counts: args.counts,
            min_count: args.min_count.unwrap_or(1),
            inverse: args.inverse.as_deref(),
            options: &args.columns,
        };
        return job.run();
    }
    args.columns.check_unused()?;
    args.reading.check_value(false)?;
    args.reading.check_rows_kept("--inverse", inverse.is_some())?;
    query::refuse_tables(&paths, &args.reading, "--on")?;
    args.rows.check(&paths, inverse.as_slice())?;
    let reading = args.reading.clone().naming("--on");
    let inputs = Inputs::open(&args.inputs)?;
    inputs.check(&reading)?;
    let k = inputs.has_sequences().then(|| reading.k());
    args.rows.check_letters(k)?;
    let are_several = args.device.are_several();
    if inverse.is_some() && (are_several || args.columns.memory.is_given()) {
        let option = if are_several { "--device with several devices" } else { "--memory" };
        let why = "the ids of rows without named columns are computed in memory, on one device";
        return Err(Failure::Input(format!("{option} and --inverse: {why}: omit one of them, or give --on")));
    }
    let mut devices = args.device.open(&paths)?;
    let progress = Progress::line();
    progress.say(format!("reading {}", inputs.shown()));
    if let Some(limit) = args.columns.memory.limit(are_several) {
        let job = limited::keys::Keys {
            counts: args.counts,
            min_count: args.min_count.unwrap_or(1),
            order: args.ids,
            output: &args.rows,
            devices: &devices,
            limit: &limit,
            memory: args.columns.memory.bytes(),
            k,
        };
        return job.run(inputs, &reading, progress);
    }
    let device = devices.swap_remove(0);
    let start = Instant::now();
    let keys = inputs.columns(&reading, Want::Keys)?.keys;
    let (kind, shown) = (keys.kind(), args.rows.shown(keys.kind(), k));
    let job = Job { args, device: &device, kind, shown, read_seconds: start.elapsed().as_secs_f64() };
    if job.kind.bits() == u32::BITS { job.run::<u32>(keys, progress) } else { job.run::<u64>(keys, progress) }
}

/// Keys of one type, to be found on a device.
struct Job<'a> {
    args: &'a Args,
    device: &'a Any,
    kind: Type,
    /// How keys are written.
    shown: Shown,
    read_seconds: f64,
}

impl Job<'_> {
    fn run<K: Word>(&self, keys: Numbers, progress: Progress) -> Result<Verdict>
    where
        Any: Runs<K::Rows>,
    {
        let (args, device, read_seconds) = (self.args, self.device, self.read_seconds);
        let keys = keys.into_keys::<K>()?;
        let rows = keys.len() as u64;
        progress.say(format!("finding the distinct keys of {}", text::counted(rows, "row")));
        let start = Instant::now();
        let found = self.find(keys)?;
        let unique_seconds = start.elapsed().as_secs_f64();

        let distinct = found.unique.len() as u64;
        progress.rows(distinct);
        // Rows on a terminal are progress enough.
        let progress = args.rows.output.is_some().then_some(progress);
        let start = Instant::now();
        self.write(&found)?;
        drop(progress);
        args.rows.summarize(&format!("{} of {}", text::counted(distinct, "key"), text::counted(rows, "row")), || {
        json!({
            "rows": rows, "keys": distinct, "ids": args.ids.name(), "min_count": args.min_count, "device": device.info().id,
            "inverse": args.inverse.as_ref().map(|path| path.display().to_string()),
            "seconds": { "read": read_seconds, "unique": unique_seconds, "write": start.elapsed().as_secs_f64() },
        })
    })?;
        Ok(Verdict::Fine)
    }

    /// On the CPU a column on the device is a copy: the one that was read is dropped before the work begins.
    fn find<K: Word>(&self, read: Vec<K>) -> Result<Found<K>>
    where
        Any: Runs<K::Rows>,
    {
        let (args, device) = (self.args, self.device);
        if (args.counts || args.min_count.is_some()) && args.inverse.is_none() {
            let (unique, counts) = value_counts(device, read, args.min_count.unwrap_or(1), args.ids)?;
            return Ok(Found { unique, counts: Some(counts), inverse: None });
        }
        let keys = device.upload(&read)?;
        drop(read);
        if args.inverse.is_some() {
            let (unique, ids) = factorize_on::<Any, K>(device, &keys, args.ids)?;
            drop(keys);
            let unique = device.download(&unique)?;
            let counts = args.counts.then(|| {
                let wanted = Wanted { count: true, ..Wanted::default() };
                device.download(&device.accumulate(&ids, &device.upload(&[])?, unique.len(), wanted)?.counts)
            });
            return Ok(Found { counts: counts.transpose()?, inverse: Some(device.download(&ids)?), unique });
        }
        let unique = unique_on::<Any, K>(device, &keys, args.ids)?;
        drop(keys);
        Ok(Found { unique: device.download(&unique)?, counts: None, inverse: None })
    }

    /// Writes the ids first: whoever reads the keys from stdout may close it early.
    fn write<K: Word>(&self, found: &Found<K>) -> Result<()> {
        let (args, kind) = (self.args, self.kind);
        let counts = found.counts.as_ref().filter(|_| args.counts);
        if let Some(inverse) = &found.inverse {
            let mut rows = Rows::open(args.inverse.as_deref(), &[Column::of("id", Type::U32)])?;
            inverse.iter().try_for_each(|&id| rows.write(&[Number::from(id)]))?;
            rows.finish()?;
        }
        let columns = [Column::Of("key", self.shown), Column::of("count", Type::U32)];
        let mut rows = Rows::open(args.rows.output.as_deref(), &columns[..1 + usize::from(args.counts)])?;
        match counts {
            None => found.unique.iter().try_for_each(|&key| rows.write(&[kind.of_key(key)]))?,
            Some(counts) => {
                let mut pairs = found.unique.iter().zip(counts);
                pairs.try_for_each(|(&key, &count)| rows.write(&[kind.of_key(key), count.into()]))?;
            }
        }
        rows.finish()
    }
}
