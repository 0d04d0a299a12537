//! `koel verify`: checks that every device of this machine builds the right tables and returns the right answers.
//!
//! ```text
//! map/       plain tables, for every scheme, kind and data set:
//!   reference    (canonical) the scheme's arithmetic, one key and one attempt at a time, on one host thread
//!   each device  uploads the data and builds; audits; compares the answers to every key and to as many misses;
//!                downloads the image: its plan and bytes equal the reference's, its digest that of every other device
//!   each pair    a table moves from the device that built it to every other device and is looked up there
//! tables/    sets, compacting and multivalue tables, joins and aggregates, for every suitable scheme and kind:
//!   each device  builds from rows with duplicate keys; every answer is compared with ordered maps on the host,
//!                and the digest equals that of every other device
//! device.rs  the verified devices, with faults if tests of `verify` inject them
//! row.rs     the findings;   report.rs    prints them
//! ```

mod device;
mod map;
mod report;
mod row;
mod tables;

use std::path::PathBuf;

use clap::ValueEnum;
use koel::Kind;
use koel::device::{devices, opencl_status};

use super::failure::{Failure, Result, Verdict};
use super::files;
use super::options::{self, SchemeList, SchemeOptions, SizeOptions, Threads};
use super::progress::Progress;
use device::Device;
use row::Row;

/// Large enough that the tables exceed the caches of most machines and threads race; small enough that the
/// one-thread reference and a software OpenCL device on two cores finish in seconds.
const DEFAULT_PAIRS: u32 = 1 << 20;
/// The default number of rows of the other structures, which are checked more thoroughly. There are groups of more than
/// a thousand rows.
const DEFAULT_ROWS: u32 = 1 << 16;

const EXAMPLES: &str = "\
Canonical tables must have the same bytes on every device, equal to those of a
sequential reference; lookups in tables of both kinds must return correct
results on the device that built the table and on every other device it is moved
to. The data are random keys (with 0 and 4294967295), and the 16-mers of the
lambda phage genome. The exit code is 1 if anything differs.

With --table, the other structures: sets, compacting and multivalue tables,
joins, and aggregates of groups. Their data are rows with duplicate keys (groups
of 1 to 1,025 and random ones), half of all rows with one key, and distinct
keys. All results are compared with ordered maps of the host; those of joins and
groups row by row, in order. Tables that cannot hold the data are skipped, with
the reason.

Examples:
  koel verify
  koel verify --table all
  koel verify --table multi,join --scheme cuckoo --n 1M
  koel verify --n 16M --device opencl:0
  koel verify --kind canonical --functions 3 --load 0.9
  koel verify --json > verify.json
  koel verify --table all --report koel-report.json
                    a file to send if a device is new or wrong";

/// Check that every device builds and queries tables correctly
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// Print JSON in place of the table
    ///
    /// Includes which work was done by kernels and which by the host, for each device.
    #[arg(long)]
    json: bool,
    /// Also write a detailed report as JSON
    ///
    /// A file to attach to a bug report: devices, drivers, extensions, digests, rates and failures.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Structures, comma-separated, or `all`
    ///
    /// map (keys and values), set (keys only), compact (keys and dense ids, in both directions), multi (keys with any
    /// number of values), join (two key columns joined), group (aggregates of groups), or all.
    #[arg(long, value_name = "TABLES", value_delimiter = ',', default_value = "map", help_heading = "Table")]
    #[arg(hide_possible_values = true)]
    table: Vec<Which>,
    #[command(flatten)]
    schemes: SchemeList,
    #[command(flatten)]
    parameters: SchemeOptions,
    #[command(flatten)]
    size: SizeOptions,
    /// Keys of maps, rows of others [default: 2^20; 2^16]
    ///
    /// The number of random keys of a map (and the most 16-mers), or of rows of the other structures.
    #[arg(long, value_parser = options::pair_count, help_heading = "Data")]
    n: Option<u32>,
    /// Seed of the tables and of the random keys
    #[arg(long, default_value_t = 1, help_heading = "Data")]
    seed: u64,
    /// Devices, comma-separated
    ///
    /// all, auto, cpu, opencl, gpus, opencl:N or opencl:NAME.
    #[arg(long, value_name = "DEVICES", default_value = "all", value_delimiter = ',', help_heading = "Device")]
    device: Vec<String>,
    #[command(flatten)]
    threads: Threads,
}

/// `--table`.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Which {
    /// Keys and values
    Map,
    /// Keys alone
    Set,
    /// Keys and dense ids, both ways
    Compact,
    /// Keys with any number of values
    Multi,
    /// Two key columns joined
    Join,
    /// Aggregates of groups
    Group,
    /// Each of them
    All,
}

/// The parameters of all checks.
struct Run<'a> {
    wanted: &'a [Wanted],
    devices: &'a [Device],
    size: &'a SizeOptions,
    seed: u64,
    progress: &'a Progress,
    lines: &'a report::Lines,
}

/// A scheme to verify.
struct Wanted {
    name: &'static str,
    kind: Kind,
    options: SchemeOptions,
}

/// All findings.
struct Findings {
    /// The number of random pairs of maps, if the user set it.
    pairs: Option<u32>,
    /// The number of rows of the other structures, if the user set it.
    rows_of_tables: Option<u32>,
    seed: u64,
    rows: Vec<Row>,
    /// Tables that cannot hold the data, and why.
    left_out: Vec<String>,
    devices: Vec<Device>,
    /// Devices that exist but cannot be used.
    refused: Vec<String>,
    opencl: String,
}

pub(crate) fn run(args: &Args) -> Result<Verdict> {
    args.threads.apply()?;
    args.size.check()?;
    if let Some(path) = args.report.as_deref() {
        // Checked before the work begins.
        files::check(&[], &[("stdout", None), ("--report", Some(path))])?;
        if path.is_dir() {
            return Err(Failure::Input(format!("--report {}: this is a folder: name a file", path.display())));
        }
    }
    let mut wanted = Vec::new();
    for (name, kind) in args.schemes.combinations()? {
        let options = args.schemes.options_for(name, kind, &args.parameters)?;
        wanted.push(Wanted { name, kind, options });
    }
    let devices = device::chosen(&args.device)?;
    let requested = |which| args.table.iter().any(|&table| table == which || table == Which::All);
    let tables: Vec<_> = tables::Table::ALL.into_iter().filter(|&(_, which)| requested(which)).collect();
    let progress = Progress::steps(0);
    progress.say("compiling kernels");
    let Args { ref size, seed, .. } = *args;
    let lines = report::Lines::new(&devices, args.json);
    let run = Run { wanted: &wanted, devices: &devices, size, seed, progress: &progress, lines: &lines };
    let maps = if requested(Which::Map) { map::steps(&run) } else { 0 };
    let others = tables.iter().map(|&(table, _)| tables::steps(table, &run)).sum::<usize>();
    progress.expect(maps + others);
    let (mut rows, mut left_out) = (Vec::new(), Vec::new());
    if requested(Which::Map) {
        rows.extend(map::verify(&run, args.n.unwrap_or(DEFAULT_PAIRS))?);
    }
    for &(table, _) in &tables {
        rows.extend(tables::verify(&run, table, args.n.unwrap_or(DEFAULT_ROWS), &mut left_out)?);
    }
    drop(progress);
    if rows.is_empty() && !left_out.is_empty() {
        return Err(Failure::Input(format!("nothing can be verified: {}", left_out.join("; "))));
    }

    let refused = refused_devices();
    let pairs = requested(Which::Map).then(|| args.n.unwrap_or(DEFAULT_PAIRS));
    let rows_of_tables = (!tables.is_empty()).then(|| args.n.unwrap_or(DEFAULT_ROWS));
    let findings = Findings { pairs, rows_of_tables, seed, rows, left_out, devices, refused, opencl: opencl_status() };
    let verdict = if findings.rows.iter().all(Row::is_ok) { Verdict::Fine } else { Verdict::CheckFailed };
    let printed = lines.finish(&findings);
    // The report is written even if printing failed.
    let written = args.report.as_deref().map_or(Ok(()), |path| report::write(&findings, path));
    // A closed stdout does not turn a failed check into a success.
    match (printed.and(written), verdict) {
        (Err(failure), Verdict::Fine) => Err(failure),
        (_, verdict) => Ok(verdict),
    }
}

fn refused_devices() -> Vec<String> {
    let reason = |device: koel::backend::Listed| device.refused.map(|reason| format!("{}: {reason}", device.info));
    devices().into_iter().filter_map(reason).collect()
}
