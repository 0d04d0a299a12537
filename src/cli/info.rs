//! `koel info`: what is in a table's file, checked.

use std::path::PathBuf;

use serde_json::json;

use koel::backend::{Any, Runs};
use koel::spec::Plan;
use koel::table::read_info;
use koel::{Cpu, HashTable, Kind};

use super::failure::{Failure, Result, Verdict};
use super::progress::Progress;
use super::scheme::{self, Job, Parameters};
use super::{out, text};

/// Show and check a table's file
#[derive(clap::Args)]
#[command(after_help = "The whole file is read: its checksum is compared and every pair is audited.")]
pub(crate) struct Args {
    /// A table made by `koel build`
    table: PathBuf,
    /// JSON in place of the table
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<Verdict> {
    let info = read_info(&args.table)?;
    scheme::numbered(info.scheme, info.kind, &mut Info { args, kind: info.kind })
}

struct Info<'a> {
    args: &'a Args,
    kind: Kind,
}

impl Job for Info<'_> {
    type Output = Verdict;

    fn run<S: Parameters>(&mut self, _: S) -> Result<Verdict>
    where
        Any: Runs<S>,
        Cpu: Runs<S>,
    {
        let path = &self.args.table;
        let progress = Progress::line();
        progress.say("reading, checking and walking the table");
        let table = HashTable::<Cpu, S>::open(&Cpu::new(), path)?;
        let bytes = path.metadata().map_err(|error| Failure::io(path, &error))?.len();
        let (audit, stats, digest) = (table.audit()?, table.stats()?, table.digest()?);
        drop(progress);
        let parameters = S::describe(table.plan());
        let (seed, outside) = (table.plan().seed(), table.plan().outside());
        // ages[0] counts empty slots, of which there are none among pairs.
        let ages = stats.ages.get(1..).unwrap_or(&[]);
        if self.args.json {
            out::print_json(&json!({
                "scheme": S::NAME, "kind": self.kind.name(),
                "parameters": scheme::json(&parameters),
                "pairs": stats.pairs, "slots": stats.slots, "load": table.load_factor(), "seed": seed,
                "restarts": stats.restarts, "digest": digest.to_string(), "file_bytes": bytes,
                "image_bytes": stats.bytes, "ages": ages, "greatest_age": audit.greatest_age,
                "reads_per_hit": stats.reads_per_hit, "reads_per_miss": stats.reads_per_miss,
                "pairs_beside_the_image": u64::from(outside.is_some()), "audit": "ok",
            }))?;
            return Ok(Verdict::Fine);
        }
        let shown_ages: Vec<_> = ages.iter().take(8).map(|&count| text::grouped(count)).collect();
        let more = if ages.len() > 8 { format!(", .. up to age {}", audit.greatest_age) } else { String::new() };
        out::print(&format!(
            "{}: {} in {} (load {:.3})\n\
             scheme    {} {}, {}\n\
             seed      {seed}\n\
             restarts  {}\n\
             file      {} bytes\n\
             digest    {digest}\n\
             reads     {:.3} slots a hit, {:.3} a miss\n\
             ages      {}{more}\n\
             audit     ok: checksum right, {} checked",
            path.display(),
            text::counted(stats.pairs, "pair"),
            text::counted(stats.slots, "slot"),
            table.load_factor(),
            S::NAME,
            self.kind,
            scheme::listed(&parameters),
            stats.restarts,
            text::grouped(bytes),
            stats.reads_per_hit,
            stats.reads_per_miss,
            if shown_ages.is_empty() { "none".into() } else { shown_ages.join(", ") },
            text::counted(audit.pairs, "pair"),
        ))?;
        Ok(Verdict::Fine)
    }
}
