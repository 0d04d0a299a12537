//! `koel-bench --all`: measures everything with a goal, and compares it with the goal and with memory limits.
//!
//! ```text
//! goals.rs     the rows: how each is measured, and its goals
//! choice.rs    which of them, by --rows
//! mod.rs       measures them: runs `koel-bench` once for each set of options, which may yield several rows
//! judge.rs     compares a row with its goals
//! report.rs    prints
//! ```
//!
//! A row is measured on the devices that it was written for. Without a GPU, rows for GPUs are measured on the CPU, and
//! their goals are shown but not judged; so are goals for more pairs than were measured. Every requested row is listed:
//! those that were not measured have the reason.

mod choice;
mod goals;
mod judge;
mod report;

use std::collections::HashMap;
use std::rc::Rc;

use clap::Parser;
use koel::backend::{DeviceKind, HashBackend};
use koel::device::{Any, choose};

use super::limits::Limits;
use super::measure::{Row as Measured, Setup};
use super::report::Findings;
use super::{Args, peers};
use goals::{Class, How, Limit, ROWS, Row};
use judge::{Judged, judge};
use koel_cli::failure::{Failure, Result, Verdict};
use koel_cli::progress::Progress;
use koel_cli::text;

/// The options that conflict with `--all`, and the group of a scheme's parameters.
pub(super) const WITHOUT: [&str; 16] = [
    "SchemeOptions",
    "scheme",
    "kind",
    "load",
    "table",
    "duplicates",
    "stages",
    "insert",
    "queries",
    "hits",
    "multiplicity",
    "heavy",
    "domain",
    "defined",
    "picture",
    "order",
];

/// The minimum `--n`: rates of smaller pictures and tables mean nothing.
const LEAST: u32 = 1 << 10;

/// A row on a device.
struct Line {
    row: &'static Row,
    /// `None` if no device is of the row's class.
    device: Option<String>,
    /// The number of pairs, or of cells of a picture.
    n: u32,
    /// The measurements, or the reason why there are none.
    found: std::result::Result<Found, String>,
}

struct Found {
    rate: f64,
    load: Option<f64>,
    /// The limit of memory, or of the bus.
    limit: Option<f64>,
    goals: Vec<Judged>,
}

/// The memory limits of a device for this number of pairs.
struct Allowed {
    device: String,
    n: u32,
    limits: Limits,
}

pub(super) fn run(args: &Args) -> Result<Verdict> {
    let bound = bound(args)?;
    let rows = choice::chosen(&args.rows)?;
    let devices = choose(&args.device, None)?;
    let progress = Progress::line();
    let mut bench =
        Bench { args, progress: &progress, bound, done: HashMap::new(), peers: HashMap::new(), allowed: Vec::new() };
    let mut lines = Vec::new();
    for device in &devices {
        let here = |row: &Row| if args.judged { class_of(device) == row.class } else { is_for(row, device, &devices) };
        for &row in rows.iter().filter(|row| here(row)) {
            lines.push(bench.line(row, device)?);
        }
    }
    let is_listed = |row: &Row| lines.iter().any(|line: &Line| std::ptr::eq(line.row, row));
    for row in rows.into_iter().filter(|row| !is_listed(row)).collect::<Vec<_>>() {
        let reason = match row.how {
            How::Outside(reason) => reason.to_owned(),
            How::Bench(..) if args.judged && devices.iter().any(|device| is_for(row, device, &devices)) => {
                "its goals are for other devices: omit --judged".into()
            }
            How::Bench(..) => {
                format!("no device of this run is {}: --device all uses every device", row.class.name())
            }
        };
        lines.push(Line { row, device: None, n: row.n, found: Err(reason) });
    }
    let allowed = bench.allowed;
    drop(progress);
    super::print(
        args,
        || report::text(&lines, &allowed, &devices, args),
        || report::json(&lines, &allowed, &devices, args),
    )
}

/// The value of `--n`. Several values are an error.
fn bound(args: &Args) -> Result<Option<u32>> {
    let given: Vec<u32> = args.data.given_sizes().collect();
    match given[..] {
        [] => Ok(None),
        [n] if n >= LEAST => Ok(Some(n)),
        [n] => Err(Failure::Input(format!("{n} pairs are too few for --all: use an --n of {LEAST} or more"))),
        _ => Err(Failure::Input("--n limits everything that --all measures: pass one number".into())),
    }
}

fn class_of(device: &Any) -> Class {
    match device {
        Any::Cpu(_) => Class::Cpu,
        other if other.info().kind == DeviceKind::Cpu => Class::CpuByOpenCl,
        _ => Class::Gpu,
    }
}

/// Whether a row is measured on a device: on devices of its class. If there is no GPU, rows for GPUs are measured on
/// the CPU, except those that a row for CPUs repeats.
fn is_for(row: &Row, device: &Any, devices: &[Any]) -> bool {
    let (class, gpus) = (class_of(device), devices.iter().any(|device| class_of(device) == Class::Gpu));
    row.class == class
        || (row.class == Class::Gpu && class == Class::Cpu && !gpus && !ROWS.iter().any(|other| covers(other, row)))
}

/// Whether a row for CPUs measures what another one measures on a GPU.
fn covers(row: &Row, other: &Row) -> bool {
    let of = |row: &Row| (row.how, row.hits, row.threads, row.place);
    let usual = |row: &Row| row.n == goals::usual_n(row.class);
    row.class == Class::Cpu && other.class == Class::Gpu && of(row) == of(other) && usual(row) && usual(other)
}

/// The minimum number of queries of a lookup, as in `koel-bench`.
const FEWEST_QUERIES: u32 = 1 << 22;

/// The measurements so far.
struct Bench<'a> {
    args: &'a Args,
    progress: &'a Progress,
    bound: Option<u32>,
    /// The measurements by device and options, or the reason why there are none.
    done: HashMap<(String, String), Rc<std::result::Result<Findings, String>>>,
    /// The measurements of other tables, by the number of pairs.
    peers: HashMap<u32, Rc<Vec<Measured>>>,
    allowed: Vec<Allowed>,
}

/// The command of a row, as a separate program.
#[derive(Parser)]
struct Alone {
    #[command(flatten)]
    args: Args,
}

/// The options with which `koel-bench` measures a row with `n` pairs, or cells.
fn options(options: &str, n: u32) -> String {
    if options.contains("--order") {
        // The share of defined cells is that of the picture in the goals: 20.5 million of 8192 x 8192.
        let side = n.isqrt();
        let defined = u64::from(side) * u64::from(side) * 205 / 671;
        return format!("{options} --domain {side}x{side} --defined {defined}");
    }
    format!("{options} --n {n}")
}

impl Bench<'_> {
    /// Measures a row on a device, and judges it.
    fn line(&mut self, row: &'static Row, device: &Any) -> Result<Line> {
        let most = self.bound.unwrap_or(goals::usual_n(class_of(device)));
        // A row about more pairs than usual is measured with all of them, or not at all.
        let n = if row.whole { row.n } else { row.n.min(most) };
        let found = match self.found(row, device, n, most) {
            // If one device cannot run a row, the others continue; a wrong answer ends the run.
            Err(Failure::Koel(error)) => Err(error.to_string()),
            found => found?,
        };
        Ok(Line { row, device: Some(device.info().id.clone()), n, found })
    }

    fn found(&mut self, row: &Row, device: &Any, n: u32, most: u32) -> Result<std::result::Result<Found, String>> {
        if let How::Outside(reason) = row.how {
            return Ok(Err(reason.into()));
        }
        if n > most {
            return Ok(Err(format!("this row needs {} pairs: use --n {n} or more", text::grouped(n.into()))));
        }
        if row.place == "pinned" && class_of(device) == Class::Cpu {
            return Ok(Err("there is no bus between the CPU backend and its memory".into()));
        }
        if row.threads.is_some_and(|threads| threads > rayon::current_num_threads()) {
            return Ok(Err("this run has fewer threads: use more --threads, or a machine with more cores".into()));
        }
        let measured = match self.rate(row, n, device, row.threads)? {
            Ok(measured) => measured,
            Err(reason) => return Ok(Err(reason)),
        };
        let limit = match row.limit {
            Some(Limit::Bus) => measured.limit,
            Some(limit) => judge::allowed(limit, self.limits(device, n)?, class_of(device), measured.load),
            None => None,
        };
        let mut judged = Vec::new();
        for goal in row.goals {
            judged.push(judge(self, row, goal, device, n, limit)?);
        }
        Ok(Ok(Found { rate: measured.rate, load: measured.load, limit, goals: judged }))
    }

    /// The rate of a row with `n` pairs, on a device or on this number of CPU threads.
    fn rate(
        &mut self,
        row: &Row,
        n: u32,
        device: &Any,
        threads: Option<usize>,
    ) -> Result<std::result::Result<Measured, String>> {
        let How::Bench(of, what) = row.how else { return Ok(Err("it is not measured".into())) };
        let options = self.options(row, of, n, device);
        let on = threads.map_or_else(|| device.info().id.clone(), |threads| format!("{threads} threads"));
        let key = (on, format!("{options}, {}", row.place));
        let found = match self.done.get(&key) {
            Some(found) => Rc::clone(found),
            None => {
                let devices = match threads {
                    Some(_) => choose("cpu", threads)?,
                    None => vec![device.clone()],
                };
                let args = Args { pinned: row.place == "pinned", ..self.parse(&options)? };
                let measure = if args.wide.is_empty() { super::measure } else { super::wide::findings };
                let found = match measure(&args, &devices, self.progress) {
                    Err(Failure::Koel(error)) => Err(error.to_string()),
                    found => Ok(found?),
                };
                let found = Rc::new(found);
                self.done.insert(key, Rc::clone(&found));
                found
            }
        };
        Ok(match &*found {
            Err(reason) => Err(reason.clone()),
            Ok(found) => match pick(&found.rows, Of::Koel(row.place), what, row.hits) {
                Some(row) => Ok(row.clone()),
                None if found.left_out.is_empty() => {
                    Err(format!("koel-bench {options} has no row `{what}` of {} memory here", row.place))
                }
                None => Err(found.left_out.join("; ")),
            },
        })
    }

    /// The number of queries of lookups on a device, and of accesses in measurements of its limits, unless there are
    /// more pairs.
    fn queries(&self, device: &Any) -> u32 {
        let usual = goals::usual_n(class_of(device));
        self.bound.map_or(usual, |bound| bound.min(usual)).max(FEWEST_QUERIES)
    }

    /// The options with which a row is measured with `n` pairs. Rows about small tables have as many queries as the
    /// others: with fewer queries, the launch of the kernel would be a large part of the time.
    fn options(&self, row: &Row, of: &str, n: u32, device: &Any) -> String {
        let queries = self.queries(device);
        match row.n < goals::usual_n(class_of(device)) && n < queries {
            true => format!("{} --queries {queries}", options(of, n)),
            false => options(of, n),
        }
    }

    /// The rate of another table on the host, with `n` random pairs. Only rates that a goal needs are measured:
    /// searches of a sorted array would take longer than everything else.
    fn peer(&mut self, name: &str, n: u32, row: &Row) -> Result<Option<f64>> {
        let How::Bench(_, what) = row.how else { return Ok(None) };
        if self.args.no_peers {
            return Ok(None);
        }
        let rows = match self.peers.get(&n) {
            Some(rows) => Rc::clone(rows),
            None => {
                let args = self.parse(&options("", n))?;
                let setup = Setup::new(args.data.make(n, koel::scheme::Limits::NONE)?, n, &args);
                let rows = Rc::new(peers::measure(&setup, &goals::needs_peer, self.progress)?);
                self.peers.insert(n, Rc::clone(&rows));
                rows
            }
        };
        Ok(pick(&rows, Of::Peer(name), what, row.hits).map(|row| row.rate))
    }

    /// The memory limits of a device for a table of `n` pairs, 0.9 per slot of 8 bytes.
    fn limits(&mut self, device: &Any, n: u32) -> Result<Limits> {
        let id = &device.info().id;
        if let Some(known) = self.allowed.iter().find(|known| known.device == *id && known.n == n) {
            return Ok(known.limits);
        }
        self.progress.say(format!("what the memory of {id} allows"));
        let pairs = n as usize;
        let accesses = pairs.max(self.queries(device) as usize);
        let limits = Limits::measure(device, pairs + pairs / 9, accesses, pairs, self.args.repeats)?;
        self.allowed.push(Allowed { device: id.clone(), n, limits });
        Ok(limits)
    }

    /// Parses these options, with the repeats and the seed of this run.
    fn parse(&self, options: &str) -> Result<Args> {
        let words = ["bench"].into_iter().chain(options.split_whitespace());
        let mut args = Alone::try_parse_from(words).map_err(|error| Failure::Input(error.to_string()))?.args;
        (args.repeats, args.data.seed, args.no_peers, args.brief) =
            (self.args.repeats, self.args.data.seed, true, true);
        Ok(args)
    }
}

/// The table that a row of the output belongs to.
#[derive(Clone, Copy)]
enum Of<'a> {
    /// koel's table, with input and output in this place.
    Koel(&'a str),
    Peer(&'a str),
}

/// The row of this table and operation; with any share of hits if none is given.
fn pick<'a>(rows: &'a [Measured], of: Of<'_>, what: &str, hits: Option<u32>) -> Option<&'a Measured> {
    rows.iter().find(|row| {
        let of = match of {
            Of::Koel(place) => row.place == place,
            Of::Peer(name) => row.scheme == name,
        };
        of && row.what == what && (hits.is_none() || row.hits == hits)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row that no command measures would only be noticed on a device of its class.
    #[test]
    fn every_row_is_a_bench_that_there_is() {
        for row in ROWS {
            let How::Bench(of, _) = row.how else { continue };
            let options = options(of, row.n);
            let words = ["bench"].into_iter().chain(options.split_whitespace());
            let args = Alone::try_parse_from(words).unwrap_or_else(|error| panic!("{}: {error}", row.name)).args;
            assert!(crate::tables::requested(&args).is_ok(), "{options}");
            if !args.wide.is_empty() {
                assert!(args.scheme.iter().all(|name| crate::wide::SCHEMES.contains(&name.as_str())), "{options}");
                continue;
            }
            assert!(row.hits.is_none() || args.data.lookups(row.n).1.contains(&row.hits.unwrap_or(0)), "{options}");
        }
    }

    #[test]
    fn a_picture_has_as_many_defined_cells_as_the_one_of_the_goal() {
        let options = options("--order row", 1 << 26);
        assert!(options.contains("--domain 8192x8192 --defined 20502"), "{options}");
    }
}
