//! `koel build`: a table from a file.

use std::path::PathBuf;
use std::time::Instant;

use serde_json::json;

use koel::backend::{Any, HashBackend, Runs};
use koel::spec::Plan;
use koel::{Cpu, Duplicates, HashTable, Kind};

use super::failure::{Result, Verdict};
use super::input::{self, FastaOptions, Pairs, Want};
use super::options::{self, SchemeOptions, SizeOptions, Threads};
use super::progress::Progress;
use super::scheme::{self, Job, Parameters};
use super::{out, text};

const EXAMPLES: &str = "\
INPUT is told by its content:
  CSV or TSV   rows `key,value`; keys alone take the number of their row, from 0, as value; a header is skipped
  .npy         uint32 of shape (n,), keys alone, or (n, 2)
  FASTA        every window of K letters is a key (A C G T = 0..3, the first most significant), its place the value

Canonical tables of the same rows are the same bytes, whatever the rows' order, the device and the threads.

Examples:
  koel build pairs.csv -o pairs.koel
  koel build pairs.csv -o small.koel --load 0.95 --duplicates last
  koel build genome.fa --kmer 12 -o kmers.koel --duplicates first
  zcat pairs.csv.gz | koel build - -o pairs.koel --device cpu";

/// Build a table from a file of keys and values
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// CSV, TSV, .npy or FASTA; `-` is stdin
    input: PathBuf,
    /// The table's file
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// JSON in place of the summary
    #[arg(long)]
    json: bool,
    /// Scheme
    #[arg(long, default_value = scheme::NAMES[0], value_parser = options::scheme_name(), help_heading = "Table")]
    scheme: String,
    /// The same bytes on every device, or the papers' own race
    #[arg(long, default_value = "canonical", value_parser = options::kind(), help_heading = "Table")]
    kind: Kind,
    #[command(flatten)]
    parameters: SchemeOptions,
    #[command(flatten)]
    size: SizeOptions,
    /// The seed of all constants [default: a fixed one]
    #[arg(long, help_heading = "Table")]
    seed: Option<u64>,
    /// What a key that comes more than once means: an error, or that its first or last pair stays
    #[arg(long, default_value = "error", value_parser = options::duplicates(), help_heading = "Input")]
    duplicates: Duplicates,
    #[command(flatten)]
    fasta: FastaOptions,
    /// auto, cpu, opencl:N or opencl:NAME
    #[arg(long, default_value = "auto", help_heading = "Device")]
    device: String,
    #[command(flatten)]
    threads: Threads,
}

pub(crate) fn run(args: &Args) -> Result<Verdict> {
    args.threads.apply()?;
    args.size.check()?;
    // Options are checked before a large file is read.
    scheme::named(&args.scheme, args.kind, &args.parameters, &mut Nothing)?;
    let device = options::one_device(&args.device)?;
    let progress = Progress::line();
    progress.say(format!("reading {}", args.input.display()));
    let start = Instant::now();
    let mut pairs = Pairs::default();
    input::read(&args.input, &args.fasta, Want::Pairs, &mut pairs)?;
    let read_seconds = start.elapsed().as_secs_f64();
    progress.say(format!("building a table of {}", text::counted(pairs.keys.len() as u64, "row")));
    let mut job = Build { args, device: &device, pairs: &pairs, read_seconds, progress: Some(progress) };
    scheme::named(&args.scheme, args.kind, &args.parameters, &mut job)
}

/// Checks options by making a scheme of them.
struct Nothing;

impl Job for Nothing {
    type Output = ();
    fn run<S: Parameters>(&mut self, _: S) -> Result<()> {
        Ok(())
    }
}

struct Build<'a> {
    args: &'a Args,
    device: &'a Any,
    pairs: &'a Pairs,
    read_seconds: f64,
    progress: Option<Progress>,
}

impl Job for Build<'_> {
    type Output = Verdict;

    fn run<S: Parameters>(&mut self, scheme: S) -> Result<Verdict>
    where
        Any: Runs<S>,
        Cpu: Runs<S>,
    {
        let args = self.args;
        let mut builder = args.size.apply(HashTable::builder(scheme).duplicates(args.duplicates));
        if let Some(seed) = args.seed {
            builder = builder.seed(seed);
        }
        let start = Instant::now();
        let table = builder.build(self.device, &self.pairs.keys, &self.pairs.values)?;
        self.device.finish()?;
        let build_seconds = start.elapsed().as_secs_f64();
        let start = Instant::now();
        let digest = table.save(&args.output)?;
        let save_seconds = start.elapsed().as_secs_f64();
        // Clears the line before anything is printed there.
        self.progress = None;

        let parameters = S::describe(table.plan());
        let rows = self.pairs.keys.len() as u64;
        let image_bytes = 8 * table.plan().words();
        if args.json {
            out::print_json(&json!({
                "output": args.output.display().to_string(),
                "scheme": S::NAME, "kind": args.kind.name(),
                "parameters": scheme::json(&parameters),
                "rows": rows, "pairs": table.len(), "slots": table.capacity(), "load": table.load_factor(),
                "seed": table.plan().seed(), "restarts": table.restarts(), "digest": digest.to_string(),
                "device": table.backend().info().id, "image_bytes": image_bytes,
                "seconds": { "read": self.read_seconds, "build": build_seconds, "save": save_seconds },
            }))?;
            return Ok(Verdict::Fine);
        }
        let dropped = match rows - table.len() {
            0 => String::new(),
            copies => {
                format!(" of {} ({} with a key that was there)", text::counted(rows, "row"), text::grouped(copies))
            }
        };
        out::print(&format!(
            "{}: {}{dropped} in {} (load {:.3}), {}\n\
             scheme    {} {}, {}\n\
             device    {}\n\
             restarts  {}\n\
             digest    {digest}\n\
             time      {:.3} s to read, {build_seconds:.3} s to build, {save_seconds:.3} s to save",
            args.output.display(),
            text::counted(table.len(), "pair"),
            text::counted(table.capacity(), "slot"),
            table.load_factor(),
            text::bytes(image_bytes),
            S::NAME,
            args.kind,
            scheme::listed(&parameters),
            table.backend().info(),
            table.restarts(),
            self.read_seconds,
        ))?;
        Ok(Verdict::Fine)
    }
}
