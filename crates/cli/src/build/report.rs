//! Saves and reports a table that `build` has built.

use std::time::Instant;

use serde_json::json;

use koel::Digest;
use koel::backend::{HashBackend, Runs};
use koel::device::Any;

use super::Build;
use crate::failure::{Result, Verdict};
use crate::scheme::{self, Described};
use crate::structure::{About, Structure, key_type_json};
use crate::{options, out, text};

/// What was built, and how many seconds it took.
struct Built {
    about: About,
    digest: Digest,
    build_seconds: f64,
    save_seconds: f64,
}

impl Build<'_> {
    /// Builds and saves the table, and reports it.
    pub(super) fn finish<S: Described, T: Structure<Any, S>>(
        &mut self,
        build: impl FnOnce() -> koel::Result<T>,
    ) -> Result<Verdict>
    where
        Any: Runs<S>,
    {
        let start = Instant::now();
        let structure = build()?;
        self.devices.iter().try_for_each(HashBackend::finish)?;
        let build_seconds = start.elapsed().as_secs_f64();
        let start = Instant::now();
        let digest = structure.save(&self.args.output)?;
        let save_seconds = start.elapsed().as_secs_f64();
        self.print_report(About::of(&structure), digest, [build_seconds, save_seconds])
    }

    /// Reports what was built, and how many seconds building and saving took.
    pub(super) fn print_report(&mut self, about: About, digest: Digest, seconds: [f64; 2]) -> Result<Verdict> {
        let [build_seconds, save_seconds] = seconds;
        let built = Built { about, digest, build_seconds, save_seconds };
        // Clears the progress line before anything is printed.
        self.progress = None;
        if self.args.json { self.print_json(&built) } else { self.print(&built) }?;
        Ok(Verdict::Fine)
    }

    fn print_json(&self, built: &Built) -> Result<()> {
        let (args, about) = (self.args, &built.about);
        out::print_json(&json!({
            "output": args.output.display().to_string(), "table": about.contents.name(),
            "scheme": about.scheme, "kind": args.options.kind.name(),
            "parameters": scheme::json(&about.parameters), "key_type": key_type_json(self.types.key_type),
            "types": self.types.json(), "rows": self.rows, "pairs": about.pairs, "keys": about.keys,
            "slots": about.slots, "load": about.load,
            "seed": about.seed, "restarts": about.restarts, "digest": built.digest.to_string(),
            "shards": about.by_shard.as_ref().map(Vec::len), "device": options::ids(self.devices), "image_bytes": about.image_bytes, "bytes": about.bytes,
            "seconds": { "read": self.read_seconds, "build": built.build_seconds, "save": built.save_seconds },
        }))
    }

    fn print(&self, built: &Built) -> Result<()> {
        let (args, about) = (self.args, &built.about);
        let devices: Vec<_> = self.devices.iter().map(|device| device.info().to_string()).collect();
        let rows = self.rows;
        let dropped = match rows.saturating_sub(about.pairs) {
            0 => String::new(),
            copies => {
                format!(" from {} ({} with a duplicate key)", text::counted(rows, "row"), text::counted(copies, "row"))
            }
        };
        let summary = format!(
            "{}: {}{dropped} in {} (load {:.3}), {}\n\
             table     {}\n\
             {}keys      {}\n\
             {}scheme    {} {}, {}\n\
             {:<10}{}\n\
             seed      {}\n\
             restarts  {}\n\
             digest    {}\n\
             time      {:.3} s to read, {:.3} s to build, {:.3} s to save",
            text::path(&args.output),
            about.held,
            text::counted(about.slots, "slot"),
            about.load,
            text::bytes(about.bytes),
            about.contents.name(),
            about.shards_said(),
            self.types.keys_said(),
            self.types.values_said(),
            about.scheme,
            args.options.kind,
            scheme::listed(&about.parameters),
            if devices.len() == 1 { "device" } else { "devices" },
            devices.join(", "),
            about.seed,
            about.restarts,
            built.digest,
            self.read_seconds,
            built.build_seconds,
            built.save_seconds,
        );
        if self.to_stdout {
            out::summary(&summary);
            return Ok(());
        }
        if out::is_quiet() { Ok(()) } else { out::print(&summary) }
    }
}
