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
//! Pairs and queries are random, or the cells of a picture in one of several layouts (`data.rs`). Outputs are poisoned before every run, and every answer is compared with the right one after it. Times are medians.

mod data;
mod device;
mod measure;
mod peers;
mod report;
mod stages;
mod walk;

use koel::backend::HashBackend;
use koel::spec::Limits;
use koel::{Kind, Load};

use super::failure::{Failure, Result, Verdict};
use super::options::{self, SchemeOptions, Threads};
use super::out;
use super::progress::Progress;
use super::scheme;
use super::text;
use data::DataOptions;
use device::OnDevice;
use measure::Setup;
use report::Findings;

const EXAMPLES: &str = "\
`remove a tenth` counts the keys removed, `compact` the pairs of the table. Rows `device` keep input and output on the device; `end-to-end` go from host memory to host memory; `host` are other tables
on this machine. `of limit` is the share of the random accesses that the device's memory allows, measured in the same run.
Every answer is checked.

With --domain the pairs are the defined cells of a picture. They are inserted, and all cells of the domain are asked, in the
order of the picture, row by row; with --order shuffled at random. Values are cut to what the schemes asked for can hold.

Examples:
  koel bench
  koel bench --n 2^24,2^26 --load 0.8 --device opencl --json
  koel bench --device cpu --threads 1 --hits 100,0 --no-peers
  koel bench --scheme horton --load 0.9 --walk
  koel bench --n 2^24 --stages --no-peers
  koel bench --domain 8192x8192 --defined 20_500_000 --order morton --load 0.85 --no-peers";

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
    /// Also how long each stage of a build takes: a kernel each on OpenCL, a parallel pass each on the CPU
    #[arg(long)]
    stages: bool,
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
    #[command(flatten)]
    data: DataOptions,
    /// auto, all, cpu, opencl, opencl:N or opencl:NAME
    #[arg(long, default_value = "auto", help_heading = "Device")]
    device: String,
    #[command(flatten)]
    threads: Threads,
}

/// A scheme to measure, and what it can hold.
struct Wanted {
    name: &'static str,
    kind: Kind,
    options: SchemeOptions,
    limits: Limits,
}

pub(crate) fn run(args: &Args) -> Result<Verdict> {
    args.threads.apply()?;
    args.load.map(Load::new).transpose()?;
    let list = options::SchemeList::new(&args.scheme, &args.kind);
    let combinations = list.combinations()?;
    let devices = koel::backend::choose(&args.device, None)?;
    let progress = Progress::line();
    let mut wanted = Vec::new();
    for &(name, kind) in &combinations {
        let options = list.options_for(name, kind, &args.parameters)?;
        let limits = scheme::limits(name, kind, &options)?;
        wanted.push(Wanted { name, kind, options, limits });
    }
    // One set of data, which all of them can hold, but for its size.
    let limits = wanted.iter().fold(Limits::NONE, |limits, one| limits.and(one.limits));
    let mut findings = Findings::default();
    for n in args.data.sizes() {
        let setup = Setup::new(args.data.make(n, limits)?, n, args);
        for Wanted { name, kind, options, limits } in &wanted {
            if u64::from(n) > limits.pairs {
                let most = text::grouped(limits.pairs);
                findings.left_out.push(format!("{name} {kind}, n = {}: its most is {most}", text::grouped(n.into())));
                continue;
            }
            for device in &devices {
                progress.say(format!("{name} {kind}, {n} pairs, {}", device.info().id));
                let mut job = OnDevice { setup: &setup, device, kind: *kind, progress: &progress };
                findings.extend(scheme::named(name, *kind, options, &mut job)?);
            }
        }
        if !args.no_peers {
            findings.rows.extend(peers::measure(&setup, &progress)?);
        }
    }
    if findings.left_out.len() == wanted.len() * args.data.sizes().len() {
        return Err(Failure::Input(format!("nothing can be built: {}", findings.left_out.join("; "))));
    }
    drop(progress);
    if args.json {
        out::print_json(&report::json(&findings, &devices, args))?;
    } else {
        out::print(&report::text(&findings, &devices, args))?;
    }
    Ok(Verdict::Fine)
}

/// A wrong answer ends the run: a time for it would mean nothing.
fn wrong(what: &str, reason: String) -> Failure {
    Failure::Wrong(format!("{what}: {reason}"))
}
