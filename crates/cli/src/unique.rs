//! `koel unique`: the distinct keys of a file, how often each comes, and the number of each row's key.

use std::path::PathBuf;
use std::time::Instant;

use serde_json::json;

use koel::backend::{HashBackend, Relational, Runs, Wanted};
use koel::device::Any;
use koel::group::wide::{factorize_on, group_by, unique};
use koel::{Aggregate, IdOrder};

use super::failure::{Result, Verdict};
use super::input::{self, ReadOptions, Want};
use super::number::{Number, Numbers, Type, Word};
use super::options::{self, OneDevice};
use super::output::{Column, RowOptions, Rows};
use super::progress::Progress;
use super::text;

const EXAMPLES: &str = "\
INPUT is CSV, TSV, .npy or FASTA, as for `koel build`; of several columns the first is used.
Output is a row `key`, or `key,count`, a distinct key. A key's id is the number of its row there, from 0; --inverse
writes the id of each row's key, so that key[id] is the column that was read.
-o FILE.tsv separates by tabs; .npy writes an array of the input's type, uint32 or int64, say, or with --counts a structured
one (key, count u4). Ascending order is that of the numbers, below zero and above.

Examples:
  koel unique ids.csv
  koel unique ids.npy -o unique.npy --inverse inverse.npy       ids == unique[inverse]
  koel unique genome.fa --kmer 12 --counts -o kmers.csv";

/// List the distinct keys of a file
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A column of keys; `-` is stdin
    input: PathBuf,
    /// Also how often each key comes
    #[arg(long)]
    counts: bool,
    /// Keys as they first appear, or ascending
    #[arg(long, value_name = "ORDER", default_value = "first", value_parser = options::id_order())]
    ids: IdOrder,
    /// Where the id of each row's key goes: text or .npy by the name, as -o
    #[arg(long, value_name = "FILE", value_parser = options::named_rows_file(), help_heading = "Output")]
    inverse: Option<PathBuf>,
    #[command(flatten)]
    rows: RowOptions,
    #[command(flatten)]
    reading: ReadOptions,
    #[command(flatten)]
    device: OneDevice,
}

/// What was asked for of a column.
struct Found<K> {
    unique: Vec<K>,
    counts: Option<Vec<u32>>,
    inverse: Option<Vec<u32>>,
}

pub(crate) fn run(args: &Args) -> Result<Verdict> {
    let inverse = args.inverse.as_deref().map(|inverse| ("--inverse", Some(inverse)));
    args.rows.check(&[&args.input], inverse.as_slice())?;
    let device = args.device.open(&[&args.input])?;
    let progress = Progress::line();
    progress.say(format!("reading {}", args.input.display()));
    let start = Instant::now();
    let keys = input::read(&args.input, &args.reading, Want::Keys)?.keys;
    let job = Job { args, device: &device, kind: keys.kind(), read_seconds: start.elapsed().as_secs_f64() };
    if job.kind.bits() == u32::BITS { job.run::<u32>(keys, progress) } else { job.run::<u64>(keys, progress) }
}

/// Keys of one type, to be found on a device.
struct Job<'a> {
    args: &'a Args,
    device: &'a Any,
    kind: Type,
    read_seconds: f64,
}

impl Job<'_> {
    fn run<K: Word>(&self, keys: Numbers, progress: Progress) -> Result<Verdict>
    where
        Any: Runs<K::Rows>,
    {
        let (args, device, read_seconds) = (self.args, self.device, self.read_seconds);
        let keys = keys.into_keys::<K>()?;
        progress.say(format!("finding the distinct keys of {}", text::counted(keys.len() as u64, "row")));
        let start = Instant::now();
        let found = self.find(&keys)?;
        let unique_seconds = start.elapsed().as_secs_f64();

        let distinct = found.unique.len() as u64;
        progress.rows(distinct);
        // Rows on a terminal are progress enough.
        let progress = args.rows.output.is_some().then_some(progress);
        let start = Instant::now();
        self.write(&found)?;
        drop(progress);
        let rows = keys.len() as u64;
        args.rows.summarize(&format!("{} of {}", text::counted(distinct, "key"), text::counted(rows, "row")), || {
        json!({
            "rows": rows, "keys": distinct, "ids": args.ids.name(), "device": device.info().id,
            "inverse": args.inverse.as_ref().map(|path| path.display().to_string()),
            "seconds": { "read": read_seconds, "unique": unique_seconds, "write": start.elapsed().as_secs_f64() },
        })
    })?;
        Ok(Verdict::Fine)
    }

    fn find<K: Word>(&self, keys: &[K]) -> Result<Found<K>>
    where
        Any: Runs<K::Rows>,
    {
        let (args, device) = (self.args, self.device);
        if args.inverse.is_some() {
            let keys = device.upload(keys)?;
            let (unique, ids) = factorize_on::<Any, K>(device, &keys, args.ids)?;
            drop(keys);
            let unique = device.download(&unique)?;
            let counts = args.counts.then(|| {
                let wanted = Wanted { count: true, ..Wanted::default() };
                device.download(&device.accumulate(&ids, &device.upload(&[])?, unique.len(), wanted)?.counts)
            });
            return Ok(Found { counts: counts.transpose()?, inverse: Some(device.download(&ids)?), unique });
        }
        if args.counts {
            let groups = group_by(device, keys, &[] as &[u32], &[Aggregate::Count], args.ids)?;
            return Ok(Found { unique: groups.keys, counts: Some(groups.counts), inverse: None });
        }
        Ok(Found { unique: unique(device, keys, args.ids)?, counts: None, inverse: None })
    }

    /// Writes the ids first: whoever reads the keys from stdout may close it early.
    fn write<K: Word>(&self, found: &Found<K>) -> Result<()> {
        let (args, kind) = (self.args, self.kind);
        if let Some(inverse) = &found.inverse {
            let mut rows = Rows::open(args.inverse.as_deref(), &[Column::Of("id", Type::U32)])?;
            inverse.iter().try_for_each(|&id| rows.write(&[Number::from(id)]))?;
            rows.finish()?;
        }
        let columns = [Column::Of("key", kind), Column::Of("count", Type::U32)];
        let mut rows = Rows::open(args.rows.output.as_deref(), &columns[..1 + usize::from(args.counts)])?;
        match &found.counts {
            None => found.unique.iter().try_for_each(|&key| rows.write(&[kind.of_key(key)]))?,
            Some(counts) => {
                let mut pairs = found.unique.iter().zip(counts);
                pairs.try_for_each(|(&key, &count)| rows.write(&[kind.of_key(key), count.into()]))?;
            }
        }
        rows.finish()
    }
}
