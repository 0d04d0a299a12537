//! `koel verify`: does every device of this machine build the right tables and give the right answers?
//!
//! ```text
//! for every scheme, kind and data set:
//!   reference    (canonical) the scheme's one-key-at-a-time arithmetic, on one host thread, attempt by attempt
//!   each device  builds for itself from its own upload; audit; answers to every key and as many misses, all compared;
//!                the image is downloaded: its plan and bytes are the reference's, its digest is every other device's
//!   each pair    a table moves from the device that built it to every other and is looked up there
//! ```

mod check;
mod data;
mod reference;
mod report;

use koel::backend::{Any, choose, devices, opencl_status};

use super::failure::{Result, Verdict};
use super::options::{self, SchemeList, SchemeOptions, SizeOptions, Threads};
use super::out;
use super::progress::Progress;
use super::scheme;
use check::{Check, Row, WarmUp};
use data::DataSet;

/// Large enough that the tables outgrow the caches of most machines and threads really race; small enough that the
/// one-thread reference and a software OpenCL device on two cores are done with it in seconds.
const DEFAULT_PAIRS: &str = "2^20";

const EXAMPLES: &str = "\
Canonical tables must be the same bytes on every device, and those of a sequential reference; the answers of both kinds
must be right on the device that built a table and on every other one it is moved to. Data: random keys (with 0 and
4294967295), and the 16-mers of the lambda phage genome. Exit code 1 if anything differs.

Examples:
  koel verify
  koel verify --n 16M --device opencl:0
  koel verify --kind canonical --functions 3 --load 0.9
  koel verify --json > verify.json";

/// Check that all devices agree, on tables they build for themselves
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// JSON in place of the table, with what kernels and what the host did on each device
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    schemes: SchemeList,
    #[command(flatten)]
    parameters: SchemeOptions,
    #[command(flatten)]
    size: SizeOptions,
    /// Random keys
    #[arg(long, default_value = DEFAULT_PAIRS, value_parser = options::pair_count, help_heading = "Data")]
    n: u32,
    /// The seed of tables and random keys
    #[arg(long, default_value_t = 1, help_heading = "Data")]
    seed: u64,
    /// all, auto, cpu, opencl, opencl:N or opencl:NAME
    #[arg(long, default_value = "all", help_heading = "Device")]
    device: String,
    #[command(flatten)]
    threads: Threads,
}

/// All that was found out.
struct Findings {
    pairs: u32,
    seed: u64,
    rows: Vec<Row>,
    devices: Vec<Any>,
    /// Devices that are there and cannot be used.
    refused: Vec<String>,
    opencl: String,
}

pub(crate) fn run(args: &Args) -> Result<Verdict> {
    args.threads.apply()?;
    args.size.check()?;
    let combinations = args.schemes.combinations()?;
    let devices = choose(&args.device, None)?;
    let data = [DataSet::random(args.n, args.seed), DataSet::lambda_phage()?];
    let progress = Progress::steps(combinations.len() * data.len() * (devices.len() + 1));
    progress.say("compiling kernels");
    for &(name, kind) in &combinations {
        scheme::named(
            name,
            kind,
            &args.schemes.options_for(name, kind, &args.parameters)?,
            &mut WarmUp { devices: &devices },
        )?;
    }
    let mut rows = Vec::new();
    for (name, kind) in combinations {
        for set in &data {
            let mut check = Check {
                data: set,
                cut: None,
                devices: &devices,
                size: &args.size,
                seed: args.seed,
                kind,
                progress: &progress,
            };
            rows.extend(scheme::named(
                name,
                kind,
                &args.schemes.options_for(name, kind, &args.parameters)?,
                &mut check,
            )?);
        }
    }
    drop(progress);

    let refused = refused_devices();
    let findings = Findings { pairs: args.n, seed: args.seed, rows, devices, refused, opencl: opencl_status() };
    let verdict = if findings.rows.iter().all(Row::is_ok) { Verdict::Fine } else { Verdict::CheckFailed };
    let printed =
        if args.json { out::print_json(&report::json(&findings)) } else { out::print(&report::text(&findings)) };
    // A reader that stops reading does not make a failed check a good one.
    match (printed, verdict) {
        (Err(failure), Verdict::Fine) => Err(failure),
        (_, verdict) => Ok(verdict),
    }
}

fn refused_devices() -> Vec<String> {
    let reason = |device: koel::backend::Listed| device.refused.map(|reason| format!("{}: {reason}", device.info));
    devices().into_iter().filter_map(reason).collect()
}
