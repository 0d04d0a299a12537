//! `koel groupby`: aggregates of the values of each key.

use std::path::PathBuf;
use std::time::Instant;

use serde_json::json;

use koel::backend::HashBackend;
use koel::group::{Groups, group_by};
use koel::{Aggregate, IdOrder};

use super::failure::{Failure, Result, Verdict};
use super::input::{self, Pairs, ReadOptions, Want};
use super::options::{self, OneDevice};
use super::output::{Column, RowOptions, Rows};
use super::progress::Progress;
use super::text;

const EXAMPLES: &str = "\
INPUT is CSV, TSV, .npy or FASTA, as for `koel build`; keys alone take the number of their row, from 0, as value.
Output is a row `key,..` a key, with the aggregates in the order in which they are asked for. Sums have 64 bits and are
exact. The same rows come out in the same order on every device.
-o FILE.tsv separates by tabs; -o FILE.npy writes a structured array (key u4, count u4, sum u8, min u4, max u4).

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
    device: OneDevice,
}

pub(crate) fn run(args: &Args) -> Result<Verdict> {
    let columns = columns(&args.agg)?;
    args.rows.check(&[&args.input], &[])?;
    let device = args.device.open(&[&args.input])?;
    let progress = Progress::line();
    progress.say(format!("reading {}", args.input.display()));
    let start = Instant::now();
    let mut pairs = Pairs::default();
    if args.agg == [Aggregate::Count] {
        input::read(&args.input, &args.reading, Want::Keys, &mut pairs.keys)?;
    } else {
        input::read(&args.input, &args.reading, Want::Pairs, &mut pairs)?;
    }
    let read_seconds = start.elapsed().as_secs_f64();

    let rows = pairs.keys.len() as u64;
    progress.say(format!("grouping {}", text::counted(rows, "row")));
    let start = Instant::now();
    let groups = group_by(&device, &pairs.keys, &pairs.values, &args.agg, args.ids)?;
    let group_seconds = start.elapsed().as_secs_f64();
    drop(pairs);

    progress.rows(groups.len() as u64);
    // Rows on a terminal are progress enough.
    let progress = args.rows.output.is_some().then_some(progress);
    let start = Instant::now();
    write(args, &columns, &groups)?;
    drop(progress);
    let sentence = format!("{} of {}", text::counted(groups.len() as u64, "group"), text::counted(rows, "row"));
    args.rows.summarize(&sentence, || {
        json!({
            "rows": rows, "groups": groups.len(), "ids": args.ids.name(), "device": device.info().id,
            "aggregates": args.agg.iter().map(|aggregate| aggregate.name()).collect::<Vec<_>>(),
            "seconds": { "read": read_seconds, "group": group_seconds, "write": start.elapsed().as_secs_f64() },
        })
    })?;
    Ok(Verdict::Fine)
}

/// The key's column, and one for each aggregate.
fn columns(aggregates: &[Aggregate]) -> Result<Vec<Column>> {
    let mut columns = vec![Column::Word("key")];
    for (i, &aggregate) in aggregates.iter().enumerate() {
        let name = aggregate.name();
        if aggregates[..i].contains(&aggregate) {
            return Err(Failure::Input(format!("--agg names {name} twice: name each aggregate once")));
        }
        columns.push(if aggregate == Aggregate::Sum { Column::Long(name) } else { Column::Word(name) });
    }
    Ok(columns)
}

fn write(args: &Args, columns: &[Column], groups: &Groups) -> Result<()> {
    let mut rows = Rows::open(args.rows.output.as_deref(), columns)?;
    let mut cells = Vec::with_capacity(columns.len());
    for (i, &key) in groups.keys.iter().enumerate() {
        cells.clear();
        cells.push(key.into());
        for aggregate in &args.agg {
            cells.push(match aggregate {
                Aggregate::Count => groups.counts[i].into(),
                Aggregate::Sum => groups.sums[i],
                Aggregate::Min => groups.mins[i].into(),
                Aggregate::Max => groups.maxs[i].into(),
                other => return Err(Failure::Input(format!("{} is unknown here", other.name()))),
            });
        }
        rows.write(&cells)?;
    }
    rows.finish()
}
