//! `koel lookup`: writes the answers to a file of queries, in order.

mod queries;
mod query;
mod rows;
mod stored_table;

use std::path::{Path, PathBuf};

use serde_json::json;

use koel::backend::Runs;
use koel::device::Any;
use koel::table::{Contents, FileInfo, read_info};
use koel::{
    CompactingTable, Cpu, HashSet, HashTable, MultiTable, Scheme, Sharded, ShardedFile, ShardedMulti, ShardedSet,
};

use super::failure::{Failure, Result, Verdict};
use super::input::{self, Named, Places, ReadOptions, Sink, Want};
use super::number::{Type, Word, Words};
use super::options::{self, Threads};
use super::output::RowOptions;
use super::progress::Progress;
use super::structure::{Types, of_map, of_multi_table, of_numbering_table, of_set, unknown};
use super::tables::write::Form;
use super::{out, text};
use queries::{Queries, k_of};
use query::{AllValues, Counts, KeysOfIds, Members, Queried, Queryable, Values};
use rows::{Rows, Shown};
use stored_table::{Opened, StoredLists};

/// Queries that are answered at a time; memory use is proportional to it.
const CHUNK: usize = 1 << 20;

const EXAMPLES: &str = "\
QUERIES is CSV, TSV, .npy, FASTA or FASTQ, also compressed by gzip or zstd, or
with --key a table, as for `koel build`; of several columns the first is used.
Queries may have another type than the keys of the table: those that its type
cannot represent are misses.

A table of k-mers (`koel build --kmer`) records K, and whether the k-mers are
canonical: queries in letters may then be of either strand, and are written as
their key. Queries that are numbers are keys as they are. A table of numbers
cannot be queried with letters.

Output is in the order of the queries. The columns depend on the --table that
TABLE was built with:
  map        `key,value`; the value of a miss is empty
  set        `key,found`: 1 or 0
  compact    `key,id`; the id of a miss is empty. With --reverse, queries are
             ids, and rows are `id,key`
  multi      `key,value`: a row for each value of the key, or one without a
             value for a miss; with --count `key,count`
The extension of -o FILE selects the format: .csv, .tsv, .parquet, .arrow,
.ndjson and others. -o FILE.npy writes a structured array with the names above:
(key u4, value u4, found b1) for a map, where a miss is a 0 whose field `found`
is false. With --letters, k-mers are strings (S31). In formats with types, keys
have the type of the array of queries, or else that of --keys or of the keys of
the table; values have the type of the table.

Examples:
  koel lookup pairs.koel queries.csv
  koel lookup pairs.koel queries.csv -o answers.npy
  koel lookup pairs.koel needed.csv --strict > /dev/null && echo all found
  koel lookup pairs.koel queries.npy -o answers.npy --device gpus
  koel lookup kmers.koel reads.fq.gz -o places.csv
  koel lookup kmers.koel probes.fa --letters --places genome.fa
                         rows `key,record,offset`";

/// Look up keys in a table file
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES, mut_arg("value", |value| value.hide(true)))]
pub(crate) struct Args {
    /// A table file, written by `koel build`
    table: PathBuf,
    /// Files of keys to look up; `-` is stdin
    ///
    /// Several files are read as one.
    #[arg(required = true)]
    queries: Vec<PathBuf>,
    /// Write record and offset, from these FASTA files
    ///
    /// The FASTA or FASTQ files that the table was built from, in the same order. Values are written as the name of a
    /// record and the offset in it, from 0. For --table map and multi; output is text only.
    #[arg(long, value_name = "FILE", num_args = 1.., help_heading = "Output")]
    places: Vec<PathBuf>,
    /// Write the number of values of each key
    ///
    /// In place of the values. For --table multi.
    #[arg(long)]
    count: bool,
    /// Look up the keys of ids
    ///
    /// Queries are ids, and results are their keys. For --table compact.
    #[arg(long)]
    reverse: bool,
    /// Exit with code 1 if any query is a miss
    ///
    /// All results are written first.
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    output: RowOptions,
    #[command(flatten)]
    reading: ReadOptions,
    /// auto, cpu, gpus, opencl:N, opencl:NAME [default: auto]
    ///
    /// `gpus` is all GPUs of OpenCL. Several devices may be given, separated by commas: the shards of a table in shards
    /// are assigned to them in turn; another table, of --table map, set or compact, is copied to each device, and they
    /// share the queries.
    ///
    /// `auto` is the best GPU of OpenCL, or the CPU if there is none; if table and queries have less than 1 MiB, it is
    /// always the CPU. `koel devices` lists the devices.
    #[arg(long, value_name = "DEVICES", value_delimiter = ',', help_heading = "Device")]
    device: Vec<String>,
    /// Map the file into memory instead of reading it
    ///
    /// Starts immediately, on the CPU, without checking the checksum and the contents. For --table map. No process may
    /// write to the file or truncate it meanwhile; replacing it with a new file is allowed.
    #[arg(long, help_heading = "Device")]
    mapped: bool,
    /// Approximate memory limit, e.g. 4G; at least 64Mi
    ///
    /// As 300M, 4G or 16Gi. For a table in shards: shards stay in the file and are loaded one at a time, one per
    /// device, for as many queries as fit. The limit does not cover a single shard and its queries. By default the
    /// table is in memory.
    #[arg(long, value_name = "BYTES", value_parser = options::memory, help_heading = "Device")]
    memory: Option<u64>,
    #[command(flatten)]
    threads: Threads,
}

impl Args {
    /// The files that are read, except those of `--places`.
    fn inputs(&self) -> Vec<&Path> {
        [&[&*self.table], &input::paths(&self.queries)[..]].concat()
    }

    fn devices(&self) -> Result<Vec<Any>> {
        let auto = ["auto".to_owned()];
        options::several_devices(if self.device.is_empty() { &auto } else { &self.device }, &self.inputs())
    }

    /// The device, for operations that use only one; several are an error.
    fn one_of<'a>(&self, devices: &'a [Any], what: &str) -> Result<&'a Any> {
        match devices {
            [device] => Ok(device),
            _ => Err(Failure::Input(format!(
                "--device {}: {what} uses one device: name one, like cpu or opencl:0",
                self.device.join(",")
            ))),
        }
    }

    /// Queries that are answered at a time.
    fn chunk(&self) -> usize {
        /// Bytes per query: the key twice, the answer twice, and the position.
        const BYTES: u64 = 48;
        self.memory.map_or(CHUNK, |memory| (memory / 4 / BYTES) as usize)
    }

    /// Whether the output format stores the types of columns, which text does not.
    fn writes_types(&self) -> bool {
        !self.output.place().is_text()
    }

    /// How keys of this type are written, as k-mers if `k` is given. Without a type, any numbers are accepted.
    fn shown(&self, kind: Option<Type>, k: Option<u32>) -> Shown {
        let numbers = kind.map_or(Shown::AnyNumber, Shown::Number);
        k.filter(|_| self.output.letters).map_or(numbers, Shown::Letters)
    }

    /// Returns an error if records and offsets are requested for values that are not places, or in a format that does
    /// not support them.
    fn check_places(&self, info: &FileInfo) -> Result<()> {
        let path = text::path(&self.table);
        let why = if self.places.is_empty() {
            return Ok(());
        } else if k_of(info.key_type).is_none() {
            format!("the keys of {path} are {}, not k-mers: omit it", Types::of(info).keys_said())
        } else if !matches!(info.contents, Contents::Map | Contents::Multi) {
            format!("it is for --table map and multi, and {path} is a {} table: omit it", info.contents.name())
        } else if self.count {
            "--count writes no values: omit one of them".into()
        } else if self.output.place().form() == Form::Npy {
            "records have names, which are text: write to .csv or .tsv".into()
        } else {
            return Ok(());
        };
        Err(Failure::Input(format!("--places: {why}")))
    }

    /// Refuses options that do not apply to the contents of this table.
    fn check(&self, info: &FileInfo) -> Result<()> {
        self.check_places(info)?;
        if self.mapped && info.shards.is_some() {
            let path = text::path(&self.table);
            return Err(Failure::Input(format!("{path}: --mapped is for tables that are not in shards: omit it")));
        }
        if self.memory.is_some() && (info.shards.is_none() || info.contents != Contents::Map) {
            let path = text::path(&self.table);
            return Err(Failure::Input(format!(
                "{path}: --memory is for maps in shards (`koel build --shards` or `--memory`): omit it"
            )));
        }
        let own = [
            ("count", self.count, Contents::Multi),
            ("reverse", self.reverse, Contents::Compact),
            ("mapped", self.mapped, Contents::Map),
        ];
        let Some((option, _, whose)) = own.iter().find(|&&(_, given, whose)| given && info.contents != whose) else {
            return Ok(());
        };
        let (path, whose, is) = (text::path(&self.table), whose.name(), info.contents.name());
        Err(Failure::Input(format!("{path}: --{option} is for --table {whose}, and this is a {is} table: omit it")))
    }
}

pub(crate) fn run(args: &Args) -> Result<Verdict> {
    args.threads.apply()?;
    if args.mapped && args.device.iter().any(|device| device != "cpu") {
        return Err(Failure::Input("--mapped looks up on the CPU: omit --device".into()));
    }
    let files: Vec<_> = args.inputs().into_iter().chain(input::paths(&args.places)).collect();
    args.output.check_files(&files, &[])?;
    let info = read_info(&args.table)?;
    args.check(&info)?;
    Lookup { args, info: &info }.run()
}

/// Maps a table.
#[expect(unsafe_code, reason = "only the user knows who else writes to the file")]
fn mapped<S: Scheme>(path: &Path) -> koel::Result<HashTable<Cpu, S>>
where
    Cpu: Runs<S>,
{
    // SAFETY: the user chose --mapped, whose help says that nothing may write to or truncate the file meanwhile. This
    // command does not: its answers go elsewhere.
    unsafe { HashTable::open_mapped(&Cpu::new(), path) }
}

struct Lookup<'a> {
    args: &'a Args,
    info: &'a FileInfo,
}

impl Lookup<'_> {
    fn run(&self) -> Result<Verdict> {
        let (args, path) = (self.args, &self.args.table);
        // Missing query files are detected before a large table is read, and before any output.
        let queries = Queries::open(args, self.info)?;
        let types = Types::of(self.info);
        if args.mapped {
            return match self.info.contents {
                Contents::Set => of_set!(self.info, |S| {
                    let table = mapped::<S>(path)?;
                    answer(args, queries, types.keys, &mut Values::new(&table, "value", self.values()))
                }),
                _ => of_map!(self.info, |S| {
                    let table = mapped::<S>(path)?;
                    answer(args, queries, types.keys, &mut Values::new(&table, "value", self.values()))
                }),
            };
        }
        let devices = args.devices()?;
        match self.info.contents {
            Contents::Map if args.memory.is_some() => of_map!(self.info, |S| {
                let table = ShardedFile::<Any, S>::open(&devices, path)?;
                answer(args, queries, types.keys, &mut Values::new(&table, "value", self.values()))
            }),
            Contents::Map if self.info.shards.is_some() => of_map!(self.info, |S| {
                let table = Sharded::<Any, S>::open(&devices, path)?;
                answer(args, queries, types.keys, &mut Values::new(&table, "value", self.values()))
            }),
            Contents::Map => of_map!(self.info, |S| {
                let table = Opened::<HashTable<Any, S>, S>::open(&devices, path)?;
                answer(args, queries, types.keys, &mut Values::new(table.stored_table(), "value", self.values()))
            }),
            Contents::Set if self.info.shards.is_some() => of_set!(self.info, |S| {
                let set = ShardedSet::<Any, S>::open(&devices, path)?;
                answer(args, queries, types.keys, &mut Members(set.table()))
            }),
            Contents::Set => of_set!(self.info, |S| {
                let set = Opened::<HashSet<Any, S>, S>::open(&devices, path)?;
                answer(args, queries, types.keys, &mut Members(set.stored_table()))
            }),
            Contents::Compact if args.reverse => of_numbering_table!(self.info, |S| {
                let table = CompactingTable::<Any, S>::open(args.one_of(&devices, "--reverse")?, path)?;
                let shown = args.shown(Some(types.keys), queries.k);
                answer(args, queries, Type::U32, &mut KeysOfIds(&table, types.keys, shown))
            }),
            Contents::Compact => of_numbering_table!(self.info, |S| {
                let table = Opened::<CompactingTable<Any, S>, S>::open(&devices, path)?;
                answer(args, queries, types.keys, &mut Values::new(table.stored_table(), "id", Type::U32))
            }),
            Contents::Multi if self.info.shards.is_some() => of_multi_table!(self.info, |S, V| {
                let table = ShardedMulti::<Any, S, V>::open(&devices, path)?;
                self.answer_lists(queries, &table)
            }),
            Contents::Multi => of_multi_table!(self.info, |S, V| {
                let device = args.one_of(&devices, "a table of --table multi that is not in shards")?;
                let table = MultiTable::<Any, S, V>::open(device, path)?;
                self.answer_lists(queries, &table)
            }),
            other => Err(unknown(other)),
        }
    }

    fn answer_lists<K: Word, V: Word>(&self, queries: Queries<'_>, lists: &dyn StoredLists<K, V>) -> Result<Verdict> {
        let keys = Types::of(self.info).keys;
        if self.args.count {
            answer(self.args, queries, keys, &mut Counts(lists))
        } else {
            answer(self.args, queries, keys, &mut AllValues(lists, self.values()))
        }
    }

    /// The type of the values. For tables that do not store one, it is `u32`, the type of ids.
    fn values(&self) -> Type {
        Types::of(self.info).values.unwrap_or(Type::U32)
    }
}

/// Answers all queries, and reports how many are hits. `kind` is the type of the table's keys; queries that it cannot
/// represent are misses.
fn answer<K: Word>(args: &Args, queries: Queries<'_>, kind: Type, table: &mut dyn Queryable<K>) -> Result<Verdict> {
    // If rows go to the terminal, a progress line is not needed.
    let progress = args.output.output.is_some().then(Progress::line);
    if let Some(progress) = &progress {
        progress.say("looking up");
    }
    // The records of the sequences, if they were requested.
    let places = queries.k.filter(|_| !args.places.is_empty()).map(|k| Places::read(&args.places, k)).transpose()?;
    let (k, queries_of) = (queries.k.filter(|_| !args.reverse), Queried::new(kind));
    let mut answers =
        Answers { args, table, queries: queries_of, k, places, rows: None, queried: 0, missed: 0, progress };
    let read = queries.inputs.read(&queries.reading, Want::Keys, &mut answers).and_then(|()| answers.flush());
    let Answers { rows, queried, missed, .. } = answers;
    match read.and_then(|()| rows.map_or(Ok(()), Rows::finish)) {
        // A closed pipe does not undo the misses that were counted before.
        Err(Failure::ClosedPipe) if args.strict && missed > 0 => return Ok(Verdict::CheckFailed),
        done => done?,
    }
    let counts = [queried, queried - missed, missed].map(text::grouped);
    args.output.summarize(
        &format!("{} queries, {} found, {} missed", counts[0], counts[1], counts[2]),
        || json!({ "queries": queried, "found": queried - missed, "missed": missed }),
    )?;
    if args.strict && missed > 0 {
        out::complain(&format!("{missed} of {queried} queries are not in {}", text::path(&args.table)));
        return Ok(Verdict::CheckFailed);
    }
    Ok(Verdict::Fine)
}

/// Collects queries in chunks, answers them, and writes the answers.
struct Answers<'a, K: Word> {
    args: &'a Args,
    table: &'a mut dyn Queryable<K>,
    queries: Queried<K>,
    /// The number of letters of queries, if they are k-mers.
    k: Option<u32>,
    /// Moved into the rows when these are opened.
    places: Option<Places>,
    /// Opened when the type of the queries is known.
    rows: Option<Rows>,
    queried: u64,
    missed: u64,
    progress: Option<Progress>,
}

impl<K: Word> Sink for Answers<'_, K> {
    fn begin(&mut self, named: Named) -> Result<()> {
        let kind = named.keys.or(self.args.writes_types().then(|| self.queries.kind()));
        let columns = self.table.columns(self.args.shown(kind, self.k));
        self.rows = Some(Rows::open(&self.args.output, columns, self.places.take(), self.args.memory)?);
        Ok(())
    }

    fn append(&mut self, keys: Words, _: Words) -> Result<()> {
        keys.iter().try_for_each(|key| self.queries.push(key))?;
        if self.queries.len() >= self.args.chunk() { self.flush() } else { Ok(()) }
    }
}

impl<K: Word> Answers<'_, K> {
    fn flush(&mut self) -> Result<()> {
        let Some(rows) = &mut self.rows else { return Ok(()) };
        let queried = self.queries.len() as u64;
        let hits = self.table.answer(&self.queries, rows)?;
        self.queried += queried;
        self.missed += queried - hits;
        if let Some(progress) = &self.progress {
            progress.say(format!("{} queries answered", text::grouped(self.queried)));
        }
        self.queries.clear();
        Ok(())
    }
}
