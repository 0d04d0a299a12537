//! `koel lookup`: the answers to a file of queries, in its order.

mod ask;

use std::path::{Path, PathBuf};

use serde_json::json;

use koel::backend::Runs;
use koel::device::Any;
use koel::table::{Contents, FileInfo, read_info};
use koel::{CompactingTable, Cpu, HashSet, HashTable, KeyType, MultiTable, Scheme};

use super::failure::{Failure, Result, Verdict};
use super::input::{Input, Named, ReadOptions, Sink, Want};
use super::number::{Number, Type, Word};
use super::options::{self, Threads};
use super::output::{FileForm, RowOptions, Rows, form_of};
use super::progress::Progress;
use super::structure::{Types, of_map, of_numbering_table, of_set, unknown};
use super::{out, text};
use ask::{AllValues, Ask, Asked, Counts, KeysOfIds, Members, Values};

/// Queries that are answered at a time; what is in memory is proportional to it.
const CHUNK: usize = 1 << 20;

const EXAMPLES: &str = "\
QUERIES is CSV, TSV, .npy or FASTA, as for `koel build`; of several columns the first is used. A table that was built
from FASTA knows its K. Queries may be of another type than the table's keys: those that it cannot hold are misses.
Output is in the order of the queries. What a row is depends on what TABLE was built as (--table):
  map          `key,value`, the value empty for a miss
  set          `key,found`: 1 or 0
  compact      `key,id`, the id empty for a miss; with --reverse queries are ids, and rows `id,key`
  multi        `key,value`, a row for each value of the key, or one without for a miss; with --count `key,count`
-o FILE.tsv separates by tabs; -o FILE.npy writes a structured array, where a miss is a 0 whose field `found` is false:
(key u4, value u4, found b1), or the names above. Keys have the type of the queries' array, or else of --keys or of the
table's keys; values that of the table.

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
            format!("the keys of {} are {}", args.table.display(), Types::of(info).keys_said())
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
        let is_array = args.output.output.as_deref().is_some_and(|path| form_of(path) == Some(FileForm::Array));
        if is_array && reading.keys.is_none() && input.is_text() {
            // An array has one type, which has to be known before the last query is.
            reading.keys = Some(if args.reverse { Type::U32 } else { Types::of(info).keys });
        }
        Ok(Queries { input, reading })
    }
}

/// Maps a table.
#[expect(unsafe_code, reason = "only the user knows who else writes to the file")]
fn mapped<S: Scheme>(path: &Path) -> koel::Result<HashTable<Cpu, S>>
where
    Cpu: Runs<S>,
{
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
        let types = Types::of(self.info);
        if args.mapped {
            return match self.info.contents {
                Contents::Set => of_set!(self.info, |S| {
                    let table = mapped::<S>(path)?;
                    answer(args, queries, types.keys, &mut Values::new(&table, "value", self.values()))
                }),
                _ => of_map!(self.info, |S| {
                    let table = mapped::<S>(path)?;
                    answer(args, queries, types.keys, &mut Values::new(&table, "value", self.values()))
                }),
            };
        }
        let device = options::one_device_for(args.device.as_deref().unwrap_or("auto"), &[path, &args.queries])?;
        match self.info.contents {
            Contents::Map => of_map!(self.info, |S| {
                let table = HashTable::<Any, S>::open(&device, path)?;
                answer(args, queries, types.keys, &mut Values::new(&table, "value", self.values()))
            }),
            Contents::Set => of_set!(self.info, |S| {
                answer(args, queries, types.keys, &mut Members(&HashSet::<Any, S>::open(&device, path)?))
            }),
            Contents::Compact => of_numbering_table!(self.info, |S| {
                let table = CompactingTable::<Any, S>::open(&device, path)?;
                if args.reverse {
                    answer(args, queries, Type::U32, &mut KeysOfIds(&table, types.keys))
                } else {
                    answer(args, queries, types.keys, &mut Values::new(table.table(), "id", Type::U32))
                }
            }),
            Contents::Multi => of_numbering_table!(self.info, |S| {
                let table = MultiTable::<Any, S>::open(&device, path)?;
                if args.count {
                    answer(args, queries, types.keys, &mut Counts(&table))
                } else {
                    answer(args, queries, types.keys, &mut AllValues(&table, self.values()))
                }
            }),
            other => Err(unknown(other)),
        }
    }

    /// What the values are; of a table that has none, the numbers that stand in for them.
    fn values(&self) -> Type {
        Types::of(self.info).values.unwrap_or(Type::U32)
    }
}

/// Answers all queries, of which the table holds those of this type, and says how many hit.
fn answer<K: Word>(args: &Args, queries: Queries<'_>, kind: Type, table: &mut dyn Ask<K>) -> Result<Verdict> {
    // Rows on a terminal are progress enough.
    let progress = args.output.output.is_some().then(Progress::line);
    if let Some(progress) = &progress {
        progress.say("looking up");
    }
    let queries_of = Asked::new(kind);
    let mut answers = Answers { args, table, queries: queries_of, rows: None, asked: 0, missed: 0, progress };
    let read = queries.input.read(&queries.reading, Want::Keys, &mut answers).and_then(|()| answers.flush());
    let Answers { rows, asked, missed, .. } = answers;
    match read.and_then(|()| rows.map_or(Ok(()), Rows::finish)) {
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
struct Answers<'a, K: Word> {
    args: &'a Args,
    table: &'a mut dyn Ask<K>,
    queries: Asked<K>,
    /// Opened when the type of the queries is known.
    rows: Option<Rows>,
    asked: u64,
    missed: u64,
    progress: Option<Progress>,
}

impl<K: Word> Sink for Answers<'_, K> {
    fn begin(&mut self, named: Named) -> Result<()> {
        let columns = self.table.columns(named.keys.unwrap_or(self.queries.kind()));
        self.rows = Some(Rows::open(self.args.output.output.as_deref(), &columns)?);
        Ok(())
    }

    fn append(&mut self, keys: &[Number], _: &[Number]) -> Result<()> {
        keys.iter().for_each(|&key| self.queries.push(key));
        if self.queries.len() >= CHUNK { self.flush() } else { Ok(()) }
    }
}

impl<K: Word> Answers<'_, K> {
    fn flush(&mut self) -> Result<()> {
        let Some(rows) = &mut self.rows else { return Ok(()) };
        let asked = self.queries.len() as u64;
        let hits = self.table.answer(&self.queries, rows)?;
        self.asked += asked;
        self.missed += asked - hits;
        if let Some(progress) = &self.progress {
            progress.say(format!("{} queries answered", text::grouped(self.asked)));
        }
        self.queries.clear();
        Ok(())
    }
}
