//! `koel isin`: marks the rows of a table whose key occurs in another table.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use arrow_array::UInt32Array;
use arrow_schema::{DataType, Field};
use koel::backend::HashBackend;
use koel::device::Any;
use koel_arrow::{NullEquality, is_in};
use serde_json::json;

use super::columns::{Pieces, batch, schema_of};
use super::types::both_keys;
use super::{Loaded, Nulls, On, Shape, check_distinct, limited, pieces, wanted_columns};
use crate::failure::{Failure, Result, Verdict};
use crate::input;
use crate::options::OneDevice;
use crate::options::names::{self, List};
use crate::output::RowOptions;
use crate::progress::Progress;
use crate::tables::TableReading;
use crate::tables::read::Source;
use crate::tables::read::several::matching;
use crate::tables::write::Sink;
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
    let job = Job {
        sources: [&table_source, &keys_source],
        on: &on,
        shown: &shown,
        at,
        name,
        nulls: args.nulls.equality(),
        device: &device,
        output: &args.output,
    };
    let found = match limited::isin::run(&job, Progress::line())? {
        Ok(found) => found,
        Err(progress) => job.in_memory(progress)?,
    };
    let Found { rows, there, keys, read, isin } = found;
    let sentence = {
        let verb = if there == 1 { "has" } else { "have" };
        format!("{} of {} {verb} a key that occurs in KEYS", text::grouped(there), text::counted(rows, "row"))
    };
    args.output.summarize(&sentence, || {
        json!({
            "rows": rows, "there": there, "keys_rows": keys, "device": device.info().id,
            "seconds": { "read": read, "isin": isin },
        })
    })?;
    Ok(Verdict::Fine)
}

/// A run of `koel isin`.
pub(super) struct Job<'a> {
    /// The table, and the table of keys.
    pub(super) sources: [&'a Source; 2],
    pub(super) on: &'a [On],
    /// The columns of the result without the additional one, which is inserted at `at`.
    pub(super) shown: &'a [String],
    pub(super) at: usize,
    pub(super) name: &'a str,
    pub(super) nulls: NullEquality,
    pub(super) device: &'a Any,
    pub(super) output: &'a RowOptions,
}

/// The numbers of rows, of rows whose key occurs, and of keys; and the seconds for reading both tables, if that was
/// done first, and for the rest.
pub(super) struct Found {
    pub(super) rows: u64,
    pub(super) there: u64,
    pub(super) keys: u64,
    pub(super) read: Option<f64>,
    pub(super) isin: f64,
}

impl Job<'_> {
    /// The columns of the table that are read.
    pub(super) fn needed(&self) -> Vec<String> {
        wanted_columns(self.shown, &On::sides(self.on)[0])
    }

    fn in_memory(&self, progress: Progress) -> Result<Found> {
        let start = Instant::now();
        let mut table = Loaded::read(self.sources[0], &self.needed(), Pieces::Many)?;
        let mut keys = Loaded::read(self.sources[1], &On::sides(self.on)[1], Pieces::Many)?;
        let read = start.elapsed().as_secs_f64();

        progress.say(format!("looking up {}", text::counted(table.rows() as u64, "row")));
        let start = Instant::now();
        let (left_keys, right_keys) = both_keys(self.sources, &mut table, &mut keys, self.on)?;
        let marks = is_in(self.device, &left_keys, &right_keys, self.nulls)?;
        let picked = table.pick(self.shown.iter().map(|name| (name.as_str(), name.clone())))?;
        let mut fields = picked.fields().to_vec();
        fields.insert(self.at, Field::new(self.name, DataType::Boolean, false));
        let schema = schema_of(fields);
        let mut sink = Sink::create(self.output.place(), &schema)?;
        let progress = pieces::progress_of(progress, self.output, table.rows() as u64);
        pieces::write(&mut sink, table.rows(), &Shape::default(), |range| {
            // Row numbers of keys are 32 bits wide.
            let mut columns = picked.take(&UInt32Array::from_iter_values(range.start as u32..range.end as u32))?;
            columns.insert(self.at, Arc::new(marks.slice(range.start, range.len())));
            batch(&schema, columns, range.len())
        })?;
        sink.finish()?;
        drop(progress);
        let (rows, there) = (table.rows() as u64, marks.true_count() as u64);
        Ok(Found { rows, there, keys: keys.rows() as u64, read: Some(read), isin: start.elapsed().as_secs_f64() })
    }
}
