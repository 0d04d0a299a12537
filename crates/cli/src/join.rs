//! `koel join`: the rows of two files whose keys are equal.

use std::path::PathBuf;
use std::time::Instant;

use serde_json::json;

use koel::backend::{HashBackend, Runs};
use koel::device::Any;
use koel::join::JoinRows;
use koel::table::Contents;
use koel::{JoinIndex, JoinKind, Scheme};

use super::failure::{Failure, Result, Verdict};
use super::input::{self, Input, Pairs, ReadOptions, Spooled, Want};
use super::number::{Number, Numbers, Span, Type, Word};
use super::options::{self, AnyValuesOption, TableDevices, TableOptions};
use super::output::{Column, RowOptions, Rows, Shown};
use super::progress::Progress;
use super::query::{self, limited};
use super::tables::TableReading;
use super::tables::read::several::matching;
use super::text;

/// Rows of the result that are made at a time. The whole result is never held.
const CHUNK: usize = 1 << 20;

const EXAMPLES: &str = "\
With --on, LEFT and RIGHT are tables of named columns: Parquet, Arrow IPC, CSV,
TSV, NDJSON or .npy. The result has all columns of LEFT, then those of RIGHT
without its keys, which are equal to those of LEFT. The extension of -o FILE
selects the format: .parquet, .arrow, .csv, .csv.gz, .ndjson and others.

Without --on, LEFT and RIGHT are CSV, TSV, .npy, FASTA or FASTQ, also compressed
by gzip, or with --key tables, as for `koel build`. Text has one column of keys,
or two of keys and values; without values, the value is the row number, from 0.
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
result is written in batches; only the columns of both files and an index of the
right one are in memory.

Without --on, -o FILE.tsv separates by tabs, and -o FILE.npy writes a structured
array (key u4, left u4, right u4; for --how left and full with found b1, of
`right`; for --how right and full with left_found b1), in which keys and values
have the types of the files. Keys of two types are compared as numbers; the
output has the narrowest type that holds both.

Examples:
  koel join orders.csv items.csv --on id
  koel join 'orders/*.parquet' customers.parquet --on customer=id -o j.parquet
  koel join left.csv right.csv --how left -o j.csv     rows `key,value`
  koel join left.npy right.npy --rows -o pairs.npy
  koel join orders.parquet lineitem.parquet --on o_orderkey=l_orderkey \\
    -o j.parquet
  koel join a.csv b.csv --on name,birth --how left --columns name,birth,city";

/// Join two tables, or two files of keys and values
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// A table (--on), or rows `key,value`; `-` is stdin
    ///
    /// With --on also a pattern in quotes, such as 'orders/*.parquet', whose files are read as one.
    left: PathBuf,
    /// The right side; it is indexed, so give the smaller one
    right: PathBuf,
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
    #[command(flatten)]
    table: TableOptions,
}

impl Args {
    fn rows_of(&self, keys: Shown, left: Type, right: Type) -> Vec<Column> {
        let right =
            if self.how.keeps_left() { Column::maybe("right", "found", right) } else { Column::of("right", right) };
        let left =
            if self.how.keeps_right() { Column::maybe("left", "left_found", left) } else { Column::of("left", left) };
        let mut columns = vec![Column::of("key", keys), left, right];
        columns.truncate(if self.how.has_right() { 3 } else { 2 });
        columns
    }

    /// The rows of a file, with their values if those come out again.
    fn read(&self, input: Input<'_>, values: bool) -> Result<Pairs> {
        input.columns(&self.reading_of(), self.wanted(values))
    }

    fn reading_of(&self) -> ReadOptions {
        self.reading.with_any_values(self.values.values).naming("--on")
    }

    fn wanted(&self, values: bool) -> Want {
        if values { Want::Pairs } else { Want::Keys }
    }
}

pub(crate) fn run(args: &Args) -> Result<Verdict> {
    if args.left == args.right && args.left.as_os_str() == "-" {
        return Err(Failure::Input("only one of the two files can be stdin: name the other".into()));
    }
    if let Some(on) = &args.columns.on() {
        let (left, right) = (matching(&[&args.left])?, matching(&[&args.right])?);
        args.output.check_tables(&input::paths(&[&left[..], &right].concat()), &[])?;
        let reading = TableReading {
            header: args.reading.header,
            text: args.reading.text.clone(),
            spool: args.columns.memory.is_given() || args.device.are_several(),
        };
        let Args { how, columns, output, device, .. } = args;
        return query::join::Job {
            left: &left,
            right: &right,
            how: *how,
            on,
            options: columns,
            reading: &reading,
            output,
            device,
        }
        .run();
    }
    args.columns.check_unused()?;
    args.reading.check_value(!args.rows)?;
    args.reading.check_rows_kept("--rows", args.rows)?;
    query::refuse_tables(&[&args.left, &args.right], &args.reading, "--on")?;
    // Options and both files are looked at before large ones are read.
    args.table.check(Contents::Multi)?;
    args.output.check(&[&args.left, &args.right], &[])?;
    let (left, right) = (Input::open(&args.left)?, Input::open(&args.right)?);
    args.reading.check(&[&left, &right])?;
    let k = (left.has_sequences() && right.has_sequences()).then(|| args.reading.k());
    args.output.check_letters(k)?;
    let memory = args.columns.memory.limit(args.device.are_several());
    if let (Some(_), Some(given)) = (&memory, args.table.given().first()) {
        return Err(Failure::Input(format!(
            "--{given}: with --memory, and on several devices, rows are joined one partition at a time, without this table: omit it"
        )));
    }
    let mut devices = args.device.open()?;
    let progress = Progress::line();
    let start = Instant::now();
    progress.say(format!("reading {}", text::path(&args.left)));
    if let Some(limit) = memory {
        let left = Spooled::read(left.into(), &args.reading_of(), args.wanted(!args.rows))?;
        progress.say(format!("reading {}", text::path(&args.right)));
        let right = Spooled::read(right.into(), &args.reading_of(), args.wanted(!args.rows && args.how.has_right()))?;
        let kind = common([&left, &right].map(|rows| (rows.types().0, rows.span_of_keys())))?;
        let job = limited::joined::Joined {
            how: args.how,
            rows: args.rows,
            output: &args.output,
            devices: &devices,
            limit: &limit,
            memory: args.columns.memory.bytes(),
            k,
            read_seconds: start.elapsed().as_secs_f64(),
        };
        return job.run([left, right], kind, |keys, left, right| args.rows_of(keys, left, right), progress);
    }
    let device = devices.swap_remove(0);
    let left = args.read(left, !args.rows)?;
    progress.say(format!("reading {}", text::path(&args.right)));
    let right = args.read(right, !args.rows && args.how.has_right())?;
    let read_seconds = start.elapsed().as_secs_f64();
    let kind = common([&left.keys, &right.keys].map(|keys| (keys.kind(), keys.span())))?;
    let (left_keys, right_keys) = (left.keys.into_kind(kind)?, right.keys.into_kind(kind)?);
    let job = JoinFiles {
        args,
        device: &device,
        kind,
        shown: args.output.shown(kind, k),
        left: left.values,
        right: right.values,
        read_seconds,
        progress: Some(progress),
    };
    match kind.bits() {
        u32::BITS => job.run(args.table.scheme(Contents::Multi)?, left_keys.into_keys()?, right_keys.into_keys()?),
        _ => {
            let scheme = args.table.wide_numbers()?.of::<u64, u32>();
            job.run(scheme, left_keys.into_keys()?, right_keys.into_keys()?)
        }
    }
}

/// The type as which keys of both columns are compared: one that holds all numbers of both types, or else those that
/// there are.
fn common([(left, of_left), (right, of_right)]: [(Type, Span); 2]) -> Result<Type> {
    if left == right {
        return Ok(left);
    }
    let of_all = of_left.and(of_right);
    left.of_both(right).or(of_all.narrowest()).ok_or_else(|| {
        let (left, right) = (left.name(), right.name());
        Failure::Input(format!(
            "left keys are {left} and right keys {right}, and no type holds both {} and {}: drop rows that cannot \
             match",
            of_all.least, of_all.greatest
        ))
    })
}

/// The keys of both sides are of one type.
struct JoinFiles<'a> {
    args: &'a Args,
    device: &'a Any,
    kind: Type,
    /// How keys are written.
    shown: Shown,
    /// Values.
    left: Numbers,
    right: Numbers,
    read_seconds: f64,
    progress: Option<Progress>,
}

impl JoinFiles<'_> {
    fn run<S: Scheme<Value = u32>>(
        mut self,
        scheme: S,
        left_keys: Vec<S::Key>,
        mut right_keys: Vec<S::Key>,
    ) -> Result<Verdict>
    where
        Any: Runs<S>,
        S::Key: Word,
    {
        let name = scheme.name();
        let (args, device) = (self.args, self.device);
        let right_rows = right_keys.len() as u64;
        self.say(|| format!("indexing {}", text::counted(right_rows, "row")));
        let start = Instant::now();
        let index = args.table.apply(JoinIndex::builder(scheme)).build(device, &right_keys)?;
        device.finish()?;
        if !args.how.keeps_right() {
            // The keys come out of the left rows.
            right_keys = Vec::new();
        }
        let index_seconds = start.elapsed().as_secs_f64();

        let left_rows = left_keys.len() as u64;
        self.say(|| format!("looking up {}", text::counted(left_rows, "row")));
        let start = Instant::now();
        let join = index.join(&left_keys, args.how)?;
        let total = join.len();
        if args.output.output.is_none() {
            // Rows on a terminal are progress enough.
            self.progress = None;
        }
        let values = |column: &Numbers| if args.rows { Type::U32 } else { column.kind() };
        let columns = args.rows_of(self.shown, values(&self.left), values(&self.right));
        let mut rows = Rows::open(args.output.output.as_deref(), &columns)?;
        if let Some(progress) = &self.progress {
            progress.rows(total);
        }
        for piece in join.chunks(CHUNK) {
            let piece = piece?;
            self.write(&piece, [&left_keys, &right_keys], &mut rows)?;
        }
        rows.finish()?;
        self.progress = None;
        let sides = format!("{} and {}", text::counted(left_rows, "left row"), text::counted(right_rows, "right row"));
        let seed = args.table.seed().map_or(String::new(), |seed| format!(", seed {seed}"));
        args.output.summarize(&format!("{} of {sides}{seed}", text::counted(total, "row")), || {
            json!({
                "how": args.how.name(), "left_rows": left_rows, "right_rows": right_rows,
                "right_keys": index.keys_len(), "rows": total, "scheme": name, "kind": args.table.kind.name(),
                "seed": args.table.seed(), "device": device.info().id,
                "seconds": { "read": self.read_seconds, "index": index_seconds, "join": start.elapsed().as_secs_f64() },
            })
        })?;
        Ok(Verdict::Fine)
    }
}

impl JoinFiles<'_> {
    fn say(&self, what: impl FnOnce() -> String) {
        if let Some(progress) = &self.progress {
            progress.say(what());
        }
    }

    fn write<K: Word>(&self, piece: &JoinRows, [left_keys, right_keys]: [&[K]; 2], rows: &mut Rows) -> Result<()> {
        let shown = |values: &Numbers, row: u32| {
            if self.args.rows { Number::from(row) } else { values.number(row as usize) }
        };
        for (left, right) in piece.iter() {
            let key = match (left, right) {
                (Some(left), _) => left_keys.get(left as usize),
                (None, right) => right.and_then(|right| right_keys.get(right as usize)),
            };
            let key = key.map(|&key| self.kind.of_key(key));
            rows.write(&[key, left.map(|row| shown(&self.left, row)), right.map(|row| shown(&self.right, row))])?;
        }
        Ok(())
    }
}
