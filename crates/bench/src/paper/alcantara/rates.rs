//! Figure 4.4: the rates of insertion and retrieval over the number of pairs; and Section 4.5.4: the effect of queries
//! in ascending order.

use koel::backend::Runs;
use koel::device::Any;
use koel::scheme::Limits;
use koel::{Cuckoo, Fks, Scheme, Sorted};

use crate::figure::{Axis, Figure};
use crate::paper::bench::{Bench, Random, millions};
use koel_cli::failure::Result;

/// Section 4.5.1: the size of the two-level table, in slots per pair.
const TWO_LEVEL: f64 = 1.42;

pub(super) fn measure(bench: &Bench<'_>) -> Result<Vec<Figure>> {
    let axes = |y| (Axis::log("pairs", ""), Axis::linear(y, "M/s"));
    let (x, y) = axes("insertion rate");
    let mut insertion = bench.figure(("4.4-insertion", "Figure 4.4, left"), "insertion rates", x, y);
    let (x, y) = axes("retrieval rate");
    let mut retrieval = bench.figure(("4.4-retrieval", "Figure 4.4, right"), "retrieval rates", x, y);
    insertion
        .note("random updates: of as many words as the table has; no table that makes one for each pair is faster");
    retrieval.note("all of the input is retrieved, in another order");
    for n in bench.sizes(1 << 10, 4, 1 << 22) {
        let pairs = bench.random(n, Limits::NONE)?;
        let mut both = Both { bench, pairs: &pairs, insertion: &mut insertion, retrieval: &mut retrieval };
        both.curve("cuckoo, 1.25 N", Cuckoo::classic(4), Some(0.8))?;
        both.curve("cuckoo, 1.42 N", Cuckoo::classic(4), Some(1.0 / TWO_LEVEL))?;
        both.curve("canonical cuckoo, 1.25 N", Cuckoo::canonical(4), Some(0.8))?;
        both.curve("two-level, 1.42 N", Fks::classic(), Some(1.0 / TWO_LEVEL))?;
        both.curve("sorted array", Sorted, None)?;
        insertion.point("radix sort", n.into(), millions(n as usize, bench.sort(&pairs)?));
        let words = (f64::from(n) * 1.25) as usize;
        let updates = bench.timer().random_updates(words, n as usize)?;
        insertion.point("random updates", n.into(), millions(n as usize, updates));
    }
    Ok(vec![insertion, retrieval])
}

/// Two figures over the number of pairs.
struct Both<'a> {
    bench: &'a Bench<'a>,
    pairs: &'a Random,
    insertion: &'a mut Figure,
    retrieval: &'a mut Figure,
}

impl Both<'_> {
    fn curve<S: Scheme<Key = u32, Value = u32>>(&mut self, label: &str, scheme: S, load: Option<f64>) -> Result<()>
    where
        Any: Runs<S>,
    {
        let n = self.pairs.keys.len();
        match self.bench.build(scheme, load, self.pairs)? {
            Ok(built) => {
                self.insertion.point(label, n as f64, millions(n, built.time));
                let time = self.bench.lookup(&built.table, self.pairs, 100)?;
                self.retrieval.point(label, n as f64, millions(n, time));
            }
            Err(reason) => self.insertion.note(format!("{label}, {n} pairs: {reason}")),
        }
        Ok(())
    }
}

/// Section 4.5.4.
pub(super) fn in_order(bench: &Bench<'_>) -> Result<Vec<Figure>> {
    let (x, y) = (Axis::log("pairs", ""), Axis::linear("retrieval rate", "M/s"));
    let mut figure =
        bench.figure(("sorted-queries", "Section 4.5.4"), "queries in ascending order and at random", x, y);
    for n in bench.sizes(1 << 10, 4, 1 << 22) {
        let pairs = bench.random(n, Limits::NONE)?;
        let random = pairs.queries(100);
        let mut ascending = random.clone();
        ascending.sort_unstable();
        let orders = [("at random", &random), ("ascending", &ascending)];
        if let Ok(built) = bench.build(Cuckoo::classic(4), Some(0.8), &pairs)? {
            for (order, queries) in orders {
                let time = bench.time_lookups(&built.table, &pairs, queries)?;
                figure.point(format!("cuckoo, {order}"), n.into(), millions(queries.len(), time));
            }
        }
        if let Ok(built) = bench.build(Sorted, None, &pairs)? {
            for (order, queries) in orders {
                let time = bench.time_lookups(&built.table, &pairs, queries)?;
                figure.point(format!("sorted array, {order}"), n.into(), millions(queries.len(), time));
            }
        }
    }
    Ok(vec![figure])
}
