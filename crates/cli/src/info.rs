//! `koel info`: checks a table file and shows what it contains.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::json;

use koel::backend::Runs;
use koel::device::Any;
use koel::scheme::Audit;
use koel::table::{Buckets, Contents, FileInfo, Stats, read_info};
use koel::{CompactingTable, Cpu, Digest, Error, HashSet, HashTable, MultiTable, Sharded, ShardedMulti, ShardedSet};

use super::failure::{Failure, Result, Verdict};
use super::progress::Progress;
use super::scheme::{self, Described};
use super::structure::{
    About, Structure, Types, key_type_json, of_map, of_multi_table, of_numbering_table, of_set, unknown,
};
use super::{out, query, text};

/// Show and check a table file
#[derive(clap::Args)]
#[command(after_help = "The whole file is read, its checksum is compared, and every pair is audited.")]
pub(crate) struct Args {
    /// A table file, written by `koel build`
    table: PathBuf,
    /// Print JSON in place of the table
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<Verdict> {
    koel::threads::ready()?;
    if begins_with(&args.table, b"koelside") {
        return query::prepared::print_info(&args.table, args.json);
    }
    let info = read_info(&args.table).map_err(|error| match error {
        Error::BadFile { .. } if !begins_with(&args.table, b"koel") => {
            Failure::Input(format!("{error}: `koel info` shows tables that `koel build` wrote"))
        }
        error => error.into(),
    })?;
    Info { args, info: &info }.run()
}

/// Whether a file starts with a magic number. A pipe is not read.
fn begins_with<const N: usize>(path: &Path, magic: &[u8; N]) -> bool {
    let mut head = [0; N];
    path.is_file() && File::open(path).and_then(|mut file| file.read_exact(&mut head)).is_ok() && head == *magic
}

struct Info<'a> {
    args: &'a Args,
    info: &'a FileInfo,
}

impl Info<'_> {
    fn run(&self) -> Result<Verdict> {
        match self.info.contents {
            Contents::Map if self.info.shards.is_some() => {
                of_map!(self.info, |S| self.print_report::<S, Sharded<Any, S>>())
            }
            Contents::Map => of_map!(self.info, |S| self.print_report::<S, HashTable<Any, S>>()),
            Contents::Set if self.info.shards.is_some() => {
                of_set!(self.info, |S| self.print_report::<S, ShardedSet<Any, S>>())
            }
            Contents::Set => of_set!(self.info, |S| self.print_report::<S, HashSet<Any, S>>()),
            Contents::Compact => of_numbering_table!(self.info, |S| self.print_report::<S, CompactingTable<Any, S>>()),
            Contents::Multi if self.info.shards.is_some() => {
                of_multi_table!(self.info, |S, V| self.print_report::<S, ShardedMulti<Any, S, V>>())
            }
            Contents::Multi => of_multi_table!(self.info, |S, V| self.print_report::<S, MultiTable<Any, S, V>>()),
            other => Err(unknown(other)),
        }
    }

    fn print_report<S: Described, T: Structure<Any, S>>(&self) -> Result<Verdict>
    where
        Any: Runs<S>,
    {
        self.report(&|path| {
            let structure = T::open(&Any::Cpu(Cpu::new()), path)?;
            Ok(Facts {
                about: About::of(&structure),
                audit: structure.audit()?,
                stats: structure.stats()?,
                digest: structure.digest()?,
                most_values: structure.most_values()?,
            })
        })
    }

    /// Prints the facts that `read` returns. Has no type parameters, so that it is compiled once.
    fn report(&self, read: &dyn Fn(&Path) -> Result<Facts>) -> Result<Verdict> {
        let path = &self.args.table;
        let progress = Progress::line();
        progress.say("reading, checking and walking the table");
        let facts = read(path)?;
        let file_bytes = path.metadata().map_err(|error| Failure::io(path, &error))?.len();
        drop(progress);
        if self.args.json { self.print_json(&facts, file_bytes) } else { self.print(&facts, file_bytes) }?;
        Ok(Verdict::Fine)
    }

    fn print_json(&self, facts: &Facts, file_bytes: u64) -> Result<()> {
        let Facts { about, stats, .. } = facts;
        let buckets = stats.buckets.iter().map(|buckets| json!({ "type": buckets.name, "by_pairs": buckets.by_pairs }));
        out::print_json(&json!({
            "table": about.contents.name(), "scheme": about.scheme, "kind": self.info.kind.name(),
            "parameters": scheme::json(&about.parameters), "key_type": key_type_json(self.info.key_type),
            "types": Types::of(self.info).json(), "pairs": about.pairs, "keys": stats.pairs, "most_values": facts.most_values,
            "slots": stats.slots, "load": about.load, "seed": about.seed,
            "tombstones": stats.tombstones,
            "restarts": stats.restarts, "digest": facts.digest.to_string(), "file_bytes": file_bytes,
            "image_bytes": stats.bytes, "bytes": about.bytes,
            "ages": from_one(&stats.ages), "greatest_age": facts.audit.greatest_age,
            "reads_per_hit": stats.reads_per_hit, "reads_per_miss": stats.reads_per_miss,
            "keys_by_reads": from_one(&stats.keys_by_reads), "bytes_per_read": stats.bucket_bytes,
            "model_reads_per_hit": stats.model.map(|model| model.reads_per_hit),
            "model_reads_per_miss": stats.model.map(|model| model.reads_per_miss),
            "buckets": buckets.collect::<Vec<_>>(),
            "shards": about.by_shard.as_ref().map(Vec::len), "pairs_by_shard": about.by_shard,
            "pairs_beside_the_image": about.outside, "audit": "ok",
        }))
    }

    fn print(&self, facts: &Facts, file_bytes: u64) -> Result<()> {
        let Facts { about, stats, .. } = facts;
        let with_tombstones = match stats.tombstones {
            0 => String::new(),
            lost => format!("\nlost      {} to removed pairs, until it is compacted", text::counted(lost, "slot")),
        };
        let values = match about.contents {
            Contents::Multi => {
                let average = about.pairs as f64 / stats.pairs.max(1) as f64;
                format!(": {average:.2} values a key, {} at most", text::grouped(facts.most_values))
            }
            _ => String::new(),
        };
        let types = Types::of(self.info);
        out::print(&format!(
            "{}: {} in {} (load {:.3})\n\
             table     {}{values}\n\
             {}keys      {}\n\
             {}scheme    {} {}, {}\n\
             seed      {}\n\
             restarts  {}\n\
             file      {} bytes, {:.2} a {}\n\
             digest    {}{with_tombstones}\n\
             {}\n\
             ages      {}\n\
             audit     ok: checksum right, {} checked",
            text::path(&self.args.table),
            about.held,
            text::counted(stats.slots, "slot"),
            about.load,
            about.contents.name(),
            about.shards_said(),
            types.keys_said(),
            types.values_said(),
            about.scheme,
            self.info.kind,
            scheme::listed(&about.parameters),
            about.seed,
            stats.restarts,
            text::grouped(file_bytes),
            file_bytes as f64 / about.pairs.max(1) as f64,
            about.counted,
            facts.digest,
            reads(stats),
            few(from_one(&stats.ages)),
            text::counted(facts.audit.pairs, if about.contents == Contents::Map { "pair" } else { "key" }),
        ))
    }
}

/// The contents and statistics of a file.
struct Facts {
    about: About,
    audit: Audit,
    stats: Stats,
    digest: Digest,
    most_values: u64,
}

/// The counts from index 1 on; index 0 counts misses.
fn from_one(counts: &[u64]) -> &[u64] {
    counts.get(1..).unwrap_or(&[])
}

/// The first few counts of a list.
fn few(counts: &[u64]) -> String {
    const SHOWN: usize = 18;
    let mut shown: Vec<_> = counts.iter().take(SHOWN).map(|&count| text::grouped(count)).collect();
    match counts.len() {
        0 => return "none".into(),
        all if all > SHOWN => shown.push(format!(".. up to {all}")),
        _ => {}
    }
    shown.join(", ")
}

/// How much lookups read, as measured and as the model predicts, and from which buckets.
fn reads(stats: &Stats) -> String {
    let unit = if stats.bucket_bytes <= 8 { "slots" } else { "buckets" };
    let mut lines = vec![format!(
        "reads     {:.3} {unit} a hit, {:.3} a miss, of {} bytes each",
        stats.reads_per_hit, stats.reads_per_miss, stats.bucket_bytes
    )];
    if let Some(model) = stats.model {
        lines.push(format!("model     {:.3} a hit, {:.3} a miss", model.reads_per_hit, model.reads_per_miss));
    }
    let found: u64 = stats.keys_by_reads.iter().sum();
    let share = |&keys: &u64| format!("{:.2}%", 100.0 * keys as f64 / found.max(1) as f64);
    let shares: Vec<_> = from_one(&stats.keys_by_reads).iter().map(share).collect();
    lines.push(format!("found     {}", if shares.is_empty() { "none".into() } else { shares.join(", ") }));
    if stats.bucket_bytes > 8 {
        // Stash buckets are not among the table's buckets.
        let all: u64 = stats.buckets.iter().filter(|buckets| buckets.name != "stash").map(Buckets::count).sum();
        for buckets in &stats.buckets {
            let share = 100.0 * buckets.count() as f64 / all.max(1) as f64;
            let name = if buckets.name.is_empty() { "all".into() } else { format!("type {}", buckets.name) };
            lines.push(format!(
                "buckets   {name}: {} ({share:.1}%), with 0, 1, .. pairs: {}",
                text::grouped(buckets.count()),
                few(&buckets.by_pairs)
            ));
        }
    }
    lines.join("\n")
}
