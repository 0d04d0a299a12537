//! `koel groupby`: aggregates of the values of each key.

use std::path::PathBuf;
use std::time::Instant;

use serde_json::json;

use koel::backend::{HashBackend, Runs};
use koel::device::Any;
use koel::group::wide::group_by_on;
use koel::group::{self, Groups};
use koel::{Aggregate, IdOrder};

use super::failure::{Failure, Result, Verdict};
use super::input::{self, Inputs, Pairs, ReadOptions, Want};
use super::number::{Number, Numbers, Type, Word};
use super::options::{self, AnyValuesOption, TableDevices, names};
use super::output::{Column, RowOptions, Rows, Shown};
use super::progress::Progress;
use super::query::{self, KeyedTable, Reading, groupby::Asked, limited};
use super::tables::TableReading;
use super::tables::read::several::matching;
use super::text;

const EXAMPLES: &str = "\
With --by, INPUT is a table of named columns: Parquet, Arrow IPC, CSV, TSV or
.npy, also compressed by gzip or zstd. Several files must have the same columns.
--agg takes count (of rows) and FUNCTION:COLUMN, where FUNCTION is count (of
values), sum, min, max, mean (or avg), nunique (or count_distinct), first or
last; NAME=FUNCTION:COLUMN names the column of the result. Nulls are not counted
as values. Sums of integers and decimals are exact, and an error if their type
overflows; those of floats, and all means, are exact and rounded once, for any
order of rows. A name that contains a comma, = or : is quoted, as in CSV:
--agg 'sum:\"total, price\"'.

Without --by, INPUT is CSV, TSV, .npy, FASTA or FASTQ, also compressed by gzip,
or with --key a table, as for `koel build`. Text has one column of keys, or two
of keys and values; without values, the value is the row number, from 0.

Output is a row `key,..` per key, with the aggregates in the order of --agg: the
same rows in the same order on every device. Keys and values are integers of any
type, and values may be floats: a second field of .npy records, a column named
by --value, or text with --values f64. Sums of integers are exact, and an error
if they overflow 64 bits. Sums of floats, and all means, are exact and rounded
once to a double; a NaN makes the sum, mean, min and max of its group NaN.

-o FILE.tsv separates by tabs; -o FILE.npy writes a structured array (key u4,
count u4, sum u8, min u4, max u4), where keys, min and max have the type of the
input, and sums are i8 for signed values and f8 for floats.

Examples:
  koel groupby sales.csv --by city --agg sum:price,count
  koel groupby pairs.csv --agg min,max --ids ascending -o extremes.npy
  koel groupby prices.csv --values f64 --agg sum,max
  koel groupby genome.fa --kmer 12 --agg count,min -o kmers.csv
                              number and first position of each k-mer
  koel groupby 2024-*.csv --by city --agg avg:price \\
    --null-value NA --null-value NULL
  koel groupby lineitem.parquet --by l_returnflag,l_linestatus \\
    --agg count,sum:l_quantity,avg_price=mean:l_extendedprice";

/// Group rows by key: count, sum, mean, min, max and others
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// A table (--by), or rows `key,value`; `-` is stdin
    ///
    /// Several files are read as one.
    #[arg(value_name = "INPUT", required = true)]
    inputs: Vec<PathBuf>,
    /// Aggregates, comma-separated
    ///
    /// count, sum, mean, min or max; with --by also FUNCTION:COLUMN, see below.
    #[arg(long, value_name = "NAMES", default_value = "count")]
    #[arg(value_parser = query::groupby::asked)]
    agg: Vec<names::List<Asked>>,
    /// Drop keys with fewer than N rows
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    min_count: Option<u32>,
    /// Order of keys: first, ascending
    ///
    /// In the order in which they first appear, or ascending.
    #[arg(long, value_name = "ORDER", default_value = "first", value_parser = options::id_order())]
    #[arg(hide_possible_values = true)]
    ids: IdOrder,
    #[command(flatten)]
    columns: query::groupby::Options,
    #[command(flatten)]
    rows: RowOptions,
    #[command(flatten)]
    reading: ReadOptions,
    #[command(flatten)]
    values: AnyValuesOption,
    #[command(flatten)]
    device: TableDevices,
}

pub(crate) fn run(args: &Args) -> Result<Verdict> {
    let paths = input::paths(&args.inputs);
    let asked = args.agg.concat();
    if let Some(by) = &args.columns.by() {
        let inputs = matching(&args.inputs)?;
        args.rows.check_tables(&input::paths(&inputs), &[])?;
        let reading = TableReading {
            header: args.reading.header,
            text: args.reading.text.clone(),
            spool: args.columns.memory.is_given() || args.device.are_several(),
        };
        let table = KeyedTable {
            inputs: &inputs,
            by,
            order: args.ids,
            reading: Reading::Named(&reading),
            output: &args.rows,
            device: &args.device,
        };
        return query::groupby::Job { table, aggregates: &asked, options: &args.columns }.run();
    }
    args.columns.check_unused()?;
    query::refuse_tables(&paths, &args.reading, "--by")?;
    let aggregates = plain(&asked)?;
    check(&aggregates)?;
    args.rows.check(&paths, &[])?;
    args.reading.check_value(aggregates != [Aggregate::Count])?;
    let reading = args.reading.with_any_values(args.values.values).naming("--by");
    let inputs = Inputs::open(&args.inputs)?;
    inputs.check(&reading)?;
    let k = inputs.has_sequences().then(|| reading.k());
    args.rows.check_letters(k)?;
    let mut devices = args.device.open(&paths)?;
    let progress = Progress::line();
    progress.say(format!("reading {}", inputs.shown()));
    let want = if aggregates == [Aggregate::Count] { Want::Keys } else { Want::Pairs };
    if let Some(limit) = args.columns.memory.limit(args.device.are_several()) {
        let job = limited::grouped::Grouped {
            aggregates: &aggregates,
            min_count: args.min_count,
            order: args.ids,
            output: &args.rows,
            devices: &devices,
            limit: &limit,
            memory: args.columns.memory.bytes(),
            k,
        };
        return job.run(inputs, &reading, want, progress);
    }
    let device = devices.swap_remove(0);
    let start = Instant::now();
    let Pairs { keys, values } = inputs.columns(&reading, want)?;
    let (keys_are, values_are) = (keys.kind(), values.kind());
    let read_seconds = start.elapsed().as_secs_f64();
    let shown = args.rows.shown(keys_are, k);
    let job = Job { args, aggregates: &aggregates, device: &device, keys_are, shown, values_are, read_seconds };
    match keys_are.bits() {
        u32::BITS => job.of_keys::<u32>(keys, values, progress),
        _ => job.of_keys::<u64>(keys, values, progress),
    }
}

/// The aggregates of rows `key,value`.
fn plain(asked: &[Asked]) -> Result<Vec<Aggregate>> {
    let one = |asked: &Asked| {
        let known = Aggregate::ALL.into_iter().find(|known| known.name() == asked.function.name());
        known.filter(|_| asked.column.is_none() && asked.name.is_none()).ok_or_else(|| {
            Failure::Input(
                "without --by, --agg takes count, sum, mean, min and max of the values: give --by NAME,.. for named columns"
                    .into(),
            )
        })
    };
    asked.iter().map(one).collect()
}

/// Refuses an aggregate that is named twice.
fn check(aggregates: &[Aggregate]) -> Result<()> {
    let again = aggregates.iter().enumerate().find(|&(i, aggregate)| aggregates[..i].contains(aggregate));
    again.map_or(Ok(()), |(_, aggregate)| {
        Err(Failure::Input(format!("--agg names {} twice: name each aggregate once", aggregate.name())))
    })
}

/// The key's column, and one for each aggregate of such values, of so many rows.
pub(crate) fn columns(aggregates: &[Aggregate], key: Shown, values_are: Type, rows: u64) -> Vec<Column> {
    let kind = |aggregate: Aggregate| match (aggregate, values_are) {
        (Aggregate::Count, _) => Type::of_count(rows),
        (Aggregate::Mean, _) | (Aggregate::Sum, Type::F64) => Type::F64,
        (Aggregate::Sum, whole) => Type::new(u64::BITS, whole.is_signed()),
        (_, kind) => kind,
    };
    let aggregates = aggregates.iter().map(|&aggregate| Column::of(aggregate.name(), kind(aggregate)));
    std::iter::once(Column::Of("key", key)).chain(aggregates).collect()
}

/// What is to be done about sums that do not fit.
pub(crate) const SUMS_ADVICE: &str = "group fewer rows at a time, or give --values f64, whose sums round";

/// Values that are grouped as a type of the library, and what becomes of them.
trait Grouped: group::Number<Word: Word, Sum: Shows> + Shows {}

impl<V: group::Number<Word: Word, Sum: Shows> + Shows> Grouped for V {}

/// What comes out in a cell.
trait Shows: Copy {
    fn shown(self) -> Number;
}

macro_rules! shows {
    ($($whole:ty),*) => {$(
        impl Shows for $whole {
            fn shown(self) -> Number {
                self.into()
            }
        }
    )*};
}
shows!(u32, u64, i64);

impl Shows for f64 {
    fn shown(self) -> Number {
        self.to_bits().into()
    }
}

/// Rows of one type of keys, to be grouped on a device.
struct Job<'a> {
    args: &'a Args,
    aggregates: &'a [Aggregate],
    device: &'a Any,
    keys_are: Type,
    /// How keys are written.
    shown: Shown,
    /// What comes out.
    values_are: Type,
    read_seconds: f64,
}

impl Job<'_> {
    /// Chooses the type of values. Those of 32 bits with a sign are grouped as wider ones: their sums have 64 bits.
    fn of_keys<K: Word>(&self, keys: Numbers, values: Numbers, progress: Progress) -> Result<Verdict>
    where
        Any: Runs<K::Rows>,
    {
        match self.values_are {
            Type::U32 => self.run::<K, u32>(keys, values, progress),
            Type::U64 => self.run::<K, u64>(keys, values, progress),
            Type::I32 | Type::I64 => self.run::<K, i64>(keys, values, progress),
            Type::F64 => self.run::<K, f64>(keys, values, progress),
        }
    }

    fn run<K: Word, V: Grouped>(&self, keys: Numbers, values: Numbers, progress: Progress) -> Result<Verdict>
    where
        Any: Runs<K::Rows>,
    {
        let args = self.args;
        let rows = keys.len() as u64;
        progress.say(format!("grouping {}", text::counted(rows, "row")));
        let start = Instant::now();
        let mut wanted = self.aggregates.to_vec();
        if args.min_count.is_some() && !wanted.contains(&Aggregate::Count) {
            wanted.push(Aggregate::Count);
        }
        let groups = self.group::<K, V>(keys.into_keys::<K>()?, values.into_values::<V::Word>()?, &wanted)?;
        let group_seconds = start.elapsed().as_secs_f64();
        let least = args.min_count.unwrap_or(1);
        let left = if least > 1 { groups.counts.iter().filter(|&&count| count >= least).count() } else { groups.len() };

        progress.rows(left as u64);
        // Rows on a terminal are progress enough.
        let progress = args.rows.output.is_some().then_some(progress);
        let start = Instant::now();
        self.write(&groups)?;
        drop(progress);
        let sentence = format!("{} of {}", text::counted(left as u64, "group"), text::counted(rows, "row"));
        args.rows.summarize(&sentence, || {
            let write_seconds = start.elapsed().as_secs_f64();
            json!({
                "rows": rows, "groups": left, "ids": args.ids.name(), "min_count": args.min_count, "device": self.device.info().id,
                "aggregates": self.aggregates.iter().map(|aggregate| aggregate.name()).collect::<Vec<_>>(),
                "types": { "keys": self.keys_are.name(), "values": self.values_are.name() },
                "seconds": { "read": self.read_seconds, "group": group_seconds, "write": write_seconds },
            })
        })?;
        Ok(Verdict::Fine)
    }

    /// On the CPU columns on the device are copies: those that were read are dropped before the work begins.
    fn group<K: Word, V: Grouped>(
        &self,
        keys: Vec<K>,
        values: Vec<V::Word>,
        wanted: &[Aggregate],
    ) -> Result<Groups<K, V>>
    where
        Any: Runs<K::Rows>,
    {
        let device = self.device;
        let keys_there = device.upload(&keys)?;
        drop(keys);
        let values_there = device.upload(&values)?;
        drop(values);
        let groups = group_by_on::<Any, K, V>(device, &keys_there, &values_there, wanted, self.args.ids);
        let groups = groups.map_err(|error| match error {
            // The library knows the bits of keys alone.
            koel::Error::SumTooLarge { key } => {
                let key = self.keys_are.of_key(key);
                Failure::Input(format!("the sum of the values of key {key} does not fit 64 bits: {SUMS_ADVICE}"))
            }
            other => other.into(),
        })?;
        drop((keys_there, values_there));
        Ok(groups.download(device)?)
    }

    fn write<K: Word, V: Grouped>(&self, groups: &Groups<K, V>) -> Result<()> {
        let mut rows =
            Rows::open(self.args.rows.output.as_deref(), &columns(self.aggregates, self.shown, self.values_are, 0))?;
        let mut cells = Vec::with_capacity(1 + self.aggregates.len());
        let least = self.args.min_count.unwrap_or(1);
        for (i, &key) in groups.keys.iter().enumerate() {
            if least > 1 && groups.counts[i] < least {
                continue;
            }
            cells.clear();
            cells.push(self.keys_are.of_key(key));
            for aggregate in self.aggregates {
                cells.push(match aggregate {
                    Aggregate::Count => groups.counts[i].into(),
                    Aggregate::Sum => groups.sums[i].shown(),
                    Aggregate::Mean => groups.means[i].shown(),
                    Aggregate::Min => groups.mins[i].shown(),
                    Aggregate::Max => groups.maxs[i].shown(),
                    other => return Err(Failure::Input(format!("{} is unknown here", other.name()))),
                });
            }
            rows.write(&cells)?;
        }
        rows.finish()
    }
}
