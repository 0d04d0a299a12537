//! `koel isin`: marks the rows of a table whose key occurs in another table.

use std::path::PathBuf;
use std::time::Instant;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use koel::backend::HashBackend;
use koel_arrow::external::IsIn;
use serde_json::json;

use super::columns::{places, schema_of, wanted_columns};
use super::inputs::{Resources, Stop, ranges};
use super::results::Watched;
use super::types::{check_keys, give_types, to_failure};
use super::{Memory, Nulls, On, check_distinct};
use crate::failure::{Failure, Result, Verdict};
use crate::input;
use crate::options::OneDevice;
use crate::options::names::{self, List};
use crate::output::RowOptions;
use crate::progress::Progress;
use crate::tables::TableReading;
use crate::tables::read::Source;
use crate::tables::read::several::matching;
use crate::text;

const EXAMPLES: &str = "\
Files are Parquet, Arrow IPC, CSV, TSV, NDJSON or .npy; columns may be of any
type. The result has the rows of TABLE in their order, with an additional column
that is true if the key of the row occurs in KEYS. It is false for a key with a
null, unless --nulls-equal is given.

To keep only the rows whose key occurs there, or only the others, use
`koel join --how semi` or `--how anti`.

Examples:
  koel isin orders.parquet customers.parquet --on customer=id -o known.parquet
  koel isin orders.csv blocked.csv --on customer --columns order,isin";

/// Mark the rows of a table whose key occurs in another table
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES, mut_arg("letters", |letters| letters.hide(true)))]
pub(crate) struct Args {
    /// The table; `-` is stdin
    ///
    /// A pattern in quotes, such as 'orders/*.parquet', names several files, which are read as one.
    table: PathBuf,
    /// The table of keys to look up rows in
    ///
    /// Patterns and `-` work as for TABLE.
    keys: PathBuf,
    /// Key columns of both: NAME, or LEFT=RIGHT
    ///
    /// Separated by commas, as LEFT=RIGHT if the names in TABLE and KEYS differ.
    #[arg(long, alias = "by", value_name = "NAME,..", value_parser = super::on, required = true)]
    on: Vec<List<On>>,
    /// Columns of the result [default: all]
    ///
    /// Separated by commas. The default is all columns of TABLE, and the additional one.
    #[arg(long, value_name = "NAME,..", value_parser = names::names, help_heading = "Columns")]
    columns: Option<Vec<List<String>>>,
    /// Name of the additional column
    #[arg(long, value_name = "NAME", default_value = "isin", help_heading = "Columns")]
    name: String,
    #[command(flatten)]
    nulls: Nulls,
    #[command(flatten)]
    output: RowOptions,
    #[command(flatten)]
    reading: TableReading,
    #[command(flatten)]
    device: OneDevice,
}

pub(crate) fn run(args: &Args) -> Result<Verdict> {
    let outputs = &[args.output.output.as_deref()];
    let (table, keys) = (matching(&[&args.table], outputs)?, matching(&[&args.keys], outputs)?);
    let paths = [&table[..], &keys].concat();
    args.output.check_tables(&input::paths(&paths), &[])?;
    // Start the requested number of threads before they read the first file.
    let device = args.device.open()?;
    let (mut table_source, keys_source) =
        (Source::open_all(&table, &args.reading)?, Source::open_all(&keys, &args.reading)?);
    args.reading.check(&[&table_source, &keys_source])?;
    let on = args.on.concat();
    super::check_on(&on, [&table_source, &keys_source])?;
    let name = &args.name;
    let mut shown: Vec<String> = match names::all(args.columns.as_ref()) {
        Some(columns) => columns,
        None => table_source.columns().into_iter().map(String::from).chain([name.clone()]).collect(),
    };
    if table_source.columns().contains(&name.as_str()) && shown.contains(name) {
        return Err(Failure::Input(format!(
            "{} has a column `{}` already: give the additional column another name by --name",
            table_source.name().shown(),
            text::name(name)
        )));
    }
    check_distinct("--columns", &shown)?;
    let at = shown.iter().position(|shown| shown == name).ok_or_else(|| {
        let name = text::name(name);
        Failure::Input(format!("--columns does not list `{name}`, which marks the rows whose key occurs: add it"))
    })?;
    shown.remove(at);
    if args.output.place().is_text() {
        table_source.keep_text(&On::sides(&on)[0]);
    }
    let start = Instant::now();
    let sources = [&table_source, &keys_source];
    let resources =
        Resources { memory: &Memory::default(), devices: std::slice::from_ref(&device), are_several: false };
    let [by, key] = On::sides(&on);
    let needed = wanted_columns(&shown, &by);
    let limit = &resources.limit(&[(sources[0], &needed)])?;
    let mut rows = resources.open(sources[0], needed)?.rows()?;
    let mut keys = resources.open(sources[1], key.clone())?.rows()?;
    let read_seconds = start.elapsed().as_secs_f64();

    let start = Instant::now();
    let places = places(rows.schema(), &by)?.into_iter().zip(places(keys.schema(), &key)?);
    let places: Vec<(usize, usize)> = places.collect();
    give_types([&mut rows, &mut keys], &places);
    check_keys(rows.schema(), keys.schema(), &places).map_err(|error| to_failure(error, sources))?;
    let of_rows = ranges(sources[0], rows.schema(), &by[0])?;
    let of_keys = ranges(sources[1], keys.schema(), &key[0])?;
    let is_in = IsIn { device: &device, on: &places, nulls: args.nulls.equality(), name, limit };
    let marked = is_in.schema(rows.schema());
    let mark = marked.fields().len() - 1;
    let mut order: Vec<usize> = (0..shown.len()).collect();
    order.insert(at, mark);
    let field = |&at: &usize| marked.field(at).clone().with_nullable(at != mark);
    let schema = schema_of(order.iter().map(field).collect());
    let watched = Watched::new(Progress::line(), &args.output, "looking up");
    let mut results = watched.results(&schema, limit)?;
    let mut there = 0;
    let (rows, keys) = (rows.into_ranges(limit, of_rows), keys.into_ranges(limit, of_keys));
    let found = is_in.run(rows, keys, |rows: RecordBatch| {
        there += rows.column(mark).as_boolean().true_count() as u64;
        Ok::<_, Stop>(results.write(&rows.project(&order).map_err(koel_arrow::Error::from)?)?)
    });
    let [rows, keys] = found.map_err(|stop| stop.into_failure(|error| to_failure(error, sources)))?;
    results.finish()?;
    let sentence = {
        let verb = if there == 1 { "has" } else { "have" };
        format!("{} of {} {verb} a key that occurs in KEYS", text::grouped(there), text::counted(rows, "row"))
    };
    args.output.summarize(&sentence, || {
        json!({
            "rows": rows, "there": there, "keys_rows": keys, "device": device.info().id,
            "seconds": { "read": read_seconds, "isin": start.elapsed().as_secs_f64() },
        })
    })?;
    Ok(Verdict::Fine)
}
