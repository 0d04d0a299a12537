//! What is found out about one table on one device: counted checks, and what came out wrong.

use std::fmt::Display;
use std::time::Duration;

use koel::Kind;
use koel::backend::Stage;

/// What went wrong.
#[derive(Debug)]
pub(super) struct Problem {
    /// Something could not be done at all, rather than coming out wrong.
    pub(super) failed: bool,
    pub(super) text: String,
}

/// The findings on one device.
#[derive(Debug)]
pub(super) struct Row {
    /// `map`, `shards` of one, `set`, ..
    pub(super) table: &'static str,
    pub(super) scheme: &'static str,
    pub(super) kind: Kind,
    pub(super) data: &'static str,
    /// Of keys and values, where they are not u32.
    pub(super) types: &'static str,
    /// Pairs, or rows of columns with duplicate keys.
    pub(super) pairs: usize,
    pub(super) device: String,
    pub(super) checks: u32,
    pub(super) problems: Vec<Problem>,
    pub(super) digest: Option<String>,
    /// Compared with the reference, word by word.
    pub(super) same_bytes: bool,
    pub(super) restarts: u32,
    pub(super) host_built: bool,
    /// What of the data these tables cannot hold, if anything.
    pub(super) cut: Option<String>,
    /// The most pairs of these tables that the reference is built of, where there are more here.
    pub(super) no_reference: Option<usize>,
    /// What ran where on this device for this row: building, auditing, answering.
    pub(super) stages: Vec<Stage>,
    /// From host slices to a finished table, pairs a second.
    pub(super) build: Option<f64>,
    /// From host slices to host slices, queries a second.
    pub(super) lookup: Option<f64>,
}

impl Row {
    pub(super) fn new(table: &'static str, scheme: &'static str, kind: Kind, data: &'static str, pairs: usize) -> Row {
        Row {
            table,
            scheme,
            kind,
            data,
            types: "",
            pairs,
            device: String::new(),
            checks: 0,
            problems: Vec::new(),
            digest: None,
            same_bytes: false,
            restarts: 0,
            host_built: false,
            cut: None,
            no_reference: None,
            stages: Vec::new(),
            build: None,
            lookup: None,
        }
    }

    pub(super) fn is_ok(&self) -> bool {
        self.problems.is_empty()
    }

    /// Counts a check, and notes what came out wrong.
    pub(super) fn expect(&mut self, what: &str, outcome: Result<(), String>) {
        self.checks += 1;
        if let Err(reason) = outcome {
            self.note(what, false, &reason);
        }
    }

    /// Counts a check that yields something, and notes if it could not be done.
    pub(super) fn attempt<T>(&mut self, what: &str, outcome: Result<T, impl Display>) -> Option<T> {
        self.checks += 1;
        outcome.map_err(|error| self.note(what, true, &error)).ok()
    }

    /// Not a part of the many that call it.
    #[cold]
    #[inline(never)]
    fn note(&mut self, what: &str, failed: bool, reason: &dyn Display) {
        self.problems.push(Problem { failed, text: format!("{what}: {reason}") });
    }
}

/// All devices must have the digest of the first that has one.
pub(super) fn compare_digests(rows: &mut [Row]) {
    let Some(first) = rows.iter().position(|row| row.digest.is_some()) else { return };
    let (expected, of) = (rows[first].digest.clone(), rows[first].device.clone());
    for row in rows[first + 1..].iter_mut().filter(|row| row.digest.is_some()) {
        let same = row.digest == expected;
        row.expect("digest", if same { Ok(()) } else { Err(format!("it is not that of {of}")) });
    }
}

/// The rate per second of `count` items in this time.
pub(super) fn rate(count: usize, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64().max(1e-9)
}
