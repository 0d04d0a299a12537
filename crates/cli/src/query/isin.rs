//! `koel isin`: marks the rows of a table whose key occurs in another table.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use arrow_array::UInt32Array;
use arrow_schema::{DataType, Field};
use koel::backend::HashBackend;
use koel_arrow::is_in;
use serde_json::json;

use super::columns::{Pieces, batch, schema_of};
use super::types::both_keys;
use super::{Loaded, Nulls, On, Shape, check_distinct, pieces, wanted_columns};
use crate::failure::{Failure, Result, Verdict};
use crate::input;
use crate::options::OneDevice;
use crate::options::names::{self, List};
use crate::output::RowOptions;
use crate::progress::Progress;
use crate::tables::TableReading;
use crate::tables::read::Source;
use crate::tables::read::several::matching;
use crate::tables::write::{Sink, is_text};
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
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// The table; `-` is stdin
    ///
    /// A pattern in quotes, such as 'orders/*.parquet', names several files, which are read as one.
    table: PathBuf,
    /// The table of keys to search; the same
    keys: PathBuf,
    /// Key columns of both: NAME, or LEFT=RIGHT
    ///
    /// Separated by commas, as LEFT=RIGHT if the names in TABLE and KEYS differ.
    #[arg(long, value_name = "NAME,..", value_parser = super::on, required = true)]
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
    if args.table == args.keys && args.table.as_os_str() == "-" {
        return Err(Failure::Input("only one of the two files can be stdin: name the other".into()));
    }
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
    let left: Vec<String> = on.iter().map(|on| on.left.clone()).collect();
    let right: Vec<String> = on.iter().map(|on| on.right.clone()).collect();
    if is_text(args.output.output.as_deref()) {
        table_source.keep_text(&left);
    }
    let progress = Progress::line();
    let start = Instant::now();
    let mut table = Loaded::read(&table_source, &wanted_columns(&shown, &left), Pieces::Many)?;
    let mut keys = Loaded::read(&keys_source, &right, Pieces::Many)?;
    let read_seconds = start.elapsed().as_secs_f64();

    progress.say(format!("looking up {}", text::counted(table.rows() as u64, "row")));
    let start = Instant::now();
    let (left_keys, right_keys) = both_keys([&table_source, &keys_source], &mut table, &mut keys, &on)?;
    let found = is_in(&device, &left_keys, &right_keys, args.nulls.equality())?;
    let picked = table.pick(shown.iter().map(|name| (name.as_str(), name.clone())))?;
    let mut fields = picked.fields().to_vec();
    fields.insert(at, Field::new(name, DataType::Boolean, false));
    let schema = schema_of(fields);
    let mut sink = Sink::create(args.output.output.as_deref(), &schema)?;
    let progress = pieces::progress_of(progress, &args.output, table.rows() as u64);
    pieces::write(&mut sink, table.rows(), &Shape::default(), |range| {
        // Row numbers of keys are 32 bits wide.
        let mut columns = picked.take(&UInt32Array::from_iter_values(range.start as u32..range.end as u32))?;
        columns.insert(at, Arc::new(found.slice(range.start, range.len())));
        batch(&schema, columns, range.len())
    })?;
    sink.finish()?;
    drop(progress);
    let there = found.true_count() as u64;
    let all = text::counted(table.rows() as u64, "row");
    args.output.summarize(&format!("{there} of {all} have their key there"), || {
        json!({
            "rows": table.rows(), "there": there, "keys_rows": keys.rows(), "device": device.info().id,
            "seconds": { "read": read_seconds, "isin": start.elapsed().as_secs_f64() },
        })
    })?;
    Ok(Verdict::Fine)
}
