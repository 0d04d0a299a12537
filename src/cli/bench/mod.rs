//! `koel bench`: how fast tables are built and read on a device, beside what a host's own tables do and what memory
//! allows.
//!
//! ```text
//! device      input and output stay on the device; its own clock (kernels alone on OpenCL, wall time on the CPU)
//! end-to-end  from host slices to host slices, wall time
//! host        other tables, on this machine's threads, wall time
//! limit       random reads of the image (for lookups) and random atomic updates of a buffer as large (for builds), in
//!             the same run on the same device
//! ```
//!
//! Outputs are poisoned before every run, and every answer is compared with the right one after it. Times are medians.

mod device;
mod measure;
mod peers;
mod report;
mod walk;

use koel::Load;
use koel::backend::HashBackend;
use koel::workload::Workload;

use super::failure::{Failure, Result, Verdict};
use super::options::{self, SchemeOptions, Threads};
use super::out;
use super::progress::Progress;
use super::scheme;
use device::OnDevice;
use measure::Setup;
use walk::Findings;

const EXAMPLES: &str = "\
`remove a tenth` counts the keys removed, `compact` the pairs of the table. Rows `device` keep input and output on the device; `end-to-end` go from host memory to host memory; `host` are other tables
on this machine. `of limit` is the share of the random accesses that the device's memory allows, measured in the same run.
Every answer is checked.

Examples:
  koel bench
  koel bench --n 2^24,2^26 --load 0.8 --device opencl --json
  koel bench --device cpu --threads 1 --hits 100,0 --no-peers
  koel bench --scheme horton --load 0.9 --walk";

/// Measure builds and lookups, beside other tables and the random-access limit
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Runs of each, of which the median counts
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    repeats: u32,
    /// Only koel's own tables
    #[arg(long)]
    no_peers: bool,
    /// Also count what lookups read, by walking each table, beside the paper's model (percent: of what exceeds one read)
    #[arg(long)]
    walk: bool,
    /// JSON in place of the table
    #[arg(long)]
    json: bool,
    /// Schemes, separated by commas, or `all`
    #[arg(
        long, value_name = "NAMES", value_delimiter = ',', default_value = scheme::NAMES[0],
        value_parser = options::scheme_or_all(), help_heading = "Table"
    )]
    scheme: Vec<String>,
    /// canonical, classic or all
    #[arg(long, default_value = "all", value_parser = ["canonical", "classic", "all"], help_heading = "Table")]
    kind: String,
    #[command(flatten)]
    parameters: SchemeOptions,
    /// Pairs per slot, above 0 and up to 1 [default: what suits the scheme]
    #[arg(long, help_heading = "Table")]
    load: Option<f64>,
    /// Numbers of pairs, separated by commas
    #[arg(
        long, value_name = "COUNTS", value_delimiter = ',', default_value = "2^22", value_parser = options::pair_count,
        help_heading = "Data"
    )]
    n: Vec<u32>,
    /// Queries of a lookup [default: as many as pairs, at least 2^22]
    #[arg(long, value_name = "COUNT", value_parser = options::pair_count, help_heading = "Data")]
    queries: Option<u32>,
    /// Hits in a hundred queries, separated by commas
    #[arg(
        long, value_name = "PERCENTS", value_delimiter = ',', default_value = "100,50,0",
        value_parser = clap::value_parser!(u32).range(0..=100), help_heading = "Data"
    )]
    hits: Vec<u32>,
    /// The seed of tables and keys
    #[arg(long, default_value_t = 1, help_heading = "Data")]
    seed: u64,
    /// auto, all, cpu, opencl, opencl:N or opencl:NAME
    #[arg(long, default_value = "auto", help_heading = "Device")]
    device: String,
    #[command(flatten)]
    threads: Threads,
}

pub(crate) fn run(args: &Args) -> Result<Verdict> {
    args.threads.apply()?;
    args.load.map(Load::new).transpose()?;
    let list = options::SchemeList::new(&args.scheme, &args.kind);
    let combinations = list.combinations()?;
    let devices = koel::backend::choose(&args.device, None)?;
    let progress = Progress::line();
    let mut findings = Findings::default();
    for &n in &args.n {
        let queries = args.queries.unwrap_or(n.max(1 << 22)) as usize;
        let setup = Setup::new(Workload::new(n, args.seed), n, queries, args);
        for &(name, kind) in &combinations {
            let options = list.options_for(name, kind, &args.parameters)?;
            for device in &devices {
                progress.say(format!("{name} {kind}, {n} pairs, {}", device.info().id));
                let mut job = OnDevice { setup: &setup, device, kind, progress: &progress };
                let Findings { rows, walks } = scheme::named(name, kind, &options, &mut job)?;
                findings.rows.extend(rows);
                findings.walks.extend(walks);
            }
        }
        if !args.no_peers {
            findings.rows.extend(peers::measure(&setup, &progress)?);
        }
    }
    drop(progress);
    if args.json {
        out::print_json(&report::json(&findings, &devices, args.repeats))?;
    } else {
        out::print(&report::text(&findings, &devices, args.repeats))?;
    }
    Ok(Verdict::Fine)
}

/// A wrong answer ends the run: a time for it would mean nothing.
fn wrong(what: &str, reason: String) -> Failure {
    Failure::Wrong(format!("{what}: {reason}"))
}
