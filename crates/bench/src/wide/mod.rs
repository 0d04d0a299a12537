//! `--wide`: tables of 64-bit keys or values, sets of 64-bit keys, and columns of them, device-resident.
//!
//! Keys are the images of 0, 1, .. under a bijection; absent keys are the images of the numbers after them. Every
//! answer is compared with the expected one.

mod columns;
mod peers;
mod sums;
mod tables;

use std::time::Duration;

use koel::backend::{HashBackend, Probe, StageTime, Word};
use koel::device::Any;
use koel::scheme::Scheme;
use koel::scheme::hash::{MixKeys64, mix_64};
use koel::{Bucketized, Signpost};
use serde_json::{Value, json};

use super::Args;
use super::measure::{Row as Measured, median};
use super::report::Findings;
use super::stages::medians;
use koel_cli::failure::{Failure, Result};
use koel_cli::progress::Progress;
use koel_cli::text;

/// The values of `--wide`.
pub(super) const PARTS: [&str; 7] = ["all", "u64-u64", "u64-u32", "u32-u64", "sets", "columns", "sums"];

/// The key of a number: for 32 bits, the lower half of a 32-bit bijection.
fn key<K: Word>(number: u64) -> K {
    if K::BITS == u32::BITS {
        // Odd, so a bijection of 32 bits.
        return K::low(number.wrapping_mul(0x9e37_79b1));
    }
    K::low(mix_64(number, MixKeys64::new(0, 1, 0)))
}

/// The value of a number.
fn value<V: Word>(number: u64, has_values: bool) -> V {
    if has_values { V::low(!number << 7 | 1) } else { V::low(0) }
}

/// One rate.
struct Row {
    what: &'static str,
    /// The scheme of tables; empty for peers and columns.
    scheme: &'static str,
    columns: &'static str,
    device: String,
    n: u64,
    /// The number of pairs, rows or queries that its time is divided by.
    count: u64,
    load: Option<f64>,
    hits: Option<u64>,
    time: Duration,
    /// Only if requested, and measured in separate runs.
    stages: Vec<StageTime>,
}

/// A measurement on a device.
struct Case<'a> {
    args: &'a Args,
    device: &'a Any,
    n: u64,
    load: Option<f64>,
    columns: &'static str,
}

impl Case<'_> {
    /// Runs `work` on `count` pairs, rows or queries as often as requested; returns the last result, and the row.
    fn timed<R>(
        &self,
        what: &'static str,
        count: u64,
        (scheme, load, hits): (&'static str, Option<f64>, Option<u64>),
        mut work: impl FnMut() -> koel::Result<R>,
    ) -> Result<(R, Row)> {
        let device = self.device;
        let (mut given, mut times, mut stages) = (work()?, Vec::new(), Vec::new());
        for _ in 0..self.args.repeats {
            // Freed before the next run, which reuses its memory.
            drop(given);
            device.finish()?;
            let (done, time) = device.timed(&mut work)?;
            times.push(time);
            given = done;
            if self.args.stages {
                drop(given);
                let (done, run) = device.stages(&mut work)?;
                stages.push(run);
                given = done;
            }
        }
        let (columns, n, on) = (self.columns, self.n, device.info().id.clone());
        let (time, stages) = (median(times), medians(&stages).0);
        let row = Row { what, scheme, columns, device: on, n, count, load, hits, time, stages };
        Ok((given, row))
    }
}

/// Measures what the options request, on all devices; returns text and JSON.
pub(super) fn run(args: &Args, devices: &[Any], progress: &Progress) -> Result<(String, Value)> {
    let rows = rows(args, devices, progress)?;
    Ok((table(&rows), json(&rows)))
}

/// The measurements as rows of a bench.
pub(super) fn findings(args: &Args, devices: &[Any], progress: &Progress) -> Result<Findings> {
    let measured = |row: Row| {
        let mut of = Measured::new(&row.device, row.scheme, row.n as u32, row.what, "device");
        (of.load, of.hits) = (row.load, row.hits.map(|hits| hits as u32));
        of.timed(row.count as usize, row.time)
    };
    let rows = rows(args, devices, progress)?.into_iter().map(measured).collect();
    Ok(Findings { rows, ..Findings::default() })
}

/// The schemes with such tables.
pub(super) const SCHEMES: [&str; 2] = [Bucketized::NAME, Signpost::NAME];

fn rows(args: &Args, devices: &[Any], progress: &Progress) -> Result<Vec<Row>> {
    if let Some(other) = args.scheme.iter().find(|name| !SCHEMES.contains(&name.as_str())) {
        let there_are = SCHEMES.join(" and ");
        return Err(Failure::Input(format!("--wide measures {there_are} tables, and none of scheme {other}")));
    }
    let loads = if args.load.is_empty() { vec![None] } else { args.load.iter().copied().map(Some).collect() };
    let mut rows = Vec::new();
    for n in args.data.sizes() {
        for &load in &loads {
            for device in devices {
                let case = |columns| {
                    progress.say(format!("{columns}, {n} pairs, {}", device.info().id));
                    Case { args, device, n: n.into(), load, columns }
                };
                let is_requested =
                    |part: &str| args.wide.iter().any(|requested| requested == part || requested == "all");
                if is_requested("u64-u64") {
                    rows.extend(case("u64, u64").pairs::<u64, u64>()?);
                }
                if is_requested("u64-u32") {
                    rows.extend(case("u64, u32").pairs::<u64, u32>()?);
                }
                if is_requested("u32-u64") {
                    rows.extend(case("u32, u64").pairs::<u32, u64>()?);
                }
                if is_requested("sets") {
                    rows.extend(
                        case("u64 alone")
                            .of_both(&Bucketized::default().of::<u64, ()>(), &Signpost::new().of::<u64, ()>())?,
                    );
                    if is_wanted::<Signpost>(args) {
                        rows.extend(case("u32 alone").table(&Signpost::new().of::<u32, ()>())?);
                    }
                }
                if is_requested("columns") {
                    rows.extend(case("u64, u64").columns::<u64>()?);
                    rows.extend(case("u64, u32").columns::<u32>()?);
                }
                if is_requested("sums") {
                    rows.extend(case("u64, f64").sums()?);
                }
            }
        }
    }
    Ok(rows)
}

/// Whether tables of a scheme are requested.
fn is_wanted<S: Scheme>(args: &Args) -> bool {
    args.scheme.is_empty() || args.scheme.iter().any(|name| name == S::NAME)
}

/// Keys or pairs per second, in billions.
fn rate(row: &Row) -> f64 {
    row.count as f64 / row.time.as_secs_f64() / 1e9
}

fn table(rows: &[Row]) -> String {
    let mut said = format!(
        "{:<15} {:<10} {:<10} {:<10} {:>13} {:>6} {:>5} {:>11}\n",
        "what", "scheme", "columns", "on", "n", "load", "hits", "rate"
    );
    for row in rows {
        let hits = row.hits.map_or(String::new(), |hits| format!("{hits}%"));
        let (n, rate) = (text::grouped(row.n), format!("{:.2} G/s", rate(row)));
        let load = row.load.map_or(String::new(), |load| format!("{load:.3}"));
        said += &format!(
            "{:<15} {:<10} {:<10} {:<10} {n:>13} {load:>6} {hits:>5} {rate:>11}\n",
            row.what, row.scheme, row.columns, row.device
        );
        for stage in &row.stages {
            let each = 1e9 * stage.time.as_secs_f64() / row.count as f64;
            said += &format!("    {:<32} {:>11}  {each:.4} ns each\n", stage.name, text::seconds(stage.time));
        }
    }
    said
}

fn json(rows: &[Row]) -> Value {
    let row = |row: &Row| {
        json!({
            "what": row.what, "scheme": row.scheme, "columns": row.columns, "device": row.device, "n": row.n, "count": row.count, "load": row.load,
            "hits": row.hits, "per_second": rate(row) * 1e9,
            "stages": row.stages.iter().map(|stage| json!({ "name": stage.name, "seconds": stage.time.as_secs_f64() }))
                .collect::<Vec<_>>(),
        })
    };
    json!({ "wide": rows.iter().map(row).collect::<Vec<_>>() })
}
