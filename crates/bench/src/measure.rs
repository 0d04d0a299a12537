//! The data of a measurement, its repeats, and its results.

use std::time::{Duration, Instant};

use koel::Kind;

use super::Args;
use super::data::Data;
use koel_cli::answers;
use koel_cli::failure::Result;

/// Data and settings of one number of pairs.
pub(super) struct Setup<'a> {
    pub(super) data: Data,
    pub(super) n: u32,
    pub(super) args: &'a Args,
}

impl<'a> Setup<'a> {
    pub(super) fn new(data: Data, n: u32, args: &'a Args) -> Setup<'a> {
        Setup { data, n, args }
    }

    /// The median of several runs, each of which returns its own time.
    pub(super) fn median(&self, run: impl FnMut() -> Result<Duration>) -> Result<Duration> {
        repeated(self.args.repeats, run)
    }

    /// Compares answers to queries with the right ones.
    pub(super) fn check(&self, queries: &[u32], values: &[u32], found: &[u32]) -> std::result::Result<(), String> {
        answers::check(queries, values, found, |i| self.data.answer(queries[i]))
    }
}

/// Something that was timed.
#[derive(Clone, Debug)]
pub(super) struct Row {
    /// `map`, `set`, ..
    pub(super) table: &'static str,
    pub(super) device: String,
    pub(super) scheme: String,
    pub(super) kind: Option<Kind>,
    pub(super) n: u32,
    /// The average number of rows per key, if keys have duplicates.
    pub(super) copies: Option<u32>,
    /// The share of all rows that one key has.
    pub(super) heavy: Option<f64>,
    /// The requested load; `None` for tables at their own load, and for other tables.
    pub(super) requested_load: Option<f64>,
    /// `None` for tables without slots.
    pub(super) load: Option<f64>,
    pub(super) what: &'static str,
    pub(super) place: &'static str,
    pub(super) hits: Option<u32>,
    pub(super) time: Duration,
    /// Pairs, queries or accesses per second.
    pub(super) rate: f64,
    /// Accesses per second that the memory allows; from the host, the rate of the bus if that is less.
    pub(super) limit: Option<f64>,
    /// Whether one thread of the host does the work, wherever the table is; the time is wall time.
    pub(super) host_built: bool,
    /// With a heavy key: the time relative to that without it.
    pub(super) relative_to_uniform: Option<f64>,
}

impl Row {
    /// A row of maps without duplicates, without a time yet.
    pub(super) fn new(device: &str, scheme: &str, n: u32, what: &'static str, place: &'static str) -> Row {
        Row {
            table: "map",
            device: device.into(),
            scheme: scheme.into(),
            kind: None,
            n,
            copies: None,
            heavy: None,
            requested_load: None,
            load: None,
            what,
            place,
            hits: None,
            time: Duration::ZERO,
            rate: 0.0,
            limit: None,
            host_built: false,
            relative_to_uniform: None,
        }
    }

    pub(super) fn share(&self) -> Option<f64> {
        self.limit.map(|limit| self.rate / limit)
    }

    /// Sets the time, and the rate of `count` operations in that time.
    pub(super) fn timed(mut self, count: usize, time: Duration) -> Row {
        self.time = time;
        self.rate = count as f64 / time.as_secs_f64().max(1e-9);
        self
    }
}

/// The median of `repeats` runs, each of which returns its own time.
pub(super) fn repeated(repeats: u32, mut run: impl FnMut() -> Result<Duration>) -> Result<Duration> {
    Ok(median((0..repeats).map(|_| run()).collect::<Result<_>>()?))
}

/// The middle element of some times.
pub(super) fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// The wall time of some work.
pub(super) fn wall<R>(work: impl FnOnce() -> Result<R>) -> Result<(R, Duration)> {
    let start = Instant::now();
    let done = work()?;
    Ok((done, start.elapsed()))
}
