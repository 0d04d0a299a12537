//! `koel lookup`: the answers to a file of queries, in its order.

mod ask;

use std::path::PathBuf;

use koel::backend::{Any, Runs};
use koel::table::{Contents, FileInfo, read_info};
use koel::{CompactingTable, Cpu, HashSet, HashTable, KeyType, MultiTable};

use super::failure::{Failure, Result, Verdict};
use super::input::{FastaOptions, Input, Sink, Want};
use super::options::{self, Threads};
use super::output::Rows;
use super::progress::Progress;
use super::scheme::{self, Job, Parameters};
use super::structure::unknown;
use super::{out, text};
use ask::{AllValues, Ask, Counts, KeysOfIds, Members, Values};

/// Queries that are answered at a time; what is in memory is proportional to it. A multiple of 32.
const CHUNK: usize = 1 << 20;

const EXAMPLES: &str = "\
QUERIES is CSV, TSV, .npy or FASTA, as for `koel build`; of several columns the first is used. A table that was built
from FASTA knows its K.
Output is in the order of the queries. What a row is depends on what TABLE was built as (--table):
  map          `key,value`, the value empty for a miss
  set          `key,found`: 1 or 0
  compact      `key,id`, the id empty for a miss; with --reverse queries are ids, and rows `id,key`
  multi        `key,value`, a row for each value of the key, or one without for a miss; with --count `key,count`
-o FILE.tsv separates by tabs; -o FILE.npy writes a structured array, where a miss is a 0 whose field `found` is false:
(key u4, value u4, found b1), or the names above.

Examples:
  koel lookup pairs.koel queries.csv
  koel lookup pairs.koel queries.csv -o answers.npy
  koel lookup pairs.koel needed.csv --strict > /dev/null && echo all there
  koel lookup kmers.koel reads.fa -o places.csv";

/// Look up keys in a table's file
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A table made by `koel build`
    table: PathBuf,
    /// The keys to look up; `-` is stdin
    queries: PathBuf,
    /// Where the answers go [default: stdout]
    #[arg(short, long, value_name = "FILE", value_parser = super::options::rows_file)]
    output: Option<PathBuf>,
    /// How many values each key has, in place of the values; for tables of --table multi
    #[arg(long)]
    count: bool,
    /// Queries are ids, and answers their keys; for tables of --table compact
    #[arg(long)]
    reverse: bool,
    /// Exit with 1 if any query is missing, after all answers are written
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    fasta: FastaOptions,
    /// auto, cpu, opencl:N or opencl:NAME [default: auto]
    #[arg(long, help_heading = "Device")]
    device: Option<String>,
    /// Map the file instead of reading it: starts at once, on the CPU, without the checks of checksum and contents; for
    /// tables of --table map
    #[arg(long, help_heading = "Device")]
    mapped: bool,
    #[command(flatten)]
    threads: Threads,
}

impl Args {
    /// Refuses options of other contents.
    fn check(&self, info: &FileInfo) -> Result<()> {
        let own = [
            ("count", self.count, Contents::Multi),
            ("reverse", self.reverse, Contents::Compact),
            ("mapped", self.mapped, Contents::Map),
        ];
        let Some((option, _, whose)) = own.iter().find(|&&(_, given, whose)| given && info.contents != whose) else {
            return Ok(());
        };
        let (path, whose, is) = (self.table.display(), whose.name(), info.contents.name());
        Err(Failure::Input(format!(
            "{path}: --{option} is for tables of --table {whose}, and this is one of {is}: leave it out"
        )))
    }
}

pub(crate) fn run(args: &Args) -> Result<Verdict> {
    args.threads.apply()?;
    let wanted = args.device.as_deref();
    if args.mapped && wanted.is_some_and(|device| device != "cpu") {
        return Err(Failure::Input("--mapped looks up on the CPU: leave --device out".into()));
    }
    let info = read_info(&args.table)?;
    args.check(&info)?;
    let queries = Queries::open(args, &info)?;
    scheme::numbered(info.scheme, info.kind, &mut Lookup { args, contents: info.contents, queries: Some(queries) })
}

/// A file of queries, and how it is read.
struct Queries<'a> {
    input: Input<'a>,
    fasta: FastaOptions,
}

impl<'a> Queries<'a> {
    /// Opens the file. Letters become keys as the table's own keys did, so they need a K that is known to be right.
    fn open(args: &Args, info: &FileInfo) -> Result<Queries<'a>> {
        let (table, mut fasta) = (args.table.display(), args.fasta.clone());
        // Ids are numbers, whatever their keys are.
        let key_type = if args.reverse { KeyType::Numbers } else { info.key_type };
        match (key_type, fasta.kmer) {
            (KeyType::Kmers { k }, Some(kmer)) if kmer != k => {
                return Err(Failure::Input(format!(
                    "--kmer {kmer}: the keys of {table} are {key_type}: leave it out, and K is the table's"
                )));
            }
            _ => {}
        }
        let input = Input::open(&args.queries)?;
        fasta.check(&[&input])?;
        match key_type {
            KeyType::Kmers { k } if input.is_fasta() => fasta.kmer = Some(k),
            KeyType::Kmers { .. } => {}
            _ if input.is_fasta() && fasta.kmer.is_none() => {
                return Err(Failure::Input(format!(
                    "{}: this is FASTA, and nothing says how many letters a key of {table} has, whose keys are \
                     {key_type}: give --kmer K if it was built from k-mers",
                    args.queries.display()
                )));
            }
            _ => {}
        }
        Ok(Queries { input, fasta })
    }
}

struct Lookup<'a> {
    args: &'a Args,
    contents: Contents,
    /// Read once.
    queries: Option<Queries<'a>>,
}

impl Job for Lookup<'_> {
    type Output = Verdict;

    fn run<S: Parameters>(&mut self, _: S) -> Result<Verdict>
    where
        Any: Runs<S>,
        Cpu: Runs<S>,
    {
        let args = self.args;
        let path = &args.table;
        let Some(queries) = self.queries.take() else { unreachable!("a job runs once") };
        if args.mapped {
            return answer(args, queries, Values::new(&HashTable::<Cpu, S>::open_mapped(&Cpu::new(), path)?, "value"));
        }
        let device = options::one_device(args.device.as_deref().unwrap_or("auto"))?;
        match self.contents {
            Contents::Map => answer(args, queries, Values::new(&HashTable::<Any, S>::open(&device, path)?, "value")),
            Contents::Set => answer(args, queries, Members(&HashSet::<Any, S>::open(&device, path)?)),
            Contents::Compact => {
                let table = CompactingTable::<Any, S>::open(&device, path)?;
                if args.reverse {
                    answer(args, queries, KeysOfIds(&table))
                } else {
                    answer(args, queries, Values::new(table.table(), "id"))
                }
            }
            Contents::Multi => {
                let table = MultiTable::<Any, S>::open(&device, path)?;
                if args.count {
                    answer(args, queries, Counts(&table))
                } else {
                    answer(args, queries, AllValues(&table))
                }
            }
            other => Err(unknown(other)),
        }
    }
}

/// Answers all queries and says how many hit.
fn answer(args: &Args, queries: Queries<'_>, table: impl Ask) -> Result<Verdict> {
    let rows = Rows::open(args.output.as_deref(), &table.columns())?;
    // Rows on a terminal are progress enough.
    let progress = args.output.is_some().then(Progress::line);
    let mut answers = Answers { table, queries: Vec::new(), rows, asked: 0, missed: 0, progress };
    let read = queries.input.read(&queries.fasta, Want::Keys, &mut answers).and_then(|()| answers.flush());
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
struct Answers<A: Ask> {
    table: A,
    queries: Vec<u32>,
    rows: Rows,
    asked: u64,
    missed: u64,
    progress: Option<Progress>,
}

impl<A: Ask> Sink for Answers<A> {
    fn push(&mut self, key: u32, _: u32) -> Result<()> {
        self.queries.push(key);
        if self.queries.len() == CHUNK { self.flush() } else { Ok(()) }
    }
}

impl<A: Ask> Answers<A> {
    fn flush(&mut self) -> Result<()> {
        let asked = self.queries.len() as u64;
        let hits = self.table.answer(&self.queries, &mut self.rows)?;
        self.asked += asked;
        self.missed += asked - hits;
        if let Some(progress) = &self.progress {
            progress.say(format!("{} queries answered", text::grouped(self.asked)));
        }
        self.queries.clear();
        Ok(())
    }
}
