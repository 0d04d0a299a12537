//! `koel build`: a table from a file.

use std::path::PathBuf;
use std::time::Instant;

use serde_json::json;

use koel::backend::{DeviceInfo, HashBackend, Runs};
use koel::device::Any;
use koel::table::Contents;
use koel::{
    AnyScheme, CompactingTable, Cuckoo, CuckooSet, Digest, Duplicates, HashSet, HashTable, IdOrder, KeyType,
    MultiTable, Scheme,
};

use super::failure::{Failure, Result, Verdict};
use super::input::{Input, Pairs, ReadOptions, Want};
use super::options::{self, OneDevice, TableOptions};
use super::progress::Progress;
use super::scheme::{self, Described};
use super::structure::{About, Structure, key_type_json, unknown};
use super::{files, out, text};

const EXAMPLES: &str = "\
INPUT is told by its content:
  CSV or TSV   rows `key,value`; keys alone take the number of their row, from 0, as value. A first row without a
               number is a header, if rows follow it; --header says so otherwise
  .npy         integers of any width, of shape (n,), keys alone, or (n, 2); each must fit 32 bits
  FASTA        every window of K letters is a key (A C G T = 0..3, U is T, the first most significant), its place the
               value; the table records K. No key spans an N or another code of several bases; how many there are,
               stderr says
A row of text has at most 1 MiB and 65,536 columns.

--table says what becomes of it:
  map          a value for each key
  set          the keys alone, each once; of several columns the first is used
  compact      the keys, each once, numbered from 0; of several columns the first is used. With --scheme cuckoo_set
               the paper's way: numbers in table order, into the slots of a set
  multi        all values of each key, in the order of their rows

Canonical tables of the same rows are the same bytes, whatever the rows' order, the device and the threads; but the
order of a key's values, and of ids by first appearance, is the rows' own.

Examples:
  koel build pairs.csv -o pairs.koel
  koel build pairs.csv -o small.koel --load 0.95 --duplicates last
  koel build genome.fa --kmer 12 -o kmers.koel --table multi
  koel build customers.csv -o ids.koel --table compact --ids ascending
  zcat pairs.csv.gz | koel build - -o pairs.koel --device cpu";

/// Build a table from a file of keys and values
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// CSV, TSV, .npy or FASTA; `-` is stdin
    input: PathBuf,
    /// The table's file, or a pipe. To /dev/stdout goes the table alone, and the summary to stderr
    #[arg(short, long, value_name = "FILE", value_parser = options::table_file())]
    output: PathBuf,
    /// JSON in place of the summary, on stdout
    #[arg(long)]
    json: bool,
    /// What to build of the rows
    #[arg(long, default_value = "map", value_parser = options::contents(), help_heading = "Table")]
    table: Contents,
    #[command(flatten)]
    options: TableOptions,
    /// Which key gets which id, for compact: as they first appear, or ascending [default: first]
    #[arg(long, value_name = "ORDER", value_parser = options::id_order(), help_heading = "Table")]
    ids: Option<IdOrder>,
    /// What a key that comes more than once means, for map: an error, or that its first or last pair stays
    /// [default: error]
    #[arg(long, value_name = "RULE", value_parser = options::duplicates(), help_heading = "Input")]
    duplicates: Option<Duplicates>,
    #[command(flatten)]
    reading: ReadOptions,
    #[command(flatten)]
    device: OneDevice,
}

impl Args {
    /// Refuses options of other contents.
    fn check(&self) -> Result<()> {
        let table = self.table.name();
        if self.duplicates.is_some() && self.table != Contents::Map {
            let rest = if self.table == Contents::Multi { "keeps all pairs" } else { "keeps each key once" };
            return Err(Failure::Input(format!("--duplicates is for --table map, and {table} {rest}: leave it out")));
        }
        if self.ids.is_some() && self.table != Contents::Compact {
            return Err(Failure::Input(format!("--ids is for --table compact, and {table} has no ids: leave it out")));
        }
        if self.ids.is_some() && self.options.is_of(CuckooSet::NAME) {
            let order = "the ids of a set's keys are in table order";
            return Err(Failure::Input(format!("--ids: {order}: leave it out, or take another --scheme")));
        }
        Ok(())
    }
}

pub(crate) fn run(args: &Args) -> Result<Verdict> {
    // Options are checked before a large file is read.
    args.check()?;
    args.options.check(args.table)?;
    let outputs = [("-o", Some(&*args.output))];
    files::check(&[&args.input], &outputs)?;
    files::check_summary(args.json, &outputs)?;
    let device = args.device.open(&[&args.input])?;
    let to_stdout = files::is_stdout(&args.output);
    let progress = Progress::line();
    progress.say(format!("reading {}", args.input.display()));
    let start = Instant::now();
    let input = Input::open(&args.input)?;
    args.reading.check(&[&input])?;
    let key_type = if input.is_fasta() { KeyType::Kmers { k: args.reading.k() } } else { KeyType::Numbers };
    let pairs = match args.table {
        Contents::Set | Contents::Compact => {
            let mut keys = Vec::new();
            input.read(&args.reading, Want::Keys, &mut keys)?;
            Pairs { keys, values: Vec::new() }
        }
        _ => {
            let mut pairs = Pairs::default();
            input.read(&args.reading, Want::Pairs, &mut pairs)?;
            pairs
        }
    };
    let read_seconds = start.elapsed().as_secs_f64();
    progress.say(format!("building a table of {}", text::counted(pairs.keys.len() as u64, "row")));
    let progress = Some(progress);
    let mut job = Build { args, device: &device, pairs: &pairs, key_type, read_seconds, to_stdout, progress };
    job.run(args.options.scheme(args.table)?)
}

struct Build<'a> {
    args: &'a Args,
    device: &'a Any,
    pairs: &'a Pairs,
    key_type: KeyType,
    read_seconds: f64,
    /// The table goes to stdout, and what is said of it to stderr.
    to_stdout: bool,
    progress: Option<Progress>,
}

impl Build<'_> {
    fn run(&mut self, scheme: AnyScheme) -> Result<Verdict> {
        let (args, device, Pairs { keys, values }) = (self.args, self.device, self.pairs);
        let (options, key_type) = (&args.options, self.key_type);
        match args.table {
            Contents::Map => {
                let builder = options.apply(HashTable::builder(scheme)).duplicates(args.duplicates.unwrap_or_default());
                self.finish(|| builder.key_type(key_type).build(device, keys, values))
            }
            Contents::Set => {
                let builder = options.apply(HashSet::builder(scheme)).key_type(key_type);
                self.finish(|| builder.build(device, keys))
            }
            Contents::Compact => {
                if let AnyScheme::CuckooSet(scheme) = scheme {
                    let builder = options.apply(HashSet::builder(scheme)).key_type(key_type);
                    return self.finish::<Cuckoo, _>(|| CompactingTable::from_set(builder.build(device, keys)?));
                }
                let builder = options.apply(CompactingTable::builder(scheme)).ids(args.ids.unwrap_or_default());
                self.finish(|| builder.key_type(key_type).build(device, keys))
            }
            Contents::Multi => {
                let builder = options.apply(MultiTable::builder(scheme)).key_type(key_type);
                self.finish(|| builder.build(device, keys, values))
            }
            other => Err(unknown(other)),
        }
    }
}

/// What was built, and the seconds that it took.
struct Built {
    about: About,
    digest: Digest,
    device: DeviceInfo,
    build_seconds: f64,
    save_seconds: f64,
}

impl Build<'_> {
    /// Builds, saves and tells.
    fn finish<S: Described, T: Structure<Any, S>>(&mut self, build: impl FnOnce() -> koel::Result<T>) -> Result<Verdict>
    where
        Any: Runs<S>,
    {
        let start = Instant::now();
        let structure = build()?;
        self.device.finish()?;
        let build_seconds = start.elapsed().as_secs_f64();
        let start = Instant::now();
        let digest = structure.save(&self.args.output)?;
        let save_seconds = start.elapsed().as_secs_f64();
        let device = structure.table().backend().info().clone();
        let built = Built { about: About::of(&structure), digest, device, build_seconds, save_seconds };
        // Clears the line before anything is printed there.
        self.progress = None;
        if self.args.json { self.print_json(&built) } else { self.print(&built) }?;
        Ok(Verdict::Fine)
    }

    fn print_json(&self, built: &Built) -> Result<()> {
        let (args, about) = (self.args, &built.about);
        out::print_json(&json!({
            "output": args.output.display().to_string(), "table": about.contents.name(),
            "scheme": about.scheme, "kind": args.options.kind.name(),
            "parameters": scheme::json(&about.parameters), "key_type": key_type_json(self.key_type),
            "rows": self.pairs.keys.len(), "pairs": about.pairs, "keys": about.keys,
            "slots": about.slots, "load": about.load,
            "seed": about.seed, "restarts": about.restarts, "digest": built.digest.to_string(),
            "device": built.device.id, "image_bytes": about.image_bytes, "bytes": about.bytes,
            "seconds": { "read": self.read_seconds, "build": built.build_seconds, "save": built.save_seconds },
        }))
    }

    fn print(&self, built: &Built) -> Result<()> {
        let (args, about) = (self.args, &built.about);
        let rows = self.pairs.keys.len() as u64;
        let dropped = match rows.saturating_sub(about.pairs) {
            0 => String::new(),
            copies => {
                format!(" of {} ({} with a key that was there)", text::counted(rows, "row"), text::grouped(copies))
            }
        };
        let summary = format!(
            "{}: {}{dropped} in {} (load {:.3}), {}\n\
             table     {}\n\
             keys      {}\n\
             scheme    {} {}, {}\n\
             device    {}\n\
             seed      {}\n\
             restarts  {}\n\
             digest    {}\n\
             time      {:.3} s to read, {:.3} s to build, {:.3} s to save",
            args.output.display(),
            about.held,
            text::counted(about.slots, "slot"),
            about.load,
            text::bytes(about.bytes),
            about.contents.name(),
            self.key_type,
            about.scheme,
            args.options.kind,
            scheme::listed(&about.parameters),
            built.device,
            about.seed,
            about.restarts,
            built.digest,
            self.read_seconds,
            built.build_seconds,
            built.save_seconds,
        );
        if self.to_stdout {
            out::summary(&summary);
            return Ok(());
        }
        if out::is_quiet() { Ok(()) } else { out::print(&summary) }
    }
}
