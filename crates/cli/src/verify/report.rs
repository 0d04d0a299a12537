//! The output of `verify`.

use std::cell::{Cell, RefCell};
use std::io::Write;
use std::path::Path;

use serde_json::{Value, json};

use koel::backend::HashBackend;
use koel::file::WholeFile;

use super::row::Row;
use super::{Device, Findings};
use crate::failure::{Failure, Result};
use crate::text::{self, Align};
use crate::{devices, out, progress};

fn verdict(row: &Row) -> &'static str {
    match row.problems.first() {
        None => "ok",
        Some(problem) if problem.failed => "FAILED",
        Some(_) => "DIFFERS",
    }
}

fn checks(findings: &Findings) -> (u32, usize) {
    (findings.rows.iter().map(|row| row.checks).sum(), findings.rows.iter().map(|row| row.problems.len()).sum())
}

/// The columns of the report and their widths; the column of devices may be wider.
const COLUMNS: [(&str, usize, Align); 12] = [
    ("table", 7, Align::Left),
    ("scheme", 10, Align::Left),
    ("kind", 9, Align::Left),
    ("types", 8, Align::Left),
    ("data", 8, Align::Left),
    ("pairs", 10, Align::Right),
    ("device", 9, Align::Left),
    ("verdict", 7, Align::Left),
    ("digest", 16, Align::Left),
    ("build M/s", 9, Align::Right),
    ("lookup M/s", 10, Align::Right),
    ("note", 0, Align::Left),
];

/// Prints a line for each table as soon as it is verified. Widths are fixed, because later rows are not known yet.
pub(super) struct Lines {
    is_json: bool,
    /// The width of the column of device names.
    device: usize,
    /// Whether the column headings were printed.
    has_begun: Cell<bool>,
    /// The first error of stdout: after it, nothing is printed, and verification continues for the exit code.
    failed: RefCell<Option<Failure>>,
}

impl Lines {
    /// Creates the output for these devices; prints nothing if all findings are printed as JSON at the end.
    pub(super) fn new(devices: &[Device], is_json: bool) -> Lines {
        let names = devices.iter().map(|device| device.info().id.len());
        Lines {
            is_json,
            device: names.max().unwrap_or(0).max("reference".len()),
            has_begun: Cell::new(false),
            failed: RefCell::new(None),
        }
    }

    pub(super) fn rows(&self, rows: &[Row]) {
        for row in rows {
            if !self.has_begun.replace(true) {
                self.print(COLUMNS.map(|(name, ..)| name.to_owned()));
            }
            self.print([
                row.table.into(),
                row.scheme.into(),
                row.kind.to_string(),
                row.types.into(),
                row.data.into(),
                text::grouped(row.pairs as u64),
                row.device.clone(),
                verdict(row).into(),
                row.digest.as_deref().map_or("-", |digest| &digest[..16]).into(),
                row.build.map_or("-".into(), text::millions),
                row.lookup.map_or("-".into(), text::millions),
                note(row),
            ]);
        }
    }

    /// Prints the summary after all tables, or returns the first error of stdout.
    pub(super) fn finish(self, findings: &Findings) -> Result<()> {
        match self.failed.into_inner() {
            Some(failure) => Err(failure),
            None if self.is_json => out::print_json(&json(findings)),
            None => out::print(&text(findings)),
        }
    }

    fn print(&self, cells: [String; COLUMNS.len()]) {
        if self.is_json || self.failed.borrow().is_some() {
            return;
        }
        let mut line = String::new();
        for (cell, (name, width, align)) in cells.iter().zip(COLUMNS) {
            let width = if name == "device" { self.device } else { width };
            match align {
                Align::Left => line.push_str(&format!("{cell:<width$}  ")),
                Align::Right => line.push_str(&format!("{cell:>width$}  ")),
            }
        }
        if let Err(failure) = progress::print(&line) {
            *self.failed.borrow_mut() = Some(failure);
        }
    }
}

/// The problems, the devices, and a line with the verdict.
fn text(findings: &Findings) -> String {
    let mut problems = String::new();
    for row in &findings.rows {
        for problem in &row.problems {
            let verdict = if problem.failed { "FAILED" } else { "DIFFERS" };
            let types = if row.types.is_empty() { String::new() } else { format!(" of {}", row.types) };
            let place =
                format!("{} {} {}{types} on {} keys, {}", row.table, row.scheme, row.kind, row.data, row.device);
            problems.push_str(&format!("{verdict}  {place}: {}\n", problem.text));
        }
    }
    let mut lines = if problems.is_empty() { String::new() } else { format!("\n{problems}") };
    let used: Vec<_> = findings.devices.iter().map(|device| device.info().to_string()).collect();
    for left_out in &findings.left_out {
        lines.push_str(&format!("\nleft out: {left_out}"));
    }
    lines.push_str(&format!("\ndevices: {}\n", used.join(", ")));
    for refused in &findings.refused {
        lines.push_str(&format!("not used: {refused}\n"));
    }
    lines.push_str(&format!("OpenCL: {}\n", findings.opencl));
    if uncompared(findings) {
        lines.push_str("some bytes were compared with nothing: one device, and no reference\n");
    }
    lines.push_str(&match checks(findings) {
        (all, 0) => format!("all {all} checks passed"),
        (all, failed) => format!("{failed} of {all} checks FAILED"),
    });
    lines
}

/// Whether an image was compared with neither another device's nor a reference's. Only plain maps have a reference.
fn uncompared(findings: &Findings) -> bool {
    let alone = findings.devices.len() == 1;
    // Joins and groups are compared row by row.
    let is_image = |row: &Row| row.digest.is_some() && ["set", "compact", "multi"].contains(&row.table);
    alone && findings.rows.iter().any(|row| row.no_reference.is_some() || is_image(row))
}

fn note(row: &Row) -> String {
    let host_built = row.host_built.then(|| "host-built".to_owned());
    let restarts = (row.restarts > 0).then(|| text::counted(row.restarts.into(), "restart"));
    let most = |most| format!("no reference above {} pairs", text::grouped(most as u64));
    let no_reference = row.no_reference.map(most);
    row.cut.clone().into_iter().chain(host_built).chain(no_reference).chain(restarts).collect::<Vec<_>>().join(", ")
}

/// Writes all findings and a description of the machine to a file, for readers who do not know the machine.
pub(super) fn write(findings: &Findings, path: &Path) -> Result<()> {
    let mut report = json(findings);
    let machine = json!({
        "system": std::env::consts::OS, "architecture": std::env::consts::ARCH,
        "KOEL_OPENCL": std::env::var("KOEL_OPENCL").ok(),
        "KOEL_OPENCL_TIER": std::env::var("KOEL_OPENCL_TIER").ok(),
    });
    report["machine"] = machine;
    report["listed"] = koel::device::devices()
        .iter()
        .map(|device| {
            let mut described = devices::json(&device.info);
            described["refused"] = device.refused.clone().into();
            described
        })
        .collect();
    let failed = |error| Failure::io(path, &error);
    let (whole, mut file) = WholeFile::create(path).map_err(failed)?;
    file.write_all(format!("{report:#}\n").as_bytes()).and_then(|()| whole.finish()).map_err(failed)
}

/// All findings as JSON.
fn json(findings: &Findings) -> Value {
    let devices = findings.devices.iter().map(|device| devices::json(device.info()));
    let stage =
        |stage: &koel::backend::Stage| json!({ "name": stage.name, "kernel": stage.kernel, "host": stage.host });
    let rows = findings.rows.iter().map(|row| {
        json!({
            "table": row.table, "scheme": row.scheme, "kind": row.kind.name(), "data": row.data,
            "types": if row.types.is_empty() { "u32, u32" } else { row.types }, "pairs": row.pairs, "device": row.device,
            "verdict": verdict(row), "reasons": row.problems.iter().map(|p| p.text.as_str()).collect::<Vec<_>>(),
            "checks": row.checks, "digest": row.digest, "restarts": row.restarts, "host_built": row.host_built,
            "cut": row.cut, "no_reference_above": row.no_reference,
            "stages": row.stages.iter().map(stage).collect::<Vec<_>>(),
            "build_per_second": row.build, "lookup_per_second": row.lookup,
        })
    });
    let (all, failed) = checks(findings);
    json!({
        "koel": env!("CARGO_PKG_VERSION"), "ok": failed == 0, "checks": all, "failed": failed,
        "n": findings.pairs, "rows_of_tables": findings.rows_of_tables, "seed": findings.seed, "devices": devices.collect::<Vec<_>>(),
        "left_out": findings.left_out, "refused": findings.refused, "opencl": findings.opencl, "rows": rows.collect::<Vec<_>>(),
    })
}
