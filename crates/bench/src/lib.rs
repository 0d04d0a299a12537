//! The command `koel-bench`: measures builds and lookups on a device, and compares them with other tables on the host
//! and with memory limits.
//!
//! ```text
//! device      input and output stay on the device; its own clock (kernels alone on OpenCL, wall time on the CPU)
//! end-to-end  from host slices to host slices, wall time
//! pinned      the same from and to host memory that an OpenCL device reads and writes directly
//! host        other tables, on this machine's threads, wall time
//! limit       random reads of the image (for lookups) and random atomic updates of a buffer as large (for builds), in
//!             the same run on the same device; for rows that begin or end on the host, copies each way from and to
//!             pinned memory, where those allow less
//! ```
//!
//! `--all` measures everything with a goal, and reports which goals were reached (`all/`).
//!
//! Structures on top of tables (`--table`), and maps of rows with duplicate keys, are in `tables/`; the figures of the
//! papers (`--paper`) in `paper/`. `plots.py` draws their JSON. Builds on the host are measured in wall time, wherever
//! the table is stored. Pairs and queries are random, or the cells of a picture in one of several
//! layouts (`data/`). Outputs are poisoned before every run, and every answer is compared with the right one after it.
//! Times are medians.

mod all;
mod bus;
mod data;
mod device;
mod figure;
mod limits;
mod measure;
mod paper;
mod peers;
mod report;
mod several;
mod stages;
mod tables;
mod timer;
mod wide;

use std::process::ExitCode;

use clap::Parser;
use koel::backend::HashBackend;
use koel::device::Any;
use koel::scheme::Limits;
use koel::{Duplicates, Error, Kind, Load};
use serde_json::Value;

use data::DataOptions;
use device::OnDevice;
use koel_cli::failure::{Failure, Result, Verdict};
use koel_cli::options::{self, SchemeOptions, Threads};
use koel_cli::out;
use koel_cli::progress::Progress;
use koel_cli::scheme;
use koel_cli::text;
use measure::Setup;
use report::Findings;

const EXAMPLES: &str = "\
Rows `device` keep input and output on the device; `end-to-end` go from host memory to host memory, `pinned` from and to
memory of the host that the device's bus reaches by itself; `host` are other tables on this machine. `remove a tenth`
counts the keys removed, `compact` the pairs of the table. `of limit` is the share of the random accesses that the
device's memory allows, or of what the bus transfers if that is less, measured in the same run; nothing where neither
binds, as in builds part by part (bucketized and Horton), which make no random accesses. Tables that are built or
changed by one host thread are marked `host-built`, and those rows are timed by the clock on the wall. Every answer is
checked.

Keys and values are of 32 bits, but for tables that hold fewer: those get keys and values as wide as they can hold.
Tables that cannot hold the data, or cannot be built of them at this load, are left out, with the reason.

With --table sets, compacting and multivalue tables, groups or joins. Their rows have --multiplicity copies of a key on
average, each key as many, and with --heavy once more with that share of all rows of one key; `of uniform` is the time
for each thing counted, with it beside without. Queries that hit are the keys of the rows, shuffled; `retrieve` asks for
each key once and for as many absent ones, and counts values; joins have such a left column, and count its rows or those
of the result, whichever are more. Over --scheme sorted multivalue and compacting tables are sorted and compacted lists.
Maps of such rows keep one pair of each key, by --duplicates.

With --insert a batch of a tenth as many pairs goes into a table whose slots are those of --load without it.

With --all everything that koel has a goal for is measured on each device: rates, what the device's memory allows in the
same run, the goal, and whether it was reached, which is said only where the device and the number of pairs are those
of the goal. What cannot be measured is listed with the reason. --n bounds the pairs. --rows chooses rows by parts of
their names; a part that no name has is answered with all names. `--all --n 2^31 --rows 2^31` measures the lookups of
tables of 2^31 pairs and what those are compared with, and nothing else.

With --domain the pairs are the defined cells of a picture. They are inserted, and all cells of the domain are asked, in
the order of the picture, row by row; with --order shuffled at random. Perfect hashes are of the domain's width, unless
--extent says otherwise.

The script plots.py, next to the source of koel-bench, draws the JSON of ordinary runs and of --paper.

Examples:
  koel-bench
  koel-bench --n 2^24,2^26 --load 0.8 --device opencl --json
  koel-bench --device cpu --threads 1 --hits 100,0 --no-peers
  koel-bench --scheme bucketized,horton --kind canonical --load 0.5,0.7,0.8,0.9,0.95 --n 2^24
  koel-bench --n 2^24 --stages --no-peers
  koel-bench --scheme fks,quadratic --n 512..2^24 --no-peers
  koel-bench --table multi --n 10M --multiplicity 1..2048 --scheme cuckoo,sorted --no-peers
  koel-bench --table group --n 10M --multiplicity 16 --heavy 0.5
  koel-bench --n 10M --heavy 0.5 --duplicates first
  koel-bench --domain 8192x8192 --defined 20_500_000 --order morton --load 0.85 --no-peers
  koel-bench --all --json
  koel-bench --all --n 2^18 --device all
  koel-bench --all --n 2^31 --rows 2^31
  koel-bench --paper alcantara2011 --figure 4.4,4.7
  koel-bench --paper breslow --n 2^26 --device opencl --json
  koel-bench --wide --n 2^20,2^26 --queries 2^26 --load 0.9
  koel-bench --several --device gpus --n 2^26
  koel-bench --several --device gpus --pieces 2^33
  koel-bench --n 2^16..2^24 --device all --json | python crates/bench/plots.py";

/// Measure builds and lookups, compared with other tables and the random-access limit
#[derive(Parser, Clone)]
#[command(name = "koel-bench", version, after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Measure everything with a goal, compared with the goal and the limit
    #[arg(long, conflicts_with_all = all::WITHOUT)]
    all: bool,
    /// With --all, only rows whose goals are the device's own: on a CPU without those for GPUs
    #[arg(long, requires = "all")]
    judged: bool,
    /// With --all, only rows with one of these in their names, in any case of letters, and what those are compared with
    #[arg(long, value_name = "PARTS", value_delimiter = ',', requires = "all")]
    rows: Vec<String>,
    /// Runs of each, of which the median counts
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    repeats: u32,
    /// Only koel's own tables
    #[arg(long)]
    no_peers: bool,
    /// Also how long each stage of a build takes, and of all else that is timed on the device of tables other than
    /// maps: a kernel each on OpenCL, a parallel pass each on the CPU, and what the host does of maps that are built
    /// there;
    /// `all` is the median of whole builds
    #[arg(long)]
    stages: bool,
    /// Also the insertion of a tenth as many pairs into a table with slots for its load
    #[arg(long)]
    insert: bool,
    /// Only builds and lookups on the device, without what memory allows
    #[arg(skip)]
    brief: bool,
    /// Besides these, lookups from and to pinned memory
    #[arg(skip)]
    pinned: bool,
    /// JSON in place of the table
    #[arg(long)]
    json: bool,
    /// 64-bit keys on the device: canonical bucketized and signpost tables (or --scheme) of these keys-values (u64-u64,
    /// u64-u32, u32-u64), `sets`, multivalue tables and sorts (`columns`), `sums` of doubles by key; or all
    #[arg(
        long, value_name = "PARTS", num_args = 0..=1, require_equals = true, value_delimiter = ',', default_missing_value = "all",
        value_parser = wide::PARTS,
        conflicts_with_all = [
            "all", "paper", "insert", "table", "duplicates", "kind", "SchemeOptions",
            "hits", "multiplicity", "heavy", "domain", "defined", "picture", "order"
        ]
    )]
    wide: Vec<String>,
    /// One device, and the first two, three, .. of --device together: lookups of a table on each of them, builds and
    /// lookups in shards, groups and joins; from and to memory of the host
    #[arg(
        long,
        conflicts_with_all = [
            "all", "wide", "paper", "insert", "stages", "table", "duplicates", "kind", "scheme", "SchemeOptions",
            "hits", "multiplicity", "heavy", "domain", "defined", "picture", "order"
        ]
    )]
    several: bool,
    /// With --several: measure only tables with these numbers of 64-bit pairs; their keys are generated first, in 8
    /// bytes of host memory each
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', value_parser = options::count, requires = "several", conflicts_with = "n")]
    pieces: Vec<u64>,
    /// The figures of a paper, measured on the device at hand: what each has on its axes. --n is the size of the
    /// largest table [default: such as take a few minutes on two cores]
    #[arg(
        long, value_name = "PAPER", help_heading = "Papers",
        conflicts_with_all = [
            "all", "insert", "no_peers", "stages", "table", "duplicates", "scheme", "kind", "SchemeOptions", "load", "queries",
            "hits", "multiplicity", "heavy", "domain", "defined", "picture", "order"
        ]
    )]
    paper: Option<paper::Paper>,
    /// Only these figures, separated by commas: whole names, or numbers of those that have parts, like 4.4 or 12
    #[arg(long, value_name = "NAMES", value_delimiter = ',', requires = "paper", help_heading = "Papers")]
    figure: Vec<String>,
    /// The structure to build; all but plain maps are measured on rows with duplicate keys
    #[arg(long, default_value = "map", help_heading = "Table")]
    table: tables::Table,
    /// For a map of rows with duplicate keys, the pair to keep: first or last
    #[arg(long, default_value = "error", value_parser = options::duplicates(), help_heading = "Table")]
    duplicates: Duplicates,
    #[arg(
        long, value_name = "NAMES", value_delimiter = ',', value_parser = options::scheme_or_all(), help_heading = "Table",
        help = options::scheme_help("Schemes, separated by commas, or `all`")
    )]
    scheme: Vec<String>,
    /// canonical, classic or all
    #[arg(long, default_value = "all", value_parser = ["canonical", "classic", "all"], help_heading = "Table")]
    kind: String,
    #[command(flatten)]
    parameters: SchemeOptions,
    /// Pairs per slot, above 0 and up to 1, separated by commas [default: what suits the scheme]
    #[arg(long, value_name = "LOADS", value_delimiter = ',', help_heading = "Table")]
    load: Vec<f64>,
    /// The one of them that is being measured
    #[arg(skip)]
    at_load: Option<f64>,
    #[command(flatten)]
    data: DataOptions,
    /// auto, all, cpu, opencl, gpus, opencl:N or opencl:NAME; with --several a list, separated by commas
    #[arg(long, default_value = "auto", help_heading = "Device")]
    device: String,
    #[command(flatten)]
    threads: Threads,
}

impl Args {
    /// The names of all devices.
    fn devices(&self) -> Vec<String> {
        self.device.split(',').map(str::to_owned).collect()
    }
}

/// A scheme to measure, and its limits.
struct Wanted {
    name: &'static str,
    kind: Kind,
    options: SchemeOptions,
    limits: Limits,
}

/// Runs the command that the process was started with.
pub fn main() -> ExitCode {
    koel_cli::parsed().map_or_else(|code| code, |args: Args| koel_cli::ended(run(&args)))
}

fn run(args: &Args) -> Result<Verdict> {
    args.threads.apply()?;
    if args.all {
        return all::run(args);
    }
    let devices = if args.several {
        options::several_devices(&args.devices(), &[])?
    } else {
        koel::device::choose(&args.device, None)?
    };
    let progress = Progress::line();
    if !args.wide.is_empty() {
        let (text, json) = wide::run(args, &devices, &progress)?;
        drop(progress);
        return print(args, || text, || json);
    }
    if args.several {
        let run = if args.pieces.is_empty() { several::run } else { several::run_pieces };
        let (text, json) = run(args, &devices, &progress)?;
        drop(progress);
        return print(args, || text, || json);
    }
    if let Some(paper) = args.paper {
        return paper::run(args, paper, &devices, progress);
    }
    let findings = measure(args, &devices, &progress)?;
    if findings.rows.is_empty() && !findings.left_out.is_empty() {
        return Err(Failure::Input(format!("nothing can be built: {}", findings.left_out.join("; "))));
    }
    drop(progress);
    print(args, || report::text(&findings, &devices, args), || report::json(&findings, &devices, args))
}

/// Prints the results as text or JSON.
fn print(args: &Args, text: impl FnOnce() -> String, json: impl FnOnce() -> Value) -> Result<Verdict> {
    if args.json {
        out::print_json(&json())?;
    } else {
        out::print(&text())?;
    }
    Ok(Verdict::Fine)
}

/// Checks that the options of an ordinary bench are compatible, as far as possible before measuring.
fn check(args: &Args) -> Result<()> {
    args.load.iter().try_for_each(|&load| Load::new(load).map(drop))?;
    args.data.check()?;
    tables::requested(args)?;
    wanted(args, &mut Findings::default()).map(drop)
}

/// Measures everything that the options select, on these devices.
fn measure(args: &Args, devices: &[Any], progress: &Progress) -> Result<Findings> {
    check(args)?;
    let loads = if args.load.is_empty() { vec![None] } else { args.load.iter().copied().map(Some).collect() };
    let mut findings = Findings::default();
    // Other tables do not depend on the load, so they are measured once.
    let mut with_peers = Vec::new();
    for &at_load in &loads {
        findings.extend(measure_at(&Args { at_load, ..args.clone() }, devices, progress, &mut with_peers)?);
    }
    if loads.len() > 1 {
        findings.put_together();
    }
    Ok(findings)
}

/// Measures everything at one load; other tables are measured only with numbers of pairs that were not measured yet.
fn measure_at(args: &Args, devices: &[Any], progress: &Progress, with_peers: &mut Vec<u32>) -> Result<Findings> {
    let mut findings = Findings::default();
    let with_copies = tables::requested(args)?;
    let wanted = wanted(args, &mut findings)?;
    if with_copies {
        tables::measure(args, &wanted, devices, progress, &mut findings)?;
    }
    for n in args.data.sizes().into_iter().filter(|_| !with_copies) {
        let before = findings.rows.len();
        measure_all(args, n, &wanted, devices, progress, &mut findings)?;
        if findings.rows.len() > before && !args.no_peers && !with_peers.contains(&n) {
            with_peers.push(n);
            let setup = Setup::new(args.data.make(n, Limits::NONE)?, n, args);
            findings.rows.extend(peers::measure(&setup, &|_, _| true, progress)?);
        }
    }
    Ok(findings)
}

/// The requested schemes, without those that cannot hold the keys of the data.
fn wanted(args: &Args, findings: &mut Findings) -> Result<Vec<Wanted>> {
    let usual = [options::usual(args.table.contents()).to_owned()];
    let requested = if args.scheme.is_empty() { &usual[..] } else { &args.scheme };
    let list = options::SchemeList::new(requested, &args.kind);
    let mut wanted = Vec::new();
    for (name, kind) in list.combinations()? {
        let options = list.options_for(name, kind, &args.parameters)?;
        match args.data.fitted(options, scheme::options(name, kind)) {
            Ok(options) => {
                let limits = scheme::limits(name, kind, &options)?;
                wanted.push(Wanted { name, kind, options, limits });
            }
            Err(reason) => findings.left_out.push(format!("{name} {kind}: {reason}")),
        }
    }
    Ok(wanted)
}

/// Measures every scheme on every device at one number of pairs. Each has data as wide as it can hold.
fn measure_all(
    args: &Args,
    n: u32,
    wanted: &[Wanted],
    devices: &[Any],
    progress: &Progress,
    findings: &mut Findings,
) -> Result<()> {
    // Schemes with equal key and value limits share their data; the limit on pairs does not affect data.
    let mut latest: Option<(Limits, Setup<'_>)> = None;
    for Wanted { name, kind, options, limits } in wanted {
        let mut leave_out = |reason: String| {
            findings.left_out.push(format!("{name} {kind}, n = {}: {reason}", text::grouped(n.into())));
        };
        if u64::from(n) > limits.pairs {
            leave_out(format!("its most is {}", text::grouped(limits.pairs)));
            continue;
        }
        let widths = Limits { pairs: u64::MAX, ..*limits };
        if latest.as_ref().is_none_or(|(of, _)| *of != widths) {
            // The old data are freed before new ones are created.
            drop(latest.take());
            latest = match args.data.make(n, widths) {
                Ok(data) => Some((widths, Setup::new(data, n, args))),
                Err(Failure::Koel(error @ Error::TooLarge { .. })) if widths != Limits::NONE => {
                    leave_out(error.to_string());
                    continue;
                }
                Err(failure) => return Err(failure),
            };
        }
        let Some((_, setup)) = &latest else { continue };
        if let Some(reason) = args.data.too_wide(&setup.data, *limits) {
            leave_out(reason);
            continue;
        }
        for device in devices {
            progress.say(format!("{name} {kind}, {n} pairs, {}", device.info().id));
            let scheme = scheme::named(name, *kind, options)?;
            findings.extend(OnDevice { setup, device, scheme, progress }.run()?);
        }
    }
    Ok(())
}

/// A wrong answer ends the run, because its time would be meaningless.
fn wrong(what: &str, reason: String) -> Failure {
    Failure::Wrong(format!("{what}: {reason}"))
}
