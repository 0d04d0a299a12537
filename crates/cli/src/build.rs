//! `koel build`: builds a table from files.

mod report;

use std::path::PathBuf;
use std::time::Instant;

use koel::backend::Runs;
use koel::device::Any;
use koel::table::Contents;
use koel::{
    AnyScheme, CompactingTable, Cuckoo, CuckooSet, Duplicates, HashSet, HashTable, IdOrder, KeyType, MultiTable,
    Scheme, Sharded, ShardedBuilder, ShardedMulti, ShardedSet, ValueType,
};
use koel_arrow::NullEquality;

use super::failure::{self, Failure, Result, Verdict};
use super::input::{self, Inputs, Pairs, ReadOptions, Want};
use super::number::{Type, Word};
use super::options::names::{self, List};
use super::options::{self, SomeDevices, TableOptions, ValuesOption};
use super::progress::Progress;
use super::query;
use super::scheme::Described;
use super::structure::{About, Types, unknown};
use super::tables::read::several::matching;
use super::{files, text};

const EXAMPLES: &str = "\
The format of INPUT is detected from its content. Files may be compressed by
gzip or zstd:
  CSV, TSV   rows `key,value`; without values, the value is the row number, from
             0. A first row without a number is a header if rows follow; see
             --header
  .npy       integers of any width, of shape (n,), which are keys, or (n, 2); or
             records of a key and a value
  FASTA      every window of K letters is a key (A C G T = 0..3, U is T, the
             first letter is the most significant), and its position is the
             value; the table records K. Windows with an N or another ambiguity
             code are skipped and counted on stderr. With --canonical-kmers the
             key is the lesser of the window and its reverse complement
  FASTQ      the same; quality is ignored
  k-mers     with --kmer or --canonical-kmers, CSV, TSV and .npy contain k-mers
             and their values, as letters or as numbers, as written by
             `koel unique --kmer --counts`; the table records K
  tables     with --key NAME and --value NAME: named columns of Parquet, Arrow
             IPC, CSV, TSV, NDJSON or .npy
Several files are read as one: row numbers and positions continue from file to
file, and each CSV may have its own header. FASTA and FASTQ cannot be mixed with
other formats. A row of text has at most 16 MiB and 65,536 columns.

Keys and values are integers of 32 or 64 bits, signed or unsigned. Their types
are those of the array, or for text the narrowest that hold all numbers (printed
to stderr unless it is u32); --keys and --values override them. Tables of 64-bit
keys or values are canonical and of --scheme bucketized, robin_hood or signpost.
Values of --table multi may have 64 bits with any scheme.

--table:
  map        a value for each key
  set        the distinct keys; of several columns the first is used
  compact    the distinct keys, numbered from 0; of several columns the first is
             used. With --scheme cuckoo_set, as in the paper, numbers are in
             table order
  multi      all values of each key, in row order

Canonical tables of the same rows have the same bytes, for any order of rows,
any device and any number of threads; only the values of a key, and ids by first
appearance, are in row order.

Examples:
  koel build pairs.csv -o pairs.koel
  koel build pairs.csv -o small.koel --load 0.95 --duplicates last
  koel build genome.fa --kmer 12 -o kmers.koel --table multi
  koel build lane1.fq.gz lane2.fq.gz --kmer 31 --canonical-kmers \\
    -o reads.koel --table set
  koel build counts.tsv --kmer 31 --canonical-kmers -o counts.koel
                        counts written by `koel unique` or another program
  koel build customers.csv -o ids.koel --table compact --ids ascending
  koel build orders.parquet --key o_orderkey --columns o_orderdate,o_custkey \\
    -o orders.koel      the right side of joins, for `koel join --with`
  koel build huge.npy -o huge.koel --shards 16 --device gpus
                        or --device opencl:0,opencl:1, or cpu,opencl:0
  xzcat pairs.csv.xz | koel build - -o pairs.koel --device cpu";

/// The default number of shards of a build with a memory limit.
const SHARDS: usize = 64;

/// Build a table from files of keys and values
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// CSV, TSV, .npy, FASTA, FASTQ or a table; `-` is stdin
    ///
    /// Files may be compressed by gzip or zstd. Several are read as one.
    #[arg(value_name = "INPUT", required = true)]
    inputs: Vec<PathBuf>,
    /// File of the table, or a pipe
    ///
    /// With /dev/stdout, stdout receives the table only, and the summary goes to stderr.
    #[arg(short, long, value_name = "FILE", value_parser = options::table_file())]
    output: PathBuf,
    /// Print the summary as JSON to stdout
    #[arg(long)]
    json: bool,
    /// map, set, compact or multi
    ///
    /// What to build from the rows; see --table below.
    #[arg(long, default_value = "map", value_parser = options::contents(), help_heading = "Table")]
    #[arg(hide_possible_values = true)]
    table: Contents,
    #[command(flatten)]
    options: TableOptions,
    /// Split the table into P shards, 1 to 4096 [default: 1]
    ///
    /// Each shard is a table of its own; shards are assigned to the devices in turn. Not for --table compact. The bytes
    /// depend on the number of shards, but not on the devices. Twice as many shards as devices is a good number. With
    /// --memory, the default is 64.
    #[arg(long, value_name = "P", value_parser = options::shards(), help_heading = "Table")]
    shards: Option<usize>,
    /// Approximate memory limit, e.g. 4G; at least 64Mi
    ///
    /// As 300M, 4G or 16Gi. Rows are stored in a temporary file in the folder TMPDIR, and shards are built one after
    /// another, one per device at a time. The bytes are the same as without a limit. Only for --table map. By default
    /// everything is in memory.
    #[arg(long, value_name = "BYTES", value_parser = options::memory, help_heading = "Table")]
    memory: Option<u64>,
    /// Order of ids: first, ascending [default: first]
    ///
    /// For --table compact: ids in the order in which keys first appear, or in ascending order of keys.
    #[arg(long, value_name = "ORDER", value_parser = options::id_order(), help_heading = "Table")]
    #[arg(hide_possible_values = true)]
    ids: Option<IdOrder>,
    /// Duplicate keys: error, first, last [default: error]
    ///
    /// For --table map: report an error if a key occurs more than once, or keep its first or last pair.
    #[arg(long, value_name = "RULE", value_parser = options::duplicates(), help_heading = "Table")]
    #[arg(hide_possible_values = true)]
    duplicates: Option<Duplicates>,
    /// Build the right side of joins, with these columns
    ///
    /// The file contains these columns of a table, and an index of the columns that --key names, which may be any
    /// number of columns of any types, with duplicates. `koel join --with` reads it. Columns of text files have types;
    /// --types NAME=utf8 keeps their text.
    #[arg(long, value_name = "NAME,..", value_parser = names::names, requires = "key", help_heading = "Table")]
    #[arg(conflicts_with_all = [
        "table", "shards", "memory", "ids", "duplicates", "value", "skip_nulls", "keys", "values", "scheme", "kind",
        "load", "capacity", "slots", "functions", "bucket_slots", "hash", "reinsertion", "insertion",
        "lookup_mode", "reach", "tags", "bits", "height", "iterations", "sequence", "max_ages", "keys_alone", "extent",
    ])]
    columns: Option<Vec<List<String>>>,
    /// With --columns: treat null keys as equal
    ///
    /// Without this option, a row with a null in its key does not match any row, as in SQL.
    #[arg(long, requires = "columns", help_heading = "Table")]
    nulls_equal: bool,
    #[command(flatten)]
    reading: ReadOptions,
    #[command(flatten)]
    values: ValuesOption,
    #[command(flatten)]
    device: SomeDevices,
}

impl Args {
    /// Refuses options that do not apply to these contents.
    fn check(&self) -> Result<()> {
        let table = self.table.name();
        if self.memory.is_some() && self.table != Contents::Map {
            return Err(Failure::Input(format!(
                "--memory is for --table map; a {table} table is built in memory: omit it"
            )));
        }
        if self.shards.is_some() && self.table == Contents::Compact {
            return Err(Failure::Input(format!(
                "--shards is for --table map, set and multi; a {table} table numbers all keys in one table: omit it"
            )));
        }
        self.reading.check_value(self.has_values())?;
        if self.values.values.is_some() && !self.has_values() {
            return Err(Failure::Input(format!("--values is for tables with values, and {table} has none: omit it")));
        }
        let is_wide = |kind: Option<Type>| kind.is_some_and(|kind| kind.bits() > u32::BITS);
        // The values of multivalue tables are stored outside of the table of their keys.
        let is_wide_inside = self.table != Contents::Multi && is_wide(self.values.values);
        if is_wide(self.reading.keys) || is_wide_inside {
            match self.table {
                Contents::Compact | Contents::Multi => self.options.wide_numbers().map(|_| ())?,
                _ => self.options.wide().map(|_| ())?,
            }
        } else {
            self.options.check(self.table)?;
        }
        if self.duplicates.is_some() && self.table != Contents::Map {
            let rest = if self.table == Contents::Multi { "keeps all pairs" } else { "keeps each key once" };
            return Err(Failure::Input(format!("--duplicates is for --table map, and {table} {rest}: omit it")));
        }
        if self.ids.is_some() && self.table != Contents::Compact {
            return Err(Failure::Input(format!("--ids is for --table compact, and {table} has no ids: omit it")));
        }
        if self.ids.is_some() && self.options.is_of(CuckooSet::NAME) {
            let order = "the ids of a set's keys are in table order";
            return Err(Failure::Input(format!("--ids: {order}: omit it, or give another --scheme")));
        }
        Ok(())
    }

    /// The number of shards, if the table is sharded.
    fn shards(&self) -> Option<usize> {
        self.shards.or(self.memory.map(|_| SHARDS))
    }

    /// Whether the table stores values of the rows.
    fn has_values(&self) -> bool {
        !matches!(self.table, Contents::Set | Contents::Compact)
    }
}

pub(crate) fn run(args: &Args) -> Result<Verdict> {
    if let Some(columns) = names::all(args.columns.as_ref()) {
        return prepare(args, &columns);
    }
    // Options are checked before a large file is read.
    args.check()?;
    let outputs = [("-o", Some(&*args.output))];
    let paths = input::paths(&args.inputs);
    files::check(&paths, &outputs)?;
    files::check_summary(args.json, &outputs)?;
    let devices = args.device.open(&paths, args.shards().is_some(), args.table != Contents::Compact)?;
    let to_stdout = files::is_stdout(&args.output);
    let progress = Progress::line();
    let start = Instant::now();
    let inputs = Inputs::open(&args.inputs)?;
    let reading = args.reading.with_values(args.values.values);
    let counts_kmers = !inputs.has_sequences() && (reading.kmer.is_some() || reading.canonical_kmers);
    let reading = if counts_kmers { reading.of_kmers()? } else { reading };
    Inputs::check(&[&inputs], &reading)?;
    progress.say(format!("reading {}", inputs.shown()));
    let kmers = (inputs.has_sequences() || counts_kmers).then(|| reading.key_type_of_kmers());
    let want = if args.has_values() { Want::Pairs } else { Want::Keys };
    let rows = inputs.pairs(&reading, want, args.memory.is_some())?;
    let (keys, values) = rows.types();
    let numbers = if keys.is_signed() { KeyType::Signed } else { KeyType::Numbers };
    let types = Types { key_type: kmers.unwrap_or(numbers), keys, values: args.has_values().then_some(values) };
    let read_seconds = start.elapsed().as_secs_f64();
    let count = rows.rows();
    progress.say(format!("building a table of {}", text::counted(count, "row")));
    let mut job =
        Build { args, devices: &devices, types, rows: count, read_seconds, to_stdout, progress: Some(progress) };
    if args.memory.is_some() { job.run_spooled(&rows) } else { job.run(rows) }
}

/// Builds the right side of joins (`--columns`).
fn prepare(args: &Args, columns: &[String]) -> Result<Verdict> {
    let inputs = matching(&args.inputs, &[])?;
    let (paths, outputs) = (input::paths(&inputs), [("-o", Some(&*args.output))]);
    files::check(&paths, &outputs)?;
    files::check_summary(args.json, &outputs)?;
    let devices = args.device.open(&paths, false, false)?;
    let reading = args.reading.of_tables(false);
    // --columns requires --key.
    let key = names::all(args.reading.key.as_ref()).unwrap_or_default();
    query::prepared::Build {
        inputs: &inputs,
        reading: &reading,
        key: &key,
        columns,
        seed: args.options.seed.unwrap_or_default(),
        nulls: if args.nulls_equal { NullEquality::NullEquals } else { NullEquality::NothingEquals },
        output: &args.output,
        json: args.json,
        device: &devices[0],
    }
    .run()
}

struct Build<'a> {
    args: &'a Args,
    /// One device, unless the table is sharded.
    devices: &'a [Any],
    types: Types,
    rows: u64,
    read_seconds: f64,
    /// Whether the table goes to stdout, so that the summary goes to stderr.
    to_stdout: bool,
    progress: Option<Progress>,
}

impl Build<'_> {
    /// Selects the scheme's type by the contents and the widths of the columns.
    fn run(&mut self, rows: Pairs) -> Result<Verdict> {
        let (options, contents) = (&self.args.options, self.args.table);
        let values_bits = self.types.values.map_or(0, Type::bits);
        match (contents, self.types.keys.bits(), values_bits) {
            (Contents::Map, 32, 32) => self.map(options.scheme(contents)?, rows),
            (Contents::Map, 64, 64) => self.map(options.wide()?.of::<u64, u64>(), rows),
            (Contents::Map, 64, _) => self.map(options.wide()?.of::<u64, u32>(), rows),
            (Contents::Map, ..) => self.map(options.wide()?.of::<u32, u64>(), rows),
            (Contents::Set, 32, _) => self.set(options.scheme(contents)?, rows),
            (Contents::Set, ..) => self.set(options.wide()?.of::<u64, ()>(), rows),
            (Contents::Compact, 32, _) => match options.scheme(contents)? {
                AnyScheme::CuckooSet(scheme) => self.compact_of_set(scheme, rows),
                scheme => self.compact(scheme, rows),
            },
            (Contents::Compact, ..) => self.compact(options.wide_numbers()?.of::<u64, u32>(), rows),
            (Contents::Multi, 32, 32) => self.multi::<_, u32>(options.scheme(contents)?, rows),
            (Contents::Multi, 32, _) => self.multi::<_, u64>(options.scheme(contents)?, rows),
            (Contents::Multi, _, 32) => self.multi::<_, u32>(options.wide_numbers()?.of::<u64, u32>(), rows),
            (Contents::Multi, ..) => self.multi::<_, u64>(options.wide_numbers()?.of::<u64, u32>(), rows),
            (other, ..) => Err(unknown(other)),
        }
    }

    fn map<S: Described>(&mut self, scheme: S, rows: Pairs) -> Result<Verdict>
    where
        Any: Runs<S>,
        S::Key: Word,
        S::Value: Word,
    {
        let (options, devices, rule) = (&self.args.options, self.devices, self.args.duplicates.unwrap_or_default());
        let (key_type, value_type) = (self.types.key_type, self.value_type());
        let (keys, values) = rows.into_words::<S::Key, S::Value>();
        let built = if let Some(shards) = self.args.shards {
            let builder = options.apply(Sharded::builder(scheme, shards)).duplicates(rule);
            let builder = builder.key_type(key_type).value_type(value_type);
            self.finish(|| builder.build(devices, &keys, &values))
        } else {
            let builder = options.apply(HashTable::builder(scheme)).duplicates(rule);
            let builder = builder.key_type(key_type).value_type(value_type);
            self.finish(|| builder.build(&devices[0], &keys, &values))
        };
        built.map_err(|failure| self.to_failure(failure))
    }

    /// Builds a table from rows in a temporary file, one shard after another.
    fn run_spooled(&mut self, rows: &Pairs) -> Result<Verdict> {
        let options = &self.args.options;
        match (self.types.keys.bits(), self.types.values.map_or(0, Type::bits)) {
            (32, 32) => self.spilled(options.scheme(Contents::Map)?, rows),
            (64, 64) => self.spilled(options.wide()?.of::<u64, u64>(), rows),
            (64, _) => self.spilled(options.wide()?.of::<u64, u32>(), rows),
            _ => self.spilled(options.wide()?.of::<u32, u64>(), rows),
        }
    }

    fn spilled<S: Described>(&mut self, scheme: S, rows: &Pairs) -> Result<Verdict>
    where
        Any: Runs<S>,
        S::Key: Word,
        S::Value: Word,
    {
        let shards = self.args.shards().unwrap_or(SHARDS);
        let builder = self.args.options.apply(Sharded::builder(scheme, shards));
        let builder = builder.duplicates(self.args.duplicates.unwrap_or_default());
        let builder = builder.key_type(self.types.key_type).value_type(self.value_type());
        self.check_memory(&builder)?;
        let start = Instant::now();
        let mut build = builder.spilled(std::env::temp_dir())?;
        for words in rows.words::<S::Key, S::Value>() {
            let (keys, values) = words?;
            build.push(&keys, &values)?;
        }
        let mut about: Option<About> = None;
        let progress = self.progress.as_ref();
        let digest = build.save_watched(self.devices, &self.args.output, |shard, table| {
            if let Some(progress) = progress {
                progress.say(format!("shard {} of {shards} is built", shard + 1));
            }
            let of_shard = About::of(table);
            match &mut about {
                None => about = Some(of_shard.begin_shards()),
                Some(about) => about.add_shard(&of_shard),
            }
        });
        let digest = digest.map_err(|error| self.to_failure(error.into()))?;
        // There is at least one shard.
        about.map_or(Ok(Verdict::Fine), |about| self.print_report(about, digest, [start.elapsed().as_secs_f64(), 0.0]))
    }

    /// Refuses a build if the shards that are built at a time need more than the memory limit.
    fn check_memory<S: Scheme>(&self, builder: &ShardedBuilder<S>) -> Result<()> {
        let shards = self.args.shards().unwrap_or(SHARDS) as u64;
        // The estimate for as many devices as shards is that of one shard. The rows of the shard are in memory too.
        let shard = builder.memory_estimate(self.rows, shards as usize)?;
        let columns = self.rows.div_ceil(shards) * (size_of::<S::Key>() + size_of::<S::Value>()) as u64;
        let bytes = (shard.build_with_duplicates + columns).saturating_mul(self.devices.len() as u64);
        let memory = self.args.memory.unwrap_or(u64::MAX);
        if bytes <= memory {
            return Ok(());
        }
        let enough = shards.saturating_mul(bytes.div_ceil(memory)).next_power_of_two();
        Err(Failure::Input(format!(
            "--memory: building {} of {shards} at a time takes about {}: give --shards {enough}, or more memory",
            text::counted(self.devices.len() as u64, "shard"),
            text::bytes(bytes),
        )))
    }

    fn to_failure(&self, failure: Failure) -> Failure {
        match failure {
            // The library knows only the bits of signed keys.
            Failure::Koel(koel::Error::DuplicateKey { key }) if self.types.keys.is_signed() => {
                Failure::Input(failure::given_twice(self.types.keys.of_key(key)))
            }
            other => other,
        }
    }

    fn set<S: Described>(&mut self, scheme: S, rows: Pairs) -> Result<Verdict>
    where
        Any: Runs<S>,
        S::Key: Word,
    {
        let (options, devices, key_type) = (&self.args.options, self.devices, self.types.key_type);
        let (keys, _) = rows.into_words::<S::Key, u32>();
        if let Some(shards) = self.args.shards {
            let builder = options.apply(ShardedSet::builder(scheme, shards)).key_type(key_type);
            return self.finish(|| builder.build(devices, &keys));
        }
        let builder = options.apply(HashSet::builder(scheme)).key_type(key_type);
        self.finish(|| builder.build(&devices[0], &keys))
    }

    fn compact_of_set(&mut self, scheme: CuckooSet, rows: Pairs) -> Result<Verdict> {
        let (device, (keys, _)) = (&self.devices[0], rows.into_words::<u32, u32>());
        let builder = self.args.options.apply(HashSet::builder(scheme)).key_type(self.types.key_type);
        self.finish::<Cuckoo, _>(|| CompactingTable::from_set(builder.build(device, &keys)?))
    }

    fn compact<S: Described + Scheme<Value = u32>>(&mut self, scheme: S, rows: Pairs) -> Result<Verdict>
    where
        Any: Runs<S>,
        S::Key: Word,
    {
        let (args, device, (keys, _)) = (self.args, &self.devices[0], rows.into_words::<S::Key, u32>());
        let builder = args.options.apply(CompactingTable::builder(scheme)).ids(args.ids.unwrap_or_default());
        let builder = builder.key_type(self.types.key_type);
        self.finish(|| builder.build(device, &keys))
    }

    fn multi<S: Described + Scheme<Value = u32>, V: Word>(&mut self, scheme: S, rows: Pairs) -> Result<Verdict>
    where
        Any: Runs<S>,
        S::Key: Word,
    {
        let (options, devices) = (&self.args.options, self.devices);
        let (key_type, value_type) = (self.types.key_type, self.value_type());
        let (keys, values) = rows.into_words::<S::Key, V>();
        if let Some(shards) = self.args.shards {
            let builder = options.apply(ShardedMulti::builder(scheme, shards)).key_type(key_type).values::<V>();
            return self.finish(|| builder.value_type(value_type).build(devices, &keys, &values));
        }
        let builder = options.apply(MultiTable::builder(scheme)).key_type(key_type).values::<V>();
        self.finish(|| builder.value_type(value_type).build(&devices[0], &keys, &values))
    }

    fn value_type(&self) -> ValueType {
        match self.types.values {
            Some(kind) if kind.is_signed() => ValueType::Signed,
            _ => ValueType::Numbers,
        }
    }
}
