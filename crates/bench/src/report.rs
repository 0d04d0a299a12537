//! The output of `bench`.

use std::collections::HashSet;

use serde_json::{Value, json};

use koel::backend::HashBackend;
use koel::device::Any;

use super::Args;
use super::measure::Row;
use super::stages::Staged;
use koel_cli::devices;
use koel_cli::text::{self, Align, Table};

/// The measurements.
#[derive(Default)]
pub(super) struct Findings {
    pub(super) rows: Vec<Row>,
    pub(super) stages: Vec<Staged>,
    /// Tables that cannot be built from the data, with the reasons.
    pub(super) left_out: Vec<String>,
}

impl Findings {
    pub(super) fn extend(&mut self, more: Findings) {
        self.rows.extend(more.rows);
        self.stages.extend(more.stages);
        self.left_out.extend(more.left_out);
    }

    /// Groups rows by size, whatever their load, with other tables last, and removes duplicate lines about omitted
    /// tables.
    pub(super) fn put_together(&mut self) {
        let size = |row: &Row| (row.n, row.copies);
        let mut sizes: Vec<_> = self.rows.iter().map(size).collect();
        let mut seen = HashSet::new();
        sizes.retain(|&of| seen.insert(of));
        self.rows.sort_by_key(|row| (sizes.iter().position(|&of| of == size(row)), row.place == "host"));
        let mut said = HashSet::new();
        self.left_out.retain(|line| said.insert(line.clone()));
    }
}

/// A table for each number of pairs, and a description of the devices and the data.
pub(super) fn text(findings: &Findings, devices: &[Any], args: &Args) -> String {
    let mut shown = String::new();
    for device in devices {
        shown.push_str(&format!("{}, {}\n", device.info(), device.info().driver));
    }
    let threads = rayon::current_num_threads();
    shown.push_str(&format!("host: {threads} threads; medians of {} runs; every answer checked\n", args.repeats));
    if let Some(line) = args.data.line() {
        shown.push_str(&format!("{line}\n"));
    }
    for of_one_size in findings.rows.chunk_by(|a, b| (a.n, a.copies) == (b.n, b.copies)) {
        let mut table = Table::new(&[
            ("table", Align::Left),
            ("load", Align::Right),
            ("on", Align::Left),
            ("what", Align::Left),
            ("heavy", Align::Right),
            ("hits", Align::Right),
            ("from", Align::Left),
            ("time", Align::Right),
            ("rate", Align::Right),
            ("of limit", Align::Right),
            ("of uniform", Align::Right),
        ]);
        for row in of_one_size {
            let kind = row.kind.map(|kind| format!(" {kind}")).unwrap_or_default();
            let limit = row.what.starts_with("random ") || row.what.starts_with("transfer ");
            let name = match (row.table, row.scheme.as_str()) {
                ("map", _) => row.scheme.clone(),
                (table, "") => table.into(),
                (table, scheme) => format!("{table} {scheme}"),
            };
            table.row([
                if limit { "(limit)".into() } else { format!("{name}{kind}") },
                row.load.filter(|_| !limit).map(|load| format!("{load:.3}")).unwrap_or_default(),
                row.device.clone(),
                if row.host_built { format!("{} (host-built)", row.what) } else { row.what.into() },
                row.heavy.map(|share| format!("{:.0}%", 100.0 * share)).unwrap_or_default(),
                row.hits.map(|hits| format!("{hits}%")).unwrap_or_default(),
                row.place.into(),
                text::seconds(row.time),
                text::rate(row.rate),
                row.share().map(|share| format!("{:.0}%", 100.0 * share)).unwrap_or_default(),
                row.relative_to_uniform.map(|times| format!("{times:.2}x")).unwrap_or_default(),
            ]);
        }
        let first = &of_one_size[0];
        let copies = first.copies.map(|copies| format!(", {} a key", text::counted(copies.into(), "row")));
        let (n, copies) = (text::grouped(first.n.into()), copies.unwrap_or_default());
        shown.push_str(&format!("\nn = {n}{copies}\n{}", table.render()));
    }
    if !findings.stages.is_empty() {
        shown.push_str(&format!("\n{}", Staged::text(&findings.stages)));
    }
    for left_out in &findings.left_out {
        shown.push_str(&format!("\nleft out: {left_out}"));
    }
    shown
}

/// The measurements as JSON.
pub(super) fn json(findings: &Findings, devices: &[Any], args: &Args) -> Value {
    let devices = devices.iter().map(|device| devices::json(device.info()));
    let stages = findings.stages.iter().map(Staged::json);
    let rows = findings.rows.iter().map(|row| {
        json!({
            "table": row.table, "device": row.device, "scheme": row.scheme, "kind": row.kind.map(koel::Kind::name),
            "n": row.n, "multiplicity": row.copies, "heavy": row.heavy, "of_uniform": row.relative_to_uniform,
            "requested_load": row.requested_load, "load": row.load, "what": row.what, "where": row.place, "hits": row.hits,
            "seconds": row.time.as_secs_f64(), "rate": row.rate, "limit": row.limit, "share": row.share(),
            "host_built": row.host_built,
        })
    });
    json!({
        "koel": env!("CARGO_PKG_VERSION"), "repeats": args.repeats, "threads": rayon::current_num_threads(),
        "data": args.data.json(), "devices": devices.collect::<Vec<_>>(), "rows": rows.collect::<Vec<_>>(),
        "stages": stages.collect::<Vec<_>>(), "left_out": findings.left_out,
    })
}
