//! Figures 12 and 13: the query rates of tables of growing size, and the amount of data per query.

use koel::backend::{HashBackend, Runs};
use koel::device::Any;
use koel::scheme::Limits;
use koel::scheme::horton::model;
use koel::{Bucketized, Horton, Insertion, Scheme};

use super::{FUNCTIONS, TAGS};
use crate::figure::{Axis, Figure};
use crate::paper::bench::{Bench, Random, millions};
use koel_cli::failure::Result;

/// The load of every table.
const LOAD: f64 = 0.9;
/// Bytes of the smallest table.
const SMALLEST: u64 = 16 << 10;
/// The minimum number of queries; the paper's is 2^28.
const QUERIES: usize = 1 << 20;
/// The bytes that a query moves in addition to buckets: its key and its value.
const KEY_AND_VALUE: f64 = 8.0;

pub(super) fn hits(bench: &Bench<'_>) -> Result<Vec<Figure>> {
    over_sizes(bench, [("12a", "Figure 12a"), ("12b", "Figure 12b")], 100)
}

pub(super) fn misses(bench: &Bench<'_>) -> Result<Vec<Figure>> {
    over_sizes(bench, [("13a", "Figure 13a"), ("13b", "Figure 13b")], 0)
}

fn over_sizes(
    bench: &Bench<'_>,
    [throughput, data]: [(&'static str, &'static str); 2],
    hits: u32,
) -> Result<Vec<Figure>> {
    let x = || Axis::log("table", "bytes");
    let rates = format!("lookups at load {LOAD}, {hits}% hits");
    let mut rates = bench.figure(throughput, &rates, x(), Axis::linear("throughput", "M/s"));
    let moved = format!("data moved at load {LOAD}, {hits}% hits");
    let mut moved = bench.figure(data, &moved, x(), Axis::linear("data a query", "bytes"));
    moved.note("counted: the buckets that a lookup reads, 64 bytes each, and 8 bytes of key and value");
    rates.note("random queries, drawn with replacement; answers and queries stay on the device");
    let most = u64::from(bench.size(1 << 21)) * 8;
    let sizes = std::iter::successors(Some(SMALLEST), |bytes| Some(2 * bytes));
    for bytes in sizes.take_while(|&bytes| bytes == SMALLEST || bytes as f64 * LOAD <= most as f64) {
        let pairs = bench.random((bytes as f64 / 8.0 * LOAD) as u32, Limits::NONE)?;
        let mut both = Both { bench, pairs: &pairs, hits, bytes: bytes as f64, rates: &mut rates, moved: &mut moved };
        both.curve("Horton", Horton::classic(8))?;
        both.curve("Horton, canonical", Horton::canonical(8))?;
        let bucketized = |insertion| Bucketized::classic(FUNCTIONS, 8).insertion(insertion);
        both.curve("BCHT, load-balancing", bucketized(Insertion::LoadBalancing))?;
        both.curve("BCHT, first-fit", bucketized(Insertion::FirstFit))?;
        both.curve("bucketized, canonical", Bucketized::canonical(8))?;
        let of = |buckets: f64| 64.0 * buckets + KEY_AND_VALUE;
        let horton = if hits == 0 { model::negative_cost(8, LOAD, TAGS) } else { model::positive_cost(8, LOAD) };
        moved.model("Horton", bytes as f64, of(horton));
        let baseline = if hits == 0 { f64::from(FUNCTIONS) } else { f64::from(FUNCTIONS + 1) / 2.0 };
        moved.model("BCHT, load-balancing", bytes as f64, of(baseline));
    }
    Ok(vec![rates, moved])
}

/// Two figures over a table's size.
struct Both<'a> {
    bench: &'a Bench<'a>,
    pairs: &'a Random,
    hits: u32,
    bytes: f64,
    rates: &'a mut Figure,
    moved: &'a mut Figure,
}

impl Both<'_> {
    fn curve<S: Scheme<Key = u32, Value = u32>>(&mut self, label: &str, scheme: S) -> Result<()>
    where
        Any: Runs<S>,
    {
        let table = match self.bench.table(scheme, Some(LOAD), self.pairs)? {
            Ok(table) => table,
            Err(reason) => {
                self.rates.note(format!("{label}, {} bytes: {reason}", self.bytes));
                return Ok(());
            }
        };
        let queries = self.pairs.drawn(self.pairs.keys.len().max(QUERIES), self.hits);
        self.bench.progress.say(format!("lookups of {label}, {} bytes, {}", self.bytes, self.bench.device.info().id));
        let time = self.bench.time_lookups(&table, self.pairs, &queries)?;
        self.rates.point(label, self.bytes, millions(queries.len(), time));
        let stats = table.stats()?;
        let reads = if self.hits == 0 { stats.reads_per_miss } else { stats.reads_per_hit };
        self.moved.point(label, self.bytes, reads * stats.bucket_bytes as f64 + KEY_AND_VALUE);
        Ok(())
    }
}
