//! `koel lookup`: the answers to a file of queries, in its order.

mod rows;

use std::path::PathBuf;

use koel::backend::{Any, Runs, bitmap_words};
use koel::table::read_info;
use koel::{Cpu, HashTable};

use super::failure::{Failure, Result, Verdict};
use super::input::{self, FastaOptions, Sink, Want};
use super::options::{self, Threads};
use super::progress::Progress;
use super::scheme::{self, Job, Parameters};
use super::{out, text};
use rows::Rows;

/// Queries that are answered at a time; what is in memory is proportional to it. A multiple of 32.
const CHUNK: usize = 1 << 20;

const EXAMPLES: &str = "\
QUERIES is CSV, TSV, .npy or FASTA, as for `koel build`; of several columns the first is used.
Output is a row `key,value` a query, in the order of the queries, with the value empty for a miss.
-o FILE.tsv separates by tabs; -o FILE.npy writes a structured array (key u4, value u4, found b1).

Examples:
  koel lookup pairs.koel queries.csv
  koel lookup pairs.koel queries.csv -o answers.npy
  koel lookup pairs.koel needed.csv --strict > /dev/null && echo all there
  koel lookup kmers.koel reads.fa --kmer 12 -o places.csv";

/// Look up keys in a table's file
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A table made by `koel build`
    table: PathBuf,
    /// The keys to look up; `-` is stdin
    queries: PathBuf,
    /// Where the answers go [default: stdout]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Exit with 1 if any query is missing, after all answers are written
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    fasta: FastaOptions,
    /// auto, cpu, opencl:N or opencl:NAME [default: auto]
    #[arg(long, help_heading = "Device")]
    device: Option<String>,
    /// Map the file instead of reading it: starts at once, on the CPU, without the checks of checksum and contents
    #[arg(long, help_heading = "Device")]
    mapped: bool,
    #[command(flatten)]
    threads: Threads,
}

pub(crate) fn run(args: &Args) -> Result<Verdict> {
    args.threads.apply()?;
    let wanted = args.device.as_deref();
    if args.mapped && wanted.is_some_and(|device| device != "cpu") {
        return Err(Failure::Input("--mapped looks up on the CPU: leave --device out".into()));
    }
    let info = read_info(&args.table)?;
    scheme::numbered(info.scheme, info.kind, &mut Lookup { args })
}

struct Lookup<'a> {
    args: &'a Args,
}

impl Job for Lookup<'_> {
    type Output = Verdict;

    fn run<S: Parameters>(&mut self, _: S) -> Result<Verdict>
    where
        Any: Runs<S>,
        Cpu: Runs<S>,
    {
        let args = self.args;
        if args.mapped {
            return answer(args, &HashTable::<Cpu, S>::open_mapped(&Cpu::new(), &args.table)?);
        }
        let device = options::one_device(args.device.as_deref().unwrap_or("auto"))?;
        answer(args, &HashTable::<Any, S>::open(&device, &args.table)?)
    }
}

/// Answers all queries and says how many hit.
fn answer<B: Runs<S>, S: Parameters>(args: &Args, table: &HashTable<B, S>) -> Result<Verdict> {
    let rows = Rows::open(args.output.as_deref())?;
    // Rows on a terminal are progress enough.
    let progress = args.output.is_some().then(Progress::line);
    let (queries, values, found) = (Vec::new(), Vec::new(), Vec::new());
    let mut answers = Answers { table, queries, values, found, rows, asked: 0, missed: 0, progress };
    let read = input::read(&args.queries, &args.fasta, Want::Keys, &mut answers).and_then(|()| answers.flush());
    let Answers { rows, asked, missed, .. } = answers;
    match read.and_then(|()| rows.finish()) {
        // A reader that has seen enough does not undo the misses that were seen.
        Err(Failure::ClosedPipe) if args.strict && missed > 0 => return Ok(Verdict::CheckFailed),
        done => done?,
    }
    if let Some(output) = &args.output {
        let hits = text::grouped(asked - missed);
        let (asked, missed) = (text::grouped(asked), text::grouped(missed));
        out::note(&format!("{}: {asked} queries, {hits} found, {missed} missed", output.display()));
    }
    if args.strict && missed > 0 {
        out::complain(&format!("{missed} of {asked} queries are not in {}", args.table.display()));
        return Ok(Verdict::CheckFailed);
    }
    Ok(Verdict::Fine)
}

/// Queries gathered to a chunk, answered, and written.
struct Answers<'t, B: Runs<S>, S: Parameters> {
    table: &'t HashTable<B, S>,
    queries: Vec<u32>,
    values: Vec<u32>,
    found: Vec<u32>,
    rows: Rows,
    asked: u64,
    missed: u64,
    progress: Option<Progress>,
}

impl<B: Runs<S>, S: Parameters> Sink for Answers<'_, B, S> {
    fn push(&mut self, key: u32, _: u32) -> Result<()> {
        self.queries.push(key);
        if self.queries.len() == CHUNK { self.flush() } else { Ok(()) }
    }
}

impl<B: Runs<S>, S: Parameters> Answers<'_, B, S> {
    fn flush(&mut self) -> Result<()> {
        let count = self.queries.len();
        self.values.resize(count, 0);
        self.found.resize(bitmap_words(count), 0);
        self.table.get_into(&self.queries, &mut self.values, &mut self.found)?;
        let hits: u64 = self.found.iter().map(|word| u64::from(word.count_ones())).sum();
        self.asked += count as u64;
        self.missed += count as u64 - hits;
        if let Some(progress) = &self.progress {
            progress.say(format!("{} queries answered", text::grouped(self.asked)));
        }
        for (i, (&key, &value)) in self.queries.iter().zip(&self.values).enumerate() {
            self.rows.write(key, (self.found[i / 32] >> (i % 32) & 1 == 1).then_some(value))?;
        }
        self.queries.clear();
        Ok(())
    }
}
