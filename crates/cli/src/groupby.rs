//! `koel groupby`: aggregates of the values of each key.

use std::path::PathBuf;

use koel_arrow::Function;

use super::failure::{Failure, Result, Verdict};
use super::input::{self, ReadOptions};
use super::options::{AnyValuesOption, TableDevices, names};
use super::output::RowOptions;
use super::query::{self, AggregateSpec, KeyOptions, KeyedTable, Reading};
use super::tables::read::rows::{KEY, Payload, VALUE};
use super::tables::read::several::matching;

const EXAMPLES: &str = "\
With --by, INPUT is a table of named columns: Parquet, Arrow IPC, CSV, TSV,
NDJSON or .npy, also compressed by gzip or zstd. Several files must have the
same columns.
--agg takes count (of rows) and FUNCTION:COLUMN, where FUNCTION is count (of
values), sum, min, max, mean (or avg), nunique (or count_distinct), first or
last; NAME=FUNCTION:COLUMN names the column of the result. Nulls are not counted
as values. Sums of integers and decimals are exact, and an error if their type
overflows; those of floats, and all means, are exact and rounded once, for any
order of rows. A name that contains a comma, = or : is quoted, as in CSV:
--agg 'sum:\"total, price\"'.

Without --by, INPUT is CSV, TSV, .npy, FASTA or FASTQ, also compressed by gzip
or zstd, or with --key a table, as for `koel build`. Text has one column of
keys, or two of keys and values; without values, the value is the row number,
from 0.

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

const AGGREGATES: &str = "\
Aggregates, separated by commas: count of rows (the default), or FUNCTION:COLUMN

FUNCTION is count (of values), sum, min, max, mean, nunique (distinct values), first or last, as in count,sum:price. \
NAME=FUNCTION:COLUMN names the result. Without --by: count, sum, mean, min or max, of the values.";

/// Group rows by key: count, sum, mean, min, max and others
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// A table (--by), or rows `key,value`; `-` is stdin
    ///
    /// Several files are read as one.
    #[arg(value_name = "INPUT", required = true)]
    inputs: Vec<PathBuf>,
    #[arg(long, value_name = "LIST", default_value = "count", hide_default_value = true, value_parser = query::requested)]
    #[arg(
        help = "count (default) or FUNCTION:COLUMN,.., e.g. sum:price\nwith count, sum, min, max, mean, nunique, first, last"
    )]
    #[arg(long_help = AGGREGATES)]
    agg: Vec<names::List<AggregateSpec>>,
    #[command(flatten)]
    keys: KeyOptions,
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
    let inputs = matching(&args.inputs, &[args.rows.output.as_deref()])?;
    let paths = input::paths(&inputs);
    let is_spooled = args.columns.memory.is_given() || args.device.are_several();
    let named = args.reading.of_tables(is_spooled);
    let unnamed = args.reading.with_any_values(args.values.values).naming("--by");
    let requested = args.agg.concat();
    let (by, aggregates, reading) = match args.columns.by() {
        Some(by) => {
            args.reading.check_value(false)?;
            args.rows.check_tables(&paths, &[])?;
            (by, requested, Reading::Named(&named))
        }
        None => {
            args.columns.check_unused()?;
            query::refuse_tables(&paths, &args.reading, "--by")?;
            let aggregates = of_values(&requested)?;
            args.rows.check_files(&paths, &[])?;
            let has_values = aggregates.iter().any(|requested| requested.column.is_some());
            args.reading.check_value(has_values)?;
            let payload = if has_values { Payload::Values } else { Payload::Nothing };
            (vec![KEY.to_owned()], aggregates, Reading::Rows { options: &unnamed, payload, is_spooled })
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
    let min_count = args.keys.min_count.unwrap_or(1);
    query::groupby::Job { table, aggregates: &aggregates, min_count, options: &args.columns }.run()
}

/// Aggregates of rows without names: those of the column of values, under their own names.
fn of_values(requested: &[AggregateSpec]) -> Result<Vec<AggregateSpec>> {
    let mut all: Vec<AggregateSpec> = Vec::with_capacity(requested.len());
    for AggregateSpec { function, column, name } in requested {
        let column_of = match function {
            Function::Count => None,
            Function::Sum | Function::Mean | Function::Min | Function::Max => Some(VALUE.to_owned()),
            _ => return Err(not_of_values()),
        };
        if column.is_some() || name.is_some() {
            return Err(not_of_values());
        }
        let name = function.name();
        if all.iter().any(|before| before.function == *function) {
            return Err(Failure::Input(format!("--agg names {name} twice: name each aggregate once")));
        }
        all.push(AggregateSpec { function: *function, column: column_of, name: Some(name.into()) });
    }
    Ok(all)
}

fn not_of_values() -> Failure {
    Failure::Input(
        "without --by, --agg takes count, sum, mean, min and max of the values: give --by NAME,.. for named columns"
            .into(),
    )
}
