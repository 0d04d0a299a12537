//! `koel groupby`: aggregates of the values of each key.

use std::path::PathBuf;
use std::time::Instant;

use serde_json::json;

use koel::backend::{HashBackend, Runs};
use koel::device::Any;
use koel::group::Groups;
use koel::group::wide::group_by;
use koel::{Aggregate, IdOrder};

use super::failure::{Failure, Result, Verdict};
use super::input::{self, Pairs, ReadOptions, Want};
use super::number::{Number, Numbers, Type, Word};
use super::options::{self, OneDevice, ValuesOption};
use super::output::{Column, RowOptions, Rows};
use super::progress::Progress;
use super::text;

const EXAMPLES: &str = "\
INPUT is CSV, TSV, .npy or FASTA, as for `koel build`; keys alone take the number of their row, from 0, as value.
Output is a row `key,..` a key, with the aggregates in the order in which they are asked for. Sums have 64 bits and are
exact. The same rows come out in the same order on every device.
Keys are of any type, and values are numbers of 32 bits, with a sign or without.
-o FILE.tsv separates by tabs; -o FILE.npy writes a structured array (key u4, count u4, sum u8, min u4, max u4), where keys,
min and max have the input's type, and sums of values with a sign are i8.

Examples:
  koel groupby sales.csv --agg sum,count
  koel groupby sales.csv --agg min,max --ids ascending -o extremes.npy
  koel groupby genome.fa --kmer 12 --agg count,min -o kmers.csv     how often, and where first";

/// Group rows by key: count, sum, least and greatest value of each
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Rows `key,value`; `-` is stdin
    input: PathBuf,
    /// What is wanted of each key's values, separated by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "count")]
    #[arg(value_parser = options::aggregate())]
    agg: Vec<Aggregate>,
    /// Keys as they first appear, or ascending
    #[arg(long, value_name = "ORDER", default_value = "first", value_parser = options::id_order())]
    ids: IdOrder,
    #[command(flatten)]
    rows: RowOptions,
    #[command(flatten)]
    reading: ReadOptions,
    #[command(flatten)]
    values: ValuesOption,
    #[command(flatten)]
    device: OneDevice,
}

pub(crate) fn run(args: &Args) -> Result<Verdict> {
    check(&args.agg)?;
    args.rows.check(&[&args.input], &[])?;
    let device = args.device.open(&[&args.input])?;
    let progress = Progress::line();
    progress.say(format!("reading {}", args.input.display()));
    let start = Instant::now();
    let want = if args.agg == [Aggregate::Count] { Want::Keys } else { Want::Pairs };
    let Pairs { keys, values } = input::read(&args.input, &args.reading.with_values(args.values.values), want)?;
    let (keys_are, values_are) = (keys.kind(), values.kind());
    let values = of_32_bits(values)?;
    let read_seconds = start.elapsed().as_secs_f64();
    let job = Job { args, device: &device, keys_are, values_are, read_seconds };
    match keys_are.bits() {
        u32::BITS => job.run::<u32>(keys, values, progress),
        _ => job.run::<u64>(keys, values, progress),
    }
}

/// Refuses an aggregate that is named twice.
fn check(aggregates: &[Aggregate]) -> Result<()> {
    let again = aggregates.iter().enumerate().find(|&(i, aggregate)| aggregates[..i].contains(aggregate));
    again.map_or(Ok(()), |(_, aggregate)| {
        Err(Failure::Input(format!("--agg names {} twice: name each aggregate once", aggregate.name())))
    })
}

/// Values that fit 32 bits, whatever they were read as.
fn of_32_bits(values: Numbers) -> Result<Numbers> {
    let Some(kind) = values.narrow_kind() else {
        let (name, advice) = (values.kind().name(), "groups have values of 32 bits so far, with a sign or without");
        return Err(Failure::Input(format!("the values are {name}, and {advice}")));
    };
    values.into_kind(kind)
}

/// Rows of one type of keys, to be grouped on a device.
struct Job<'a> {
    args: &'a Args,
    device: &'a Any,
    keys_are: Type,
    /// What comes out.
    values_are: Type,
    read_seconds: f64,
}

impl Job<'_> {
    fn run<K: Word>(&self, keys: Numbers, values: Numbers, progress: Progress) -> Result<Verdict>
    where
        Any: Runs<K::Rows>,
    {
        let args = self.args;
        let rows = keys.len() as u64;
        progress.say(format!("grouping {}", text::counted(rows, "row")));
        let start = Instant::now();
        // Values with a sign are grouped as keys would be stored, so that the least is the least; a sum is then too great
        // by 2^31 a row.
        let values_in = values.kind();
        let mut wanted = args.agg.clone();
        if values_in.is_signed() && wanted.contains(&Aggregate::Sum) && !wanted.contains(&Aggregate::Count) {
            wanted.push(Aggregate::Count);
        }
        let (keys, values) = (keys.into_keys::<K>()?, values.into_keys::<u32>()?);
        let groups = group_by(self.device, &keys, &values, &wanted, args.ids)?;
        let group_seconds = start.elapsed().as_secs_f64();
        drop((keys, values));

        progress.rows(groups.len() as u64);
        // Rows on a terminal are progress enough.
        let progress = args.rows.output.is_some().then_some(progress);
        let start = Instant::now();
        self.write(&groups, values_in)?;
        drop(progress);
        let sentence = format!("{} of {}", text::counted(groups.len() as u64, "group"), text::counted(rows, "row"));
        args.rows.summarize(&sentence, || {
            let write_seconds = start.elapsed().as_secs_f64();
            json!({
                "rows": rows, "groups": groups.len(), "ids": args.ids.name(), "device": self.device.info().id,
                "aggregates": args.agg.iter().map(|aggregate| aggregate.name()).collect::<Vec<_>>(),
                "seconds": { "read": self.read_seconds, "group": group_seconds, "write": write_seconds },
            })
        })?;
        Ok(Verdict::Fine)
    }

    /// The key's column, and one for each aggregate.
    fn columns(&self) -> Vec<Column> {
        let kind = |aggregate: Aggregate| match aggregate {
            Aggregate::Count => Type::U32,
            Aggregate::Sum => Type::new(u64::BITS, self.values_are.is_signed()),
            _ => self.values_are,
        };
        let aggregates = self.args.agg.iter().map(|&aggregate| Column::Of(aggregate.name(), kind(aggregate)));
        std::iter::once(Column::Of("key", self.keys_are)).chain(aggregates).collect()
    }

    fn write<K: Word>(&self, groups: &Groups<K>, values_in: Type) -> Result<()> {
        let mut rows = Rows::open(self.args.rows.output.as_deref(), &self.columns())?;
        let mut cells = Vec::with_capacity(1 + self.args.agg.len());
        for (i, &key) in groups.keys.iter().enumerate() {
            cells.clear();
            cells.push(self.keys_are.of_key(key));
            for aggregate in &self.args.agg {
                cells.push(match aggregate {
                    Aggregate::Count => groups.counts[i].into(),
                    Aggregate::Sum if values_in.is_signed() => {
                        let above = Number::from(groups.counts[i]) << (u32::BITS - 1);
                        Number::from(groups.sums[i]) - above
                    }
                    Aggregate::Sum => groups.sums[i].into(),
                    Aggregate::Min => values_in.of_key(groups.mins[i]),
                    Aggregate::Max => values_in.of_key(groups.maxs[i]),
                    other => return Err(Failure::Input(format!("{} is unknown here", other.name()))),
                });
            }
            rows.write(&cells)?;
        }
        rows.finish()
    }
}
