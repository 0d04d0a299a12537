//! `koel lookup`: the answers to a file of queries, in its order.

mod ask;

use std::path::{Path, PathBuf};

use serde_json::json;

use koel::device::Any;
use koel::table::{Contents, FileInfo, read_info};
use koel::{AnyScheme, CompactingTable, Cpu, HashSet, HashTable, KeyType, MultiTable};

use super::failure::{Failure, Result, Verdict};
use super::input::{Input, ReadOptions, Sink, Want};
use super::options::{self, Threads};
use super::output::{RowOptions, Rows};
use super::progress::Progress;
use super::structure::unknown;
use super::{out, text};
use ask::{AllValues, Ask, Counts, KeysOfIds, Members, Values};

/// Queries that are answered at a time; what is in memory is proportional to it.
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
    output: RowOptions,
    #[command(flatten)]
    reading: ReadOptions,
    /// auto, cpu, opencl:N or opencl:NAME; auto is the CPU where table and queries have less than 1 MiB [default: auto]
    #[arg(long, help_heading = "Device")]
    device: Option<String>,
    /// Map the file instead of reading it: starts at once, on the CPU, without the checks of checksum and contents; for
    /// tables of --table map. Nothing may write to the file or cut it short meanwhile; replacing it by a new one is fine
    #[arg(long, help_heading = "Device")]
    mapped: bool,
    #[command(flatten)]
    threads: Threads,
}

impl Args {
    /// Refuses options of other contents.
    fn check(&self, info: &FileInfo) -> Result<()> {
        if AnyScheme::name_of(info.scheme).is_none() {
            let (path, number) = (self.table.display(), info.scheme);
            let advice = "which this koel does not know: use a newer one";
            return Err(Failure::Input(format!("{path}: it holds scheme number {number}, {advice}")));
        }
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
    args.output.check(&[&args.table, &args.queries], &[])?;
    let info = read_info(&args.table)?;
    args.check(&info)?;
    Lookup { args, info: &info }.run()
}

/// A file of queries, and how it is read.
struct Queries<'a> {
    input: Input<'a>,
    reading: ReadOptions,
}

impl<'a> Queries<'a> {
    /// Opens the file. Letters become keys as the table's own keys did, so the number of letters must be known.
    fn open(args: &Args, info: &FileInfo) -> Result<Queries<'a>> {
        let (key_type, mut reading) = (info.key_type, args.reading.clone());
        let are = if args.reverse {
            "the queries of --reverse are ids, which are numbers".into()
        } else {
            format!("the keys of {} are {key_type}", args.table.display())
        };
        // Older tables do not know that their keys are k-mers: there the user may say so.
        let may_be_kmers = key_type == KeyType::Numbers && !args.reverse;
        match (key_type, reading.kmer) {
            (KeyType::Kmers { k }, None) if !args.reverse => (reading.kmer, reading.letters) = (Some(k), true),
            (KeyType::Kmers { k }, Some(kmer)) if kmer == k && !args.reverse => reading.letters = true,
            (_, Some(kmer)) if !may_be_kmers => {
                return Err(Failure::Input(format!("--kmer {kmer}: {are}: leave it out")));
            }
            _ => {}
        }
        let input = Input::open(&args.queries)?;
        reading.check(&[&input])?;
        if input.is_fasta() && reading.kmer.is_none() {
            let advice = if may_be_kmers {
                "give --kmer K if they are k-mers of K letters all the same"
            } else {
                "give numbers, as CSV, TSV or .npy"
            };
            return Err(Failure::Input(format!("{}: this is FASTA, and {are}: {advice}", args.queries.display())));
        }
        Ok(Queries { input, reading })
    }
}

/// Maps a table.
#[expect(unsafe_code, reason = "only the user knows who else writes to the file")]
fn mapped(path: &Path) -> koel::Result<HashTable<Cpu, AnyScheme>> {
    // SAFETY: the user asked for it by --mapped, whose help says that nothing may write to the file or cut it short
    // meanwhile. This command does not: its answers go elsewhere.
    unsafe { HashTable::open_mapped(&Cpu::new(), path) }
}

struct Lookup<'a> {
    args: &'a Args,
    info: &'a FileInfo,
}

impl Lookup<'_> {
    fn run(&self) -> Result<Verdict> {
        let (args, path) = (self.args, &self.args.table);
        // Queries that are not there are noticed before a large table is read, and before any output.
        let queries = Queries::open(args, self.info)?;
        if args.mapped {
            return answer(args, queries, &mut Values::new(&mapped(path)?, "value"));
        }
        let device = options::one_device_for(args.device.as_deref().unwrap_or("auto"), &[path, &args.queries])?;
        match self.info.contents {
            Contents::Map => {
                answer(args, queries, &mut Values::new(&HashTable::<Any, AnyScheme>::open(&device, path)?, "value"))
            }
            Contents::Set => answer(args, queries, &mut Members(&HashSet::<Any, AnyScheme>::open(&device, path)?)),
            Contents::Compact => {
                let table = CompactingTable::<Any, AnyScheme>::open(&device, path)?;
                if args.reverse {
                    answer(args, queries, &mut KeysOfIds(&table))
                } else {
                    answer(args, queries, &mut Values::new(table.table(), "id"))
                }
            }
            Contents::Multi => {
                let table = MultiTable::<Any, AnyScheme>::open(&device, path)?;
                if args.count {
                    answer(args, queries, &mut Counts(&table))
                } else {
                    answer(args, queries, &mut AllValues(&table))
                }
            }
            other => Err(unknown(other)),
        }
    }
}

/// Answers all queries and says how many hit.
fn answer(args: &Args, queries: Queries<'_>, table: &mut dyn Ask) -> Result<Verdict> {
    let rows = Rows::open(args.output.output.as_deref(), &table.columns())?;
    // Rows on a terminal are progress enough.
    let progress = args.output.output.is_some().then(Progress::line);
    if let Some(progress) = &progress {
        progress.say("looking up");
    }
    let mut answers = Answers { table, queries: Vec::new(), rows, asked: 0, missed: 0, progress };
    let read = queries.input.read(&queries.reading, Want::Keys, &mut answers).and_then(|()| answers.flush());
    let Answers { rows, asked, missed, .. } = answers;
    match read.and_then(|()| rows.finish()) {
        // A reader that has seen enough does not undo the misses that were seen.
        Err(Failure::ClosedPipe) if args.strict && missed > 0 => return Ok(Verdict::CheckFailed),
        done => done?,
    }
    let counts = [asked, asked - missed, missed].map(text::grouped);
    args.output.summarize(
        &format!("{} queries, {} found, {} missed", counts[0], counts[1], counts[2]),
        || json!({ "queries": asked, "found": asked - missed, "missed": missed }),
    )?;
    if args.strict && missed > 0 {
        out::complain(&format!("{missed} of {asked} queries are not in {}", args.table.display()));
        return Ok(Verdict::CheckFailed);
    }
    Ok(Verdict::Fine)
}

/// Queries gathered to a chunk, answered, and written.
struct Answers<'a> {
    table: &'a mut dyn Ask,
    queries: Vec<u32>,
    rows: Rows,
    asked: u64,
    missed: u64,
    progress: Option<Progress>,
}

impl Sink for Answers<'_> {
    fn append(&mut self, keys: &[u32], _: &[u32]) -> Result<()> {
        self.queries.extend_from_slice(keys);
        if self.queries.len() >= CHUNK { self.flush() } else { Ok(()) }
    }
}

impl Answers<'_> {
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
