//! The findings on one table on one device: the number of checks, and the problems.

use std::fmt::Display;
use std::time::Duration;

use koel::Kind;
use koel::backend::Stage;

/// A problem that a check found.
#[derive(Debug)]
pub(super) struct Problem {
    /// Whether an operation failed, instead of returning a wrong result.
    pub(super) failed: bool,
    pub(super) text: String,
}

/// The findings on one device.
#[derive(Debug)]
pub(super) struct Row {
    /// `map`, `set`, ..
    pub(super) table: &'static str,
    pub(super) scheme: &'static str,
    pub(super) kind: Kind,
    pub(super) data: &'static str,
    /// The types of keys and values, if they are not u32.
    pub(super) types: &'static str,
    /// The number of pairs, or of rows with duplicate keys.
    pub(super) pairs: usize,
    pub(super) device: String,
    pub(super) checks: u32,
    pub(super) problems: Vec<Problem>,
    pub(super) digest: Option<String>,
    /// Whether the image equals that of the reference, word by word.
    pub(super) same_bytes: bool,
    pub(super) restarts: u32,
    pub(super) host_built: bool,
    /// How the data was reduced to what these tables can hold, if it was.
    pub(super) cut: Option<String>,
    /// The most pairs for which the reference is built, if there are more here.
    pub(super) no_reference: Option<usize>,
    /// What ran on this device and what on the host for this row: building, auditing, answering.
    pub(super) stages: Vec<Stage>,
    /// Pairs per second of the build, from host slices to a complete table.
    pub(super) build: Option<f64>,
    /// Queries per second of the lookup, from host slices to host slices.
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

    /// Counts a check, and records a wrong result.
    pub(super) fn expect(&mut self, what: &str, outcome: Result<(), String>) {
        self.checks += 1;
        if let Err(reason) = outcome {
            self.note(what, false, &reason);
        }
    }

    /// Counts a check that returns a value, and records a failure.
    pub(super) fn attempt<T>(&mut self, what: &str, outcome: Result<T, impl Display>) -> Option<T> {
        self.checks += 1;
        outcome.map_err(|error| self.note(what, true, &error)).ok()
    }

    /// Not inlined into its many callers.
    #[cold]
    #[inline(never)]
    fn note(&mut self, what: &str, failed: bool, reason: &dyn Display) {
        self.problems.push(Problem { failed, text: format!("{what}: {reason}") });
    }
}

/// Checks that all devices have the digest of the first one that has any.
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
