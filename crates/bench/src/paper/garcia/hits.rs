//! Figure 8: the share of reads that hit the first cache while all cells are queried, over the load; and the part of
//! Figure 9 that follows from it.
//!
//! No counters of a device are read. The caches are simulated, with the sizes of the paper's device. The input is the
//! reads of queries of a built table: each reads its home, and further places up to the one where it ends.
//!
//! ```text
//! GTX 480    15 multiprocessors, each with up to 48 warps of 32 and a first cache of 16 or 48 KiB, as programs choose;
//!            lines of 128 bytes (NVIDIA); 32 sets of 4 lines or 64 sets of 6 (GPGPU-Sim's file of this device)
//! groups     192 threads, as in the paper; 8 of them are 48 warps, and with 15 multiprocessors the paper's 120 groups
//! requests   16 cells of 8 bytes fill a line, so a warp's read is one for each half (as NVIDIA's profiler counts it)
//! ```
//!
//! Assumptions: the least recently used line of a set is evicted, the low bits of a line select its set, groups are
//! assigned to the multiprocessors in turn, and warps take turns. Cells are queried in order, so a key is the number of
//! its thread and is not read. Writes bypass the cache.
//!
//! For small tables the result is meaningless: a table that fits in the caches has hits with random reads too.

use koel::RobinHood;
use koel::backend::HashBackend;
use koel::scheme::robin_hood::{RobinHoodPlan, Rule};

use super::cache::Shape;
use super::machine::{Machine, Path, Trace};
use super::{LOADS, SEQUENCES, Shapes, domain, side};
use crate::data::Order;
use crate::figure::{Axis, Figure};
use crate::paper::bench::Bench;
use koel_cli::failure::Result;

const CACHES: [(&str, Shape); 2] =
    [("16 KiB", Shape { sets: 32, ways: 4, line: 128 }), ("48 KiB", Shape { sets: 64, ways: 6, line: 128 })];
const GTX_480: Machine = Machine { multiprocessors: 15, resident: 8, group: 192, warp: 32, cache: CACHES[0].1 };
/// Figure 9, at load 0.85: requests to the second cache of all 8192 x 8192 queries, of 32 bytes each. (With 128 bytes
/// they would be 604 GB/s in the paper's time, and the device's memory has 177.)
const PAPER: [(&str, f64); 2] = [("h_coh", 44.2e6), ("h_rand", 458.6e6)];
const REQUESTS_A_LINE: f64 = 4.0;
const PAPER_QUERIES: f64 = 67_108_864.0;
/// Cells of a table that is ten times as large as the larger cache.
const SMALL_TABLE: usize = 10 * 49_152 / 8;

/// Queries of all cells of a picture to a table of its defined cells.
struct Queries<'a> {
    rule: Rule,
    image: &'a [u64],
    keys: &'a [u32],
}

impl<'a> Queries<'a> {
    fn new(plan: &RobinHoodPlan, image: &'a [u64], keys: &'a [u32]) -> Queries<'a> {
        Queries { rule: plan.rule(), image, keys }
    }
}

impl Trace for Queries<'_> {
    /// Key and value in one word, which is read as one.
    const CELL: u32 = 8;

    fn queries(&self) -> usize {
        self.keys.len()
    }

    fn begin(&self, query: usize) -> Path {
        let key = self.keys[query];
        Path { start: self.rule.aim(key).0, steps: self.rule.search(self.image, key).0 }
    }

    fn address(&self, path: Path, age: u32) -> u64 {
        u64::from(Self::CELL) * u64::from(self.rule.functions.place(path.start, age))
    }
}

pub(super) fn figures(bench: &Bench<'_>) -> Result<Vec<Figure>> {
    let defined = bench.size(1 << 19);
    let domain = domain(bench, Shapes::Blobs, side(defined), defined, Order::Row)?;
    let queries = domain.cells.len();
    let title = |what: &str| format!("{what}, {queries} cells of which {defined} are defined, in blobs");
    let figure = |place, what, y| Figure::new(place, title(what), "host", Axis::linear("load", ""), y);
    let share = Axis::linear("requests that hit", "%");
    let mut hits = figure(("8", "Figure 8"), "simulated first cache", share);
    let lines = Axis::linear("lines a query", "");
    let mut misses = figure(("9-requests", "Figure 9"), "lines that the simulated first cache fetches", lines);
    hits.note(
        "simulated: 15 multiprocessors of 8 groups of 192, which take turns; lines of 128 bytes, least recently used",
    );
    misses.note("paper: its requests to the second cache, four a line, of 8192 x 8192 queries at load 0.85");
    for load in LOADS {
        for (label, sequence) in SEQUENCES {
            let table = match bench.table(RobinHood::classic().sequence(sequence), Some(load), &domain.pairs)? {
                Ok(table) => table,
                Err(reason) => {
                    hits.note(format!("{label}, load {load}: {reason}"));
                    continue;
                }
            };
            let image = bench.device.download(table.image())?;
            if image.len() < SMALL_TABLE {
                hits.note("tables less than ten times as large as a cache: random reads hit as well");
            }
            let queried = Queries::new(table.plan(), &image, &domain.cells);
            for (size, cache) in CACHES {
                bench.progress.say(format!("{label}, load {load}: a cache of {size}"));
                let requests = Machine { cache, ..GTX_480 }.replay(&queried);
                let label = format!("{label}, {size}");
                hits.point(&label, load, 100.0 * requests.share());
                misses.point(&label, load, requests.misses as f64 / queries.max(1) as f64);
            }
        }
    }
    for (label, requests) in PAPER {
        misses.model(format!("{label}, paper"), 0.85, requests / REQUESTS_A_LINE / PAPER_QUERIES);
    }
    Ok(vec![hits, misses])
}

#[cfg(test)]
mod tests {
    use koel::scheme::{Plan, Request};
    use koel::{Scheme, Sequence};

    use super::*;

    /// A query of a present key ends at its cell, after reading others; a query of an absent key does not read any cell
    /// that contains it.
    #[test]
    fn queries_read_what_lookups_of_the_table_read() {
        let pairs: Vec<(u32, u32)> = (0..900).map(|i| (i * i % 7919 * 3, i)).collect();
        let keys: Vec<u32> = (0..3 * 7919).collect();
        for sequence in [Sequence::Coherent, Sequence::Random] {
            let scheme = RobinHood::classic().sequence(sequence);
            let request = Request { slots: 1000, pairs: 900, seed: 5, attempt: 0 };
            let plan = scheme.plan(request).unwrap_or_else(|error| panic!("{error}"));
            let mut image = vec![plan.empty_word(); plan.words() as usize];
            RobinHood::place(&plan, &mut image, &pairs);
            let queried = Queries::new(&plan, &image, &keys);
            let (mut hits, mut steps) = (0, 0);
            for (query, &key) in keys.iter().enumerate() {
                let path = queried.begin(query);
                let read: Vec<u64> = (1..=path.steps).map(|step| queried.address(path, step) / 8).collect();
                let holds = |&at: &u64| RobinHood::pair(&plan, &image, at).is_some_and(|pair| pair.0 == key);
                let there = RobinHood::find(&plan, &image, key).is_some();
                assert_eq!(read.iter().position(holds), there.then(|| read.len() - 1), "{sequence:?}, {key}");
                assert_eq!(path.steps, RobinHood::reads(&plan, &image, key));
                hits += u32::from(there);
                steps += path.steps;
            }
            assert!(hits > 800 && f64::from(steps) > 1.2 * keys.len() as f64, "{sequence:?}: {hits}, {steps}");
        }
    }
}
